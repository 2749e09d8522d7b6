"""Options of conversations, their encoders and the hybrid metric, with limits and texts, for every face."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Annotated, Any, Final, Literal, Self

from refaug.core.errors import Usage
from refaug.core.options.declaring import Argument, Doc, Ge, Le, Length, Metavar, NoFlag, Pattern
from refaug.core.options.decoding import Options
from refaug.core.options.describing import options_of
from refaug.core.processes.kept import cached_property
from refaug.core.text.messages import suggestion
from refaug.extras.conversations.metrics.sentiment import Variants
from refaug.logs.reading.sources import encoding_of
from refaug.operations.item_sources import OF_JOB
from refaug.scoring.settings import AugmentSettings, PresetName
from refaug.tables.table_request import parse_scale

# field → names that columns of it have, the likeliest first
KNOWN_COLUMNS: Final[Mapping[str, tuple[str, ...]]] = MappingProxyType(
    {
        "conversation": ("conversation_id", "dialogue_id", "dialog_id", "chat_id", "id"),
        "turns": ("turns", "messages", "conversations", "conversation", "dialog"),
        "role": ("role", "speaker", "from", "side"),
        "text": ("text", "content", "value", "utterance", "message"),
        "turn": ("turn", "turn_id", "turn_index", "position", "utterance_idx"),
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
            raise Usage(f"{scale} is not a scale", remedy="its ends, such as 1-7", field="scale")
        return cls(columns=columns, scale=ends, encoding=encoding or "auto")


@dataclass(frozen=True, kw_only=True)
class ConversationSource(Options):
    """The conversations of a file, or of a self-play."""

    conversations: Annotated[
        str,
        Length(1, 1_000),
        Argument("CONVERSATIONS"),
        Doc("Conversations: JSONL or a table, compressed or not; - for stdin, or selfplay:NAME.", of_job=OF_JOB),
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
            "Which column of a table holds what: conversation, role, text, turn (its number), or turns; bot, "
            "participant, rating:QUESTION."
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


PAPER: Final = "ghandeharioun19"
Target = Annotated[str | None, Length(1, 200), Metavar("QUESTION")]
_FORMS_OF_PAPER: Final = {"intercept": "fold", "laughter": "substring", "greedy": "both"}


@dataclass(frozen=True, kw_only=True)
class HybridSettings(Variants):
    """What is predicted, by which form of the fit."""

    target: Annotated[Target, Doc("The question to predict; without it the mean over all.")] = None
    person_z: Annotated[
        int | None,
        Ge(2),
        Le(1_000_000),
        Doc("Ratings in standard deviations from their person's mean, of people with at least this many."),
    ] = None
    preset: Annotated[
        Literal["ghandeharioun19"] | None,
        Metavar("NAME"),
        Doc("ghandeharioun19: forms and label of the paper, refused without its encoders."),
    ] = None
    intercept: Annotated[
        Literal["common", "fold"], Doc("common: no rating of the other bots enters; fold: as published.")
    ] = "common"
    ridge: Annotated[float, Ge(0), Doc("The penalty of a ridge; 0 is least squares.")] = 0.0
    draws: Annotated[int, Ge(100), Le(100_000), Doc("Draws of intervals and controls.")] = 1_000
    seed: Annotated[int, Ge(0), Le(2**32 - 1), Doc("Of the draws.")] = 1

    def check(self) -> None:
        """Take over the forms of the paper with its label, and refuse what contradicts it."""
        super().check()
        if self.preset is None:
            return
        for name, form in _FORMS_OF_PAPER.items():
            if name in self.stated and getattr(self, name) != form:
                message = f"{getattr(self, name)} with preset {self.preset}, which has {form}"
                raise Usage(message, remedy="leave one of the two out", field=name)
            object.__setattr__(self, name, form)
        if changed := next((name for name in ("ridge", "person_z") if getattr(self, name)), None):
            message = f"preset {self.preset} has least squares on ratings as they are"
            raise Usage(message, remedy="leave it out", field=changed)

    @property
    def is_paper(self) -> bool:
        """Whether the figures have the label of the paper, for which `require_paper` has to be satisfied."""
        return self.preset == PAPER

    def as_manifest(self) -> dict[str, Any]:
        """Return the settings as the manifest of a hybrid has them."""
        return {
            "variants": {option.name: getattr(self, option.name) for option in options_of(Variants)},
            "target": self.target,
            "person_z": self.person_z,
            "intercept": self.intercept,
            "penalty": self.ridge,
            "draws": self.draws,
            "seed": self.seed,
            "is_paper": self.is_paper,
        }

    @classmethod
    def of_manifest(cls, fit: Mapping[str, Any]) -> Self:
        """Return the settings that a manifest has."""
        rest = {name: setting for name, setting in fit.items() if name not in ("variants", "penalty", "is_paper")}
        return cls(**fit["variants"], **rest, ridge=fit["penalty"], preset=PAPER if fit["is_paper"] else None)


# ── The encoders of the hybrid metric, not yet opened ─────────────────────────────────────────────────────────────────

_SENTIMENT = Pattern(
    re.compile(r"vader|none|(lexicon|deepmoji):.{1,1000}"), "vader, none, lexicon:FILE or deepmoji:FOLDER"
)
_MEANING = Pattern(
    re.compile(r"mean|(onnx|infersent1|use3):.{1,1000}"), "mean, onnx:FOLDER, infersent1:FOLDER or use3:FOLDER"
)


@dataclass(frozen=True, kw_only=True)
class EncoderRequest(Options):
    """The encoders: vectors of the home or a file; sentiment and meaning by kind, with a path where they need one."""

    vectors: Annotated[
        str, Length(1, 1_000), Metavar("VECTORS"), Doc("Word vectors: NAME, NAME@VERSION, or a file, with a / in it.")
    ]
    sentiment: Annotated[
        str,
        _SENTIMENT,
        Metavar("KIND:PATH"),
        Doc("vader (English), none, lexicon:FILE, or deepmoji:FOLDER with a model in ONNX; of a job, in inbox/."),
    ] = "vader"
    meaning: Annotated[
        str,
        _MEANING,
        Metavar("KIND:PATH"),
        Doc("mean of the word vectors, or a model in ONNX: onnx:FOLDER, infersent1:FOLDER, use3:FOLDER."),
    ] = "mean"

    @property
    def encoder_files(self) -> list[str]:
        """The files and folders that encoders lie in."""
        models = [path for text in (self.sentiment, self.meaning) if (path := text.partition(":")[2])]
        return [*([self.vectors] if "/" in self.vectors else []), *models]
