"""Wrong keys are slowed where they come from, and right keys nowhere else."""

from __future__ import annotations

import pytest

from refaug.core.errors import TooMany
from refaug.service.keys import WrongKeys, network_of

HOME, ELSEWHERE = "192.0.2.1", "192.0.2.2"


class Clock:
    def __init__(self) -> None:
        self.now = 1_000.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock() -> Clock:
    return Clock()


def guesses(wrong: WrongKeys, key_id: str, address: str, most: int = 1_000) -> int:
    """How many wrong secrets of a key are answered as such before one is refused."""
    for number in range(most):
        try:
            wrong.count(key_id, address)
        except TooMany:
            return number
    return most


def test_as_many_wrong_secrets_of_a_key_are_allowed_as_the_setting_says(clock: Clock) -> None:
    wrong = WrongKeys(10, clock=clock)
    assert guesses(wrong, "aaaa", HOME) == 10
    with pytest.raises(TooMany) as refused:
        wrong.count("aaaa", HOME)
    assert (refused.value.status, refused.value.retry_after_s) == (429, pytest.approx(6.0))
    clock.now += 5.9
    assert guesses(wrong, "aaaa", HOME) == 0
    clock.now += 0.1
    assert guesses(wrong, "aaaa", HOME) == 1
    clock.now += 1e9
    assert guesses(wrong, "aaaa", HOME) == 10  # no more is saved up


def test_another_address_and_another_key_wait_for_nothing(clock: Clock) -> None:
    wrong = WrongKeys(10, clock=clock)
    assert guesses(wrong, "aaaa", HOME) == 10
    assert guesses(wrong, "aaaa", ELSEWHERE) == 10
    assert guesses(wrong, "bbbb", HOME) == 10


def test_an_address_that_tries_many_keys_is_slowed(clock: Clock) -> None:
    wrong = WrongKeys(10, clock=clock)
    for number in range(100):
        wrong.count(f"k{number}", HOME)
    with pytest.raises(TooMany) as refused:
        wrong.count("k100", HOME)
    assert refused.value.retry_after_s == pytest.approx(0.6)
    wrong.count("k100", ELSEWHERE)
    clock.now += 0.6
    wrong.count("k101", HOME)
    with pytest.raises(TooMany):
        wrong.count("k102", HOME)


def test_processes_share_the_limit(clock: Clock) -> None:
    assert guesses(WrongKeys(10, workers=2, clock=clock), "aaaa", HOME) == 5
    assert guesses(WrongKeys(1, workers=4, clock=clock), "aaaa", HOME) == 1


def test_memory_is_bounded_and_forgets_the_oldest(clock: Clock) -> None:
    wrong = WrongKeys(2, clock=clock, most=3)
    assert guesses(wrong, "aaaa", HOME) == 2
    for number in range(3):
        wrong.count(f"k{number}", f"198.51.100.{number}")
    assert len(wrong._pairs.items()) == len(wrong._addresses.items()) == 3
    assert guesses(wrong, "aaaa", HOME) == 2  # forgotten


def test_an_address_that_is_refused_makes_no_pair_of_another_be_forgotten(clock: Clock) -> None:
    wrong = WrongKeys(2, clock=clock, most=25)
    assert guesses(wrong, "aaaa", HOME) == 2
    assert sum(guesses(wrong, f"k{number}", ELSEWHERE) for number in range(1_000)) == 20
    assert guesses(wrong, "aaaa", HOME) == 0


def test_a_clock_that_goes_back_gives_nothing_away(clock: Clock) -> None:
    wrong = WrongKeys(2, clock=clock)
    assert guesses(wrong, "aaaa", HOME) == 2
    clock.now -= 500.0
    assert guesses(wrong, "aaaa", HOME) == 0


@pytest.mark.parametrize(
    ("address", "network"),
    [
        ("192.0.2.7", "192.0.2.7"),
        ("::ffff:192.0.2.7", "192.0.2.7"),
        ("2001:db8:1:2:3:4:5:6", "2001:db8:1:2::/64"),
        ("2001:db8:1:2::", "2001:db8:1:2::/64"),
        ("fe80::1%eth0", "fe80::/64"),
        ("", ""),
        ("testclient", "testclient"),
    ],
)
def test_a_network_of_version_6_counts_as_one_sender(address: str, network: str) -> None:
    assert network_of(address) == network
