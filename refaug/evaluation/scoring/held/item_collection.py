"""The items of a test file, to be gone through any number of times: in memory where they are few, else in a file."""

from __future__ import annotations

from array import array
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import chain
from pathlib import Path
from typing import Final

from refaug.core.memory.compact_texts import CompactTexts
from refaug.core.records import Item, Origin
from refaug.evaluation.scoring.cases import is_thin, other_golds, split
from refaug.evaluation.scoring.copies import CopiedReplies, copied_by
from refaug.evaluation.scoring.held.item_digests import DataDigest, RepliesDigest, UtterancesDigest
from refaug.evaluation.scoring.held.item_spool import SpooledItems
from refaug.evaluation.scoring.items import BadItem
from refaug.evaluation.scoring.provenance import Provenance, ReplyLines

MOST_IN_MEMORY: Final = 5_000  # items; more of them go into a file


class ItemCollection:
    """Items that can be scored, those that cannot, and what all of the first tell: counts, hashes, copies, provenance.

    With a folder, more than so many items go into a file without a name in it.
    """

    def __init__(
        self, items: Iterable[Item | BadItem], folder: Path | None = None, *, most_in_memory: int = MOST_IN_MEMORY
    ) -> None:
        self.items: Sequence[Item] = []
        self._folder, self._most_in_memory = folder, most_in_memory
        self._bad = dict[int, list[BadItem]]()  # by the place of the item that they precede
        self.ids = CompactTexts()
        self.replies = Counter[str]()  # by system, in the order in which systems first occur
        self.empty_replies = Counter[str]()
        self.sources = Counter[Origin]()  # of all references
        self.indexes = set[str]()  # that retrieved references name
        self.blank_references = 0
        self.other_golds = 0  # golds with another weight than 1
        self.thin = 0  # items with few references of positive weight beside the gold
        self.has_text = False  # whether any reference has one
        self._provenance, self._reply_lines = set[str](), ReplyLines()
        self._copies: dict[str, array[int]] = {}
        self._digests: Mapping[str, DataDigest | UtterancesDigest | RepliesDigest] = {
            "data": DataDigest(),
            "utterances": UtterancesDigest(),
            "replies": RepliesDigest(),
        }

        for test_item in items:
            if isinstance(test_item, BadItem):
                self._bad.setdefault(len(self.ids), []).append(test_item)
            else:
                self._keep(test_item)
                self._note(test_item)
        if isinstance(self.items, SpooledItems):
            self.items.finish()

    @classmethod
    def of(cls, items: Iterable[Item | BadItem]) -> ItemCollection:
        """Return items that are in memory, or come one by one, as a collection in memory."""
        return items if isinstance(items, ItemCollection) else cls(items)

    def _keep(self, test_item: Item) -> None:
        if self._folder is not None and len(self.items) == self._most_in_memory and isinstance(self.items, list):
            waiting, self.items = self.items, SpooledItems(self._folder)
            for earlier in waiting:
                self.items.append(earlier)
        assert isinstance(self.items, list | SpooledItems), "items are added to either"
        self.items.append(test_item)

    def _note(self, test_item: Item) -> None:
        for system, reply in test_item.replies.items():
            self.replies[system] += 1
            if not reply or reply.isspace():
                self.empty_replies[system] += 1
        for system in copied_by(test_item):
            self._copies.setdefault(system, array("q")).append(len(self.ids))
        for reference in test_item.references:
            self.sources[reference.source] += 1
            is_blank = not reference.text.strip()
            self.blank_references += is_blank
            self.has_text = self.has_text or not is_blank
            if reference.source is Origin.RETRIEVED and isinstance(index := reference.more.get("index"), str):
                self.indexes.add(index)
        self.other_golds += other_golds(test_item)
        self.thin += is_thin(test_item)
        self._provenance.add(test_item.provenance)
        self._reply_lines.add(test_item.replies, test_item.reply_provenance)
        for digest in self._digests.values():
            digest.add(test_item)
        self.ids.append(test_item.id)

    @property
    def bad(self) -> tuple[BadItem, ...]:
        """The items that cannot be scored, in order."""
        return tuple(chain.from_iterable(self._bad.values()))

    @property
    def count(self) -> int:
        """The number of items, bad ones among them."""
        return len(self.items) + len(self.bad)

    def require_usable(self) -> None:
        """Raise BadInput where no item can be used."""
        if not self.items:
            split(self.bad)

    @property
    def hashes(self) -> dict[str, str]:
        """The hashes of everything that is scored beside retrieved references, by their names in score files."""
        return {name: digest.name for name, digest in self._digests.items()}

    @property
    def provenance(self) -> Provenance:
        """The provenance of the references."""
        return Provenance.of_lines(self._provenance)

    @property
    def reply_provenance(self) -> dict[str, str]:
        """The line of every system whose replies, or some of them, a bot of refaug made."""
        return self._reply_lines.joined()

    @property
    def copies(self) -> Mapping[str, CopiedReplies]:
        """The replies that copy the utterance, of every system that has any."""
        return {
            system: CopiedReplies(
                rows=tuple(self._copies[system]), items=tuple(self.ids[row] for row in self._copies[system])
            )
            for system in self.replies
            if system in self._copies
        }

    def __iter__(self) -> Iterator[Item | BadItem]:
        """Yield all items in the order in which they were read."""
        for place, test_item in enumerate(self.items):
            yield from self._bad.get(place, ())
            yield test_item
        yield from self._bad.get(len(self.items), ())
