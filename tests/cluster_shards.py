"""What tests of searching on a cluster share: a log of chance, test pairs, and the processes that have a shard."""

from __future__ import annotations

import os
import threading
import time
from pathlib import Path
from random import Random

import numpy as np
from indexes import home_of
from plain_search import UNKNOWN, WORDS, RawPair, chance_tests

PATIENCE_S = 90.0


def pairs_of_chance(random, count):
    """Many utterances have the same vector, and many occur again."""
    texts = [" ".join(random.choices(WORDS + UNKNOWN, k=random.choice((1, 2, 2, 3, 4, 6)))) for _ in range(count)]
    return [
        RawPair("chat", f"d{number % 97}", str(number), random.choice(texts), random.choice(texts), None, "s")
        for number in range(count)
    ]


def log_of_chance(seed, pairs, tests):
    """Pairs of a log, and test pairs."""
    random = Random(seed)
    found = pairs_of_chance(random, pairs)
    return found, chance_tests(random, found, tests)


def home_of_chance(folder, pairs):
    """A home with these pairs and vectors of the words."""
    rows = np.random.default_rng(1).standard_normal((len(WORDS), 16)).astype(np.float32)
    return home_of(folder / "home", pairs, dict(zip(WORDS, rows, strict=True)))


def processes_of_shards():
    """The processes of this cluster that have a shard."""
    return sorted(process for process, _ in titles_of_cluster("ray::ActorHost"))


def titles_of_cluster(*beginnings):
    """Processes of this cluster, which its token tells from others, and their titles, where they begin so."""
    token, processes = os.environ["RAY_AUTH_TOKEN"].encode(), []
    for path in Path("/proc").iterdir():
        if path.name.isdigit():
            try:
                title = (path / "cmdline").read_bytes().rstrip(b"\0").decode("utf-8", "replace")
                if title.startswith(beginnings) and token in (path / "environ").read_bytes():
                    processes.append((int(path.name), title))
            except OSError:
                continue
    return processes


def until(condition, what=str):
    """Wait for a condition, longer where more processes want to run than there are cores."""
    waiting, began = threading.Event(), time.monotonic()
    while not condition():
        waited = time.monotonic() - began
        assert waited < PATIENCE_S * max(1.0, os.getloadavg()[0] / (os.cpu_count() or 1)), f"in vain: {what()}"
        waiting.wait(0.1)
