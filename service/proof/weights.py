"""`reproduce weights`: what weights are worth, where people have given them.

Every reply is scored against the gold and the other systems' replies to its context, which people have rated. So the
rater's weights can be held against those by people themselves, an upper bound for any rater, and both against no
weights, and against the same weights dealt out anew. The reply itself and texts equal to it are never among its
references.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import numpy as np

from core.errors import BadInput
from core.progress import Progress
from metrics.base import Metric
from metrics.correlation import PARTIAL
from metrics.specification import build
from rater.rate import Rater
from service.pages import Table
from service.plotting import Plot
from service.proof.candidates import GREEDY, VECTORS
from service.proof.chain import Chain, ProofSettings
from service.proof.figures import Figure, Measured, measured
from service.proof.judged import (
    CONDITIONS,
    FEWEST_TEXTS,
    KINDS,
    LIKERT,
    PEOPLE,
    SHUFFLED_PEOPLE,
    SHUFFLED_RATED,
    Judged,
    WeightAgreement,
    lines_of,
    scored_times,
    weight_agreement,
)
from service.proof.plots import bars
from service.proof.references import GOLD, ONE, RATED
from service.proof.report import Report, Section, agreement_table, cell, short, verdict
from service.proof.sets import Mask, ProofSet

METRICS: Final = {
    "ΔBLEU": "delta-bleu",
    "ΔBLEU without penalty": "delta-bleu:bp=none",
    "ΔBLEU without smoothing": "delta-bleu:smooth=none",
    "ΔBLEU with neither": "delta-bleu:smooth=none,bp=none",
    "υ-greedy": f"upsilon-greedy:{GREEDY}",
}
CLAIMS: Final = {  # what is claimed → the line that has to be above, and the one that it is to beat
    "other replies as references, each worth 1, beat the gold alone": (ONE, GOLD),
    "weights by people beat weights of one": (PEOPLE, ONE),
    "weights by people beat the same ones dealt out anew": (PEOPLE, SHUFFLED_PEOPLE),
    "rated weights beat weights of one": (RATED, ONE),
    "rated weights beat the same ones dealt out anew": (RATED, SHUFFLED_RATED),
}
BESIDE: Final = {  # differences that are no claim of being above 0
    "rated less people": {RATED: 1.0, PEOPLE: -1.0},
    "rated less people, each over its own weights dealt out anew": {
        RATED: 1.0,
        SHUFFLED_RATED: -1.0,
        PEOPLE: -1.0,
        SHUFFLED_PEOPLE: 1.0,
    },
    "people's weights dealt out anew less weights of one": {SHUFFLED_PEOPLE: 1.0, ONE: -1.0},
    "rated weights dealt out anew less weights of one": {SHUFFLED_RATED: 1.0, ONE: -1.0},
}
NEAR: Final = tuple(BESIDE)[:2]  # those that ask whether rated weights are as good as people's
SHARES: Final = {  # over what a gain is meant → the rated gain, and that of people's weights
    "weights of one": ((RATED, ONE), (PEOPLE, ONE)),
    "the same weights dealt out anew": ((RATED, SHUFFLED_RATED), (PEOPLE, SHUFFLED_PEOPLE)),
}
ALIKE: Final = 0.06  # two lines nearer than this agree equally well, as far as sets of a hundred contexts can tell
FROM_THE_LOG: Final = 2 / 3  # of a system's replies: from here on it answers with turns of the log


def weights(chain: Chain, sets: Sequence[ProofSet]) -> Report:
    """What weights by people are worth, and how much of it those of the rater reach."""
    usable, gaps = usable_sets(sets)
    rater, vectors = chain.rater(), chain.vectors_folder(chain.vectors())
    standing = {one.name: chain.standing(one) for one in usable}
    return weights_report(usable, gaps, rater, vectors, standing, chain.settings, chain.progress)


def usable_sets(sets: Sequence[ProofSet]) -> tuple[list[ProofSet], list[str]]:
    """The sets in which replies can be references of each other, with one gold each; and why the others cannot."""
    usable, gaps = list[ProofSet](), list[str]()
    for one in sets:
        why = _why_not(one)
        if why is None:
            usable.append(one.with_first_gold())
        else:
            gaps.append(f"{one.name} is left out: {why}")
    if not usable:
        raise BadInput("; ".join(gaps), remedy="name a set with several rated replies to each utterance, from 1 to 5")
    return usable, gaps


def _why_not(one: ProofSet) -> str | None:
    low, high = float(one.ratings.min()), float(one.ratings.max())
    if low < LIKERT[0] or high > LIKERT[1]:
        return f"its ratings are from {low:g} to {high:g}, weights are made of ratings from 1 to 5"
    if not any((item.pair.utterance or "").strip() for item in one.items):
        return "no item has an utterance, so the rater cannot be asked"
    if max(np.bincount(one.item[one.fair], minlength=1)) < 2:
        return "no item has two rated replies beside the gold, so there is nothing to be a reference"
    return None


# ── the report ────────────────────────────────────────────────────────────────────────────────────────────────────


def weights_report(
    sets: Sequence[ProofSet],
    gaps: Sequence[str],
    rater: Rater,
    vectors: Path,
    standing: Mapping[str, Mask],
    settings: ProofSettings,
    progress: Progress,
) -> Report:
    """The same for sets that can be used, with what they are measured with."""
    built = {name: build(text.replace(VECTORS, str(vectors))) for name, text in METRICS.items()}
    judged = [Judged.of(one, rater) for one in sets]
    found = _measured_of(judged, built, settings, progress)
    taken = {one.name: systems_of_the_log(one, standing[one.name]) for one in sets}
    rest = [_without(one, taken[one.name]) for one in sets]
    without = None
    if any(taken.values()):
        usable = [one for one in rest if _why_not(one) is None]
        without = _measured_of([Judged.of(one, rater) for one in usable], built, settings, progress) if usable else None
    agreement = weight_agreement(judged, settings)
    return Report(
        name="weights",
        title="What weights are worth: by people, by the rater, and dealt out anew",
        summary=[*_summary(found, agreement, judged)],
        sections=[
            *_main_sections(found),
            _agreement_section(agreement),
            _without_section(without, taken, standing, sets),
        ],
        notes=(*gaps, *(f"{one.rated_set.name}: {one.remark}" for one in judged if one.remark is not None)),
        data={
            "references": {one.rated_set.name: _counted(one) for one in judged},
            "metrics": {name: one.as_json(KINDS) for name, one in found.items()},
            "differences": {name: _differences(one) for name, one in found.items()},
            "shares": {name: _shares(one) for name, one in found.items()},
            "weights": agreement.as_json(),
            "systems_of_the_log": {name: list(systems) for name, systems in taken.items()},
            "without_systems_of_the_log": {
                name: {"figures": one.as_json(KINDS), "differences": _differences(one), "shares": _shares(one)}
                for name, one in (without or {}).items()
            },
        },
    )


def _measured_of(
    judged: Sequence[Judged], built: Mapping[str, Metric], settings: ProofSettings, progress: Progress
) -> dict[str, Measured]:
    progress.stage("scoring against other replies", len(built) * scored_times(judged, settings.seeds), "times")
    sets = [one.rated_set for one in judged]
    return {
        name: measured(
            sets,
            lines_of(judged, metric, settings.seeds, progress),
            kinds=KINDS,
            draws=settings.draws,
            seed=settings.seed,
        )
        for name, metric in built.items()
    }


def systems_of_the_log(one: ProofSet, standing: Mask) -> tuple[str, ...]:
    """The systems whose replies are, for the most part, turns of the log word for word."""
    systems = np.array(one.systems)
    return tuple(
        system
        for system in dict.fromkeys(np.array(one.systems)[one.fair].tolist())
        if standing[(systems == system) & one.fair].mean() >= FROM_THE_LOG
    )


def _without(one: ProofSet, systems: Sequence[str]) -> ProofSet:
    """The set as if these systems had not been there, neither as replies nor as references."""
    return one.only(one.of_rows(lambda row: one.systems[row] not in systems))


# ── tables and words ──────────────────────────────────────────────────────────────────────────────────────────────


def _main_sections(found: Mapping[str, Measured]) -> Iterator[Section]:
    yield Section(
        title="Claims",
        text=(
            "Fair rows. Every reply is scored against the gold, worth 1, and the other systems' replies to its "
            "context; it and texts equal to it are never among them. People's weights are mean ratings from 1 to 5, "
            "mapped to −1 … 1.",
            "The others are worth less where the reply itself is the best of its context, so that weights work against "
            "themselves here, people's more than the rater's. Weights that are dealt out anew among the references of "
            "each reply have the same sum: a claim for weights stands against them, and their own difference to "
            "weights of one says how much the sum does.",
        ),
        tables=(_claims_table(found, "Claims"), _shares_table(found, "Share of the gain of people's weights")),
    )
    yield Section(
        title="Every metric with every kind of weights",
        text=(
            "ΔBLEU and υBLEU are one formula: with these references they give the same numbers, so that what differs "
            "is where the weights come from. υ-greedy leaves out references of negative weight.",
        ),
        tables=[
            agreement_table(one, f"{name} ({METRICS[name].replace(VECTORS, 'proof')})", baseline=ONE)
            for name, one in found.items()
        ],
        plots=[_plot(number, name, one) for number, (name, one) in enumerate(found.items())],
    )


def _plot(number: int, name: str, found: Measured) -> Plot:
    places = [(condition, where) for condition in CONDITIONS for where in found.sets]
    return bars(
        f"weights-{number}.png",
        f"{name}: Spearman on fair rows with its interval, by where the weights come from",
        [condition for condition, _ in places],
        [found.figure(condition, "spearman", where) for condition, where in places],
        groups=[where for _, where in places],
        title=name,
    )


def _claims_table(found: Mapping[str, Measured], title: str) -> Table:
    wheres = _wheres(found)
    columns = ["", *(f"{_SHORT[kind]}, {where}" for kind in KINDS for where in wheres)]
    columns += [f"verdict, {where}" for where in wheres]
    rows = []
    for name, one in found.items():
        for said, shares in _compared():
            differences = {where: [one.combined(shares, kind, where) for kind in KINDS] for where in wheres}
            row = [f"{name}: {said}"]
            row += [cell(differences[where][place]) for place in range(len(KINDS)) for where in wheres]
            row += [_said_of(said, differences[where]) for where in wheres]
            rows.append(row)
    notes = (
        "differences on the same draws of contexts",
        "not shown: an interval holds 0",
        f"alike: both intervals of the difference lie within ±{ALIKE:g}; where people's own weights gain nothing, "
        "that says nothing for the rater",
    )
    return Table(title=title, columns=columns, rows=rows, notes=notes)


def _compared() -> Iterator[tuple[str, Mapping[str, float]]]:
    """What is compared: claims, and what stands beside them."""
    yield from ((claim, {above: 1.0, below: -1.0}) for claim, (above, below) in CLAIMS.items())
    yield from BESIDE.items()


def _said_of(what: str, differences: Sequence[Figure]) -> str:
    if what in CLAIMS:
        return verdict(differences)
    return alike(differences) if what in NEAR else ""


_SHORT: Final = {"spearman": "Spearman", PARTIAL: "partial"}


def _wheres(found: Mapping[str, Measured]) -> tuple[str, ...]:
    return next(iter(found.values())).wheres


def alike(differences: Sequence[Figure]) -> str:
    """Whether two lines agree equally well with people: no difference that is sure is not enough for that."""
    if all(
        one.low is not None and one.high is not None and -ALIKE < one.low <= one.high < ALIKE for one in differences
    ):
        return "alike"
    return "not shown to be alike"


def _shares_table(found: Mapping[str, Measured], title: str) -> Table:
    wheres = _wheres(found)
    columns = ["", *(f"{_SHORT[kind]}, {where}" for kind in KINDS for where in wheres)]
    rows = [
        [f"{name}: over {over}", *(_share_cell(_share(one, over, kind, where)) for kind in KINDS for where in wheres)]
        for name, one in found.items()
        for over in SHARES
    ]
    notes = (
        "1: the rater's weights gain as much as people's; a share has no bounds, it may be negative or above 1",
        "draws in which people's weights gain nothing have no share, and are not in the interval",
    )
    return Table(title=title, columns=columns, rows=rows, notes=notes)


def _share(one: Measured, over: str, kind: str, where: str) -> Figure:
    """The rated gain over that of people's weights: the former minuend less subtrahend, over the latter."""
    (rated, without), (people, below) = SHARES[over]
    return one.ratio({rated: 1.0, without: -1.0}, {people: 1.0, below: -1.0}, kind, where)


