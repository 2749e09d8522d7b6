"""What `refaug meta` found, for others to read: one long table as CSV, tables for LaTeX, a page with plots in a folder.

Nothing is computed here but what a plot needs. Equal results give equal bytes: no file holds a time, and points are
jittered with the seed of the result. Names of sets, systems and metrics are other people's text: each form escapes
them its own way, and what cannot be seen of them (line ends, control characters, turned directions) is written out as
an escape in all of them. Annotators are counted from 1 here, as in the texts of warnings.
"""

from __future__ import annotations

import base64
import csv
import functools
import hashlib
import html
import io
import math
import os
import platform
import re
import unicodedata
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import astuple, dataclass, fields, replace
from importlib.metadata import version
from itertools import accumulate
from pathlib import Path
from typing import Any, Final

import matplotlib as mpl
import numpy as np
import orjson
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.font_manager import FontProperties, findfont
from matplotlib.ft2font import FT2Font

from core.errors import Usage
from core.files import make_folder, write_aside
from core.version import VERSION
from metrics.correlation import Correlation, Spread
from metrics.resampling import Estimate, Floats
from service.meta import (
    AgreementRow,
    ComparedMetric,
    MeanRow,
    MetaResult,
    RowKind,
    RowsChoice,
    SetResult,
)

PAGE: Final = "report.html"
_KINDS: Final = ("spearman", "pearson")  # what has intervals and differences
_ROWS_IN_WORDS: Final = {
    RowsChoice.FAIR: "fair rows: no replies that are one of their own golds, no references identical to the reply",
    RowsChoice.ALL: "all rated replies against all references",
}
_INDEPENDENT: Final = "Williams: assumes independent rows"
_TURNED: Final = "turned: lower scores are better, so the sign of this metric was turned"
_LISTED_ITEMS: Final = 100  # unreadable items that the page names one by one


def _seen(text: str) -> str:
    """Text of other people on one line, with nothing in it that acts instead of being seen."""
    if text.isprintable():
        return text
    return "".join(one if _shows(one) else one.encode("unicode_escape").decode() for one in text)


def _shows(one: str) -> bool:
    """Printable; also spaces of other widths, and the joiners that Persian and emoji are written with."""
    return one.isprintable() or one in "\u200c\u200d" or unicodedata.category(one) == "Zs"


def _fixed(value: float, digits: int = 3) -> str:
    """A correlation for people; what rounds to nothing has no sign."""
    return f"{round(value, digits) + 0.0:.{digits}f}"


def _minus(number: str) -> str:
    """With the sign that is as wide as a figure."""
    return number.replace("-", "−")


def _annotator(place: int) -> str:
    return f"annotator {place + 1}"


# ── CSV ───────────────────────────────────────────────────────────────────────────────────────────────────────────


@dataclass(frozen=True, kw_only=True)
class _Figure:
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


def as_csv(result: MetaResult) -> str:
    r"""Every figure of the result, one a line, as pandas and R read it: a header, commas, quotes where needed, `\n`.

    | column | holds |
    |---|---|
    | scope | `set`; `mean` (over all sets); `run` (settings) |
    | set | name of the set; empty in other scopes |
    | kind | `metric`, `length` or `human` (figures of a row); `annotators`; `ratings`; `count`; `setting` |
    | metric, signature | the metric as it was asked for, and its short signature |
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
    pearson and kendall, as far as they were computed. Numbers are written so that they read back as the same number.
    """
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow([one.name for one in fields(_Figure)])
    writer.writerows([_field(value) for value in astuple(one)] for one in _figures(result))
    return text.getvalue()


def _field(value: object) -> object:
    if isinstance(value, str):
        return _seen(value)
    return float(value) if isinstance(value, float) else value  # numpy's own write themselves otherwise


def _figures(result: MetaResult) -> Iterator[_Figure]:
    metrics = {one.name: one for one in result.metrics}
    for found in result.sets:
        for row in found.rows:
            like = _like(row, metrics, scope="set", name=found.name)
            yield from _agreement_figures(row, like, result.baseline)
            yield from _further_figures(row, like)
        yield from _annotator_figures(found)
        yield from _rating_figures(found)
        yield from _count_figures(found)
    if result.mean is not None:
        for mean in result.mean.rows:
            yield from _agreement_figures(mean, _like(mean, metrics, scope="mean", name=None), result.baseline)
    yield from _setting_figures(result)


def _like(
    row: AgreementRow | MeanRow, metrics: Mapping[str, ComparedMetric], *, scope: str, name: str | None
) -> _Figure:
    """A line with what all figures of a row share."""
    metric = metrics.get(row.name) if row.kind is RowKind.METRIC else None
    return _Figure(
        scope=scope,
        set=name,
        kind=row.kind.value,
        metric=row.name if metric is not None else None,
        signature=metric.signature.short if metric is not None else None,
        turned=row.turned if metric is not None else None,
    )


def _agreement_figures(row: AgreementRow | MeanRow, like: _Figure, baseline: str) -> Iterator[_Figure]:
    """What rows of sets and of the mean have in common."""
    for kind in _KINDS:
        yield _of_estimate(like, kind, getattr(row, kind), row.n)
        difference = row.differences.get(kind)
        if difference is not None:
            line = _of_estimate(like, f"{kind}_difference", difference, row.n)
            yield replace(line, baseline=baseline, holm_p=row.holm.get(kind))
    if row.kind is RowKind.HUMAN:
        return
    for statistic, one in (("kendall", row.kendall), ("partial_spearman", row.partial_spearman)):
        if isinstance(one, Correlation):
            yield _of_correlation(like, statistic, one)
        else:
            yield _of_estimate(like, statistic, one, row.n)
    tests = row.williams if isinstance(row, AgreementRow) else {}
    for kind, test in tests.items():
        note = test.note if test.why is None else f"{test.why}; {test.note}"
        statistic = f"{kind}_williams"
        yield replace(like, statistic=statistic, baseline=baseline, value=test.t, p=test.p, n=test.n, note=note)


