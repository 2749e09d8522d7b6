"""When a request is sent again, and after how long: by values alone, without a server and without waiting."""

from __future__ import annotations

import pickle
import random
from typing import Any, Optional

import pytest
from refusals import refusing

from refaug_client._core import errors
from refaug_client._http.settings import NO_RETRY, Retry, is_worth_repeating


def problem(status: int, code: str = "", retry_after_s: Optional[float] = None) -> errors.RefaugError:
    kinds = {409: errors.Conflict, 429: errors.TooMany, 503: errors.Unavailable, 500: errors.ServerFault}
    kind = kinds.get(status, errors.BadInput)
    more: dict[str, Any] = {} if retry_after_s is None else {"retry_after_s": retry_after_s}
    return kind("no", problem={"code": code}, status=status, **more)


def bad(status: Optional[int], **more: Any) -> errors.RefaugError:
    return errors.BadAnswer("what?", status=status, **more)


def pauses(retry: Retry, error: errors.RefaugError, *, repeatable: bool = True, most: int = 50) -> list[float]:
    """The pauses after each try, as long as there are any; each passes as soon as it is begun."""
    found = list[float]()
    for tried in range(1, most):
        pause = retry.pause(error, tried=tried, spent_s=sum(found), repeatable=repeatable)
        if pause is None:
            break
        found.append(pause)
    return found


@pytest.mark.parametrize(
    ("error", "if_repeatable", "otherwise"),
    [
        (errors.CannotConnect("x"), True, True),
        (problem(429, "too_many_requests"), True, True),
        (problem(503, "overloaded"), True, True),
        (problem(503, "expired"), True, False),  # the work may have been done, only its answer came too late
        (problem(503, "unavailable"), True, False),
        (problem(408, "body_timeout"), True, False),
        (problem(409, "in_progress"), True, False),
        (errors.ConnectionLost("x"), True, False),
        (errors.TimedOut("x"), True, False),
        (bad(None), True, False),  # half an answer, or something that is not HTTP
        (bad(200), True, False),  # a proxy's page in the place of an answer
        (bad(502), True, False),
        (bad(504), True, False),
        (bad(200, complete=True), False, False),
        (bad(404), False, False),
        (bad(302), False, False),
        (bad(501), False, False),
        (problem(409, "conflict"), False, False),
        (problem(409, "idempotency_key_reused"), False, False),
        (problem(422, "bad_input"), False, False),
        (problem(500, "internal"), False, False),
        (errors.NoKey("x", problem={}), False, False),
        (errors.Usage("x"), False, False),
        (errors.JobFailed("x"), False, False),
    ],
)
def test_only_what_may_succeed_later_and_does_no_harm_is_sent_again(
    error: errors.RefaugError, if_repeatable: bool, otherwise: bool
) -> None:
    assert is_worth_repeating(error, repeatable=True) is if_repeatable
    assert is_worth_repeating(error, repeatable=False) is otherwise
    assert (Retry().pause(error, tried=1, spent_s=0.0, repeatable=True) is not None) is if_repeatable
    assert (Retry().pause(error, tried=1, spent_s=0.0, repeatable=False) is not None) is otherwise


def test_the_pause_doubles_up_to_its_bound_and_is_drawn_below_it() -> None:
    lost = errors.ConnectionLost("x")
    longest = Retry(tries=9, total_s=1_000.0, draw=lambda: 1.0)
    assert pauses(longest, lost) == [0.2, 0.4, 0.8, 1.6, 3.2, 6.4, 10.0, 10.0]
    assert pauses(Retry(tries=4, draw=lambda: 0.25), lost) == [0.05, 0.1, 0.2]
    assert pauses(Retry(tries=4, draw=lambda: 0.0), lost) == [0.0, 0.0, 0.0]


def test_pauses_of_many_clients_differ() -> None:
    drawn = {Retry().pause(errors.ConnectionLost("x"), tried=1, spent_s=0.0, repeatable=True) for _ in range(50)}
    assert len(drawn) == 50
    assert all(pause is not None and 0 <= pause < 0.2 for pause in drawn)


def test_so_many_tries_are_made_and_no_more() -> None:
    assert len(pauses(Retry(), errors.CannotConnect("x"))) == 5
    assert pauses(Retry(tries=1), errors.CannotConnect("x")) == []
    assert pauses(NO_RETRY, problem(409, "in_progress")) == []


