"""Requests for many items: sent as several requests where they are too many for one."""

from __future__ import annotations

import os
import threading
from collections import deque
from collections.abc import AsyncGenerator, Coroutine, Generator, Iterable
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, Callable, Generic, Optional, TypeVar

from refaug_client._core import errors
from refaug_client._core.progress import Progress, make_reporter, size_of
from refaug_client._http.call import Call, read_answer
from refaug_client._http.connection import Connection

from .batches import (
    AT_ONCE,
    BATCH,
    Batch,
    BatchAttempt,
    BatchOutcome,
    Document,
    Input,
    Part,
    Size,
    async_cut,
    is_too_large,
    require_count,
    require_several,
)
from .documents import AssembledAnswer, LargeRequest

if TYPE_CHECKING:
    from refaug_client._http.call import Wire

M = TypeVar("M")
T = TypeVar("T")


@dataclass(frozen=True)
class WholeCall(Call[M]):
    """A call about many items, whose answer is the same in how many requests they are sent."""

    large: Callable[[Call[M]], LargeRequest] = LargeRequest
    batch: int = BATCH
    at_once: int = AT_ONCE
    progress: Progress = None

    async def through(self, wire: Wire) -> M:
        """Send it, in several requests where the items are too many, and return the answer about all of them."""
        size, at_once = require_count(self.batch, "batch"), require_count(self.at_once, "at_once")
        request = self.large(self) if (count := self._count()) > size else None
        with make_reporter(self.progress, count or None, "items" if request is None else request.name) as report:
            if request is None:
                try:
                    answer = await wire.send(self)
                except (errors.BadInput, errors.BadAnswer) as error:
                    if count < 2 or not is_too_large(error):
                        raise
                    request, size = self.large(self), (count + 1) // 2
                else:
                    report.advance(count)
                    return answer
            parts = send_batches(wire, request, request.items, batch=size, at_once=at_once)
            try:
                async for part in parts:
                    request.add(part)
                    report.advance(len(part.batch.items))
            finally:
                await parts.aclose()  # what the caller's progress function raises ends the sending at once
            combining = request.combine_call()
            combined = None if combining is None else await _combine(wire, combining)
        return read_answer(self, AssembledAnswer.of(request.document(combined)))

    def _count(self) -> int:
        """Return how many items there are; 0 where only the server knows: all items of a set."""
        return len((self.body or {}).get(self.large.field) or ())  # type: ignore[attr-defined]


async def _combine(wire: Wire, call: Call[Document]) -> Document:
    try:
        return await wire.send(call)
    except errors.BadInput as error:
        if is_too_large(error):
            error.remedy = "fewer metrics or systems at once, or score_iter(), which keeps no sums"
        raise


@dataclass(frozen=True)
class Streaming(Generic[T]):
    """Requests whose results are handed out one by one, in the order of the input, which is read meanwhile."""

    order: Any
    items: Input[Any]
    read: Callable[[Any], T]
    batch: int = BATCH
    at_once: int = AT_ONCE
    progress: Progress = None

    def rows(self, wire: Wire) -> AsyncGenerator[T, None]:
        """Return the results; an error comes after all results before it."""
        require_several(self.items, self.order.name)
        require_count(self.batch, "batch")
        require_count(self.at_once, "at_once")
        report = make_reporter(self.progress, size_of(self.items), self.order.name)
        return self._rows(send_batches(wire, self.order, self.items, batch=self.batch, at_once=self.at_once), report)

    async def _rows(self, parts: AsyncGenerator[Part, None], report: Any) -> AsyncGenerator[T, None]:
        try:
            async for part in parts:
                report.advance(len(part.batch.items))
                for row in self.order.rows(part):
                    yield self.read(row)
        finally:
            await parts.aclose()
            report.close()


async def send_batches(
    wire: Wire, requests: LargeRequest, items: Input[Any], *, batch: int, at_once: int
) -> AsyncGenerator[Part, None]:
    """Yield the answers about all items, in their order; an error comes after all answers before it."""
    size = Size(batch)
    cutter = async_cut(items, size)

    async def tasks() -> AsyncGenerator[Callable[[Wire], Coroutine[Any, Any, BatchOutcome]], None]:
        async for cut_batch in cutter:
            yield partial(_send_batch, requests=requests, batch=cut_batch, size=size)

    outcomes = wire.run_in_order(tasks(), at_once)
    try:
        async for first in cutter:  # alone: later requests repeat the versions of its answer
            for part in (await _send_batch(wire, requests, first, size)).results():
                yield part
            break
        async for outcome in outcomes:
            for part in outcome.results():
                yield part
    finally:
        await outcomes.aclose()
        await cutter.aclose()


async def _send_batch(wire: Wire, requests: LargeRequest, batch: Batch, size: Size) -> BatchOutcome:
    attempt = BatchAttempt(requests, size, [batch])
    while (piece := attempt.next) is not None:
        try:
            attempt.add_answer(await wire.send(requests.call(piece)))
        except errors.RefaugError as error:
            attempt.handle_error(error)
    return attempt.outcome


