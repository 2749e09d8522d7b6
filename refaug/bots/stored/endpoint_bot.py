"""What all bots behind an address do: ask a batch at once, and turn each outcome into a reply or a problem."""

from __future__ import annotations

import threading
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Final
from urllib.parse import urlsplit

from refaug.bots.endpoint.addresses import AddressPolicy, AddressRefused
from refaug.bots.endpoint.answer_store import AnswerStore
from refaug.bots.endpoint.chat import ChatAnswer, ChatMessage, ChatRequest, Fault, FaultKind
from refaug.bots.endpoint.client import ClientSettings, Outcome, ask_all
from refaug.bots.endpoint.specification import Endpoint
from refaug.bots.endpoint.spending import DailySpending, DailyTokens, Spending
from refaug.bots.replier import BotReply, Replier, ReplyRequest
from refaug.bots.stored.specification_fields import MOST_TEXT
from refaug.core.errors import NotAllowed

# ── What bots behind an address need: the hosts that they may ask, stored answers, and limits of a server ─────────────

HOSTS_VARIABLE: Final = "REFAUG_BOT_HOSTS"
SERVER_ADVICE: Final = f"the operator of the server adds {{entry}} to --bot-hosts of refaug serve ({HOSTS_VARIABLE})"
COMMAND_ADVICE: Final = f"add {{entry}} to --bot-hosts or, for all commands, to {HOSTS_VARIABLE}"
_REST_S: Final = 30.0


class RestingEndpoints:
    """Addresses that were given up lately, so that the next batch does not wait for them again."""

    def __init__(self, rest_s: float = _REST_S, clock: Callable[[], float] = time.monotonic) -> None:
        self._rest_s, self._clock, self._lock = rest_s, clock, threading.Lock()
        self._ends = dict[str, tuple[float, str]]()

    def rest(self, url: str, message: str) -> None:
        """Let an address rest from now on; `message` is the fault that made it so."""
        with self._lock:
            self._ends[url] = (self._clock() + self._rest_s, message)

    def message_of(self, url: str) -> str | None:
        """Return the fault of an address that rests, or None for one that may be asked."""
        with self._lock:
            end, message = self._ends.get(url, (0.0, ""))
            if end > self._clock():
                return message
            self._ends.pop(url, None)
            return None


@dataclass(frozen=True, kw_only=True)
class EndpointAccess:
    """How bots behind an address are asked; one for a command or a request."""

    client: ClientSettings = field(default_factory=ClientSettings)
    answers: Path | None = None  # the file of stored answers; None: each request is sent
    days: DailyTokens | None = None  # the limit of a server
    on_tick: Callable[[], object] = lambda: None  # called several times a second; its error ends the wait
    resting: RestingEndpoints = field(default_factory=RestingEndpoints)

    def spending_of(self, endpoint: Endpoint) -> Spending:
        """Return what counts the tokens of one bot."""
        price, budget = endpoint.price, endpoint.budget
        return Spending(price, budget) if self.days is None else DailySpending(self.days, price, budget)


def require_hosts(name: str, addresses: Iterable[str], policy: AddressPolicy) -> None:
    """Raise NotAllowed for a bot with an address whose host is not on the list."""
    for url in addresses:
        parts = urlsplit(url)
        try:
            policy.require_host(parts.hostname or "", parts.port or (443 if parts.scheme == "https" else 80))
        except AddressRefused as refused:
            raise NotAllowed(f"bot {name}: {refused.reason}", remedy=refused.advice) from refused


# ── What all bots behind an address do: ask a batch at once, and turn each outcome into a reply or a problem ──────────

NO_UTTERANCE: Final = "no_utterance"
EMPTY: Final = "empty"
REFUSAL: Final = "refusal"
TOOL_CALL: Final = "tool_call"
CONTENT_FILTER: Final = "content_filter"
_MOST_ID: Final = 200  # characters


