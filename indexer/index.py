"""An index version, opened: what holds it, what it needs, and searching it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from itertools import chain, pairwise
from pathlib import Path
from types import TracebackType
from typing import Final, Self

import numpy as np

from core.artefacts import require_files
from core.encoders import Encoder, EncoderConfig, open_encoder
from core.errors import Conflict, Corrupt
from core.files import read_json
from core.holding import Held
from core.records import Reference, TestPair
from core.text import Tokenizer
from indexer.arrays import map_array
from indexer.likeness import EncoderLikeness, Likeness, WordVectorLikeness
from indexer.likeness_bm25 import Bm25Likeness
from indexer.manifest import MANIFEST, IndexManifest
from indexer.places import Places, hold_vectors
from indexer.queries import MOST, Queries, SearchSettings, prepare
from indexer.search import Retrieved, excluded_of, find, references_of
from indexer.segments import EXTRA_WORDS, Segment, open_segment
from indexer.sentence_vectors import WordWeights
from indexer.tokenizers import kept_tokenizer
from indexer.vocabulary import Vocabulary

_LEAST_AT_ONCE: Final = 32  # test pairs that are worth a thread of their own
_WORTH_PARTING: Final = 128  # test pairs; of fewer, threads cost twice the work and save no time
_MOST_AT_ONCE: Final = 250  # so that one part's texts are read while another is looked for


def _borders(pairs: int, threads: int) -> list[int]:
    """Where parts of test pairs begin, and the end.

    The first ones are of different lengths, so that not all threads come at once to the work for which there is only
    one lock, Python's.
    """
    size = max(_LEAST_AT_ONCE, min(_MOST_AT_ONCE, -(-pairs // threads)))
    borders = [0]
    while borders[-1] < pairs:
        started = len(borders) if pairs > threads * size else threads
        borders.append(min(pairs, borders[-1] + max(_LEAST_AT_ONCE, size * min(started, threads) // threads)))
    return borders


@dataclass(frozen=True, eq=False, kw_only=True)
class Sources:
    """What gives texts their vectors: words, or an encoder."""

    weights: WordWeights | None
    encoder: Encoder | None
    held: Held | None


@dataclass(frozen=True, eq=False, kw_only=True)
class ReferenceIndex:
    """One version of an index, held against removal until it is closed; it may be asked from several threads."""

    name: str
    version: str
    manifest: IndexManifest
    segments: tuple[Segment, ...]
    vocabulary: Vocabulary
    sources: Sources
    held: Held | None
    threads: int = 1

    @classmethod
    def open(cls, places: Places, spec: str, *, threads: int = 1) -> Self:
        """Open `name` or `name@version`; sizes are checked, hashes only on demand."""
        held = places.indexes.open(spec)
        try:
            require_files(held.folder, read_json(held.folder / MANIFEST))
            opened = cls.of_folder(places, held.folder, held.name, held.version, threads=threads)
        except BaseException:
            held.close()
            raise
        return replace(opened, held=held)

    @classmethod
    def of_folder(cls, places: Places, folder: Path, name: str, version: str, *, threads: int = 1) -> Self:
        """Open what lies in a folder, which may be no version yet."""
        manifest = IndexManifest.read(folder)
        tokenizer = tokenizer_of(manifest, folder)
        sources, words = open_sources(places, manifest, threads)
        try:
            return cls._of_sources(folder, manifest, tokenizer, sources, words, name, version, threads)
        except BaseException:
            if sources.held is not None:
                sources.held.close()
            raise

    @classmethod
    def _of_sources(
        cls,
        folder: Path,
        manifest: IndexManifest,
        tokenizer: Tokenizer,
        sources: Sources,
        words: Sequence[str],
        name: str,
        version: str,
        threads: int,
    ) -> Self:
        vocabulary = Vocabulary(words, tokenizer)
        for info in manifest.segments:
            vocabulary.extend(map_array(folder / info.folder / EXTRA_WORDS, np.uint64))
        segments = tuple(open_segment(folder, number, info) for number, info in enumerate(manifest.segments))
        _require_dimensions(folder, segments, manifest)
        return cls(
            name=name,
            version=version,
            manifest=manifest,
            segments=segments,
            vocabulary=vocabulary,
            sources=sources,
            held=None,
            threads=threads,
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, _kind: type[BaseException] | None, _error: BaseException | None, _at: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Let the version and its vectors go."""
        for held in (self.held, self.sources.held):
            if held is not None:
                held.close()

    @property
    def spec(self) -> str:
        """What signatures call it."""
        return f"{self.name}@{self.version}#{self.manifest.id[:12]}"

    @property
    def logs(self) -> list[str]:
        """The logs in it."""
        return [log.name for log in self.manifest.logs]

    def search(self, pairs: Sequence[TestPair], settings: SearchSettings | None = None) -> list[Retrieved]:
        """The references of each test pair, in the order given; equal test pairs get equal references, in any batch."""
        settings = settings or SearchSettings()
        if self.threads == 1 or len(pairs) < _WORTH_PARTING or self.sources.encoder is not None:
            return self._found(pairs, settings, self.threads)  # an encoder has threads of its own
        borders = _borders(len(pairs), self.threads)
        with ThreadPoolExecutor(self.threads) as pool:
            parts = pool.map(lambda part: self._found(pairs[slice(*part)], settings, 1), pairwise(borders))
            return list(chain.from_iterable(parts))

    def _found(self, pairs: Sequence[TestPair], settings: SearchSettings, threads: int) -> list[Retrieved]:
        """Some test pairs from text to references; nothing but FAISS and BM25 takes several threads here."""
        if not pairs:
            return []
        queries = prepare(pairs, self.vocabulary)
        likeness = self.likeness(pairs, queries, settings, threads)
        found = find(self.segments, likeness, queries, settings, self.logs)
        references = references_of(self.segments, found, self.logs, f"{self.name}@{self.version}")
        return [
            Retrieved(
                references=references[query],
                excluded=excluded_of(found, query) if able else {},
                note="" if able else _why_not(queries, query, settings),
            )
            for query, able in enumerate(likeness.able.tolist())
        ]

    def neighbours(self, text: str, settings: SearchSettings | None = None) -> Iterator[Reference]:
        """The responses of ever less similar utterances, without end until the index has no more, at most MOST."""
        settings = settings or SearchSettings()
        given, wanted = 0, max(16, settings.k)
        pair = TestPair(id="neighbours", turns=(text,))
        while given < wanted:
            depth = None if settings.depth is None else max(settings.depth, wanted)
            found = self.search([pair], replace(settings, k=wanted, depth=depth))[0].references
            yield from found[given:]
            if len(found) < wanted:
                return
            given, wanted = len(found), min(MOST, 4 * wanted)

    def likeness(
        self, pairs: Sequence[TestPair], queries: Queries, settings: SearchSettings, threads: int = 1
    ) -> Likeness:
        """The way of comparing that a mode stands for, for these test pairs."""
        if settings.is_bm25:
            return Bm25Likeness.of(self.segments[0], queries, dialog=settings.is_dialog, threads=threads)
        if self.sources.weights is not None:
            return WordVectorLikeness.of(self.sources.weights, queries, dialog=settings.is_dialog, threads=threads)
        assert self.sources.encoder is not None
        return EncoderLikeness.of(self.sources.encoder, [pair.utterance or "" for pair in pairs], threads)


