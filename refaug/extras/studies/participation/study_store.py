"""Studies in the database: made as drafts, checked and frozen when they open, amended with both hashes kept."""

from __future__ import annotations

import hashlib
import hmac
import random
import secrets
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime
from typing import Any, Final, Self

import orjson
from sqlalchemy import Connection, Row, bindparam, delete, func, insert, select, update
from sqlalchemy.exc import IntegrityError

from refaug.bots.stored.specification import StoredBot
from refaug.core.errors import BadInput, Conflict, NotFound
from refaug.core.files import require_name
from refaug.core.memory import BoundedCache
from refaug.core.options.decoding import made_of
from refaug.core.processes.kept import cached_property
from refaug.extras.studies.assignment import PlannedTask
from refaug.extras.studies.participation.tables import (
    STUDIES,
    STUDY_BOTS,
    STUDY_ITEMS,
    STUDY_PARTICIPANTS,
    STUDY_PROTOCOLS,
)
from refaug.extras.studies.protocol.study_items import StudyUnit, items_sha256, units_of
from refaug.extras.studies.protocol.study_protocol import GAP, StudyProtocol, is_chat
from refaug.service.audit import add_row
from refaug.service.bots.bot_store import BotStore
from refaug.service.database.database import Database, time_text
from refaug.service.database.row_ids import new_row_id

# ── Rows of studies as values: a study with its protocol, a participant in it, and what both databases need of texts ──

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
        return made_of(cls, row, protocol=stored_protocol(row.protocol_sha256, row.protocol))

    def facts(self) -> dict[str, object]:
        """Return what commands and answers say of it."""
        facts = {name: getattr(self, name) for name in ("state", "protocol_sha256", "created", "opened", "closed")}
        return {"id": self.id, "name": self.name, "kind": self.protocol.kind.value, **facts}

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


# ── Studies in the database: made as drafts, checked and frozen when they open, amended with both hashes kept ─────────

MOST_STUDIES: Final = 1_000
_ROWS_AT_ONCE: Final = 1_000
_MOST_REASON: Final = 2_000
# Which states an act leads to, by the states that it is possible in.
ACTS: Final[Mapping[str, tuple[str, tuple[str, ...]]]] = {
    "pilot": ("pilot", ("draft", "paused")),
    "open": ("open", ("draft", "pilot", "paused")),
    "pause": ("paused", ("pilot", "open")),
    "close": ("closed", ("pilot", "open", "paused")),
}


