"""Routes of stored bots: listing, putting and removing them, and their replies to dialogues."""

from __future__ import annotations

import logging
import re
from collections import Counter
from dataclasses import asdict
from typing import Annotated, Final

from fastapi import APIRouter, Depends, Path, Request
from pydantic import BaseModel, Field
from starlette.responses import Response

from refaug.bots.kinds import parse_bot
from refaug.bots.replier import BotReply, ReplyRequest, timed_replies
from refaug.bots.stored.specification import StoredBot
from refaug.core.errors import NoAccess, NotAllowed, TooLarge
from refaug.core.records import Item, Reference
from refaug.scoring.replies import BotSystem
from refaug.service.bots.bot_store import PutBot
from refaug.service.bots.bot_use import BotUse
from refaug.service.scopes import Scope
from refaug.service.web.answers import json_response, large_json_response
from refaug.service.web.connection.body import body_of
from refaug.service.web.dependencies import After, Deadline, Limit, acting, count_items, page_of, while_connected
from refaug.service.web.handling import database_threads
from refaug.service.web.openapi import route_options
from refaug.service.web.routes.bots.leased_bots import AskedBot, ask_systems
from refaug.service.web.schemas.common import Page, ResponseModel, StrictModel
from refaug.service.web.state import ServiceState, state_of

log = logging.getLogger(__name__)

# ── Bodies and answers ────────────────────────────────────────────────────────────────────────────────────────────────


_Turn = Annotated[str, Field(max_length=20_000)]
_Sha256 = Annotated[str, Field(pattern=r"^[0-9a-f]{64}$")]


class BotIn(StrictModel):
    """A bot to store."""

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


class BotFailureOut(BaseModel):
    """How a bot failed the last time."""

    at: str = Field(description="when")
    problem: str = Field(description="why there was no reply: `timeout`, `connection`, … (docs/bots.md)")
    detail: str = Field(description="more of it, for people; nothing that an endpoint answered")


class BotDayOut(BaseModel):
    """What a bot was asked in a day, and what that cost."""

    day: str = Field(description="UTC")
    requests: int = Field(description="dialogues that it was asked to reply to")
    failures: int = Field(description="those to which it failed to reply")
    tokens: int = Field(description="in and out, with those of tries that broke off")
    money: float = Field(description="by the prices that it had, in the currency of those it has now")


class BotUseOut(BaseModel):
    """What a bot was asked by this service, and what it cost."""

    name: str = Field(description="its name")
    used: str | None = Field(description="when it was asked last; null: never")
    replied: str | None = Field(description="when it replied last, as it is stored now")
    failure: BotFailureOut | None = Field(description="the last one, of the bot as it is stored now")
    requests: int = Field(description="dialogues that it was asked to reply to")
    unanswered: int = Field(description="those without a reply, for whatever reason")
    failures: int = Field(description="those to which it failed to reply")
    stored: int = Field(description="those that it had answered before")
    prompt_tokens: int = Field(description="of its endpoint, in")
    answer_tokens: int = Field(description="of its endpoint, out")
    lost_tokens: int = Field(description="that tries which broke off may have cost")
    money: float | None = Field(description="what was paid in `currency`; null: it has no prices")
    currency: str | None = Field(description="of its prices now; what was paid in another one is left out")
    mean_ms: float | None = Field(description="milliseconds of a reply that was asked for")
    days: list[BotDayOut] = Field(description="of the last 30, those in which it was asked, oldest first")


class BotUsesOut(ResponseModel):
    """What all bots were asked, and the limit that they share."""

    bots: list[BotUseOut] = Field(description="by name")
    tokens_today: int | None = Field(
        description="of all endpoints today (UTC), with those of requests under way; null: it cannot be read"
    )
    tokens_a_day: int = Field(description="the most that they may cost in a day")


class DeletedBotOut(ResponseModel):
    """The bot that is gone."""

    name: str = Field(description="its name")


class DialogueIn(StrictModel):
    """A dialogue to reply to."""

    turns: list[_Turn] = Field(
        description="oldest first; the last one is replied to, and the bot's own are the last but one, and so on",
        min_length=1,
        max_length=1_000,
    )
    seed: int = Field(default=1, description="of the reply, where it is drawn", ge=0, le=2**32 - 1)
    id: str = Field(default="", description="names the request to a bot of kind `http`", max_length=200)


