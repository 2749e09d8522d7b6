"""Cases, which are replies with the references that a metric looks at, and the scoring of any number of them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

import numpy as np

from refaug.core.errors import BadInput, NoGold, TrainedOn
from refaug.core.progress import Progress, Watched
from refaug.core.records import Item, Origin, Reference
from refaug.evaluation.scoring.items import BadItem
from refaug.metrics.base import NO_GOLD, NO_UTTERANCE, Floats, Indexes, Level, Metric, Prepared, Problem, References
from refaug.metrics.costs import Lengths, piece_numbers
from refaug.metrics.metric_info import Uses
from refaug.metrics.models.adem import TRAINED_ON

_BATCH: Final = 2_000  # replies at most between two reports of progress, at each of which the work can be cancelled
ENOUGH: Final = 3  # references of positive weight beside the golds; fewer are thin evidence
NO_REPLY: Final = Problem("no_reply", "the system has no reply to this item")
NO_GOLD_IN_ITEM: Final = "it has no gold, and no other reference that could be scored against"
NO_GOLD_OR_OTHER: Final = Problem("no_gold", NO_GOLD_IN_ITEM)
NO_WEIGHT: Final = Problem("no_weight", "one of its references has neither a weight nor a rating")


_RATED_ALONE: Final = ", or ask for rater:refs=none, which rates by the utterance alone"
_FOUND_ALONE: Final = ", or set gold to none (--gold none), where an index finds references and a rater weighs them"


# ── items ─────────────────────────────────────────────────────────────────────────────────────────────────────────


def split(items: Iterable[Item | BadItem]) -> tuple[list[Item], list[BadItem]]:
    """Separate items that can be scored from those that cannot; BadInput where there are none of the first kind."""
    usable, bad = list[Item](), list[BadItem]()
    for test_item in items:
        if isinstance(test_item, BadItem):
            bad.append(test_item)
        else:
            usable.append(test_item)
    if not usable:
        if not bad:
            raise BadInput("there are no items: the input is empty", remedy="one item or reply a line: docs/items.md")
        raise BadInput(f"no item can be used, of {len(bad):,}: {bad[0]}")
    return usable, bad


def systems_of(items: Sequence[Item]) -> list[str]:
    """Return all systems, in the order in which they first occur."""
    return require_systems(dict.fromkeys(system for item in items for system in item.replies))


def require_systems(systems: Iterable[str]) -> list[str]:
    """Return the systems; BadInput where there are none."""
    listed = list(systems)
    if not listed:
        raise BadInput("no item has a reply", remedy='give every item "replies": {"system": "its reply"}')
    return listed


# ── which references a metric looks at ────────────────────────────────────────────────────────────────────────────


def references_of(references: Sequence[Reference], uses: Uses, utterance: str | None = None) -> References | Problem:
    """Return the references that a metric looks at, with their weights, or the reason why there are none.

    Empty references are left out: in test files they stand for references that do not exist. Only metrics that look at
    the utterance get it, so that the scores of others cannot depend on it.
    """
    if uses is Uses.UTTERANCE:
        return References((), (), -1, utterance) if (utterance or "").strip() else NO_UTTERANCE
    if uses is Uses.DIALOGUE:
        return References((), (), -1, utterance)
    references = [reference for reference in references if reference.text.strip()]
    if uses is Uses.GOLDS:
        return _golds_of(references, utterance)
    if uses is Uses.WEIGHTED:
        references = [reference for reference in references if not reference.is_unused]
    gold = _first_gold(references)
    if uses is Uses.GOLD:
        return References((references[gold].text,), (1.0,)) if gold >= 0 else NO_GOLD
    if uses is not Uses.WEIGHTED:
        references = [reference for reference in references if reference.is_own]
    weights = [_weight(reference, uses) for reference in references]
    if None in weights:
        return NO_WEIGHT
    texts = tuple(reference.text for reference in references)
    return References(texts, tuple(weight for weight in weights if weight is not None), _first_gold(references))


def _first_gold(references: Sequence[Reference]) -> int:
    """Return the place of the first gold, or -1."""
    return next((place for place, reference in enumerate(references) if reference.source is Origin.GOLD), -1)


def references_for(metric: Metric, references: Sequence[Reference], turns: Sequence[str] = ()) -> References | Problem:
    """Return what a metric looks at, also for its second part, which may use other references than the first.

    `turns` are the dialogue up to the reply; the last one is the utterance, unless the metric looks at more of them.
    """
    utterance = metric.turn_separator.join(turns[-metric.turns :]) if turns else None
    if metric.components:
        return _references_of_components(metric, references, turns, utterance)
    chosen = references_of(references, metric.info.uses, utterance)
    if isinstance(chosen, Problem) or metric.info.beside is None:
        return chosen
    beside = references_of(references, metric.info.beside, utterance)
    return beside if isinstance(beside, Problem) else replace(chosen, beside=beside)


def _references_of_components(
    metric: Metric, references: Sequence[Reference], turns: Sequence[str], utterance: str | None
) -> References:
    """Return what each component looks at, or its problem, beside all turns and the references of the item."""
    own = tuple(reference.text for reference in references if reference.is_own and reference.text.strip())
    components = list[References | Problem]()
    for component in metric.components:
        chosen = references_for(component, references, turns)
        components.append(problem_of(chosen, component.info.uses) or chosen)
    return replace(References.unweighted(own), utterance=utterance, components=tuple(components))


def _golds_of(references: Sequence[Reference], utterance: str | None) -> References | Problem:
    golds = tuple(reference.text for reference in references if reference.source is Origin.GOLD)
    if not golds:
        return NO_GOLD
    if utterance is None or not utterance.strip():
        return NO_UTTERANCE
    return References(golds, (1.0,) * len(golds), utterance=utterance)


def _weight(reference: Reference, uses: Uses) -> float | None:
    """Return a reference's weight: 1 for golds without a rating, and for all references where only texts matter."""
    if uses is Uses.OWN or (reference.source is Origin.GOLD and (uses is Uses.RATED or reference.weight is None)):
        return 1.0
    return reference.weight


