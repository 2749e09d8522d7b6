"""Items as the lines of a reference set: checked, written canonically, and compressed."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path
from typing import BinaryIO, Final, NamedTuple

import orjson
import zstandard

from refaug.core.files import write_aside
from refaug.core.records import Item, Origin, Reference
from refaug.evaluation.scoring.cases import NO_GOLD_IN_ITEM
from refaug.evaluation.scoring.items import BadItem, parse_item, reference_json
from refaug.evaluation.scoring.reference_sets.reference_set import PIECE_BYTES, SEAL
from refaug.logs.reading.sources import MAX_LINE_BYTES

NO_LINE: Final = 0  # the line of a bad item that came without one; callers that have the file can look it up
_LEVEL: Final = 9  # of compression: a set is written once and read often


def line_of(test_item: Item) -> bytes:
    """Return the canonical line of an item: keys in order, no replies, no ratings of replies.

    An item that `refaug refs` has printed makes the same line as one whose references are found here: golds that were
    never rated have no weight in it.
    """
    references = map(_without_shown_weight, test_item.references) if test_item.provenance else test_item.references
    fields = {
        "id": test_item.id,
        "turns": list(test_item.turns),
        "references": [reference_json(reference) for reference in references],
        "dialogue": test_item.dialogue,
        "time": test_item.time.isoformat() if test_item.time is not None else None,
        "exclude": list(test_item.exclude),
    }
    present = {name: content for name, content in fields.items() if content is not None and content != []}
    return orjson.dumps(present, option=orjson.OPT_SORT_KEYS)


def _without_shown_weight(reference: Reference) -> Reference:
    is_shown = reference.source is Origin.GOLD and reference.weight == 1 and reference.rating is None
    return replace(reference, weight=None) if is_shown else reference


def _freeze_item(test_item: Item, called: str) -> tuple[bytes, int] | BadItem:
    """Return the line of an item and the number of its references, or why the item cannot be frozen.

    The line is written from the item that was parsed back, so an item of a set is always written as the same line.
    """

    def bad(at: str, message: str) -> BadItem:
        return BadItem(file=called, line=NO_LINE, item=test_item.id, field=at, message=message)

    try:
        parsed = parse_item(orjson.loads(line_of(test_item)), where=called, line=NO_LINE, fallback_id=test_item.id)
        line = b"" if isinstance(parsed, BadItem) else line_of(parsed)
    except (orjson.JSONEncodeError, orjson.JSONDecodeError) as error:
        return bad("", f"it cannot be written as JSON: {error}")
    if isinstance(parsed, BadItem):
        return parsed
    if len(line) > MAX_LINE_BYTES:
        return bad("", f"it takes {len(line):,} bytes; at most {MAX_LINE_BYTES:,} are read")
    references = parsed.references
    if not any(reference.text.strip() for reference in references):
        return bad("references", NO_GOLD_IN_ITEM)
    for place, reference in enumerate(references):
        if reference.weight is None and reference.source is not Origin.GOLD and reference.text.strip():
            return bad(f"references[{place}]", f"a {reference.source.value} one without a weight")
    return line, len(references)


def describe_bad(bad: BadItem) -> str:
    """Describe a bad item, without its line where that is unknown."""
    at = f", {bad.field}" if bad.field else ""
    return str(bad) if bad.line != NO_LINE else f"{bad.file}, item {bad.item}{at}: {bad.message}"


class ItemsFile(NamedTuple):
    """Items that are on the disk, but not yet a set."""

    items: int
    references: int
    content: str
    bad: list[BadItem]


def write_set(path: Path, manifest_line: bytes, items: Path) -> None:
    """Write the file of a set: its manifest, its items, which are compressed already, and the seal."""
    digest = hashlib.sha256()
    with write_aside(path) as out, items.open("rb") as file:
        piece = _compressor().compress(manifest_line)
        while piece:
            out.write(piece)
            digest.update(piece)
            piece = file.read(PIECE_BYTES)
        out.write(SEAL + digest.digest())


def _compressor() -> zstandard.ZstdCompressor:
    return zstandard.ZstdCompressor(level=_LEVEL, write_checksum=True)


def write_items(items: Iterable[Item | BadItem], file: BinaryIO, called: str) -> ItemsFile:
    """Write all items that can be frozen, as one frame."""
    digest, count, references = hashlib.sha256(), 0, 0
    bad, seen = list[BadItem](), set[str]()
    with _compressor().stream_writer(file, closefd=False) as out:
        for test_item in items:
            frozen = test_item if isinstance(test_item, BadItem) else _freeze_item(test_item, called)
            if isinstance(test_item, Item) and test_item.id in seen:
                message = f"{test_item.id!r} was used before: every item has an id of its own"
                frozen = BadItem(file=called, line=NO_LINE, item=test_item.id, field="id", message=message)
            if isinstance(frozen, BadItem):
                bad.append(frozen)
                continue
            seen.add(test_item.id if isinstance(test_item, Item) else "")
            line, reference_count = frozen
            digest.update(line + b"\n")
            out.write(line + b"\n")
            count, references = count + 1, references + reference_count
    file.flush()
    return ItemsFile(count, references, digest.hexdigest(), bad)
