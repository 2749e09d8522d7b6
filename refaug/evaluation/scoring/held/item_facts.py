"""What one pass over the items of a test file tells of all of them: systems, sources, hashes, copies, provenance."""

from __future__ import annotations

from array import array
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Self

from refaug.core.memory.compact_texts import CompactTexts
from refaug.core.records import Item, Origin
from refaug.evaluation.scoring.cases import is_thin, other_golds
from refaug.evaluation.scoring.copies import CopiedReplies, copied_by
from refaug.evaluation.scoring.held.item_digests import DataDigest, RepliesDigest, UtterancesDigest
from refaug.evaluation.scoring.provenance import Provenance, ReplyLines


@dataclass(kw_only=True, eq=False)
class ItemFacts:
    """Counts and hashes of items that were added one by one, and their ids; no texts beside these."""

    ids: CompactTexts = field(default_factory=CompactTexts)
    replies: Counter[str] = field(default_factory=Counter)  # by system, in the order in which systems first occur
    empty_replies: Counter[str] = field(default_factory=Counter)
    sources: Counter[Origin] = field(default_factory=Counter)  # of all references
    indexes: set[str] = field(default_factory=set)  # that retrieved references name
    blank_references: int = 0
    other_golds: int = 0  # golds with another weight than 1
    thin: int = 0  # items with few references of positive weight beside the gold
    has_text: bool = False  # whether any reference has one
    _provenance: set[str] = field(default_factory=set)
    _reply_lines: ReplyLines = field(default_factory=ReplyLines)
    _copies: dict[str, array[int]] = field(default_factory=dict)
    _digests: Mapping[str, DataDigest | UtterancesDigest | RepliesDigest] = field(
        default_factory=lambda: {"data": DataDigest(), "utterances": UtterancesDigest(), "replies": RepliesDigest()}
    )

    @classmethod
    def of(cls, items: Iterable[Item]) -> Self:
        """Return what these items tell."""
        facts = cls()
        for test_item in items:
            facts.add(test_item)
        return facts

    def add(self, test_item: Item) -> None:
        """Add the next item."""
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
