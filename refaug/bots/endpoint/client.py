"""Ask an endpoint many things at once: retries, one id for all tries, Retry-After, a breaker, a budget, stored answers.

Every request ends in exactly one outcome, an answer or a fault, and none raises.
"""

from __future__ import annotations

import asyncio
import hashlib
import ssl
import time
from collections.abc import Callable, Coroutine, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from enum import Enum
from math import isfinite
from time import perf_counter
from typing import Any, Final, Self

import httpx2
import orjson

from refaug.bots.endpoint.addresses import THIS_MACHINE, AddressPolicy, AddressRefused, CheckedTransport
from refaug.bots.endpoint.answer_store import AnswerStore
from refaug.bots.endpoint.chat import (
    ChatAnswer,
    ChatRequest,
    Fault,
    FaultKind,
    read_answer,
    read_echo,
    read_turns_answer,
    shorten,
)
from refaug.bots.endpoint.specification import ANSWER_LIMITS, Endpoint
from refaug.bots.endpoint.spending import Reservation, Spending

# ── What an endpoint wishes by Retry-After, and the gate at which all requests wait for it ────────────────────────────


def retry_after_s(text: str | None, now: Callable[[], datetime] = lambda: datetime.now(UTC)) -> float | None:
    """Read Retry-After: seconds, or a date; None where it says nothing usable."""
    if not text:
        return None
    try:
        seconds = float(text.strip())
    except ValueError:
        try:
            date = parsedate_to_datetime(text)
        except ValueError:
            return None
        seconds = ((date if date.tzinfo else date.replace(tzinfo=UTC)) - now()).total_seconds()
    return max(0.0, seconds) if isfinite(seconds) else None


class SharedPause:
    """Requests wait here until the time that the endpoint named last."""

    def __init__(self) -> None:
        self._opens_at = 0.0

    def close_for(self, seconds: float) -> None:
        """Let no request pass for so many seconds."""
        self._opens_at = max(self._opens_at, time.monotonic() + seconds)

    async def wait(self) -> None:
        """Wait until requests may pass."""
        while (seconds := self._opens_at - time.monotonic()) > 0:
            await asyncio.sleep(seconds)


# ── A breaker: after so many errors an endpoint is left alone for a while ────────────────────

FAULTS: Final = 8  # requests in a row that failed for good, each after its own tries
REJECTIONS: Final = 100  # of single requests, before there is any answer: then it is what all of them have
TRIALS: Final = 2
PAUSE_S: Final = 5.0


class Permit(Enum):
    """What a request may do."""

    SEND = "send"
    TRIAL = "trial"  # it is sent alone, and all others wait for how it goes
    REFUSED = "refused"


class Breaker:
    """Counts the requests in a row that failed for good; any answer sets the count back.

    When there are `faults` of them, all requests wait; then one is sent. If `trials` of these fail too, the endpoint
    is given up, and no request is sent any more.
    """

    def __init__(self, *, faults: int = FAULTS, trials: int = TRIALS, pause_s: float = PAUSE_S) -> None:
        self._faults, self._trials, self._pause_s = faults, trials, pause_s
        self._in_a_row = self._failed_trials = self._rejected = 0
        self._has_answered = False
        self._trial = asyncio.Lock()
        self.last_message = ""

    async def permit(self) -> Permit:
        """Wait until the request may be sent, or the endpoint is given up."""
        if self._failed_trials >= self._trials:
            return Permit.REFUSED
        if self._in_a_row < self._faults:
            return Permit.SEND
        await self._trial.acquire()  # released by `note`
        if self._failed_trials < self._trials and self._in_a_row >= self._faults:
            await self._pause()
            return Permit.TRIAL
        self._trial.release()
        return Permit.REFUSED if self._failed_trials >= self._trials else Permit.SEND

    async def _pause(self) -> None:
        try:
            await asyncio.sleep(self._pause_s)
        except BaseException:
            self._trial.release()
            raise

    def note(self, permit: Permit, fault: Fault | None) -> None:
        """Note how a permitted request went: its fault, or None for an answer.

        A fault of the request shows a working endpoint, unless it has rejected many and answered none.
        """
        self._has_answered |= fault is None
        self._rejected += fault is not None and fault.is_of_request
        if fault is None or (fault.is_of_request and (self._has_answered or self._rejected <= REJECTIONS)):
            self._in_a_row = self._failed_trials = 0
        else:
            self._in_a_row += 1
            self.last_message = fault.message
            self._failed_trials += permit is Permit.TRIAL
        if permit is Permit.TRIAL:
            self._trial.release()


# ── Ask an endpoint many things at once ───────────────────────────────────────────────────────────────────────────────

