"""Where requests may go: hosts, addresses, names that resolve inside, keys that would travel unencrypted."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

import httpx2
import pytest
from refusals import refusing

from refaug.bots.endpoint.addresses import THIS_MACHINE, AddressPolicy, AddressRefused, CheckedTransport
from refaug.core.errors import Usage


class Recorder(httpx2.AsyncBaseTransport):
    """Notes where requests are sent; `closed` addresses refuse the connection."""

    def __init__(self, closed: Sequence[str] = ()) -> None:
        self.sent, self.closed = list[tuple[str, str, str]](), closed

    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        self.sent.append((request.url.host, request.headers["host"], request.extensions["sni_hostname"]))
        if request.url.host in self.closed:
            raise httpx2.ConnectError("refused")
        return httpx2.Response(200)


def send(url: str, policy: AddressPolicy, addresses: Sequence[str] = (), **more) -> Recorder:
    recorder = Recorder(more.pop("closed", ()))

    async def resolve(host: str, port: int) -> Sequence[str]:
        return addresses

    async def ask() -> None:
        async with httpx2.AsyncClient(transport=CheckedTransport(policy, recorder, resolve=resolve)) as http:
            await http.post(url, **more)
            await http.post(url, **more)

    asyncio.run(ask())
    return recorder


def test_a_request_goes_to_the_address_that_was_checked_under_the_name() -> None:
    recorder = send("https://api.example.com/v1", AddressPolicy(), ["93.184.216.34"])
    assert recorder.sent == [("93.184.216.34", "api.example.com", "api.example.com")] * 2


def test_the_next_address_is_tried_and_then_used_first() -> None:
    recorder = send("http://localhost:9/v1", THIS_MACHINE, ["::1", "127.0.0.1"], closed=["::1"])
    assert [host for host, *_ in recorder.sent] == ["::1", "127.0.0.1", "127.0.0.1"]


@pytest.mark.parametrize(
    "address",
    [
        "127.0.0.1", "10.1.2.3", "192.168.0.7", "172.16.9.9", "100.64.0.1", "::1", "fd00::1", "::ffff:127.0.0.1",
        "64:ff9b::7f00:1", "2002:7f00:1::",
    ],
)  # fmt: skip
def test_a_name_that_resolves_inside_is_refused_unless_its_network_is_listed(address: str) -> None:
    with refusing(AddressRefused, "api.example.com"):
        send("https://api.example.com/v1", AddressPolicy.of_list(["api.example.com"]), ["93.184.216.34", address])
    networks = ["127.0.0.0/8", "10.0.0.0/8", "192.168.0.0/16", "172.16.0.0/12", "100.64.0.0/10", "::1", "fd00::/8"]
    send("https://api.example.com/v1", AddressPolicy.of_list(["api.example.com", *networks]), [address])


SPECIAL = (
    "0.0.0.0", "0.1.2.3", "10.0.0.1", "100.64.0.1", "127.0.0.2", "169.254.1.1", "172.31.255.255", "192.0.0.1",
    "192.0.0.8", "192.0.0.9", "192.0.0.10", "192.0.0.170", "192.0.2.1", "192.88.99.1", "192.168.1.1", "198.18.0.1",
    "198.19.255.255", "198.51.100.1", "203.0.113.1", "224.0.0.1", "239.255.255.250", "240.0.0.1", "255.255.255.255",
    "::", "::1", "::2", "::7f00:1", "::ffff:0:7f00:1", "::ffff:a00:1", "::ffff:a9fe:a9fe", "64:ff9b::a00:1",
    "64:ff9b::a9fe:a9fe", "64:ff9b:1::a00:1", "64:ff9b:1::5db8:d822", "100::1", "100:0:0:1::1", "2001::1",
    "2001:0:7f00:1::", "2001:1::1", "2001:1::2", "2001:2::1", "2001:3::1", "2001:4:112::1", "2001:10::1",
    "2001:20::1", "2001:30::1", "2001:db8::1", "2002:a00:1::", "2002:a9fe:a9fe::", "2002:c058:6301::", "3fff::1",
    "3fff:fff::1", "4000::1", "5f00::1", "fc00::1", "fd12:3456::1", "fe00::1", "fe80::1", "fe80::1%eth0", "febf::1",
    "fec0::1", "feff::1", "ff02::1", "ff05::2", "ff0e::1",
)  # fmt: skip


@pytest.mark.parametrize("address", SPECIAL)
@pytest.mark.parametrize("is_listed", [True, False], ids=["a listed name", "any name"])
def test_no_address_of_a_special_purpose_is_public(address: str, *, is_listed: bool) -> None:
    policy = AddressPolicy.of_list(["api.example.com"]) if is_listed else AddressPolicy()
    for addresses in ([address], ["93.184.216.34", address], [address, "93.184.216.34"]):
        with pytest.raises(AddressRefused):
            send("https://api.example.com/v1", policy, addresses)
    with pytest.raises(AddressRefused):
        send(f"https://[{address}]/v1" if ":" in address else f"https://{address}/v1", policy)


@pytest.mark.parametrize(
    ("address", "reached"),
    [
        ("93.184.216.34", "93.184.216.34"),
        ("172.32.0.1", "172.32.0.1"),
        ("192.0.1.1", "192.0.1.1"),
        ("2606:4700::1111", "2606:4700::1111"),
        ("2001:200::1", "2001:200::1"),
        ("3ffe::1", "3ffe::1"),
        ("::ffff:5db8:d822", "93.184.216.34"),
        ("64:ff9b::5db8:d822", "93.184.216.34"),
        ("2002:5db8:d822::1", "93.184.216.34"),
    ],
)
def test_public_addresses_are_reached_without_their_translation(address: str, reached: str) -> None:
    assert send("https://api.example.com/v1", AddressPolicy(), [address]).sent[0][0] == reached


def test_a_site_local_address_is_reached_where_its_network_is_listed() -> None:
    policy = AddressPolicy.of_list(["api.example.com", "fec0::/10"])
    assert send("https://api.example.com/v1", policy, ["fec0::1"]).sent[0][0] == "fec0::1"


@pytest.mark.parametrize(
    "address", ["169.254.169.254", "fe80::1", "0.0.0.0", "224.0.0.1", "::", "::ffff:169.254.169.254"]
)
def test_addresses_of_no_endpoint_are_refused_even_for_commands(address: str) -> None:
    with refusing(AddressRefused, "meta.example.com"):
        send("http://meta.example.com/v1", THIS_MACHINE, [address])


@pytest.mark.parametrize(
    ("url", "is_allowed"),
    [
        ("https://api.example.com/v1", True),
        ("https://API.example.com./v1", True),
        ("https://sub.api.example.com/v1", False),
        ("https://api.example.com.evil.test/v1", False),
        ("http://10.0.0.5:8000/v1", True),
        ("http://10.0.0.5:8001/v1", False),
        ("http://10.0.0.6:8000/v1", False),
        ("http://[::1]:8000/v1", True),
        ("http://2130706433/v1", False),
    ],
)
def test_only_listed_hosts_are_reached(url: str, is_allowed: bool) -> None:
    policy = AddressPolicy.of_list(["api.example.com", "10.0.0.5:8000", "[::1]:8000"])
    if is_allowed:
        assert len(send(url, policy, ["93.184.216.34"]).sent) == 2
    else:
        with refusing(AddressRefused):
            send(url, policy, ["93.184.216.34"])


@pytest.mark.parametrize("entry", ["127.0.0.1:8000", "[::ffff:127.0.0.1]:8000"])
def test_an_address_with_a_port_opens_no_other_port_to_listed_names(entry: str) -> None:
    policy = AddressPolicy.of_list(["api.example.com", entry])
    assert len(send("http://api.example.com:8000/v1", policy, ["127.0.0.1"]).sent) == 2
    with refusing(AddressRefused, "127.0.0.1", "5432"):
        send("http://api.example.com:5432/v1", policy, ["::ffff:127.0.0.1"])


@pytest.mark.parametrize("entry", ["localhost.:8000", "LOCALHOST:8000", " localhost:8000 ", "localhost."])
@pytest.mark.parametrize("host", ["localhost", "LOCALHOST", "localhost."])
def test_localhost_is_one_name_however_it_is_written(entry: str, host: str) -> None:
    policy = AddressPolicy.of_list([entry])
    assert send(f"http://{host}:8000/v1", policy, ["127.0.0.1"]).sent[0][0] == "127.0.0.1"


@pytest.mark.parametrize(
    ("url", "addresses"),
    [
        ("http://localhost:5432/v1", ["127.0.0.1"]),
        ("http://sub.localhost:8000/v1", ["127.0.0.1"]),
        ("http://127.0.0.1:8000/v1", ["127.0.0.1"]),
        ("http://[::1]:8000/v1", ["::1"]),
        ("http://localhost:8000/v1", ["0.0.0.0"]),
        ("http://localhost:8000/v1", ["169.254.169.254"]),
    ],
)
def test_localhost_on_the_list_opens_nothing_else(url: str, addresses: list[str]) -> None:
    with pytest.raises(AddressRefused):
        send(url, AddressPolicy.of_list(["localhost:8000"]), addresses)


@pytest.mark.parametrize("policy", [AddressPolicy(), AddressPolicy.of_list([])], ids=["any host", "no host"])
def test_localhost_that_is_not_listed_is_refused(policy: AddressPolicy) -> None:
    with pytest.raises(AddressRefused):
        send("http://localhost:8000/v1", policy, ["127.0.0.1"])


@pytest.mark.parametrize(("entry", "port"), [("localhost", 9), ("localhost:8000", 8000)])
def test_localhost_on_the_list_is_this_machine_and_no_other(entry: str, port: int) -> None:
    policy = AddressPolicy.of_list([entry, "api.example.com"])
    assert send(f"http://localhost:{port}/v1", policy, ["::1", "127.0.0.1"]).sent[0][0] == "::1"
    with refusing(AddressRefused, "127"):
        send(f"http://api.example.com:{port}/v1", policy, ["127.0.0.1"])
    with refusing(AddressRefused, "10.0.0.1"):
        send(f"http://localhost:{port}/v1", policy, ["10.0.0.1"])
    with refusing(AddressRefused, "elsewhere.example"):
        send(f"http://elsewhere.example:{port}/v1", policy, ["127.0.0.1"])


def test_a_refusal_says_what_would_allow_the_address() -> None:
    policy = AddressPolicy.of_list(["gpu.lan"], "add {entry} to --bot-hosts")
    for url, addresses, expected in (
        ("http://localhost:8000/v1", ["127.0.0.1"], "allowed hosts: add localhost:8000 to --bot-hosts"),
        ("https://[::1]/v1", [], "allowed hosts: add [::1]:443 to --bot-hosts"),
        ("http://gpu.lan/v1", ["10.0.0.1"], "not listed with port 80: add 10.0.0.1:80 to --bot-hosts"),
        ("http://gpu.lan:81/v1", ["fd00::1"], "not listed with port 81: add [fd00::1]:81 to --bot-hosts"),
    ):
        with pytest.raises(AddressRefused) as refused:
            send(url, policy, addresses)
        assert str(refused.value).endswith(expected)
        entry = expected.split("add ")[1].split()[0]
        assert len(send(url, AddressPolicy.of_list(["gpu.lan", entry]), addresses).sent) == 2


def test_a_key_does_not_travel_unencrypted_through_the_world() -> None:
    headers = {"Authorization": "Bearer x"}
    with refusing(AddressRefused, "api.example.com"):
        send("http://api.example.com/v1", THIS_MACHINE, ["93.184.216.34"], headers=headers)
    send("http://gpu.lan:8000/v1", THIS_MACHINE, ["192.168.0.7"], headers=headers)
    send("https://api.example.com/v1", THIS_MACHINE, ["93.184.216.34"], headers=headers)


@pytest.mark.parametrize(
    "entry", ["", "https://api.example.com", "user@host", "10.0.0.0/99", "a b", "h:http", "[::1]:0"]
)
def test_entries_that_are_no_hosts_are_refused(entry: str) -> None:
    with pytest.raises(Usage):
        AddressPolicy.of_list([entry])
