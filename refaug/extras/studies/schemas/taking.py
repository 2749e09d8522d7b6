"""Models of what the pages of participants send and get."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field

from refaug.service.web.schemas.common import STRICT, ResponseModel

_Id = Annotated[str, Field(max_length=200)]
_Side = Annotated[Literal["one", "left", "right"] | None, Field(description="of a task with two sides")]
_Answers = Annotated[
    dict[str, object], Field(max_length=200, description="by question; null takes an answer back; checked by the form")
]


class SessionIn(BaseModel):
    """The link of an invitation, and what a recruiting service has added to it."""

    model_config = STRICT

    token: str = Field(description="what stands behind the # of the link", min_length=1, max_length=300)
    external: dict[_Id, _Id] = Field(
        default={}, max_length=20, description="parameters of the address, such as PROLIFIC_PID; stored as a hash alone"
    )
    language: str | None = Field(default=None, max_length=20, description="one of the study's languages")


class ConsentIn(BaseModel):
    """Agreement to the text of consent, with answers to the questions of screening."""

    model_config = STRICT

    sha256: str = Field(description="of the text that was shown", pattern=r"^[0-9a-f]{64}$")
    agree: bool = Field(description="true")
    screening: _Answers = {}


class TrainingIn(BaseModel):
    """Answers to an item of the training."""

    model_config = STRICT

    item: _Id = Field(description="its id")
    answers: _Answers


class MessageIn(BaseModel):
    """A message to the bot, or to both bots of a pair."""

    model_config = STRICT

    n: int = Field(description="the number that it gets: one more than the last message has", ge=1, le=10_000)
    text: str = Field(description="what is said", min_length=1, max_length=200_000)


class VoteIn(BaseModel):
    """A vote on a reply."""

    model_config = STRICT

    n: int = Field(description="the number of the reply", ge=1, le=10_000)
    value: Literal[-1, 0, 1] = Field(description="down, none, or up")
    side: _Side = None


class AnswersIn(BaseModel):
    """Answers to questions about the task, one of its sides, or a turn."""

    model_config = STRICT

    answers: _Answers
    side: _Side = None
    n: int | None = Field(default=None, description="the turn that they are about", ge=1, le=10_000)


class SkipIn(BaseModel):
    """Leaving a task out."""

    model_config = STRICT

    reason: str = Field(description="why; `bot_failed` where there was no reply", min_length=1, max_length=500)


class EmptyIn(BaseModel):
    """Nothing: an empty object."""

    model_config = STRICT


class TakeStateOut(ResponseModel):
    """The whole state of a participant, from which a page is built; nothing in it names a bot, a hash or a host."""

    model_config = ConfigDict(extra="allow")

    study: dict[str, object] = Field(description="title, kind, state, language, limits, guidelines, texts")
    step: str = Field(
        description="`consent`, `screened_out`, `training`, `ready`, `task`, `done`, `closed`, `withdrawn` or `full`"
    )
    consent: dict[str, object] = Field(description="text, sha256, screening, given")
    training: dict[str, object] | None = Field(description="the item that comes next, with feedback on the one before")
    task: dict[str, object] | None = Field(description="the current task: sides with messages, payload, form, answers")
    progress: dict[str, int] = Field(description="tasks done, and of how many")
    completion: dict[str, object] | None = Field(description="code and return address at the end")
    can_undo: bool = Field(description="whether the last action can be taken back")
    code: str = Field(description="of the participant, to be named to the operator")


class SessionOut(TakeStateOut):
    """The state, and once, at the start, what opens it elsewhere."""

    resume: str | None = Field(
        description="what stands behind the # of the link by which the participant goes on in another browser; shown "
        "to whom begins, this once, and null afterwards"
    )


class ActionOut(ResponseModel):
    """What an action has done, always the same for its id, and the state as it is now."""

    done: dict[str, object] = Field(description="what it has done")
    state: dict[str, object] = Field(description="as GET /v1/take/state has it")


class OwnDataOut(ResponseModel):
    """Everything that is stored of a participant, without what names a bot."""

    model_config = ConfigDict(extra="allow")

    code: str = Field(description="of the participant")
    tasks: list[dict[str, object]] = Field(description="every task with messages and answers")