Outcome = ChatAnswer | Fault
_FIRST_WAIT_S: Final = 0.5
_LONGEST_WAIT_S: Final = 30.0
_UNTOLD_WAIT_S: Final = 1.0  # after a 429 without Retry-After, doubled each time
_TICK_S: Final = 0.2
_ID_DIGITS: Final = 40
_INTERRUPTED: Final = Fault(kind=FaultKind.CUT_OFF, message="interrupted")


@dataclass(frozen=True, kw_only=True)
class ClientSettings:
    """How requests are sent, beside what the endpoint's file says."""

    policy: AddressPolicy = THIS_MACHINE
    first_wait_s: float = _FIRST_WAIT_S  # before the second try; each further wait is twice as long
    breaker: Callable[[], Breaker] = Breaker
    transport: Callable[[], httpx2.AsyncBaseTransport] | None = None
    is_offline: bool = False  # only stored answers count
    environment: Mapping[str, str] | None = None


def request_body(endpoint: Endpoint, request: ChatRequest) -> dict[str, object]:
    """Return the JSON of a request."""
    if endpoint.dialect == "turns":
        return {
            "turns": [message.content for message in request.messages],
            "id": request.draw or _turns_id(endpoint, request),
            "seed": request.seed,
        }
    if endpoint.dialect == "echo":
        prompt = request.messages[0].content
        asked = {"model": endpoint.model, "prompt": prompt, "echo": True, "logprobs": 1, "max_tokens": 0}
        return {**asked, "temperature": 0.0, **endpoint.parameters}
    body: dict[str, object] = {
        "model": endpoint.model,
        "messages": [{"role": message.role, "content": message.content} for message in request.messages],
        "temperature": request.temperature,
        "max_tokens": request.max_tokens,
        **({"seed": request.seed} if request.seed is not None else {}),
        **({"logprobs": True, "top_logprobs": request.top_logprobs} if request.top_logprobs else {}),
    }
    for name in endpoint.omit:
        body.pop(name, None)
    if "max_tokens" in body:
        body[endpoint.max_tokens_field] = body.pop("max_tokens")
    return {**body, **endpoint.parameters}


def _turns_id(endpoint: Endpoint, request: ChatRequest) -> str:
    """Return an id for turns that came without one."""
    parts = [endpoint.url, [message.content for message in request.messages], request.seed]
    return hashlib.sha256(orjson.dumps(parts)).hexdigest()[:_ID_DIGITS]


def request_id(endpoint: Endpoint, request: ChatRequest) -> str:
    """Return the id of a request: a hash of the address, of all that is sent, and of its draw."""
    parts = [endpoint.completions_url, request_body(endpoint, request), request.draw]
    return hashlib.sha256(orjson.dumps(parts, option=orjson.OPT_SORT_KEYS)).hexdigest()[:_ID_DIGITS]


def ask_all(
    endpoint: Endpoint,
    requests: Sequence[ChatRequest],
    *,
    settings: ClientSettings | None = None,
    store: AnswerStore | None = None,
    spending: Spending | None = None,
    on_outcome: Callable[[Outcome], object] = lambda _: None,
    on_tick: Callable[[], object] = lambda: None,
) -> list[Outcome]:
    """Return an outcome for each request, in order; equal requests are sent once.

    `on_tick` is called several times a second while answers are awaited; an error that it raises ends the wait.
    """
    settings, spending = settings or ClientSettings(), spending or Spending(endpoint.price, endpoint.budget)
    ids = [request_id(endpoint, request) for request in requests]
    by_id = dict(zip(ids, requests, strict=True))
    outcomes: dict[str, Outcome] = dict(store.get_all(list(by_id))) if store is not None else {}
    spending.stored += len(outcomes)
    for answer in outcomes.values():
        on_outcome(answer)
    new = {name: request for name, request in by_id.items() if name not in outcomes}
    if settings.is_offline:
        fault = Fault(kind=FaultKind.NOT_STORED, message="its answer is not stored")
        return [outcomes.get(name, fault) for name in ids]
    if new:
        secret = endpoint.secret(settings.environment)

        async def ask() -> None:
            async with ChatClient(endpoint, settings, secret, spending) as client, asyncio.TaskGroup() as tasks:
                ticks = tasks.create_task(_tick(on_tick))
                await client.ask_each(new, _keep(outcomes, store, on_outcome))
                ticks.cancel()

        _run(ask)
    return [outcomes[name] for name in ids]


async def _tick(on_tick: Callable[[], object]) -> None:
    while True:
        await asyncio.sleep(_TICK_S)
        on_tick()


def _keep(
    outcomes: dict[str, Outcome], store: AnswerStore | None, on_outcome: Callable[[Outcome], object]
) -> Callable[[str, Outcome], None]:
    def keep(name: str, outcome: Outcome) -> None:
        outcomes[name] = outcome
        if store is not None and isinstance(outcome, ChatAnswer):
            store.put(name, outcome)
        on_outcome(outcome)

    return keep