def _share_cell(figure: Figure) -> str:
    """A share keeps its leading digit, and its reason where it is not sure."""
    if figure.value is None:
        return f"– ({figure.why})"
    text = _share_number(figure.value)
    if figure.low is not None and figure.high is not None:
        text += f" [{_share_number(figure.low)}, {_share_number(figure.high)}]"
    return f"{text} ({figure.why})" if figure.why else text


def _share_number(value: float) -> str:
    return f"{round(value, 2) + 0.0:.2f}"  # without a sign before nothing


def _agreement_section(found: WeightAgreement) -> Section:
    wheres, lines = found.whole.wheres, found.whole.names
    within = [[line, *(cell(found.within(line, where)) for where in wheres)] for line in lines]
    within.append(
        [
            f"{RATED} less {SHUFFLED_RATED}",
            *(cell(found.within_less(RATED, SHUFFLED_RATED, where)) for where in wheres),
        ]
    )
    counted = "; ".join(f"{name}: {count} contexts" for name, count in found.contexts.items())
    return Section(
        title="The rater's weights beside people's",
        text=(
            "Each different reply to an item counts once, without the gold. Within contexts it is only asked which of "
            "the replies to one utterance is the better one, which is what weights are for.",
        ),
        tables=(
            Table(
                title="Spearman within contexts, the mean over them",
                columns=("", *wheres),
                rows=within,
                notes=(
                    f"contexts with at least {FEWEST_TEXTS} different replies whose weights differ; {counted}",
                    "intervals are over contexts",
                ),
            ),
            agreement_table(found.whole, "Over all replies", baseline=SHUFFLED_RATED),
        ),
    )


