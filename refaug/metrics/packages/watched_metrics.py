"""Metrics of other packages at work: errors in them, and values that make no sense, come with the package's name.

Metrics that state no cost read the texts in a child process, with a deadline and a limit of memory. What such a metric
takes is not known before it runs, so it runs where it holds up no request: the child is started with the first call,
kept for the next ones, and killed where a call takes too long. Requests and answers are lines of JSON.
"""

from __future__ import annotations

import os
import select
import subprocess
import sys
import threading
import weakref
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any, Final

import numpy as np
import orjson

from refaug.core.errors import MissingPart, RefaugError, TooLarge
from refaug.core.installation import Registration
from refaug.metrics.base import Floats, Indexes, Level, Metric, Prepared, Problem, References
from refaug.metrics.metric_info import MetricInfo
from refaug.metrics.single_reference import package_version

# ── Metrics that state no cost: a child process reads the texts ───────────────────────────────────────────────────────

CALL_S = 30.0  # for preparing references, or for the replies of a piece
_START_S: Final = 120.0  # for the child to import what it needs, on a machine that is busy
MEMORY_BYTES: Final = 8 << 30  # of address space, of which threads reserve much and use little
_CHILD: Final = "refaug.metrics.packages.metric_child"  # which imports what imports this
_MARK: Final = "REFAUG_METRIC_PROCESS"  # in the environment of a child, where a metric runs as it is


@dataclass(frozen=True, kw_only=True)
class _SentReferences(Prepared):
    """References, which the child prepares for each call."""

    references: Sequence[References] = ()


class SeparateMetric(Metric):
    """A base before the class of a package's metric: preparing and scoring happen in a child."""

    def __init__(self, info: MetricInfo, settings: Mapping[str, str]) -> None:
        super().__init__(info, settings)  # type: ignore[call-arg]  # the package's
        self._child = _Child(info.name, settings)

    def prepare(self, references: Sequence[References]) -> Prepared:
        """Return the references, with the problems that the metric finds in them."""
        answer = self._child.call({"references": [_as_json(one) for one in references]})
        problems = {int(place): Problem(**problem) for place, problem in answer["problems"].items()}
        return _SentReferences(items=answer["items"], problems=problems, references=tuple(references))

    def statistics(
        self, replies: Sequence[str], prepared: Prepared, reply_places: Indexes, item_places: Indexes
    ) -> Floats:
        """Return the rows of the child."""
        assert isinstance(prepared, _SentReferences)
        items, places = np.unique(item_places, return_inverse=True)
        texts, reply_rows = np.unique(reply_places, return_inverse=True)
        answer = self._child.call(
            {
                "references": [_as_json(prepared.references[at]) for at in items],
                "replies": [replies[at] for at in texts],
                "reply_places": reply_rows.tolist(),
                "item_places": places.tolist(),
            }
        )
        return np.array(answer["rows"], np.float64).reshape(answer["shape"])  # null is NaN


def is_child() -> bool:
    """Whether this process is such a child."""
    return _MARK in os.environ


class _Child:
    """The process of one metric, which may have to be started anew."""

    def __init__(self, name: str, settings: Mapping[str, str]) -> None:
        self._name, self._settings = name, dict(settings)
        self._lock, self._processes = threading.Lock(), list[subprocess.Popen[bytes]]()
        weakref.finalize(self, _end, self._processes)

    def call(self, request: Mapping[str, Any]) -> Any:
        """Return the answer of the child; TooLarge where it takes too long, or more memory than it may have."""
        with self._lock:
            if not self._processes:
                self._processes.append(self._start())
            process = self._processes[0]
            assert process.stdin is not None
            try:
                process.stdin.write(orjson.dumps(request, option=orjson.OPT_APPEND_NEWLINE))
                process.stdin.flush()
                answer = _line_of(process, CALL_S)
            except OSError:
                answer = b""
            if not answer.endswith(b"\n"):
                _end(self._processes)
                raise self._too_large("it ended in the middle")
        content = orjson.loads(answer)
        if "error" in content:
            raise MissingPart(content["error"], remedy=content["remedy"])
        return content

    def _start(self) -> subprocess.Popen[bytes]:
        environment = {**os.environ, _MARK: self._name, "PYTHONPATH": os.pathsep.join(sys.path)}
        order = orjson.dumps({"name": self._name, "settings": self._settings, "call_s": CALL_S}).decode()
        command = [sys.executable, "-P", "-m", _CHILD, order]
        process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=environment)  # noqa: S603
        _line_of(process, _START_S)
        return process

    def _too_large(self, what: str) -> RefaugError:
        return TooLarge(
            f"metric {self._name} states no cost, and {what}: "
            f"a call may take {CALL_S:g} s and {MEMORY_BYTES >> 30} GiB of address space",
            remedy="send fewer or shorter texts, or have its authors state a cost",
        )


