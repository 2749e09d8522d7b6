"""The part `large` of bench_index.py: 16 million vectors as one index, built here and served by another process."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np
from common import write_result

from refaug.indexer.building.plan import Demand, Limits, choose, options
from refaug.indexer.building.recall import ExactSearch
from refaug.indexer.building.segment_files import WordVectorBlocks
from refaug.indexer.index_folders import Places
from refaug.indexer.nearest.faiss_calls import set_threads
from refaug.indexer.nearest.index_builder import AnnBuilder, AnnIndex
from refaug.indexer.search.index import ReferenceIndex

PACKAGES = ("refaug", "faiss-cpu", "bm25s", "numpy", "numba", "gensim", "pyarrow", "duckdb")
THREADS = len(os.sched_getaffinity(0))


def held_bytes(own: bool = False) -> int:
    """Return the memory of this process: all of it, or only the part that is no file's."""
    lines = Path("/proc/self/smaps_rollup").read_text().splitlines()
    name = "Anonymous:" if own else "Rss:"
    return next(int(line.split()[1]) << 10 for line in lines if line.startswith(name))


def median_of(values: list[float]) -> float:
    return float(np.median(values))


def bench_large(places: Places, log: str, rows: int, factory: str | None) -> None:
    """Measure one index of the log's sentence vectors, repeated with different noise each time."""
    with ReferenceIndex.open(places, log) as index, places.indexes.open(log) as open_version:
        weights = index.sources.weights
        assert weights is not None
        folder = open_version.folder / index.manifest.segments[0].folder
        dimensions = weights.dimensions
        demand = Demand(rows=rows, dimensions=dimensions)
        limits = Limits(recall=0.97, factory=factory)
        plan = choose(options(demand, limits, threads=THREADS), limits)
        blocks = WordVectorBlocks(folder, weights, THREADS)
        path = places.cache / "large.faiss"
        built, truth = _build_large(blocks, rows, plan.factory, path)
        queries = truth.pop("queries")
    served = subprocess.run(
        [
            sys.executable,
            str(Path(__file__).with_name("bench_index.py")),
            "serve-large",
            "--home",
            str(places.cache.parent),
            "--effort",
            str(plan.effort),
        ],
        check=True,
        capture_output=True,
        text=True,
        env={**os.environ, "LARGE": str(path)},
    )
    del queries
    import orjson  # noqa: PLC0415  not in every part

    write_result(
        "index_large",
        {"rows": rows, "dimensions": dimensions, "plan": asdict(plan), **built, **orjson.loads(served.stdout)},
        PACKAGES,
    )
    path.unlink()


def noisy_copies(
    blocks: WordVectorBlocks, rows: int, noise: float = 0.3
) -> Iterator[np.ndarray[Any, np.dtype[np.float32]]]:
    """Yield unit vectors: those of the log, then again with noise of this length, different noise each time."""
    done, copy = 0, 0
    while done < rows:
        rng = np.random.default_rng([3, copy])
        for _, block, has_vector in blocks.blocks():
            vectors = np.ascontiguousarray(block[has_vector])
            if copy:
                vectors = vectors + rng.standard_normal(vectors.shape, np.float32) * np.float32(
                    noise / np.sqrt(vectors.shape[1])
                )
                vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
            vectors = vectors[: rows - done]
            if len(vectors):
                yield vectors
            done += len(vectors)
        copy += 1


def _build_large(
    blocks: WordVectorBlocks, rows: int, factory: str, path: Path
) -> tuple[dict[str, Any], dict[str, Any]]:
    training_rows = AnnBuilder.training_rows(factory, rows)
    share = training_rows / rows
    rng = np.random.default_rng(1)
    print(f"{rows:,} vectors, {factory}, trained on {training_rows:,}", file=sys.stderr, flush=True)
    sample, some_queries = [], []
    for block in noisy_copies(blocks, rows):
        sample.append(block[rng.random(len(block)) < share])
        some_queries.append(block[rng.random(len(block)) < 1_500 / rows])
    queries = np.concatenate(some_queries)[:1_000]
    began = time.perf_counter()
    builder = AnnBuilder.train(factory, blocks.dimensions, np.concatenate(sample), seed=1, threads=THREADS)
    trained = time.perf_counter() - began
    print(f"trained in {trained:.0f} s", file=sys.stderr, flush=True)
    sample.clear()
    set_threads(THREADS)
    exact, first, adding, looking = ExactSearch(queries, 16), 0, 0.0, 0.0
    for block in noisy_copies(blocks, rows):
        began = time.perf_counter()
        builder.add(block)
        adding += time.perf_counter() - began
        began = time.perf_counter()
        exact.look_at(np.arange(first, first + len(block)), block)
        looking += time.perf_counter() - began
        first += len(block)
    began = time.perf_counter()
    builder.write(path)
    writing = time.perf_counter() - began
    np.save(path.with_suffix(".queries.npy"), queries, allow_pickle=False)
    np.save(path.with_suffix(".exact.npy"), exact.rows, allow_pickle=False)
    peak = (
        int(next(line.split()[1] for line in Path("/proc/self/status").read_text().splitlines() if "VmHWM" in line))
        << 10
    )
    facts = {
        "train_s": round(trained),
        "add_s": round(adding),
        "write_s": round(writing),
        "build_s": round(trained + adding + writing),
        "exact_search_s": round(looking),
        "build_peak_gb": round(peak / 1e9, 2),
        "disk_gb": round(path.stat().st_size / 1e9, 2),
    }
    return facts, {"queries": queries}


def serve_large(effort: int) -> None:
    """In a separate process: open, search at rising efforts until the recall is reached, report the memory."""
    import orjson  # noqa: PLC0415  not in every part

    path = Path(os.environ["LARGE"])
    queries = np.load(path.with_suffix(".queries.npy"), allow_pickle=False)
    exact = np.load(path.with_suffix(".exact.npy"), allow_pickle=False)
    before = held_bytes()
    set_threads(THREADS)
    index = AnnIndex.open(path)
    trials = []
    for step in [effort, *(one for one in index.efforts() if one > effort)]:
        began = time.perf_counter()
        neighbours, _ = index.search(queries, 64, step)
        seconds = time.perf_counter() - began
        # Each query is a row itself, and stands first in both.
        recalls = [len(np.intersect1d(ours, best[1:16])) / 15 for ours, best in zip(neighbours, exact, strict=True)]
        trials.append(
            {"effort": step, "recall": round(float(np.mean(recalls)), 4), "batch_a_second": round(1_000 / seconds)}
        )
        if trials[-1]["recall"] >= 0.97:
            break
    single = []
    for row in range(200):
        began = time.perf_counter()
        index.search(queries[row : row + 1], 64, trials[-1]["effort"])
        single.append(time.perf_counter() - began)
    facts = {
        "tried": trials,
        "recall_at_15": trials[-1]["recall"],
        "single_ms": round(1000 * median_of(single), 2),
        "resident_gb": round((held_bytes() - before) / 1e9, 2),
    }
    sys.stdout.write(orjson.dumps(facts).decode())
    for suffix in (".queries.npy", ".exact.npy"):
        path.with_suffix(suffix).unlink()
