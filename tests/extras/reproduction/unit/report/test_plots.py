"""The pictures of the proof: whole, the same for equal figures, and every figure is seen in them."""

from __future__ import annotations

import io
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import matplotlib as mpl
import numpy as np
import pytest
from matplotlib.image import imread
from safeguards import mostly_slow

from refaug.extras.reproduction.figures.correlations import IntervalEstimate
from refaug.extras.reproduction.report.plots import _runs, bars, curves
from refaug.tables.reports.plotting import Plot, with_palette

SURE = IntervalEstimate(value=0.3, low=0.2, high=0.4)
BELOW = IntervalEstimate(value=-0.1, low=-0.2, high=0.05)
NO_INTERVAL = IntervalEstimate(value=0.1, why="not defined in most draws")
GAP = IntervalEstimate(why="not defined on these rows")

NAMES = ("υBLEU, closest", "υBLEU, closest", "greedy", "greedy")
FIGURES = (SURE, BELOW, NO_INTERVAL, GAP)
GROUPS = ("rated", "matched", "rated", "matched")


def some_bars(**given: Any) -> Plot:
    values: dict[str, Any] = {"names": NAMES, "figures": FIGURES, "groups": GROUPS}
    values = {**values, "title": "Kinds", **given}
    return bars("b.png", "what the bars show", values.pop("names"), values.pop("figures"), **values)


def some_curves(series: dict[str, tuple[IntervalEstimate, ...]] | None = None, **given: Any) -> Plot:
    drawn = series or {"rated": (SURE, BELOW, SURE), "matched": (BELOW, GAP, NO_INTERVAL)}
    return curves("c.png", "what the curves show", (1, 15, 50), drawn, "references", **given)


def require_whole(png: bytes) -> None:
    """Something is drawn on paper, and nothing reaches its edge."""
    pixels = imread(io.BytesIO(png))[:, :, :3]
    assert len(np.unique((pixels[::3, ::3] * 255).astype(np.int64) @ (65536, 256, 1))) > 10
    borders = [pixels[0], pixels[-1], pixels[:, 0], pixels[:, -1]]
    assert [bool((one == 1).all()) for one in borders] == [True] * 4


def test_a_picture_has_at_most_64_colours_and_keeps_the_frequent_ones() -> None:
    drawn = np.zeros((64, 256, 3), np.uint8)
    drawn[...] = 255
    drawn[0, :, 0] = np.arange(256)  # 255 rare colours beside white
    drawn[8:32] = (0, 114, 178)
    palette = with_palette(drawn)
    pixels = np.rint(imread(io.BytesIO(palette))[:, :, :3] * 255).astype(np.int64)
    assert len(np.unique(pixels.reshape(-1, 3), axis=0)) == 64
    assert np.array_equal(pixels[1:], drawn[1:])
    assert palette == with_palette(drawn)


def inked(plot: Plot, colour: tuple[int, int, int]) -> int:
    """How many pixels have exactly this colour."""
    pixels = np.rint(imread(io.BytesIO(plot.png))[:, :, :3] * 255).astype(np.int64)
    return int((pixels == colour).all(axis=2).sum())


@pytest.mark.parametrize(
    "draw",
    [
        some_bars,
        lambda: some_bars(groups=None),
        lambda: some_bars(names=NAMES * 20, figures=FIGURES * 20, groups=GROUPS * 20),
        lambda: some_bars(names=[f"{name} {'and a long reason ' * 6}" for name in NAMES], title="a title " * 30),
        some_curves,
        lambda: some_curves(title="Growth", y_label="partial Spearman"),
        lambda: some_curves({f"series {number}": (SURE, BELOW, GAP) for number in range(9)}),
        lambda: curves("one.png", "one place", [0.01], {"rated": [SURE]}, "share"),
    ],
)
def test_pictures_are_whole(draw: Callable[[], Plot]) -> None:
    plot = draw()
    require_whole(plot.png)
    assert plot.width > plot.height / 20
    assert plot.caption


def test_equal_figures_give_equal_bytes_despite_matplotlib_settings() -> None:
    drawn = some_bars(), some_curves()
    with mpl.rc_context({"axes.facecolor": "red", "font.size": 20, "savefig.dpi": 20}):
        assert (some_bars(), some_curves()) == drawn
        assert mpl.rcParams["font.size"] == 20


@pytest.mark.parametrize("place", mostly_slow([0, 1, 2], quick=[1]))
@pytest.mark.parametrize("change", [{"value": 0.25}, {"low": -0.4}, {"high": 0.45}])
def test_every_end_of_every_interval_is_seen_among_the_bars(place: int, change: dict[str, float]) -> None:
    figures = [replace(one, low=one.low or -0.05, high=one.high or 0.2) for one in FIGURES]
    before = some_bars(figures=figures)
    figures[place] = replace(figures[place], **change)
    assert some_bars(figures=figures).png != before.png


@pytest.mark.parametrize("place", mostly_slow([0, 1, 2], quick=[1]))
@pytest.mark.parametrize("change", [{"value": 0.25}, {"low": -0.4}, {"high": 0.45}])
def test_every_end_of_every_interval_is_seen_on_the_curves(place: int, change: dict[str, float]) -> None:
    figures = [SURE, BELOW, SURE]
    before = some_curves({"rated": tuple(figures)})
    figures[place] = replace(figures[place], **change)
    assert some_curves({"rated": tuple(figures)}).png != before.png


def test_the_longer_a_bar_is_the_more_ink_it_has() -> None:
    blue = (0x00, 0x72, 0xB2)
    figures = [IntervalEstimate(value=value) for value in (0.1, 0.2, 0.4)]
    inks = [
        inked(bars("x.png", "", ["a", "b"], [one, IntervalEstimate(value=0.4)], groups=["g", "h"]), blue)
        for one in figures
    ]
    assert (inks[1] - inks[0]) / (inks[2] - inks[0]) == pytest.approx((0.2 - 0.1) / (0.4 - 0.1), abs=0.03)
    assert inks == sorted(inks)


def test_a_figure_that_is_not_defined_has_no_bar_but_a_place() -> None:
    orange, blue = (0xE6, 0x9F, 0x00), (0x00, 0x72, 0xB2)
    with_gap = bars("x.png", "", ["a", "b"], [SURE, GAP], groups=["one", "other"])
    without = bars("x.png", "", ["a"], [SURE], groups=["one"])
    both = bars("x.png", "", ["a", "b"], [SURE, SURE], groups=["one", "other"])
    assert inked(with_gap, orange) < inked(both, orange) / 2, "the legend alone"
    assert inked(with_gap, blue) > 0
    assert with_gap.height > without.height


def test_names_that_follow_each_other_stand_together() -> None:
    assert _runs(["a", "a", "b", "a", "c", "c", "c"]) == [("a", 2), ("b", 1), ("a", 1), ("c", 3)]
    assert bars("x.png", "", ["a", "a"], [SURE, SURE]).height < bars("x.png", "", ["a", "b"], [SURE, SURE]).height


def test_names_with_signs_that_the_font_lacks_are_drawn_without_a_warning() -> None:
    require_whole(bars("x.png", "", ["集合 \u202e\n"], [SURE], groups=["集"]).png)
    require_whole(curves("x.png", "", [1.0, 2.0], {"集": [SURE, SURE]}, "集").png)


def test_dollars_and_underscores_are_what_they_are() -> None:
    hidden = bars("x.png", "", ["$x$ _y"], [SURE], groups=["_hidden"], title="$5_")
    require_whole(hidden.png)
    assert hidden.png != bars("x.png", "", ["$x$ _y"], [SURE], groups=["_Hidden"], title="$5_").png
