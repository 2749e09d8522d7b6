"""A rater's report as pictures: how it learned, whether it means what it says, and what it rates how.

Equal reports give equal bytes. A rater that was trained before its report had some of the figures has fewer pictures.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any, Final

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from service.plotting import BLUE, GREEN, GREY, ORANGE, Plot, as_plot, new_figure, our_look
from service.rater_report import RetrievedFigures

_WIDTH: Final = 7.2  # inches, of two plots beside each other
_HEIGHT: Final = 3.1
_BAR: Final = 0.012  # half of the width of a bar that counts answers: several stand in a bin


def illustrations(report: Mapping[str, Any]) -> dict[str, bytes]:
    """The pictures of a training report, as PNG by the names of their files."""
    return {plot.file: plot.png for plot in training_plots(report)}


def training_plots(report: Mapping[str, Any]) -> list[Plot]:
    """The same with what they show in words."""
    with our_look():
        plots = [_curves(report), _reliability(report)]
        if report.get("ratings") is not None:
            plots.append(_ratings(report))
    return plots


def retrieved_plot(figures: RetrievedFigures) -> Plot:
    """What the references of an index are rated, and how that goes with their similarity."""
    with our_look():
        figure, left, right = _beside_each_other()
        left.stairs(figures.histogram.counts, figures.histogram.edges, fill=True, color=BLUE)
        left.axvline(0, color="black", linewidth=0.8)
        _of_ratings(left, "references")
        left.set_title("Ratings of retrieved references")
        places = [one.similarity for one in figures.by_similarity]
        right.axhline(0, color="black", linewidth=0.8)
        for bin_ in figures.by_similarity:
            right.plot([bin_.similarity] * 2, [bin_.low, bin_.high], color=BLUE, alpha=0.35, linewidth=5)
        right.plot(places, [one.mean for one in figures.by_similarity], color=BLUE, marker="o", markersize=4)
        right.set_ylim(-1.02, 1.02)
        right.set_xlabel("similarity")
        right.set_ylabel("rating")
        right.set_title("Ratings by similarity")
        caption = (
            f"Left: ratings of {figures.references:,} retrieved references. Right: their mean rating by similarity, "
            "with the middle half of them as a bar"
        )
        return as_plot("retrieved.png", caption, figure)


def _beside_each_other() -> tuple[Figure, Axes, Axes]:
    figure = Figure(figsize=(_WIDTH, _HEIGHT), layout="constrained")
    left, right = figure.subplots(1, 2)
    return figure, left, right


def _curves(report: Mapping[str, Any]) -> Plot:
    """Losses on the left, shares on the right; what grows apart on the left is learnt by heart."""
    epochs, kept = report["epochs"], int(report["best_epoch"])
    numbers = [int(one["epoch"]) for one in epochs]
    figure, left, right = _beside_each_other()
    _curve(left, numbers, _values(epochs, "train_loss"), GREY, "training")
    _curve(left, numbers, _values(epochs, "validation_loss"), BLUE, "validation")
    left.set_title("Loss")
    _curve(right, numbers, _values(epochs, "auc"), BLUE, "AUC")
    _curve(right, numbers, _values(epochs, "validation_accuracy"), ORANGE, "accuracy")
    right.set_title("On validation examples")
    for axes in (left, right):
        axes.axvline(kept, color=GREEN, linestyle="--", linewidth=1.2, label=f"kept: epoch {kept}")
        axes.set_xlim(min(numbers) - 0.3, max(numbers) + 0.3)
        axes.xaxis.set_major_locator(MaxNLocator(integer=True, min_n_ticks=1))
        axes.set_xlabel("epoch")
        axes.legend(frameon=False)
    caption = (
        f"Loss on training and validation examples, and accuracy and AUC on validation examples, by epoch; "
        f"epoch {kept} was kept"
    )
    return as_plot("curves.png", caption, figure)


def _curve(axes: Axes, numbers: Sequence[int], values: Sequence[float], colour: str, label: str) -> None:
    axes.plot(numbers, values, color=colour, marker="o", markersize=3.5, label=label)


def _values(epochs: Sequence[Mapping[str, Any]], name: str) -> list[float]:
    """A figure of every epoch; JSON has null where it was no number."""
    return [_number(one.get(name)) for one in epochs]


def _number(value: float | None) -> float:
    return math.nan if value is None else float(value)


def _reliability(report: Mapping[str, Any]) -> Plot:
    """Said against true: on the line, answers mean what they say. Below, how many answers say so."""
    figure = Figure(figsize=(4.2, 4.6), layout="constrained")
    above, below = figure.subplots(2, 1, sharex=True, height_ratios=(3.2, 1))
    above.plot([0, 1], [0, 1], color="black", linewidth=0.8, linestyle=":")
    calibration = report["calibration"]
    drawn = (("raw", "raw", BLUE, -_BAR), ("cal", f"temperature {report['temperature']:.2f}", ORANGE, _BAR))
    for name, label, colour, aside in drawn:
        bins, error = calibration[name]["bins"], _number(calibration[name]["error"])
        said = np.array([one["said"] for one in bins])
        above.plot(
            said,
            [one["true"] for one in bins],
            color=colour,
            marker="o",
            markersize=3.5,
            label=f"{label}: error {error:.3f}",
        )
        below.bar(said + aside, [one["count"] for one in bins], width=2 * _BAR, color=colour)
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
    return as_plot("reliability.png", caption, figure)


def _ratings(report: Mapping[str, Any]) -> Plot:
    """How far apart the rater keeps what it should tell apart."""
    ratings = report["ratings"]
    figure, axes = new_figure(4.2, 3.6)
    axes.axvline(0, color="black", linewidth=0.8)
    for name, label, colour in (("wrong", "to another utterance", ORANGE), ("good", "to the same utterance", BLUE)):
        counts = ratings[name]
        axes.stairs(counts, ratings["edges"], fill=True, color=colour, alpha=0.3)
        axes.stairs(counts, ratings["edges"], color=colour, linewidth=1.4, label=label)
    _of_ratings(axes, "validation examples")
    figure.suptitle(f"Ratings of responses, AUC {_number(report.get('auc_good_vs_wrong')):.3f}")
    figure.legend(loc="outside lower center", ncols=2, frameon=False)
    counts = {name: sum(ratings[name]) for name in ("good", "wrong")}
    caption = (
        f"Ratings of {counts['good']:,} responses to the same utterance and {counts['wrong']:,} to another one, "
        "of validation examples"
    )
    return as_plot("ratings.png", caption, figure)


def _of_ratings(axes: Axes, what: str) -> None:
    axes.set_xlim(-1.02, 1.02)
    axes.set_xticks([-1, -0.5, 0, 0.5, 1])
    axes.set_xlabel("rating")
    axes.set_ylabel(what)
    axes.yaxis.set_major_locator(MaxNLocator(integer=True, min_n_ticks=1))
