"""Test pairs from the logs that a rater was trained on: utterances that were held out for validation.

A rater's folder holds no text, so that erasing a speaker leaves none of theirs in it. The utterances are found in the
logs again, with the settings of the training, and held-out ones are recognised by the same hash.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final

from refaug.core.errors import Corrupt, NotFound, Usage
from refaug.core.progress import Progress
from refaug.core.query_engine import QueryEngine, scratch_in
from refaug.core.records import Item, Reference
from refaug.core.text.normalisation import normalise
from refaug.logs.pairs import SharedSettings
from refaug.logs.store import StoredLog
from refaug.logs.text_keys import text_key
from refaug.rater.training.corpus import mine, shared_rows
from refaug.rater.training.examples import ExampleSettings, hash_share

HELD_OUT: Final = 50
_REMEDY: Final = "give test pairs of your own: --items FILE"


@dataclass(frozen=True, slots=True, kw_only=True)
class _HeldOut:
    """A held-out utterance, with the number that selects it: the least numbers are chosen."""

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
    """Return up to `count` held-out utterances, each with one of its responses as gold.

    `details` are those of the rater's manifest. The utterances are chosen by hash: the same ones for the same
    rater, whatever was added to its logs since.
    """
    shared, examples = _settings(details)
    of_training = [_open_trained_parts(logs, name, parts) for name, parts in _parts(details).items()]
    scratch = scratch_in(cache)
    with QueryEngine(scratch, memory=memory, threads=threads) as engine:
        mine(engine, of_training, shared, scratch, progress)  # the texts are deleted with the engine's folder
        chosen = heapq.nsmallest(
            count, _held_out_rows(scratch, examples), key=lambda candidate: (candidate.number, candidate.key)
        )
    return [_to_item(utterance) for utterance in chosen]


def _settings(details: Mapping[str, Any]) -> tuple[SharedSettings, ExampleSettings]:
    """Return the settings with which the training found and split utterances."""
    try:
        examples = details["examples"]
        split = {name: examples[name] for name in ("validation_share", "seed")}  # all that kinds of raters share
        return SharedSettings(**details["shared"]), ExampleSettings(**split)
    except (KeyError, TypeError, Usage) as error:
        raise Corrupt(
            f"the manifest does not say which utterances the rater was trained on: {error}", remedy=_REMEDY
        ) from error


def _parts(details: Mapping[str, Any]) -> Mapping[str, Sequence[str]]:
    logs: Mapping[str, Sequence[str]] = details.get("logs") or {}
    if not logs:
        raise Corrupt("the manifest does not say which logs the rater was trained on", remedy=_REMEDY)
    return logs


def _open_trained_parts(logs: Path, name: str, parts: Sequence[str]) -> StoredLog:
    """Open a log with just the parts it had at training."""
    try:
        log = StoredLog.open(logs, name)
    except NotFound as error:
        raise NotFound(f"the rater was trained on log {name!r}, which is not here", remedy=_REMEDY) from error
    parts_by_hash = {part.sha256: part for part in log.manifest.parts}
    if gone := [sha256 for sha256 in parts if sha256 not in parts_by_hash]:
        raise NotFound(
            f"log {name!r} has lost {len(gone):,} of the {len(parts):,} parts that the rater was trained on, or they "
            f"have changed: {gone[0][:12]} first",
            remedy=_REMEDY,
        )
    return StoredLog(log.folder, replace(log.manifest, parts=tuple(parts_by_hash[sha256] for sha256 in parts)))


def _held_out_rows(folder: Path, examples: ExampleSettings) -> Iterator[_HeldOut]:
    """Yield the utterances held out for validation; their responses are in random order already."""
    for row in shared_rows(folder):
        key = text_key(normalise(row["utterance"]))
        number = hash_share(key, examples.seed)
        if number < examples.validation_share:
            yield _HeldOut(number=number, key=key, utterance=row["utterance"], gold=row["responses"][0])


def _to_item(utterance: _HeldOut) -> Item:
    gold = Reference(text=utterance.gold)
    return Item(id=f"held-out-{utterance.key:016x}", turns=(utterance.utterance,), references=(gold,))
