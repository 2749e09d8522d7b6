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
    found = Counter(reference.source for item in items for reference in item.pair.references)
    if metric.info.uses is Uses.RATED and not found[Origin.SUPPLIED]:
        raise BadInput(
            f"no item has a reference weighted by people, so {metric.name} would be multi-bleu",
            remedy='write references as {"text": …, "weight": …} or with "ratings", or ask for multi-bleu',
        )
    if metric.info.uses is Uses.WEIGHTED and not sum(found.values()) - found[Origin.GOLD]:
        raise BadInput(
            f"no item has other references than golds, so {metric.name} has nothing to weigh",
            remedy="give items whose references carry weights or ratings, or ask for the metric without upsilon-",
        )


def evidence_of(item: Item) -> dict[str, Any]:
    """On what a weighted score of this item stands."""
    others = [one for one in item.pair.references if one.source is not Origin.GOLD]
    above = sum(1 for one in others if (one.weight or 0) > 0)
    return {
        "references": len(item.pair.references),
        "sources": dict(sorted(Counter(one.source.value for one in item.pair.references).items())),
        "similarities": [one.similarity for one in others],
        "weights": [one.weight for one in others],
        "above_zero": above,
        "thin": above < ENOUGH,
    }


def references_hash(items: Sequence[Item], chosen: Sequence[References | Problem]) -> str:
    """Names the references that a metric looked at, with their weights: `data` names the golds alone.

    The utterance is among them where the metric looked at that.
    """
    digest = hashlib.sha256()
    for item, one in zip(items, chosen, strict=True):
        digest.update(orjson.dumps([item.id, *_looked_at(one)], option=orjson.OPT_APPEND_NEWLINE))
    return digest.hexdigest()[:12]


def _looked_at(one: References | Problem) -> list[Any]:
    if isinstance(one, Problem):
        return [one.code]
    more = [] if one.utterance is None else [one.utterance]
    return [one.texts, one.weights, one.gold, *more, *([] if one.beside is None else [_looked_at(one.beside)])]


def data_hash(items: Iterable[Item]) -> str:
    """Names what was scored, beside the signature that names how: a hash of ids and golds, in order."""
    digest = hashlib.sha256()
    for item in items:
        golds = [one.text for one in item.pair.references if one.source is Origin.GOLD]
        golds = golds or [one.text for one in item.pair.references if one.is_own]
        digest.update(orjson.dumps([item.id, golds], option=orjson.OPT_APPEND_NEWLINE))
    return digest.hexdigest()[:12]


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
    prepared = metric.prepare(apart.references)
    statistics = np.full((len(cases), len(metric.columns)), np.nan)
    rows, replies, items = apart.rows, apart.replies, apart.items
    for first in range(0, len(rows), _BATCH):
        batch = slice(first, first + _BATCH)
        texts = replies[batch]
        found = metric.statistics(texts, prepared, np.arange(len(texts)), items[batch])
        statistics[rows[batch]] = found
        for place in np.flatnonzero(np.isnan(found).any(axis=1)):
            row = rows[first + int(place)]
            statistics[row] = np.nan
            problems[row] = _why(metric, prepared, int(items[first + int(place)]))
        if progress is not None:
            progress.advance(len(texts))
    return Scored(statistics, dict(sorted(problems.items())))


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
