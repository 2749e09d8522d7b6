"""What a build costs as it grows: CPU seconds of every stage and bytes.

    python bench/bench_cluster.py --home FOLDER [--pairs 300000 1000000 2000000 10000000]

The pairs are synthetic, made with a seed. Their words follow Zipf's law in two regimes, set so that as many distinct
words occur in 2.5 and in 77 million as in the two logs that the plan of one machine estimates by (35 and 262 thousand);
their lengths follow a log-normal law with a mean of 13 words; a part of them are phrases that occur again and again. So
distinct words, utterances and pairs grow with the log as they do in dialogue. Every build is a process with one thread.
"""

from __future__ import annotations

import argparse
import resource
import shutil
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import orjson
import pyarrow as pa
import pyarrow.compute as pc
from common import run_and_watch, write_result
from numpy.typing import NDArray

from refaug.core.artefacts.build_stages import Stages
from refaug.core.progress import Silent
from refaug.core.vectors.word_vectors import WordVectors
from refaug.indexer.building.build import build_index
from refaug.indexer.building.order import IndexOrder
from refaug.indexer.building.plan import Limits, demand_of
from refaug.indexer.index_folders import Places
from refaug.logs.manifest import LogManifest
from refaug.logs.pairs import PAIR_SCHEMA, text_key
from refaug.logs.part_files import PartsWriter

WORDS = 3_000_000  # that can occur
BEND, STEEP = 300, 1.75  # Zipf's exponent is 1 down to this rank, and this beyond
LENGTH, SPREAD, LONGEST = 13.0, 0.75, 200  # of a text in words: mean and standard deviation of the logarithm
PHRASES, PHRASE_SHARE = 200_000, 0.25  # short texts that come again, and how many of all texts they are
DIALOGUE = 4  # pairs
BATCH = 100_000  # pairs made at once
WITH_VECTOR, DIMENSIONS = 30_000, 100
MEMORY = 2 << 30
RECALL = 0.5
SEED = 1

Numbers = NDArray[np.int64]


@cache
def word_shares() -> NDArray[np.float64]:
    """Return how many of all words are among the first, by rank."""
    ranks = np.arange(1, WORDS + 1)
    shares = 1 / (ranks + 2.7)
    shares[BEND:] *= (BEND / ranks[BEND:]) ** (STEEP - 1)
    return np.cumsum(shares / shares.sum())


@cache
def words() -> pa.StringArray:
    """Return the words by rank: one syllable for the most frequent, four for the rarest."""
    syllables = [c + v for c in "bdfghjklmnprstvwzcxy" for v in "aeiou"]

    def word(rank: int) -> str:
        text = syllables[rank % 100]
        while rank >= 100:
            rank = rank // 100 - 1
            text = syllables[rank % 100] + text
        return text

    return pa.array([word(rank) for rank in range(WORDS)], pa.string())


def texts_of(rng: np.random.Generator, lengths: Numbers) -> pa.StringArray:
    """Return texts of so many words, drawn by their shares."""
    drawn = np.minimum(np.searchsorted(word_shares(), rng.random(int(lengths.sum()))), WORDS - 1)
    offsets = np.concatenate([[0], np.cumsum(lengths)]).astype(np.int32)
    taken = words().take(pa.array(drawn.astype(np.int32)))
    return pc.binary_join(pa.ListArray.from_arrays(pa.array(offsets), taken), " ")


@cache
def phrases() -> pa.StringArray:
    rng = np.random.default_rng(SEED)
    return texts_of(rng, rng.integers(1, 6, PHRASES))


def draw_texts(rng: np.random.Generator, count: int) -> pa.StringArray:
    """Return so many texts, some of which are phrases that other pairs have, too."""
    mean = np.log(LENGTH) - SPREAD**2 / 2
    lengths = np.clip(np.rint(rng.lognormal(mean, SPREAD, count)), 1, LONGEST).astype(np.int64)
    ranks = np.minimum(np.exp(rng.random(count) * np.log(PHRASES)).astype(np.int64), PHRASES) - 1  # Zipf's law
    again = rng.random(count) < PHRASE_SHARE
    both = pa.concat_arrays([texts_of(rng, lengths), phrases()])
    return both.take(pa.array(np.where(again, count + ranks, np.arange(count))))


