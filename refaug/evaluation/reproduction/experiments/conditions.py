"""What `retrieval-modes` and `growth` share: metrics, kinds of references, and differences between lines."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Final

import numpy as np

from refaug.evaluation.reports.html_page import Table
from refaug.evaluation.reproduction.figures.correlations import MEAN, Correlations, IntervalEstimate, Line
from refaug.evaluation.reproduction.material import reference_kinds
from refaug.evaluation.reproduction.material.chain import Chain
from refaug.evaluation.reproduction.material.rated_sets import ProofSet
from refaug.evaluation.reproduction.report.report import IN_WORDS, cell
from refaug.indexer.search.search_settings import Mode
from refaug.metrics.base import Floats, Metric
from refaug.metrics.specification import Specification, build
from refaug.metrics.statistics.correlation import PARTIAL
from refaug.metrics.statistics.resampling import count_blocks
from refaug.rater.rating import Rater

Estimates = Mapping[str, Mapping[str, IntervalEstimate]]  # kind of correlation → set, or their mean → figure
Differences = Mapping[str, Mapping[str, Estimates]]  # row of a table → name of the difference → figures

K: Final = 15
GOLD_ALONE: Final = "gold alone"
CLOSEST, NO_PENALTY = "υBLEU, closest", "υBLEU, no penalty"
GREEDY, GREEDY_BEST = "υ-greedy, weighted", "υ-greedy, best"
NUMBERS: Final = {CLOSEST: 1, NO_PENALTY: 2, GREEDY: 3, GREEDY_BEST: 4}  # in names of files
KINDS: Final = ("spearman", PARTIAL)
ALL: Final = (reference_kinds.RATED, reference_kinds.ONE, reference_kinds.SHUFFLED, reference_kinds.MATCHED)
KIND_LABELS: Final = {
    reference_kinds.RATED: "rated",
    reference_kinds.ONE: "weights one",
    reference_kinds.SHUFFLED: "ratings shuffled",
    reference_kinds.MATCHED: "random, as long",
}


# ── lines ─────────────────────────────────────────────────────────────────────────────────────────────────────────────


def build_metrics(chain: Chain) -> dict[str, Metric]:
    """Build the published method with and without its length penalty, and soft matches; by name.

    The best soft match of all references whose weight is above 0 asks a rater for no more than that.
    """
    return {
        CLOSEST: build("upsilon-bleu"),
        NO_PENALTY: build("upsilon-bleu:bp=none"),
        GREEDY: build_soft_match(chain),
        GREEDY_BEST: build_soft_match(chain, agg="best"),
    }


def build_soft_match(chain: Chain, **options: str) -> Metric:
    """Build υ-greedy with the word vectors of the run; common words count less."""
    folder = str(chain.vectors_folder(chain.vectors()))
    options = {"measure": "f", "weighting": "sif", "vectors": folder, **options}
    return build(Specification("upsilon-greedy", tuple(options.items())))


def pools_of(
    chain: Chain,
    sets: Sequence[ProofSet],
    index: str,
    rater: Rater,
    mode: Mode = "embedding-utterance",
    combine: str = "first",
) -> dict[str, reference_kinds.Pool]:
    """Return the references that an index has for each set, rated against the first gold; by set."""
    return {
        rated_set.name: chain.pool(rated_set.with_first_gold(), index, rater, mode=mode, combine=combine)
        for rated_set in sets
    }


def line_name(name: str, kind: str) -> str:
    """Return the name of the line of a metric on a kind of references."""
    return f"{name}, {kind}"


def lines_on(
    chain: Chain,
    name: str,
    sets: Sequence[ProofSet],
    pools: Mapping[str, reference_kinds.Pool],
    metric: Metric,
    kinds: Sequence[str] = ALL,
    *,
    k: int = K,
    parrot: bool = False,
    about: str = "",
) -> Iterator[Line]:
    """Yield a line of the metric for each kind of references in these pools."""
    for kind in kinds:
        yield reference_kinds.line_of(
            line_name(name, kind),
            sets,
            metric,
            lambda rated_set, seed, kind=kind: pools[rated_set.name].extras(  # type: ignore[misc]
                kind, k=k, parrot=parrot, seed=seed
            ),
            seeds=chain.settings.seeds if kind in reference_kinds.BY_CHANCE else 1,
            about=f"{about}: {KIND_LABELS[kind]}" if about else "",
            progress=chain.progress,
        )


# ── differences ───────────────────────────────────────────────────────────────────────────────────────────────────────


def main_scope(correlations: Correlations) -> str:
    """Return the scope that claims are checked on: the mean over sets, or the only set."""
    return MEAN if len(correlations.sets) > 1 else correlations.sets[0]


def main_scope_in_words(correlations: Correlations) -> str:
    """Return the main scope in words."""
    if len(correlations.sets) == 1:
        return f"on {correlations.sets[0]}"
    if len(correlations.groups) == 1:
        return f"on the mean of {len(correlations.sets)} sets"
    return f"on the mean of {len(correlations.groups)} groups of {len(correlations.sets)} sets"


def differences_between(correlations: Correlations, line: str, other: str) -> Estimates:
    """Return the difference of two lines on the same draws, by kind of correlation and scope."""
    return {
        kind: {scope: correlations.difference(line, other, kind, scope) for scope in correlations.scopes}
        for kind in KINDS
    }


def is_sure(estimate: IntervalEstimate) -> bool:
    """Say whether the interval excludes 0."""
    return estimate.low is not None and estimate.high is not None and (estimate.low > 0 or estimate.high < 0)


def change_in_words(estimate: IntervalEstimate) -> str:
    """Describe a difference that no claim was made about."""
    if not is_sure(estimate):
        return "no sure change"
    return "a sure gain" if (estimate.low or 0) > 0 else "a sure loss"


def differences_table(title: str, correlations: Correlations, differences: Differences) -> Table:
    """Return a table with a row for each line: its differences on the main scope."""
    labels, scope = list(next(iter(differences.values()))), main_scope(correlations)
    count = len(differences) * len(labels) * len(KINDS)
    return Table(
        title=f"{title}, {main_scope_in_words(correlations)}",
        columns=["", *(f"{IN_WORDS[kind]}, {label}" for kind in KINDS for label in labels)],
        rows=[
            [name, *(cell(own[label][kind][scope]) for kind in KINDS for label in labels)]
            for name, own in differences.items()
        ],
        notes=(
            f"{count:,} differences on the same draws: of those that are nothing, about one in twenty has an "
            "interval without 0",
        ),
    )


def differences_json(differences: Differences) -> dict[str, object]:
    """Return all differences, on every scope, as JSON."""
    return {
        name: {
            label: {
                kind: {scope: estimate.as_json() for scope, estimate in estimates.items()}
                for kind, estimates in kinds.items()
            }
            for label, kinds in own.items()
        }
        for name, own in differences.items()
    }


# ── numbers of items ──────────────────────────────────────────────────────────────────────────────────────────────────


def shares_above_zero(ratings: Sequence[Sequence[float]]) -> Floats:
    """Return the share of ratings above 0 for each item; NaN where an item has none."""
    return item_means([[float(rating > 0) for rating in own] for own in ratings])


def item_means(values: Sequence[Sequence[float]]) -> Floats:
    """Return the mean for each item; NaN where an item has no values."""
    return np.array([sum(own) / len(own) if own else np.nan for own in values], dtype=np.float64)


def mean_over_items(values: Floats, draws: int, seed: int) -> IntervalEstimate:
    """Return the mean of a number over items, with its interval over draws of items; items without it do not count."""
    finite = values[np.isfinite(values)]
    if len(finite) < 2:
        return (
            IntervalEstimate(value=float(finite[0]), why="one item")
            if len(finite)
            else IntervalEstimate(why="no item has any")
        )
    drawn = [counts @ finite / len(finite) for counts in count_blocks(len(finite), draws, seed)]
    return IntervalEstimate.of(float(finite.mean()), np.concatenate(drawn))
