"""What is scored: a reply with the references that a metric looks at; and the scoring of any number of them."""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

import numpy as np
import orjson

from core.errors import BadInput
from core.items import BadItem
from core.progress import Progress
from core.records import Item, Origin, Reference
from metrics.base import NO_GOLD, NO_UTTERANCE, Floats, Indexes, Level, Metric, Prepared, Problem, References
from metrics.catalogue import Uses

_BATCH: Final = 2_000  # replies between two looks at the clock: progress, and the chance to stop
ENOUGH: Final = 3  # further references of positive weight; fewer are thin evidence
NO_REPLY: Final = Problem("no_reply", "the system has no reply to this item")
NO_WEIGHT: Final = Problem("no_weight", "one of its references has neither a weight nor a rating")


# ── items ─────────────────────────────────────────────────────────────────────────────────────────────────────────


def split(items: Iterable[Item | BadItem]) -> tuple[list[Item], list[BadItem]]:
    """Items that can be scored, and those that cannot; without any of the first kind there is nothing to do."""
    good, bad = list[Item](), list[BadItem]()
    for item in items:
        if isinstance(item, BadItem):
            bad.append(item)
        else:
            good.append(item)
    if not good:
        raise BadInput(f"no item can be used, of {len(bad):,}: {bad[0]}" if bad else "there are no items in it")
    return good, bad


def systems_of(items: Sequence[Item]) -> list[str]:
    """All systems, in the order in which they are first met."""
    systems = list(dict.fromkeys(system for item in items for system in item.replies))
    if not systems:
        raise BadInput("no item has a reply", remedy='give every item "replies": {"system": "its reply"}')
    return systems


# ── which references a metric looks at ────────────────────────────────────────────────────────────────────────────


def references_of(references: Sequence[Reference], uses: Uses, utterance: str | None = None) -> References | Problem:
    """The item's references as the metric wants them, with their weights, or why that cannot be had.

    Empty ones are left out: in test files they stand for references that are not there. The utterance is handed on to
    metrics that look at it alone, so that nothing else depends on it.
    """
    if uses is Uses.UTTERANCE:
        return References((), (), -1, utterance) if (utterance or "").strip() else NO_UTTERANCE
    references = [one for one in references if one.text.strip()]
    if uses is Uses.GOLDS:
        return _golds_of(references, utterance)
    gold = next((place for place, one in enumerate(references) if one.source is Origin.GOLD), -1)
    if uses is Uses.GOLD:
        return References((references[gold].text,), (1.0,)) if gold >= 0 else NO_GOLD
    kept = [one for one in references if uses is Uses.WEIGHTED or one.is_own]
    weights = [_weight(one, uses) for one in kept]
    if None in weights:
        return NO_WEIGHT
    place = next((number for number, one in enumerate(kept) if one.source is Origin.GOLD), -1)
    return References(tuple(one.text for one in kept), tuple(one for one in weights if one is not None), place)


def references_for(metric: Metric, references: Sequence[Reference], turns: Sequence[str] = ()) -> References | Problem:
    """The same for all that a metric looks at: a second part of it may want other references than the first.

    `turns` are the dialogue up to the reply; the last one is the utterance, unless the metric looks at more of them.
    """
    utterance = " ".join(turns[-metric.turns :]) if turns else None
    found = references_of(references, metric.info.uses, utterance)
    if isinstance(found, Problem) or metric.info.beside is None:
        return found
    beside = references_of(references, metric.info.beside, utterance)
    return beside if isinstance(beside, Problem) else replace(found, beside=beside)


def _golds_of(references: Sequence[Reference], utterance: str | None) -> References | Problem:
    golds = tuple(one.text for one in references if one.source is Origin.GOLD)
    if not golds:
        return NO_GOLD
    if utterance is None or not utterance.strip():
        return NO_UTTERANCE
    return References(golds, (1.0,) * len(golds), utterance=utterance)


