"""Orders of jobs about whole conversations: judging them turn by turn, and fitting the hybrid metric to ratings."""

from __future__ import annotations

from typing import Annotated, Final, Literal, Self

from pydantic import Field, model_validator

from refaug.evaluation.scoring.augment_settings import AugmentSettings
from refaug.indexer.search.search_settings import MAX_REFERENCES, SearchSettings
from refaug.service.jobs.orders.fields import FILE_OF_JOB, THREADS, Mode, Name, Seed, Spec, StrictModel, Text

BotName = Annotated[str, Field(min_length=1, max_length=200)]
SELF_PLAY: Final = "selfplay:"
_OF_PAPER: Final = {"intercept": "fold", "laughter": "substring", "greedy": "both"}  # its forms


class _ConversationFields(StrictModel):
    """How a file of conversations is read, and what the metrics of turns need."""

    bot: BotName | None = Field(default=None, description="the bot of conversations that name none")
    without: list[BotName] = Field(
        default_factory=list, description="bots to leave out, such as a degraded one", max_length=1_000
    )
    map: list[Text] = Field(
        default_factory=list,
        description="which column of a table holds what: FIELD=COLUMN, such as rating:quality=grade",
        max_length=1_000,
    )
    scale: str | None = Field(
        default=None, description="the ends of the ratings of a table, such as 1-7", max_length=40
    )
    encoding: str | None = Field(
        default=None, description="encoding of a table; null: UTF-8 or what its first bytes say", max_length=40
    )
    rater: Spec | None = Field(
        default=None, description="rater that metrics of turns ask, and that weighs references that are found"
    )
    index: Spec | None = Field(default=None, description="index that references of the turns are found in")
    k: int = Field(default=SearchSettings.k, description="how many references to find", ge=1, le=MAX_REFERENCES)
    mode: Mode = Field(default=SearchSettings.mode, description="how utterances are compared")
    weights: Literal["rated", "one"] = Field(
        default=AugmentSettings.weights, description="what references that are found weigh"
    )
    threads: int | None = Field(default=None, description=THREADS, ge=1, le=1_024)

    @property
    def reference_settings(self) -> AugmentSettings:
        """How references of turns are found; a conversation has no gold."""
        return AugmentSettings(gold="none", k=self.k, mode=self.mode, weights=self.weights)


class JudgeConversationsJob(_ConversationFields):
    """Score every reply of conversations in its context, as `refaug conversations judge` does, and keep the scores."""

    kind: Literal["judge-conversations"] = Field(description="which job it is")
    conversations: Text = Field(
        description=f"conversations, JSONL or a table: {FILE_OF_JOB}; or selfplay:NAME, a self-play of the server"
    )
    metrics: list[Text] = Field(
        description="metrics that score every reply without a gold, such as rater:refs=none, likelihood:model=VHRED or "
        "upsilon-bleu",
        min_length=1,
        max_length=100,
    )
    target: BotName | None = Field(
        default=None, description="the question that figures are compared with; null: the mean over all"
    )
    name: str = Field(
        default="",
        description="what the file with the scores is called; by default after that of the conversations",
        max_length=200,
    )
    owner: str | None = Field(
        default=None, description="the name of the key that sees the file; the server fills it in", max_length=64
    )

    @model_validator(mode="after")
    def _makes_sense(self) -> Self:
        if twice := next((name for name in self.metrics if self.metrics.count(name) > 1), None):
            raise ValueError(f"metrics: {twice} comes twice")
        if self.self_play is not None and (self.map or self.scale or self.encoding or self.bot):
            raise ValueError("map, scale, encoding and bot say how a file is read: leave them out for a self-play")
        return self

    @property
    def self_play(self) -> str | None:
        """The self-play, if it names one."""
        is_played = self.conversations.startswith(SELF_PLAY)
        return self.conversations.removeprefix(SELF_PLAY) if is_played else None

    @property
    def files(self) -> list[str]:
        """The file of the conversations, unless they are a self-play."""
        return [self.conversations] if self.self_play is None else []


