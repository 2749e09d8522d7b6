"""Replies of bots to the items of a request."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Annotated, Any

from fastapi import APIRouter, Depends, Request
from pydantic import Field
from starlette.responses import Response

from refaug.bots.kinds import parse_bot
from refaug.bots.specification import BotSpecification
from refaug.core.errors import TooLarge
from refaug.core.records import Item
from refaug.operations.replies import ReplyOptions
from refaug.scoring import replies as system_replies
from refaug.scoring.items import BadItem, item_json
from refaug.scoring.settings import WithoutReply
from refaug.service.option_groups import OptionsBody
from refaug.service.scopes import Scope
from refaug.service.web.answers import large_json_response
from refaug.service.web.connection.body import body_of
from refaug.service.web.dependencies import Deadline, count_items, while_connected
from refaug.service.web.handling.request_items import (
    ListedItems,
    faults_named,
    good_items,
    parse_items,
    problems_of,
)
from refaug.service.web.openapi import route_options
from refaug.service.web.problems import BadRequest, UnknownField, bad_items_error, field_problem, unknown_field_warnings
from refaug.service.web.routes.bots.leased_bots import AskedBot, ask_bots
from refaug.service.web.schemas.common import ItemsField, OnErrorField, OpenModel, Problems, ResponseModel
from refaug.service.web.state import ServiceState, state_of

# ── Bodies and answers ────────────────────────────────────────────────────────────────────────────────────────────────


class RepliesIn(OptionsBody[ReplyOptions]):
    """Items that bots are to reply to."""

    items: ItemsField
    on_error: OnErrorField = "fail"


class RepliedItemOut(OpenModel):
    """An item with the replies of the bots beside those that it came with; again a valid item."""

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


# ── Routes ────────────────────────────────────────────────────────────────────────────────────────────────────────────


router = APIRouter(prefix="/v1", tags=["scoring"])


@router.post("/replies", **route_options(Scope.SCORE, RepliesOut, 404, 409, body=RepliesIn))
async def reply(
    request: Request, body: Annotated[RepliesIn, Depends(body_of(RepliesIn))], deadline: Deadline
) -> Response:
    """Replies of bots to every item, each bot as a further system of the items.

    Each item comes back with its own systems and those of the bots, and is again a valid item. Equal requests get equal
    replies, whatever the order of the items and whatever else is asked at once.
    """
    return await while_connected(request, _reply(request, body, deadline))


async def _reply(request: Request, body: RepliesIn, deadline: float) -> Response:
    state = state_of(request)
    options = body.options
    specifications = {name: parse_bot(text) for name, text in options.bots.items()}
    if len(body.items) * len(specifications) > state.serve.replies:
        raise TooLarge(
            f"{len(specifications):,} bots and {len(body.items):,} items make more than the {state.serve.replies:,} "
            "replies that one request may have",
            remedy="send the items in several requests",
        )
    listed, unknown = await parse_items(body.items, state.serve, on_error=body.on_error)
    if not options.replace:
        listed = _without_clashes(listed, specifications)
        if body.on_error == "fail" and (clashing := [one for one in listed if isinstance(one, BadItem)]):
            raise bad_items_error(clashing, len(listed), unknown)
    count_items(request, len(body.items))
    items = good_items(listed)
    with faults_named(listed, unknown):
        bots = await ask_bots(state, specifications, items, deadline=deadline)
    answered = system_replies.answer_items(items, [bot.system for bot in bots], [bot.replies for bot in bots])
    if options.without_reply is WithoutReply.REFUSE:
        _require_replies(answered, listed, unknown)
    is_skipping = options.without_reply is WithoutReply.SKIP
    return await large_json_response(
        lambda: _content(state, bots, answered, listed, unknown, is_skipping=is_skipping), items=len(body.items)
    )


def _without_clashes(listed: ListedItems, specifications: Mapping[str, BotSpecification]) -> list[Item | BadItem]:
    """Return the items with a bad one where a system has the name of a bot."""
    return [
        BadItem(file="items", line=place + 1, item=parsed.id, field=f"replies.{clash}", message=system_replies.CLASH)
        if isinstance(parsed, Item) and (clash := system_replies.clashing_name(parsed, specifications)) is not None
        else parsed
        for place, parsed in enumerate(listed)
    ]


def _require_replies(
    answered: Sequence[system_replies.AnsweredItem], listed: ListedItems, unknown: Sequence[UnknownField]
) -> None:
    """Raise BadRequest that names every item to which a bot has no reply."""
    places = [place for place, parsed in enumerate(listed) if isinstance(parsed, Item)]
    missing = [
        BadItem(file="items", line=place + 1, item=one.item.id, field=f"replies.{system}", message=f"no reply: {why}")
        for place, one in zip(places, answered, strict=True)
        for system, why in one.missing.items()
    ]
    if missing:
        first = field_problem(missing[0])
        raise BadRequest(
            f"{len(missing):,} replies are missing: {first['field']}: {first['message']}",
            errors=[field_problem(bad) for bad in missing],
            unknown=unknown,
            remedy='leave these items out, or send "without_reply": "report" or "skip"',
        )


def _content(
    state: ServiceState,
    bots: Sequence[AskedBot],
    answered: Sequence[system_replies.AnsweredItem],
    listed: ListedItems,
    unknown: Sequence[UnknownField],
    *,
    is_skipping: bool,
) -> dict[str, Any]:
    remarks, items, notes = system_replies.ReplyRemarks(), list[dict[str, Any]](), unknown_field_warnings(unknown)
    for answered_item in answered:
        is_skipped = is_skipping and bool(answered_item.missing)
        remarks.add(answered_item, is_skipped=is_skipped)
        if not is_skipped:
            no_reply = {"no_reply": dict(answered_item.missing)} if answered_item.missing else {}
            items.append({**item_json(answered_item.item), **answered_item.item.search_notes, **no_reply})
    of_bots = (f"{bot.system.name}: {warning}" for bot in bots for warning in bot.system.replier.warnings)
    return {
        "items": items,
        "problems": problems_of(listed),
        "warnings": [state.without_paths(text) for text in (*notes, *of_bots, *remarks.warnings)],
        "bots": {bot.system.name: str(bot.pinned) for bot in bots},
        "reply_provenance": {bot.system.name: bot.system.provenance.line for bot in bots},
    }
