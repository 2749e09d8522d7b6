"""The plots of the report of `refaug meta`.

Equal results give equal bytes: points are jittered with the seed of the result, and the settings are always the same.
"""

from __future__ import annotations

import functools
import math
import re
from collections.abc import Iterator, Mapping, Sequence
from itertools import accumulate
from typing import Final

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.font_manager import FontProperties, findfont
from matplotlib.ft2font import FT2Font

from core.text import harmless
from metrics.resampling import Floats
from service.meta_records import AgreementRow, MeanRow, MetaResult, RowKind, SetResult
from service.meta_text import fixed, minus, row_label, slug
from service.plotting import BLUE, FONT, GREEN, GREY, ORANGE, SKY, Plot, as_plot, new_figure, our_look

_MISSING_SIGN: Final = "□"
_MOST_SYSTEMS: Final = 60  # on one axis
_LABEL_WIDTH: Final = 30  # of a line, in letters of common width
_THICK: Final = 0.19  # inches: of bars and boxes
_FLIERS: Final = {"marker": ".", "markersize": 3, "markerfacecolor": GREY, "markeredgecolor": "none", "alpha": 0.5}


def plots(result: MetaResult) -> list[list[Plot]]:
    """The plots of every set, and those of the mean."""
    with our_look():
        found = [list(_plots_of_set(number, one, result)) for number, one in enumerate(result.sets, start=1)]
        if result.mean is not None:
            found.append([_bars("mean-correlation.png", result.mean.rows, "mean over sets", (None, None))])
    return found


def _drawn(file: str, caption: str, figure: Figure, names: Mapping[str, str]) -> Plot:
    """The figure as a file; of the names in it (by what they name) the caption tells those that the font lacks."""
    unknown = [f"{what}: {harmless(name)}" for what, name in names.items() if _drawable(name) != harmless(name)]
    if unknown:
        caption += f". Names with signs that the plot shows as {_MISSING_SIGN}: {'; '.join(unknown)}"
    return as_plot(file, caption, figure)


def _plots_of_set(number: int, found: SetResult, result: MetaResult) -> Iterator[Plot]:
    """Bars, then for every metric a scatter and the scores of each system."""
    stem = f"{number:02}-{slug(found.name)}"
    halves = found.annotators.split_half.spearman
    yield _bars(f"{stem}-correlation.png", found.rows, found.name, (_stepped_up(halves.low), _stepped_up(halves.high)))
    if not found.points.items:
        return
    for place, row in enumerate(found.rows, start=1):
        values = found.points.lengths if row.kind is RowKind.LENGTH else found.points.values.get(row.name)
        if values is None:  # people, or a metric without a score
            continue
        tail = f"{place:02}-{slug(row.name)}.png"
        yield _scatter(f"{stem}-scatter-{tail}", row, values, found, result)
        yield _distributions(f"{stem}-systems-{tail}", row, values, found)


def _stepped_up(half: float | None) -> float | None:
    """Spearman & Brown's 2r / (1 + r), which keeps order, so that an interval stays one."""
    return None if half is None or half <= -1 else 2 * half / (1 + half)


def _bars(
    file: str, rows: Sequence[AgreementRow | MeanRow], name: str, people: tuple[float | None, float | None]
) -> Plot:
    """Spearman of every row with its interval, and people as the band that a metric may hope for."""
    shown = [row for row in rows if row.kind is not RowKind.HUMAN]
    human = next((row.spearman.value for row in rows if row.kind is RowKind.HUMAN), None)
    figure, axes, places = _lines_of(6.4, [_wrapped(row_label(row)) for row in shown])
    axes.axvline(0, color="black", linewidth=0.8)
    for place, row in zip(places, shown, strict=True):
        _bar(axes, place, row)
    if human is not None:
        low, high = people
        if low is not None and high is not None:
            axes.axvspan(low, high, color=GREEN, alpha=0.18, linewidth=0)
        axes.axvline(human, color=GREEN, linewidth=1.6, label=f"people with people, {fixed(human, 2)}")
        figure.legend(loc="outside lower center", frameon=False)
    figure.suptitle(f"Spearman with the mean rating, {_short(name)}")
    caption = f"Spearman of each metric with the mean rating and its interval, {harmless(name)}"
    if human is not None:
        caption += "; the line: split-half reliability of the annotators, stepped up"
        caption += ", in the band of ways to halve them" if None not in people else ""
    names = {f"metric {place} from the top": row.name for place, row in enumerate(shown, start=1)}
    return _drawn(file, caption, figure, {"set": name, **names})


def _bar(axes: Axes, place: float, row: AgreementRow | MeanRow) -> None:
    one = row.spearman
    _beside(axes, place, "–" if one.value is None else minus(fixed(one.value, 2)))
    if one.value is None:
        return
    colour = GREY if row.kind is RowKind.LENGTH else SKY if row.is_baseline else BLUE
    axes.barh(place, one.value, height=_THICK, color=colour)
    if one.low is not None and one.high is not None:
        axes.plot([one.low, one.high], [place, place], color="black", linewidth=1.2, marker="|", markersize=6)


