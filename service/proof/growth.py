"""`reproduce growth`: what more of a thing brings, and what each part of the metric is good for.

More log, more references, wider vectors, a larger rater: at every step beside random replies, as many and as long, and
beside the gold alone, so that what grows with the number of references alone is seen to do so. Then the metric with one
part changed at a time: `ablations`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from core.errors import BadInput, CheckFailed
from indexer.manifest import IndexManifest
from metrics.base import Metric
from rater.making import PRESETS
from rater.rate import Rater
from service.artefacts import stored
from service.pages import Table
from service.plotting import Plot
from service.proof.ablations import (
    Ablation,
    ablation_json,
    ablation_section,
    ablations_of,
    matter_by_both,
    measured_ablation,
)
from service.proof.chain import EVERYDAY, Chain, IndexOf
from service.proof.conditions import (
    GOLD_ALONE,
    IN_PLOTS,
    KINDS,
    NUMBERS,
    Differences,
    Figures,
    K,
    change,
    differences_json,
    differences_table,
    less,
    lines_on,
    mean_over_items,
    named,
    on_whole,
    pools_of,
    shares_above,
    tried_metrics,
    whole,
)
from service.proof.figures import Figure, Measured, measured
from service.proof.found import require_found, usable
from service.proof.plots import bars, curves
from service.proof.references import MATCHED, ONE, RATED, SHUFFLED, Pool, line_of
from service.proof.report import IN_WORDS, Report, Section, agreement_table, cell, verdict
from service.proof.sets import ProofSet

_LARGE: Final = "medium"
_EVERYTHING: Final = "the everyday logs and the large one"
_OVER_FIRST: Final = "rated less the first step"


@dataclass(frozen=True, kw_only=True)
class Plan:
    """The steps of every axis."""

    shares: tuple[float, ...] = (0.01, 0.1, 1.0)  # of the everyday logs
    with_large: bool = True  # and then the large log beside them
    ks: tuple[int, ...] = (1, 2, 5, 10, 15, 30, 50)
    widths: tuple[int, ...] = (50, 100, 200)
    presets: tuple[str, ...] = ("small", "base")


@dataclass(frozen=True, kw_only=True, eq=False)
class Step:
    """One place on an axis, and the references there."""

    name: str
    x: float
    pools: Mapping[str, Pool]  # by set
    k: int = K


@dataclass(frozen=True, kw_only=True, eq=False)
class Axis:
    """What grows, step by step; steps that could not be had are gaps with a reason."""

    name: str
    title: str
    about: str
    steps: Sequence[Step]
    gaps: Sequence[str] = ()
    x_label: str = ""  # none: the steps are names rather than numbers
    ends_at_home: int | None = None  # the last step before other domains come in; None: they never do
    kinds: tuple[str, ...] = (RATED, ONE, MATCHED)

    @property
    def compared(self) -> list[tuple[Step, Step]]:
        """From which step to which something may have grown: what other domains add is a question of its own."""
        first, last = self.steps[0], self.steps[-1]
        if self.ends_at_home is None:
            return [(first, last)]
        middle = self.steps[self.ends_at_home]
        return [(before, after) for before, after in ((first, middle), (middle, last)) if before is not after]


def growth(chain: Chain, sets: Sequence[ProofSet], plan: Plan | None = None) -> Report:
    """All axes with all metrics, then the ablations."""
    plan, settings = plan or Plan(), chain.settings
    kept, gaps = usable(chain, sets)
    single, main, rater = [one.with_first_gold() for one in kept], chain.main_index(), chain.rater()
    pools, metrics = pools_of(chain, single, main, rater), tried_metrics(chain)
    tried = [
        _by_log(chain, single, rater, plan),
        _by_k(pools, plan),
        _by_width(chain, single, rater, plan),
        _by_rater(chain, single, main, plan),
    ]
    axes = [axis for axis in tried if axis.steps]
    found = {
        axis.name: {name: _measured(chain, axis, name, metric, single) for name, metric in metrics.items()}
        for axis in axes
    }
    held = {axis.name: {one.name: held_at(axis, one, settings.draws, settings.seed) for one in single} for axis in axes}
    ablations = ablations_of(chain, single, pools, main, rater)
    changed = {one.name: measured_ablation(chain, one, single) for one in ablations}
    return Report(
        name="growth",
        title="What grows with the log, with references, vectors and raters; and what each part is good for",
        summary=[
            *(text for axis in axes for text in _over_metrics(axis, found[axis.name])),
            *(matter_by_both(one, changed[one.name]) for one in ablations),
        ],
        sections=[
            *(_section(axis, found[axis.name], held[axis.name]) for axis in axes),
            *(ablation_section(one, changed[one.name]) for one in ablations),
        ],
        notes=[
            *gaps,
            *(f"{one.name}: {note}" for one in kept for note in one.notes),
            *(gap for axis in tried for gap in axis.gaps),
            *_not_trained(plan),
        ],
        data={
            "axes": {axis.name: _axis_json(axis, found[axis.name], held[axis.name]) for axis in axes},
            "ablations": _ablations_json(ablations, changed),
        },
    )


def _ablations_json(ablations: Sequence[Ablation], changed: Mapping[str, Measured]) -> dict[str, Any]:
    return {one.name: ablation_json(one, changed[one.name]) for one in ablations}


# ── what grows ────────────────────────────────────────────────────────────────────────────────────────────────────


def _steps(
    chain: Chain, sets: Sequence[ProofSet], made: Mapping[str, Callable[[], Step]]
) -> tuple[list[Step], list[str]]:
    """The steps that can be had and find something for every set; of the others why not."""
    steps, gaps = list[Step](), list[str]()
    for name, make in made.items():
        try:
            step = make()
            for one in sets:
                require_found(one, step.pools[one.name])
        except (BadInput, CheckFailed) as error:
            gaps.append(f"{name} is missing: {chain.said_of(error)}")
        else:
            steps.append(step)
    return steps, gaps


def _by_log(chain: Chain, sets: Sequence[ProofSet], rater: Rater, plan: Plan) -> Axis:
    """Indexes of ever more of the logs; vectors and rater stay those of the whole everyday logs."""

    def step(name: str, wanted: IndexOf) -> Step:
        index = chain.index(wanted)
        pairs = sum(log.pairs for log in manifest_of(chain, index).logs)
        return Step(name=name, x=pairs, pools=pools_of(chain, sets, index, rater))

    wanted = dict[str, IndexOf]()
    for share in plan.shares:
        index = "proof" if share == 1 else f"proof-share-{share:g}".replace(".", "_")
        parts = tuple(chain.part(log, share) for log in EVERYDAY)
        wanted[f"{100 * share:g} % of the everyday logs"] = IndexOf(name=index, parts=parts)
    if plan.with_large:
        wanted[_EVERYTHING] = IndexOf(name="proof-large", parts=(*chain.everyday, chain.part(_LARGE)))
    made: dict[str, Callable[[], Step]] = {
        name: lambda name=name, one=one: step(name, one)  # type: ignore[misc]
        for name, one in wanted.items()
    }
    steps, gaps = _steps(chain, sets, made)
    at_home = [place for place, one in enumerate(steps) if one.name != _EVERYTHING]
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
        ends_at_home=at_home[-1] if at_home else None,
    )


def manifest_of(chain: Chain, index: str) -> IndexManifest:
    """What an index, by name@version, holds."""
    name, _, version = index.partition("@")
    return IndexManifest.read(stored(chain.home)["index"].folder(name, version))


def _by_k(pools: Mapping[str, Pool], plan: Plan) -> Axis:
    return Axis(
        name="k",
        title="Number of references",
        about="The first k of what is retrieved; the gold and the parrot are there as well.",
        steps=[Step(name=f"k = {k}", x=k, pools=pools, k=k) for k in plan.ks],
        x_label="references (k)",
    )


def _by_width(chain: Chain, sets: Sequence[ProofSet], rater: Rater, plan: Plan) -> Axis:
    """Indexes with vectors of other widths; what υ-greedy compares words with stays the same."""
    usual = manifest_of(chain, chain.main_index()).vectors.dimensions

    def step(width: int) -> Step:
        name = "proof" if width == usual else f"proof-{width}"
        vectors = chain.vectors(name=name, width=width)
        index = chain.index(IndexOf(name=name, parts=chain.everyday), vectors)
        return Step(name=f"{width} dimensions", x=width, pools=pools_of(chain, sets, index, rater))

    made: dict[str, Callable[[], Step]] = {
        f"{width} dimensions": lambda width=width: step(width)  # type: ignore[misc]
        for width in plan.widths
    }
    steps, gaps = _steps(chain, sets, made)
    return Axis(
        name="width",
        title="Dimensions of the word vectors",
        about="Only the vectors that references are looked for with change; those of υ-greedy stay the same.",
        steps=steps,
        gaps=gaps,
        x_label="dimensions",
    )


def _by_rater(chain: Chain, sets: Sequence[ProofSet], index: str, plan: Plan) -> Axis:
    """The same references, weighted by raters of other sizes."""

    def step(preset: str) -> Step:
        usual = preset == chain.settings.preset
        rater = chain.rater() if usual else chain.rater(name=f"proof-{preset}", preset=preset)
        return Step(name=f"rater {preset}", x=PRESETS[preset].hidden, pools=pools_of(chain, sets, index, rater))

    made: dict[str, Callable[[], Step]] = {
        f"rater {preset}": lambda preset=preset: step(preset)  # type: ignore[misc]
        for preset in plan.presets
    }
    steps, gaps = _steps(chain, sets, made)
    return Axis(
        name="rater",
        title="Size of the rater",
        about="The same references; claims for a rater stand against its own ratings dealt out anew within the item.",
        steps=steps,
        gaps=gaps,
        kinds=(RATED, SHUFFLED, ONE, MATCHED),
    )


def _not_trained(plan: Plan) -> Iterator[str]:
    for preset in PRESETS:
        if preset not in plan.presets:
            yield f"rater {preset} is missing: its training is too long for processors without a GPU"


# ── figures ───────────────────────────────────────────────────────────────────────────────────────────────────────


def _measured(chain: Chain, axis: Axis, name: str, metric: Metric, sets: Sequence[ProofSet]) -> Measured:
    chain.progress.stage(f"{axis.title}: scoring with {name}", None, "scorings")
    lines = [line_of(GOLD_ALONE, sets, metric)]
    for step in axis.steps:
        lines += lines_on(chain, step.name, sets, step.pools, metric, axis.kinds, k=step.k)
    settings = chain.settings
    return measured(sets, lines, kinds=KINDS, draws=settings.draws, seed=settings.seed)


@dataclass(frozen=True, kw_only=True)
class Held:
    """What a step has for a set: counts alone."""

    items: int
    lacking: int  # items with fewer than k references
    above: Figure  # the share of references that the rater puts above 0

    def as_json(self) -> dict[str, Any]:
        """For programs."""
        return {"items": self.items, "lacking": self.lacking, "above": self.above.as_json()}


def held_at(axis: Axis, one: ProofSet, draws: int, seed: int) -> list[Held]:
    """What there is for a set at each step."""
    found = list[Held]()
    for step in axis.steps:
        tops = [some[: step.k] for some in step.pools[one.name].retrieved]
        above = shares_above([[reference.rating or 0.0 for reference in top] for top in tops])
        lacking = sum(1 for top in tops if len(top) < step.k)
        found.append(Held(items=len(tops), lacking=lacking, above=mean_over_items(above, draws, seed)))
    return found


def _differences(axis: Axis, found: Measured) -> Differences:
    """What each step has over its controls, and over the first step."""
    by = dict[str, dict[str, Figures]]()
    for step in axis.steps:
        rated, matched = named(step.name, RATED), named(step.name, MATCHED)
        by[step.name] = {
            "rated less gold alone": less(found, rated, GOLD_ALONE),
            "rated less matched random": less(found, rated, matched),
            "one less matched random": less(found, named(step.name, ONE), matched),
        }
        if SHUFFLED in axis.kinds:
            by[step.name]["rated less shuffled"] = less(found, rated, named(step.name, SHUFFLED))
        by[step.name][_OVER_FIRST] = less(found, rated, named(axis.steps[0].name, RATED))
    return by


def _axis_json(axis: Axis, found: Mapping[str, Measured], held: Mapping[str, Sequence[Held]]) -> dict[str, Any]:
    return {
        "steps": [{"name": step.name, "x": step.x, "k": step.k} for step in axis.steps],
        "held": {name: [one.as_json() for one in by] for name, by in held.items()},
        "agreement": {name: one.as_json(KINDS) for name, one in found.items()},
        "differences": {name: differences_json(_differences(axis, one)) for name, one in found.items()},
    }


# ── in words, tables and plots ────────────────────────────────────────────────────────────────────────────────────


def _over_metrics(axis: Axis, found: Mapping[str, Measured]) -> Iterator[str]:
    """In how many of all comparisons something grows, and stands beside its controls."""
    count, by = len(found) * len(KINDS), {name: _differences(axis, one) for name, one in found.items()}
    for before, after in axis.compared:
        grown = [
            change(less(one, named(after.name, RATED), named(before.name, RATED))[kind][whole(one)])
            for one in found.values()
            for kind in KINDS
        ]
        stands = [
            f"{label} shown in {sum(verdict([one]) == 'shown' for one in figures)}"
            for label in by[next(iter(by))][after.name]
            if label != _OVER_FIRST
            for figures in [
                [by[name][after.name][label][kind][whole(one)] for name, one in found.items() for kind in KINDS]
            ]
        ]
        told = (
            f"from {before.name} to {after.name} {grown.count('a sure gain')} sure gains and "
            f"{grown.count('a sure loss')} sure losses; there"
            if before is not after
            else f"at {after.name}"
        )
        yield (
            f"{axis.title}, rated references, {count} comparisons (metrics and correlations): {told} "
            f"{', '.join(stands)}."
        )


def _in_words(axis: Axis, found: Mapping[str, Measured]) -> Iterator[str]:
    """Whether a later step is better than an earlier one, and better than its controls."""
    for name, one in found.items():
        by = _differences(axis, one)
        for before, after in axis.compared:
            said = list[str]()
            for kind in KINDS:
                grown = less(one, named(after.name, RATED), named(before.name, RATED))[kind][whole(one)]
                told = f"{cell(grown)}, {change(grown)}, and there " if before is not after else ""
                said.append(f"{IN_WORDS[kind]} {told}{'; '.join(_controls_in_words(by[after.name], kind, whole(one)))}")
            way = f"from {before.name} to {after.name}" if before is not after else f"at {after.name}"
            yield f"{axis.title}, {name}, {on_whole(one)}, {way}: {'. '.join(said)}."


def _controls_in_words(own: Mapping[str, Figures], kind: str, where: str) -> Iterator[str]:
    for label, figures in own.items():
        if label != _OVER_FIRST:
            yield f"{label} {cell(figures[kind][where])}, {verdict([figures[kind][where]])}"


def _section(axis: Axis, found: Mapping[str, Measured], held: Mapping[str, Sequence[Held]]) -> Section:
    tables = [_held_table(axis, held)]
    for name, one in found.items():
        tables.append(agreement_table(one, f"{axis.title}, {name}", baseline=GOLD_ALONE))
        title = f"{axis.title}, {name}: what each step has over its controls and over the first"
        tables.append(differences_table(title, one, _differences(axis, one)))
    return Section(
        title=axis.title,
        text=[axis.about, *_in_words(axis, found)],
        tables=tables,
        plots=[_plot(axis, name, one, kind) for name, one in found.items() for kind in KINDS],
    )


def _held_table(axis: Axis, held: Mapping[str, Sequence[Held]]) -> Table:
    rows = list[list[str]]()
    for place, step in enumerate(axis.steps):
        at_step = [by[place] for by in held.values()]
        cells = [text for one in at_step for text in (f"{one.lacking:,} of {one.items:,}", cell(one.above))]
        rows.append([step.name, *([f"{step.x:,.0f}"] if axis.x_label else []), *cells])
    columns = [f"{name}: {what}" for name in held for what in ("items with fewer", "above 0 by the rater")]
    return Table(
        title=f"{axis.title}: what there is at each step",
        columns=["", *([axis.x_label] if axis.x_label else []), *columns],
        rows=rows,
        notes=("items with fewer references than asked for; shares as means over items, 95 % intervals",),
    )


def _plot(axis: Axis, name: str, found: Measured, kind: str) -> Plot:
    file, where = f"growth-{axis.name}-{NUMBERS[name]}-{kind}.png", whole(found)
    title = f"{axis.title}: {name}, {on_whole(found)}"
    caption = f"{title}: {IN_WORDS[kind]} with the mean rating, 95 % intervals"
    gold = found.figure(GOLD_ALONE, kind, where)
    if axis.x_label:
        series = {
            IN_PLOTS[one]: [found.figure(named(step.name, one), kind, where) for step in axis.steps]
            for one in axis.kinds
        }
        series[GOLD_ALONE] = [gold] * len(axis.steps)
        places = [step.x for step in axis.steps]
        return curves(file, caption, places, series, axis.x_label, log_x=True, y_label=IN_WORDS[kind], title=title)
    shown = [(step.name, one) for step in axis.steps for one in axis.kinds]
    return bars(
        file,
        caption,
        [step for step, _ in shown],
        [found.figure(named(step, one), kind, where) for step, one in shown],
        groups=[IN_PLOTS[one] for _, one in shown],
        title=title,
        x_label=IN_WORDS[kind],
        beside=gold,
        beside_name=GOLD_ALONE,
    )
