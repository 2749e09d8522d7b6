"""Models of stored bots."""

from __future__ import annotations

from typing import Annotated

from pydantic import BaseModel, Field

from refaug.service.web.schemas.common import STRICT, Page, ResponseModel

_Turn = Annotated[str, Field(max_length=20_000)]
_Sha256 = Annotated[str, Field(pattern=r"^[0-9a-f]{64}$")]


class BotIn(BaseModel):
    """A bot to store."""

    model_config = STRICT

    specification: dict[str, object] = Field(
        description="its kind, and the fields of the kind (docs/bots.md); keys are named by `key_env`, never written"
    )
    expected_sha256: _Sha256 | None = Field(
        default=None, description="refuse the change (409) unless the bot that is there has this hash"
    )


class BotOut(BaseModel):
    """A stored bot."""

    name: str = Field(description="its name")
    kind: str = Field(description="`retrieval`, `openai`, `http`, `replay`, `degraded` or `neural`")
    sha256: str = Field(description="the hash of its specification; the name is not in it")
    specification: dict[str, object] = Field(
        description="as it is hashed: indexes and networks with their versions, wrapped bots written out"
    )


class OneBotOut(BotOut, ResponseModel):
    """A stored bot."""


class PutBotOut(BotOut, ResponseModel):
    """A bot as it was stored."""

    before: str | None = Field(description="the hash of the specification that it replaces; null for the same or none")


class BotsOut(Page, ResponseModel):
    """A page of bots."""

    bots: list[BotOut] = Field(description="by name")


class DeletedBotOut(ResponseModel):
    """The bot that is gone."""

    name: str = Field(description="its name")


class DialogueIn(BaseModel):
    """A dialogue to reply to."""

    model_config = STRICT

    turns: list[_Turn] = Field(
        description="oldest first; the last one is replied to, and the bot's own are the last but one, and so on",
        min_length=1,
        max_length=1_000,
    )
    seed: int = Field(default=1, description="of the reply, where it is drawn", ge=0, le=2**32 - 1)
    id: str = Field(default="", description="names the request to a bot of kind `http`", max_length=200)


class BotRepliesIn(BaseModel):
    """Dialogues that a bot is to reply to."""

    model_config = STRICT

    dialogues: list[DialogueIn] = Field(description="each gets one reply", min_length=1, max_length=10_000)
    sha256: _Sha256 | None = Field(default=None, description="refuse (409) unless the bot has this hash")


class BotReplyOut(BaseModel):
    """One reply, or why there is none."""

    reply: str | None = Field(description="what the bot says; never empty")
    problem: str | None = Field(description="why there is no reply: `timeout`, `refusal`, `empty`, … (docs/bots.md)")
    detail: str | None = Field(description="more of the problem, for people")
    prompt_tokens: int | None = Field(description="as the endpoint counted them; null where it does not")
    answer_tokens: int | None = Field(description="as the endpoint counted them; null where it does not")
    stored: bool = Field(description="whether it was answered before, and not asked again")
    ms: float | None = Field(
        description="milliseconds until the whole answer was there; of a bot in the server its share of the request's"
    )


class BotRepliesOut(ResponseModel):
    """The replies, in the order of the dialogues."""

    bot: str = Field(description="name#hash of the bot, by which a later request can name it")
    reply_provenance: str = Field(description="what makes its replies, except for the seeds")
    replies: list[BotReplyOut] = Field(description="in the order sent")
    problems: dict[str, int] = Field(description="how many dialogues have no reply, by problem")
    remarks: list[str] = Field(description="what was asked and what it cost; how an endpoint failed")
