"""Routes of participants' tasks: the next one, messages, votes, answers, finishing, skipping; and replies of chats.

Replies are made beside the requests: what is stored as asked is asked for, once at a time for a task. The reply of a
process that was killed is asked for again with the next look at the state, by the same request id.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable
from functools import partial
from typing import Annotated, Final, TypeVar

from fastapi import APIRouter, Path
from starlette.responses import Response

from refaug.bots.kinds import parse_bot
from refaug.bots.replier import BotReply, ReplyRequest, openings_of, timed_replies, with_times
from refaug.core.errors import RefaugError, StorageFull, Unavailable
from refaug.core.records import Item
from refaug.extras.studies.participation.tasks.chat_turns import AskedTurn, claim_turns, store_reply
from refaug.extras.studies.routes.participants.sessions import DONE, Acting
from refaug.extras.studies.schemas import AnswersIn, EmptyIn, MessageIn, SkipIn, VoteIn
from refaug.scoring.replies import BotSystem
from refaug.service.database.row_ids import RowHolders
from refaug.service.web.connection.body import request_body
from refaug.service.web.handling import database_threads
from refaug.service.web.routes.bots.leased_bots import ask_systems
from refaug.service.web.state import ServiceState

log = logging.getLogger(__name__)

T = TypeVar("T")

_STORE_WITHIN_S: Final = 60.0  # a database that is away for longer makes the bot be asked again
_STORE_EVERY_S: Final = 0.5


class ReplyMaker:
    """The replies that this process makes."""

    def __init__(self, state: ServiceState, holder: str) -> None:
        self._state, self._holder = state, holder
        self._holders = RowHolders(state.home)
        self._running = dict[str, asyncio.Task[None]]()
        self._wanted = set[str]()

    def start(self, task: str) -> None:
        """Make the replies of a task that are asked for; a second call while they are made lets it look once more."""
        self._wanted.add(task)
        if task not in self._running:
            running = asyncio.create_task(self._make(task), name=f"replies {task}")
            self._running[task] = running
            running.add_done_callback(partial(self._forget, task))

    async def wait(self, task: str, seconds: float, *, look_s: float) -> None:
        """Return when this process has made the replies of a task; after `look_s` where another one makes them."""
        running = self._running.get(task)
        if running is None:
            await asyncio.sleep(min(seconds, look_s))
        else:
            await asyncio.wait({running}, timeout=seconds)

    async def close(self) -> None:
        """End what is being made; it is asked for again after the next start."""
        for running in list(self._running.values()):
            running.cancel()
        await asyncio.gather(*self._running.values(), return_exceptions=True)

    def _forget(self, task: str, running: asyncio.Task[None]) -> None:
        self._running.pop(task, None)
        if not running.cancelled() and (error := running.exception()) is not None:
            log.error("reply", extra={"why": type(error).__name__})
        elif task in self._wanted and not running.cancelled():
            self.start(task)

    async def _make(self, task: str) -> None:
        while task in self._wanted:
            self._wanted.discard(task)
            claim = partial(claim_turns, self._state.database, task, self._holder, self._holders.is_held)
            turns = await _with_patience(claim)
            await asyncio.gather(*(self._ask(turn) for turn in turns))

    async def _ask(self, turn: AskedTurn) -> None:
        text, problem, ms = None, "", None
        try:
            reply = await _reply_of(self._state, turn)
            text, problem, ms = reply.text, reply.problem, reply.ms
        except RefaugError as error:
            problem = error.code
            log.warning("bot of a study", extra={"bot": turn.bot, "why": self._state.without_paths(error.message)})
        except Exception as error:  # noqa: BLE001  a fault of one bot is no end of the chat
            problem = "internal"
            log.error("bot of a study", extra={"bot": turn.bot, "why": type(error).__name__})  # noqa: TRY400  no values
        store = partial(store_reply, self._state.database, turn, text=text, problem=problem, ms=ms)
        await _with_patience(store)


async def _reply_of(state: ServiceState, turn: AskedTurn) -> BotReply:
    """Ask the bot of a turn; Conflict where its specification is not the one that the study has."""
    pair = Item(id=turn.request_id, turns=turn.turns or ("",))
    request = ReplyRequest(item=pair, seed=turn.seed, id=turn.request_id)

    def ask(system: BotSystem) -> list[BotReply]:
        if turn.turns:
            return timed_replies(system.replier, [request])
        began = time.perf_counter()
        return with_times(openings_of(system.replier, [request]), began)

    specification = parse_bot(f"bot:{turn.bot}#{turn.bot_sha256}")
    deadline = time.monotonic() + state.serve.timeout_s
    (bot,) = await ask_systems(state, {turn.bot: specification}, ask, count=1, deadline=deadline)
    return bot.replies[0]


async def _with_patience(work: Callable[[], T]) -> T:
    """Run a query, again while the database is away or has no room: a bot that was asked is not asked once more."""
    until = time.monotonic() + _STORE_WITHIN_S
    while True:
        try:
            return await database_threads.run_query(work)
        except (Unavailable, StorageFull):
            if time.monotonic() >= until:
                raise
            await asyncio.sleep(_STORE_EVERY_S)


router = APIRouter(prefix="/v1/take/tasks", tags=["take"])

TaskId = Annotated[str, Path(description="id of the task, as the state has it", pattern=r"^[0-9a-z]{26}$")]


@router.post("/next", openapi_extra=request_body(EmptyIn), responses=DONE)
async def take_next_task(acting: Acting) -> Response:
    """Reserve the next task; a participant who is in a task keeps it, and one for whom there is none is done."""
    return await acting.act("next", EmptyIn, lambda desk, deed, _: desk.next_task(*deed))


@router.post("/{task}/messages", openapi_extra=request_body(MessageIn), responses=DONE)
async def send_message(acting: Acting, task: TaskId) -> Response:
    """Say something to the bot; its reply is asked for after this is stored, and comes with the state.

    A message that is not the next one, or that comes while a reply is being made, is refused (409).
    """
    return await acting.act(
        "message",
        MessageIn,
        lambda desk, deed, body: desk.message(*deed, task, n=body.n, text=body.text),
        task=task,
        asks=True,
    )


@router.post("/{task}/retry", openapi_extra=request_body(EmptyIn), responses=DONE)
async def ask_again(acting: Acting, task: TaskId) -> Response:
    """Ask once more for a reply that has failed."""
    return await acting.act("retry", EmptyIn, lambda desk, deed, _: desk.ask_again(*deed, task), task=task, asks=True)


@router.post("/{task}/votes", openapi_extra=request_body(VoteIn), responses=DONE)
async def vote_on_reply(acting: Acting, task: TaskId) -> Response:
    """Vote on a reply: 1, -1, or 0 to take a vote back."""
    return await acting.act(
        "vote",
        VoteIn,
        lambda desk, deed, body: desk.vote(*deed, task, side=body.side, n=body.n, vote=body.value),
        task=task,
    )


@router.post("/{task}/answers", openapi_extra=request_body(AnswersIn), responses=DONE)
async def store_answers(acting: Acting, task: TaskId) -> Response:
    """Store answers; they may be changed until the task is finished."""
    return await acting.act(
        "answers",
        AnswersIn,
        lambda desk, deed, body: desk.answers(*deed, task, body.answers, side=body.side, turn=body.n),
        task=task,
    )


@router.post("/{task}/finish", openapi_extra=request_body(EmptyIn), responses=DONE)
async def finish_task(acting: Acting, task: TaskId) -> Response:
    """Finish the task; refused (409) while messages or answers are missing, whatever the page says."""
    return await acting.act("finish", EmptyIn, lambda desk, deed, _: desk.finish(*deed, task), task=task)


@router.post("/{task}/skip", openapi_extra=request_body(SkipIn), responses=DONE)
async def skip_task(acting: Acting, task: TaskId) -> Response:
    """Leave the task out, with a reason; a task whose bot gives no reply is not counted."""
    return await acting.act("skip", SkipIn, lambda desk, deed, body: desk.skip(*deed, task, body.reason), task=task)
