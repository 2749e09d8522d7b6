"""What shards cost and save: memory and CPU time of a build, and the time of searches, for 1, 2, 4 and 8 of them.

    python bench/bench_shards.py --home FOLDER [--dialogues 60000]

The log is the demo log, made with a seed: no other texts are needed. Every build is a process of its own.
"""

from __future__ import annotations

import argparse
import os
import resource
import statistics
import sys
import time
from pathlib import Path

import numpy as np
import orjson
from common import run_and_watch, write_result

from refaug.core.progress import Silent
from refaug.core.records import Item
from refaug.indexer.building.build import build_index
from refaug.indexer.building.order import IndexOrder
from refaug.indexer.building.plan import Limits
from refaug.indexer.index_folders import Places
from refaug.indexer.search.index import ReferenceIndex

FACTORY = "PCAR32,IVF256,PQ16x4fs"
MEMORY = 256 << 20
QUERIES = 1_000


def prepare(home: Path, dialogues: int) -> None:
    """Make the log and its word vectors, unless they are there."""
    refaug = [str(Path(sys.executable).with_name("refaug")), "-q", "--home", str(home)]
    if not (home / "logs" / "demo").exists():
        home.mkdir(parents=True, exist_ok=True)
        files = ["--output", str(home / "demo.jsonl"), "--items-output", str(home / "items.jsonl")]
        run_and_watch([*refaug, "log", "demo", *files, "--dialogues", str(dialogues)])
        run_and_watch([*refaug, "log", "ingest", str(home / "demo.jsonl"), "--log", "demo", "--language", "en"])
    if not (home / "vectors" / "demo").exists():
        run_and_watch([*refaug, "train", "vectors", "demo", "--dimensions", "50", "--epochs", "2"])


def build(home: Path, shards: int) -> None:
    """Build the index with so many shards, in this process, and print its CPU seconds."""
    order = IndexOrder(
        name=f"shards-{shards}",
        logs=("demo",),
        vectors="demo",
        limits=Limits(factory=FACTORY, recall=0.5),
        shards=shards,
        memory=MEMORY,
        check_queries=0,
    )
    built = build_index(Places.under(home), order, Silent(), again=True)
    usage = resource.getrusage(resource.RUSAGE_SELF)
    facts = {
        "cpu_seconds": round(usage.ru_utime + usage.ru_stime, 2),
        "utterances": built.manifest.utterances,
        "pairs": built.manifest.pairs,
        "bytes": sum(file["size"] for file in built.manifest.files.values()),
        "stages": built.manifest.seconds,
    }
    sys.stdout.write(orjson.dumps(facts).decode())


def search_times(home: Path, shards: int, runs: int = 3) -> dict[str, float]:
    """Return the median time of a single search, and the best of a batch, for utterances of the log."""
    with ReferenceIndex.open(Places.under(home), "shards-1") as whole:
        rows = np.random.default_rng(1).permutation(whole.segments[0].utterance_count)[:QUERIES].astype(np.int64)
        texts = whole.segments[0].utterances.take(rows)
    with ReferenceIndex.open(Places.under(home), f"shards-{shards}") as index:
        pairs = [Item(id=str(number), turns=(text or "",)) for number, text in enumerate(texts)]
        index.search(pairs)
        singles, batches = [], []
        for pair in pairs[:200]:
            began = time.perf_counter()
            index.search([pair])
            singles.append(time.perf_counter() - began)
        for _ in range(runs):
            began = time.perf_counter()
            index.search(pairs)
            batches.append(time.perf_counter() - began)
    return {
        "single_ms": round(1e3 * statistics.median(singles), 3),
        "batch_a_second": round(len(pairs) / min(batches)),
    }


def main() -> None:
    """Measure every number of shards and write the result."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--home", type=Path, required=True)
    parser.add_argument("--dialogues", type=int, default=60_000)
    parser.add_argument("--build", type=int)
    settings = parser.parse_args()
    if settings.build:
        build(settings.home, settings.build)
        return
    prepare(settings.home, settings.dialogues)
    rows = []
    for shards in (1, 2, 4, 8):
        run = run_and_watch([sys.executable, __file__, "--home", str(settings.home), "--build", str(shards)])
        facts = orjson.loads(run.output)
        rows.append(
            {
                "shards": shards,
                "peak_mb": round(run.peak_bytes / 1e6),
                "seconds": round(run.seconds, 1),
                **facts,
                **search_times(settings.home, shards),
            }
        )
    figures = {"dialogues": settings.dialogues, "factory": FACTORY, "memory": MEMORY, "load": os.getloadavg()}
    write_result("shards", {**figures, "rows": rows}, ("faiss-cpu", "numpy", "numba", "pyarrow", "duckdb"))


if __name__ == "__main__":
    main()
