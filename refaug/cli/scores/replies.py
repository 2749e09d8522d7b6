"""`refaug replies`: bots reply to the items of a test file, each as a further system."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from contextlib import ExitStack
from typing import TYPE_CHECKING, Annotated

import typer

from refaug.cli.shared.field_options import with_options
from refaug.cli.shared.index_options import ThreadsOption
from refaug.cli.shared.item_inputs import ItemInputs, RequiredItemsArgument
from refaug.cli.shared.output import print_json_line
from refaug.cli.shared.progress import display_progress
from refaug.cli.shared.score_options import StrictFlag, report_problems, require_all
from refaug.core.errors import BadInput, Usage
from refaug.core.home import Settings
from refaug.evaluation.replies.without_reply import WithoutReply
from refaug.evaluation.scoring.items import BadItem, item_json, system_name
from refaug.operations.item_sources import TableOptions

if TYPE_CHECKING:
    from refaug.evaluation.replies.system_replies import AnsweredItem, BotSystem

FromOption = Annotated[
    list[str] | None,
    typer.Option(
        "--from",
        help="What replies: KIND:SOURCE,key=value,…, such as retrieval:INDEX,mode=bm25-utterance,k=10,seed=1 or "
        "vhred:NAME,method=beam, or bot:NAME for a stored bot; repeat it with --as for several.",
        metavar="SPEC",
    ),
]
AsOption = Annotated[
    list[str] | None,
    typer.Option("--as", help="The name of the system that it becomes; one for each --from, in order.", metavar="NAME"),
]
ReplaceFlag = Annotated[
    bool,
    typer.Option("--replace", help="Replace a system of the same name, and drop people's ratings of its old replies."),
]
TimingFlag = Annotated[
    bool,
    typer.Option(
        "--timing",
        help="Note the milliseconds of each reply in the items, as reply_ms, and say at the end how long they took.",
    ),
]
WithoutReplyOption = Annotated[
    WithoutReply,
    typer.Option(
        help="An item that a bot has no reply to: report writes it without that reply and warns, refuse ends with "
        "exit code 3 at the first, skip leaves the item out and warns."
    ),
]


@with_options
def replies_command(
    context: typer.Context,
    items: RequiredItemsArgument,
    *,
    table: TableOptions,
    bots: FromOption = None,
    names: AsOption = None,
    replace: ReplaceFlag = False,
    without_reply: WithoutReplyOption = WithoutReply.REPORT,
    timing: TimingFlag = False,
    threads: ThreadsOption = None,
    strict: StrictFlag = False,
) -> None:
    """Let bots reply to the items of a test file, each as a further system, such as C-BM25 from an index."""
    from refaug.bots.latency import Latency  # noqa: PLC0415  numpy
    from refaug.evaluation.replies.system_replies import ReplyRemarks, add_replies  # noqa: PLC0415  compiles

    bad, remarks, milliseconds = list[BadItem](), ReplyRemarks(), defaultdict[str, list[float]](list)
    with display_progress(quiet=context.obj.quiet) as progress, ExitStack() as stack:
        systems = _open_systems(context.obj, bots or (), names or (), threads, stack)
        for system in systems:
            for warning in system.replier.warnings:
                progress.warn(f"{system.name}: {warning}")
        test_items = ItemInputs(items=items, table=table).within_stage(progress)
        for answered in add_replies(test_items, systems, replace_systems=replace, progress=progress):
            if isinstance(answered, BadItem):
                bad.append(answered)
                continue
            if without_reply is WithoutReply.REFUSE:
                _require_replies(answered)
            is_skipped = bool(answered.missing) and without_reply is WithoutReply.SKIP
            remarks.add(answered, is_skipped=is_skipped)
            for name, ms in answered.reply_ms.items():
                milliseconds[name].append(ms)
            if not is_skipped:
                times = {"reply_ms": answered.reply_ms} if timing and answered.reply_ms else {}
                print_json_line({**item_json(answered.item), **answered.item.search_notes, **times})
        report_problems(bad, tuple(remarks.warnings), progress, rest="")
        for system in systems:
            for remark in system.replier.remarks:
                progress.say(f"{system.name}: {remark}")
            if timing and (latency := Latency.of(milliseconds[system.name])) is not None:
                progress.say(f"{system.name}: {latency.line}")
    require_all(bad, strict=strict)


def _open_systems(
    home: Settings, bots: Sequence[str], names: Sequence[str], threads: int | None, stack: ExitStack
) -> list[BotSystem]:
    """Open every bot until the stack closes; all specifications are checked before."""
    from refaug.bots.kinds import parse_bot  # noqa: PLC0415  compiles
    from refaug.evaluation.replies.system_replies import BotSystem, require_distinct_names  # noqa: PLC0415
    from refaug.service.bots.opening import open_bots  # noqa: PLC0415

    if not bots:
        raise Usage("nothing is to reply", remedy="--from retrieval:INDEX,mode=bm25-utterance --as c-bm25")
    if len(bots) != len(names):
        raise Usage(
            f"{len(bots)} --from and {len(names)} --as", remedy="one --as with the system's name for each --from"
        )
    parsed = [parse_bot(text) for text in bots]
    require_distinct_names([system_name(name) for name in names])
    opened = open_bots(home, [str(specification) for specification in parsed], stack=stack, threads=threads)
    return [BotSystem(name=name, replier=bot.replier, seed=bot.seed) for name, bot in zip(names, opened, strict=True)]


def _require_replies(answered: AnsweredItem) -> None:
    """Raise BadInput where a bot has no reply to the item."""
    for system, why in answered.missing.items():
        raise BadInput(
            f"item {answered.item.id}: {system} has no reply, {why}",
            remedy="--without-reply report or skip; docs/bots.md has the reasons",
        )
