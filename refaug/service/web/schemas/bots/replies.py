"""Models of POST /v1/replies."""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict, Field

from refaug.operations.bots.reply_to_items import ReplyOptions
from refaug.service.option_groups import OptionsBody
from refaug.service.web.schemas.common import ItemsField, OnErrorField, Problems, ResponseModel


class RepliesIn(OptionsBody[ReplyOptions]):
    """Items that bots are to reply to."""

    items: ItemsField
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
