"""`refaug meta`: agreement of metrics with people."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer
from typer.core import TyperGroup

from refaug.cli.scores.score import RaterOption as WeigherOption
from refaug.cli.shared.field_options import with_options
from refaug.cli.shared.index_options import ThreadsOption
from refaug.cli.shared.item_inputs import ItemInputs, TableOptions
from refaug.cli.shared.output import JsonFlag, print_json, print_line
from refaug.cli.shared.progress import display_progress
from refaug.cli.shared.reference_options import (
    IndexOption,
    OnOption,
    augmented_sets,
    require_searched,
    require_used,
)
from refaug.cli.shared.required_models import require_models
from refaug.cli.shared.score_options import LanguageOption, SeedOption, StrictFlag, report_problems, require_all
from refaug.core.errors import BadInput, Usage
from refaug.core.home import Settings
from refaug.core.progress import Progress
from refaug.core.records import Item
from refaug.evaluation.scoring.augment_settings import AugmentSettings
from refaug.evaluation.scoring.items import BadItem
from refaug.evaluation.scoring.presets import Preset, find_preset
from refaug.evaluation.scoring.score_settings import MAX_CONFIDENCE, MAX_DRAWS, MIN_CONFIDENCE

if TYPE_CHECKING:
    from refaug.evaluation.agreement.records import ComparedMetric, MetaResult, MetaSettings
    from refaug.evaluation.metric_setup.metric_requests import SetBaseline
    from refaug.evaluation.metric_setup.model_registry import MetricModels
    from refaug.evaluation.scoring.held.item_collection import ItemCollection
    from refaug.metrics.base import Metric


_WEIGHTED: Final = "upsilon-bleu"  # what references are found for, where no metric is named


class RowSelection(StrEnum):
    """The names of `evaluation.agreement.records.RowsChoice`, whose import compiles kernels: too slow for --help."""

    FAIR = "fair"
    ALL = "all"


class OutputForm(StrEnum):
    """How the result is printed."""

    TABLES = "tables"
    JSON = "json"
    CSV = "csv"
    LATEX = "latex"


class ItemsOrCommand(TyperGroup):
    """A command that takes files and has subcommands: a first word that names a subcommand is no file.

    A file of that name has to be written as ./name.
    """

    allow_interspersed_args = True  # files and options in any order

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Leave everything after the name of a subcommand to that subcommand."""
        if not args or args[0] not in self.commands:
            return super().parse_args(ctx, args)
        super().parse_args(ctx, [])
        ctx.args = args
        return args

    def invoke(self, ctx: Any) -> Any:
        """Run the named subcommand alone, or this command."""
        if not ctx.args:
            return super().invoke(ctx)
        name, *rest = ctx.args
        command = self.commands[name]
        # A sibling of this command, not a child: else the usage line would have ITEMS before the name.
        with ctx, command.make_context(f"{ctx.info_name} {name}", rest, parent=ctx.parent) as inner:
            return command.invoke(inner)


app = typer.Typer(cls=ItemsOrCommand, invoke_without_command=True, subcommand_metavar="")

_Items = Annotated[
    list[Path] | None,
    typer.Argument(help="Test sets with ratings: JSONL with one item a line, or tables; - for stdin.", metavar="ITEMS"),
]
_Metrics = Annotated[
    list[str] | None,
    typer.Option(
        "--metric",
        "-m",
        help="What to compare: NAME or NAME:key=value,…; repeat it. Without it: those of bleu, multi-bleu, rouge-l "
        "and chrf that apply, and upsilon-bleu with --index.",
        metavar="SPEC",
    ),
]
_Baseline = Annotated[
    str | None,
    typer.Option(help="The metric that every other is compared with; without it, the first.", metavar="SPEC"),
]
RaterOption = Annotated[
    str | None,
    typer.Option(
        "--rater",
        help="Rater of metrics that name none, and of references of a sampled log: name or name@version.",
        metavar="NAME",
    ),
]
_Rows = Annotated[
    RowSelection,
    typer.Option(
        help="fair: no replies that are one of their own golds, and no references identical to the reply; "
        "all: every rated reply against every reference.",
    ),
]
_Draws = Annotated[int, typer.Option(help="Draws of the bootstrap over contexts.", min=1, max=MAX_DRAWS)]
_Confidence = Annotated[float, typer.Option(help="Of the intervals.", min=MIN_CONFIDENCE, max=MAX_CONFIDENCE)]
_MinKappa = Annotated[
    float | None,
    typer.Option(help="Leave out annotators whose mean κ with the others is lower.", min=-1, max=1, metavar="X"),
]
_Report = Annotated[
    Path | None, typer.Option(help="Write a page with plots into this folder as well.", metavar="FOLDER")
]