def _further_figures(row: AgreementRow, like: _Figure) -> Iterator[_Figure]:
    """What only rows of sets have."""
    if row.by_annotator is not None:
        yield from _spread_figures(like, "annotator_spearman", row.by_annotator, _annotator)
    if row.without_system is not None:
        without = row.without_system
        yield from _spread_figures(like, "without_system_spearman", without.spread, str)
        if without.most is not None:
            yield replace(like, statistic="without_system_change", of=without.most, value=without.change)
    if row.system_level is not None:
        level = row.system_level
        for kind in (*_KINDS, "kendall"):
            yield _of_correlation(like, f"system_{kind}", level.by_kind[kind])
        for system, score in zip(level.systems, level.scores, strict=True):
            yield replace(like, statistic="system_score", of=str(system), value=score)
    for group in row.groups:
        for kind in _KINDS:
            line = _of_estimate(like, f"group_{kind}", group.by_kind[kind], group.groups)
            yield replace(line, of=str(group.size))


def _spread_figures(like: _Figure, statistic: str, spread: Spread, name: Callable[[Any], str]) -> Iterator[_Figure]:
    for which, value in (("mean", spread.mean), ("lowest", spread.lowest), ("highest", spread.highest)):
        yield replace(like, statistic=f"{statistic}_{which}", value=value, n=len(spread.each), note=spread.why)
    for key, one in spread.each.items():
        yield replace(_of_correlation(like, statistic, one), of=name(key))


def _annotator_figures(found: SetResult) -> Iterator[_Figure]:
    figures, like = found.annotators, _Figure(scope="set", set=found.name, kind="annotators")
    yield replace(like, statistic="kappa_mean", value=figures.kappa.mean, note=figures.kappa.why)
    for pair in figures.kappa.pairs:
        both = f"{_annotator(figures.kept[pair.first])} and {figures.kept[pair.second] + 1}"
        yield replace(like, statistic="kappa", of=both, value=pair.value, n=pair.n, note=pair.why)
    for each in figures.kappa_of_each:
        name = _annotator(figures.kept[each.annotator])
        yield replace(like, statistic="kappa_with_others", of=name, value=each.value, n=each.pairs, note=each.why)
    for level, alpha in figures.alpha.items():
        yield replace(like, statistic="alpha", of=level, value=alpha.value, n=alpha.rows, note=alpha.why)
    for form in figures.icc.forms:
        line = replace(like, statistic="icc", of=form.form, value=form.value, n=figures.icc.rows, note=form.why)
        yield replace(line, low=form.low, high=form.high)
    for kind in _KINDS:
        halves, rows = getattr(figures.split_half, kind), figures.split_half.rows
        line = replace(like, statistic=f"split_half_{kind}", value=halves.half, n=rows, note=halves.why)
        yield replace(line, low=halves.low, high=halves.high)
        yield replace(line, statistic=f"split_half_{kind}_stepped_up", value=halves.stepped_up)
    for dropped in figures.dropped:
        yield replace(like, statistic="left_out", of=_annotator(dropped.annotator), note=dropped.why)


def _rating_figures(found: SetResult) -> Iterator[_Figure]:
    like = _Figure(scope="set", set=found.name, kind="ratings", statistic="system_rating")
    for system, rating in _centred_ratings(found).items():
        yield replace(like, of=system, value=rating)


def _count_figures(found: SetResult) -> Iterator[_Figure]:
    counts, like = found.counts, _Figure(scope="set", set=found.name, kind="count")
    for name, value in counts.as_json().items():
        if isinstance(value, int):
            yield replace(like, statistic=name, value=value)
    for system, missing in counts.unrated.items():
        yield replace(like, statistic="unrated", of=system, value=missing)
    for metric, by_code in counts.unscored.items():
        for code, rows in by_code.items():
            yield replace(like, metric=metric, statistic="unscored", of=code, value=rows)
    yield replace(like, statistic="rows_sha256", note=data_hash(found))


def _setting_figures(result: MetaResult) -> Iterator[_Figure]:
    like, settings = _Figure(scope="run", kind="setting"), result.settings
    yield replace(like, statistic="rows", note=settings.rows.value)
    yield replace(like, statistic="baseline", metric=result.baseline)
    for name in ("draws", "seed", "confidence", "min_kappa"):
        yield replace(like, statistic=name, value=getattr(settings, name))
    yield replace(like, statistic="refaug", note=VERSION)


def _of_estimate(like: _Figure, statistic: str, one: Estimate, n: int) -> _Figure:
    missing = f"undefined in {one.undefined} draws" if one.undefined else None
    note = "; ".join(part for part in (one.why, missing) if part is not None) or None
    return replace(like, statistic=statistic, value=one.value, low=one.low, high=one.high, p=one.p, n=n, note=note)


def _of_correlation(like: _Figure, statistic: str, one: Correlation) -> _Figure:
    return replace(like, statistic=statistic, value=one.value, p=one.p, n=one.n, note=one.why)


def _centred_ratings(found: SetResult) -> dict[str, float]:
    """Mean rating of each system relative to its contexts; it is the same whichever metric it stands beside."""
    level = next((row.system_level for row in found.rows if row.system_level is not None), None)
    return {} if level is None else dict(zip(map(str, level.systems), level.ratings, strict=True))


def data_hash(found: SetResult) -> str:
    """SHA-256 over the used rows of a set, in order: item, system and ratings of the kept annotators, as JSON lines."""
    digest, points = hashlib.sha256(), found.points
    for item, system, ratings in zip(points.items, points.systems, points.by_annotator.tolist(), strict=True):
        row = [item, system, [None if math.isnan(one) else one for one in ratings]]
        digest.update(orjson.dumps(row, option=orjson.OPT_APPEND_NEWLINE))
    return digest.hexdigest()


# ── LaTeX ─────────────────────────────────────────────────────────────────────────────────────────────────────────

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
        _latex_table(found.rows, _latex_caption(found, result), f"{number}-{_slug(found.name)}", result)
        for number, found in enumerate(result.sets, start=1)
    ]
    if result.mean is not None:
        caption = _latex_mean_caption(result.mean.sets, result)
        tables.append(_latex_table(result.mean.rows, caption, "mean", result))
    return "\n".join([r"% needs \usepackage{booktabs}", *tables, _latex_signatures(result)])


def _latex(text: str, *, breaks: bool = False) -> str:
    """Text that LaTeX sets as it is written; with `breaks`, lines may end after separators."""
    parts = []
    for one in _seen(text):
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
    return rf"{number} ${{\scriptstyle[{_fixed(one.low, 2)}, {_fixed(one.high, 2)}]}}$"


def _latex_number(value: float | None, *, bold: bool = False) -> str:
    if value is None:
        return "--"
    return rf"$\mathbf{{{_fixed(value)}}}$" if bold else f"${_fixed(value)}$"


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
        f"{_latex_how(result)} $p_{{\\mathrm{{W}}}}$: {_INDEPENDENT}.{people}"
    )