class BotRepliesIn(StrictModel):
    """Dialogues that a bot is to reply to."""

    dialogues: list[DialogueIn] = Field(description="each gets one reply", min_length=1, max_length=10_000)
    sha256: _Sha256 | None = Field(default=None, description="refuse (409) unless the bot has this hash")
    retrieved: bool = Field(default=False, description="whether replies of kind `retrieval` come with candidates")


class RetrievedOut(BaseModel):
    """A response that a bot might have replied."""

    text: str = Field(description="the response")
    utterance: str | None = Field(description="what it answered in its log")
    similarity: float | None = Field(description="to the dialogue, by the mode of the bot")
    log: str | None = Field(description="which it is from")


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
    retrieved: list[RetrievedOut] | None = Field(
        default=None, description="with `retrieved` in the request: the best candidates, five at most"
    )


class BotRepliesOut(ResponseModel):
    """The replies, in the order of the dialogues."""

    bot: str = Field(description="name#hash of the bot, by which a later request can name it")
    reply_provenance: str = Field(description="what makes its replies, except for the seeds")
    replies: list[BotReplyOut] = Field(description="in the order sent")
    problems: dict[str, int] = Field(description="how many dialogues have no reply, by problem")
    remarks: list[str] = Field(description="what was asked and what it cost; how an endpoint failed")


# ── Routes ────────────────────────────────────────────────────────────────────────────────────────────────────────────


router = APIRouter(prefix="/v1", tags=["bots"])

_KEY_VARIABLE: Final = re.compile(r"BOT_[A-Z0-9_]+")
BotName = Annotated[str, Path(description="name of the bot", pattern=r"^[a-z0-9][a-z0-9._-]{0,63}$")]


@router.get("/bots", **route_options(Scope.READ, BotsOut, other_scope=Scope.STUDY))
async def list_bots(request: Request, after: After = "", limit: Limit = 50) -> Response:
    """Bots by name, with their specifications; keys are never in these."""
    state = state_of(request)

    def page() -> dict[str, object]:
        bots = {bot.name: bot for bot in state.bots.list()}
        names, following = page_of(sorted(bots), after, limit)
        return {"bots": [bots[name].as_json() for name in names], "next": following}

    return json_response(await database_threads.run_query(page))


@router.get("/bot-use", **route_options(Scope.READ, BotUsesOut, other_scope=Scope.STUDY))
async def list_bot_use(request: Request) -> Response:
    """What each bot was asked and what it cost, day by day, when it replied and failed last; commands are not counted.

    Figures are those of the name; when it replied and failed last is of the bot as it is stored now.
    """
    state = state_of(request)

    def content() -> dict[str, object]:
        bots = state.bots.list()
        uses = state.bot_use.of_bots(bots) or {}
        return {
            "bots": [_use_content(state, bot, uses.get(bot.name, BotUse())) for bot in bots],
            "tokens_today": _tokens_today(state),
            "tokens_a_day": state.serve.bot_tokens,
        }

    return json_response(await database_threads.run_query(content))


@router.get("/bots/{name}", **route_options(Scope.READ, OneBotOut, 404, other_scope=Scope.STUDY))
async def get_bot(request: Request, name: BotName) -> Response:
    """A bot, with the hash by which a change is noticed."""
    state = state_of(request)
    return json_response((await database_threads.run_query(lambda: state.bots.get(name))).as_json())


@router.put(
    "/bots/{name}", **route_options(Scope.ADMIN, {200: PutBotOut, 201: PutBotOut}, 403, 404, 409, 422, body=BotIn)
)
async def put_bot(request: Request, name: BotName, body: Annotated[BotIn, Depends(body_of(BotIn))]) -> Response:
    """Store a bot (201), or change one (200).

    Its address is one of the server's `bot_hosts`, and the variable of its key begins with `BOT_`. An index or a
    network without a version gets the published one.
    """
    state = state_of(request)

    def put() -> PutBot:
        return state.bots.put(
            name,
            body.specification,
            check=lambda bot: _require_allowed(state, bot),
            expected_sha256=body.expected_sha256,
            **acting(request),
        )

    stored = await database_threads.run_query(put)
    content = {**stored.bot.as_json(), "before": stored.old_sha256}
    return json_response(content, status=201 if stored.is_new else 200)


@router.delete("/bots/{name}", **route_options(Scope.ADMIN, DeletedBotOut, 404))
async def delete_bot(request: Request, name: BotName) -> Response:
    """Take a bot away; what it has replied stays, with its hash."""
    state = state_of(request)
    await database_threads.run_query(lambda: state.bots.remove(name, **acting(request)))
    return json_response({"name": name})


