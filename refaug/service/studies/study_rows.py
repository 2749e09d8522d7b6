"""Rows of studies as values: a study with its protocol, a participant in it, and what both databases need of texts."""

from __future__ import annotations

import hashlib
import hmac
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import cached_property
from typing import Any, Final, Self

import orjson
from sqlalchemy import Connection, Row, bindparam, select

from refaug.core.errors import BadInput, NotFound
from refaug.core.memory.bounded_cache import BoundedCache
from refaug.evaluation.studies.assignment.next_task import PlannedTask
from refaug.evaluation.studies.protocol.study_protocol import StudyProtocol
from refaug.service.database.migrations.tables import STUDIES, STUDY_PARTICIPANTS

# Statements that every request of a participant runs are made once: making one costs as much as running it.
_PARTICIPANT: Final = select(STUDY_PARTICIPANTS).where(STUDY_PARTICIPANTS.c.id == bindparam("participant"))
_LOCKED_PARTICIPANT: Final = _PARTICIPANT.with_for_update()
_STUDY: Final = select(STUDIES).where(STUDIES.c.id == bindparam("study"))
_LOCKED_STUDY: Final = select(STUDIES.c.id).where(STUDIES.c.id == bindparam("study")).with_for_update()
_PROTOCOLS: Final = BoundedCache[str, StudyProtocol](64)
DIGITS: Final = "0123456789ABCDEFGHJKMNPQRSTVWXYZ"  # of codes that people may have to type
_LEAST_WHOLE: Final = -(2**63)  # of JSON as it is stored
_MOST_WHOLE: Final = 2**64 - 1


@dataclass(frozen=True, kw_only=True)
class StoredStudy:
    """A study as its row has it."""

    id: str
    name: str
    state: str
    protocol: StudyProtocol
    protocol_sha256: str
    secret: str = field(repr=False)
    created: str
    opened: str | None
    closed: str | None

    @classmethod
    def of(cls, row: Row[Any]) -> Self:
        """Return the study of a row."""
        return cls(
            id=row.id,
            name=row.name,
            state=row.state,
            protocol=stored_protocol(row.protocol_sha256, row.protocol),
            protocol_sha256=row.protocol_sha256,
            secret=row.secret,
            created=row.created,
            opened=row.opened,
            closed=row.closed,
        )

    @property
    def is_pilot(self) -> bool:
        """Whether who begins now takes part in the pilot."""
        return self.state == "pilot"

    @property
    def gives_tasks(self) -> bool:
        """Whether tasks are given out."""
        return self.state in ("pilot", "open")

    @property
    def takes_answers(self) -> bool:
        """Whether tasks that have begun may be finished."""
        return self.state in ("pilot", "open", "paused")

    def keyed_hash(self, text: str) -> str:
        """Return the hash of a text with the secret of this study: equal texts of two studies have two hashes."""
        return hmac.new(self.secret.encode("ascii"), text.encode("utf-8"), hashlib.sha256).hexdigest()


@dataclass(frozen=True, kw_only=True)
class Attendance:
    """A participant in a study, as of one transaction."""

    study: StoredStudy
    participant: Row[Any]
    now: datetime

    @property
    def protocol(self) -> StudyProtocol:
        """The protocol of the study as it is now."""
        return self.study.protocol

    @cached_property
    def sequence(self) -> list[PlannedTask]:
        """The planned tasks with their checks."""
        planned = orjson.loads(self.participant.sequence) if self.participant.sequence else []
        return [PlannedTask(check=task["check"], asks_attention=task["attention"]) for task in planned]


def attendance(connection: Connection, participant: str, *, locks: bool = False) -> Attendance:
    """Return a participant with the study; with `locks`, no other transaction changes the participant meanwhile."""
    row = connection.execute(_LOCKED_PARTICIPANT if locks else _PARTICIPANT, {"participant": participant}).first()
    if row is None:
        raise NotFound("there is no such participant", remedy="open the link of the invitation again")
    study = connection.execute(_STUDY, {"study": row.study}).one()
    return Attendance(study=StoredStudy.of(study), participant=row, now=datetime.now(UTC))


def participant_row(connection: Connection, study: StoredStudy, code: str) -> Row[Any]:
    """Return the participant of a study who has this code; NotFound where there is none."""
    columns = STUDY_PARTICIPANTS.c
    query = select(STUDY_PARTICIPANTS).where(columns.study == study.id, columns.code == code)
    row = connection.execute(query).first() if code.isascii() and code.isprintable() else None
    if row is None:
        raise NotFound(f"study {study.name} has no participant {code[:20]!r}", remedy="a code such as P-3F7K2M")
    return row


def lock_study(connection: Connection, study: str) -> None:
    """Let one transaction at a time give out tasks of a study; writers on SQLite take turns anyway."""
    connection.execute(_LOCKED_STUDY, {"study": study}).one()


def stored_protocol(sha256: str, content: str) -> StudyProtocol:
    """Return a stored protocol; the last ones stay read."""
    protocol = _PROTOCOLS.get(sha256)
    if protocol is None:
        protocol = StudyProtocol.stored(content)
        _PROTOCOLS.put(sha256, protocol)
    return protocol


def json_text(content: Any) -> str:
    """Return JSON as the tables have it."""
    return orjson.dumps(content, option=orjson.OPT_SORT_KEYS).decode()


def storable(text: str) -> str:
    """Return a text without NUL, which PostgreSQL refuses."""
    return text.replace("\0", "\ufffd")


def storable_json(content: Any) -> Any:
    """Return JSON values with storable texts; BadInput where a whole number has more than 64 bits."""
    if isinstance(content, str):
        return storable(content)
    if isinstance(content, Mapping):
        return {storable(str(key)): storable_json(inner) for key, inner in content.items()}
    if isinstance(content, list | tuple):
        return [storable_json(inner) for inner in content]
    if isinstance(content, int) and not _LEAST_WHOLE <= content <= _MOST_WHOLE:
        raise BadInput("a whole number with more than 64 bits", remedy="a smaller number, or a text")
    return content
