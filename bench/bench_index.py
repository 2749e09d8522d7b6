"""How fast an index is beside exact search, its build beside the bare calls of FAISS, and whether the plan holds.

    python bench/bench_index.py --data FOLDER        all parts but `large`
    python bench/bench_index.py text --data FOLDER   texts to unit sentence vectors, beside gensim's loop
    python bench/bench_index.py build --data FOLDER  a build end to end, beside training, adding and writing alone; of
                                                     another kind with --index
    python bench/bench_index.py search --data FOLDER searching at a recall of .98, beside exact search and FAISS alone
    python bench/bench_index.py dialog --data FOLDER what the dialog modes lose by looking at some candidates only
    python bench/bench_index.py large --data FOLDER  16 million vectors: plan, recall, memory while serving

Results go to bench/results/index_<part>.json. The log is `logs/medium_en.jsonl.gz` of `--data`, ingested into `--home`
once, with vectors trained on it; without it nothing is measured. Every part runs in a separate process.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import numpy as np
from common import ROOT, add_data_option, median, require_data, write_result
from index_large import PACKAGES, THREADS, bench_large, held_bytes, median_of, serve_large

from refaug.core.progress import Silent
from refaug.core.records import Item, Reference
from refaug.core.text.tokenizers import get_tokenizer
from refaug.core.vectors.word_vectors import open_word_vectors
from refaug.indexer.building.build import build_index
from refaug.indexer.building.order import IndexOrder
from refaug.indexer.building.plan import Limits
from refaug.indexer.building.segment_files import WordVectorBlocks
from refaug.indexer.index_folders import Places
from refaug.indexer.nearest.faiss_calls import set_threads
from refaug.indexer.nearest.index_builder import ITERATIONS, POINTS_A_LIST, AnnBuilder
from refaug.indexer.search.exact_check import check_index
from refaug.indexer.search.index import ReferenceIndex
from refaug.indexer.search.search_settings import SearchSettings
from refaug.indexer.tokens import Vocabulary
from refaug.indexer.vectors.sentence_vectors import SentenceSettings, WordWeights, embed
from refaug.logs.store import StoredLog, list_logs

LOG = "medium"
REFAUG = [str(ROOT / ".venv" / "bin" / "refaug")]


def time_runs(work: Callable[[], Any], runs: int) -> tuple[list[float], Any]:
    """Return the seconds of each run, and the result of the last one."""
    seconds, returned = [], None
    for _ in range(runs):
        began = time.perf_counter()
        returned = work()
        seconds.append(time.perf_counter() - began)
    return seconds, returned


def prepare_home(data_folder: Path, home: Path) -> Places | None:
    """Return a home with the log and its vectors, made once; None where the log is not there."""
    places = Places.under(home)
    if LOG not in list_logs(places.logs):
        source = data_folder / "logs" / "medium_en.jsonl.gz"
        if not source.exists():
            print(f"skipped: {source} is not there; give the folder with --data")
            return None
        refaug = [*REFAUG, "--home", str(home)]
        subprocess.run([*refaug, "log", "ingest", str(source), "--log", LOG, "--language", "en"], check=True)
    if LOG not in places.vectors.names():
        subprocess.run([*REFAUG, "--home", str(home), "train", "vectors", LOG], check=True)
    return places


def ensure_index(places: Places, *, name: str = LOG, factory: str | None = None) -> None:
    """Build an index of the log that finds .98, if it is not there."""
    if name not in places.indexes.names():
        build_index(places, order(name, factory), Silent())


def order(name: str = LOG, factory: str | None = None) -> IndexOrder:
    return IndexOrder(name=name, logs=(LOG,), vectors=LOG, limits=Limits(recall=0.98, factory=factory), threads=THREADS)


def planned_memory_held() -> int:
    """Return the memory that the plan counts: what is no file's, and resident pages of word and utterance vectors.

    Texts and tables are mapped too; the plan lists them apart.
    """
    held_memory, counted_field = 0, "Anonymous:"
    for line in Path("/proc/self/smaps").read_text().splitlines():
        first, *rest = line.split(maxsplit=5)
        if not first.endswith(":"):  # a mapping begins
            path = Path(rest[4] if len(rest) == 5 else "")
            of_vectors = path.name.startswith(("vectors.faiss", "quick")) or "vectors" in path.parts
            counted_field = "Rss:" if of_vectors else "Anonymous:"
        elif first == counted_field:
            held_memory += int(rest[0]) << 10
    return held_memory


# ── text to vectors ───────────────────────────────────────────────────────────────────────────────────────────────────


def bench_text(places: Places, runs: int, count: int = 100_000) -> None:
    """Measure one thread each, on the same texts, words and settings."""
    from gensim.models import KeyedVectors  # noqa: PLC0415  not in every part

    texts = []
    for batch in StoredLog.open(places.logs, LOG).batches(["utterance"]):
        texts += batch["utterance"].to_pylist()
        if len(texts) >= count:
            break
    texts = texts[:count]
    tokenizer = get_tokenizer("word")
    with places.vectors.open(LOG) as open_version:
        vectors = open_word_vectors(open_version.folder)
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

        ours()  # compiles
        coded, tokens = vocabulary.code(texts), [tokenizer.tokenize(text) for text in texts]
        seconds = {
            "ours": time_runs(ours, runs)[0],
            "ours_averaging": time_runs(lambda: embed(weights, coded.codes, coded.offsets), runs)[0],
            "gensim": (of_gensim := time_runs(theirs, max(1, runs // 2)))[0],
            "gensim_averaging": time_runs(lambda: gensim_loop(tokens), max(1, runs // 2))[0],
        }
        known_places = [place for place, one in enumerate(tokens) if any(word in keyed.key_to_index for word in one)]
        difference = float(
            np.abs(ours()[known_places] - np.stack([of_gensim[1][place] for place in known_places])).max()
        )
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


# ── building ──────────────────────────────────────────────────────────────────────────────────────────────────────────


def bench_build(places: Places, runs: int, factory: str | None = None) -> None:
    """Measure everything from the log to the published version, beside the bare calls on existing vectors."""
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
    """Time FAISS called by hand: trained on as many vectors, all of this index's added at once, written."""
    import faiss  # noqa: PLC0415  not in every part

    with ReferenceIndex.open(places, name) as index, places.indexes.open(name) as open_version:
        weights = index.sources.weights
        assert weights is not None
        blocks = WordVectorBlocks(open_version.folder / index.manifest.segments[0].folder, weights, THREADS)
        vectors = np.concatenate([block[known] for _, block, known in blocks.blocks()])
    training_rows = AnnBuilder.training_rows(factory, len(vectors))
    sample = vectors[np.sort(np.random.default_rng(1).permutation(len(vectors))[:training_rows])]
    faiss.omp_set_num_threads(THREADS)
    target = places.cache / "bare.faiss"
    began = time.perf_counter()
    metric = faiss.METRIC_L2 if factory.startswith("PCA") else faiss.METRIC_INNER_PRODUCT
    bare = faiss.index_factory(vectors.shape[1], factory, metric)
    if "IVF" in factory:
        lists = faiss.extract_index_ivf(bare)
        lists.cp.niter, lists.cp.max_points_per_centroid = ITERATIONS, POINTS_A_LIST
    bare.train(sample)
    bare.add(vectors)
    faiss.write_index(bare, str(target))
    seconds = time.perf_counter() - began
    target.unlink()
    return seconds