class HybridFitJob(_ConversationFields):
    """Fit the hybrid metric to rated conversations, as `refaug hybrid fit` does, and publish a version of it."""

    kind: Literal["hybrid-fit"] = Field(description="which job it is")
    conversations: Text = Field(description=f"rated conversations, JSONL or a table: {FILE_OF_JOB}")
    name: Name = Field(description="name of the hybrid")
    vectors: Spec = Field(description="word vectors: name or name@version")
    sentiment: Annotated[str, Field(pattern=r"^(vader|none|(lexicon|deepmoji):.+)$", max_length=1_000)] = Field(
        default="vader",
        description="vader (English), none, lexicon:FILE, or deepmoji:FOLDER with a model in ONNX; FILE and FOLDER lie "
        "where files of jobs lie",
    )
    meaning: Annotated[str, Field(pattern=r"^(mean|(onnx|infersent1|use3):.+)$", max_length=1_000)] = Field(
        default="mean",
        description="mean of the word vectors, or a model in ONNX: onnx:FOLDER, infersent1:FOLDER, use3:FOLDER",
    )
    columns: Literal["hybrid", "wide"] = Field(
        default="hybrid", description="hybrid: the eleven components; wide: with plain counts and metrics of turns"
    )
    target: BotName | None = Field(default=None, description="the question to predict; null: the mean over all")
    person_z: int | None = Field(
        default=None, description="ratings in deviations of their person, of people with so many", ge=2, le=1_000_000
    )
    preset: Literal["ghandeharioun19"] | None = Field(
        default=None, description="forms and label of the paper, refused without its encoders"
    )
    intercept: Literal["common", "fold"] = Field(
        default="common", description="common: no rating of the other bots enters; fold: as published"
    )
    ridge: float = Field(default=0.0, description="the penalty; 0 is least squares", ge=0, allow_inf_nan=False)
    draws: int = Field(default=1_000, description="of intervals and controls", ge=100, le=100_000)
    seed: Seed = Field(default=1, description="of the draws")
    laughter: Literal["token", "substring"] = Field(default="token", description="words that are laughter, or every ha")
    questions: Literal["half", "both"] = Field(
        default="half", description="half for a question mark and half for a word, or 1 where both are there"
    )
    greedy: Literal["both", "user"] = Field(default="both", description="directions of greedy matching")
    slope: Literal["turns", "masked"] = Field(
        default="turns", description="masked: with a final 0 for the answer that was not given"
    )
    metrics: list[Text] = Field(
        default_factory=list,
        description="metrics that score every reply in its context, such as rater:refs=none; for wide columns",
        max_length=100,
    )

    @model_validator(mode="after")
    def _makes_sense(self) -> Self:
        if self.metrics and self.columns != "wide":
            raise ValueError('metrics of turns, and the columns are the eleven components: "columns": "wide"')
        if not self.metrics and any((self.rater, self.index)):
            raise ValueError("rater and index are for metrics of turns: name one, or leave them out")
        if twice := next((name for name in self.metrics if self.metrics.count(name) > 1), None):
            raise ValueError(f"metrics: {twice} comes twice")
        if self.preset is not None:
            self._require_paper()
        return self

    def _require_paper(self) -> None:
        for field, form in _OF_PAPER.items():
            if field in self.model_fields_set and getattr(self, field) != form:
                raise ValueError(f"{field} {getattr(self, field)} with preset {self.preset}, which has {form}")
        if self.columns != "hybrid" or self.ridge or self.person_z is not None:
            raise ValueError(f"preset {self.preset} has the eleven components, least squares, and ratings as they are")

    @property
    def forms(self) -> dict[str, str]:
        """The intercept and the forms of the components: those of the paper with its label."""
        named = {name: str(getattr(self, name)) for name in ("intercept", "laughter", "questions", "greedy", "slope")}
        return {**named, **_OF_PAPER} if self.preset is not None else named

    @property
    def encoder_files(self) -> list[str]:
        """The files and folders that encoders lie in."""
        return [path for text in (self.sentiment, self.meaning) if (path := text.partition(":")[2])]
