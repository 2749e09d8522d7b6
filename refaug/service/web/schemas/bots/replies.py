"""Models of POST /v1/replies."""

from __future__ import annotations

from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field

from refaug.evaluation.replies.without_reply import WithoutReply
from refaug.service.web.schemas.common import STRICT, ItemsField, OnErrorField, Problems, ResponseModel

_BotField = Annotated[str, Field(min_length=1, max_length=2_000)]
_WithoutReplyField = Annotated[
    WithoutReply,
    Field(
        strict=False,  # a text in JSON
        description="what an item does that a bot has no reply to: `report` gives it back without that reply, and why "
        "under `no_reply`; `refuse` refuses the request; `skip` leaves the item out",
    ),
]


class RepliesIn(BaseModel):
    """Items that bots are to reply to."""

    model_config = STRICT

    items: ItemsField
    bots: dict[str, _BotField] = Field(
        min_length=1,
        max_length=100,
        description="by the name of the system that it becomes: a bot, such as `retrieval:chat,mode=bm25-utterance` "
        "(docs/bots.md has the kinds and keys)",
    )
    replace: bool = Field(
        default=False,
        description="replace a system of the same name, and drop people's ratings of its old replies; without it such "
        "an item is a bad one",
    )
    without_reply: _WithoutReplyField = WithoutReply.REPORT
    on_error: OnErrorField = "fail"


class RepliedItemOut(BaseModel):
    """An item with the replies of the bots beside those that it came with; again a valid item."""

    model_config = ConfigDict(extra="allow")

    id: str = Field(description="the item's")
    replies: dict[str, str] = Field(default={}, description="of each system, by its name")
    reply_provenance: dict[str, str] = Field(
        default={}, description="by system: which bot made its reply; keep it in the item"
    )
    no_reply: dict[str, str] = Field(
        default={}, description="by system: why the bot has no reply: `no_utterance`, `nothing_retrieved`, …"
    )


class RepliesOut(Problems, ResponseModel):
    """The items in the order sent, without those under `problems` and those that were left out."""

    items: list[RepliedItemOut] = Field(description="in the order sent")
    bots: dict[str, str] = Field(description="by system: its bot, with the version of the index that it replied from")
    reply_provenance: dict[str, str] = Field(description="by system: what made its replies, as items have it")
