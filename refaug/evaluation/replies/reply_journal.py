"""A journal of bots' replies to a test file: a line an item, on disk after each batch.

What was stopped goes on behind the last whole line, so that no bot is asked twice for an item that is in the journal.
When all items are in it, the journal becomes a test file and its figures.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path
from typing import Any, Final

import orjson

from refaug.bots.latency import Latency
from refaug.core.errors import Corrupt
from refaug.core.files import cut_half_line
from refaug.core.full_disk import storage_errors
from refaug.core.progress import Progress, Silent
from refaug.core.records import Item
from refaug.evaluation.replies.system_replies import AnsweredItem, BotSystem, ReplyRemarks, add_replies
from refaug.evaluation.scoring.items import BadItem, item_json

_BATCH_SIZE: Final = 50  # items between two writes


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
            rest, systems, replace_systems=replace_systems, batch_size=_BATCH_SIZE, progress=progress
        )
        with storage_errors(self._path), self._path.open("ab") as file:
            while batch := list(islice(answered, _BATCH_SIZE)):
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
