"""Plots of figures with their intervals: horizontal bars, and curves with bands.

Equal figures give equal bytes. An undefined figure leaves a gap, and the bar plot says so. Each plot has its recipe:
the figures as the JSON of a report has them, from which `redraw` makes the same plot.
"""

from __future__ import annotations

import functools
import math
import textwrap
from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import accumulate
from typing import Any, Final

from matplotlib.axes import Axes
from matplotlib.figure import Figure as Drawing
from matplotlib.font_manager import FontProperties, findfont
from matplotlib.ft2font import FT2Font
from matplotlib.ticker import FixedLocator, FuncFormatter, NullFormatter, NullLocator

from refaug.agreement.report.wording import fixed, minus
from refaug.core.text.normalisation import make_printable
from refaug.extras.reproduction.figures.correlations import IntervalEstimate
from refaug.tables.reports import plotting

BARS, CURVES = "bars", "curves"  # the kinds of plots
_COLOURS: Final = (plotting.BLUE, plotting.ORANGE, plotting.GREEN, plotting.SKY, plotting.GREY)
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
    estimates: Sequence[IntervalEstimate],
    *,
    groups: Sequence[str] | None = None,
    title: str = "",
    x_label: str = "Spearman",
) -> plotting.Plot:
    """Plot a bar with its interval for each figure, from the top; consecutive bars of the same name stand together.

    `groups` names for each bar the set or the kind of references, which gives the bar its colour.
    """
    assert len(names) == len(estimates) == len(groups or names), "each bar has a name, a figure and perhaps a group"
    stored = [estimate.as_json() for estimate in estimates]
    recipe = {
        "kind": BARS,
        "file": file,
        "caption": caption,
        "names": list(names),
        "estimates": stored,
        "groups": None if groups is None else list(groups),
        "title": title,
        "x_label": x_label,
    }
    estimates = _stored_estimates(stored)
    kinds = list(dict.fromkeys(groups or ()))
    with plotting.plot_style():
        drawing, axes, places = _new_bar_axes(names)
        axes.axvline(0, color="black", linewidth=0.8)
        for place, estimate, colour in zip(places, estimates, _colours_of(groups, kinds, len(names)), strict=True):
            _draw_bar(axes, place, estimate, colour)
        for number, kind in enumerate(kinds):
            axes.barh(places[0], 0, color=_COLOURS[number % len(_COLOURS)], label=_legend_text(kind))
        _finish(drawing, axes, title)
        axes.set_xlabel(_drawable(x_label))
        return replace(plotting.to_plot(file, make_printable(caption), drawing), recipe=recipe)


def curves(
    file: str,
    caption: str,
    x: Sequence[float],
    series: Mapping[str, Sequence[IntervalEstimate]],
    x_label: str,
    *,
    y_label: str = "Spearman",
    title: str = "",
) -> plotting.Plot:
    """Plot a line for each series over the same places, its interval as a band; the ticks are the places."""
    assert all(len(curve) == len(x) for curve in series.values()), "every series has a figure for each place"
    stored = {name: [estimate.as_json() for estimate in estimates] for name, estimates in series.items()}
    recipe = {
        "kind": CURVES,
        "file": file,
        "caption": caption,
        "x": [float(place) for place in x],
        "series": stored,
        "x_label": x_label,
        "y_label": y_label,
        "title": title,
    }
    with plotting.plot_style():
        drawing, axes = plotting.new_figure(_WIDTH, _HEIGHT)
        for number, (name, curve) in enumerate(stored.items()):
            _draw_curve(axes, x, _stored_estimates(curve), name, number)
        _set_ticks(axes, x)
        axes.set_xlabel(_drawable(x_label))
        axes.set_ylabel(_drawable(y_label))
        _finish(drawing, axes, title)
        return replace(plotting.to_plot(file, make_printable(caption), drawing), recipe=recipe)


def redraw(recipe: Mapping[str, Any]) -> plotting.Plot:
    """Return the plot of a recipe, as a report stores it."""
    content = dict(recipe)
    if content.pop("kind") == BARS:
        content["estimates"] = _stored_estimates(content["estimates"])
        return bars(**content)
    content["series"] = {name: _stored_estimates(stored) for name, stored in content["series"].items()}
    return curves(**content)


def _stored_estimates(stored: Sequence[Mapping[str, Any]]) -> list[IntervalEstimate]:
    """Return figures with the digits that a report stores, so that a plot is the same when it is drawn from there."""
    return [IntervalEstimate(**estimate) for estimate in stored]


# ── Bars ──────────────────────────────────────────────────────────────────────────────────────────────────────────────


