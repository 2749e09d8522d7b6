"""The pictures of a rater's report: those that the report has figures for, whole, and the same for equal reports."""

from __future__ import annotations

import io
from typing import Any

import matplotlib as mpl
import numpy as np
import pytest
from matplotlib.image import imread
from safeguards import mostly_slow

from refaug.agreement.rater_report.page import retrieved_plot, training_images, training_plots
from refaug.agreement.rater_report.report import Histogram, RetrievedFigures, SimilarityBin

EDGES = np.linspace(-1, 1, 41).tolist()


def report_of(epochs: int = 4, best: int = 3) -> dict[str, Any]:
    """A training report with all that the pictures need."""
    rows = [
        {
            "epoch": number,
            "train_loss": 0.7 - 0.05 * number,
            "validation_loss": 0.6 + 0.02 * abs(number - best),
            "validation_accuracy": 0.6 + 0.01 * number,
            "auc": 0.7 + 0.02 * number,
            "seconds": 2.5,
        }
        for number in range(1, epochs + 1)
    ]
    raw = [{"count": 40 + place, "said": said, "true": said**2} for place, said in enumerate((0.1, 0.4, 0.9))]
    cal = [{**one, "true": one["said"]} for one in raw]
    report: dict[str, Any] = {
        "best_epoch": best,
        "epochs": rows,
        "auc_good_vs_wrong": 0.76,
        "temperature": 1.5,
        "calibration": {"raw": {"error": 0.08, "bins": raw}, "cal": {"error": 0.02, "bins": cal}},
    }
    report["ratings"] = {"edges": EDGES, "good": list(range(40)), "wrong": list(range(40, 0, -1))}
    return report


def figures_of(**given: Any) -> RetrievedFigures:
    values: dict[str, Any] = {
        "pairs": 3,
        "rated_pairs": 2,
        "without": {"no_gold": 1},
        "references": 4,
        "mean": 0.1,
        "quartiles": (-0.2, 0.1, 0.5),
        "above_0": 0.5,
        "alike": 0.0,
        "median_spread": 0.7,
        "spearman": 0.3,
        "pearson": 0.2,
        "histogram": Histogram(edges=tuple(EDGES), counts=(1,) * 4 + (0,) * 36),
        "by_similarity": (
            SimilarityBin(count=3, similarity=0.7, mean=-0.1, low=-0.5, high=0.3),
            SimilarityBin(count=1, similarity=0.9, mean=0.4, low=0.4, high=0.4),
        ),
    }
    return RetrievedFigures(**{**values, **given})


def require_whole(png: bytes) -> None:
    """Something is drawn on paper, and nothing reaches its edge."""
    pixels = imread(io.BytesIO(png))[:, :, :3]
    assert len(np.unique((pixels[::3, ::3] * 255).astype(np.int64) @ (65536, 256, 1))) > 10
    borders = [pixels[0], pixels[-1], pixels[:, 0], pixels[:, -1]]
    assert [bool((one == 1).all()) for one in borders] == [True] * 4


@pytest.mark.slow
def test_a_report_has_the_pictures_that_it_has_figures_for() -> None:
    assert list(training_images(report_of())) == ["curves.png", "reliability.png", "ratings.png"]


@pytest.mark.parametrize("epochs", [1, 30])
def test_pictures_are_whole_for_any_number_of_epochs(epochs: int) -> None:
    for png in training_images(report_of(epochs, best=1)).values():
        require_whole(png)


def test_the_picture_of_retrieved_references_is_whole() -> None:
    require_whole(retrieved_plot(figures_of()).png)


@pytest.fixture(scope="module")
def drawn() -> dict[str, bytes]:
    return training_images(report_of())


@pytest.mark.slow
def test_equal_reports_give_equal_bytes_despite_matplotlib_settings(drawn: dict[str, bytes]) -> None:
    retrieved = retrieved_plot(figures_of())
    with mpl.rc_context({"axes.facecolor": "red", "font.size": 20, "savefig.dpi": 20}):
        assert training_images(report_of()) == drawn
        assert retrieved_plot(figures_of()) == retrieved
        assert mpl.rcParams["font.size"] == 20


@pytest.mark.parametrize(
    ("where", "value", "changed"),
    mostly_slow(
        [
            (("epochs", 0, "train_loss"), 0.9, {"curves.png"}),
            (("epochs", 2, "validation_accuracy"), 0.9, {"curves.png"}),
            (("best_epoch",), 2, {"curves.png"}),
            (("calibration", "raw", "bins", 1, "true"), 0.9, {"reliability.png"}),
            (("calibration", "cal", "bins", 1, "count"), 90, {"reliability.png"}),
            (("ratings", "good", 7), 90, {"ratings.png"}),
            (("ratings", "wrong", 7), 90, {"ratings.png"}),
            (("epochs", 0, "seconds"), 90, set[str]()),
        ],
        quick=[0, 4, 6],
    ),
)
def test_every_figure_is_seen_in_its_picture_alone(
    drawn: dict[str, bytes], where: tuple[Any, ...], value: float, changed: set[str]
) -> None:
    report = report_of()
    inner: Any = report
    for step in where[:-1]:
        inner = inner[step]
    inner[where[-1]] = value
    after = training_images(report)
    assert {name for name in drawn if drawn[name] != after[name]} == changed


def test_figures_that_are_no_numbers_leave_gaps() -> None:
    report = report_of()
    report["epochs"][0]["auc"] = report["epochs"][0]["validation_loss"] = report["epochs"][1]["train_loss"] = report[
        "auc_good_vs_wrong"
    ] = None
    report["calibration"]["raw"]["error"] = None
    for png in training_images(report).values():
        require_whole(png)


def test_captions_say_in_words_what_is_drawn() -> None:
    curves, reliability, ratings = (plot.caption for plot in training_plots(report_of(best=2)))
    assert "epoch 2 was kept" in curves
    assert "temperature" in reliability
    assert f"{sum(range(40)):,} responses to the same utterance" in ratings
    assert f"{sum(range(41)):,} to another one" in ratings
    assert "4 retrieved references" in retrieved_plot(figures_of()).caption
