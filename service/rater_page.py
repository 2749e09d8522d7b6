"""The report on a rater as one HTML page with everything in it, and its pictures and figures beside it as files.

The page needs nothing from elsewhere, no script either, and holds no time: equal reports give equal bytes.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from importlib.metadata import version
from pathlib import Path
from typing import Any, Final

from core.files import make_folder, write_json
from core.records import Origin, Reference
from core.version import VERSION
from service.meta_text import minus
from service.pages import Table, escaped, html_figure, html_plots, html_table, warnings_box, whole_page, write_file
from service.plotting import Plot
from service.rater_plots import retrieved_plot, training_plots
from service.rater_report import ALIKE, Example, LookedAt, RaterReport, RetrievedFigures, answered

PAGE: Final = "index.html"
FIGURES: Final = "report.json"
_NONE: Final = "–"
_WORTH_A_WARNING: Final = 0.5  # share of test pairs whose references are all rated about the same


def write_report(report: RaterReport, folder: Path) -> list[Path]:
    """Write the page, its pictures and its figures; the page comes first in the list.

    Other files in the folder are left alone, those of the same names replaced. The page is written last: where there
    is one, the files beside it are its own.
    """
    plots = training_plots(report.about.training)
    looked = report.retrieved
    plots += [] if looked is None or not looked.figures.references else [retrieved_plot(looked.figures)]
    content = page(report, plots)
    make_folder(folder)
    written = [write_file(folder / plot.file, plot.png) for plot in plots]
    write_json(folder / FIGURES, report.as_json())
    return [write_file(folder / PAGE, content.encode()), folder / FIGURES, *written]


def page(report: RaterReport, plots: Sequence[Plot]) -> str:
    """The whole page."""
    title = f"Rater {report.about.spec.partition('#')[0]}"
    drawn = {plot.file: plot for plot in plots}
    looked = report.retrieved
    sections = [("training", "Training", _training(report, drawn))]
    if looked is not None:
        sections.append(("retrieved", "Retrieved references", _retrieved(looked, drawn)))
        if looked.examples:
            sections.append(("examples", "Examples", _examples(looked)))
    sections.append(("how", "How it was made", [html_table(_how(report))]))
    links = "".join(f'<li><a href="#{anchor}">{escaped(name)}</a></li>' for anchor, name, _ in sections)
    body = [
        *(f"<p>{escaped(one)}</p>" for one in _summary(report)),
        warnings_box(_to_bear_in_mind(looked)),
        f"<nav><ul>{links}</ul></nav>",
        *(
            "\n".join([f'<section id="{anchor}">', f"<h2>{escaped(name)}</h2>", *content, "</section>"])
            for anchor, name, content in sections
        ),
    ]
    return whole_page(title, body)


# ── words ─────────────────────────────────────────────────────────────────────────────────────────────────────────


def _digits(value: float | None, digits: int = 3) -> str:
    return _NONE if value is None else minus(f"{round(value, digits) + 0.0:.{digits}f}")


def _signed(value: float | None) -> str:
    """A rating or a weight: whether it is for or against is seen at once."""
    return _NONE if value is None else minus(f"{round(value, 2) + 0.0:+.2f}")


def _share(value: float | None) -> str:
    return _NONE if value is None else f"{100 * value:.1f} %"


def _summary(report: RaterReport) -> Iterator[str]:
    training = report.about.training
    mined, examples = training["mined"], training["examples"]
    yield (
        f"Trained on {', '.join(report.about.logs)}: {mined['utterances']:,} utterances with several different "
        f"responses, {examples['train']['positive']:,} positive examples. On the "
        f"{examples['validation']['utterances']:,} utterances that it did not learn from, a response to the same "
        f"utterance is rated above one to another utterance in {_share(training['auc_good_vs_wrong'])} of cases; "
        "50 % would be chance."
    )
    if report.retrieved is None:
        return
    figures = report.retrieved.figures
    yield (
        f"{figures.references:,} references of {report.retrieved.made_by['index'].partition('#')[0]} for "
        f"{figures.rated_pairs:,} of {figures.pairs:,} test pairs: rated {_signed(figures.mean)} on average, "
        f"{_share(figures.above_0)} of them above 0."
    )


def _to_bear_in_mind(looked: LookedAt | None) -> list[str]:
    found = list[str]()
    if looked is None:
        return found
    alike = looked.figures.alike
    if alike is not None and alike >= _WORTH_A_WARNING:
        found.append(
            f"In {_share(alike)} of the test pairs all references are rated about the same (within {ALIKE:g} of each "
            "other): there, weights of the rater are as good as equal ones."
        )
    if looked.bad_items:
        found.append(f"{len(looked.bad_items):,} items could not be read: {looked.bad_items[0]}")
    return found


# ── sections ──────────────────────────────────────────────────────────────────────────────────────────────────────


def _training(report: RaterReport, drawn: Mapping[str, Plot]) -> list[str]:
    training = report.about.training
    own = [drawn[name] for name in ("reliability.png", "ratings.png") if name in drawn]
    return [html_figure(drawn["curves.png"]), html_plots(own), html_table(_quality(training)), _epochs(training)]


def _quality(training: Mapping[str, Any]) -> Table:
    """What it is worth on validation examples, as figures."""
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
    if (short := training.get("short")) is not None:
        rows.append(
            (
                f"AUC on {short['utterances']:,} utterances too short to be learnt from",
                _digits(short.get("auc_good_vs_wrong"), 4),
            ),
        )
    return Table(title="On validation examples", columns=("figure", "value"), rows=rows)


def _epochs(training: Mapping[str, Any]) -> str:
    names = ("train_loss", "validation_loss", "validation_accuracy", "auc")
    rows = [
        (
            f"{one['epoch']}" + (" (kept)" if one["epoch"] == training["best_epoch"] else ""),
            *(_digits(one[name], 4) for name in names),
            f"{one['seconds']:,.0f}",
        )
        for one in training["epochs"]
    ]
    columns = ("epoch", "training loss", "validation loss", "accuracy", "AUC", "seconds")
    return html_table(Table(title="Epochs", columns=columns, rows=rows))


def _retrieved(looked: LookedAt, drawn: Mapping[str, Plot]) -> list[str]:
    figures = looked.figures
    pictures = [html_figure(drawn["retrieved.png"])] if "retrieved.png" in drawn else []
    tables = [_ratings_table(figures)] + ([_without(figures)] if figures.without else [])
    return [f"<p>Test pairs: {escaped(looked.pairs_from)}.</p>", *pictures, *map(html_table, tables)]


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


def _examples(looked: LookedAt) -> list[str]:
    shown = len(looked.examples)
    of_all = f"The first {shown:,} of {looked.figures.rated_pairs:,}" if shown < looked.figures.rated_pairs else "All"
    intro = f"{of_all} test pairs with references, the weightiest reference first. The utterance itself is one of them."
    return [f"<p>{escaped(intro)}</p>", *map(_example, looked.examples)]


def _example(example: Example) -> str:
    golds = "".join(f"<p>Gold: {escaped(gold)}</p>" for gold in example.golds)
    columns = ("weight", "similarity", "reference", "which answered")
    table = Table(title=example.utterance, columns=columns, rows=[_row(one) for one in example.references], text=True)
    head, body = html_table(table).split("\n", 1)
    return f'{head}\n<p class="note">{escaped(example.id)}</p>\n{golds}\n{body}'


def _row(one: Reference) -> tuple[str, ...]:
    """Of a retrieved reference the weight is the rating; the figures beside the page have both."""
    said = "(the utterance itself)" if one.source is Origin.PARROT else answered(one) or _NONE
    return _signed(one.weight), _digits(one.similarity), one.text, said


def _how(report: RaterReport) -> Table:
    """All that somebody needs who wants the same figures."""
    about = report.about
    rows = [
        ("rater", about.spec),
        ("id", about.id),
        ("logs", ", ".join(about.logs)),
        ("network", ", ".join(f"{name} {value}" for name, value in about.network.items())),
        ("parameters", f"{about.training['parameters']:,}"),
    ]
    if report.retrieved is not None:
        rows += [(name, value) for name, value in report.retrieved.made_by.items() if name != "rater"]
    rows += [("refaug", VERSION), *((name, version(name)) for name in ("numpy", "torch", "matplotlib"))]
    return Table(title="Settings and versions", columns=("what", "value"), rows=rows, text=True)
