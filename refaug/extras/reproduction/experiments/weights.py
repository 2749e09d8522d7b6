"""`reproduce weights`: what weights are worth where people have given them.

Every reply is scored against the gold and the other systems' replies to its context, which people have rated. So the
rater's weights can be compared with those by people, an upper bound for any rater; and both with no weights, and with
the same weights shuffled. The reply itself and texts equal to it are never among its references.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Final

import numpy as np

from refaug.core.errors import BadInput
from refaug.core.progress import Progress
from refaug.extras.reproduction.figures import main_lines
from refaug.extras.reproduction.figures.correlations import Correlations, IntervalEstimate, correlate
from refaug.extras.reproduction.figures.main_lines import METRICS, counts_json, differences_json, shares_json
from refaug.extras.reproduction.material import judged_replies
from refaug.extras.reproduction.material.chain import Chain
from refaug.extras.reproduction.material.metric_lines import VECTORS
from refaug.extras.reproduction.material.proof_logs import ProofSettings
from refaug.extras.reproduction.material.rated_sets import Mask, ProofSet
from refaug.extras.reproduction.material.reference_kinds import (
    FROM_THE_LOG,
    ONE,
    RATED,
    share_in_the_log,
    systems_of_the_log,
    without_systems,
)
from refaug.extras.reproduction.report.plots import bars
from refaug.extras.reproduction.report.report import ExperimentReport, agreement_table, cell, short, verdict
from refaug.metrics.base import Metric
from refaug.metrics.specification import build
from refaug.metrics.statistics.correlation import PARTIAL
from refaug.rater.rating import Rater
from refaug.tables.reports.plotting import Plot
from refaug.tables.reports.report import Section
from refaug.tables.reports.table import Table


def main_sections(by_metric: Mapping[str, Correlations]) -> Iterator[Section]:
    """Yield the sections of the claims and of every metric."""
    yield Section(
        title="Claims",
        text=(
            "Fair rows. Every reply is scored against the gold, worth 1, and the other systems' replies to its "
            "context; it and texts equal to it are never among them. People's weights are mean ratings from 1 to 5, "
            "mapped to −1 … 1.",
            "The others are worth less where the reply itself is the best of its context, so that weights work against "
            "themselves here, people's more than the rater's. Weights that are dealt out anew among the references of "
            "each reply have the same sum: a claim for weights stands against them, and their own difference to "
            "weights of one says how much the sum does.",
        ),
        tables=(_claims_table(by_metric, "Claims"), _shares_table(by_metric, "Share of the gain of people's weights")),
    )
    yield Section(
        title="Every metric with every kind of weights",
        text=(
            "ΔBLEU and υBLEU are one formula: with these references they give the same numbers, so that what differs "
            "is where the weights come from. υ-greedy leaves out references of negative weight.",
        ),
        tables=[
            agreement_table(
                correlations, f"{name} ({main_lines.METRICS[name].replace(VECTORS, 'proof')})", baseline=ONE
            )
            for name, correlations in by_metric.items()
        ],
        plots=[_plot(number, name, correlations) for number, (name, correlations) in enumerate(by_metric.items())],
    )


def _plot(number: int, name: str, correlations: Correlations) -> Plot:
    places = [(condition, scope) for condition in judged_replies.CONDITIONS for scope in correlations.sets]
    return bars(
        f"weights-{number}.png",
        f"{name}: Spearman on fair rows with its interval, by where the weights come from",
        [condition for condition, _ in places],
        [correlations.estimate(condition, "spearman", scope) for condition, scope in places],
        groups=[scope for _, scope in places],
        title=name,
    )


def _claims_table(by_metric: Mapping[str, Correlations], title: str) -> Table:
    scopes = main_lines.scopes_of(by_metric)
    columns = ["", *(f"{_SHORT[kind]}, {scope}" for kind in judged_replies.KINDS for scope in scopes)]
    columns += [f"verdict, {scope}" for scope in scopes]
    rows = []
    for name, correlations in by_metric.items():
        for label, shares in main_lines.comparisons():
            differences = {
                scope: [correlations.weighted_sum(shares, kind, scope) for kind in judged_replies.KINDS]
                for scope in scopes
            }
            row = [f"{name}: {label}"]
            row += [cell(differences[scope][place]) for place in range(len(judged_replies.KINDS)) for scope in scopes]
            row += [_verdict_of(label, differences[scope]) for scope in scopes]
            rows.append(row)
    notes = (
        "differences on the same draws of contexts",
        "not shown: an interval holds 0",
        f"alike: both intervals of the difference lie within ±{main_lines.EQUIVALENCE_MARGIN:g}; where "
        "people's own weights gain "
        "nothing, that says nothing for the rater",
    )
    return Table(title=title, columns=columns, rows=rows, notes=notes)


def _verdict_of(label: str, differences: Sequence[IntervalEstimate]) -> str:
    if label in main_lines.CLAIMS:
        return verdict(differences)
    return main_lines.alike(differences) if label in main_lines.NEAR else ""


_SHORT: Final = {"spearman": "Spearman", PARTIAL: "partial"}


def _shares_table(by_metric: Mapping[str, Correlations], title: str) -> Table:
    scopes = main_lines.scopes_of(by_metric)
    columns = ["", *(f"{_SHORT[kind]}, {scope}" for kind in judged_replies.KINDS for scope in scopes)]
    rows = [
        [
            f"{name}: over {over}",
            *(
                _share_cell(main_lines.share_of_gain(correlations, over, kind, scope))
                for kind in judged_replies.KINDS
                for scope in scopes
            ),
        ]
        for name, correlations in by_metric.items()
        for over in main_lines.SHARES
    ]
    notes = (
        "1: the rater's weights gain as much as people's; a share has no bounds, it may be negative or above 1",
        "draws in which people's weights gain nothing have no share, and are not in the interval",
    )
    return Table(title=title, columns=columns, rows=rows, notes=notes)


def _share_cell(estimate: IntervalEstimate) -> str:
    """Return a share with its leading digit, and with the reason where it is not sure."""
    if estimate.value is None:
        return f"– ({estimate.why})"
    text = _share_number(estimate.value)
    if estimate.low is not None and estimate.high is not None:
        text += f" [{_share_number(estimate.low)}, {_share_number(estimate.high)}]"
    return f"{text} ({estimate.why})" if estimate.why else text


def _share_number(share: float) -> str:
    return f"{round(share, 2) + 0.0:.2f}"  # no minus sign before 0.00


def agreement_section(agreement: judged_replies.WeightAgreement) -> Section:
    """Return the section that compares the rater's weights with people's."""
    scopes, lines = agreement.whole.table_scopes, agreement.whole.names
    within = [[line, *(cell(agreement.within(line, scope)) for scope in scopes)] for line in lines]
    within.append(
        [
            f"{RATED} less {judged_replies.SHUFFLED_RATED}",
            *(cell(agreement.within_less(RATED, judged_replies.SHUFFLED_RATED, scope)) for scope in scopes),
        ]
    )
    counted = "; ".join(f"{name}: {count} contexts" for name, count in agreement.contexts.items())
    return Section(
        title="The rater's weights beside people's",
        text=(
            "Each different reply to an item counts once, without the gold. Within contexts it is only asked which of "
            "the replies to one utterance is the better one, which is what weights are for.",
        ),
        tables=(
            Table(
                title="Spearman within contexts, the mean over them",
                columns=("", *scopes),
                rows=within,
                notes=(
                    f"contexts with at least {judged_replies.FEWEST_TEXTS} different replies whose weights "
                    f"differ; {counted}",
                    "intervals are over contexts",
                ),
            ),
            agreement_table(agreement.whole, "Over all replies", baseline=judged_replies.SHUFFLED_RATED),
        ),
    )


def without_section(
    by_metric: Mapping[str, Correlations] | None,
    log_systems: Mapping[str, Sequence[str]],
    in_logs: Mapping[str, Mask],
    sets: Sequence[ProofSet],
) -> Section:
    """Return the section without the systems that answer with turns of the log."""
    systems_in_words = "; ".join(
        f"{rated_set.name}: "
        + ", ".join(
            f"{system} ({share_in_the_log(rated_set, system, in_logs):.0%})" for system in log_systems[rated_set.name]
        )
        for rated_set in sets
        if log_systems[rated_set.name]
    )
    title = "Without systems that answer with turns of the log"
    if by_metric is None:
        why = (
            "with too little left"
            if systems_in_words
            else f"no system has {FROM_THE_LOG:.0%} of its replies in the log"
        )
        return Section(
            title=title, text=(f"Not measured: {systems_in_words + ', ' if systems_in_words else ''}{why}.",)
        )
    return Section(
        title=title,
        text=(
            f"The same without the systems whose replies stand in the log word for word, neither as replies nor as "
            f"references: {systems_in_words}.",
        ),
        tables=(
            _claims_table(by_metric, "Claims, without these systems"),
            _shares_table(by_metric, "Share of the gain of people's weights, without these systems"),
            *(
                agreement_table(correlations, f"{name}, without these systems", baseline=ONE)
                for name, correlations in by_metric.items()
            ),
        ),
    )


def weights_summary(
    by_metric: Mapping[str, Correlations],
    agreement: judged_replies.WeightAgreement,
    weighted_sets: Sequence[judged_replies.WeightedSet],
) -> Iterator[str]:
    """Yield what is shown and what is not, in sentences made of the figures of this run."""
    scopes = main_lines.scopes_of(by_metric)
    for claim, (above, below) in main_lines.CLAIMS.items():
        yield f"That {claim}: " + "; ".join(_over_metrics(by_metric, above, below, scope) for scope in scopes) + "."
    for label in main_lines.NEAR:
        yield f"{label.capitalize()} (υ ≈ Δ), {scopes[-1]}: {_near_in_words(by_metric, label, scopes[-1])}."
    for over in main_lines.SHARES:
        shares = "; ".join(
            f"{name} {_share_cell(main_lines.share_of_gain(correlations, over, 'spearman', scopes[-1]))}"
            for name, correlations in by_metric.items()
        )
        yield (
            f"Share of the gain of people's weights over {over} that rated ones reach (Spearman, {scopes[-1]}): "
            f"{shares}."
        )
    within = "; ".join(
        f"{scope} {cell(agreement.within(RATED, scope))}, less the same weights dealt out anew "
        f"{cell(agreement.within_less(RATED, judged_replies.SHUFFLED_RATED, scope))}"
        for scope in agreement.whole.table_scopes
    )
    yield f"The rater's weights go with people's within contexts at Spearman {within}."
    counts = "; ".join(
        f"{weighted_set.rated_set.name}: {weighted_set.counts.mean():.1f} other replies a row, in "
        f"{weighted_set.contexts} contexts"
        for weighted_set in weighted_sets
    )
    yield f"What these sets can tell is bounded by their size: {counts}. Where references are few, so are the weights."


def _over_metrics(by_metric: Mapping[str, Correlations], above: str, below: str, scope: str) -> str:
    """Return the range of the differences over metrics, and for which metrics the claim is shown."""
    verdicts = {
        name: verdict([correlations.difference(above, below, kind, scope) for kind in judged_replies.KINDS])
        for name, correlations in by_metric.items()
    }
    outcomes = [f"{outcome} ({', '.join(names)})" for outcome, names in _by_verdict(verdicts).items()]
    values = [correlations.difference(above, below, "spearman", scope).value for correlations in by_metric.values()]
    defined = [difference for difference in values if difference is not None]
    spread = f"differences of Spearman from {short(min(defined))} to {short(max(defined))}, " if defined else ""
    return f"{scope}: {spread}" + ", ".join(outcomes)


def _by_verdict(verdicts: Mapping[str, str]) -> dict[str, list[str]]:
    """Group metrics by verdict; where all have the same one, say that they are all."""
    groups = dict[str, list[str]]()
    for name, outcome in verdicts.items():
        groups.setdefault(outcome, []).append(name)
    return groups if len(groups) > 1 else {outcome: [f"all {len(names)} metrics"] for outcome, names in groups.items()}


def _near_in_words(by_metric: Mapping[str, Correlations], label: str, scope: str) -> str:
    parts = list[str]()
    for name, correlations in by_metric.items():
        differences = [
            correlations.weighted_sum(main_lines.OTHER_DIFFERENCES[label], kind, scope) for kind in judged_replies.KINDS
        ]
        parts.append(f"{name} {cell(differences[0])}, {main_lines.alike(differences)}")
    return "; ".join(parts)


_FEWEST_REPLIES: Final = 3  # to an item: one is scored, and the weights of the others can be dealt out anew
_MOST_WITH_FEWER: Final = 0.5  # of the items of a set


def weights(chain: Chain, sets: Sequence[ProofSet]) -> ExperimentReport:
    """Report what weights by people are worth, and how much of that the rater's weights reach."""
    usable_sets, gaps = sets_with_rated_replies(sets)
    rater, vectors = chain.rater(), chain.vectors_folder(chain.vectors())
    in_logs = {rated_set.name: chain.rows_in_logs(rated_set) for rated_set in usable_sets}
    return weights_report(usable_sets, gaps, rater, vectors, in_logs, chain.settings, chain.progress)


