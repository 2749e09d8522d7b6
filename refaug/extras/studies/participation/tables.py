"""The tables of studies, as new databases get them: see `refaug.service.database.tables`."""

from __future__ import annotations

from typing import Final

from sqlalchemy import (
    Boolean,
    CheckConstraint,
    Column,
    Float,
    ForeignKey,
    Index,
    Integer,
    Table,
    Text,
    UniqueConstraint,
    false,
)

from refaug.service.database.tables import JSON, PLAIN, SEALED, TableSet, new_metadata, one_of

_TABLES: Final = new_metadata()

STUDY_STATES: Final = ("draft", "pilot", "open", "paused", "closed")
TASK_STATES: Final = ("reserved", "started", "done", "skipped", "expired", "withdrawn")

STUDIES: Final = Table(
    "studies",
    _TABLES,
    Column("id", PLAIN, primary_key=True),  # rises with the time of creation
    Column("name", PLAIN, nullable=False),
    Column("kind", Text, nullable=False),
    Column("state", Text, nullable=False, info=one_of(STUDY_STATES)),
    Column("protocol", Text, nullable=False, info=JSON),  # JSON with sorted keys
    Column("protocol_sha256", Text, nullable=False),
    Column("secret", Text, nullable=False),  # of the hashes of this study's participants
    Column("created", PLAIN, nullable=False),
    Column("opened", PLAIN),
    Column("closed", PLAIN),
    UniqueConstraint("name"),
    CheckConstraint(f"state IN ({', '.join(repr(state) for state in STUDY_STATES)})", name="state"),
)

# Every protocol that a study has had since it opened; a row is never changed.
STUDY_PROTOCOLS: Final = Table(
    "study_protocols",
    _TABLES,
    Column("study", PLAIN, ForeignKey("studies.id", ondelete="CASCADE"), primary_key=True),
    Column("number", Integer, primary_key=True, autoincrement=False),
    Column("sha256", Text, nullable=False),
    Column("protocol", Text, nullable=False, info=JSON),  # JSON
    Column("at", PLAIN, nullable=False),
    Column("actor", Text, nullable=False),
    Column("reason", Text, nullable=False),
)

STUDY_BOTS: Final = Table(
    "study_bots",
    _TABLES,
    Column("study", PLAIN, ForeignKey("studies.id", ondelete="CASCADE"), primary_key=True),
    Column("slot", Integer, primary_key=True, autoincrement=False),
    Column("bot", Text, nullable=False),  # a stored bot, or a system of the items
    Column("spec_sha256", Text),  # null: a system whose replies are in the items
    Column("target", Integer),  # tasks that are wanted; null: as many as there are
    Column("is_degraded", Boolean, nullable=False, server_default=false()),
    Column("failures", Integer, nullable=False, server_default="0"),
    Column("failed_at", PLAIN),  # the last failure; null since it has replied again
)

STUDY_ITEMS: Final = Table(
    "study_items",
    _TABLES,
    Column("study", PLAIN, ForeignKey("studies.id", ondelete="CASCADE"), primary_key=True),
    Column("unit", PLAIN, primary_key=True),
    Column("position", Integer, nullable=False),
    Column("shuffled", Integer, nullable=False),  # the order in which units are given out
    Column("content", Text, nullable=False, info=JSON),  # JSON
    Column("load", Integer, nullable=False, server_default="0"),  # tasks that are done or reserved
)
Index("ix_study_items_load", STUDY_ITEMS.c.study, STUDY_ITEMS.c.load, STUDY_ITEMS.c.shuffled)

STUDY_INVITES: Final = Table(
    "study_invites",
    _TABLES,
    Column("id", PLAIN, primary_key=True),
    Column("study", PLAIN, ForeignKey("studies.id", ondelete="CASCADE"), nullable=False),
    Column("hash", PLAIN, nullable=False),
    Column("label", Text, nullable=False),
    Column("uses_max", Integer),
    Column("uses", Integer, nullable=False, server_default="0"),
    Column("created", PLAIN, nullable=False),
    Column("expires", PLAIN),
    Column("revoked", PLAIN),
    UniqueConstraint("hash"),
)
Index("ix_study_invites_study", STUDY_INVITES.c.study)

