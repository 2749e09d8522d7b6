"""`refaug meta`: how far metrics agree with people."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from typer.core import TyperGroup

from core.errors import BadInput, Usage
from core.items import BadItem
from core.progress import Progress
from core.records import Item
from service.cli.asking import Asking
from service.cli.common import JsonFlag, print_json, print_line
from service.cli.index_common import ThreadsOption
from service.cli.options import with_options
from service.cli.progress import shown_progress
from service.cli.score import items_from
from service.cli.scoring import LanguageOption, SeedOption, StrictFlag, report_problems, require_all
from service.settings import Settings

if TYPE_CHECKING:
    from service.meta_records import ComparedMetric, MetaResult, MetaSettings


class RowsWanted(StrEnum):
    """The names of `service.meta_records.RowsChoice`, which compiles when it is imported: too much for --help."""

    FAIR = "fair"
    ALL = "all"


class Form(StrEnum):
    """How the result is printed."""

    TABLES = "tables"
    JSON = "json"
    CSV = "csv"
    LATEX = "latex"


class ItemsOrCommand(TyperGroup):
    """A command that takes files and has commands below it: a first word that is one of these is no file.

    Whoever has a file of that name writes ./name.
    """

    allow_interspersed_args = True  # files and options in any order

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Leave everything behind the name of a command to that command."""
        if not args or args[0] not in self.commands:
            return super().parse_args(ctx, args)
        super().parse_args(ctx, [])
        ctx.args = args
        return args

    def invoke(self, ctx: Any) -> Any:
        """Run the named command alone, or what stands here."""
        if not ctx.args:
            return super().invoke(ctx)
        name, *rest = ctx.args
        command = self.commands[name]
        # Beside this command, not below it: a usage line would have our ITEMS before the name.
        with ctx, command.make_context(f"{ctx.info_name} {name}", rest, parent=ctx.parent) as inner:
            return command.invoke(inner)


app = typer.Typer(cls=ItemsOrCommand, invoke_without_command=True, subcommand_metavar="")

_Items = Annotated[
    list[Path] | None,
    typer.Argument(help="Test sets with ratings: JSONL with one item a line; - for stdin.", metavar="ITEMS"),
]
_Metrics = Annotated[
    list[str] | None,
    typer.Option(
        "--metric",
        "-m",
        help="What to compare: NAME or NAME:key=value,…; repeat it. Without it: those of bleu, multi-bleu, rouge-l "
        "and chrf that apply.",
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
        help="Rater that the metric rater asks, and that weighs references of --sample: name or name@version.",
        metavar="NAME",
    ),
]
_Rows = Annotated[
    RowsWanted,
    typer.Option(
        help="fair: no replies that are one of their own golds, and no references identical to the reply; "
        "all: every rated reply against every reference.",
    ),
]
_Draws = Annotated[int, typer.Option(help="Draws of the bootstrap over contexts.", min=1, max=1_000_000)]
_Confidence = Annotated[float, typer.Option(help="Of the intervals.", min=0.5, max=0.9999)]
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
    rater: RaterOption = None,
    *,
    asking: Asking,
    rows: _Rows = RowsWanted.FAIR,
    draws: _Draws = 10_000,
    confidence: _Confidence = 0.95,
    seed: SeedOption = 1,
    min_kappa: _MinKappa = None,
    language: LanguageOption = None,
    threads: ThreadsOption = None,
    report: _Report = None,
    strict: StrictFlag = False,
    as_csv: Annotated[bool, typer.Option("--csv", help="Print all figures as CSV.")] = False,
    as_latex: Annotated[bool, typer.Option("--latex", help="Print the tables for LaTeX.")] = False,
    as_json: JsonFlag = False,
) -> None:
    """Say how far metrics agree with people's ratings, and whether one agrees better than another.

    Each file of ITEMS is a test set with ratings (docs/items.md). Metrics are correlated with the mean rating over the
    same rows, and compared with the baseline by a paired bootstrap over contexts.
    """
    form = _form(as_json=as_json, as_csv=as_csv, as_latex=as_latex)
    files = named_sets(items or [])
    require_wanted(asking, [*(metric or []), *([baseline] if baseline is not None else [])], rater)
    judge = _Judging(rater=rater, asking=asking, threads=threads)
    from service.meta_records import MetaSettings, RowsChoice  # noqa: PLC0415  compiles
    from service.meta_report import require_folder  # noqa: PLC0415

    settings = MetaSettings(
        rows=RowsChoice(rows.value), draws=draws, seed=seed, confidence=confidence, min_kappa=min_kappa
    )
    if report is not None:
        require_folder(report)
    with shown_progress(quiet=context.obj.quiet) as progress:
        found = _computed(context.obj, files, metric or [], baseline, language, judge, settings, progress)
        report_problems(found.bad_items, found.warnings, progress)
        page = None if report is None else _written(found, report, progress)
    _print(found, form)
    if page is not None and form is Form.TABLES:
        print_line(f"report: {page}")
    require_all(found.bad_items, strict=strict)


@dataclass(frozen=True, kw_only=True)
class _Judging:
    """Who was named for metrics to ask, if any."""

    rater: str | None
    asking: Asking
    threads: int | None

    def bound(self, home: Settings, metrics: Sequence[ComparedMetric], progress: Progress) -> list[ComparedMetric]:
        """The metrics, those that ask somebody bound to whom they ask."""
        bound = self.asking.bound(
            home, [one.metric for one in metrics], rater=self.rater, threads=self.threads, progress=progress
        )
        return [replace(one, metric=metric) for one, metric in zip(metrics, bound, strict=True)]


