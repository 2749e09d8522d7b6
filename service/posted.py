"""Dialogues that were posted and wait for their log: durable before they are answered for, ingested once.

    inbox/.posted/<log>/
        <time>-<hash>-<dialogues>-<bytes>.jsonl    what one request brought
        batch.json                                 which of these become the next batch
        batch-<hash>.jsonl                         the batch: one source for the log, however many requests it is of
        taken.json                                 requests that the log has, so that they are known again

Every file is whole or absent. A batch is named first, then written, then its requests are removed; when the log has it,
its requests are remembered, then it is removed, then its name. A kill between any two of these loses nothing, and what
is done a second time for it is the same to the last byte.
"""

from __future__ import annotations

import hashlib
import re
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, Final

import orjson

from core.errors import BadInput, Corrupt, Overloaded, TooLarge
from core.files import (
    exclusive,
    hold,
    make_folder,
    read_json,
    remove_asides,
    require_name,
    sync_folder,
    write_aside,
    write_json,
)
from core.log_store import MANIFEST, LogManifest
from core.logs.shapes import KNOWN_NAMES, Fields, as_id, as_tags, as_time, dialogue_columns
from core.logs.sources import MAX_LINE_BYTES
from service.serve_settings import MIB, ServeSettings
from service.settings import Settings

FOLDER: Final = ".posted"  # hidden, so that nobody's source is this folder or has it inside
FIELDS: Final[Mapping[str, str]] = {"turns": "turns", "id": "id", "tags": "tags"}  # of every line, for the ingest
_PLAN: Final = "batch.json"
_TAKEN: Final = "taken.json"
_ADDING: Final = ".adding"
_REMEMBERED: Final = 100_000  # requests that the log has: about two megabytes of names
_MOST_REQUESTS: Final = 50_000  # that wait: each addition lists them all
_RETRY_AFTER_S: Final = 60.0
_LONGEST_ID: Final = 200
_PIECE: Final = 1 << 20
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_SHOWN: Final = 5
_PART: Final = re.compile(r"\d{20}-([0-9a-f]{32})-(\d{1,12})-(\d{1,15})\.jsonl")
_BATCH: Final = re.compile(r"batch-[0-9a-f]{32}\.jsonl")


@dataclass(frozen=True, kw_only=True)
class BadDialogue:
    """A dialogue that cannot be taken."""

    place: int  # among those that were posted, from 0
    id: str | None
    field: str
    message: str

    def __str__(self) -> str:
        at = f".{self.field}" if self.field else ""
        return f"dialogues[{self.place}]{at}: {self.message}"


class BadDialogues(BadInput):
    """Some of the dialogues that were posted cannot be taken."""

    def __init__(self, bad: Sequence[BadDialogue], of: int, *, remedy: str) -> None:
        more = f"; and {len(bad) - _SHOWN:,} more" if len(bad) > _SHOWN else ""
        listed = "; ".join(map(str, bad[:_SHOWN]))
        super().__init__(f"{len(bad):,} of {of:,} dialogues cannot be taken: {listed}{more}", remedy=remedy)
        self.bad = tuple(bad)


@dataclass(frozen=True, kw_only=True)
class Batch:
    """What waited, as one source; it stays until `ingested` says that the log has it."""

    path: Path
    dialogues: int
    requests: int
    ingested: Callable[[], None] = field(repr=False)

    @property
    def is_empty(self) -> bool:
        """Whether all that it held was erased since."""
        return self.path.stat().st_size == 0


