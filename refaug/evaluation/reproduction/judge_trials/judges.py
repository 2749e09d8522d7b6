"""`reproduce judges`: whether a judge that is fitted to ratings is better than an unfitted judge, on unseen groups.

Every attempt stands in a list that was written before anything was scored. A fitted judge is tried on a group of sets
that it was not fitted to; its penalty is chosen on folds inside the other groups.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Final

import numpy as np

from refaug.evaluation.fitted_judge.fit import fit_judge
from refaug.evaluation.fitted_judge.held_out import out_of_fold_scores, out_of_group_scores, shuffled_within_sets
from refaug.evaluation.fitted_judge.rated_table import RatedTable
from refaug.evaluation.reports.html_page import Table
from refaug.evaluation.reproduction.figures.annotators import HumanRow, human_rows
from refaug.evaluation.reproduction.figures.correlations import Correlations, IntervalEstimate, Line, correlate
from refaug.evaluation.reproduction.figures.length_stress import tilted_correlations
from refaug.evaluation.reproduction.figures.selection import mean_partial_correlations, select
from refaug.evaluation.reproduction.judge_trials.attempts import ALL_FEATURES, ATTEMPTS, GREEDY, RATER, Attempt
from refaug.evaluation.reproduction.judge_trials.features import (
    BLEU,
    CHRF,
    CROSS,
    CROSS_ALONE,
    LENGTH,
    TEXT_FEATURES,
    JudgeFeatures,
    features_of,
)
from refaug.evaluation.reproduction.judge_trials.judge_lines import line_of_rows, rated_table
from refaug.evaluation.reproduction.judge_trials.vhred_features import VHRED_FEATURES
from refaug.evaluation.reproduction.material import metric_candidates
from refaug.evaluation.reproduction.material.chain import Chain
from refaug.evaluation.reproduction.material.rated_sets import ProofSet
from refaug.evaluation.reproduction.material.reference_kinds import sum_of_ranks
from refaug.evaluation.reproduction.material.set_groups import groups_of
from refaug.evaluation.reproduction.report import report
from refaug.metrics.base import Floats
from refaug.metrics.statistics.correlation import PARTIAL

_LEVEL: Final = 0.95


def differences_together(
    correlations: Correlations, names: Sequence[str], baseline: str, kind: str
) -> dict[str, IntervalEstimate]:
    """Return the difference of each line to the baseline, with intervals that hold for all of them at once.

    The width is that of the largest difference, in standard errors, among all lines of a draw (max-T): at the stated
    level no interval misses, so the best line may be read off the table.
    """
    singles = {name: correlations.difference(name, baseline, kind) for name in names}
    scope = correlations.scopes[-1]
    place = correlations.names.index(baseline)
    drawn = np.stack(
        [
            correlations.drawn[kind, scope][correlations.names.index(name)] - correlations.drawn[kind, scope][place]
            for name in names
        ]
    )
    drawn = drawn[:, np.isfinite(drawn).all(axis=0)]
    if drawn.shape[1] < 2 or any(single.value is None for single in singles.values()):
        return {name: IntervalEstimate(value=single.value, why="not defined") for name, single in singles.items()}
    errors = drawn.std(axis=1, ddof=1)
    is_moving = errors > 0
    scaled = np.abs(drawn - drawn.mean(axis=1, keepdims=True))[is_moving] / errors[is_moving, None]
    width = float(np.quantile(scaled.max(axis=0), _LEVEL)) if is_moving.any() else 0.0
    return {
        name: IntervalEstimate(
            value=single.value, low=(single.value or 0.0) - width * error, high=(single.value or 0.0) + width * error
        )
        for (name, single), error in zip(singles.items(), errors.tolist(), strict=True)
    }


BY_GROUPS: Final = "chosen by the other groups of sets"
BY_FOLDS: Final = "chosen by the other folds of contexts"


@dataclass(frozen=True, kw_only=True)
class JudgeChoice:
    """A line whose scores are those of the candidate that was best elsewhere, and the names of these, by part."""

    line: Line
    chosen: Mapping[str, str]  # the group or fold that was left out → the judge


def choices_of(sets: Sequence[ProofSet], lines: Sequence[Line]) -> list[JudgeChoice]:
    """Choose among judges in both ways; none where there is one group, to which no judge was fitted from elsewhere."""
    if len(groups_of(sets)) < 2:
        return []
    selection = select(sets, lines, BY_FOLDS)
    by_fold = {f"fold {number}": name for number, name in enumerate(selection.by_fold, start=1)}
    return [chosen_by_other_groups(sets, lines), JudgeChoice(line=selection.line, chosen=by_fold)]


def chosen_by_other_groups(sets: Sequence[ProofSet], lines: Sequence[Line]) -> JudgeChoice:
    """Choose a candidate for each group by its mean partial Spearman on the other groups, on fair rows."""
    ranked = [sum_of_ranks([line], line.name) for line in lines]  # on one scale for all candidates
    scores, chosen = dict[str, Floats](), dict[str, str]()
    for group in groups_of(sets):
        elsewhere = [rated_set for rated_set in sets if rated_set.name not in group.sets]
        every_row = {rated_set.name: np.ones(len(rated_set.replies), dtype=np.bool_) for rated_set in elsewhere}
        values = mean_partial_correlations(elsewhere, ranked, every_row)
        best = int(np.argmax(values))
        chosen[group.name] = lines[best].name
        for set_name in group.sets:
            scores[set_name] = ranked[best].scores[set_name][:1]
    about = f"chosen out of {len(lines)} judges, for each group by the other groups"
    return JudgeChoice(line=Line(name=BY_GROUPS, scores=scores, about=about), chosen=chosen)


KINDS: Final = ("spearman", PARTIAL)
TILT: Final = 0.25  # Spearman of length and rating
GAIN: Final = 0.04  # over the recommended judge, that a new one should have
SHUFFLES: Final = 5


_SINGLE: Final = (
    LENGTH,
    BLEU,
    CHRF,
    metric_candidates.GREEDY_GOLD.name,
    RATER,
    CROSS,
    CROSS_ALONE,
    GREEDY,
    *TEXT_FEATURES,
    *VHRED_FEATURES,
)


def judges(chain: Chain, sets: Sequence[ProofSet]) -> report.Report:
    """Return the report: every attempt beside its controls, out of group, and where raters like long replies."""
    single = [rated_set.with_first_gold() for rated_set in sets]
    trial = metric_candidates.Trial(chain, single)
    features = features_of(chain, trial)
    judge_lines, tried = _lines(single, features), _tried(features)
    of_name = {line.name: line for line in judge_lines}
    choices = choices_of(
        single, [of_name[name] for name in (metric_candidates.RECOMMENDED.name, *(attempt.name for attempt in tried))]
    )
    lines = [*judge_lines, *(choice.line for choice in choices)]
    settings = chain.settings
    correlations = correlate(single, lines, kinds=KINDS, draws=settings.draws, seed=settings.seed)
    # The mean over many drawings takes long, and a draw of contexts in each of them too.
    tilted = tilted_correlations(
        single, lines, TILT, seeds=min(5, settings.seeds), draws=min(500, settings.draws), seed=settings.seed
    )
    people = human_rows(sets, draws=settings.draws, seed=settings.seed)
    seconds = {line.name: _seconds_of(line.name, features) for line in lines}
    return report.Report(
        name="judges",
        title="Judges fitted to people's ratings, on groups that they never saw",
        summary=[*_summary(correlations, tilted, tried), *_choices_in_words(correlations, choices)],
        sections=list(_sections(features, correlations, tilted, people, seconds, choices)),
        data={
            "attempts": [{**asdict(attempt), "features": list(attempt.features)} for attempt in tried],
            "main": correlations.as_json(KINDS),
            "less_recommended": _differences(correlations, tried),
            "less_recommended_together": {
                kind: {name: gain.as_json() for name, gain in _gains_together(correlations, tried, kind).items()}
                for kind in KINDS
            },
            "choices": {
                choice.line.name: {
                    "chosen": dict(choice.chosen),
                    **{
                        kind: correlations.difference(
                            choice.line.name, metric_candidates.RECOMMENDED.name, kind
                        ).as_json()
                        for kind in KINDS
                    },
                }
                for choice in choices
            },
            "tilted": None if tilted is None else tilted.as_json(KINDS),
            "seconds_per_1000_replies": seconds,
            "people": {row.name: row.as_json() for row in people},
            "coefficients": _coefficients(single, features),
        },
    )


# ── lines ─────────────────────────────────────────────────────────────────────────────────────────────────────────────


def _lines(sets: Sequence[ProofSet], features: JudgeFeatures) -> list[Line]:
    """Return the recommended judge, single features, all attempts, and the controls."""
    single = [
        features.lines[name]
        for name in dict.fromkeys((*_SINGLE, metric_candidates.RECOMMENDED.name))
        if name in features.lines
    ]
    attempts = [_attempt_line(attempt, sets, features) for attempt in _tried(features)]
    return [*single, *attempts, *_controls(sets, features)]


def _tried(features: JudgeFeatures) -> list[Attempt]:
    """Return the attempts whose features there are: a run may leave the cross rater out."""
    return [attempt for attempt in ATTEMPTS if features.lines.keys() >= set(attempt.features)]


def _attempt_line(attempt: Attempt, sets: Sequence[ProofSet], features: JudgeFeatures) -> Line:
    if attempt.fit is None:
        return sum_of_ranks([features.lines[name] for name in attempt.features], attempt.name, attempt.why)
    if len(groups_of(sets)) < 2:  # nothing to leave out: the report then has the unfitted lines alone
        return _nothing(attempt.name, sets)
    scores = out_of_group_scores(rated_table(sets, features.lines, attempt.features), attempt.fit)
    return line_of_rows(attempt.name, sets, scores[None], attempt.why)


def _controls(sets: Sequence[ProofSet], features: JudgeFeatures) -> Iterator[Line]:
    """Yield a fit to length alone, to shuffled ratings, and one that saw other contexts of the same sets."""
    if len(groups_of(sets)) < 2:
        return
    table = rated_table(sets, features.lines, [name for name in ALL_FEATURES if name in features.lines])
    yield line_of_rows(
        "control: length alone, fitted",
        sets,
        out_of_group_scores(rated_table(sets, features.lines, (LENGTH,)))[None],
        "what a taste in length carries over",
    )
    shuffled = [out_of_group_scores(shuffled_within_sets(table, seed)) for seed in range(SHUFFLES)]
    yield line_of_rows(
        "control: all features, shuffled ratings",
        sets,
        np.stack(shuffled),
        f"{SHUFFLES} seeds: a fit that knows nothing",
    )
    yield line_of_rows(
        "seen domain: ridge, all features, other contexts of all sets",
        sets,
        out_of_fold_scores(table)[None],
        "five folds over contexts: not a claim, but what the features could carry",
    )


def _nothing(name: str, sets: Sequence[ProofSet]) -> Line:
    return Line(name=name, scores={rated_set.name: np.zeros((1, len(rated_set.replies))) for rated_set in sets})


def _seconds_of(name: str, features: JudgeFeatures) -> float | None:
    """Return the seconds for a thousand replies; of an attempt the sum of those of its features."""
    attempt = next((attempt for attempt in ATTEMPTS if attempt.name == name), None)
    if attempt is not None:
        return features.cost_of(attempt.features)
    return features.cost_of([name]) if name in features.seconds else None


def _coefficients(sets: Sequence[ProofSet], features: JudgeFeatures) -> dict[str, object]:
    """Return the weights of each fitted attempt, fitted to all groups: what a user would get; of trees, shares."""
    weights = dict[str, object]()
    for attempt in _tried(features):
        if attempt.fit is not None:
            judge = fit_judge(_fair(sets, features, attempt), attempt.fit)
            numbers = judge.shares if attempt.fit.method == "boosting" else judge.coefficients
            weights[attempt.name] = {
                name: round(number, 4) for name, number in zip(attempt.features, numbers, strict=True)
            }
    return weights


def _fair(sets: Sequence[ProofSet], features: JudgeFeatures, attempt: Attempt) -> RatedTable:
    return rated_table(sets, features.lines, attempt.features).complete()


# ── words and tables ──────────────────────────────────────────────────────────────────────────────────────────────────


def _differences(correlations: Correlations, tried: Sequence[Attempt]) -> dict[str, object]:
    return {
        attempt.name: {
            kind: correlations.difference(attempt.name, metric_candidates.RECOMMENDED.name, kind).as_json()
            for kind in KINDS
        }
        for attempt in tried
    }


def _summary(correlations: Correlations, tilted: Correlations | None, tried: Sequence[Attempt]) -> Iterator[str]:
    best = max(tried, key=lambda attempt: correlations.estimate(attempt.name, "spearman").value or -1.0)
    differences = [correlations.difference(best.name, metric_candidates.RECOMMENDED.name, kind) for kind in KINDS]
    yield (
        f"The best of {len(tried)} attempts out of group, {best.name}, agrees with people at "
        f"{report.cell(correlations.estimate(best.name, 'spearman'))}, beside "
        f"{report.cell(correlations.estimate(metric_candidates.RECOMMENDED.name, 'spearman'))} of the "
        "recommended blend; the "
        "difference is "
        f"{report.cell(differences[0])}, given length {report.cell(differences[1])}. It was chosen on these "
        "figures, so it looks "
        "better than it is."
    )
    gain = differences[0]
    reached = gain.value is not None and gain.low is not None and gain.value >= GAIN and gain.low > 0
    yield (
        f"A gain of {report.short(GAIN, 2)} with an interval above 0 and no less given length is "
        f"{'reached' if reached and (differences[1].value or 0) >= 0 else 'not reached'}."
    )
    fitted, unfitted = "ridge: rater + υ-greedy", "ranks: rater + υ-greedy"
    by_fit = [correlations.difference(fitted, unfitted, kind) for kind in KINDS]
    yield (
        f"Fitting the weights of the same two metrics gives {report.cell(by_fit[0])} over the unfitted sum of ranks: "
        f"{report.verdict(by_fit)}."
    )
    even = max(tried, key=lambda attempt: correlations.estimate(attempt.name, PARTIAL).value or -1.0)
    if tilted is not None:
        gains = [
            report.cell(correlations.difference(even.name, metric_candidates.RECOMMENDED.name, kind))
            for kind in (PARTIAL, "spearman")
        ]
        yield (
            f"Given length, {even.name} agrees best: {report.cell(correlations.estimate(even.name, PARTIAL))}, "
            f"{gains[0]} "
            f"over the recommended blend, and {gains[1]} with length free; where length and rating correlate at "
            f"+{report.short(TILT, 2)} it is {report.cell(tilted.difference(even.name, CHRF, 'spearman'))} over chrF."
        )
        yield (
            f"Where length and rating correlate at +{report.short(TILT, 2)}, {best.name} less chrF with the gold is "
            f"{report.cell(tilted.difference(best.name, CHRF, 'spearman'))}, and the recommended blend less chrF "
            f"{report.cell(tilted.difference(metric_candidates.RECOMMENDED.name, CHRF, 'spearman'))}."
        )


def _gains_together(correlations: Correlations, tried: Sequence[Attempt], kind: str) -> dict[str, IntervalEstimate]:
    return differences_together(
        correlations, [attempt.name for attempt in tried], metric_candidates.RECOMMENDED.name, kind
    )


def _choices_in_words(correlations: Correlations, choices: Sequence[JudgeChoice]) -> Iterator[str]:
    for choice in choices:
        gains = [correlations.difference(choice.line.name, metric_candidates.RECOMMENDED.name, kind) for kind in KINDS]
        yield (
            f"A judge {choice.line.name} agrees at "
            f"{report.cell(correlations.estimate(choice.line.name, 'spearman'))}, given "
            f"length {report.cell(correlations.estimate(choice.line.name, PARTIAL))}: {report.cell(gains[0])} "
            f"and {report.cell(gains[1])} "
            f"over the recommended blend."
        )


def _choice_section(
    correlations: Correlations, tried: Sequence[Attempt], choices: Sequence[JudgeChoice]
) -> report.Section:
    """Return what is left of each gain once it counts how many judges were tried."""
    gains = {kind: _gains_together(correlations, tried, kind) for kind in KINDS}
    alone = {
        attempt.name: [
            correlations.difference(attempt.name, metric_candidates.RECOMMENDED.name, kind) for kind in KINDS
        ]
        for attempt in tried
    }
    return report.Section(
        title="The best of so many",
        text=(
            "Intervals that hold for all attempts at once: as wide as the largest difference, in standard errors, "
            "among all attempts of a draw. Below it, judges that were chosen without what they are measured on, by "
            "the mean partial Spearman of the rest; the blend is among those to choose from.",
        ),
        tables=[
            Table(
                title="Less the recommended blend, all attempts at once",
                columns=(
                    "attempt",
                    *(f"{report.IN_WORDS[kind]}{how}" for kind in KINDS for how in ("", ", all at once")),
                ),
                rows=[
                    (
                        attempt.name,
                        *(
                            report.cell(gain)
                            for kind, single in zip(KINDS, alone[attempt.name], strict=True)
                            for gain in (single, gains[kind][attempt.name])
                        ),
                    )
                    for attempt in tried
                ],
            ),
            Table(
                title="Judges that were chosen elsewhere",
                columns=("left out", "chosen by the rest"),
                rows=[(part, name) for choice in choices for part, name in choice.chosen.items()],
                text=True,
            ),
        ],
    )


def _with_seconds(table: Table, seconds: Mapping[str, float | None]) -> Table:
    """Return a table of judges with the seconds of each for a thousand replies in its last column."""
    costs = [seconds.get(str(row[0])) for row in table.rows]
    return replace(
        table,
        columns=(*table.columns, "seconds for 1,000 replies"),
        rows=[(*row, "" if cost is None else f"{cost:.2f}") for row, cost in zip(table.rows, costs, strict=True)],
        notes=(
            *table.notes,
            "seconds: processor time of one core, with the search of references where a judge needs some; an attempt "
            "takes the sum of its features",
        ),
    )


def _sections(
    features: JudgeFeatures,
    correlations: Correlations,
    tilted: Correlations | None,
    people: Sequence[HumanRow],
    seconds: Mapping[str, float | None],
    choices: Sequence[JudgeChoice],
) -> Iterator[report.Section]:
    tried = _tried(features)
    yield report.Section(
        title="All attempts",
        text=(
            "A line that is fitted was fitted to the other groups alone. Sums of ranks are not fitted. The last line "
            "saw the domain and the raters of each set, and claims nothing.",
        ),
        tables=[
            _with_seconds(
                report.agreement_table(
                    correlations, "Agreement out of group", kinds=KINDS, baseline=metric_candidates.RECOMMENDED.name
                ),
                seconds,
            ),
            Table(
                title="What each attempt is",
                columns=("attempt", "reason", "features"),
                rows=[(attempt.name, attempt.why, ", ".join(attempt.features)) for attempt in tried],
                text=True,
            ),
        ],
    )
    if choices:
        yield _choice_section(correlations, tried, choices)
    yield report.Section(
        title="Beside people",
        text=("The reliability of the mean rating of each set is about the most that a judge can reach.",),
        tables=[_ceiling_table(correlations, people, tried)],
    )
    if tilted is not None:
        yield report.Section(
            title="Where raters like long replies",
            text=(f"Rows drawn again within contexts until length and rating correlate at +{report.short(TILT, 2)}.",),
            tables=[report.agreement_table(tilted, "Agreement on tilted sets", kinds=KINDS, baseline=CHRF)],
        )


def _ceiling_table(correlations: Correlations, people: Sequence[HumanRow], tried: Sequence[Attempt]) -> Table:
    names = [metric_candidates.RECOMMENDED.name, *(attempt.name for attempt in tried)]
    known = [row for row in people if row.spearman.value and row.name in correlations.sets]
    rows = []
    for name in names:
        figures = [(correlations.estimate(name, "spearman", row.name).value or 0.0) for row in known]
        shares = [figure / (row.spearman.value or 1.0) for figure, row in zip(figures, known, strict=True)]
        rows.append(
            (
                name,
                *(
                    f"{report.short(figure)} ({100 * share:.0f} %)"
                    for figure, share in zip(figures, shares, strict=True)
                ),
            )
        )
    ceiling = ("people", *(report.cell(row.spearman) for row in known))
    return Table(
        title="Spearman, and its share of the human ceiling",
        columns=("", *(row.name for row in known)),
        rows=[ceiling, *rows],
        notes=("sets with one number a reply have no known ceiling",),
    )
