"""What bots behind an address need: the hosts that they may ask, stored answers, and limits of a server."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final
from urllib.parse import urlsplit

from refaug.bots.endpoint.addresses import AddressPolicy, AddressRefused
from refaug.bots.endpoint.client import ClientSettings
from refaug.bots.endpoint.daily_spending import DailySpending, DailyTokens
from refaug.bots.endpoint.specification import Endpoint
from refaug.bots.endpoint.spending import Spending
from refaug.core.errors import NotAllowed

HOSTS_VARIABLE: Final = "REFAUG_BOT_HOSTS"
SERVER_ADVICE: Final = f"the operator of the server adds {{entry}} to --bot-hosts of refaug serve ({HOSTS_VARIABLE})"
COMMAND_ADVICE: Final = f"add {{entry}} to --bot-hosts or, for all commands, to {HOSTS_VARIABLE}"
_REST_S: Final = 30.0


class RestingEndpoints:
    """Addresses that were given up lately, so that the next batch does not wait for them again."""

    def __init__(self, rest_s: float = _REST_S, clock: Callable[[], float] = time.monotonic) -> None:
        self._rest_s, self._clock, self._lock = rest_s, clock, threading.Lock()
        self._ends = dict[str, tuple[float, str]]()

    def rest(self, url: str, message: str) -> None:
        """Let an address rest from now on; `message` is the fault that made it so."""
        with self._lock:
            self._ends[url] = (self._clock() + self._rest_s, message)

    def message_of(self, url: str) -> str | None:
        """Return the fault of an address that rests, or None for one that may be asked."""
        with self._lock:
            end, message = self._ends.get(url, (0.0, ""))
            if end > self._clock():
                return message
            self._ends.pop(url, None)
            return None


@dataclass(frozen=True, kw_only=True)
class EndpointAccess:
    """How bots behind an address are asked; one for a command or a request."""

    client: ClientSettings = field(default_factory=ClientSettings)
    answers: Path | None = None  # the file of stored answers; None: each request is sent
    days: DailyTokens | None = None  # the limit of a server
    on_tick: Callable[[], object] = lambda: None  # called several times a second; its error ends the wait
    resting: RestingEndpoints = field(default_factory=RestingEndpoints)

    def spending_of(self, endpoint: Endpoint) -> Spending:
        """Return what counts the tokens of one bot."""
        price, budget = endpoint.price, endpoint.budget
        return Spending(price, budget) if self.days is None else DailySpending(self.days, price, budget)


def require_hosts(name: str, addresses: Iterable[str], policy: AddressPolicy) -> None:
    """Raise NotAllowed for a bot with an address whose host is not on the list."""
    for url in addresses:
        parts = urlsplit(url)
        try:
            policy.require_host(parts.hostname or "", parts.port or (443 if parts.scheme == "https" else 80))
        except AddressRefused as refused:
            raise NotAllowed(f"bot {name}: {refused.reason}", remedy=refused.advice) from refused
