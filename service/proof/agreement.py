"""`reproduce metrics`: how far metrics agree with people, beside the controls that could take their claims away.

Three questions, each on the same rows and draws: does what is retrieved help more than replies of the same lengths that
were drawn from the log; do the rater's weights help more than the same weights dealt out anew; and which metric, chosen
without a look at the rows that it is judged on, goes best with people.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

import numpy as np

from core.errors import RefaugError
from metrics.base import Floats
from metrics.correlation import PARTIAL, partial_spearman
from metrics.correlation import spearman as spearman_of
from metrics.specification import build
from service.pages import Table
from service.plotting import Plot
from service.proof.candidates import (
    GREEDY,
    GREEDY_GOLD,
    RECOMMENDED,
    REPLY,
    REPLY_TO_THREE,
    VECTORS,
    WORDS,
    Candidate,
    Trial,
    listed,
)
from service.proof.chain import Chain
from service.proof.figures import Line, Measured, measured
from service.proof.people import annotator_table, human_rows, human_table
from service.proof.plots import bars
from service.proof.references import GOLD, KINDS, MATCHED, ONE, RATED, SHUFFLED, Drop, line_of
from service.proof.report import IN_WORDS, Report, Section, agreement_table, cell, verdict
from service.proof.selection import Selected, select
from service.proof.sets import Mask, ProofSet
from service.proof.weights import systems_of_the_log

BLEU, BLEU_AT_BEST, OURS = "BLEU-2, gold", "BLEU-2, gold, best setting", "best of ours, out of fold"
BLEU_AT_BEST_GIVEN_LENGTH: Final = "BLEU-2, gold, best setting given length"
BLEU_OURS: Final = "υBLEU, out of fold"
_BASELINES: Final = {"spearman": BLEU_AT_BEST, PARTIAL: BLEU_AT_BEST_GIVEN_LENGTH}  # each the best by its own kind
_PENALTIES: Final = ("closest", "none")
_SMOOTHINGS: Final = ("none", "floor", "add-k", "exp", "epsilon")
_BLENDS: Final = ("min", "max", "arithmetic", "geometric")
_UNREFERENCED: Final = "RUBER, unreferenced"
_WITHOUT_TAKEN: Final = "without the systems whose replies were taken from the log"
_FURTHER: Final = {  # other υ-metrics, with what they need
    "υ-chrF": "upsilon-chrf",
    "υ-ROUGE-L": "upsilon-rouge-l",
    "υ-average": f"upsilon-embedding-average:weighting=sif,vectors={VECTORS}",
    "υ-METEOR": "upsilon-meteor",
}
_CONTROLLED: Final = (  # the metrics that every kind of references is tried with
    Candidate(name="υBLEU, closest", why="", family="bleu", metric="upsilon-bleu"),
    Candidate(name="υBLEU, no penalty", why="", family="bleu", metric="upsilon-bleu:bp=none"),
    Candidate(name="υ-greedy, best", why="", family="greedy", metric=f"upsilon-greedy:agg=best,{GREEDY}"),
    Candidate(name="υ-greedy, weighted", why="", family="greedy", metric=f"upsilon-greedy:{GREEDY}"),
)


@dataclass(frozen=True, kw_only=True)
class _Lines:
    """What is in the main table, and the candidates that the last two lines were chosen of."""

    lines: tuple[Line, ...]
    ours: Selected
    bleu: Selected
    known: Mapping[str, Candidate]
    made_of: Mapping[str, Candidate]  # the lines that look at further references; chosen ones are made of others
    gaps: tuple[str, ...]


def metrics(chain: Chain, sets: Sequence[ProofSet]) -> Report:
    """The main tables."""
    single = [one.with_first_gold() for one in sets]
    trial = Trial(chain, single)
    found = _main_lines(trial, sets)
    settings = chain.settings
    whole = measured(single, found.lines, draws=settings.draws, seed=settings.seed)
    controls = {one.name: _controlled(trial, one) for one in _CONTROLLED}
    standing = {one.name: chain.standing(one) for one in single}
    near = {one.name: chain.near_contexts(one, [trial.pool(one), trial.pool(one, WORDS)]) for one in single}
    subsets = _subsets(trial, single, found, standing, near)
    scarce = _scarce(trial, sets)
    people = human_rows(sets, draws=settings.draws, seed=settings.seed)
    sections = [
        Section(
            title="Agreement with people",
            text=(
                "Fair rows, one gold an item; the mean rating of a reply against its score. Partial: with the length "
                "of the reply held fixed.",
                *_best_in_words(found.ours, found.bleu),
            ),
            tables=[
                agreement_table(whole, "Fair rows", baseline=_BASELINES),
                agreement_table(whole, "Fair rows, Pearson", kinds=("pearson",), baseline=BLEU_AT_BEST),
                human_table(people),
                annotator_table(single, found.lines),
                _zeros_table(_zeros(found.lines, single), single),
            ],
            plots=[_overview(whole)],
        ),
        Section(
            title="Controls",
            text=tuple(_claims_in_words(controls)),
            tables=[
                agreement_table(one, f"{name}: kinds of references", baseline=GOLD) for name, one in controls.items()
            ]
            + [_claims_table(controls)],
            plots=[_control_plot(name, one) for name, one in controls.items()],
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
        Section(title="What was tried", tables=[_tried_table(found.ours)]),
    ]
    return Report(
        name="metrics",
        title="Agreement of metrics with people, and what it rests on",
        summary=tuple(_summary(whole, controls)),
        sections=sections,
        notes=(*found.gaps, *(f"{one.name}: {note}" for one in sets for note in one.notes)),
        data={
            "main": whole.as_json(),
            "less_baseline": {
                line: {
                    kind: whole.difference(line, baseline, kind).as_json()
                    for kind, baseline in _BASELINES.items()
                    if line != baseline
                }
                for line in whole.names
            },
            "controls": {name: one.as_json(("spearman", PARTIAL)) for name, one in controls.items()},
            "claims": {name: _claims(one) for name, one in controls.items()},
            "subsets": subsets.data,
            "all_rows": scarce.as_json(("spearman", "pearson")),
            "selection": {"ours": found.ours.as_json(), "bleu": found.bleu.as_json()},
            "candidates": [one.as_json() for one in found.known.values()],
            "people": {one.name: one.as_json() for one in people},
            "zeros": _zeros(found.lines, single),
        },
    )


# ── lines ─────────────────────────────────────────────────────────────────────────────────────────────────────────


def _main_lines(trial: Trial, sets: Sequence[ProofSet]) -> _Lines:
    """Baselines at their own best, the published method, further υ-metrics, RUBER, and what was chosen."""
    known = {one.name: one for one in listed()}
    lines = [trial.line(one, known) for one in known.values()]
    by_name = {line.name: line for line in lines}
    ours = select(trial.sets, lines, OURS)
    bleu = select(trial.sets, [by_name[one.name] for one in known.values() if one.family == "bleu"], BLEU_OURS)
    further, gaps = _further(trial)
    baselines = [
        _plain(trial.sets, BLEU, "bleu"),
        _at_best(trial.sets, BLEU_AT_BEST, "bleu", _PENALTIES),
        _at_best(trial.sets, BLEU_AT_BEST_GIVEN_LENGTH, "bleu", _PENALTIES, PARTIAL),
        _at_best(trial.sets, "BLEU-4, gold, best setting", "bleu:n=4", _PENALTIES),
    ]
    several = [one for one in sets if any(len(item.pair.references) > 1 for item in one.items)]
    if several:
        penalties = (*_PENALTIES, "average", "gold")
        baselines.append(_at_best(sets, "BLEU-2, all human references, best setting", "multi-bleu", penalties))
    default = Candidate(
        name="υBLEU as published", why="", family="bleu", metric="upsilon-bleu", kind=RATED, parrot=True
    )
    length = Line(
        name="length", scores={one.name: one.lengths[None] for one in trial.sets}, about="tokens of the reply"
    )
    fixed = (GREEDY_GOLD.name, REPLY.name, REPLY_TO_THREE.name, RECOMMENDED.name)
    rubers = _ruber_candidates()
    return _Lines(
        lines=(
            length,
            *baselines,
            trial.line(default, known),
            bleu.line,
            *further,
            *(by_name[name] for name in fixed),
            *_ruber(trial, rubers, gaps),
            ours.line,
        ),
        ours=ours,
        bleu=bleu,
        known=known,
        made_of={one.name: one for one in (*known.values(), default, *rubers)},
        gaps=tuple(gaps),
    )


def _plain(sets: Sequence[ProofSet], name: str, specification: str) -> Line:
    return line_of(name, sets, build(specification), about=specification)


def _at_best(
    sets: Sequence[ProofSet], name: str, specification: str, penalties: Sequence[str], kind: str = "spearman"
) -> Line:
    """A baseline at the setting that is best for it on each set: an advantage that ours does not get.

    The best by Spearman switches the penalty off and is far from the best once length is held fixed, so that each
    kind of correlation needs a baseline of its own.
    """
    mark = "," if ":" in specification else ":"
    grid = [
        _plain(sets, f"{specification}{mark}smooth={smooth},bp={bp}", f"{specification}{mark}smooth={smooth},bp={bp}")
        for smooth in _SMOOTHINGS
        for bp in penalties
    ]
    scores, settings = dict[str, Floats](), list[str]()
    for one in sets:
        best = max(grid, key=lambda line: _correlation(line.scores[one.name][0], one, kind))
        scores[one.name] = best.scores[one.name]
        settings.append(f"{one.name}: {best.name}")
    return Line(name=name, scores=scores, about="; ".join(settings))


def _correlation(scores: Floats, one: ProofSet, kind: str) -> float:
    rows = one.fair & np.isfinite(scores)
    values, ratings = scores[rows], one.ratings[rows]
    found = partial_spearman(values, ratings, one.lengths[rows]) if kind == PARTIAL else spearman_of(values, ratings)
    return -1.0 if found.value is None else found.value


def _further(trial: Trial) -> tuple[list[Line], list[str]]:
    """Other υ-metrics on the same references; one that cannot be had here is a named gap."""
    lines, gaps = list[Line](), list[str]()
    for name, specification in _FURTHER.items():
        candidate = Candidate(name=name, why="", family="other", metric=specification, kind=RATED, mode=WORDS)
        try:
            lines.append(trial.line(candidate, {}))
        except RefaugError as error:
            gaps.append(f"{name} is missing: {trial.chain.said_of(error)}")
    return lines, gaps


def _ruber(trial: Trial, candidates: Sequence[Candidate], gaps: list[str]) -> Iterator[Line]:
    """RUBER, its parts and blends; without its network there is none of it."""
    try:
        unreferenced = line_of(
            _UNREFERENCED, trial.sets, trial.chain.relevance(), about="how well it goes with the utterance"
        )
    except RefaugError as error:
        gaps.append(f"RUBER is missing: {trial.chain.said_of(error)}")
        return
    yield unreferenced
    for one in candidates:
        yield trial.line(one, {})


def _ruber_candidates() -> list[Candidate]:
    """The referenced part and all four blends, also with υBLEU as a part: the paper does not say which it took."""
    pooled = f"vectors={VECTORS}"
    wanted = {"RUBER, referenced": (f"pooled:{pooled}", GOLD)}
    for blend in _BLENDS:
        wanted[f"RUBER, {blend}"] = (f"ruber:blend={blend},{pooled}", GOLD)
    wanted["RUBER, arithmetic, scaled by the test set"] = (f"ruber:norm=test,{pooled}", GOLD)
    for blend in _BLENDS:
        wanted[f"RUBER + υBLEU, {blend}"] = (f"ruber:blend={blend},referenced=upsilon-bleu;bp=none", RATED)
    return [
        Candidate(name=name, why="", family="other", metric=specification, kind=kind, mode=WORDS)
        for name, (specification, kind) in wanted.items()
    ]


# ── controls ──────────────────────────────────────────────────────────────────────────────────────────────────────

_CLAIMS: Final = {  # what is claimed → the line that has to be above, and the one that it is to beat
    "retrieval beats replies of the same lengths": (ONE, MATCHED),
    "the rater's weights beat the same ones dealt out anew": (RATED, SHUFFLED),
    "the rater's weights beat weights of one": (RATED, ONE),
    "rated references beat the gold alone": (RATED, GOLD),
    "drawn replies of the same lengths beat the gold alone": (MATCHED, GOLD),
}


def _controlled(trial: Trial, metric: Candidate) -> Measured:
    """One metric on every kind of references, as many of each and with one penalty; the parrot in all but the gold."""
    settings = trial.chain.settings
    lines = [
        replace(trial.line(replace(metric, name=f"{metric.name}, {kind}", kind=kind, parrot=True), {}), name=kind)
        for kind in KINDS
    ]
    return measured(trial.sets, lines, kinds=("spearman", PARTIAL), draws=settings.draws, seed=settings.seed)


def _claims(found: Measured) -> dict[str, Any]:
    return {
        claim: {
            kind: {where: found.difference(above, below, kind, where).as_json() for where in found.wheres}
            for kind in ("spearman", PARTIAL)
        }
        for claim, (above, below) in _CLAIMS.items()
    }


def _claims_table(controls: Mapping[str, Measured]) -> Table:
    rows = [
        [
            f"{name}: {claim}",
            *(cell(found.difference(above, below, kind)) for kind in ("spearman", PARTIAL)),
            verdict([found.difference(above, below, kind) for kind in ("spearman", PARTIAL)]),
        ]
        for name, found in controls.items()
        for claim, (above, below) in _CLAIMS.items()
    ]
    columns = ("claim", "difference of Spearman, mean", "of partial Spearman, mean", "verdict")
    return Table(title="Claims", columns=columns, rows=rows, notes=("not shown: the interval holds 0",))


def _claims_in_words(controls: Mapping[str, Measured]) -> Iterator[str]:
    yield (
        "Every line has as many further references as the retrieved ones are, and the utterance among them, but for "
        "the gold alone; those with chance in them are the mean over seeds."
    )
    for name, found in controls.items():
        one, matched = found.difference(ONE, MATCHED, PARTIAL), found.difference(RATED, SHUFFLED, PARTIAL)
        yield (
            f"{name}: retrieved less drawn of the same lengths {cell(one)}, rated less shuffled {cell(matched)} "
            "(partial Spearman, mean of the sets)."
        )


# ── subsets ───────────────────────────────────────────────────────────────────────────────────────────────────────


@dataclass(frozen=True, kw_only=True)
class _Subsets:
    tables: tuple[Table, ...]
    data: Mapping[str, Any]


def _subsets(
    trial: Trial,
    sets: Sequence[ProofSet],
    found: _Lines,
    standing: Mapping[str, Mask],
    near: Mapping[str, Mask],
) -> _Subsets:
    """The main lines on fewer rows, and with fewer references."""
    settings = trial.chain.settings
    shown = [line for line in found.lines if not line.name.startswith("υ-")]
    choices: dict[str, tuple[Sequence[Line], Mapping[str, Mask]]] = {
        "without replies that stand in the log word for word": (
            shown,
            {one.name: one.fair & ~standing[one.name] for one in sets},
        ),
        "without contexts whose like stands in the log (token Jaccard ≥ .8)": (
            shown,
            {one.name: one.fair & ~near[one.name] for one in sets},
        ),
        "only contexts whose like stands in the log": (shown, {one.name: one.fair & near[one.name] for one in sets}),
        _WITHOUT_TAKEN: (
            shown,
            {one.name: one.without_systems(systems_of_the_log(one, standing[one.name])) for one in sets},
        ),
        "references nearly equal to the reply left out": (
            _without_near_references(trial, found, shown),
            {one.name: one.fair for one in sets},
        ),
    }
    tables, data = list[Table](), dict[str, Any]()
    for title, (lines, rows) in choices.items():
        if any(int(rows[one.name].sum()) < 20 for one in sets):
            counts = ", ".join(f"{one.name}: {int(rows[one.name].sum())}" for one in sets)
            tables.append(Table(title=title, columns=("",), rows=(), notes=(f"too few rows: {counts}",)))
            continue
        one = measured(sets, lines, rows=rows, kinds=("spearman", PARTIAL), draws=settings.draws, seed=settings.seed)
        notes = (_taken(sets, standing),) if title == _WITHOUT_TAKEN else ()
        tables.append(agreement_table(one, title, baseline=_BASELINES, notes=notes))
        data[title] = one.as_json(("spearman", PARTIAL))
    return _Subsets(tables=tuple(tables), data=data)


def _taken(sets: Sequence[ProofSet], standing: Mapping[str, Mask]) -> str:
    """Which those are, set by set."""
    return "; ".join(f"{one.name}: {', '.join(systems_of_the_log(one, standing[one.name])) or 'none'}" for one in sets)


def _without_near_references(trial: Trial, found: _Lines, shown: Sequence[Line]) -> list[Line]:
    """The same lines; those that look at further references without the ones that are nearly the reply.

    What was chosen in each fold stays chosen.
    """
    lines = list[Line]()
    for line in shown:
        if line.name in found.made_of:
            lines.append(trial.line(found.made_of[line.name], found.known, drop=Drop.NEAR))
        elif line.name in (OURS, BLEU_OURS):
            chosen = found.ours if line.name == OURS else found.bleu
            again = {
                name: trial.line(found.known[name], found.known, drop=Drop.NEAR)
                for name in dict.fromkeys(chosen.by_fold)
            }
            lines.append(replace(chosen.applied(trial.sets, again), name=line.name))
        else:
            lines.append(line)
    return lines


def _scarce(trial: Trial, sets: Sequence[ProofSet]) -> Measured:
    """All rows, golds too, at the smoothing of the ladder that was published with the first set."""
    settings = trial.chain.settings
    smooth = "smooth=epsilon[1e-15]"
    kinds = {GOLD: "BLEU-2, gold", MATCHED: "… and drawn replies", ONE: "… and retrieved ones", RATED: "… rated"}
    lines = [
        replace(
            trial.line(Candidate(name=name, why="", family="bleu", metric=f"upsilon-bleu:{smooth}", kind=kind), {}),
            name=name,
        )
        for kind, name in kinds.items()
    ]
    if any(len(item.pair.references) > 1 for one in sets for item in one.items):
        lines.append(_plain(sets, "BLEU-2, all human references", f"multi-bleu:{smooth}"))
    rows = {one.name: np.ones(len(one.replies), dtype=np.bool_) for one in trial.sets}
    kinds_of = ("spearman", "pearson")
    return measured(trial.sets, lines, rows=rows, kinds=kinds_of, draws=settings.draws, seed=settings.seed)


# ── words ─────────────────────────────────────────────────────────────────────────────────────────────────────────


def _summary(whole: Measured, controls: Mapping[str, Measured]) -> Iterator[str]:
    """What is shown and what is not, in sentences made of this run's figures."""
    less = {kind: whole.difference(OURS, baseline, kind) for kind, baseline in _BASELINES.items()}
    yield (
        f"The best of ours, out of fold: Spearman {_by_set(whole, OURS, 'spearman')}; partial, given length, "
        f"{_by_set(whole, OURS, PARTIAL)}. Above BLEU with one reference at its own best setting for each by "
        f"{cell(less['spearman'])}, partial {cell(less[PARTIAL])}: {verdict(list(less.values()))}."
    )
    yield f"υBLEU, its setting chosen out of fold: Spearman {_by_set(whole, BLEU_OURS, 'spearman')}."
    for claim, (above, below) in _CLAIMS.items():
        verdicts = {
            name: verdict([found.difference(above, below, kind) for kind in ("spearman", PARTIAL)])
            for name, found in controls.items()
        }
        yield f"That {claim}: " + "; ".join(f"{name}: {verdict}" for name, verdict in verdicts.items()) + "."
    rows = ", ".join(f"{whole.contexts[one]} contexts in {one}" for one in whole.sets)
    yield f"What these data can tell is bounded by their size ({rows}): differences below about .06 are within noise."


