"""`refaug meta`: how far metrics agree with people."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from typer.core import TyperGroup

from core.errors import Usage
from core.items import BadItem
from core.progress import Progress
from core.records import Item
from service.cli.common import JsonFlag, counted, print_facts, print_json, print_line, print_table
from service.cli.progress import shown_progress
from service.cli.score import (
    LanguageOption,
    SeedOption,
    StrictFlag,
    items_from,
    metrics_of,
    report_problems,
    require_all,
)

if TYPE_CHECKING:
    from metrics.correlation import Correlation
    from metrics.resampling import Estimate
    from service.meta import AgreementRow, ComparedMetric, MeanResult, MeanRow, MetaResult, SetResult


class RowsWanted(StrEnum):
    """The names of `service.meta.RowsChoice`, which compiles when it is imported: too much for --help."""

    FAIR = "fair"
    ALL = "all"


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


@app.callback()
def meta_command(
    context: typer.Context,
    items: Annotated[
        list[Path] | None,
        typer.Argument(help="Test sets with ratings: JSONL with one item a line; - for stdin.", metavar="ITEMS"),
    ] = None,
    metric: Annotated[
        list[str] | None,
        typer.Option(
            "--metric",
            "-m",
            help="What to compare: NAME or NAME:key=value,…; repeat it. Without it: those of bleu, multi-bleu, rouge-l "
            "and chrf that apply.",
            metavar="SPEC",
        ),
    ] = None,
    baseline: Annotated[
        str | None,
        typer.Option(help="The metric that every other is compared with; without it, the first.", metavar="SPEC"),
    ] = None,
    rows: Annotated[
        RowsWanted,
        typer.Option(
            help="fair: no replies that are one of their own golds, and no references identical to the reply; "
            "all: every rated reply against every reference.",
        ),
    ] = RowsWanted.FAIR,
    draws: Annotated[int, typer.Option(help="Draws of the bootstrap over contexts.", min=1, max=1_000_000)] = 10_000,
    seed: SeedOption = 1,
    min_kappa: Annotated[
        float | None,
        typer.Option(help="Leave out annotators whose mean κ with the others is lower.", min=-1, max=1, metavar="X"),
    ] = None,
    language: LanguageOption = None,
    report: Annotated[
        Path | None, typer.Option(help="Write a page with plots into this folder as well.", metavar="FOLDER")
    ] = None,
    strict: StrictFlag = False,
    as_csv: Annotated[bool, typer.Option("--csv", help="Print all figures as CSV.")] = False,
    as_latex: Annotated[bool, typer.Option("--latex", help="Print the tables for LaTeX.")] = False,
    as_json: JsonFlag = False,
) -> None:
    """Say how far metrics agree with people's ratings, and whether one agrees better than another.

    Each file of ITEMS is a test set with ratings (docs/items.md). Metrics are correlated with the mean rating over the
    same rows, and compared with the baseline by a paired bootstrap over contexts.
    """
    if as_json + as_csv + as_latex > 1:
        raise Usage("several forms of output at once", remedy="one of --json, --csv and --latex")
    files = _named(items or [])
    from service.meta import (  # noqa: PLC0415  compiles
        MetaSettings,
        RatedItems,
        RowsChoice,
        agreement,
        default_metrics,
    )

    settings = MetaSettings(rows=RowsChoice(rows.value), draws=draws, seed=seed, min_kappa=min_kappa)
    with shown_progress(quiet=context.obj.quiet) as progress:
        sets = [RatedItems(name=name, items=_read(path, progress)) for name, path in files.items()]
        asked = metric or default_metrics(item for one in sets for item in one.items)
        chosen, first = _chosen(asked, baseline, language)
        found = agreement(sets, chosen, settings, baseline=first, progress=progress)
        report_problems(found.bad_items, found.warnings, progress)
        written = _written(found, report, progress) if report is not None else []
    if as_json:
        print_json(found.as_json())
    elif as_csv or as_latex:
        _print_text(found, latex=as_latex)
    else:
        _print_tables(found)
        for path in written[:1]:
            print_line(f"report: {path}")
    require_all(found.bad_items, strict=strict)


# ── what comes in ─────────────────────────────────────────────────────────────────────────────────────────────────


def _named(paths: Sequence[Path]) -> dict[str, Path]:
    """Every set by a short name: the file's without endings, or its path where two would have the same."""
    if not paths:
        raise Usage("no test set", remedy="refaug meta ITEMS.jsonl -m bleu -m rouge-l")
    if twice := next((path for path in paths if paths.count(path) > 1), None):
        raise Usage(f"{twice} is named twice", remedy="give every test set once")
    short = {path: "stdin" if str(path) == "-" else path.name.split(".")[0] or path.name for path in paths}
    names = list(short.values())
    return {name if names.count(name) == 1 else str(path): path for path, name in short.items()}


