"""Draw the plots of the report of `refaug agreement`.

Equal results give equal bytes: points are jittered with the seed of the result, and the style is always the same.
"""

from __future__ import annotations

import functools
import math
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate
from typing import Final

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.font_manager import FontProperties, findfont
from matplotlib.ft2font import FT2Font

from refaug.agreement.records import AgreementRow, MeanRow, MetaResult, RowKind, SetResult
from refaug.agreement.report.wording import fixed, minus, row_label, slug
from refaug.core.text.normalisation import make_printable
from refaug.metrics.statistics.agreement import SystemLevel
from refaug.metrics.statistics.resampling import Floats
from refaug.tables.reports.plotting import (
    BLUE,
    FONT,
    GREEN,
    GREY,
    ORANGE,
    SKY,
    Plot,
    new_figure,
    plot_style,
    to_plot,
)

_MISSING_SIGN: Final = "□"
_MOST_SYSTEMS: Final = 60  # on one axis
_MOST_NAMED: Final = 30  # systems whose names stand beside their points
_LABEL_WIDTH: Final = 30  # of a line, in letters of common width
_THICKNESS: Final = 0.19  # of bars and boxes, in inches
_FLIERS: Final = {"marker": ".", "markersize": 3, "markerfacecolor": GREY, "markeredgecolor": "none", "alpha": 0.5}


@dataclass(frozen=True, kw_only=True)
class SectionPlots:
    """The plots of one set or of the mean, by what they show."""

    bars: Plot
    scatter: tuple[Plot, ...] = ()
    boxes: tuple[Plot, ...] = ()
    system_level: tuple[Plot, ...] = ()

    def __iter__(self) -> Iterator[Plot]:
        return iter((self.bars, *self.scatter, *self.boxes, *self.system_level))


def plots(meta_result: MetaResult) -> list[SectionPlots]:
    """Return the plots of every set, and those of the mean."""
    with plot_style():
        drawn = [
            _plots_of_set(number, set_result, meta_result)
            for number, set_result in enumerate(meta_result.sets, start=1)
        ]
        if meta_result.mean is not None:
            bars = _bars("mean-correlation.png", meta_result.mean.rows, "mean over sets", (None, None))
            drawn.append(SectionPlots(bars=bars))
    return drawn


def _to_plot(file: str, caption: str, figure: Figure, names: Mapping[str, str]) -> Plot:
    """Return the figure as a file; the caption gives the names that the font cannot draw, by what they name."""
    unknown = [
        f"{what}: {make_printable(name)}" for what, name in names.items() if _drawable(name) != make_printable(name)
    ]
    if unknown:
        caption += f". Names with signs that the plot shows as {_MISSING_SIGN}: {'; '.join(unknown)}"
    return to_plot(file, caption, figure)


def _plots_of_set(number: int, set_result: SetResult, meta_result: MetaResult) -> SectionPlots:
    """Draw the bars, then for every metric a scatter plot, the scores of each system, and the systems' means."""
    stem = f"{number:02}-{slug(set_result.name)}"
    halves = set_result.annotators.split_half.spearman
    people = (_stepped_up(halves.low), _stepped_up(halves.high))
    bars = _bars(f"{stem}-correlation.png", set_result.rows, set_result.name, people)
    if not set_result.points.items:
        return SectionPlots(bars=bars)
    scatter, boxes, system_level = list[Plot](), list[Plot](), list[Plot]()
    for place, row in enumerate(set_result.rows, start=1):
        values = set_result.points.lengths if row.kind is RowKind.LENGTH else set_result.points.values.get(row.name)
        if values is None:  # the row of people, or a metric without a score
            continue
        tail = f"{place:02}-{slug(row.name)}.png"
        scatter.append(_scatter(f"{stem}-scatter-{tail}", row, values, set_result, meta_result))
        boxes.append(_distributions(f"{stem}-systems-{tail}", row, values, set_result))
        if row.system_level is not None and len(row.system_level.systems) > 1:
            system_level.append(_system_level(f"{stem}-system-level-{tail}", row, row.system_level, set_result))
    return SectionPlots(bars=bars, scatter=tuple(scatter), boxes=tuple(boxes), system_level=tuple(system_level))


def _stepped_up(half: float | None) -> float | None:
    """Apply Spearman & Brown's 2r / (1 + r), which is monotonic, so that the bounds of an interval stay in order."""
    return None if half is None or half <= -1 else 2 * half / (1 + half)


