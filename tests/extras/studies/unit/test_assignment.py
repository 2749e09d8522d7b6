"""Who gets which task: squares, loads, sides and checks, in studies that are played through in memory."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import pairwise, permutations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from refaug.extras.studies.assignment import (
    SlotWork,
    bot_pairs,
    check_plan,
    expected_loads,
    least_used,
    left_slot,
    next_slot,
    planned_order,
    replanned,
    silence_s,
    slot_loads,
    williams_rows,
)
from refaug.extras.studies.records import TaskCheck


@dataclass
class Guest:
    """A participant of a played study."""

    plan: tuple[int, ...]
    leaves_at: int | None
    seen: int
    began: int = 0
    begun: int = 0
    current: int | None = None
    is_gone: bool = False


@dataclass
class PlayedStudy:
    """A study that is played step by step: whose turn it is is drawn; who has left says so, or is silent."""

    bots: int
    tasks: int
    target: int
    drawn: random.Random
    says_so: bool = True
    in_rounds: bool = False  # each takes a step before one takes the next
    now: int = 0
    silent: list[Guest] = field(default_factory=list)
    took: list[int] = field(default_factory=list)
    done: list[int] = field(default_factory=list)
    expired: int = 0
    rows: list[int] = field(default_factory=list)
    guests: list[Guest] = field(default_factory=list)
    orders: list[tuple[int, ...]] = field(default_factory=list)

    def play(self, participants: int, *, at_once: int, leaving: float) -> None:
        square = williams_rows(self.bots)
        self.done, self.rows = [0] * self.bots, [0] * len(square)
        while participants or self.guests:
            if participants and len(self.guests) < at_once:
                participants -= 1
                row = least_used(self.rows)
                self.rows[row] += 1
                leaves_at = self.drawn.randrange(self.tasks) if self.drawn.random() < leaving else None
                self.guests.append(Guest(planned_order(square, row, self.tasks), leaves_at, self.now))
            here = list(self.guests) if self.in_rounds else [self.drawn.choice(self.guests)]
            self.drawn.shuffle(here)
            for guest in here:
                self.step(guest)

    def work(self, guests: Sequence[Guest]) -> SlotWork:
        reserved = [sum(guest.current == slot for guest in guests) for slot in range(self.bots)]
        return SlotWork(reserved=reserved, plans=[guest.plan[guest.begun :] for guest in guests])

    def step(self, guest: Guest) -> None:
        self.now += 1
        guest.seen = self.now
        if guest.current is not None:
            self.done[guest.current] += 1
            self.took.append(self.now - guest.began)
            guest.current = None
            if guest.begun == self.tasks:
                self.orders.append(guest.plan)
                self.guests.remove(guest)
            return
        since, took = self.now - silence_s(self.took[-200:]), self.took[-200:]
        others = [other for other in self.guests + self.silent if other is not guest]
        reserved = [other.current for other in others]
        here = self.work([other for other in others if other.seen > since])
        silent = self.work([other for other in others if other.seen <= since])
        loads = expected_loads(self.done, here, silent, self.expired, took)
        is_open = [self.done[slot] + reserved.count(slot) < self.target for slot in range(self.bots)]
        slot = next_slot(guest.plan, guest.begun, loads, is_open)
        if slot is None:
            self.guests.remove(guest)
            return
        guest.plan = replanned(guest.plan, guest.begun, slot)
        if guest.leaves_at == guest.begun:
            self.guests.remove(guest)
            if self.says_so:
                self.expired += 1
                return
            self.silent.append(guest)
        guest.begun += 1
        guest.current, guest.began = slot, self.now


@pytest.mark.parametrize("count", range(1, 13))
def test_a_square_has_every_neighbour_and_every_place_equally_often(count: int) -> None:
    rows = williams_rows(count)
    assert len(rows) == (count if count % 2 == 0 or count == 1 else 2 * count)
    assert all(sorted(row) == list(range(count)) for row in rows)
    neighbours = Counter(pair for row in rows for pair in pairwise(row))
    each = len(rows) // count
    assert neighbours == dict.fromkeys(permutations(range(count), 2), each)
    for place in range(count):
        assert Counter(row[place] for row in rows) == dict.fromkeys(range(count), each)


@given(
    st.lists(st.integers(0, 50), min_size=4, max_size=4),
    st.lists(st.integers(0, 9), min_size=4, max_size=4),
    st.lists(st.lists(st.integers(0, 3), max_size=12), max_size=20),
    st.sampled_from([1.0, 0.97, 0.5, 0.0]),
)
def test_the_load_of_a_slot_is_what_is_done_reserved_and_planned_so_far_as_it_is_reached(
    done: list[int], reserved: list[int], plans: list[list[int]], survival: float
) -> None:
    loads = slot_loads(done, SlotWork(reserved=reserved, plans=plans), survival)
    for slot in range(4):
        steps = [step for plan in plans for step, planned in enumerate(plan, 1) if planned == slot]
        assert loads[slot] == pytest.approx(
            done[slot] + reserved[slot] + sum(survival**step for step in steps), abs=2e-6
        )


@given(st.integers(2, 9), st.integers(0, 30), st.integers(1, 40))
def test_planned_orders_go_round_all_conditions_without_one_twice_in_a_row(count: int, row: int, tasks: int) -> None:
    order = planned_order(williams_rows(count), row, tasks)
    assert len(order) == tasks
    used = Counter(order)
    assert max(used.values()) - min(used.get(slot, 0) for slot in range(count)) <= 1
    assert all(first != second for first, second in pairwise(order))


@settings(max_examples=8)
@given(st.integers(0, 10**6), st.integers(1, 50))
def test_where_all_finish_bots_are_equal_and_neighbours_differ_by_one(seed: int, at_once: int) -> None:
    study = PlayedStudy(6, 6, 10**6, random.Random(seed), in_rounds=True)
    study.play(200, at_once=at_once, leaving=0)
    assert study.done == [200] * 6
    neighbours = Counter(pair for order in study.orders for pair in pairwise(order))
    assert len(neighbours) == 30
    assert max(neighbours.values()) - min(neighbours.values()) <= 1


@pytest.mark.slow
@pytest.mark.parametrize(("at_once", "most"), [(2, 1), (5, 1), (20, 4), (50, 6)])
def test_late_ones_among_many_cost_little_of_the_order_where_all_finish(at_once: int, most: int) -> None:
    # Steps are drawn from all who are there: some are late by ten tasks of others, and are taken to have left.
    for seed in range(5):
        study = PlayedStudy(6, 6, 10**6, random.Random(seed))
        study.play(200, at_once=at_once, leaving=0)
        assert study.done == [200] * 6
        neighbours = Counter(pair for order in study.orders for pair in pairwise(order))
        assert max(neighbours.values()) - min(neighbours.values()) <= most


@settings(max_examples=8)
@given(st.integers(0, 10**6), st.integers(1, 40))
def test_with_a_target_bots_differ_by_two_at_most_though_a_third_leaves(seed: int, at_once: int) -> None:
    study = PlayedStudy(6, 6, 140, random.Random(seed))
    study.play(200, at_once=at_once, leaving=0.3)
    assert max(study.done) - min(study.done) <= 2


@settings(max_examples=8)
@given(st.integers(0, 10**6), st.integers(1, 5))
def test_without_a_target_bots_differ_by_two_at_most_where_few_are_there_at_once(seed: int, at_once: int) -> None:
    study = PlayedStudy(6, 6, 10**6, random.Random(seed))
    study.play(200, at_once=at_once, leaving=0.3)
    assert max(study.done) - min(study.done) <= 2


def differences(at_once: int, *, tasks: int = 6) -> list[int]:
    """How far bots differ in twenty studies in which a third leaves and does not say so, sorted."""
    found = list[int]()
    for seed in range(20):
        study = PlayedStudy(6, tasks, 10**6, random.Random(seed), says_so=False)
        study.play(200, at_once=at_once, leaving=0.3)
        found.append(max(study.done) - min(study.done))
    return sorted(found)


@pytest.mark.slow
@pytest.mark.parametrize(("at_once", "median", "most"), [(1, 1, 1), (5, 1, 2), (20, 2, 4), (50, 3, 7)])
def test_silent_leavers_are_made_up_for_long_before_their_reservations_expire(
    at_once: int, median: int, most: int
) -> None:
    # Expiry never comes here. Of those who leave among the last ones, no other participant can make up.
    found = differences(at_once)
    assert found[len(found) // 2] <= median
    assert found[-1] <= most


def test_it_is_known_how_long_tasks_take_from_twenty_on_and_half_an_hour_is_the_most() -> None:
    assert silence_s([1.0] * 19) == 1_800
    assert silence_s([1.0] * 20) == 1.5
    assert silence_s([1.0] * 18 + [40.0] * 2) == 60
    assert silence_s([1.0] * 19 + [40.0]) == 1.5
    assert silence_s([3_000.0] * 50) == 1_800


@given(st.lists(st.sampled_from([(0, 1), (0, 2), (1, 2)]), max_size=200))
def test_sides_of_a_pair_alternate(pairs: Sequence[tuple[int, int]]) -> None:
    lefts = Counter[tuple[tuple[int, int], int]]()
    for first, second in pairs:
        pair = (first, second)
        left = left_slot(first, second, first_was_left=lefts[pair, first], second_was_left=lefts[pair, second])
        lefts[pair, left] += 1
        assert abs(lefts[pair, first] - lefts[pair, second]) <= 1


@given(st.integers(1, 30), st.integers(0, 5), st.booleans(), st.integers(0, 3), st.integers(0, 2**31 - 1))
def test_checks_stand_where_they_should(tasks: int, attention: int, degraded: bool, repeats: int, seed: int) -> None:
    plan = check_plan(tasks, attention=attention, degraded=degraded, repeats=repeats, seed=seed)
    assert plan == check_plan(tasks, attention=attention, degraded=degraded, repeats=repeats, seed=seed)
    kinds = [planned.check for planned in plan]
    assert (kinds.count(None), kinds.count(TaskCheck.DEGRADED)) == (tasks, int(degraded))
    assert kinds[len(kinds) - repeats :] == [TaskCheck.REPEAT] * repeats
    assert kinds[0] is None
    assert sum(planned.asks_attention for planned in plan) == min(attention, tasks)


def test_a_closed_slot_is_passed_over_and_a_skipped_one_is_not_made_up_for() -> None:
    assert next_slot((0, 1, 2), 0, [0, 0, 0], [False, True, True]) == 1
    assert next_slot((0, 1, 2), 0, [5, 4, 4], [True, True, True]) == 1
    assert next_slot((0, 1, 2), 0, [5, 4, 4], [True, True, True], slack=1) == 0
    assert next_slot((1, 2, 0), 2, [0, 0, 0], [False, True, True]) is None
    assert next_slot((0, 1), 0, [0, 0], [False, False]) is None


def test_a_slot_that_nobody_gets_is_made_up_for_by_the_others() -> None:
    closed = [False, True, True]
    assert next_slot((1, 2, 0), 2, [0, 0, 0], closed, retired=1) == 1
    assert next_slot((1, 2, 1, 0), 3, [0, 0, 0], closed, retired=1) == 2
    assert next_slot((1, 1, 0), 2, [0, 0, 0], [False, True, False], retired=2) == 1
    assert bot_pairs(3) == [(0, 1), (0, 2), (1, 2)]
