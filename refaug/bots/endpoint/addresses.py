"""Which hosts and addresses requests may go to, and a transport that connects to checked addresses only.

A name is resolved here, every address that it has is checked, and the connection is made to one of them: a name that
resolves to something else a moment later changes nothing.
"""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_address, ip_network
from typing import Final, Self

import httpx2

from refaug.core.errors import Usage

Address = IPv4Address | IPv6Address
Network = IPv4Network | IPv6Network
Resolve = Callable[[str, int], Awaitable[Sequence[str]]]
_LOCALHOST: Final = "localhost"
_UNICAST: Final = IPv6Network("2000::/3")  # all that IANA gives to networks of the world
# Blocks of special purposes (IANA's registries) that some versions of Python take for global, in whole or in part.
_SPECIAL: Final = (
    IPv4Network("192.0.0.0/24"),  # protocols, among them anycast addresses of the next router
    IPv4Network("192.88.99.0/24"),  # relays from IPv4 to IPv6
    IPv6Network("2001::/23"),  # protocols: Teredo, benchmarking, identifiers that are no addresses
    IPv6Network("2001:db8::/32"),
    IPv6Network("3fff::/20"),  # documentation, as is the one before
)
_CONNECT_FAULTS: Final = (httpx2.ConnectError, httpx2.ConnectTimeout)


class AddressRefused(Exception):
    """A host or an address that requests may not go to; the advice says what would allow it, where something does."""

    def __init__(self, reason: str, advice: str = "") -> None:
        super().__init__(f"{reason}: {advice}" if advice else reason)
        self.reason, self.advice = reason, advice


@dataclass(frozen=True, kw_only=True)
class AddressPolicy:
    """The hosts that requests may go to, and the inside networks that names may resolve into."""

    hosts: frozenset[str] | None = None  # host or host:port, lower-case; None: any
    networks: tuple[Network, ...] = ()
    places: frozenset[tuple[Address, int]] = frozenset()  # inside addresses with the one port that may be asked there
    allows_inside: bool = False  # every loopback and private address
    advice: str = ""  # how an {entry} gets onto the list

    @classmethod
    def of_list(cls, entries: Sequence[str], advice: str = "") -> Self:
        """Read an allow-list: hosts, hosts with ports, addresses, and networks such as 10.0.0.0/8.

        A host may resolve to public addresses, and to inside addresses of a listed network; localhost, and no other
        name, may resolve to this machine. An address allows itself, and one with a port allows only that port, by
        whatever name it is reached.
        """
        hosts, networks, places = set[str](), list[Network](), set[tuple[Address, int]]()
        for entry in (text.strip().lower() for text in entries):
            if "/" in entry:
                networks.append(_network(entry))
                continue
            if not entry or any(character in entry for character in "@?# \\"):
                raise Usage(f"{entry!r} is not a host", remedy="api.example.com, 127.0.0.1:8000 or 10.0.0.0/8")
            host, port = _split_port(entry)
            name = host.rstrip(".")
            hosts.add(f"[{name}]:{port}" if entry.startswith("[") and port else f"{name}:{port}" if port else name)
            if port and not (port.isascii() and port.isdigit() and 0 < int(port) < 65_536):
                raise Usage(
                    f"{entry!r}: {port!r} is not a port", remedy="a number from 1 to 65535, as in 127.0.0.1:8000"
                )
            address = _literal(host)
            if address is not None and port:
                places.add((_unmapped(address), int(port)))
            elif address is not None:
                networks.append(ip_network(_unmapped(address)))
        return cls(hosts=frozenset(hosts), networks=tuple(networks), places=frozenset(places), advice=advice)

    def require_host(self, host: str, port: int) -> None:
        """Raise AddressRefused for a host that is not on the list."""
        name = host.lower().rstrip(".")
        shown = f"[{name}]" if ":" in name else name
        if self.hosts is not None and not {name, shown, f"{shown}:{port}"} & self.hosts:
            raise AddressRefused(f"{host} is not on the list of allowed hosts", self._advice(shown, port))

    def require_address(self, host: str, text: str, port: int, *, is_plain_secret: bool) -> Address:
        """Return the address, or raise AddressRefused; `is_plain_secret`: a key would travel unencrypted."""
        address = _unmapped(ip_address(text.partition("%")[0]))
        if address.is_unspecified or address.is_multicast or address.is_link_local or _is_reserved(address):
            raise AddressRefused(f"{host} resolves to {address}, where no endpoint can be")
        is_listed = (
            (address, port) in self.places
            or any(address in network for network in self.networks)
            or (address.is_loopback and self._lists_localhost(host, port))
        )
        is_public = _is_public(address)
        if not is_public and not (self.allows_inside or is_listed):
            raise AddressRefused(
                f"{host} resolves to the inside address {address}, which is not listed with port {port}",
                self._advice(f"[{address}]" if address.version == 6 else str(address), port),
            )
        if is_public and is_plain_secret:
            raise AddressRefused(f"the key would travel to {host} unencrypted: use https")
        return address

    def _lists_localhost(self, host: str, port: int) -> bool:
        listed = {_LOCALHOST, f"{_LOCALHOST}:{port}"} & (self.hosts or frozenset())
        return host.lower().rstrip(".") == _LOCALHOST and bool(listed)

    def _advice(self, host: str, port: int) -> str:
        return self.advice.replace("{entry}", f"{host}:{port}")


