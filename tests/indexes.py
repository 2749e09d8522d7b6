"""Indexes for tests: a home with logs and word vectors made out of lists, and an index built from them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from itertools import groupby
from pathlib import Path

import numpy as np
import pyarrow as pa
from plain_search import RawPair

from refaug.core.progress import Progress, Silent
from refaug.core.text.normalisation import normalise
from refaug.core.vectors.word_vectors import WordVectors
from refaug.indexer.building.build import build_index
from refaug.indexer.building.order import IndexOrder
from refaug.indexer.building.plan import Limits
from refaug.indexer.index_folders import Places
from refaug.indexer.search.index import ReferenceIndex
from refaug.logs.manifest import LogManifest, part_name
from refaug.logs.pairs import PAIR_SCHEMA, text_key
from refaug.logs.part_files import PartWriter
from refaug.logs.store import StoredLog

Words = Mapping[str, Sequence[float]]


def add_to_log(places: Places, name: str, pairs: Sequence[RawPair]) -> None:
    """Write a further part of a log, or the first one."""
    folder = places.logs / name
    folder.mkdir(parents=True, exist_ok=True)
    before = StoredLog.open(places.logs, name).manifest.parts if (folder / "manifest.json").exists() else ()
    writer = PartWriter(folder / part_name(len(before) + 1))
    writer.add(pa.RecordBatch.from_pylist([_row(pair) for pair in pairs], schema=PAIR_SCHEMA))
    LogManifest(name=name, created="", updated="", parts=(*before, writer.close())).write(folder)


def _row(pair: RawPair) -> dict[str, object]:
    return {
        "dialogue": pair.dialogue,
        "position": pair.position,
        "utterance": pair.utterance,
        "response": pair.response,
        "response_speaker": pair.speaker,
        "time": pair.time,
        "utterance_key": text_key(normalise(pair.utterance)),
        "response_key": text_key(normalise(pair.response)),
    }


def add_vectors(places: Places, name: str, words: Words, details: Mapping[str, object] | None = None) -> str:
    """Publish word vectors; the name of their version."""
    matrix = np.array(list(words.values()), np.float32)
    staged = places.vectors.root.parent / f"staged-{name}"
    WordVectors(words=list(words), matrix=matrix, stem=name).save(staged, details)
    version = places.vectors.add(name, staged)
    places.vectors.publish(name, version)
    return version


def home_of(folder: Path, pairs: Iterable[RawPair], words: Words) -> Places:
    """A home with the logs that the pairs name, and word vectors called `glove`."""
    places = Places.under(folder)
    for name, some in groupby(sorted(pairs, key=lambda pair: pair.log), key=lambda pair: pair.log):
        add_to_log(places, name, list(some))
    add_vectors(places, "glove", words)
    return places


def build(
    places: Places, name: str = "chat", *, factory: str = "Flat", progress: Progress | None = None, **order: object
) -> str:
    """Build an index of all logs there are, to be searched through and through; its version."""
    settings = {
        "logs": tuple(sorted(path.name for path in places.logs.iterdir() if path.is_dir())),
        "vectors": "glove",
        "tokenizer": "word",
        "limits": Limits(factory=factory, recall=1.0),
        "check_queries": 0,
        "least_coverage": 0.0,
    }
    index_order = IndexOrder(name=name, **{**settings, **order})
    return build_index(places, index_order, progress or Silent(), again=True).version


def built(places: Places, name: str = "chat", *, threads: int = 1, **order: object) -> ReferenceIndex:
    """Build an index and open it."""
    version = build(places, name, threads=threads, **order)
    return ReferenceIndex.open(places, f"{name}@{version}", threads=threads)


def pairs_of(*texts: tuple[str, str], log: str = "chat") -> list[RawPair]:
    """Pairs of an utterance and a response, each in a dialogue of its own: d1, d2, …"""
    return [RawPair(log, f"d{number}", "1", *pair) for number, pair in enumerate(texts, start=1)]
