"""Spawned processes that take work in turn and hand the results back in order.

Not concurrent.futures: its workers outlive a parent that is killed, since each of them holds the queue's writing end.
Here a worker has one pipe whose other end only the parent holds, so it ends when the parent does, however that ends.
"""

from __future__ import annotations

import multiprocessing
import os
import queue
import signal
import threading
import traceback
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from multiprocessing.connection import Connection
from types import TracebackType
from typing import Any, Generic, Self, TypeVar

from core.errors import RefaugError

Setup = TypeVar("Setup")
Item = TypeVar("Item")
Result = TypeVar("Result")

_AHEAD = 2  # pieces a worker may have waiting: one in work, one at hand


class Workers(Generic[Setup, Item, Result]):
    """`count` processes running `build(setup)` over items; with count 0, the same in this process."""

    def __init__(self, build: Callable[[Setup], Callable[[Item], Result]], count: int) -> None:
        self._build = build
        self._count = count
        self._workers: list[tuple[Any, Connection]] = []

    def __enter__(self) -> Self:
        context = multiprocessing.get_context("spawn")
        with _sigint_held():  # a worker inherits this, so that Ctrl-C is the parent's from its first moment on
            for _ in range(self._count):
                ours, theirs = context.Pipe()
                process = context.Process(target=_work, args=(theirs, self._build), daemon=True)
                process.start()
                theirs.close()
                self._workers.append((process, ours))
        return self

    def __exit__(
        self, kind: type[BaseException] | None, _error: BaseException | None, _at: TracebackType | None
    ) -> None:
        for process, pipe in self._workers:
            pipe.close()
            if kind is not None:
                process.terminate()
        for process, _ in self._workers:
            process.join()
        self._workers.clear()

    def map(self, setup: Setup, items: Iterable[Item]) -> Iterator[Result]:
        """Results in the order of the items; only a few items are taken ahead."""
        if not self._workers:
            yield from map(self._build(setup), items)
            return
        for worker in range(len(self._workers)):
            self._send(worker, (True, setup))
        waiting: deque[int] = deque()
        for number, item in enumerate(items):
            if len(waiting) == _AHEAD * len(self._workers):
                yield self._receive(waiting.popleft())
            self._send(number % len(self._workers), (False, item))
            waiting.append(number % len(self._workers))
        while waiting:
            yield self._receive(waiting.popleft())

    def _send(self, worker: int, message: tuple[bool, object]) -> None:
        try:
            self._workers[worker][1].send(message)
        except OSError as error:  # not to be taken for a closed stdout
            raise self._ended(worker) from error

    def _receive(self, worker: int) -> Result:
        try:
            well, result = self._workers[worker][1].recv()
        except (EOFError, OSError) as error:
            raise self._ended(worker) from error
        if not well:
            raise RefaugError(f"a worker process failed:\n{result}")
        return result  # type: ignore[no-any-return]

    def _ended(self, worker: int) -> RefaugError:
        process, _ = self._workers[worker]
        process.join()
        how = f"by signal {-process.exitcode}" if process.exitcode < 0 else f"with code {process.exitcode}"
        return RefaugError(
            f"a worker process ended {how}",
            remedy="the same command goes on where it stopped; out of memory? lower --memory or --workers",
        )


@contextmanager
def _sigint_held() -> Iterator[None]:
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def _work(pipe: Connection, build: Callable[[Any], Callable[[Any], Any]]) -> None:
    """The life of a worker: a thread keeps the pipe empty, so that parent and worker never wait for each other."""
    inbox: queue.SimpleQueue[tuple[bool, Any] | None] = queue.SimpleQueue()
    threading.Thread(target=_drain, args=(pipe, inbox), daemon=True).start()
    run: Callable[[Any], Any] | None = None
    while (message := inbox.get()) is not None:
        is_setup, value = message
        try:
            if is_setup:
                run = build(value)
            else:
                assert run is not None
                pipe.send((True, run(value)))
        except BrokenPipeError:
            return
        except Exception:  # noqa: BLE001  whatever it is, the parent must hear of it and raise it
            with suppress(BrokenPipeError):
                pipe.send((False, traceback.format_exc()))


def _drain(pipe: Connection, inbox: queue.SimpleQueue[tuple[bool, Any] | None]) -> None:
    try:
        while True:
            inbox.put(pipe.recv())
    except (EOFError, OSError):
        inbox.put(None)


def default_count() -> int:
    """As many workers as cores that we may use, at most eight: then the reading is what limits."""
    return min(8, len(os.sched_getaffinity(0)))