def _lines_of(width: float, labels: Sequence[str]) -> tuple[Figure, Axes, list[float]]:
    """Axes with a line for each label, as high as the label is; the unit of the y axis is the inch."""
    heights = [0.12 + 0.16 * (label.count("\n") + 1) for label in labels]
    ends = list(accumulate(heights))
    places = [end - height / 2 for end, height in zip(ends, heights, strict=True)]
    figure, axes = new_figure(width, 1.2 + ends[-1])
    axes.set_yticks(places, labels)
    axes.set_ylim(ends[-1] + 0.04, -0.04)
    axes.grid(visible=False, axis="y")
    return figure, axes, places


def _beside(axes: Axes, place: float, text: str) -> None:
    """A figure at the right end of a line."""
    axes.text(1.02, place, text, transform=axes.get_yaxis_transform(), va="center")


def _scatter(file: str, row: AgreementRow, values: Floats, found: SetResult, result: MetaResult) -> Plot:
    """Scores over mean ratings; ratings are few and points would lie on each other, so these are jittered."""
    figure, axes = new_figure(4.6, 3.7)
    ratings = found.points.ratings
    jittered = ratings + np.random.default_rng(result.settings.seed).uniform(-1, 1, len(ratings)) * _jitter(ratings)
    opacity = float(np.clip(12 / math.sqrt(len(ratings)), 0.12, 0.75))
    axes.scatter(jittered, values, s=12, color=BLUE, alpha=opacity, linewidths=0)
    axes.set_xlabel("mean rating (jittered)")
    axes.set_ylabel("tokens of the reply" if row.kind is RowKind.LENGTH else _short(row.name) + _direction(row))
    figure.suptitle(f"{_wrapped(row.name, 52)}\n{_in_title(row)}, {_short(found.name)}")
    caption = f"{harmless(row.name)} against the mean rating, {harmless(found.name)}: {_in_title(row)}"
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
    interval = "" if one.low is None or one.high is None else f" [{fixed(one.low, 2)}, {fixed(one.high, 2)}]"
    return f"Spearman {minus(fixed(one.value, 2) + interval)}{turned}"


def _distributions(file: str, row: AgreementRow, values: Floats, found: SetResult) -> Plot:
    """A box of scores per system, the one that people like best on top."""
    systems, ratings = np.array(found.points.systems), found.points.ratings
    means = {name: float(ratings[systems == name].mean()) for name in dict.fromkeys(found.points.systems)}
    ranked = sorted(means, key=lambda name: (-means[name], name))
    left_out = max(0, len(ranked) - _MOST_SYSTEMS)
    if left_out:
        half = _MOST_SYSTEMS // 2
        ranked = [*ranked[:half], *ranked[-half:]]
    figure, axes, places = _lines_of(4.6, [_wrapped(name, 22) for name in ranked])
    axes.text(1.02, 1, "rating", transform=axes.transAxes, va="bottom", color=GREY)
    for place, name in zip(places, ranked, strict=True):
        _beside(axes, place, minus(fixed(means[name], 2)))
    axes.boxplot(
        [values[systems == name] for name in ranked],
        positions=places,
        orientation="horizontal",
        widths=_THICK,
        patch_artist=True,
        showmeans=True,
        manage_ticks=False,
        boxprops={"facecolor": SKY, "edgecolor": BLUE},
        medianprops={"color": "black"},
        meanprops={"marker": "D", "markersize": 4, "markerfacecolor": ORANGE, "markeredgecolor": "black"},
        flierprops=_FLIERS,
    )
    axes.set_xlabel("tokens of the reply" if row.kind is RowKind.LENGTH else _short(row.name) + _direction(row))
    figure.suptitle(f"{_wrapped(row.name, 52)}\nby system, {_short(found.name)}")
    caption = f"{harmless(row.name)} by system, {harmless(found.name)}: on top the best rated, a diamond at each mean"
    if left_out:
        caption += f"; {left_out:,} systems between the {_MOST_SYSTEMS // 2} best and the others are not drawn"
    names = {f"system {place} from the top": name for place, name in enumerate(ranked, start=1)}
    return _drawn(file, caption, figure, {"metric": row.name, "set": found.name, **names})


@functools.cache
def _widths() -> Mapping[int, float]:
    """The code points that the font can draw, with their widths in letters of common width."""
    font = FT2Font(findfont(FontProperties(family=FONT)))
    font.set_size(100, 72)
    common = font.load_char(ord("e")).linearHoriAdvance
    return {code: font.load_char(code).linearHoriAdvance / common for code in font.get_charmap()}


def _drawable(text: str) -> str:
    """The text with a box for all that the font lacks: matplotlib would warn, and draw one as well."""
    return "".join(one if ord(one) in _widths() else _MISSING_SIGN for one in harmless(text))


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
