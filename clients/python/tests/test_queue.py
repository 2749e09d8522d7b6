"""When replies that wait to be sent go."""

from __future__ import annotations

from typing import Any

import pytest

from refaug_client._scorer import workers as queue_module
from refaug_client._scorer.pending import Submission
from refaug_client._scorer.workers import Queue


class Clock:
    """The time, as a test has it."""

    def __init__(self) -> None:
        self.now = 1_000.0

    def monotonic(self) -> float:
        return self.now


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    made = Clock()
    monkeypatch.setattr(queue_module, "time", made)
    return made


def submission(size: int, number: int = 0) -> Submission:
    return Submission(["text"] * size, ["d1"] * size, number)


def begun(*sizes: int, batch: int = 10) -> Queue:
    """A queue with something in it, while a request is on its way."""
    queue = Queue(batch, None)
    queue.under_way = 1
    for size in sizes:
        queue.add(submission(size))
    return queue


def test_what_comes_first_goes_at_once_and_what_follows_gathers(clock: Clock) -> None:
    queue = Queue(10, None)
    queue.add(submission(1))
    assert queue.due_in() == 0
    queue.under_way = 1
    assert queue.due_in() == 0.25
    queue.under_way = 0
    assert queue.due_in() == 0


def test_it_is_the_oldest_that_says_how_long_all_gather(clock: Clock) -> None:
    queue = begun(1)
    clock.now += 0.125
    queue.add(submission(1))
    assert queue.due_in() == 0.125
    clock.now += 1
    assert queue.due_in() == 0
    queue.next()
    queue.add(submission(1))
    clock.now -= 1
    assert queue.due_in() == 0.25  # of the second, which came now


def test_a_full_batch_is_due_and_one_that_is_taken_counts_no_more(clock: Clock) -> None:
    queue = begun(4, 5)
    assert queue.due_in() == 0.25
    queue.add(submission(1))
    assert queue.due_in() == 0
    assert queue.next().size == 4
    assert queue.due_in() == 0.25


def test_hurry_reports_a_waiter_once_and_is_reset_with_the_last_piece(clock: Clock) -> None:
    queue = begun()
    assert queue.hurry() is False  # there is nothing to wait for
    queue.add(submission(1))
    queue.add(submission(1))
    assert [queue.hurry(), queue.hurry()] == [True, False]
    queue.next()
    assert queue.due_in() == 0
    queue.next()
    queue.add(submission(1))
    assert queue.due_in() == 0.25


def test_submits_are_cut_at_the_batch_and_remainders_share_a_request(clock: Clock) -> None:
    queue = Queue(10, None)
    large, small = submission(25, 1), submission(4, 2)
    queue.add(large)
    queue.add(small)
    assert [queue.fits(size) for size in (0, 1)] == [True, False]
    pieces = [queue.next() for _ in range(3)]
    assert [(piece.submission, piece.first, piece.end) for piece in pieces] == [
        (large, 0, 10), (large, 10, 20), (large, 20, 25)
    ]  # fmt: skip
    assert pieces[2].places() == [(large, place) for place in range(20, 25)]
    assert [queue.fits(size) for size in (5, 6, 7)] == [True, True, False]
    assert queue.next().submission is small
    assert (bool(queue), queue.fits(0)) == (False, False)


def test_nothing_is_left_of_a_queue_that_is_cleared(clock: Clock) -> None:
    queue = begun(9)
    queue.hurry()
    queue.clear()
    assert not queue
    queue.add(submission(1))
    assert queue.due_in() == 0.25


@pytest.mark.parametrize(("most_s", "gather_s"), [(None, 0.25), (100.0, 0.25), (0.4, 0.1)])
def test_replies_gather_for_at_most_a_quarter_of_what_they_may_wait(most_s: Any, gather_s: float) -> None:
    assert Queue(10, most_s).gather_s == gather_s
