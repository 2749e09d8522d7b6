"""Hashes of items that are added one after the other: what was scored, against what, and the replies."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from typing import Any

import orjson

from refaug.core.records import Item, Origin
from refaug.metrics.base import Problem, References


class _Digest:
    """A hash of many rows that are added one after the other."""

    def __init__(self) -> None:
        self._sha256 = hashlib.sha256()

    @property
    def name(self) -> str:
        """The first digits of the hash of all rows so far."""
        return self._sha256.hexdigest()[:12]

    def _add(self, row: list[Any]) -> None:
        self._sha256.update(orjson.dumps(row, option=orjson.OPT_APPEND_NEWLINE))


class ReferencesDigest(_Digest):
    """A hash of the references that a metric looked at, with their weights; `data_hash` covers the golds alone.

    The utterance is included where the metric looked at it.
    """

    def add(self, name: str, chosen: References | Problem) -> None:
        """Add the next item's id and what the metric looks at."""
        self._add([name, *_references_row(chosen)])


class DataDigest(_Digest):
    """`data_hash` for items that are not all in memory at once."""

    def add(self, test_item: Item) -> None:
        """Add the next item."""
        references = test_item.references
        golds = [reference.text for reference in references if reference.source is Origin.GOLD]
        self._add([test_item.id, golds or [reference.text for reference in references if reference.is_own]])


class UtterancesDigest(_Digest):
    """The hash of what references are found by, beside the golds: utterances, dialogues, times, exclusions."""

    def add(self, test_item: Item) -> None:
        """Add the next item."""
        time = test_item.time.isoformat() if test_item.time is not None else None
        self._add([test_item.id, test_item.turns, test_item.dialogue, time, test_item.exclude])


class RepliesDigest(_Digest):
    """The hash of the replies of all systems."""

    def add(self, test_item: Item) -> None:
        """Add the replies to the next item."""
        self._add([test_item.id, sorted(test_item.replies.items())])


def _references_row(references: References | Problem) -> list[Any]:
    if isinstance(references, Problem):
        return [references.code]
    utterance = [] if references.utterance is None else [references.utterance]
    beside = [] if references.beside is None else [_references_row(references.beside)]
    components = [[_references_row(component) for component in references.components]] if references.components else []
    return [references.texts, references.weights, references.gold, *utterance, *beside, *components]


def data_hash(items: Iterable[Item]) -> str:
    """Return a hash of ids and golds in order: it tells what was scored, as the signature tells how."""
    digest = DataDigest()
    for test_item in items:
        digest.add(test_item)
    return digest.name
