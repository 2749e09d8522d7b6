"""Large inputs: cut into requests, a few of them sent at once, their answers in the order of the input.

Input is read by whoever asks for the answers, and no further ahead than it is sent: `at_once` requests are on their way
and one more is ready, whether the input is a list or has no end. What the server finds too large (413) is halved, and
so is all that follows it.
"""

from __future__ import annotations

import os
import re
import threading
from collections import deque
from collections.abc import (
    AsyncGenerator,
    AsyncIterable,
    Awaitable,
    Generator,
    Iterable,
    Iterator,
    Mapping,
    Sequence,
)
from dataclasses import dataclass, field
from functools import partial
from itertools import islice
from typing import TYPE_CHECKING, Any, Callable, Generic, Optional, Protocol, TypeVar, Union

from . import _errors as errors
from ._call import Call
from ._connection import AsyncConnection, Connection

if TYPE_CHECKING:
    import asyncio

T = TypeVar("T")
Input = Iterable[T]
AsyncInput = Union[Iterable[T], AsyncIterable[T]]

BATCH = 100  # items of a request: two of the server's own batches, so that others get between
ROWS = 1_000  # replies of a request against a frozen set, where nothing is searched
AT_ONCE = 4

_LOOK_S = 0.2  # between two looks at whether the client was closed, while an answer is waited for
_PLACE = re.compile(r"\b(items|pairs|dialogues)\[(\d+)\]|(\breplies\.[^\n:]*?)\[(\d+)\]")


# ── cutting ───────────────────────────────────────────────────────────────────────────────────────────────────────


def batched(items: Iterable[T], size: int) -> Iterator[list[T]]:
    """Lists of so many items, the last one shorter; read as they are asked for."""
    left = iter(items)
    while batch := list(islice(left, size)):
        yield batch


def whole(value: Any, name: str, *, least: int = 1) -> int:
    """A number of things; Usage where it is none."""
    if isinstance(value, bool) or not isinstance(value, int) or value < least:
        raise errors.Usage(f"{name}={value!r} is no number of them", remedy=f"a whole number, {least} or more")
    return value


def require_several(items: Any, name: str = "items") -> None:
    """Usage for what can be iterated over, but is one thing."""
    if isinstance(items, (str, bytes, Mapping)) or not (hasattr(items, "__iter__") or hasattr(items, "__aiter__")):
        raise errors.Usage(
            f"{name} is {type(items).__name__}, where several are wanted", remedy=f"a list or generator of {name}"
        )


@dataclass
class Size:
    """How many items go into a request; less after the server has found that too many."""

    now: int

    def at_most(self, size: int) -> None:
        """No more than this from here on."""
        self.now = max(1, min(self.now, size))


@dataclass(frozen=True)
class Batch:
    """Some items that follow each other, and the place of the first one in all of the input."""

    first: int
    items: Sequence[Any]

    @property
    def halves(self) -> tuple[Batch, Batch]:
        """The same as two."""
        middle = (len(self.items) + 1) // 2
        return Batch(self.first, self.items[:middle]), Batch(self.first + middle, self.items[middle:])


def cut(items: Iterable[Any], size: Size) -> Iterator[Batch]:
    """The input as batches; each is as large as batches are when it is asked for."""
    left, first = iter(items), 0
    while batch := list(islice(left, size.now)):
        yield Batch(first, batch)
        first += len(batch)


async def async_cut(items: AsyncInput[Any], size: Size) -> AsyncGenerator[Batch, None]:
    """The same for input of either kind."""
    if not isinstance(items, AsyncIterable):
        for batch in cut(items, size):
            yield batch
        return
    listed: list[Any] = []
    first = 0
    async for item in items:
        listed.append(item)
        if len(listed) >= size.now:
            yield Batch(first, listed)
            first, listed = first + len(listed), []
    if listed:
        yield Batch(first, listed)


# ── requests and answers ──────────────────────────────────────────────────────────────────────────────────────────


@dataclass(frozen=True)
class Part(Generic[T]):
    """The answer to a batch."""

    batch: Batch
    answer: T