def _read(path: Path, progress: Progress) -> list[Item | BadItem]:
    return list(items_from(path, [], [], [], progress))


def _chosen(
    specifications: Sequence[str], baseline: str | None, language: str | None
) -> tuple[list[ComparedMetric], str]:
    """The metrics, each once however it is written, and the name of the one that is the baseline."""
    from service.meta import ComparedMetric  # noqa: PLC0415  compiles

    def compared(text: str) -> ComparedMetric:
        return ComparedMetric(name=text.strip(), metric=metrics_of([text], language)[0])

    by_signature = dict[str, ComparedMetric]()
    for one in map(compared, specifications):
        by_signature.setdefault(one.signature.full, one)
    if baseline is None:
        return list(by_signature.values()), next(iter(by_signature.values())).name
    asked = compared(baseline)
    known = by_signature.get(asked.signature.full)
    if known is not None:
        return list(by_signature.values()), known.name
    return [asked, *by_signature.values()], asked.name


# ── what goes out ─────────────────────────────────────────────────────────────────────────────────────────────────


def _written(found: MetaResult, folder: Path, progress: Progress) -> list[Path]:
    from service.meta_report import write_report  # noqa: PLC0415  the plots are slow to import

    progress.stage("report")
    return write_report(found, folder)


def _print_text(found: MetaResult, *, latex: bool) -> None:
    from service.meta_report import as_csv, as_latex  # noqa: PLC0415  the plots are slow to import

    text = as_latex(found) if latex else as_csv(found)
    for line in text.splitlines():
        print_line(line)


def _print_tables(found: MetaResult) -> None:
    for one in found.sets:
        _print_set(one, found)
    if found.mean is not None:
        _print_mean(found.mean, found)
    for compared in found.metrics:
        print_line(f"{compared.name}: {compared.signature.short}")


def _print_set(one: SetResult, found: MetaResult) -> None:
    counts = one.counts
    print_facts(
        one.name,
        {
            "rows used": f"{counts.used:,} ({found.settings.rows.value}), {counted(counts.contexts, 'context')}, "
            f"{counted(counts.systems, 'system')}",
            "rated replies": counts.rated,
            "… fair ones": f"{counts.fair:,} ({counts.references_themselves:,} others are one of their own golds)",
            "references identical to the reply, removed": counts.references_removed,
            "replies without a rating": sum(counts.unrated.values()),
            "replies without a score": counts.left_out,
        },
    )
    print_line()
    _print_agreement(f"{one.name}: agreement with the mean rating", one.rows, found)
    _print_annotators(one)
    _print_systems(one)
    _print_groups(one)


def _print_agreement(title: str, rows: Sequence[AgreementRow | MeanRow], found: MetaResult) -> None:
    """The table that everything else explains."""
    interval = f"{found.settings.confidence * 100:g} %"
    with_williams = any(getattr(row, "williams", {}) for row in rows)
    williams = ("Williams p",) if with_williams else ()
    columns = ("metric", "Spearman", interval, f"less {found.baseline}", interval, "Holm p", *williams)
    print_table(
        title,
        (*columns, "Pearson", "Kendall", "partial Spearman", "n"),
        [
            (
                _label(row),
                _r(row.spearman.value),
                _span(row.spearman),
                *_difference(row),
                *((_williams(row),) if with_williams else ()),
                _r(row.pearson.value),
                _r(row.kendall.value),
                _r(row.partial_spearman.value),
                row.n,
            )
            for row in rows
        ],
    )
    for reason in _reasons(rows):
        print_line(f"  {reason}")
    print_line(f"  difference and Holm p: paired bootstrap over contexts, {found.settings.draws:,} draws, Spearman")
    if with_williams:
        print_line("  Williams p: of the same difference; assumes independent rows")
    print_line("  partial Spearman: with reply length held fixed")
    if any(row.turned for row in rows):
        print_line("  turned: lower scores are better, so the sign of this metric was turned")
    print_line()


def _label(row: AgreementRow | MeanRow) -> str:
    return f"{row.name} (turned)" if row.turned else row.name


def _difference(row: AgreementRow | MeanRow) -> tuple[str, str, str]:
    found = row.differences.get("spearman")
    return ("-", "-", "-") if found is None else (_r(found.value), _span(found), _p(row.holm.get("spearman")))


def _williams(row: AgreementRow | MeanRow) -> str:
    tests = getattr(row, "williams", {})
    return _p(tests["spearman"].p) if "spearman" in tests else "-"