def _line_of(process: subprocess.Popen[bytes], within_s: float) -> bytes:
    """Return the next line, or what has come of it when the time is over or the child has ended."""
    assert process.stdout is not None
    line, timer = b"", threading.Timer(within_s, process.kill)
    timer.daemon = True
    timer.start()
    try:
        while not line.endswith(b"\n"):
            select.select([process.stdout], [], [])
            piece = os.read(process.stdout.fileno(), 1 << 20)
            if not piece:
                break
            line += piece
    finally:
        timer.cancel()
    return line


def _end(processes: list[subprocess.Popen[bytes]]) -> None:
    while processes:
        process = processes.pop()
        process.kill()
        process.wait()
        for pipe in (process.stdin, process.stdout):
            if pipe is not None:
                pipe.close()


def _as_json(references: References | Problem | None) -> dict[str, Any] | None:
    if not isinstance(references, References):
        return None
    return {
        "texts": references.texts,
        "weights": references.weights,
        "gold": references.gold,
        "utterance": references.utterance,
        "beside": _as_json(references.beside),
    }


# ── Metrics at work: their faults and results ─────────────────────────────────────────────────────────────────────────

_ROUNDING = 1e-6  # by which a score may leave its range


@cache
def watched(kind: type[Metric], registration: Registration, *, is_separate: bool) -> type[Metric]:
    """Return the class of a package's metric, whose methods tell of faults and whose results are checked.

    A separate one reads texts in a child process; it cannot look at a whole set at once.
    """
    if not is_separate or is_child():
        return type(kind.__name__, (_Watched, kind), {"registration": registration})
    if kind.for_set is not Metric.for_set or kind.for_replies is not Metric.for_replies:
        raise MissingPart(
            f"metric {registration.name} of package {registration.package} looks at whole sets, and states no cost",
            remedy="have its authors pass cost=Cost(…) of refaug.metrics.costs",
        )
    return type(kind.__name__, (_Watched, SeparateMetric, kind), {"registration": registration})


class _Watched(Metric):
    """A base before the class of a package's metric."""

    registration: Registration

    def prepare(self, references: Sequence[References]) -> Prepared:
        try:
            prepared = super().prepare(references)  # type: ignore[safe-super]  # the package's
        except RefaugError:
            raise
        except Exception as error:  # whatever it is, it is the package's
            raise self._fault(f"preparing references ended with {error!r}") from error
        if not isinstance(prepared, Prepared) or prepared.items != len(references):
            raise self._fault(f"prepare returned {prepared!r:.100}, not a Prepared of {len(references):,} items")
        return prepared

    def statistics(
        self, replies: Sequence[str], prepared: Prepared, reply_places: Indexes, item_places: Indexes
    ) -> Floats:
        try:
            rows = np.asarray(super().statistics(replies, prepared, reply_places, item_places), np.float64)  # type: ignore[safe-super]
        except RefaugError:
            raise
        except Exception as error:  # whatever it is, it is the package's
            raise self._fault(f"scoring ended with {error!r}") from error
        if rows.shape != (len(reply_places), len(self.columns)):
            shape, expected = rows.shape, (len(reply_places), len(self.columns))
            raise self._fault(f"statistics returned an array of the shape {shape}, and {expected} was expected")
        return rows

    def values(self, sums: Floats, level: Level) -> Floats:
        try:
            scores = np.asarray(super().values(sums, level), np.float64)  # type: ignore[safe-super]
        except RefaugError:
            raise
        except Exception as error:  # whatever it is, it is the package's
            raise self._fault(f"a {level.value} score ended with {error!r}") from error
        if scores.shape != sums.shape[:-1]:
            raise self._fault(f"values returned the shape {scores.shape}, and {sums.shape[:-1]} was expected")
        low, high = self.info.low - _ROUNDING, (np.inf if self.info.high is None else self.info.high + _ROUNDING)
        if (wrong := scores[~np.isnan(scores) & ~((scores >= low) & (scores <= high))]).size:
            raise self._fault(f"it gave the score {wrong.flat[0]:g}, and its range is {self.info.range}")
        return scores

    def versions(self) -> Mapping[str, str]:
        return {**super().versions(), **package_version(self.registration.package)}

    def _fault(self, what: str) -> MissingPart:
        whose = f"metric {self.info.name} of package {self.registration.package}"
        return MissingPart(f"{whose}: {what}", remedy="ask its authors, or score by other metrics")
