"""Write the result of `refaug agreement` as CSV, as tables for LaTeX, or as a page with plots in a folder.

Nothing is computed here but what a plot needs, and no file contains a time: equal results give equal bytes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, astuple, dataclass, fields, replace
from pathlib import Path
from typing import Any, Final

from refaug.agreement.records import AgreementRow, MeanRow, MetaResult, RowKind, SetResult
from refaug.agreement.report.wording import (
    INDEPENDENT,
    KINDS,
    ROWS_IN_WORDS,
    TURNED,
    all_signatures,
    annotator,
    fixed,
    group_starts,
    pair_label,
    slug,
)
from refaug.core.files import make_folder, require_folder
from refaug.core.version import VERSION
from refaug.metrics.signature import Signature
from refaug.metrics.statistics.correlation import Correlation, Spread
from refaug.metrics.statistics.resampling import Estimate
from refaug.tables.reports.table import Table, csv_text, escape_latex

# ── Write the result of `refaug agreement` as LaTeX tables for a paper, which need only booktabs ──────────────────────

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
    cells = [
        [_latex_name(row, wide=wide), *_latex_cells(row, bold=row is best, williams=with_williams)] for row in rows
    ]
    table = Table(caption, head, cells, apart=group_starts(rows))
    return table.as_latex(f"{columns}lr{'r' * (len(head) - 3)}", f"meta-{label}", is_tight=True)


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
    tables = [_latex_plain_table(caption, f"{label}-annotators", ["Metric", *columns], rows, [pairs])]
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
    return [*tables, _latex_plain_table(caption, f"{label}-kappa", head, counts, by_metric)]


def _latex_spread(spread: Spread | None) -> list[str]:
    """Return the highest, the lowest and the mean, in the order of published tables."""
    extremes = (None, None, None) if spread is None else (spread.highest, spread.lowest, spread.mean)
    return [_latex_number(figure) for figure in extremes]


def _latex_plain_table(
    caption: str, label: str, head: Sequence[str], rows: Sequence[Sequence[str]], further: Sequence[Sequence[str]]
) -> str:
    """Return a table of figures behind a column of names, with further rows below a line."""
    table = Table(caption, head, [*rows, *further], apart=frozenset([len(rows)]))
    return table.as_latex("l" + "r" * (len(head) - 1), f"meta-{label}", is_tight=True)


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
    return Table("Signatures of the metrics.", ("Metric", "Signature"), rows).as_latex(columns, "meta-signatures")


# ── Write the result of `refaug agreement` as CSV, as tables for LaTeX, or as a page with plots in a folder ───────────


@dataclass(frozen=True, kw_only=True)
class _CsvLine:
    """One line of the CSV; the fields are its columns, in order."""

    scope: str
    set: str | None = None
    kind: str
    metric: str | None = None
    signature: str | None = None
    baseline: str | None = None
    turned: bool | None = None
    statistic: str = ""
    of: str | None = None
    value: float | None = None
    low: float | None = None
    high: float | None = None
    p: float | None = None
    holm_p: float | None = None
    n: int | None = None
    note: str | None = None


def as_csv(meta_result: MetaResult) -> str:
    r"""Every figure of the result, one a line, as pandas and R read it: a header, commas, quotes where needed, `\n`.

    | column | holds |
    |---|---|
    | scope | `set`; `mean` (over all sets); `run` (settings) |
    | set | name of the set; empty in other scopes |
    | kind | `metric`, `length` or `human` (figures of a row); `golds`, `annotators`, `ratings`, `count`; `setting` |
    | metric, signature | the metric as the user wrote it, and its short signature; for `mean`, if all sets share it |
    | baseline | in lines of differences, the metric that this one is compared with |
    | turned | whether the sign was turned, for lower scores are better |
    | statistic | see below |
    | of | which annotator, system, size of groups or code of a problem, where the statistic has several |
    | value, low, high | the figure and its interval; empty where there is none |
    | p, holm_p | p, and p adjusted over all metrics compared with the baseline |
    | n | rows, systems or groups that the figure is about |
    | note | why something is empty, or what to bear in mind |

    Statistics of rows: `spearman`, `pearson`, `kendall`, `partial_spearman` (length held fixed);
    `spearman_difference`, `spearman_williams` (value: t); `annotator_spearman`, `without_system_spearman` and these
    with `_mean`, `_lowest`, `_highest`; `without_system_change` (of: whose absence changes most); `system_spearman`
    and `system_score` (relative to the context's mean); `group_spearman`. Where it says spearman there are also
    pearson and kendall, as far as they were computed. The p of correlations assumes independent rows. Of annotators:
    `pair_spearman` (of two), and by threshold of κ `kappa_share` (of the pairs, those above; n: pairs),
    `kappa_annotators` (who remain; n: rows) and `kappa_spearman` (a metric with these); as well with pearson.
    `mean_rating` and `mean_score` of golds are those of the rows
    that rate the gold itself, beside the fair rows. Numbers are written so that they read back as the same number. A
    text that a spreadsheet would take for a formula (=, +, -, @, a tab or a carriage return first) has a ' before it.
    """
    return csv_text([column.name for column in fields(_CsvLine)], map(astuple, _lines(meta_result)))


def _lines(meta_result: MetaResult) -> Iterator[_CsvLine]:
    for set_result in meta_result.sets:
        for row in set_result.rows:
            common = _common_line(row, set_result.signatures.get(row.name), scope="set", name=set_result.name)
            yield from _agreement_lines(row, common, meta_result.baseline)
            yield from _further_lines(row, common)
        yield from _gold_lines(set_result)
        yield from _annotator_lines(set_result)
        yield from _rating_lines(set_result)
        yield from _count_lines(set_result)
    if meta_result.mean is not None:
        for mean in meta_result.mean.rows:
            signature = meta_result.signature(mean.name) if mean.kind is RowKind.METRIC else None
            common = _common_line(mean, signature, scope="mean", name=None)
            yield from _agreement_lines(mean, common, meta_result.baseline)
    yield from _setting_lines(meta_result)


def _common_line(row: AgreementRow | MeanRow, signature: Signature | None, *, scope: str, name: str | None) -> _CsvLine:
    """Return a line with the fields that all figures of a row share."""
    is_metric = row.kind is RowKind.METRIC
    return _CsvLine(
        scope=scope,
        set=name,
        kind=row.kind.value,
        metric=row.name if is_metric else None,
        signature=signature.short if signature is not None else None,
        turned=row.turned if is_metric else None,
    )


def _agreement_lines(row: AgreementRow | MeanRow, common: _CsvLine, baseline: str) -> Iterator[_CsvLine]:
    """Yield the figures that rows of sets and rows of the mean share."""
    for kind in KINDS:
        p = row.p_values.get(kind) if isinstance(row, AgreementRow) else None
        yield replace(_estimate_line(common, kind, getattr(row, kind), row.n), p=p)
        difference = row.differences.get(kind)
        if difference is not None:
            line = _estimate_line(common, f"{kind}_difference", difference, row.n)
            yield replace(line, baseline=baseline, holm_p=row.holm.get(kind))
    if row.kind is RowKind.HUMAN:
        return
    for statistic, figure in (("kendall", row.kendall), ("partial_spearman", row.partial_spearman)):
        if isinstance(figure, Correlation):
            yield _correlation_line(common, statistic, figure)
        else:
            yield _estimate_line(common, statistic, figure, row.n)
    tests = row.williams if isinstance(row, AgreementRow) else {}
    for kind, test in tests.items():
        note = test.note if test.why is None else f"{test.why}; {test.note}"
        statistic = f"{kind}_williams"
        yield replace(common, statistic=statistic, baseline=baseline, value=test.t, p=test.p, n=test.n, note=note)


def _further_lines(row: AgreementRow, common: _CsvLine) -> Iterator[_CsvLine]:
    """Yield the figures that only rows of sets have."""
    if row.by_annotator is not None:
        yield from _spread_lines(common, "annotator_spearman", row.by_annotator, annotator)
    if row.by_annotator_pearson is not None:
        yield from _spread_lines(common, "annotator_pearson", row.by_annotator_pearson, annotator)
    if row.without_system is not None:
        without = row.without_system
        yield from _spread_lines(common, "without_system_spearman", without.spread, str)
        if without.most is not None:
            yield replace(common, statistic="without_system_change", of=without.most, value=without.change)
    if row.system_level is not None:
        level = row.system_level
        for kind in (*KINDS, "kendall"):
            yield _correlation_line(common, f"system_{kind}", level.by_kind[kind])
        for system, score in zip(level.systems, level.scores, strict=True):
            yield replace(common, statistic="system_score", of=str(system), value=score)
    for group in row.groups:
        for kind in KINDS:
            line = _estimate_line(common, f"group_{kind}", group.by_kind[kind], group.groups)
            yield replace(line, of=str(group.size))


def _spread_lines(common: _CsvLine, statistic: str, spread: Spread, name: Callable[[Any], str]) -> Iterator[_CsvLine]:
    for which, figure in (("mean", spread.mean), ("lowest", spread.lowest), ("highest", spread.highest)):
        yield replace(common, statistic=f"{statistic}_{which}", value=figure, n=len(spread.each), note=spread.why)
    for key, correlation in spread.each.items():
        yield replace(_correlation_line(common, statistic, correlation), of=name(key))


def _gold_lines(set_result: SetResult) -> Iterator[_CsvLine]:
    if set_result.golds is None:
        return
    common, golds = _CsvLine(scope="set", set=set_result.name, kind="golds"), set_result.golds
    for which, rating, rows in (("golds", golds.rating, golds.rows), ("fair", golds.fair_rating, golds.fair_rows)):
        yield replace(common, statistic="mean_rating", of=which, value=rating, n=rows)
    for name, score in golds.scores.items():
        line = replace(common, metric=name, signature=set_result.signatures[name].short, statistic="mean_score")
        yield replace(line, of="golds", value=score.golds, n=score.scored)
        yield replace(line, of="fair", value=score.fair, n=golds.fair_rows if score.fair is not None else 0)


def _annotator_lines(set_result: SetResult) -> Iterator[_CsvLine]:
    figures, common = set_result.annotators, _CsvLine(scope="set", set=set_result.name, kind="annotators")
    yield replace(common, statistic="kappa_mean", value=figures.kappa.mean, note=figures.kappa.why)
    for pair in figures.kappa.pairs:
        both = pair_label(figures.kept, (pair.first, pair.second))
        yield replace(common, statistic="kappa", of=both, value=pair.value, n=pair.n, note=pair.why)
    for each in figures.kappa_of_each:
        name = annotator(figures.kept[each.annotator])
        yield replace(common, statistic="kappa_with_others", of=name, value=each.value, n=each.pairs, note=each.why)
    for level, alpha in figures.alpha.items():
        yield replace(common, statistic="alpha", of=level, value=alpha.value, n=alpha.rows, note=alpha.why)
    for form in figures.icc.forms:
        line = replace(common, statistic="icc", of=form.form, value=form.value, n=figures.icc.rows, note=form.why)
        yield replace(line, low=form.low, high=form.high)
    for kind in KINDS:
        halves, rows = getattr(figures.split_half, kind), figures.split_half.rows
        line = replace(common, statistic=f"split_half_{kind}", value=halves.half, n=rows, note=halves.why)
        yield replace(line, low=halves.low, high=halves.high)
        yield replace(line, statistic=f"split_half_{kind}_stepped_up", value=halves.stepped_up)
    if len(figures.kept) > 1:
        for kind, spread in figures.pairs.items():
            yield from _spread_lines(common, f"pair_{kind}", spread, lambda pair: pair_label(figures.kept, pair))
    yield from _kappa_lines(set_result)
    for dropped in figures.dropped:
        yield replace(common, statistic="left_out", of=annotator(dropped.annotator), note=dropped.why)


def _kappa_lines(set_result: SetResult) -> Iterator[_CsvLine]:
    """Yield for each threshold of κ the pairs above it, who remains, and the agreement with them."""
    common = _CsvLine(scope="set", set=set_result.name, kind="annotators")
    turned = {row.name: row.turned for row in set_result.rows}
    for level in set_result.annotators.kappa_shares:
        line, share = replace(common, of=f"{level.share.threshold:g}"), level.share
        yield replace(line, statistic="kappa_share", value=share.share, n=share.pairs)
        yield replace(line, statistic="kappa_annotators", value=len(share.annotators), n=level.n)
        for name, by_kind in level.correlations.items():
            signature = set_result.signatures.get(name)
            named = replace(line, metric=name, signature=signature.short if signature is not None else None)
            for kind, correlation in by_kind.items():
                statistic = f"kappa_{kind}"
                yield _correlation_line(replace(named, turned=turned.get(name)), statistic, correlation)


def _rating_lines(set_result: SetResult) -> Iterator[_CsvLine]:
    common = _CsvLine(scope="set", set=set_result.name, kind="ratings", statistic="system_rating")
    for system, rating in set_result.system_ratings.items():
        yield replace(common, of=system, value=rating)


def _count_lines(set_result: SetResult) -> Iterator[_CsvLine]:
    counts, common = set_result.counts, _CsvLine(scope="set", set=set_result.name, kind="count")
    for name, count in asdict(counts).items():
        if isinstance(count, int):
            yield replace(common, statistic=name, value=count)
    for system, missing in counts.unrated.items():
        yield replace(common, statistic="unrated", of=system, value=missing)
    for metric, by_code in counts.unscored.items():
        for code, rows in by_code.items():
            yield replace(common, metric=metric, statistic="unscored", of=code, value=rows)
    yield replace(common, statistic="data", note=set_result.data)


def _setting_lines(meta_result: MetaResult) -> Iterator[_CsvLine]:
    common, settings = _CsvLine(scope="run", kind="setting"), meta_result.settings
    yield replace(common, statistic="rows", note=settings.rows.value)
    yield replace(common, statistic="baseline", metric=meta_result.baseline)
    for name in ("draws", "seed", "confidence", "min_kappa"):
        yield replace(common, statistic=name, value=getattr(settings, name))
    yield replace(common, statistic="refaug", note=VERSION)


def _estimate_line(common: _CsvLine, statistic: str, estimate: Estimate, n: int) -> _CsvLine:
    missing = f"undefined in {estimate.undefined} draws" if estimate.undefined else None
    note = "; ".join(part for part in (estimate.why, missing) if part is not None) or None
    line = replace(common, statistic=statistic, value=estimate.value, low=estimate.low, high=estimate.high)
    return replace(line, p=estimate.p, n=n, note=note)


def _correlation_line(common: _CsvLine, statistic: str, correlation: Correlation) -> _CsvLine:
    line = replace(common, statistic=statistic, value=correlation.value, p=correlation.p)
    return replace(line, n=correlation.n, note=correlation.why)


PAGE: Final = "report.html"


def write_report(meta_result: MetaResult, folder: Path) -> list[Path]:
    """Write report.html, with everything in it, and its plots beside it as PNG; the page comes first in the list.

    Other files in the folder stay, and files of the same names are replaced. The page is written last: where there is a
    page, its plots are there as well.
    """
    require_folder(folder)
    from refaug.agreement.report.page import page  # noqa: PLC0415  matplotlib is slow to import
    from refaug.agreement.report.plots import plots  # noqa: PLC0415
    from refaug.tables.reports.html_page import write_file  # noqa: PLC0415

    drawn = plots(meta_result)
    content = page(meta_result, drawn)
    make_folder(folder)
    written = [write_file(folder / plot.file, plot.png) for section in drawn for plot in section]
    return [write_file(folder / PAGE, content.encode()), *written]