def _by_set(found: Measured, line: str, kind: str) -> str:
    return ", ".join(f"{where} {cell(found.figure(line, kind, where))}" for where in found.wheres)


def _best_in_words(ours: Selected, bleu: Selected) -> Iterator[str]:
    for what, one in (("best of ours", ours), ("υBLEU", bleu)):
        chosen = "; ".join(dict.fromkeys(one.by_fold))
        yield (
            f"{what}: chosen out of {one.tried} candidates by the mean partial Spearman of the other folds. Chosen: "
            f"{chosen}. On all rows it would have been: {one.on_all}."
        )


def _tried_table(ours: Selected) -> Table:
    ranked = sorted(ours.in_fold.items(), key=lambda one: -one[1])
    rows = [[name, f"{value:.3f}", str(ours.by_fold.count(name))] for name, value in ranked]
    return Table(
        title=f"All {ours.tried} candidates",
        columns=("candidate", "mean partial Spearman on all rows", "chosen in folds"),
        rows=rows,
        notes=("the best of so many looks better here than it is: the figure to quote is the one out of fold",),
    )


def _zeros(lines: Sequence[Line], sets: Sequence[ProofSet]) -> dict[str, dict[str, float]]:
    """The share of fair rows with a score of 0, for lines that have any: where scores tie, ranks say little."""
    shares = {
        line.name: {one.name: round(float((line.scores[one.name][0][one.fair] == 0).mean()), 4) for one in sets}
        for line in lines
    }
    return {name: share for name, share in shares.items() if any(share.values())}


