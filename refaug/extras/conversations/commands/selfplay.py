"""`refaug bots play …`: bots talk to themselves or to a partner."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import ExitStack
from typing import TYPE_CHECKING, Annotated, Any

import typer

from refaug.cli.shared.database import record_act
from refaug.cli.shared.field_options import with_options
from refaug.cli.shared.output import JsonFlag, print_facts, print_json, print_table
from refaug.cli.shared.progress import display_progress
from refaug.core.errors import BadInput
from refaug.extras.conversations.operations.play_conversations import PlayConversations

if TYPE_CHECKING:
    from refaug.extras.conversations.selfplay.check import SelfPlayCheck


SpecArgument = Annotated[str, typer.Argument(help="Name of the self-play, or name@version.", metavar="NAME")]


@with_options
def play_command(context: typer.Context, *, order: PlayConversations, as_json: JsonFlag = False) -> None:
    """Let each bot have conversations; what was stopped goes on where it was, with the same bytes.

    A bot without a reply to any start is named, with exit code 3; the others have played, and --retry asks it again.
    """
    from refaug.extras.conversations.selfplay.ordered_play import (  # noqa: PLC0415
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
            _print_checks(spec, checks, order.check_log)
    if facts["silent"]:
        raise typer.Exit(BadInput.exit_code)


def _counts(facts: dict[str, Any]) -> dict[str, Any]:
    ended = sum(sum(reasons.values()) for reasons in facts["problems"].values())
    return {"conversations": facts["conversations"], "resumed_at": facts["resumed_at"], "ended_early": ended}


def check_command(
    context: typer.Context,
    spec: SpecArgument,
    log: Annotated[
        str | None, typer.Option(help="A log that the bots were trained on, or retrieve from.", metavar="NAME")
    ] = None,
    tokenizer: Annotated[str, typer.Option(help="What counts as a word (refaug log tokenizers).")] = "word",
    as_json: JsonFlag = False,
) -> None:
    """Say what conversations share with each other and with a log, and how varied and long their replies are."""
    from refaug.extras.conversations.selfplay.check import check_self_play  # noqa: PLC0415
    from refaug.extras.conversations.selfplay.stored import open_self_play  # noqa: PLC0415
    from refaug.extras.conversations.selfplay.stored_self_plays import changed_players  # noqa: PLC0415
    from refaug.logs.store import StoredLog  # noqa: PLC0415

    opened_log = StoredLog.open(context.obj.logs, log) if log is not None else None
    with display_progress(quiet=context.obj.quiet) as progress, open_self_play(context.obj, spec) as played:
        for change in changed_players(context.obj, played.manifest):
            progress.warn(change)
        checks = check_self_play(played, opened_log, scratch=context.obj.cache, tokenizer=tokenizer, progress=progress)
    if as_json:
        print_json({"self_play": played.spec, "log": log, "bots": [check.as_json() for check in checks]})
        return
    _print_checks(played.spec, checks, log)


def _print_checks(spec: str, checks: Sequence[SelfPlayCheck], log: str | None) -> None:
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
        "replies",
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
