"""Where the server is, and how it is spoken to; read from arguments first, then from the environment."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Optional, Union
from urllib.parse import urlsplit

from ._errors import Usage
from ._retry import NO_RETRY, Retry

DEFAULT_URL = "http://127.0.0.1:8000"
URL_VARIABLE = "REFAUG_URL"
KEY_VARIABLE = "REFAUG_KEY"


@dataclass(frozen=True)
class Connecting:
    """How a server is reached: plain values, so that worker processes can be handed them."""

    url: str = DEFAULT_URL
    key: Optional[str] = field(default=None, repr=False)
    timeout_s: float = 60.0  # of one try, from the first byte sent to the last received
    retry: Retry = field(default_factory=Retry)
    connections: int = 8
    uds: Optional[str] = None
    verify: Union[bool, str] = True
    headers: Mapping[str, str] = field(default_factory=dict, repr=False)

    def __post_init__(self) -> None:
        parts = urlsplit(self.url)
        if parts.scheme not in ("http", "https") or not parts.hostname:
            raise Usage(f"{self.url!r} is no address of a server", remedy="such as http://127.0.0.1:8000")
        if parts.username or parts.password:
            raise Usage("the address has a name or password in it", remedy="key=… instead, or the variable REFAUG_KEY")
        if parts.query or parts.fragment:
            raise Usage(f"{self.url!r} has more than an address in it", remedy="leave out what follows ? or #")
        if not self.timeout_s > 0:
            raise Usage(f"timeout_s={self.timeout_s} is no time in which an answer can come", remedy="more than 0")
        if self.connections < 1:
            raise Usage(f"connections={self.connections}: at least one is needed", remedy="1 or more")
        if self.key is not None and (not self.key.isascii() or not self.key.isprintable() or " " in self.key):
            raise Usage("the key has characters that no key has", remedy="the key as refaug keys create printed it")

    @classmethod
    def of(
        cls, url: Optional[str] = None, *, key: Optional[str] = None, retry: Union[Retry, int, None] = None, **more: Any
    ) -> Connecting:
        """Settings from what was said; address and key from REFAUG_URL and REFAUG_KEY where nothing was."""
        found = cls(
            url=(url or os.environ.get(URL_VARIABLE) or DEFAULT_URL).rstrip("/"),
            key=key or os.environ.get(KEY_VARIABLE) or None,
            **more,
        )
        if retry is None:
            return found
        if isinstance(retry, int):
            return replace(found, retry=replace(found.retry, tries=retry + 1) if retry > 0 else NO_RETRY)
        return replace(found, retry=retry)