class UnsuitableReferences(BadInput):
    """References that a metric cannot be computed from."""


def require_references(items: Sequence[Item], metric: Metric) -> None:
    """Refuse a weighted score where no reference has a weight: it would be another metric's score."""
    has_text = any(map(_has_reference, items))
    sources = Counter(reference.source for item in items for reference in item.references)
    require_texts_and_sources([item.id for item in items], sources, metric, has_text=has_text)


def require_texts_and_sources(
    ids: Sequence[str], sources: Mapping[Origin, int], metric: Metric, *, has_text: bool
) -> None:
    """Refuse what `require_references` refuses, by counts of the references of the items with these ids."""
    if metric.info.uses in (Uses.RATED, Uses.WEIGHTED) and ids and not has_text:
        raise no_gold_error(ids, metric.name)
    require_sources(sources, metric)


def _has_reference(test_item: Item) -> bool:
    return any(reference.text.strip() for reference in test_item.references)


def no_gold_error(items: Sequence[str], metric: str) -> NoGold:
    """Return the error of scores that need a gold where none of the items with these ids has any."""
    more = f", and neither have {len(items) - 1:,} more" if len(items) > 1 else ""
    return NoGold(
        f"no reply has a score by {metric}: item {items[0]} has no gold{more}",
        remedy=f'give every item "references": ["its gold"]{_without_gold(metric)}',
        items=items,
    )


def _without_gold(metric: str) -> str:
    """Return how the metric does without golds, as the end of a remedy; empty where it does not."""
    return _RATED_ALONE if metric == "rater" else _FOUND_ALONE if metric.startswith("upsilon-") else ""


def require_sources(counts: Mapping[Origin, int], metric: Metric) -> None:
    """Refuse a weighted score where these numbers of references by source have no weights."""
    if metric.info.uses is Uses.RATED and not counts.get(Origin.SUPPLIED):
        raise UnsuitableReferences(
            f"no item has a reference weighted by people, so {metric.name} would be multi-bleu",
            remedy='write references as {"text": …, "weight": …} or with "ratings", or ask for multi-bleu',
        )
    if metric.info.uses is Uses.WEIGHTED and not sum(counts.values()) - counts.get(Origin.GOLD, 0):
        raise UnsuitableReferences(
            f"no item has other references than golds, so {metric.name} has nothing to weigh",
            remedy="give items whose references carry weights or ratings, or ask for the metric without upsilon-",
        )


def trained_on_error(metric: str, codes: Collection[str], count: int) -> TrainedOn | None:
    """Return the error of a judge all of whose rows are ones that it was fitted to; None for other problems."""
    if set(codes) - {NO_REPLY.code} != {TRAINED_ON.code}:
        return None
    return TrainedOn(
        f"{metric} was fitted to all {count:,} replies that it was asked about, or to their contexts",
        remedy=f"score other items, or see how it repeats its ratings: {metric}:seen=keep",
    )