def batches(pairs: int) -> Iterator[pa.RecordBatch]:
    """Yield the pairs of a log; a smaller log is the beginning of a larger one."""
    for number in range(-(-pairs // BATCH)):
        rng, count = np.random.default_rng((SEED, number)), min(BATCH, pairs - number * BATCH)
        utterances, responses = (draw_texts(rng, BATCH).slice(0, count) for _ in range(2))
        places = np.arange(number * BATCH, number * BATCH + count)
        columns = {
            "dialogue": pa.array([f"d{place // DIALOGUE:09d}" for place in places]),
            "position": pa.array((places % DIALOGUE + 1).astype(str)),
            "utterance": utterances,
            "response": responses,
            "utterance_key": pa.array([text_key(text) for text in utterances.to_pylist()], pa.uint64()),
            "response_key": pa.array([text_key(text) for text in responses.to_pylist()], pa.uint64()),
        }
        empty = {field.name: pa.nulls(count, field.type) for field in PAIR_SCHEMA if field.name not in columns}
        yield pa.RecordBatch.from_pydict({**empty, **columns}, schema=PAIR_SCHEMA)


def prepare(home: Path, pairs: int) -> None:
    """Make the log of so many pairs and the word vectors, unless they are there."""
    places, name = Places.under(home), f"synthetic-{pairs}"
    if not (places.logs / name / "manifest.json").exists():
        shutil.rmtree(places.logs / name, ignore_errors=True)
        (places.logs / name).mkdir(parents=True)
        writer, utterances, both = PartsWriter(places.logs / name, "pairs", first=1, part_bytes=256 << 20), [], []
        for batch in batches(pairs):
            writer.add(batch)
            keys = [batch[column].to_numpy() for column in ("utterance_key", "response_key")]
            utterances.append(keys[0])
            both.append(keys[0] * np.uint64(0x9E3779B97F4A7C15) ^ keys[1])
        totals = {
            "pairs": pairs,
            "distinct_pairs": len(np.unique(np.concatenate(both))),
            "distinct_utterances": len(np.unique(np.concatenate(utterances))),
        }
        LogManifest(name=name, created="", updated="", parts=tuple(writer.close()), totals=totals).write(
            places.logs / name
        )
    if not (places.vectors.root / "synthetic").exists():
        matrix = np.random.default_rng(SEED).standard_normal((WITH_VECTOR, DIMENSIONS)).astype(np.float32)
        staged = home / "staged-vectors"
        WordVectors(words=words()[:WITH_VECTOR].to_pylist(), matrix=matrix, stem="synthetic").save(staged)
        places.vectors.publish("synthetic", places.vectors.add("synthetic", staged))


def build(home: Path, pairs: int, shards: int) -> None:
    """Build the index of a log in this process, and print the CPU seconds of every stage, its sizes and its bytes."""
    seconds, run = dict[str, float](), Stages.run

    def timed(self: Stages, stage: str, work: Callable[[], Mapping[str, Any]]) -> dict[str, Any]:
        began = time.process_time()
        facts = run(self, stage, work)
        name = stage.partition("-")[0]
        seconds[name] = seconds.get(name, 0.0) + time.process_time() - began
        return facts

    Stages.run = timed  # type: ignore[method-assign]
    places, log = Places.under(home), f"synthetic-{pairs}"
    order = IndexOrder(
        name=f"cluster-{pairs}-{shards}",
        logs=(log,),
        vectors="synthetic",
        tokenizer="word",
        limits=Limits(recall=RECALL),
        shards=shards,
        memory=MEMORY,
    )
    began, wall = time.process_time(), time.perf_counter()
    built = build_index(places, order, Silent(), again=True)
    total = time.process_time() - began
    manifest, names = built.manifest, [info.folder for info in built.manifest.main_segments]
    folder = places.indexes.folder(built.name, built.version)
    tokens = sum(
        len(np.load(folder / name / f"{texts}_tokens.npy", mmap_mode="r"))
        for name in names
        for texts in ("utterance", "response")
    )
    demand = demand_of(places, [log], vectors="synthetic", encoder=None)
    facts = {
        "pairs_read": pairs,
        "shards": shards,
        "cpu_seconds": round(total, 2),
        "wall_seconds": round(time.perf_counter() - wall, 1),
        "stages": {name: round(spent, 2) for name, spent in seconds.items()}
        | {"rest": round(total - sum(seconds.values()), 2)},
        "peak_mb": round(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e3),
        "utterances": manifest.utterances,
        "pairs": manifest.pairs,
        "occurrences": sum(info.occurrences for info in manifest.segments),
        "extra_words": sum(info.extra_words for info in manifest.segments),
        "tokens": tokens,
        "text_bytes": sum(
            (folder / name / file).stat().st_size for name in names for file in ("utterances.arrow", "pairs.arrow")
        ),
        "estimated": {"tokens": demand.tokens, "text_bytes": demand.text_bytes, "extra_words": demand.extra_words},
        "factory": manifest.segments[0].factory,
        "recall": None if manifest.check is None else manifest.check.recall,
        "bytes": sum(file["size"] for file in manifest.files.values()),
        "planned_bytes": manifest.plan["disk"],
    }
    sys.stdout.write(orjson.dumps(facts).decode())


def main() -> None:
    """Measure every size and write the result."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--home", type=Path, required=True)
    parser.add_argument("--pairs", type=int, nargs="+", default=[300_000, 1_000_000, 2_000_000, 10_000_000])
    parser.add_argument("--shards", type=int, default=1)
    parser.add_argument("--build", type=int)
    settings = parser.parse_args()
    if settings.build:
        build(settings.home, settings.build, settings.shards)
        return
    rows = []
    for pairs in settings.pairs:
        saved = settings.home / f"row-{pairs}-{settings.shards}.json"
        prepare(settings.home, pairs)
        if not saved.exists():
            command = [sys.executable, __file__, "--home", str(settings.home), "--build", str(pairs)]
            run = run_and_watch([*command, "--shards", str(settings.shards)], every_s=1.0)
            saved.write_text(run.output)
        rows.append(orjson.loads(saved.read_bytes()))
    figures = {
        "dimensions": DIMENSIONS,
        "recall": RECALL,
        "memory": MEMORY,
        "rows": rows,
    }
    write_result("cluster", figures, ("faiss-cpu", "numpy", "numba", "pyarrow", "duckdb"))


if __name__ == "__main__":
    main()