def _weight(reference: Reference, uses: Uses) -> float | None:
    """Golds are worth 1 unless a rater was asked; where only texts matter, all are."""
    if uses is Uses.OWN or (reference.source is Origin.GOLD and (uses is Uses.RATED or reference.weight is None)):
        return 1.0
    return reference.weight


def require_references(items: Sequence[Item], metric: Metric) -> None:
    """Refuse a weighted score of references that nobody has weighted: it would be another metric's number."""
    require_sources(Counter(reference.source for item in items for reference in item.pair.references), metric)


def require_sources(found: Mapping[Origin, int], metric: Metric) -> None:
    """The same where it is known how many references there are from where."""
    if metric.info.uses is Uses.RATED and not found.get(Origin.SUPPLIED):
        raise BadInput(
            f"no item has a reference weighted by people, so {metric.name} would be multi-bleu",
            remedy='write references as {"text": …, "weight": …} or with "ratings", or ask for multi-bleu',
        )
    if metric.info.uses is Uses.WEIGHTED and not sum(found.values()) - found.get(Origin.GOLD, 0):
        raise BadInput(
            f"no item has other references than golds, so {metric.name} has nothing to weigh",
            remedy="give items whose references carry weights or ratings, or ask for the metric without upsilon-",
        )


def evidence_of(item: Item) -> dict[str, Any]:
    """On what a weighted score of this item stands."""
    others = [one for one in item.pair.references if one.source is not Origin.GOLD]
    return {
        "references": len(item.pair.references),
        "sources": dict(sorted(Counter(one.source.value for one in item.pair.references).items())),
        "similarities": [one.similarity for one in others],
        "weights": [one.weight for one in others],
        "above_zero": _above_zero(item),
        "thin": is_thin(item),
    }


def is_thin(item: Item) -> bool:
    """Whether few references beside the golds have a positive weight."""
    return _above_zero(item) < ENOUGH


def _above_zero(item: Item) -> int:
    return sum(1 for one in item.pair.references if one.source is not Origin.GOLD and (one.weight or 0) > 0)


def references_hash(items: Sequence[Item], chosen: Sequence[References | Problem]) -> str:
    """Names the references that a metric looked at, with their weights: `data` names the golds alone.

    The utterance is among them where the metric looked at that.
    """
    digest = ReferencesDigest()
    for item, one in zip(items, chosen, strict=True):
        digest.add(item.id, one)
    return digest.name


class _Digest:
    """A name for many rows, which are told one after the other."""

    def __init__(self) -> None:
        self._sha256 = hashlib.sha256()

    @property
    def name(self) -> str:
        """The name of what was added so far."""
        return self._sha256.hexdigest()[:12]

    def _add(self, row: list[Any]) -> None:
        self._sha256.update(orjson.dumps(row, option=orjson.OPT_APPEND_NEWLINE))


class ReferencesDigest(_Digest):
    """`references_hash` for items that are not all there at once."""

    def add(self, name: str, chosen: References | Problem) -> None:
        """The next item's id, and what the metric looks at."""
        self._add([name, *_looked_at(chosen)])


class DataDigest(_Digest):
    """`data_hash` for items that are not all there at once."""

    def add(self, item: Item) -> None:
        """The next item."""
        golds = [one.text for one in item.pair.references if one.source is Origin.GOLD]
        self._add([item.id, golds or [one.text for one in item.pair.references if one.is_own]])


def _looked_at(one: References | Problem) -> list[Any]:
    if isinstance(one, Problem):
        return [one.code]
    more = [] if one.utterance is None else [one.utterance]
    return [one.texts, one.weights, one.gold, *more, *([] if one.beside is None else [_looked_at(one.beside)])]


def data_hash(items: Iterable[Item]) -> str:
    """Names what was scored, beside the signature that names how: a hash of ids and golds, in order."""
    digest = DataDigest()
    for item in items:
        digest.add(item)
    return digest.name


# ── scoring, of anything that has references ──────────────────────────────────────────────────────────────────────


@dataclass(frozen=True, slots=True)
class Case:
    """A reply and what it is scored against; cases that share references should share the object."""

    reply: str
    references: References


