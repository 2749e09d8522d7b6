"""The votes that an actively routed study has so far."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import numpy as np
import orjson
from sqlalchemy import Connection, bindparam, func, select

from refaug.extras.studies.participation.study_store import StoredStudy
from refaug.extras.studies.participation.tables import STUDY_ANSWERS, STUDY_PARTICIPANTS, STUDY_TASKS
from refaug.extras.studies.questions import CHOICES, routed_question
from refaug.metrics.statistics.resampling import Floats

_VOTES: Final = (  # of everybody who has not withdrawn and is not excluded by hand
    select(STUDY_TASKS.c.slot_a, STUDY_TASKS.c.slot_b, STUDY_TASKS.c.left_slot, STUDY_ANSWERS.c.answer, func.count())
    .join_from(STUDY_TASKS, STUDY_ANSWERS, STUDY_ANSWERS.c.task == STUDY_TASKS.c.id)
    .join(STUDY_PARTICIPANTS, STUDY_TASKS.c.participant == STUDY_PARTICIPANTS.c.id)
    .where(
        STUDY_TASKS.c.study == bindparam("study"),
        STUDY_TASKS.c.is_pilot == bindparam("is_pilot"),
        STUDY_TASKS.c.state == "done",
        STUDY_TASKS.c.check_kind.is_(None),
        STUDY_PARTICIPANTS.c.excluded_reason.is_(None),
        STUDY_ANSWERS.c.side == "",
        STUDY_ANSWERS.c.turn == 0,
        STUDY_ANSWERS.c.question == bindparam("question"),
    )
    .group_by(STUDY_TASKS.c.slot_a, STUDY_TASKS.c.slot_b, STUDY_TASKS.c.left_slot, STUDY_ANSWERS.c.answer)
)


def routed_wins(connection: Connection, study: StoredStudy, slots: Sequence[int], *, is_pilot: bool) -> Floats:
    """Return how often each bot of these slots won over each other one, a tie being half a win of each."""
    place, wins = {slot: at for at, slot in enumerate(slots)}, np.zeros((len(slots), len(slots)))
    question = routed_question(study.protocol.fields)
    parameters = {"study": study.id, "is_pilot": is_pilot, "question": question}
    for first, second, left, answer, count in connection.execute(_VOTES, parameters).all():
        if first in place and second in place:  # and not of a bot that was changed after a pilot
            outcome = CHOICES[orjson.loads(answer)] * (1 if left == first else -1)
            wins[place[first], place[second]] += count * (1 + outcome) / 2
            wins[place[second], place[first]] += count * (1 - outcome) / 2
    return wins
