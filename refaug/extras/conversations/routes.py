"""Route of hybrids: scores of whole conversations."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Annotated, Any, Final, Self

from fastapi import APIRouter, Depends, Path, Request
from pydantic import BaseModel, Field, model_validator
from starlette.concurrency import run_in_threadpool
from starlette.responses import Response

from refaug.core.errors import Conflict, TooLarge
from refaug.extras.conversations.hybrids import StoredHybrid, encoders_of, open_hybrid, score_conversations
from refaug.extras.conversations.metrics.components import MOST_TURN_WORDS, component_cost, turn_words
from refaug.extras.conversations.reading import BadConversation, Conversation, usable_conversation
from refaug.extras.conversations.selfplay.stored import CONVERSATIONS, open_self_play
from refaug.extras.conversations.talks import played_conversations
from refaug.service.scopes import Scope
from refaug.service.server_settings import MIB
from refaug.service.web.answers import large_json_response
from refaug.service.web.connection.body import body_of
from refaug.service.web.dependencies import Deadline, count_items, while_connected
from refaug.service.web.handling.request_lease import DeadlineProgress
from refaug.service.web.openapi import route_options
from refaug.service.web.problems import BadRequest
from refaug.service.web.schemas.common import OnErrorField, Problems, ResponseModel, StrictModel
from refaug.service.web.scoring_limits import queue_places, require_units
from refaug.service.web.state import AddedRoutes, ServiceState, state_of

# ── Bodies and answers ────────────────────────────────────────────────────────────────────────────────────────────────


_SelfPlay = Annotated[str, Field(pattern=r"^[a-z0-9][a-z0-9._-]{0,63}(@[0-9]{4}-[0-9]{2}-[0-9]{2}\.[1-9][0-9]{0,8})?$")]


class HybridScoresIn(StrictModel):
    """Whole conversations to be scored, or a self-play of the server."""

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
    score: float = Field(
        description="points above or below the mean of the conversations that were fitted to; of self-play, of those "
        "that are scored; with intercept `fold`, the predicted rating"
    )


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


# ── Routes ────────────────────────────────────────────────────────────────────────────────────────────────────────────


router = APIRouter(prefix="/v1", tags=["scoring"])

HybridName = Annotated[
    str,
    Path(
        description="name of the hybrid, or name@version",
        pattern=r"^[a-z0-9][a-z0-9._-]{0,63}(@[0-9]{4}-[0-9]{2}-[0-9]{2}\.[1-9][0-9]{0,8})?$",
    ),
]


class _Progress(DeadlineProgress):
    """Progress that ends the work at the deadline or without a client, and keeps the warnings for the answer."""

    def __init__(self, deadline: float) -> None:
        super().__init__(deadline)
        self.warnings = list[str]()

    def warn(self, message: str) -> None:
        """Keep a warning."""
        self.warnings.append(message)


@router.post(
    "/hybrids/{name}/scores", **route_options(Scope.SCORE, HybridScoresOut, 404, 409, 413, body=HybridScoresIn)
)
async def score_by_hybrid(
    request: Request,
    name: HybridName,
    body: Annotated[HybridScoresIn, Depends(body_of(HybridScoresIn))],
    deadline: Deadline,
) -> Response:
    """Scores of whole conversations, or of a self-play, by a hybrid that was fitted to others.

    A bot that the hybrid was fitted to is scored by the fit without it. A hybrid that judges turns by models, or whose
    encoders are files, is for `refaug judge score hybrid`: 409.
    """
    return await while_connected(request, HybridScoring(state_of(request), name, body, deadline).answer(request))


class HybridScoring:
    """A request for scores of conversations by a hybrid."""

    def __init__(self, state: ServiceState, name: str, body: HybridScoresIn, deadline: float) -> None:
        self.state, self.name, self.body, self.deadline = state, name, body, deadline
        self.progress = _Progress(deadline)

    async def answer(self, request: Request) -> Response:
        """Answer the request; scoring has a turn in the queue of long work."""
        count_items(request, len(self.body.conversations or ()) or 1)
        with self.progress.given_up_on_error():
            stored, talks, bad = await run_in_threadpool(self.read)
            units = await run_in_threadpool(conversation_units, talks)
            require_units({f"hybrid {self.name}": units}, self.state.serve)
            content = await self.state.batcher.run(
                partial(self.score, stored, talks, bad),
                items=queue_places(units, self.state.serve),
                deadline=self.deadline,
                is_long=True,
            )
        return await large_json_response(lambda: content, items=len(content["conversations"]))

    def read(self) -> tuple[StoredHybrid, list[Conversation], list[BadConversation]]:
        """Return the hybrid, the conversations and what is none of them; what is too large is refused."""
        stored, body, bad = open_hybrid(self.state.home, self.name), self.body, list[BadConversation]()
        _require_light(stored)
        if body.self_play is not None:
            _require_few_played(self.state, body.self_play)
            talks = played_conversations(self.state.home, body.self_play, self.progress)
        else:
            talks, bad = _usable(body.conversations or [], is_fatal=body.on_error == "fail")
        _require_few(self.state, talks)
        _require_short(talks)
        return stored, talks, bad

    def score(
        self, stored: StoredHybrid, talks: Sequence[Conversation], bad: Sequence[BadConversation]
    ) -> dict[str, Any]:
        """Score the conversations, in a thread, and return what is answered."""
        encoders = encoders_of(stored, None, None, None)
        scores = score_conversations(self.state.home, stored, talks, encoders, self.progress, threads=1)
        return {
            **scores.as_json(),
            "problems": list(map(_problem, bad)),
            "warnings": [self.state.without_paths(text) for text in self.progress.warnings],
        }


def conversation_units(talks: Sequence[Conversation]) -> float:
    """Return an upper bound of the units of scoring conversations, by the lengths of their texts."""
    return sum(component_cost([text for _, text in talk.joined()]) for talk in talks)


def _require_light(stored: StoredHybrid) -> None:
    """Raise Conflict for a hybrid that a request cannot be scored by."""
    remedy = f"score by command: refaug judge score hybrid {stored.name} …"
    if stored.manifest["turns"] is not None:
        judges = ", ".join(stored.manifest["turns"]["metrics"])
        raise Conflict(f"hybrid {stored.name} judges turns by {judges}", remedy=remedy)
    for slot, spec in stored.manifest["encoders"].items():
        if spec is None:
            raise Conflict(f"hybrid {stored.name} was fitted with {slot} of a file, which is not stored", remedy=remedy)


def _usable(
    conversations: Sequence[dict[str, object]], *, is_fatal: bool
) -> tuple[list[Conversation], list[BadConversation]]:
    """Return the conversations that can be used, and the others; BadRequest where one is not, or none is."""
    lines_of = dict[str, int]()
    entries = [usable_conversation(fields, line, lines_of) for line, fields in enumerate(conversations, 1)]
    talks = [entry for entry in entries if isinstance(entry, Conversation)]
    bad = [entry for entry in entries if isinstance(entry, BadConversation)]
    if bad and (is_fatal or not talks):
        problems = list(map(_problem, bad))
        raise BadRequest(
            f"{len(bad):,} of {len(entries):,} conversations cannot be used: {problems[0]['field']}: "
            f"{problems[0]['message']}",
            errors=problems,
            remedy='correct them, or send "on_error": "report" to have the others done',
        )
    return talks, bad


def _problem(bad: BadConversation) -> Mapping[str, Any]:
    """Return a bad conversation as errors and problems list it; its line is its place, counted from 1."""
    at = f"conversations[{bad.line - 1}]"
    return {
        "item": None,
        "place": bad.line - 1,
        "field": f"{at}.{bad.field}" if bad.field else at,
        "message": bad.message,
    }


def _require_few(state: ServiceState, talks: Sequence[Conversation]) -> None:
    """Raise TooLarge for more turns than a request may have replies."""
    turns = sum(len(talk.turns) for talk in talks)
    if turns > state.serve.replies:
        raise TooLarge(
            f"{len(talks):,} conversations have {turns:,} turns, more than the {state.serve.replies:,} that one "
            "request may have",
            remedy="send them in several requests, or score them by command: refaug judge score hybrid",
        )


def _require_short(talks: Sequence[Conversation]) -> None:
    """Raise TooLarge for a text that takes too long by itself; turns of one side in a row are one."""
    for talk in talks:
        words = max((turn_words(text) for _, text in talk.joined()), default=0)
        if words > MOST_TURN_WORDS:
            raise TooLarge(
                f"a turn of conversation {talk.id[:80]} has {words:,} words (an emoji counts as six), and one of a "
                f"request may have {MOST_TURN_WORDS:,}",
                remedy="cut it, or score it by command: refaug judge score hybrid",
            )


def _require_few_played(state: ServiceState, self_play: str) -> None:
    """Raise TooLarge before a self-play is read that has too many turns."""
    with open_self_play(state.home, self_play) as played:
        most = len(played.bots) * int(played.manifest["conversations_per_bot"])
        size = (played.folder / CONVERSATIONS).stat().st_size
    if size > state.serve.body_mib * MIB:
        raise TooLarge(
            f"self-play {self_play} has {size / MIB:,.1f} MiB of conversations, and one request may have "
            f"{state.serve.body_mib:,} MiB",
            remedy="score it by command: refaug judge score hybrid",
        )
    if most > state.serve.replies:
        raise TooLarge(
            f"self-play {self_play} has {most:,} conversations, and one request may have {state.serve.replies:,} turns",
            remedy="score it by command: refaug judge score hybrid",
        )


ADDED: Final = AddedRoutes(routers=[router])