def _computed(
    home: Settings,
    files: Mapping[str, Path],
    specifications: Sequence[str],
    baseline: str | None,
    language: str | None,
    judge: _Judging,
    settings: MetaSettings,
    progress: Progress,
) -> MetaResult:
    """Read the files, choose the metrics, and compare them."""
    from service.asked_metrics import lacking_b  # noqa: PLC0415  compiles
    from service.meta import agreement, default_metrics  # noqa: PLC0415
    from service.meta_records import RatedItems  # noqa: PLC0415

    sets = [RatedItems(name=name, items=read_set(path, progress)) for name, path in files.items()]
    asked = specifications or default_metrics(item for one in sets for item in one.items)
    chosen, first = _chosen(asked, baseline, language)
    told = lacking_b([one.metric for one in chosen], [item for one in sets for item in one.items])
    if told is not None:
        progress.warn(told)
    return agreement(sets, judge.bound(home, chosen, progress), settings, baseline=first, progress=progress)


# ── what comes in ─────────────────────────────────────────────────────────────────────────────────────────────────


def _form(*, as_json: bool, as_csv: bool, as_latex: bool) -> Form:
    asked = [form for form, is_asked in ((Form.JSON, as_json), (Form.CSV, as_csv), (Form.LATEX, as_latex)) if is_asked]
    if len(asked) > 1:
        raise Usage("several forms of output at once", remedy="one of --json, --csv and --latex")
    return asked[0] if asked else Form.TABLES


def named_sets(paths: Sequence[Path], *, remedy: str = "refaug meta ITEMS.jsonl -m bleu -m rouge-l") -> dict[str, Path]:
    """Every set by a short name: the file's without endings, or its path where two would have the same."""
    if not paths:
        raise Usage("no test set", remedy=remedy)
    if twice := next((path for path in paths if paths.count(path) > 1), None):
        raise Usage(f"{twice} is named twice", remedy="give every test set once")
    short = {path: "stdin" if str(path) == "-" else path.name.split(".")[0] or path.name for path in paths}
    names = list(short.values())
    return {name if names.count(name) == 1 else str(path): path for path, name in short.items()}


def require_wanted(asking: Asking, specifications: Sequence[str], rater: str | None) -> None:
    """Refuse a metric without those whom it asks, and a rater that nothing needs."""
    if not asking.require_named(specifications, rater) and rater is not None:
        raise Usage("--rater without a metric that asks it", remedy="-m rater, or leave --rater out")


def read_set(path: Path, progress: Progress) -> list[Item | BadItem]:
    """The items of a test set; a file without any is none."""
    items = list(items_from(path, [], [], [], progress))
    if not items:
        raise BadInput(
            f"there are no items in {'stdin' if str(path) == '-' else path}", remedy="one item a line: docs/items.md"
        )
    return items


def _chosen(
    specifications: Sequence[str], baseline: str | None, language: str | None
) -> tuple[list[ComparedMetric], str]:
    """The metrics, each once however it is written, and the name of the one that is the baseline."""
    from metrics.signature import Signature  # noqa: PLC0415  compiles
    from service.asked_metrics import metrics_of  # noqa: PLC0415
    from service.meta_records import ComparedMetric  # noqa: PLC0415

    asked = [*([baseline] if baseline is not None else []), *specifications]
    metrics = {text: metrics_of([text], language)[0] for text in dict.fromkeys(asked)}
    names = _short_names(list(metrics))
    by_signature = dict[str, ComparedMetric]()
    for text in specifications:
        one = ComparedMetric(name=names[text], metric=metrics[text])
        by_signature.setdefault(Signature.of(one.metric).full, one)
    if baseline is None:
        return list(by_signature.values()), next(iter(by_signature.values())).name
    known = by_signature.get(Signature.of(metrics[baseline]).full)
    if known is not None:
        return list(by_signature.values()), known.name
    return [ComparedMetric(name=names[baseline], metric=metrics[baseline]), *by_signature.values()], names[baseline]


def _short_names(specifications: Sequence[str]) -> dict[str, str]:
    """What metrics are called in tables: as they were asked for, paths as file names where that is enough."""
    short = {text: re.sub(r"=([^,=]*/)([^,/]+)", r"=\2", text.strip()) for text in specifications}
    names = list(short.values())
    return {text: name if names.count(name) == 1 else text.strip() for text, name in short.items()}


# ── what goes out ─────────────────────────────────────────────────────────────────────────────────────────────────


def _written(found: MetaResult, folder: Path, progress: Progress) -> Path:
    """Write the report, and say where its page is."""
    from service.meta_report import write_report  # noqa: PLC0415

    progress.stage("report")
    page, *_ = write_report(found, folder)
    return page


def _print(found: MetaResult, form: Form) -> None:
    """The result in the form that was asked for."""
    from service.cli.meta_tables import print_tables  # noqa: PLC0415  compiles
    from service.meta_report import as_csv, as_latex  # noqa: PLC0415

    match form:
        case Form.JSON:
            print_json(found.as_json())
        case Form.CSV | Form.LATEX:
            for line in (as_csv if form is Form.CSV else as_latex)(found).splitlines():
                print_line(line)
        case Form.TABLES:
            print_tables(found)