def _zeros_table(zeros: Mapping[str, Mapping[str, float]], sets: Sequence[ProofSet]) -> Table:
    rows = [[name, *(f"{100 * shares[one.name]:.1f} %" for one in sets)] for name, shares in zeros.items()]
    return Table(
        title="Scores that are 0",
        columns=("line", *(one.name for one in sets)),
        rows=rows,
        notes=("of the fair rows, for the lines that have any: replies that a metric gives 0 it does not tell apart",),
    )


# ── plots ─────────────────────────────────────────────────────────────────────────────────────────────────────────


def _overview(whole: Measured) -> Plot:
    return _both_kinds("metrics-overview.png", f"Agreement with people, {whole.wheres[-1]}", whole)


def _control_plot(name: str, found: Measured) -> Plot:
    file = f"metrics-{''.join(one for one in name.lower() if one.isascii() and one.isalnum())}.png"
    return _both_kinds(file, f"{name} on kinds of references, {found.wheres[-1]}", found)


def _both_kinds(file: str, caption: str, found: Measured) -> Plot:
    """Spearman and partial Spearman of every line, beside each other."""
    bars_of = [(name, kind) for name in found.names for kind in ("spearman", PARTIAL)]
    return bars(
        file,
        caption,
        [name for name, _ in bars_of],
        [found.figure(name, kind, found.wheres[-1]) for name, kind in bars_of],
        groups=[IN_WORDS[kind] for _, kind in bars_of],
        x_label="correlation",
    )
