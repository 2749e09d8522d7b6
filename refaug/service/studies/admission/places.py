"""Places in a study: a participant takes one with the first message or answer, and not by opening a link.

Who has a link can open it as often as they like; sessions that never answer keep no other person out. So a place may
be gone between the consent and the first answer, which is why it is looked at with both.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import orjson
from sqlalchemy import Connection, Row, func, select, update

from refaug.service.database.database import time_text
from refaug.service.database.migrations.tables import STUDY_INVITES, STUDY_PARTICIPANTS
from refaug.service.studies.study_rows import Attendance, StoredStudy, lock_study

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
