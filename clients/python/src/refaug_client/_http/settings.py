"""How to reach the server: from arguments first, then from the environment."""

from __future__ import annotations

import math
import os
import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Optional, Union
from urllib.parse import urlsplit

import httpx

from refaug_client._core.errors import Usage

from .retry import NO_RETRY, Retry

DEFAULT_URL = "http://127.0.0.1:8000"
URL_VARIABLE = "REFAUG_URL"
KEY_VARIABLE = "REFAUG_KEY"


@dataclass(frozen=True)
class ConnectionSettings:
    """How to reach a server; plain values, so that worker processes can take them along."""

    url: str = DEFAULT_URL
    key: Optional[str] = field(default=None, repr=False)
    timeout_s: float = 60.0  # of one try, from the first byte sent to the last received
    retry: Retry = field(default_factory=Retry)
    connections: int = 8
    uds: Optional[str] = None
    verify: Union[bool, str] = True
    headers: Mapping[str, str] = field(default_factory=dict, repr=False)

    def __post_init__(self) -> None:
        _require_address(self.url)
        require_seconds("timeout_s", self.timeout_s)
        if not isinstance(self.retry, Retry):
            raise Usage(f"retry={self.retry!r} is no Retry", remedy="Retry(tries=…), or how often to try again")
        if isinstance(self.connections, bool) or not isinstance(self.connections, int) or self.connections < 1:
            raise Usage(f"connections={self.connections!r}: at least one is needed", remedy="1 or more")
        if not isinstance(self.verify, (bool, str)):
            raise Usage(f"verify={type(self.verify).__name__}", remedy="True, False, or the path of a certificate")
        if self.key is not None and not _is_token(self.key):
            raise Usage("the key has characters that no key has", remedy="the key as refaug keys create printed it")
        if self.uds is not None:
            _require_socket(self.uds)
        object.__setattr__(self, "headers", _check_headers(self.headers))

    @classmethod
    def of(
        cls, url: Optional[str] = None, *, key: Optional[str] = None, retry: Union[Retry, int, None] = None, **more: Any
    ) -> ConnectionSettings:
        """Return the settings; address and key are those of REFAUG_URL and REFAUG_KEY where they are not given."""
        if url is not None and not isinstance(url, str):
            raise Usage(f"{url!r} is no address of a server", remedy="such as http://127.0.0.1:8000")
        settings = cls(
            url=(url or os.environ.get(URL_VARIABLE) or DEFAULT_URL).rstrip("/"),
            key=key or os.environ.get(KEY_VARIABLE) or None,
            **more,
        )
        if retry is None or retry is True:
            return settings
        if isinstance(retry, int):
            return replace(settings, retry=replace(settings.retry, tries=retry + 1) if retry > 0 else NO_RETRY)
        return replace(settings, retry=retry)


_LONGEST_S = 366 * 86_400.0  # far below what the system's clock can wait for
_SOCKET_BYTES = 107  # of a Unix socket's path on Linux
_HEADER = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")


def require_seconds(name: str, seconds: object) -> float:
    """Return a number of seconds to wait; Usage for anything else."""
    if isinstance(seconds, (bool, str)) or not hasattr(seconds, "__float__") or not 0 < float(seconds) <= _LONGEST_S:
        raise Usage(f"{name}={seconds!r} is no time in which an answer can come", remedy="seconds, more than 0")
    finite_s = float(seconds)
    if not math.isfinite(finite_s):
        raise Usage(f"{name}={seconds!r} has no end", remedy="seconds, more than 0")
    return finite_s


def _require_address(url: object) -> None:
    if not isinstance(url, str):
        raise Usage(f"{url!r} is no address of a server", remedy="such as http://127.0.0.1:8000")
    if "@" in url:
        raise Usage("the address has a name or password in it", remedy="key=… instead, or the variable REFAUG_KEY")
    try:
        parts = urlsplit(url)
        good = parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
        httpx.URL(url).raw_host.decode("ascii").encode("idna")  # as it is looked up
    except (ValueError, httpx.InvalidURL):  # half an IPv6 address, a port that is none, a name with two dots in a row
        good = False
    if not good or not url.isprintable() or " " in url:
        raise Usage(f"{url!r} is no address of a server", remedy="such as http://127.0.0.1:8000")
    if parts.query or parts.fragment:
        begin = url[: min(url.find(sign) for sign in "?#" if sign in url)]  # what follows may be a secret
        raise Usage(f"{begin!r} is followed by more than an address", remedy="leave out what follows ? or #")


def _require_socket(uds: object) -> None:
    if not isinstance(uds, str) or not uds:
        raise Usage(f"uds={uds!r} is no path of a socket", remedy="the path as text, as refaug serve --uds has it")
    if len(os.fsencode(uds)) > _SOCKET_BYTES:
        raise Usage(f"{uds}: a socket's path has at most {_SOCKET_BYTES} bytes", remedy="a folder higher up")


def _is_token(key: object) -> bool:
    return isinstance(key, str) and key.isascii() and key.isprintable() and " " not in key


def _check_headers(headers: object) -> dict[str, str]:
    """Return the headers by lower-case names, so that none is sent twice."""
    if not isinstance(headers, Mapping):
        raise Usage(f"headers={type(headers).__name__}", remedy="a dict of texts by name")
    checked_headers = {}
    for name, content in headers.items():
        if not isinstance(name, str) or not _HEADER.fullmatch(name):
            raise Usage(f"{name!r} is no name of a header", remedy="letters, digits and -")
        if not isinstance(content, str) or not content.isascii() or not content.isprintable():  # it may be a secret
            raise Usage(f"the header {name} has characters that no header has", remedy="printable ASCII in one line")
        checked_headers[name.lower()] = content.strip()
    return checked_headers
