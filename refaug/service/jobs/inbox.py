"""The inbox of posted dialogues that wait for their log: durable when the request is answered, ingested exactly once.

    inbox/.posted/<log>/
        <time>-<hash>-<dialogues>-<bytes>.jsonl    the dialogues of one request
        batch.json                                 the requests of the next batch
        batch-<hash>.jsonl                         the batch: one source for the log, from any number of requests
        taken.json                                 ingested requests, so that a repeated one is recognised

`posted_requests` keeps a list of the requests beside them. Every other file is complete or absent. A batch is named
first, then written, then its requests are removed; after it was ingested, its requests are recorded, then it is
removed, then its name. A kill between any two steps loses nothing, and repeating a step writes the same bytes.
"""

from __future__ import annotations

import hashlib
import os
import re
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path
from typing import Any, Final

import orjson

from refaug.core import files
from refaug.core.errors import BadInput, Corrupt, Overloaded, TooLarge
from refaug.core.files import storage_errors, unique_suffix, write_aside
from refaug.core.home import Settings
from refaug.logs.manifest import MANIFEST, LogManifest
from refaug.logs.reading.shapes import KNOWN_NAMES, Fields, as_id, as_tags, as_time, dialogue_columns
from refaug.logs.reading.sources import MAX_LINE_BYTES
from refaug.service.jobs.inbox_erasure import InboxErasure, erase_from_file
from refaug.service.server_settings import MIB, ServeSettings

# ── ───────────────────────────────────────────────────────────────────────────────────────────────────────────────────
#
# The requests that wait for a log, listed in a file beside them, so that adding one costs the same however many wait.
#
#     .requests      a name for this list, then the names of the waiting requests, a line each
#
# A request's name is written before its file, and the end of the line after it: a list whose last line has no end is
# of a process that was killed between the two. Such a list, a damaged one and a missing one are made anew from the
# folder. Each process remembers how far it has read. All of it happens under the lock of those who post.

LIST_FILE: Final = ".requests"  # hidden and of no backup: it is made anew in a restored home
_REQUEST_NAME: Final = re.compile(r"\d{20}-([0-9a-f]{32})-(\d{1,12})-(\d{1,15})\.jsonl")


@dataclass(frozen=True, kw_only=True)
class PostedRequest:
    """The file of one request, described by its name."""

    name: str
    digest: str
    dialogues: int
    size: int

    @classmethod
    def of(cls, name: str) -> PostedRequest | None:
        """Return the request of a file's name; None for another file."""
        match = _REQUEST_NAME.fullmatch(name)
        return cls(name=name, digest=match[1], dialogues=int(match[2]), size=int(match[3])) if match else None


def total(requests: Iterable[PostedRequest]) -> dict[str, int]:
    """Return how much some requests are together, each name counted once."""
    unique = {request.name: request for request in requests}.values()
    return {
        "requests": len(unique),
        "dialogues": sum(request.dialogues for request in unique),
        "bytes": sum(request.size for request in unique),
    }


class PostedRequests:
    """What waits for one log, as this process has last read it."""

    def __init__(self, folder: Path, list_waiting: Callable[[], list[PostedRequest]]) -> None:
        self._path, self._list_waiting = folder / LIST_FILE, list_waiting
        self._head, self._end = b"", 0
        self._digests, self.waiting = set[str](), total(())

    def __contains__(self, digest: str) -> bool:
        return digest in self._digests

    def refresh(self) -> None:
        """Read what other processes have posted meanwhile."""
        head = lines = b""
        with suppress(FileNotFoundError), self._path.open("rb") as file:
            if (head := file.readline()) != self._head:
                self._forget(head)
            file.seek(self._end)
            lines = file.read()
        requests = [PostedRequest.of(line.decode("latin-1")) for line in lines.splitlines()]
        if None in requests or not (head + lines).endswith(b"\n"):
            self._make_anew()
        else:
            self._count([request for request in requests if request is not None], len(lines))

    @contextmanager
    def adding(self, request: PostedRequest) -> Iterator[None]:
        """Note a request whose file the block writes; after an error, the next process looks into the folder."""
        line = request.name.encode() + b"\n"
        with storage_errors(self._path), self._path.open("ab", buffering=0) as file:
            file.write(line[:-1])
            os.fsync(file.fileno())
            yield
            file.write(line[-1:])
        self._count([request], len(line))

    def _make_anew(self) -> None:
        requests, head = self._list_waiting(), f"{unique_suffix()}\n".encode()
        lines = b"".join(f"{request.name}\n".encode() for request in requests)
        with write_aside(self._path) as file:
            file.write(head + lines)
        self._forget(head)
        self._count(requests, len(lines))

    def _forget(self, head: bytes) -> None:
        self._head, self._end = head, len(head)
        self._digests, self.waiting = set(), total(())

    def _count(self, requests: list[PostedRequest], length: int) -> None:
        self._end += length
        self._digests.update(request.digest for request in requests)
        self.waiting = {name: self.waiting[name] + more for name, more in total(requests).items()}