def sets_with_rated_replies(sets: Sequence[ProofSet]) -> tuple[list[ProofSet], list[str]]:
    """Return the sets in which replies can be references of each other, with one gold each; and why others cannot."""
    usable_sets, gaps = list[ProofSet](), list[str]()
    for rated_set in sets:
        why = _unusable_reason(rated_set)
        if why is None:
            usable_sets.append(rated_set.with_first_gold())
        else:
            gaps.append(f"{rated_set.name} is left out: {why}")
    if not usable_sets:
        raise BadInput("; ".join(gaps), remedy="name a set with several rated replies to each utterance, from 1 to 5")
    return usable_sets, gaps


def _unusable_reason(rated_set: ProofSet) -> str | None:
    low, high = float(rated_set.ratings.min()), float(rated_set.ratings.max())
    if low < judged_replies.LIKERT[0] or high > judged_replies.LIKERT[1]:
        return f"its ratings are from {low:g} to {high:g}, weights are made of ratings from 1 to 5"
    if not any((test_item.utterance or "").strip() for test_item in rated_set.items):
        return "no item has an utterance, so the rater cannot be asked"
    if max(np.bincount(rated_set.item[rated_set.fair], minlength=1)) < 2:
        return "no item has two rated replies beside the gold, so there is nothing to be a reference"
    replies = np.bincount(rated_set.item[rated_set.fair])
    if np.mean(replies[replies > 0] < _FEWEST_REPLIES) > _MOST_WITH_FEWER:
        return (
            "most items have fewer than three rated replies beside the gold, so that a reply has one other beside it, "
            "whose weight cannot be dealt out anew"
        )
    return None