@router.post("/bots/{name}/replies", **route_options(Scope.SCORE, BotRepliesOut, 403, 404, 409, body=BotRepliesIn))
async def reply_to_dialogues(
    request: Request, name: BotName, body: Annotated[BotRepliesIn, Depends(body_of(BotRepliesIn))], deadline: Deadline
) -> Response:
    """A bot's reply to each dialogue; one without a reply says why, and an empty reply is none.

    Equal dialogues with equal seeds get equal replies; what an endpoint has answered once is not asked again.
    """
    return await while_connected(request, _reply(request, name, body, deadline))


async def _reply(request: Request, name: str, body: BotRepliesIn, deadline: float) -> Response:
    state = state_of(request)
    if len(body.dialogues) > state.serve.replies:
        raise TooLarge(
            f"{len(body.dialogues):,} dialogues, of at most {state.serve.replies:,}",
            remedy="send them in several requests",
        )
    count_items(request, len(body.dialogues))
    requests = [
        ReplyRequest(
            item=Item(id=f"dialogue-{place + 1}", turns=tuple(dialogue.turns)), seed=dialogue.seed, id=dialogue.id
        )
        for place, dialogue in enumerate(body.dialogues)
    ]

    def ask(system: BotSystem) -> list[BotReply]:
        return timed_replies(system.replier, requests)

    text = f"bot:{name}" if body.sha256 is None else f"bot:{name}#{body.sha256}"
    (bot,) = await ask_systems(state, {name: parse_bot(text)}, ask, count=len(requests), deadline=deadline)
    return await large_json_response(lambda: _content(state, bot, with_retrieved=body.retrieved), items=len(requests))


def _tokens_today(state: ServiceState) -> int | None:
    from refaug.service.bots.stored_bots import bot_days  # noqa: PLC0415  httpx

    try:
        return bot_days(state.home, state.serve).today()
    except (NoAccess, OSError) as error:
        log.warning("bot spending", extra={"why": state.without_paths(str(error))})
        return None


def _use_content(state: ServiceState, bot: StoredBot, use: BotUse) -> dict[str, object]:
    price, failure = bot.price, use.failure
    return {
        **use.as_json(),
        "name": bot.name,
        "failure": None if failure is None else {**asdict(failure), "detail": state.without_paths(failure.detail)},
        "money": None if price is None else use.money,
        "currency": None if price is None else price.currency,
    }


def _content(state: ServiceState, bot: AskedBot, *, with_retrieved: bool) -> dict[str, object]:
    replier = bot.system.replier
    provenance = "|".join(f"{key}:{text}" for key, text in replier.provenance.items())
    return {
        "bot": bot.pinned.source,
        "reply_provenance": provenance,
        "replies": [
            {
                "reply": reply.text,
                "problem": reply.problem or None,
                "detail": state.without_paths(reply.detail) if reply.detail else None,
                "prompt_tokens": reply.prompt_tokens,
                "answer_tokens": reply.answer_tokens,
                "stored": reply.is_stored,
                "ms": reply.ms,
                **({"retrieved": [_retrieved(one) for one in reply.retrieved]} if with_retrieved else {}),
            }
            for reply in bot.replies
        ],
        "problems": dict(sorted(Counter(reply.problem for reply in bot.replies if reply.text is None).items())),
        "remarks": [state.without_paths(remark) for remark in replier.remarks],
    }


def _retrieved(candidate: Reference) -> dict[str, object]:
    return {
        "text": candidate.text,
        "utterance": candidate.utterance,
        "similarity": candidate.similarity,
        "log": candidate.more.get("log"),
    }


def _require_allowed(state: ServiceState, bot: StoredBot) -> None:
    """Raise NotAllowed for an address that is not listed, and for a variable that may hold something else than a key.

    Otherwise a request could send any secret of the server's environment to a listed host.
    """
    from refaug.bots.stored.endpoint_bot import require_hosts  # noqa: PLC0415  httpx
    from refaug.service.bots.stored_bots import bot_policy  # noqa: PLC0415

    require_hosts(bot.name, bot.addresses, bot_policy(state.serve.bot_hosts, is_server=True))
    for variable in bot.key_variables:
        if not _KEY_VARIABLE.fullmatch(variable):
            raise NotAllowed(
                f"bot {bot.name}, key_env: {variable} may hold something else than the key of a bot",
                remedy="a variable whose name begins with BOT_; refaug bots add takes any",
            )