# ── searching ─────────────────────────────────────────────────────────────────────────────────────────────────────────


def bench_search(places: Places, runs: int) -> None:
    """Measure single test pairs and batches of a thousand, with everything on top of FAISS, beside exact search."""
    import faiss  # noqa: PLC0415  not in every part

    figures: dict[str, Any] = {}
    ensure_index(places)
    with ReferenceIndex.open(places, LOG, threads=THREADS) as index, places.indexes.open(LOG) as open_version:
        pairs = _sample_pairs(index, 1_000)
        queries = _vectors(index, pairs)
        assert index.sources.weights is not None
        blocks = WordVectorBlocks(open_version.folder / "segments/0", index.sources.weights, THREADS)
        flat = faiss.IndexFlatIP(blocks.dimensions)
        for _, block, has_vector in blocks.blocks():
            flat.add(block[has_vector])
    faiss.omp_set_num_threads(THREADS)
    exact_single = [time_runs(lambda row=row: flat.search(queries[row : row + 1], 15), 1)[0][0] for row in range(20)]
    exact_batch = time_runs(lambda: flat.search(queries, 15), runs)[0]
    flat.reset()  # frees its memory
    kinds = {"default": None, "half": "IVF4096,SQfp16", "bits": "IVF4096,RaBitQfs"}
    for kind, factory in kinds.items():
        name = f"{LOG}-{kind}" if factory else LOG
        ensure_index(places, name=name, factory=factory)
        figures[kind] = _measure(places, name, runs, median_of(exact_single), median_of(exact_batch))
    write_result(
        "index_search",
        {
            "threads": THREADS,
            "exact_single_ms": round(1000 * median_of(exact_single), 1),
            "exact_batch_a_second": round(len(pairs) / median_of(exact_batch)),
            **figures,
        },
        PACKAGES,
    )


