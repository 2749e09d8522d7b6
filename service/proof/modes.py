"""`reproduce retrieval-modes`: which way of looking for references serves metrics best, each beside its own controls.

The four modes that the υBLEU paper compares, and for vectors how words become a sentence. Every way has as many
references as every other, and its random replies are as long as what it found itself: a way that likes short replies
has controls of short replies.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any, Final

import numpy as np

from indexer.queries import Mode
from metrics.correlation import PARTIAL
from service.plotting import Plot
from service.proof.chain import Chain, IndexOf
from service.proof.conditions import (
    ALL,
    GOLD_ALONE,
    IN_PLOTS,
    KINDS,
    NUMBERS,
    Differences,
    K,
    differences_json,
    differences_table,
    is_sure,
    less,
    lines_on,
    named,
    on_whole,
    pools_of,
    tried_metrics,
    whole,
)
from service.proof.figures import Figure, Line, Measured, measured
from service.proof.found import usable
from service.proof.looks import lacking, look, looks_section, seconds_of
from service.proof.plots import bars
from service.proof.references import MATCHED, ONE, RATED, SHUFFLED, line_of
from service.proof.report import IN_WORDS, Report, Section, about_table, agreement_table, cell, verdict
from service.proof.sets import ProofSet

_CLAIMS: Final = {  # what a difference is called, and of what and what it is one
    "rated less gold alone": (RATED, GOLD_ALONE),
    "one less gold alone": (ONE, GOLD_ALONE),
    "rated less matched random": (RATED, MATCHED),
    "one less matched random": (ONE, MATCHED),
    "rated less shuffled": (RATED, SHUFFLED),
}


@dataclass(frozen=True, kw_only=True)
class Way:
    """A mode, and for vectors how those of words become that of a sentence."""

    name: str
    mode: Mode
    weighting: str = "sif"
    norm_words: bool = True

    @property
    def about(self) -> str:
        """In words."""
        if self.mode.startswith("bm25"):
            return f"{K} references by {self.mode}"
        scaled = "scaled to one length" if self.norm_words else "as long as they are"
        return f"{K} references by {self.mode}; a sentence is the {self.weighting} of word vectors {scaled}"

    def index(self, chain: Chain) -> str:
        """The index it needs: of the everyday logs."""
        if self.weighting == "sif" and self.norm_words:
            return chain.main_index()
        name = f"proof-{self.weighting}{'' if self.norm_words else '-raw'}"
        wanted = IndexOf(name=name, parts=chain.everyday, weighting=self.weighting, norm_words=self.norm_words)
        return chain.index(wanted)


MODES: Final = (
    Way(name="embedding-utterance", mode="embedding-utterance"),
    Way(name="embedding-dialog", mode="embedding-dialog"),
    Way(name="bm25-utterance", mode="bm25-utterance"),
    Way(name="bm25-dialog", mode="bm25-dialog"),
)
DEFAULT: Final = MODES[0]
WAYS: Final = (
    *MODES,
    Way(name="embedding-utterance, plain mean", mode="embedding-utterance", weighting="mean"),
    Way(name="embedding-dialog, plain mean", mode="embedding-dialog", weighting="mean"),
    Way(name="embedding-utterance, sif, words not scaled", mode="embedding-utterance", norm_words=False),
    Way(
        name="embedding-utterance, plain mean, words not scaled",
        mode="embedding-utterance",
        weighting="mean",
        norm_words=False,
    ),
)


def retrieval_modes(chain: Chain, sets: Sequence[ProofSet], ways: Sequence[Way] = WAYS) -> Report:
    """All ways, the default among them, with all metrics; what each finds, and what it costs."""
    kept, gaps = usable(chain, sets)
    single, settings, rater = [one.with_first_gold() for one in kept], chain.settings, chain.rater()
    indexes = {way.name: way.index(chain) for way in ways}
    pools = {way.name: pools_of(chain, single, indexes[way.name], rater, way.mode) for way in ways}
    found, lines = dict[str, Measured](), list[Line]()
    for name, metric in tried_metrics(chain).items():
        chain.progress.stage(f"scoring with {name}", None, "scorings")
        lines = [line_of(GOLD_ALONE, single, metric, about="the first gold of each item, and nothing else")]
        for way in ways:
            lines += lines_on(chain, way.name, single, pools[way.name], metric, about=way.about)
        found[name] = measured(single, lines, kinds=KINDS, draws=settings.draws, seed=settings.seed)
    looks = {
        one.name: {
            way.name: look(
                chain,
                one,
                pools[way.name][one.name],
                pools[DEFAULT.name][one.name],
                rater,
                seconds_of(chain, indexes[way.name], way.mode, one.items),
            )
            for way in ways
        }
        for one in single
    }
    return Report(
        name="retrieval-modes",
        title="Ways to look for references",
        summary=[
            best_over_all(found),
            best_over_all(found, ONE),
            *_claims_over_all(found, ways),
            *_vectors_in_words(found, ways),
        ],
        sections=[
            *(_section(name, one, ways) for name, one in found.items()),
            looks_section(looks),
            Section(
                title="What was scored",
                text=["The dialog modes look at the gold as well: they find replies like it to utterances like that."],
                tables=[about_table(lines)],
            ),
        ],
        notes=[*gaps, *(f"{one.name}: {note}" for one in kept for note in one.notes), *lacking(looks)],
        data={
            "k": K,
            "ways": [asdict(way) for way in ways],
            "agreement": {name: one.as_json(KINDS) for name, one in found.items()},
            "differences": {name: differences_json(_differences(one, ways)) for name, one in found.items()},
            "best": {
                weights: {
                    name: {kind: best_of(one, kind, weights).as_json() for kind in KINDS} for name, one in found.items()
                }
                for weights in (RATED, ONE)
            },
            "found": {name: {way: one.as_json() for way, one in by.items()} for name, by in looks.items()},
        },
    )


# ── which is best ─────────────────────────────────────────────────────────────────────────────────────────────────


@dataclass(frozen=True, kw_only=True)
class Best:
    """The mode with the highest correlation, the next one, what lies between, and how often each leads in a draw."""

    mode: str
    following: str
    figure: Figure
    ahead: Figure
    over_default: Figure
    leads: Mapping[str, float]

    def as_json(self) -> dict[str, Any]:
        """For programs."""
        return {
            "mode": self.mode,
            "next": self.following,
            "figure": self.figure.as_json(),
            "ahead_of_next": self.ahead.as_json(),
            "ahead_of_default": self.over_default.as_json(),
            "leads_in_draws": {name: round(share, 4) for name, share in self.leads.items()},
        }


def best_of(found: Measured, kind: str, weights: str = RATED) -> Best:
    """Among the four modes, with references that are rated, or worth one."""
    names, where = [way.name for way in MODES if named(way.name, weights) in found.names], whole(found)
    figures = {name: found.figure(named(name, weights), kind, where) for name in names}
    ranked = sorted(names, key=lambda name: -_or_least(figures[name].value))
    best, following = ranked[0], ranked[min(1, len(ranked) - 1)]
    places = [found.names.index(named(name, weights)) for name in names]
    drawn = np.nan_to_num(found.drawn[kind, where][places], nan=-1.0)
    leads = np.bincount(drawn.argmax(axis=0), minlength=len(names)) / drawn.shape[1]
    return Best(
        mode=best,
        following=following,
        figure=figures[best],
        ahead=found.difference(named(best, weights), named(following, weights), kind, where),
        over_default=found.difference(named(best, weights), named(DEFAULT.name, weights), kind, where),
        leads=dict(zip(names, leads.tolist(), strict=True)),
    )


def _or_least(value: float | None) -> float:
    return -1.0 if value is None else value


def best_over_all(found: Mapping[str, Measured], weights: str = RATED) -> str:
    """Which mode wins most often over metrics and correlations, and whether it is sure there."""
    tried = [best_of(one, kind, weights) for one in found.values() for kind in KINDS]
    wins = Counter(best.mode for best in tried)
    [(mode, count)] = wins.most_common(1)
    won = [best for best in tried if best.mode == mode]
    ahead = sum(1 for best in won if is_sure(best.ahead))
    text = (
        f"Of the modes, references {IN_PLOTS[weights]}, {mode} has the most in {count} of {len(tried)} comparisons "
        f"(metrics and correlations), and is surely ahead of the next one in {ahead} of them"
    )
    if mode != DEFAULT.name:
        text += f", surely better than the default in {sum(1 for best in won if is_sure(best.over_default))}"
    return f"{text}. The best of several looks better on the sets that it was chosen on than it is."


def _best_in_words(name: str, found: Measured) -> Iterator[str]:
    for kind in KINDS:
        best = best_of(found, kind)
        surely = "surely" if is_sure(best.ahead) else "not surely"
        yield (
            f"{name}, {IN_WORDS[kind]}, {on_whole(found)}: with rated references {best.mode} has the most of the "
            f"modes, {cell(best.figure)}, {surely} ahead of {best.following} ({cell(best.ahead)}); it leads in "
            f"{100 * best.leads[best.mode]:.0f} % of the draws. {_beside_default(best)}"
        )


def _beside_default(best: Best) -> str:
    if best.mode == DEFAULT.name:
        return "It is the default."
    shown = "is better than" if is_sure(best.over_default) else "is not shown to be better than"
    return f"It {shown} the default, {DEFAULT.name} ({cell(best.over_default)})."


def _vectors_in_words(found: Mapping[str, Measured], ways: Sequence[Way]) -> Iterator[str]:
    """How words become a sentence, where everything else is the same."""
    known = {way.mode: way for way in ways if way in MODES}
    for other in ways:
        if other in MODES or other.mode not in known:
            continue
        same = known[other.mode]
        figures = {
            name: one.difference(named(other.name, RATED), named(same.name, RATED), PARTIAL, whole(one))
            for name, one in found.items()
        }
        said = [f"{name} {cell(one)}, {'sure' if is_sure(one) else 'not sure'}" for name, one in figures.items()]
        yield f"{other.name} less {same.name}, partial Spearman with rated references: {'; '.join(said)}."


# ── tables and plots ──────────────────────────────────────────────────────────────────────────────────────────────


def _section(name: str, found: Measured, ways: Sequence[Way]) -> Section:
    by = _differences(found, ways)
    return Section(
        title=name,
        text=[*_best_in_words(name, found), *_claims_in_words(found, by)],
        tables=[
            agreement_table(found, f"{name}: agreement with people", baseline=GOLD_ALONE),
            differences_table(f"{name}: what each way has over its controls and over the default", found, by),
        ],
        plots=[_plot(name, found, ways, kind) for kind in KINDS],
    )


def _differences(found: Measured, ways: Sequence[Way]) -> Differences:
    """What each way has over its own controls, over the gold alone, and over the default way."""
    return {
        way.name: {
            **{
                label: less(found, named(way.name, kind), other if other == GOLD_ALONE else named(way.name, other))
                for label, (kind, other) in _CLAIMS.items()
            },
            **{
                f"{kind} less the default way": less(found, named(way.name, kind), named(DEFAULT.name, kind))
                for kind in (RATED, ONE)
            },
        }
        for way in ways
    }


def _claims_in_words(found: Measured, by: Differences) -> Iterator[str]:
    """Of how many ways each claim holds."""
    for label in _CLAIMS:
        for kind in KINDS:
            verdicts = {way: verdict([own[label][kind][whole(found)]]) for way, own in by.items()}
            shown = [way for way, said in verdicts.items() if said == "shown"]
            refuted = [way for way, said in verdicts.items() if said == "refuted"]
            text = f"{label}, {IN_WORDS[kind]}: shown for {len(shown)} of {len(by)} ways"
            text += f" ({'; '.join(shown)})" if shown and len(shown) < len(by) else ""
            yield text + (f"; refuted for {'; '.join(refuted)}." if refuted else ".")


def _claims_over_all(found: Mapping[str, Measured], ways: Sequence[Way]) -> Iterator[str]:
    """In how many of all comparisons each claim holds."""
    tables = {name: _differences(one, ways) for name, one in found.items()}
    for label in _CLAIMS:
        for kind in KINDS:
            verdicts = [
                verdict([own[label][kind][whole(found[name])]]) for name, by in tables.items() for own in by.values()
            ]
            yield (
                f"{label}, {IN_WORDS[kind]}, {len(ways)} ways with {len(found)} metrics: shown in "
                f"{verdicts.count('shown')} of {len(verdicts)}, refuted in {verdicts.count('refuted')}."
            )


def _plot(name: str, found: Measured, ways: Sequence[Way], kind: str) -> Plot:
    shown, where = [(way.name, tried) for way in ways for tried in ALL], whole(found)
    return bars(
        f"modes-{NUMBERS[name]}-{kind}.png",
        f"{name}: {IN_WORDS[kind]} with the mean rating {on_whole(found)}, 95 % intervals; the broken line: gold alone",
        [way for way, _ in shown],
        [found.figure(named(way, tried), kind, where) for way, tried in shown],
        groups=[IN_PLOTS[tried] for _, tried in shown],
        title=f"{name}, {on_whole(found)}",
        x_label=IN_WORDS[kind],
        beside=found.figure(GOLD_ALONE, kind, where),
        beside_name=GOLD_ALONE,
    )
