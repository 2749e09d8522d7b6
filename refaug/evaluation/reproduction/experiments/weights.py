"""`reproduce weights`: what weights are worth where people have given them.

Every reply is scored against the gold and the other systems' replies to its context, which people have rated. So the
rater's weights can be compared with those by people, an upper bound for any rater; and both with no weights, and with
the same weights shuffled. The reply itself and texts equal to it are never among its references.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

import numpy as np

from refaug.core.errors import BadInput
from refaug.core.progress import Progress
from refaug.evaluation.reproduction.figures.correlations import Correlations, correlate
from refaug.evaluation.reproduction.figures.smoothing import smoothed_judged, smoothing_json, smoothing_tables
from refaug.evaluation.reproduction.figures.weight_claims import METRICS, counts_json, differences_json, shares_json
from refaug.evaluation.reproduction.material import judged_replies
from refaug.evaluation.reproduction.material.chain import Chain
from refaug.evaluation.reproduction.material.metric_candidates import VECTORS
from refaug.evaluation.reproduction.material.proof_logs import ProofSettings
from refaug.evaluation.reproduction.material.rated_sets import Mask, ProofSet
from refaug.evaluation.reproduction.material.rated_systems import systems_of_the_log, without_systems
from refaug.evaluation.reproduction.report import weights_text
from refaug.evaluation.reproduction.report.report import Report, Section
from refaug.metrics.base import Metric
from refaug.metrics.specification import build
from refaug.rater.rating import Rater

_FEWEST_REPLIES: Final = 3  # to an item: one is scored, and the weights of the others can be dealt out anew
_MOST_WITH_FEWER: Final = 0.5  # of the items of a set


def weights(chain: Chain, sets: Sequence[ProofSet]) -> Report:
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
) -> Report:
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
    agreement, smoothed = (
        judged_replies.weight_agreement(weighted_sets, settings),
        smoothed_judged(weighted_sets, settings),
    )
    return Report(
        name="weights",
        title="What weights are worth: by people, by the rater, and dealt out anew",
        summary=[*weights_text.weights_summary(by_metric, agreement, weighted_sets)],
        sections=[
            *weights_text.main_sections(by_metric),
            weights_text.agreement_section(agreement),
            Section(
                title="Smoothing",
                text=("ΔBLEU against the gold and other systems' replies, under each kind of weights.",),
                tables=smoothing_tables(smoothed, "Smoothing where other replies are the references"),
            ),
            weights_text.without_section(without_log_systems, log_systems, in_logs, sets),
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
            "smoothing": smoothing_json(smoothed),
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