class StudyStore:
    """The studies of a home."""

    def __init__(self, database: Database, bots: BotStore) -> None:
        self._database, self._bots = database, bots

    def create(
        self,
        name: str,
        protocol: Mapping[str, Any],
        items: Iterable[Any] = (),
        *,
        actor: str,
        request: str | None = None,
    ) -> StoredStudy:
        """Store a new draft; BadInput names what is wrong with the protocol, its bots or an item."""
        require_name("study", name)
        checked = StudyProtocol.of(storable_json(protocol))
        self._slots(checked, actor=actor)
        units = _checked_units(checked, items)
        row = {
            "id": new_row_id(),
            "name": name,
            "kind": checked.kind.value,
            "state": "draft",
            "protocol": checked.content.decode(),
            "protocol_sha256": checked.sha256,
            "secret": secrets.token_hex(32),
            "created": time_text(),
        }
        try:
            with self._database.writing() as connection:
                if connection.execute(select(func.count()).select_from(STUDIES)).scalar_one() >= MOST_STUDIES:
                    raise Conflict(f"there are {MOST_STUDIES:,} studies already", remedy="export and remove some")
                connection.execute(insert(STUDIES).values(row))
                _add_units(connection, row["id"], units, seed=checked["seed"])
                facts = {"kind": row["kind"], "sha256": checked.sha256, "units": len(units)}
                add_row(connection, actor, "create", f"study {name}", request=request, **facts)
        except IntegrityError:
            raise Conflict(f"there is a study {name} already", remedy="another name") from None
        return self.get(row["id"])

    def all(self) -> Sequence[StoredStudy]:
        """Return the studies, newest first."""
        with self._database.reading() as connection:
            return [StoredStudy.of(row) for row in connection.execute(select(STUDIES).order_by(STUDIES.c.id.desc()))]

    def get(self, id_or_name: str) -> StoredStudy:
        """Return the study of this id or name."""
        with self._database.reading() as connection:
            return StoredStudy.of(_found(connection, id_or_name))

    def amend(
        self, study: StoredStudy, protocol: Mapping[str, Any], *, reason: str, actor: str, request: str | None = None
    ) -> StoredStudy:
        """Replace the protocol: of a draft at once, of an open study as an amendment with a reason.

        The tasks that were given out keep the hash that they were given out under, and both are reported.
        """
        if study.state == "closed":
            raise Conflict(f"study {study.name} is closed", remedy="a new study")
        changed = StudyProtocol.of(storable_json(protocol))
        if changed.kind is not study.protocol.kind:
            raise Conflict(f"study {study.name} is of kind {study.protocol.kind}", remedy="a new study")
        if study.state != "draft" and not reason.strip():
            raise BadInput("reason: an amendment needs one", remedy="why, in a sentence; it is reported")
        slots = self._slots(changed, actor=actor)
        with self._database.writing() as connection:
            row = _found(connection, study.id, locks=True)
            if row.protocol_sha256 != study.protocol_sha256 or row.state != study.state:
                raise Conflict(f"study {study.name} was changed meanwhile", remedy="read it again")
            if study.state != "draft":
                if changed["per_participant"] != study.protocol["per_participant"]:
                    raise Conflict("per_participant: participants have their plans already", remedy="a new study")
                _require_texts(study.name, changed)
                changed = _freeze(connection, study, changed, slots)
                _record_protocol(connection, study, changed, actor, reason.strip()[:_MOST_REASON])
            values = {"protocol": changed.content.decode(), "protocol_sha256": changed.sha256}
            connection.execute(update(STUDIES).where(STUDIES.c.id == study.id).values(values))
            facts = {"before": study.protocol_sha256, "sha256": changed.sha256, "state": study.state}
            add_row(connection, actor, "amend", f"study {study.name}", request=request, **facts)
        return self.get(study.id)

    def act(self, study: StoredStudy, act: str, *, actor: str, request: str | None = None) -> StoredStudy:
        """Begin the pilot, open, pause or close a study; a second time changes nothing."""
        state, before = ACTS[act]
        slots = self._slots(study.protocol, actor=actor) if act in ("pilot", "open") else []
        with self._database.writing() as connection:
            row = _found(connection, study.id, locks=True)
            current = StoredStudy.of(row)
            if current.state == state:
                return current
            if current.state not in before:
                raise Conflict(
                    f"study {study.name} is {current.state}", remedy=f"to {act} it, it has to be {' or '.join(before)}"
                )
            was_open = _was_open(connection, study.id)
            if act == "pilot" and was_open:
                raise Conflict(
                    f"study {study.name} was open: what its participants do counts",
                    remedy="open it again, or make another study for a pilot",
                )
            values: dict[str, object] = {"state": state}
            if act in ("pilot", "open"):
                frozen = _ready(connection, current, slots, actor)
                values |= {"protocol": frozen.content.decode(), "protocol_sha256": frozen.sha256}
                values["opened"] = current.opened or time_text()
            if act == "open" and not was_open:
                connection.execute(update(STUDY_ITEMS).where(STUDY_ITEMS.c.study == study.id).values(load=0))
            if act == "close":
                values["closed"] = time_text()
            connection.execute(update(STUDIES).where(STUDIES.c.id == study.id).values(values))
            add_row(connection, actor, act, f"study {study.name}", request=request, before=current.state)
        return self.get(study.id)

    def delete(self, study: StoredStudy, *, actor: str, request: str | None = None) -> None:
        """Remove a draft or a closed study with everything that it has; Conflict for others."""
        if study.state not in ("draft", "closed"):
            raise Conflict(f"study {study.name} is {study.state}", remedy="close it first")
        with self._database.writing() as connection:
            connection.execute(delete(STUDIES).where(STUDIES.c.id == study.id))
            add_row(connection, actor, "delete", f"study {study.name}", request=request, state=study.state)

    def add_items(self, study: StoredStudy, items: Iterable[Any], *, actor: str, request: str | None = None) -> int:
        """Add items to a draft, and return how many tasks these are."""
        if study.state != "draft":
            raise Conflict(
                f"study {study.name} is {study.state}", remedy="items are part of what is frozen: a new study"
            )
        units = _checked_units(study.protocol, items)
        try:
            with self._database.writing() as connection:
                _add_units(connection, study.id, units, seed=study.protocol["seed"])
                add_row(connection, actor, "add items", f"study {study.name}", request=request, units=len(units))
        except IntegrityError:
            raise Conflict("one of the items is there already", remedy="an id of its own for each item") from None
        return len(units)

    def amendments(self, study: StoredStudy) -> list[dict[str, object]]:
        """Return every protocol that the study has had since it opened, oldest first."""
        columns = STUDY_PROTOCOLS.c
        query = select(columns.sha256, columns.at, columns.actor, columns.reason).where(columns.study == study.id)
        with self._database.reading() as connection:
            return [dict(row) for row in connection.execute(query.order_by(columns.number)).mappings()]

    def _slots(self, protocol: StudyProtocol, *, actor: str) -> list[tuple[StoredBot, bool]]:
        """Return the bots of a protocol, the degraded one last; two of one hash are refused."""
        if not is_chat(protocol.kind):
            return []
        bots = [self._bots.get(name) for name in protocol.bots]
        seen = dict[str, str]()
        for bot in bots:
            if bot.sha256 in seen:
                raise BadInput(
                    f"protocol, bots: {bot.name} and {seen[bot.sha256]} are the same: both are {bot.sha256[:12]}",
                    remedy="one of them, or another specification",
                )
            seen[bot.sha256] = bot.name
        degraded = protocol["checks"]["degraded"]
        slots = [(bot, False) for bot in bots]
        if degraded:
            slots.append((_degraded(self._bots, degraded, bots[0], actor), True))
        return slots


