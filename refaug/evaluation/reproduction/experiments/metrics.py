"""`reproduce metrics`: how well metrics agree with people, beside the controls that could refute their claims.

Three questions, each on the same rows and draws: do retrieved references help more than replies of the same lengths
that were drawn from the log; do the rater's weights help more than the same weights shuffled; and which metric, chosen
without looking at the rows that it is judged on, agrees best with people.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from refaug.evaluation.reports.html_page import Table
from refaug.evaluation.reports.plotting import Plot
from refaug.evaluation.reproduction.figures.annotators import annotator_table, human_rows, human_table
from refaug.evaluation.reproduction.figures.controls import (
    CONTROL_CLAIMS,
    CONTROL_METRICS,
    claim_verdict,
    control_claims,
    control_claims_table,
    controls_in_words,
    correlate_kinds,
    plot_both_kinds,
    plot_control,
    set_by_set_table,
)
from refaug.evaluation.reproduction.figures.correlations import MEAN, Correlations, Line, correlate
from refaug.evaluation.reproduction.figures.main_lines import (
    BASELINES,
    BLEU,
    BLEU_AT_BEST,
    BLEU_OURS,
    DEFAULT,
    OURS,
    main_lines_of,
)
from refaug.evaluation.reproduction.figures.row_subsets import correlate_all_rows, correlate_subsets
from refaug.evaluation.reproduction.figures.selection import Selection
from refaug.evaluation.reproduction.figures.smoothing import smoothed_retrieved, smoothing_json, smoothing_tables
from refaug.evaluation.reproduction.material import metric_candidates
from refaug.evaluation.reproduction.material.chain import Chain
from refaug.evaluation.reproduction.material.rated_sets import ProofSet
from refaug.evaluation.reproduction.material.reference_kinds import (
    GOLD,
)
from refaug.evaluation.reproduction.report.report import IN_WORDS, Report, Section, agreement_table, cell, verdict
from refaug.metrics.statistics.correlation import PARTIAL


def metrics(chain: Chain, sets: Sequence[ProofSet]) -> Report:
    """Return the report with the main tables."""
    single = [rated_set.with_first_gold() for rated_set in sets]
    trial = metric_candidates.Trial(chain, single)
    main_lines = main_lines_of(trial, sets)
    settings = chain.settings
    correlations = correlate(single, main_lines.lines, draws=settings.draws, seed=settings.seed)
    controls = {metric.name: correlate_kinds(trial, metric) for metric in CONTROL_METRICS}
    in_logs = {rated_set.name: chain.rows_in_logs(rated_set) for rated_set in single}
    near_contexts = {
        rated_set.name: chain.near_contexts(
            rated_set, [trial.pool(rated_set), trial.pool(rated_set, metric_candidates.WORDS)]
        )
        for rated_set in single
    }
    subsets = correlate_subsets(trial, single, main_lines, in_logs, near_contexts)
    scarce = correlate_all_rows(trial, sets)
    people = human_rows(sets, draws=settings.draws, seed=settings.seed)
    smoothed = smoothed_retrieved(trial)
    sections = [
        Section(
            title="Agreement with people",
            text=(
                "Fair rows, one gold an item; the mean rating of a reply against its score. Partial: with the length "
                "of the reply held fixed.",
                *_selection_in_words(main_lines.ours, main_lines.bleu),
            ),
            tables=[
                agreement_table(correlations, "Fair rows", baseline=BASELINES),
                _published_table(correlations, main_lines.published),
                _sets_table(correlations),
                agreement_table(correlations, "Fair rows, Pearson", kinds=("pearson",), baseline=BLEU_AT_BEST),
                human_table(people),
                annotator_table(single, main_lines.lines),
                _zeros_table(_zero_shares(main_lines.lines, single), single),
            ],
            plots=[_plot_overview(correlations)],
        ),
        Section(
            title="Controls",
            text=tuple(controls_in_words(controls)),
            tables=[
                agreement_table(control, f"{name}: kinds of references", baseline=GOLD)
                for name, control in controls.items()
            ]
            + [control_claims_table(controls)]
            + [set_by_set_table(name, control) for name, control in controls.items()],
            plots=[plot_control(name, control) for name, control in controls.items()],
        ),
        Section(
            title="Smoothing",
            text=("υBLEU with retrieved references, rated and of weight one, with and without a length penalty.",),
            tables=smoothing_tables(smoothed, "Smoothing where references are retrieved"),
        ),
        Section(title="With some rows or references left out", tables=subsets.tables),
        Section(
            title="All rows, at the smoothing of the published ladder",
            text=(
                "Rows that rate the gold itself are in, so these figures flatter every metric that sees references; "
                "they are here to stand beside published ones.",
            ),
            tables=[agreement_table(scarce, "All rows, smoothing epsilon[1e-15]", kinds=("spearman", "pearson"))],
        ),
        Section(title="What was tried", tables=[_tried_table(main_lines.ours)]),
    ]
    return Report(
        name="metrics",
        title="Agreement of metrics with people, and what it rests on",
        summary=tuple(_summary(correlations, controls, main_lines.published)),
        sections=sections,
        notes=(*main_lines.gaps, *(f"{rated_set.name}: {note}" for rated_set in sets for note in rated_set.notes)),
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
            "smoothing": smoothing_json(smoothed),
            "controls": {name: control.as_json(("spearman", PARTIAL)) for name, control in controls.items()},
            "claims": {name: control_claims(control) for name, control in controls.items()},
            "subsets": subsets.data,
            "all_rows": scarce.as_json(("spearman", "pearson")),
            "selection": {"ours": main_lines.ours.as_json(), "bleu": main_lines.bleu.as_json()},
            "candidates": [candidate.as_json() for candidate in main_lines.candidates.values()],
            "people": {human_row.name: human_row.as_json() for human_row in people},
            "zeros": _zero_shares(main_lines.lines, single),
        },
    )


def _summary(correlations: Correlations, controls: Mapping[str, Correlations], published: str) -> Iterator[str]:
    """Yield what is shown and what is not, in sentences made of the figures of this run."""
    gains = {kind: correlations.difference(OURS, baseline, kind) for kind, baseline in BASELINES.items()}
    yield (
        f"The best of ours, out of fold: Spearman {_by_set(correlations, OURS, 'spearman')}; partial, given length, "
        f"{_by_set(correlations, OURS, PARTIAL)}. Above BLEU with one reference at its own best setting for each by "
        f"{cell(gains['spearman'])}, partial {cell(gains[PARTIAL])}: {verdict(list(gains.values()))}."
    )
    yield f"υBLEU, its setting chosen out of fold: Spearman {_by_set(correlations, BLEU_OURS, 'spearman')}."
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


def _selection_in_words(ours: Selection, bleu: Selection) -> Iterator[str]:
    for label, selection in (("best of ours", ours), ("υBLEU", bleu)):
        chosen = "; ".join(dict.fromkeys(selection.by_fold))
        yield (
            f"{label}: chosen out of {selection.tried} candidates by the mean partial Spearman of the other folds. "
            f"Chosen: {chosen}. On all rows it would have been: {selection.on_all}."
        )


def _tried_table(ours: Selection) -> Table:
    ranked = sorted(ours.in_fold.items(), key=lambda pair: -pair[1])
    rows = [[name, f"{mean:.3f}", str(ours.by_fold.count(name))] for name, mean in ranked]
    return Table(
        title=f"All {ours.tried} candidates",
        columns=("candidate", "mean partial Spearman on all rows", "chosen in folds"),
        rows=rows,
        notes=("the best of so many looks better here than it is: the figure to quote is the one out of fold",),
    )


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
