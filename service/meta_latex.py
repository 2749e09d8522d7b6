"""What `refaug meta` found as tables for a paper, in LaTeX with nothing but booktabs."""

from __future__ import annotations

import unicodedata
from collections.abc import Sequence
from typing import Final

from core.text import harmless
from metrics.resampling import Estimate
from service.meta_records import AgreementRow, MeanRow, MetaResult, RowKind, SetResult
from service.meta_text import INDEPENDENT, ROWS_IN_WORDS, TURNED, all_signatures, fixed, slug

_LATEX_SIGNS: Final = {
    "\\": r"\textbackslash{}",
    "{": r"\{",
    "}": r"\}",
    "$": r"\$",
    "&": r"\&",
    "#": r"\#",
    "%": r"\%",
    "_": r"\_",
    "^": r"\textasciicircum{}",
    "~": r"\textasciitilde{}",
    "<": r"\textless{}",
    ">": r"\textgreater{}",
    "|": r"\textbar{}",
    '"': "{''}",
    "'": "{'}",  # in braces, what would become one sign with its neighbour
    "`": "{`}",
    "-": "{-}",
}
_OGONEK: Final = "\u0328"  # the one accent that the default encoding lacks
_BREAK_AFTER: Final = frozenset(",=|/;")
_WIDE_NAME: Final = 26  # characters; a column of longer names gets a width, and lines break


def as_latex(result: MetaResult) -> str:
    r"""Tables for a paper: one per set, one for the mean over sets, one of signatures; only booktabs is needed.

    The best metric is bold where it agrees better than the baseline and its Holm p says that this is no accident;
    nothing is bold where the baseline itself is best. Letters with accents stay, other signs that a plain pdfLaTeX
    cannot set are written as their code points, `[U+6771]`.
    """
    tables = [
        _latex_table(found.rows, _latex_caption(found, result), f"{number}-{slug(found.name)}", result)
        for number, found in enumerate(result.sets, start=1)
    ]
    if result.mean is not None:
        caption = _latex_mean_caption(result.mean.sets, result)
        tables.append(_latex_table(result.mean.rows, caption, "mean", result))
    return "\n".join([r"% needs \usepackage{booktabs}", *tables, _latex_signatures(result)])


def _latex(text: str, *, breaks: bool = False) -> str:
    """Text that LaTeX sets as it is written; with `breaks`, lines may end after separators."""
    parts = []
    for one in harmless(text):
        sign = _LATEX_SIGNS.get(one) or (one if _latex_knows(one) else f"[U+{ord(one):04X}]")
        parts.append(sign + (r"\allowbreak{}" if breaks and one in _BREAK_AFTER else ""))
    return "".join(parts)


def _latex_knows(one: str) -> bool:
    """ASCII, and letters of Latin-1 and Latin Extended-A that are an ASCII letter with an accent."""
    if one.isascii():
        return True
    parts = unicodedata.normalize("NFD", one)
    return "À" <= one <= "ſ" and parts[0].isascii() and _OGONEK not in parts


def _latex_table(rows: Sequence[AgreementRow | MeanRow], caption: str, label: str, result: MetaResult) -> str:
    best, wide = _best(rows, result), any(len(row.name) > _WIDE_NAME for row in rows)
    with_williams = any(isinstance(row, AgreementRow) for row in rows)
    columns = r"p{0.17\linewidth}" if wide else "l"
    span = f"{result.settings.confidence * 100:g}\\,\\%"
    head = [
        "Metric",
        rf"$\rho$ [{span}]",
        rf"$\Delta\rho$ [{span}]",
        r"$p_{\mathrm{Holm}}$",
        *([r"$p_{\mathrm{W}}$"] if with_williams else []),
        "$r$",
        r"$\tau$",
        r"$\rho_{\mathrm{length}}$",
    ]
    lines = [
        r"\begin{table}",
        r"\centering\footnotesize\setlength{\tabcolsep}{3pt}",
        rf"\caption{{{caption}}}\medskip",
        rf"\label{{tab:meta-{label}}}",
        rf"\begin{{tabular}}{{@{{}}{columns}lr{'r' * (len(head) - 3)}@{{}}}}",
        r"\toprule",
        " & ".join(head) + r" \tabularnewline",
    ]
    previous = None
    for row in rows:
        if row.kind is not previous:
            lines.append(r"\midrule")
        previous = row.kind
        cells = _latex_cells(row, bold=row is best, williams=with_williams)
        lines.append(" & ".join([_latex_name(row, wide=wide), *cells]) + r" \tabularnewline")
    return "\n".join([*lines, r"\bottomrule", r"\end{tabular}", r"\end{table}", ""])