def _bars(
    file: str, rows: Sequence[AgreementRow | MeanRow], name: str, people: tuple[float | None, float | None]
) -> Plot:
    """Plot Spearman of every row with its interval, and the agreement of people as a band."""
    shown = [row for row in rows if row.kind is not RowKind.HUMAN]
    human = next((row.spearman.value for row in rows if row.kind is RowKind.HUMAN), None)
    figure, axes, places = _lines_of(6.4, [_wrap(row_label(row)) for row in shown])
    axes.axvline(0, color="black", linewidth=0.8)
    for place, row in zip(places, shown, strict=True):
        _bar(axes, place, row)
    if human is not None:
        low, high = people
        if low is not None and high is not None:
            axes.axvspan(low, high, color=GREEN, alpha=0.18, linewidth=0)
        axes.axvline(human, color=GREEN, linewidth=1.6, label=f"people with people, {fixed(human, 2)}")
        figure.legend(loc="outside lower center", frameon=False)
    figure.suptitle(f"Spearman with the mean rating, {_shorten(name)}")
    caption = f"Spearman of each metric with the mean rating and its interval, {make_printable(name)}"
    if human is not None:
        caption += "; the line: split-half reliability of the annotators, stepped up"
        caption += ", in the band of ways to halve them" if None not in people else ""
    names = {f"metric {place} from the top": row.name for place, row in enumerate(shown, start=1)}
    return _to_plot(file, caption, figure, {"set": name, **names})


def _bar(axes: Axes, place: float, row: AgreementRow | MeanRow) -> None:
    estimate = row.spearman
    _beside(axes, place, "–" if estimate.value is None else minus(fixed(estimate.value, 2)))
    if estimate.value is None:
        return
    colour = GREY if row.kind is RowKind.LENGTH else SKY if row.is_baseline else BLUE
    axes.barh(place, estimate.value, height=_THICKNESS, color=colour)
    if estimate.low is not None and estimate.high is not None:
        axes.plot([estimate.low, estimate.high], [place, place], color="black", linewidth=1.2, marker="|", markersize=6)


def _lines_of(width: float, labels: Sequence[str]) -> tuple[Figure, Axes, list[float]]:
    """Return axes with a line for each label, as high as the label; the unit of the y axis is the inch."""
    heights = [0.12 + 0.16 * (label.count("\n") + 1) for label in labels]
    ends = list(accumulate(heights))
    places = [end - height / 2 for end, height in zip(ends, heights, strict=True)]
    figure, axes = new_figure(width, 1.2 + ends[-1])
    axes.set_yticks(places, labels)
    axes.set_ylim(ends[-1] + 0.04, -0.04)
    axes.grid(visible=False, axis="y")
    return figure, axes, places


def _beside(axes: Axes, place: float, text: str) -> None:
    """Write a figure at the right end of a line."""
    axes.text(1.02, place, text, transform=axes.get_yaxis_transform(), va="center")


def _scatter(file: str, row: AgreementRow, values: Floats, set_result: SetResult, meta_result: MetaResult) -> Plot:
    """Plot scores over mean ratings; ratings are jittered, since few distinct ratings would hide points."""
    figure, axes = new_figure(4.6, 3.7)
    ratings = set_result.points.ratings
    jittered = ratings + np.random.default_rng(meta_result.settings.seed).uniform(-1, 1, len(ratings)) * _jitter(
        ratings
    )
    opacity = float(np.clip(12 / math.sqrt(len(ratings)), 0.12, 0.75))
    axes.scatter(jittered, values, s=12, color=BLUE, alpha=opacity, linewidths=0)
    axes.set_xlabel("mean rating (jittered)")
    axes.set_ylabel("tokens of the reply" if row.kind is RowKind.LENGTH else _shorten(row.name) + _direction(row))
    figure.suptitle(f"{_wrap(row.name, 52)}\n{_in_title(row)}, {_shorten(set_result.name)}")
    caption = f"{make_printable(row.name)} against the mean rating, {make_printable(set_result.name)}: {_in_title(row)}"
    return _to_plot(file, caption, figure, {"metric": row.name, "set": set_result.name})


def _jitter(ratings: Floats) -> float:
    """Return the width of the jitter: less than half of the distance to the next rating, and little of the scale."""
    distinct = np.unique(ratings)
    if len(distinct) < 2:
        return 0.1
    span, gap = float(distinct[-1] - distinct[0]), float(np.diff(distinct).min())
    return min(max(0.35 * gap, 0.005 * span), 0.08 * span)


def _direction(row: AgreementRow) -> str:
    return " (lower is better)" if row.turned else ""


def _in_title(row: AgreementRow) -> str:
    estimate = row.spearman
    if estimate.value is None:
        return "Spearman not defined"
    turned = " (sign turned)" if row.turned else ""
    low, high = estimate.low, estimate.high
    interval = "" if low is None or high is None else f" [{fixed(low, 2)}, {fixed(high, 2)}]"
    return f"Spearman {minus(fixed(estimate.value, 2) + interval)}{turned}"


