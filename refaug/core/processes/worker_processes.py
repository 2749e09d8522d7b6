"""Worker processes, spawned, which take work in turn and return the results in order.

concurrent.futures does not fit: its workers outlive a killed parent, since each of them holds the queue's writing end.
Here a worker has one pipe whose other end only the parent holds, so it ends when the parent does, however that ends.
"""

from __future__ import annotations

import multiprocessing
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

from refaug.core.errors import RefaugError
from refaug.core.processes.free_cores import available_cores

Setup = TypeVar("Setup")
Work = TypeVar("Work")
Outcome = TypeVar("Outcome")

MOST_WORKERS = 8  # beyond that, reading is the limit
_AHEAD = 2  # pieces a worker may have waiting: one in work, one at hand


class Workers(Generic[Setup, Work, Outcome]):
    """`count` processes running `build(setup)` over items; with count 0, the same in this process."""

    def __init__(self, build: Callable[[Setup], Callable[[Work], Outcome]], count: int) -> None:
        self._build = build
        self._count = count
        self._workers: list[tuple[Any, Connection]] = []

    def __enter__(self) -> Self:
        context = multiprocessing.get_context("spawn")
        with _sigint_blocked():  # a worker inherits this, so only the parent reacts to Ctrl-C from the start
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

    def map(self, setup: Setup, items: Iterable[Work]) -> Iterator[Outcome]:
        """Yield results in the order of the items; only a few items are taken ahead."""
        if not self._workers:
            yield from map(self._build(setup), items)
            return
        for worker in range(len(self._workers)):
            self._send(worker, (True, setup))
        waiting: deque[int] = deque()
        for number, work in enumerate(items):
            if len(waiting) == _AHEAD * len(self._workers):
                yield self._receive(waiting.popleft())
            self._send(number % len(self._workers), (False, work))
            waiting.append(number % len(self._workers))
        while waiting:
            yield self._receive(waiting.popleft())

    def _send(self, worker: int, message: tuple[bool, object]) -> None:
        try:
            self._workers[worker][1].send(message)
        except OSError as error:  # must not be taken for a closed stdout
            raise self._ended_error(worker) from error

    def _receive(self, worker: int) -> Outcome:
        try:
            is_ok, reply = self._workers[worker][1].recv()
        except (EOFError, OSError) as error:
            raise self._ended_error(worker) from error
        if not is_ok:
            raise RefaugError(f"a worker process failed:\n{reply}")
        return reply  # type: ignore[no-any-return]

    def _ended_error(self, worker: int) -> RefaugError:
        process, _ = self._workers[worker]
        process.join()
        how = f"by signal {-process.exitcode}" if process.exitcode < 0 else f"with code {process.exitcode}"
        return RefaugError(
            f"a worker process ended {how}",
            remedy="the same command goes on where it stopped; out of memory? lower --memory or --workers",
        )


@contextmanager
def _sigint_blocked() -> Iterator[None]:
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def _work(pipe: Connection, build: Callable[[Any], Callable[[Any], Any]]) -> None:
    """Run a worker: a thread empties the pipe, so that parent and worker never wait for each other."""
    inbox: queue.SimpleQueue[tuple[bool, Any] | None] = queue.SimpleQueue()
    threading.Thread(target=_drain, args=(pipe, inbox), daemon=True).start()
    run: Callable[[Any], Any] | None = None
    while (message := inbox.get()) is not None:
        is_setup, payload = message
        try:
            if is_setup:
                run = build(payload)
            else:
                assert run is not None
                pipe.send((True, run(payload)))
        except BrokenPipeError:
            return
        except Exception:  # noqa: BLE001  the parent must get any error and raise it
            with suppress(BrokenPipeError):
                pipe.send((False, traceback.format_exc()))


def _drain(pipe: Connection, inbox: queue.SimpleQueue[tuple[bool, Any] | None]) -> None:
    try:
        while True:
            inbox.put(pipe.recv())
    except (EOFError, OSError):
        inbox.put(None)


def default_count() -> int:
    """Return the number of usable cores, within the most that are of use."""
    return min(MOST_WORKERS, available_cores())