class Posted:
    """The folder of what was posted, log by log."""

    def __init__(self, home: Settings, serve: ServeSettings) -> None:
        self._inbox, self._logs, self._serve = home.home / "inbox", home.logs, serve

    def folder(self, log: str) -> Path:
        """Where the dialogues of a log wait."""
        return self._inbox / FOLDER / require_name("log", log)

    # ── posting ──────────────────────────────────────────────────────────────────────────────────────────────────

    def add(self, log: str, dialogues: Sequence[Mapping[str, Any]], *, on_error: str = "fail") -> dict[str, Any]:
        """Keep dialogues for the next ingest; they are on the disk when this returns.

        The same dialogues posted again, before or after they were ingested, are known by their content, and are no
        second time kept: `duplicate` says so. A dialogue without an id gets one that comes of the content as well.
        With on_error="report" bad ones are left out and listed, else they refuse all.
        """
        folder = self.folder(log)
        taken, bad = self._checked(dialogues)
        if bad and (on_error != "report" or not taken):
            raise BadDialogues(bad, len(dialogues), remedy='mend them, or send "on_error": "report" to leave them out')
        if not taken:
            raise BadInput("there are no dialogues", remedy="send at least one")
        digest = _digest(taken)
        lines = b"".join(_line(one, digest, place) for place, one in enumerate(taken))
        for made in (self._inbox.parent, self._inbox, self._inbox / FOLDER, folder):
            make_folder(made)
        with hold(folder / _ADDING):  # so that two equal requests at once do not become two files
            is_known = self._knows(log, digest)
            if not is_known:
                self._require_room(log, len(lines))
                with write_aside(folder / f"{time.time_ns():020}-{digest}-{len(taken)}-{len(lines)}.jsonl") as file:
                    file.write(lines)
        return {
            "log": log,
            "accepted": len(taken),
            "duplicate": is_known,
            "ids": [_id_of(one, digest, place) for place, one in enumerate(taken)],
            "waiting": self.waiting(log),
            "problems": [{"place": one.place, "id": one.id, "field": one.field, "message": one.message} for one in bad],
        }

    def _checked(self, dialogues: Sequence[Mapping[str, Any]]) -> tuple[list[dict[str, Any]], list[BadDialogue]]:
        """Those that the readers of logs can use, in the form that is stored; and those that they cannot."""
        good, bad, seen = list[dict[str, Any]](), list[BadDialogue](), dict[str, int]()
        for place, values in enumerate(dialogues):
            found = _dialogue(place, values, self._serve.text_chars)
            if isinstance(found, dict) and found["id"] in seen:
                message = f"{found['id']!r} is the id of dialogues[{seen[found['id']]}] as well"
                found = BadDialogue(place=place, id=found["id"], field="id", message=message)
            if isinstance(found, BadDialogue):
                bad.append(found)
                continue
            if found["id"] is not None:
                seen[found["id"]] = place
            good.append(found)
        return good, bad

    def _knows(self, log: str, digest: str) -> bool:
        """Whether these dialogues wait, or are in a batch, or in the log; asked in the order in which they move."""
        if any(part.digest == digest for part in self._parts(log)) or digest in self._planned(log).digests:
            return True
        taken = _read_if_there(self.folder(log) / _TAKEN)
        return digest in _texts(taken.get("requests")) and taken.get("log_created") == self._created(log)

    def _created(self, log: str) -> str | None:
        """When the log was made: one that was deleted and made again has nothing of what was posted before."""
        folder = self._logs / log
        return LogManifest.read(folder).created if (folder / MANIFEST).exists() else None

    def _require_room(self, log: str, size: int) -> None:
        limit, waiting = self._serve.posted_mib * MIB, self.waiting(log)
        if size > limit:
            raise TooLarge(
                f"{size / MIB:.1f} MiB of dialogues at once, where {limit / MIB:g} MiB may wait",
                remedy="send them in several requests, or a larger REFAUG_POSTED_MIB",
            )
        if waiting["bytes"] + size > limit or waiting["requests"] >= _MOST_REQUESTS:
            raise Overloaded(
                f"{waiting['bytes'] / MIB:.1f} MiB of dialogues in {waiting['requests']:,} requests wait to be "
                f"ingested into log {log}; there is room for {limit / MIB:g} MiB in {_MOST_REQUESTS:,}",
                remedy=f'start a job of kind "ingest" with "posted": true for log {log}, then send them again',
                retry_after_s=_RETRY_AFTER_S,
            )

    def waiting(self, log: str) -> dict[str, int]:
        """How much was posted and is not in the log yet."""
        parts = {part.name: part for part in [*self._parts(log), *self._planned(log).parts]}
        return {
            "requests": len(parts),
            "dialogues": sum(part.dialogues for part in parts.values()),
            "bytes": sum(part.size for part in parts.values()),
        }

    # ── ingesting ────────────────────────────────────────────────────────────────────────────────────────────────

    @contextmanager
    def taking(self, log: str) -> Iterator[Batch | None]:
        """All that waits as one batch, or the one that an earlier run has left; None where nothing waits."""
        folder = self.folder(log)
        if not folder.is_dir():
            yield None
            return
        with self._alone(log):
            plan = self._planned(log) if (folder / _PLAN).exists() else self._plan(log)
            if not plan.parts or not self._joined(log, plan):
                self._forget(log, plan)
                yield None
                return
            yield Batch(
                path=folder / plan.file,
                dialogues=sum(part.dialogues for part in plan.parts),
                requests=len(plan.parts),
                ingested=lambda: self._ingested(log, plan),
            )

    @contextmanager
    def _alone(self, log: str) -> Iterator[None]:
        """Be the only one who takes or erases; whoever posts need not wait but for a moment."""
        folder = self.folder(log)
        with exclusive(folder, f"taking what was posted for log {log}"):
            with hold(folder / _ADDING):
                remove_asides(folder)  # nobody is writing now, so these are of killed processes
            yield

    def _plan(self, log: str) -> _Plan:
        """Decide what becomes of the next batch, and write it down."""
        parts = self._parts(log)
        if parts:
            names = [part.name for part in parts]
            file = f"batch-{hashlib.sha256(orjson.dumps(names)).hexdigest()[:32]}.jsonl"
            write_json(self.folder(log) / _PLAN, {"file": file, "requests": names})
            return _Plan(file=file, parts=tuple(parts))
        return _Plan()

    def _joined(self, log: str, plan: _Plan) -> bool:
        """Whether the batch is there, made now if it was not; not, if it was ingested and removed before a kill."""
        folder = self.folder(log)
        left = [folder / part.name for part in plan.parts if (folder / part.name).exists()]
        if not (folder / plan.file).exists():
            if not left:
                return False
            if len(left) < len(plan.parts):
                raise Corrupt(
                    f"{folder}: {len(plan.parts) - len(left):,} of the requests that batch.json names are missing",
                    remedy="restore them from a backup, or remove batch.json to go on with those that are there",
                )
            with write_aside(folder / plan.file) as out:
                for path in left:
                    out.writelines(_pieces(path))
        for path in left:
            path.unlink()
        sync_folder(folder)
        return True

    def _ingested(self, log: str, plan: _Plan) -> None:
        """The log has the batch: remember its requests, and let go of it."""
        folder = self.folder(log)
        created, before = self._created(log), _read_if_there(folder / _TAKEN)
        known = _texts(before.get("requests")) if before.get("log_created") == created else []
        all_known = list(dict.fromkeys([*known, *(part.digest for part in plan.parts)]))
        write_json(folder / _TAKEN, {"log_created": created, "requests": all_known[-_REMEMBERED:]})
        self._forget(log, plan)

    def _forget(self, log: str, plan: _Plan) -> None:
        folder = self.folder(log)
        if plan.file:
            (folder / plan.file).unlink(missing_ok=True)
            sync_folder(folder)  # the name last: without it, the batch would never be looked at again
        (folder / _PLAN).unlink(missing_ok=True)
        sync_folder(folder)

    # ── erasing ──────────────────────────────────────────────────────────────────────────────────────────────────

    def erase(self, log: str, *, dialogues: Iterable[str] = (), speakers: Iterable[str] = ()) -> int:
        """Take dialogues, and what some speakers said, out of what waits; how many dialogues were touched.

        Where a speaker spoke stays an empty turn without a speaker, so that the turns around it do not become a pair.
        """
        folder, gone, silent = self.folder(log), frozenset(dialogues), frozenset(speakers)
        if not folder.is_dir():
            return 0
        touched = 0
        with self._alone(log):
            names = [part.name for part in self._parts(log)]
            for name in [*names, *(path.name for path in folder.glob("batch-*.jsonl") if _BATCH.fullmatch(path.name))]:
                touched += _rewritten(folder / name, gone, silent)
        return touched

    # ── what lies there ──────────────────────────────────────────────────────────────────────────────────────────

    def _parts(self, log: str) -> list[_Part]:
        """Requests that wait by themselves, oldest first."""
        folder = self.folder(log)
        if not folder.is_dir():
            return []
        return sorted((part for path in folder.iterdir() if (part := _Part.of(path.name))), key=lambda part: part.name)

    def _planned(self, log: str) -> _Plan:
        """What is named for the next batch."""
        path = self.folder(log) / _PLAN
        values = _read_if_there(path)
        if not values:
            return _Plan()
        file, parts = str(values.get("file")), [_Part.of(name) for name in _texts(values.get("requests"))]
        if not _BATCH.fullmatch(file) or None in parts or not parts:
            raise Corrupt(f"{path} does not name a batch and its requests", remedy="remove it: nothing is lost by that")
        return _Plan(file=file, parts=tuple(part for part in parts if part is not None))