class Order(Protocol[T]):
    """What is asked about each batch."""

    def call(self, batch: Batch) -> Call[T]:
        """The request for a batch."""
        ...

    def learn(self, answer: T) -> None:
        """Take from an answer what the requests after it are to hold to; the first one is alone until it is there."""
        ...

    def instead(self, error: errors.BadInput, batch: Batch) -> Optional[T]:
        """An answer that stands for an error, where one batch may fail and all together would not."""
        ...


@dataclass
class Outcome(Generic[T]):
    """What came of a batch: its answer, or those of the parts it was cut into, and the error that ended it."""

    parts: list[Part[T]] = field(default_factory=list)
    error: Optional[BaseException] = None

    def opened(self) -> Iterator[Part[T]]:
        """The parts there are, and then the error."""
        yield from self.parts
        if self.error is not None:
            raise self.error


@dataclass
class _Trial(Generic[T]):
    """A batch on its way: what is to be sent next, until nothing is left or one piece of it failed."""

    order: Order[T]
    size: Size
    waiting: list[Batch]
    outcome: Outcome[T] = field(default_factory=Outcome)

    @property
    def next(self) -> Optional[Batch]:
        """The piece to be sent now."""
        return self.waiting[0] if self.waiting else None

    def answered(self, answer: T) -> None:
        """The piece went through."""
        self.order.learn(answer)
        self.outcome.parts.append(Part(self.waiting.pop(0), answer))

    def failed(self, error: BaseException) -> None:
        """Halve the piece, or give up."""
        batch = self.waiting.pop(0)
        if is_too_large(error) and len(batch.items) > 1:
            self.waiting[:0] = batch.halves
            self.size.at_most(len(batch.halves[0].items))
            return
        if isinstance(error, errors.BadInput):
            if (answer := self.order.instead(error, batch)) is not None:
                self.outcome.parts.append(Part(batch, answer))
                return
            shift(error, batch.first)
        self.outcome.error = error
        self.waiting.clear()


def is_too_large(error: BaseException) -> bool:
    """Whether less at once may go through; a proxy has a limit of its own, and says so in words of its own."""
    return isinstance(error, (errors.BadInput, errors.BadAnswer)) and error.status == 413


def shift(error: errors.BadInput, first: int) -> None:
    """Let an error name places of the whole input, where the request had only a part of it."""
    if not first:
        return
    error.problem["errors"] = [shifted(one, first) for one in error.errors]
    error.message = _moved(error.message, first)
    error.args = (error.message,)


def shifted(problem: Mapping[str, Any], first: int) -> dict[str, Any]:
    """The same for one problem of a list."""
    found = dict(problem)
    if type(found.get("place")) is int:
        found["place"] += first
    for name in ("field", "message"):
        if isinstance(found.get(name), str):
            found[name] = _moved(found[name], first)
    return found


def _moved(text: str, first: int) -> str:
    def moved(found: re.Match[str]) -> str:
        name, place = (found[1], found[2]) if found[1] else (found[3], found[4])
        return f"{name}[{int(place) + first}]"

    return _PLACE.sub(moved, text)


# ── in threads ────────────────────────────────────────────────────────────────────────────────────────────────────


def sent(
    connection: Connection,
    order: Order[T],
    items: Iterable[Any],
    *,
    batch: int = BATCH,
    at_once: int = AT_ONCE,
    timeout_s: Optional[float] = None,
) -> Generator[Part[T], None, None]:
    """The answers about all items, in their order; an error comes after all that came before it."""
    size = Size(whole(batch, "batch"))
    cutter = cut(items, size)
    first = next(cutter, None)
    if first is None:
        return
    yield from _tried(connection, order=order, batch=first, size=size, timeout_s=timeout_s).opened()
    tasks = (partial(_tried, order=order, batch=one, size=size, timeout_s=timeout_s) for one in cutter)
    outcomes = ordered(connection, tasks, at_once)
    try:
        for outcome in outcomes:
            yield from outcome.opened()
    finally:
        outcomes.close()


def _tried(
    connection: Connection, *, order: Order[T], batch: Batch, size: Size, timeout_s: Optional[float]
) -> Outcome[T]:
    trial = _Trial(order, size, [batch])
    while (one := trial.next) is not None:
        try:
            trial.answered(connection.send(order.call(one), timeout_s=timeout_s))
        except errors.RefaugError as error:
            trial.failed(error)
    return trial.outcome


