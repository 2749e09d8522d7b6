"""`reproduce multi-reference`: what further references are worth: by people or retrieved, one or many.

A set with several references by people for every item allows the ladder that was published with one of the sets: one
reference, all of them, one and retrieved ones, and both. Every rung has its control: equally many replies drawn from
the log, as long as the retrieved ones. A second curve shows what each further reference adds.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

import numpy as np

from refaug.core.errors import BadInput
from refaug.core.progress import Progress
from refaug.extras.reproduction.material import reference_kinds, reference_ladder
from refaug.extras.reproduction.material.chain import Chain
from refaug.extras.reproduction.material.metric_lines import GREEDY, VECTORS
from refaug.extras.reproduction.material.proof_logs import ProofSettings
from refaug.extras.reproduction.material.rated_sets import Mask, ProofSet
from refaug.extras.reproduction.report.plots import curves
from refaug.extras.reproduction.report.report import ExperimentReport, agreement_table, cell, verdict
from refaug.metrics.base import Metric
from refaug.metrics.specification import build
from refaug.metrics.statistics.correlation import PARTIAL
from refaug.tables.reports.plotting import Plot
from refaug.tables.reports.report import Section
from refaug.tables.reports.table import Table

SCARCE: Final = "smooth=epsilon[1e-15]"  # of the published ladder
PUBLISHED: Final = {  # set → rung → Spearman of BLEU-2 and BLEU-4 on all rows (Gangal et al. 2021, SCARCE)
    "dailydialog_gupta": {
        reference_ladder.SINGLE: (0.040, 0.093),
        reference_ladder.HUMAN: (0.203, 0.281),
        "automatic": (0.275, 0.302),
        "both": (0.327, 0.357),
    }
}
FEWEST_CONTEXTS: Final = 30  # with several references; an interval over fewer says little
_ORDERS: Final = (2, 4)
_CURVES: Final = {
    "BLEU-2": "multi-bleu",
    "BLEU-2, no penalty": "multi-bleu:bp=none",
    "greedy": f"greedy:multi=best,{GREEDY}",
}

CLAIMS: Final = {  # claim → the rung that has to be above, and the rung that it has to beat
    "all references by people beat one": (reference_ladder.HUMAN, reference_ladder.SINGLE),
    "retrieved ones beside one by people beat that one alone": (
        reference_ladder.rung_name(reference_ladder.SINGLE, reference_kinds.ONE),
        reference_ladder.SINGLE,
    ),
    "retrieved ones beside one by people beat drawn ones of the same lengths": (
        reference_ladder.rung_name(reference_ladder.SINGLE, reference_kinds.ONE),
        reference_ladder.rung_name(reference_ladder.SINGLE, reference_kinds.MATCHED),
    ),
    "rated ones beside one by people beat the same weights dealt out anew": (
        reference_ladder.rung_name(reference_ladder.SINGLE, reference_kinds.RATED),
        reference_ladder.rung_name(reference_ladder.SINGLE, reference_kinds.SHUFFLED),
    ),
    "retrieved ones beside one by people beat all by people": (
        reference_ladder.rung_name(reference_ladder.SINGLE, reference_kinds.ONE),
        reference_ladder.HUMAN,
    ),
    "retrieved ones beside all by people beat these alone": (
        reference_ladder.rung_name(reference_ladder.HUMAN, reference_kinds.ONE),
        reference_ladder.HUMAN,
    ),
    "retrieved ones beside all by people beat drawn ones of the same lengths": (
        reference_ladder.rung_name(reference_ladder.HUMAN, reference_kinds.ONE),
        reference_ladder.rung_name(reference_ladder.HUMAN, reference_kinds.MATCHED),
    ),
    "rated ones beside all by people beat the same weights dealt out anew": (
        reference_ladder.rung_name(reference_ladder.HUMAN, reference_kinds.RATED),
        reference_ladder.rung_name(reference_ladder.HUMAN, reference_kinds.SHUFFLED),
    ),
}


def multi_reference(chain: Chain, sets: Sequence[ProofSet]) -> ExperimentReport:
    """Report on the ladder and the curves, for the sets that allow them; what is not available becomes a gap."""
    several, gaps = sets_with_several_references(sets)
    index, rater = (chain.main_index(), chain.rater()) if several else ("", None)
    ladders = [
        reference_ladder.Ladder(
            rated_set=rated_set,
            single=rated_set.with_first_gold(),
            beside_one=chain.pool(rated_set.with_first_gold(), index, rater),
            beside_all=chain.pool(rated_set, index, rater),
        )
        for rated_set in several
        if rater is not None
    ]
    vectors = chain.vectors_folder(chain.vectors())
    return multi_report(ladders, gaps, vectors, chain.settings, chain.progress)


def sets_with_several_references(sets: Sequence[ProofSet]) -> tuple[list[ProofSet], list[str]]:
    """Return the sets in which enough items have several references, reduced to these items; and the gaps."""
    usable_sets, gaps = list[ProofSet](), list[str]()
    for rated_set in sets:
        counts = np.array([len(test_item.references) for test_item in rated_set.items])
        several = np.flatnonzero(counts > 1)
        if len(several) >= FEWEST_CONTEXTS:
            usable_sets.append(_with_items(rated_set, counts > 1, int(counts[several].min())))
        else:
            gaps.append(
                f"{rated_set.name}: {len(several)} of {len(counts)} items have several references, too few to say "
                f"anything about their number (at least {FEWEST_CONTEXTS})"
            )
    return usable_sets, gaps


def _with_items(rated_set: ProofSet, chosen: Mask, most: int) -> ProofSet:
    """Return the set with the chosen items alone, each with at most that many references."""
    number = np.cumsum(chosen) - 1
    remaining = rated_set.restricted_to(chosen[rated_set.item])
    items = (test_item for test_item, is_chosen in zip(rated_set.items, chosen, strict=True) if is_chosen)
    return replace(
        remaining,
        items=tuple(reference_ladder.with_references(test_item, test_item.references[:most]) for test_item in items),
        item=number[remaining.item],
    )


# ── The report ────────────────────────────────────────────────────────────────────────────────────────────────────────


@dataclass(frozen=True, kw_only=True)
class _LadderResults:
    """All that was measured on one set."""

    rated_set: ProofSet
    at_scarce: tuple[reference_ladder.RungCorrelations, ...]
    all_rows: tuple[reference_ladder.RungCorrelations, ...]
    curves: tuple[reference_ladder.Curve, ...]


def multi_report(
    ladders: Sequence[reference_ladder.Ladder],
    gaps: Sequence[str],
    vectors: Path,
    settings: ProofSettings,
    progress: Progress,
) -> ExperimentReport:
    """Measure the ladders and curves, and report on them."""
    if not ladders:
        raise BadInput("; ".join(gaps), remedy="name a set with several references for each item")
    built = {name: build(text.replace(VECTORS, str(vectors))) for name, text in _CURVES.items()}
    ladder_results = [_measure_ladder(ladder, built, str(vectors), settings, progress) for ladder in ladders]
    return ExperimentReport(
        name="multi-reference",
        title="What further references are worth: by people, retrieved, and drawn",
        summary=[*_summary(ladder_results)],
        sections=[section for results in ladder_results for section in _sections(results)],
        notes=gaps,
        data={"ladders": {results.rated_set.name: _as_json(results) for results in ladder_results}},
    )


def _measure_ladder(
    ladder: reference_ladder.Ladder,
    built: Mapping[str, Metric],
    vectors: str,
    settings: ProofSettings,
    progress: Progress,
) -> _LadderResults:
    rated_set = ladder.rated_set
    everything = np.ones(len(rated_set.replies), dtype=np.bool_)
    progress.stage(f"the ladder of {rated_set.name}")
    at_scarce = [
        reference_ladder.correlate_rungs(ladder, f"upsilon-bleu:n={order},{SCARCE}", settings) for order in _ORDERS
    ]
    greedy = reference_ladder.correlate_rungs(
        ladder, f"upsilon-greedy:agg=best,{GREEDY.replace(VECTORS, vectors)}", settings
    )
    sample = ladder.beside_one.sample
    return _LadderResults(
        rated_set=rated_set,
        at_scarce=(*at_scarce, replace(greedy, metric="υ-greedy, the best of all")),
        all_rows=tuple(
            reference_ladder.correlate_rungs(ladder, f"upsilon-bleu:n={order},{SCARCE}", settings, rows=everything)
            for order in _ORDERS
        ),
        curves=tuple(
            reference_ladder.curve_by_subsets(rated_set, name, metric, settings, sample)
            for name, metric in built.items()
        ),
    )


def _sections(results: _LadderResults) -> Iterator[Section]:
    name, people = results.rated_set.name, len(results.rated_set.items[0].references)
    yield Section(
        title=f"{name}: the ladder at the smoothing of the published one",
        text=(
            f"Fair rows. {people} references by people for every item; {reference_ladder.K} further ones, "
            "without the utterance itself. "
            "Drawn ones are as many and as long, token by token.",
        ),
        tables=[
            *(
                agreement_table(rungs.correlations, _title(rungs), baseline=reference_ladder.SINGLE)
                for rungs in results.at_scarce
            ),
            _claims_table(results.at_scarce, "Claims"),
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
                _published_table(name, results.all_rows),
                *(
                    agreement_table(rungs.correlations, f"{_title(rungs)}, all rows", kinds=reference_ladder.BOTH)
                    for rungs in results.all_rows
                ),
            ),
        )
    yield Section(
        title=f"{name}: one reference by people after the other",
        text=(
            "The mean over all subsets of the references by people. Beside it one of them, with drawn replies as long "
            "as the others: what a number of references does by itself.",
        ),
        tables=[_curve_table(curve) for curve in results.curves],
        plots=[_plot(f"references-{name}-{number}.png", curve) for number, curve in enumerate(results.curves)],
    )


def _title(rungs: reference_ladder.RungCorrelations) -> str:
    order = rungs.metric.partition("n=")[2][:1]
    return f"BLEU-{order}, {SCARCE.partition('=')[2]}" if SCARCE in rungs.metric else rungs.metric


def _claims_table(rungs_by_metric: Sequence[reference_ladder.RungCorrelations], title: str) -> Table:
    rows = []
    for rungs in rungs_by_metric:
        for claim, (above, below) in CLAIMS.items():
            differences = [rungs.correlations.difference(above, below, kind) for kind in reference_ladder.KINDS]
            rows.append([f"{_title(rungs)}: {claim}", *map(cell, differences), verdict(differences)])
    return Table(
        title=title,
        columns=("claim", "difference of Spearman", "of partial Spearman", "verdict"),
        rows=rows,
        notes=("on the same draws of contexts; not shown: an interval holds 0",),
    )


def _published_table(name: str, rungs_by_metric: Sequence[reference_ladder.RungCorrelations]) -> Table:
    """Set our rungs beside the corresponding published ones."""
    published = PUBLISHED[name]
    beside = {
        reference_ladder.SINGLE: (reference_ladder.SINGLE,),
        reference_ladder.HUMAN: (reference_ladder.HUMAN,),
        "automatic": tuple(
            reference_ladder.rung_name(reference_ladder.SINGLE, kind)
            for kind in (reference_kinds.ONE, reference_kinds.RATED, reference_kinds.MATCHED)
        ),
        "both": tuple(
            reference_ladder.rung_name(reference_ladder.HUMAN, kind)
            for kind in (reference_kinds.ONE, reference_kinds.RATED, reference_kinds.MATCHED)
        ),
    }
    rows = [
        [
            ours,
            theirs,
            *(
                text
                for place, rungs in enumerate(rungs_by_metric)
                for text in (f"{published[theirs][place]:.3f}"[1:], cell(rungs.correlations.estimate(ours, "spearman")))
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


def _curve_table(curve: reference_ladder.Curve) -> Table:
    [set_name] = curve.correlations.sets
    last, first = curve.numbers[-1], curve.numbers[0]
    rows = []
    for kind in reference_ladder.KINDS:
        for label, name_of in (
            ("of the set", reference_ladder.own_name),
            ("one, and drawn ones", reference_ladder.drawn_name),
        ):
            numbers = [number for number in curve.numbers if name_of(number) in curve.correlations.names]
            rows.append(
                [
                    f"{_KIND_WORDS[kind]}: {label}",
                    *(
                        cell(curve.correlations.estimate(name_of(number), kind)) if number in numbers else "–"
                        for number in curve.numbers
                    ),
                ]
            )
        rows.append(
            [
                f"{_KIND_WORDS[kind]}: the former less the latter",
                *(_less_drawn(curve, number, kind) for number in curve.numbers),
            ]
        )
        rows.append(
            [
                f"{_KIND_WORDS[kind]}: less {first}",
                "",
                *(
                    cell(
                        curve.correlations.difference(
                            reference_ladder.own_name(number), reference_ladder.own_name(first), kind
                        )
                    )
                    for number in curve.numbers[1:]
                ),
            ]
        )
    left_out = curve.correlations.left_out[set_name]
    notes = [f"{curve.correlations.rows[set_name]:,} rows of {curve.correlations.contexts[set_name]:,} contexts"]
    notes += [f"{left_out:,} rows left out, without a score"] if left_out else []
    return Table(
        title=f"{curve.metric}: {first} to {last} references", columns=("", *curve.numbers), rows=rows, notes=notes
    )


_KIND_WORDS: Final = {"spearman": "Spearman", PARTIAL: "partial Spearman"}


def _less_drawn(curve: reference_ladder.Curve, number: str, kind: str) -> str:
    if number == curve.numbers[0]:
        return ""
    if reference_ladder.drawn_name(number) not in curve.correlations.names:
        return "–"
    return cell(
        curve.correlations.difference(reference_ladder.own_name(number), reference_ladder.drawn_name(number), kind)
    )


def _plot(file: str, curve: reference_ladder.Curve) -> Plot:
    numbers = curve.numbers
    return curves(
        file,
        f"{curve.metric} on {curve.correlations.sets[0]}: Spearman on fair rows by the number of references",
        [float(number) for number in numbers],
        {
            "of the set": [curve.own(number) for number in numbers],
            "one, and drawn ones": [curve.drawn(number) for number in numbers],
        },
        "references",
        title=curve.metric,
    )


# ── Words and figures ─────────────────────────────────────────────────────────────────────────────────────────────────


def _summary(ladder_results: Sequence[_LadderResults]) -> Iterator[str]:
    for results in ladder_results:
        name = results.rated_set.name
        for claim, pair in CLAIMS.items():
            verdicts = "; ".join(_claim_in_words(rungs, *pair) for rungs in results.at_scarce)
            yield f"{name}: that {claim}: {verdicts}."
        for curve in results.curves:
            yield _curve_in_words(name, curve, curve.numbers[-1])


def _claim_in_words(rungs: reference_ladder.RungCorrelations, above: str, below: str) -> str:
    differences = [rungs.correlations.difference(above, below, kind) for kind in reference_ladder.KINDS]
    return f"{_title(rungs)} {cell(differences[0])} ({verdict(differences)})"


def _curve_in_words(name: str, curve: reference_ladder.Curve, number: str) -> str:
    first = curve.numbers[0]
    gained = curve.correlations.difference(
        reference_ladder.own_name(number), reference_ladder.own_name(first), "spearman"
    )
    over = [
        curve.correlations.difference(reference_ladder.own_name(number), reference_ladder.drawn_name(number), kind)
        for kind in reference_ladder.KINDS
    ]
    return (
        f"{name}, {curve.metric}: Spearman {cell(curve.own(first))} with {first} reference and "
        f"{cell(curve.own(number))} with {number}, {cell(gained)} more; over drawn ones of the same lengths "
        f"{cell(over[0])}: {verdict(over)}."
    )


def _as_json(results: _LadderResults) -> dict[str, object]:
    return {
        "at_scarce": {_title(rungs): _rungs_json(rungs) for rungs in results.at_scarce},
        "all_rows": {_title(rungs): rungs.correlations.as_json(reference_ladder.BOTH) for rungs in results.all_rows},
        "published": {rung_: list(figures) for rung_, figures in PUBLISHED.get(results.rated_set.name, {}).items()},
        "curves": {curve.metric: curve.correlations.as_json(reference_ladder.KINDS) for curve in results.curves},
    }


def _rungs_json(rungs: reference_ladder.RungCorrelations) -> dict[str, object]:
    return {
        **rungs.correlations.as_json(reference_ladder.KINDS),
        "claims": {
            claim: {kind: rungs.correlations.difference(*pair, kind).as_json() for kind in reference_ladder.KINDS}
            for claim, pair in CLAIMS.items()
        },
    }