# ── The inbox ─────────────────────────────────────────────────────────────────────────────────────────────────────────

FOLDER: Final = ".posted"  # hidden, so that no job reads this folder as a source
FIELDS: Final[Mapping[str, str]] = {
    "turns": "turns",
    "id": "id",
    "tags": "tags",
}  # the mapping of every line, for the ingest
_PLAN_FILE: Final = "batch.json"
_INGESTED_FILE: Final = "taken.json"
_ERASED_FILE: Final = "erased.json"
_POSTING_LOCK: Final = ".adding"
_MAX_REMEMBERED: Final = 100_000  # ingested requests: about two megabytes of names
_MAX_REQUESTS: Final = 50_000  # waiting requests
_RETRY_AFTER_S: Final = 60.0
_MAX_ID_CHARS: Final = 200
_READ_BYTES: Final = 1 << 20
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_MAX_SHOWN: Final = 5
_BATCH_NAME: Final = re.compile(r"batch-[0-9a-f]{32}\.jsonl")


@dataclass(frozen=True, kw_only=True)
class BadDialogue:
    """A dialogue that is refused."""

    place: int  # its place in the request, from 0
    id: str | None
    field: str
    message: str

    def __str__(self) -> str:
        at = f".{self.field}" if self.field else ""
        return f"dialogues[{self.place}]{at}: {self.message}"


class BadDialogues(BadInput):
    """Some of the dialogues that were posted cannot be taken."""

    def __init__(self, bad: Sequence[BadDialogue], of: int, *, remedy: str) -> None:
        more = f"; and {len(bad) - _MAX_SHOWN:,} more" if len(bad) > _MAX_SHOWN else ""
        listed = "; ".join(map(str, bad[:_MAX_SHOWN]))
        super().__init__(f"{len(bad):,} of {of:,} dialogues cannot be taken: {listed}{more}", remedy=remedy)
        self.bad = tuple(bad)


@dataclass(frozen=True, kw_only=True)
class InboxBatch:
    """All waiting dialogues as one source; it stays until `mark_ingested` is called."""

    path: Path
    dialogues: int
    requests: int
    mark_ingested: Callable[[], None] = field(repr=False)

    @property
    def is_empty(self) -> bool:
        """Whether all its dialogues were erased in the meantime."""
        return self.path.stat().st_size == 0