# ── Runs tasks in threads: a few at once, their results in the order of the input ─────────────────────────────────────

_LOOK_S = 0.2  # between two looks at whether the client was closed, while an answer is waited for


def run_in_order(
    connection: Connection, tasks: Iterable[Callable[[Connection], T]], at_once: int
) -> _OrderedResults[T]:
    """Return the results of tasks, in their order, with so many of them in threads at once."""
    return _OrderedResults(connection, tasks, min(require_count(at_once, "at_once"), connection.settings.connections))


class _OrderedResults(Generic[T]):
    """An iterator over the results of tasks; closing it starts no further task, and retries none."""

    def __init__(self, connection: Connection, tasks: Iterable[Callable[[Connection], T]], at_once: int) -> None:
        self._pid = os.getpid()
        self._steps = _run_tasks(connection, tasks, at_once)

    def __iter__(self) -> _OrderedResults[T]:
        return self

    def __next__(self) -> T:
        if self._pid != os.getpid():
            raise errors.Usage("this was begun in another process, whose threads are not here", remedy="begin anew")
        return next(self._steps)

    def close(self) -> None:
        """Send no more, and give up what is on its way."""
        self._steps.close()


def _run_tasks(
    connection: Connection, tasks: Iterable[Callable[[Connection], T]], at_once: int
) -> Generator[T, None, None]:
    senders: _SenderThreads[T] = _SenderThreads(connection, at_once)
    waiting: deque[_Ticket[T]] = deque()
    remaining, input_error = iter(tasks), None
    try:
        while True:
            try:
                waiting.append(senders.submit(next(remaining)))
            except StopIteration:
                break
            except Exception as error:  # noqa: BLE001  an error of the input: what was read before goes first
                input_error = error
                break
            if len(waiting) > at_once:
                yield senders.wait(waiting.popleft())
        while waiting:
            yield senders.wait(waiting.popleft())
        if input_error is not None:
            raise input_error
    finally:
        senders.close()


class _Ticket(Generic[T]):
    """A task in the queue of the threads, and its result."""

    def __init__(self, task: Callable[[Connection], T]) -> None:
        self.task = task
        self.done = threading.Event()
        self.error: Optional[BaseException] = None
        self.answer: Any = None

    def run(self, connection: Connection) -> None:
        """Run the task, and wake the thread that waits for it."""
        try:
            self.answer = self.task(connection)
        except BaseException as error:  # noqa: BLE001  raised in the thread that waits for it
            self.error = error
        self.done.set()


class _SenderThreads(Generic[T]):
    """Threads that run tasks in turn; started when they are needed, ended with the iterator or the client.

    They have separate connections, so that closing those ends what is on its way, and nothing else of the client. With
    an httpx client that was handed in there is only that one, and requests that are on their way are not waited for.
    """

    def __init__(self, connection: Connection, most: int) -> None:
        self._connection = connection
        self._connection_of_tasks: Optional[Connection] = None
        self._limit, self._threads = most, 0
        self._tasks: deque[_Ticket[T]] = deque()
        self._changed = threading.Condition()
        self._idle, self._is_ended = 0, False
        self._pid = os.getpid()
        connection.add_dependent(self)

    def submit(self, task: Callable[[Connection], T]) -> _Ticket[T]:
        """Queue a task."""
        ticket = _Ticket(task)
        with self._changed:
            if self._connection_of_tasks is None:
                self._connection_of_tasks = _separate_connection(self._connection)
            self._tasks.append(ticket)
            if len(self._tasks) > self._idle and self._threads < self._limit:
                self._threads += 1
                threading.Thread(target=self._run, name="refaug-send", daemon=True).start()
            else:
                self._changed.notify()
        return ticket

    def wait(self, ticket: _Ticket[T]) -> T:
        """Return the result of a task, or raise its error."""
        while not ticket.done.wait(_LOOK_S):
            if self._connection.closing.is_set():
                raise errors.Usage("this client is closed", remedy="a new one")
        if isinstance(ticket.error, errors.ConnectionLost) and self._connection.closing.is_set():
            raise errors.Usage("this client is closed", remedy="a new one") from ticket.error
        if ticket.error is not None:
            raise ticket.error
        answer: T = ticket.answer
        return answer

    def close(self) -> None:
        """Start no further task."""
        if self._pid != os.getpid():
            return  # a child has none of these threads, and perhaps a lock that one of them held
        with self._changed:
            self._is_ended = True
            self._tasks.clear()
            self._changed.notify_all()
        if self._connection_of_tasks is not None:
            self._connection_of_tasks.close()

    def _run(self) -> None:
        own = self._connection_of_tasks
        assert own is not None, "made before the first thread"
        while True:
            with self._changed:
                self._idle += 1
                while not self._tasks and not self._is_ended:
                    self._changed.wait()
                self._idle -= 1
                if self._is_ended:
                    return
                ticket = self._tasks.popleft()
            ticket.run(own)


def _separate_connection(connection: Connection) -> Connection:
    if connection.closing.is_set():
        raise errors.Usage("this client is closed", remedy="a new one")
    own = connection.external_http is None
    return Connection(connection.settings) if own else connection.share()