def _run(ask: Callable[[], Coroutine[Any, Any, None]]) -> None:
    """Run a coroutine to its end, also where the caller's thread has a running loop, as notebooks have."""
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        _run_alone(ask)
        return
    with ThreadPoolExecutor(1) as threads:
        threads.submit(_run_alone, ask).result()


def _run_alone(ask: Callable[[], Coroutine[Any, Any, None]]) -> None:
    """Run a coroutine, and raise the first error of its tasks instead of a group."""
    try:
        asyncio.run(ask())
    except BaseExceptionGroup as group:
        raise _first_error(group) from group


def _first_error(group: BaseExceptionGroup[BaseException]) -> BaseException:
    first = group.exceptions[0]
    return _first_error(first) if isinstance(first, BaseExceptionGroup) else first


class ChatClient:
    """A client of one endpoint, for one event loop."""

    def __init__(
        self, endpoint: Endpoint, settings: ClientSettings, secret: str | None = None, spending: Spending | None = None
    ) -> None:
        self._endpoint, self._settings, self._secret = endpoint, settings, secret
        self._spending = spending or Spending(endpoint.price, endpoint.budget)
        self._reserved, self._settled = 0, asyncio.Event()
        self._gate, self._breaker = SharedPause(), settings.breaker()
        limits = httpx2.Limits(
            max_connections=endpoint.concurrency, max_keepalive_connections=endpoint.concurrency, keepalive_expiry=30
        )
        inner = settings.transport() if settings.transport else _transport(endpoint, limits)
        self._http = httpx2.AsyncClient(
            transport=CheckedTransport(settings.policy, inner),
            timeout=httpx2.Timeout(endpoint.timeout_s),
            follow_redirects=False,
            trust_env=False,
        )

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._http.aclose()

    async def ask_each(self, requests: Mapping[str, ChatRequest], keep: Callable[[str, Outcome], None]) -> None:
        """Ask all requests, so many at once as the endpoint's file says, and hand each outcome to `keep`."""
        waiting = iter(requests.items())

        async def work(shared: Iterator[tuple[str, ChatRequest]]) -> None:
            for name, request in shared:
                keep(name, await self.ask(request, name))

        async with asyncio.TaskGroup() as tasks:
            for _ in range(min(self._endpoint.concurrency, len(requests))):
                tasks.create_task(work(waiting))

    async def ask(self, request: ChatRequest, name: str | None = None) -> Outcome:
        """Return the answer to a request, or the fault of its last try."""
        name = name or request_id(self._endpoint, request)
        reservation = await self._reserve(self._as_sent(request))
        if reservation is None:
            return Fault(kind=FaultKind.OVER_BUDGET, message="not sent: the budget is spent")
        outcome: Outcome | None = None
        try:
            permit = await self._breaker.permit()
            if permit is Permit.REFUSED:
                message = (
                    f"not sent: the endpoint was given up after faults in a row, such as: {self._breaker.last_message}"
                )
                return Fault(kind=FaultKind.GIVEN_UP, message=message)
            try:
                outcome = await self._try_often(orjson.dumps(request_body(self._endpoint, request)), name, reservation)
            finally:
                self._breaker.note(permit, None if isinstance(outcome, ChatAnswer) else outcome or _INTERRUPTED)
            return outcome
        finally:
            self._spending.settle(reservation, outcome if isinstance(outcome, ChatAnswer) else None)
            self._reserved -= 1
            self._settled.set()

    async def _reserve(self, request: ChatRequest) -> Reservation | None:
        """Reserve what a request may cost; without room beside those under way, wait for what these cost."""
        while (reservation := self._spending.reserve(request)) is None and self._reserved:
            self._settled.clear()
            await self._settled.wait()
        self._reserved += reservation is not None
        return reservation

    def _as_sent(self, request: ChatRequest) -> ChatRequest:
        """Return the request with the answer's greatest length as the endpoint's own parameters have it."""
        stated = [self._endpoint.parameters.get(name) for name in ANSWER_LIMITS]
        limits = [limit for limit in stated if isinstance(limit, int)]
        return replace(request, max_tokens=max(limits)) if limits else request

    async def _try_often(self, body: bytes, name: str, reservation: Reservation) -> Outcome:
        """Try until there is an answer, a lasting fault, or no try left; a wait after 429 uses up patience instead.

        A try that may have been charged without an answer is repeated only where the budget allows it.
        """
        failed, limited, patience_s = 0, 0, self._endpoint.patience_s
        while True:
            await self._gate.wait()
            outcome = await self._try(body, name)
            if isinstance(outcome, ChatAnswer):
                return outcome
            is_affordable = not outcome.may_have_cost or self._spending.lose(reservation)
            if not outcome.is_transient or not is_affordable:
                return outcome
            if outcome.kind is FaultKind.RATE_LIMITED:
                wait_s = outcome.retry_after_s
                if wait_s is None:
                    wait_s = min(_UNTOLD_WAIT_S * 2**limited, _LONGEST_WAIT_S)
                limited, patience_s = limited + 1, patience_s - max(wait_s, 0.01)
                if patience_s < 0:
                    return outcome
                self._gate.close_for(wait_s)
            else:
                failed += 1
                if failed >= self._endpoint.tries:
                    return outcome
                await asyncio.sleep(self._wait_s(name, failed, outcome))
            self._spending.retries += 1

    def _wait_s(self, name: str, failed: int, fault: Fault) -> float:
        """Return how long to wait: doubled each time, and different for every request, so that not all come at once."""
        share = int(hashlib.sha256(f"{name}{failed}".encode()).hexdigest()[:8], 16) / 0xFFFFFFFF
        wait_s = min(self._settings.first_wait_s * 2.0 ** (failed - 1), _LONGEST_WAIT_S) * (0.5 + share / 2)
        return max(wait_s, min(fault.retry_after_s or 0.0, _LONGEST_WAIT_S))

    async def _try(self, body: bytes, name: str) -> Outcome:
        began = perf_counter()
        try:
            async with asyncio.timeout(self._endpoint.timeout_s):
                outcome = await self._exchange(body, name)
        except (TimeoutError, httpx2.TimeoutException):
            return Fault(kind=FaultKind.TIMEOUT, message=f"no complete answer within {self._endpoint.timeout_s:g} s")
        except AddressRefused as refused:
            return Fault(kind=FaultKind.ADDRESS, message=str(refused))
        except httpx2.ConnectError as error:
            return Fault(kind=FaultKind.CONNECTION, message=f"no connection: {shorten(str(error))}")
        except httpx2.TransportError as error:
            what = shorten(str(error)) or type(error).__name__
            return Fault(kind=FaultKind.CUT_OFF, message=f"the connection broke off: {what}")
        if isinstance(outcome, ChatAnswer):
            return replace(outcome, ms=round((perf_counter() - began) * 1000, 3))
        return outcome

    async def _exchange(self, body: bytes, name: str) -> Outcome:
        endpoint, most = self._endpoint, self._endpoint.max_answer_bytes
        async with self._http.stream(
            "POST", endpoint.completions_url, content=body, headers=self._headers(name)
        ) as got:
            if 300 <= got.status_code < 400:
                return _redirect(got)
            if got.headers.get("content-encoding", "identity") != "identity":
                return Fault(kind=FaultKind.WRONG_SHAPE, message="a compressed answer, which was not asked for")
            content = bytearray()
            async for piece in got.aiter_raw():
                content += piece
                if len(content) > most:
                    return Fault(kind=FaultKind.TOO_LARGE, message=f"an answer of more than {most:,} bytes")
        read = {"turns": read_turns_answer, "echo": read_echo}.get(endpoint.dialect, read_answer)
        outcome = read(got.status_code, got.headers.get("content-type", ""), self._without_secret(content))
        if isinstance(outcome, Fault):
            return replace(outcome, retry_after_s=retry_after_s(got.headers.get("retry-after")))
        return outcome

    def _headers(self, name: str) -> dict[str, str]:
        """Return the headers; all tries of a request have one id, so that an endpoint can recognise them."""
        headers = {
            "Content-Type": "application/json",
            "Accept": "application/json",
            "Accept-Encoding": "identity",
            "Idempotency-Key": name,
            "X-Request-ID": name,
        }
        if self._secret is not None:
            is_bearer = self._endpoint.key_header == "Authorization"
            headers[self._endpoint.key_header] = f"Bearer {self._secret}" if is_bearer else self._secret
        return headers

    def _without_secret(self, content: bytearray) -> bytes:
        """Return an answer without the key, which some endpoints repeat in their messages."""
        return bytes(content) if self._secret is None else bytes(content).replace(self._secret.encode(), b"(key)")


def _transport(endpoint: Endpoint, limits: httpx2.Limits) -> httpx2.AsyncBaseTransport:
    """Return a transport; certificates, which take a while to read, only where they are used."""
    is_encrypted = endpoint.url.startswith("https:")
    context = httpx2.create_ssl_context() if is_encrypted else ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    return httpx2.AsyncHTTPTransport(verify=context, limits=limits)


def _redirect(response: httpx2.Response) -> Fault:
    target = response.headers.get("location", "")
    host = httpx2.URL(target).host if _is_url(target) else ""
    to = f" to {host}" if host else ""
    return Fault(
        kind=FaultKind.REDIRECT,
        message=f"status {response.status_code}: it redirects{to}, and redirects are not followed: name that address",
    )


def _is_url(text: str) -> bool:
    try:
        httpx2.URL(text)
    except httpx2.InvalidURL:
        return False
    return True