class Inbox:
    """The folder of posted dialogues, log by log."""

    def __init__(self, home: Settings, serve: ServeSettings) -> None:
        self._inbox, self._logs, self._serve = home.home / "inbox", home.logs, serve
        self._posted = dict[str, PostedRequests]()
        self._ingested = dict[str, _IngestedRequests]()

    def folder(self, log: str) -> Path:
        """Return the folder of a log's waiting dialogues."""
        return self._inbox / FOLDER / files.require_name("log", log)

    # ── posting ───────────────────────────────────────────────────────────────────────────────────────────────────────

    def add(self, log: str, dialogues: Sequence[Mapping[str, Any]], *, on_error: str = "fail") -> dict[str, Any]:
        """Store dialogues for the next ingest; they are on the disk when this returns.

        The same dialogues posted again, before or after their ingest, are recognised by their content and not stored
        again: `duplicate` says so. A dialogue without an id gets one from its content as well. With on_error="report"
        bad dialogues are left out and listed, otherwise they refuse the whole request.
        """
        folder = self.folder(log)
        good, bad = self._check(dialogues)
        if bad and (on_error != "report" or not good):
            raise BadDialogues(
                bad, len(dialogues), remedy='correct them, or send "on_error": "report" to leave them out'
            )
        if not good:
            raise BadInput("there are no dialogues", remedy="send at least one")
        digest = _digest(good)
        lines = b"".join(_line(one, digest, place) for place, one in enumerate(good))
        for folder_made in (self._inbox.parent, self._inbox, self._inbox / FOLDER, folder):
            files.make_folder(folder_made)
        with files.lock_file(
            folder / _POSTING_LOCK
        ):  # so that two equal requests at the same time do not write two files
            posted = self._posted_requests(log)
            is_known = digest in posted or self._is_ingested(log, digest)
            if not is_known:
                self._require_room(log, posted.waiting, len(lines))
                name = f"{time.time_ns():020}-{digest}-{len(good)}-{len(lines)}.jsonl"
                request = PostedRequest(name=name, digest=digest, dialogues=len(good), size=len(lines))
                with posted.adding(request), files.write_aside(folder / name) as file:
                    file.write(lines)
            waiting = posted.waiting
        return {
            "log": log,
            "accepted": len(good),
            "duplicate": is_known,
            "ids": [_id_of(one, digest, place) for place, one in enumerate(good)],
            "waiting": waiting,
            "problems": [{"place": one.place, "id": one.id, "field": one.field, "message": one.message} for one in bad],
        }

    def _check(self, dialogues: Sequence[Mapping[str, Any]]) -> tuple[list[dict[str, Any]], list[BadDialogue]]:
        """Return the dialogues that the log readers can use, in stored form, and the bad ones."""
        good, bad, seen = list[dict[str, Any]](), list[BadDialogue](), dict[str, int]()
        for place, values in enumerate(dialogues):
            checked = _check_dialogue(place, values, self._serve.text_chars)
            if isinstance(checked, dict) and checked["id"] in seen:
                message = f"{checked['id']!r} is the id of dialogues[{seen[checked['id']]}] as well"
                checked = BadDialogue(place=place, id=checked["id"], field="id", message=message)
            if isinstance(checked, BadDialogue):
                bad.append(checked)
                continue
            if checked["id"] is not None:
                seen[checked["id"]] = place
            good.append(checked)
        return good, bad

    def _posted_requests(self, log: str) -> PostedRequests:
        """Return what waits for a log; only under the lock of those who post."""
        posted = self._posted.setdefault(log, PostedRequests(self.folder(log), partial(self._waiting_requests, log)))
        posted.refresh()
        return posted

    def _is_ingested(self, log: str, digest: str) -> bool:
        """Return whether the log has these dialogues; a file of a hundred thousand names is read when it is another."""
        path = self.folder(log) / _INGESTED_FILE
        stamp = _stamp_of(path)
        known = self._ingested.get(log)
        if known is None or known.stamp != stamp:
            content = _read_optional(path)
            digests = frozenset(_string_list(content.get("requests")))
            known = _IngestedRequests(stamp=stamp, log_created=content.get("log_created"), digests=digests)
            self._ingested[log] = known
        return digest in known.digests and known.log_created == self._log_created(log)

    def _log_created(self, log: str) -> str | None:
        """Return when the log was created: a log deleted and created again has none of the dialogues posted before."""
        folder = self._logs / log
        return LogManifest.read(folder).created if (folder / MANIFEST).exists() else None

    def _require_room(self, log: str, waiting: Mapping[str, int], size: int) -> None:
        limit = self._serve.posted_mib * MIB
        if size > limit:
            raise TooLarge(
                f"{size / MIB:.1f} MiB of dialogues at once, where {limit / MIB:g} MiB may wait",
                remedy="send them in several requests, or a larger REFAUG_POSTED_MIB",
            )
        if waiting["bytes"] + size > limit or waiting["requests"] >= _MAX_REQUESTS:
            raise Overloaded(
                f"{waiting['bytes'] / MIB:.1f} MiB of dialogues in {waiting['requests']:,} requests wait to be "
                f"ingested into log {log}; there is room for {limit / MIB:g} MiB in {_MAX_REQUESTS:,}",
                remedy=f'start a job of kind "ingest" with "posted": true for log {log}, then send them again',
                retry_after_s=_RETRY_AFTER_S,
            )

    def waiting(self, log: str) -> dict[str, int]:
        """Return how much was posted and is not in the log yet."""
        return total(self._waiting_requests(log))

    def _waiting_requests(self, log: str) -> list[PostedRequest]:
        """Return the requests outside and inside of a batch, each once, in the order in which they move."""
        requests = {request.name: request for request in [*self._requests(log), *self._read_plan(log).parts]}
        return list(requests.values())

    # ── ingesting ─────────────────────────────────────────────────────────────────────────────────────────────────────

    @contextmanager
    def take_batch(self, log: str) -> Iterator[InboxBatch | None]:
        """Yield all waiting dialogues as one batch, or the batch of an interrupted run; None if nothing waits."""
        folder = self.folder(log)
        if not folder.is_dir():
            yield None
            return
        with self._exclusive(log):
            plan = self._read_plan(log) if (folder / _PLAN_FILE).exists() else self._make_plan(log)
            if not plan.parts or not self._write_batch(log, plan):
                self._remove_batch(log, plan)
                yield None
                return
            yield InboxBatch(
                path=folder / plan.file,
                dialogues=sum(part.dialogues for part in plan.parts),
                requests=len(plan.parts),
                mark_ingested=lambda: self._mark_ingested(log, plan),
            )

    @contextmanager
    def _exclusive(self, log: str) -> Iterator[None]:
        """Hold the lock on taking and erasing; posting waits for it only for a moment."""
        folder = self.folder(log)
        with files.exclusive(folder, f"taking what was posted for log {log}"):
            with files.lock_file(folder / _POSTING_LOCK):
                files.remove_asides(folder)  # no process is writing now, so these are of killed ones
            yield

    def _make_plan(self, log: str) -> _BatchPlan:
        """Choose the requests of the next batch, and write down their names."""
        parts = self._requests(log)
        if parts:
            names = [part.name for part in parts]
            file = f"batch-{hashlib.sha256(orjson.dumps(names)).hexdigest()[:32]}.jsonl"
            files.write_json(self.folder(log) / _PLAN_FILE, {"file": file, "requests": names})
            return _BatchPlan(file=file, parts=tuple(parts))
        return _BatchPlan()

    def _write_batch(self, log: str, plan: _BatchPlan) -> bool:
        """Write the batch, if it is not there; return False if it was ingested and removed before a kill."""
        folder = self.folder(log)
        waiting = [folder / part.name for part in plan.parts if (folder / part.name).exists()]
        if not (folder / plan.file).exists():
            if not waiting:
                return False
            if len(waiting) < len(plan.parts):
                raise Corrupt(
                    f"{folder}: {len(plan.parts) - len(waiting):,} of the requests that batch.json names are missing",
                    remedy="restore them from a backup, or remove batch.json to go on with those that are there",
                )
            erased = self._erased(log)
            for part in plan.parts:
                if part.name not in erased:
                    _require_as_posted(folder / part.name, part)
            with files.write_aside(folder / plan.file) as out:
                for path in waiting:
                    out.writelines(_read_chunks(path))
        for path in waiting:
            path.unlink()
        files.sync_folder(folder)
        return True

    def _mark_ingested(self, log: str, plan: _BatchPlan) -> None:
        """Record the requests of the batch as ingested, and remove it."""
        folder = self.folder(log)
        created, before = self._log_created(log), _read_optional(folder / _INGESTED_FILE)
        remembered = _string_list(before.get("requests")) if before.get("log_created") == created else []
        all_known = list(dict.fromkeys([*remembered, *(part.digest for part in plan.parts)]))
        files.write_json(folder / _INGESTED_FILE, {"log_created": created, "requests": all_known[-_MAX_REMEMBERED:]})
        self._remove_batch(log, plan)

    def _remove_batch(self, log: str, plan: _BatchPlan) -> None:
        folder = self.folder(log)
        with files.lock_file(folder / _POSTING_LOCK):
            (folder / LIST_FILE).unlink(missing_ok=True)  # those who post make it anew, without this batch
            if plan.file:
                (folder / plan.file).unlink(missing_ok=True)
                files.sync_folder(folder)  # the name last: without it, the batch would never be found again
            (folder / _PLAN_FILE).unlink(missing_ok=True)
            if not any((folder / name).exists() for name in self._erased(log)):
                (folder / _ERASED_FILE).unlink(missing_ok=True)
            files.sync_folder(folder)

    # ── erasing ───────────────────────────────────────────────────────────────────────────────────────────────────────

    def erase(self, log: str, *, dialogues: Iterable[str] = (), speakers: Iterable[str] = ()) -> InboxErasure:
        """Erase dialogues, and what some speakers said, from the waiting dialogues.

        An erased turn stays as an empty turn without a speaker, so that the turns around it do not become a pair.
        """
        folder, gone, silent = self.folder(log), frozenset(dialogues), frozenset(speakers)
        erasure = InboxErasure()
        if not folder.is_dir():
            return erasure
        with self._exclusive(log):
            names = [part.name for part in self._requests(log)]
            for name in [
                *names,
                *(path.name for path in folder.glob("batch-*.jsonl") if _BATCH_NAME.fullmatch(path.name)),
            ]:
                erasure += erase_from_file(folder / name, gone, silent, partial(self._note_erased, log, name))
        return erasure

    def _erased(self, log: str) -> list[str]:
        """Return the names of waiting requests that something was erased from since they were posted."""
        return _string_list(_read_optional(self.folder(log) / _ERASED_FILE).get("requests"))

    def _note_erased(self, log: str, name: str) -> None:
        folder = self.folder(log)
        still_there = [one for one in self._erased(log) if one != name and (folder / one).exists()]
        files.write_json(folder / _ERASED_FILE, {"requests": [*still_there, name]})

    # ── files ─────────────────────────────────────────────────────────────────────────────────────────────────────────

    def _requests(self, log: str) -> list[PostedRequest]:
        """Return the waiting requests outside a batch, oldest first."""
        folder = self.folder(log)
        if not folder.is_dir():
            return []
        return sorted(
            (part for path in folder.iterdir() if (part := PostedRequest.of(path.name))), key=lambda part: part.name
        )

    def _read_plan(self, log: str) -> _BatchPlan:
        """Return the plan of the next batch; empty if there is none."""
        path = self.folder(log) / _PLAN_FILE
        values = _read_optional(path)
        if not values:
            return _BatchPlan()
        file, parts = (
            str(values.get("file")),
            [PostedRequest.of(name) for name in _string_list(values.get("requests"))],
        )
        if not _BATCH_NAME.fullmatch(file) or None in parts or not parts:
            raise Corrupt(f"{path} does not name a batch and its requests", remedy="remove it: nothing is lost by that")
        return _BatchPlan(file=file, parts=tuple(part for part in parts if part is not None))


