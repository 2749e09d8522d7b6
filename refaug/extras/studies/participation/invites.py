"""Invitations to a study, the sessions that they open, and the links by which participants go on elsewhere.

A token is shown once and stored as its hash. Ids of a recruiting service are stored only as a hash with the secret of
the study: the same person is known again, and no person can be found by it. No address and no browser is stored.

Such an id has no signature, so that who has a shared link can send any: a new id begins, and a known one opens nothing
by itself. Who comes back is known by the cookie, by the link that was shown at the start, by an invitation for one
person, by an id that the recruiting service has signed (`signed_links`), or, where that answer was lost, by the action
of the page that asks again.
"""

from __future__ import annotations

import hashlib
import secrets
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any, Final

import orjson
from sqlalchemy import Connection, Row, Table, delete, func, insert, select, update
from sqlalchemy.exc import IntegrityError

from refaug.core.errors import BadInput, Conflict, NoKey, NotAllowed, NotFound, TooMany
from refaug.core.memory import BoundedCache
from refaug.extras.studies.participation import tables
from refaug.extras.studies.participation.study_store import DIGITS, Attendance, StoredStudy, lock_study, participant_row
from refaug.extras.studies.participation.tables import STUDY_INVITES, STUDY_PARTICIPANTS
from refaug.service.audit import add_row
from refaug.service.database.database import Database, time_text
from refaug.service.database.row_ids import new_row_id
from refaug.service.keys import MinuteBucket, network_of

# ── Places in a study: a participant takes one with the first message or answer, and not by opening a link ────────────
#
# Who has a link can open it as often as they like; sessions that never answer keep no other person out. So a place
# may be gone between the consent and the first answer, which is why it is looked at with both.

_COLUMNS: Final = STUDY_PARTICIPANTS.c
FULL: Final = "full"
QUOTA: Final = "quota"


def places_are_taken(connection: Connection, study: StoredStudy, *, is_pilot: bool) -> bool:
    """Return whether as many participants have answered as the study wants."""
    query = select(func.count()).where(*_with_place(study, is_pilot=is_pilot))
    return int(connection.execute(query).scalar_one()) >= int(study.protocol["participants"])


def is_used_up(invite: Row[Any]) -> bool:
    """Return whether as many participants of an invitation have answered as it lets in."""
    return bool(invite.uses_max is not None and invite.uses >= invite.uses_max)


def quota_is_full(connection: Connection, attending: Attendance, answers: Mapping[str, Any]) -> bool:
    """Return whether a quota of people with such answers to the screening is reached by those who have a place."""
    quotas = attending.protocol["quotas"]
    if not quotas:
        return False
    with_place = _with_place(attending.study, is_pilot=attending.participant.is_pilot)
    query = select(_COLUMNS.screening).where(*with_place, _COLUMNS.screening.is_not(None))
    others = [orjson.loads(text) for text in connection.execute(query).scalars()]
    for quota in quotas:
        question, answer = quota["question"], quota["value"]
        count = sum(other.get(question) == answer for other in others)
        if answers.get(question) == answer and count >= quota["most"]:
            return True
    return False


def take_place(connection: Connection, attending: Attendance) -> str | None:
    """Give a participant who answers for the first time a place, and return None; or why there is none any more."""
    participant, study = attending.participant, attending.study
    if participant.answered is not None or participant.state not in ("training", "active"):
        return None
    lock_study(connection, study.id)
    columns = STUDY_INVITES.c
    invite = connection.execute(select(STUDY_INVITES).where(columns.id == participant.invite)).first()
    reason, now = None, time_text(attending.now)
    values: dict[str, object] = {"answered": now}
    if places_are_taken(connection, study, is_pilot=participant.is_pilot) or (
        invite is not None and is_used_up(invite)
    ):
        reason, values = FULL, {"state": FULL, "ended": now}
    elif quota_is_full(connection, attending, orjson.loads(participant.screening or "{}")):
        reason, values = QUOTA, {"state": "screened_out", "reason": QUOTA, "ended": now}
    elif invite is not None:
        connection.execute(update(STUDY_INVITES).where(columns.id == invite.id).values(uses=columns.uses + 1))
    connection.execute(update(STUDY_PARTICIPANTS).where(_COLUMNS.id == participant.id).values(values))
    return reason


