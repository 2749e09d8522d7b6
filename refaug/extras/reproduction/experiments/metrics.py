"""`reproduce metrics`: how well metrics agree with people, beside the controls that could refute their claims.

Two questions, each on the same rows and draws: do retrieved references help more than replies of the same lengths that
were drawn from the log; and do the rater's weights help more than the same weights shuffled. Beside them stand the
published method, baselines at their best, RUBER, and refaug-1 with the encoder alone. Metrics after papers of others
stand apart, in rows beside.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

import numpy as np

from refaug.extras.reproduction.figures.annotators import human_rows, human_table
from refaug.extras.reproduction.figures.correlations import MEAN, Correlations, Line, correlate
from refaug.extras.reproduction.figures.main_lines import (
    BASELINES,
    BLEU,
    BLEU_AT_BEST,
    DEFAULT,
    MainLines,
    main_lines_of,
    plain_line,
)
from refaug.extras.reproduction.figures.rows_beside import rows_beside
from refaug.extras.reproduction.material import reference_kinds
from refaug.extras.reproduction.material.chain import Chain
from refaug.extras.reproduction.material.metric_lines import GREEDY, WORDS, MetricLines, MetricOnReferences
from refaug.extras.reproduction.material.proof_logs import ProofSettings
from refaug.extras.reproduction.material.rated_sets import Mask, ProofSet
from refaug.extras.reproduction.material.reference_kinds import systems_of_the_log
from refaug.extras.reproduction.report.plots import bars
from refaug.extras.reproduction.report.report import IN_WORDS, ExperimentReport, agreement_table, cell, verdict
from refaug.metrics.statistics.correlation import PARTIAL
from refaug.tables.reports.plotting import Plot
from refaug.tables.reports.report import Section
from refaug.tables.reports.table import Table

_FEWEST_ROWS: Final = 20  # of a set, to be compared at all
_WITHOUT_LOG_SYSTEMS: Final = "without the systems whose replies were taken from the log"


@dataclass(frozen=True, kw_only=True)
class Subsets:
    """The tables and figures of all subsets."""

    tables: tuple[Table, ...]
    data: Mapping[str, Any]


def correlate_subsets(
    sets: Sequence[ProofSet],
    main_lines: MainLines,
    in_logs: Mapping[str, Mask],
    near_contexts: Mapping[str, Mask],
    settings: ProofSettings,
) -> Subsets:
    """Correlate the main lines on fewer rows."""
    lines = [line for line in main_lines.lines if not line.name.startswith("υ-")]
    choices: dict[str, Mapping[str, Mask]] = {
        "without replies that stand in the log word for word": {
            rated_set.name: rated_set.fair & ~in_logs[rated_set.name] for rated_set in sets
        },
        "without contexts whose like stands in the log (token Jaccard ≥ .8)": {
            rated_set.name: rated_set.fair & ~near_contexts[rated_set.name] for rated_set in sets
        },
        "only contexts whose like stands in the log": {
            rated_set.name: rated_set.fair & near_contexts[rated_set.name] for rated_set in sets
        },
        _WITHOUT_LOG_SYSTEMS: {
            rated_set.name: rated_set.without_systems(systems_of_the_log(rated_set, in_logs[rated_set.name]))
            for rated_set in sets
        },
    }
    tables, figures = list[Table](), dict[str, object]()
    for title, rows in choices.items():
        large_sets = [rated_set for rated_set in sets if int(rows[rated_set.name].sum()) >= _FEWEST_ROWS]
        notes = (log_systems_in_words(sets, in_logs),) if title == _WITHOUT_LOG_SYSTEMS else ()
        if len(large_sets) < len(sets):
            small_sets = [rated_set.name for rated_set in sets if rated_set not in large_sets]
            counts = ", ".join(f"{name}: {int(rows[name].sum())}" for name in small_sets)
            notes = (*notes, f"left out, for too few rows: {counts}")
        if not large_sets:
            tables.append(Table(title=title, columns=("",), rows=(), notes=notes))
            continue
        correlations = correlate(
            large_sets, lines, rows=rows, kinds=("spearman", PARTIAL), draws=settings.draws, seed=settings.seed
        )
        tables.append(agreement_table(correlations, title, baseline=BASELINES, notes=notes))
        figures[title] = correlations.as_json(("spearman", PARTIAL))
    return Subsets(tables=tuple(tables), data=figures)


def log_systems_in_words(sets: Sequence[ProofSet], in_logs: Mapping[str, Mask]) -> str:
    """List the systems that answer from the log, set by set."""
    return "; ".join(
        f"{rated_set.name}: {', '.join(systems_of_the_log(rated_set, in_logs[rated_set.name])) or 'none'}"
        for rated_set in sets
    )


def correlate_all_rows(metric_lines: MetricLines, sets: Sequence[ProofSet]) -> Correlations:
    """Correlate all rows, golds included, at the smoothing of the ladder that was published with the first set."""
    settings = metric_lines.chain.settings
    smooth = "smooth=epsilon[1e-15]"
    kinds = {
        reference_kinds.GOLD: "BLEU-2, gold",
        reference_kinds.MATCHED: "… and drawn replies",
        reference_kinds.ONE: "… and retrieved ones",
        reference_kinds.RATED: "… rated",
    }
    lines = [
        metric_lines.line(MetricOnReferences(name=name, metric=f"upsilon-bleu:{smooth}", kind=kind))
        for kind, name in kinds.items()
    ]
    if any(len(test_item.references) > 1 for rated_set in sets for test_item in rated_set.items):
        lines.append(plain_line(sets, "BLEU-2, all human references", f"multi-bleu:{smooth}"))
    rows = {rated_set.name: np.ones(len(rated_set.replies), dtype=np.bool_) for rated_set in metric_lines.sets}
    kinds_of = ("spearman", "pearson")
    return correlate(metric_lines.sets, lines, rows=rows, kinds=kinds_of, draws=settings.draws, seed=settings.seed)


CONTROL_METRICS: Final = (  # the metrics that every kind of references is tried with
    MetricOnReferences(name="υBLEU, closest", metric="upsilon-bleu"),
    MetricOnReferences(name="υBLEU, no penalty", metric="upsilon-bleu:bp=none"),
    MetricOnReferences(name="υ-greedy, best", metric=f"upsilon-greedy:agg=best,{GREEDY}"),
    MetricOnReferences(name="υ-greedy, weighted", metric=f"upsilon-greedy:{GREEDY}"),
)
CONTROL_CLAIMS: Final = {  # claim → the line that has to be above, and the line that it has to beat
    "retrieval beats replies of the same lengths": (reference_kinds.ONE, reference_kinds.MATCHED),
    "the rater's weights beat the same ones dealt out anew": (reference_kinds.RATED, reference_kinds.SHUFFLED),
    "the rater's weights beat weights of one": (reference_kinds.RATED, reference_kinds.ONE),
    "rated references beat the gold alone": (reference_kinds.RATED, reference_kinds.GOLD),
    "drawn replies of the same lengths beat the gold alone": (reference_kinds.MATCHED, reference_kinds.GOLD),
}
_CLAIM_KINDS: Final = ("spearman", PARTIAL)


def correlate_kinds(metric_lines: MetricLines, metric: MetricOnReferences) -> Correlations:
    """Correlate one metric on every kind of references: equally many of each kind, at the same penalty.

    The utterance is among no references but those of the kind `parrot`.
    """
    settings = metric_lines.chain.settings
    lines = [metric_lines.line(replace(metric, name=kind, kind=kind)) for kind in reference_kinds.KINDS]
    return correlate(metric_lines.sets, lines, kinds=("spearman", PARTIAL), draws=settings.draws, seed=settings.seed)


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


def metrics(chain: Chain, sets: Sequence[ProofSet]) -> ExperimentReport:
    """Return the report with the main tables."""
    single = [rated_set.with_first_gold() for rated_set in sets]
    metric_lines = MetricLines(chain, single)
    main_lines = main_lines_of(metric_lines, sets)
    settings = chain.settings
    correlations = correlate(single, main_lines.lines, draws=settings.draws, seed=settings.seed)
    controls = {metric.name: correlate_kinds(metric_lines, metric) for metric in CONTROL_METRICS}
    in_logs = {rated_set.name: chain.rows_in_logs(rated_set) for rated_set in single}
    near_contexts = {
        rated_set.name: chain.near_contexts(
            rated_set, [metric_lines.pool(rated_set), metric_lines.pool(rated_set, WORDS)]
        )
        for rated_set in single
    }
    subsets = correlate_subsets(single, main_lines, in_logs, near_contexts, settings)
    scarce = correlate_all_rows(metric_lines, sets)
    people = human_rows(sets, draws=settings.draws, seed=settings.seed)
    beside = rows_beside(chain, single)
    sections = [
        Section(
            title="Agreement with people",
            text=(
                "Fair rows, one gold an item; the mean rating of a reply against its score. Partial: with the length "
                "of the reply held fixed.",
            ),
            tables=[
                agreement_table(correlations, "Fair rows", baseline=BASELINES),
                _published_table(correlations, main_lines.published),
                _sets_table(correlations),
                agreement_table(correlations, "Fair rows, Pearson", kinds=("pearson",), baseline=BLEU_AT_BEST),
                human_table(people),
                _zeros_table(_zero_shares(main_lines.lines, single), single),
            ],
            plots=[_plot_overview(correlations)],
        ),
        Section(
            title="Controls",
            text=tuple(controls_in_words(controls)),
            tables=[
                agreement_table(control, f"{name}: kinds of references", baseline=reference_kinds.GOLD)
                for name, control in controls.items()
            ]
            + [control_claims_table(controls)]
            + [set_by_set_table(name, control) for name, control in controls.items()],
            plots=[plot_control(name, control) for name, control in controls.items()],
        ),
        Section(title="With some rows left out", tables=subsets.tables),
        Section(
            title="All rows, at the smoothing of the published ladder",
            text=(
                "Rows that rate the gold itself are in, so these figures flatter every metric that sees references; "
                "they are here to stand beside published ones.",
            ),
            tables=[agreement_table(scarce, "All rows, smoothing epsilon[1e-15]", kinds=("spearman", "pearson"))],
        ),
        beside.section,
    ]
    return ExperimentReport(
        name="metrics",
        title="Agreement of metrics with people, and what it rests on",
        summary=tuple(_summary(correlations, controls, main_lines.published)),
        sections=sections,
        notes=(
            *main_lines.gaps,
            *beside.gaps,
            *(f"{rated_set.name}: {note}" for rated_set in sets for note in rated_set.notes),
        ),
        data={
            "main": correlations.as_json(),
            "less_baseline": {
                line: {
                    kind: correlations.difference(line, baseline, kind).as_json()
                    for kind, baseline in BASELINES.items()
                    if line != baseline
                }
                for line in correlations.names
            },
            "published_less_default": _differences_json(correlations, main_lines.published, DEFAULT.name),
            "published_less_bleu": _differences_json(correlations, main_lines.published, BLEU),
            "default_less_bleu": _differences_json(correlations, DEFAULT.name, BLEU),
            "controls": {name: control.as_json(("spearman", PARTIAL)) for name, control in controls.items()},
            "claims": {name: control_claims(control) for name, control in controls.items()},
            "subsets": subsets.data,
            "all_rows": scarce.as_json(("spearman", "pearson")),
            "people": {human_row.name: human_row.as_json() for human_row in people},
            "zeros": _zero_shares(main_lines.lines, single),
            "rows_beside": beside.data,
        },
    )


def _summary(correlations: Correlations, controls: Mapping[str, Correlations], published: str) -> Iterator[str]:
    """Yield what is shown and what is not, in sentences made of the figures of this run."""
    for claim, (above, below) in CONTROL_CLAIMS.items():
        verdicts = {
            scope: "; ".join(
                f"{name}: {claim_verdict(control, above, below, scope)}" for name, control in controls.items()
            )
            for scope in correlations.table_scopes
        }
        yield (
            f"That {claim}: "
            + ". ".join(f"{'Mean' if scope == MEAN else scope}: {outcome}" for scope, outcome in verdicts.items())
            + "."
        )
    rows = ", ".join(f"{correlations.contexts[set_name]} contexts in {set_name}" for set_name in correlations.sets)
    yield (
        f"{published}: Spearman {_by_set(correlations, published, 'spearman')}. Less the default: "
        f"{cell(correlations.difference(published, DEFAULT.name, 'spearman'))}, partial "
        f"{cell(correlations.difference(published, DEFAULT.name, PARTIAL))}."
    )
    yield f"What these data can tell is bounded by their size ({rows}): differences below about .06 are within noise."


def _by_set(correlations: Correlations, line: str, kind: str) -> str:
    return ", ".join(f"{scope} {cell(correlations.estimate(line, kind, scope))}" for scope in correlations.table_scopes)


def _published_table(correlations: Correlations, published: str) -> Table:
    """Compare the published method with the default, and both with BLEU, on every set."""
    pairs = ((published, DEFAULT.name), (published, BLEU), (DEFAULT.name, BLEU))
    rows = [
        [
            f"{line} less {other}, {IN_WORDS[kind]}",
            *(cell(correlations.difference(line, other, kind, scope)) for scope in correlations.scopes),
        ]
        for line, other in pairs
        for kind in ("spearman", PARTIAL)
    ]
    return Table(title="As published, less the default", columns=("", *correlations.scopes), rows=rows)


def _sets_table(correlations: Correlations) -> Table:
    """Return the Spearman of every line on every set."""
    rows = [
        [name, *(cell(correlations.estimate(name, "spearman", scope)) for scope in correlations.sets)]
        for name in correlations.names
    ]
    return Table(title="Fair rows, Spearman set by set", columns=("", *correlations.sets), rows=rows)


def _differences_json(correlations: Correlations, line: str, other: str) -> dict[str, object]:
    return {
        kind: {scope: correlations.difference(line, other, kind, scope).as_json() for scope in correlations.scopes}
        for kind in ("spearman", PARTIAL)
    }


def _zero_shares(lines: Sequence[Line], sets: Sequence[ProofSet]) -> dict[str, dict[str, float]]:
    """Return the share of fair rows with a score of 0, for lines that have any: ranks say little where scores tie."""
    shares = {
        line.name: {
            rated_set.name: round(float((line.scores[rated_set.name][0][rated_set.fair] == 0).mean()), 4)
            for rated_set in sets
        }
        for line in lines
    }
    return {name: share for name, share in shares.items() if any(share.values())}


def _zeros_table(zeros: Mapping[str, Mapping[str, float]], sets: Sequence[ProofSet]) -> Table:
    rows = [[name, *(f"{100 * shares[rated_set.name]:.1f} %" for rated_set in sets)] for name, shares in zeros.items()]
    return Table(
        title="Scores that are 0",
        columns=("line", *(rated_set.name for rated_set in sets)),
        rows=rows,
        notes=("of the fair rows, for the lines that have any: replies that a metric gives 0 it does not tell apart",),
    )


def _plot_overview(correlations: Correlations) -> Plot:
    return plot_both_kinds("metrics-overview.png", f"Agreement with people, {correlations.scopes[-1]}", correlations)
