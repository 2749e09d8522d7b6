"""From rated sets and metrics to a fitted judge with its figures, out of group and on other contexts of its sets."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

import numpy as np
from scipy.stats import norm, rankdata, spearmanr

from refaug.agreement.records import ComparedMetric
from refaug.agreement.row_scores import length_tokenizer, lengths_of_rows, values_of_rows
from refaug.agreement.rows import RatedRows
from refaug.core.artefacts.manifests import write_manifest
from refaug.core.errors import BadInput
from refaug.core.files import make_folder, remove_tree, write_json
from refaug.core.home import Settings
from refaug.core.progress import Progress
from refaug.extras.judges.combined import (
    FORMAT_VERSION,
    JUDGE,
    KIND,
    REPORT,
    CombinedJudge,
    FitSettings,
    NormalScale,
    judge_versions,
)
from refaug.extras.judges.shared_contexts import context_keys, joined_numbers
from refaug.metrics.base import Floats, Indexes
from refaug.metrics.statistics.correlation import partial_spearman
from refaug.rater.adem.scorer.rated_triples import Triple
from refaug.rater.adem.scorer.seen_texts import SEEN, SeenTexts

# Fitting a judge: metrics on the normal scores of the training rows, added with weights that people's ratings give.
#
# Ridge regression on the normal scores of the ratings shrinks the weights; how much is chosen on folds over contexts
# of the training rows. `equal` takes scales and the effect of length from the training rows, and gives every metric
# the same weight, whatever their ratings.
#
# With `length="held"` the length of the reply is regressed out of every metric and of the ratings first (Frisch and
# Waugh 1933), and out of the metrics again when a reply is scored: a longer reply gets no more and no less for its
# length alone.

# ── ───────────────────────────────────────────────────────────────────────────────────────────────────────────────────
#
# Rated rows as a table: the values of some metrics, ratings, lengths, and which set, group and context a row is of.

FEWEST_ROWS = 50


@dataclass(frozen=True, kw_only=True, eq=False)
class RatedTable:
    """Rows of one or several rated sets; rows of one context are never parted."""

    features: tuple[str, ...]
    values: Floats  # (rows, features)
    ratings: Floats
    lengths: Floats  # tokens of the replies
    sets: Indexes  # the set of each row: scales are compared within a set alone
    groups: Indexes  # of sets that share a source
    contexts: Indexes

    def __len__(self) -> int:
        return len(self.ratings)

    def select(self, rows: Indexes) -> RatedTable:
        """Return these rows, in this order."""
        return RatedTable(
            features=self.features,
            values=self.values[rows],
            ratings=self.ratings[rows],
            lengths=self.lengths[rows],
            sets=self.sets[rows],
            groups=self.groups[rows],
            contexts=self.contexts[rows],
        )

    def complete(self) -> RatedTable:
        """Return the rows that have every value and a rating."""
        return self.select(np.flatnonzero(np.isfinite(self.values).all(axis=1) & np.isfinite(self.ratings)))

    def require_contexts(self) -> None:
        """Raise BadInput for rows of one context: how much weights shrink is chosen on other contexts."""
        if len(np.unique(self.contexts)) < 2:
            raise BadInput(
                f"all {len(self):,} rated replies stand in one context: folds over contexts choose the penalty",
                remedy="rated replies to more contexts, or --method equal",
            )

    def require_enough(self, fewest: int = FEWEST_ROWS) -> None:
        """Raise BadInput for tables that nothing can be fitted to."""
        if len(self) < fewest:
            raise BadInput(
                f"{len(self):,} rated replies have a score by every metric; at least {fewest} are needed",
                remedy="give more rated items, or metrics that suit them",
            )
        for number in np.unique(self.sets).tolist():
            ratings = self.ratings[self.sets == number]
            if np.ptp(ratings) == 0:
                raise BadInput(
                    f"all {len(ratings):,} ratings of a set are {ratings[0]:g}: there is nothing to fit",
                    remedy="ratings that differ",
                )

    @property
    def targets(self) -> Floats:
        """The normal scores of ratings within their set, since scales and tastes of sets differ."""
        targets = np.empty(len(self))
        for number in np.unique(self.sets).tolist():
            rows = self.sets == number
            targets[rows] = norm.ppf((rankdata(self.ratings[rows]) - 0.5) / rows.sum())
        return targets

    @property
    def weights(self) -> Floats:
        """Weights of the rows, of mean 1: each group counts the same, and each set of a group."""
        weights = np.empty(len(self))
        for group in np.unique(self.groups).tolist():
            of_group = self.groups == group
            sets = np.unique(self.sets[of_group]).tolist()
            for number in sets:
                rows = self.sets == number
                weights[rows] = 1 / (len(sets) * rows.sum())
        return np.asarray(weights * len(self) / weights.sum())


# ── Training ──────────────────────────────────────────────────────────────────────────────────────────────────────────

PENALTIES: Final = (0.001, 0.01, 0.1, 1.0, 10.0)  # for each row
FOLDS: Final = 5


def fit_judge(table: RatedTable, settings: FitSettings | None = None, *, fewest: int = FEWEST_ROWS) -> CombinedJudge:
    """Fit a judge to the complete rows of a table; the penalty is the one with the best Spearman on folds.

    `fewest` are the rows that it takes at least: less than usual where folds measure a judge.
    """
    settings, table = settings or FitSettings(), table.complete()
    table.require_enough(fewest)
    if settings.method == "equal":
        return _fit_with(table, 0.0, settings)
    table.require_contexts()
    folds = context_folds(table.contexts, settings.seed)
    agreements = [_agreement_on_folds(table, folds, penalty, settings) for penalty in PENALTIES]
    return _fit_with(table, PENALTIES[int(np.argmax(agreements))], settings)


def context_folds(contexts: Indexes, seed: int) -> Indexes:
    """Return the fold of each row: contexts are dealt out at random, so that none is in two folds."""
    distinct, place = np.unique(contexts, return_inverse=True)
    dealt = np.random.default_rng(seed).permutation(len(distinct)) % FOLDS
    folds: Indexes = dealt[place]
    return folds


def _agreement_on_folds(table: RatedTable, folds: Indexes, penalty: float, settings: FitSettings) -> float:
    """Return the mean over sets of Spearman on rows of other folds than those fitted to."""
    scores = np.full(len(table), np.nan)
    for fold in np.unique(folds).tolist():
        rows = np.flatnonzero(folds == fold)
        judge = _fit_with(table.select(np.flatnonzero(folds != fold)), penalty, settings)
        scores[rows] = judge.score(table.values[rows], table.lengths[rows])
    by_set = [table.sets == number for number in np.unique(table.sets).tolist()]
    return float(np.mean([np.nan_to_num(spearmanr(scores[rows], table.ratings[rows]).statistic) for rows in by_set]))


def _fit_with(table: RatedTable, penalty: float, settings: FitSettings) -> CombinedJudge:
    """Return the judge with the weights of this penalty; length is out of metrics and ratings if held."""
    scales = tuple(NormalScale.of(table.values[:, column]) for column in range(len(table.features)))
    equal = (1.0 / len(scales),) * len(scales)
    judge = CombinedJudge(
        features=table.features,
        scales=scales,
        coefficients=equal,
        length_scale=NormalScale.of(table.lengths),
        length_slopes=(0.0,) * len(scales),
        penalty=penalty,
        settings=settings,
    )
    targets, weights = table.targets, table.weights
    if settings.length == "held":
        lengths = judge.length_scale.apply(table.lengths)
        slopes = _slopes(np.column_stack([judge.design(table.values, table.lengths), targets]), lengths, weights)
        judge = replace(judge, length_slopes=tuple(slopes[:-1].tolist()))
        targets = targets - slopes[-1] * lengths
    if settings.method == "equal":  # what ratings say changes nothing
        return judge
    design = judge.design(table.values, table.lengths)
    return replace(judge, coefficients=tuple(_ridge(design, targets, weights, penalty * len(table)).tolist()))


def _slopes(columns: Floats, lengths: Floats, weights: Floats) -> Floats:
    """Return the slope of each column on length, with an intercept."""
    centred = lengths - np.average(lengths, weights=weights)
    return np.asarray((weights * centred) @ columns / (weights @ centred**2 or 1.0))


def _ridge(design: Floats, targets: Floats, weights: Floats, penalty: float) -> Floats:
    """Return the weights that minimise the weighted squared error and penalty · |weights|², with a free intercept."""
    design = design - np.average(design, axis=0, weights=weights)
    targets = targets - np.average(targets, weights=weights)
    normal = (design * weights[:, None]).T @ design + penalty * np.eye(design.shape[1])
    return np.asarray(np.linalg.solve(normal, (design * weights[:, None]).T @ targets))


# ── Scores by judges that were fitted without the rows they score: without a group, or without a fold of contexts ─────


def out_of_group_scores(table: RatedTable, settings: FitSettings | None = None) -> Floats:
    """Return the score of each row by a judge that was fitted to the other groups alone; NaN where a value is missing.

    Sets of one group share contexts or their source, so a judge must not be fitted to one of them and tried on another.
    """
    scores = np.full(len(table), np.nan)
    for group in np.unique(table.groups).tolist():
        rows = np.flatnonzero(table.groups == group)
        judge = fit_judge(table.select(np.flatnonzero(table.groups != group)), settings)
        scores[rows] = judge.score(table.values[rows], table.lengths[rows])
    return scores


def out_of_fold_scores(table: RatedTable, settings: FitSettings | None = None, *, fewest: int = FEWEST_ROWS) -> Floats:
    """Return the score of each row by a judge fitted to other contexts, of the same set too: seen domain and taste.

    `fewest` are the rows that each of these judges is fitted to at least.
    """
    settings = settings or FitSettings()
    folds = context_folds(table.contexts, settings.seed)
    scores = np.full(len(table), np.nan)
    for fold in np.unique(folds).tolist():
        rows = np.flatnonzero(folds == fold)
        judge = fit_judge(table.select(np.flatnonzero(folds != fold)), settings, fewest=fewest)
        scores[rows] = judge.score(table.values[rows], table.lengths[rows])
    return scores


def shuffled_within_sets(table: RatedTable, seed: int) -> RatedTable:
    """Return the table with its ratings shuffled within each set: a control that knows nothing."""
    random, ratings = np.random.default_rng(seed), table.ratings.copy()
    for number in np.unique(table.sets).tolist():
        rows = np.flatnonzero(table.sets == number)
        ratings[rows] = ratings[random.permutation(rows)]
    return replace(table, ratings=ratings)


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


def _contexts_and_groups(sets: Sequence[RatedRows]) -> tuple[Indexes, Indexes]:
    """Return the context of each row, and the group of each set; sets that share a context are one group."""
    by_item = [
        [
            [*context_keys(item.turns, item.gold.text if item.gold else ""), (str(place), str(number))]
            for number, item in enumerate(rated_rows.items)
        ]
        for place, rated_rows in enumerate(sets)
    ]
    keys = [own[row.item] for own, rated_rows in zip(by_item, sets, strict=True) for row in rated_rows.rows]
    contexts = joined_numbers(keys)
    ends = np.cumsum([len(rated_rows.rows) for rated_rows in sets])[:-1]
    return contexts, joined_numbers(own.tolist() for own in np.split(contexts, ends))


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


# ── Figures ───────────────────────────────────────────────────────────────────────────────────────────────────────────


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


# ── Writing a fitted judge as a version of its name ───────────────────────────────────────────────────────────────────


def save_judge(
    settings: Settings,
    name: str,
    trained: TrainedJudge,
    metrics: Sequence[str],
    signatures: Sequence[str],
) -> str:
    """Write a new version of a judge and publish it; return the version."""
    versions = judge_versions(settings)
    staged = settings.cache / f"{KIND}-{name}"
    with versions.writing(name, f"fitting judge {name}") as writer:
        remove_tree(staged)
        make_folder(staged)
        write_json(staged / JUDGE, trained.judge.as_json())
        write_json(staged / REPORT, dict(trained.report))
        trained.seen.write(staged / SEEN)
        parts = {"metrics": list(metrics), "signatures": list(signatures)}
        write_manifest(staged, KIND, FORMAT_VERSION, [JUDGE, REPORT, SEEN], parts)
        version = writer.add(staged)
        writer.publish(version)
    return version
