"""`refaug bots …`: bots by name, which reply to test files, each as a further system, play and chat."""

from __future__ import annotations

from collections import defaultdict
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from refaug.cli.shared.database import open_database
from refaug.cli.shared.field_options import with_options
from refaug.cli.shared.index_options import ThreadsOption
from refaug.cli.shared.item_inputs import ItemInputs
from refaug.cli.shared.output import JsonFlag, print_facts, print_json, print_json_line, print_line, print_table
from refaug.cli.shared.progress import display_progress
from refaug.cli.shared.score_options import StrictFlag, report_problems, require_all
from refaug.core.errors import BadInput, Unavailable
from refaug.operations.replies import ReplyToItems
from refaug.scoring.items import BadItem, item_json
from refaug.scoring.settings import WithoutReply

if TYPE_CHECKING:
    from refaug.bots.replier import BotReply
    from refaug.bots.stored.specification import StoredBot


NameArgument = Annotated[str, typer.Argument(help="The name of the bot.", metavar="NAME")]
BotHostsOption = Annotated[
    str | None,
    typer.Option(
        "--bot-hosts",
        help="Hosts that it may call, with commas; without it those of REFAUG_BOT_HOSTS, and any if that is not set.",
        metavar="HOSTS",
    ),
]
_SHOWN = 12  # digits of a hash


def add_command(
    context: typer.Context,
    name: NameArgument,
    file: Annotated[Path, typer.Argument(help="Its specification, a .toml or .json file.", metavar="FILE")],
    *,
    replace: Annotated[
        bool, typer.Option("--replace", help="Change a bot of this name that has another specification.")
    ] = False,
    bot_hosts: BotHostsOption = None,
    as_json: JsonFlag = False,
) -> None:
    """Store a bot; an index or a network that it names gets its published version, so that it stays as it is.

    Keys are never in the file: key_env names the environment variable that holds one.
    """
    from refaug.bots.endpoint.specification import read_table  # noqa: PLC0415
    from refaug.bots.stored.endpoint_bot import require_hosts  # noqa: PLC0415  httpx
    from refaug.core.errors import Conflict, NotFound  # noqa: PLC0415
    from refaug.service.bots.bot_store import BotStore  # noqa: PLC0415  sqlalchemy
    from refaug.service.bots.stored_bots import command_access  # noqa: PLC0415

    fields = read_table(file)
    policy = command_access(context.obj, hosts=bot_hosts).client.policy

    def check(bot: StoredBot) -> None:
        require_hosts(bot.name, bot.addresses, policy)
        if before is not None and before.sha256 != bot.sha256 and not replace:
            raise Conflict(
                f"there is a bot {name} with another specification, {before.sha256[:_SHOWN]}",
                remedy="another name, or --replace: what it has replied keeps the old hash",
            )

    with open_database(context.obj) as database:
        store = BotStore(database, context.obj)
        try:
            before = store.get(name)
        except NotFound:
            before = None
        put = store.put(name, fields, check=check)
    if as_json:
        print_json({**put.bot.as_json(), "is_new": put.is_new, "before": put.old_sha256})
        return
    what = "added" if put.is_new else "as it was" if put.old_sha256 is None else f"changed from {put.old_sha256[:12]}"
    print_line(f"bot {put.bot.spec} ({put.bot.kind}): {what}")


def list_command(context: typer.Context, as_json: JsonFlag = False) -> None:
    """All bots, with kind, hash, and what each replies from."""
    from refaug.service.bots.bot_store import BotStore  # noqa: PLC0415  sqlalchemy

    with open_database(context.obj) as database:
        bots = BotStore(database, context.obj).list()
    if as_json:
        print_json({"bots": [bot.as_json() for bot in bots]})
        return
    rows = [(bot.name, bot.kind, bot.sha256[:_SHOWN], _source_of(bot)) for bot in bots]
    print_table("bots", ("name", "kind", "hash", "replies from"), rows)


def show_command(context: typer.Context, name: NameArgument, as_json: JsonFlag = False) -> None:
    """The specification of a bot, as it is hashed; keys are not in it."""
    bot = _find(context, name)
    if as_json:
        print_json(bot.as_json())
        return
    print_facts(f"bot {bot.name}", {"sha256": bot.sha256, **dict(bot.fields)})