@dataclass(frozen=True, kw_only=True)
class _Part:
    """One request's file, which its name describes."""

    name: str
    digest: str
    dialogues: int
    size: int

    @classmethod
    def of(cls, name: str) -> _Part | None:
        match = _PART.fullmatch(name)
        return cls(name=name, digest=match[1], dialogues=int(match[2]), size=int(match[3])) if match else None


@dataclass(frozen=True, kw_only=True)
class _Plan:
    """A batch by name, and what it is made of."""

    file: str = ""
    parts: tuple[_Part, ...] = ()

    @property
    def digests(self) -> frozenset[str]:
        return frozenset(part.digest for part in self.parts)


def _read_if_there(path: Path) -> dict[str, object]:
    try:
        return read_json(path)
    except FileNotFoundError:
        return {}


def _texts(value: object) -> list[str]:
    return [one for one in value if isinstance(one, str)] if isinstance(value, list) else []


# ── one dialogue ──────────────────────────────────────────────────────────────────────────────────────────────────


def _dialogue(place: int, values: object, most_chars: int) -> dict[str, Any] | BadDialogue:
    """A dialogue as it is stored, checked by the reader that will read it; or what is wrong with it."""
    if not isinstance(values, Mapping):
        return BadDialogue(place=place, id=None, field="", message="an object with turns is expected")
    name = as_id(values.get("id"))

    def bad(at: str, message: str) -> BadDialogue:
        return BadDialogue(place=place, id=name, field=at, message=message)

    if name is None and values.get("id") is not None:
        return bad("id", "a text or a whole number is expected")
    if name is not None and len(name) > _LONGEST_ID:
        return bad("id", f"{len(name):,} characters, at most {_LONGEST_ID} are taken")
    columns = dialogue_columns([(place, values)], Fields(names=FIELDS))
    if columns.bad:
        said = columns.bad[0].message
        return bad(said.partition(" ")[0] if said.startswith("turns[") else "turns", said)
    turns = list[dict[str, Any]]()
    for number, (text, speaker, moment) in enumerate(zip(columns.texts, columns.speakers, columns.times, strict=True)):
        if len(text) > most_chars:
            return bad(f"turns[{number}].text", f"{len(text):,} characters, at most {most_chars:,} are taken")
        turns.append({"text": text, "speaker": speaker, "time": None if moment is None else _written(moment)})
    if (wrong := next(_dropped(values), None)) is not None:
        return bad(*wrong)
    found = {"id": name, "turns": turns, "tags": list(as_tags(values.get("tags")) or ())}
    try:
        size = len(orjson.dumps(found))
    except orjson.JSONEncodeError as error:
        return bad("", f"it cannot be written as JSON: {error}")
    if size > MAX_LINE_BYTES - 2 * _LONGEST_ID:
        return bad("turns", f"{size:,} bytes, at most {MAX_LINE_BYTES - 2 * _LONGEST_ID:,} are taken")
    return found


