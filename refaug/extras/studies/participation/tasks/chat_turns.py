"""Messages of a chat: stored before the bot is asked, so that a reply that was being made is asked for again.

A message of a bot is `asked` until its reply is stored, by whichever process comes first; a reply arrives once. What is
stored stays: where no bot has a reply, the next message has the other words, and bots do not see what they had no reply
to.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from sqlalchemy import Connection, Row, bindparam, insert, select, update

from refaug.core.errors import BadInput, Conflict
from refaug.extras.studies.participation.study_store import Attendance, storable
from refaug.extras.studies.participation.tables import STUDY_BOTS, STUDY_MESSAGES, STUDY_TASKS
from refaug.extras.studies.protocol.study_protocol import side_names
from refaug.service.database.database import Database, time_text
from refaug.service.database.row_seals import checked_rows, sealed

# Names by which replies give away what they come from; the names of the study's own bots are added.
VENDOR_NAMES: Final = (
    "chatgpt", "gpt-3", "gpt-4", "gpt-5", "openai", "anthropic", "claude", "gemini", "google deepmind", "llama",
    "mistral", "qwen", "deepseek", "copilot", "alexa", "siri", "cleverbot", "blenderbot", "dialogpt",
    "large language model",
)  # fmt: skip
_SHORTEST_NAME: Final = 3
_UNANSWERED: Final = "unanswered"  # the state of a reply that its bot does not have; to other words it may have one
# Reasons that lie in the message, unless they come for so many different messages in a row.
_OF_THE_MESSAGE: Final = frozenset({"no_known_word", "nothing_retrieved", "nothing_generated"})
_MOST_UNANSWERED: Final = 3
_MOST_WRITTEN: Final = 8  # messages of both for each turn, where the same words come again and again without a reply
_OF_TASK: Final = select(STUDY_MESSAGES).where(STUDY_MESSAGES.c.task == bindparam("task"))
_MESSAGES: Final = _OF_TASK.order_by(STUDY_MESSAGES.c.n)
_ASKED: Final = _OF_TASK.where(STUDY_MESSAGES.c.state == "asked")
_TASK: Final = select(STUDY_TASKS).where(STUDY_TASKS.c.id == bindparam("task"))
_BOT: Final = select(STUDY_BOTS).where(STUDY_BOTS.c.study == bindparam("study"), STUDY_BOTS.c.slot == bindparam("slot"))


@dataclass(frozen=True, kw_only=True)
class AskedTurn:
    """A reply that is to be made: which bot is asked, and what was said so far."""

    task: str
    side: str
    n: int
    bot: str
    bot_sha256: str
    turns: tuple[str, ...] = field(repr=False)
    seed: int

    @property
    def request_id(self) -> str:
        """The id of the request to the bot: the same when it is asked again."""
        return f"{self.task}-{self.side}-{self.n}"


def side_slots(protocol_sides: Sequence[str], task: Row[Any]) -> dict[str, int]:
    """Return the slot behind each side of a task."""
    if len(protocol_sides) == 1:
        return {protocol_sides[0]: task.slot_a}
    right = task.slot_b if task.left_slot == task.slot_a else task.slot_a
    return {"left": task.left_slot, "right": right}


def messages_of(connection: Connection, task: str) -> dict[str, list[Row[Any]]]:
    """Return the messages of a task by side, in their order."""
    sides = dict[str, list[Row[Any]]]()
    for row in checked_rows(STUDY_MESSAGES, connection.execute(_MESSAGES, {"task": task})):
        sides.setdefault(row.side, []).append(row)
    return sides


def add_message(
    connection: Connection, attending: Attendance, task: Row[Any], n: int, text: str, *, holder: str = ""
) -> list[str]:
    """Store a participant's message and ask the bot of each side for a reply; Conflict where it is not their turn."""
    protocol = attending.protocol
    most = protocol["max_message_chars"]
    if not text.strip():
        raise BadInput("text: the message is blank", remedy="write something")
    if len(text) > most:
        raise BadInput(f"text: {len(text):,} characters are too many for one message", remedy=f"at most {most:,}")
    sides, stored = side_names(protocol.kind), messages_of(connection, task.id)
    _require_turn(list(stored.values()), n)
    if turns_done(stored) >= protocol["max_turns"] or n > _MOST_WRITTEN * protocol["max_turns"]:
        raise Conflict(
            f"a chat has at most {protocol['max_turns']} messages of yours", remedy="answer the questions now"
        )
    at = time_text(attending.now)
    base = {"task": task.id, "at": at, "tries": 0, "holder": None}
    message = {**base, "n": n, "role": "participant", "state": "answered", "text": storable(text)}
    reply = {**base, "n": n + 1, "role": "bot", "state": "asked", "text": None, "tries": 1, "holder": holder or None}
    rows = [sealed(STUDY_MESSAGES, {**row, "side": side}) for side in sides for row in (message, reply)]
    connection.execute(insert(STUDY_MESSAGES), rows)
    return list(sides)


def turns_done(messages: Mapping[str, Sequence[Row[Any]]]) -> int:
    """Return how many messages of the participant count: those to which some bot has a reply, or is being asked."""
    replies = (row for rows in messages.values() for row in rows if row.role == "bot" and row.n > 1)
    return len({row.n for row in replies if row.state in ("asked", "answered")})


def _require_turn(sides: Sequence[Sequence[Row[Any]]], n: int) -> None:
    newest = [messages[-1] for messages in sides]
    if any(message.state == "asked" for message in newest):
        raise Conflict("a reply is being made", remedy="wait for it")
    if any(message.state == "failed" for message in newest):
        raise Conflict("the last message has no reply", remedy="ask for it again, or go on to another chat")
    expected = 1 + max((message.n for message in newest), default=0)
    if n != expected:
        raise Conflict(
            f"message {expected} comes next, not {n}", remedy="this chat went on elsewhere: load the page again"
        )


