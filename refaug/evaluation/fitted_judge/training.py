"""From rated sets and metrics to a fitted judge with its figures, out of group and on other contexts of its sets."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

import numpy as np
from scipy.stats import spearmanr

from refaug.core.errors import BadInput
from refaug.core.progress import Progress
from refaug.core.records import Item
from refaug.core.text.normalisation import normalise
from refaug.evaluation.agreement.records import ComparedMetric
from refaug.evaluation.agreement.row_scores import length_tokenizer, lengths_of_rows, values_of_rows
from refaug.evaluation.agreement.rows import RatedRows
from refaug.evaluation.fitted_judge.fit import fit_judge
from refaug.evaluation.fitted_judge.held_out import out_of_fold_scores, out_of_group_scores, shuffled_within_sets
from refaug.evaluation.fitted_judge.rated_table import FEWEST_ROWS, RatedTable
from refaug.evaluation.metric_setup.combined.combination import CombinedJudge, FitSettings
from refaug.metrics.base import Floats, Indexes
from refaug.metrics.statistics.correlation import partial_spearman
from refaug.rater.adem.scorer.rated_triples import Triple
from refaug.rater.adem.scorer.seen_texts import SeenTexts

_SHUFFLES: Final = 5
_FEWEST_IN_FOLDS: Final = 20  # rows of a judge that only measures: four folds of the fewest that are fitted to
OUT_OF_GROUP, OUT_OF_FOLD = "out of group", "other contexts of the same sets"


@dataclass(frozen=True, kw_only=True, eq=False)
class TrainedJudge:
    """A judge, the texts that it was fitted to, and how well judges like it agree with ratings they never saw."""

    judge: CombinedJudge
    seen: SeenTexts
    report: Mapping[str, Any]


def train_judge(
    sets: Sequence[RatedRows], metrics: Sequence[ComparedMetric], settings: FitSettings, progress: Progress
) -> TrainedJudge:
    """Score the fair rows of rated sets by the metrics, and fit a judge to their ratings."""
    table = table_of_sets(sets, metrics, progress)
    _require_fit(sets, table)
    progress.stage("fitting")
    replies = (row.reply for rated_rows in sets for row in rated_rows.rows)
    judge = replace(fit_judge(table, settings), length_tokenizer=length_tokenizer(replies))
    triples = (triple for rated_rows in sets for triple in _triples(rated_rows))
    return TrainedJudge(judge=judge, seen=SeenTexts.of(triples), report=_report(sets, table, judge, settings))


def table_of_sets(sets: Sequence[RatedRows], metrics: Sequence[ComparedMetric], progress: Progress) -> RatedTable:
    """Return the rows of all sets with the scores of the metrics; rows that rate a gold get no rating."""
    parts = [
        np.stack([values_of_rows(rated_rows, compared, progress) for compared in metrics], axis=1)
        for rated_rows in sets
    ]
    sizes = [len(rated_rows.rows) for rated_rows in sets]
    ratings = [np.where(rated_rows.is_candidate, np.nanmean(rated_rows.ratings, axis=1), np.nan) for rated_rows in sets]
    contexts, groups = _contexts_and_groups(sets)
    return RatedTable(
        features=tuple(compared.name for compared in metrics),
        values=np.concatenate(parts),
        ratings=np.concatenate(ratings),
        lengths=np.concatenate([lengths_of_rows(rated_rows) for rated_rows in sets]),
        sets=np.repeat(np.arange(len(sets)), sizes),
        groups=np.repeat(groups, sizes),
        contexts=contexts,
    )


def _contexts_and_groups(sets: Sequence[RatedRows]) -> tuple[Indexes, list[int]]:
    """Return the context of each row, and the group of each set; sets that share a context are one group."""
    numbers, by_set = dict[tuple[str, ...], int](), list[list[int]]()
    for place, rated_rows in enumerate(sets):
        keys = [_context_key(item, place) for item in rated_rows.items]
        by_set.append([numbers.setdefault(keys[row.item], len(numbers)) for row in rated_rows.rows])
    groups = list(range(len(sets)))
    for place, own in enumerate(by_set):
        for earlier in range(place):
            if set(own) & set(by_set[earlier]):
                groups = [groups[earlier] if group == groups[place] else group for group in groups]
    return np.array([number for own in by_set for number in own], np.int64), groups


def _context_key(test_item: Item, place: int) -> tuple[str, ...]:
    """Return what tells a context: its last turn with the gold; all turns where no gold is; of neither, the item."""
    turns = tuple(map(normalise, test_item.turns))
    gold = normalise(test_item.gold.text) if test_item.gold else ""
    if gold:
        return ("gold", turns[-1] if turns else "", gold)
    return ("turns", *turns) if any(turns) else ("item", str(place), test_item.id)


def _require_fit(sets: Sequence[RatedRows], table: RatedTable) -> None:
    """Raise BadInput where nothing can be fitted, with the metrics that lack scores, or the set that says nothing."""
    complete = table.complete()
    if len(complete) < FEWEST_ROWS:
        is_rated = np.isfinite(table.ratings)
        scored = np.isfinite(table.values[is_rated]).sum(axis=0).tolist()
        by_metric = ", ".join(f"{name} {count:,}" for name, count in zip(table.features, scored, strict=True))
        raise BadInput(
            f"{len(complete):,} rated replies have a score by every metric; at least {FEWEST_ROWS} are needed. Of "
            f"{int(is_rated.sum()):,} rated ones are scored by {by_metric}",
            remedy="give more rated items, or metrics that suit them",
        )
    for number, rated_rows in enumerate(sets):
        ratings = complete.ratings[complete.sets == number]
        if len(ratings) and np.ptp(ratings) == 0:
            raise BadInput(
                f"{rated_rows.name}: all {len(ratings):,} ratings are {ratings[0]:g}: there is nothing to fit",
                remedy="give ratings that differ, or leave the file out",
            )


def _triples(rated_rows: RatedRows) -> Iterator[Triple]:
    for row in rated_rows.rows:
        test_item = rated_rows.items[row.item]
        yield Triple(context=test_item.turns, reference=test_item.gold.text if test_item.gold else "", reply=row.reply)


# ── figures ───────────────────────────────────────────────────────────────────────────────────────────────────────────


def _report(
    sets: Sequence[RatedRows], table: RatedTable, judge: CombinedJudge, settings: FitSettings
) -> dict[str, object]:
    complete = table.complete()
    plain = {name: complete.values[:, place] for place, name in enumerate(complete.features)}
    held_out, notes = _held_out_lines(complete, settings)
    lines = {**held_out, "length alone": complete.lengths, **plain}
    figures = {name: _agreement(complete, scores) for name, scores in lines.items()}
    # Equal weights do not depend on ratings.
    seeds = range(_SHUFFLES) if settings.method != "equal" and OUT_OF_FOLD in held_out else ()
    shuffled = [_shuffled_scores(complete, settings, seed) for seed in seeds]
    by_seed = [_agreement(complete, scores)["spearman"] or 0.0 for scores in shuffled if scores is not None]
    return {
        "sets": {
            rated_rows.name: {
                "rated": len(rated_rows.rows),
                "fitted": int((complete.sets == number).sum()),
                "contexts": len(np.unique(complete.contexts[complete.sets == number])),
            }
            for number, rated_rows in enumerate(sets)
        },
        "groups": len(np.unique(complete.groups)),
        "coefficients": dict(zip(judge.features, judge.coefficients, strict=True)),
        "penalty": judge.penalty,
        "length_effect": _length_effect(complete, judge),
        "agreement": {**figures, **_shuffled(by_seed)},
        "notes": notes,
    }


def _held_out_lines(complete: RatedTable, settings: FitSettings) -> tuple[dict[str, Floats], list[str]]:
    """Return the scores of rows by judges that were not fitted to them, and why there are none of a kind."""
    ways: dict[str, Callable[[], Floats]] = {
        OUT_OF_GROUP: lambda: out_of_group_scores(complete, settings),
        OUT_OF_FOLD: lambda: out_of_fold_scores(complete, settings, fewest=_FEWEST_IN_FOLDS),
    }
    if len(np.unique(complete.groups)) < 2:
        del ways[OUT_OF_GROUP]
    lines, notes = dict[str, Floats](), list[str]()
    for name, scores_of in ways.items():
        try:
            lines[name] = scores_of()
        except BadInput as error:
            notes.append(f"{name}: not measured, for a judge without what it is measured on: {error.message}")
    return lines, notes


def _shuffled_scores(complete: RatedTable, settings: FitSettings, seed: int) -> Floats | None:
    """Return out-of-fold scores by shuffled ratings; None where those of a fold are all the same."""
    try:
        return out_of_fold_scores(shuffled_within_sets(complete, seed), settings, fewest=_FEWEST_IN_FOLDS)
    except BadInput:
        return None


def _shuffled(by_seed: Sequence[float]) -> dict[str, dict[str, float | None]]:
    return {"shuffled ratings": {"spearman": float(np.mean(by_seed)), "partial_spearman": None}} if by_seed else {}


def _agreement(table: RatedTable, scores: Floats) -> dict[str, float | None]:
    """Return the mean over sets of Spearman, and of Spearman with the length held fixed."""
    plain, given_length = list[float](), list[float | None]()
    for number in np.unique(table.sets).tolist():
        rows = table.sets == number
        plain.append(float(np.nan_to_num(spearmanr(scores[rows], table.ratings[rows]).statistic)))
        given_length.append(partial_spearman(scores[rows], table.ratings[rows], table.lengths[rows]).value)
    defined = [value for value in given_length if value is not None]
    return {
        "spearman": float(np.mean(plain)),
        "partial_spearman": float(np.mean(defined)) if len(defined) == len(given_length) else None,
    }


def _length_effect(table: RatedTable, judge: CombinedJudge) -> float:
    """Return the Spearman correlation of the judge's scores and the length of the reply, the mean over sets."""
    scores = judge.score(table.values, table.lengths)
    return float(
        np.mean(
            [
                np.nan_to_num(spearmanr(scores[table.sets == number], table.lengths[table.sets == number]).statistic)
                for number in np.unique(table.sets).tolist()
            ]
        )
    )
