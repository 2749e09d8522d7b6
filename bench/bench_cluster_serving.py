"""What a search through shards on a cluster costs beside the same search in one process.

    python bench/bench_cluster_serving.py --home FOLDER [--pairs 300000] [--shards 4]

A log of synthetic pairs (`bench_cluster.py`) is built in shards. The same queries go to the version in one process with
as many threads as there are cores, and to its shards on a cluster that Ray starts on this machine. Single queries
alternate between the two, so that other work slows both. The answers are compared first. The bytes of a query are
those of all questions and answers.
"""

from __future__ import annotations

import argparse
import os
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from bench_cluster import build, prepare
from common import median, write_result

from refaug.core.records import Item
from refaug.extras.cluster.actors import ActorCall, Actors
from refaug.extras.cluster.connection import Cluster, connect
from refaug.extras.cluster.search.fleet import ShardHosts
from refaug.indexer.index_folders import Places
from refaug.indexer.search.index import ReferenceIndex

SINGLES, BATCH, ROUNDS = 300, 1_000, 5


class CountingActors(Actors):
    """Calls to shards, and how many bytes questions and answers have."""

    def __init__(self, cluster: Cluster, *, timeout_s: float) -> None:
        super().__init__(cluster, timeout_s=timeout_s)
        self.count = 0

    def call(self, calls: Sequence[ActorCall]) -> list[Any]:
        """Call, and count."""
        answers = super().call(calls)
        messages = [part for actor_call in calls for part in actor_call.arguments] + answers
        self.count += sum(len(message) for message in messages if isinstance(message, bytes))
        return answers


def bytes_of(actors: CountingActors, index: ReferenceIndex, pairs: Sequence[Item]) -> list[int]:
    """Return the bytes of each query, to and from all shards."""
    counts = list[int]()
    for pair in pairs:
        actors.count = 0
        index.search([pair])
        counts.append(actors.count)
    return counts


def queries_of(index: ReferenceIndex, count: int) -> list[Item]:
    """Return utterances of the index as test pairs, without the last word of each."""
    texts = [index.draw_utterance(number).split() for number in range(count)]
    return [Item(id=str(number), turns=(" ".join(words[:-1] or words),)) for number, words in enumerate(texts)]


def seconds_of(index: ReferenceIndex, pairs: Sequence[Item]) -> float:
    """Return how long a search takes."""
    began = time.perf_counter()
    index.search(pairs)
    return time.perf_counter() - began


def main() -> None:
    """Measure both, and write the result."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--home", type=Path, required=True)
    parser.add_argument("--pairs", type=int, default=300_000)
    parser.add_argument("--shards", type=int, default=4)
    settings = parser.parse_args()
    places, name = Places.under(settings.home), f"cluster-{settings.pairs}-{settings.shards}"
    if places.indexes.current(name) is None:
        prepare(settings.home, settings.pairs)
        build(settings.home, settings.pairs, settings.shards)
    os.environ["REFAUG_NODE_CACHE"] = str(settings.home / "node-cache")
    cores = len(os.sched_getaffinity(0))
    with connect("local") as cluster:
        hosts = ShardHosts(cluster, replicas=1, timeout_s=60.0, store=None)
        hosts.actors.close()
        hosts.actors = actors = CountingActors(cluster, timeout_s=60.0)
        with (
            ReferenceIndex.open(places, name, threads=cores) as alone,
            ReferenceIndex.open_on(places, name, hosts, threads=cores) as spread,
        ):
            pairs = queries_of(alone, BATCH)
            assert spread.search(pairs) == alone.search(pairs)
            assert all(spread.search([pair]) == alone.search([pair]) for pair in pairs[:20])
            singles = [(seconds_of(alone, [pair]), seconds_of(spread, [pair])) for pair in pairs[:SINGLES]]
            batches = [(seconds_of(alone, pairs), seconds_of(spread, pairs)) for _ in range(ROUNDS)]
            query_bytes = median(bytes_of(actors, spread, pairs[:SINGLES]))
            segment = alone.manifest.segments[0]
        hosts.close()
    alone_ms, spread_ms = (median([1e3 * single[which] for single in singles]) for which in (0, 1))
    batch_one, batch_many = (median([batch[which] for batch in batches]) for which in (0, 1))
    write_result(
        "cluster_serving",
        {
            "pairs": settings.pairs,
            "shards": settings.shards,
            "factory": segment.factory,
            "load_average": round(os.getloadavg()[0], 1),
            "single_ms": {"one_process": alone_ms, "cluster": spread_ms, "more": round(spread_ms - alone_ms, 2)},
            "query_bytes": {"measured": query_bytes},
            "batch_s": {
                "one_process": batch_one,
                "cluster": batch_many,
                "throughput": round(batch_one / batch_many, 2),
            },
        },
        ("faiss-cpu", "numpy", "ray"),
    )


if __name__ == "__main__":
    main()