@dataclass(frozen=True, kw_only=True)
class _BatchPlan:
    """The name of a batch, and its requests."""

    file: str = ""
    parts: tuple[PostedRequest, ...] = ()


@dataclass(frozen=True, kw_only=True)
class _IngestedRequests:
    """The ingested requests that are remembered, as one file has them."""

    stamp: tuple[int, ...]
    log_created: object
    digests: frozenset[str]


def _stamp_of(path: Path) -> tuple[int, ...]:
    """Return what differs between a file and the one that replaces it; nothing where there is none."""
    try:
        status = path.stat()
    except FileNotFoundError:
        return ()
    return status.st_ino, status.st_mtime_ns, status.st_size


def _read_optional(path: Path) -> dict[str, object]:
    try:
        return files.read_json(path)
    except FileNotFoundError:
        return {}


def _string_list(content: object) -> list[str]:
    return [one for one in content if isinstance(one, str)] if isinstance(content, list) else []


# ── One dialogue ──────────────────────────────────────────────────────────────────────────────────────────────────────


def _check_dialogue(place: int, values: object, most_chars: int) -> dict[str, Any] | BadDialogue:
    """Return a dialogue in stored form, checked by the log reader; or what is wrong with it."""
    if not isinstance(values, Mapping):
        return BadDialogue(place=place, id=None, field="", message="an object with turns is expected")
    name = as_id(values.get("id"))

    def bad(at: str, message: str) -> BadDialogue:
        return BadDialogue(place=place, id=name, field=at, message=message)

    if name is None and values.get("id") is not None:
        return bad("id", "a text or a whole number is expected")
    if name is not None and len(name) > _MAX_ID_CHARS:
        return bad("id", f"{len(name):,} characters, at most {_MAX_ID_CHARS} are taken")
    columns = dialogue_columns([(place, values)], Fields(names=FIELDS))
    if columns.bad:
        fault = columns.bad[0].message
        return bad(fault.partition(" ")[0] if fault.startswith("turns[") else "turns", fault)
    turns = list[dict[str, Any]]()
    for number, (text, speaker, moment) in enumerate(zip(columns.texts, columns.speakers, columns.times, strict=True)):
        if len(text) > most_chars:
            return bad(f"turns[{number}].text", f"{len(text):,} characters, at most {most_chars:,} are taken")
        turns.append({"text": text, "speaker": speaker, "time": None if moment is None else _iso_time(moment)})
    if (wrong := next(_ignored_fields(values), None)) is not None:
        return bad(*wrong)
    stored = {"id": name, "turns": turns, "tags": list(as_tags(values.get("tags")) or ())}
    try:
        size = len(orjson.dumps(stored))
    except orjson.JSONEncodeError as error:
        return bad("", f"it cannot be written as JSON: {error}")
    if size > MAX_LINE_BYTES - 2 * _MAX_ID_CHARS:
        return bad("turns", f"{size:,} bytes, at most {MAX_LINE_BYTES - 2 * _MAX_ID_CHARS:,} are taken")
    return stored


