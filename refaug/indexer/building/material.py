"""The inputs of an index, opened: logs, a tokenizer, and word vectors or an encoder."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from refaug.core.artefacts.version_locks import HeldVersion
from refaug.core.errors import BadInput, NotFound, SourceChanged
from refaug.core.files import read_json
from refaug.core.progress import Progress
from refaug.core.text.tokenizer_base import Tokenizer
from refaug.core.text.tokenizers import get_tokenizer
from refaug.core.vectors.encoders import Encoder
from refaug.core.vectors.word_vectors import MANIFEST as VECTORS_MANIFEST
from refaug.core.vectors.word_vectors import WordVectors
from refaug.indexer.building.order import IndexOrder
from refaug.indexer.building.segment_files import EncoderBlocks, VectorBlocks, WordVectorBlocks, places_of
from refaug.indexer.index_folders import Places, encoder_source, hold_encoder, hold_vectors, open_vectors_version
from refaug.indexer.manifest import IndexManifest, LogState, VectorSource
from refaug.indexer.search.search_tables import Rows
from refaug.indexer.search.segments import Segment
from refaug.indexer.search.similarity import EncoderLikeness, Likeness, WordVectorLikeness
from refaug.indexer.tokens import Vocabulary, default_tokenizer_for, load_tokenizer
from refaug.indexer.vectors.sentence_vectors import SentenceSettings, WordWeights, query_vectors
from refaug.logs.manifest import LogManifest
from refaug.logs.store import StoredLog, list_logs


@dataclass(frozen=True, eq=False, kw_only=True)
class Material:
    """The inputs of a build or an update."""

    logs: tuple[StoredLog, ...]  # by name
    tokenizer: Tokenizer
    source: VectorSource
    words: Sequence[str]  # those with a vector
    weights: WordWeights | None
    encoder: Encoder | None
    threads: int

    def vocabulary(self) -> Vocabulary:
        """Return a vocabulary of the words with a vector; words of the logs are added as they occur."""
        return Vocabulary(self.words, self.tokenizer)

    def blocks(self, folder: Path) -> VectorBlocks:
        """Return the vectors of a segment's utterances."""
        return EncoderBlocks(folder) if self.weights is None else WordVectorBlocks(folder, self.weights, self.threads)

    def likeness(self, segments: Sequence[Segment], positions: Rows) -> Likeness:
        """Return the similarity of utterances, numbered through all these segments, as if they were test utterances."""
        vectors, able = np.zeros((len(positions), self.source.dimensions)), np.zeros(len(positions), np.bool_)
        numbers, rows = places_of(positions, [segment.utterance_count for segment in segments])
        for number, segment in enumerate(segments):
            here = numbers == number
            vectors[here], able[here] = self._query_vectors(segment, rows[here])
        if self.weights is None:
            return EncoderLikeness(vectors=vectors, able=able, threads=self.threads)
        return WordVectorLikeness(
            weights=self.weights, vectors=vectors, gold_vectors=vectors[:0], able=able, threads=self.threads
        )

    def _query_vectors(self, segment: Segment, rows: Rows) -> tuple[NDArray[np.float64], NDArray[np.bool_]]:
        if self.weights is None:
            assert segment.exact is not None
            return segment.exact[rows].astype(np.float64), np.ones(len(rows), np.bool_)
        starts = segment.utterance_token_start
        lengths = starts[rows + 1] - starts[rows]
        offsets = np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64)
        places = np.repeat(starts[rows] - offsets[:-1], lengths) + np.arange(offsets[-1])
        return query_vectors(self.weights, segment.utterance_tokens[places], offsets)

    def states(self) -> tuple[LogState, ...]:
        """Return the states of the logs."""
        return tuple(
            LogState(
                name=log.manifest.name,
                pairs=sum(part.pairs for part in log.manifest.parts),
                parts={part.file: part.sha256 for part in log.manifest.parts},
                removed=log.manifest.removed.get("pairs", 0),
            )
            for log in self.logs
        )

    def fingerprint(self) -> Mapping[str, Any]:
        """Return what identifies these inputs."""
        return {
            "logs": {log.manifest.name: [part.sha256 for part in log.manifest.parts] for log in self.logs},
            "tokenizer": [self.tokenizer.name, self.tokenizer.version],
            "vectors": self.source.sha256,
        }

    def require_unchanged(self, places: Places) -> None:
        """Raise SourceChanged if a log has lost pairs while the index was built."""
        for log in self.logs:
            current_parts = {part.sha256 for part in open_log(places, log.manifest.name).manifest.parts}
            if not {part.sha256 for part in log.manifest.parts} <= current_parts:
                raise SourceChanged(
                    f"log {log.manifest.name} has lost pairs while the index was built; nothing was published",
                    remedy="run the same command again: it builds from the log as it is now",
                )


