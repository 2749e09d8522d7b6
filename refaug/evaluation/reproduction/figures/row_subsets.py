"""The main lines of `reproduce metrics` on fewer rows, and with fewer references."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

import numpy as np

from refaug.evaluation.reports.html_page import Table
from refaug.evaluation.reproduction.figures.correlations import Correlations, Line, correlate
from refaug.evaluation.reproduction.figures.main_lines import BASELINES, BLEU_OURS, OURS, MainLines, plain_line
from refaug.evaluation.reproduction.material import metric_candidates, reference_kinds
from refaug.evaluation.reproduction.material.published_method import published_line, published_name
from refaug.evaluation.reproduction.material.rated_sets import Mask, ProofSet
from refaug.evaluation.reproduction.material.rated_systems import systems_of_the_log
from refaug.evaluation.reproduction.report.report import agreement_table
from refaug.metrics.statistics.correlation import PARTIAL

_FEWEST_ROWS: Final = 20  # of a set, to be compared at all
_WITHOUT_LOG_SYSTEMS: Final = "without the systems whose replies were taken from the log"


@dataclass(frozen=True, kw_only=True)
class Subsets:
    """The tables and figures of all subsets."""

    tables: tuple[Table, ...]
    data: Mapping[str, Any]


def correlate_subsets(
    trial: metric_candidates.Trial,
    sets: Sequence[ProofSet],
    main_lines: MainLines,
    in_logs: Mapping[str, Mask],
    near_contexts: Mapping[str, Mask],
) -> Subsets:
    """Correlate the main lines on fewer rows, and with fewer references."""
    settings = trial.chain.settings
    shown = [line for line in main_lines.lines if not line.name.startswith("υ-")]
    choices: dict[str, tuple[Sequence[Line], Mapping[str, Mask]]] = {
        "without replies that stand in the log word for word": (
            shown,
            {rated_set.name: rated_set.fair & ~in_logs[rated_set.name] for rated_set in sets},
        ),
        "without contexts whose like stands in the log (token Jaccard ≥ .8)": (
            shown,
            {rated_set.name: rated_set.fair & ~near_contexts[rated_set.name] for rated_set in sets},
        ),
        "only contexts whose like stands in the log": (
            shown,
            {rated_set.name: rated_set.fair & near_contexts[rated_set.name] for rated_set in sets},
        ),
        _WITHOUT_LOG_SYSTEMS: (
            shown,
            {
                rated_set.name: rated_set.without_systems(systems_of_the_log(rated_set, in_logs[rated_set.name]))
                for rated_set in sets
            },
        ),
        "references nearly equal to the reply left out": (
            _without_near_references(trial, main_lines, shown),
            {rated_set.name: rated_set.fair for rated_set in sets},
        ),
    }
    tables, figures = list[Table](), dict[str, object]()
    for title, (lines, rows) in choices.items():
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


def _without_near_references(
    trial: metric_candidates.Trial, main_lines: MainLines, shown: Sequence[Line]
) -> list[Line]:
    """Return the same lines, scored without the further references that nearly equal the reply.

    What was selected in each fold stays selected.
    """
    lines = list[Line]()
    for line in shown:
        if line.name in main_lines.candidate_of_line:
            lines.append(
                trial.line(
                    main_lines.candidate_of_line[line.name], main_lines.candidates, drop=reference_kinds.Drop.NEAR
                )
            )
        elif line.name in (OURS, BLEU_OURS):
            chosen = main_lines.ours if line.name == OURS else main_lines.bleu
            again = {
                name: trial.line(main_lines.candidates[name], main_lines.candidates, drop=reference_kinds.Drop.NEAR)
                for name in dict.fromkeys(chosen.by_fold)
            }
            lines.append(replace(chosen.apply_to(trial.sets, again), name=line.name))
        elif line.name == published_name(trial.chain):
            lines.append(published_line(trial.chain, trial.sets, reference_kinds.Drop.NEAR))
        else:
            lines.append(line)
    return lines


def correlate_all_rows(trial: metric_candidates.Trial, sets: Sequence[ProofSet]) -> Correlations:
    """Correlate all rows, golds included, at the smoothing of the ladder that was published with the first set."""
    settings = trial.chain.settings
    smooth = "smooth=epsilon[1e-15]"
    kinds = {
        reference_kinds.GOLD: "BLEU-2, gold",
        reference_kinds.MATCHED: "… and drawn replies",
        reference_kinds.ONE: "… and retrieved ones",
        reference_kinds.RATED: "… rated",
    }
    lines = [
        replace(
            trial.line(
                metric_candidates.MetricCandidate(
                    name=name, why="", family="bleu", metric=f"upsilon-bleu:{smooth}", kind=kind
                ),
                {},
            ),
            name=name,
        )
        for kind, name in kinds.items()
    ]
    if any(len(test_item.references) > 1 for rated_set in sets for test_item in rated_set.items):
        lines.append(plain_line(sets, "BLEU-2, all human references", f"multi-bleu:{smooth}"))
    rows = {rated_set.name: np.ones(len(rated_set.replies), dtype=np.bool_) for rated_set in trial.sets}
    kinds_of = ("spearman", "pearson")
    return correlate(trial.sets, lines, rows=rows, kinds=kinds_of, draws=settings.draws, seed=settings.seed)
