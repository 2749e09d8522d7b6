"""Let bots reply to items: each bot is a system of the items, beside the systems that these came with."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import islice
from pathlib import Path
from typing import Any, Final, TypeVar

import orjson

from refaug.bots.replier import BotReply, Latency, Replier, ReplyRequest, timed_replies
from refaug.bots.specification import SEED
from refaug.core.errors import BadInput, Corrupt, Usage
from refaug.core.files import cut_half_line, storage_errors
from refaug.core.progress import Progress, Silent
from refaug.core.records import Item
from refaug.scoring.items import BadItem, item_json
from refaug.scoring.provenance import Provenance
from refaug.scoring.spooled_items.item_collection import blocks_of

_Content = TypeVar("_Content")
CLASH: Final = "a system of this name has replied already"
_LISTED: Final = 5  # items that a warning names
_BATCH_SIZE: Final = 200  # items that are held in memory at a time


@dataclass(frozen=True, kw_only=True)
class BotSystem:
    """A bot, the name of the system that it becomes, and the seed of its replies."""

    name: str
    replier: Replier
    seed: int

    @property
    def provenance(self) -> Provenance:
        """What made the replies; the seed is a part of it where it can change one."""
        seed = {SEED: str(self.seed)} if self.replier.is_random else {}
        return Provenance(settings={**self.replier.provenance, **seed})

    def replies(self, items: Sequence[Item]) -> list[BotReply]:
        """Return the bot's reply to each item, with the time that it took."""
        return timed_replies(self.replier, [ReplyRequest(item=test_item, seed=self.seed) for test_item in items])


@dataclass(frozen=True, kw_only=True)
class AnsweredItem:
    """An item with the replies of bots, and what people should know of it."""

    item: Item
    missing: Mapping[str, str]  # by system: why it has no reply
    dropped_ratings: tuple[str, ...]  # systems whose old reply was rated, and is replaced
    replies: Mapping[str, BotReply]  # by system: as the bots gave them

    def require_replies(self) -> None:
        """Raise BadInput where a bot has no reply to the item."""
        for system, why in self.missing.items():
            raise BadInput(
                f"item {self.item.id}: {system} has no reply, {why}",
                remedy="report or skip such items (without_reply); docs/bots.md has the reasons",
            )

    @property
    def reply_ms(self) -> dict[str, float]:
        """The milliseconds of each reply, by system."""
        return {
            name: reply.ms for name, reply in self.replies.items() if reply.text is not None and reply.ms is not None
        }


def require_distinct_names(names: Sequence[str]) -> None:
    """Raise Usage where two bots are to become one system."""
    if twice := next((name for name in names if names.count(name) > 1), None):
        raise Usage(f"two bots are called {twice!r}", remedy="give each bot another name")


def add_replies(
    items: Iterable[Item | BadItem],
    systems: Sequence[BotSystem],
    *,
    replace_systems: bool = False,
    batch_size: int = _BATCH_SIZE,
    progress: Progress | None = None,
) -> Iterator[AnsweredItem | BadItem]:
    """Yield every item with the replies of all bots, in the order given.

    BadInput for an item that has a reply of such a system already, unless it is to be replaced: then people's ratings
    of the old reply are dropped with it.
    """
    require_distinct_names([system.name for system in systems])
    progress = progress or Silent()
    progress.stage("replies", None, "items")
    for _, batch in blocks_of(items, batch_size):
        usable = [test_item for test_item in batch if isinstance(test_item, Item)]
        if not replace_systems:
            _require_free_names(usable, systems)
        answered = iter(answer_items(usable, systems, [system.replies(usable) for system in systems]))
        for test_item in batch:
            yield next(answered) if isinstance(test_item, Item) else test_item
        progress.advance(len(batch))


def _require_free_names(items: Sequence[Item], systems: Sequence[BotSystem]) -> None:
    names = [system.name for system in systems]
    for test_item in items:
        if clash := clashing_name(test_item, names):
            raise BadInput(
                f"item {test_item.id}, replies.{clash}: {CLASH}",
                remedy="give the bot another name, or ask to replace that system",
            )


def clashing_name(test_item: Item, names: Iterable[str]) -> str | None:
    """Return the first name that a system of the item has already."""
    return next((name for name in names if name in test_item.replies), None)


