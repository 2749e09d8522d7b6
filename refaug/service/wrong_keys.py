"""Wrong keys are slowed, by the key that they claim to be and by the address that they come from.

Two token buckets count wrong keys: one for each pair of a key's id and an address, one for each address. Both are asked
after a secret was compared, and only where it was wrong, so that the right key always passes, also beside guesses at it
from behind the same proxy. A refusal does not say more than that too many were wrong: it is no help to a guesser, whose
secrets of 256 bits are too many at any pace. No other address and no other key waits. Both lists are bounded: the least
recently used entries go first, and an address that is refused adds none.
"""

from __future__ import annotations

import ipaddress
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from refaug.core.errors import TooMany
from refaug.core.memory.bounded_cache import BoundedCache

_MOST_ENTRIES: Final = 10_000
_TIMES_AN_ADDRESS: Final = 10  # as many for all keys of an address as for one of them
_MINUTE_S: Final = 60.0
_NETWORK_BITS: Final = 64  # of IPv6: a subscriber has at least that many addresses


@dataclass
class MinuteBucket:
    """What is still allowed, which grows with time up to that of a minute."""

    allowed: float
    at: float

    def wait_s(self, a_minute: float, now: float) -> float:
        """Return the seconds until one more is allowed: 0 where it is now."""
        self.allowed = min(a_minute, self.allowed + max(0.0, now - self.at) * a_minute / _MINUTE_S)
        self.at = now
        if self.allowed >= 1.0 - 1e-9:  # sums of fractions may end slightly below 1
            return 0.0
        return (1.0 - self.allowed) * _MINUTE_S / a_minute


class WrongKeys:
    """The wrong keys of the last minutes, counted in this process; each of `workers` processes allows its share."""

    def __init__(
        self, a_minute: int, *, workers: int = 1, clock: Callable[[], float] = time.monotonic, most: int = _MOST_ENTRIES
    ) -> None:
        self._a_minute, self._clock = max(1.0, a_minute / workers), clock
        self._lock = threading.Lock()
        self._pairs = BoundedCache[tuple[str, str], MinuteBucket](most)
        self._addresses = BoundedCache[str, MinuteBucket](most)

    def count(self, key_id: str, address: str) -> None:
        """Count a wrong key; TooMany in place of its error where its address has sent too many of it, or of any."""
        network, now = network_of(address), self._clock()
        with self._lock:
            sender = self._addresses.get(network) or MinuteBucket(_TIMES_AN_ADDRESS * self._a_minute, now)
            self._addresses.put(network, sender)
            self._require(sender, _TIMES_AN_ADDRESS * self._a_minute)
            pair = self._pairs.get((key_id, network)) or MinuteBucket(self._a_minute, now)
            self._pairs.put((key_id, network), pair)
            self._require(pair, self._a_minute)
            pair.allowed -= 1.0
            sender.allowed -= 1.0

    def _require(self, bucket: MinuteBucket, a_minute: float) -> None:
        wait_s = bucket.wait_s(a_minute, self._clock())
        if wait_s:
            raise TooMany(
                "too many wrong keys came from this address",
                remedy="look at the key: refaug_, 12 characters, _, 43 characters",
                retry_after_s=wait_s,
            )


def network_of(address: str) -> str:
    """Return what counts as one sender: an address, of IPv6 its network; the text itself where it is no address."""
    try:
        parsed = ipaddress.ip_address(address.partition("%")[0])
    except ValueError:
        return address[:64]
    if isinstance(parsed, ipaddress.IPv4Address):
        return str(parsed)
    if parsed.ipv4_mapped is not None:
        return str(parsed.ipv4_mapped)
    return str(ipaddress.ip_network((parsed, _NETWORK_BITS), strict=False))