def _without_section(
    without: Mapping[str, Measured] | None,
    taken: Mapping[str, Sequence[str]],
    standing: Mapping[str, Mask],
    sets: Sequence[ProofSet],
) -> Section:
    named = "; ".join(
        f"{one.name}: "
        + ", ".join(f"{system} ({_standing_share(one, system, standing):.0%})" for system in taken[one.name])
        for one in sets
        if taken[one.name]
    )
    title = "Without systems that answer with turns of the log"
    if without is None:
        why = "with too little left" if named else f"no system has {FROM_THE_LOG:.0%} of its replies in the log"
        return Section(title=title, text=(f"Not measured: {named + ', ' if named else ''}{why}.",))
    return Section(
        title=title,
        text=(
            f"The same without the systems whose replies stand in the log word for word, neither as replies nor as "
            f"references: {named}.",
        ),
        tables=(
            _claims_table(without, "Claims, without these systems"),
            _shares_table(without, "Share of the gain of people's weights, without these systems"),
            *(agreement_table(one, f"{name}, without these systems", baseline=ONE) for name, one in without.items()),
        ),
    )


def _standing_share(one: ProofSet, system: str, standing: Mapping[str, Mask]) -> float:
    mine = one.of_rows(lambda row: one.systems[row] == system) & one.fair
    return float(standing[one.name][mine].mean())


