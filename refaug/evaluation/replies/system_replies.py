"""Let bots reply to items: each bot is a system of the items, beside the systems that these came with."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final, TypeVar

from refaug.bots.latency import timed_replies
from refaug.bots.replier import BotReply, Replier, ReplyRequest
from refaug.bots.specification import SEED
from refaug.core.errors import BadInput, Usage
from refaug.core.progress import Progress, Silent
from refaug.core.records import Item
from refaug.evaluation.scoring.items import BadItem
from refaug.evaluation.scoring.provenance import Provenance

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
    for batch in _batches(items, batch_size):
        usable = [test_item for test_item in batch if isinstance(test_item, Item)]
        if not replace_systems:
            _require_free_names(usable, systems)
        answered = iter(answer_items(usable, systems, [system.replies(usable) for system in systems]))
        for test_item in batch:
            yield next(answered) if isinstance(test_item, Item) else test_item
        progress.advance(len(batch))


def _batches(items: Iterable[Item | BadItem], size: int) -> Iterator[list[Item | BadItem]]:
    batch = list[Item | BadItem]()
    for test_item in items:
        batch.append(test_item)
        if len(batch) == size:
            yield batch
            batch = []
    if batch:
        yield batch


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
