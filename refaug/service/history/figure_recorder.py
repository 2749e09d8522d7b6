"""The thread of a web process that stores what the process has counted, and once an hour what the service's sizes are.

What a killed process had counted since its last addition is lost: at most `EVERY_S` seconds. While the database does
not answer, counts wait with their hours.
"""

from __future__ import annotations

import logging
import math
import threading
from collections import Counter
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from typing import Any, Final

from refaug.core.errors import RefaugError
from refaug.core.files import unique_suffix
from refaug.service import prometheus_figures
from refaug.service.figures import Series
from refaug.service.history.hourly_figures import FAILURES, REQUESTS, HourlyFigures, hour_of, latency_name

log = logging.getLogger(__name__)

EVERY_S: Final = 20.0
_FIRST_S: Final = 2.0
_COUNTED: Final = "/v1/"  # what programs and people ask for; not pages, probes and scrapes
_STREAMED: Final = "/events"  # a stream lasts as long as its listener wants


def request_counts(series: Mapping[Series, list[float]]) -> Counter[str]:
    """Return requests, failures and latencies among the figures that a process has counted."""
    counts, bounds = Counter[str](), (*prometheus_figures.LATENCY.bounds, math.inf)
    for (name, *labels), numbers in series.items():
        if name not in (prometheus_figures.REQUESTS.name, prometheus_figures.LATENCY.name):
            continue
        route = labels[0]
        if not route.startswith(_COUNTED) or route.endswith(_STREAMED):
            continue
        if name == prometheus_figures.LATENCY.name:
            counts.update({latency_name(bound): int(number) for bound, number in zip(bounds, numbers, strict=False)})
        else:
            counts[REQUESTS] += int(numbers[0])
            counts[FAILURES] += int(numbers[0]) if labels[2].startswith("5") else 0
    return counts


class FigureRecorder:
    """What a process has counted and not stored yet, and the thread that stores it."""

    def __init__(
        self,
        figures: HourlyFigures,
        measure: Callable[[], Mapping[str, Any]],
        *,
        read: Callable[[], Mapping[Series, list[float]]] = prometheus_figures.own_counts,
        clock: Callable[[], datetime] = lambda: datetime.now(UTC),
    ) -> None:
        self._figures, self._measure, self._read, self._clock = figures, measure, read, clock
        self._writer, self._number = unique_suffix(), 0
        self._before = request_counts(read())
        self._waiting = dict[str, Counter[str]]()
        self._sent: Mapping[str, Counter[str]] = {}  # what the database may have taken already
        self._sized_hour = ""
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._run, name="figures", daemon=True)

    def start(self) -> None:
        """Begin to store figures."""
        self._thread.start()

    def stop(self) -> None:
        """Store what was counted last, where the database answers."""
        self._over.set()
        self._thread.join()

    def record(self) -> None:
        """Store what was counted since the last call, and the sizes of a new hour; RefaugError where that fails."""
        hour = self._collect()
        self._store()
        if hour != self._sized_hour:
            if not self._figures.has_sizes(hour):
                self._figures.set_sizes(hour, self._measure())
            self._sized_hour = hour

    def _collect(self) -> str:
        """Note what was counted since the last time under the hour that runs now, and return the hour."""
        hour, counts = hour_of(self._clock()), request_counts(self._read())
        if new := counts - self._before:
            self._waiting.setdefault(hour, Counter()).update(new)
        self._before = counts
        return hour

    def _store(self) -> None:
        """Add what waits; first, under its number, what may have been added before."""
        while self._sent or self._waiting:
            if not self._sent:
                self._number += 1
                self._sent, self._waiting = self._waiting, {}
            self._figures.add(self._writer, self._number, self._sent)
            self._sent = {}

    def _run(self) -> None:
        pause_s, has_stored = _FIRST_S, True
        while not self._over.wait(pause_s):
            has_stored, pause_s = self._try_to_record(), EVERY_S
        if has_stored:
            self._collect()
            if self._waiting:
                self._try_to_record()

    def _try_to_record(self) -> bool:
        try:
            self.record()
        except RefaugError as error:
            log.info("figures wait", extra={"why": error.message})
            return False
        except Exception:
            log.exception("figures are not stored")
            return False
        return True
