"""Where conversations lie, and how a file of them is read."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property
from types import MappingProxyType
from typing import Annotated, Final, Literal, Self

from refaug.core.errors import Usage
from refaug.core.options.declaring import Argument, Doc, Length, Metavar, NoFlag
from refaug.core.options.decoding import Options
from refaug.core.text.messages import suggestion
from refaug.logs.reading.sources import encoding_of
from refaug.scoring.augment_settings import AugmentSettings
from refaug.scoring.presets import PresetName
from refaug.tables.table_request import parse_scale

# field → names that columns of it have, the likeliest first
KNOWN_COLUMNS: Final[Mapping[str, tuple[str, ...]]] = MappingProxyType(
    {
        "conversation": ("conversation_id", "dialogue_id", "dialog_id", "chat_id", "id"),
        "turns": ("turns", "messages", "conversations", "conversation", "dialog"),
        "role": ("role", "speaker", "from", "side"),
        "text": ("text", "content", "value", "utterance", "message"),
        "vote": ("vote",),
        "bot": ("bot", "model", "system"),
        "participant": ("participant", "participant_id", "worker", "user_id"),
    }
)
RATING: Final = "rating"
_SELF_PLAY: Final = "selfplay:"
_OF_FILES: Final = ("map", "scale", "encoding", "bot")
_BotName = Annotated[str, Length(1, 200)]


@dataclass(frozen=True, kw_only=True)
class ConversationColumns:
    """The columns that a user names, and the scale of the ratings in them."""

    columns: Mapping[str, str]  # field, or rating:QUESTION → the column
    scale: tuple[float, float] | None = None
    encoding: str = "auto"

    @classmethod
    def parse(cls, mapping: Iterable[str], scale: str | None = None, encoding: str | None = None) -> Self:
        """Read `FIELD=COLUMN` and `rating:QUESTION=COLUMN`; Usage for anything else."""
        columns = dict[str, str]()
        for text in mapping:
            name, equals, column = text.partition("=")
            field, colon, question = name.partition(":")
            is_rating = field == RATING and bool(question.strip())
            if not equals or not column or (colon and not is_rating) or (field not in KNOWN_COLUMNS and not is_rating):
                raise Usage(
                    f"{text[:80]!r} is not FIELD=COLUMN{suggestion(field, (*KNOWN_COLUMNS, RATING))}",
                    remedy=f"fields are: {', '.join(KNOWN_COLUMNS)}, rating:QUESTION",
                    field="map",
                )
            if name in columns:
                raise Usage(f"{name} twice", remedy="one column for each", field="map")
            columns[name] = column
        ends = None if scale is None else parse_scale(scale)
        if scale is not None and (ends is None or ends[0] >= ends[1]):
            raise Usage(f"{scale} is no scale", remedy="its ends, such as 1-7", field="scale")
        return cls(columns=columns, scale=ends, encoding=encoding or "auto")


@dataclass(frozen=True, kw_only=True)
class ConversationSource(Options):
    """The conversations of a file, or of a self-play."""

    conversations: Annotated[
        str,
        Length(1, 1_000),
        Argument("CONVERSATIONS"),
        Doc(
            "Conversations: JSONL or a table, compressed or not; - for stdin, or selfplay:NAME; of a job `upload:ID`, "
            "or a file in inbox/ or in a configured folder."
        ),
    ]
    bot: Annotated[_BotName | None, Metavar("NAME"), Doc("The bot of conversations that name none.")] = None
    without: Annotated[
        tuple[_BotName, ...], Length(0, 1_000), Metavar("BOT"), Doc("Bots to leave out, such as a degraded one.")
    ] = ()
    map: Annotated[
        tuple[Annotated[str, Length(1, 1_000)], ...],
        Length(0, 1_000),
        Metavar("FIELD=COLUMN"),
        Doc(
            "Which column of a table holds what: conversation, role, text, or turns; bot, participant, rating:QUESTION."
        ),
    ] = ()
    scale: Annotated[
        str | None, Length(1, 40), Metavar("LOW-HIGH"), Doc("The ends of the ratings of a table, such as 1-7.")
    ] = None
    encoding: Annotated[
        str | None,
        Length(1, 40),
        Doc("Encoding of a table, such as latin-1; without it, UTF-8 or what its first bytes say."),
    ] = None

    def check(self) -> None:
        """Refuse columns of no field, a scale or an encoding that is none, and what a self-play has no use for."""
        super().check()
        if self.self_play is not None and (idle := next((name for name in _OF_FILES if getattr(self, name)), None)):
            raise Usage("it says how a file is read", remedy="leave it out for a self-play", field=idle)
        _ = self.table_columns
        try:
            encoding_of(b"", self.encoding or "auto")
        except Usage as error:
            raise Usage(error.message, remedy=error.remedy, field="encoding") from None

    @cached_property
    def table_columns(self) -> ConversationColumns:
        """The columns that are named, and the scale."""
        return ConversationColumns.parse(self.map, self.scale, self.encoding)

    @property
    def self_play(self) -> str | None:
        """The self-play, if it names one."""
        is_played = self.conversations.startswith(_SELF_PLAY)
        return self.conversations.removeprefix(_SELF_PLAY) if is_played else None

    @property
    def conversation_files(self) -> list[str]:
        """The file of the conversations, unless they are a self-play."""
        return [self.conversations] if self.self_play is None else []


# ── How references of the turns of conversations are found ────────────────────────────────────────────────────────────

_NO_GOLD = "a conversation has no gold"


@dataclass(frozen=True, kw_only=True)
class TurnReferences(AugmentSettings):
    """How references of turns are found, rated and weighed: without a gold, which conversations do not have."""

    gold: Annotated[Literal["none"], NoFlag(_NO_GOLD), Doc("A conversation has no gold.")] = "none"
    preset: Annotated[PresetName | None, NoFlag(_NO_GOLD), Doc("None: each of them weighs a gold.")] = None

    def check(self) -> None:
        """Refuse a preset, which would rate golds."""
        if self.preset is not None:
            raise Usage("it weighs golds, and conversations have none", remedy="leave it out", field="preset")
        super().check()
