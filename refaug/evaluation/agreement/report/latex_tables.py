"""Write the result of `refaug meta` as LaTeX tables for a paper, which need only booktabs."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import groupby
from typing import Final

from refaug.evaluation.agreement.records import AgreementRow, MeanRow, MetaResult, RowKind, SetResult
from refaug.evaluation.agreement.report.wording import INDEPENDENT, ROWS_IN_WORDS, TURNED, all_signatures, fixed, slug
from refaug.evaluation.reports.latex_text import escape_latex, latex_table
from refaug.metrics.statistics.correlation import Spread
from refaug.metrics.statistics.resampling import Estimate

_WIDE_NAME: Final = 26  # characters; a column of longer names gets a fixed width, and lines break


def as_latex(meta_result: MetaResult) -> str:
    """Return tables for a paper: two or three per set, one for the mean over sets, and one of signatures.

    Those of a set are the agreement, and with several annotators the agreement with each, and the annotators by κ.
    The best metric is bold where its agreement is significantly better than the baseline's by Holm's p; nothing is bold
    where the baseline is best. Letters with accents stay; other signs that a plain pdfLaTeX cannot set are written as
    their code points, `[U+6771]`.
    """
    tables = list[str]()
    for number, set_result in enumerate(meta_result.sets, start=1):
        label = f"{number}-{slug(set_result.name)}"
        tables.append(_latex_table(set_result.rows, _latex_caption(set_result, meta_result), label, meta_result))
        tables += _latex_annotators(set_result, label)
    if meta_result.mean is not None:
        caption = _latex_mean_caption(meta_result.mean.sets, meta_result)
        tables.append(_latex_table(meta_result.mean.rows, caption, "mean", meta_result))
    return "\n".join([r"% needs \usepackage{booktabs}", *tables, _latex_signatures(meta_result)])


def _latex_table(rows: Sequence[AgreementRow | MeanRow], caption: str, label: str, meta_result: MetaResult) -> str:
    best, wide = _best(rows, meta_result), any(len(row.name) > _WIDE_NAME for row in rows)
    with_williams = any(isinstance(row, AgreementRow) for row in rows)
    columns = r"p{0.17\linewidth}" if wide else "l"
    span = f"{meta_result.settings.confidence * 100:g}\\,\\%"
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
    groups = [
        [[_latex_name(row, wide=wide), *_latex_cells(row, bold=row is best, williams=with_williams)] for row in of_kind]
        for _, of_kind in groupby(rows, key=lambda row: row.kind)
    ]
    return latex_table(caption, f"meta-{label}", f"{columns}lr{'r' * (len(head) - 3)}", head, groups, is_tight=True)


def _latex_annotators(set_result: SetResult, label: str) -> list[str]:
    """Return the agreement with each annotator at most, at least and on average, and the annotators by κ."""
    figures, name = set_result.annotators, escape_latex(set_result.name)
    if len(figures.kept) < 2:
        return []
    rows = [
        [_latex_name(row, wide=False), *_latex_spread(row.by_annotator), *_latex_spread(row.by_annotator_pearson)]
        for row in set_result.rows
        if row.by_annotator is not None
    ]
    pairs = ["Annotators", *_latex_spread(figures.pairs["spearman"]), *_latex_spread(figures.pairs["pearson"])]
    columns = [rf"${sign}_{{\mathrm{{{which}}}}}$" for sign in (r"\rho", "r") for which in ("max", "min", "mean")]
    caption = (
        f"Agreement with each of {len(figures.kept):,} annotators on {name}: the highest, the lowest and the mean of "
        r"Spearman's $\rho$ and Pearson's $r$. Annotators: every pair of annotators with each other."
    )
    tables = [_latex_plain_table(caption, f"{label}-annotators", ["Metric", *columns], [rows, [pairs]])]
    if not (levels := figures.kappa_shares):
        return tables
    counts = [
        [f"Pairs, of {levels[0].share.pairs:,}", *(f"{level.share.above:,}" for level in levels)],
        ["Share of pairs", *(_latex_number(level.share.share) for level in levels)],
        ["Annotators", *(f"{len(level.share.annotators):,}" for level in levels)],
    ]
    by_metric = [
        [escape_latex(metric), *(_latex_number(level.correlations[metric]["spearman"].value) for level in levels)]
        for metric in levels[0].correlations
    ]
    caption = (
        rf"Pairs of annotators with a Cohen's $\kappa$ (quadratic weights) above each threshold on {name}, the "
        r"annotators whose mean $\kappa$ with the others reaches it, and Spearman's $\rho$ of each metric with the "
        "mean rating of these."
    )
    head = [r"$\kappa >$", *(f"${level.share.threshold:g}$" for level in levels)]
    return [*tables, _latex_plain_table(caption, f"{label}-kappa", head, [counts, by_metric])]


def _latex_spread(spread: Spread | None) -> list[str]:
    """Return the highest, the lowest and the mean, in the order of published tables."""
    extremes = (None, None, None) if spread is None else (spread.highest, spread.lowest, spread.mean)
    return [_latex_number(figure) for figure in extremes]


def _latex_plain_table(caption: str, label: str, head: Sequence[str], groups: Sequence[Sequence[Sequence[str]]]) -> str:
    """Return a table of figures behind a column of names."""
    return latex_table(caption, f"meta-{label}", "l" + "r" * (len(head) - 1), head, groups, is_tight=True)


def _best(rows: Sequence[AgreementRow | MeanRow], meta_result: MetaResult) -> AgreementRow | MeanRow | None:
    """Return the metric of highest Spearman, if it beats the baseline after Holm's correction."""
    candidates = [row for row in rows if row.kind is RowKind.METRIC and row.spearman.value is not None]
    best = max(candidates, key=lambda row: row.spearman.value or 0.0, default=None)
    if best is None:
        return None
    p, difference = best.holm.get("spearman"), best.differences.get("spearman")
    is_better = difference is not None and difference.value is not None and difference.value > 0
    return best if is_better and p is not None and p < _alpha(meta_result) else None


