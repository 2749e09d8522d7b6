"""Plots of a rater's report: how it learned, whether its probabilities are right, and how it rates references.

Equal reports give equal bytes.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any, Final

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from refaug.evaluation.rater_report.report import RetrievedFigures
from refaug.evaluation.reports.plotting import BLUE, GREEN, GREY, ORANGE, Plot, new_figure, plot_style, to_plot

_WIDTH: Final = 7.2  # inches, of two plots side by side
_HEIGHT: Final = 3.1
_BAR: Final = 0.012  # half of the width of a bar that counts answers; a bin has several bars


def training_images(report: Mapping[str, Any]) -> dict[str, bytes]:
    """Return the plots of a training report, as PNG by the names of their files."""
    return {plot.file: plot.png for plot in training_plots(report)}


def training_plots(report: Mapping[str, Any]) -> list[Plot]:
    """Return the plots of a training report with their captions."""
    with plot_style():
        return [_curves(report), _reliability(report), _ratings(report)]


def retrieved_plot(figures: RetrievedFigures) -> Plot:
    """Plot the ratings of retrieved references, and their relation to similarity."""
    with plot_style():
        figure, left_axes, right_axes = _two_axes()
        left_axes.stairs(figures.histogram.counts, figures.histogram.edges, fill=True, color=BLUE)
        left_axes.axvline(0, color="black", linewidth=0.8)
        _label_ratings(left_axes, "references")
        left_axes.set_title("Ratings of retrieved references")
        places = [bin_.similarity for bin_ in figures.by_similarity]
        right_axes.axhline(0, color="black", linewidth=0.8)
        for bin_ in figures.by_similarity:
            right_axes.plot([bin_.similarity] * 2, [bin_.low, bin_.high], color=BLUE, alpha=0.35, linewidth=5)
        right_axes.plot(places, [bin_.mean for bin_ in figures.by_similarity], color=BLUE, marker="o", markersize=4)
        right_axes.set_ylim(-1.02, 1.02)
        right_axes.set_xlabel("similarity")
        right_axes.set_ylabel("rating")
        right_axes.set_title("Ratings by similarity")
        caption = (
            f"Left: ratings of {figures.references:,} retrieved references. Right: their mean rating by similarity, "
            "with the middle half of them as a bar"
        )
        return to_plot("retrieved.png", caption, figure)


def _two_axes() -> tuple[Figure, Axes, Axes]:
    figure = Figure(figsize=(_WIDTH, _HEIGHT), layout="constrained")
    left_axes, right_axes = figure.subplots(1, 2)
    return figure, left_axes, right_axes


def _curves(report: Mapping[str, Any]) -> Plot:
    """Plot losses on the left and shares on the right; losses that diverge show overfitting."""
    epochs, best = report["epochs"], int(report["best_epoch"])
    numbers = [int(epoch["epoch"]) for epoch in epochs]
    figure, left_axes, right_axes = _two_axes()
    _curve(left_axes, numbers, _values(epochs, "train_loss"), GREY, "training")
    _curve(left_axes, numbers, _values(epochs, "validation_loss"), BLUE, "validation")
    left_axes.set_title("Loss")
    _curve(right_axes, numbers, _values(epochs, "auc"), BLUE, "AUC")
    _curve(right_axes, numbers, _values(epochs, "validation_accuracy"), ORANGE, "accuracy")
    right_axes.set_title("On validation examples")
    for axes in (left_axes, right_axes):
        axes.axvline(best, color=GREEN, linestyle="--", linewidth=1.2, label=f"kept: epoch {best}")
        axes.set_xlim(min(numbers) - 0.3, max(numbers) + 0.3)
        axes.xaxis.set_major_locator(MaxNLocator(integer=True, min_n_ticks=1))
        axes.set_xlabel("epoch")
        axes.legend(frameon=False)
    caption = (
        f"Loss on training and validation examples, and accuracy and AUC on validation examples, by epoch; "
        f"epoch {best} was kept"
    )
    return to_plot("curves.png", caption, figure)


def _curve(axes: Axes, numbers: Sequence[int], values: Sequence[float], colour: str, label: str) -> None:
    axes.plot(numbers, values, color=colour, marker="o", markersize=3.5, label=label)


def _values(epochs: Sequence[Mapping[str, Any]], name: str) -> list[float]:
    """Return a figure of every epoch; JSON has null where it was not a number."""
    return [_number(epoch[name]) for epoch in epochs]


def _number(figure: float | None) -> float:
    return math.nan if figure is None else float(figure)


def _reliability(report: Mapping[str, Any]) -> Plot:
    """Plot true shares over said probabilities, with the number of answers below; on the line they are equal."""
    figure = Figure(figsize=(4.2, 4.6), layout="constrained")
    above, below = figure.subplots(2, 1, sharex=True, height_ratios=(3.2, 1))
    above.plot([0, 1], [0, 1], color="black", linewidth=0.8, linestyle=":")
    calibration = report["calibration"]
    drawn = (("raw", "raw", BLUE, -_BAR), ("cal", f"temperature {report['temperature']:.2f}", ORANGE, _BAR))
    for name, label, colour, aside in drawn:
        bins, error = calibration[name]["bins"], _number(calibration[name]["error"])
        said_shares = np.array([bin_["said"] for bin_ in bins])
        above.plot(
            said_shares,
            [bin_["true"] for bin_ in bins],
            color=colour,
            marker="o",
            markersize=3.5,
            label=f"{label}: error {error:.3f}",
        )
        below.bar(said_shares + aside, [bin_["count"] for bin_ in bins], width=2 * _BAR, color=colour)
    above.set_xlim(-0.03, 1.03)
    above.set_ylim(-0.03, 1.03)
    above.set_ylabel("share that belongs together")
    above.legend(frameon=False, loc="upper left")
    below.set_xlabel("said probability of belonging together")
    below.set_ylabel("answers")
    below.yaxis.set_major_locator(MaxNLocator(nbins=3, integer=True))
    figure.suptitle("Reliability")
    caption = (
        "How often answers of like probability are right, without and with the temperature, with the expected "
        "calibration error of both; on the dotted line they would be right as often as they say. Below, how many "
        "answers there are"
    )
    return to_plot("reliability.png", caption, figure)


def _ratings(report: Mapping[str, Any]) -> Plot:
    """Plot how well the rater separates good responses from wrong ones."""
    ratings = report["ratings"]
    figure, axes = new_figure(4.2, 3.6)
    axes.axvline(0, color="black", linewidth=0.8)
    for name, label, colour in (("wrong", "to another utterance", ORANGE), ("good", "to the same utterance", BLUE)):
        counts = ratings[name]
        axes.stairs(counts, ratings["edges"], fill=True, color=colour, alpha=0.3)
        axes.stairs(counts, ratings["edges"], color=colour, linewidth=1.4, label=label)
    _label_ratings(axes, "validation examples")
    figure.suptitle(f"Ratings of responses, AUC {_number(report.get('auc_good_vs_wrong')):.3f}")
    figure.legend(loc="outside lower center", ncols=2, frameon=False)
    counts = {name: sum(ratings[name]) for name in ("good", "wrong")}
    caption = (
        f"Ratings of {counts['good']:,} responses to the same utterance and {counts['wrong']:,} to another one, "
        "of validation examples"
    )
    return to_plot("ratings.png", caption, figure)


def _label_ratings(axes: Axes, what: str) -> None:
    axes.set_xlim(-1.02, 1.02)
    axes.set_xticks([-1, -0.5, 0, 0.5, 1])
    axes.set_xlabel("rating")
    axes.set_ylabel(what)
    axes.yaxis.set_major_locator(MaxNLocator(integer=True, min_n_ticks=1))
