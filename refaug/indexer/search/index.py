"""An opened index version: its files, the vectors it needs, and searching it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import dataclass, replace
from itertools import chain, pairwise
from pathlib import Path, PurePath
from types import TracebackType
from typing import Final, Protocol, Self

import numpy as np

from refaug.core.artefacts.manifests import named_files, require_files
from refaug.core.artefacts.verified_files import verified_files
from refaug.core.artefacts.version_locks import HeldVersion
from refaug.core.errors import Conflict, Corrupt, Usage
from refaug.core.files import read_json
from refaug.core.records import Item, Reference
from refaug.core.text.tokenizer_base import Tokenizer
from refaug.core.vectors.encoders import Encoder
from refaug.indexer.bm25.index import Bm25Index
from refaug.indexer.index_folders import Places, hold_encoder, hold_vectors
from refaug.indexer.manifest import MANIFEST, IndexManifest
from refaug.indexer.search import searched_segments
from refaug.indexer.search.queries import code_texts, first_golds, golds_of, tables_of
from refaug.indexer.search.search import (
    excluded_of,
    exclusion_counts,
    find,
    fuse,
    references_of,
)
from refaug.indexer.search.search_settings import FUSED, Mode, SearchSettings
from refaug.indexer.search.search_tables import QueryTables
from refaug.indexer.search.segments import BM25, EXTRA_WORDS, VECTORS, Segment, open_segment, require_sound, word_hashes
from refaug.indexer.search.similarity import Bm25Likeness, EncoderLikeness, Likeness, WordVectorLikeness
from refaug.indexer.tokens import Vocabulary, load_tokenizer
from refaug.indexer.vectors.sentence_vectors import WordWeights

_LEAST_AT_ONCE: Final = 32  # test pairs that justify a thread
_LEAST_TO_SPLIT: Final = 128  # test pairs; with fewer, threads cost twice the CPU time and save no time
_MOST_AT_ONCE: Final = 250  # so that one part's texts are read while another part is searched


def _split_points(pairs: int, threads: int) -> list[int]:
    """Return where parts of test pairs begin, and the end.

    The first parts differ in length, so that not all threads reach the work under Python's lock at the same time.
    """
    size = max(_LEAST_AT_ONCE, min(_MOST_AT_ONCE, -(-pairs // threads)))
    borders = [0]
    while borders[-1] < pairs:
        started = len(borders) if pairs > threads * size else threads
        borders.append(min(pairs, borders[-1] + max(_LEAST_AT_ONCE, size * min(started, threads) // threads)))
    return borders


@dataclass(frozen=True, eq=False, kw_only=True)
class Sources:
    """The source of texts' vectors: word vectors or an encoder."""

    weights: WordWeights | None
    encoder: Encoder | None
    held: HeldVersion | None


@dataclass(frozen=True, kw_only=True)
class ShardSource:
    """What a fleet opens: a version in a folder, with its vectors."""

    spec: str  # name@version
    folder: Path
    manifest: IndexManifest
    vectors: Path | None  # the folder of its word vectors
    weights: WordWeights | None
    words: int


class OpenFleet(Protocol):
    """The segments of one version that are open on a cluster, as searches ask them."""

    def segments(
        self, likeness: Likeness, tables: QueryTables, settings: SearchSettings, without: Sequence[str] = ()
    ) -> searched_segments.SearchedSegments:
        """Return the segments for one search, without the shards of these names."""

    def utterance(self, number: int) -> str | None:
        """Return the text of one of all utterances, numbered through the segments; None of a superseded one."""

    def first_pair(self) -> Item:
        """Return a pair of the index, by which a search warms up."""

    def close(self) -> None:
        """End them, where they were opened for this search alone."""


class FleetOpener(Protocol):
    """Opens the shards of a version, or finds them open."""

    def open(self, source: ShardSource) -> OpenFleet:
        """Return the shards of this version."""