def _degraded(bots: BotStore, named: object, first: StoredBot, actor: str) -> StoredBot:
    """Return the degraded bot: the named one, or make it of the first bot."""
    if isinstance(named, str):
        bot = bots.get(named)
        if bot.kind != "degraded":
            raise BadInput(
                f"protocol, checks, degraded: bot {named} is of kind {bot.kind}", remedy="one of kind degraded"
            )
        return bot
    name = f"{first.name[:54]}-degraded"
    fields = {"kind": "degraded", "bot": {**first.fields, "name": first.name}, "share": 0.5, "pool": list(_POOL)}
    return bots.put(name, fields, actor=actor).bot


# The words of a degraded bot come from these texts unless others are given.
_POOL: Final = (
    "the second bus leaves from the other side of the road", "you have to stir it until it is thick",
    "my neighbour paints the fence every spring", "there are seven of them, and one is broken",
    "please put the ladder back behind the shed", "the meeting was moved to the small room upstairs",
    "it rains more in the west than people think", "she sold the blue one and kept the bicycle",
)  # fmt: skip


def _found(connection: Connection, id_or_name: str, *, locks: bool = False) -> Row[Any]:
    query = select(STUDIES).where((STUDIES.c.id == id_or_name) | (STUDIES.c.name == id_or_name))
    rows = connection.execute(query.with_for_update() if locks else query).all() if _is_word(id_or_name) else []
    row = next((row for row in rows if row.id == id_or_name), rows[0] if rows else None)
    if row is None:
        raise NotFound(f"there is no study {id_or_name[:64]!r}", remedy="refaug studies list")
    return row


def _is_word(text: str) -> bool:
    return text.isascii() and text.isprintable() and bool(text)


def _checked_units(protocol: StudyProtocol, items: Iterable[Any]) -> list[StudyUnit]:
    listed = list(items)
    if is_chat(protocol.kind):
        if listed:
            raise BadInput(f"items: a study of kind {protocol.kind} has none", remedy="leave them out")
        return []
    return units_of(protocol.kind, storable_json(listed))


def _add_units(connection: Connection, study: str, units: Sequence[StudyUnit], *, seed: int) -> None:
    if not units:
        return
    query = select(func.count()).where(STUDY_ITEMS.c.study == study)
    begin = int(connection.execute(query).scalar_one())
    order = list(range(begin, begin + len(units)))
    random.Random(f"items {seed} {begin}").shuffle(order)  # noqa: S311  an order, no secret
    rows = [
        {
            "study": study,
            "unit": unit.id,
            "position": begin + place,
            "shuffled": order[place],
            "content": json_text(asdict(unit)),
        }
        for place, unit in enumerate(units)
    ]
    for start in range(0, len(rows), _ROWS_AT_ONCE):
        connection.execute(insert(STUDY_ITEMS), rows[start : start + _ROWS_AT_ONCE])


def _require_texts(study: str, protocol: StudyProtocol) -> None:
    """Refuse to show participants no consent, or a text with a gap that its author was to fill in."""
    if not protocol["consent"]:
        raise Conflict(
            f"study {study} has no text of consent", remedy='"consent" in its protocol: what people agree to'
        )
    for name, text in protocol.texts():
        line = next((line.strip() for line in text.splitlines() if GAP in line), None)
        if line is not None:
            raise Conflict(
                f"study {study}: its {name} has a gap: {line[:100]!r}",
                remedy=f"replace {GAP} by the text of your study",
            )


