"""What tests of trained networks share: a log from which something can be learnt, and ways to stop a training."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import product
from pathlib import Path
from typing import Any

import orjson
import pytest
import torch
from integration.conftest import ROOT, Driver

THINGS = ("tea", "soup", "bread", "milk", "a lamp", "the paper", "a map", "flowers", "shoes", "a bell")
PLACES = ("market", "harbour", "old shop", "station", "corner", "mill", "library", "bridge")
ASKS = ("where do you buy {}", "who sells you {}", "where would you get {}", "how did you find {}")
WHEN = ("today", "on sundays", "in winter", "at night", "now", "after work")
ANSWERS = ("at the {}", "near the {} i think", "my aunt gets it by the {}", "never at the {}")


def talk(path: Path, utterances: int, *, short: int = 0, seed: int = 1) -> Path:
    """So many utterances, each answered three times in dialogues of their own; and short ones, answered twice."""
    rng = random.Random(seed)
    asked = [f"{ask.format(thing)} {when}" for ask, thing, when in product(ASKS, THINGS, WHEN)][:utterances]
    said = [answer.format(place) for answer, place in product(ANSWERS, PLACES)]
    rows = [(text, answer) for text in asked for answer in rng.sample(said, 3)]
    rows += [(f"{n} and more", answer) for n in range(short) for answer in rng.sample(said, 2)]
    lines = [orjson.dumps({"id": str(number), "turns": row}) for number, row in enumerate(rows)]
    path.write_bytes(b"\n".join(lines))
    return path


@contextmanager
def interrupting(monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[int], None]]:
    """Press Ctrl-C, so to speak, at the n-th step of Adam from the call on."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    step = torch.optim.Adam.step

    def at(number: int) -> None:
        taken = 0

        def counted(self: torch.optim.Adam, *given: Any, **named: Any) -> Any:
            nonlocal taken
            taken += 1
            if taken == number:
                signal.raise_signal(signal.SIGINT)
            return step(self, *given, **named)

        monkeypatch.setattr(torch.optim.Adam, "step", counted)

    yield at
    signal.signal(signal.SIGINT, before)


# All that is loaded late is loaded once, and not in every process.
PROGRAM = """if True:
    import torch

    import refaug.cli.raters.rater, refaug.cli.raters.ruber
    import refaug.rater.nn.build, refaug.rater.nn.checkpoint, refaug.rater.ruber.build
    from refaug.core.query_engine import QueryEngine
    import faults

    weight = torch.nn.Parameter(torch.ones(1))
    torch.optim.Adam([weight]).step()
    faults.serve()
"""


class WarmDriver(Driver):
    """tests/faults.py as a process that has loaded torch."""

    def __init__(self) -> None:
        path = os.pathsep.join((str(ROOT), str(ROOT / "tests")))
        self._process = subprocess.Popen(
            [sys.executable, "-c", PROGRAM],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            env={**os.environ, "PYTHONPATH": path, "OMP_NUM_THREADS": "1"},
        )
