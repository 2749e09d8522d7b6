"""Jobs in which bots reply to a test file; the file with their replies becomes an upload, ready to be scored."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from pathlib import PurePath
from typing import Any, Final

from refaug.bots.kinds import artefact_of, parse_bot
from refaug.bots.specification import BotSpecification
from refaug.core.artefacts.kinds import artefact_stores
from refaug.core.errors import BadInput, Interrupted, Usage
from refaug.core.home import Settings
from refaug.operations.replies import ReplyToItems
from refaug.scoring.item_files import ItemFiles
from refaug.scoring.replies import AnsweredItem, ReplyJournal, ReplyRemarks, SystemTotals, item_lines
from refaug.scoring.settings import WithoutReply
from refaug.service.bots.bot_use import BotUseStore, CountedBot
from refaug.service.bots.opening import OpenBot, bot_systems, open_bots
from refaug.service.bots.stored_bots import find_bots, server_access, spending_of
from refaug.service.evaluations.uploads import MAX_NAME_CHARS, PREFIX, UploadFormat, UploadStore
from refaug.service.jobs.kinds.job_context import JobContext
from refaug.service.jobs.kinds.sources import named_file
from refaug.service.server_settings import ServeSettings

_JOURNAL: Final = "replies.jsonl"
_SHOWN_BAD_ITEMS: Final = 5
_ANONYMOUS: Final = "anonymous"


def replies_job(order: ReplyToItems, context: JobContext) -> Mapping[str, Any]:
    """Store what `refaug bots reply` prints, and return where it is, and what the replies took."""
    source = named_file(order.items, context.home, context.serve)
    files = ItemFiles(items=source, table=order.table, allow_truncated=order.allow_truncated)
    journal = ReplyJournal(context.stages.folder / _JOURNAL)
    texts = _pinned_bots(order, context)
    with opened_bots(list(texts.values()), context, order.threads) as opened:
        systems = bot_systems(texts, opened, context.progress)
        resumed_at = journal.fill(
            files.read(context.progress.warn),
            systems,
            replace_systems=order.replace,
            check=AnsweredItem.require_replies if order.without_reply is WithoutReply.REFUSE else None,
            progress=context.progress,
        )
        provenance = {system.name: system.provenance.line for system in systems}
    context.progress.stage("store")
    counts = _store(order, source.name, journal, context)
    totals = journal.totals(list(texts))
    bots = {
        name: {
            "specification": text,
            "provenance": provenance[name],
            **totals[name].as_json(),
            "cost": _cost(totals[name], bot),
        }
        for (name, text), bot in zip(texts.items(), opened, strict=True)
    }
    return {"upload": f"{PREFIX}{context.job}", **counts, "resumed_at": resumed_at, "bots": bots}


@contextmanager
def opened_bots(texts: Sequence[str], context: JobContext, threads: int | None) -> Iterator[list[OpenBot]]:
    """Hold bots open that are asked as a server asks them; a cancelled job stops waiting for an endpoint."""

    def tick() -> None:
        try:
            context.progress.advance(0)
        except KeyboardInterrupt:  # an event loop does not survive one of a task
            raise Interrupted("the job was stopped while it waited for an endpoint") from None

    access = server_access(context.home, context.serve, on_tick=tick)
    uses = BotUseStore.of(context.home)
    with ExitStack() as stack:
        opened = open_bots(
            context.home,
            texts,
            stack=stack,
            threads=context.threads(threads),
            access=access,
            database=context.serve.database,
        )
        yield [_counted(bot, uses) for bot in opened]


def _counted(bot: OpenBot, uses: BotUseStore) -> OpenBot:
    """Return a bot whose requests are counted, if it is a stored one."""
    if (sha256 := bot.specification_sha256) is None:
        return bot
    spending = spending_of(bot.replier)
    counted = CountedBot(inner=bot.replier, name=bot.name, sha256=sha256, price=bot.price, spending=spending, uses=uses)
    return replace(bot, replier=counted)


def pin_bot(specification: BotSpecification, home: Settings, serve: ServeSettings) -> BotSpecification:
    """Return a bot with the version of its artefact, or the hash of what was stored, as they are now."""
    if specification.is_stored:
        stored = find_bots(home, [specification.source], serve.database)[specification.source]
        return replace(specification, source=stored.spec)
    if (artefact := artefact_of(specification)) is None:
        return specification
    return replace(specification, source="@".join(artefact_stores(home)[artefact].resolve(specification.source)))


def _pinned_bots(order: ReplyToItems, context: JobContext) -> dict[str, str]:
    """Return the bots by system, pinned when the job began: one that goes on asks the very same ones."""
    named = {name: parse_bot(text) for name, text in order.bots.items()}
    pinned = context.stages.run(
        "bots",
        lambda: {"pinned": {name: str(pin_bot(bot, context.home, context.serve)) for name, bot in named.items()}},
    )
    return dict(pinned["pinned"])


def _store(order: ReplyToItems, items_name: str, journal: ReplyJournal, context: JobContext) -> dict[str, Any]:
    """Make the journal an upload, warn of what is missing, and return the counts; BadInput where no item is usable."""
    bad, count = list[str](), 0
    for line in journal.lines():
        count += not line.bad
        if line.bad:
            bad.append(line.bad)
    for text in bad[:_SHOWN_BAD_ITEMS]:
        context.progress.warn(text)
    if not count:
        raise BadInput(
            f"no item in {items_name}{f': {bad[0]}' if bad else ''}", remedy="one item a line: docs/items.md"
        )
    remarks = ReplyRemarks()
    lines = item_lines(
        journal.lines(),
        skips=order.without_reply is WithoutReply.SKIP,
        with_times=order.timing,
        remarks=remarks,
    )
    stored = UploadStore(context.home, context.serve).add(
        context.job, _file_name(order, items_name), UploadFormat.JSONL, order.owner or _ANONYMOUS, lines
    )
    for warning in remarks.warnings:
        context.progress.warn(warning)
    return {"file": stored.name, "items": count, "bad": len(bad), "skipped": remarks.skipped}


def _file_name(order: ReplyToItems, items_name: str) -> str:
    name = order.name or f"{PurePath(items_name).name.split('.')[0][:150] or 'items'}-replies.jsonl"
    if not name.strip() or not name.isprintable() or len(name) > MAX_NAME_CHARS:
        raise Usage(
            f"{name[:60]!r} is not a name for a file", remedy=f"printable, from 1 to {MAX_NAME_CHARS} characters"
        )
    return name


def _cost(totals: SystemTotals, bot: OpenBot) -> dict[str, Any] | None:
    """Return what the replies cost that were asked for; None where the bot has no prices."""
    if bot.price is None:
        return None
    return {"money": bot.price.of(totals.prompt_tokens, totals.answer_tokens), "currency": bot.price.currency}