def _latex_mean_caption(sets: Sequence[str], result: MetaResult) -> str:
    names = ", ".join(_latex(name) for name in sets)
    return (
        f"Agreement with the mean rating, mean over {names}, each of which counts the same ({_latex_rows(result)}). "
        f"{_latex_how(result)}"
    )


def _latex_rows(result: MetaResult) -> str:
    return _latex(_ROWS_IN_WORDS[result.settings.rows])


def _latex_how(result: MetaResult) -> str:
    settings = result.settings
    turned = f" {_TURNED.capitalize()}." if any(one.turned for one in result.metrics) else ""
    return (
        rf"$\rho$: Spearman, $r$: Pearson, $\tau$: Kendall, $\rho_{{\mathrm{{length}}}}$: Spearman with reply length "
        rf"held fixed. $\Delta\rho$: less {_latex(result.baseline)}, the baseline. Intervals and $p$: bootstrap over "
        f"contexts, {settings.draws:,} draws, seed {settings.seed}. Bold: the best metric, where it is better than the "
        f"baseline at $p_{{\\mathrm{{Holm}}}} < {_alpha(result):g}$.{turned}"
    )


def _latex_signatures(result: MetaResult) -> str:
    rows = [
        rf"\raggedright {_latex(one.name, breaks=True)} & \raggedright {_latex(one.signature.short, breaks=True)} "
        r"\tabularnewline"
        for one in result.metrics
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


# ── the plots ─────────────────────────────────────────────────────────────────────────────────────────────────────

# Okabe & Ito (2008): eight colours that most colour-blind people tell apart
_BLUE, _SKY, _ORANGE, _GREEN, _GREY = "#0072B2", "#56B4E9", "#E69F00", "#009E73", "#7F7F7F"
_FONT: Final = "DejaVu Sans"  # comes with matplotlib
_LOOK: Final[dict[Any, Any]] = {
    "font.family": [_FONT],
    "font.size": 9.0,
    "figure.titlesize": 9.5,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.axisbelow": True,
    "axes.grid": True,
    "grid.color": "#E3E3E3",
    "text.parse_math": False,  # a dollar in a name is a dollar
}
_DPI: Final = 150
_MISSING_SIGN: Final = "□"
_MOST_SYSTEMS: Final = 60  # on one axis
_LABEL_WIDTH: Final = 30  # of a line, in letters of common width
_THICK: Final = 0.19  # inches: of bars and boxes
_FLIERS: Final = {"marker": ".", "markersize": 3, "markerfacecolor": _GREY, "markeredgecolor": "none", "alpha": 0.5}


@dataclass(frozen=True, kw_only=True)
class _Plot:
    """A drawn plot: the file, what it shows in words, and its size on a screen."""

    file: str
    png: bytes
    caption: str
    width: int
    height: int


def _drawn(file: str, caption: str, figure: Figure, names: Mapping[str, str]) -> _Plot:
    """The figure as a file; of the names in it (by what they name) the caption tells those that the font lacks."""
    unknown = [f"{what}: {_seen(name)}" for what, name in names.items() if _drawable(name) != _seen(name)]
    if unknown:
        caption += f". Names with signs that the plot shows as {_MISSING_SIGN}: {'; '.join(unknown)}"
    target = io.BytesIO()
    figure.savefig(target, format="png", dpi=_DPI, metadata={"Software": None})
    width, height = (round(inches * 96) for inches in figure.get_size_inches())
    return _Plot(file=file, png=target.getvalue(), caption=caption, width=width, height=height)


def _plots_of_set(number: int, found: SetResult, result: MetaResult) -> Iterator[_Plot]:
    """Bars, then for every metric a scatter and the scores of each system."""
    stem = f"{number:02}-{_slug(found.name)}"
    halves = found.annotators.split_half.spearman
    yield _bars(f"{stem}-correlation.png", found.rows, found.name, (_stepped_up(halves.low), _stepped_up(halves.high)))
    if not found.points.items:
        return
    columns = dict(enumerate(found.points.values.values(), start=1))
    for place, (row, values) in enumerate(zip(found.rows, [*columns.values(), found.points.lengths], strict=False)):
        tail = f"{place + 1:02}-{_slug(row.name)}.png"
        yield _scatter(f"{stem}-scatter-{tail}", row, values, found, result)
        yield _distributions(f"{stem}-systems-{tail}", row, values, found)


def _stepped_up(half: float | None) -> float | None:
    """Spearman & Brown's 2r / (1 + r), which keeps order, so that an interval stays one."""
    return None if half is None or half <= -1 else 2 * half / (1 + half)


def _figure(width: float, height: float) -> tuple[Figure, Axes]:
    """A figure of its own (inches): nothing is kept in lists of open figures."""
    figure = Figure(figsize=(width, height), layout="constrained")
    return figure, figure.add_subplot()


def _bars(
    file: str, rows: Sequence[AgreementRow | MeanRow], name: str, people: tuple[float | None, float | None]
) -> _Plot:
    """Spearman of every row with its interval, and people as the band that a metric may hope for."""
    shown = [row for row in rows if row.kind is not RowKind.HUMAN]
    human = next((row.spearman.value for row in rows if row.kind is RowKind.HUMAN), None)
    figure, axes, places = _lines_of(6.4, [_wrapped(_label(row)) for row in shown])
    axes.axvline(0, color="black", linewidth=0.8)
    for place, row in zip(places, shown, strict=True):
        _bar(axes, place, row)
    if human is not None:
        low, high = people
        if low is not None and high is not None:
            axes.axvspan(low, high, color=_GREEN, alpha=0.18, linewidth=0)
        axes.axvline(human, color=_GREEN, linewidth=1.6, label=f"people with people, {_fixed(human, 2)}")
        figure.legend(loc="outside lower center", frameon=False)
    figure.suptitle(f"Spearman with the mean rating, {_short(name)}")
    caption = f"Spearman of each metric with the mean rating and its interval, {_seen(name)}"
    if human is not None:
        caption += "; the line: split-half reliability of the annotators, stepped up"
        caption += ", in the band of ways to halve them" if None not in people else ""
    names = {f"metric {place} from the top": row.name for place, row in enumerate(shown, start=1)}
    return _drawn(file, caption, figure, {"set": name, **names})


def _bar(axes: Axes, place: float, row: AgreementRow | MeanRow) -> None:
    one = row.spearman
    _beside(axes, place, "–" if one.value is None else _minus(_fixed(one.value, 2)))
    if one.value is None:
        return
    colour = _GREY if row.kind is RowKind.LENGTH else _SKY if row.is_baseline else _BLUE
    axes.barh(place, one.value, height=_THICK, color=colour)
    if one.low is not None and one.high is not None:
        axes.plot([one.low, one.high], [place, place], color="black", linewidth=1.2, marker="|", markersize=6)


def _lines_of(width: float, labels: Sequence[str]) -> tuple[Figure, Axes, list[float]]:
    """Axes with a line for each label, as high as the label is; the unit of the y axis is the inch."""
    heights = [0.12 + 0.16 * (label.count("\n") + 1) for label in labels]
    ends = list(accumulate(heights))
    places = [end - height / 2 for end, height in zip(ends, heights, strict=True)]
    figure, axes = _figure(width, 1.2 + ends[-1])
    axes.set_yticks(places, labels)
    axes.set_ylim(ends[-1] + 0.04, -0.04)
    axes.grid(visible=False, axis="y")
    return figure, axes, places


def _beside(axes: Axes, place: float, text: str) -> None:
    """A figure at the right end of a line."""
    axes.text(1.02, place, text, transform=axes.get_yaxis_transform(), va="center")


def _scatter(file: str, row: AgreementRow, values: Floats, found: SetResult, result: MetaResult) -> _Plot:
    """Scores over mean ratings; ratings are few and points would lie on each other, so these are jittered."""
    figure, axes = _figure(4.6, 3.7)
    ratings = found.points.ratings
    jittered = ratings + np.random.default_rng(result.settings.seed).uniform(-1, 1, len(ratings)) * _jitter(ratings)
    opacity = float(np.clip(12 / math.sqrt(len(ratings)), 0.12, 0.75))
    axes.scatter(jittered, values, s=12, color=_BLUE, alpha=opacity, linewidths=0)
    axes.set_xlabel("mean rating (jittered)")
    axes.set_ylabel("tokens of the reply" if row.kind is RowKind.LENGTH else _short(row.name) + _direction(row))
    figure.suptitle(f"{_wrapped(row.name, 52)}\n{_in_title(row)}, {_short(found.name)}")
    caption = f"{_seen(row.name)} against the mean rating, {_seen(found.name)}: {_in_title(row)}"
    return _drawn(file, caption, figure, {"metric": row.name, "set": found.name})


def _jitter(ratings: Floats) -> float:
    """Less than half of the way to the next rating, and even then little of the whole scale."""
    distinct = np.unique(ratings)
    if len(distinct) < 2:
        return 0.1
    span, gap = float(distinct[-1] - distinct[0]), float(np.diff(distinct).min())
    return min(max(0.35 * gap, 0.005 * span), 0.08 * span)


def _direction(row: AgreementRow) -> str:
    return " (lower is better)" if row.turned else ""


def _in_title(row: AgreementRow) -> str:
    one = row.spearman
    if one.value is None:
        return "Spearman not defined"
    turned = " (sign turned)" if row.turned else ""
    interval = "" if one.low is None or one.high is None else f" [{_fixed(one.low, 2)}, {_fixed(one.high, 2)}]"
    return f"Spearman {_minus(_fixed(one.value, 2) + interval)}{turned}"


def _distributions(file: str, row: AgreementRow, values: Floats, found: SetResult) -> _Plot:
    """A box of scores per system, the one that people like best on top."""
    systems, ratings = np.array(found.points.systems), found.points.ratings
    means = {name: float(ratings[systems == name].mean()) for name in dict.fromkeys(found.points.systems)}
    ranked = sorted(means, key=lambda name: (-means[name], name))
    left_out = max(0, len(ranked) - _MOST_SYSTEMS)
    if left_out:
        half = _MOST_SYSTEMS // 2
        ranked = [*ranked[:half], *ranked[-half:]]
    figure, axes, places = _lines_of(4.6, [_wrapped(name, 22) for name in ranked])
    axes.text(1.02, 1, "rating", transform=axes.transAxes, va="bottom", color=_GREY)
    for place, name in zip(places, ranked, strict=True):
        _beside(axes, place, _minus(_fixed(means[name], 2)))
    axes.boxplot(
        [values[systems == name] for name in ranked],
        positions=places,
        orientation="horizontal",
        widths=_THICK,
        patch_artist=True,
        showmeans=True,
        manage_ticks=False,
        boxprops={"facecolor": _SKY, "edgecolor": _BLUE},
        medianprops={"color": "black"},
        meanprops={"marker": "D", "markersize": 4, "markerfacecolor": _ORANGE, "markeredgecolor": "black"},
        flierprops=_FLIERS,
    )
    axes.set_xlabel("tokens of the reply" if row.kind is RowKind.LENGTH else _short(row.name) + _direction(row))
    figure.suptitle(f"{_wrapped(row.name, 52)}\nby system, {_short(found.name)}")
    caption = f"{_seen(row.name)} by system, {_seen(found.name)}: on top the best rated, a diamond at each mean"
    if left_out:
        caption += f"; {left_out:,} systems between the {_MOST_SYSTEMS // 2} best and the others are not drawn"
    names = {f"system {place} from the top": name for place, name in enumerate(ranked, start=1)}
    return _drawn(file, caption, figure, {"metric": row.name, "set": found.name, **names})


@functools.cache
def _widths() -> Mapping[int, float]:
    """The code points that the font can draw, with their widths in letters of common width."""
    font = FT2Font(findfont(FontProperties(family=_FONT)))
    font.set_size(100, 72)
    common = font.load_char(ord("e")).linearHoriAdvance
    return {code: font.load_char(code).linearHoriAdvance / common for code in font.get_charmap()}


def _drawable(text: str) -> str:
    """The text with a box for all that the font lacks: matplotlib would warn, and draw one as well."""
    return "".join(one if ord(one) in _widths() else _MISSING_SIGN for one in _seen(text))


def _width(text: str) -> float:
    return sum(_widths()[ord(one)] for one in text)


def _wrapped(text: str, width: float = _LABEL_WIDTH, lines: int = 3) -> str:
    """The text on a few lines, broken after separators where it can be; of a longer one the middle is left out."""
    broken = [""]
    for word in re.findall(r"[^ ,:/|]*[ ,:/|]|[^ ,:/|]+", _drawable(text)):
        if broken[-1] and _width(broken[-1] + word.rstrip()) > width:
            broken.append("")
        for one in word:
            if _width(broken[-1] + one) > width and not one.isspace():
                broken.append("")
            broken[-1] += one
    if len(broken) > lines:
        broken = [*broken[: lines - 1], "…" + broken[-1]]
    return "\n".join(line.strip() for line in broken)


def _short(text: str, width: float = 30) -> str:
    """The text on one line, without its middle where it is longer."""
    first = last = _drawable(text)
    if _width(first) <= width:
        return first
    while _width(first) > width / 2:
        first = first[:-1]
    while _width(last) > width / 2:
        last = last[1:]
    return f"{first}…{last}"


def _slug(name: str) -> str:
    """What a name leaves in the name of a file."""
    return re.sub(r"[^a-z0-9]+", "-", name.lower()).strip("-")[:40].strip("-") or "x"


# ── the page ──────────────────────────────────────────────────────────────────────────────────────────────────────

_STYLE: Final = """
:root { color-scheme: light dark; --ink: #1b1f24; --paper: #ffffff; --faint: #5a6470; --line: #d4d9df;
  --stripe: #f5f7f9; --link: #005a8f; }
@media (prefers-color-scheme: dark) { :root { --ink: #e6e6e6; --paper: #1a1a1a; --faint: #a3a3a3; --line: #454545;
  --stripe: #232323; --link: #7cc4f0; } }
* { box-sizing: border-box; }
html { -webkit-text-size-adjust: 100%; }
body { margin: 0 auto; padding: 1rem; max-width: 78rem; background: var(--paper); color: var(--ink);
  font: 1rem/1.5 system-ui, sans-serif; overflow-wrap: anywhere; }
h1 { font-size: 1.6rem; line-height: 1.2; margin: 0.5rem 0; }
h2 { font-size: 1.3rem; margin: 2.5rem 0 0.5rem; padding-top: 0.5rem; border-top: 2px solid var(--line); }
h3 { font-size: 1.05rem; margin: 1.75rem 0 0.25rem; }
a { color: var(--link); }
nav ul { list-style: none; padding: 0; display: flex; flex-wrap: wrap; gap: 0.25rem 1.25rem; margin: 0.5rem 0; }
.note, figcaption { color: var(--faint); font-size: 0.85rem; }
ul.note { margin: 0.25rem 0; padding-left: 1.2rem; }
.warning { border-left: 4px solid #e69f00; padding: 0.25rem 0.75rem; margin: 1rem 0; }
.scroll { overflow-x: auto; margin: 0.5rem 0; }
table { border-collapse: collapse; font-size: 0.875rem; font-variant-numeric: tabular-nums; }
th, td { padding: 0.25rem 0.6rem; text-align: left; vertical-align: top; border-bottom: 1px solid var(--line); }
thead th { border-bottom: 2px solid var(--line); vertical-align: bottom; white-space: nowrap; }
thead th.long { white-space: normal; min-width: 10rem; max-width: 16rem; }
td { white-space: nowrap; overflow-wrap: normal; }
td.text { white-space: normal; overflow-wrap: anywhere; }
td.text:last-child { min-width: 14rem; }
tbody th { font-weight: 600; min-width: 11rem; max-width: 22rem; position: sticky; left: 0; background: var(--paper); }
tbody tr:nth-child(even) > * { background: var(--stripe); }
tr.apart > * { border-top: 2px solid var(--line); }
.plots { display: grid; grid-template-columns: repeat(auto-fill, minmax(min(100%, 22rem), 1fr)); gap: 1rem;
  align-items: start; }
figure { margin: 0.75rem 0; }
img { display: block; max-width: 100%; height: auto; background: #ffffff; }
/* white becomes the paper */
@media (prefers-color-scheme: dark) { img { filter: invert(0.9) hue-rotate(180deg); } }
@media (max-width: 40rem) { tbody th { min-width: 7rem; font-size: 0.8rem; } thead th.long { min-width: 7rem; } }
@media print {
  :root { --ink: #000000; --paper: #ffffff; --faint: #444444; --line: #bbbbbb; --stripe: #ffffff; --link: #000000; }
  html { font-size: 10pt; } body { max-width: none; padding: 0; }
  .scroll { overflow: visible; } table { font-size: 7.5pt; } th, td { padding: 0.1rem 0.3rem; }
  td { white-space: normal; }
  tbody th { position: static; min-width: 6rem; } thead th.long { min-width: 5rem; }
  thead { display: table-header-group; } tr, figure { break-inside: avoid; }
  h2, h3 { break-after: avoid; } img { filter: none; } nav { display: none; }
  .plots { grid-template-columns: 1fr 1fr; }
}
"""


_LONG: Final = ' class="long"'
_LONG_HEADING: Final = 24  # characters


@dataclass(frozen=True, kw_only=True)
class _Table:
    """A table of plain text, the first column of which names its rows; `notes` say why something is missing."""

    title: str
    columns: Sequence[str]
    rows: Sequence[Sequence[str]]
    notes: Sequence[str] = ()
    text: bool = False  # whether cells are sentences rather than figures
    apart: frozenset[int] = frozenset()  # rows with a line above


def write_report(result: MetaResult, folder: Path) -> list[Path]:
    """Write report.html, with everything in it, and its plots beside it as PNG; the page comes first in the list.

    Other files in the folder are left alone, those of the same names replaced. The page is written last: where there
    is a page, its plots are there as well.
    """
    require_folder(folder)
    plots = _plots(result)
    page = _page(result, plots)
    make_folder(folder)
    written = [_write(folder / plot.file, plot.png) for of_section in plots for plot in of_section]
    return [_write(folder / PAGE, page.encode()), *written]


def require_folder(folder: Path) -> None:
    """Refuse a place where no folder can be made; a command may ask before it does the work."""
    there = next(path for path in (folder, *folder.absolute().parents) if os.path.lexists(path))
    if not there.is_dir():
        raise Usage(f"{there} is not a folder", remedy="name another folder for the report, or move what is there")


def _write(path: Path, content: bytes) -> Path:
    with write_aside(path) as file:
        file.write(content)
    return path


def _plots(result: MetaResult) -> list[list[_Plot]]:
    """The plots of every set, and those of the mean.

    matplotlib's settings are global: they are those of its authors here, whatever a user's own file says, and what
    they were afterwards.
    """
    with mpl.rc_context():
        mpl.rcdefaults()
        mpl.rcParams.update(_LOOK)
        plots = [list(_plots_of_set(number, found, result)) for number, found in enumerate(result.sets, start=1)]
        if result.mean is not None:
            plots.append([_bars("mean-correlation.png", result.mean.rows, "mean over sets", (None, None))])
    return plots


def _page(result: MetaResult, plots: Sequence[Sequence[_Plot]]) -> str:
    sections = [_set_section(number, found, result, plots[number]) for number, found in enumerate(result.sets)]
    contents = [(f"set-{number}", found.name) for number, found in enumerate(result.sets)]
    if result.mean is not None:
        sections.insert(0, _mean_section(result, plots[-1]))
        contents.insert(0, ("mean", "mean over sets"))
    contents.append(("how", "how it was made"))
    links = "".join(f'<li><a href="#{anchor}">{_escaped(name)}</a></li>' for anchor, name in contents)
    body = [
        "<h1>Agreement of metrics with people</h1>",
        f"<p>{_escaped(_summary(result))}</p>",
        _warnings(result.warnings),
        f"<nav><ul>{links}</ul></nav>",
        *sections,
        _how(result),
    ]
    return "\n".join(
        [
            "<!DOCTYPE html>",
            '<html lang="en">',
            "<head>",
            '<meta charset="utf-8">',
            '<meta name="viewport" content="width=device-width, initial-scale=1">',
            '<meta http-equiv="Content-Security-Policy" content="default-src \'none\'; img-src data:; '
            "style-src 'unsafe-inline'\">",
            "<title>Agreement of metrics with people</title>",
            f"<style>{_STYLE}</style>",
            "</head>",
            "<body>",
            *body,
            "</body>",
            "</html>",
            "",
        ]
    )


def _escaped(text: str) -> str:
    return html.escape(_seen(text))


def _breakable(text: str) -> str:
    """Escaped, with places where a line may end in a long name: not within numbers."""
    return re.sub(r"[:/|](?=\S)|,(?=[^\s\d])", r"\g<0><wbr>", _escaped(text))


def _summary(result: MetaResult) -> str:
    settings = result.settings
    rows = sum(found.counts.used for found in result.sets)
    metrics, sets = len(result.metrics), len(result.sets)
    return (
        f"{metrics} metric{'s' * (metrics != 1)} on {rows:,} rated replies of {sets} test set{'s' * (sets != 1)}; "
        f"{_ROWS_IN_WORDS[settings.rows]}. Correlations are with the mean rating of a reply, intervals of "
        f"{settings.confidence * 100:g} % from {settings.draws:,} draws of contexts (seed {settings.seed}). "
        f"The baseline is {result.baseline}."
    )


def _warnings(warnings: Sequence[str]) -> str:
    if not warnings:
        return ""
    listed = "".join(f"<li>{_escaped(one)}</li>" for one in warnings)
    return f'<div class="warning"><strong>To bear in mind</strong><ul>{listed}</ul></div>'


def _mean_section(result: MetaResult, plots: Sequence[_Plot]) -> str:
    mean = result.mean
    assert mean is not None
    tables = [_agreement_table(mean.rows, result), *_difference_tables(mean.rows, result)]
    intro = f"Of {', '.join(mean.sets)}; each set counts the same. Kendall and partial Spearman have no interval here."
    content = [f"<p>{_escaped(intro)}</p>", *map(_html_figure, plots), *map(_html_table, tables)]
    return "\n".join(['<section id="mean">', "<h2>Mean over sets</h2>", *content, "</section>"])


def _set_section(number: int, found: SetResult, result: MetaResult, plots: Sequence[_Plot]) -> str:
    bars, *others = plots
    tables = [_agreement_table(found.rows, result), *_difference_tables(found.rows, result), _rows_table(found)]
    further = [*_annotator_tables(found), *_system_tables(found), *_group_tables(found), *_bad_item_tables(found)]
    content = [_html_figure(bars), *map(_html_table, tables)]
    if others:  # a scatter and the systems' boxes by turns; beside plots of the same kind they fill a page better
        content += ["<h3>Scores and ratings</h3>", _html_plots(others[::2])]
        content += ["<h3>Scores by system</h3>", _html_plots(others[1::2])]
    content += map(_html_table, further)
    return "\n".join([f'<section id="set-{number}">', f"<h2>{_escaped(found.name)}</h2>", *content, "</section>"])


def _html_plots(plots: Sequence[_Plot]) -> str:
    return "\n".join(['<div class="plots">', *map(_html_figure, plots), "</div>"])


def _html_figure(plot: _Plot) -> str:
    data, caption = base64.b64encode(plot.png).decode("ascii"), html.escape(plot.caption)
    return (
        f'<figure><img src="data:image/png;base64,{data}" width="{plot.width}" height="{plot.height}" '
        f'alt="{caption}"><figcaption>{caption}</figcaption></figure>'
    )


def _html_table(table: _Table) -> str:
    head = "".join(
        f'<th scope="col"{_LONG if len(name) > _LONG_HEADING else ""}>{_breakable(name)}</th>' for name in table.columns
    )
    kind = ' class="text"' if table.text else ""
    title = _escaped(table.title)
    lines = [f"<h3>{title}</h3>", f'<div class="scroll" tabindex="0" role="region" aria-label="{title}"><table>']
    lines.append(f"<thead><tr>{head}</tr></thead><tbody>")
    for place, (name, *cells) in enumerate(table.rows):
        apart = ' class="apart"' if place in table.apart else ""
        content = "".join(f"<td{kind}>{_breakable(cell)}</td>" for cell in cells)
        lines.append(f'<tr{apart}><th scope="row">{_breakable(name)}</th>{content}</tr>')
    lines.append("</tbody></table></div>")
    if table.notes:
        lines.append('<ul class="note">' + "".join(f"<li>{_escaped(one)}</li>" for one in table.notes) + "</ul>")
    return "\n".join(lines)


def _r(value: float | None) -> str:
    """A correlation for people."""
    return "–" if value is None else _minus(_fixed(value))


def _p(value: float | None) -> str:
    return "–" if value is None else "< 0.0001" if value < 0.0001 else f"{value:.4f}"


def _bounds(low: float | None, high: float | None) -> str:
    return "" if low is None or high is None else f" [{_r(low)}, {_r(high)}]"


def _with_interval(one: Estimate) -> str:
    return _r(one.value) + _bounds(one.low, one.high)


def _with_p(one: Correlation | Estimate) -> str:
    return _r(one.value) + (f" (p {_p(one.p)})" if one.p is not None else "")


def _label(row: AgreementRow | MeanRow) -> str:
    if row.kind is RowKind.HUMAN:
        return "human (split half, stepped up)"
    return row.name + (" (baseline)" if row.is_baseline else "") + (" (turned)" if row.turned else "")


def _reasons(whys: Iterable[tuple[str, str | None]]) -> list[str]:
    """Each reason once, with all that it is the reason for."""
    found = dict[str, dict[str, None]]()
    for what, why in whys:
        if why is not None:
            found.setdefault(why, {})[what] = None
    return [f"{', '.join(whats)}: {why}" for why, whats in found.items()]


def _apart(rows: Sequence[AgreementRow | MeanRow]) -> frozenset[int]:
    return frozenset(place for place in range(1, len(rows)) if rows[place].kind is not rows[place - 1].kind)


def _agreement_table(rows: Sequence[AgreementRow | MeanRow], result: MetaResult) -> _Table:
    span = f"[{result.settings.confidence * 100:g} %]"
    whys = [(f"{row.name}, {name}", one.why) for row in rows for name, one in _expected(row)]
    return _Table(
        title="Agreement with the mean rating",
        columns=("metric", f"Spearman {span}", f"Pearson {span}", "Kendall τ-b", "partial Spearman", "rows"),
        rows=[
            (
                _label(row),
                _with_interval(row.spearman),
                _with_interval(row.pearson),
                _with_p(row.kendall),
                _with_p(row.partial_spearman),
                f"{row.n:,}",
            )
            for row in rows
        ],
        notes=[
            "partial Spearman: with reply length held fixed",
            *([_TURNED] if any(row.turned for row in rows) else []),
            *_reasons(whys),
        ],
        apart=_apart(rows),
    )


def _expected(row: AgreementRow | MeanRow) -> Iterator[tuple[str, Estimate | Correlation]]:
    """The figures of a row that one would look for: people have no Kendall, the length none with itself held fixed."""
    yield from (("Spearman", row.spearman), ("Pearson", row.pearson))
    if row.kind is not RowKind.HUMAN:
        yield "Kendall", row.kendall
    if row.kind is RowKind.METRIC:
        yield "partial Spearman", row.partial_spearman


def _difference_tables(rows: Sequence[AgreementRow | MeanRow], result: MetaResult) -> Iterator[_Table]:
    span = f"[{result.settings.confidence * 100:g} %]"
    for kind in _KINDS:
        compared = [row for row in rows if kind in row.differences]
        if not compared:
            continue
        tests = {row.name: row.williams[kind] for row in compared if isinstance(row, AgreementRow)}
        whys = [(row.name, row.differences[kind].why) for row in compared]
        whys += [(f"{name}, Williams", test.why) for name, test in tests.items()]
        yield _Table(
            title=f"{kind.capitalize()}, less that of {result.baseline}",
            columns=("metric", f"difference {span}", "p", "Holm p", *(("Williams t", "Williams p") if tests else ())),
            rows=[
                (
                    _label(row),
                    _with_interval(row.differences[kind]),
                    _p(row.differences[kind].p),
                    _p(row.holm.get(kind)),
                    *((_r(tests[row.name].t), _p(tests[row.name].p)) if tests else ()),
                )
                for row in compared
            ],
            notes=[
                f"difference and p: paired bootstrap over contexts, {result.settings.draws:,} draws; "
                "Holm p: adjusted for all compared metrics",
                *([_INDEPENDENT] if tests else []),
                *_reasons(whys),
            ],
            apart=_apart(compared),
        )


def _rows_table(found: SetResult) -> _Table:
    """What was used, what was left out, and why."""
    counts = found.counts
    rows = [
        ("items", f"{counts.items:,}", ""),
        ("items that could not be read", f"{counts.bad_items:,}", ""),
        ("replies", f"{counts.replies:,}", ""),
        *(("… without a rating", f"{missing:,}", f"of {system}") for system, missing in counts.unrated.items()),
        ("rated replies", f"{counts.rated:,}", ""),
        ("… that are one of their own golds", f"{counts.references_themselves:,}", "a fair comparison leaves them out"),
        ("… fair", f"{counts.fair:,}", ""),
        ("references removed", f"{counts.references_removed:,}", "identical to the reply they would have scored"),
        *(
            ("… without a score", f"{missing:,}", f"from {metric}: {code}; left out for all metrics")
            for metric, by_code in counts.unscored.items()
            for code, missing in by_code.items()
        ),
        ("left out, as some metric has no score", f"{counts.left_out:,}", ""),
        ("rows used", f"{counts.used:,}", f"{counts.contexts:,} contexts, {counts.systems:,} systems"),
    ]
    return _Table(title="Rows used and left out", columns=("what", "number", "why"), rows=rows, text=True)


def _annotator_tables(found: SetResult) -> Iterator[_Table]:
    figures = found.annotators
    if figures.dropped:
        rows = [(_annotator(one.annotator), one.why) for one in figures.dropped]
        yield _Table(title="Annotators left out", columns=("annotator", "why"), rows=rows, text=True)
    yield _reliability_table(found)
    if len(figures.kept) > 1:
        yield _kappa_table(found)
        yield from _by_annotator_tables(found)


def _reliability_table(found: SetResult) -> _Table:
    figures = found.annotators
    halves = figures.split_half
    rows = [("Cohen's κ, quadratic, mean of pairs", _r(figures.kappa.mean), "")]
    rows += [(f"Krippendorff's α, {level}", _r(one.value), f"{one.rows:,}") for level, one in figures.alpha.items()]
    rows += [
        (one.form, _r(one.value) + _bounds(one.low, one.high), f"{figures.icc.rows:,}") for one in figures.icc.forms
    ]
    whys = [("κ", figures.kappa.why), *((f"α, {level}", one.why) for level, one in figures.alpha.items())]
    whys += [(one.form, one.why) for one in figures.icc.forms]
    for kind in _KINDS:
        half = getattr(halves, kind)
        name = f"split half, {kind.capitalize()}"
        rows.append((name, _r(half.half) + _bounds(half.low, half.high), f"{halves.rows:,}"))
        rows.append((f"{name}, stepped up", _r(half.stepped_up), f"{halves.rows:,}"))
        whys.append((name, half.why))
    return _Table(
        title="Annotators with each other", columns=("figure", "value", "rows"), rows=rows, notes=_reasons(whys)
    )


def _kappa_table(found: SetResult) -> _Table:
    figures = found.annotators
    values = {frozenset((pair.first, pair.second)): pair.value for pair in figures.kappa.pairs}
    places = range(len(figures.kept))
    mean = {one.annotator: one.value for one in figures.kappa_of_each}
    return _Table(
        title="Cohen's κ of annotators, quadratic weights",
        columns=("", *(_annotator(place) for place in figures.kept), "mean with the others"),
        rows=[
            (
                _annotator(figures.kept[one]),
                *("" if one == other else _r(values.get(frozenset((one, other)))) for other in places),
                _r(mean.get(one)),
            )
            for one in places
        ],
        notes=_reasons(
            (f"{_annotator(figures.kept[pair.first])} and {figures.kept[pair.second] + 1}", pair.why)
            for pair in figures.kappa.pairs
        ),
    )


def _by_annotator_tables(found: SetResult) -> Iterator[_Table]:
    spreads = {_label(row): row.by_annotator for row in found.rows if row.by_annotator is not None}
    if not spreads:
        return
    places = list(dict.fromkeys(place for spread in spreads.values() for place in spread.each))
    yield _Table(
        title="Spearman with each annotator",
        columns=("metric", "mean", "lowest", "highest", *map(_annotator, places)),
        rows=[
            (
                name,
                *map(_r, (spread.mean, spread.lowest, spread.highest)),
                *(_r(spread.each[place].value) if place in spread.each else "–" for place in places),
            )
            for name, spread in spreads.items()
        ],
        notes=_reasons(
            (f"{name}, {_annotator(place)}", one.why)
            for name, spread in spreads.items()
            for place, one in spread.each.items()
        ),
    )


def _system_tables(found: SetResult) -> Iterator[_Table]:
    levels = {_label(row): row.system_level for row in found.rows if row.system_level is not None}
    if levels:
        first = next(iter(levels.values()))
        kinds = (*_KINDS, "kendall")
        yield _Table(
            title=f"System level, {len(first.systems):,} systems",
            columns=("metric", *(kind.capitalize() for kind in kinds)),
            rows=[(name, *(_with_p(level.by_kind[kind]) for kind in kinds)) for name, level in levels.items()],
            notes=[
                f"over {first.rows:,} rows; scores and ratings are relative to the mean of their context, "
                f"{first.alone:,} rows alone in theirs are left out",
                *_reasons((name, one.why) for name, level in levels.items() for one in level.by_kind.values()),
            ],
        )
        scores = {name: dict(zip(map(str, level.systems), level.scores, strict=True)) for name, level in levels.items()}
        ratings = _centred_ratings(found)
        yield _Table(
            title="Systems: mean rating and mean scores, relative to their contexts",
            columns=("system", "rating", *levels),
            rows=[
                (system, _r(ratings[system]), *(_number(of.get(system)) for of in scores.values()))
                for system in sorted(ratings, key=lambda system: (-ratings[system], system))
            ],
        )
    yield from _without_system_tables(found)


def _without_system_tables(found: SetResult) -> Iterator[_Table]:
    withouts = {_label(row): row.without_system for row in found.rows if row.without_system is not None}
    if not withouts:
        return
    yield _Table(
        title="Spearman over rows without one system",
        columns=("metric", "mean", "lowest", "highest", "changes most without", "by"),
        rows=[
            (
                name,
                *map(_r, (one.spread.mean, one.spread.lowest, one.spread.highest)),
                one.most or "–",
                _r(one.change),
            )
            for name, one in withouts.items()
        ],
        notes=_reasons((name, one.spread.why) for name, one in withouts.items()),
    )
    systems = list(dict.fromkeys(system for one in withouts.values() for system in one.spread.each))
    yield _Table(
        title="Spearman without each system",
        columns=("without", *withouts),
        rows=[
            (
                str(system),
                *(_r(each[system].value) if system in (each := one.spread.each) else "–" for one in withouts.values()),
            )
            for system in systems
        ],
        notes=_reasons(
            (f"{name} without {system}", correlation.why)
            for name, one in withouts.items()
            for system, correlation in one.spread.each.items()
        ),
    )


def _group_tables(found: SetResult) -> Iterator[_Table]:
    """Means of several replies, for one who wants to know how large a test set has to be."""
    rows = [row for row in found.rows if row.groups]
    if not rows:
        return
    for kind in _KINDS:
        yield _Table(
            title=f"{kind.capitalize()} of the means of groups of replies",
            columns=("metric", *(f"{group.size} ({group.groups:,} groups)" for group in rows[0].groups)),
            rows=[(_label(row), *(_with_interval(group.by_kind[kind]) for group in row.groups)) for row in rows],
            notes=[
                "rows are dealt into groups at random, many times; value: the mean of the deals",
                *_reasons((row.name, group.by_kind[kind].why) for row in rows for group in row.groups),
            ],
        )


def _bad_item_tables(found: SetResult) -> Iterator[_Table]:
    if not found.bad_items:
        return
    more = len(found.bad_items) - _LISTED_ITEMS
    yield _Table(
        title="Items that could not be read",
        columns=("where", "what is wrong"),
        rows=[
            (f"{bad.file}, line {bad.line}", f"{bad.field}: {bad.message}" if bad.field else bad.message)
            for bad in found.bad_items[:_LISTED_ITEMS]
        ],
        notes=[f"and {more:,} more"] if more > 0 else [],
        text=True,
    )


def _number(value: float | None) -> str:
    """A score of any size."""
    return "–" if value is None else _minus(f"{value:.4g}")


def _how(result: MetaResult) -> str:
    """All that somebody needs who wants the same figures."""
    settings = result.settings
    least = (
        "none left out" if settings.min_kappa is None else f"those below a mean κ of {settings.min_kappa:g} left out"
    )
    facts = [
        ("rows", f"{settings.rows.value}: {_ROWS_IN_WORDS[settings.rows]}"),
        ("baseline", result.baseline),
        ("draws", f"{settings.draws:,}"),
        ("seed", str(settings.seed)),
        ("confidence", f"{settings.confidence:g}"),
        ("annotators", least),
        *((f"used rows of {found.name}, SHA-256", data_hash(found)) for found in result.sets),
        ("refaug", VERSION),
        ("Python", platform.python_version()),
        *((name, version(name)) for name in ("numpy", "scipy", "matplotlib")),
    ]
    signatures = [(one.name, one.signature.short, one.signature.full) for one in result.metrics]
    tables = [
        _Table(title="Settings and versions", columns=("what", "value"), rows=facts, text=True),
        _Table(title="Signatures", columns=("metric", "short", "full"), rows=signatures, text=True),
    ]
    return "\n".join(['<section id="how">', "<h2>How it was made</h2>", *map(_html_table, tables), "</section>"])
