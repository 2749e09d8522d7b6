"""How quick an index is beside exact search, its build beside the bare calls of FAISS, and whether the plan is kept.

    python bench/bench_index.py                 all parts but `large`
    python bench/bench_index.py text            texts to unit sentence vectors, beside gensim's loop
    python bench/bench_index.py build           a build end to end, beside training, adding and writing alone; of
                                                another kind with --index
    python bench/bench_index.py search          searching at a recall of .98, beside exact search and FAISS alone
    python bench/bench_index.py dialog          what the dialog modes lose by looking at some candidates only
    python bench/bench_index.py large           16 million vectors: plan, recall, memory while serving

Results go to bench/results/index_<part>.json. The log is `logs/medium_en.jsonl.gz` of `--data`, ingested into `--home`
once, with vectors trained on it; without it nothing is measured. Every part runs in a process of its own.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import numpy as np
from common import ROOT, median, write_result

from core.log_store import StoredLog, list_logs
from core.progress import Silent
from core.records import Reference, TestPair
from core.text import get_tokenizer
from core.word_vectors import open_word_vectors
from indexer import ann
from indexer.build import build_index
from indexer.check import check_index
from indexer.index import ReferenceIndex
from indexer.order import IndexOrder
from indexer.places import Places
from indexer.plan import Demand, Limits, choose, options
from indexer.queries import SearchSettings, prepare
from indexer.recall import ExactSearch
from indexer.segment_build import WordVectorBlocks
from indexer.sentence_vectors import SentenceSettings, WordWeights, embed
from indexer.vocabulary import Vocabulary

PACKAGES = ("refaug", "faiss-cpu", "bm25s", "numpy", "numba", "gensim", "pyarrow", "duckdb")
LOG = "medium"
REFAUG = [str(ROOT / ".venv" / "bin" / "refaug")]
THREADS = len(os.sched_getaffinity(0))


def timed(work: Callable[[], Any], runs: int) -> tuple[list[float], Any]:
    """Seconds of each run, and what the last one gave."""
    seconds, result = [], None
    for _ in range(runs):
        began = time.perf_counter()
        result = work()
        seconds.append(time.perf_counter() - began)
    return seconds, result


def prepared(data: Path, home: Path) -> Places | None:
    """A home with the log and its vectors, made once."""
    places = Places.under(home)
    if LOG not in list_logs(places.logs):
        source = data / "logs" / "medium_en.jsonl.gz"
        if not source.exists():
            print(f"skipped: {source} is not there; give the folder with --data")
            return None
        refaug = [*REFAUG, "--home", str(home)]
        subprocess.run([*refaug, "ingest", str(source), "--log", LOG, "--language", "en"], check=True)
    if LOG not in places.vectors.names():
        subprocess.run([*REFAUG, "--home", str(home), "vectors", "train", LOG], check=True)
    return places


def the_index(places: Places, *, name: str = LOG, factory: str | None = None) -> None:
    """An index of the log that finds .98, built if it is not there."""
    if name not in places.indexes.names():
        build_index(places, order(name, factory), Silent())


def order(name: str = LOG, factory: str | None = None) -> IndexOrder:
    return IndexOrder(name=name, logs=(LOG,), vectors=LOG, limits=Limits(recall=0.98, factory=factory), threads=THREADS)


def held_bytes(own: bool = False) -> int:
    """What this process holds of memory: all of it, or only what is no file's."""
    lines = Path("/proc/self/smaps_rollup").read_text().splitlines()
    name = "Anonymous:" if own else "Rss:"
    return next(int(line.split()[1]) << 10 for line in lines if line.startswith(name))


def held_as_planned() -> int:
    """What the plan calls memory: all that is no file's, and the pages that are here of words' and utterances' vectors.

    Texts and tables are mapped too; the plan lists them apart.
    """
    held, wanted = 0, "Anonymous:"
    for line in Path("/proc/self/smaps").read_text().splitlines():
        first, *rest = line.split(maxsplit=5)
        if not first.endswith(":"):  # a mapping begins
            path = Path(rest[4] if len(rest) == 5 else "")
            of_vectors = path.name.startswith(("vectors.faiss", "quick")) or "vectors" in path.parts
            wanted = "Rss:" if of_vectors else "Anonymous:"
        elif first == wanted:
            held += int(rest[0]) << 10
    return held


# ── text to vectors ───────────────────────────────────────────────────────────────────────────────────────────────


