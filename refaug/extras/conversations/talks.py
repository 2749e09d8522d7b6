"""The conversations of a file as commands and jobs take them: those that can be used, and a message for each other."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any, Final

from refaug.core.errors import BadInput, MissingField
from refaug.core.home import Settings
from refaug.core.progress import Progress
from refaug.core.text.messages import suggestion
from refaug.extras.conversations.metrics.exchanges import Side
from refaug.extras.conversations.options import (
    KNOWN_COLUMNS,
    RATING,
    ConversationColumns,
    ConversationSource,
)
from refaug.extras.conversations.reading import (
    BadConversation,
    Conversation,
    read_conversations,
    side_of,
    usable_conversation,
)
from refaug.extras.conversations.selfplay.stored import open_self_play
from refaug.logs.reading.sources import BadRow
from refaug.scoring.item_files import InputFile
from refaug.tables.cells import BadCell, is_empty, listed, number, plain_text, shown
from refaug.tables.columns import folded, listed_names
from refaug.tables.files import OpenTable
from refaug.tables.table_items import is_items_file, open_table
from refaug.tables.table_notes import TableNotes
from refaug.tables.table_request import TableRequest

# ── Conversations of self-play, as those of people are read ───────────────────────────────────────────────────────────


def played_conversations(settings: Settings, spec: str, progress: Progress) -> list[Conversation]:
    """Return the conversations of a self-play, by name or name@version, that have two turns at least.

    A bot that talks to itself says every turn; a partner stands for the person.
    """
    talks, short = list[Conversation](), 0
    with open_self_play(settings, spec) as played:
        progress.stage("reading", unit="conversations")
        partner = played.manifest["partner"] is not None
        for stored in played.conversations():
            progress.advance(1)
            if len(stored.replies) < 2:
                short += 1
                continue
            turns = tuple(
                (Side.PERSON if partner and place % 2 else Side.BOT, text) for place, text in enumerate(stored.replies)
            )
            talks.append(Conversation(id=stored.id, bot=stored.bot, turns=turns, is_played=True, start=stored.start))
    if short:
        progress.warn(f"{spec}: {short:,} conversations ended before the second turn, and are left out")
    if not talks:
        raise BadInput(f"{spec} has no conversation of two turns", remedy="refaug bots play … --start log:NAME")
    return talks


# ── Read conversations from tables: CSV, TSV, JSON arrays, Parquet, Arrow and saved data sets ─────────────────────────

_MOST_ROWS: Final = 1_000_000
_MOST_CHARACTERS: Final = 512 << 20
_RATED: Final = "rating of "
_OF_REPLIES: Final = "participant of replies"


def conversations_in(
    path: Path,
    where: str,
    columns: ConversationColumns,
    *,
    bot: str | None = None,
    warn: Callable[[str], None] | None = None,
) -> Iterator[Conversation | BadConversation]:
    """Yield the conversations of a file of any kind, and in its place each line or row that holds none.

    `warn` is told which columns of a table are not used.
    """
    request = TableRequest(encoding=columns.encoding)
    if not columns.columns and columns.scale is None and is_items_file(path, request):
        yield from read_conversations(path, bot=bot)
        return
    notes = TableNotes(on_warning=warn)
    table = open_table(path, where, request, notes)
    used = _used_columns(table, columns, where)
    unused = [column for column in table.columns if column not in used.values()]
    notes.name_unused(unused, lambda column: f"; if it holds ratings: --map {RATING}:QUESTION={column}")
    rows = table.rows(list(dict.fromkeys(used.values())))
    fields = _turn_rows(rows, used, table, where) if "text" in used else _whole_rows(rows, used, table)
    lines_of = dict[str, int]()
    for row in fields:
        if isinstance(row, BadRow):
            yield BadConversation(row.line, "", row.message)
            continue
        line, values = row
        if columns.scale is not None:
            values["scale"] = list(columns.scale)
        yield usable_conversation(values, line, lines_of, bot=bot)


def _used_columns(table: OpenTable, named: ConversationColumns, where: str) -> dict[str, str]:
    """Return the column of each field; MissingField where there are no turns."""
    if wrong := next((column for column in named.columns.values() if column not in table.columns), None):
        raise MissingField(
            f"{where} has no column {wrong!r}{suggestion(wrong, table.columns)}",
            remedy=f"its columns are: {listed_names(table.columns)}",
        )
    used = dict(named.columns)
    by_name = {folded(column): column for column in reversed(table.columns)}
    for field, names in KNOWN_COLUMNS.items():
        column = next((by_name[folded(name)] for name in names if folded(name) in by_name), None)
        if field not in used and column is not None and column not in used.values():
            used[field] = column
    _take_for_id(used, named, table)
    if "turns" in used and "text" not in named.columns:
        for field in ("text", "role", "vote", "turn"):
            used.pop(field, None)
    elif "text" in used and {"role", "conversation"} <= used.keys():
        used.pop("turns", None)
    else:
        raise MissingField(
            f"{where} has neither a column of turns, nor columns of conversation, role and text",
            remedy=f"name them, such as --map text=COLUMN; its columns are: {listed_names(table.columns)}",
        )
    return used


def _take_for_id(used: dict[str, str], named: ConversationColumns, table: OpenTable) -> None:
    """Take a column of turns for that of ids where rows have role and text, and it holds no list."""
    column = used.get("turns", "")
    has_id = "conversation" in used and folded(used["conversation"]) != "id"
    if not column or has_id or named.columns.keys() & {"turns", "conversation"} or not {"role", "text"} <= used.keys():
        return
    row = next((row for row in table.rows([column]) if not isinstance(row, BadRow)), None)
    cell = None if row is None else _cells(row[1], {"turns": column}, table)["turns"]
    try:
        has_turns = listed(cell) is not None
    except BadCell:
        has_turns = True
    if not has_turns:
        used["conversation"] = used.pop("turns")


def _whole_rows(
    rows: Iterable[Any], used: Mapping[str, str], table: OpenTable
) -> Iterator[tuple[int, dict[str, Any]] | BadRow]:
    """Yield the fields of conversations that have a row each."""
    for row in rows:
        if isinstance(row, BadRow):
            yield row
            continue
        line, cells = row
        values = _cells(cells, used, table)
        turns = values.pop("turns", None)
        try:
            messages = listed(turns)
        except BadCell as bad:
            yield BadRow(line=line, reason="cell", message=f"column {used['turns']!r}: {bad}")
            continue
        yield line, {**_about(values, table), "turns": turns if messages is None else messages}


def _turn_rows(
    rows: Iterable[Any], used: Mapping[str, str], table: OpenTable, where: str
) -> Iterator[tuple[int, dict[str, Any]] | BadRow]:
    """Yield bad rows, then conversations in the order of their first rows, or what contradicts itself in one.

    BadInput where a turn is lost: its conversation is unknown, and would count without it.
    """
    groups, lost = dict[str, _TurnGroup](), list[int]()
    count = characters = 0
    for row in rows:
        if isinstance(row, BadRow):
            lost.append(row.line)
            yield row
            continue
        line, cells = row
        values = _cells(cells, used, table)
        text = values.pop("text", None)
        turn = {"role": values.pop("role", None), "text": "" if is_empty(text) else plain_text(text)}
        if not is_empty(vote := values.pop("vote", None)):
            turn["vote"] = _numeric(vote, table)
        place = values.pop("turn", None)
        fields = _about(values, table)
        if not isinstance(fields.get("id"), str):
            if turn["text"]:
                lost.append(line)
            yield BadRow(line=line, reason="key", message="no conversation: it says which one the turn is of")
            continue
        count, characters = count + 1, characters + len(str(text))
        if count > _MOST_ROWS or characters > _MOST_CHARACTERS:
            raise BadInput(
                f"{where}: more than {_MOST_ROWS:,} rows of turns, or {_MOST_CHARACTERS >> 20} MiB of them",
                remedy="give one row a conversation, which has no limit",
            )
        groups.setdefault(fields["id"], _TurnGroup(line)).add(
            line, turn, fields, None if is_empty(place) else _numeric(place, table)
        )
    if lost:
        rows_lost = "a turn is lost in line" if len(lost) == 1 else f"{len(lost):,} turns are lost, the first in line"
        raise BadInput(
            f"{where}: {rows_lost} {lost[0]:,}, and its conversation would count without it", remedy="correct the row"
        )
    for group in groups.values():
        yield group.problem or (group.line, group.fields())


class _TurnGroup:
    """A conversation while the rows of its turns come in."""

    def __init__(self, line: int) -> None:
        self.line = line
        self.problem: BadRow | None = None
        self._turns, self._places = list[dict[str, Any]](), list[Any]()
        self._stated = dict[str, tuple[int, Any]]()  # field, or rating → where it was said first, and what

    def add(self, line: int, turn: Mapping[str, Any], fields: Mapping[str, Any], place: Any) -> None:
        """Add a row; who talks with whom, and each rating, is one over all rows that say it."""
        self._turns.append(dict(turn))
        self._places.append(place)
        stated = {name: content for name, content in fields.items() if name != "ratings"}
        stated |= {f"{_RATED}{question}": rating for question, rating in fields.get("ratings", {}).items()}
        if side_of(turn["role"]) is Side.BOT and "participant" in stated:
            stated[_OF_REPLIES] = stated.pop("participant")  # columns of senders name the bot in its rows
        for name, content in stated.items():
            first, known = self._stated.setdefault(name, (line, content))
            if known != content and self.problem is None:
                message = (
                    f"conversation {fields['id']}: another {name} than in line {first}: {shown(content)}, there "
                    f"{shown(known)}; an id is of one conversation of one person with one bot"
                )
                self.problem = BadRow(line=line, reason="contradiction", message=message)

    def fields(self) -> dict[str, Any]:
        """Return the fields of the conversation."""
        said = {name: content for name, (_, content) in self._stated.items()}
        ratings = {name.removeprefix(_RATED): said.pop(name) for name in list(said) if name.startswith(_RATED)}
        participant = said.get("participant", said.pop(_OF_REPLIES, ""))
        return {**said, "participant": participant, "turns": self._in_order(), "ratings": ratings}

    def _in_order(self) -> list[dict[str, Any]]:
        """Return the turns by their numbers, if all have one; else, and where two have the same, as the rows stand."""
        numbers = self._places
        if not all(isinstance(number, int | float) for number in numbers):
            return self._turns
        if all(before >= after for before, after in pairwise(numbers)) and numbers[0] != numbers[-1]:
            return self._turns[::-1]  # the newest first
        return [self._turns[row] for row in sorted(range(len(numbers)), key=numbers.__getitem__)]


def _cells(cells: Sequence[Any] | Mapping[str, Any], used: Mapping[str, str], table: OpenTable) -> dict[str, Any]:
    if isinstance(cells, Mapping):
        return {field: cells.get(column) for field, column in used.items()}
    places = {column: place for place, column in enumerate(table.columns)}
    return {field: cells[places[column]] if places[column] < len(cells) else None for field, column in used.items()}


def _about(values: Mapping[str, Any], table: OpenTable) -> dict[str, Any]:
    """Return who talked, and the ratings that are numbers; a cell that is none stays for the message about it."""
    names = {"conversation": "id", "bot": "bot", "participant": "participant"}
    fields = {
        name: plain_text(values[field])
        for field, name in names.items()
        if field in values and not is_empty(values[field])
    }
    ratings = dict[str, Any]()
    for field, cell in values.items():
        if field.startswith(f"{RATING}:") and not is_empty(cell):
            ratings[field.partition(":")[2].strip()] = _numeric(cell, table)
    return {**fields, **({"ratings": ratings} if ratings else {})}


def _numeric(cell: Any, table: OpenTable) -> Any:
    """Return the number of a cell; the cell itself, if it is none, for the message about it."""
    if not _is_numeric(cell):
        return cell
    try:
        return number(cell, has_decimal_commas=table.has_decimal_commas)
    except BadCell:
        return cell


def _is_numeric(cell: object) -> bool:
    return isinstance(cell, int | float) or (
        isinstance(cell, str) and cell.strip().replace(",", ".").lstrip("+-").replace(".", "", 1).isdigit()
    )


# ── The conversations of a file as commands and jobs take them ────────────────────────────────────────────────────────

_MOST_SHOWN: Final = 5  # bad lines


def read_talks(
    home: Settings, source: ConversationSource, file: InputFile | None, progress: Progress
) -> list[Conversation]:
    """Return the conversations of a self-play or, as its face has found it, of a file, without those of some bots.

    Lines that hold none are reported and left out. BadInput where no conversation is left, or a bot has none.
    """
    if file is None:
        talks = played_conversations(home, source.self_play or "", progress)
    else:
        talks = _usable_talks(file, source, progress)
    return _without_bots(talks, source.without)


def _usable_talks(file: InputFile, source: ConversationSource, progress: Progress) -> list[Conversation]:
    talks, bad = list[Conversation](), 0
    progress.stage("reading", unit="conversations")
    for entry in conversations_in(file.path, file.name, source.table_columns, bot=source.bot, warn=progress.warn):
        if isinstance(entry, Conversation):
            talks.append(entry)
            progress.advance(1)
            continue
        bad += 1
        if bad <= _MOST_SHOWN:
            field = f", {entry.field}" if entry.field else ""
            progress.warn(f"{file.name}, line {entry.line}{field}: {entry.message}")
    if bad > _MOST_SHOWN:
        progress.warn(f"{file.name}: {bad - _MOST_SHOWN:,} more lines hold no usable conversation")
    if not talks:
        raise BadInput(f"{file.name} holds no usable conversation", remedy="docs/hybrid.md shows one")
    return talks


def _without_bots(talks: Sequence[Conversation], without: Collection[str]) -> list[Conversation]:
    if unknown := set(without) - {talk.bot for talk in talks}:
        bots = ", ".join(sorted({talk.bot for talk in talks}))
        raise BadInput(f"no conversation is with a bot called {min(unknown)!r}", remedy=f"the bots are {bots}")
    return [talk for talk in talks if talk.bot not in without]