def _with_place(study: StoredStudy, *, is_pilot: bool) -> tuple[Any, ...]:
    return (
        _COLUMNS.study == study.id,
        _COLUMNS.is_pilot == is_pilot,
        _COLUMNS.answered.is_not(None),
        _COLUMNS.state.not_in(("screened_out", "withdrawn")),
    )


# ── Invitations to a study, the sessions that they open, and the links by which participants go on elsewhere ──────────

_TOKEN_BYTES: Final = 24
_RESUME_PREFIX: Final = "r."  # of links that go on; no token of an invitation has a dot
_CODE_DIGITS: Final = 6
_MOST_SESSIONS: Final = 50  # browsers of one participant; the oldest go
_MOST_RESUME_LINKS: Final = 5  # of one participant, whose page asked again for a lost answer
SESSION_DAYS: Final = 90
MOST_INVITES: Final = 100_000
MOST_AT_ONCE: Final = 10_000


class WrongInvite(NotFound):
    """No invitation has this token."""


class KnownParticipant(NotAllowed):
    """The id takes part already, and nothing shows that it is the same person who comes."""

    def __init__(self) -> None:
        super().__init__(
            "a participant has this id already, and nothing shows that it is you",
            remedy="go on in the browser in which you began, or by the link that you were shown there; "
            "who has invited you can give you a new one",
        )


@dataclass(frozen=True, kw_only=True)
class Visitor:
    """Who opens a link: what the page sends, and what its browser has."""

    action: str
    person: str | None = None  # the id of a recruiting service, with the name of its parameter
    is_signed: bool = False  # by the recruiting service, so that no one else can send it
    language: str | None = None
    cookie: str | None = field(default=None, repr=False)


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

    def as_json(self) -> dict[str, object]:
        """Return the invitation as answers have it."""
        return {
            name: getattr(self, name) for name in ("id", "label", "uses_max", "uses", "created", "expires", "revoked")
        }


@dataclass(frozen=True, kw_only=True)
class OpenedSession:
    """A session of a participant's browser; at the start with what the link to go on elsewhere has behind its #."""

    participant: str
    cookie: str = field(repr=False)
    resume: str | None = field(default=None, repr=False)


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
            present = connection.execute(
                select(func.count()).where(tables.STUDY_INVITES.c.study == study.id)
            ).scalar_one()
            if present + count > MOST_INVITES:
                raise Conflict(
                    f"study {study.name} has {present:,} invitations already", remedy="one with several uses"
                )
            rows = [{"study": study.id, "hash": _hash(token), **invite.as_json()} for token, invite in pairs]
            connection.execute(insert(tables.STUDY_INVITES), rows)
            facts = {"count": count, "uses_max": uses_max, "label": label}
            add_row(connection, actor, "invite", f"study {study.name}", request=request, **facts)
        return pairs

    def list(self, study: StoredStudy) -> Sequence[StudyInvite]:
        """Return the invitations of a study, oldest first."""
        query = (
            select(tables.STUDY_INVITES)
            .where(tables.STUDY_INVITES.c.study == study.id)
            .order_by(tables.STUDY_INVITES.c.id)
        )
        with self._database.reading() as connection:
            return [_invite(row) for row in connection.execute(query)]

    def revoke(self, study: StoredStudy, invite: str, *, actor: str, request: str | None = None) -> StudyInvite:
        """Let an invitation open nothing any more; sessions that it has opened go on. A second time changes nothing."""
        columns = tables.STUDY_INVITES.c
        mine = (columns.study == study.id, columns.id == invite)
        with self._database.writing() as connection:
            row = connection.execute(select(tables.STUDY_INVITES).where(*mine)).first()
            if row is None:
                raise NotFound(f"study {study.name} has no invitation {invite[:40]!r}", remedy="list them")
            if row.revoked is None:
                connection.execute(update(tables.STUDY_INVITES).where(*mine).values(revoked=time_text()))
                add_row(connection, actor, "revoke", f"invite {invite} of study {study.name}", request=request)
            return _invite(connection.execute(select(tables.STUDY_INVITES).where(*mine)).one())

    # ── sessions ──────────────────────────────────────────────────────────────────────────────────────────────────────

    def open_session(
        self, token: str, visitor: Visitor, *, admit: Callable[[str], None] = lambda _invite: None
    ) -> OpenedSession:
        """Return a new session of the participant whom the token and the visitor stand for, who may be new.

        `admit` is called with the id of the invitation before a person is taken for new, or refused as known.
        """
        with self._database.writing() as connection:
            resume = None
            if is_resume_token(token):
                participant = _resumed(connection, token)
            else:
                participant, is_opening = _invited(connection, token, visitor, admit)
                resume = _new_resume_token(connection, participant) if is_opening else None
            cookie = secrets.token_urlsafe(32)
            _store_secret(connection, tables.STUDY_SESSIONS, cookie, participant, most=_MOST_SESSIONS)
        return OpenedSession(participant=participant, cookie=cookie, resume=resume)

    def participant_of(self, cookie: str | None) -> str:
        """Return the participant of a session; NoKey where there is none, or none any more."""
        if cookie:
            with self._database.reading() as connection:
                participant = _participant_with(connection, cookie)
            if participant is not None:
                return participant
        raise NoKey("this browser takes part in no study", remedy="open the link of the invitation")

    def renew_resume_link(self, study: StoredStudy, code: str, *, actor: str, request: str | None = None) -> str:
        """Return a token by which a participant goes on; from now on nothing else opens what they wrote.

        Sessions end, too: another person may have one, which is why the participant asks.
        """
        with self._database.writing() as connection:
            row = participant_row(connection, study, code)
            if row.state == "withdrawn":
                raise Conflict(
                    f"participant {code} has withdrawn, or was erased", remedy="nothing is left to go on with"
                )
            for table in (tables.STUDY_SESSIONS, tables.STUDY_RESUME_LINKS):
                connection.execute(delete(table).where(table.c.participant == row.id))
            connection.execute(
                update(tables.STUDY_PARTICIPANTS).where(tables.STUDY_PARTICIPANTS.c.id == row.id).values(opening=None)
            )
            add_row(connection, actor, "resume link", f"participant {code} of study {study.name}", request=request)
            return _new_resume_token(connection, row.id)


