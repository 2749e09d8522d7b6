"""Ablations: the metric with one part changed at a time, beside the default and beside its own controls.

Each question has its own default, rows and draws. Where a setting has no score for some rows, these rows are left out
for all settings of that question, and for no other question.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final

from refaug.evaluation.reports.plotting import Plot
from refaug.evaluation.reproduction.experiments import conditions
from refaug.evaluation.reproduction.figures.correlations import Correlations, IntervalEstimate, Line, correlate
from refaug.evaluation.reproduction.material import published_method
from refaug.evaluation.reproduction.material.chain import Chain
from refaug.evaluation.reproduction.material.rated_sets import ProofSet
from refaug.evaluation.reproduction.material.reference_kinds import MATCHED, RATED, SHUFFLED, Pool, line_of
from refaug.evaluation.reproduction.report.plots import bars
from refaug.evaluation.reproduction.report.report import IN_WORDS, Section, agreement_table, cell
from refaug.metrics.base import Metric
from refaug.metrics.specification import build
from refaug.rater.rating import Rater
from refaug.rater.rating_settings import COMBINES

SMOOTHINGS: Final = ("none", "floor", "add-k", "exp", "epsilon")
PENALTIES: Final = ("closest", "closest-positive", "average", "gold", "none")
AGGREGATES: Final = ("weighted-best", "best", "mean-best-3", "weighted-mean")
VARIANTS: Final = ("galley-fork", "tsuta20", "sacrebleu-raw")  # beside the default, galley15
DEFAULT: Final = "default"
_OVER_DEFAULT: Final = "less the default"


@dataclass(frozen=True, kw_only=True, eq=False)
class AblationSetting:
    """The metric with one part changed; `sets` is given where its items have other golds than usual."""

    name: str
    metric: Metric
    pools: Mapping[str, Pool]
    k: int = conditions.K
    parrot: bool = False
    sets: Sequence[ProofSet] | None = None
    has_gold: bool = True


@dataclass(frozen=True, kw_only=True, eq=False)
class Ablation:
    """The settings that answer one question, the default first; they share rows and draws."""

    name: str
    title: str
    text: str
    settings: Sequence[AblationSetting]
    controls: tuple[str, ...] = (MATCHED,)


def ablations_of(
    chain: Chain, sets: Sequence[ProofSet], pools: Mapping[str, Pool], index: str, rater: Rater
) -> list[Ablation]:
    """Return all questions; `pools` are the references of the default."""
    usual = AblationSetting(name=DEFAULT, metric=build("upsilon-bleu"), pools=pools)
    combined = {
        combine: conditions.pools_of(chain, sets, index, rater, combine=combine)
        for combine in COMBINES
        if combine != "first"
    }
    return [
        _reference_ablation(usual, sets, rater),
        _aggregate_ablation(chain, pools),
        _combine_ablation(usual, combined),
        _smoothing_ablation(usual),
        _variant_ablation(usual, sets, rater),
    ]


# ── questions ─────────────────────────────────────────────────────────────────────────────────────────────────────────


def _reference_ablation(usual: AblationSetting, sets: Sequence[ProofSet], rater: Rater) -> Ablation:
    return Ablation(
        name="references",
        title="The parrot and the gold among the references",
        text=(
            "The default has the gold at weight 1, and the utterance is no reference. Without the gold, items of which "
            "no reference is rated above 0 have no score, and are left out for all lines; the gold alone is then that "
            "of the default."
        ),
        settings=[
            usual,
            replace(usual, name="with the parrot, rated", parrot=True),
            replace(
                usual,
                name="the gold rated as well",
                sets=[published_method.with_rated_gold(rated_set, rater) for rated_set in sets],
            ),
            replace(
                usual, name="without the gold", sets=[without_gold(rated_set) for rated_set in sets], has_gold=False
            ),
        ],
    )


def _aggregate_ablation(chain: Chain, pools: Mapping[str, Pool]) -> Ablation:
    """Vary how υ-greedy makes one score out of many, and whether the gold is kept in the sum."""
    settings = [
        AblationSetting(
            name=aggregate + (", keep-gold" if keep == "yes" else ""),
            metric=conditions.build_soft_match(chain, **{"agg": aggregate, "keep-gold": keep}),
            pools=pools,
        )
        for aggregate in AGGREGATES
        for keep in ("no", "yes")
    ]
    return Ablation(
        name="aggregate",
        title="υ-greedy: one score out of many, and the gold kept in the sum",
        text="The default takes the best match, each weighted; keep-gold averages that with the match of the gold.",
        settings=[replace(settings[0], name=DEFAULT), *settings[1:]],
    )


def _combine_ablation(usual: AblationSetting, combined: Mapping[str, Mapping[str, Pool]]) -> Ablation:
    return Ablation(
        name="combine",
        title="How the rater's two answers become a rating",
        text="The default is first; claims for a way stand against its own ratings dealt out anew within the item.",
        settings=[usual, *(replace(usual, name=name, pools=pools) for name, pools in combined.items())],
        controls=(MATCHED, SHUFFLED),
    )


def _smoothing_ablation(usual: AblationSetting) -> Ablation:
    return Ablation(
        name="smoothing-penalty",
        title="Smoothing and length penalty",
        text="The default is exp with the closest length. Controls have the same smoothing and penalty.",
        settings=[
            usual,
            *(
                replace(usual, name=f"{smooth}, {penalty}", metric=build(f"upsilon-bleu:smooth={smooth},bp={penalty}"))
                for smooth in SMOOTHINGS
                for penalty in PENALTIES
                if (smooth, penalty) != ("exp", "closest")
            ),
        ],
    )


def _variant_ablation(usual: AblationSetting, sets: Sequence[ProofSet], rater: Rater) -> Ablation:
    """Vary the reading of the formula; the last setting, the preset of the released code, changes several parts."""
    return Ablation(
        name="variants",
        title="Readings of the formula",
        text=(
            "The default is galley15. tsuta20 has neither smoothing nor effective order, so galley15 without them "
            f"stands beside it. The preset has {published_method.PUBLISHED_K} retrieved references, and gold "
            "and utterance are rated as "
            "well; its rater and index are ours. Controls have weights of one throughout."
        ),
        settings=[
            usual,
            replace(usual, name="galley15, no smoothing", metric=build("upsilon-bleu:smooth=none,eff=no")),
            *(replace(usual, name=variant, metric=build(f"upsilon-bleu:variant={variant}")) for variant in VARIANTS),
            replace(
                usual,
                name="preset tsuta20",
                metric=build(published_method.PUBLISHED_METRIC),
                k=published_method.PUBLISHED_K,
                parrot=True,
                sets=[published_method.with_rated_gold(rated_set, rater) for rated_set in sets],
            ),
        ],
    )


def without_gold(rated_set: ProofSet) -> ProofSet:
    """Return the set with the same rows and without any reference written by people."""
    items = tuple(replace(test_item, references=()) for test_item in rated_set.items)
    return replace(rated_set, items=items)


# ── figures ───────────────────────────────────────────────────────────────────────────────────────────────────────────


def correlate_ablation(chain: Chain, ablation: Ablation, sets: Sequence[ProofSet]) -> Correlations:
    """Correlate each setting under its name, and its controls at the same settings."""
    chain.progress.stage(f"{ablation.title}: scoring", None, "scorings")
    lines = [line for setting in ablation.settings for line in _lines(chain, setting, sets, ablation.controls)]
    settings = chain.settings
    return correlate(sets, lines, kinds=conditions.KINDS, draws=settings.draws, seed=settings.seed)


def _lines(chain: Chain, setting: AblationSetting, sets: Sequence[ProofSet], controls: Sequence[str]) -> Iterator[Line]:
    """Yield the lines of a setting.

    Controls have a gold of weight 1, unless the setting has no gold at all.
    """
    own_sets = setting.sets or sets
    [rated] = conditions.lines_on(
        chain, setting.name, own_sets, setting.pools, setting.metric, [RATED], k=setting.k, parrot=setting.parrot
    )
    yield replace(rated, name=setting.name)
    plain = sets if setting.has_gold else own_sets
    yield from conditions.lines_on(
        chain, setting.name, plain, setting.pools, setting.metric, controls, k=setting.k, parrot=setting.parrot
    )
    if setting.has_gold:
        yield line_of(conditions.line_name(setting.name, conditions.GOLD_ALONE), sets, setting.metric)


def _differences(ablation: Ablation, correlations: Correlations) -> conditions.Differences:
    """Return the difference of each setting to its controls and to the default."""
    first = ablation.settings[0].name
    return {
        setting.name: {
            "less gold alone": conditions.differences_between(
                correlations,
                setting.name,
                conditions.line_name(setting.name if setting.has_gold else first, conditions.GOLD_ALONE),
            ),
            **{
                f"less {control}": conditions.differences_between(
                    correlations, setting.name, conditions.line_name(setting.name, control)
                )
                for control in ablation.controls
            },
            _OVER_DEFAULT: conditions.differences_between(correlations, setting.name, first),
        }
        for setting in ablation.settings
    }


def ablation_json(ablation: Ablation, correlations: Correlations) -> dict[str, object]:
    """Return every figure as JSON."""
    return {
        "settings": {setting.name: str(setting.metric.name) for setting in ablation.settings},
        "agreement": correlations.as_json(conditions.KINDS),
        "differences": conditions.differences_json(_differences(ablation, correlations)),
    }


# ── in words, tables and plots ────────────────────────────────────────────────────────────────────────────────────────


def changes_in_words(ablation: Ablation, correlations: Correlations) -> Iterator[str]:
    """Yield a sentence for each correlation: which settings are surely better or worse than the default."""
    for kind in conditions.KINDS:
        changes = _changes_from_default(ablation, correlations, kind)
        better = [
            f"{name} {cell(estimate)}"
            for name, estimate in changes.items()
            if conditions.change_in_words(estimate) == "a sure gain"
        ]
        worse = [
            f"{name} {cell(estimate)}"
            for name, estimate in changes.items()
            if conditions.change_in_words(estimate) == "a sure loss"
        ]
        yield (
            f"{ablation.title}, {IN_WORDS[kind]}, {conditions.main_scope_in_words(correlations)}, "
            f"{len(changes)} settings: "
            f"surely better than the default {_count_and_names(better)}; surely worse {_count_and_names(worse)}."
        )


def changes_by_both_kinds(ablation: Ablation, correlations: Correlations) -> str:
    """Say which settings are surely better or worse than the default by both correlations."""
    by_kind = [_changes_from_default(ablation, correlations, kind) for kind in conditions.KINDS]
    names = [setting.name for setting in ablation.settings[1:]]
    better, worse = (
        [name for name in names if all(conditions.change_in_words(changes[name]) == outcome for changes in by_kind)]
        for outcome in ("a sure gain", "a sure loss")
    )
    kinds = " and ".join(IN_WORDS[kind] for kind in conditions.KINDS)
    return (
        f"{ablation.title}, {conditions.main_scope_in_words(correlations)}, {len(names)} settings: surely "
        "better than the default "
        f"by {kinds} {_count_and_names(better)}; surely worse {_count_and_names(worse)}."
    )


def _changes_from_default(ablation: Ablation, correlations: Correlations, kind: str) -> dict[str, IntervalEstimate]:
    """Return the difference of each setting to the default."""
    differences = _differences(ablation, correlations)
    return {
        setting.name: differences[setting.name][_OVER_DEFAULT][kind][conditions.main_scope(correlations)]
        for setting in ablation.settings[1:]
    }


def _count_and_names(names: Sequence[str]) -> str:
    return f"{len(names)} ({'; '.join(names)})" if names else "none"


def ablation_section(ablation: Ablation, correlations: Correlations) -> Section:
    """Return the section of an ablation: its text, tables and plots."""
    names = [setting.name for setting in ablation.settings]
    title = f"{ablation.title}: beside the controls at the same settings"
    return Section(
        title=ablation.title,
        text=[ablation.text, *changes_in_words(ablation, correlations)],
        tables=[
            agreement_table(correlations, ablation.title, baseline=names[0], lines=names),
            conditions.differences_table(title, correlations, _differences(ablation, correlations)),
        ],
        plots=[_plot(ablation, correlations, kind) for kind in conditions.KINDS],
    )


def _plot(ablation: Ablation, correlations: Correlations, kind: str) -> Plot:
    shown = [(setting.name, control) for setting in ablation.settings for control in ("", *ablation.controls)]
    scope = conditions.main_scope(correlations)
    return bars(
        f"ablation-{ablation.name}-{kind}.png",
        f"{ablation.title}: {IN_WORDS[kind]} with the mean rating "
        f"{conditions.main_scope_in_words(correlations)}, 95 % intervals",
        [name for name, _ in shown],
        [
            correlations.estimate(conditions.line_name(name, control) if control else name, kind, scope)
            for name, control in shown
        ],
        groups=[conditions.KIND_LABELS[control or RATED] for _, control in shown],
        title=f"{ablation.title}, {conditions.main_scope_in_words(correlations)}",
        x_label=IN_WORDS[kind],
        baseline=correlations.estimate(
            conditions.line_name(ablation.settings[0].name, conditions.GOLD_ALONE), kind, scope
        ),
        baseline_name="gold alone, default",
    )