def _dropped(values: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """What the reader of files passes over, as field and message: here somebody is there to be told of it."""
    for number, turn in enumerate(values["turns"]):
        if not isinstance(turn, Mapping):
            continue
        for name, is_read, expected in _OF_A_TURN:
            known = next((one for one in KNOWN_NAMES[name] if one in turn), None)
            value = None if known is None else turn[known]
            if value not in (None, "") and not is_read(value):
                yield f"turns[{number}].{known}", expected
    tags = values.get("tags")
    if tags is not None and not isinstance(tags, str | list):
        yield "tags", "a list of texts is expected"
    for number, tag in enumerate(tags if isinstance(tags, list) else ()):
        if not isinstance(tag, str):
            yield f"tags[{number}]", "a text is expected"


_OF_A_TURN: Final[Sequence[tuple[str, Callable[[object], bool], str]]] = (
    (
        "speaker",
        lambda value: isinstance(value, str) or as_id(value) is not None,
        "a text or a whole number is expected",
    ),
    ("time", lambda value: as_time(value) is not None, "it cannot be read; for example 2026-11-20T08:30:00Z"),
)


def _written(micros: int) -> str:
    """A time as text, since a number of seconds would not keep all its digits."""
    return (_EPOCH + timedelta(microseconds=micros)).isoformat()


def _digest(dialogues: Sequence[Mapping[str, Any]]) -> str:
    """Names these dialogues in this order."""
    return hashlib.sha256(orjson.dumps(dialogues, option=orjson.OPT_SORT_KEYS)).hexdigest()[:32]


def _id_of(dialogue: Mapping[str, Any], digest: str, place: int) -> str:
    return dialogue["id"] or f"posted-{digest}-{place}"


def _line(dialogue: Mapping[str, Any], digest: str, place: int) -> bytes:
    """One line; every line has every field, since a reader looks at the first ones to learn which there are."""
    return orjson.dumps({**dialogue, "id": _id_of(dialogue, digest, place)}, option=orjson.OPT_APPEND_NEWLINE)


def _pieces(path: Path) -> Iterator[bytes]:
    with path.open("rb") as file:
        while piece := file.read(_PIECE):
            yield piece


def _rewritten(path: Path, gone: frozenset[str], silent: frozenset[str]) -> int:
    """Write a file anew without what is to go; how many dialogues that was."""
    touched = 0
    with path.open("rb") as file:
        touched = sum(_without(orjson.loads(line), gone, silent) is not None for line in file)
    if not touched:
        return 0
    with write_aside(path) as out, path.open("rb") as file:
        for line in file:
            changed = _without(orjson.loads(line), gone, silent)
            out.write(line if changed is None else changed)
    return touched


def _without(dialogue: dict[str, Any], gone: frozenset[str], silent: frozenset[str]) -> bytes | None:
    """What is left of a dialogue as a line, nothing for one that goes; None where nothing is to be changed."""
    if dialogue["id"] in gone:
        return b""
    if not any(turn["speaker"] in silent for turn in dialogue["turns"]):
        return None
    empty = {"text": "", "speaker": None, "time": None}
    turns = [empty if turn["speaker"] in silent else turn for turn in dialogue["turns"]]
    return orjson.dumps({**dialogue, "turns": turns}, option=orjson.OPT_APPEND_NEWLINE)