def answer_items(
    items: Sequence[Item], systems: Sequence[BotSystem], replies: Sequence[Sequence[BotReply]]
) -> list[AnsweredItem]:
    """Return the items with the replies of each system, which are given system by system."""
    lines = {system.name: system.provenance.line for system in systems}
    return [
        _answer(test_item, dict(zip(lines, row, strict=True)), lines)
        for test_item, *row in zip(items, *replies, strict=True)
    ]


def _answer(test_item: Item, replies: Mapping[str, BotReply], lines: Mapping[str, str]) -> AnsweredItem:
    texts = {name: reply.text for name, reply in replies.items() if reply.text is not None}
    return AnsweredItem(
        item=replace(
            test_item,
            replies={**_without(test_item.replies, replies), **texts},
            ratings=_without(test_item.ratings, replies),
            reply_provenance={
                **_without(test_item.reply_provenance, replies),
                **{name: lines[name] for name in texts},
            },
        ),
        missing={name: reply.problem for name, reply in replies.items() if reply.text is None},
        dropped_ratings=tuple(name for name in test_item.ratings if name in replies),
        replies=replies,
    )


def _without(by_system: Mapping[str, _Content], names: Collection[str]) -> dict[str, _Content]:
    return {name: content for name, content in by_system.items() if name not in names}


class ReplyRemarks:
    """Counts what bots could not do, as items pass."""

    def __init__(self) -> None:
        self._missing = dict[str, list[str]]()  # by system: items with the reason
        self._reasons = dict[str, Counter[str]]()
        self._dropped, self._skipped = Counter[str](), 0

    def add(self, answered: AnsweredItem, *, is_skipped: bool = False) -> None:
        """Note what is missing in an item, and whether it is left out."""
        self.add_missing(answered.item.id, answered.missing, answered.dropped_ratings, is_skipped=is_skipped)

    def add_missing(
        self, item_id: str, missing: Mapping[str, str], dropped_ratings: Iterable[str], *, is_skipped: bool
    ) -> None:
        """Note the same of an item that is known by its id."""
        self._dropped.update(dropped_ratings)
        self._skipped += is_skipped
        for system, why in missing.items():
            self._reasons.setdefault(system, Counter())[why] += 1
            self._missing.setdefault(system, []).append(f"{item_id} ({why})")

    @property
    def skipped(self) -> int:
        """How many items were left out."""
        return self._skipped

    @property
    def warnings(self) -> Iterator[str]:
        """Warnings of missing replies, of items left out, and of dropped ratings."""
        for system, listed in self._missing.items():
            more = f" and {len(listed) - _LISTED:,} more" if len(listed) > _LISTED else ""
            yield f"{system} has no reply to {_items(len(listed))}: {', '.join(listed[:_LISTED])}{more}"
            if more:
                counts = ", ".join(f"{why} {count:,}" for why, count in self._reasons[system].most_common())
                yield f"{system} without a reply, by reason: {counts}"
        if self._skipped:
            yield f"{_items(self._skipped)} without a reply left out"
        for system, count in self._dropped.items():
            yield f"{system}: ratings of the replaced reply are dropped in {_items(count)}"


def _items(count: int) -> str:
    return f"{count:,} item" if count == 1 else f"{count:,} items"


# ── A journal of bots' replies to a test file: a line an item, on disk after each batch ───────────────────────────────
#
# What was stopped goes on behind the last whole line, so that no bot is asked twice for an item that is in the
# journal. When all items are in it, the journal becomes a test file and its figures.

_WRITTEN_AT_ONCE: Final = 50  # items between two writes


@dataclass
class SystemTotals:
    """What the replies of one bot took, over all items, in whichever run; stored answers cost no tokens again."""

    replies: int = 0
    stored: int = 0  # of the replies: answered before, and not asked for
    prompt_tokens: int = 0
    answer_tokens: int = 0
    problems: Counter[str] = field(default_factory=Counter)
    milliseconds: list[float] = field(default_factory=list)

    def add(self, fields: Mapping[str, Any]) -> None:
        """Add one reply as the journal has it."""
        self.stored += fields["stored"]
        if not fields["stored"]:
            self.prompt_tokens += fields["prompt_tokens"] or 0
            self.answer_tokens += fields["answer_tokens"] or 0
        if fields["problem"]:
            self.problems[fields["problem"]] += 1
            return
        self.replies += 1
        if fields["ms"] is not None:
            self.milliseconds.append(fields["ms"])

    def as_json(self) -> dict[str, object]:
        """Return the totals."""
        latency = Latency.of(self.milliseconds)
        return {
            "replies": self.replies,
            "stored": self.stored,
            "prompt_tokens": self.prompt_tokens,
            "answer_tokens": self.answer_tokens,
            "problems": dict(sorted(self.problems.items())),
            "latency": None if latency is None else latency.as_json(),
        }