def test_no_try_is_so_late_that_the_pause_overflows() -> None:
    retry = Retry(tries=100_000, first_s=1e300, most_s=3.0, total_s=1e9, draw=lambda: 1.0)
    assert retry.pause(errors.CannotConnect("x"), tried=99_998, spent_s=0.0, repeatable=True) == 3.0


@pytest.mark.parametrize("make", [lambda s: problem(429, retry_after_s=s), lambda s: bad(503, retry_after_s=s)])
def test_nobody_comes_back_before_the_server_said(make: Any) -> None:
    asked = make(7.0)
    assert pauses(Retry(tries=3, draw=lambda: 0.0), asked) == [7.0, 7.0]
    assert Retry(draw=lambda: 1.0).pause(asked, tried=1, spent_s=0.0, repeatable=True) == pytest.approx(7.2)
    assert Retry(draw=lambda: 1.0).pause(asked, tried=5, spent_s=0.0, repeatable=True) == pytest.approx(7.7)


def test_a_server_that_asks_for_no_pause_at_all_is_not_asked_without_any() -> None:
    again_at_once = problem(429, retry_after_s=0.0)
    assert pauses(Retry(tries=5, draw=lambda: 1.0), again_at_once) == [0.2, 0.4, 0.8, 1.6]


def test_error_is_raised_at_once_if_the_server_is_away_beyond_the_limit() -> None:
    assert pauses(Retry(total_s=90.0), problem(503, "overloaded", 3_600.0)) == []
    assert pauses(Retry(total_s=90.0, draw=lambda: 0.0), problem(503, "overloaded", 40.0)) == [40.0, 40.0]


def test_time_that_tries_took_counts_too() -> None:
    retry, lost = Retry(total_s=10.0, draw=lambda: 1.0), errors.ConnectionLost("x")
    assert retry.pause(lost, tried=1, spent_s=9.8, repeatable=True) == pytest.approx(0.2)
    assert retry.pause(lost, tried=1, spent_s=9.9, repeatable=True) is None


def test_request_in_progress_is_polled_until_the_time_is_over() -> None:
    found = pauses(Retry(tries=2, total_s=60.0, draw=lambda: 0.0), problem(409, "in_progress"))
    assert found == [0.2, 0.4, 0.8, 1.6, 3.2, 6.4, 10.0, 10.0, 10.0, 10.0]


def test_the_chance_of_a_training_stays_as_it_was_seeded() -> None:
    random.seed(42)
    before = random.getstate()
    assert len(pauses(Retry(), errors.CannotConnect("x"))) == 5
    assert random.getstate() == before
    random.seed(42)
    one = Retry().pause(errors.CannotConnect("x"), tried=1, spent_s=0.0, repeatable=True)
    random.seed(42)
    other = Retry().pause(errors.CannotConnect("x"), tried=1, spent_s=0.0, repeatable=True)
    assert one != other  # ranks that are seeded alike do not come back at the same moment


def test_workers_that_are_handed_the_same_settings_draw_for_themselves() -> None:
    packed = pickle.dumps(Retry(tries=3))
    one, other = pickle.loads(packed), pickle.loads(packed)
    assert one == other == Retry(tries=3)
    assert len(packed) < 300  # no state of a generator is in it
    assert [one.draw() for _ in range(3)] != [other.draw() for _ in range(3)]


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        ({"tries": 0}, "tries=0"),
        ({"tries": -3}, "tries=-3"),
        ({"tries": 2.5}, "tries=2.5"),
        ({"tries": True}, "tries=True"),
        ({"tries": "3"}, "tries='3'"),
        ({"first_s": -1.0}, "first_s=-1.0"),
        ({"most_s": float("nan")}, "most_s=nan"),
        ({"total_s": float("inf")}, "total_s=inf"),
        ({"total_s": "60"}, "total_s='60'"),
        ({"total_s": None}, "total_s=None"),
    ],
)
def test_settings_that_make_no_sense_are_refused_with_their_value(wrong: dict[str, Any], said: str) -> None:
    with refusing(errors.Usage, said):
        Retry(**wrong)