STUDY_PARTICIPANTS: Final = Table(
    "study_participants",
    _TABLES,
    Column("id", PLAIN, primary_key=True),
    Column("study", PLAIN, ForeignKey("studies.id", ondelete="CASCADE"), nullable=False),
    Column("code", PLAIN, nullable=False),
    Column("external_hash", PLAIN),
    Column("opening", PLAIN),  # the keyed hash of the action that opened the link for the first time
    Column("invite", PLAIN),
    Column("is_pilot", Boolean, nullable=False, server_default=false()),
    Column("language", Text, nullable=False),
    Column("state", Text, nullable=False),  # consent, screened_out, training, active, done, withdrawn
    Column("reason", Text),  # why the participant was screened out
    Column("consent_sha256", Text),
    Column("consented", PLAIN),
    Column("screening", Text, info=JSON),  # JSON
    Column("training", Text, info=JSON),  # JSON
    Column("square_row", Integer),
    Column("plan", Text, info=JSON),  # JSON: the slots of the planned tasks
    Column("sequence", Text, info=JSON),  # JSON: the checks at each position
    Column("seed", Integer, nullable=False),
    Column("position", Integer, nullable=False, server_default="0"),  # of the sequence: tasks that are over
    Column("completion_code", Text),
    Column("excluded_reason", Text),
    Column("excluded_by", Text),
    Column("active_ms", Integer, nullable=False, server_default="0"),
    Column("created", PLAIN, nullable=False),
    Column("seen", PLAIN, nullable=False),
    Column("answered", PLAIN),  # the first message or answer: from then on the participant has a place
    Column("ended", PLAIN),
    UniqueConstraint("study", "code", name="uq_study_participants_code"),
    UniqueConstraint("study", "external_hash", name="uq_study_participants_external"),
)
Index("ix_study_participants_state", STUDY_PARTICIPANTS.c.study, STUDY_PARTICIPANTS.c.state)

STUDY_SESSIONS: Final = Table(
    "study_sessions",
    _TABLES,
    Column("hash", PLAIN, primary_key=True),  # of the cookie
    Column("participant", PLAIN, ForeignKey("study_participants.id", ondelete="CASCADE"), nullable=False),
    Column("created", PLAIN, nullable=False),
)
Index("ix_study_sessions_participant", STUDY_SESSIONS.c.participant)

# Links by which a participant goes on elsewhere; each was shown once.
STUDY_RESUME_LINKS: Final = Table(
    "study_resume_links",
    _TABLES,
    Column("hash", PLAIN, primary_key=True),  # of the token
    Column("participant", PLAIN, ForeignKey("study_participants.id", ondelete="CASCADE"), nullable=False),
    Column("created", PLAIN, nullable=False),
)
Index("ix_study_resume_links_participant", STUDY_RESUME_LINKS.c.participant)

STUDY_TASKS: Final = Table(
    "study_tasks",
    _TABLES,
    Column("id", PLAIN, primary_key=True),
    Column("study", PLAIN, ForeignKey("studies.id", ondelete="CASCADE"), nullable=False),
    Column("participant", PLAIN, ForeignKey("study_participants.id", ondelete="CASCADE"), nullable=False),
    Column("number", Integer, nullable=False),  # within the participant's tasks, from 1
    Column("check_kind", Text),
    Column("attention", Text),  # the answer that the check asks for
    Column("slot_a", Integer),
    Column("slot_b", Integer),  # of pairs, above slot_a
    Column("left_slot", Integer),
    Column("unit", PLAIN),
    Column("state", Text, nullable=False, info=one_of(TASK_STATES)),
    Column("skip_reason", Text),
    Column("protocol_sha256", Text, nullable=False),
    Column("is_pilot", Boolean, nullable=False),
    Column("seed", Integer, nullable=False),
    Column("reserved_until", PLAIN, nullable=False),
    Column("active_ms", Integer, nullable=False, server_default="0"),
    Column("started", PLAIN),
    Column("ended", PLAIN),
    UniqueConstraint("participant", "number", name="uq_study_tasks_number"),
    CheckConstraint(f"state IN ({', '.join(repr(state) for state in TASK_STATES)})", name="state"),
)
Index("ix_study_tasks_slots", STUDY_TASKS.c.study, STUDY_TASKS.c.slot_a, STUDY_TASKS.c.slot_b, STUDY_TASKS.c.state)
Index("ix_study_tasks_live", STUDY_TASKS.c.study, STUDY_TASKS.c.state, STUDY_TASKS.c.reserved_until)

