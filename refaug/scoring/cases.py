"""The references that a metric looks at, and the scoring of any number of replies against them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Generator, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import chain
from typing import Any, Final, TypeVar

import numpy as np

from refaug.core.errors import BadInput, NoGold, TrainedOn
from refaug.core.progress import Progress, Watched
from refaug.core.records import Item, Origin, Reference
from refaug.metrics.base import (
    NO_GOLD,
    NO_UTTERANCE,
    TRAINED_ON,
    Floats,
    Indexes,
    Level,
    Metric,
    Prepared,
    Problem,
    References,
)
from refaug.metrics.costs import PIECE, piece_numbers
from refaug.metrics.metric_info import Uses
from refaug.scoring.items import BadItem

_BATCH: Final = 2_000  # replies at most between two reports of progress, at each of which the work can be cancelled
ENOUGH: Final = 3  # references of positive weight beside the golds; fewer are thin evidence
NO_REPLY: Final = Problem("no_reply", "the system has no reply to this item")
NO_GOLD_IN_ITEM: Final = "it has no gold, and no other reference that could be scored against"
NO_GOLD_OR_OTHER: Final = Problem("no_gold", NO_GOLD_IN_ITEM)
NO_WEIGHT: Final = Problem("no_weight", "one of its references has neither a weight nor a rating")


_RATED_ALONE: Final = ", or ask for rater:refs=none, which rates by the utterance alone"
_FOUND_ALONE: Final = ", or set gold to none (--gold none), where an index finds references and a rater weighs them"


# ── Items ─────────────────────────────────────────────────────────────────────────────────────────────────────────


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
        raise BadInput(
            "no item has a reply",
            remedy='give every item "replies": {"system": "its reply"}; of a table: --map reply:NAME=COLUMN',
        )
    return listed


# ── Which references a metric looks at ────────────────────────────────────────────────────────────────────────────


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
    if uses is Uses.CONTEXT:
        return _context_of(references, utterance)
    if uses is Uses.GOLDS:
        return _golds_of(references, utterance)
    if uses is Uses.WEIGHTED:
        is_gold = [reference.source is Origin.GOLD for reference in references]
        if is_gold and all(is_gold) and not (utterance or "").strip():
            return NO_UTTERANCE  # nothing can be found by it: the score would be that of the unweighted metric
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


def _context_of(references: Sequence[Reference], utterance: str | None) -> References | Problem:
    if not (utterance or "").strip():
        return NO_UTTERANCE
    golds = [one.text for one in references if one.source is Origin.GOLD and not one.is_unused]
    return replace(References.unweighted(golds), gold=0 if golds else -1, utterance=utterance)


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
    needs_others = metric.info.uses is Uses.WEIGHTED and metric.info.beside is not Uses.CONTEXT
    if needs_others and not sum(counts.values()) - counts.get(Origin.GOLD, 0):
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


# ── Scoring ───────────────────────────────────────────────────────────────────────────────────────────────────────


_Made = TypeVar("_Made")
Reply = str | Problem | None  # the reply to an item, or why it cannot be scored; None: there is none
Scored = tuple[Floats, dict[int, Problem]]  # a row of statistics for every reply, and by row why there are none


# Replies to be scored by a metric, each against the references in its place.
RowsToScore = tuple[Metric, Sequence[Reply], Sequence[References | Problem]]
# Work that yields rows, goes on when it is sent their scores, and returns what it makes of them: so one call can score
# the rows of several requests.
ScoringSteps = Generator[RowsToScore, Scored, _Made]


def scored_alone(steps: ScoringSteps[_Made], progress: Progress | None = None) -> _Made:
    """Return what the steps make of the scores of their rows."""
    try:
        rows = next(steps)
        while True:
            rows = steps.send(score_replies(*rows, progress))
    except StopIteration as end:
        made: _Made = end.value
        return made


def score_together(parts: Sequence[RowsToScore], progress: Progress | None = None) -> list[Scored]:
    """Score several parts by one metric whose bits are the same as of each part alone."""
    metrics, replies, references = zip(*parts, strict=True)
    every_reply, every_reference = list(chain.from_iterable(replies)), list(chain.from_iterable(references))
    statistics, problems = score_replies(metrics[0], every_reply, every_reference, progress)
    scored, first = list[Scored](), 0
    for own in replies:
        rows = range(first, first + len(own))
        scored.append(
            (statistics[rows.start : rows.stop], {row - first: problems[row] for row in rows if row in problems})
        )
        first = rows.stop
    return scored


def problem_of(references: References | Problem, uses: Uses) -> Problem | None:
    """Return why nothing can be scored against references; without any that a metric looks at, there is no gold."""
    if isinstance(references, Problem):
        return references
    has_texts = bool(references.texts or references.components)
    return None if has_texts or uses is Uses.UTTERANCE else NO_GOLD_OR_OTHER


def bind_metric(
    metric: Metric,
    chosen: Sequence[References | Problem],
    replies: Sequence[Reply],
    references: Sequence[References | Problem],
) -> Metric:
    """Return the metric for a set with these references and for exactly these replies, where scores depend on them.

    `references` are those of each reply, as in `score_replies`.
    """
    return bind_to_replies(metric.for_set([one for one in chosen if isinstance(one, References)]), replies, references)


def bind_to_replies(metric: Metric, replies: Sequence[Reply], references: Sequence[References | Problem]) -> Metric:
    """Return the metric for exactly these replies."""
    rows, _ = _scorable(replies, references)
    return metric.for_replies([str(replies[row]) for row in rows], *_distinct([references[row] for row in rows]))


def score_replies(
    metric: Metric,
    replies: Sequence[Reply],
    references: Sequence[References | Problem],
    progress: Progress | None = None,
) -> tuple[Floats, dict[int, Problem]]:
    """Score each reply against the references in its place; references that are the same object are prepared once.

    The statistics have a row for every reply, NaN where it has no score; the problems say why, by row.
    """
    rows, problems = _scorable(replies, references)
    texts = [str(replies[row]) for row in rows]
    distinct, items = _distinct([references[row] for row in rows])
    lengths = metric.lengths([of_item.read_texts for of_item in distinct])
    row_of, statistics = np.array(rows, dtype=np.int64), np.full((len(replies), len(metric.columns)), np.nan)
    for places, part in _pieces(metric, lengths, texts, items):
        prepared, piece = metric.prepare(distinct[part]), [texts[place] for place in places.tolist()]
        lengths_of_piece = lengths[:, part]
        scored, unscored = score_prepared(
            metric, prepared, lengths_of_piece, piece, items[places] - part.start, progress
        )
        statistics[row_of[places]] = scored
        problems |= {rows[places[at]]: problem for at, problem in unscored.items()}
    return statistics, dict(sorted(problems.items()))


def _scorable(
    replies: Sequence[Reply], references: Sequence[References | Problem]
) -> tuple[list[int], dict[int, Problem]]:
    """Return the rows that can be scored, and why others cannot."""
    rows, problems = list[int](), dict[int, Problem]()
    for row, (reply, of_reply) in enumerate(zip(replies, references, strict=True)):
        if isinstance(reply, Problem):
            problems[row] = reply
        elif reply is None:
            problems[row] = NO_REPLY
        elif isinstance(of_reply, Problem):
            problems[row] = of_reply
        else:
            rows.append(row)
    return rows, problems


def _distinct(references: Sequence[References | Problem]) -> tuple[list[References], Indexes]:
    """Return references without those that are the same object, and the place of each among them."""
    by_id = {id(of_reply): of_reply for of_reply in references if isinstance(of_reply, References)}
    place_of = {key: place for place, key in enumerate(by_id)}
    return list(by_id.values()), np.array([place_of[id(of_reply)] for of_reply in references], dtype=np.int64)


def _pieces(metric: Metric, lengths: Floats, replies: Sequence[str], items: Indexes) -> Iterator[tuple[Indexes, slice]]:
    """Yield pieces of limited cost for the metric: the places of replies, and the references that they are scored by.

    Replies to the same references stay together. One piece has all of them where scores depend on what is beside them.
    """
    count = lengths.shape[1]
    is_whole = count <= 1 or metric.looks_at_set or metric.computes_in_batches
    if not is_whole:
        units = metric.cost(metric.reply_lengths(replies), lengths[:, items])
        piece_of = piece_numbers(metric.reading_cost(lengths) + np.bincount(items, units, minlength=count))
    if is_whole or piece_of[0] == piece_of[-1]:
        yield np.arange(len(replies)), slice(0, count)
        return
    places, numbers, first = np.argsort(piece_of[items], kind="stable"), np.unique(piece_of), 0
    row_ends = np.searchsorted(piece_of[items][places], numbers, side="right")
    ends = np.searchsorted(piece_of, numbers, side="right").tolist()
    for of_piece, end in zip(np.split(places, row_ends[:-1]), ends, strict=True):
        yield of_piece, slice(first, end)
        first = end


def score_prepared(
    metric: Metric,
    prepared: Prepared,
    lengths: Floats,
    replies: Sequence[str],
    items: Indexes,
    progress: Progress | None = None,
) -> tuple[Floats, dict[int, Problem]]:
    """Score replies against prepared references of these lengths, the i-th reply against the item `items[i]`."""
    statistics = np.empty((len(replies), len(metric.columns)))
    for first, last in _batches(metric, lengths, replies, items):
        texts = replies[first:last]
        statistics[first:last] = metric.statistics(texts, prepared, np.arange(len(texts)), items[first:last])
        if progress is not None:
            progress.advance(len(texts))
    without = np.flatnonzero(np.isnan(statistics).any(axis=1)).tolist()
    statistics[without] = np.nan
    return statistics, {place: metric.problem_of(replies[place], prepared, int(items[place])) for place in without}


def _batches(metric: Metric, lengths: Floats, replies: Sequence[str], items: Indexes) -> Iterator[tuple[int, int]]:
    """Yield the first row and the end of each batch, of limited number and cost.

    Where a model reads many texts at once, the number alone decides: with others beside it a row has other last bits.
    """
    if not len(replies):
        return
    if len(replies) <= _BATCH and (metric.computes_in_batches or metric.is_within(PIECE, replies, lengths)):
        yield 0, len(replies)
        return
    batch_of = np.arange(len(replies)) // _BATCH
    if not metric.computes_in_batches:
        units = metric.cost(metric.reply_lengths(replies), lengths[:, items])
        batch_of = np.cumsum(np.diff(batch_of, prepend=0) | (np.diff(piece_numbers(units), prepend=0) > 0))
    ends = np.flatnonzero(np.diff(batch_of, append=-1)) + 1
    yield from zip([0, *ends[:-1].tolist()], ends.tolist(), strict=True)


def leave_one_out(
    metric: Metric,
    replies: Sequence[Reply],
    references: Sequence[References | Problem],
    progress: Progress | None = None,
) -> dict[int, list[float | None]]:
    """Return the scores of every reply with each reference left out in turn; None where no reference remains.

    References that a metric does not count are left out of one row together: none of them changes the score.
    """
    fewer, owners, by_row = list[References](), list[tuple[int, list[int]]](), dict[int, list[float | None]]()
    for row in _scorable(replies, references)[0]:
        reply, of_reply = replies[row], references[row]
        assert isinstance(reply, str), "the others cannot be scored"
        assert isinstance(of_reply, References), "the others cannot be scored"
        places = range(len(of_reply.texts))
        counted = metric.counted_references(reply, of_reply)
        single = places if counted is None else counted
        idle = sorted({*places} - {*single})
        for together in [*([place] for place in single), *([idle] if idle else [])]:
            fewer.append(of_reply.select([place for place in places if place not in together]))
            owners.append((row, together))
        by_row[row] = [None] * len(places)
    watch = None if progress is None else Watched(progress)
    statistics, _ = score_replies(metric, [replies[row] for row, _ in owners], fewer, watch)
    for (row, left_out), score in zip(owners, metric.values(statistics, Level.REPLY).tolist(), strict=True):
        for place in left_out:
            by_row[row][place] = None if np.isnan(score) else score
    return by_row