def in_order(
    connection: Connection, calls: Iterable[Call[T]], at_once: int = AT_ONCE, *, timeout_s: Optional[float] = None
) -> Iterator[T]:
    """The answers to calls, in their order; closed before its end, it sends no more."""

    def task(call: Call[T]) -> Callable[[Connection], T]:
        return lambda to: to.send(call, timeout_s=timeout_s)

    return ordered(connection, (task(call) for call in calls), at_once)


def ordered(connection: Connection, tasks: Iterable[Callable[[Connection], T]], at_once: int) -> _Ordered[T]:
    """What tasks return, in their order, with so many of them in threads at once."""
    return _Ordered(connection, tasks, min(whole(at_once, "at_once"), connection.to.connections))


class _Ordered(Generic[T]):
    """An iterator over what tasks return; closing it lets none of them begin any more, and none be tried again."""

    def __init__(self, connection: Connection, tasks: Iterable[Callable[[Connection], T]], at_once: int) -> None:
        self._pid = os.getpid()
        self._steps = _steps(connection, tasks, at_once)

    def __iter__(self) -> _Ordered[T]:
        return self

    def __next__(self) -> T:
        if self._pid != os.getpid():
            raise errors.Usage("this was begun in another process, whose threads are not here", remedy="begin anew")
        return next(self._steps)

    def close(self) -> None:
        """Send no more, and give up what is on its way."""
        self._steps.close()


def _steps(
    connection: Connection, tasks: Iterable[Callable[[Connection], T]], at_once: int
) -> Generator[T, None, None]:
    senders: _Senders[T] = _Senders(connection, at_once)
    waiting: deque[_Ticket[T]] = deque()
    left, broken = iter(tasks), None
    try:
        while True:
            try:
                waiting.append(senders.take(next(left)))
            except StopIteration:
                break
            except Exception as error:  # noqa: BLE001  of who makes the input: what was read before goes first
                broken = error
                break
            if len(waiting) > at_once:
                yield senders.wait(waiting.popleft())
        while waiting:
            yield senders.wait(waiting.popleft())
        if broken is not None:
            raise broken
    finally:
        senders.end()


class _Ticket(Generic[T]):
    """A task that somebody waits for."""

    def __init__(self, task: Callable[[Connection], T]) -> None:
        self.task = task
        self.done = threading.Event()
        self.error: Optional[BaseException] = None
        self.value: Any = None

    def run(self, connection: Connection) -> None:
        """Do it, and say so."""
        try:
            self.value = self.task(connection)
        except BaseException as error:  # noqa: BLE001  it is raised where it is waited for
            self.error = error
        self.done.set()


class _Senders(Generic[T]):
    """Threads that do tasks in turn; made when they are needed, gone when nobody waits any more.

    They have connections of their own, so that ending those ends what is on its way, and nothing else of the client.
    Of an httpx client that was handed in there is only the one: what is on its way there is not waited for.
    """

    def __init__(self, connection: Connection, most: int) -> None:
        self._connection = connection
        self._own: Optional[Connection] = None
        self._most, self._threads = most, 0
        self._tasks: deque[_Ticket[T]] = deque()
        self._changed = threading.Condition()
        self._idle, self._ended = 0, False
        self._pid = os.getpid()

    def take(self, task: Callable[[Connection], T]) -> _Ticket[T]:
        """Put a task in line."""
        ticket = _Ticket(task)
        with self._changed:
            if self._own is None:
                self._own = _beside(self._connection)
            self._tasks.append(ticket)
            if len(self._tasks) > self._idle and self._threads < self._most:
                self._threads += 1
                threading.Thread(target=self._work, name="refaug-send", daemon=True).start()
            else:
                self._changed.notify()
        return ticket

    def wait(self, ticket: _Ticket[T]) -> T:
        """What came of it."""
        while not ticket.done.wait(_LOOK_S):
            if self._connection.closing.is_set():
                raise errors.Usage("this client is closed", remedy="a new one")
        if ticket.error is not None:
            raise ticket.error
        value: T = ticket.value
        return value

    def end(self) -> None:
        """Begin nothing any more."""
        if self._pid != os.getpid():
            return  # a child has none of these threads, and perhaps a lock that one of them held
        with self._changed:
            self._ended = True
            self._tasks.clear()
            self._changed.notify_all()
        if self._own is not None:
            self._own.close()

    def _work(self) -> None:
        own = self._own
        assert own is not None, "made before the first thread"
        while True:
            with self._changed:
                self._idle += 1
                while not self._tasks and not self._ended:
                    self._changed.wait()
                self._idle -= 1
                if self._ended:
                    return
                ticket = self._tasks.popleft()
            ticket.run(own)


