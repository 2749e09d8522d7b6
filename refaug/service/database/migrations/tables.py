"""Every table, as new databases get it and as the last migration in `versions/` leaves it, on SQLite and PostgreSQL.

Times are texts such as 2026-11-20T02:30:00.000000Z: both databases sort them correctly, neither converts them to
another zone, and people can read them in a backup. JSON is text as well: it is read and written whole, and PostgreSQL's
JSON type refuses the NUL that a dialogue may hold.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import orjson
from sqlalchemy import (
    DDL,
    Boolean,
    CheckConstraint,
    Column,
    Float,
    ForeignKey,
    Index,
    Integer,
    MetaData,
    Table,
    Text,
    UniqueConstraint,
    false,
    text,
    true,
)
from sqlalchemy.event import listen

from refaug.service.database.stored_cells import PARSER, check_cells
from refaug.service.scopes import Scope

# Compared by bytes, whatever PostgreSQL's language: the database sorts ids and times.
PLAIN: Final = Text().with_variant(Text(collation="C"), "postgresql")

STATES: Final = ("queued", "running", "done", "failed", "cancelled")

_JSON: Final = {PARSER: orjson.loads}
_SCOPES: Final = {PARSER: lambda words: [Scope(word) for word in words.split()]}


def _one_of(words: Sequence[str]) -> dict[Any, Any]:
    """Return what a column says whose cells are one of a few words."""
    return {PARSER: words.index}


TABLES: Final = MetaData(
    naming_convention={
        "pk": "pk_%(table_name)s",
        "fk": "fk_%(table_name)s_%(column_0_name)s",
        "uq": "uq_%(table_name)s_%(column_0_name)s",
        "ck": "ck_%(table_name)s_%(constraint_name)s",
    }
)

JOBS: Final = Table(
    "jobs",
    TABLES,
    Column("id", PLAIN, primary_key=True),  # rises with the time of creation
    Column("kind", Text, nullable=False),
    Column("order", Text, nullable=False, info=_JSON),  # JSON
    Column("resources", Text, nullable=False, info=_JSON),  # a JSON list, sorted: equal lists are equal texts
    Column("state", Text, nullable=False, info=_one_of(STATES)),
    Column("created", PLAIN, nullable=False),
    Column("started", PLAIN),  # the last start
    Column("finished", PLAIN),
    Column("tries", Integer, nullable=False, server_default="0"),
    Column("progress", Text, info=_JSON),  # JSON
    Column("result", Text, info=_JSON),  # JSON
    Column("error", Text, info=_JSON),  # JSON
    Column("requested_by", Text),
    Column("schedule", Text),
    Column("cancel_requested", Boolean, nullable=False, server_default=false()),
    Column("worker", Text),  # the worker that runs it, or ran it last
    Column("beat", PLAIN),  # the last heartbeat of the worker
    Column("events", Integer, nullable=False, server_default="0"),  # the number of its last event
    Column("actor", Text),  # of the audit log
    CheckConstraint(f"state IN ({', '.join(repr(state) for state in STATES)})", name="state"),
)
Index("ix_jobs_state_id", JOBS.c.state, JOBS.c.id)

# A unique index: at most one row of a resource is in use, so no two running jobs share one.
JOB_RESOURCES: Final = Table(
    "job_resources",
    TABLES,
    Column("job", PLAIN, ForeignKey("jobs.id", ondelete="CASCADE"), primary_key=True),
    Column("resource", Text, primary_key=True),
    Column("in_use", Boolean, nullable=False, server_default=false()),
)
Index(
    "ux_job_resources_in_use",
    JOB_RESOURCES.c.resource,
    unique=True,
    sqlite_where=text("in_use"),
    postgresql_where=text("in_use"),
)

# Events are numbered within their job, from 1. The number comes from the job's row, which stays locked until the event
# is visible; so a reader that sees a number can see all smaller ones. A sequence of the whole database does not
# guarantee that: of two transactions the one with the smaller number may end later.
JOB_EVENTS: Final = Table(
    "job_events",
    TABLES,
    Column("job", PLAIN, ForeignKey("jobs.id", ondelete="CASCADE"), primary_key=True),
    Column("number", Integer, primary_key=True, autoincrement=False),
    Column("at", PLAIN, nullable=False),
    Column("type", Text, nullable=False),
    Column("data", Text, nullable=False, info=_JSON),  # JSON
)

SCHEDULES: Final = Table(
    "schedules",
    TABLES,
    Column("name", PLAIN, primary_key=True),
    Column("cron", Text, nullable=False),
    Column("timezone", Text, nullable=False),
    Column("order", Text, nullable=False, info=_JSON),  # JSON
    Column("enabled", Boolean, nullable=False, server_default=true()),
    Column("created", PLAIN, nullable=False),
    Column("updated", PLAIN, nullable=False),
    Column("begun", PLAIN, nullable=False),  # due times count from here
)

# Old jobs are removed and their firings stay; so there is no foreign key to jobs.
FIRINGS: Final = Table(
    "firings",
    TABLES,
    Column("schedule", PLAIN, ForeignKey("schedules.name", ondelete="CASCADE"), primary_key=True),
    Column("due", PLAIN, primary_key=True),
    Column("job", PLAIN),
    Column("note", Text),
)

KEYS: Final = Table(
    "keys",
    TABLES,
    Column("id", PLAIN, primary_key=True),
    Column("name", PLAIN, nullable=False),
    Column("hash", Text, nullable=False),
    Column("scopes", Text, nullable=False, info=_SCOPES),
    Column("rate_per_s", Float),
    Column("quota_per_day", Integer),
    Column("created", PLAIN, nullable=False),
    Column("expires", PLAIN),
    Column("revoked", PLAIN),
    UniqueConstraint("name"),
)

IDEMPOTENCY: Final = Table(
    "idempotency",
    TABLES,
    Column("scope", PLAIN, primary_key=True),
    Column("key", PLAIN, primary_key=True),
    Column("body_sha256", Text, nullable=False),
    Column("status", Integer),  # null while the first request is under way
    Column("answer", Text, info=_JSON),  # JSON
    Column("created", PLAIN, nullable=False),
    Column("holder", Text, nullable=False),  # the process that handles the first request
)
Index("ix_idempotency_created", IDEMPOTENCY.c.created)

BOTS: Final = Table(
    "bots",
    TABLES,
    Column("name", PLAIN, primary_key=True),
    Column("kind", Text, nullable=False),
    Column("spec", Text, nullable=False, info=_JSON),  # JSON with sorted keys
    Column("spec_sha256", Text, nullable=False),
)

AUDIT: Final = Table(
    "audit",
    TABLES,
    Column("id", PLAIN, primary_key=True),  # rises with the time
    Column("at", PLAIN, nullable=False),
    Column("actor", Text, nullable=False),
    Column("action", Text, nullable=False),
    Column("subject", Text, nullable=False),
    Column("details", Text, nullable=False, info=_JSON),  # JSON
    Column("request", Text),
    Column("checksum", Text),  # over the row and the checksum before; null in rows older than step 0008
    sqlite_with_rowid=False,  # a rowid would be a second key, by which a row could be replaced
)
_KEPT: Final = "rows of the audit log are never changed or removed"
_AUDIT_TRIGGERS: Final = {
    "sqlite": (
        *(
            f"CREATE TRIGGER audit_no_{event} BEFORE {event.upper()} ON audit BEGIN SELECT RAISE(ABORT, '{_KEPT}'); END"
            for event in ("update", "delete")
        ),
        # INSERT OR REPLACE removes the old row without the trigger of DELETE.
        "CREATE TRIGGER audit_no_replace BEFORE INSERT ON audit WHEN EXISTS (SELECT 1 FROM audit WHERE id = NEW.id) "
        f"BEGIN SELECT RAISE(ABORT, '{_KEPT}'); END",
    ),
    "postgresql": (
        "CREATE FUNCTION refaug_audit_is_kept() RETURNS trigger LANGUAGE plpgsql AS "
        f"$$ BEGIN RAISE EXCEPTION '{_KEPT}'; END $$",
        *(
            f"CREATE TRIGGER audit_kept_{each.lower()} BEFORE {event} ON audit "
            f"FOR EACH {each} EXECUTE FUNCTION refaug_audit_is_kept()"
            for event, each in (("UPDATE OR DELETE", "ROW"), ("TRUNCATE", "STATEMENT"))
        ),
    ),
}
for _database, _statements in _AUDIT_TRIGGERS.items():
    for _statement in _statements:
        listen(AUDIT, "after_create", DDL(_statement).execute_if(dialect=_database))  # type: ignore[no-untyped-call]

# Notes on replies, by the place of the reply in its evaluation, which never changes.
EVALUATION_NOTES: Final = Table(
    "evaluation_notes",
    TABLES,
    Column("evaluation", PLAIN, primary_key=True),
    Column("place", Integer, primary_key=True, autoincrement=False),
    Column("text", Text, nullable=False),
    Column("author", Text, nullable=False),
    Column("changed", PLAIN, nullable=False),
)

# ── Studies ───────────────────────────────────────────────────────────────────────────────────────────────────────────

STUDY_STATES: Final = ("draft", "pilot", "open", "paused", "closed")
TASK_STATES: Final = ("reserved", "started", "done", "skipped", "expired", "withdrawn")

STUDIES: Final = Table(
    "studies",
    TABLES,
    Column("id", PLAIN, primary_key=True),  # rises with the time of creation
    Column("name", PLAIN, nullable=False),
    Column("kind", Text, nullable=False),
    Column("state", Text, nullable=False, info=_one_of(STUDY_STATES)),
    Column("protocol", Text, nullable=False, info=_JSON),  # JSON with sorted keys
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
    TABLES,
    Column("study", PLAIN, ForeignKey("studies.id", ondelete="CASCADE"), primary_key=True),
    Column("number", Integer, primary_key=True, autoincrement=False),
    Column("sha256", Text, nullable=False),
    Column("protocol", Text, nullable=False, info=_JSON),  # JSON
    Column("at", PLAIN, nullable=False),
    Column("actor", Text, nullable=False),
    Column("reason", Text, nullable=False),
)

STUDY_BOTS: Final = Table(
    "study_bots",
    TABLES,
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
    TABLES,
    Column("study", PLAIN, ForeignKey("studies.id", ondelete="CASCADE"), primary_key=True),
    Column("unit", PLAIN, primary_key=True),
    Column("position", Integer, nullable=False),
    Column("shuffled", Integer, nullable=False),  # the order in which units are given out
    Column("content", Text, nullable=False, info=_JSON),  # JSON
    Column("load", Integer, nullable=False, server_default="0"),  # tasks that are done or reserved
)
Index("ix_study_items_load", STUDY_ITEMS.c.study, STUDY_ITEMS.c.load, STUDY_ITEMS.c.shuffled)

STUDY_INVITES: Final = Table(
    "study_invites",
    TABLES,
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
    TABLES,
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
    Column("screening", Text, info=_JSON),  # JSON
    Column("training", Text, info=_JSON),  # JSON
    Column("square_row", Integer),
    Column("plan", Text, info=_JSON),  # JSON: the slots of the planned tasks
    Column("sequence", Text, info=_JSON),  # JSON: the checks at each position
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
    TABLES,
    Column("hash", PLAIN, primary_key=True),  # of the cookie
    Column("participant", PLAIN, ForeignKey("study_participants.id", ondelete="CASCADE"), nullable=False),
    Column("created", PLAIN, nullable=False),
)
Index("ix_study_sessions_participant", STUDY_SESSIONS.c.participant)

# Links by which a participant goes on elsewhere; each was shown once.
STUDY_RESUME_LINKS: Final = Table(
    "study_resume_links",
    TABLES,
    Column("hash", PLAIN, primary_key=True),  # of the token
    Column("participant", PLAIN, ForeignKey("study_participants.id", ondelete="CASCADE"), nullable=False),
    Column("created", PLAIN, nullable=False),
)
Index("ix_study_resume_links_participant", STUDY_RESUME_LINKS.c.participant)

STUDY_TASKS: Final = Table(
    "study_tasks",
    TABLES,
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
    Column("state", Text, nullable=False, info=_one_of(TASK_STATES)),
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
    TABLES,
    Column("task", PLAIN, ForeignKey("study_tasks.id", ondelete="CASCADE"), primary_key=True),
    Column("side", PLAIN, primary_key=True),
    Column("n", Integer, primary_key=True, autoincrement=False),
    Column("role", Text, nullable=False),
    Column("state", Text, nullable=False),  # asked, answered, failed
    Column("text", Text),
    Column("vote", Integer),
    Column("problem", Text),
    Column("ms", Float),
    Column("tries", Integer, nullable=False, server_default="0"),
    Column("holder", Text),  # the process that asks the bot
    Column("names_bot", Boolean, nullable=False, server_default=false()),
    Column("at", PLAIN, nullable=False),
    Column("checksum", Text),  # refaug.service.database.row_seals
)

# Turn 0 stands for the whole side, and side "" for the whole task.
STUDY_ANSWERS: Final = Table(
    "study_answers",
    TABLES,
    Column("task", PLAIN, ForeignKey("study_tasks.id", ondelete="CASCADE"), primary_key=True),
    Column("side", PLAIN, primary_key=True),
    Column("turn", Integer, primary_key=True, autoincrement=False),
    Column("question", PLAIN, primary_key=True),
    Column("answer", Text, nullable=False, info=_JSON),  # JSON
    Column("at", PLAIN, nullable=False),
    Column("checksum", Text),  # refaug.service.database.row_seals
)

# What a participant's page has done, by the id that the page made: the same id again gets the same answer.
STUDY_ACTIONS: Final = Table(
    "study_actions",
    TABLES,
    Column("participant", PLAIN, ForeignKey("study_participants.id", ondelete="CASCADE"), primary_key=True),
    Column("action", PLAIN, primary_key=True),
    Column("number", Integer, nullable=False),  # within the participant's actions, from 1
    Column("kind", Text, nullable=False),
    Column("task", PLAIN),
    Column("body_sha256", Text, nullable=False),
    Column("answer", Text, nullable=False, info=_JSON),  # JSON
    Column("undo", Text, info=_JSON),  # JSON: what was there before; null where it cannot be undone
    Column("at", PLAIN, nullable=False),
    UniqueConstraint("participant", "number", name="uq_study_actions_number"),
)

# What counts where participants disagree, as an operator has decided it.
STUDY_ADJUDICATIONS: Final = Table(
    "study_adjudications",
    TABLES,
    Column("study", PLAIN, ForeignKey("studies.id", ondelete="CASCADE"), primary_key=True),
    Column("item", PLAIN, primary_key=True),
    Column("question", PLAIN, primary_key=True),
    Column("answer", Text, nullable=False, info=_JSON),  # JSON
    Column("note", Text, nullable=False),
    Column("actor", Text, nullable=False),
    Column("at", PLAIN, nullable=False),
)

check_cells(TABLES)
