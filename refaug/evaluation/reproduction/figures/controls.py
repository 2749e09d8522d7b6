"""Controls of `reproduce metrics`: every metric on every kind of references, and the claims that these could refute."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Final

from refaug.evaluation.reports.html_page import Table
from refaug.evaluation.reports.plotting import Plot
from refaug.evaluation.reproduction.figures.correlations import Correlations, correlate
from refaug.evaluation.reproduction.material import metric_candidates, reference_kinds
from refaug.evaluation.reproduction.report.plots import bars
from refaug.evaluation.reproduction.report.report import IN_WORDS, cell, verdict
from refaug.metrics.statistics.correlation import PARTIAL

CONTROL_METRICS: Final = (  # the metrics that every kind of references is tried with
    metric_candidates.MetricCandidate(name="υBLEU, closest", why="", family="bleu", metric="upsilon-bleu"),
    metric_candidates.MetricCandidate(name="υBLEU, no penalty", why="", family="bleu", metric="upsilon-bleu:bp=none"),
    metric_candidates.MetricCandidate(
        name="υ-greedy, best", why="", family="greedy", metric=f"upsilon-greedy:agg=best,{metric_candidates.GREEDY}"
    ),
    metric_candidates.MetricCandidate(
        name="υ-greedy, weighted", why="", family="greedy", metric=f"upsilon-greedy:{metric_candidates.GREEDY}"
    ),
)
CONTROL_CLAIMS: Final = {  # claim → the line that has to be above, and the line that it has to beat
    "retrieval beats replies of the same lengths": (reference_kinds.ONE, reference_kinds.MATCHED),
    "the rater's weights beat the same ones dealt out anew": (reference_kinds.RATED, reference_kinds.SHUFFLED),
    "the rater's weights beat weights of one": (reference_kinds.RATED, reference_kinds.ONE),
    "rated references beat the gold alone": (reference_kinds.RATED, reference_kinds.GOLD),
    "drawn replies of the same lengths beat the gold alone": (reference_kinds.MATCHED, reference_kinds.GOLD),
}
_CLAIM_KINDS: Final = ("spearman", PARTIAL)


def correlate_kinds(trial: metric_candidates.Trial, metric: metric_candidates.MetricCandidate) -> Correlations:
    """Correlate one metric on every kind of references: equally many of each kind, at the same penalty.

    The utterance is among no references but those of the kind `parrot`.
    """
    settings = trial.chain.settings
    lines = [
        replace(trial.line(replace(metric, name=f"{metric.name}, {kind}", kind=kind), {}), name=kind)
        for kind in reference_kinds.KINDS
    ]
    return correlate(trial.sets, lines, kinds=("spearman", PARTIAL), draws=settings.draws, seed=settings.seed)


def control_claims(correlations: Correlations) -> dict[str, object]:
    """Return the figures of every claim, for programs."""
    return {
        claim: {
            kind: {scope: correlations.difference(above, below, kind, scope).as_json() for scope in correlations.scopes}
            for kind in ("spearman", PARTIAL)
        }
        for claim, (above, below) in CONTROL_CLAIMS.items()
    }


def control_claims_table(controls: Mapping[str, Correlations]) -> Table:
    """Return the table of every claim on every metric: on each group of sets, and on their mean."""
    scopes = next(iter(controls.values())).table_scopes
    rows = [
        [
            f"{name}: {claim}",
            *(cell(control.difference(above, below, kind, scope)) for kind in _CLAIM_KINDS for scope in scopes),
            *(claim_verdict(control, above, below, scope) for scope in scopes),
        ]
        for name, control in controls.items()
        for claim, (above, below) in CONTROL_CLAIMS.items()
    ]
    columns = ["claim", *(f"{IN_WORDS[kind]}, {scope}" for kind in _CLAIM_KINDS for scope in scopes)]
    columns += [f"verdict, {scope}" for scope in scopes]
    notes = ("differences on the same draws", "not shown: the interval holds 0")
    return Table(title="Claims", columns=columns, rows=rows, notes=notes)


def set_by_set_table(name: str, control: Correlations) -> Table:
    """Return the claims about one metric on every set, in Spearman."""
    rows = [
        [claim, *(cell(control.difference(above, below, "spearman", scope)) for scope in control.scopes)]
        for claim, (above, below) in CONTROL_CLAIMS.items()
    ]
    title = f"{name}: claims set by set, differences of Spearman"
    return Table(title=title, columns=("claim", *control.scopes), rows=rows)


def claim_verdict(control: Correlations, above: str, below: str, scope: str) -> str:
    """Say what both kinds of correlation show about a claim."""
    return verdict([control.difference(above, below, kind, scope) for kind in _CLAIM_KINDS])


def controls_in_words(controls: Mapping[str, Correlations]) -> Iterator[str]:
    """Yield the sentences above the tables of controls."""
    yield (
        "Every line but `gold` and `parrot` has as many further references as the retrieved ones are; those with "
        "chance in them are the mean over seeds."
    )
    for name, control in controls.items():
        retrieval_gain, rating_gain = (
            control.difference(reference_kinds.ONE, reference_kinds.MATCHED, PARTIAL),
            control.difference(reference_kinds.RATED, reference_kinds.SHUFFLED, PARTIAL),
        )
        yield (
            f"{name}: retrieved less drawn of the same lengths {cell(retrieval_gain)}, rated less shuffled "
            f"{cell(rating_gain)} (partial Spearman, mean)."
        )


def plot_control(name: str, correlations: Correlations) -> Plot:
    """Plot one metric on every kind of references."""
    file = f"metrics-{''.join(letter for letter in name.lower() if letter.isascii() and letter.isalnum())}.png"
    return plot_both_kinds(file, f"{name} on kinds of references, {correlations.scopes[-1]}", correlations)


def plot_both_kinds(file: str, caption: str, correlations: Correlations) -> Plot:
    """Plot Spearman and partial Spearman of every line beside each other."""
    bars_of = [(name, kind) for name in correlations.names for kind in ("spearman", PARTIAL)]
    return bars(
        file,
        caption,
        [name for name, _ in bars_of],
        [correlations.estimate(name, kind, correlations.scopes[-1]) for name, kind in bars_of],
        groups=[IN_WORDS[kind] for _, kind in bars_of],
        x_label="correlation",
    )