def _beside(connection: Connection) -> Connection:
    if connection.closing.is_set():
        raise errors.Usage("this client is closed", remedy="a new one")
    own = connection.given is None
    return Connection(connection.to) if own else connection.part()


# ── in a loop ─────────────────────────────────────────────────────────────────────────────────────────────────────


async def async_sent(
    connection: AsyncConnection,
    order: Order[T],
    items: AsyncInput[Any],
    *,
    batch: int = BATCH,
    at_once: int = AT_ONCE,
    timeout_s: Optional[float] = None,
) -> AsyncGenerator[Part[T], None]:
    """`sent` for asyncio; the input may be an asynchronous iterator."""
    size = Size(whole(batch, "batch"))
    cutter = async_cut(items, size)

    def task(one: Batch) -> Callable[[], Awaitable[Outcome[T]]]:
        return lambda: _async_tried(connection, order, one, size, timeout_s)

    async def tasks() -> AsyncGenerator[Callable[[], Awaitable[Outcome[T]]], None]:
        async for one in cutter:
            yield task(one)

    outcomes: AsyncGenerator[Outcome[T], None] = async_ordered(connection, tasks(), at_once)
    try:
        async for first in cutter:  # alone: what it says goes for all others
            for part in (await task(first)()).opened():
                yield part
            break
        async for outcome in outcomes:
            for part in outcome.opened():
                yield part
    finally:
        await outcomes.aclose()
        await cutter.aclose()


async def _async_tried(
    connection: AsyncConnection, order: Order[T], batch: Batch, size: Size, timeout_s: Optional[float]
) -> Outcome[T]:
    trial = _Trial(order, size, [batch])
    while (one := trial.next) is not None:
        try:
            trial.answered(await connection.send(order.call(one), timeout_s=timeout_s))
        except errors.RefaugError as error:
            trial.failed(error)
    return trial.outcome


async def async_in_order(
    connection: AsyncConnection,
    calls: AsyncInput[Call[T]],
    at_once: int = AT_ONCE,
    *,
    timeout_s: Optional[float] = None,
) -> AsyncGenerator[T, None]:
    """`in_order` for asyncio; closed before its end, it takes back what is on its way."""

    def task(call: Call[T]) -> Callable[[], Awaitable[T]]:
        return lambda: connection.send(call, timeout_s=timeout_s)

    async def tasks() -> AsyncGenerator[Callable[[], Awaitable[T]], None]:
        if isinstance(calls, AsyncIterable):
            async for call in calls:
                yield task(call)
        else:
            for call in calls:
                yield task(call)

    answers: AsyncGenerator[T, None] = async_ordered(connection, tasks(), at_once)
    try:
        async for answer in answers:
            yield answer
    finally:
        await answers.aclose()


async def async_ordered(
    connection: AsyncConnection, tasks: AsyncGenerator[Callable[[], Awaitable[T]], None], at_once: int
) -> AsyncGenerator[T, None]:
    """What tasks return, in their order, with so many of them under way at once."""
    import asyncio  # noqa: PLC0415  whoever has a loop has it already

    most = min(whole(at_once, "at_once"), connection.to.connections)
    room = asyncio.Semaphore(most)
    waiting: deque[asyncio.Future[T]] = deque()
    broken: Optional[Exception] = None

    async def within(make: Callable[[], Awaitable[T]]) -> T:
        async with room:
            return await make()

    try:
        while True:
            try:
                waiting.append(asyncio.ensure_future(within(await tasks.__anext__())))
            except StopAsyncIteration:
                break
            except Exception as error:  # noqa: BLE001  of who makes the input: what was read before goes first
                broken = error
                break
            if len(waiting) > most:
                yield await waiting.popleft()
        while waiting:
            yield await waiting.popleft()
        if broken is not None:
            raise broken
    finally:
        for task in waiting:
            task.cancel()
        await asyncio.gather(*waiting, return_exceptions=True)
        await tasks.aclose()
