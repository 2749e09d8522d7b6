"""Metrics of packages that state no cost: a child process reads the texts, with a deadline and a limit of memory.

What such a metric takes is not known before it runs, so it runs where it holds up no request: the child is started with
the first call, kept for the next ones, and killed where a call takes too long. Requests and answers are lines of JSON.
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
from typing import Any, Final

import numpy as np
import orjson

from refaug.core.errors import MissingPart, RefaugError, TooLarge
from refaug.metrics.base import Floats, Indexes, Metric, Prepared, Problem, References
from refaug.metrics.metric_info import MetricInfo

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
