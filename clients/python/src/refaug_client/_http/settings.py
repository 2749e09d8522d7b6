"""How to reach the server: from arguments first, then from the environment."""

from __future__ import annotations

import math
import os
import random
import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from ipaddress import ip_address
from pathlib import Path
from typing import Any, Callable, Optional, Union
from urllib.parse import urlsplit

import httpx

from refaug_client._core import errors
from refaug_client._core.errors import (
    BadAnswer,
    CannotConnect,
    Conflict,
    Later,
    NoAnswer,
    Problem,
    RefaugError,
    TooMany,
    Usage,
)

# ── When a failed request is sent again, and after how long; nothing sleeps here ──────────────────────────────────────

# not the generator that a training seeds: a retry would change its draws, and all ranks would wait equally long
_DICE = random.SystemRandom()


def draw_random() -> float:
    """Return a number from 0 up to 1 that differs between processes."""
    return _DICE.random()


@dataclass(frozen=True)
class Retry:
    """How often a request is tried, and how long the client waits in between.

    The pause doubles from `first_s` up to `most_s`, drawn between nothing and that (full jitter), so that many clients
    do not come back at the same moment. A server that says when to come back (Retry-After) is obeyed; where that is
    later than what is left of `total_s`, the error is raised at once instead of after a sleep that cannot help.
    """

    tries: int = 6
    first_s: float = 0.2
    most_s: float = 10.0
    total_s: float = 90.0
    draw: Callable[[], float] = field(default=draw_random, compare=False, repr=False)

    def __post_init__(self) -> None:
        if isinstance(self.tries, bool) or not isinstance(self.tries, int):
            raise Usage(f"tries={self.tries!r} is not a number of tries", remedy="1 for no second try")
        if self.tries < 1:
            raise Usage(f"tries={self.tries}: a request is sent at least once", remedy="tries=1 for no second try")
        for name in ("first_s", "most_s", "total_s"):
            seconds = getattr(self, name)
            if isinstance(seconds, bool) or not isinstance(seconds, (int, float)) or not 0 <= seconds < math.inf:
                raise Usage(f"{name}={seconds!r} is not a number of seconds", remedy="0 or more")

    def pause(self, error: RefaugError, *, tried: int, spent_s: float, repeatable: bool) -> Optional[float]:
        """Return the seconds until the next try; None where there is none."""
        busy = is_being_answered(error)
        if (
            self.tries == 1
            or (tried >= self.tries and not busy)
            or not is_worth_repeating(error, repeatable=repeatable)
        ):
            return None
        wait = min(self.most_s, self.first_s * 2 ** min(tried - 1, 60)) * self.draw()
        retry_after_s = error.retry_after_s if isinstance(error, (Later, BadAnswer)) else None
        if retry_after_s is None and busy:  # the server works on it already: the number of tries does not count
            retry_after_s = min(self.most_s, 0.1 * 2 ** min(tried, 60))
        if retry_after_s is not None:  # never earlier than the server says, and not all clients at once
            wait = max(wait, retry_after_s + min(wait, 0.1 * retry_after_s))
        return None if spent_s + wait > self.total_s else wait


NO_RETRY = Retry(tries=1)


def is_being_answered(error: RefaugError) -> bool:
    """Whether the server still works on the first request with the same idempotency key."""
    return isinstance(error, Conflict) and error.code == "in_progress"


def is_worth_repeating(error: RefaugError, *, repeatable: bool) -> bool:
    """Whether the same request may succeed later, and sending it twice does no harm.

    Without a connection the server has done nothing, nor has an overloaded server: what it refused may be sent again,
    whatever it is. What was lost on the way, or timed out, may have been done: only `repeatable` ones are sent again.
    """
    if isinstance(error, (CannotConnect, TooMany)) or (isinstance(error, Later) and error.code == "overloaded"):
        return True
    if isinstance(error, BadAnswer):
        is_transient = error.status is None or error.status < 300 or error.status in (408, 425, 429, 500, 502, 503, 504)
        return repeatable and is_transient and not error.complete
    if isinstance(error, Problem):
        return repeatable and (isinstance(error, Later) or error.status == 408 or is_being_answered(error))
    return repeatable and isinstance(error, NoAnswer)


