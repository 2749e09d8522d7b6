"""The tests of a comparison as a LaTeX table for a paper, which needs only booktabs."""

from __future__ import annotations

from typing import Final

from refaug.core.text.characters import make_printable
from refaug.evaluation.comparison.comparison import PairComparison, RunComparison
from refaug.evaluation.comparison.report.wording import names_text, p_text, score_text, systems_text
from refaug.evaluation.reports.latex_text import escape_latex, latex_table

_HEAD: Final = ("Metric", "Systems", "Level", "First", "Second", r"$\Delta$", r"$p_{\mathrm{Holm}}$")


def as_latex(comparison: RunComparison) -> str:
    """Return the table: a row for each metric and pair of systems; a difference that is shown is bold."""
    drawn = comparison.settings
    caption = (
        f"Differences of {escape_latex(names_text(comparison))}: second minus first, with intervals of "
        f"{drawn.confidence * 100:g}\\,\\% by the paired bootstrap ({drawn.draws:,} draws, seed {drawn.seed}); "
        "$p$ by approximate randomisation, adjusted by Holm over all rows. Bold: shown."
    )
    remarks = [] if comparison.is_comparable else [f"% {make_printable(line)}" for line in comparison.warnings]
    if not comparison.is_comparable:
        caption += " \\textbf{The scores are not comparable.}"
    signatures = dict.fromkeys(
        line for pair in comparison.pairs for line in (pair.first_signature, pair.second_signature)
    )
    return "\n".join(
        [
            r"% needs \usepackage{booktabs}",
            *remarks,
            *(f"% {make_printable(line)}" for line in signatures),
            latex_table(caption, "comparison", "lllrrrr", _HEAD, [map(_row, comparison.pairs)]),
        ]
    )


def _row(pair: PairComparison) -> list[str]:
    test = pair.main
    difference = score_text(test.difference, pair.scale, signed=True)
    if test.interval is not None:
        low, high = (score_text(bound, pair.scale) for bound in test.interval)
        difference = f"{difference}\\ [{low}, {high}]"
    shown = rf"\mathbf{{{difference}}}" if pair.verdict != "not shown" else difference
    names = escape_latex(systems_text(pair).replace(" → ", " / "))
    return [
        escape_latex(pair.metric),
        names,
        test.level.value,
        f"${score_text(test.first, pair.scale)}$" if test.first is not None else "--",
        f"${score_text(test.second, pair.scale)}$" if test.second is not None else "--",
        f"${shown}$" if test.difference is not None else "--",
        f"${p_text(test.holm_p)}$" if test.holm_p is not None else "--",
    ]
