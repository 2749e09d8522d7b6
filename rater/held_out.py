"""Test pairs out of the logs that a rater was trained on: utterances that it has not learned from.

A rater's folder holds no text, so that erasing a speaker leaves none of theirs in it. The utterances are therefore
found in the logs again, by the settings that they were found with, and told apart by the same hash.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final

from core.engine import Engine, scratch_in
from core.errors import Corrupt, NotFound, Usage
from core.log_store import StoredLog
from core.pairs import SharedSettings, text_key
from core.progress import Progress
from core.records import Item, Reference, TestPair
from core.text import normalise
from rater.examples import ExampleSettings, drawn_share
from rater.mining import mine, shared_rows

HELD_OUT: Final = 50
_REMEDY: Final = "give test pairs of your own: --items FILE"


@dataclass(frozen=True, slots=True, kw_only=True)
class _Kept:
    """A held-out utterance, with the number that decides over it: the least are taken."""

    number: float
    key: int
    utterance: str
    gold: str


def held_out(
    logs: Path,
    cache: Path,
    details: Mapping[str, Any],
    progress: Progress,
    *,
    count: int = HELD_OUT,
    memory: int = 2 << 30,
    threads: int | None = None,
) -> list[Item]:
    """Up to so many utterances that were kept for validation, each with one of its responses as gold.

    `details` are those of the rater's manifest. The utterances are chosen by hash: the same ones for the same rater,
    whatever was added to its logs since.
    """
    shared, examples = _settings(details)
    of_training = [_as_trained_on(logs, name, parts) for name, parts in _parts(details).items()]
    scratch = scratch_in(cache)
    with Engine(scratch, memory=memory, threads=threads) as engine:
        mine(engine, of_training, shared, scratch, progress)  # texts, which go with the engine's folder
        chosen = heapq.nsmallest(count, _kept(scratch, examples), key=lambda one: (one.number, one.key))
    return [_item(one) for one in chosen]


def _settings(details: Mapping[str, Any]) -> tuple[SharedSettings, ExampleSettings]:
    """How utterances were found and dealt out."""
    try:
        return SharedSettings(**details["shared"]), ExampleSettings(**details["examples"])
    except (KeyError, TypeError, Usage) as error:
        raise Corrupt(
            f"the manifest does not say which utterances the rater was trained on: {error}", remedy=_REMEDY
        ) from error


def _parts(details: Mapping[str, Any]) -> Mapping[str, Sequence[str]]:
    logs: Mapping[str, Sequence[str]] = details.get("logs") or {}
    if not logs:
        raise Corrupt("the manifest does not say which logs the rater was trained on", remedy=_REMEDY)
    return logs


def _as_trained_on(logs: Path, name: str, parts: Sequence[str]) -> StoredLog:
    """The log with just the parts that there were; what was added since is not looked at."""
    try:
        log = StoredLog.open(logs, name)
    except NotFound as error:
        raise NotFound(f"the rater was trained on log {name!r}, which is not here", remedy=_REMEDY) from error
    there = {part.sha256: part for part in log.manifest.parts}
    if gone := [sha256 for sha256 in parts if sha256 not in there]:
        raise NotFound(
            f"log {name!r} has lost {len(gone):,} of the {len(parts):,} parts that the rater was trained on, or they "
            f"have changed: {gone[0][:12]} first",
            remedy=_REMEDY,
        )
    return StoredLog(log.folder, replace(log.manifest, parts=tuple(there[sha256] for sha256 in parts)))


def _kept(folder: Path, examples: ExampleSettings) -> Iterator[_Kept]:
    """The utterances that were kept for validation; their responses are in a drawn order already."""
    for row in shared_rows(folder):
        key = text_key(normalise(row["utterance"]))
        number = drawn_share(key, examples.seed)
        if number < examples.validation_share:
            yield _Kept(number=number, key=key, utterance=row["utterance"], gold=row["responses"][0])


def _item(one: _Kept) -> Item:
    gold = Reference(text=one.gold)
    return Item(pair=TestPair(id=f"held-out-{one.key:016x}", turns=(one.utterance,), references=(gold,)))
