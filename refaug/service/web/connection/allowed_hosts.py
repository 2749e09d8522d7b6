"""The host names that requests may be addressed to where no key is required: a protection against DNS rebinding.

A page of another site can let its host name point to 127.0.0.1. The browser then takes this server for the page's
server, and lets the page send and read everything. Such a request still has that name in its Host header. IP addresses
and `localhost` cannot be taken over like this.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Sequence
from typing import Final

from refaug.service.server_settings import ServeSettings, is_local

_MAX_CACHED: Final = 64  # checked headers to remember: clients send the same one again and again


class AllowedHosts:
    """The host names that requests may be addressed to."""

    def __init__(self, serve: ServeSettings) -> None:
        named = [name.strip() for name in serve.allowed_hosts.split(",") if name.strip()]
        needs_names = bool(named) or (is_local(serve) and not serve.uds and not serve.keys)
        self._allows_any = "*" in named or not needs_names
        self._names = frozenset(_host_name(one) for one in ("localhost", serve.host, *named))
        self._checked = dict[bytes, bool]()

    def find_foreign(self, headers: Sequence[tuple[bytes, bytes]]) -> str | None:
        """Return the host of a request if it is not allowed; None if it is, or if there is none as in HTTP/1.0."""
        if self._allows_any:
            return None
        for name, content in headers:
            if name == b"host" and not self._is_allowed(content):
                return content.decode("latin-1")
        return None

    def _is_allowed(self, header: bytes) -> bool:
        is_allowed = self._checked.get(header)
        if is_allowed is None:
            name = _host_name(header.decode("latin-1"))
            is_allowed = name in self._names or name == "" or _is_address(name)
            if len(self._checked) < _MAX_CACHED:
                self._checked[header] = is_allowed
        return is_allowed


def _host_name(host: str) -> str:
    """Return the host without its port, in the form that is compared."""
    host = host.strip().lower()
    if host.startswith("["):
        return host[1:].partition("]")[0]
    return (host if host.count(":") > 1 else host.partition(":")[0]).removesuffix(".")


def _is_address(name: str) -> bool:
    try:
        ipaddress.ip_address(name)
    except ValueError:
        return False
    return True
