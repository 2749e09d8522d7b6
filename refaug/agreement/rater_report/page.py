"""Write the report on a rater as one HTML page that contains everything, with plots and figures beside it as files.

The page needs no other file and no script, and contains no time: equal reports give equal bytes.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from importlib.metadata import version
from pathlib import Path
from typing import Any, Final

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from refaug.agreement.rater_report.report import ALIKE, Example, RaterReport, RetrievalReport, RetrievedFigures
from refaug.agreement.report.wording import minus
from refaug.core.files import make_folder, write_json
from refaug.core.records import Origin, Reference
from refaug.core.version import VERSION
from refaug.tables.reports.html_page import report_page, write_file
from refaug.tables.reports.plotting import BLUE, GREEN, GREY, ORANGE, Plot, new_figure, plot_style, to_plot
from refaug.tables.reports.report import Part, PartForm, Report, Section
from refaug.tables.reports.table import Table

# ── Plots of a rater's report: how it learned, whether its probabilities are right, and how it rates references ───────
#
# Equal reports give equal bytes.

_WIDTH: Final = 7.2  # inches, of two plots side by side
_HEIGHT: Final = 3.1
_BAR: Final = 0.012  # half of the width of a bar that counts answers; a bin has several bars


def training_images(report: Mapping[str, Any]) -> dict[str, bytes]:
    """Return the plots of a training report, as PNG by the names of their files."""
    return {plot.file: plot.png for plot in training_plots(report)}


def training_plots(report: Mapping[str, Any]) -> list[Plot]:
    """Return the plots of a training report with their captions."""
    with plot_style():
        return [*([_curves(report)] if report.get("epochs") else []), _reliability(report), _ratings(report)]


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


# ── Write the report on a rater as one HTML page that contains everything, with plots and figures beside it as files ──

PAGE: Final = "index.html"
FIGURES: Final = "report.json"
_NONE: Final = "–"
_ALIKE_WARNING: Final = 0.5  # share of test pairs with about equal ratings from which the page warns


def write_report(report: RaterReport, folder: Path) -> list[Path]:
    """Write the page, its plots and its figures; the page comes first in the list.

    Other files in the folder stay, and files of the same names are replaced. The page is written last: where there is a
    page, the files beside it belong to it.
    """
    plots = _plots(report)
    content = page(report, plots)
    make_folder(folder)
    written = [write_file(folder / plot.file, plot.png) for plot in plots]
    write_json(folder / FIGURES, report.as_json())
    return [write_file(folder / PAGE, content.encode()), folder / FIGURES, *written]


def page_with_plots(report: RaterReport) -> str:
    """Draw the plots of a report and return its page."""
    return page(report, _plots(report))


def _plots(report: RaterReport) -> list[Plot]:
    retrieval = report.retrieved
    plots = training_plots(report.about.training)
    return plots + (
        [] if retrieval is None or not retrieval.figures.references else [retrieved_plot(retrieval.figures)]
    )


def page(report: RaterReport, plots: Sequence[Plot]) -> str:
    """Return the page."""
    drawn = {plot.file: plot for plot in plots}
    training, retrieval = report.about.training, report.retrieved
    sections = [_training_section(training, drawn)]
    if retrieval is not None:
        sections.append(_retrieved_section(retrieval, drawn))
        if retrieval.examples:
            sections.append(_examples_section(retrieval))
    how = Section(title="How it was made", anchor="how", tables=[_settings_table(report)])
    return report_page(
        Report(
            title=f"Rater {report.about.spec.partition('#')[0]}",
            summary=list(_summary(report)),
            warnings=_page_warnings(retrieval),
            sections=[*sections, how],
        )
    )


def _training_section(training: Mapping[str, Any], drawn: Mapping[str, Plot]) -> Section:
    curves = [Part(PartForm.FIGURE, drawn["curves.png"])] if "curves.png" in drawn else []
    tables = [_quality(training), *([_epochs(training)] if training.get("epochs") else [])]
    return Section(
        title="Training",
        anchor="training",
        parts=[
            *curves,
            Part(PartForm.GRID, [drawn[name] for name in ("reliability.png", "ratings.png") if name in drawn]),
            *(Part(PartForm.TABLE, table) for table in tables),
        ],
    )


def _retrieved_section(retrieval: RetrievalReport, drawn: Mapping[str, Plot]) -> Section:
    plots = [Part(PartForm.FIGURE, drawn["retrieved.png"])] if "retrieved.png" in drawn else []
    return Section(
        title="Retrieved references",
        anchor="retrieved",
        text=[f"Test pairs: {retrieval.pairs_from}."],
        parts=[*plots, *(Part(PartForm.TABLE, table) for table in _retrieved_tables(retrieval.figures))],
    )


def _examples_section(retrieval: RetrievalReport) -> Section:
    parts = list[Part]()
    for example in retrieval.examples:
        parts += [
            Part(PartForm.HEADING, example.utterance),
            Part(PartForm.NOTE, example.id),
            Part(PartForm.PARAGRAPHS, [f"Gold: {gold}" for gold in example.golds]),
            Part(PartForm.TABLE_BODY, _example_table(example)),
        ]
    return Section(title="Examples", anchor="examples", text=[_examples_intro(retrieval)], parts=parts)


# ── Words ─────────────────────────────────────────────────────────────────────────────────────────────────────────


def _digits(figure: float | None, digits: int = 3) -> str:
    return _NONE if figure is None else minus(f"{round(figure, digits) + 0.0:.{digits}f}")


def _signed(figure: float | None) -> str:
    """Format a rating or a weight with its sign."""
    return _NONE if figure is None else minus(f"{round(figure, 2) + 0.0:+.2f}")


def _share(share: float | None) -> str:
    return _NONE if share is None else f"{100 * share:.1f} %"


def _summary(report: RaterReport) -> Iterator[str]:
    training = report.about.training
    mined, examples = training.get("mined"), training["examples"]
    several = "" if mined is None else f"{mined['utterances']:,} utterances with several different responses, "
    wrong = "one to another utterance" if mined is not None else "a wrong one"
    yield (
        f"Trained on {', '.join(report.about.logs)}: {several}{examples['train']['positive']:,} positive examples. On "
        f"the {examples['validation']['utterances']:,} utterances that it did not learn from, a response to the same "
        f"utterance is rated above {wrong} in {_share(training['auc_good_vs_wrong'])} of cases; 50 % would be chance."
    )
    if report.retrieved is None:
        return
    figures = report.retrieved.figures
    yield (
        f"{figures.references:,} references of {report.retrieved.made_by['index'].partition('#')[0]} for "
        f"{figures.rated_pairs:,} of {figures.pairs:,} test pairs: rated {_signed(figures.mean)} on average, "
        f"{_share(figures.above_0)} of them above 0."
    )


def _page_warnings(retrieval: RetrievalReport | None) -> list[str]:
    page_warnings = list[str]()
    if retrieval is None:
        return page_warnings
    alike = retrieval.figures.alike
    if alike is not None and alike >= _ALIKE_WARNING:
        page_warnings.append(
            f"In {_share(alike)} of the test pairs all references are rated about the same (within {ALIKE:g} of each "
            "other): there, weights of the rater are as good as equal ones."
        )
    if retrieval.bad_items:
        page_warnings.append(f"{len(retrieval.bad_items):,} items could not be read: {retrieval.bad_items[0]}")
    return page_warnings


# ── Sections ──────────────────────────────────────────────────────────────────────────────────────────────────────


def _quality(training: Mapping[str, Any]) -> Table:
    """Return the figures on validation examples."""
    calibration = training["calibration"]
    rows = [
        ("AUC of good and wrong responses", _digits(training["auc_good_vs_wrong"], 4)),
        ("accuracy", _digits(training["validation_accuracy"], 4)),
        ("loss", _digits(training["validation_loss"], 4)),
        ("calibration error", _digits(calibration["raw"]["error"], 4)),
        (
            f"calibration error with the temperature, {_digits(training['temperature'])}",
            _digits(calibration["cal"]["error"], 4),
        ),
    ]
    if (hard := training.get("hard")) is not None:
        rows.append(
            (
                f"AUC on {hard['examples']:,} examples with hard negatives",
                _digits(hard.get("auc_good_vs_hard"), 4),
            )
        )
    rows += [
        (f"AUC of good and wrong responses, {kind}", _digits(auc, 4))
        for kind, auc in training.get("auc_by_kind", {}).items()
    ]
    if (short := training.get("short")) is not None:
        rows.append(
            (
                f"AUC on {short['utterances']:,} utterances too short to be learnt from",
                _digits(short.get("auc_good_vs_wrong"), 4),
            ),
        )
    rows += _spread_rows(training)
    return Table(title="On validation examples", columns=("figure", "value"), rows=rows)


def _spread_rows(training: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """Yield the rows that say how figures differ between seeds."""
    if (spread := training.get("seeds")) is None:
        return
    seeds = ", ".join(map(str, spread["seeds"]))
    for name, values in spread["figures"].items():
        sd = "" if values["sd"] is None else f" ± {_digits(values['sd'], 4)}"
        yield f"{name} by seeds {seeds}: mean and standard deviation", f"{_digits(values['mean'], 4)}{sd}"


def _epochs(training: Mapping[str, Any]) -> Table:
    names = ("train_loss", "validation_loss", "validation_accuracy", "auc")
    rows = [
        (
            f"{epoch['epoch']}" + (" (kept)" if epoch["epoch"] == training["best_epoch"] else ""),
            *(_digits(epoch[name], 4) for name in names),
            f"{epoch['seconds']:,.0f}",
        )
        for epoch in training["epochs"]
    ]
    columns = ("epoch", "training loss", "validation loss", "accuracy", "AUC", "seconds")
    return Table(title="Epochs", columns=columns, rows=rows)


def _retrieved_tables(figures: RetrievedFigures) -> list[Table]:
    return [_ratings_table(figures)] + ([_without(figures)] if figures.without else [])


def _ratings_table(figures: RetrievedFigures) -> Table:
    low, median, high = figures.quartiles or (None, None, None)
    rows = [
        ("references", f"{figures.references:,}"),
        ("mean rating", _signed(figures.mean)),
        ("quartiles of the ratings", ", ".join(map(_signed, (low, median, high)))),
        ("rated above 0", _share(figures.above_0)),
        ("test pairs with references", f"{figures.rated_pairs:,} of {figures.pairs:,}"),
        (f"test pairs whose ratings are all within {ALIKE:g} of each other", _share(figures.alike)),
        ("from the lowest to the highest rating of a test pair, median", _digits(figures.median_spread, 2)),
        ("rating with similarity, Spearman", _digits(figures.spearman)),
        ("rating with similarity, Pearson", _digits(figures.pearson)),
    ]
    notes = (
        "Where all references of a test pair are rated about the same, the rater has chosen none of them. Where rating "
        "and similarity go together closely, it says little that the index has not said.",
    )
    return Table(title="Ratings of retrieved references", columns=("figure", "value"), rows=rows, notes=notes)


def _without(figures: RetrievedFigures) -> Table:
    rows = [(why, f"{count:,}") for why, count in figures.without.items()]
    return Table(title="Test pairs without rated references", columns=("why", "test pairs"), rows=rows)


def _examples_intro(retrieval: RetrievalReport) -> str:
    shown = len(retrieval.examples)
    total = retrieval.figures.rated_pairs
    of_all = f"The first {shown:,} of {total:,}" if shown < total else "All"
    return f"{of_all} test pairs with references, the weightiest reference first. The utterance itself is one of them."


def _example_table(example: Example) -> Table:
    columns = ("weight", "similarity", "reference", "which answered")
    rows = [_row(reference) for reference in example.references]
    return Table(title=example.utterance, columns=columns, rows=rows, text=True)


def _row(reference: Reference) -> tuple[str, ...]:
    """Return the row of a reference; the weight of a retrieved reference is its rating, and the JSON file has both."""
    answers = "(the utterance itself)" if reference.source is Origin.PARROT else reference.utterance or _NONE
    return _signed(reference.weight), _digits(reference.similarity), reference.text, answers


def _settings_table(report: RaterReport) -> Table:
    """List everything that is needed to reproduce the figures."""
    about = report.about
    rows = [
        ("rater", about.spec),
        ("id", about.id),
        ("logs", ", ".join(about.logs)),
        ("network", ", ".join(f"{name} {size}" for name, size in about.network.items())),
        ("parameters", f"{about.training['parameters']:,}"),
    ]
    if report.retrieved is not None:
        rows += [(name, text) for name, text in report.retrieved.made_by.items() if name != "rater"]
    rows += [("refaug", VERSION), *((name, version(name)) for name in ("numpy", "torch", "matplotlib"))]
    return Table(title="Settings and versions", columns=("what", "value"), rows=rows, text=True)
