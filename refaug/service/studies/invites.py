"""Invitations to a study, and the sessions that they open.

A token is shown once and stored as its hash. Ids of a recruiting service are stored only as a hash with the secret of
the study: the same person is known again, and no person can be found by it. No address and no browser is stored.
"""

from __future__ import annotations

import hashlib
import hmac
import secrets
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any, Final

from sqlalchemy import Connection, Row, delete, func, insert, select, update
from sqlalchemy.exc import IntegrityError

from refaug.core.errors import BadInput, Conflict, NoKey, NotAllowed, NotFound
from refaug.service.audit import add_row
from refaug.service.database.database import Database, time_text
from refaug.service.database.migrations.tables import STUDIES, STUDY_INVITES, STUDY_PARTICIPANTS, STUDY_SESSIONS
from refaug.service.database.row_ids import new_row_id
from refaug.service.studies.study_rows import DIGITS, StoredStudy

_TOKEN_BYTES: Final = 24
_CODE_DIGITS: Final = 6
_MOST_SESSIONS: Final = 50  # browsers of one participant; the oldest go
MOST_INVITES: Final = 100_000
MOST_AT_ONCE: Final = 10_000
# Parameters of recruiting services that name a person; others name a study or a session, and are not looked at.
PERSON_PARAMETERS: Final = (
    "PROLIFIC_PID", "workerId", "participantId", "participant_id", "survey_code", "rid", "pid", "id",
)  # fmt: skip


class WrongInvite(NotFound):
    """No invitation has this token."""


@dataclass(frozen=True, kw_only=True)
class StudyInvite:
    """An invitation, without its token."""

    id: str
    label: str
    uses_max: int | None
    uses: int
    created: str
    expires: str | None
    revoked: str | None

    def as_json(self) -> dict[str, Any]:
        """Return the invitation as answers have it."""
        return {
            name: getattr(self, name) for name in ("id", "label", "uses_max", "uses", "created", "expires", "revoked")
        }


@dataclass(frozen=True, kw_only=True)
class OpenedSession:
    """A session of a participant's browser."""

    participant: str
    cookie: str = field(repr=False)