def ask_failed_again(connection: Connection, task: Row[Any]) -> int:
    """Let the failed replies of a task be asked for again, and return how many there are."""
    columns = STUDY_MESSAGES.c
    failed = update(STUDY_MESSAGES).where(columns.task == task.id, columns.state == "failed")
    return connection.execute(failed.values(state="asked", problem=None, holder=None)).rowcount


def is_asking(connection: Connection, task: str) -> bool:
    """Return whether a reply of a task is being made."""
    return connection.execute(_ASKED, {"task": task}).first() is not None


def claim_turns(database: Database, task: str, holder: str, is_live: Callable[[str], bool]) -> list[AskedTurn]:
    """Return the replies of a task that this process is to ask for: its own, and those of processes that have died."""
    columns = STUDY_MESSAGES.c
    of_task = {"task": task}
    with database.reading() as connection:
        rows = connection.execute(_ASKED, of_task).all()
        turns = [_asked_turn(connection, row) for row in rows if row.holder == holder]
    if not any(_is_free(row, holder, is_live) for row in rows):
        return turns
    with database.writing() as connection:
        for row in connection.execute(_ASKED.with_for_update(), of_task).all():
            if _is_free(row, holder, is_live):
                mine = (columns.task == task, columns.side == row.side, columns.n == row.n)
                values = {"holder": holder, "tries": row.tries + 1}
                connection.execute(update(STUDY_MESSAGES).where(*mine).values(values))
                turns.append(_asked_turn(connection, row))
    return turns


def _is_free(row: Row[Any], holder: str, is_live: Callable[[str], bool]) -> bool:
    """Return whether no living process asks for a reply."""
    return row.holder != holder and (row.holder is None or not is_live(row.holder))


def _asked_turn(connection: Connection, row: Row[Any]) -> AskedTurn:
    task = connection.execute(_TASK, {"task": row.task}).one()
    kind_sides = ("one",) if row.side == "one" else ("left", "right")
    slot = side_slots(kind_sides, task)[row.side]
    bot = connection.execute(_BOT, {"study": task.study, "slot": slot}).one()
    before = [message for message in messages_of(connection, row.task).get(row.side, []) if message.n < row.n]
    unanswered = {message.n for message in before if message.state == _UNANSWERED}
    return AskedTurn(
        task=row.task,
        side=row.side,
        n=row.n,
        bot=bot.bot,
        bot_sha256=bot.spec_sha256 or "",
        turns=tuple(message.text or "" for message in before if not {message.n, message.n + 1} & unanswered),
        seed=task.seed,
    )


def store_reply(
    database: Database, turn: AskedTurn, *, text: str | None, problem: str = "", ms: float | None = None
) -> bool:
    """Store what a bot has replied, once; without a text the reply has failed, which is counted for the bot.

    Where it has no reply to what was said, it works, and nothing is counted, until it has none several times in a row.
    """
    columns = STUDY_MESSAGES.c
    place = (columns.task == turn.task, columns.side == turn.side, columns.n == turn.n, columns.state == "asked")
    values: dict[str, object] = {"holder": None, "ms": ms, "at": time_text()}
    if text is None:
        values |= {"state": "failed", "problem": problem[:200] or "no_reply"}
    else:
        told = {"task": turn.task, "side": turn.side, "n": turn.n, "role": "bot", "text": storable(text)}
        checksum = sealed(STUDY_MESSAGES, told)["checksum"]
        values |= {"state": "answered", "text": told["text"], "checksum": checksum}
        values |= {"names_bot": names_bot(text, turn.bot)}
    with database.writing() as connection:
        if text is None and _is_unanswered(connection, turn, problem):
            values["state"] = _UNANSWERED
        if not connection.execute(update(STUDY_MESSAGES).where(*place).values(values)).rowcount:
            return False  # another process was quicker, or the participant has withdrawn
        task = connection.execute(select(STUDY_TASKS.c.study).where(STUDY_TASKS.c.id == turn.task)).one()
        bots = STUDY_BOTS.c
        mine = (bots.study == task.study, bots.bot == turn.bot, bots.spec_sha256 == turn.bot_sha256)
        if values["state"] == "failed":
            counted = {"failures": bots.failures + 1, "failed_at": time_text()}
            connection.execute(update(STUDY_BOTS).where(*mine).values(counted))
        elif values["state"] == "answered":
            connection.execute(update(STUDY_BOTS).where(*mine, bots.failed_at.is_not(None)).values(failed_at=None))
    return True


def _is_unanswered(connection: Connection, turn: AskedTurn, problem: str) -> bool:
    """Return whether a bot that works has no reply to a message: it has not failed to reply to several in a row."""
    if problem not in _OF_THE_MESSAGE or not turn.turns:
        return False
    messages_said = set[str]()
    for message in reversed(messages_of(connection, turn.task).get(turn.side, [])):
        if message.role == "participant":
            messages_said.add((message.text or "").strip().casefold())
        elif message.n < turn.n and message.state != _UNANSWERED:
            break
    return len(messages_said) < _MOST_UNANSWERED


def names_bot(text: str, bot: str) -> bool:
    """Return whether a reply names its bot, or a product or maker of bots."""
    names = [*VENDOR_NAMES, *([bot] if len(bot) >= _SHORTEST_NAME else [])]
    return any(re.search(rf"(?<!\w){re.escape(name)}(?!\w)", text, re.IGNORECASE) for name in names)