def _distributions(file: str, row: AgreementRow, values: Floats, set_result: SetResult) -> Plot:
    """Plot a box of scores per system, the best rated system on top."""
    systems, ratings = np.array(set_result.points.systems), set_result.points.ratings
    means = {name: float(ratings[systems == name].mean()) for name in dict.fromkeys(set_result.points.systems)}
    ranked = sorted(means, key=lambda name: (-means[name], name))
    left_out = max(0, len(ranked) - _MOST_SYSTEMS)
    if left_out:
        half = _MOST_SYSTEMS // 2
        ranked = [*ranked[:half], *ranked[-half:]]
    figure, axes, places = _lines_of(4.6, [_wrap(name, 22) for name in ranked])
    axes.text(1.02, 1, "rating", transform=axes.transAxes, va="bottom", color=GREY)
    for place, name in zip(places, ranked, strict=True):
        _beside(axes, place, minus(fixed(means[name], 2)))
    axes.boxplot(
        [values[systems == name] for name in ranked],
        positions=places,
        orientation="horizontal",
        widths=_THICKNESS,
        patch_artist=True,
        showmeans=True,
        manage_ticks=False,
        boxprops={"facecolor": SKY, "edgecolor": BLUE},
        medianprops={"color": "black"},
        meanprops={"marker": "D", "markersize": 4, "markerfacecolor": ORANGE, "markeredgecolor": "black"},
        flierprops=_FLIERS,
    )
    axes.set_xlabel("tokens of the reply" if row.kind is RowKind.LENGTH else _shorten(row.name) + _direction(row))
    figure.suptitle(f"{_wrap(row.name, 52)}\nby system, {_shorten(set_result.name)}")
    shown = f"{make_printable(row.name)} by system, {make_printable(set_result.name)}"
    caption = f"{shown}: on top the best rated, "
    caption += "a diamond at each mean"
    if left_out:
        caption += f"; {left_out:,} systems between the {_MOST_SYSTEMS // 2} best and the others are not drawn"
    names = {f"system {place} from the top": name for place, name in enumerate(ranked, start=1)}
    return _to_plot(file, caption, figure, {"metric": row.name, "set": set_result.name, **names})


def _system_level(file: str, row: AgreementRow, level: SystemLevel, set_result: SetResult) -> Plot:
    """Plot the mean score of each system over its mean rating, as the table of systems has them."""
    figure, axes = new_figure(4.6, 3.7)
    axes.scatter(level.ratings, level.scores, s=30, color=BLUE, linewidths=0)
    if len(level.systems) <= _MOST_NAMED:
        for name, score, rating in zip(level.systems, level.scores, level.ratings, strict=True):
            label = _shorten(str(name), 18)
            axes.annotate(label, (rating, score), xytext=(4, 4), textcoords="offset points", fontsize="small")
    axes.margins(0.15)
    axes.set_xlabel("mean rating, relative to the contexts")
    what = "tokens of the reply" if row.kind is RowKind.LENGTH else _shorten(row.name)
    turned = " (sign turned)" if row.turned else ""
    axes.set_ylabel(f"{what}{turned}, relative")
    spearman, pearson = (_value_in_words(kind, level.by_kind[kind].value) for kind in ("spearman", "pearson"))
    count = f"{len(level.systems):,} systems"
    figure.suptitle(f"{_wrap(row.name, 52)}\n{count}, {_shorten(set_result.name)}: {spearman}")
    caption = f"{make_printable(row.name)}{turned}, the mean score of each system against its mean rating, "
    caption += f"{make_printable(set_result.name)}: {count}, {spearman}, {pearson}"
    names = {f"system {place}": str(name) for place, name in enumerate(level.systems, start=1)}
    return _to_plot(file, caption, figure, {"metric": row.name, "set": set_result.name, **names})


def _value_in_words(kind: str, value: float | None) -> str:
    return f"{kind.capitalize()} {'not defined' if value is None else minus(fixed(value, 2))}"


@functools.cache
def _widths() -> Mapping[int, float]:
    """Return the code points that the font can draw, with their widths in letters of common width."""
    font = FT2Font(findfont(FontProperties(family=FONT)))
    font.set_size(100, 72)
    common = font.load_char(ord("e")).linearHoriAdvance
    return {code: font.load_char(code).linearHoriAdvance / common for code in font.get_charmap()}


def _drawable(text: str) -> str:
    """Replace every character that the font lacks with a box; matplotlib would draw a box too, but also warn."""
    return "".join(sign if ord(sign) in _widths() else _MISSING_SIGN for sign in make_printable(text))


def _width(text: str) -> float:
    return sum(_widths()[ord(sign)] for sign in text)


def _wrap(text: str, width: float = _LABEL_WIDTH, lines: int = 3) -> str:
    """Break the text into a few lines, after separators where possible; of a longer text the middle is left out."""
    broken = [""]
    for word in re.findall(r"[^ ,:/|]*[ ,:/|]|[^ ,:/|]+", _drawable(text)):
        if broken[-1] and _width(broken[-1] + word.rstrip()) > width:
            broken.append("")
        for sign in word:
            if _width(broken[-1] + sign) > width and not sign.isspace():
                broken.append("")
            broken[-1] += sign
    if len(broken) > lines:
        broken = [*broken[: lines - 1], "…" + broken[-1]]
    return "\n".join(line.strip() for line in broken)


def _shorten(text: str, width: float = 30) -> str:
    """Return the text on one line, without its middle where it is too long."""
    first = last = _drawable(text)
    if _width(first) <= width:
        return first
    while _width(first) > width / 2:
        first = first[:-1]
    while _width(last) > width / 2:
        last = last[1:]
    return f"{first}…{last}"
