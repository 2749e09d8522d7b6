"""Waiting times between tries, on a clock that only sleeping moves."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from refaug.core import backoff as module
from refaug.core.backoff import Backoff, retry


class Clock:
    """A clock that notes each sleep."""

    def __init__(self) -> None:
        self.now, self.slept = 100.0, list[float]()

    def monotonic(self) -> float:
        return self.now

    def sleep(self, seconds: float) -> None:
        self.slept.append(seconds)
        self.now += seconds


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    clock = Clock()
    monkeypatch.setattr(module, "time", clock)
    return clock


def failing(times: int, error: Exception) -> Callable[[], str]:
    errors = [error] * times

    def call() -> str:
        if errors:
            raise errors.pop()
        return "done"

    return call


def test_waiting_times_double_up_to_the_longest_and_begin_again_after_a_reset() -> None:
    backoff = Backoff(0.5, 5.0)
    assert [backoff.next_s() for _ in range(6)] == [0.5, 1.0, 2.0, 4.0, 5.0, 5.0]
    backoff.reset()
    assert [backoff.next_s() for _ in range(2)] == [0.5, 1.0]


def test_equal_limits_make_a_constant_waiting_time() -> None:
    backoff = Backoff(0.25, 0.25)
    assert [backoff.next_s() for _ in range(3)] == [0.25, 0.25, 0.25]


def test_a_call_is_tried_again_until_it_returns(clock: Clock) -> None:
    call = failing(3, TimeoutError("busy"))
    assert retry(call, on=TimeoutError, backoff=Backoff(1.0, 2.0), within_s=60.0) == "done"
    assert clock.slept == [1.0, 2.0, 2.0]


def test_the_last_error_is_raised_when_the_time_is_over(clock: Clock) -> None:
    with pytest.raises(TimeoutError, match="still busy"):
        retry(failing(9, TimeoutError("still busy")), on=TimeoutError, backoff=Backoff(1.0, 8.0), within_s=7.0)
    assert clock.slept == [1.0, 2.0, 4.0]


def test_other_errors_and_lasting_ones_are_raised_at_once(clock: Clock) -> None:
    with pytest.raises(KeyError):
        retry(failing(1, KeyError("k")), on=TimeoutError, backoff=Backoff(1.0, 1.0), within_s=60.0)
    with pytest.raises(OSError, match="lasting"):
        retry(
            failing(1, OSError("lasting")),
            on=OSError,
            backoff=Backoff(1.0, 1.0),
            within_s=60.0,
            is_transient=lambda error: "busy" in str(error),
        )
    assert clock.slept == []
