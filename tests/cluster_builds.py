"""A small home that is built on clusters in tests: its logs, orders, and what a build of it made."""

from __future__ import annotations

import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from random import Random

import numpy as np
from indexes import add_to_log, home_of
from plain_search import RawPair

from refaug.core.progress import Silent
from refaug.indexer.building.order import IndexOrder
from refaug.indexer.building.plan import Limits

WORDS = tuple(f"w{number}" for number in range(60))
UNKNOWN = tuple(f"x{number}" for number in range(300))  # without a vector: numbered as they occur
MANY = 8  # shards: with two cores some tasks of a stage run when its first has ended


def pairs_of_chance(count, log="chat"):
    random = Random(count)
    texts = [" ".join(random.choices(WORDS + UNKNOWN, k=random.choice((1, 2, 2, 3, 4, 6)))) for _ in range(count)]
    return [
        RawPair(log, f"d{number % 97}", str(number), random.choice(texts), random.choice(texts), None, "s")
        for number in range(count)
    ]


def small_home(folder):
    """Logs of 4,500 pairs, two parts of one and one of another, and vectors of some of their words."""
    rows = np.random.default_rng(1).standard_normal((len(WORDS), 16)).astype(np.float32)
    home = home_of(folder, pairs_of_chance(3_000), dict(zip(WORDS, rows, strict=True)))
    add_to_log(home, "chat", pairs_of_chance(1_000))
    add_to_log(home, "more", pairs_of_chance(500, "more"))
    return home


def order_of(name, shards=MANY, factory="PCAR8,IVF8,PQ4x4fs", **settings):
    return IndexOrder(
        name=name,
        logs=("chat", "more"),
        vectors="glove",
        tokenizer="word",
        shards=shards,
        check_queries=50,
        least_coverage=0.0,
        limits=Limits(factory=factory, recall=0.5),
        **settings,
    )


class Stages(Silent):
    """Notes which stages run; calls a function when the first task of each has ended."""

    def __init__(self, after_first=lambda stage: None):
        self.stages, self.steps, self._after_first, self._done = [], [], after_first, 0

    def stage(self, name, total=None, unit=""):
        self.stages.append(name.partition(" on ")[0])
        if "step" in name:
            self.steps.append(name.partition("step ")[2])
        self._done = 0

    def advance(self, amount):
        self._done += amount
        if amount and self._done == 1:
            self._after_first(self.stages[-1])


def content_of(manifest):
    plan = {name: manifest.plan[name] for name in ("factory", "effort", "depth", "expected_recall", "why")}
    return manifest.id, manifest.files, manifest.segments, plan, replace(manifest.check, seconds=0)


def assert_is(manifest, expected):
    assert content_of(manifest) == content_of(expected)


def left_of(name, places):
    return sorted(path.name for path in places.cache.iterdir() if f"index-{name}-" in path.name)


def processes_titled(*titles):
    """The tasks of the clusters of this process that have one of these names now."""
    found = []
    for process in processes_below(os.getpid()):
        try:
            title = Path(f"/proc/{process}/cmdline").read_bytes().rstrip(b"\0").decode()
        except OSError:
            continue
        if title.startswith(tuple(f"ray::{name}" for name in titles)):
            found.append((process, title))
    return found


def processes_below(process):
    """All processes that a process and its threads have started, and those below."""
    for thread in Path(f"/proc/{process}/task").glob("*/children"):
        try:
            children = thread.read_text().split()
        except OSError:
            continue
        for child in children:
            yield int(child)
            yield from processes_below(int(child))


def command_of(places, name, address, **environment):
    """Arguments of a process that builds the same index."""
    home = places.logs.parent
    return {
        "args": [
            *(sys.executable, "-m", "refaug", "index", "build", "chat", "more"),
            *("--name", name, "--on", address),
            *("--vectors", "glove", "--tokenizer", "word", "--shards", str(MANY), "--check-queries", "50"),
            *("--least-coverage", "0", "--factory", "PCAR8,IVF8,PQ4x4fs", "--recall", "0.5"),
        ],
        "env": {**os.environ, "REFAUG_HOME": str(home), **environment},
        "stdout": subprocess.PIPE,
        "stderr": subprocess.PIPE,
        "text": True,
    }
