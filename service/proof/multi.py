"""`reproduce multi-reference`: what further references are worth, by people or retrieved, one or many.

A set with several references by people for every item allows the ladder that was published with one of them: one
reference, all of them, one and those that were found automatically, and both. Every rung has its control: as many
replies drawn from the log, as long as the retrieved ones. A second curve says what each further reference adds.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final

import numpy as np

from core.errors import BadInput, NotFound
from core.progress import Progress
from metrics.base import Metric
from metrics.correlation import PARTIAL
from metrics.specification import build
from service.pages import Table
from service.plotting import Plot
from service.proof.candidates import GREEDY, VECTORS
from service.proof.chain import Chain, ProofSettings, without_folders
from service.proof.ladder import (
    BOTH,
    HUMAN,
    KINDS,
    PENALTIES,
    SEEDS_TO_CHOOSE,
    SINGLE,
    SIZES,
    SMOOTHINGS,
    Climbed,
    Curve,
    K,
    Ladder,
    by_size,
    by_subsets,
    climbed,
    climbed_at_best,
    drawn_name,
    own_name,
    rung,
    with_references,
)
from service.proof.plots import curves
from service.proof.references import MATCHED, ONE, RATED, SHUFFLED, Drawn, scores_of
from service.proof.report import Report, Section, agreement_table, cell, verdict
from service.proof.sets import Mask, ProofSet, read_sets

SCARCE: Final = "smooth=epsilon[1e-15]"  # of the published ladder
PUBLISHED: Final = {  # set → rung → Spearman of BLEU-2 and BLEU-4 on all rows (Gangal et al. 2021, SCARCE)
    "dailydialog_gupta": {
        SINGLE: (0.040, 0.093),
        HUMAN: (0.203, 0.281),
        "automatic": (0.275, 0.302),
        "both": (0.327, 0.357),
    }
}
FEWEST_CONTEXTS: Final = 30  # with several references; an interval over fewer says next to nothing
AT_SIZE: Final = "dstc7_reddit"  # very many references an item, and no utterance
_ORDERS: Final = (2, 4)
_CURVES: Final = {
    "BLEU-2": "multi-bleu",
    "BLEU-2, no penalty": "multi-bleu:bp=none",
    "greedy": f"greedy:multi=best,{GREEDY}",
}

CLAIMS: Final = {  # what is claimed → the rung that has to be above, and the one that it is to beat
    "all references by people beat one": (HUMAN, SINGLE),
    "retrieved ones beside one by people beat that one alone": (rung(SINGLE, ONE), SINGLE),
    "retrieved ones beside one by people beat drawn ones of the same lengths": (
        rung(SINGLE, ONE),
        rung(SINGLE, MATCHED),
    ),
    "rated ones beside one by people beat the same weights dealt out anew": (
        rung(SINGLE, RATED),
        rung(SINGLE, SHUFFLED),
    ),
    "retrieved ones beside one by people beat all by people": (rung(SINGLE, ONE), HUMAN),
    "retrieved ones beside all by people beat these alone": (rung(HUMAN, ONE), HUMAN),
    "retrieved ones beside all by people beat drawn ones of the same lengths": (rung(HUMAN, ONE), rung(HUMAN, MATCHED)),
    "rated ones beside all by people beat the same weights dealt out anew": (rung(HUMAN, RATED), rung(HUMAN, SHUFFLED)),
}


def multi_reference(chain: Chain, sets: Sequence[ProofSet]) -> Report:
    """The ladder and the curves, on the sets that allow them; what cannot be had is a named gap."""
    several, gaps = with_several(sets)
    index, rater = (chain.main_index(), chain.rater()) if several else ("", None)
    ladders = [
        Ladder(
            rated_set=one,
            single=one.with_first_gold(),
            beside_one=chain.pool(one.with_first_gold(), index, rater),
            beside_all=chain.pool(one, index, rater),
        )
        for one in several
        if rater is not None
    ]
    big, missing = _at_size(chain.settings.data)
    vectors = chain.vectors_folder(chain.vectors())
    return multi_report(ladders, big, (*gaps, *missing), vectors, chain.settings, chain.progress)


def with_several(sets: Sequence[ProofSet]) -> tuple[list[ProofSet], list[str]]:
    """The sets in which enough items have several references, reduced to those; and why others are left out."""
    kept, gaps = list[ProofSet](), list[str]()
    for one in sets:
        counts = np.array([len(item.pair.references) for item in one.items])
        several = np.flatnonzero(counts > 1)
        if len(several) >= FEWEST_CONTEXTS:
            kept.append(_of_items(one, counts > 1, int(counts[several].min())))
        else:
            gaps.append(
                f"{one.name}: {len(several)} of {len(counts)} items have several references, too few to say anything "
                f"about their number (at least {FEWEST_CONTEXTS})"
            )
    return kept, gaps


def _of_items(one: ProofSet, wanted: Mask, most: int) -> ProofSet:
    """The set with these items alone, each with so many references."""
    number = np.cumsum(wanted) - 1
    kept = one.only(wanted[one.item])
    items = (item for item, taken in zip(one.items, wanted, strict=True) if taken)
    return replace(
        kept,
        items=tuple(with_references(item, item.pair.references[:most]) for item in items),
        item=number[kept.item],
    )


def _at_size(data: Path) -> tuple[ProofSet | None, tuple[str, ...]]:
    try:
        [one] = read_sets(data, [AT_SIZE])
    except (NotFound, BadInput) as error:
        return None, (f"no figures for very many references: {without_folders(error.message, data)}",)
    return one, ()


# ── the report ────────────────────────────────────────────────────────────────────────────────────────────────────


@dataclass(frozen=True, kw_only=True)
class _Climb:
    """All that was measured on one set."""

    rated_set: ProofSet
    at_scarce: tuple[Climbed, ...]
    all_rows: tuple[Climbed, ...]
    at_best: tuple[Climbed, ...]
    curves: tuple[Curve, ...]


def multi_report(
    ladders: Sequence[Ladder],
    big: ProofSet | None,
    gaps: Sequence[str],
    vectors: Path,
    settings: ProofSettings,
    progress: Progress,
) -> Report:
    """The same, with what it is measured with."""
    if not ladders and big is None:
        raise BadInput("; ".join(gaps), remedy="name a set with several references for each item")
    built = {name: build(text.replace(VECTORS, str(vectors))) for name, text in _CURVES.items()}
    climbs = [_climb(ladder, built, str(vectors), settings, progress) for ladder in ladders]
    size = None if big is None else _at_size_of(big, built, settings, progress)
    return Report(
        name="multi-reference",
        title="What further references are worth: by people, retrieved, and drawn",
        summary=[*_summary(climbs, size)],
        sections=[section for one in climbs for section in _sections(one)]
        + ([] if size is None else [_size_section(size)]),
        notes=gaps,
        data={
            "ladders": {one.rated_set.name: _as_json(one) for one in climbs},
            "at_size": None if size is None else _size_json(size),
        },
    )


def _climb(
    ladder: Ladder, built: Mapping[str, Metric], vectors: str, settings: ProofSettings, progress: Progress
) -> _Climb:
    one = ladder.rated_set
    everything = np.ones(len(one.replies), dtype=np.bool_)
    progress.stage(f"the ladder of {one.name}", len(_ORDERS) * len(ladder.rungs()), "rungs")
    at_scarce = [climbed(ladder, f"upsilon-bleu:n={order},{SCARCE}", settings) for order in _ORDERS]
    greedy = climbed(ladder, f"upsilon-greedy:agg=best,{GREEDY.replace(VECTORS, vectors)}", settings)
    drawn = ladder.beside_one.drawn
    return _Climb(
        rated_set=one,
        at_scarce=(*at_scarce, replace(greedy, metric="υ-greedy, the best of all")),
        all_rows=tuple(
            climbed(ladder, f"upsilon-bleu:n={order},{SCARCE}", settings, rows=everything) for order in _ORDERS
        ),
        at_best=tuple(climbed_at_best(ladder, order, settings, progress) for order in _ORDERS),
        curves=tuple(by_subsets(one, name, metric, settings, drawn) for name, metric in built.items()),
    )


@dataclass(frozen=True, kw_only=True)
class _Size:
    """Very many references: the curves, and whether two ways to the same number still meet."""

    rated_set: ProofSet
    curves: tuple[Curve, ...]
    apart: float  # the largest difference between multi-bleu and upsilon-bleu with every weight 1


def _at_size_of(big: ProofSet, built: Mapping[str, Metric], settings: ProofSettings, progress: Progress) -> _Size:
    progress.stage(f"very many references: {big.name}", len(built), "metrics")
    drawn = Drawn.of([reference.text for item in big.items for reference in item.pair.references])
    found = list[Curve]()
    for name, metric in built.items():
        found.append(by_size(big, name, metric, settings, drawn))
        progress.advance(1)
    apart = np.abs(scores_of(big, build("multi-bleu")) - scores_of(big, build("upsilon-bleu")))
    return _Size(rated_set=big, curves=tuple(found), apart=float(np.nanmax(apart)))


def _sections(one: _Climb) -> Iterator[Section]:
    name, people = one.rated_set.name, len(one.rated_set.items[0].pair.references)
    yield Section(
        title=f"{name}: the ladder at the smoothing of the published one",
        text=(
            f"Fair rows. {people} references by people for every item; {K} further ones, without the utterance itself. "
            "Drawn ones are as many and as long, token by token.",
        ),
        tables=[
            *(agreement_table(each.found, _title(each), baseline=SINGLE) for each in one.at_scarce),
            _claims_table(one.at_scarce, "Claims"),
        ],
    )
    if name in PUBLISHED:
        yield Section(
            title=f"{name}: all rows, beside the published ladder",
            text=(
                "Rows that rate one of the references are in, as in what was published. Tokens, the treatment of "
                "short replies and what was retrieved differ, so that rungs are to be compared, not digits.",
            ),
            tables=(
                _published_table(name, one.all_rows),
                *(agreement_table(each.found, f"{_title(each)}, all rows", kinds=BOTH) for each in one.all_rows),
            ),
        )
    yield Section(
        title=f"{name}: each rung at its own best setting",
        text=(
            f"The best of {len(SMOOTHINGS) * len(PENALTIES)} settings of smoothing and penalty by Spearman on these "
            "very rows: an upper bound that nobody gets who has to choose beforehand. The intervals do not know that "
            "it was chosen.",
        ),
        tables=[
            *(agreement_table(each.found, _title(each), baseline=SINGLE) for each in one.at_best),
            _settings_table(one.at_best),
            _claims_table(one.at_best, "Claims, each rung at its best"),
        ],
    )
    yield Section(
        title=f"{name}: one reference by people after the other",
        text=(
            "The mean over all subsets of the references by people. Beside it one of them, with drawn replies as long "
            "as the others: what a number of references does by itself.",
        ),
        tables=[_curve_table(each) for each in one.curves],
        plots=[_plot(f"references-{name}-{number}.png", each) for number, each in enumerate(one.curves)],
    )


def _title(one: Climbed) -> str:
    order = one.metric.partition("n=")[2][:1]
    return f"BLEU-{order}, {SCARCE.partition('=')[2]}" if SCARCE in one.metric else one.metric


def _claims_table(climbs: Sequence[Climbed], title: str) -> Table:
    rows = []
    for one in climbs:
        for claim, (above, below) in CLAIMS.items():
            differences = [one.found.difference(above, below, kind) for kind in KINDS]
            rows.append([f"{_title(one)}: {claim}", *map(cell, differences), verdict(differences)])
    return Table(
        title=title,
        columns=("claim", "difference of Spearman", "of partial Spearman", "verdict"),
        rows=rows,
        notes=("on the same draws of contexts; not shown: an interval holds 0",),
    )


def _published_table(name: str, climbs: Sequence[Climbed]) -> Table:
    """Our rungs beside the published ones of the same make."""
    published = PUBLISHED[name]
    beside = {
        SINGLE: (SINGLE,),
        HUMAN: (HUMAN,),
        "automatic": tuple(rung(SINGLE, kind) for kind in (ONE, RATED, MATCHED)),
        "both": tuple(rung(HUMAN, kind) for kind in (ONE, RATED, MATCHED)),
    }
    rows = [
        [
            ours,
            theirs,
            *(
                text
                for place, one in enumerate(climbs)
                for text in (f"{published[theirs][place]:.3f}"[1:], cell(one.found.figure(ours, "spearman")))
            ),
        ]
        for theirs, names in beside.items()
        for ours in names
    ]
    columns = ["", "published rung", *(text for order in _ORDERS for text in (f"BLEU-{order}, published", "ours"))]
    return Table(
        title="Spearman on all rows",
        columns=columns,
        rows=rows,
        notes=("published: Gangal et al. 2021 (SCARCE), smoothing 1e-15; drawn replies stand beside as the control",),
    )


def _settings_table(climbs: Sequence[Climbed]) -> Table:
    names = climbs[0].found.names
    return Table(
        title="The setting of each rung",
        columns=("", *(one.metric for one in climbs)),
        rows=[[name, *(f"smooth={one.settings[name]}" for one in climbs)] for name in names],
        notes=(f"of rungs with chance in them, by the mean of at most {SEEDS_TO_CHOOSE} seeds",),
        text=True,
    )


def _curve_table(one: Curve) -> Table:
    [where] = one.found.sets
    last, first = one.numbers[-1], one.numbers[0]
    rows = []
    for kind in KINDS:
        for said, name in (("of the set", own_name), ("one, and drawn ones", drawn_name)):
            known = [number for number in one.numbers if name(number) in one.found.names]
            rows.append(
                [
                    f"{_KIND_WORDS[kind]}: {said}",
                    *(cell(one.found.figure(name(number), kind)) if number in known else "–" for number in one.numbers),
                ]
            )
        rows.append(
            [
                f"{_KIND_WORDS[kind]}: the former less the latter",
                *(_less_drawn(one, number, kind) for number in one.numbers),
            ]
        )
        rows.append(
            [
                f"{_KIND_WORDS[kind]}: less {first}",
                "",
                *(cell(one.found.difference(own_name(number), own_name(first), kind)) for number in one.numbers[1:]),
            ]
        )
    left_out = one.found.left_out[where]
    notes = [f"{one.found.rows[where]:,} rows of {one.found.contexts[where]:,} contexts"]
    notes += [f"{left_out:,} rows left out, without a score"] if left_out else []
    notes += ["no replies are drawn beside all references"] if last == "all" else []
    return Table(
        title=f"{one.metric}: {first} to {last} references", columns=("", *one.numbers), rows=rows, notes=notes
    )


_KIND_WORDS: Final = {"spearman": "Spearman", PARTIAL: "partial Spearman"}


def _less_drawn(one: Curve, number: str, kind: str) -> str:
    if number == one.numbers[0]:
        return ""
    if drawn_name(number) not in one.found.names:
        return "–"
    return cell(one.found.difference(own_name(number), drawn_name(number), kind))


def _plot(file: str, one: Curve, x: Sequence[float] | None = None, *, log_x: bool = False) -> Plot:
    numbers = [number for number in one.numbers if number != "all"]
    return curves(
        file,
        f"{one.metric} on {one.found.sets[0]}: Spearman on fair rows by the number of references",
        x or [float(number) for number in numbers],
        {
            "of the set": [one.own(number) for number in numbers],
            "one, and drawn ones": [one.drawn(number) for number in numbers],
        },
        "references",
        log_x,
        title=one.metric,
    )


def _size_section(size: _Size) -> Section:
    counts = np.array([len(item.pair.references) for item in size.rated_set.items])
    return Section(
        title=f"{size.rated_set.name}: very many references",
        text=(
            f"{len(counts):,} items with {counts.min()} to {counts.max()} references, {counts.mean():.0f} on average; "
            "an item with fewer than asked for has all it has. It has no utterances, so that nothing can be retrieved "
            "and no rater asked: a gap. It says how the formulas behave at this size, and decides nothing.",
            f"Multi-reference BLEU and υBLEU with every weight 1 differ by at most {size.apart:.1e} over "
            f"{len(size.rated_set.replies):,} replies.",
        ),
        tables=[_curve_table(one) for one in size.curves],
        plots=[_plot(f"at-size-{number}.png", one, log_x=True) for number, one in enumerate(size.curves)],
    )


# ── words and figures ─────────────────────────────────────────────────────────────────────────────────────────────


def _summary(climbs: Sequence[_Climb], size: _Size | None) -> Iterator[str]:
    for one in climbs:
        name = one.rated_set.name
        for claim, pair in CLAIMS.items():
            said = "; ".join(_claimed(each, *pair) for each in one.at_scarce)
            best = "; ".join(_claimed(each, *pair) for each in one.at_best)
            yield f"{name}: that {claim}: {said}. Each rung at its own best setting: {best}."
        for curve in one.curves:
            yield _curve_in_words(name, curve, curve.numbers[-1])
    if size is not None:
        for curve in size.curves:
            yield _curve_in_words(size.rated_set.name, curve, str(SIZES[-1]))


def _claimed(one: Climbed, above: str, below: str) -> str:
    differences = [one.found.difference(above, below, kind) for kind in KINDS]
    return f"{_title(one)} {cell(differences[0])} ({verdict(differences)})"


def _curve_in_words(name: str, one: Curve, number: str) -> str:
    first = one.numbers[0]
    gained = one.found.difference(own_name(number), own_name(first), "spearman")
    over = [one.found.difference(own_name(number), drawn_name(number), kind) for kind in KINDS]
    return (
        f"{name}, {one.metric}: Spearman {cell(one.own(first))} with {first} reference and {cell(one.own(number))} "
        f"with {number}, {cell(gained)} more; over drawn ones of the same lengths {cell(over[0])}: {verdict(over)}."
    )


def _as_json(one: _Climb) -> dict[str, Any]:
    return {
        "at_scarce": {_title(each): _climbed_json(each) for each in one.at_scarce},
        "all_rows": {_title(each): each.found.as_json(BOTH) for each in one.all_rows},
        "published": {rung_: list(figures) for rung_, figures in PUBLISHED.get(one.rated_set.name, {}).items()},
        "at_best": {each.metric: _climbed_json(each) for each in one.at_best},
        "curves": {each.metric: each.found.as_json(KINDS) for each in one.curves},
    }


def _climbed_json(one: Climbed) -> dict[str, Any]:
    return {
        **one.found.as_json(KINDS),
        "claims": {
            claim: {kind: one.found.difference(*pair, kind).as_json() for kind in KINDS}
            for claim, pair in CLAIMS.items()
        },
        **({"settings": dict(one.settings)} if one.settings else {}),
    }


def _size_json(size: _Size) -> dict[str, Any]:
    return {
        "set": size.rated_set.name,
        "data": size.rated_set.data,
        "formulas_apart": size.apart,
        "curves": {one.metric: one.found.as_json(KINDS) for one in size.curves},
    }