# ── How to reach the server: from arguments first, then from the environment ──────────────────────────────────────────

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
            raise Usage(f"retry={self.retry!r} is not a Retry", remedy="Retry(tries=…), or how often to try again")
        if isinstance(self.connections, bool) or not isinstance(self.connections, int) or self.connections < 1:
            raise Usage(f"connections={self.connections!r}: at least one is needed", remedy="1 or more")
        if not isinstance(self.verify, (bool, str)):
            raise Usage(f"verify={type(self.verify).__name__}", remedy="True, False, or the path of a certificate")
        if self.key is not None and not _is_token(self.key):
            raise Usage(
                "the key has characters that no key has", remedy="the key as refaug admin keys create printed it"
            )
        if self.uds is not None:
            _require_socket(self.uds)
        object.__setattr__(self, "headers", _check_headers(self.headers))

    @classmethod
    def of(
        cls, url: Optional[str] = None, *, key: Optional[str] = None, retry: Union[Retry, int, None] = None, **more: Any
    ) -> ConnectionSettings:
        """Return the settings; address and key are those of REFAUG_URL and REFAUG_KEY where they are not given."""
        if url is not None and not isinstance(url, str):
            raise Usage(f"{url!r} is not an address of a server", remedy="such as http://127.0.0.1:8000")
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
        raise Usage(f"{name}={seconds!r} is not a time in which an answer can come", remedy="seconds, more than 0")
    finite_s = float(seconds)
    if not math.isfinite(finite_s):
        raise Usage(f"{name}={seconds!r} has no end", remedy="seconds, more than 0")
    return finite_s


def _require_address(url: object) -> None:
    if not isinstance(url, str):
        raise Usage(f"{url!r} is not an address of a server", remedy="such as http://127.0.0.1:8000")
    if "@" in url:
        raise Usage("the address has a name or password in it", remedy="key=… instead, or the variable REFAUG_KEY")
    try:
        parts = urlsplit(url)
        good = parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
        httpx.URL(url).raw_host.decode("ascii").encode("idna")  # as it is looked up
    except (ValueError, httpx.InvalidURL):  # half an IPv6 address, a port that is none, a name with two dots in a row
        good = False
    if not good or not url.isprintable() or " " in url:
        raise Usage(f"{url!r} is not an address of a server", remedy="such as http://127.0.0.1:8000")
    if parts.query or parts.fragment:
        begin = url[: min(url.find(sign) for sign in "?#" if sign in url)]  # what follows may be a secret
        raise Usage(f"{begin!r} is followed by more than an address", remedy="leave out what follows ? or #")


def _require_socket(uds: object) -> None:
    if not isinstance(uds, str) or not uds:
        raise Usage(f"uds={uds!r} is not a path of a socket", remedy="the path as text, as refaug serve --uds has it")
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
            raise Usage(f"{name!r} is not a name of a header", remedy="letters, digits and -")
        if not isinstance(content, str) or not content.isascii() or not content.isprintable():  # it may be a secret
            raise Usage(f"the header {name} has characters that no header has", remedy="printable ASCII in one line")
        checked_headers[name.lower()] = content.strip()
    return checked_headers


# ── The options of httpx clients, from the settings of a connection ───────────────────────────────────────────────────


def client_options(to: ConnectionSettings) -> dict[str, Any]:
    if to.uds:
        return {}
    address = httpx.URL(to.url)
    # a proxy of the environment (HTTP_PROXY) would look for the server on its own machine, and see key and texts
    mounts = {f"all://{address.netloc.decode('ascii')}": None} if _is_this_machine(address.host) else None
    return {"limits": _limits(to), "verify": _certificates(to), "mounts": mounts}


def _is_this_machine(host: str) -> bool:
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def _certificates(to: ConnectionSettings) -> Any:
    """Return what certificates are checked against; without TLS nothing is read, which would take time."""
    if not isinstance(to.verify, str):
        return to.verify and to.url.startswith("https")
    import ssl  # noqa: PLC0415  httpx reads it only when it is needed, too

    try:
        if Path(to.verify).is_dir():
            return ssl.create_default_context(capath=to.verify)
        return ssl.create_default_context(cafile=to.verify)
    except (OSError, ssl.SSLError) as error:
        raise errors.Usage(f"verify={to.verify!r}: {error}", remedy="a file or folder of certificates") from error


def transport_options(to: ConnectionSettings) -> dict[str, Any]:
    return {"uds": to.uds, "limits": _limits(to), "verify": False}  # no other user can listen on its path


def _limits(to: ConnectionSettings) -> httpx.Limits:
    return httpx.Limits(
        max_connections=to.connections, max_keepalive_connections=to.connections, keepalive_expiry=4.0
    )  # shorter than servers and proxies keep one, so that they rarely close it just as it is used