def weights_report(
    sets: Sequence[ProofSet],
    gaps: Sequence[str],
    rater: Rater,
    vectors: Path,
    in_logs: Mapping[str, Mask],
    settings: ProofSettings,
    progress: Progress,
) -> ExperimentReport:
    """Report on usable sets."""
    built = {name: build(text.replace(VECTORS, str(vectors))) for name, text in METRICS.items()}
    weighted_sets = [judged_replies.WeightedSet.of(rated_set, rater) for rated_set in sets]
    by_metric = _correlate_metrics(weighted_sets, built, settings, progress)
    log_systems = {rated_set.name: systems_of_the_log(rated_set, in_logs[rated_set.name]) for rated_set in sets}
    remaining_sets = [without_systems(rated_set, log_systems[rated_set.name]) for rated_set in sets]
    without_log_systems = None
    if any(log_systems.values()):
        usable_sets = [rated_set for rated_set in remaining_sets if _unusable_reason(rated_set) is None]
        without_log_systems = (
            _correlate_metrics(
                [judged_replies.WeightedSet.of(rated_set, rater) for rated_set in usable_sets],
                built,
                settings,
                progress,
            )
            if usable_sets
            else None
        )
    agreement = judged_replies.weight_agreement(weighted_sets, settings)
    return ExperimentReport(
        name="weights",
        title="What weights are worth: by people, by the rater, and dealt out anew",
        summary=[*weights_summary(by_metric, agreement, weighted_sets)],
        sections=[
            *main_sections(by_metric),
            agreement_section(agreement),
            without_section(without_log_systems, log_systems, in_logs, sets),
        ],
        notes=(
            *gaps,
            *(
                f"{weighted_set.rated_set.name}: {weighted_set.remark}"
                for weighted_set in weighted_sets
                if weighted_set.remark is not None
            ),
        ),
        data={
            "references": {weighted_set.rated_set.name: counts_json(weighted_set) for weighted_set in weighted_sets},
            "metrics": {name: correlations.as_json(judged_replies.KINDS) for name, correlations in by_metric.items()},
            "differences": {name: differences_json(correlations) for name, correlations in by_metric.items()},
            "shares": {name: shares_json(correlations) for name, correlations in by_metric.items()},
            "weights": agreement.as_json(),
            "systems_of_the_log": {name: list(systems) for name, systems in log_systems.items()},
            "without_systems_of_the_log": {
                name: {
                    "figures": correlations.as_json(judged_replies.KINDS),
                    "differences": differences_json(correlations),
                    "shares": shares_json(correlations),
                }
                for name, correlations in (without_log_systems or {}).items()
            },
        },
    )


def _correlate_metrics(
    weighted_sets: Sequence[judged_replies.WeightedSet],
    built: Mapping[str, Metric],
    settings: ProofSettings,
    progress: Progress,
) -> dict[str, Correlations]:
    progress.stage(
        "scoring against other replies",
        len(built) * judged_replies.scoring_count(weighted_sets, settings.seeds),
        "times",
    )
    sets = [weighted_set.rated_set for weighted_set in weighted_sets]
    return {
        name: correlate(
            sets,
            judged_replies.lines_by_condition(weighted_sets, metric, settings.seeds, progress),
            kinds=judged_replies.KINDS,
            draws=settings.draws,
            seed=settings.seed,
        )
        for name, metric in built.items()
    }
