"""`refaug agreement`: agreement of metrics with people."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import replace
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from refaug.cli.shared.field_options import with_options
from refaug.cli.shared.item_inputs import ItemInputs
from refaug.cli.shared.output import JsonFlag, print_json, print_line, print_table
from refaug.cli.shared.progress import display_progress
from refaug.cli.shared.reference_options import augmented_sets
from refaug.cli.shared.score_options import StrictFlag, report_problems, require_all
from refaug.core.artefacts.kinds import artefact_stores
from refaug.core.errors import BadInput, Usage
from refaug.core.files import require_folder
from refaug.core.home import Settings
from refaug.core.progress import Progress
from refaug.core.records import Item
from refaug.operations.agreement import MeasureAgreement
from refaug.scoring.items import BadItem
from refaug.scoring.settings import AugmentSettings, find_preset

if TYPE_CHECKING:
    from refaug.agreement.records import ComparedMetric, MetaResult
    from refaug.metrics.base import Metric
    from refaug.scoring.metric_setup.metric_requests import SetBaseline
    from refaug.scoring.metric_setup.model_registry import ModelRegistry
    from refaug.scoring.spooled_items.item_collection import ItemCollection


class OutputForm(StrEnum):
    """How the result is printed."""

    TABLES = "tables"
    JSON = "json"
    CSV = "csv"
    LATEX = "latex"


_Report = Annotated[
    Path | None, typer.Option(help="Write a page with plots into this folder as well.", metavar="FOLDER")
]


@with_options
def meta_command(
    context: typer.Context,
    *,
    order: MeasureAgreement,
    report: _Report = None,
    strict: StrictFlag = False,
    as_csv: Annotated[bool, typer.Option("--csv", help="Print all figures as CSV.")] = False,
    as_latex: Annotated[bool, typer.Option("--latex", help="Print the tables for LaTeX.")] = False,
    as_json: JsonFlag = False,
) -> None:
    """Say how far metrics agree with people's ratings, and whether one agrees better than another.

    Each file of ITEMS is a test set with ratings (docs/items.md), or a table of ratings (docs/tables.md). Metrics are
    correlated with the mean rating over the same rows, and compared with the baseline by a paired bootstrap over
    contexts. With --index, references are found and weighed first, as by score.
    """
    form = _output_form(as_json=as_json, as_csv=as_csv, as_latex=as_latex)
    files = named_sets([added_set(context.obj, name) for name in order.data])
    requests = order.require_models(context.obj, order.metrics_named())
    if report is not None:
        require_folder(report)
    with display_progress(quiet=context.obj.quiet) as progress:
        rates = any(request.rates_by_default for request in requests)
        inputs = {name: ItemInputs(items=path, table=order) for name, path in files.items()}
        agreement = _compare_metrics(context.obj, inputs, order, progress, rates=rates)
        report_problems(agreement.bad_items, agreement.warnings, progress)
        page = None if report is None else _write_report(agreement, report, progress)
    _print(agreement, form)
    if page is not None and form is OutputForm.TABLES:
        print_line(f"report: {page}")
    require_all(agreement.bad_items, strict=strict)


@with_options
def leaderboard_command(
    context: typer.Context,
    *,
    order: MeasureAgreement,
    corpus: Annotated[
        list[str] | None,
        typer.Option(help="The corpus that a set is made from, where its name does not say it.", metavar="SET=CORPUS"),
    ] = None,
    html: Annotated[Path | None, typer.Option("--html", help="Write a page to publish, too.", metavar="FILE")] = None,
    strict: StrictFlag = False,
    as_json: JsonFlag = False,
) -> None:
    """Rank metrics by their agreement with people over several sets, of which each corpus counts the same.

    Beside each rank stand its interval, the correlation with reply length held, and the ranks without each corpus.
    """
    from refaug.agreement.report.leaderboard import MetricBoard, corpus_weights  # noqa: PLC0415
    from refaug.tables.published_sets import corpora_of  # noqa: PLC0415

    if html is not None:
        require_folder(html.parent)
    files = named_sets([added_set(context.obj, name) for name in order.data])
    corpora = corpora_of(list(files), corpus or ())
    requests = order.require_models(context.obj, order.metrics_named())
    with display_progress(quiet=context.obj.quiet) as progress:
        rates = any(request.rates_by_default for request in requests)
        inputs = {name: ItemInputs(items=path, table=order) for name, path in files.items()}
        weights = corpus_weights(corpora)
        agreement = _compare_metrics(context.obj, inputs, order, progress, rates=rates, weights=weights)
        report_problems(agreement.bad_items, agreement.warnings, progress)
    board = MetricBoard.of(agreement, corpora)
    if as_json:
        print_json(board.as_json())
    else:
        for table in board.tables():
            print_table(
                table.title, table.columns, [["-" if cell == "–" else cell for cell in row] for row in table.rows]
            )
            for note in table.notes:
                print_line(f"  {note}")
            print_line()
    if html is not None:
        from refaug.tables.reports.html_page import report_page, write_file  # noqa: PLC0415  jinja2

        write_file(html, report_page(board.report()).encode())
    require_all(agreement.bad_items, strict=strict)


def _compare_metrics(
    home: Settings,
    files: Mapping[str, ItemInputs],
    order: MeasureAgreement,
    progress: Progress,
    *,
    rates: bool,
    weights: Sequence[float] | None = None,
) -> MetaResult:
    """Read the files, choose the metrics, and compare them; `rates`: some metric asks the default rater."""
    from refaug.agreement.meta import agreement  # noqa: PLC0415
    from refaug.agreement.records import RatedItems, choose_metrics  # noqa: PLC0415
    from refaug.scoring.metric_setup.metric_requests import baseline_advice, baseline_setter  # noqa: PLC0415  compiles
    from refaug.scoring.metric_setup.model_registry import ModelRegistry  # noqa: PLC0415

    sets = {name: _read_collection(inputs, home, progress) for name, inputs in files.items()}
    models, preset = ModelRegistry(home, order.threads, default_rater=order.rater), find_preset(order.settings.preset)
    set_baseline: SetBaseline | None = None
    named_specifications = order.metrics_for(test_item for test_items in sets.values() for test_item in test_items)
    with ExitStack() as stack:  # what a cluster has finished stays until all is computed
        if order.index is not None:
            sets, provenance = stack.enter_context(
                augmented_sets(
                    home, sets, order.index, order.rater, order.settings, order.threads, progress, on=order.on
                )
            )
            versions = provenance.settings
            set_baseline = baseline_setter(artefact_stores(home)["index"], versions["index"], progress)
            rater = versions.get("rater", models.default_rater)
            models = replace(models, default_rater=rater, sample=versions["index"])
        elif preset is not None:
            preset.require_items(test_item for test_items in sets.values() for test_item in test_items)
            preset.require_effect(named_specifications)
        rated_sets = [RatedItems(name=name, items=test_items) for name, test_items in sets.items()]
        texts = [*([order.baseline] if order.baseline is not None else []), *named_specifications]
        names = _short_names(list(dict.fromkeys(texts)))
        built = _builder(order, models, set_baseline)
        chosen, first = choose_metrics(named_specifications, order.baseline, built, names)
        advice = baseline_advice(
            [rated_items.metric for rated_items in chosen],
            (test_item for test_items in sets.values() for test_item in test_items),
        )
        if advice is not None:
            progress.warn(advice)
        settings = order.settings if rates or order.index is not None else None
        bound = _bound(chosen, models, settings, progress)
        return agreement(rated_sets, bound, order.meta_settings, baseline=first, weights=weights, progress=progress)


def _builder(
    order: MeasureAgreement, models: ModelRegistry, set_baseline: SetBaseline | None
) -> Callable[[str], Metric]:
    """Return a function that makes the metric of a specification, with the parameters of the preset."""
    from refaug.scoring.metric_setup.metric_requests import metrics_of  # noqa: PLC0415  compiles

    preset = find_preset(order.settings.preset)
    by_default = {"combine": order.settings.combine, "cal": order.settings.calibration}

    def built(text: str) -> Metric:
        specification = preset.specification(text) if preset is not None else text
        return metrics_of([specification], order.language, by_default, set_baseline, source=models)[0]

    return built


def _bound(
    chosen: Sequence[ComparedMetric], models: ModelRegistry, augmenting: AugmentSettings | None, progress: Progress
) -> list[ComparedMetric]:
    """Return the metrics, bound to the models that they need."""
    from refaug.scoring.metric_setup.scoring_steps import bound_metrics  # noqa: PLC0415  numpy

    metrics = [compared.metric for compared in chosen]
    bound = bound_metrics(metrics, models, augmenting=augmenting, progress=progress)
    return [replace(compared, metric=metric) for compared, metric in zip(chosen, bound, strict=True)]


# ── Input ─────────────────────────────────────────────────────────────────────────────────────────────────────────────


def _output_form(*, as_json: bool, as_csv: bool, as_latex: bool) -> OutputForm:
    forms = [
        form
        for form, is_asked in ((OutputForm.JSON, as_json), (OutputForm.CSV, as_csv), (OutputForm.LATEX, as_latex))
        if is_asked
    ]
    if len(forms) > 1:
        raise Usage("several forms of output at once", remedy="one of --json, --csv and --latex")
    return forms[0] if forms else OutputForm.TABLES


def added_set(home: Settings, name: str) -> Path:
    """Return the path of a file, or of the published set of this name that the home has."""
    added = home.datasets / f"{name}.jsonl"
    return added if not Path(name).exists() and added.is_file() else Path(name)


def named_sets(
    paths: Sequence[Path], *, remedy: str = "refaug agreement ITEMS.jsonl -m bleu -m rouge-l"
) -> dict[str, Path]:
    """Name every set by its file without endings, or by its path where two names would be equal."""
    if not paths:
        raise Usage("no test set", remedy=remedy)
    if twice := next((path for path in paths if paths.count(path) > 1), None):
        raise Usage(f"{twice} is named twice", remedy="give every test set once")
    short = {path: "stdin" if str(path) == "-" else path.name.split(".")[0] or path.name for path in paths}
    names = list(short.values())
    return {name if names.count(name) == 1 else str(path): path for path, name in short.items()}


def read_set(inputs: ItemInputs, progress: Progress) -> list[Item | BadItem]:
    """Read the items of a test set; a file without items is refused."""
    items = list(inputs.read(progress))
    _require_items(len(items), inputs)
    return items


def _read_collection(inputs: ItemInputs, home: Settings, progress: Progress) -> ItemCollection:
    """Read the items of a test set, of which few are in memory; a file without items is refused."""
    from refaug.scoring.spooled_items.item_collection import ItemCollection  # noqa: PLC0415  compiles

    collection = ItemCollection(inputs.read(progress), home.cache)
    _require_items(collection.count, inputs)
    return collection


def _require_items(count: int, inputs: ItemInputs) -> None:
    if not count:
        raise BadInput(
            f"there are no items in {'stdin' if str(inputs.items) == '-' else inputs.items}",
            remedy="one item a line: docs/items.md",
        )


def _short_names(specifications: Sequence[str]) -> dict[str, str]:
    """Return the names of metrics in tables: as typed, with paths cut to file names where these are distinct."""
    short = {text: re.sub(r"=([^,=]*/)([^,/]+)", r"=\2", text.strip()) for text in specifications}
    names = list(short.values())
    return {text: name if names.count(name) == 1 else text.strip() for text, name in short.items()}


# ── Output ────────────────────────────────────────────────────────────────────────────────────────────────────────────


def _write_report(agreement: MetaResult, folder: Path, progress: Progress) -> Path:
    """Write the report, and return the path of its page."""
    from refaug.agreement.report.report import write_report  # noqa: PLC0415

    progress.stage("report")
    page, *_ = write_report(agreement, folder)
    return page


def _print(agreement: MetaResult, form: OutputForm) -> None:
    """Print the result in the chosen form."""
    from refaug.agreement.report.report import as_csv, as_latex  # noqa: PLC0415
    from refaug.cli.scores.meta_tables import print_tables  # noqa: PLC0415  compiles

    match form:
        case OutputForm.JSON:
            print_json(agreement.as_json())
        case OutputForm.CSV | OutputForm.LATEX:
            for line in (as_csv if form is OutputForm.CSV else as_latex)(agreement).splitlines():
                print_line(line)
        case OutputForm.TABLES:
            print_tables(agreement)