def open_log(places: Places, name: str) -> StoredLog:
    """Open a log of an existing index; after it was deleted whole, it has no pairs."""
    try:
        return StoredLog.open(places.logs, name)
    except NotFound:
        return StoredLog(places.logs / name, LogManifest.new(name))


def warn_of_gone_logs(places: Places, manifest: IndexManifest, progress: Progress) -> None:
    """Name the logs that were deleted whole since the version was made; NotFound where no log is left."""
    existing = list_logs(places.logs)
    gone = [log for log in manifest.logs if log.name not in existing]
    if len(gone) == len(manifest.logs):
        raise NotFound(
            f"index {manifest.name} is of log {', '.join(log.name for log in gone)}, of which nothing is in "
            f"{places.logs}",
            remedy=f"remove the index, with all texts in it: refaug artefacts remove index {manifest.name}",
        )
    for log in gone:
        if log.pairs:
            progress.warn(f"log {log.name} was deleted: its {log.pairs:,} pairs leave index {manifest.name}")


def _logs(places: Places, names: Sequence[str]) -> tuple[StoredLog, ...]:
    return tuple(open_log(places, name) for name in sorted(names))


def _logs_with_pairs(places: Places, names: Sequence[str]) -> tuple[StoredLog, ...]:
    logs = tuple(StoredLog.open(places.logs, name) for name in sorted(names))
    empty = next((log.manifest.name for log in logs if not any(part.pairs for part in log.manifest.parts)), None)
    if empty is not None:
        raise BadInput(f"log {empty} has no pairs", remedy="refaug log ingest some dialogues into it, or leave it out")
    return logs


@contextmanager
def open_material(places: Places, order: IndexOrder, *, of_existing: bool = False) -> Iterator[Material]:
    """Open the inputs of a build and hold the vectors until the block ends."""
    logs = _logs(places, order.logs) if of_existing else _logs_with_pairs(places, order.logs)
    if order.encoder is not None:
        source = encoder_source(places, order.encoder, threads=order.threads)
        held_encoder, encoder = hold_encoder(places, source, threads=order.threads)
        tokenizer = get_tokenizer(order.tokenizer or default_tokenizer_for(logs))
        with held_encoder or nullcontext():
            yield _material(logs, tokenizer, source, None, None, encoder, order.threads)
        return
    assert order.vectors is not None
    with _open_vectors(places, order.vectors) as held:
        vectors = open_vectors_version(held)
        source = VectorSource(
            kind="words",
            name=f"{held.name}@{held.version}",
            sha256=vectors.sha256,
            dimensions=vectors.dimensions,
        )
        tokenizer = (
            get_tokenizer(order.tokenizer)
            if order.tokenizer
            else _tokenizer_of_vectors(held) or get_tokenizer(default_tokenizer_for(logs))
        )
        yield _material(logs, tokenizer, source, vectors, order.sentence, None, order.threads)


def _open_vectors(places: Places, spec: str) -> HeldVersion:
    """Open the word vectors of that name; NotFound names the command that makes them."""
    try:
        return places.vectors.open(spec)
    except NotFound as error:
        raise NotFound(error.message, remedy=f"{error.remedy}; or refaug train vectors LOG --name {spec}") from error


@contextmanager
def reopen_material(places: Places, manifest: IndexManifest, folder: Path, threads: int) -> Iterator[Material]:
    """Open the inputs of an index version again, with the logs as they are now."""
    logs = _logs(places, [log.name for log in manifest.logs])
    tokenizer = load_tokenizer(manifest.tokenizer, folder)
    if manifest.vectors.kind == "encoder":
        held_encoder, encoder = hold_encoder(places, manifest.vectors, threads=threads)
        with held_encoder or nullcontext():
            yield _material(logs, tokenizer, manifest.vectors, None, None, encoder, threads)
        return
    held, vectors = hold_vectors(places.vectors, manifest.vectors)
    with held:
        yield _material(logs, tokenizer, manifest.vectors, vectors, manifest.sentence, None, threads)


def _tokenizer_of_vectors(held: HeldVersion) -> Tokenizer | None:
    """Return the tokenizer that the vectors were trained with, if the manifest names it."""
    name = read_json(held.folder / VECTORS_MANIFEST).get("details", {}).get("tokenizer")  # type: ignore[attr-defined]
    return load_tokenizer(str(name), held.folder) if name else None


def _material(
    logs: tuple[StoredLog, ...],
    tokenizer: Tokenizer,
    source: VectorSource,
    vectors: WordVectors | None,
    sentence: SentenceSettings | None,
    encoder: Encoder | None,
    threads: int,
) -> Material:
    return Material(
        logs=logs,
        tokenizer=tokenizer,
        source=source,
        words=[] if vectors is None else vectors.words,
        weights=None if vectors is None or sentence is None else WordWeights.of(vectors, sentence),
        encoder=encoder,
        threads=threads,
    )
