"""Scores against frozen sets that are kept ready: what a training loop asks for, thousands of replies a second.

A held set has its items as compressed lines, and for every metric that was asked for the references of all of them,
prepared once. A request is then a look-up of its items, the metric on its replies, and the answer.

The scores are those of `service.reference_sets.score`, bit for bit, whatever the batch that a reply came in: metrics
are bound to the whole set, and sums are taken in the order of the set.
"""

from __future__ import annotations

import threading
from collections import Counter, OrderedDict
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Final, Literal, NamedTuple, overload

import numpy as np
import zstandard
from numpy.typing import NDArray

from core.errors import BadInput, NotFound, TooLarge, Usage, Withdrawn
from core.items import BadItem
from core.records import Item, Origin
from core.sizes import Weighed
from metrics.base import Indexes, Metric, Prepared, Problem, References
from metrics.catalogue import Uses
from metrics.signature import Signature
from service import observe
from service.asked_metrics import metrics_of
from service.cases import (
    NO_REPLY,
    Case,
    DataDigest,
    ReferencesDigest,
    Scored,
    evidence_of,
    is_thin,
    references_for,
    require_sources,
    score_prepared,
)
from service.evaluate import (
    ScoredTable,
    blank_warning,
    explanations,
    ignored_warning,
    other_golds,
    reply_warnings,
    require_baseline,
    signature_of,
    thin_warning,
)
from service.reference_sets import UNPLACED, ReferenceSet, ReferenceSets, SetManifest, require_answerable
from service.scores import Evaluation, MetricScores, ReplyForm, ScoreSettings, require_share
from service.scores import percent as in_percent
from service.serve_settings import MIB, ServeSettings
from service.settings import Settings

UNKNOWN_ITEM: Final = Problem("unknown_item", "the set has no item of this id")
OnError = Literal["fail", "report"]

_PIECE: Final = 64  # items whose lines are compressed together: whoever wants one unpacks few others
_BLOCK: Final = 64 * _PIECE  # items whose references are prepared together: what is taken apart meanwhile stays small
_LEVEL: Final = 3  # of compression: packed once in a while, and unpacked rarely
_ENTRY: Final = 200  # bytes of an id, its place, and their part of a list and a table, roughly
_SPELLINGS: Final = 1_000  # words in which metrics were asked for, and metrics refused, that are remembered
_NO_REFERENCES: Final = References((), (), -1)  # stands where an item has a problem


class UnknownItems(BadInput):
    """Ids that the set does not have."""

    def __init__(self, bad: Sequence[BadItem]) -> None:
        more = f", and {len(bad) - 1:,} more are unknown" if len(bad) > 1 else ""
        super().__init__(
            f"{bad[0].field}: {bad[0].message}{more}",
            remedy='ids of items of the set; with "on_error": "report" the others are scored',
        )
        self.bad = bad


# ── what is asked for ─────────────────────────────────────────────────────────────────────────────────────────────


@dataclass(frozen=True, kw_only=True)
class SetRequest:
    """Replies to items of a set: the i-th of every system is to `items[i]`; None is no reply.

    An item may be named several times. Without `items`, every system has a reply to each item, in the set's order.
    """

    replies: Mapping[str, Sequence[str | None]]
    items: Sequence[str] | None = None


def score_set(
    held: HeldSet,
    request: SetRequest,
    metrics: Sequence[str],
    settings: ScoreSettings,
    *,
    language: str | None = None,
    percent: bool = False,
    on_error: OnError = "fail",
    form: ReplyForm = ReplyForm.REPLIES,
) -> dict[str, Any]:
    """The scores as JSON has them, in the shape of an evaluation, and which set they are against.

    Without metrics it is the one that the set's references are for. An id that the set does not have is an error; with
    `on_error="report"` it is listed, and the rest is scored.
    """
    found = evaluate_set(held, request, metrics, settings, language=language, percent=percent, on_error=on_error)
    return {**found.as_json(form), "set": held.as_json()}


