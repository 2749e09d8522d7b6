"""New people are counted by the invitation that they open and the address that they come from.

Who tries ids of others, or fills a study with people who are none, comes again and again by one link from one address;
a class that begins together does so, too, and waits a little. Addresses are held in memory alone, and are bounded.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import Final

from refaug.core.errors import TooMany
from refaug.core.memory.bounded_cache import BoundedCache
from refaug.service.wrong_keys import MinuteBucket, network_of

_MOST_ENTRIES: Final = 10_000


class Newcomers:
    """The people of the last minutes whom no study knew; each of `workers` processes lets in its share."""

    def __init__(self, a_minute: int, *, workers: int = 1, clock: Callable[[], float] = time.monotonic) -> None:
        self._a_minute, self._clock = max(1.0, a_minute / workers), clock
        self._lock = threading.Lock()
        self._buckets = BoundedCache[tuple[str, str], MinuteBucket](_MOST_ENTRIES)

    def count(self, invite: str, address: str) -> None:
        """Count a person who is new, or claims an id that is known; TooMany for too many of them in a minute."""
        key, now = (invite, network_of(address)), self._clock()
        with self._lock:
            bucket = self._buckets.get(key) or MinuteBucket(self._a_minute, now)
            self._buckets.put(key, bucket)
            wait_s = bucket.wait_s(self._a_minute, now)
            if wait_s:
                raise TooMany(
                    "too many new people open this link from one address",
                    remedy="wait a little; this page tries again by itself",
                    retry_after_s=wait_s,
                )
            bucket.allowed -= 1.0