def _why_not(queries: Queries, query: int, settings: SearchSettings) -> str:
    """Why nothing could be looked for."""
    if not queries.has_utterance[query]:
        return "no_utterance"
    if settings.is_dialog and not queries.has_gold[query]:
        return "no_gold"
    return "no_known_word"


def tokenizer_of(manifest: IndexManifest, folder: Path) -> Tokenizer:
    """The index's tokenizer, as it was when the index was built."""
    tokenizer = kept_tokenizer(manifest.tokenizer, folder)
    if tokenizer.version != manifest.tokenizer_version:
        raise Conflict(
            f"the index was built with the tokenizer {manifest.tokenizer} of {manifest.tokenizer_version}; "
            f"here it is that of {tokenizer.version}",
            remedy="install the versions of the lock, or build the index again",
        )
    return tokenizer


def open_sources(places: Places, manifest: IndexManifest, threads: int) -> tuple[Sources, Sequence[str]]:
    """The vectors that an index names, and the words that have one."""
    source = manifest.vectors
    if source.kind == "encoder":
        encoder = open_encoder(Path(source.path), EncoderConfig(threads=threads))
        if encoder.name != source.name:
            raise Conflict(
                f"the index was built with the encoder {source.name}; {source.path} holds {encoder.name}",
                remedy="put that encoder back, or build the index again",
            )
        return Sources(weights=None, encoder=encoder, held=None), []
    held, vectors = hold_vectors(places.vectors, source)
    return Sources(weights=WordWeights.of(vectors, manifest.sentence), encoder=None, held=held), vectors.words


def _require_dimensions(folder: Path, segments: Sequence[Segment], manifest: IndexManifest) -> None:
    for segment in segments:
        ann, wanted = segment.ann, manifest.vectors.dimensions
        if ann is not None and not wanted <= ann.dimensions < wanted + 8:  # stored in whole eights
            raise Corrupt(
                f"{folder / segment.info.folder}: vectors of {ann.dimensions} dimensions, the manifest says {wanted}",
                remedy="restore it from a backup, or build the index again",
            )
        if ann is not None and ann.size != len(segment.vector_rows):
            raise Corrupt(
                f"{folder / segment.info.folder}: {ann.size} vectors of {len(segment.vector_rows)} utterances",
                remedy="restore it from a backup, or build the index again",
            )