def _summary(found: Mapping[str, Measured], agreement: WeightAgreement, judged: Sequence[Judged]) -> Iterator[str]:
    """What is shown and what is not, in sentences made of this run's figures."""
    wheres = _wheres(found)
    for claim, (above, below) in CLAIMS.items():
        yield f"That {claim}: " + "; ".join(_over_metrics(found, above, below, where) for where in wheres) + "."
    for what in NEAR:
        yield f"{what.capitalize()} (υ ≈ Δ), {wheres[-1]}: {_near(found, what, wheres[-1])}."
    for over in SHARES:
        shares = "; ".join(
            f"{name} {_share_cell(_share(one, over, 'spearman', wheres[-1]))}" for name, one in found.items()
        )
        yield (
            f"Share of the gain of people's weights over {over} that rated ones reach (Spearman, {wheres[-1]}): "
            f"{shares}."
        )
    within = "; ".join(
        f"{where} {cell(agreement.within(RATED, where))}, less the same weights dealt out anew "
        f"{cell(agreement.within_less(RATED, SHUFFLED_RATED, where))}"
        for where in agreement.whole.wheres
    )
    yield f"The rater's weights go with people's within contexts at Spearman {within}."
    counts = "; ".join(
        f"{one.rated_set.name}: {one.counts.mean():.1f} other replies a row, in {one.contexts} contexts"
        for one in judged
    )
    yield f"What these sets can tell is bounded by their size: {counts}. Where references are few, so are the weights."