def _alpha(meta_result: MetaResult) -> float:
    """Return the significance level of the intervals, without rounding error: 0.05, not 0.05000000000000004."""
    return round(1 - meta_result.settings.confidence, 10)


def _latex_name(row: AgreementRow | MeanRow, *, wide: bool) -> str:
    name = escape_latex(row.name, breaks=wide) + (r" (turned)" if row.turned else "")
    return rf"\raggedright {name}" if wide else name


def _latex_cells(row: AgreementRow | MeanRow, *, bold: bool, williams: bool) -> list[str]:
    difference = row.differences.get("spearman")
    test = row.williams.get("spearman") if isinstance(row, AgreementRow) else None
    return [
        _latex_estimate(row.spearman, bold=bold),
        "" if difference is None else _latex_estimate(difference),
        _latex_p(row.holm.get("spearman")),
        *([_latex_p(None if test is None else test.p)] if williams else []),
        *(_latex_number(figure.value) for figure in (row.pearson, row.kendall, row.partial_spearman)),
    ]


def _latex_estimate(estimate: Estimate, *, bold: bool = False) -> str:
    number = _latex_number(estimate.value, bold=bold)
    if estimate.low is None or estimate.high is None:
        return number
    return rf"{number} ${{\scriptstyle[{fixed(estimate.low, 2)}, {fixed(estimate.high, 2)}]}}$"


def _latex_number(figure: float | None, *, bold: bool = False) -> str:
    if figure is None:
        return "--"
    return rf"$\mathbf{{{fixed(figure)}}}$" if bold else f"${fixed(figure)}$"


def _latex_p(p: float | None) -> str:
    if p is None:
        return ""
    return "$<0.001$" if p < 0.001 else f"${p:.3f}$"


def _latex_caption(set_result: SetResult, meta_result: MetaResult) -> str:
    counts = set_result.counts
    rows = f"{counts.used:,} rows of {counts.contexts:,} contexts and {counts.systems:,} systems"
    human = [row for row in set_result.rows if row.kind is RowKind.HUMAN]
    people = f" Human: split-half reliability, stepped up, over {human[0].n:,} rows." if human else ""
    return (
        f"Agreement with the mean rating on {escape_latex(set_result.name)}: {rows} ({_latex_rows(meta_result)}). "
        f"{_latex_how(meta_result)} $p_{{\\mathrm{{W}}}}$: {INDEPENDENT}.{people}"
    )


def _latex_mean_caption(sets: Sequence[str], meta_result: MetaResult) -> str:
    names = ", ".join(escape_latex(name) for name in sets)
    return (
        f"Agreement with the mean rating, mean over {names}, each of which counts the same "
        f"({_latex_rows(meta_result)}). {_latex_how(meta_result)}"
    )


def _latex_rows(meta_result: MetaResult) -> str:
    return escape_latex(ROWS_IN_WORDS[meta_result.settings.rows])


def _latex_how(meta_result: MetaResult) -> str:
    settings = meta_result.settings
    turned = f" {TURNED.capitalize()}." if any(metric.turned for metric in meta_result.metrics) else ""
    return (
        rf"$\rho$: Spearman, $r$: Pearson, $\tau$: Kendall, $\rho_{{\mathrm{{length}}}}$: Spearman with reply length "
        rf"held fixed. $\Delta\rho$: less {escape_latex(meta_result.baseline)}, the baseline. Intervals and $p$: "
        f"bootstrap over contexts, {settings.draws:,} draws, seed {settings.seed}. Bold: the best metric, where it is "
        f"better than the baseline at $p_{{\\mathrm{{Holm}}}} < {_alpha(meta_result):g}$.{turned}"
    )


def _latex_signatures(meta_result: MetaResult) -> str:
    rows = [
        [rf"\raggedright {escape_latex(text, breaks=True)}" for text in (name, signature.short)]
        for name, signature in all_signatures(meta_result)
    ]
    columns = r"p{0.24\linewidth}p{0.7\linewidth}"
    return latex_table("Signatures of the metrics.", "meta-signatures", columns, ("Metric", "Signature"), [rows])
