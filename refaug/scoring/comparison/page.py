"""A comparison as one HTML page: tests, and improved and regressed replies with what changed in them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from refaug.core.version import VERSION
from refaug.scoring.comparison import wording
from refaug.scoring.comparison.comparison import PairComparison, RunComparison
from refaug.scoring.comparison.reply_changes import Direction, ReferenceChange, ReplyChange, ReplySide
from refaug.tables.reports.html_page import (
    CardList,
    CardRow,
    ReplyCard,
    cut_text,
    references_title,
    report_page,
)
from refaug.tables.reports.report import Part, PartForm, Report, Section
from refaug.tables.reports.table import Table

_TITLES: Final = {
    Direction.IMPROVED: "Improved",
    Direction.REGRESSED: "Regressed",
    Direction.UNCHANGED: "As before",
    Direction.SCORED_NOW: "Only scored in the second",
    Direction.UNSCORED_NOW: "Only scored in the first",
    Direction.UNSCORED: "Without a score",
}


def page(comparison: RunComparison) -> str:
    """Return the page; it needs no other file and no script."""
    rows = [wording.test_cells(pair, test) for pair in comparison.pairs for test in pair.tests]
    signatures = [
        (which, pair.metric, line)
        for pair in comparison.pairs
        for which, line in (("first", pair.first_signature), ("second", pair.second_signature))
    ]
    differences = [
        (
            f"{each.metric}: {each.what}" if each.metric else each.what,
            each.first or "—",
            each.second or "—",
            "yes" if each.matters else "no",
        )
        for each in comparison.differences
    ]
    made = Section(
        title="How it was made",
        anchor="how",
        link="how it was made",
        text=[
            f"By refaug {VERSION}, from the score files alone; refaug score verify makes the scores of a file again."
        ],
        tables=[
            Table("Signatures", ("file", "metric", "signature"), list(dict.fromkeys(signatures)), text=True),
            Table(
                "What differs between the files",
                ("what", "first", "second", "matters"),
                differences or [("nothing", "", "", "")],
                text=True,
            ),
        ],
    )
    return report_page(
        Report(
            title="Two runs side by side",
            summary=[f"{wording.names_text(comparison)}: second minus first; {wording.draws_text(comparison)}."],
            warnings=comparison.warnings,
            parts=[
                Part(PartForm.SENTENCES, [wording.verdict_text(pair) for pair in comparison.pairs]),
                Part(PartForm.TABLE, Table("Tests", wording.TEST_COLUMNS, rows, notes=_test_notes(comparison))),
            ],
            sections=[*(_section(number, pair, comparison) for number, pair in enumerate(comparison.pairs)), made],
        )
    )


def _test_notes(comparison: RunComparison) -> list[str]:
    return [
        "The interval and p bootstrap are of the paired bootstrap, p randomisation of approximate randomisation; "
        f"Holm: the latter over {len(comparison.pairs):,} comparisons. A difference is shown where that is below "
        f"{1 - comparison.settings.confidence:.4g}."
    ]


def _section(number: int, pair: PairComparison, comparison: RunComparison) -> Section:
    limit = comparison.changes.limit
    intro = [f"{wording.counts_text(pair)}."]
    if limit is not None:
        intro.append(f"At most {limit:,} of each are listed, the largest change first.")
    lists = [
        CardList(title=f"{_TITLES[direction]}: {pair.counts[direction]:,}", cards=cards)
        for direction in comparison.changes.directions
        for cards in [[_card(change, pair) for change in pair.changes if change.direction is direction]]
        if cards
    ]
    return Section(
        anchor=f"pair-{number}",
        title=f"{pair.metric}, {wording.systems_text(pair)}",
        text=intro,
        parts=[Part(PartForm.CARD_LISTS, lists)],
    )


def _card(change: ReplyChange, pair: PairComparison) -> ReplyCard:
    first, second = pair.first_system, pair.second_system
    if first == second:
        first, second = f"{first}, first", f"{second}, second"
    return ReplyCard(
        heading=f"{change.id}: {wording.score_text(change.change, pair.scale, signed=True)}",
        utterance=None if change.utterance is None else cut_text(change.utterance),
        rows=[
            CardRow(
                system=name,
                score=wording.score_text(side.score, pair.scale),
                text=_reply_text(side),
                evidence=_evidence_text(side),
            )
            for name, side in ((first, change.first), (second, change.second))
        ],
        references=_references_table(change.references),
    )


def _reply_text(side: ReplySide) -> str:
    if side.text is not None:
        return cut_text(side.text) if side.text.strip() else "(empty)"
    return f"no score: {side.problem}" if side.problem else "(the file has no texts)"


def _evidence_text(side: ReplySide) -> str:
    if side.references is None:
        return ""
    thin = ", thin evidence" if side.is_thin else ""
    return f"{side.references:,} references, {side.above_zero or 0:,} of positive weight beside the gold{thin}"


def _references_table(references: Sequence[ReferenceChange]) -> Table | None:
    if not references:
        return None
    has_sources = any(reference.source for reference in references)
    columns = ("reference", *(("source",) if has_sources else ()), "weight", "credit, first", "credit, second")
    rows = [
        (
            cut_text(reference.text),
            *((reference.source or "",) if has_sources else ()),
            _before_and_now(reference.first_weight, reference.second_weight),
            _credit(reference.first_credit),
            _credit(reference.second_credit),
        )
        for reference in references
    ]
    return Table(title=references_title(len(rows)), columns=columns, rows=rows)


def _before_and_now(first: float | None, second: float | None) -> str:
    if first == second:
        return f"{first:.2f}" if first is not None else "—"
    return " → ".join("absent" if weight is None else f"{weight:.2f}" for weight in (first, second))


def _credit(credit: float | None) -> str:
    return "—" if not credit else f"{credit:.2f}"