def _over_metrics(found: Mapping[str, Measured], above: str, below: str, where: str) -> str:
    """Where the differences lie over metrics, and for which of them the claim is shown."""
    verdicts = {
        name: verdict([one.difference(above, below, kind, where) for kind in KINDS]) for name, one in found.items()
    }
    said = [f"{what} ({', '.join(names)})" for what, names in _by_verdict(verdicts).items()]
    values = [one.difference(above, below, "spearman", where).value for one in found.values()]
    known = [value for value in values if value is not None]
    spread = f"differences of Spearman from {short(min(known))} to {short(max(known))}, " if known else ""
    return f"{where}: {spread}" + ", ".join(said)


def _by_verdict(verdicts: Mapping[str, str]) -> dict[str, list[str]]:
    """Metrics by what is said of them; with all of them at one, that they are all."""
    groups = dict[str, list[str]]()
    for name, said in verdicts.items():
        groups.setdefault(said, []).append(name)
    return groups if len(groups) > 1 else {said: [f"all {len(names)} metrics"] for said, names in groups.items()}


def _near(found: Mapping[str, Measured], what: str, where: str) -> str:
    parts = list[str]()
    for name, one in found.items():
        differences = [one.combined(BESIDE[what], kind, where) for kind in KINDS]
        parts.append(f"{name} {cell(differences[0])}, {alike(differences)}")
    return "; ".join(parts)


# ── figures for programs ──────────────────────────────────────────────────────────────────────────────────────────


def _differences(found: Measured) -> dict[str, Any]:
    return {
        what: {kind: {where: found.combined(shares, kind, where).as_json() for where in found.wheres} for kind in KINDS}
        for what, shares in _compared()
    }


def _shares(found: Measured) -> dict[str, Any]:
    return {
        over: {kind: {where: _share(found, over, kind, where).as_json() for where in found.wheres} for kind in KINDS}
        for over in SHARES
    }


def _counted(one: Judged) -> dict[str, Any]:
    counts = one.counts
    return {
        "rows": len(counts),
        "contexts": one.contexts,
        "others": {"fewest": int(counts.min()), "mean": round(float(counts.mean()), 2), "most": int(counts.max())},
    }