def _new_bar_axes(names: Sequence[str]) -> tuple[Drawing, Axes, list[float]]:
    """Return axes with a place for each bar; the unit of the y axis is the inch. A name is centred on its bars."""
    runs = _runs(names)
    labels = [_wrap(name) for name, _ in runs]
    heights = [
        _APART + max(_THICK * bar_count, _LINE * (label.count("\n") + 1))
        for (_, bar_count), label in zip(runs, labels, strict=True)
    ]
    ends = list(accumulate(heights))
    middles = [end - height / 2 for end, height in zip(ends, heights, strict=True)]
    places = [
        middle + _THICK * (bar - (bar_count - 1) / 2)
        for (_, bar_count), middle in zip(runs, middles, strict=True)
        for bar in range(bar_count)
    ]
    drawing, axes = plotting.new_figure(_WIDTH, 1.2 + (ends[-1] if ends else 0))
    axes.set_yticks(middles, labels)
    axes.set_ylim((ends[-1] if ends else 1) + 0.04, -0.04)
    axes.grid(visible=False, axis="y")
    return drawing, axes, places


def _runs(names: Sequence[str]) -> list[tuple[str, int]]:
    """Return the names, each with the number of times that it follows itself."""
    runs = list[tuple[str, int]]()
    for name in names:
        if runs and runs[-1][0] == name:
            runs[-1] = (name, runs[-1][1] + 1)
        else:
            runs.append((name, 1))
    return runs


def _colours_of(groups: Sequence[str] | None, kinds: Sequence[str], count: int) -> list[str]:
    if groups is None:
        return [plotting.BLUE] * count
    return [_COLOURS[kinds.index(group) % len(_COLOURS)] for group in groups]


def _draw_bar(axes: Axes, place: float, estimate: IntervalEstimate, colour: str) -> None:
    """Draw the bar, its interval, and the number at the right end."""
    text = "–" if estimate.value is None else minus(fixed(estimate.value, 2))
    axes.text(1.02, place, text, transform=axes.get_yaxis_transform(), va="center")
    if estimate.value is None:
        return
    axes.barh(place, estimate.value, height=0.85 * _THICK, color=colour)
    if estimate.low is not None and estimate.high is not None:
        axes.plot([estimate.low, estimate.high], [place, place], color="black", linewidth=1.1, marker="|", markersize=5)


def _draw_curve(axes: Axes, x: Sequence[float], estimates: Sequence[IntervalEstimate], name: str, number: int) -> None:
    colour, marker = _COLOURS[number % len(_COLOURS)], _MARKERS[number % len(_MARKERS)]
    values, lows, highs = (
        [math.nan if end is None else end for end in ends]
        for ends in zip(*((estimate.value, estimate.low, estimate.high) for estimate in estimates), strict=True)
    )
    axes.fill_between(x, lows, highs, color=colour, alpha=0.15, linewidth=0)
    axes.vlines(x, lows, highs, color=colour, alpha=0.4, linewidth=0.8)  # a band has no width at a place by itself
    axes.plot(x, values, color=colour, marker=marker, markersize=4, linewidth=1.4, label=_legend_text(name))


def _set_ticks(axes: Axes, x: Sequence[float]) -> None:
    """Set a tick at each figure, and nowhere else."""
    axes.xaxis.set_major_locator(FixedLocator(list(x)))
    axes.xaxis.set_minor_locator(NullLocator())
    axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _place: f"{value:g}"))
    axes.xaxis.set_minor_formatter(NullFormatter())


# ── Both ──────────────────────────────────────────────────────────────────────────────────────────────────────────────


def _finish(drawing: Drawing, axes: Axes, title: str) -> None:
    """Add the title above and the legend below."""
    if title:
        drawing.suptitle(_wrap(title, 2 * _LABEL))
    handles, labels = axes.get_legend_handles_labels()
    if labels:
        columns = 1 if max(map(len, labels)) > _LABEL else min(len(labels), 3)
        drawing.legend(handles, labels, loc="outside lower center", frameon=False, ncols=columns)


def _legend_text(text: str) -> str:
    """Return a text for a legend, from which matplotlib leaves out names that begin with an underscore."""
    return f" {_drawable(text)}" if text.startswith("_") else _drawable(text)


def _wrap(text: str, width: int = _LABEL) -> str:
    """Wrap a text over several lines where it is long."""
    return "\n".join(textwrap.wrap(_drawable(text), width))


def _drawable(text: str) -> str:
    """Replace every character that the font lacks with a box: names of sets are input."""
    return "".join(
        character if ord(character) in _font_characters() else _MISSING_SIGN for character in make_printable(text)
    )


@functools.cache
def _font_characters() -> frozenset[int]:
    """Return the code points that the font can draw."""
    return frozenset(FT2Font(findfont(FontProperties(family=plotting.FONT))).get_charmap())
