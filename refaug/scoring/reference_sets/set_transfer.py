"""Transferring a frozen set between machines as one file: a tar inside zstd, as of versions of artefacts.

Its members are `refaug.json`, which labels it, of a withdrawn set its withdrawal, the history where scores were
recorded, and the file of the set. The same set gives the same file. The file read may come from anywhere: it becomes a
set only if every hash is right.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Final

import orjson

from refaug.core.artefacts.archives import COPY_AGAIN, ArchiveWriter
from refaug.core.artefacts.transfer import FORMAT_VERSION, LABEL, OpenedExport, json_object, require_room
from refaug.core.errors import BadInput, Corrupt, DamagedSource, UnknownFormat
from refaug.core.files import make_folder, require_checksum, with_checksum, write_aside
from refaug.core.progress import Progress
from refaug.scoring.reference_sets.reference_set import PIECE_BYTES, SET_ID, SET_SUFFIX
from refaug.scoring.reference_sets.set_history import SetHistory
from refaug.scoring.reference_sets.set_store import ReferenceSets, Withdrawal

KIND: Final = "set"  # as commands and labels name it
_WITHDRAWAL: Final = "withdrawal.json"
_LARGEST_WITHDRAWAL: Final = 1 << 20
_HISTORY: Final = "history.jsonl"
_LARGEST_HISTORY: Final = 1 << 30


@dataclass(frozen=True, kw_only=True)
class TransferredSet:
    """An exported or imported set."""

    id: str
    purpose: str
    items: int
    references: int
    bytes: int  # of the set's file
    withdrawn: bool
    kind: str = KIND


@dataclass(frozen=True, kw_only=True)
class ImportedSet(TransferredSet):
    """The outcome of an import."""

    was_there: bool  # the same set was here before
    newly_withdrawn: bool  # it was here, in use, and is withdrawn now


def export_set(sets: ReferenceSets, text: str, file: Path, progress: Progress) -> TransferredSet:
    """Write a set into a file, which appears when it is complete; every hash is checked before."""
    reference_set = sets.open(text, even_withdrawn=True)
    progress.stage(f"checking set {reference_set.id}")
    reference_set.verify()
    withdrawal, size = sets.withdrawal(reference_set.id), reference_set.path.stat().st_size
    progress.stage(f"exporting set {reference_set.id}", size, "B")
    label = {"kind": KIND, "id": reference_set.id, "format_version": FORMAT_VERSION}
    with write_aside(file) as out, ArchiveWriter(out) as archive:
        for name, content in (
            (LABEL, label),
            *(((_WITHDRAWAL, with_checksum(asdict(withdrawal))),) if withdrawal is not None else ()),
        ):
            raw = orjson.dumps(content, option=orjson.OPT_APPEND_NEWLINE)
            archive.add(name, len(raw), [raw])
        if lines := SetHistory(reference_set).lines():
            archive.add(_HISTORY, sum(len(line) + 1 for line in lines), (line + b"\n" for line in lines))
        archive.add(reference_set.path.name, size, _pieces(reference_set.path, progress))
    manifest = reference_set.manifest
    return TransferredSet(
        id=manifest.id,
        purpose=manifest.purpose.value,
        items=manifest.items,
        references=manifest.references,
        bytes=size,
        withdrawn=withdrawal is not None,
    )


def _pieces(path: Path, progress: Progress) -> Iterator[bytes]:
    with path.open("rb") as file:
        while piece := file.read(PIECE_BYTES):
            yield piece
            progress.advance(len(piece))


def import_set(export: OpenedExport, sets: ReferenceSets, progress: Progress) -> ImportedSet:
    """Take over an exported set under its id; a withdrawn one stays withdrawn.

    DamagedSource where the file is not whole or holds anything else, Withdrawn where the set was withdrawn here for
    another reason, Conflict where another file has its id.
    """
    archive, set_id = export.archive, _set_id_of(export)
    member, withdrawal = archive.next_member(), None
    if member is not None and member.name == _WITHDRAWAL:
        if member.size > _LARGEST_WITHDRAWAL:
            raise archive.damage_error(f"{_WITHDRAWAL} has {member.size:,} bytes")
        withdrawal = _read_withdrawal(b"".join(archive.content(member)), archive.name)
        member = archive.next_member()
    history = list[bytes]()
    if member is not None and member.name == _HISTORY:
        if member.size > _LARGEST_HISTORY:
            raise archive.damage_error(f"{_HISTORY} has {member.size:,} bytes")
        history = [line for line in b"".join(archive.content(member)).split(b"\n") if line]
        member = archive.next_member()
    if member is None:
        raise archive.damage_error(f"it lacks {set_id}{SET_SUFFIX}")
    if member.name != f"{set_id}{SET_SUFFIX}":
        raise archive.damage_error(f"it holds {member.name!r}, not {set_id}{SET_SUFFIX}")
    make_folder(sets.folder)
    require_room(sets.folder, member.size)
    progress.stage(f"importing set {set_id}", member.size, "B")

    def pieces() -> Iterator[bytes]:
        for piece in archive.content(member):
            yield piece
            progress.advance(len(piece))
        if (further := archive.next_member()) is not None:
            raise archive.damage_error(f"it holds {further.name!r}, which no set has")

    adopted = sets.adopt(set_id, pieces(), called=f"{archive.name}: {member.name}", withdrawal=withdrawal)
    try:
        SetHistory(adopted.set).merge(history)
    except BadInput as error:
        raise archive.damage_error(f"{_HISTORY}: {error.message}") from error
    manifest = adopted.set.manifest
    return ImportedSet(
        id=manifest.id,
        purpose=manifest.purpose.value,
        items=manifest.items,
        references=manifest.references,
        bytes=member.size,
        withdrawn=sets.withdrawal(set_id) is not None,
        was_there=adopted.was_there,
        newly_withdrawn=adopted.newly_withdrawn,
    )


def _set_id_of(export: OpenedExport) -> str:
    """Return the id on the label; only such a text ever becomes part of a path."""
    archive, label = export.archive, export.label
    if label.get("kind") != KIND:
        raise UnknownFormat(f"{archive.name} holds an artefact of the kind {label.get('kind')!r}, and no set")
    set_id = label.get("id")
    if label.get("format_version") != FORMAT_VERSION or not isinstance(set_id, str) or not SET_ID.fullmatch(set_id):
        raise DamagedSource(f"{archive.name}: {LABEL} names no set: {set_id!r}", remedy=COPY_AGAIN)
    return set_id


def _read_withdrawal(raw: bytes, called: str) -> Withdrawal:
    """Read why the set was withdrawn; DamagedSource where a field is not as refaug writes it."""
    fields = json_object(raw, f"{called}: {_WITHDRAWAL}")
    try:
        require_checksum(Path(called) / _WITHDRAWAL, fields)
    except Corrupt as error:
        raise DamagedSource(error.message, remedy=COPY_AGAIN) from None
    reason, instead, at = (fields.get(name) for name in ("reason", "instead", "at"))
    is_id = instead is None or (isinstance(instead, str) and SET_ID.fullmatch(instead) is not None)
    if not (isinstance(reason, str) and reason.strip() and isinstance(at, str) and is_id):
        raise DamagedSource(f"{called}: {_WITHDRAWAL} says nothing usable", remedy=COPY_AGAIN)
    return Withdrawal(reason=reason, instead=instead if isinstance(instead, str) else None, at=at)
