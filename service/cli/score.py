"""`refaug score`: test files in, scores out."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from core.errors import BadInput, Usage
from core.items import BadItem, read_aligned, read_items, system_name
from core.progress import Progress
from core.records import Item, Origin
from core.text import default_tokenizer
from metrics.catalogue import METRICS
from service.cli.common import (
    JsonFlag,
    counted,
    file_or_stdin,
    print_cells,
    print_json,
    print_line,
    print_table,
)
from service.cli.index_common import ModeOption, ThreadsOption
from service.cli.progress import shown_progress
from service.cli.references import (
    COUNT,
    MODE,
    AfterOption,
    Asked,
    BeforeOption,
    CalibratedFlag,
    CombineOption,
    CountOption,
    ExcludeLogOption,
    GoldOption,
    IndexOption,
    Made,
    ParrotOption,
    WeightsOption,
    augmented,
)
from service.settings import Settings

if TYPE_CHECKING:
    from metrics.base import Metric
    from service.scores import Evaluation, MetricScores, SystemScore

_SHOWN_PROBLEMS = 5


class LevelChoice(StrEnum):
    """What the table and the TSV have a row for."""

    REPLY = "reply"
    SYSTEM = "system"
    CORPUS = "corpus"


ItemsArgument = Annotated[
    Path | None,
    typer.Argument(
        help="JSONL with one item a line, or a table (.tsv), compressed or not; - for JSONL from stdin.",
        metavar="[ITEMS]",
    ),
]
MetricOption = Annotated[
    list[str] | None,
    typer.Option(
        "--metric",
        "-m",
        help="What to score with: NAME or NAME:key=value,…; repeat it for several. Without it: upsilon-bleu for items "
        "with retrieved references, delta-bleu for weighted ones, else multi-bleu.",
        metavar="SPEC",
    ),
]
RepliesOption = Annotated[
    list[str] | None,
    typer.Option(help="Line-aligned replies of a system, NAME=FILE or FILE; repeat it; - for stdin.", metavar="FILE"),
]
ReferencesOption = Annotated[
    list[Path] | None,
    typer.Option(help="Line-aligned references, golds first; repeat it; empty lines: none.", metavar="FILE"),
]
LanguageOption = Annotated[
    str | None,
    typer.Option(help="Language of the texts (en, ja, …): decides the tokenizer where a SPEC has none.", metavar="TAG"),
]
RaterOption = Annotated[
    str | None,
    typer.Option(
        "--rater",
        help="Rater that weighs references that are found, and that the metric rater asks: name or name@version.",
        metavar="NAME",
    ),
]
SeedOption = Annotated[int, typer.Option(help="Seed of the resampling.", min=0, max=2**32 - 1)]
StrictFlag = Annotated[bool, typer.Option("--strict", help="End with exit code 3 when any item cannot be used.")]


def score_command(
    context: typer.Context,
    items: ItemsArgument = None,
    metric: MetricOption = None,
    level: Annotated[
        LevelChoice | None,
        typer.Option(
            help="A row for each reply; for each system the mean of its replies; or, without it, its corpus score."
        ),
    ] = None,
    replies: RepliesOption = None,
    references: ReferencesOption = None,
    weights: Annotated[
        list[Path] | None,
        typer.Option(help="Their weights, a number from -1 to 1 a line: a file for each --references.", metavar="FILE"),
    ] = None,
    baseline: Annotated[
        str | None, typer.Option(help="Compare every other system with this one.", metavar="SYSTEM")
    ] = None,
    draws: Annotated[int, typer.Option(help="Draws of the bootstrap; 0: no intervals.", min=0, max=1_000_000)] = 1_000,
    confidence: Annotated[float, typer.Option(help="Of the intervals.", min=0.5, max=0.9999)] = 0.95,
    seed: SeedOption = 1,
    language: LanguageOption = None,
    explain: Annotated[
        bool,
        typer.Option("--explain", help="With --json: n-grams credited to which reference; scores without each one."),
    ] = False,
    percent: Annotated[bool, typer.Option("--percent", help="Scores in [0, 1] times 100.")] = False,
    index: IndexOption = None,
    rater: RaterOption = None,
    k: CountOption = COUNT,
    mode: ModeOption = MODE,
    gold: GoldOption = "one",
    parrot: ParrotOption = "rated",
    reference_weights: WeightsOption = "rated",
    combine: CombineOption = "first",
    calibrated: CalibratedFlag = False,
    exclude_log: ExcludeLogOption = None,
    after: AfterOption = None,
    before: BeforeOption = None,
    threads: ThreadsOption = None,
    strict: StrictFlag = False,
    as_tsv: Annotated[bool, typer.Option("--tsv", help="Print rows separated by tabs.")] = False,
    as_json: JsonFlag = False,
) -> None:
    """Score the replies of one or several systems against their references.

    ITEMS is JSONL (docs/items.md); or give line-aligned files with --replies and --references. With --index, further
    references are found in it first, and weighed by --rater; a weighted form without b has that of the index. The
    metric rater asks --rater about the replies themselves. What cannot be scored is listed and counted, and the rest
    is scored.
    """
    if as_json and as_tsv:
        raise Usage("--json and --tsv at once", remedy="one of the two")
    if as_json and level is not None:
        raise Usage("--level with --json", remedy="leave --level out: the JSON has all of them")
    if explain and not as_json:
        raise Usage("--explain without --json", remedy="add --json: an explanation does not fit into a table")
    from service.evaluate import evaluate  # noqa: PLC0415  compiles
    from service.scores import ScoreSettings, require_share  # noqa: PLC0415  compiles
    from service.scores import percent as in_percent  # noqa: PLC0415

    settings = ScoreSettings(
        draws=draws, confidence=confidence, seed=seed, baseline=baseline, explain=explain, parts=as_json
    )
    asked = Asked(
        k=k,
        mode=mode,
        gold=gold,
        parrot=parrot,
        weights=reference_weights,
        combine=combine,
        calibrated=calibrated,
        exclude_log=tuple(exclude_log or ()),
        after=after,
        before=before,
    )
    asks_rater = rater_wanted(metric or [], rater)
    if index is None and rater is not None and not asks_rater:
        raise Usage(
            "--rater without --index",
            remedy="--index NAME, whose references it weighs, or --metric rater, for which it rates the replies",
        )
    asked.require_used(index, rater, rates=asks_rater)
    with shown_progress(quiet=context.obj.quiet) as progress:
        listed = list(items_from(items, replies or [], references or [], weights or [], progress))
        made = Made({}, {})
        if index is not None:
            listed, made = augmented(context.obj, listed, index, rater, asked.settings(), threads, progress)
        by_default = {"combine": combine, "cal": "cal" if calibrated else "raw"}
        based = based_on_index(context.obj, made.by["index"], progress) if index is not None else None
        chosen = metrics_of(metric or [default_metric(listed)], language, by_default, based)
        if (advice := lacking_b(chosen, listed)) is not None:
            progress.warn(advice)
        for one in chosen if percent else []:
            require_share(one)
        if rater is not None and asks_rater:
            chosen = asking_rater(context.obj, chosen, made.by.get("rater", rater), threads)
        found = evaluate(listed, chosen, settings, provenance=made.by, details=made.details, progress=progress)
        report_problems(found.bad_items, found.warnings, progress)
    found = in_percent(found) if percent else found
    if as_json:
        print_json(found.as_json())
    elif as_tsv:
        print_tsv(found, level or LevelChoice.CORPUS)
    else:
        print_tables(found, level or LevelChoice.CORPUS)
    require_all(found.bad_items, strict=strict)


# ── what comes in ─────────────────────────────────────────────────────────────────────────────────────────────────


def items_from(
    items: Path | None,
    replies: Sequence[str],
    references: Sequence[Path],
    weights: Sequence[Path],
    progress: Progress,
) -> Iterator[Item | BadItem]:
    """Items from wherever the command names them."""
    if items is not None and (replies or references or weights):
        raise Usage("ITEMS and line-aligned files at once", remedy="one of the two")
    progress.stage("read")
    with ExitStack() as stack:
        if items is not None:
            path = stack.enter_context(file_or_stdin(items))
            called = "stdin" if str(items) == "-" else str(items)
            yield from read_items(
                path, called=called, unknown=lambda name: progress.warn(f"field {name!r} is not used")
            )
            return
        if not (replies and references):
            raise Usage(
                "no items were given",
                remedy="name a file of items, or line-aligned files: --replies FILE --references FILE",
            )
        named = dict(_named(text) for text in replies)
        if len(named) < len(replies):
            raise Usage("two systems of one name", remedy="--replies NAME=FILE")
        inputs = [*named.values(), *references, *weights]
        if [str(path) for path in inputs].count("-") > 1:
            raise Usage("- twice", remedy="stdin can be one of the files only")
        spooled = {name: stack.enter_context(file_or_stdin(path)) for name, path in named.items()}
        yield from read_aligned(
            spooled,
            [stack.enter_context(file_or_stdin(path)) for path in references],
            [stack.enter_context(file_or_stdin(path)) for path in weights],
        )


def _named(text: str) -> tuple[str, Path]:
    """`NAME=FILE`, or a file after which the system is named."""
    name, equals, file = text.partition("=")
    if equals and file and not Path(text).exists():
        return system_name(name), Path(file)
    return "stdin" if text == "-" else system_name(Path(text).name.split(".")[0] or text), Path(text)


def default_metric(items: Sequence[Item | BadItem]) -> str:
    """The score that the references were made for."""
    sources = {one.source for item in items if isinstance(item, Item) for one in item.pair.references}
    if sources & {Origin.RETRIEVED, Origin.PARROT}:
        return "upsilon-bleu"
    return "delta-bleu" if Origin.SUPPLIED in sources else "multi-bleu"


def metrics_of(
    specifications: Sequence[str],
    language: str | None,
    by_default: Mapping[str, str] | None = None,
    based: Callable[[Metric], Metric] | None = None,
) -> list[Metric]:
    """The metrics asked for, each once; `by_default` are parameters that options of the command stand for.

    `based` gives a weighted form that was asked for without b the one that it is to have; without it that is 0.
    """
    from metrics.signature import Signature  # noqa: PLC0415  compiles
    from metrics.specification import Specification, build  # noqa: PLC0415
    from metrics.upsilon import open_without_b  # noqa: PLC0415

    defaults = {**(by_default or {}), **({"tok": default_tokenizer(language)} if language else {})}
    asked = [Specification.parse(text) for text in specifications]
    metrics = [open_without_b(build(one, defaults), one) for one in asked]
    by_signature = {Signature.of(one).full: one for one in (map(based, metrics) if based is not None else metrics)}
    return list(by_signature.values())


def based_on_index(settings: Settings, index: str, progress: Progress) -> Callable[[Metric], Metric]:
    """What gives metrics the b of an index, named as signatures name it."""

    def based(metric: Metric) -> Metric:
        from service.baseline import based_on  # noqa: PLC0415
        from service.retrieval import places_of  # noqa: PLC0415

        return based_on(metric, places_of(settings).indexes, index.partition("#")[0], progress)

    return based


def lacking_b(metrics: Sequence[Metric], items: Sequence[Item | BadItem]) -> str | None:
    """Advice where the references are those of an index, and a weighted form that counts from 0 could count from b."""
    from metrics.upsilon import Upsilon  # noqa: PLC0415  compiles

    names = [one.name for one in metrics if isinstance(one, Upsilon) and one.b_is_open]
    if not names:
        return None
    references = (one for item in items if isinstance(item, Item) for one in item.pair.references)
    indexes = {one.more.get("index") for one in references if one.source is Origin.RETRIEVED}
    known = sorted(one for one in indexes if isinstance(one, str))
    if not known:
        return None
    return (
        f"{', '.join(names)} without b counts from 0, though the references are those of an index: "
        f"refaug metrics baseline {names[0]} --index {known[0]} measures b"
    )


def rater_wanted(specifications: Sequence[str], rater: str | None) -> bool:
    """Whether one of these metrics asks a rater; Usage where none is named, before anything is read."""
    names = [text.strip().partition(":")[0] for text in specifications]
    asking = [name for name in names if name in METRICS and METRICS[name].needs_rater]
    if asking and rater is None:
        raise Usage(f"{asking[0]} needs a rater, and none is named", remedy="--rater NAME: refaug rater list")
    return bool(asking)


def asking_rater(settings: Settings, metrics: Sequence[Metric], rater: str, threads: int | None) -> list[Metric]:
    """The same metrics, those that need a rater bound to this one: by a name, or as a signature names it."""
    from service.rating import open_rater, with_rater  # noqa: PLC0415  torch

    return with_rater(metrics, open_rater(settings, rater.partition("#")[0], threads=threads))


# ── what goes out ─────────────────────────────────────────────────────────────────────────────────────────────────


def report_problems(
    bad: Sequence[BadItem], warnings: Sequence[str], progress: Progress, *, rest: str = "; --json lists all"
) -> None:
    """The first bad items, how many more, and what one should know about the rest."""
    for one in bad[:_SHOWN_PROBLEMS]:
        progress.warn(str(one))
    if len(bad) > _SHOWN_PROBLEMS:
        progress.warn(f"and {counted(len(bad) - _SHOWN_PROBLEMS, 'more bad item')}{rest}")
    for warning in warnings:
        progress.warn(warning)


def require_all(bad: Sequence[BadItem], *, strict: bool) -> None:
    """With --strict, bad items are an error; the scores of the others have been printed."""
    if strict and bad:
        raise BadInput(
            f"{counted(len(bad), 'item')} could not be used: {bad[0]}",
            remedy="mend or remove it; without --strict the others are done all the same",
        )


def number(value: float | None, scale: float = 1.0) -> str:
    """A score for people: as many digits as mean something."""
    return "-" if value is None else f"{value:.2f}" if scale > 1 else f"{value:.4f}"


def span(bounds: Sequence[float] | None, scale: float = 1.0) -> str:
    """An interval for people."""
    return "-" if bounds is None else f"[{number(bounds[0], scale)}, {number(bounds[1], scale)}]"


def print_tables(found: Evaluation, level: LevelChoice) -> None:
    """A table for each metric, and how the intervals were drawn."""
    for one in found.scores:
        if level is LevelChoice.REPLY:
            rows = [
                (system, reply.id, number(reply.score, one.scale), reply.problem.code if reply.problem else "")
                for system, scores in one.systems.items()
                for reply in scores.replies
            ]
            print_table(one.signature.short, ("system", "item", "score", "problem"), rows)
        else:
            print_table(one.signature.short, *_systems_table(one, level))
        if one.comparisons:
            print_table(f"against {found.settings.baseline}", *_comparison_table(one))
    drawn = found.settings
    how = f"; intervals: {drawn.confidence:.4g} of {drawn.draws:,} draws, seed {drawn.seed}" if drawn.draws else ""
    print_line(f"data {found.data}: {counted(found.items, 'item')}{how}")


def _systems_table(one: MetricScores, level: LevelChoice) -> tuple[tuple[str, ...], list[Sequence[object]]]:
    """The level that was asked for first, with its interval, and the other one beside it."""
    percent = f"{one.scale:g}×" if one.scale > 1 else ""
    systems = [(name, scores, scores.as_intervals()) for name, scores in one.systems.items()]
    if level is LevelChoice.CORPUS:
        return (
            ("system", f"{percent}corpus", "interval", "mean", "scored", "unscored"),
            [
                (name, number(s.corpus, one.scale), span(of[0], one.scale), number(s.mean, one.scale), *_counts(s))
                for name, s, of in systems
            ],
        )
    return (
        ("system", f"{percent}mean", "interval", "corpus", "scored", "unscored"),
        [
            (name, number(s.mean, one.scale), span(of[1], one.scale), number(s.corpus, one.scale), *_counts(s))
            for name, s, of in systems
        ],
    )


def _counts(scores: SystemScore) -> tuple[int, object]:
    """How many replies have a score, and how many have none for which reasons."""
    scored, unscored = scores.counts()
    reasons = ", ".join(f"{count:,} {code}" for code, count in scores.unscored.items())
    return scored, reasons if unscored else 0


def _comparison_table(one: MetricScores) -> tuple[tuple[str, ...], list[Sequence[object]]]:
    rows: list[Sequence[object]] = [
        (
            name,
            number(found["difference"], one.scale),
            span(found["interval"], one.scale),
            number(found["p_bootstrap"]),
            number(found["p_randomisation"]),
            found["replies"],
        )
        for name, found in ((name, comparison.as_json()) for name, comparison in one.comparisons.items())
    ]
    return ("system", "difference", "interval", "p bootstrap", "p randomisation", "replies"), rows


def print_tsv(found: Evaluation, level: LevelChoice) -> None:
    """Rows for other programs, with the signature in each."""
    if level is LevelChoice.REPLY:
        print_cells("metric", "system", "item", "score", "problem", "signature")
    else:
        print_cells(
            "metric",
            "system",
            "corpus" if level is LevelChoice.CORPUS else "mean",
            "low",
            "high",
            "scored",
            "unscored",
            "signature",
        )
    for one in found.scores:
        for name, scores in one.systems.items():
            if level is LevelChoice.REPLY:
                for reply in scores.replies:
                    problem = reply.problem.code if reply.problem else ""
                    print_cells(one.metric.name, name, reply.id, reply.score, problem, one.signature.short)
                continue
            corpus = level is LevelChoice.CORPUS
            low, high = scores.as_intervals()[0 if corpus else 1] or (None, None)
            value = scores.corpus if corpus else scores.mean
            print_cells(one.metric.name, name, value, low, high, *scores.counts(), one.signature.short)
