"""Figures with their intervals as pictures: bars beside each other, and curves with bands.

Equal figures give equal bytes. A figure that is not defined leaves a gap, and the bar plot says so.
"""

from __future__ import annotations

import functools
import math
import textwrap
from collections.abc import Mapping, Sequence
from itertools import accumulate
from typing import Final

from matplotlib.axes import Axes
from matplotlib.figure import Figure as Drawing
from matplotlib.font_manager import FontProperties, findfont
from matplotlib.ft2font import FT2Font
from matplotlib.ticker import FixedLocator, FuncFormatter, NullFormatter, NullLocator

from core.text import harmless
from service.meta_text import fixed, minus
from service.plotting import BLUE, FONT, GREEN, GREY, ORANGE, SKY, Plot, as_plot, new_figure, our_look
from service.proof.figures import Figure

_COLOURS: Final = (BLUE, ORANGE, GREEN, SKY, GREY)
_MARKERS: Final = ("o", "s", "^", "D", "v", "P", "X")  # a sixth series has the first colour and another marker
_LABEL: Final = 34  # letters on a line
_MISSING_SIGN: Final = "□"
_WIDTH, _HEIGHT = 6.4, 3.4  # inches
_THICK: Final = 0.17  # of a bar
_LINE: Final = 0.15  # of a line of a label
_APART: Final = 0.11  # between two names


def bars(
    file: str,
    caption: str,
    names: Sequence[str],
    figures: Sequence[Figure],
    *,
    groups: Sequence[str] | None = None,
    title: str = "",
    x_label: str = "Spearman",
    beside: Figure | None = None,
    beside_name: str = "",
) -> Plot:
    """A bar for each figure, from the top, with its interval; those of one name that follow each other stand together.

    `groups` says for each bar of which set, or of which kind of references it is: each has its colour. `beside` is a
    figure that all are to be seen next to: a line with its band.
    """
    assert len(names) == len(figures) == len(groups or names), "each bar has a name, a figure and perhaps a group"
    kinds = list(dict.fromkeys(groups or ()))
    with our_look():
        drawing, axes, places = _rows(names)
        if beside is not None:
            _line_beside(axes, beside, beside_name)
        axes.axvline(0, color="black", linewidth=0.8)
        for place, one, colour in zip(places, figures, _colours_of(groups, kinds, len(names)), strict=True):
            _bar(axes, place, one, colour)
        for number, kind in enumerate(kinds):
            axes.barh(places[0], 0, color=_COLOURS[number % len(_COLOURS)], label=_entry(kind))
        _finish(drawing, axes, title)
        axes.set_xlabel(_shown(x_label))
        return as_plot(file, harmless(caption), drawing)


def curves(
    file: str,
    caption: str,
    x: Sequence[float],
    series: Mapping[str, Sequence[Figure]],
    x_label: str,
    log_x: bool = False,
    *,
    y_label: str = "Spearman",
    title: str = "",
) -> Plot:
    """A line for each series over the same places, its interval as a band; marks on the axis are the places."""
    assert all(len(one) == len(x) for one in series.values()), "every series has a figure for each place"
    with our_look():
        drawing, axes = new_figure(_WIDTH, _HEIGHT)
        for number, (name, figures) in enumerate(series.items()):
            _curve(axes, x, figures, name, number)
        if log_x:
            axes.set_xscale("log")
        _mark(axes, x)
        axes.set_xlabel(_shown(x_label))
        axes.set_ylabel(_shown(y_label))
        _finish(drawing, axes, title)
        return as_plot(file, harmless(caption), drawing)


# ── bars ──────────────────────────────────────────────────────────────────────────────────────────────────────────


def _rows(names: Sequence[str]) -> tuple[Drawing, Axes, list[float]]:
    """Axes with a place for each bar; the unit of the y axis is the inch. A name stands in the middle of its bars."""
    runs = _runs(names)
    labels = [_wrapped(name) for name, _ in runs]
    heights = [
        _APART + max(_THICK * bars_, _LINE * (label.count("\n") + 1))
        for (_, bars_), label in zip(runs, labels, strict=True)
    ]
    ends = list(accumulate(heights))
    middles = [end - height / 2 for end, height in zip(ends, heights, strict=True)]
    places = [
        middle + _THICK * (bar - (bars_ - 1) / 2)
        for (_, bars_), middle in zip(runs, middles, strict=True)
        for bar in range(bars_)
    ]
    drawing, axes = new_figure(_WIDTH, 1.2 + (ends[-1] if ends else 0))
    axes.set_yticks(middles, labels)
    axes.set_ylim((ends[-1] if ends else 1) + 0.04, -0.04)
    axes.grid(visible=False, axis="y")
    return drawing, axes, places


