"""Protocol B, the published one: folds of contexts of one set, so that domain, systems and raters are known.

Beside it stand what a system that was not fitted to gets, and how agreement grows with the number of contexts. The
settings are the published ones: nothing is chosen.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

import numpy as np

from refaug.extras.reproduction.figures.correlations import Correlations, IntervalEstimate, Line, correlate
from refaug.extras.reproduction.learned.learners import AdemLearner
from refaug.extras.reproduction.learned.lines import LENGTH, RIDGE, LineMaker, adem_name
from refaug.extras.reproduction.learned.protocols import ChosenSettings, LearnedLine, in_folds, without_system
from refaug.extras.reproduction.learned.rated_rows import LearnedSet, learned_sets
from refaug.extras.reproduction.material.chain import Chain
from refaug.extras.reproduction.material.rated_sets import ProofSet
from refaug.extras.reproduction.report.report import agreement_table, cell, short
from refaug.metrics.statistics.correlation import PARTIAL, spearman
from refaug.metrics.statistics.resampling import Floats
from refaug.rater.adem.scorer.rated_triples import Form
from refaug.tables.reports.report import Section
from refaug.tables.reports.table import Table

PUBLISHED: Final = "published on its own set, which was never released: Spearman .428, Pearson .436"
OWN_SYSTEM: Final = "ADEM, own system left out"
SHARES: Final = (0.05, 0.1, 0.25, 0.5, 0.75, 1.0)
_FOLDS: Final = 5
_SYSTEMS: Final = (3, 25)  # fewest and most of a set whose systems are left out
_FEWEST_LEARNT: Final = 60  # rows below which a share is left out of the curve
_KINDS: Final = ("spearman", PARTIAL, "pearson")


@dataclass(frozen=True, kw_only=True)
class InSetPart:
    """The section with its figures."""

    section: Section
    data: Mapping[str, Any]


def in_set_section(maker: LineMaker, sets: Sequence[ProofSet], chain: Chain) -> InSetPart:
    """Return agreement in folds, without each system, and by the number of contexts."""
    chosen = ChosenSettings()
    folds = _fold_figures(maker, sets, chain, chosen)
    systems = _by_system(maker, sets, chain)
    unknown = _unknown_systems(maker, sets, chain)
    curve = _learning_curve(maker, sets, chain)
    section = Section(
        title="Protocol B: folds of one set, the domain, systems and raters known",
        text=(
            "The published figures are over folds of this kind, of another set; settings are the published ones "
            "(50 components, a penalty of .075), with no choice.",
            f"ADEM was {PUBLISHED}.",
        ),
        tables=[
            agreement_table(folds, "Folds of each set", kinds=_KINDS, notes=(PUBLISHED,)),
            _sets_table(folds),
            *([agreement_table(unknown, "Own system left out", kinds=_KINDS)] if unknown is not None else []),
            *_system_tables(systems),
            _curve_table(curve),
        ],
    )
    data = {
        "folds": folds.as_json(),
        "own_system_left_out": unknown.as_json() if unknown is not None else None,
        "systems": systems,
        "curve": curve,
        "published": {"spearman": 0.428, "pearson": 0.436},
    }
    return InSetPart(section=section, data=data)


def _fold_figures(maker: LineMaker, sets: Sequence[ProofSet], chain: Chain, chosen: ChosenSettings) -> Correlations:
    lines = [_published(line) for form in Form for line in maker.adem_lines(form)]
    forms = [form for form in Form for _ in maker.kinds]
    controls = [line for line in maker.shared_controls(Form.FULL) if line.name in (LENGTH, RIDGE)]
    results = list[Line]()
    for form, line in [*zip(forms, lines, strict=True), *((Form.FULL, line) for line in controls)]:
        chain.progress.stage(f"folds, {line.name}", _FOLDS * len(sets) * len(line.learners))
        learned = learned_sets(sets, form)
        scores = {
            own.name: in_folds(line, own, chosen, chain.progress, folds=_FOLDS, seed=chain.settings.seed)
            for own in learned
        }
        results.append(Line(name=line.name, scores=scores))
    return correlate(sets, results, draws=chain.settings.draws, seed=chain.settings.seed)


def _published(line: LearnedLine) -> LearnedLine:
    learners = [
        (replace(learner, is_published=True) if isinstance(learner, AdemLearner) else learner, seed)
        for learner, seed in line.learners
    ]
    return replace(line, learners=learners)


def _main_line(maker: LineMaker) -> LearnedLine:
    """Return the full form on the first main encoder alone."""
    name = adem_name(Form.FULL, maker.main.name)
    line = next(_published(line) for line in maker.adem_lines(Form.FULL) if line.name == name)
    return replace(line, learners=line.learners[:1])


# ── Systems ───────────────────────────────────────────────────────────────────────────────────────────────────────


def _unknown_systems(maker: LineMaker, sets: Sequence[ProofSet], chain: Chain) -> Correlations | None:
    """Return the agreement of scores of each reply by a scorer that knows neither its context nor its system."""
    line, scores = _main_line(maker), dict[str, Floats]()
    chosen = line.learners[0][0].choices()[0]
    learned_with_systems = [own for own in learned_sets(sets, Form.FULL) if _has_systems(own)]
    if not learned_with_systems:
        return None
    for learned in learned_with_systems:
        chain.progress.stage(f"systems of {learned.name}", len(_systems_of(learned)))
        own = np.full((1, len(learned.rows)), np.nan)
        for system in _systems_of(learned):
            removed, _ = without_system(line, learned, system, chosen)
            own = np.where(np.isnan(removed), own, removed)
            chain.progress.advance(1)
        scores[learned.name] = own
    compared = [learned.rated_set for learned in learned_with_systems]
    lines = [Line(name=OWN_SYSTEM, scores=scores)]
    return correlate(compared, lines, draws=chain.settings.draws, seed=chain.settings.seed)


def _has_systems(learned: LearnedSet) -> bool:
    """Say whether a set has enough systems to leave one out, and not too many to fit that often."""
    return _SYSTEMS[0] <= len(_systems_of(learned)) <= _SYSTEMS[1]


def _systems_of(learned: LearnedSet) -> list[str]:
    """Return the systems of the rows of a set."""
    return sorted(set(learned.fair_rows.rated.systems))


def _by_system(maker: LineMaker, sets: Sequence[ProofSet], chain: Chain) -> dict[str, object]:
    """Return, for each system of a set, Spearman on all replies and on its own by a scorer that was fitted without."""
    line, figures = _main_line(maker), dict[str, object]()
    chosen = line.learners[0][0].choices()[0]
    for learned in learned_sets(sets, Form.FULL):
        systems = _systems_of(learned)
        if not _has_systems(learned):
            continue
        chain.progress.stage(f"without each system of {learned.name}", len(systems))
        own = dict[str, object]()
        for system in systems:
            removed, everything = without_system(line, learned, system, chosen)
            ratings = learned.rows.rated.ratings
            own[system] = {
                "rows": int(np.isfinite(removed).sum()),
                "all": _spearman(everything[0], ratings),
                "removed": _spearman(removed[0], ratings),
            }
            chain.progress.advance(1)
        figures[learned.name] = own
    return figures


def _spearman(scores: Any, ratings: Any) -> float | None:
    value = spearman(scores, ratings).value
    return None if value is None else round(value, 4)


def _system_tables(systems: Mapping[str, Any]) -> list[Table]:
    return [
        Table(
            title=f"{name}: fitted without one system",
            columns=("system", "rows", "Spearman, all replies", "Spearman, its own replies"),
            rows=[
                [system, str(of_system["rows"]), _number(of_system["all"]), _number(of_system["removed"])]
                for system, of_system in own.items()
            ],
            notes=("published, mean over four systems: .364 on all replies, .145 on those of the system left out",),
        )
        for name, own in systems.items()
    ]


def _number(figure: float | None) -> str:
    return "–" if figure is None else short(figure)


# ── Learning curve ────────────────────────────────────────────────────────────────────────────────────────────────


def _learning_curve(maker: LineMaker, sets: Sequence[ProofSet], chain: Chain) -> dict[str, object]:
    """Return the agreement on the largest set, by the share of the contexts of each fold that is learnt from."""
    largest = max(sets, key=lambda rated_set: int(rated_set.fair.sum()))
    [learned] = learned_sets([largest], Form.FULL)
    main, lines = _main_line(maker), list[Line]()
    least = _FEWEST_LEARNT / (len(learned.fair_rows) * (_FOLDS - 1) / _FOLDS)
    chosen = ChosenSettings()
    for share in (share for share in SHARES if share >= least):
        line = replace(main, name=f"{share:.0%} of the contexts", share=share)
        chain.progress.stage(f"learning curve, {line.name}", _FOLDS)
        scores = in_folds(line, learned, chosen, chain.progress, folds=_FOLDS, seed=chain.settings.seed)
        lines.append(Line(name=line.name, scores={largest.name: scores}))
    figures = correlate([largest], lines, draws=chain.settings.draws, seed=chain.settings.seed)
    return {
        "set": largest.name,
        "figures": {
            line.name: {kind: figures.estimate(line.name, kind, largest.name).as_json() for kind in _KINDS}
            for line in lines
        },
    }


def _curve_table(curve: Mapping[str, Any]) -> Table:
    rows = [
        [name, *(cell(IntervalEstimate(**kinds[kind])) for kind in _KINDS)] for name, kinds in curve["figures"].items()
    ]
    return Table(
        title=f"{curve['set']}: share of the contexts that is learnt from",
        columns=("", "Spearman", "partial Spearman", "Pearson"),
        rows=rows,
        notes=("published, Spearman: 100 % .414, 75 % .408, 50 % .400, 25 % .330, 10 % .245, 5 % .098",),
    )


def _sets_table(figures: Correlations) -> Table:
    rows = [
        [line, *(cell(figures.estimate(line, "spearman", name)) for name in figures.sets)] for line in figures.names
    ]
    return Table(title="Folds, set by set: Spearman", columns=("", *figures.sets), rows=rows)