def _ready(
    connection: Connection, study: StoredStudy, slots: Sequence[tuple[StoredBot, bool]], actor: str
) -> StudyProtocol:
    """Return the protocol as it is frozen; Conflict where something is missing that a study cannot begin without."""
    _require_texts(study.name, study.protocol)
    frozen = _freeze(connection, study, study.protocol, slots)
    if frozen.sha256 != study.protocol_sha256 or study.opened is None:
        _record_protocol(connection, study, frozen, actor, "opened" if study.opened is None else "opened again")
    return frozen


def _freeze(
    connection: Connection, study: StoredStudy, protocol: StudyProtocol, slots: Sequence[tuple[StoredBot, bool]]
) -> StudyProtocol:
    """Write the slots of a study and return the protocol with all hashes."""
    if is_chat(protocol.kind):
        _write_chat_slots(connection, study, protocol, slots)
        return protocol.frozen({bot.name: bot.sha256 for bot, _ in slots}, None)
    units = _stored_units(connection, study.id)
    if not units:
        raise Conflict(f"study {study.name} has no items", remedy="give it some: refaug studies new --items FILE")
    systems = sorted({system for unit in units for system in unit.systems})
    connection.execute(delete(STUDY_BOTS).where(STUDY_BOTS.c.study == study.id))
    rows = [{"study": study.id, "slot": slot, "bot": system} for slot, system in enumerate(systems)]
    connection.execute(insert(STUDY_BOTS), rows)
    return protocol.frozen({}, items_sha256(units))


def _write_chat_slots(
    connection: Connection, study: StoredStudy, protocol: StudyProtocol, slots: Sequence[tuple[StoredBot, bool]]
) -> None:
    """Add a slot for each bot that has none; a changed bot gets another slot, and the old one takes no more tasks."""
    columns = STUDY_BOTS.c
    rows = connection.execute(select(STUDY_BOTS).where(columns.study == study.id).order_by(columns.slot)).all()
    slots_by_bot = {(row.bot, row.spec_sha256): row.slot for row in rows}
    keys = {(bot.name, bot.sha256) for bot, _ in slots}
    if study.state not in ("draft", "pilot") and any(key not in slots_by_bot for key in keys):
        raise Conflict(
            "another bot, or a changed one, cannot join: participants have their plans already",
            remedy="put the old specification back, or make a new study",
        )
    for key, slot in slots_by_bot.items():
        if key not in keys:
            connection.execute(
                update(STUDY_BOTS).where(columns.study == study.id, columns.slot == slot).values(target=0)
            )
    for bot, is_degraded in slots:
        target = None if is_degraded else protocol["target"]
        key = (bot.name, bot.sha256)
        if key in slots_by_bot:
            mine = (columns.study == study.id, columns.slot == slots_by_bot[key])
            connection.execute(update(STUDY_BOTS).where(*mine).values(target=target))
            continue
        row = {
            "study": study.id,
            "slot": 1 + max(slots_by_bot.values(), default=-1),
            "bot": bot.name,
            "spec_sha256": bot.sha256,
            "target": target,
            "is_degraded": is_degraded,
        }
        slots_by_bot[key] = row["slot"]
        connection.execute(insert(STUDY_BOTS).values(row))


def _stored_units(connection: Connection, study: str) -> list[StudyUnit]:
    columns = STUDY_ITEMS.c
    query = select(columns.content).where(columns.study == study).order_by(columns.position)
    units = []
    for content in connection.execute(query).scalars():
        unit = orjson.loads(content)
        units.append(
            StudyUnit(id=unit["id"], item=unit["item"], systems=tuple(unit["systems"]), payload=unit["payload"])
        )
    return units


def _was_open(connection: Connection, study: str) -> bool:
    """Return whether people came while the study was open: from then on what they do counts, and no pilot follows."""
    columns = STUDY_PARTICIPANTS.c
    query = select(columns.id).where(columns.study == study, columns.is_pilot.is_(False)).limit(1)
    return connection.execute(query).first() is not None


def shows_pilot(database: Database, study: StoredStudy) -> bool:
    """Return whether figures of the study are those of its pilot: while that runs, pauses, or was its end."""
    if study.state in ("pilot", "open"):
        return study.is_pilot
    with database.reading() as connection:
        return not _was_open(connection, study.id)


def _record_protocol(
    connection: Connection, study: StoredStudy, protocol: StudyProtocol, actor: str, reason: str
) -> None:
    columns = STUDY_PROTOCOLS.c
    query = select(func.coalesce(func.max(columns.number), 0)).where(columns.study == study.id)
    row = {
        "study": study.id,
        "number": 1 + int(connection.execute(query).scalar_one()),
        "sha256": protocol.sha256,
        "protocol": protocol.content.decode(),
        "at": time_text(),
        "actor": actor,
        "reason": reason,
    }
    connection.execute(insert(STUDY_PROTOCOLS).values(row))