# A message of a bot is there as `asked` before the bot is called, so that a killed server asks again.
STUDY_MESSAGES: Final = Table(
    "study_messages",
    _TABLES,
    Column("task", PLAIN, ForeignKey("study_tasks.id", ondelete="CASCADE"), primary_key=True),
    Column("side", PLAIN, primary_key=True),
    Column("n", Integer, primary_key=True, autoincrement=False),
    Column("role", Text, nullable=False),
    Column("state", Text, nullable=False),  # asked, answered, failed, unanswered
    Column("text", Text),
    Column("vote", Integer),
    Column("problem", Text),
    Column("ms", Float),
    Column("tries", Integer, nullable=False, server_default="0"),
    Column("holder", Text),  # the process that asks the bot
    Column("names_bot", Boolean, nullable=False, server_default=false()),
    Column("at", PLAIN, nullable=False),
    Column("checksum", Text),
    info={SEALED: ("task", "side", "n", "role", "text", "vote")},
)

# Turn 0 stands for the whole side, and side "" for the whole task.
STUDY_ANSWERS: Final = Table(
    "study_answers",
    _TABLES,
    Column("task", PLAIN, ForeignKey("study_tasks.id", ondelete="CASCADE"), primary_key=True),
    Column("side", PLAIN, primary_key=True),
    Column("turn", Integer, primary_key=True, autoincrement=False),
    Column("question", PLAIN, primary_key=True),
    Column("answer", Text, nullable=False, info=JSON),  # JSON
    Column("at", PLAIN, nullable=False),
    Column("checksum", Text),
    info={SEALED: ("task", "side", "turn", "question", "answer", "at")},
)

# What a participant's page has done, by the id that the page made: the same id again gets the same answer.
STUDY_ACTIONS: Final = Table(
    "study_actions",
    _TABLES,
    Column("participant", PLAIN, ForeignKey("study_participants.id", ondelete="CASCADE"), primary_key=True),
    Column("action", PLAIN, primary_key=True),
    Column("number", Integer, nullable=False),  # within the participant's actions, from 1
    Column("kind", Text, nullable=False),
    Column("task", PLAIN),
    Column("body_sha256", Text, nullable=False),
    Column("answer", Text, nullable=False, info=JSON),  # JSON
    Column("undo", Text, info=JSON),  # JSON: what was there before; null where it cannot be undone
    Column("at", PLAIN, nullable=False),
    UniqueConstraint("participant", "number", name="uq_study_actions_number"),
)

# What counts where participants disagree, as an operator has decided it.
STUDY_ADJUDICATIONS: Final = Table(
    "study_adjudications",
    _TABLES,
    Column("study", PLAIN, ForeignKey("studies.id", ondelete="CASCADE"), primary_key=True),
    Column("item", PLAIN, primary_key=True),
    Column("question", PLAIN, primary_key=True),
    Column("answer", Text, nullable=False, info=JSON),  # JSON
    Column("note", Text, nullable=False),
    Column("actor", Text, nullable=False),
    Column("at", PLAIN, nullable=False),
)

ADDED: Final = TableSet(name="studies", tables=_TABLES)
