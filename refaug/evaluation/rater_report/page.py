"""Write the report on a rater as one HTML page that contains everything, with plots and figures beside it as files.

The page needs no other file and no script, and contains no time: equal reports give equal bytes.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from importlib.metadata import version
from pathlib import Path
from typing import Any, Final

from refaug.core.files import make_folder, write_json
from refaug.core.records import Origin, Reference
from refaug.core.version import VERSION
from refaug.evaluation.agreement.report.wording import minus
from refaug.evaluation.rater_report.plots import retrieved_plot, training_plots
from refaug.evaluation.rater_report.report import (
    ALIKE,
    Example,
    RaterReport,
    RetrievalReport,
    RetrievedFigures,
)
from refaug.evaluation.reports.html_page import Table, render_page, write_file
from refaug.evaluation.reports.plotting import Plot

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
    title = f"Rater {report.about.spec.partition('#')[0]}"
    drawn = {plot.file: plot for plot in plots}
    retrieval = report.retrieved
    contents = [("training", "Training")]
    if retrieval is not None:
        contents.append(("retrieved", "Retrieved references"))
        if retrieval.examples:
            contents.append(("examples", "Examples"))
    training = report.about.training
    return render_page(
        "rater_report/page.html.j2",
        title=title,
        summary=list(_summary(report)),
        warnings=_page_warnings(retrieval),
        contents=[*contents, ("how", "How it was made")],
        drawn=drawn,
        training_tables=[_quality(training), _epochs(training)],
        retrieval=retrieval,
        retrieved_tables=[] if retrieval is None else _retrieved_tables(retrieval.figures),
        examples_intro=None if retrieval is None else _examples_intro(retrieval),
        examples=[] if retrieval is None else [(example, _example_table(example)) for example in retrieval.examples],
        settings_table=_settings_table(report),
    )


# ── words ─────────────────────────────────────────────────────────────────────────────────────────────────────────


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


# ── sections ──────────────────────────────────────────────────────────────────────────────────────────────────────


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
    return Table(title="On validation examples", columns=("figure", "value"), rows=rows)


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
