"""What a search through shards on a cluster costs beside the same search in one process.

    python bench/bench_cluster_serving.py --home FOLDER [--pairs 300000] [--shards 4]

A log of synthetic pairs (`bench_cluster.py`) is built in shards. The same queries go to the version in one process with
as many threads as there are cores, and to its shards on a cluster that Ray starts on this machine. Single queries
alternate between the two, so that other work slows both. The answers are compared first.
"""

from __future__ import annotations

import argparse
import os
import time
from collections.abc import Sequence
from pathlib import Path

from bench_cluster import build, prepare
from common import median, write_result

from refaug.core.cluster.connection import connect
from refaug.core.records import TestPair
from refaug.indexer.index_folders import Places
from refaug.indexer.search.index import ReferenceIndex
from refaug.indexer.search.on_cluster.fleet import ShardHosts

SINGLES, BATCH, ROUNDS = 300, 1_000, 5


def queries_of(index: ReferenceIndex, count: int) -> list[TestPair]:
    """Return utterances of the index as test pairs, without the last word of each."""
    texts = [index.draw_utterance(number).split() for number in range(count)]
    return [TestPair(id=str(number), turns=(" ".join(words[:-1] or words),)) for number, words in enumerate(texts)]


def seconds_of(index: ReferenceIndex, pairs: Sequence[TestPair]) -> float:
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
        with (
            ReferenceIndex.open(places, name, threads=cores) as alone,
            ReferenceIndex.open_on(places, name, hosts, threads=cores) as spread,
        ):
            pairs = queries_of(alone, BATCH)
            assert spread.search(pairs) == alone.search(pairs)
            assert all(spread.search([pair]) == alone.search([pair]) for pair in pairs[:20])
            singles = [(seconds_of(alone, [pair]), seconds_of(spread, [pair])) for pair in pairs[:SINGLES]]
            batches = [(seconds_of(alone, pairs), seconds_of(spread, pairs)) for _ in range(ROUNDS)]
            factory = alone.manifest.segments[0].factory
        hosts.close()
    alone_ms, spread_ms = (median([1e3 * single[which] for single in singles]) for which in (0, 1))
    batch_one, batch_many = (median([batch[which] for batch in batches]) for which in (0, 1))
    write_result(
        "cluster_serving",
        {
            "pairs": settings.pairs,
            "shards": settings.shards,
            "factory": factory,
            "load_average": round(os.getloadavg()[0], 1),
            "single_ms": {"one_process": alone_ms, "cluster": spread_ms, "more": round(spread_ms - alone_ms, 2)},
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