@dataclass(frozen=True, eq=False, kw_only=True)
class EndpointBot(Replier):
    """A bot behind an address: an OpenAI-compatible endpoint, or a server that is sent turns."""

    kind: str
    spec: str
    endpoint: Endpoint
    access: EndpointAccess
    most_turns: int
    system: str = ""
    max_tokens: int = 1
    temperature: float = 0.0
    spending: Spending
    faults: Counter[str] = field(default_factory=Counter)  # the messages of requests without an answer
    notes: Counter[str] = field(default_factory=Counter)

    @property
    def provenance(self) -> Mapping[str, str]:
        """The name with its hash, which covers the address, the model, the prompt and the parameters."""
        model = {"model": self.endpoint.model} if self.endpoint.dialect == "chat" else {}
        return {"kind": self.kind, "bot": self.spec, **model}

    @property
    def is_random(self) -> bool:
        """Whether a seed can change a reply, as far as refaug knows: not at temperature 0, if the endpoint is told."""
        return self.endpoint.dialect == "turns" or self.temperature > 0 or "temperature" in self.endpoint.omit

    @property
    def remarks(self) -> Sequence[str]:
        """What was asked and what it cost, and the commonest fault."""
        return tuple(self._remarks())

    def _remarks(self) -> Iterator[str]:
        yield self.spending.line
        if self.faults:
            message, count = self.faults.most_common(1)[0]
            yield f"{self.faults.total():,} requests without an answer; {count:,} times: {message}"
        for note, count in self.notes.items():
            yield f"{count:,} replies {note}"

    def replies(self, requests: Sequence[ReplyRequest]) -> list[BotReply]:
        """Ask for all replies, so many at once as the specification says."""
        return self._replies([self._question(request) for request in requests])

    def openings(self, requests: Sequence[ReplyRequest]) -> list[BotReply]:
        """Ask what dialogues begin with: the last turn is an empty one of a user."""
        return self._replies([self._chat_request((ChatMessage("user", ""),), request) for request in requests])

    def _replies(self, questions: Sequence[ChatRequest | None]) -> list[BotReply]:
        answerable = [question for question in questions if question is not None]
        outcomes = iter(self._ask(answerable))
        return [
            BotReply(text=None, problem=NO_UTTERANCE) if question is None else self._reply(next(outcomes))
            for question in questions
        ]

    def _question(self, request: ReplyRequest) -> ChatRequest | None:
        """Return what is sent; None where there is nothing to reply to. The roles alternate, and the last is a user."""
        turns = request.item.turns[-self.most_turns :]
        if not turns or not turns[-1].strip():
            return None
        messages = [
            ChatMessage("assistant" if (len(turns) - place) % 2 == 0 else "user", turn)
            for place, turn in enumerate(turns)
            if turn.strip()
        ]
        return self._chat_request(messages, request)

    def _chat_request(self, messages: Sequence[ChatMessage], request: ReplyRequest) -> ChatRequest:
        system = (ChatMessage("system", self.system),) if self.system.strip() else ()
        return ChatRequest(
            messages=(*system, *messages),
            max_tokens=self.max_tokens,
            temperature=self.temperature,
            seed=request.seed,
            draw=self._draw(request),
        )

    def _draw(self, request: ReplyRequest) -> str:
        """Return what tells draws apart; a seed that is sent does so by itself."""
        if self.endpoint.dialect == "turns":
            return request.id[:_MOST_ID]
        return str(request.seed) if self.is_random and "seed" in self.endpoint.omit else ""

    def _ask(self, questions: Sequence[ChatRequest]) -> list[Outcome]:
        if not questions:
            return []
        if self.access.answers is None:
            return self._ask_new(questions, None)
        with AnswerStore(self.access.answers) as store:
            return self._ask_new(questions, store)

    def _ask_new(self, questions: Sequence[ChatRequest], store: AnswerStore | None) -> list[Outcome]:
        """Ask what is not stored; an address that was given up lately is not asked again at once."""
        settings, message = self.access.client, self.access.resting.message_of(self.endpoint.url)
        if message is not None:
            settings = replace(settings, is_offline=True)
        outcomes = ask_all(
            self.endpoint,
            questions,
            settings=settings,
            store=store,
            spending=self.spending,
            on_tick=self.access.on_tick,
        )
        if message is not None:
            fault = Fault(kind=FaultKind.GIVEN_UP, message=message)
            return [fault if isinstance(outcome, Fault) else outcome for outcome in outcomes]
        given_up = (
            outcome for outcome in outcomes if isinstance(outcome, Fault) and outcome.kind is FaultKind.GIVEN_UP
        )
        if (fault_of_all := next(given_up, None)) is not None:
            self.access.resting.rest(self.endpoint.url, fault_of_all.message)
        return outcomes

    def _reply(self, outcome: Outcome) -> BotReply:
        if isinstance(outcome, Fault):
            self.faults[outcome.message] += 1
            return BotReply(text=None, problem=outcome.kind.value, detail=outcome.message)
        problem, detail = _problem_of(outcome)
        if problem is None and outcome.finish == "length":
            self.notes[f"end at max_tokens={self.max_tokens}"] += 1
        return BotReply(
            text=outcome.text.strip() if problem is None else None,
            problem=problem or "",
            detail=detail,
            prompt_tokens=outcome.prompt_tokens,
            answer_tokens=outcome.answer_tokens,
            is_stored=outcome.is_stored,
            ms=outcome.ms,
        )


def _problem_of(answer: ChatAnswer) -> tuple[str | None, str]:
    """Return why an answer is no reply, and more of it for people; None for a reply."""
    if answer.refusal:
        return REFUSAL, answer.refusal[:_MOST_ID]
    if answer.calls_tools or answer.finish in ("tool_calls", "function_call"):
        return TOOL_CALL, "it calls a tool instead of replying"
    if answer.finish == "content_filter":
        return CONTENT_FILTER, "the endpoint's filter stopped the reply"
    if not answer.text.strip():
        return EMPTY, f"an empty reply, which ended by {answer.finish[:_MOST_ID]}"
    if len(answer.text) > MOST_TEXT:
        return FaultKind.TOO_LARGE.value, f"a reply of {len(answer.text):,} characters, of at most {MOST_TEXT:,}"
    return None, ""
