"""The metric with one part changed at a time: against the default, and against its own controls at the same settings.

Each question has its own default, rows and draws: where a setting has no score for some rows, these are left out for
all settings of that question, and for no other.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

from metrics.base import Metric
from metrics.specification import build
from rater.rate import COMBINES, Candidate, Rater, ToRate
from service.plotting import Plot
from service.proof.chain import Chain
from service.proof.conditions import (
    GOLD_ALONE,
    IN_PLOTS,
    KINDS,
    Differences,
    K,
    change,
    differences_json,
    differences_table,
    less,
    lines_on,
    named,
    on_whole,
    pools_of,
    soft_match,
    whole,
)
from service.proof.figures import Figure, Line, Measured, measured
from service.proof.plots import bars
from service.proof.references import MATCHED, RATED, SHUFFLED, Pool, line_of
from service.proof.report import IN_WORDS, Section, agreement_table, cell
from service.proof.sets import ProofSet

SMOOTHINGS: Final = ("none", "floor", "add-k", "exp", "epsilon")
PENALTIES: Final = ("closest", "closest-positive", "average", "gold", "none")
AGGREGATES: Final = ("weighted-best", "best", "mean-best-3", "weighted-mean")
VARIANTS: Final = ("galley-fork", "tsuta20", "sacrebleu-raw")  # beside the default, galley15
DEFAULT: Final = "default"
_TSUTA_K: Final = 13  # "-size 15" of the released code counts lines: the parrot, the gold, and these
_OVER_DEFAULT: Final = "less the default"


@dataclass(frozen=True, kw_only=True, eq=False)
class Setting:
    """The metric with a part changed; `sets` where its items have other golds than usual."""

    name: str
    metric: Metric
    pools: Mapping[str, Pool]
    k: int = K
    parrot: bool = True
    sets: Sequence[ProofSet] | None = None
    has_gold: bool = True


@dataclass(frozen=True, kw_only=True, eq=False)
class Ablation:
    """Settings that answer one question, the default first; they share rows and draws."""

    name: str
    title: str
    text: str
    settings: Sequence[Setting]
    controls: tuple[str, ...] = (MATCHED,)


def ablations_of(
    chain: Chain, sets: Sequence[ProofSet], pools: Mapping[str, Pool], index: str, rater: Rater
) -> list[Ablation]:
    """All questions; `pools` are the references of the default."""
    usual = Setting(name=DEFAULT, metric=build("upsilon-bleu"), pools=pools)
    combined = {one: pools_of(chain, sets, index, rater, combine=one) for one in COMBINES if one != "first"}
    return [
        _of_references(usual, sets, rater),
        _of_aggregates(chain, pools),
        _of_combines(usual, combined),
        _of_smoothing(usual),
        _of_variants(usual, sets, rater),
    ]


# ── questions ─────────────────────────────────────────────────────────────────────────────────────────────────────


def _of_references(usual: Setting, sets: Sequence[ProofSet], rater: Rater) -> Ablation:
    return Ablation(
        name="references",
        title="The parrot and the gold among the references",
        text=(
            "The default has the utterance itself as a rated reference, and the gold at weight 1. Without the gold, "
            "items of which no reference is rated above 0 have no score, and are left out for all lines; the gold "
            "alone is then that of the default."
        ),
        settings=[
            usual,
            replace(usual, name="without the parrot", parrot=False),
            replace(usual, name="the gold rated as well", sets=[with_rated_gold(one, rater) for one in sets]),
            replace(usual, name="without the gold", sets=[without_gold(one) for one in sets], has_gold=False),
        ],
    )


def _of_aggregates(chain: Chain, pools: Mapping[str, Pool]) -> Ablation:
    """υ-greedy: how scores against references become one, and whether the gold is kept in the sum."""
    settings = [
        Setting(
            name=aggregate + (", keep-gold" if keep == "yes" else ""),
            metric=soft_match(chain, **{"agg": aggregate, "keep-gold": keep}),
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


def _of_combines(usual: Setting, combined: Mapping[str, Mapping[str, Pool]]) -> Ablation:
    return Ablation(
        name="combine",
        title="How the rater's two answers become a rating",
        text="The default is first; claims for a way stand against its own ratings dealt out anew within the item.",
        settings=[usual, *(replace(usual, name=name, pools=pools) for name, pools in combined.items())],
        controls=(MATCHED, SHUFFLED),
    )


def _of_smoothing(usual: Setting) -> Ablation:
    return Ablation(
        name="smoothing-penalty",
        title="Smoothing and length penalty",
        text="The default is add-k with the closest length. Controls have the same smoothing and penalty.",
        settings=[
            usual,
            *(
                replace(usual, name=f"{smooth}, {penalty}", metric=build(f"upsilon-bleu:smooth={smooth},bp={penalty}"))
                for smooth in SMOOTHINGS
                for penalty in PENALTIES
                if (smooth, penalty) != ("add-k", "closest")
            ),
        ],
    )


def _of_variants(usual: Setting, sets: Sequence[ProofSet], rater: Rater) -> Ablation:
    """Readings of the formula; the preset of the released code last, which changes several parts at once."""
    return Ablation(
        name="variants",
        title="Readings of the formula",
        text=(
            "The default is galley15. tsuta20 has neither smoothing nor effective order, so galley15 without them "
            f"stands beside it. The preset has {_TSUTA_K} retrieved references, and the gold is rated as well; its "
            "rater is ours. Controls have weights of one throughout."
        ),
        settings=[
            usual,
            replace(usual, name="galley15, no smoothing", metric=build("upsilon-bleu:smooth=none,eff=no")),
            *(replace(usual, name=one, metric=build(f"upsilon-bleu:variant={one}")) for one in VARIANTS),
            replace(
                usual,
                name="preset tsuta20",
                metric=build("upsilon-bleu:variant=tsuta20"),
                k=_TSUTA_K,
                sets=[with_rated_gold(one, rater) for one in sets],
            ),
        ],
    )


def without_gold(one: ProofSet) -> ProofSet:
    """The same rows; nothing of what people wrote is a reference."""
    items = tuple(replace(item, pair=replace(item.pair, references=())) for item in one.items)
    return replace(one, items=items)


def with_rated_gold(one: ProofSet, rater: Rater) -> ProofSet:
    """The same, the first gold of each item worth what the rater says of it; 1 without an utterance to rate it by."""
    asked, places = list[ToRate](), list[int]()
    for place, item in enumerate(one.items):
        gold, utterance = item.pair.gold, item.pair.utterance
        if gold is not None and gold.text.strip() and utterance is not None and utterance.strip():
            asked.append(ToRate(utterance=utterance, golds=(gold.text,), candidates=(Candidate(text=gold.text),)))
            places.append(place)
    items = list(one.items)
    for place, [rating] in zip(places, rater.rate(asked), strict=True):
        pair = items[place].pair
        weighed = (
            replace(reference, weight=rating, rating=rating) if reference is pair.gold else reference
            for reference in pair.references
        )
        items[place] = replace(items[place], pair=replace(pair, references=tuple(weighed)))
    return replace(one, items=tuple(items))


# ── figures ───────────────────────────────────────────────────────────────────────────────────────────────────────


def measured_ablation(chain: Chain, ablation: Ablation, sets: Sequence[ProofSet]) -> Measured:
    """Each setting under its own name, and its controls at the same settings."""
    chain.progress.stage(f"{ablation.title}: scoring", None, "scorings")
    lines = [line for one in ablation.settings for line in _lines(chain, one, sets, ablation.controls)]
    settings = chain.settings
    return measured(sets, lines, kinds=KINDS, draws=settings.draws, seed=settings.seed)


def _lines(chain: Chain, one: Setting, sets: Sequence[ProofSet], controls: Sequence[str]) -> Iterator[Line]:
    """Controls have a gold of weight 1, unless the setting has none at all."""
    own = one.sets or sets
    [rated] = lines_on(chain, one.name, own, one.pools, one.metric, [RATED], k=one.k, parrot=one.parrot)
    yield replace(rated, name=one.name)
    plain = sets if one.has_gold else own
    yield from lines_on(chain, one.name, plain, one.pools, one.metric, controls, k=one.k, parrot=one.parrot)
    if one.has_gold:
        yield line_of(named(one.name, GOLD_ALONE), sets, one.metric)


def _differences(ablation: Ablation, found: Measured) -> Differences:
    """What each setting has over its controls, and over the default."""
    first = ablation.settings[0].name
    return {
        one.name: {
            "less gold alone": less(found, one.name, named(one.name if one.has_gold else first, GOLD_ALONE)),
            **{f"less {control}": less(found, one.name, named(one.name, control)) for control in ablation.controls},
            _OVER_DEFAULT: less(found, one.name, first),
        }
        for one in ablation.settings
    }


def ablation_json(ablation: Ablation, found: Measured) -> dict[str, Any]:
    """Every figure, for programs."""
    return {
        "settings": {one.name: str(one.metric.name) for one in ablation.settings},
        "agreement": found.as_json(KINDS),
        "differences": differences_json(_differences(ablation, found)),
    }


# ── in words, tables and plots ────────────────────────────────────────────────────────────────────────────────────


def which_matter(ablation: Ablation, found: Measured) -> Iterator[str]:
    """Which settings are surely better or worse than the default."""
    for kind in KINDS:
        told = _changes(ablation, found, kind)
        better = [f"{name} {cell(one)}" for name, one in told.items() if change(one) == "a sure gain"]
        worse = [f"{name} {cell(one)}" for name, one in told.items() if change(one) == "a sure loss"]
        yield (
            f"{ablation.title}, {IN_WORDS[kind]}, {on_whole(found)}, {len(told)} settings: surely better than the "
            f"default {_counted(better)}; surely worse {_counted(worse)}."
        )


def matter_by_both(ablation: Ablation, found: Measured) -> str:
    """Which do so by both correlations."""
    by_kind = [_changes(ablation, found, kind) for kind in KINDS]
    names = [one.name for one in ablation.settings[1:]]
    better, worse = (
        [name for name in names if all(change(told[name]) == said for told in by_kind)]
        for said in ("a sure gain", "a sure loss")
    )
    kinds = " and ".join(IN_WORDS[kind] for kind in KINDS)
    return (
        f"{ablation.title}, {on_whole(found)}, {len(names)} settings: surely better than the default by {kinds} "
        f"{_counted(better)}; surely worse {_counted(worse)}."
    )


def _changes(ablation: Ablation, found: Measured, kind: str) -> dict[str, Figure]:
    """What each setting has over the default."""
    by = _differences(ablation, found)
    return {one.name: by[one.name][_OVER_DEFAULT][kind][whole(found)] for one in ablation.settings[1:]}


def _counted(names: Sequence[str]) -> str:
    return f"{len(names)} ({'; '.join(names)})" if names else "none"


def ablation_section(ablation: Ablation, found: Measured) -> Section:
    """Its tables and plots."""
    names = [one.name for one in ablation.settings]
    title = f"{ablation.title}: beside the controls at the same settings"
    return Section(
        title=ablation.title,
        text=[ablation.text, *which_matter(ablation, found)],
        tables=[
            agreement_table(found, ablation.title, baseline=names[0], lines=names),
            differences_table(title, found, _differences(ablation, found)),
        ],
        plots=[_plot(ablation, found, kind) for kind in KINDS],
    )


def _plot(ablation: Ablation, found: Measured, kind: str) -> Plot:
    shown = [(one.name, control) for one in ablation.settings for control in ("", *ablation.controls)]
    where = whole(found)
    return bars(
        f"ablation-{ablation.name}-{kind}.png",
        f"{ablation.title}: {IN_WORDS[kind]} with the mean rating {on_whole(found)}, 95 % intervals",
        [name for name, _ in shown],
        [found.figure(named(name, control) if control else name, kind, where) for name, control in shown],
        groups=[IN_PLOTS[control or RATED] for _, control in shown],
        title=f"{ablation.title}, {on_whole(found)}",
        x_label=IN_WORDS[kind],
        beside=found.figure(named(ablation.settings[0].name, GOLD_ALONE), kind, where),
        beside_name="gold alone, default",
    )