def is_resume_token(token: str) -> bool:
    """Whether a token is that of a link that goes on, and not of an invitation."""
    return token.startswith(_RESUME_PREFIX)


def _store_secret(connection: Connection, table: Table, secret: str, participant: str, *, most: int) -> None:
    """Store the hash of what opens a participant's state; of more than so many, the oldest others go."""
    columns = table.c
    others = (
        select(columns.hash)
        .where(columns.participant == participant)
        .order_by(columns.created.desc(), columns.hash)
        .limit(most - 1)  # whatever their times say: a clock may have gone back
    )
    kept = connection.execute(others).scalars().all()
    connection.execute(delete(table).where(columns.participant == participant, columns.hash.not_in(kept)))
    connection.execute(insert(table).values(hash=_hash(secret), participant=participant, created=time_text()))


def _new_resume_token(connection: Connection, participant: str) -> str:
    token = _RESUME_PREFIX + secrets.token_urlsafe(_TOKEN_BYTES)
    _store_secret(connection, tables.STUDY_RESUME_LINKS, token, participant, most=_MOST_RESUME_LINKS)
    return token


def _participant_with(connection: Connection, cookie: str) -> str | None:
    """Return the participant of a session that is not over."""
    columns = tables.STUDY_SESSIONS.c
    begun_after = time_text(datetime.now(UTC) - timedelta(days=SESSION_DAYS))
    query = select(columns.participant).where(columns.hash == _hash(cookie), columns.created > begun_after)
    participant: str | None = connection.execute(query).scalar()
    return participant


def _resumed(connection: Connection, token: str) -> str:
    """Return the participant of a link that goes on."""
    columns = tables.STUDY_RESUME_LINKS.c
    participant = connection.execute(select(columns.participant).where(columns.hash == _hash(token))).scalar()
    if participant is None:
        raise WrongInvite(
            "no participant has this link", remedy="copy the whole link, or ask who has invited you for a new one"
        )
    return str(participant)


def _invited(connection: Connection, token: str, visitor: Visitor, admit: Callable[[str], None]) -> tuple[str, bool]:
    """Return whom an invitation lets in, and whether the page opens it for the first time, or asks for that again."""
    columns = tables.STUDY_INVITES.c
    invite = connection.execute(
        select(tables.STUDY_INVITES).where(columns.hash == _hash(token)).with_for_update()
    ).first()
    if invite is None:
        raise WrongInvite("no invitation has this link", remedy="copy the whole link")
    study = StoredStudy.of(connection.execute(select(tables.STUDIES).where(tables.STUDIES.c.id == invite.study)).one())
    person = study.keyed_hash(_person(invite, visitor))
    returned = _returned(connection, invite, person, visitor)
    if returned is not None:
        return returned, False
    opening = study.keyed_hash(f"action {visitor.action}")
    known = _known(connection, invite, person)
    if known is not None and known.opening == opening:
        return str(known.id), True
    if known is not None and (visitor.is_signed or (_is_personal(invite) and known.invite == invite.id)):
        return str(known.id), False
    admit(invite.id)
    if known is not None:
        raise KnownParticipant
    _require_usable(study, invite)
    return _new_participant(connection, study, invite.id, person, opening, visitor.language), True


