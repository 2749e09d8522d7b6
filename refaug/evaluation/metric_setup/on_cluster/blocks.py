"""Blocks of items with their references on disk: one file each, under the hash of the items.

    <cache>/references-<index>-<inputs>/<hash>.jsonl    first counts and a hash of the rest, then the items

A file appears when it is whole, so each block that is there is finished.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import orjson

from refaug.core.errors import Corrupt
from refaug.core.files import write_aside
from refaug.core.records import Item
from refaug.evaluation.scoring.items import BadItem, item_json, item_of
from refaug.rater.language_coverage import Coverage


@dataclass(frozen=True, kw_only=True)
class BlockFacts:
    """What is counted of a block."""

    items: int
    coverage: Coverage


def block_key(items: Sequence[Item | BadItem]) -> str:
    """Return a hash of items, as their block is called."""
    digest = hashlib.sha256()
    for test_item in items:
        digest.update(orjson.dumps(_line_of(test_item), option=orjson.OPT_APPEND_NEWLINE))
    return digest.hexdigest()[:32]


@dataclass(frozen=True, kw_only=True)
class BlockFolder:
    """The finished blocks of one command."""

    path: Path

    def facts(self, key: str) -> BlockFacts | None:
        """Return what is counted of a block; None where it is not finished."""
        try:
            with self._file(key).open("rb") as file:
                head = _object(file.readline(), self._file(key))
        except FileNotFoundError:
            return None
        return _facts_of(head, self._file(key))

    def write(self, key: str, augmented: Sequence[Item | BadItem], coverage: Coverage) -> BlockFacts:
        """Write a finished block, whole or not at all."""
        content = b"".join(orjson.dumps(_line_of(one), option=orjson.OPT_APPEND_NEWLINE) for one in augmented)
        head = {"items": len(augmented), "coverage": coverage.as_json(), "sha256": hashlib.sha256(content).hexdigest()}
        with write_aside(self._file(key)) as file:
            file.write(orjson.dumps(head, option=orjson.OPT_APPEND_NEWLINE))
            file.write(content)
        return BlockFacts(items=len(augmented), coverage=coverage)

    def read(self, key: str) -> Iterator[Item | BadItem]:
        """Yield the items of a finished block; Corrupt where its file was altered."""
        path = self._file(key)
        with path.open("rb") as file:
            head, content = _object(file.readline(), path), file.read()
        if hashlib.sha256(content).hexdigest() != head.get("sha256"):
            raise _damaged(path)
        for line in content.splitlines():
            yield _item_of(orjson.loads(line))

    def _file(self, key: str) -> Path:
        return self.path / f"{key}.jsonl"


def _object(line: bytes, path: Path) -> Mapping[str, Any]:
    try:
        content = orjson.loads(line)
    except orjson.JSONDecodeError as error:
        raise _damaged(path) from error
    if not isinstance(content, dict):
        raise _damaged(path)
    return content


def _facts_of(head: Mapping[str, Any], path: Path) -> BlockFacts:
    try:
        return BlockFacts(items=int(head["items"]), coverage=Coverage.read(head["coverage"]))
    except (KeyError, TypeError, ValueError) as error:
        raise _damaged(path) from error


def _damaged(path: Path) -> Corrupt:
    return Corrupt(f"{path} is damaged", remedy="remove the file: the same command finds its references again")


# Items as JSON, whole


def _line_of(test_item: Item | BadItem) -> dict[str, object]:
    if isinstance(test_item, BadItem):
        return {"bad": asdict(test_item)}
    return {"item": item_json(test_item), "scale": test_item.scale, "notes": dict(test_item.search_notes)}


def _item_of(line: Mapping[str, Any]) -> Item | BadItem:
    if "bad" in line:
        return BadItem(**line["bad"])
    values = {**line["item"], **({} if line["scale"] is None else {"scale": line["scale"]})}
    return replace(item_of(values, fallback_id=""), search_notes=line["notes"])