@dataclass(frozen=True, kw_only=True)
class JournalLine:
    """An item with the replies of all bots, or why it cannot be used."""

    bad: str
    id: str
    item: Mapping[str, Any]
    missing: Mapping[str, str]
    dropped_ratings: Sequence[str]
    replies: Mapping[str, Mapping[str, Any]]

    @classmethod
    def of(cls, answered: AnsweredItem | BadItem) -> JournalLine:
        """Return the line of an item."""
        if isinstance(answered, BadItem):
            return cls(bad=str(answered), id="", item={}, missing={}, dropped_ratings=(), replies={})
        replies = {
            name: {
                "problem": reply.problem,
                "detail": reply.detail,
                "prompt_tokens": reply.prompt_tokens,
                "answer_tokens": reply.answer_tokens,
                "stored": reply.is_stored,
                "ms": reply.ms,
            }
            for name, reply in answered.replies.items()
        }
        return cls(
            bad="",
            id=answered.item.id,
            item={**item_json(answered.item), **answered.item.search_notes},
            missing=answered.missing,
            dropped_ratings=answered.dropped_ratings,
            replies=replies,
        )

    @property
    def reply_ms(self) -> dict[str, float]:
        """The milliseconds of each reply, by system."""
        return {
            name: reply["ms"]
            for name, reply in self.replies.items()
            if not reply["problem"] and reply["ms"] is not None
        }


class ReplyJournal:
    """The journal of one order."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def fill(
        self,
        items: Iterable[Item | BadItem],
        systems: Sequence[BotSystem],
        *,
        replace_systems: bool = False,
        check: Callable[[AnsweredItem], None] | None = None,
        progress: Progress | None = None,
    ) -> int:
        """Let the bots reply to the items that are not in the journal yet; return how many were there before.

        What `check` refuses is not in the journal, and is asked for again the next time.
        """
        done = cut_half_line(self._path)
        progress = progress or Silent()
        rest = islice(items, done, None)
        answered = add_replies(
            rest, systems, replace_systems=replace_systems, batch_size=_WRITTEN_AT_ONCE, progress=progress
        )
        with storage_errors(self._path), self._path.open("ab") as file:
            while batch := list(islice(answered, _WRITTEN_AT_ONCE)):
                for answered_item in batch:
                    if check is not None and isinstance(answered_item, AnsweredItem):
                        check(answered_item)
                lines = (orjson.dumps(JournalLine.of(answered_item)) + b"\n" for answered_item in batch)
                file.write(b"".join(lines))
                file.flush()
                os.fsync(file.fileno())
        return done

    def lines(self) -> Iterator[JournalLine]:
        """Yield the lines; Corrupt names a damaged one."""
        with self._path.open("rb") as file:
            for number, line in enumerate(file, 1):
                try:
                    yield JournalLine(**orjson.loads(line))
                except (orjson.JSONDecodeError, TypeError) as error:
                    raise Corrupt(
                        f"{self._path}, line {number:,}: {error}", remedy="ask for the replies anew"
                    ) from error

    def totals(self, systems: Sequence[str]) -> dict[str, SystemTotals]:
        """Return what the replies of each bot took."""
        totals = {name: SystemTotals() for name in systems}
        for line in self.lines():
            for name, reply in line.replies.items():
                totals[name].add(reply)
        return totals


def item_lines(
    lines: Iterable[JournalLine], *, skips: bool, with_times: bool, remarks: ReplyRemarks
) -> Iterator[bytes]:
    """Yield the lines of a test file, and note what is missing; `skips` leaves out items without a reply."""
    for line in lines:
        if line.bad:
            continue
        is_skipped = skips and bool(line.missing)
        remarks.add_missing(line.id, line.missing, line.dropped_ratings, is_skipped=is_skipped)
        if not is_skipped:
            times = {"reply_ms": line.reply_ms} if with_times and line.reply_ms else {}
            yield orjson.dumps({**line.item, **times}) + b"\n"
