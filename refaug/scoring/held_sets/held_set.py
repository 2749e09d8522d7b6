"""A frozen set in memory: its items as compressed lines, and the references of all items prepared for each metric."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple, overload

import numpy as np
import zstandard
from numpy.typing import NDArray

from refaug.core.errors import NotFound, TooLarge, Withdrawn
from refaug.core.memory import BoundedCache, MemoryCounter
from refaug.core.processes.kept import cached_property
from refaug.core.progress import Progress
from refaug.core.records import Item, Origin
from refaug.metrics.base import Floats, Indexes, Metric, Prepared, Problem, References
from refaug.metrics.costs import lengths_of
from refaug.metrics.signature import Signature
from refaug.scoring.cases import (
    NO_REPLY,
    Reply,
    evidence_of,
    is_thin,
    other_golds,
    problem_of,
    references_for,
    require_sources,
    score_prepared,
    score_replies,
)
from refaug.scoring.copies import UtteranceTable, UtteranceTableBuilder
from refaug.scoring.evaluate import signature_of
from refaug.scoring.metric_setup.metric_requests import default_metric_of, metrics_of, pinned_metric
from refaug.scoring.metric_setup.model_registry import ModelRegistry
from refaug.scoring.metric_setup.scoring_steps import bound_metrics
from refaug.scoring.reference_sets.reference_set import ReferenceSet, SetManifest
from refaug.scoring.reference_sets.set_scores import require_b
from refaug.scoring.reference_sets.set_store import ReferenceSets
from refaug.scoring.spooled_items.item_collection import DataDigest, ReferencesDigest

# ── A metric bound to a frozen set, with the references of all items prepared block by block ──────────────────────────

MIB: Final = 1 << 20
UNKNOWN_ITEM: Final = Problem("unknown_item", "the set has no item of this id")
BLOCK: Final = 4_096  # items whose references are prepared together: keeps the working memory small


class Block(NamedTuple):
    """The prepared references of some items of a set, and the problems of those that cannot be scored."""

    prepared: Prepared
    problems: Mapping[int, Problem]  # by place in the block


@dataclass(frozen=True, kw_only=True, eq=False)
class HeldMetric:
    """A metric bound to a whole set, with the prepared references of all its items.

    One that asks models has no blocks: each request binds it to its own replies.
    """

    metric: Metric
    signature: Signature
    references: str  # a hash of the references and weights that the metric looks at
    blocks: Sequence[Block]
    lengths: Floats  # of the references of each item of the set

    def score_replies(
        self, replies: Sequence[str | None], places: Sequence[int], progress: Progress | None = None
    ) -> tuple[Floats, dict[int, Problem]]:
        """Score the i-th reply against the references of the item at the i-th place; −1 is an unknown item."""
        if len(self.blocks) == 1 and not self.blocks[0].problems and min(places, default=0) >= 0:
            texts = [reply for reply in replies if reply is not None]
            if len(texts) == len(replies):
                return self._score_block(0, texts, np.array(places, dtype=np.int64), progress)
        statistics = np.full((len(replies), len(self.metric.columns)), np.nan)
        problems, rows_of = dict[int, Problem](), dict[int, list[int]]()
        for row, (reply, place) in enumerate(zip(replies, places, strict=True)):
            if (problem := self._problem(reply, place)) is not None:
                problems[row] = problem
            else:
                rows_of.setdefault(place // BLOCK, []).append(row)
        for number, rows in rows_of.items():
            texts = [text for row in rows if (text := replies[row]) is not None]
            statistics[rows], unscored = self._score_block(
                number, texts, np.array([places[row] for row in rows], np.int64), progress
            )
            problems |= {rows[at]: problem for at, problem in unscored.items()}
        return statistics, dict(sorted(problems.items()))

    def _score_block(
        self, number: int, replies: Sequence[str], places: Indexes, progress: Progress | None
    ) -> tuple[Floats, dict[int, Problem]]:
        prepared, first = self.blocks[number].prepared, number * BLOCK
        lengths = self.lengths[:, first : first + prepared.items]
        return score_prepared(self.metric, prepared, lengths, replies, places - first, progress)

    def _problem(self, reply: str | None, place: int) -> Problem | None:
        if place < 0:
            return UNKNOWN_ITEM
        return NO_REPLY if reply is None else self.blocks[place // BLOCK].problems.get(place % BLOCK)


@dataclass(frozen=True, kw_only=True, eq=False)
class AskedMetric:
    """A metric that asks models, bound to them and to the replies of one request."""

    metric: Metric
    signature: Signature
    references: str  # as those of the held metric
    replies: Sequence[Reply]
    chosen: Sequence[References | Problem]  # by reply

    def score_replies(
        self, replies: Sequence[str | None], places: Sequence[int], progress: Progress | None = None
    ) -> tuple[Floats, dict[int, Problem]]:
        """Score the replies of the request, which the metric is bound to."""
        assert len(replies) == len(places) == len(self.replies), "the metric is bound to these replies"
        return score_replies(self.metric, self.replies, self.chosen, progress)


def references_of(metric: Metric, set_item: Item) -> References | Problem:
    """Return what a metric looks at in an item."""
    return references_for(metric, set_item.references, set_item.turns)


# ── A frozen set in memory: its items as compressed lines, and the references of all items prepared for each metric ───

_PIECE: Final = 64  # items whose lines are compressed together: reading one item unpacks few others
_LEVEL: Final = 3  # of compression: items are packed seldom and unpacked rarely
_ENTRY: Final = 224  # bytes of an id, its place, lengths, and their part of a list and a table, roughly
_MOST_SPECIFICATIONS: Final = 1_000  # specifications, and refused metrics, that a set remembers
_NO_REFERENCES: Final = References((), (), -1)  # in place of an item with a problem


@dataclass(frozen=True, kw_only=True, eq=False)
class SetFacts:
    """Facts about a set that are collected when it is read."""

    data: str  # a hash of its items and golds
    sources: Mapping[Origin, int]  # the number of references by source
    blank: int  # the number of empty references
    other_golds: int  # the number of golds with another weight than 1
    thin: NDArray[np.bool_]  # (items,): whether few references have a positive weight
    utterances: UtteranceTable  # tells which replies copy them
    lengths: Floats  # of the references of each item


@dataclass(frozen=True, kw_only=True, eq=False)
class SetContent:
    """The items of a set: ids, facts, and their lines, compressed in pieces."""

    ids: Sequence[str]
    pieces: Sequence[bytes]
    facts: SetFacts

    @classmethod
    def read(cls, frozen_set: ReferenceSet, most_bytes: int) -> SetContent:
        """Read a set to its end, which also verifies it; TooLarge as soon as it does not fit."""
        ids, pieces, lines = list[str](), list[bytes](), list[bytes]()
        digest, sources, thin, blank, other_gold_count = DataDigest(), Counter[Origin](), list[bool](), 0, 0
        texts = list[list[str]]()  # of the references of the next piece
        size, utterances, lengths = 0, UtteranceTableBuilder(), list[Floats]()
        for number, line in enumerate(frozen_set.lines(), start=1):
            set_item = frozen_set.item_of(line, number)
            digest.add(set_item)
            sources.update(reference.source for reference in set_item.references)
            blank += sum(not reference.text.strip() for reference in set_item.references)
            other_gold_count += other_golds(set_item)
            thin.append(is_thin(set_item))
            utterances.add(set_item)
            texts.append([reference.text for reference in set_item.references])
            ids.append(set_item.id)
            lines.append(line)
            if len(lines) == _PIECE or number == frozen_set.manifest.items:
                pieces.append(_pack(lines))
                size, lines = size + len(pieces[-1]) + _ENTRY * len(lines), []
                lengths.append(lengths_of(texts, counts_words=True))
                texts = []
            if size + utterances.bytes > most_bytes:
                raise does_not_fit(f"the set {frozen_set.id}", most_bytes)
        facts = SetFacts(
            data=digest.name,
            sources=dict(sources),
            blank=blank,
            other_golds=other_gold_count,
            thin=np.array(thin, dtype=np.bool_),
            utterances=UtteranceTable(**utterances.columns()),
            lengths=np.hstack(lengths),
        )
        return cls(ids=ids, pieces=pieces, facts=facts)


def _pack(lines: Sequence[bytes]) -> bytes:
    """Compress lines into one piece; the copy frees the spare room that the library reserves."""
    return bytes(memoryview(zstandard.compress(b"\n".join(lines), _LEVEL)))


class _WholeSet(Sequence[References]):
    """What a metric looks at in all items of a set, read only when a metric needs it, which most do not."""

    def __init__(self, held: HeldSet, metric: Metric) -> None:
        self._held, self._metric = held, metric

    def __iter__(self) -> Iterator[References]:
        chosen = (references_of(self._metric, item) for item in self._held.items())
        return (references for references in chosen if isinstance(references, References))

    @cached_property
    def _places(self) -> list[int]:
        """The places of the items that have references for the metric."""
        chosen = (references_of(self._metric, item) for item in self._held.items())
        return [place for place, references in enumerate(chosen) if isinstance(references, References)]

    def __len__(self) -> int:
        return len(self._places)

    @overload
    def __getitem__(self, at: int) -> References: ...
    @overload
    def __getitem__(self, at: slice) -> list[References]: ...
    def __getitem__(self, at: int | slice) -> References | list[References]:
        if isinstance(at, slice):
            return [self[number] for number in range(*at.indices(len(self)))]
        references = references_of(self._metric, self._held.item(self._places[at]))
        assert isinstance(references, References), "only such places are listed"
        return references


class HeldSet:
    """A frozen set in memory, ready to be scored against by any metric; all threads may share it."""

    def __init__(
        self,
        frozen_set: ReferenceSet,
        content: SetContent,
        models: ModelRegistry,
        most_bytes: int,
        note_use: Callable[[HeldSet, str, int], None],
    ) -> None:
        self._stored, self._pieces, self._most_bytes, self._note_use = frozen_set, content.pieces, most_bytes, note_use
        self._models = models
        self.manifest: SetManifest = frozen_set.manifest
        self.ids = content.ids
        self.facts = content.facts
        self.places: Mapping[str, int] = {name: place for place, name in enumerate(self.ids)}
        self.bytes = sum(map(len, self._pieces)) + _ENTRY * len(self.ids) + content.facts.utterances.bytes
        self._ready = dict[str, tuple[HeldMetric, int]]()  # by full signature, with the bytes that the metric takes
        self._keys = BoundedCache[tuple[str, str | None], str](_MOST_SPECIFICATIONS)  # full signatures
        self._refused = BoundedCache[str, bool](
            _MOST_SPECIFICATIONS
        )  # metrics that do not fit: they are not tried again
        self._preparing = threading.Lock()

    @classmethod
    def read(
        cls,
        frozen_set: ReferenceSet,
        models: ModelRegistry,
        most_bytes: int,
        note_use: Callable[[HeldSet, str, int], None],
    ) -> HeldSet:
        """Read a set into memory; `note_use` is called at every use of a metric, with the size of the metric."""
        return cls(frozen_set, SetContent.read(frozen_set, most_bytes), models, most_bytes, note_use)

    def as_json(self) -> dict[str, object]:
        """Return the description of the set in answers."""
        return {"id": self.manifest.id, "purpose": self.manifest.purpose.value, "items": len(self.ids)}

    def position(self, name: str) -> int:
        """Return the place of an item in the set's order."""
        if name not in self.places:
            raise NotFound(f"the set {self.manifest.id} has no item {name!r}")
        return self.places[name]

    # ── items ─────────────────────────────────────────────────────────────────────────────────────────────────────

    def item(self, place: int) -> Item:
        """Return the item at a place."""
        line = zstandard.decompress(self._pieces[place // _PIECE]).split(b"\n")[place % _PIECE]
        return self._stored.item_of(line, place + 1)

    def items(self) -> Iterator[Item]:
        """Yield all items in order."""
        for number, piece in enumerate(self._pieces):
            for at, line in enumerate(zstandard.decompress(piece).split(b"\n"), start=1):
                yield self._stored.item_of(line, number * _PIECE + at)

    def evidence(self, places: Sequence[int]) -> dict[str, dict[str, object]]:
        """Return the references that weighted scores of some items rest on."""
        return {self.ids[place]: evidence_of(self.item(place)) for place in places}

    # ── metrics ───────────────────────────────────────────────────────────────────────────────────────────────────

    def metrics(self, specifications: Sequence[str], language: str | None = None) -> list[HeldMetric]:
        """Return the metrics of the specifications, each once; without any, the default metric of the references."""
        texts = specifications or (default_metric_of(self.facts.sources),)
        held_metrics = [self._metric(text, language) for text in texts]
        return list(dict.fromkeys(held_metrics))

    def forget(self, key: str) -> None:
        """Drop a prepared metric; requests that are using it go on."""
        self._ready.pop(key, None)

    def _metric(self, text: str, language: str | None) -> HeldMetric:
        key = self._keys.get((text, language)) or ""
        ready = self._ready.get(key)
        if ready is None:
            pinned = pinned_metric(self._models, text)
            (metric,) = metrics_of([pinned], language, source=self._models)
            key = Signature.of(metric).full
            with self._preparing:
                ready = self._ready.get(key) or self._prepare(key, metric)
                self._ready[key] = ready
                if pinned == text:  # otherwise the name of a model may stand for another version by the next request
                    self._keys.put((text, language), key)
        held_metric, size = ready
        self._note_use(self, key, size)
        return held_metric

    def bound(self, metric: Metric, progress: Progress | None = None) -> Metric:
        """Return a metric that asks models, bound to them and to the whole set."""
        (metric,) = bound_metrics([metric], self._models, progress=progress)
        return metric.for_set(_WholeSet(self, metric))

    def _prepare(self, key: str, metric: Metric) -> tuple[HeldMetric, int]:
        """Bind a metric to the set and prepare all references, block by block; TooLarge where they do not fit."""
        require_b(self.manifest, [metric])
        require_sources(self.facts.sources, metric)
        if metric.info.asks_model:
            return self._unprepared(metric)
        if key in self._refused:
            raise self._too_large(key, metric)
        metric = metric.for_set(_WholeSet(self, metric))
        digest, blocks, size = ReferencesDigest(), list[Block](), MemoryCounter()
        size.add(metric)
        for chosen in self._reference_blocks(metric, digest):
            problems = {
                place: problem
                for place, references in enumerate(chosen)
                if (problem := problem_of(references, metric.info.uses)) is not None
            }
            usable = [_NO_REFERENCES if isinstance(references, Problem) else references for references in chosen]
            blocks.append(Block(metric.prepare(usable), problems))
            size.add(blocks[-1])
            if self.bytes + size.bytes > self._most_bytes:
                raise self._too_large(key, metric)
        held_metric = HeldMetric(
            metric=metric,
            signature=signature_of(metric, self.manifest.references_provenance),
            references=digest.name,
            blocks=blocks,
            lengths=self.facts.lengths,
        )
        return held_metric, size.bytes

    def _unprepared(self, metric: Metric) -> tuple[HeldMetric, int]:
        """Return a metric that asks models as it is, with the hash of what it looks at, and a small size."""
        digest = ReferencesDigest()
        for _ in self._reference_blocks(self.bound(metric), digest):
            pass
        signature = signature_of(metric, self.manifest.references_provenance)
        held_metric = HeldMetric(
            metric=metric, signature=signature, references=digest.name, blocks=(), lengths=self.facts.lengths
        )
        return held_metric, _ENTRY

    def _reference_blocks(self, metric: Metric, digest: ReferencesDigest) -> Iterator[list[References | Problem]]:
        """Yield what a metric looks at in all items, block by block, and add it to the digest."""
        block = list[References | Problem]()
        for set_item in self.items():
            block.append(references_of(metric, set_item))
            digest.add(set_item.id, block[-1])
            if len(block) == BLOCK:
                yield block
                block = []
        if block:
            yield block

    def _too_large(self, key: str, metric: Metric) -> TooLarge:
        self._refused.put(key, True)
        return does_not_fit(f"the set {self.manifest.id}, ready for {metric.name},", self._most_bytes)


def does_not_fit(what: str, most_bytes: int) -> TooLarge:
    """Return the error for something that takes more memory than all held sets may."""
    return TooLarge(
        f"{what} takes more than the {most_bytes / MIB:,.0f} MiB that may be held",
        remedy="REFAUG_HELD_SETS_MIB gives sets more room; refaug sets score reads the set for every call",
    )


# ── The cache of frozen sets in memory ────────────────────────────────────────────────────────────────────────────────


_ITEMS: Final = ""  # the key of a set's items, among the keys of its metrics


class _Part(NamedTuple):
    """The items of a held set, or one of its metrics."""

    held: HeldSet
    bytes: int


class HeldSets:
    """A cache of frozen sets in memory, bounded in number and bytes; the least recently used go first.

    `looked_up` is called with the numbers of sets that were held and that were not. A set goes with everything that was
    prepared for it, and single metrics go before their set. All threads may use it.
    """

    def __init__(
        self,
        models: ModelRegistry,
        *,
        most: int,
        most_bytes: int,
        looked_up: Callable[[int, int], None] = lambda _hits, _misses: None,
    ) -> None:
        self._models, self._store = models, ReferenceSets(models.home.reference_sets)
        self._most_bytes, self._looked_up = most_bytes, looked_up
        self._held = BoundedCache[str, HeldSet](most)
        self._parts = BoundedCache[tuple[str, str], _Part](self._most_bytes, lambda _place, part: part.bytes)
        self._refused = set[str]()  # sets that do not fit, so that they are not tried again
        self._reading = dict[str, threading.Lock]()
        self._lock = threading.Lock()

    def store(self) -> ReferenceSets:
        """Return the store of all sets of the home, held or not."""
        return self._store

    @property
    def bytes(self) -> int:
        """The memory that all held sets take, as far as it can be told."""
        with self._lock:
            return self._parts.size

    def get(self, text: str) -> HeldSet:
        """Return a set by its id or the beginning of it, and read it if it is not held yet.

        Every call checks that the set still exists and is not withdrawn.
        """
        if (held := self.get_held(text)) is not None:
            return held
        name = self._store.resolve(text)
        self._require_usable(name)
        cached = self._held.get(name)
        self._looked_up(int(cached is not None), int(cached is None))
        held = cached or self._read_once(name)
        self._note_use(held, _ITEMS, held.bytes)
        return held

    def get_held(self, text: str) -> HeldSet | None:
        """Return a set that is in memory, if this is its whole id; quick enough for an event loop."""
        if (held := self._held.get(text)) is None:
            return None
        self._require_usable(text)
        self._looked_up(1, 0)
        self._note_use(held, _ITEMS, held.bytes)
        return held

    def _require_usable(self, name: str) -> None:
        """Raise an error, and forget the set, if it was withdrawn or its file is gone."""
        try:
            self._store.require_valid(name)
            self._require_there(name)
        except (Withdrawn, NotFound):
            with self._lock:
                self._drop(name)
            raise

    def _require_there(self, name: str) -> None:
        if not self._store.is_there(name):
            raise NotFound(f"there is no reference set {name}", remedy="refaug sets list, or GET /v1/reference-sets")

    def _read_once(self, name: str) -> HeldSet:
        """Read a set while other requests for it wait."""
        with self._lock:
            reading = self._reading.setdefault(name, threading.Lock())
        with reading:
            if (held := self._held.get(name)) is not None:
                return held
            if name in self._refused:
                raise does_not_fit(f"the set {name}", self._most_bytes)
            try:
                held = HeldSet.read(self._store.open(name), self._models, self._most_bytes, self._note_use)
                with self._lock:  # both at once: every held set has its items among the parts
                    for dropped, _ in self._held.put(name, held):
                        self._drop(dropped)
                    self._store_part((name, _ITEMS), _Part(held, held.bytes))
            except TooLarge:
                self._refused.add(name)
                raise
            finally:
                with self._lock:
                    self._reading.pop(name, None)
        return held

    def _note_use(self, held: HeldSet, key: str, size: int) -> None:
        """Note that a set, or one of its metrics, was used; other sets and metrics make room for it."""
        with self._lock:
            name = held.manifest.id
            if self._held.get(name) is not held:
                return  # it was dropped meanwhile, and its last user frees it
            items = name, _ITEMS
            self._parts.get(items)
            if key != _ITEMS:
                self._store_part((name, key), _Part(held, size))  # fits beside the items, so it does not drop them
                self._parts.get(items)  # once more: a set goes after its metrics

    def _store_part(self, place: tuple[str, str], part: _Part) -> None:
        """Note the size of a part; forget metrics that it leaves no room for, and sets without room for their items."""
        for (name, key), dropped in self._parts.put(place, part):
            if key == _ITEMS:
                self._drop(name)
            else:
                dropped.held.forget(key)

    def _drop(self, name: str) -> None:
        """Drop a set with everything that was prepared for it; requests that are using it go on."""
        self._held.pop(name)
        for place in self._parts:
            if place[0] == name:
                self._parts.pop(place)