@dataclass(frozen=True)
class Scored:
    """Statistics of cases, row by row; NaN where there is no score, and then the reason."""

    statistics: Floats
    problems: Mapping[int, Problem]

    def values(self, metric: Metric) -> Floats:
        """The score of every case, NaN where there is none."""
        return metric.values(self.statistics, Level.REPLY)


@dataclass(frozen=True, kw_only=True)
class _Apart:
    """The cases that can be scored, as metrics take them: references that cases share are there once."""

    rows: Sequence[int]  # of each among all cases
    replies: Sequence[str]
    references: Sequence[References]
    items: Indexes  # the references of each reply

    @classmethod
    def of(cls, cases: Sequence[Case | Problem]) -> _Apart:
        """Take them apart, in their order."""
        number_of = dict[int, int]()
        references, rows, replies, items = list[References](), list[int](), list[str](), list[int]()
        for row, case in enumerate(cases):
            if isinstance(case, Problem):
                continue
            if id(case.references) not in number_of:
                number_of[id(case.references)] = len(references)
                references.append(case.references)
            rows.append(row)
            replies.append(case.reply)
            items.append(number_of[id(case.references)])
        return cls(rows=rows, replies=replies, references=references, items=np.array(items, dtype=np.int64))


def bound_to(metric: Metric, chosen: Sequence[References | Problem], cases: Sequence[Case | Problem]) -> Metric:
    """The metric for a set with these references, and for exactly these replies, where a score depends on those."""
    metric = metric.for_set([one for one in chosen if isinstance(one, References)])
    apart = _Apart.of(cases)
    return metric.for_replies(apart.replies, apart.references, apart.items)


def score_cases(metric: Metric, cases: Sequence[Case | Problem], progress: Progress | None = None) -> Scored:
    """Score each case; one that is a problem already stays one. References shared by cases are prepared once."""
    apart = _Apart.of(cases)
    problems = {row: case for row, case in enumerate(cases) if isinstance(case, Problem)}
    found = score_prepared(metric, metric.prepare(apart.references), apart.replies, apart.items, progress)
    statistics = np.full((len(cases), len(metric.columns)), np.nan)
    statistics[apart.rows] = found.statistics
    problems |= {apart.rows[place]: why for place, why in found.problems.items()}
    return Scored(statistics, dict(sorted(problems.items())))


def score_prepared(
    metric: Metric, prepared: Prepared, replies: Sequence[str], items: Indexes, progress: Progress | None = None
) -> Scored:
    """Score replies against references that were prepared before, the i-th against the item `items[i]` of those."""
    statistics = np.empty((len(replies), len(metric.columns)))
    for first in range(0, len(replies), _BATCH):
        texts = replies[first : first + _BATCH]
        batch = slice(first, first + len(texts))
        statistics[batch] = metric.statistics(texts, prepared, np.arange(len(texts)), items[batch])
        if progress is not None:
            progress.advance(len(texts))
    without = np.flatnonzero(np.isnan(statistics).any(axis=1)).tolist()
    statistics[without] = np.nan
    return Scored(statistics, {place: _why(metric, prepared, int(items[place])) for place in without})


def _why(metric: Metric, prepared: Prepared, item: int) -> Problem:
    return prepared.problems.get(item) or metric.undefined()


def leave_one_out(metric: Metric, cases: Sequence[Case | Problem]) -> dict[int, list[float | None]]:
    """The score of every case with each of its references left out in turn; None where nothing is left to score by."""
    fewer, owners = list[Case | Problem](), list[int]()
    for row, case in enumerate(cases):
        if isinstance(case, Case):
            places = range(len(case.references.texts))
            fewer += [Case(case.reply, case.references.kept([at for at in places if at != left])) for left in places]
            owners += [row] * len(places)
    values = score_cases(metric, fewer).values(metric)
    found: dict[int, list[float | None]] = {row: [] for row, case in enumerate(cases) if isinstance(case, Case)}
    for row, value in zip(owners, values, strict=True):
        found[row].append(None if np.isnan(value) else float(value))
    return found