class InviteStore:
    """The invitations of studies."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def create(
        self,
        study: StoredStudy,
        *,
        count: int = 1,
        label: str = "",
        uses_max: int | None = None,
        expires: datetime | None = None,
        actor: str,
        request: str | None = None,
    ) -> list[tuple[str, StudyInvite]]:
        """Make invitations and return each with its token, which cannot be read again."""
        if not 1 <= count <= MOST_AT_ONCE:
            raise BadInput(f"{count:,} invitations at once", remedy=f"1 to {MOST_AT_ONCE:,}")
        now = datetime.now(UTC)
        if expires is not None and expires <= now:
            raise BadInput(f"expires: {expires:%Y-%m-%d %H:%M} is over", remedy="a time to come")
        pairs = list[tuple[str, StudyInvite]]()
        for _ in range(count):
            invite = StudyInvite(
                id=new_row_id(),
                label=label,
                uses_max=uses_max,
                uses=0,
                created=time_text(now),
                expires=None if expires is None else time_text(expires),
                revoked=None,
            )
            pairs.append((secrets.token_urlsafe(_TOKEN_BYTES), invite))
        with self._database.writing() as connection:
            present = connection.execute(select(func.count()).where(STUDY_INVITES.c.study == study.id)).scalar_one()
            if present + count > MOST_INVITES:
                raise Conflict(
                    f"study {study.name} has {present:,} invitations already", remedy="one with several uses"
                )
            rows = [{"study": study.id, "hash": _hash(token), **invite.as_json()} for token, invite in pairs]
            connection.execute(insert(STUDY_INVITES), rows)
            facts = {"count": count, "uses_max": uses_max, "label": label}
            add_row(connection, actor, "invite", f"study {study.name}", request=request, **facts)
        return pairs

    def list(self, study: StoredStudy) -> Sequence[StudyInvite]:
        """Return the invitations of a study, oldest first."""
        query = select(STUDY_INVITES).where(STUDY_INVITES.c.study == study.id).order_by(STUDY_INVITES.c.id)
        with self._database.reading() as connection:
            return [_invite(row) for row in connection.execute(query)]

    def revoke(self, study: StoredStudy, invite: str, *, actor: str, request: str | None = None) -> StudyInvite:
        """Let an invitation open nothing any more; sessions that it has opened go on. A second time changes nothing."""
        columns = STUDY_INVITES.c
        mine = (columns.study == study.id, columns.id == invite)
        with self._database.writing() as connection:
            row = connection.execute(select(STUDY_INVITES).where(*mine)).first()
            if row is None:
                raise NotFound(f"study {study.name} has no invitation {invite[:40]!r}", remedy="list them")
            if row.revoked is None:
                connection.execute(update(STUDY_INVITES).where(*mine).values(revoked=time_text()))
                add_row(connection, actor, "revoke", f"invite {invite} of study {study.name}", request=request)
            return _invite(connection.execute(select(STUDY_INVITES).where(*mine)).one())

    # ── sessions ──────────────────────────────────────────────────────────────────────────────────────────────────────

    def open_session(
        self, token: str, *, action: str, external: Mapping[str, str], language: str | None = None
    ) -> OpenedSession:
        """Return a new session of the participant whom the token and the ids stand for, who may be new.

        The same person comes back to where they were: by the id of the recruiting service, by an invitation for one,
        or by the action of a page that asks again.
        """
        with self._database.writing() as connection:
            participant = _resumed(connection, token) or _invited(connection, token, action, external, language)
            cookie = secrets.token_urlsafe(32)
            row = {"hash": _hash(cookie), "participant": participant, "created": time_text()}
            connection.execute(insert(STUDY_SESSIONS).values(row))
            _drop_old_sessions(connection, participant)
        return OpenedSession(participant=participant, cookie=cookie)

    def participant_of(self, cookie: str | None) -> str:
        """Return the participant of a session; NoKey where there is none."""
        if cookie:
            query = select(STUDY_SESSIONS.c.participant).where(STUDY_SESSIONS.c.hash == _hash(cookie))
            with self._database.reading() as connection:
                participant = connection.execute(query).scalar()
            if participant is not None:
                return str(participant)
        raise NoKey("this browser takes part in no study", remedy="open the link of the invitation")


def resume_token(study: StoredStudy, participant: str) -> str:
    """Return what opens another session of a participant, on another device."""
    return f"r.{participant}.{study.keyed_hash(f'resume {participant}')[:40]}"


def _resumed(connection: Connection, token: str) -> str | None:
    """Return the participant of a token that another device of theirs was shown."""
    kind, _, rest = token.partition(".")
    participant, _, digest = rest.partition(".")
    if kind != "r" or not participant.isalnum() or not participant.isascii():
        return None
    query = (
        select(STUDIES)
        .join(STUDY_PARTICIPANTS, STUDY_PARTICIPANTS.c.study == STUDIES.c.id)
        .where(STUDY_PARTICIPANTS.c.id == participant)
    )
    row = connection.execute(query).first()
    expected = "" if row is None else resume_token(StoredStudy.of(row), participant)
    if not hmac.compare_digest(expected.encode(), token.encode()):
        raise WrongInvite("no participant has this link", remedy="open the link of the invitation again")
    del digest
    return participant


def _invited(connection: Connection, token: str, action: str, external: Mapping[str, str], language: str | None) -> str:
    columns = STUDY_INVITES.c
    invite = connection.execute(select(STUDY_INVITES).where(columns.hash == _hash(token)).with_for_update()).first()
    if invite is None:
        raise WrongInvite("no invitation has this link", remedy="copy the whole link")
    study = StoredStudy.of(connection.execute(select(STUDIES).where(STUDIES.c.id == invite.study)).one())
    person = study.keyed_hash(_person(invite, action, external))
    known = connection.execute(
        select(STUDY_PARTICIPANTS.c.id).where(
            STUDY_PARTICIPANTS.c.study == study.id, STUDY_PARTICIPANTS.c.external_hash == person
        )
    ).scalar()
    if known is not None:
        return str(known)
    _require_usable(study, invite)
    connection.execute(update(STUDY_INVITES).where(columns.id == invite.id).values(uses=columns.uses + 1))
    return _new_participant(connection, study, invite.id, person, language)


def _person(invite: Row[Any], action: str, external: Mapping[str, str]) -> str:
    """Return the text that names the person to this study alone."""
    for name in PERSON_PARAMETERS:
        if external.get(name):
            return f"{name}={external[name]}"
    return f"invite {invite.id}" if invite.uses_max == 1 else f"action {action}"


def _require_usable(study: StoredStudy, invite: Row[Any]) -> None:
    if not study.gives_tasks:
        reasons = {"draft": "has not begun", "paused": "pauses at the moment", "closed": "is over"}
        raise Conflict(
            f"this study {reasons[study.state]}", remedy="come again later" if study.state != "closed" else ""
        )
    if invite.revoked is not None:
        raise NotAllowed("this invitation was taken back", remedy="ask who sent it")
    if invite.expires is not None and time_text() >= invite.expires:
        raise NotAllowed("this invitation has expired", remedy="ask who sent it for a new one")
    if invite.uses_max is not None and invite.uses >= invite.uses_max:
        raise NotAllowed("this invitation was used as often as it may be", remedy="ask who sent it for a new one")


def _new_participant(connection: Connection, study: StoredStudy, invite: str, person: str, language: str | None) -> str:
    participants = STUDY_PARTICIPANTS.c
    count = connection.execute(
        select(func.count()).where(
            participants.study == study.id,
            participants.is_pilot == study.is_pilot,
            participants.state.not_in(("screened_out", "withdrawn")),
        )
    ).scalar_one()
    is_full = count >= study.protocol["participants"]
    languages = study.protocol.languages
    row = {
        "id": new_row_id(),
        "study": study.id,
        "external_hash": person,
        "invite": invite,
        "is_pilot": study.is_pilot,
        "language": language if language in languages else languages[0],
        "state": "full" if is_full else "consent",
        "seed": secrets.randbits(31),
        "created": time_text(),
        "seen": time_text(),
    }
    for _ in range(8):
        code = "P-" + "".join(secrets.choice(DIGITS) for _ in range(_CODE_DIGITS))
        try:
            with connection.begin_nested():
                connection.execute(insert(STUDY_PARTICIPANTS).values(row | {"code": code}))
        except IntegrityError:
            continue  # the code is another participant's
        return str(row["id"])
    raise Conflict("no code is free for a new participant", remedy="try it again")


def _drop_old_sessions(connection: Connection, participant: str) -> None:
    columns = STUDY_SESSIONS.c
    newest = (
        select(columns.hash)
        .where(columns.participant == participant)
        .order_by(columns.created.desc(), columns.hash)
        .limit(_MOST_SESSIONS)
    )
    hashes = connection.execute(newest).scalars().all()
    connection.execute(delete(STUDY_SESSIONS).where(columns.participant == participant, columns.hash.not_in(hashes)))


def _invite(row: Row[Any]) -> StudyInvite:
    names = ("id", "label", "uses_max", "uses", "created", "expires", "revoked")
    return StudyInvite(**{name: getattr(row, name) for name in names})


def _hash(token: str) -> str:
    return hashlib.sha256(token.encode("utf-8", "replace")).hexdigest()