def _runs(names: Sequence[str]) -> list[tuple[str, int]]:
    """The names with how often each follows itself."""
    found = list[tuple[str, int]]()
    for name in names:
        if found and found[-1][0] == name:
            found[-1] = (name, found[-1][1] + 1)
        else:
            found.append((name, 1))
    return found


def _colours_of(groups: Sequence[str] | None, kinds: Sequence[str], count: int) -> list[str]:
    if groups is None:
        return [BLUE] * count
    return [_COLOURS[kinds.index(group) % len(_COLOURS)] for group in groups]


def _bar(axes: Axes, place: float, one: Figure, colour: str) -> None:
    """The bar, its interval, and the number at the right end."""
    text = "–" if one.value is None else minus(fixed(one.value, 2))
    axes.text(1.02, place, text, transform=axes.get_yaxis_transform(), va="center")
    if one.value is None:
        return
    axes.barh(place, one.value, height=0.85 * _THICK, color=colour)
    if one.low is not None and one.high is not None:
        axes.plot([one.low, one.high], [place, place], color="black", linewidth=1.1, marker="|", markersize=5)


def _line_beside(axes: Axes, one: Figure, name: str) -> None:
    if one.value is None:
        return
    if one.low is not None and one.high is not None:
        axes.axvspan(one.low, one.high, color=GREY, alpha=0.2, linewidth=0)
    number = minus(fixed(one.value, 2))
    label = _entry(f"{name}, {number}" if name else number)
    axes.axvline(one.value, color="black", linewidth=1.2, linestyle="--", label=label)


# ── curves ────────────────────────────────────────────────────────────────────────────────────────────────────────


def _curve(axes: Axes, x: Sequence[float], figures: Sequence[Figure], name: str, number: int) -> None:
    colour, marker = _COLOURS[number % len(_COLOURS)], _MARKERS[number % len(_MARKERS)]
    values, lows, highs = (
        [_number(end) for end in ends]
        for ends in zip(*((one.value, one.low, one.high) for one in figures), strict=True)
    )
    axes.fill_between(x, lows, highs, color=colour, alpha=0.15, linewidth=0)
    axes.vlines(x, lows, highs, color=colour, alpha=0.4, linewidth=0.8)  # a band has no width at a place by itself
    axes.plot(x, values, color=colour, marker=marker, markersize=4, linewidth=1.4, label=_entry(name))


def _number(value: float | None) -> float:
    return math.nan if value is None else value


def _mark(axes: Axes, x: Sequence[float]) -> None:
    """Marks where there are figures, and nowhere else."""
    axes.xaxis.set_major_locator(FixedLocator(list(x)))
    axes.xaxis.set_minor_locator(NullLocator())
    axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _place: _in_short(value)))
    axes.xaxis.set_minor_formatter(NullFormatter())
    if x and max(x) >= 1_000:
        axes.tick_params(axis="x", rotation=30)


def _in_short(value: float) -> str:
    """1.6 M, 161 k, 50."""
    for size, sign in ((1e6, " M"), (1e3, " k")):
        if value >= size:
            return f"{value / size:.3g}{sign}"
    return f"{value:g}"


# ── both ──────────────────────────────────────────────────────────────────────────────────────────────────────────


def _finish(drawing: Drawing, axes: Axes, title: str) -> None:
    """A title above, and below what the colours mean."""
    if title:
        drawing.suptitle(_wrapped(title, 2 * _LABEL))
    handles, labels = axes.get_legend_handles_labels()
    if labels:
        columns = 1 if max(map(len, labels)) > _LABEL else min(len(labels), 3)
        drawing.legend(handles, labels, loc="outside lower center", frameon=False, ncols=columns)


def _entry(text: str) -> str:
    """As it stands in a legend, from which matplotlib leaves out what begins with an underscore."""
    return f" {_shown(text)}" if text.startswith("_") else _shown(text)


def _wrapped(text: str, width: int = _LABEL) -> str:
    """On several lines where it is long."""
    return "\n".join(textwrap.wrap(_shown(text), width))


def _shown(text: str) -> str:
    """With a box for every sign that the font lacks: names of sets are other people's text."""
    return "".join(one if ord(one) in _signs() else _MISSING_SIGN for one in harmless(text))


@functools.cache
def _signs() -> frozenset[int]:
    """What the font can draw."""
    return frozenset(FT2Font(findfont(FontProperties(family=FONT))).get_charmap())
