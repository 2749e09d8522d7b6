"""Models of POST /v1/hybrids/{name}/scores."""

from __future__ import annotations

from typing import Annotated, Self

from pydantic import BaseModel, Field, model_validator

from refaug.service.web.schemas.common import STRICT, OnErrorField, Problems, ResponseModel

_SelfPlay = Annotated[str, Field(pattern=r"^[a-z0-9][a-z0-9._-]{0,63}(@[0-9]{4}-[0-9]{2}-[0-9]{2}\.[1-9][0-9]{0,8})?$")]


class HybridScoresIn(BaseModel):
    """Whole conversations to be scored, or a self-play of the server."""

    model_config = STRICT

    conversations: list[dict[str, object]] | None = Field(
        default=None,
        min_length=1,
        max_length=100_000,
        description="conversations as a file has them (docs/hybrid.md): id, bot, turns of role and text; ratings are "
        "not needed",
    )
    self_play: _SelfPlay | None = Field(default=None, description="a self-play instead: name or name@version")
    on_error: OnErrorField = "fail"

    @model_validator(mode="after")
    def _has_conversations(self) -> Self:
        if (self.conversations is None) == (self.self_play is None):
            raise ValueError("either conversations, or self_play")
        return self


class ConversationScoreOut(BaseModel):
    """The score of one conversation."""

    id: str = Field(description="the conversation's")
    bot: str = Field(description="who was talked with")
    score: float = Field(description="points above or below the mean of the conversations that were fitted to")


class HybridBotOut(BaseModel):
    """The mean score of a bot's conversations."""

    bot: str = Field(description="its name")
    conversations: int = Field(description="how many were scored")
    mean: float = Field(description="of their scores")
    standard_error: float | None = Field(description="of that mean; null for a single conversation")
    fit: str = Field(description="`without it`: by the fit that has seen none of its conversations; `all bots`: others")
    rated: float | None = Field(description="the mean of people's ratings where the hybrid was fitted to the bot")


class BotAgreementOut(BaseModel):
    """Correlations of the means of bots with people's."""

    bots: int = Field(description="that people rated")
    pearson: float | None = Field(description="null below five bots")
    spearman: float | None = Field(description="the same of ranks")
    kendall: float | None = Field(description="the same of pairs")
    reason: str = Field(description="why there is no figure")


class HybridScoresOut(Problems, ResponseModel):
    """Scores of whole conversations, in the order sent, and the means of bots, best first."""

    hybrid: str = Field(description="what scored them: name@version#content")
    signature: str = Field(description="how the scores were made, in short")
    signature_full: str = Field(description="the same with everything")
    scored: int = Field(description="how many conversations have a score")
    trained_on: list[str] = Field(description="ids of those that have none, because the hybrid was fitted to them")
    missing: dict[str, int] = Field(
        description="by column: how many conversations lack it, and count as the mean there"
    )
    bots: list[HybridBotOut] = Field(description="their means, best first")
    agreement: BotAgreementOut = Field(description="of these means with people's, over bots that were fitted to")
    conversations: list[ConversationScoreOut] = Field(description="the scores")
