"""Calls that must end in time: a store that answers no longer must not hold a command for ever."""

from __future__ import annotations

from collections.abc import Callable
from queue import Empty, SimpleQueue
from threading import Thread
from typing import Generic, TypeVar

from refaug.core.errors import Unavailable

T = TypeVar("T")


class _Outcome(Generic[T]):
    """What a call returned or raised."""

    def __init__(self, call: Callable[[], T]) -> None:
        self._call = call
        self._ready = SimpleQueue[tuple[T | None, BaseException | None]]()

    def run(self) -> None:
        try:
            self._ready.put((self._call(), None))
        except BaseException as error:  # noqa: BLE001  raised again by the thread that waits
            self._ready.put((None, error))

    def wait(self, seconds: float) -> T:
        returned, error = self._ready.get(timeout=seconds)
        if error is not None:
            raise error
        return returned  # type: ignore[return-value]


class TimedCalls:
    """Runs calls in a second thread, one after the other; a call that takes too long is given up, with its thread.

    Signals are heard while a call is waited for, which a library that is deep in a socket would not allow.
    """

    def __init__(self, seconds: float, name: str) -> None:
        self.seconds, self._name = seconds, name
        self._calls: SimpleQueue[_Outcome[object] | None] | None = None

    def run(self, call: Callable[[], T]) -> T:
        """Return what the call returns; Unavailable when it takes longer than the limit."""
        if self._calls is None:
            self._calls = SimpleQueue()
            Thread(target=_work, args=(self._calls,), daemon=True, name=f"store {self._name}").start()
        outcome = _Outcome(call)
        self._calls.put(outcome)  # type: ignore[arg-type]
        try:
            return outcome.wait(self.seconds)
        except Empty:
            self._calls = None  # the next call gets another thread
            raise Unavailable(
                f"the store {self._name} has not answered for {self.seconds:g} s",
                remedy="run the same command again, it goes on; REFAUG_STORE_TIMEOUT_S allows more time",
            ) from None
        except BaseException:
            if self._calls is not None:
                self._calls.put(None)
                self._calls = None
            raise

    def close(self) -> None:
        """End the thread when its last call has ended."""
        if self._calls is not None:
            self._calls.put(None)
            self._calls = None


def _work(calls: SimpleQueue[_Outcome[object] | None]) -> None:
    while (outcome := calls.get()) is not None:
        outcome.run()