def statistics_of(
    held: HeldSet,
    request: SetRequest,
    metrics: Sequence[str],
    settings: ScoreSettings | None = None,
    *,
    language: str | None = None,
    on_error: OnError = "fail",
) -> dict[str, Any]:
    """The same with the sums that scores are made of, for `service.combine`.

    The set says where its items stand (null: it has no such item), so that the sums of several batches can be taken in
    its order.
    """
    settings = settings or ScoreSettings(draws=0, parts=False)
    if settings.draws or settings.explain:
        raise Usage("sums have neither intervals nor explanations", remedy="no draws, and explain left out")
    found = evaluate_set(held, request, metrics, settings, language=language, on_error=on_error, is_part=True)
    places = [place if place >= 0 else None for place in _Asked.of(held, request).places.tolist()]
    return {**found.as_statistics(), "set": {**held.as_json(), "places": places}}


def evaluate_set(
    held: HeldSet,
    request: SetRequest,
    metrics: Sequence[str],
    settings: ScoreSettings,
    *,
    language: str | None = None,
    percent: bool = False,
    on_error: OnError = "fail",
    is_part: bool = False,
) -> Evaluation:
    """Score replies to items of a set, in the order sent; intervals draw those items again, not the whole set.

    Of replies that are only some of those that are meant (`is_part`), none may have a score.
    """
    asked, ready = _Asked.of(held, request), held.metrics(metrics, language)
    for one in ready if percent else ():
        require_share(one.metric)
    if asked.bad and on_error == "fail":
        raise UnknownItems(asked.bad)
    require_baseline(settings.baseline, asked.systems)
    tables = [one.table(asked) for one in ready]
    nothing = [why for one in tables if (why := one.why_nothing())]
    if len(nothing) == len(tables) and on_error == "fail" and not is_part:
        raise BadInput(nothing[0])
    scores = tuple(one.scores(held, asked, table, settings) for one, table in zip(ready, tables, strict=True))
    is_weighted = any(one.metric.info.uses is Uses.WEIGHTED for one in ready)
    places = asked.known()
    found = Evaluation(
        scores=scores,
        data=held.facts.data,
        items=len(places),
        evidence=held.evidence(places) if is_weighted and settings.explain else {},
        bad_items=asked.bad,
        warnings=(*nothing, *_warnings(held, asked, [one.metric for one in ready], places if is_weighted else None)),
        settings=settings,
    )
    return in_percent(found) if percent else found


def _warnings(held: HeldSet, asked: _Asked, metrics: Sequence[Metric], weighted: Sequence[int] | None) -> Iterator[str]:
    """What evaluations warn of; of thin evidence, where items are weighted, for those that were asked for."""
    yield from reply_warnings(asked.replies, metrics)
    yield from blank_warning(held.facts.blank)
    yield from ignored_warning(held.facts.other_golds, metrics)
    if weighted is not None:
        yield from thin_warning(int(held.facts.thin[weighted].sum()), len(weighted))
    yield from dict.fromkeys(remark for metric in metrics for remark in metric.remarks())


@dataclass(frozen=True, kw_only=True)
class _Asked:
    """A request with its items found."""

    systems: Sequence[str]
    replies: Mapping[str, Sequence[str | None]]
    ids: Sequence[str]
    places: Indexes  # of the items in the set; −1: it has no such item
    bad: tuple[BadItem, ...]

    @classmethod
    def of(cls, held: HeldSet, request: SetRequest) -> _Asked:
        """Look the items up; BadInput where lists do not fit together."""
        if not request.replies:
            raise BadInput("no system has replies", remedy='"replies": {"system": ["its reply", …]}')
        ids = held.ids if request.items is None else request.items
        whose = "the set" if request.items is None else "items"
        for system, listed in request.replies.items():
            if len(listed) != len(ids):
                raise BadInput(
                    f"replies.{system} has {len(listed):,} entries, {whose} has {len(ids):,}",
                    remedy="one entry for each item, in the same order; null where there is no reply"
                    if request.items is not None
                    else 'name the items that are answered: "items": ["id", …]',
                )
        if not ids:
            raise BadInput("there are no items in it", remedy='name at least one: "items": ["id", …]')
        found = range(len(ids)) if request.items is None else [held.places.get(name, -1) for name in ids]
        return cls(
            systems=list(request.replies),
            replies=request.replies,
            ids=ids,
            places=np.array(found, dtype=np.int64),
            bad=tuple(_unknown(held, row, ids[row]) for row, place in enumerate(found) if place < 0),
        )

    def known(self) -> list[int]:
        """The places of the items, each once, in the set's order."""
        return [place for place in np.unique(self.places).tolist() if place >= 0]