def bench_text(places: Places, runs: int, count: int = 100_000) -> None:
    """One thread each; the same texts, words and settings."""
    from gensim.models import KeyedVectors  # noqa: PLC0415  not in every part

    texts = []
    for batch in StoredLog.open(places.logs, LOG).batches(["utterance"]):
        texts += batch["utterance"].to_pylist()
        if len(texts) >= count:
            break
    texts = texts[:count]
    tokenizer = get_tokenizer("word")
    with places.vectors.open(LOG) as held:
        vectors = open_word_vectors(held.folder)
        keyed = KeyedVectors(vectors.dimensions)
        keyed.add_vectors(vectors.words, np.asarray(vectors.matrix))
        weights = WordWeights.of(vectors, SentenceSettings())
        vocabulary = Vocabulary(vectors.words, tokenizer)

        def ours() -> Any:
            coded = vocabulary.code(texts)
            return embed(weights, coded.codes, coded.offsets)[0]

        def gensim_loop(tokens: list[list[str]]) -> Any:
            return [keyed.get_mean_vector(one, pre_normalize=True, post_normalize=True) for one in tokens]

        def theirs() -> Any:
            return gensim_loop([tokenizer.tokenize(text) for text in texts])

        ours()  # compiled by now
        coded, tokens = vocabulary.code(texts), [tokenizer.tokenize(text) for text in texts]
        seconds = {
            "ours": timed(ours, runs)[0],
            "ours_averaging": timed(lambda: embed(weights, coded.codes, coded.offsets), runs)[0],
            "gensim": (of_gensim := timed(theirs, max(1, runs // 2)))[0],
            "gensim_averaging": timed(lambda: gensim_loop(tokens), max(1, runs // 2))[0],
        }
        known = [place for place, one in enumerate(tokens) if any(word in keyed.key_to_index for word in one)]
        difference = float(np.abs(ours()[known] - np.stack([of_gensim[1][place] for place in known])).max())
    write_result(
        "index_text",
        {
            "texts": len(texts),
            "words_a_text": round(len(coded.codes) / len(texts), 1),
            "dimensions": vectors.dimensions,
            "seconds": {name: [round(one, 3) for one in every] for name, every in seconds.items()},
            "texts_a_second_ours": round(len(texts) / median(seconds["ours"])),
            "ratio_from_text": round(median(seconds["gensim"]) / median(seconds["ours"]), 1),
            "ratio_averaging": round(median(seconds["gensim_averaging"]) / median(seconds["ours_averaging"]), 1),
            "largest_difference": difference,
        },
        PACKAGES,
    )


# ── building ──────────────────────────────────────────────────────────────────────────────────────────────────────


def bench_build(places: Places, runs: int, factory: str | None = None) -> None:
    """Everything from the log to the published version, beside the bare calls on vectors that are there already."""
    ours, bare, manifests = list[float](), list[float](), []
    for number in range(runs):
        name = f"bench-{number}"
        began = time.perf_counter()
        manifests.append(build_index(places, order(name, factory), Silent()).manifest)
        ours.append(time.perf_counter() - began)
        bare.append(_bare_calls(places, name, manifests[-1].segments[0].factory))
        places.indexes.delete(name)
    info = manifests[-1].segments[0]
    write_result(
        "index_build_named" if factory else "index_build",
        {
            "utterances": info.utterances,
            "pairs": info.pairs,
            "factory": info.factory,
            "threads": THREADS,
            "seconds": [round(one, 1) for one in ours],
            "bare_seconds": [round(one, 1) for one in bare],
            "ratio_of_medians": round(median(ours) / median(bare), 3),
            "stages": dict(manifests[-1].seconds),
            "recall": manifests[-1].check.recall if manifests[-1].check else None,
        },
        PACKAGES,
    )


def _bare_calls(places: Places, name: str, factory: str) -> float:
    """FAISS as one would call it by hand: trained on as many vectors, all of this index's added at once, written."""
    import faiss  # noqa: PLC0415  not in every part

    with ReferenceIndex.open(places, name) as index, places.indexes.open(name) as held:
        weights = index.sources.weights
        assert weights is not None
        blocks = WordVectorBlocks(held.folder / index.manifest.segments[0].folder, weights, THREADS)
        vectors = np.concatenate([block[known] for _, block, known in blocks.blocks()])
    wanted = ann.AnnBuilder.training_rows(factory, len(vectors))
    sample = vectors[np.sort(np.random.default_rng(1).permutation(len(vectors))[:wanted])]
    faiss.omp_set_num_threads(THREADS)
    target = places.cache / "bare.faiss"
    began = time.perf_counter()
    metric = faiss.METRIC_L2 if factory.startswith("PCA") else faiss.METRIC_INNER_PRODUCT
    bare = faiss.index_factory(vectors.shape[1], factory, metric)
    if "IVF" in factory:
        lists = faiss.extract_index_ivf(bare)
        lists.cp.niter, lists.cp.max_points_per_centroid = ann.ITERATIONS, ann.POINTS_A_LIST
    bare.train(sample)
    bare.add(vectors)
    faiss.write_index(bare, str(target))
    seconds = time.perf_counter() - began
    target.unlink()
    return seconds


# ── searching ─────────────────────────────────────────────────────────────────────────────────────────────────────


def bench_search(places: Places, runs: int) -> None:
    """Single test pairs and batches of a thousand, with everything that comes on top of FAISS, beside exact search."""
    import faiss  # noqa: PLC0415  not in every part

    found: dict[str, Any] = {}
    the_index(places)
    with ReferenceIndex.open(places, LOG, threads=THREADS) as index, places.indexes.open(LOG) as held:
        pairs = _asked(index, 1_000)
        queries = _vectors(index, pairs)
        assert index.sources.weights is not None
        blocks = WordVectorBlocks(held.folder / "segments/0", index.sources.weights, THREADS)
        flat = faiss.IndexFlatIP(blocks.dimensions)
        for _, block, known in blocks.blocks():
            flat.add(block[known])
    faiss.omp_set_num_threads(THREADS)
    exact_single = [timed(lambda row=row: flat.search(queries[row : row + 1], 15), 1)[0][0] for row in range(20)]
    exact_batch = timed(lambda: flat.search(queries, 15), runs)[0]
    flat.reset()  # its memory is wanted
    kinds = {"default": None, "half": "IVF4096,SQfp16", "bits": "IVF4096,RaBitQfs"}
    for kind, factory in kinds.items():
        name = f"{LOG}-{kind}" if factory else LOG
        the_index(places, name=name, factory=factory)
        found[kind] = _measured(places, name, runs, median_of(exact_single), median_of(exact_batch))
    write_result(
        "index_search",
        {
            "threads": THREADS,
            "exact_single_ms": round(1000 * median_of(exact_single), 1),
            "exact_batch_a_second": round(len(pairs) / median_of(exact_batch)),
            **found,
        },
        PACKAGES,
    )


def _vectors(index: ReferenceIndex, pairs: list[TestPair]) -> Any:
    likeness: Any = index.likeness(pairs, prepare(pairs, index.vocabulary), SearchSettings())
    return likeness.vectors.astype(np.float32)


def _measured(places: Places, name: str, runs: int, exact_single: float, exact_batch: float) -> dict[str, Any]:
    before, planned_before = (held_bytes(), held_bytes(own=True)), held_as_planned()
    settings = SearchSettings()
    with ReferenceIndex.open(places, name, threads=THREADS) as index:
        segment, info, check = index.segments[0], index.manifest.segments[0], index.manifest.check
        assert check is not None
        assert segment.ann is not None
        pairs = _asked(index, 1_000)
        index.search(pairs, settings)  # compiled and read by now
        opened, planned_for = (held_bytes(), held_bytes(own=True)), held_as_planned() - planned_before
        single = [timed(lambda one=one: index.search([one], settings), 1)[0][0] for one in pairs[:300]]
        batch = timed(lambda: index.search(pairs, settings), 2 * runs)[0]
        queries, depth = _vectors(index, pairs), info.depth
        ann.set_threads(THREADS)
        alone = [
            timed(lambda row=row: segment.ann.search(queries[row : row + 1], depth, info.effort), 1)[0][0]
            for row in range(300)
        ]
        alone_batch = timed(lambda: segment.ann.search(queries, depth, info.effort), 2 * runs)[0]
        one = replace(index, threads=1)
        one_batch = timed(lambda: one.search(pairs, settings), 2 * runs)[0]
        one_alone = timed(lambda: segment.ann.search(queries, depth, info.effort, threads=1), 2 * runs)[0]
        return {
            "utterances": info.utterances,
            "factory": info.factory,
            "effort": info.effort,
            "depth": depth,
            "recall_at_15": check.recall,
            "recall_interval": [check.low, check.high],
            "single_ms": round(1000 * median_of(single), 3),
            "single_ms_p95": round(1000 * float(np.quantile(single, 0.95)), 3),
            "single_ms_faiss_alone": round(1000 * median_of(alone), 3),
            "single_ratio": round(exact_single / median_of(single), 1),
            "batch_a_second": round(len(pairs) / median_of(batch)),
            "batch_a_second_faiss_alone": round(len(pairs) / median_of(alone_batch)),
            "batch_ratio": round(exact_batch / median_of(batch), 1),
            "on_top_of_faiss": round(median_of(batch) / median_of(alone_batch) - 1, 3),
            "on_top_of_faiss_with_one_thread": round(median_of(one_batch) / median_of(one_alone) - 1, 3),
            "planned_memory_mb": round(index.manifest.plan["memory"] / 1e6),
            "held_as_planned_mb": round(planned_for / 1e6),
            "held_memory_mb": round((opened[0] - before[0]) / 1e6),
            "held_anonymous_mb": round((opened[1] - before[1]) / 1e6),
        }


def median_of(values: list[float]) -> float:
    return float(np.median(values))


def _asked(index: ReferenceIndex, count: int) -> list[TestPair]:
    """Pairs of the log as test pairs, in a seeded order."""
    segment = index.segments[0]
    rows = np.random.default_rng(7).permutation(len(segment.tables.response_key))[:count].astype(np.int64)
    utterances = np.searchsorted(segment.tables.pair_start, rows, side="right") - 1
    return [
        TestPair(id=str(place), turns=(utterance or "",), references=(Reference(text=response or ""),))
        for place, (utterance, response) in enumerate(
            zip(segment.utterances.take(utterances), segment.responses.take(rows), strict=True)
        )
    ]


def bench_dialog(places: Places, _runs: int) -> None:
    """Recall and lost similarity of the dialog modes by candidate depth, over 100 pairs of the log."""
    the_index(places)
    found: dict[str, Any] = {}
    with ReferenceIndex.open(places, LOG, threads=THREADS) as index:
        for mode, depths in (("embedding-dialog", (100, 1_000, 10_000)), ("bm25-dialog", (100, 1_000))):
            for depth in depths:
                settings = SearchSettings(mode=mode, depth=depth)  # type: ignore[arg-type]
                compared = check_index(index, settings, queries=100, seed=1, progress=Silent())
                pairs = _asked(index, 50)
                seconds = timed(lambda settings=settings, pairs=pairs: index.search(pairs, settings), 1)[0][0]
                found[f"{mode}_{depth}"] = {**asdict(compared), "ms_a_pair": round(1000 * seconds / len(pairs), 2)}
    write_result("index_dialog", {"modes": found}, PACKAGES)


# ── 16 million ────────────────────────────────────────────────────────────────────────────────────────────────────


def bench_large(places: Places, rows: int, factory: str | None) -> None:
    """The log's sentence vectors again and again, each time with other noise, as one index."""
    the_index(places)
    with ReferenceIndex.open(places, LOG) as index, places.indexes.open(LOG) as held:
        weights = index.sources.weights
        assert weights is not None
        folder = held.folder / index.manifest.segments[0].folder
        dimensions = weights.dimensions
        demand = Demand(rows=rows, dimensions=dimensions)
        limits = Limits(recall=0.97, factory=factory)
        plan = choose(options(demand, limits, threads=THREADS), limits)
        blocks = WordVectorBlocks(folder, weights, THREADS)
        path = places.cache / "large.faiss"
        built, truth = _build_large(blocks, rows, plan.factory, path)
        queries = truth.pop("queries")
    served = subprocess.run(
        [sys.executable, __file__, "serve-large", "--home", str(places.cache.parent), "--effort", str(plan.effort)],
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


def noisy(blocks: WordVectorBlocks, rows: int, noise: float = 0.3) -> Iterator[np.ndarray[Any, np.dtype[np.float32]]]:
    """Unit vectors: those of the log, then again with noise of this length, other noise each time."""
    done, copy = 0, 0
    while done < rows:
        rng = np.random.default_rng([3, copy])
        for _, block, known in blocks.blocks():
            some = np.ascontiguousarray(block[known])
            if copy:
                some = some + rng.standard_normal(some.shape, np.float32) * np.float32(noise / np.sqrt(some.shape[1]))
                some /= np.linalg.norm(some, axis=1, keepdims=True)
            some = some[: rows - done]
            if len(some):
                yield some
            done += len(some)
        copy += 1


def _build_large(
    blocks: WordVectorBlocks, rows: int, factory: str, path: Path
) -> tuple[dict[str, Any], dict[str, Any]]:
    wanted = ann.AnnBuilder.training_rows(factory, rows)
    share = wanted / rows
    rng = np.random.default_rng(1)
    print(f"{rows:,} vectors, {factory}, trained on {wanted:,}", file=sys.stderr, flush=True)
    sample, some_queries = [], []
    for block in noisy(blocks, rows):
        sample.append(block[rng.random(len(block)) < share])
        some_queries.append(block[rng.random(len(block)) < 1_500 / rows])
    queries = np.concatenate(some_queries)[:1_000]
    began = time.perf_counter()
    builder = ann.AnnBuilder.train(factory, blocks.dimensions, np.concatenate(sample), seed=1, threads=THREADS)
    trained = time.perf_counter() - began
    print(f"trained in {trained:.0f} s", file=sys.stderr, flush=True)
    sample.clear()
    ann.set_threads(THREADS)
    exact, first, adding, looking = ExactSearch(queries, 16), 0, 0.0, 0.0
    for block in noisy(blocks, rows):
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
    """In a process that has nothing else: open, search at rising efforts until the recall is there, tell the memory."""
    import orjson  # noqa: PLC0415  not in every part

    path = Path(os.environ["LARGE"])
    queries = np.load(path.with_suffix(".queries.npy"), allow_pickle=False)
    exact = np.load(path.with_suffix(".exact.npy"), allow_pickle=False)
    before = held_bytes()
    ann.set_threads(THREADS)
    index = ann.AnnIndex.open(path)
    tried = []
    for step in [effort, *(one for one in index.efforts() if one > effort)]:
        began = time.perf_counter()
        found, _ = index.search(queries, 64, step)
        seconds = time.perf_counter() - began
        # Each query is a row itself, and stands first in both.
        right = [len(np.intersect1d(ours, best[1:16])) / 15 for ours, best in zip(found, exact, strict=True)]
        tried.append(
            {"effort": step, "recall": round(float(np.mean(right)), 4), "batch_a_second": round(1_000 / seconds)}
        )
        if tried[-1]["recall"] >= 0.97:
            break
    single = []
    for row in range(200):
        began = time.perf_counter()
        index.search(queries[row : row + 1], 64, tried[-1]["effort"])
        single.append(time.perf_counter() - began)
    facts = {
        "tried": tried,
        "recall_at_15": tried[-1]["recall"],
        "single_ms": round(1000 * median_of(single), 2),
        "resident_gb": round((held_bytes() - before) / 1e9, 2),
    }
    sys.stdout.write(orjson.dumps(facts).decode())
    for suffix in (".queries.npy", ".exact.npy"):
        path.with_suffix(suffix).unlink()


PARTS: dict[str, Callable[[Places, int], None]] = {
    "text": bench_text,
    "build": bench_build,
    "search": bench_search,
    "dialog": bench_dialog,
}


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("part", nargs="?", choices=[*PARTS, "large", "serve-large"])
    parser.add_argument("--data", type=Path, default=ROOT.parent / "shared" / "data")
    parser.add_argument("--home", type=Path, default=ROOT / "refaug-data" / "bench")
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--rows", type=int, default=16_000_000, help="of `large`")
    parser.add_argument("--index", default=None, help="of `large` and `build`: the kind of index, by FAISS's name")
    parser.add_argument("--effort", type=int, default=1)
    given = parser.parse_args()
    if given.part == "serve-large":
        serve_large(given.effort)
        return
    places = prepared(given.data, given.home)
    if places is None:
        return
    if given.part == "large":
        bench_large(places, given.rows, given.index)
    elif given.part == "build":
        bench_build(places, given.runs, given.index)
    elif given.part:
        PARTS[given.part](places, given.runs)
    else:
        for part in PARTS:  # each in a process of its own, so that none finds another's memory
            options_given = ["--data", str(given.data), "--home", str(given.home), "--runs", str(given.runs)]
            subprocess.run([sys.executable, __file__, part, *options_given], check=True)


if __name__ == "__main__":
    main()