def unsuitable_error(metric: Metric, codes: Collection[str], ids: Sequence[str]) -> BadInput | None:
    """Return the error of a metric that no part of a test file suits; None for one that suits any references.

    `codes` are those of the errors of the parts, and `ids` all items.
    """
    if metric.info.uses not in (Uses.RATED, Uses.WEIGHTED):
        return None
    if set(codes) == {NoGold.code}:
        return no_gold_error(ids, metric.name)
    try:
        require_sources({Origin.GOLD: 1}, metric)
    except UnsuitableReferences as error:
        return error
    return None


def evidence_of(test_item: Item) -> dict[str, Any]:
    """Return the references that a weighted score of this item rests on."""
    references = [reference for reference in test_item.references if not reference.is_unused]
    further = [reference for reference in references if reference.source is not Origin.GOLD]
    above_zero = _count_positive(test_item)
    sources: dict[str, int] = {}
    for reference in references:
        source = reference.source.value
        sources[source] = sources.get(source, 0) + 1
    return {
        "references": len(references),
        "sources": dict(sorted(sources.items())),
        "similarities": [reference.similarity for reference in further],
        "weights": [reference.weight for reference in further],
        "above_zero": above_zero,
        "thin": above_zero < ENOUGH,
    }


def is_thin(test_item: Item) -> bool:
    """Whether few references beside the golds have a positive weight."""
    return _count_positive(test_item) < ENOUGH


def other_golds(test_item: Item) -> int:
    """Count the golds with another weight than 1."""
    golds = (reference for reference in test_item.references if reference.source is Origin.GOLD)
    return sum(gold.weight not in (None, 1.0) for gold in golds)


def _count_positive(test_item: Item) -> int:
    """Count the references beside the golds that have a positive weight."""
    count = 0
    for reference in test_item.references:
        if (reference.weight or 0) > 0 and reference.source is not Origin.GOLD:
            count += 1
    return count


# ── scoring ───────────────────────────────────────────────────────────────────────────────────────────────────────


@dataclass(frozen=True, slots=True)
class Case:
    """A reply and the references that it is scored against; cases with the same references should share the object."""

    reply: str
    references: References


def case_of(reply: str | None, references: References | Problem, uses: Uses) -> Case | Problem:
    """Return the case of a reply, or why it cannot be scored."""
    if reply is None:
        return NO_REPLY
    if (problem := problem_of(references, uses)) is not None:
        return problem
    assert isinstance(references, References), "the others are problems"
    return Case(reply, references)


def problem_of(references: References | Problem, uses: Uses) -> Problem | None:
    """Return why nothing can be scored against references; without any that a metric looks at, there is no gold."""
    if isinstance(references, Problem):
        return references
    has_texts = bool(references.texts or references.components)
    return None if has_texts or uses is Uses.UTTERANCE else NO_GOLD_OR_OTHER


@dataclass(frozen=True)
class ScoredCases:
    """The statistics of cases, row by row; NaN where there is no score, with the reason."""

    statistics: Floats
    problems: Mapping[int, Problem]

    def values(self, metric: Metric) -> Floats:
        """Return the score of every case, NaN where there is none."""
        return metric.values(self.statistics, Level.REPLY)


@dataclass(frozen=True, kw_only=True)
class _ScorableCases:
    """The cases that can be scored, in the columns that metrics take; shared references occur only once."""

    rows: Indexes  # the place of each among all cases
    replies: Sequence[str]
    references: Sequence[References]
    items: Indexes  # the place of each reply's references in `references`

    @classmethod
    def of(cls, cases: Sequence[Case | Problem]) -> _ScorableCases:
        """Split the cases into columns, in their order."""
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
        places, numbers = np.array(rows, dtype=np.int64), np.array(items, dtype=np.int64)
        return cls(rows=places, replies=replies, references=references, items=numbers)

    def pieces(self, metric: Metric) -> Iterator[tuple[_ScorableCases, Lengths]]:
        """Yield pieces of limited cost for the metric, with the lengths of their references.

        Replies to the same references stay together. A metric that looks at all of them gets one piece.
        """
        lengths = metric.lengths([of_item.texts for of_item in self.references])
        if metric.looks_at_set:
            yield self, lengths
            return
        units = metric.cost(metric.lengths([[reply] for reply in self.replies]), lengths.at(self.items))
        of_replies = np.bincount(self.items, units, minlength=len(self.references))
        piece_of = piece_numbers(metric.reading_cost(lengths) + of_replies)
        if not len(piece_of) or piece_of[0] == piece_of[-1]:
            yield self, lengths
            return
        rows = np.argsort(piece_of[self.items], kind="stable")
        numbers = np.unique(piece_of)
        row_ends = np.searchsorted(piece_of[self.items][rows], numbers, side="right")
        first_row, first = 0, 0
        for end, last in zip(row_ends.tolist(), np.searchsorted(piece_of, numbers, side="right").tolist(), strict=True):
            places = rows[first_row:end]
            piece = _ScorableCases(
                rows=self.rows[places],
                replies=[self.replies[place] for place in places.tolist()],
                references=self.references[first:last],
                items=self.items[places] - first,
            )
            yield piece, lengths.at(np.arange(first, last))
            first_row, first = end, last