@dataclass(frozen=True, eq=False, kw_only=True)
class ReferenceIndex:
    """One version of an index, held against removal until it is closed; several threads may search it."""

    name: str
    version: str
    manifest: IndexManifest
    segments: tuple[Segment, ...]  # none where they are open on a cluster
    bm25: Bm25Index | None  # of the main segment, with the statistics of all
    vocabulary: Vocabulary
    sources: Sources
    held: HeldVersion | None
    threads: int = 1
    fleet: OpenFleet | None = None  # the segments, where they are open on a cluster

    @classmethod
    def open(cls, places: Places, spec: str, *, threads: int = 1, hashed: bool = False) -> Self:
        """Open `name` or `name@version`; sizes and numbers are checked, and with `hashed` every file's hash.

        The hashes of FAISS's files are always compared, since its reader trusts what is in them.
        """
        held = places.indexes.open(spec)
        try:
            manifest_path = held.folder / MANIFEST
            content = read_json(manifest_path)
            require_files(held.folder, content)
            faiss_files = {
                file.name for file in named_files(content, manifest_path) if PurePath(file.name).name == VECTORS
            }
            verified_files.require(held.folder, content, None if hashed else faiss_files)
            opened = cls.of_folder(places, held.folder, held.name, held.version, threads=threads, hashed=hashed)
        except BaseException:
            held.close()
            raise
        return replace(opened, held=held)

    @classmethod
    def open_on(cls, places: Places, spec: str, hosts: FleetOpener, *, threads: int = 1) -> Self:
        """Open a version whose segments are searched on a cluster; this process embeds, and merges the results.

        It compares the hashes of the files that it reads itself, and the processes of the cluster those of theirs.
        """
        held = places.indexes.open(spec)
        with ExitStack() as failing:
            failing.callback(held.close)
            content = read_json(held.folder / MANIFEST)
            require_files(held.folder, content)
            manifest = IndexManifest.read(held.folder)
            own = {
                file.name for file in named_files(content, held.folder / MANIFEST) if _is_read_here(file.name, manifest)
            }
            verified_files.require(held.folder, content, own)
            tokenizer = tokenizer_of(manifest, held.folder)
            sources, words = open_sources(places, manifest, threads, hashed=True)
            if sources.held is not None:
                failing.callback(sources.held.close)
            vocabulary = _vocabulary(words, tokenizer, held.folder, manifest)
            bm25 = held.folder / manifest.segments[0].folder / BM25
            fleet = hosts.open(
                ShardSource(
                    spec=f"{held.name}@{held.version}",
                    folder=held.folder,
                    manifest=manifest,
                    vectors=None if sources.held is None or sources.weights is None else sources.held.folder,
                    weights=sources.weights,
                    words=len(vocabulary),
                )
            )
            failing.pop_all()
        return cls(
            name=held.name,
            version=held.version,
            manifest=manifest,
            segments=(),
            bm25=Bm25Index.open(bm25) if bm25.exists() else None,
            vocabulary=vocabulary,
            sources=sources,
            held=held,
            threads=threads,
            fleet=fleet,
        )

    @classmethod
    def of_folder(
        cls, places: Places, folder: Path, name: str, version: str, *, threads: int = 1, hashed: bool = False
    ) -> Self:
        """Open an index in a folder, which need not be a version yet."""
        manifest = IndexManifest.read(folder)
        tokenizer = tokenizer_of(manifest, folder)
        sources, words = open_sources(places, manifest, threads, hashed=hashed)
        with ExitStack() as failing:
            if sources.held is not None:
                failing.callback(sources.held.close)
            vocabulary = _vocabulary(words, tokenizer, folder, manifest)
            segments = tuple(open_segment(folder, number, info) for number, info in enumerate(manifest.segments))
            _require_dimensions(folder, segments, manifest)
            sizes = {"words": len(vocabulary), "logs": len(manifest.logs), "dimensions": manifest.vectors.dimensions}
            for number, segment in enumerate(segments):
                require_sound(folder, number, segment, **sizes)
            failing.pop_all()
        return cls(
            name=name,
            version=version,
            manifest=manifest,
            segments=segments,
            bm25=segments[0].bm25,
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
        """Release the version and its vectors, and end its processes on a cluster."""
        if self.fleet is not None:
            self.fleet.close()
        for held in (self.held, self.sources.held):
            if held is not None:
                held.close()

    def is_read_here(self, folder: Path, name: str) -> bool:
        """Return whether this process reads a file of the index or of its vectors."""
        is_own = self.held is not None and folder == self.held.folder
        return self.fleet is None or not is_own or _is_read_here(name, self.manifest)

    def first_pair(self) -> Item:
        """Return the first pair of the index, by which a search warms up."""
        return searched_segments.first_pair_of(self.segments[0]) if self.fleet is None else self.fleet.first_pair()

    @property
    def spec(self) -> str:
        """The name of this index in signatures."""
        return f"{self.name}@{self.version}#{self.manifest.id[:12]}"

    @property
    def logs(self) -> list[str]:
        """The names of its logs."""
        return [log.name for log in self.manifest.logs]

    def search(self, pairs: Sequence[Item], settings: SearchSettings | None = None, *, excluded: int = 0) -> list[Item]:
        """Return each test pair with the references that are found for it, in the order given.

        Its `search_notes` have the numbers of pairs that were `excluded`, by reason, a `note` that says why nothing was
        searched for, as many `excluded_references` as are asked for by `excluded`, and the `missing_shards` of a
        cluster, where these were allowed. Equal test pairs get equal references in any batch.
        """
        settings = settings or SearchSettings()
        if settings.is_fused:
            return self._search_fused(pairs, settings, excluded)
        if self.threads == 1 or len(pairs) < _LEAST_TO_SPLIT or self.sources.encoder is not None:
            return self._search_part(pairs, settings, self.threads, excluded)  # an encoder starts threads itself
        borders = _split_points(len(pairs), self.threads)
        with ThreadPoolExecutor(self.threads) as pool:
            parts = pool.map(
                lambda part: self._search_part(pairs[slice(*part)], settings, 1, excluded), pairwise(borders)
            )
            return list(chain.from_iterable(parts))

    def _search_fused(self, pairs: Sequence[Item], settings: SearchSettings, excluded: int) -> list[Item]:
        """Search by vectors and by words, and add up the reciprocal ranks."""
        by_vectors: Mode = "embedding-utterance" if self.sources.encoder is None else "encoder-utterance"
        depth = None if settings.depth is None else max(settings.depth, FUSED)
        of_vectors = self.search(pairs, replace(settings, k=FUSED, mode=by_vectors, depth=depth), excluded=excluded)
        of_words = self.search(pairs, replace(settings, k=FUSED, mode="bm25-utterance", depth=depth), excluded=excluded)
        return [fuse(one, other, settings.k) for one, other in zip(of_vectors, of_words, strict=True)]

    def _search_part(
        self, pairs: Sequence[Item], settings: SearchSettings, threads: int, most_excluded: int
    ) -> list[Item]:
        """Search for some test pairs; only FAISS and BM25 use several threads here."""
        if not pairs:
            return []
        (likeness, tables), missing = self.terms(pairs, settings, threads), tuple[str, ...]()
        while True:
            try:
                segments: searched_segments.SearchedSegments
                if self.fleet is None:
                    segments = searched_segments.LocalSegments(self.segments, likeness, tables, settings)
                else:
                    segments = self.fleet.segments(likeness, tables, settings, missing)
                ranked = find(segments, likeness, len(pairs), settings)
                sources = (segments, ranked, self.logs, f"{self.name}@{self.version}")
                references = references_of(*sources)
                excluded = excluded_of(*sources, most_excluded) if most_excluded else [()] * len(pairs)
                break
            except searched_segments.ShardsMissing as error:  # on a cluster
                if settings.partial == "refuse":
                    raise
                missing = tuple(sorted({*missing, *error.shards}))
        found = list[Item]()
        for query, (pair, able) in enumerate(zip(pairs, likeness.able.tolist(), strict=True)):
            notes = {
                "excluded": exclusion_counts(ranked, query) if able else {},
                "note": "" if able else _reason_for_none(pair, settings),
                "excluded_references": [
                    {"text": reference.text, "similarity": reference.similarity, **reference.origin}
                    for reference in (excluded[query] if able else ())
                ],
                "missing_shards": list(missing),
            }
            notes = {name: note for name, note in notes.items() if note}
            found.append(replace(pair, references=references[query], search_notes=notes))
        return found

    def draw_utterance(self, number: int) -> str:
        """Return one of the utterances that are not superseded; the same number draws the same one."""
        if not self.manifest.utterances:
            raise LookupError("the index has no utterance")
        places, count = np.random.default_rng(number), sum(info.utterances for info in self.manifest.segments)
        while (text := self._utterance(int(places.integers(count)))) is None:
            pass
        return text

    def _utterance(self, place: int) -> str | None:
        if self.fleet is not None:
            return self.fleet.utterance(place)
        for segment in self.segments:
            if place < segment.utterance_count:
                return segment.utterance(place)
            place -= segment.utterance_count
        raise LookupError("the index has no such utterance")

    def neighbours(self, text: str, settings: SearchSettings | None = None) -> Iterator[Reference]:
        """Yield the responses of less and less similar utterances until there are no more, at most MAX_REFERENCES."""
        settings = settings or SearchSettings()
        yielded, limit = 0, min(settings.most_references, max(16, settings.k))
        pair = Item(id="neighbours", turns=(text,))
        while yielded < limit:
            depth = None if settings.depth is None else max(settings.depth, limit)
            references = self.search([pair], replace(settings, k=limit, depth=depth))[0].references
            yield from references[yielded:]
            if len(references) < limit:
                return
            if limit == settings.most_references:
                return
            yielded, limit = len(references), min(settings.most_references, 4 * limit)

    def terms(self, pairs: Sequence[Item], settings: SearchSettings, threads: int = 1) -> tuple[Likeness, QueryTables]:
        """Return what these test pairs are compared by, and what is excluded for them."""
        if settings.is_encoder and self.sources.encoder is None:
            logs = " ".join(self.logs)
            raise Usage(
                f"index {self.name} has no encodings: build it with "
                f"`refaug index build {logs} --name {self.name} --encoder NAME`",
                remedy="or use another mode",
                field="mode",
            )
        texts, golds = [pair.utterance or "" for pair in pairs], [golds_of(pair) for pair in pairs]
        utterances, coded_golds = code_texts(texts, golds, self.vocabulary)
        tables = tables_of(pairs, golds, utterances, coded_golds, settings, self.logs)
        first = first_golds(coded_golds, tables.gold_start)
        likeness: Likeness
        if settings.is_bm25:
            likeness = Bm25Likeness.of(self.bm25, utterances, first, dialog=settings.is_dialog, threads=threads)
        elif self.sources.weights is not None:
            used = first if settings.is_dialog else None
            likeness = WordVectorLikeness.of(self.sources.weights, utterances, used, threads)
        else:
            assert self.sources.encoder is not None
            likeness = EncoderLikeness.of(self.sources.encoder, texts, threads)
        return likeness, tables


def _is_read_here(name: str, manifest: IndexManifest) -> bool:
    """Return whether the process that embeds reads a file of an index whose segments lie on a cluster."""
    bm25 = f"{manifest.segments[0].folder}/{BM25}/"
    is_statistic = name.startswith(bm25) and PurePath(name).name.startswith(("texts.", "responses.", "params."))
    return is_statistic or PurePath(name).name == EXTRA_WORDS or "/" not in name or name.startswith("tokenizer/")


def _reason_for_none(pair: Item, settings: SearchSettings) -> str:
    """Return why a test pair could not be searched for."""
    if not (pair.utterance or "").strip():
        return "no_utterance"
    if settings.is_dialog and not golds_of(pair):
        return "no_gold"
    return "no_known_word"


def tokenizer_of(manifest: IndexManifest, folder: Path) -> Tokenizer:
    """Return the index's tokenizer if it is the version that the index was built with."""
    tokenizer = load_tokenizer(manifest.tokenizer, folder)
    if tokenizer.version != manifest.tokenizer_version:
        raise Conflict(
            f"the index was built with the tokenizer {manifest.tokenizer} of {manifest.tokenizer_version}; "
            f"here it is that of {tokenizer.version}",
            remedy="install the versions of the lock, or build the index again",
        )
    return tokenizer


def open_sources(
    places: Places, manifest: IndexManifest, threads: int, *, hashed: bool = False
) -> tuple[Sources, Sequence[str]]:
    """Open the vectors that an index names; return them with the words that have one."""
    source = manifest.vectors
    if source.kind == "encoder":
        held_encoder, encoder = hold_encoder(places, source, threads=threads, hashed=hashed)
        return Sources(weights=None, encoder=encoder, held=held_encoder), []
    held, vectors = hold_vectors(places.vectors, source, hashed=hashed)
    return Sources(weights=WordWeights.of(vectors, manifest.sentence), encoder=None, held=held), vectors.words


def _vocabulary(words: Sequence[str], tokenizer: Tokenizer, folder: Path, manifest: IndexManifest) -> Vocabulary:
    """Return the words of the vectors, and behind them those of the segments."""
    vocabulary = Vocabulary(words, tokenizer)
    for hashes in word_hashes(folder, manifest):
        vocabulary.extend(hashes)
    return vocabulary


def _require_dimensions(folder: Path, segments: Sequence[Segment], manifest: IndexManifest) -> None:
    for segment in segments:
        ann, dimensions = segment.ann, manifest.vectors.dimensions
        if ann is not None and not dimensions <= ann.dimensions < dimensions + 8:  # stored in multiples of eight
            raise Corrupt(
                f"{folder / segment.info.folder}: vectors of {ann.dimensions} dimensions, "
                f"the manifest says {dimensions}",
                remedy="restore it from a backup, or build the index again",
            )
        if ann is not None and ann.size != len(segment.vector_rows):
            raise Corrupt(
                f"{folder / segment.info.folder}: {ann.size} vectors of {len(segment.vector_rows)} utterances",
                remedy="restore it from a backup, or build the index again",
            )