def try_command(
    context: typer.Context,
    name: NameArgument,
    turns: Annotated[
        list[str] | None,
        typer.Argument(help="A dialogue, oldest turn first, that the bot replies to.", metavar="TURN..."),
    ] = None,
    *,
    seed: Annotated[int, typer.Option(help="Of the reply, where it is drawn.", min=0, max=2**32 - 1)] = 1,
    bot_hosts: BotHostsOption = None,
    threads: ThreadsOption = None,
    as_json: JsonFlag = False,
) -> None:
    """Let a bot reply once; nothing is stored, and an answer from before does not count.

    Exit code 4 if its endpoint gives no answer, 3 if what it answers is no reply.
    """
    from refaug.bots.replier import ReplyRequest  # noqa: PLC0415
    from refaug.core.records import Item  # noqa: PLC0415
    from refaug.service.bots.opening import open_bots  # noqa: PLC0415  compiles
    from refaug.service.bots.stored_bots import command_access  # noqa: PLC0415  sqlalchemy

    pair = Item(id="try", turns=tuple(turns or ("Hello! How are you?",)))
    access = command_access(context.obj, stores_answers=False, hosts=bot_hosts)
    with ExitStack() as stack:
        (bot,) = open_bots(context.obj, [f"bot:{name}"], stack=stack, threads=threads, access=access)
        (reply,) = bot.replier.replies([ReplyRequest(item=pair, seed=seed)])
        provenance = dict(bot.replier.provenance)
    _require_reply(name, reply)
    facts = {
        "turns": list(pair.turns),
        "reply": reply.text,
        "seed": seed,
        "provenance": provenance,
        "prompt_tokens": reply.prompt_tokens,
        "answer_tokens": reply.answer_tokens,
    }
    if as_json:
        print_json(facts)
        return
    for turn in pair.turns:
        print_line(f"- {turn}")
    print_line(f"> {reply.text}")
    if reply.answer_tokens is not None:
        print_line(f"{reply.prompt_tokens or 0:,} tokens in, {reply.answer_tokens:,} out")


def remove_command(context: typer.Context, name: NameArgument) -> None:
    """Remove a bot; what it has replied stays, with its hash."""
    from refaug.service.bots.bot_store import BotStore  # noqa: PLC0415  sqlalchemy

    with open_database(context.obj) as database:
        BotStore(database, context.obj).remove(name)
    print_line(f"bot {name} is removed")


def _find(context: typer.Context, name: str) -> StoredBot:
    from refaug.service.bots.bot_store import BotStore  # noqa: PLC0415  sqlalchemy

    with open_database(context.obj) as database:
        return BotStore(database, context.obj).get(name)


def _require_reply(name: str, reply: BotReply) -> None:
    """Raise Unavailable for an endpoint without an answer, and BadInput for an answer that is no reply."""
    from refaug.bots.endpoint.chat import FaultKind  # noqa: PLC0415

    if reply.text is not None:
        return
    why = f"{reply.problem}: {reply.detail}" if reply.detail else reply.problem
    if reply.problem in set(FaultKind):
        raise Unavailable(f"bot {name} gives no answer: {why}", remedy="docs/bots.md has the fields of its file")
    raise BadInput(f"bot {name} has no reply: {why}", remedy="docs/bots.md has the reasons")


def _source_of(bot: StoredBot) -> str:
    """Return what a bot replies from: artefacts and addresses, or a number of fixed replies."""
    named = [spec for _, spec in bot.sources] + list(bot.addresses)
    return ", ".join(named) or f"{len(bot.fields.get('replies', ())):,} replies"


# ── Replies to test files ─────────────────────────────────────────────────────────────────────────────────────────────


@with_options
def replies_command(context: typer.Context, *, order: ReplyToItems, strict: StrictFlag = False) -> None:
    """Let bots reply to the items of a test file, each as a further system, such as C-BM25 from an index."""
    from refaug.bots.replier import Latency  # noqa: PLC0415  numpy
    from refaug.scoring.replies import ReplyRemarks, add_replies  # noqa: PLC0415  compiles
    from refaug.service.bots.opening import bot_systems, open_bots  # noqa: PLC0415

    bad, remarks, milliseconds = list[BadItem](), ReplyRemarks(), defaultdict[str, list[float]](list)
    inputs = ItemInputs(items=Path(order.items), table=order, allow_truncated=order.allow_truncated)
    with display_progress(quiet=context.obj.quiet) as progress, ExitStack() as stack:
        opened = open_bots(context.obj, order.bots_named(), stack=stack, threads=order.threads)
        systems = bot_systems(order.bots, opened, progress)
        test_items = inputs.within_stage(progress)
        for answered in add_replies(test_items, systems, replace_systems=order.replace, progress=progress):
            if isinstance(answered, BadItem):
                bad.append(answered)
                continue
            if order.without_reply is WithoutReply.REFUSE:
                answered.require_replies()
            is_skipped = bool(answered.missing) and order.without_reply is WithoutReply.SKIP
            remarks.add(answered, is_skipped=is_skipped)
            for name, ms in answered.reply_ms.items():
                milliseconds[name].append(ms)
            if not is_skipped:
                times = {"reply_ms": answered.reply_ms} if order.timing and answered.reply_ms else {}
                print_json_line({**item_json(answered.item), **answered.item.search_notes, **times})
        report_problems(bad, tuple(remarks.warnings), progress, rest="")
        for system in systems:
            for remark in system.replier.remarks:
                progress.say(f"{system.name}: {remark}")
            if order.timing and (latency := Latency.of(milliseconds[system.name])) is not None:
                progress.say(f"{system.name}: {latency.line}")
    require_all(bad, strict=strict)