def _ignored_fields(values: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """Yield the fields that the log reader would ignore, with messages: a client can be told about them."""
    for number, turn in enumerate(values["turns"]):
        if not isinstance(turn, Mapping):
            continue
        for name, is_read, expected in _TURN_FIELDS:
            key = next((one for one in KNOWN_NAMES[name] if one in turn), None)
            content = None if key is None else turn[key]
            if content not in (None, "") and not is_read(content):
                yield f"turns[{number}].{key}", expected
    tags = values.get("tags")
    if tags is not None and not isinstance(tags, str | list):
        yield "tags", "a list of texts is expected"
    for number, tag in enumerate(tags if isinstance(tags, list) else ()):
        if not isinstance(tag, str):
            yield f"tags[{number}]", "a text is expected"


_TURN_FIELDS: Final[Sequence[tuple[str, Callable[[object], bool], str]]] = (
    (
        "speaker",
        lambda value: isinstance(value, str) or as_id(value) is not None,
        "a text or a whole number is expected",
    ),
    ("time", lambda value: as_time(value) is not None, "it cannot be read; for example 2026-11-20T08:30:00Z"),
)


def _iso_time(micros: int) -> str:
    """Return a time as text, since a number of seconds would lose digits."""
    return (_EPOCH + timedelta(microseconds=micros)).isoformat()


def _digest(dialogues: Sequence[Mapping[str, Any]]) -> str:
    """Return a name of these dialogues in this order."""
    return hashlib.sha256(orjson.dumps(dialogues, option=orjson.OPT_SORT_KEYS)).hexdigest()[:32]


def _id_of(dialogue: Mapping[str, Any], digest: str, place: int) -> str:
    return dialogue["id"] or f"posted-{digest}-{place}"


def _line(dialogue: Mapping[str, Any], digest: str, place: int) -> bytes:
    """Return one line; every line has every field, since a reader takes the fields from the first lines."""
    return orjson.dumps({**dialogue, "id": _id_of(dialogue, digest, place)}, option=orjson.OPT_APPEND_NEWLINE)


def _read_chunks(path: Path) -> Iterator[bytes]:
    with path.open("rb") as file:
        while piece := file.read(_READ_BYTES):
            yield piece


def _require_as_posted(path: Path, request: PostedRequest) -> None:
    """Raise Corrupt for a file whose dialogues are not those that were acknowledged."""
    content = path.read_bytes()
    try:
        dialogues = [orjson.loads(line) for line in content.splitlines()]
        for place, dialogue in enumerate(dialogues):
            if dialogue["id"] == _id_of({"id": None}, request.digest, place):
                dialogue["id"] = None
        is_whole = len(content) == request.size and _digest(dialogues) == request.digest
    except (ValueError, TypeError, KeyError):
        is_whole = False
    if not is_whole:
        raise Corrupt(
            f"{path}: these are not the dialogues that were posted",
            remedy=f"restore it from a backup, or remove it to go on without its {request.dialogues:,} dialogues",
        )