def _vectors(index: ReferenceIndex, pairs: list[Item]) -> Any:
    likeness: Any = index.terms(pairs, SearchSettings())[0]
    return likeness.vectors.astype(np.float32)


def _measure(places: Places, name: str, runs: int, exact_single: float, exact_batch: float) -> dict[str, Any]:
    before, planned_before = (held_bytes(), held_bytes(own=True)), planned_memory_held()
    settings = SearchSettings()
    with ReferenceIndex.open(places, name, threads=THREADS) as index:
        segment, info, check = index.segments[0], index.manifest.segments[0], index.manifest.check
        assert check is not None
        assert segment.ann is not None
        pairs = _sample_pairs(index, 1_000)
        index.search(pairs, settings)  # compiles and reads
        opened, planned_for = (held_bytes(), held_bytes(own=True)), planned_memory_held() - planned_before
        single = [time_runs(lambda one=one: index.search([one], settings), 1)[0][0] for one in pairs[:300]]
        batch = time_runs(lambda: index.search(pairs, settings), 2 * runs)[0]
        queries, depth = _vectors(index, pairs), info.depth
        set_threads(THREADS)
        alone = [
            time_runs(lambda row=row: segment.ann.search(queries[row : row + 1], depth, info.effort), 1)[0][0]
            for row in range(300)
        ]
        alone_batch = time_runs(lambda: segment.ann.search(queries, depth, info.effort), 2 * runs)[0]
        single_threaded = replace(index, threads=1)
        one_batch = time_runs(lambda: single_threaded.search(pairs, settings), 2 * runs)[0]
        one_alone = time_runs(lambda: segment.ann.search(queries, depth, info.effort, threads=1), 2 * runs)[0]
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


def _sample_pairs(index: ReferenceIndex, count: int) -> list[Item]:
    """Return pairs of the log as test pairs, in a seeded order."""
    segment = index.segments[0]
    rows = np.random.default_rng(7).permutation(len(segment.tables.response_key))[:count].astype(np.int64)
    utterances = np.searchsorted(segment.tables.pair_start, rows, side="right") - 1
    return [
        Item(id=str(place), turns=(utterance or "",), references=(Reference(text=response or ""),))
        for place, (utterance, response) in enumerate(
            zip(segment.utterances.take(utterances), segment.responses.take(rows), strict=True)
        )
    ]


def bench_dialog(places: Places, _runs: int) -> None:
    """Measure recall and lost similarity of the dialog modes by candidate depth, over 100 pairs of the log."""
    ensure_index(places)
    figures: dict[str, Any] = {}
    with ReferenceIndex.open(places, LOG, threads=THREADS) as index:
        for mode, depths in (("embedding-dialog", (100, 1_000, 10_000)), ("bm25-dialog", (100, 1_000))):
            for depth in depths:
                settings = SearchSettings(mode=mode, depth=depth)  # type: ignore[arg-type]
                compared = check_index(index, settings, queries=100, seed=1, progress=Silent())
                pairs = _sample_pairs(index, 50)
                seconds = time_runs(lambda settings=settings, pairs=pairs: index.search(pairs, settings), 1)[0][0]
                figures[f"{mode}_{depth}"] = {**asdict(compared), "ms_a_pair": round(1000 * seconds / len(pairs), 2)}
    write_result("index_dialog", {"modes": figures}, PACKAGES)


PARTS: dict[str, Callable[[Places, int], None]] = {
    "text": bench_text,
    "build": bench_build,
    "search": bench_search,
    "dialog": bench_dialog,
}


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("part", nargs="?", choices=[*PARTS, "large", "serve-large"])
    add_data_option(parser)
    parser.add_argument("--home", type=Path, default=ROOT / "refaug-data" / "bench")
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--rows", type=int, default=16_000_000, help="of `large`")
    parser.add_argument("--index", default=None, help="of `large` and `build`: the kind of index, by FAISS's name")
    parser.add_argument("--effort", type=int, default=1)
    arguments = parser.parse_args()
    if arguments.part == "serve-large":
        serve_large(arguments.effort)
        return
    data_folder = require_data(parser, arguments.data)
    places = prepare_home(data_folder, arguments.home)
    if places is None:
        return
    if arguments.part == "large":
        ensure_index(places)
        bench_large(places, LOG, arguments.rows, arguments.index)
    elif arguments.part == "build":
        bench_build(places, arguments.runs, arguments.index)
    elif arguments.part:
        PARTS[arguments.part](places, arguments.runs)
    else:
        for part in PARTS:  # each in a separate process, so that their memory is separate
            options_given = ["--data", str(data_folder), "--home", str(arguments.home), "--runs", str(arguments.runs)]
            subprocess.run([sys.executable, __file__, part, *options_given], check=True)


if __name__ == "__main__":
    main()