def _returned(connection: Connection, invite: Row[Any], person: str, visitor: Visitor) -> str | None:
    """Return the participant of the browser's cookie, where it is whom the link is opened for."""
    participant = _participant_with(connection, visitor.cookie) if visitor.cookie else None
    if participant is None:
        return None
    row = connection.execute(
        select(tables.STUDY_PARTICIPANTS).where(tables.STUDY_PARTICIPANTS.c.id == participant)
    ).one()
    is_named = row.study == invite.study and row.external_hash == person
    is_alone = row.invite == invite.id and visitor.person is None
    return participant if is_named or is_alone else None


def _known(connection: Connection, invite: Row[Any], person: str) -> Row[Any] | None:
    """Return the participant of an invitation for one, or the one with the id."""
    columns = tables.STUDY_PARTICIPANTS.c
    if _is_personal(invite):
        query = select(tables.STUDY_PARTICIPANTS).where(columns.invite == invite.id, columns.state != "withdrawn")
        if (row := connection.execute(query).first()) is not None:
            return row
    query = select(tables.STUDY_PARTICIPANTS).where(columns.study == invite.study, columns.external_hash == person)
    return connection.execute(query).first()


def _is_personal(invite: Row[Any]) -> bool:
    return bool(invite.uses_max == 1)


def _person(invite: Row[Any], visitor: Visitor) -> str:
    """Return the text that names the person to this study alone."""
    alone = f"invite {invite.id}" if _is_personal(invite) else f"action {visitor.action}"
    return visitor.person or alone


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
    if is_used_up(invite):
        raise NotAllowed("this invitation was used as often as it may be", remedy="ask who sent it for a new one")


def _new_participant(
    connection: Connection, study: StoredStudy, invite: str, person: str, opening: str, language: str | None
) -> str:
    is_full = places_are_taken(connection, study, is_pilot=study.is_pilot)
    languages = study.protocol.languages
    row = {
        "id": new_row_id(),
        "study": study.id,
        "external_hash": person,
        "opening": opening,
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
                connection.execute(insert(tables.STUDY_PARTICIPANTS).values(row | {"code": code}))
        except IntegrityError:
            continue  # the code is another participant's
        return str(row["id"])
    raise Conflict("no code is free for a new participant", remedy="try it again")


def _invite(row: Row[Any]) -> StudyInvite:
    names = ("id", "label", "uses_max", "uses", "created", "expires", "revoked")
    return StudyInvite(**{name: getattr(row, name) for name in names})


def _hash(token: str) -> str:
    return hashlib.sha256(token.encode("utf-8", "replace")).hexdigest()


# ── New people are counted by the invitation that they open and the address that they come from ───────────────────────
#
# Who tries ids of others, or fills a study with people who are none, comes again and again by one link from one
# address; a class that begins together does so, too, and waits a little. Addresses are held in memory alone, and are
# bounded.

_MOST_ENTRIES: Final = 10_000


class Newcomers:
    """The people of the last minutes whom no study knew; each of `workers` processes lets in its share."""

    def __init__(self, a_minute: int, *, workers: int = 1, clock: Callable[[], float] = time.monotonic) -> None:
        self._a_minute, self._clock = max(1.0, a_minute / workers), clock
        self._lock = threading.Lock()
        self._buckets = BoundedCache[tuple[str, str], MinuteBucket](_MOST_ENTRIES)

    def count(self, invite: str, address: str) -> None:
        """Count a person who is new, or claims an id that is known; TooMany for too many of them in a minute."""
        key, now = (invite, network_of(address)), self._clock()
        with self._lock:
            bucket = self._buckets.get(key) or MinuteBucket(self._a_minute, now)
            self._buckets.put(key, bucket)
            wait_s = bucket.wait_s(self._a_minute, now)
            if wait_s:
                raise TooMany(
                    "too many new people open this link from one address",
                    remedy="wait a little; this page tries again by itself",
                    retry_after_s=wait_s,
                )
            bucket.allowed -= 1.0