def _reasons(rows: Iterable[AgreementRow | MeanRow]) -> Iterator[str]:
    """Why there is a dash, where that is not what the row is about."""
    for row in rows:
        figures: dict[str, Estimate | Correlation] = {"Spearman": row.spearman, "Pearson": row.pearson}
        if row.kind == "metric":
            figures |= {"Kendall": row.kendall, "partial Spearman": row.partial_spearman}
        whys = [(name, one.why) for name, one in figures.items() if one.why is not None]
        for why in dict.fromkeys(why for _, why in whys):
            yield f"{row.name}, {', '.join(name for name, one in whys if one == why)}: {why}"
        difference = row.differences.get("spearman")
        if difference is not None and difference.why is not None and difference.why != row.spearman.why:
            yield f"{row.name}, difference: {difference.why}"


def _print_annotators(one: SetResult) -> None:
    figures = one.annotators
    if len(figures.kept) + len(figures.dropped) == 1:
        print_line("annotators: one number only for each reply, so there is nothing to compare")
        print_line()
        return
    halves = figures.split_half.spearman
    table: list[Sequence[object]] = [("Cohen's κ, quadratic, mean of pairs", _r(figures.kappa.mean), "-")]
    table += [
        (f"… annotator {figures.kept[each.annotator] + 1}", _r(each.value), "-") for each in figures.kappa_of_each
    ]
    table += [(f"Krippendorff's α, {level}", _r(alpha.value), "-") for level, alpha in figures.alpha.items()]
    table += [(form.form, _r(form.value), _bounds(form.low, form.high)) for form in figures.icc.forms]
    table += [
        ("split half, Spearman", _r(halves.half), _bounds(halves.low, halves.high)),
        ("… Spearman–Brown", _r(halves.stepped_up), "-"),
    ]
    print_table(f"{one.name}: annotators with each other", ("figure", "value", "interval"), table)
    reasons = [figures.kappa.why, *(alpha.why for alpha in figures.alpha.values())]
    reasons += [*(form.why for form in figures.icc.forms), halves.why]
    for why in dict.fromkeys(reason for reason in reasons if reason is not None):
        print_line(f"  {why}")
    print_line()
    print_table(
        f"{one.name}: Spearman with each annotator",
        ("metric", "mean", "minimum", "maximum"),
        [
            (_label(row), _r(spread.mean), _r(spread.lowest), _r(spread.highest))
            for row in one.rows
            if (spread := row.by_annotator) is not None
        ],
    )
    print_line()


def _print_systems(one: SetResult) -> None:
    rows: list[Sequence[object]] = []
    whys = dict[str, None]()
    for row in one.rows:
        level, without = row.system_level, row.without_system
        if level is None or without is None:
            continue
        spearman = level.by_kind["spearman"]
        missing = "p" if spearman.value is not None else "value"
        whys |= dict.fromkeys([f"no {missing}: {spearman.why}"] if spearman.why is not None else [])
        whys |= dict.fromkeys([f"without one: {without.spread.why}"] if without.spread.why is not None else [])
        rows.append(
            (
                _label(row),
                *(_r(level.by_kind[kind].value) for kind in ("spearman", "pearson", "kendall")),
                _p(spearman.p),
                _r(without.spread.lowest),
                _r(without.spread.highest),
                without.most,
                _r(without.change),
            )
        )
    columns = ("metric", "Spearman", "Pearson", "Kendall", "p", "without one: lowest", "highest", "most", "change")
    title = f"{one.name}: system level, {counted(one.counts.systems, 'system')}, contexts centred"
    print_table(title, columns, rows)
    for why in whys:
        print_line(f"  {why}")
    print_line("  without one: Spearman over replies without each system in turn; most: whose absence changes it most")
    print_line()


def _print_groups(one: SetResult) -> None:
    rows = [row for row in one.rows if row.groups]
    sizes = [group.size for group in rows[0].groups]
    print_table(
        f"{one.name}: Spearman of the means of groups of replies",
        ("metric", *(str(size) for size in sizes)),
        [(_label(row), *(_r(group.by_kind["spearman"].value) for group in row.groups)) for row in rows],
    )
    whys = (group.by_kind["spearman"].why for row in rows for group in row.groups)
    for why in dict.fromkeys(why for why in whys if why is not None):
        print_line(f"  {why}")
    print_line()


def _print_mean(mean: MeanResult, found: MetaResult) -> None:
    _print_agreement(f"mean over {', '.join(mean.sets)}", mean.rows, found)


def _r(value: float | None) -> str:
    """A correlation for people."""
    return "-" if value is None else f"{value:.3f}"


def _p(value: float | None) -> str:
    return "-" if value is None else f"{value:.0e}" if value < 0.0001 else f"{value:.4f}"


def _span(one: Estimate) -> str:
    return _bounds(one.low, one.high)


def _bounds(low: float | None, high: float | None) -> str:
    return "-" if low is None or high is None else f"[{low:.3f}, {high:.3f}]"