@app.callback()
@with_options
def meta_command(
    context: typer.Context,
    items: _Items = None,
    metric: _Metrics = None,
    baseline: _Baseline = None,
    index: IndexOption = None,
    rater: WeigherOption = None,
    *,
    table: TableOptions,
    augmenting: AugmentSettings,
    rows: _Rows = RowSelection.FAIR,
    draws: _Draws = 10_000,
    confidence: _Confidence = 0.95,
    seed: SeedOption = 1,
    min_kappa: _MinKappa = None,
    language: LanguageOption = None,
    threads: ThreadsOption = None,
    on: OnOption = None,
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
    files = named_sets(items or [])
    named = [*(metric or []), *([baseline] if baseline is not None else [])]
    require_searched(on, index)
    asks_rater = require_used_models(context.obj, named, rater, index=index)
    require_used(augmenting, index, rater, rates=asks_rater, scores=True)
    if index is not None:
        _require_weighted(named, context.obj)
    finding = _ReferenceModels(
        index=index,
        rater=rater,
        threads=threads,
        augmenting=augmenting if asks_rater or index else None,
        on=on,
    )
    from refaug.evaluation.agreement.records import MetaSettings, RowsChoice  # noqa: PLC0415  compiles
    from refaug.evaluation.agreement.report.report import require_folder  # noqa: PLC0415
    from refaug.evaluation.metric_setup.model_registry import MetricModels  # noqa: PLC0415

    settings = MetaSettings(
        rows=RowsChoice(rows.value), draws=draws, seed=seed, confidence=confidence, min_kappa=min_kappa
    )
    if report is not None:
        require_folder(report)
    with display_progress(quiet=context.obj.quiet) as progress:
        agreement = _compare_metrics(
            context.obj,
            {name: ItemInputs(items=path, table=table) for name, path in files.items()},
            _ComparedMetrics(
                metric or [],
                baseline,
                language,
                find_preset(augmenting.preset),
                {"combine": augmenting.combine, "cal": augmenting.calibration},
                MetricModels.of(context.obj, threads, rater=rater),
            ),
            finding,
            settings,
            progress,
        )
        report_problems(agreement.bad_items, agreement.warnings, progress)
        page = None if report is None else _write_report(agreement, report, progress)
    _print(agreement, form)
    if page is not None and form is OutputForm.TABLES:
        print_line(f"report: {page}")
    require_all(agreement.bad_items, strict=strict)


@dataclass(frozen=True)
class _ComparedMetrics:
    """The metrics that the command names."""

    specifications: Sequence[str]
    baseline: str | None
    language: str | None
    preset: Preset | None
    by_default: Mapping[str, str]
    models: MetricModels
    set_baseline: SetBaseline | None = None  # where references are found in an index

    def built(self, text: str) -> Metric:
        """Return the metric of a specification, with the parameters of the preset."""
        from refaug.evaluation.metric_setup.metric_requests import metrics_of  # noqa: PLC0415  compiles

        specification = self.preset.specification(text) if self.preset is not None else text
        source = self.models.registry
        return metrics_of([specification], self.language, self.by_default, self.set_baseline, source=source)[0]


@dataclass(frozen=True, kw_only=True)
class _ReferenceModels:
    """Where references are found, and what weighs them."""

    index: str | None
    rater: str | None
    threads: int | None
    augmenting: AugmentSettings | None
    on: str | None = None  # the cluster that references are found on

    def bind(
        self,
        metrics: Sequence[ComparedMetric],
        models: MetricModels,
        versions: Mapping[str, str],
        progress: Progress,
    ) -> list[ComparedMetric]:
        """Return the metrics, bound to the models that they need; `versions` are those that found the references."""
        from refaug.evaluation.metric_setup.scoring_steps import ScoringSteps  # noqa: PLC0415  numpy

        steps = ScoringSteps(
            models=replace(models, rater=versions.get("rater", models.rater), sample=versions.get("index")),
            augmenting=self.augmenting,
        )
        bound = steps.bound([compared.metric for compared in metrics], progress=progress)
        return [replace(compared, metric=metric) for compared, metric in zip(metrics, bound, strict=True)]


def _compare_metrics(
    home: Settings,
    files: Mapping[str, ItemInputs],
    compared: _ComparedMetrics,
    finding: _ReferenceModels,
    settings: MetaSettings,
    progress: Progress,
) -> MetaResult:
    """Read the files, choose the metrics, and compare them."""
    from refaug.evaluation.agreement.meta import agreement, default_metrics  # noqa: PLC0415
    from refaug.evaluation.agreement.metric_choice import choose_metrics  # noqa: PLC0415
    from refaug.evaluation.agreement.records import RatedItems  # noqa: PLC0415
    from refaug.evaluation.home.indexes import places_of  # noqa: PLC0415
    from refaug.evaluation.metric_setup.metric_requests import baseline_advice, baseline_setter  # noqa: PLC0415  compiles

    sets = {name: _read_collection(inputs, home, progress) for name, inputs in files.items()}
    versions: Mapping[str, str] = {}
    named_specifications = compared.specifications or [
        *([_WEIGHTED] if finding.index is not None else []),
        *default_metrics(test_item for test_items in sets.values() for test_item in test_items),
    ]
    with ExitStack() as stack:  # what a cluster has finished stays until all is computed
        if finding.index is not None and finding.augmenting is not None:
            sets, provenance = stack.enter_context(
                augmented_sets(
                    home,
                    sets,
                    finding.index,
                    finding.rater,
                    finding.augmenting,
                    finding.threads,
                    progress,
                    on=finding.on,
                )
            )
            versions = provenance.settings
            based = baseline_setter(places_of(home).indexes, versions["index"], progress)
            compared = replace(compared, set_baseline=based)
        elif compared.preset is not None:
            compared.preset.require_items(test_item for test_items in sets.values() for test_item in test_items)
            compared.preset.require_effect(named_specifications)
        rated_sets = [RatedItems(name=name, items=test_items) for name, test_items in sets.items()]
        texts = [*([compared.baseline] if compared.baseline is not None else []), *named_specifications]
        names = _short_names(list(dict.fromkeys(texts)))
        chosen, first = choose_metrics(named_specifications, compared.baseline, compared.built, names)
        advice = baseline_advice(
            [rated_items.metric for rated_items in chosen],
            (test_item for test_items in sets.values() for test_item in test_items),
        )
        if advice is not None:
            progress.warn(advice)
        bound = finding.bind(chosen, compared.models, versions, progress)
        return agreement(rated_sets, bound, settings, baseline=first, progress=progress)


# ── input ─────────────────────────────────────────────────────────────────────────────────────────────────────────────


def _output_form(*, as_json: bool, as_csv: bool, as_latex: bool) -> OutputForm:
    forms = [
        form
        for form, is_asked in ((OutputForm.JSON, as_json), (OutputForm.CSV, as_csv), (OutputForm.LATEX, as_latex))
        if is_asked
    ]
    if len(forms) > 1:
        raise Usage("several forms of output at once", remedy="one of --json, --csv and --latex")
    return forms[0] if forms else OutputForm.TABLES


def named_sets(paths: Sequence[Path], *, remedy: str = "refaug meta ITEMS.jsonl -m bleu -m rouge-l") -> dict[str, Path]:
    """Name every set by its file without endings, or by its path where two names would be equal."""
    if not paths:
        raise Usage("no test set", remedy=remedy)
    if twice := next((path for path in paths if paths.count(path) > 1), None):
        raise Usage(f"{twice} is named twice", remedy="give every test set once")
    short = {path: "stdin" if str(path) == "-" else path.name.split(".")[0] or path.name for path in paths}
    names = list(short.values())
    return {name if names.count(name) == 1 else str(path): path for path, name in short.items()}


def require_used_models(
    home: Settings,
    specifications: Sequence[str],
    rater: str | None,
    *,
    index: str | None = None,
) -> bool:
    """Say whether a metric uses the rater; refuse one whose models are not named, and a rater that nothing uses."""
    asks_rater = require_models(home, specifications, rater=rater, index=index)
    if not asks_rater and rater is not None and index is None:
        raise Usage("--rater without a metric that asks it", remedy="-m rater, or leave --rater out")
    return asks_rater


def _require_weighted(specifications: Sequence[str], home: Settings) -> None:
    """Refuse an index where no metric looks at the references that would be found in it."""
    from refaug.evaluation.metric_setup.metric_requests import MetricRequest, require_index_used  # noqa: PLC0415  compiles

    require_index_used([MetricRequest.of(text, home) for text in specifications])


def read_set(inputs: ItemInputs, progress: Progress) -> list[Item | BadItem]:
    """Read the items of a test set; a file without items is refused."""
    items = list(inputs.read(progress))
    _require_items(len(items), inputs)
    return items


def _read_collection(inputs: ItemInputs, home: Settings, progress: Progress) -> ItemCollection:
    """Read the items of a test set, of which few are in memory; a file without items is refused."""
    from refaug.evaluation.scoring.held.item_collection import ItemCollection  # noqa: PLC0415  compiles

    collection = ItemCollection.read(inputs.read(progress), home.cache)
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


# ── output ────────────────────────────────────────────────────────────────────────────────────────────────────────────


def _write_report(agreement: MetaResult, folder: Path, progress: Progress) -> Path:
    """Write the report, and return the path of its page."""
    from refaug.evaluation.agreement.report.report import write_report  # noqa: PLC0415

    progress.stage("report")
    page, *_ = write_report(agreement, folder)
    return page


def _print(agreement: MetaResult, form: OutputForm) -> None:
    """Print the result in the chosen form."""
    from refaug.cli.scores.meta_tables import print_tables  # noqa: PLC0415  compiles
    from refaug.evaluation.agreement.report.report import as_csv, as_latex  # noqa: PLC0415

    match form:
        case OutputForm.JSON:
            print_json(agreement.as_json())
        case OutputForm.CSV | OutputForm.LATEX:
            for line in (as_csv if form is OutputForm.CSV else as_latex)(agreement).splitlines():
                print_line(line)
        case OutputForm.TABLES:
            print_tables(agreement)