def _unknown(held: HeldSet, row: int, name: str) -> BadItem:
    message = f"the set {held.manifest.id} has no item {name!r}"
    return BadItem(file="request", line=UNPLACED, item=name, field=f"items[{row}]", message=message)


# ── a metric, ready for a set ─────────────────────────────────────────────────────────────────────────────────────


class _Block(NamedTuple):
    """The references of some items of a set, prepared; and which items cannot be scored anyway, by place in it."""

    prepared: Prepared
    problems: Mapping[int, Problem]


@dataclass(frozen=True, kw_only=True, eq=False)
class HeldMetric:
    """A metric bound to a whole set, with the references of all its items."""

    metric: Metric
    signature: Signature
    references: str  # names the references and weights that were looked at
    blocks: Sequence[_Block]

    def table(self, asked: _Asked) -> ScoredTable:
        """The replies of a request, scored."""
        count, systems = len(asked.ids), asked.systems
        statistics = np.full((len(systems) * count, len(self.metric.columns)), np.nan)
        problems, rows_of = dict[int, Problem](), dict[int, list[int]]()
        replies = [reply for system in systems for reply in asked.replies[system]]
        places = asked.places.tolist() * len(systems)
        for row, (reply, place) in enumerate(zip(replies, places, strict=True)):
            if (why := self._problem(reply, place)) is not None:
                problems[row] = why
            else:
                rows_of.setdefault(place // _BLOCK, []).append(row)
        for number, rows in rows_of.items():
            texts = [text for row in rows if (text := replies[row]) is not None]
            items = np.array([places[row] % _BLOCK for row in rows], dtype=np.int64)
            found = score_prepared(self.metric, self.blocks[number].prepared, texts, items)
            statistics[rows] = found.statistics
            problems |= {rows[at]: why for at, why in found.problems.items()}
        scored = Scored(statistics, dict(sorted(problems.items())))
        return ScoredTable.of(self.metric, systems, asked.ids, scored, asked.places)

    def _problem(self, reply: str | None, place: int) -> Problem | None:
        if place < 0:
            return UNKNOWN_ITEM
        return NO_REPLY if reply is None else self.blocks[place // _BLOCK].problems.get(place % _BLOCK)

    def scores(self, held: HeldSet, asked: _Asked, table: ScoredTable, settings: ScoreSettings) -> MetricScores:
        """What is handed out of them; explanations need the texts of the references."""
        explained = explanations(self.metric, self._cases(held, asked), table) if settings.explain else {}
        return table.scores(settings, self.signature, self.references, explained)

    def _cases(self, held: HeldSet, asked: _Asked) -> list[Case | Problem]:
        chosen = {place: _chosen(self.metric, held.item(place)) for place in asked.known()}
        rows = zip(
            (reply for system in asked.systems for reply in asked.replies[system]),
            asked.places.tolist() * len(asked.systems),
            strict=True,
        )
        return [_case(reply, chosen.get(place, UNKNOWN_ITEM)) for reply, place in rows]


def _case(reply: str | None, references: References | Problem) -> Case | Problem:
    if isinstance(references, Problem):
        return references
    return NO_REPLY if reply is None else Case(reply, references)


def _chosen(metric: Metric, item: Item) -> References | Problem:
    return references_for(metric, item.pair.references, item.pair.turns)


class _WholeSet(Sequence[References]):
    """What a metric looks at in all items of a set, read only when it is asked for: most metrics never ask."""

    def __init__(self, held: HeldSet, metric: Metric) -> None:
        self._held, self._metric = held, metric

    def __iter__(self) -> Iterator[References]:
        chosen = (_chosen(self._metric, item) for item in self._held.items())
        return (one for one in chosen if isinstance(one, References))

    @cached_property
    def _places(self) -> list[int]:
        """Of the items in which it finds something to look at."""
        chosen = (_chosen(self._metric, item) for item in self._held.items())
        return [place for place, one in enumerate(chosen) if isinstance(one, References)]

    def __len__(self) -> int:
        return len(self._places)

    @overload
    def __getitem__(self, at: int) -> References: ...
    @overload
    def __getitem__(self, at: slice) -> list[References]: ...
    def __getitem__(self, at: int | slice) -> References | list[References]:
        if isinstance(at, slice):
            return [self[number] for number in range(*at.indices(len(self)))]
        found = _chosen(self._metric, self._held.item(self._places[at]))
        assert isinstance(found, References), "only such places are listed"
        return found


# ── a set that is kept ────────────────────────────────────────────────────────────────────────────────────────────


@dataclass(frozen=True, kw_only=True, eq=False)
class SetFacts:
    """What was seen of a set when it was read."""

    data: str  # names its items and golds
    sources: Mapping[Origin, int]  # references by where they come from
    blank: int  # references of which nothing can be seen
    other_golds: int  # golds of another weight than 1
    thin: NDArray[np.bool_]  # (items,): whether few references have a positive weight


@dataclass(frozen=True, kw_only=True, eq=False)
class _Content:
    """The items of a set: ids, facts, and their lines, some of them packed together at a time."""

    ids: Sequence[str]
    pieces: Sequence[bytes]
    facts: SetFacts

    @classmethod
    def read(cls, stored: ReferenceSet, most_bytes: int) -> _Content:
        """Read a set to its end, which checks it as well; TooLarge as soon as it does not fit."""
        ids, pieces, lines = list[str](), list[bytes](), list[bytes]()
        digest, sources, thin, blank, others = DataDigest(), Counter[Origin](), list[bool](), 0, 0
        size = 0
        for number, line in enumerate(stored.lines(), start=1):
            item = stored.item_of(line, number)
            digest.add(item)
            sources.update(one.source for one in item.pair.references)
            blank += sum(1 for one in item.pair.references if not one.text.strip())
            others += other_golds(item)
            thin.append(is_thin(item))
            ids.append(item.id)
            lines.append(line)
            if len(lines) == _PIECE or number == stored.manifest.items:
                pieces.append(_packed(lines))
                size, lines = size + len(pieces[-1]) + _ENTRY * len(lines), []
            if size > most_bytes:
                raise _does_not_fit(f"the set {stored.id}", most_bytes)
        found = np.array(thin, dtype=np.bool_)
        facts = SetFacts(data=digest.name, sources=dict(sources), blank=blank, other_golds=others, thin=found)
        return cls(ids=ids, pieces=pieces, facts=facts)


def _packed(lines: Sequence[bytes]) -> bytes:
    """Lines as one piece; a copy, since what the library gives keeps the room that it had reserved for more."""
    return bytes(memoryview(zstandard.compress(b"\n".join(lines), _LEVEL)))


class HeldSet:
    """A frozen set, ready to be scored against by any metric; one may serve all threads."""

    def __init__(
        self, stored: ReferenceSet, content: _Content, most_bytes: int, used: Callable[[HeldSet, str, int], None]
    ) -> None:
        self._stored, self._pieces, self._most_bytes, self._used = stored, content.pieces, most_bytes, used
        self.manifest: SetManifest = stored.manifest
        self.ids = content.ids
        self.facts = content.facts
        self.places: Mapping[str, int] = {name: place for place, name in enumerate(self.ids)}
        self.bytes = sum(map(len, self._pieces)) + _ENTRY * len(self.ids)
        self._ready = dict[str, tuple[HeldMetric, int]]()  # by what was asked for, with the bytes that it takes
        self._keys = dict[tuple[str, str | None], str]()  # what was asked for in these words
        self._refused = set[str]()  # what does not fit, so that it is not tried again and again
        self._preparing = threading.Lock()

    @classmethod
    def read(cls, stored: ReferenceSet, most_bytes: int, used: Callable[[HeldSet, str, int], None]) -> HeldSet:
        """Read it into memory; `used` is told of every metric when it is used, and of the bytes that it takes."""
        return cls(stored, _Content.read(stored, most_bytes), most_bytes, used)

    def as_json(self) -> dict[str, Any]:
        """What answers say of it."""
        return {"id": self.manifest.id, "purpose": self.manifest.purpose.value, "items": len(self.ids)}

    def position(self, name: str) -> int:
        """The place of an item in the set's order."""
        if name not in self.places:
            raise NotFound(f"the set {self.manifest.id} has no item {name!r}")
        return self.places[name]

    # ── items ─────────────────────────────────────────────────────────────────────────────────────────────────────

    def item(self, place: int) -> Item:
        """The item at a place."""
        line = zstandard.decompress(self._pieces[place // _PIECE]).split(b"\n")[place % _PIECE]
        return self._stored.item_of(line, place + 1)

    def items(self) -> Iterator[Item]:
        """All items in order."""
        for number, piece in enumerate(self._pieces):
            for at, line in enumerate(zstandard.decompress(piece).split(b"\n"), start=1):
                yield self._stored.item_of(line, number * _PIECE + at)

    def evidence(self, places: Sequence[int]) -> dict[str, dict[str, Any]]:
        """On what weighted scores of some items stand."""
        return {self.ids[place]: evidence_of(self.item(place)) for place in places}

    # ── metrics ───────────────────────────────────────────────────────────────────────────────────────────────────

    def metrics(self, specifications: Sequence[str], language: str | None = None) -> list[HeldMetric]:
        """The metrics asked for, each once; without any, the one that the references were made for."""
        found = [self._metric(text, language) for text in specifications or (default_metric_of(self.facts.sources),)]
        return list(dict.fromkeys(found))

    def forget(self, key: str) -> None:
        """Keep a metric no longer; who is using it may go on."""
        self._ready.pop(key, None)

    def _metric(self, text: str, language: str | None) -> HeldMetric:
        key = self._keys.get((text, language), "")
        found = self._ready.get(key)
        if found is None:
            (metric,) = metrics_of([text], language)
            key = Signature.of(metric).full
            with self._preparing:
                found = self._ready.get(key) or self._prepared(key, metric)
                if len(self._keys) >= _SPELLINGS:
                    self._keys.clear()
                self._ready[key], self._keys[text, language] = found, key
        self._used(self, key, found[1])
        return found[0]

    def _prepared(self, key: str, metric: Metric) -> tuple[HeldMetric, int]:
        """Bind a metric to the set and prepare all references, part by part; TooLarge where it does not fit."""
        require_answerable(self.manifest, [metric])
        require_sources(self.facts.sources, metric)
        if key in self._refused:
            raise self._too_large(key, metric)
        metric = metric.for_set(_WholeSet(self, metric))
        digest, blocks, size = ReferencesDigest(), list[_Block](), Weighed()
        size.add(metric)
        for chosen in self._chosen_blocks(metric, digest):
            problems = {place: one for place, one in enumerate(chosen) if isinstance(one, Problem)}
            texts = [_NO_REFERENCES if isinstance(one, Problem) else one for one in chosen]
            blocks.append(_Block(metric.prepare(texts), problems))
            size.add(blocks[-1])
            if self.bytes + size.bytes > self._most_bytes:
                raise self._too_large(key, metric)
        held = HeldMetric(
            metric=metric,
            signature=signature_of(metric, self.manifest.signed(), self.manifest.details),
            references=digest.name,
            blocks=blocks,
        )
        return held, size.bytes

    def _chosen_blocks(self, metric: Metric, digest: ReferencesDigest) -> Iterator[list[References | Problem]]:
        """What a metric looks at, item by item; the digest is told of all of it."""
        block = list[References | Problem]()
        for item in self.items():
            block.append(_chosen(metric, item))
            digest.add(item.id, block[-1])
            if len(block) == _BLOCK:
                yield block
                block = []
        if block:
            yield block

    def _too_large(self, key: str, metric: Metric) -> TooLarge:
        if len(self._refused) >= _SPELLINGS:
            self._refused.clear()
        self._refused.add(key)
        return _does_not_fit(f"the set {self.manifest.id}, ready for {metric.name},", self._most_bytes)


def default_metric_of(sources: Collection[Origin]) -> str:
    """The score that references from there were made for: what commands take by default."""
    if Origin.RETRIEVED in sources or Origin.PARROT in sources:
        return "upsilon-bleu"
    return "delta-bleu" if Origin.SUPPLIED in sources else "multi-bleu"


def _does_not_fit(what: str, most_bytes: int) -> TooLarge:
    return TooLarge(
        f"{what} takes more than the {most_bytes / MIB:,.0f} MiB that may be held",
        remedy="REFAUG_HELD_SETS_MIB gives sets more room; refaug sets score reads the set for every call",
    )


# ── all sets that are kept ────────────────────────────────────────────────────────────────────────────────────────

_ITEMS: Final = ""  # stands for the items of a set, where what is kept is named by metrics


class HeldSets:
    """Frozen sets kept ready, as many as there is room for: what was not used for longest goes first.

    Sets go with all that was prepared for them, and single metrics before that. Several threads may ask at once.
    """

    def __init__(self, home: Settings, serve: ServeSettings) -> None:
        self._store = ReferenceSets(home.reference_sets)
        self._most_sets, self._most_bytes = serve.held_sets, serve.held_sets_mib * MIB
        self._held = dict[str, HeldSet]()
        self._sizes = OrderedDict[tuple[str, str], int]()  # of sets and metrics, in order of use
        self._refused = set[str]()  # what does not fit, so that it is not tried again and again
        self._reading = dict[str, threading.Lock]()
        self._lock = threading.Lock()

    def store(self) -> ReferenceSets:
        """All sets of the home, held or not."""
        return self._store

    @property
    def bytes(self) -> int:
        """How much memory all of it takes, as far as that can be told."""
        with self._lock:
            return sum(self._sizes.values())

    def get(self, text: str) -> HeldSet:
        """A set by its id or the beginning of it, read if it is not there yet.

        Whether it is withdrawn is looked up every time, and whether it is there at all.
        """
        name = text if text in self._held else self._store.resolve(text)
        try:
            self._store.require_valid(name)
            self._require_there(name)
        except (Withdrawn, NotFound):
            with self._lock:
                self._drop(name)
            raise
        kept = self._held.get(name)
        observe.cache("sets", hits=int(kept is not None), misses=int(kept is None))
        held = kept or self._read_once(name)
        self._used(held, _ITEMS, held.bytes)
        return held

    def _require_there(self, name: str) -> None:
        if not self._store.path_of(name).exists():
            raise NotFound(f"there is no reference set {name}", remedy="refaug sets list, or GET /v1/reference-sets")

    def _read_once(self, name: str) -> HeldSet:
        """Read it, while others that want it wait."""
        with self._lock:
            reading = self._reading.setdefault(name, threading.Lock())
        with reading:
            if (held := self._held.get(name)) is not None:
                return held
            if name in self._refused:
                raise _does_not_fit(f"the set {name}", self._most_bytes)
            try:
                held = HeldSet.read(self._store.open(name), self._most_bytes, self._used)
                with self._lock:  # at once in both: whatever is held has a size
                    self._held[name], self._sizes[name, _ITEMS] = held, held.bytes
            except TooLarge:
                self._refused.add(name)
                raise
            finally:
                with self._lock:
                    self._reading.pop(name, None)
        return held

    def _used(self, held: HeldSet, key: str, size: int) -> None:
        """Note that a metric of a set was used, or the set itself; let go of what there is no room for."""
        with self._lock:
            name = held.manifest.id
            if self._held.get(name) is not held:
                return  # it was let go of meanwhile, and goes with its last user
            for one, its_size in ((key, size), (_ITEMS, held.bytes)):  # sets after their metrics: they go later
                self._sizes[name, one] = its_size
                self._sizes.move_to_end((name, one))
            self._make_room({(name, key), (name, _ITEMS)})

    def _make_room(self, kept: Collection[tuple[str, str]]) -> None:
        """Let go of what was not used for longest, and of nothing that is in use now."""
        while len(self._held) > self._most_sets:
            self._drop(next(name for name, key in self._sizes if key == _ITEMS))
        while sum(self._sizes.values()) > self._most_bytes:
            oldest = next((one for one in self._sizes if one not in kept), None)
            if oldest is None:
                return
            name, key = oldest
            if key == _ITEMS:
                self._drop(name)
            else:
                del self._sizes[oldest]
                self._held[name].forget(key)

    def _drop(self, name: str) -> None:
        """Let go of a set with all that was prepared for it; who is using it may go on."""
        self._held.pop(name, None)
        for one in [one for one in self._sizes if one[0] == name]:
            del self._sizes[one]
