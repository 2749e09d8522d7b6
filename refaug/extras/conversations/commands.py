"""The commands about whole conversations."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from refaug.cli.shared.database import record_act
from refaug.cli.shared.field_options import with_options
from refaug.cli.shared.index_options import ThreadsOption
from refaug.cli.shared.item_inputs import shown_name
from refaug.cli.shared.output import (
    JsonFlag,
    file_or_stdin,
    print_facts,
    print_json,
    print_line,
    print_sections,
    print_table,
)
from refaug.cli.shared.progress import display_progress
from refaug.core.errors import BadInput
from refaug.extras.conversations.operations import FitHybrid, HybridOptions, JudgeConversations, PlayConversations
from refaug.extras.conversations.options import ConversationSource
from refaug.extras.conversations.stored_hybrids import hybrid_sections

if TYPE_CHECKING:
    from refaug.core.home import Settings
    from refaug.core.progress import Progress
    from refaug.extras.conversations.judged import JudgedConversations
    from refaug.extras.conversations.reading import Conversation
    from refaug.extras.conversations.selfplay.check import SelfPlayCheck


@dataclass(frozen=True, kw_only=True)
class FittedFiles:
    """The files that a hybrid was fitted with, which are not stored; a group of options."""

    vectors: Annotated[
        str | None, typer.Option(help="The file of the word vectors, if it was fitted with one.", metavar="FILE")
    ] = None
    sentiment: Annotated[
        str | None, typer.Option(help="The same lexicon or DeepMoji, if it was fitted with one.", metavar="KIND:PATH")
    ] = None
    meaning: Annotated[
        str | None, typer.Option(help="The same model of meaning, if it was fitted with one.", metavar="KIND:PATH")
    ] = None


def read_conversations(home: Settings, source: ConversationSource, progress: Progress) -> list[Conversation]:
    """Return the conversations that a command names, without those of some bots.

    Lines that hold none are reported and left out.
    """
    from refaug.extras.conversations.talks import read_talks  # noqa: PLC0415  numpy
    from refaug.scoring.item_files import InputFile  # noqa: PLC0415

    with ExitStack() as stack:
        path, file = Path(source.conversations), None
        if source.self_play is None:
            file = InputFile(path=stack.enter_context(file_or_stdin(path)), name=shown_name(path))
        return read_talks(home, source, file, progress)


SelfPlayArgument = Annotated[str, typer.Argument(help="Name of the self-play, or name@version.", metavar="NAME")]


@with_options
def play_command(context: typer.Context, *, order: PlayConversations, as_json: JsonFlag = False) -> None:
    """Let each bot have conversations; what was stopped goes on where it was, with the same bytes.

    A bot without a reply to any start is named, with exit code 3; the others have played, and --retry asks it again.
    """
    from refaug.extras.conversations.selfplay.recording import (  # noqa: PLC0415
        checks_of,
        compared_log,
        play_conversations,
    )
    from refaug.service.bots.opening import open_bots  # noqa: PLC0415

    log = compared_log(context.obj, order)
    with display_progress(quiet=context.obj.quiet) as progress:
        with ExitStack() as stack:
            opened = open_bots(context.obj, order.bots_named(), stack=stack, threads=order.threads)
            facts = play_conversations(context.obj, order, opened, progress)
        spec = f"{order.name}@{facts['version']}"
        record_act(context.obj, "publish", f"self-play {spec}")
        checks = checks_of(context.obj, spec, log, progress)
    if as_json:
        print_json({**facts, **({"checks": [check.as_json() for check in checks]} if checks else {})})
    else:
        print_facts(f"self-play {spec}", {"bots": ", ".join(facts["bots"]), **_counts(facts)})
        if checks:
            _print_checks(spec, checks, order.check_log, order.partner)
    if facts["silent"]:
        raise typer.Exit(BadInput.exit_code)


def _counts(facts: dict[str, Any]) -> dict[str, Any]:
    ended = sum(sum(reasons.values()) for reasons in facts["problems"].values())
    return {"conversations": facts["conversations"], "resumed_at": facts["resumed_at"], "ended_early": ended}


def check_command(
    context: typer.Context,
    spec: SelfPlayArgument,
    log: Annotated[
        str | None, typer.Option(help="A log that the bots were trained on, or retrieve from.", metavar="NAME")
    ] = None,
    tokenizer: Annotated[str, typer.Option(help="What counts as a word (refaug log tokenizers).")] = "word",
    as_json: JsonFlag = False,
) -> None:
    """Say what conversations share with each other and with a log, and how varied and long their replies are."""
    from refaug.extras.conversations.selfplay.check import check_self_play  # noqa: PLC0415
    from refaug.extras.conversations.selfplay.stored import changed_players, open_self_play  # noqa: PLC0415
    from refaug.logs.store import StoredLog  # noqa: PLC0415

    opened_log = StoredLog.open(context.obj.logs, log) if log is not None else None
    with display_progress(quiet=context.obj.quiet) as progress, open_self_play(context.obj, spec) as played:
        for change in changed_players(context.obj, played.manifest):
            progress.warn(change)
        checks = check_self_play(played, opened_log, scratch=context.obj.cache, tokenizer=tokenizer, progress=progress)
    if as_json:
        print_json({"self_play": played.spec, "log": log, "bots": [check.as_json() for check in checks]})
        return
    partner = played.manifest["partner"]
    _print_checks(played.spec, checks, log, partner and partner["name"])


def _print_checks(spec: str, checks: Sequence[SelfPlayCheck], log: str | None, partner: str | None) -> None:
    among = [f"w={overlap.window}" for overlap in checks[0].among]
    print_table(
        f"self-play {spec}: per cent of pairs of conversations that share w replies",
        ("bot", "conversations", *among),
        [(check.bot, check.conversations, *(f"{overlap.percent:.2f}" for overlap in check.among)) for check in checks],
    )
    if log is not None:
        print_table(
            f"per cent of conversations with w replies that log {log} has word for word",
            ("bot", "conversations", *(f"w={overlap.window}" for overlap in checks[0].with_log)),
            [
                (check.bot, check.conversations, *(f"{overlap.percent:.2f}" for overlap in check.with_log))
                for check in checks
            ],
        )
    columns = ("bot", "ended early", "distinct-1", "distinct-2", "repeated", "looping", "words first", "last", "ms")
    print_table(
        "replies" if partner is None else f"replies, without those of the partner {partner}",
        columns,
        [
            (
                check.bot,
                check.ended_early,
                *(f"{share:.3f}" for share in (check.distinct_1, check.distinct_2, check.repeated, check.looping)),
                *_first_and_last(check.words_by_turn),
                "-" if check.latency is None else f"{check.latency['median_ms']:,.1f}",
            )
            for check in checks
        ],
    )


def _first_and_last(words_by_turn: Sequence[float]) -> tuple[str, str]:
    """Return the words of the first and of the last reply; a bot without any reply has none."""
    return (f"{words_by_turn[0]:.1f}", f"{words_by_turn[-1]:.1f}") if words_by_turn else ("-", "-")


@with_options
def judge_command(context: typer.Context, *, order: JudgeConversations, as_json: JsonFlag = False) -> None:
    """Score every reply of a bot in its context, without a gold: the mean, the worst reply, and the course.

    Where conversations have ratings, the figures are compared with them, over bots and within bots.
    """
    from refaug.extras.conversations.judged import (  # noqa: PLC0415  scipy
        JudgedConversations,
        judge_turns,
        require_target,
    )

    judges = order.judges_of(context.obj, order.threads)
    assert judges is not None, "an order has a metric"
    with display_progress(quiet=context.obj.quiet) as progress:
        talks = read_conversations(context.obj, order, progress)
        require_target(talks, order.target)
        judged = JudgedConversations(
            conversations=talks, judged=judge_turns(context.obj, talks, judges, progress), target=order.target
        )
    if as_json:
        print_json(judged.as_json())
        return
    _print_judged(judged)


def _print_judged(judged: JudgedConversations) -> None:
    for scores in judged.judged:
        print_line(scores.signature.short)
    columns = ("mean", "worst", "slope", "first", "second")
    rows = judged.bots()
    for scores in judged.judged:
        print_table(
            f"{scores.name}: means over conversations",
            ("bot", "conversations", *columns),
            [
                (row["bot"], row["conversations"], *(_digits(row["figures"][scores.name][name], 4) for name in columns))
                for row in rows
            ],
        )
    agreement = judged.agreement()
    if agreement is None:
        return
    print_table(
        f"agreement with {agreement['target']} over {agreement['conversations']:,} rated conversations",
        ("figure", "bots", "Pearson", "Spearman", "within bots"),
        [
            (
                f"{name}, {figure}",
                values["bots"],
                *(_digits(values[kind]) for kind in ("pearson", "spearman", "within_bots")),
            )
            for name, figures in agreement["figures"].items()
            for figure, values in figures.items()
        ],
    )
    reasons = {values["reason"] for figures in agreement["figures"].values() for values in figures.values()} - {""}
    for reason in sorted(reasons):
        print_line(reason)


def _digits(figure: float | None, digits: int = 3) -> str:
    return "–" if figure is None else f"{figure:.{digits}f}"


@with_options
def evaluate_command(
    context: typer.Context,
    *,
    order: HybridOptions,
    as_json: JsonFlag = False,
) -> None:
    """Say how far the hybrid metric agrees with people on bots that its fit has not seen.

    One bot after the other is left out. Beside the figures stand the intercept alone, shuffled ratings, permuted bots,
    each column alone, and plain counts. With -m, the mean scores of the bots' replies are columns of the wider set.
    """
    from refaug.extras.conversations.hybrid_report import hybrid_report  # noqa: PLC0415  scipy
    from refaug.extras.conversations.hybrids import measure  # noqa: PLC0415

    judges = order.judges_of(context.obj, order.threads)
    with display_progress(quiet=context.obj.quiet) as progress:
        talks = read_conversations(context.obj, order, progress)
        measured = measure(context.obj, talks, order, order, judges, progress)
        report = hybrid_report(measured.table, order, measured.details)
    report["turn_signatures"] = dict(measured.turn_signatures)
    if as_json:
        print_json(report)
        return
    print_sections(hybrid_sections(report))


# ── `refaug train hybrid|score`: a hybrid metric that stays, and what it says of other conversations ──────────────────

HybridArgument = Annotated[str, typer.Argument(help="Name of the hybrid, or name@version.", metavar="NAME")]


@with_options
def fit_command(context: typer.Context, *, order: FitHybrid, as_json: JsonFlag = False) -> None:
    """Fit the hybrid metric to rated conversations, and keep it with its figures on bots that were left out."""
    from refaug.extras.conversations.hybrids import HybridOrder, fit_hybrid  # noqa: PLC0415  scipy

    judges = order.judges_of(context.obj, order.threads)
    hybrid_order = HybridOrder(encoders=order, settings=order, judges=judges, columns=order.columns)
    with display_progress(quiet=context.obj.quiet) as progress:
        talks = read_conversations(context.obj, order, progress)
        fitted = fit_hybrid(context.obj, order.name, talks, hybrid_order, progress)
    record_act(context.obj, "publish", f"hybrid {order.name}@{fitted.version}")
    if as_json:
        print_json({"hybrid": order.name, "version": fitted.version, "report": dict(fitted.report)})
        return
    print_sections([f"hybrid {order.name}@{fitted.version}", *hybrid_sections(dict(fitted.report))])


@with_options
def score_command(
    context: typer.Context,
    hybrid: HybridArgument,
    *,
    source: ConversationSource,
    files: FittedFiles,
    threads: ThreadsOption = None,
    as_json: JsonFlag = False,
) -> None:
    """Score conversations with people, or self-play, by a hybrid that was fitted to others.

    A bot that the hybrid was fitted to is scored by the fit without it. Conversations that it was fitted to under
    another bot's name are left out.
    """
    from refaug.extras.conversations.hybrids import (  # noqa: PLC0415
        encoders_of,
        open_hybrid,
        score_conversations,
    )

    stored = open_hybrid(context.obj, hybrid)
    encoders = encoders_of(stored, files.vectors, files.sentiment, files.meaning)
    with display_progress(quiet=context.obj.quiet) as progress:
        talks = read_conversations(context.obj, source, progress)
        scores = score_conversations(context.obj, stored, talks, encoders, progress, threads=threads)
    if as_json:
        print_json(scores.as_json())
        return
    print_line(scores.signature.short)
    facts: dict[str, Any] = {"conversations": len(scores.scores), "trained_on": len(scores.trained_on)}
    if scores.missing:
        facts["without"] = ", ".join(f"{name} {count:,}" for name, count in scores.missing.items())
    print_facts(f"hybrid {scores.hybrid}", facts)
    _print_bots(scores.bots())
    agreement = scores.agreement()
    if agreement["pearson"] is not None:
        print_line(f"agreement with people over {agreement['bots']} bots: Pearson {agreement['pearson']:.3f}")
    elif agreement["bots"]:
        print_line(agreement["reason"])


def _print_bots(rows: Sequence[Mapping[str, Any]]) -> None:
    print_table(
        "bots",
        ("bot", "conversations", "mean", "standard error", "fit", "people"),
        [
            (
                row["bot"],
                row["conversations"],
                f"{row['mean']:+.3f}",
                "–" if row["standard_error"] is None else f"{row['standard_error']:.3f}",
                row["fit"],
                "–" if row["rated"] is None else f"{row['rated']:.3f}",
            )
            for row in rows
        ],
    )