def bind_metric(metric: Metric, chosen: Sequence[References | Problem], cases: Sequence[Case | Problem]) -> Metric:
    """Return the metric for a set with these references and for exactly these replies, where scores depend on them."""
    return bind_to_replies(metric.for_set([one for one in chosen if isinstance(one, References)]), cases)


def bind_to_replies(metric: Metric, cases: Sequence[Case | Problem]) -> Metric:
    """Return the metric for exactly the replies of these cases."""
    scorable = _ScorableCases.of(cases)
    return metric.for_replies(scorable.replies, scorable.references, scorable.items)


def score_cases(metric: Metric, cases: Sequence[Case | Problem], progress: Progress | None = None) -> ScoredCases:
    """Score each case and keep each problem as it is; references that cases share are prepared once."""
    scorable = _ScorableCases.of(cases)
    problems = {row: case for row, case in enumerate(cases) if isinstance(case, Problem)}
    statistics = np.full((len(cases), len(metric.columns)), np.nan)
    for piece, lengths in scorable.pieces(metric):
        prepared = metric.prepare(piece.references)
        scored = score_prepared(metric, prepared, lengths, piece.replies, piece.items, progress)
        statistics[piece.rows] = scored.statistics
        problems |= {int(piece.rows[place]): why for place, why in scored.problems.items()}
    return ScoredCases(statistics, dict(sorted(problems.items())))


def score_prepared(
    metric: Metric,
    prepared: Prepared,
    lengths: Lengths,
    replies: Sequence[str],
    items: Indexes,
    progress: Progress | None = None,
) -> ScoredCases:
    """Score replies against prepared references of these lengths, the i-th reply against the item `items[i]`."""
    statistics = np.empty((len(replies), len(metric.columns)))
    for first, last in _batches(metric, lengths, replies, items):
        texts = replies[first:last]
        statistics[first:last] = metric.statistics(texts, prepared, np.arange(len(texts)), items[first:last])
        if progress is not None:
            progress.advance(len(texts))
    without = np.flatnonzero(np.isnan(statistics).any(axis=1)).tolist()
    statistics[without] = np.nan
    return ScoredCases(
        statistics, {place: metric.problem_of(replies[place], prepared, int(items[place])) for place in without}
    )


def _batches(metric: Metric, lengths: Lengths, replies: Sequence[str], items: Indexes) -> Iterator[tuple[int, int]]:
    """Yield the first row and the end of each batch, of limited number and cost.

    Where a model reads many texts at once, the number alone decides: with others beside it a row has other last bits.
    """
    if not len(replies):
        return
    batch_of = np.arange(len(replies)) // _BATCH
    if not metric.computes_in_batches:
        units = metric.cost(metric.lengths([[reply] for reply in replies]), lengths.at(items))
        batch_of = np.cumsum(np.diff(batch_of, prepend=0) | (np.diff(piece_numbers(units), prepend=0) > 0))
    ends = np.flatnonzero(np.diff(batch_of, append=-1)) + 1
    yield from zip([0, *ends[:-1].tolist()], ends.tolist(), strict=True)


def leave_one_out(
    metric: Metric, cases: Sequence[Case | Problem], progress: Progress | None = None
) -> dict[int, list[float | None]]:
    """Return the scores of every case with each reference left out in turn; None where no reference remains."""
    fewer, owners = list[Case | Problem](), list[int]()
    for row, case in enumerate(cases):
        if isinstance(case, Case):
            places = range(len(case.references.texts))
            for place in places:
                remaining = [other for other in places if other != place]
                fewer.append(Case(case.reply, case.references.select(remaining)))
            owners += [row] * len(places)
    watch = None if progress is None else Watched(progress)
    values = score_cases(metric, fewer, watch).values(metric)
    by_row: dict[int, list[float | None]] = {row: [] for row, case in enumerate(cases) if isinstance(case, Case)}
    for row, score in zip(owners, values, strict=True):
        by_row[row].append(None if np.isnan(score) else float(score))
    return by_row
