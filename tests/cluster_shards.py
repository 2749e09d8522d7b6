"""What tests of searching on a cluster share: a log of chance, test pairs, and the processes that have a shard."""

from __future__ import annotations

import os
import threading
import time
from pathlib import Path

from plain_search import RawPair

from refaug.core.records import Item, Reference

WORDS = tuple(f"w{number}" for number in range(60))
UNKNOWN = tuple(f"x{number}" for number in range(30))  # without a vector
PATIENCE_S = 90.0


def pairs_of_chance(random, count):
    """Many utterances have the same vector, and many occur again."""
    texts = [" ".join(random.choices(WORDS + UNKNOWN, k=random.choice((1, 2, 2, 3, 4, 6)))) for _ in range(count)]
    return [
        RawPair("chat", f"d{number % 97}", str(number), random.choice(texts), random.choice(texts), None, "s")
        for number in range(count)
    ]


def chance_tests(random, pairs, count):
    """Test pairs, half of whose utterances are in the log."""
    return [
        Item(
            id=str(number),
            turns=(random.choice(pairs).utterance if number % 2 else " ".join(random.choices(WORDS, k=3)),),
            references=(Reference(text=random.choice(pairs).response),),
            dialogue=random.choice((None, "d1", "d2")),
            exclude=tuple(random.sample(("d3", "d4", "d5"), number % 3)),
        )
        for number in range(count)
    ]


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