def _best(rows: Sequence[AgreementRow | MeanRow], result: MetaResult) -> AgreementRow | MeanRow | None:
    """The metric of highest Spearman, if it is one that beats the baseline after Holm."""
    known = [row for row in rows if row.kind is RowKind.METRIC and row.spearman.value is not None]
    best = max(known, key=lambda row: row.spearman.value or 0.0, default=None)
    if best is None:
        return None
    p, difference = best.holm.get("spearman"), best.differences.get("spearman")
    is_better = difference is not None and difference.value is not None and difference.value > 0
    return best if is_better and p is not None and p < _alpha(result) else None


def _alpha(result: MetaResult) -> float:
    """The level that goes with the intervals, without what subtraction adds: 0.05, not 0.05000000000000004."""
    return round(1 - result.settings.confidence, 10)


def _latex_name(row: AgreementRow | MeanRow, *, wide: bool) -> str:
    name = _latex(row.name, breaks=wide) + (r" (turned)" if row.turned else "")
    return rf"\raggedright {name}" if wide else name


def _latex_cells(row: AgreementRow | MeanRow, *, bold: bool, williams: bool) -> list[str]:
    difference = row.differences.get("spearman")
    test = row.williams.get("spearman") if isinstance(row, AgreementRow) else None
    return [
        _latex_estimate(row.spearman, bold=bold),
        "" if difference is None else _latex_estimate(difference),
        _latex_p(row.holm.get("spearman")),
        *([_latex_p(None if test is None else test.p)] if williams else []),
        *(_latex_number(one.value) for one in (row.pearson, row.kendall, row.partial_spearman)),
    ]


def _latex_estimate(one: Estimate, *, bold: bool = False) -> str:
    number = _latex_number(one.value, bold=bold)
    if one.low is None or one.high is None:
        return number
    return rf"{number} ${{\scriptstyle[{fixed(one.low, 2)}, {fixed(one.high, 2)}]}}$"


def _latex_number(value: float | None, *, bold: bool = False) -> str:
    if value is None:
        return "--"
    return rf"$\mathbf{{{fixed(value)}}}$" if bold else f"${fixed(value)}$"


def _latex_p(value: float | None) -> str:
    if value is None:
        return ""
    return "$<0.001$" if value < 0.001 else f"${value:.3f}$"


def _latex_caption(found: SetResult, result: MetaResult) -> str:
    counts = found.counts
    rows = f"{counts.used:,} rows of {counts.contexts:,} contexts and {counts.systems:,} systems"
    human = [row for row in found.rows if row.kind is RowKind.HUMAN]
    people = f" Human: split-half reliability, stepped up, over {human[0].n:,} rows." if human else ""
    return (
        f"Agreement with the mean rating on {_latex(found.name)}: {rows} ({_latex_rows(result)}). "
        f"{_latex_how(result)} $p_{{\\mathrm{{W}}}}$: {INDEPENDENT}.{people}"
    )


def _latex_mean_caption(sets: Sequence[str], result: MetaResult) -> str:
    names = ", ".join(_latex(name) for name in sets)
    return (
        f"Agreement with the mean rating, mean over {names}, each of which counts the same ({_latex_rows(result)}). "
        f"{_latex_how(result)}"
    )


def _latex_rows(result: MetaResult) -> str:
    return _latex(ROWS_IN_WORDS[result.settings.rows])


def _latex_how(result: MetaResult) -> str:
    settings = result.settings
    turned = f" {TURNED.capitalize()}." if any(one.turned for one in result.metrics) else ""
    return (
        rf"$\rho$: Spearman, $r$: Pearson, $\tau$: Kendall, $\rho_{{\mathrm{{length}}}}$: Spearman with reply length "
        rf"held fixed. $\Delta\rho$: less {_latex(result.baseline)}, the baseline. Intervals and $p$: bootstrap over "
        f"contexts, {settings.draws:,} draws, seed {settings.seed}. Bold: the best metric, where it is better than the "
        f"baseline at $p_{{\\mathrm{{Holm}}}} < {_alpha(result):g}$.{turned}"
    )


def _latex_signatures(result: MetaResult) -> str:
    rows = [
        rf"\raggedright {_latex(name, breaks=True)} & \raggedright {_latex(one.short, breaks=True)} "
        r"\tabularnewline"
        for name, one in all_signatures(result)
    ]
    return "\n".join(
        [
            r"\begin{table}",
            r"\centering\footnotesize",
            r"\caption{Signatures of the metrics.}\medskip",
            r"\label{tab:meta-signatures}",
            r"\begin{tabular}{@{}p{0.24\linewidth}p{0.7\linewidth}@{}}",
            r"\toprule",
            r"Metric & Signature \tabularnewline",
            r"\midrule",
            *rows,
            r"\bottomrule",
            r"\end{tabular}",
            r"\end{table}",
            "",
        ]
    )
