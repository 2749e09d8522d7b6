"""`reproduce growth`: what more data or larger models bring, and what each part of the metric contributes.

A larger log, more references, wider vectors, a larger rater: each step stands beside random replies, equally many and
equally long, and beside the gold alone. So a gain that comes from the number of references alone can be told apart.
Then follows the metric with one part changed at a time: `ablations`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from refaug.core.artefacts.kinds import artefact_stores
from refaug.core.errors import BadInput, CheckFailed
from refaug.evaluation.reports.html_page import Table
from refaug.evaluation.reports.plotting import Plot
from refaug.evaluation.reproduction.experiments import conditions
from refaug.evaluation.reproduction.experiments.ablations import (
    Ablation,
    ablation_json,
    ablation_section,
    ablations_of,
    changes_by_both_kinds,
    correlate_ablation,
)
from refaug.evaluation.reproduction.figures.correlations import Correlations, IntervalEstimate, correlate
from refaug.evaluation.reproduction.material.chain import Chain, IndexRecipe
from refaug.evaluation.reproduction.material.proof_logs import EVERYDAY
from refaug.evaluation.reproduction.material.rated_sets import ProofSet
from refaug.evaluation.reproduction.material.reference_coverage import require_references, sets_with_references
from refaug.evaluation.reproduction.material.reference_kinds import MATCHED, ONE, RATED, SHUFFLED, Pool, line_of
from refaug.evaluation.reproduction.report.plots import bars, curves
from refaug.evaluation.reproduction.report.report import IN_WORDS, Report, Section, agreement_table, cell, verdict
from refaug.indexer.manifest import IndexManifest
from refaug.metrics.base import Metric
from refaug.rater.nn.build import PRESETS
from refaug.rater.rating import Rater

_LARGE: Final = "medium"
_EVERYTHING: Final = "the everyday logs and the large one"
_OVER_FIRST: Final = "rated less the first step"


@dataclass(frozen=True, kw_only=True)
class GrowthPlan:
    """The steps of every axis."""

    shares: tuple[float, ...] = (0.01, 0.1, 1.0)  # of the everyday logs
    with_large: bool = True  # and then also the large log
    ks: tuple[int, ...] = (1, 2, 5, 10, 15, 30, 50)
    widths: tuple[int, ...] = (50, 100, 200)
    presets: tuple[str, ...] = ("small", "base")


@dataclass(frozen=True, kw_only=True, eq=False)
class Step:
    """One place on an axis, with its references."""

    name: str
    x: float
    pools: Mapping[str, Pool]  # by set
    k: int = conditions.K


@dataclass(frozen=True, kw_only=True, eq=False)
class Axis:
    """What grows, step by step; a step that is not available is a gap with a reason."""

    name: str
    title: str
    about: str
    steps: Sequence[Step]
    gaps: Sequence[str] = ()
    x_label: str = ""  # none: the steps are names rather than numbers
    last_home_step: int | None = None  # the last step without other domains; None: no step has them
    kinds: tuple[str, ...] = (RATED, ONE, MATCHED)

    @property
    def comparisons(self) -> list[tuple[Step, Step]]:
        """Return the pairs of steps to compare; what other domains add is a separate question."""
        first, last = self.steps[0], self.steps[-1]
        if self.last_home_step is None:
            return [(first, last)]
        middle = self.steps[self.last_home_step]
        return [(before, after) for before, after in ((first, middle), (middle, last)) if before is not after]


def growth(chain: Chain, sets: Sequence[ProofSet], plan: GrowthPlan | None = None) -> Report:
    """Report on all axes with all metrics, then on the ablations."""
    plan, settings = plan or GrowthPlan(), chain.settings
    usable_sets, gaps = sets_with_references(chain, sets)
    single, main, rater = [rated_set.with_first_gold() for rated_set in usable_sets], chain.main_index(), chain.rater()
    pools, metrics = conditions.pools_of(chain, single, main, rater), conditions.build_metrics(chain)
    all_axes = [
        _by_log(chain, single, rater, plan),
        _by_k(pools, plan),
        _by_width(chain, single, rater, plan),
        _by_rater(chain, single, main, plan),
    ]
    axes = [axis for axis in all_axes if axis.steps]
    by_axis = {
        axis.name: {name: _correlate_axis(chain, axis, name, metric, single) for name, metric in metrics.items()}
        for axis in axes
    }
    counts = {
        axis.name: {
            rated_set.name: counts_by_step(axis, rated_set, settings.draws, settings.seed) for rated_set in single
        }
        for axis in axes
    }
    ablations = ablations_of(chain, single, pools, main, rater)
    by_ablation = {ablation.name: correlate_ablation(chain, ablation, single) for ablation in ablations}
    return Report(
        name="growth",
        title="What grows with the log, with references, vectors and raters; and what each part is good for",
        summary=[
            *(text for axis in axes for text in _summary_of_axis(axis, by_axis[axis.name])),
            *(changes_by_both_kinds(ablation, by_ablation[ablation.name]) for ablation in ablations),
        ],
        sections=[
            *(_section(axis, by_axis[axis.name], counts[axis.name]) for axis in axes),
            *(ablation_section(ablation, by_ablation[ablation.name]) for ablation in ablations),
        ],
        notes=[
            *gaps,
            *(f"{rated_set.name}: {note}" for rated_set in usable_sets for note in rated_set.notes),
            *(gap for axis in all_axes for gap in axis.gaps),
            *_not_trained(plan),
        ],
        data={
            "axes": {axis.name: _axis_json(axis, by_axis[axis.name], counts[axis.name]) for axis in axes},
            "ablations": _ablations_json(ablations, by_ablation),
        },
    )


def _ablations_json(ablations: Sequence[Ablation], by_ablation: Mapping[str, Correlations]) -> dict[str, object]:
    return {ablation.name: ablation_json(ablation, by_ablation[ablation.name]) for ablation in ablations}


# ── axes ──────────────────────────────────────────────────────────────────────────────────────────────────────────────


def _build_steps(
    chain: Chain, sets: Sequence[ProofSet], builders: Mapping[str, Callable[[], Step]]
) -> tuple[list[Step], list[str]]:
    """Build the steps that are available and have references for every set; give the reason for each other one."""
    steps, gaps = list[Step](), list[str]()
    for name, make in builders.items():
        try:
            step = make()
            for rated_set in sets:
                require_references(rated_set, step.pools[rated_set.name])
        except (BadInput, CheckFailed) as error:
            gaps.append(f"{name} is missing: {chain.public_message(error)}")
        else:
            steps.append(step)
    return steps, gaps


def _by_log(chain: Chain, sets: Sequence[ProofSet], rater: Rater, plan: GrowthPlan) -> Axis:
    """Build indexes of ever larger shares of the logs; vectors and rater stay those of the whole everyday logs."""

    def build_step(name: str, recipe: IndexRecipe) -> Step:
        index = chain.index(recipe)
        pairs = sum(log.pairs for log in manifest_of(chain, index).logs)
        return Step(name=name, x=pairs, pools=conditions.pools_of(chain, sets, index, rater))

    recipes = dict[str, IndexRecipe]()
    for share in plan.shares:
        index = "proof" if share == 1 else f"proof-share-{share:g}".replace(".", "_")
        selections = tuple(chain.select(log, share) for log in EVERYDAY)
        recipes[f"{100 * share:g} % of the everyday logs"] = IndexRecipe(name=index, selections=selections)
    if plan.with_large:
        recipes[_EVERYTHING] = IndexRecipe(name="proof-large", selections=(*chain.everyday, chain.select(_LARGE)))
    builders: dict[str, Callable[[], Step]] = {
        name: lambda name=name, recipe=recipe: build_step(name, recipe)  # type: ignore[misc]
        for name, recipe in recipes.items()
    }
    steps, gaps = _build_steps(chain, sets, builders)
    at_home = [place for place, step in enumerate(steps) if step.name != _EVERYTHING]
    return Axis(
        name="log",
        title="Size of the log",
        about=(
            "Only the log that references are looked for in grows: at every step word vectors and rater are those of "
            "the whole everyday logs, and random replies come from these. The large log adds other domains."
        ),
        steps=steps,
        gaps=gaps,
        x_label="pairs in the log",
        last_home_step=at_home[-1] if at_home else None,
    )


def manifest_of(chain: Chain, index: str) -> IndexManifest:
    """Return the manifest of an index, named as name@version."""
    name, _, version = index.partition("@")
    return IndexManifest.read(artefact_stores(chain.home)["index"].folder(name, version))


def _by_k(pools: Mapping[str, Pool], plan: GrowthPlan) -> Axis:
    return Axis(
        name="k",
        title="Number of references",
        about="The first k of what is retrieved; the gold is there as well.",
        steps=[Step(name=f"k = {k}", x=k, pools=pools, k=k) for k in plan.ks],
        x_label="references (k)",
    )


def _by_width(chain: Chain, sets: Sequence[ProofSet], rater: Rater, plan: GrowthPlan) -> Axis:
    """Build indexes with vectors of other widths; the vectors that υ-greedy compares words with stay the same."""
    usual = manifest_of(chain, chain.main_index()).vectors.dimensions

    def build_step(width: int) -> Step:
        name = "proof" if width == usual else f"proof-{width}"
        vectors = chain.vectors(name=name, width=width)
        index = chain.index(IndexRecipe(name=name, selections=chain.everyday), vectors)
        return Step(name=f"{width} dimensions", x=width, pools=conditions.pools_of(chain, sets, index, rater))

    builders: dict[str, Callable[[], Step]] = {
        f"{width} dimensions": lambda width=width: build_step(width)  # type: ignore[misc]
        for width in plan.widths
    }
    steps, gaps = _build_steps(chain, sets, builders)
    return Axis(
        name="width",
        title="Dimensions of the word vectors",
        about="Only the vectors that references are looked for with change; those of υ-greedy stay the same.",
        steps=steps,
        gaps=gaps,
        x_label="dimensions",
    )


def _by_rater(chain: Chain, sets: Sequence[ProofSet], index: str, plan: GrowthPlan) -> Axis:
    """Weight the same references by raters of other sizes."""

    def build_step(preset: str) -> Step:
        usual = preset == chain.settings.preset
        rater = chain.rater() if usual else chain.rater(name=f"proof-{preset}", preset=preset)
        return Step(
            name=f"rater {preset}", x=PRESETS[preset].hidden, pools=conditions.pools_of(chain, sets, index, rater)
        )

    builders: dict[str, Callable[[], Step]] = {
        f"rater {preset}": lambda preset=preset: build_step(preset)  # type: ignore[misc]
        for preset in plan.presets
    }
    steps, gaps = _build_steps(chain, sets, builders)
    return Axis(
        name="rater",
        title="Size of the rater",
        about="The same references; claims for a rater stand against its own ratings dealt out anew within the item.",
        steps=steps,
        gaps=gaps,
        kinds=(RATED, SHUFFLED, ONE, MATCHED),
    )


def _not_trained(plan: GrowthPlan) -> Iterator[str]:
    for preset in PRESETS:
        if preset not in plan.presets:
            yield f"rater {preset} is missing: its training is too long for processors without a GPU"


# ── figures ───────────────────────────────────────────────────────────────────────────────────────────────────────────


def _correlate_axis(chain: Chain, axis: Axis, name: str, metric: Metric, sets: Sequence[ProofSet]) -> Correlations:
    chain.progress.stage(f"{axis.title}: scoring with {name}", None, "scorings")
    lines = [line_of(conditions.GOLD_ALONE, sets, metric)]
    for step in axis.steps:
        lines += conditions.lines_on(chain, step.name, sets, step.pools, metric, axis.kinds, k=step.k)
    settings = chain.settings
    return correlate(sets, lines, kinds=conditions.KINDS, draws=settings.draws, seed=settings.seed)


@dataclass(frozen=True, kw_only=True)
class StepCounts:
    """How many items and references a step has for a set."""

    items: int
    lacking: int  # items with fewer than k references
    above: IntervalEstimate  # the share of references that the rater puts above 0

    def as_json(self) -> dict[str, object]:
        """Return the counts as JSON."""
        return {"items": self.items, "lacking": self.lacking, "above": self.above.as_json()}


def counts_by_step(axis: Axis, rated_set: ProofSet, draws: int, seed: int) -> list[StepCounts]:
    """Count what each step has for a set."""
    counts = list[StepCounts]()
    for step in axis.steps:
        tops = [references[: step.k] for references in step.pools[rated_set.name].retrieved]
        above = conditions.shares_above_zero([[reference.rating or 0.0 for reference in top] for top in tops])
        lacking = sum(1 for top in tops if len(top) < step.k)
        counts.append(
            StepCounts(items=len(tops), lacking=lacking, above=conditions.mean_over_items(above, draws, seed))
        )
    return counts


def _differences(axis: Axis, correlations: Correlations) -> conditions.Differences:
    """Return the difference of each step to its controls and to the first step."""
    differences = dict[str, dict[str, conditions.Estimates]]()
    for step in axis.steps:
        rated, matched = conditions.line_name(step.name, RATED), conditions.line_name(step.name, MATCHED)
        differences[step.name] = {
            "rated less gold alone": conditions.differences_between(correlations, rated, conditions.GOLD_ALONE),
            "rated less matched random": conditions.differences_between(correlations, rated, matched),
            "one less matched random": conditions.differences_between(
                correlations, conditions.line_name(step.name, ONE), matched
            ),
        }
        if SHUFFLED in axis.kinds:
            differences[step.name]["rated less shuffled"] = conditions.differences_between(
                correlations, rated, conditions.line_name(step.name, SHUFFLED)
            )
        differences[step.name][_OVER_FIRST] = conditions.differences_between(
            correlations, rated, conditions.line_name(axis.steps[0].name, RATED)
        )
    return differences


def _axis_json(
    axis: Axis, by_metric: Mapping[str, Correlations], counts_by_set: Mapping[str, Sequence[StepCounts]]
) -> dict[str, object]:
    return {
        "steps": [{"name": step.name, "x": step.x, "k": step.k} for step in axis.steps],
        "held": {name: [step_counts.as_json() for step_counts in counts] for name, counts in counts_by_set.items()},
        "agreement": {name: correlations.as_json(conditions.KINDS) for name, correlations in by_metric.items()},
        "differences": {
            name: conditions.differences_json(_differences(axis, correlations))
            for name, correlations in by_metric.items()
        },
    }


# ── in words, tables and plots ────────────────────────────────────────────────────────────────────────────────────────


def _summary_of_axis(axis: Axis, by_metric: Mapping[str, Correlations]) -> Iterator[str]:
    """Yield in how many of all comparisons the metric improves along the axis and beats its controls."""
    count = len(by_metric) * len(conditions.KINDS)
    differences = {name: _differences(axis, correlations) for name, correlations in by_metric.items()}
    for before, after in axis.comparisons:
        later, earlier = conditions.line_name(after.name, RATED), conditions.line_name(before.name, RATED)
        changes = [
            conditions.change_in_words(
                conditions.differences_between(correlations, later, earlier)[kind][conditions.main_scope(correlations)]
            )
            for correlations in by_metric.values()
            for kind in conditions.KINDS
        ]
        stands = [
            f"{label} shown in {sum(verdict([estimate]) == 'shown' for estimate in estimates)}"
            for label in differences[next(iter(differences))][after.name]
            if label != _OVER_FIRST
            for estimates in [
                [
                    differences[name][after.name][label][kind][conditions.main_scope(correlations)]
                    for name, correlations in by_metric.items()
                    for kind in conditions.KINDS
                ]
            ]
        ]
        change_text = (
            f"from {before.name} to {after.name} {changes.count('a sure gain')} sure gains and "
            f"{changes.count('a sure loss')} sure losses; there"
            if before is not after
            else f"at {after.name}"
        )
        yield (
            f"{axis.title}, rated references, {count} comparisons (metrics and correlations): {change_text} "
            f"{', '.join(stands)}."
        )


def _in_words(axis: Axis, by_metric: Mapping[str, Correlations]) -> Iterator[str]:
    """Yield whether a later step is better than an earlier one, and better than its controls."""
    for name, correlations in by_metric.items():
        differences, scope = _differences(axis, correlations), conditions.main_scope(correlations)
        for before, after in axis.comparisons:
            parts = list[str]()
            later, earlier = conditions.line_name(after.name, RATED), conditions.line_name(before.name, RATED)
            for kind in conditions.KINDS:
                difference = conditions.differences_between(correlations, later, earlier)[kind][scope]
                change_text = (
                    f"{cell(difference)}, {conditions.change_in_words(difference)}, and there "
                    if before is not after
                    else ""
                )
                controls = "; ".join(_controls_in_words(differences[after.name], kind, scope))
                parts.append(f"{IN_WORDS[kind]} {change_text}{controls}")
            way = f"from {before.name} to {after.name}" if before is not after else f"at {after.name}"
            yield f"{axis.title}, {name}, {conditions.main_scope_in_words(correlations)}, {way}: {'. '.join(parts)}."


def _controls_in_words(differences: Mapping[str, conditions.Estimates], kind: str, scope: str) -> Iterator[str]:
    for label, estimates in differences.items():
        if label != _OVER_FIRST:
            yield f"{label} {cell(estimates[kind][scope])}, {verdict([estimates[kind][scope]])}"


def _section(
    axis: Axis, by_metric: Mapping[str, Correlations], counts_by_set: Mapping[str, Sequence[StepCounts]]
) -> Section:
    tables = [_counts_table(axis, counts_by_set)]
    for name, correlations in by_metric.items():
        tables.append(agreement_table(correlations, f"{axis.title}, {name}", baseline=conditions.GOLD_ALONE))
        title = f"{axis.title}, {name}: what each step has over its controls and over the first"
        tables.append(conditions.differences_table(title, correlations, _differences(axis, correlations)))
    return Section(
        title=axis.title,
        text=[axis.about, *_in_words(axis, by_metric)],
        tables=tables,
        plots=[
            _plot(axis, name, correlations, kind)
            for name, correlations in by_metric.items()
            for kind in conditions.KINDS
        ],
    )


def _counts_table(axis: Axis, counts_by_set: Mapping[str, Sequence[StepCounts]]) -> Table:
    rows = list[list[str]]()
    for place, step in enumerate(axis.steps):
        at_step = [counts[place] for counts in counts_by_set.values()]
        cells = [
            text
            for step_counts in at_step
            for text in (f"{step_counts.lacking:,} of {step_counts.items:,}", cell(step_counts.above))
        ]
        rows.append([step.name, *([f"{step.x:,.0f}"] if axis.x_label else []), *cells])
    columns = [f"{name}: {label}" for name in counts_by_set for label in ("items with fewer", "above 0 by the rater")]
    return Table(
        title=f"{axis.title}: what there is at each step",
        columns=["", *([axis.x_label] if axis.x_label else []), *columns],
        rows=rows,
        notes=("items with fewer references than asked for; shares as means over items, 95 % intervals",),
    )


def _plot(axis: Axis, name: str, correlations: Correlations, kind: str) -> Plot:
    file, scope = f"growth-{axis.name}-{conditions.NUMBERS[name]}-{kind}.png", conditions.main_scope(correlations)
    title = f"{axis.title}: {name}, {conditions.main_scope_in_words(correlations)}"
    caption = f"{title}: {IN_WORDS[kind]} with the mean rating, 95 % intervals"
    gold = correlations.estimate(conditions.GOLD_ALONE, kind, scope)
    if axis.x_label:
        series = {
            conditions.KIND_LABELS[reference_kind]: [
                correlations.estimate(conditions.line_name(step.name, reference_kind), kind, scope)
                for step in axis.steps
            ]
            for reference_kind in axis.kinds
        }
        series[conditions.GOLD_ALONE] = [gold] * len(axis.steps)
        places = [step.x for step in axis.steps]
        return curves(file, caption, places, series, axis.x_label, log_x=True, y_label=IN_WORDS[kind], title=title)
    shown = [(step.name, reference_kind) for step in axis.steps for reference_kind in axis.kinds]
    return bars(
        file,
        caption,
        [step for step, _ in shown],
        [
            correlations.estimate(conditions.line_name(step, reference_kind), kind, scope)
            for step, reference_kind in shown
        ],
        groups=[conditions.KIND_LABELS[reference_kind] for _, reference_kind in shown],
        title=title,
        x_label=IN_WORDS[kind],
        baseline=gold,
        baseline_name=conditions.GOLD_ALONE,
    )