THIS_MACHINE: Final = AddressPolicy(allows_inside=True)  # for a command, whose user has written the address


def _network(entry: str) -> Network:
    try:
        return ip_network(entry)
    except ValueError as error:
        raise Usage(f"{entry!r} is not a network: {error}", remedy="for example 10.0.0.0/8") from error


def _split_port(entry: str) -> tuple[str, str]:
    if entry.startswith("["):
        host, _, rest = entry[1:].partition("]")
        return host, rest.removeprefix(":")
    if entry.count(":") > 1:
        return entry, ""
    host, _, port = entry.partition(":")
    return host, port


def _literal(host: str) -> Address | None:
    try:
        return ip_address(host)
    except ValueError:
        return None


def _unmapped(address: Address) -> Address:
    """Return the IPv4 address in a mapped or translated IPv6 address, which leads there."""
    if isinstance(address, IPv6Address):
        inner = address.ipv4_mapped or address.sixtofour
        if inner is None and address in ip_network("64:ff9b::/96"):
            inner = IPv4Address(int(address) & 0xFFFFFFFF)
        return inner or address
    return address


def _is_public(address: Address) -> bool:
    """Return whether the address is one of the world's: neither inside nor of a special purpose."""
    if isinstance(address, IPv6Address) and address not in _UNICAST:
        return False
    return address.is_global and not any(address in network for network in _SPECIAL)


def _is_reserved(address: Address) -> bool:
    return address.is_reserved and not address.is_loopback


async def resolve_host(host: str, port: int) -> Sequence[str]:
    """Return the addresses of a host, as the system knows them."""
    infos = await asyncio.get_running_loop().getaddrinfo(host, port, type=socket.SOCK_STREAM)
    return list(dict.fromkeys(str(info[4][0]) for info in infos))


class CheckedTransport(httpx2.AsyncBaseTransport):
    """A transport that resolves names itself, and connects to addresses that the policy allows."""

    def __init__(
        self, policy: AddressPolicy, inner: httpx2.AsyncBaseTransport, *, resolve: Resolve = resolve_host
    ) -> None:
        self._policy, self._inner, self._resolve = policy, inner, resolve
        self._addresses = dict[tuple[str, int, bool], list[Address]]()

    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        """Send the request to the first address that can be connected to."""
        host, url = request.url.host, request.url
        addresses = await self._checked(request)
        for place, address in enumerate(addresses):
            request.url = url.copy_with(host=str(address))  # the Host header stays that of the name
            request.extensions = {**request.extensions, "sni_hostname": host}
            try:
                response = await self._inner.handle_async_request(request)
            except _CONNECT_FAULTS:
                if place + 1 == len(addresses):
                    raise
                continue
            if place:  # the next request begins with the address that works
                addresses.insert(0, addresses.pop(place))
            return response
        raise AddressRefused(f"{host} has no address")

    async def _checked(self, request: httpx2.Request) -> list[Address]:
        host, is_plain = request.url.host, request.url.scheme == "http"
        port = request.url.port or (80 if is_plain else 443)
        is_plain_secret = is_plain and bool({"authorization", "api-key", "x-api-key"} & set(request.headers))
        key = host, port, is_plain_secret
        if key not in self._addresses:
            self._policy.require_host(host, port)
            texts = [host] if _literal(host) is not None else await self._look_up(host, port)
            self._addresses[key] = [
                self._policy.require_address(host, text, port, is_plain_secret=is_plain_secret) for text in texts
            ]
        return self._addresses[key]

    async def _look_up(self, host: str, port: int) -> Sequence[str]:
        try:
            return await self._resolve(host, port)
        except OSError as error:
            raise httpx2.ConnectError(f"the name {host} cannot be resolved: {error.strerror or error}") from error

    async def aclose(self) -> None:
        """Close all connections."""
        await self._inner.aclose()
