"""Whom a request may be addressed to, where nobody is asked for a key: not to a name that somebody else has given us.

A page from elsewhere can have a name of its own stand for 127.0.0.1. The browser then takes us for the server that the
page came from, and lets it read and send what it likes. What such a request cannot hide is that name, in its header
Host. Addresses in digits and `localhost` are nobody's names.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Sequence
from typing import Final

from service.serve_settings import ServeSettings, is_local

_KEPT: Final = 64  # headers that were looked at: clients send the same one again and again


class Hosts:
    """The names that requests may be addressed to."""

    def __init__(self, serve: ServeSettings) -> None:
        named = [name.strip() for name in serve.allowed_hosts.split(",") if name.strip()]
        needs_names = bool(named) or (is_local(serve) and not serve.uds and not serve.keys)
        self._allows_any = "*" in named or not needs_names
        self._names = frozenset(_name(one) for one in ("localhost", serve.host, *named))
        self._known = dict[bytes, bool]()

    def foreign(self, headers: Sequence[tuple[bytes, bytes]]) -> str | None:
        """The host that a request is addressed to and may not be; None where there is no such, as in HTTP/1.0."""
        if self._allows_any:
            return None
        for name, value in headers:
            if name == b"host" and not self._is_allowed(value):
                return value.decode("latin-1")
        return None

    def _is_allowed(self, value: bytes) -> bool:
        known = self._known.get(value)
        if known is None:
            name = _name(value.decode("latin-1"))
            known = name in self._names or name == "" or _is_address(name)
            if len(self._known) < _KEPT:
                self._known[value] = known
        return known


def _name(host: str) -> str:
    """Without its port, as it is compared."""
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
