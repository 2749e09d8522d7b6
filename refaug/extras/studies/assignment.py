"""Which slot a participant gets next, on which side, and where checks of attention stand: pure functions.

A slot is a bot, or a pair of bots. Its load is what is done, reserved, and planned for the other participants who are
present. As long as no participant leaves, loads stay equal and each follows the planned row; after one has left, the
slots that this has cost come first. Participants who say nothing for longer than a whole task takes count as having
left, where there are more of them than late ones explain: long before their reservations expire.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import chain, combinations
from typing import Final

from refaug.extras.studies.records import TaskCheck

_ABSENT_S: Final = 1_800.0  # who was not seen for so long is not expected to go on, however long tasks take
_LEAST_TASKS: Final = 20  # from so many finished tasks on it is known how long tasks take
_TASKS_LONG: Final = 1.5
SLACK: Final = 0.75  # the planned order is left for a task that is lost, and not for one that may be


@dataclass(frozen=True, kw_only=True)
class PlannedTask:
    """A place in a participant's sequence: of the degraded bot, a repetition, or a slot of the plan."""

    check: TaskCheck | None = None
    asks_attention: bool = False


def bot_pairs(bots: int) -> list[tuple[int, int]]:
    """Return the pairs of so many bots, in their order."""
    return list(combinations(range(bots), 2))


def least_used(uses: Sequence[int]) -> int:
    """Return the first place of the least number."""
    return min(range(len(uses)), key=lambda place: (uses[place], place))


@dataclass(frozen=True, kw_only=True)
class SlotWork:
    """What participants hold: how many reservations each slot has, and the slots that each has still to begin."""

    reserved: Sequence[int]
    plans: Sequence[Sequence[int]]


def slot_loads(done: Sequence[int], work: SlotWork, survival: float) -> list[float]:
    """Return the load of each slot: done, reserved, and planned for others.

    `survival` is the share of begun tasks that are finished: the later a planned task, the less likely it is to be
    reached. It is 1 until a participant has left.
    """
    loads = [float(done[slot] + work.reserved[slot]) for slot in range(len(done))]
    if survival == 1:  # whole numbers, whatever the order
        planned = Counter(chain.from_iterable(work.plans))
        return [load + planned[slot] for slot, load in enumerate(loads)]
    shares = [survival**step for step in range(1, 1 + max(map(len, work.plans), default=0))]
    for plan in work.plans:
        for slot, share in zip(plan, shares, strict=False):
            loads[slot] += share
    return [round(load, 6) for load in loads]


def expected_loads(
    done: Sequence[int], here: SlotWork, silent: SlotWork, expired: int, task_seconds: Sequence[float]
) -> list[float]:
    """Return the load of each slot, where silent participants count as far as they are expected to go on.

    As many are expected to go on as three times the share of finished tasks that took so long explains, and one more:
    where all finish, a silent participant changes nothing, and the planned order stays.
    """
    limit, count = silence_s(task_seconds), sum(silent.reserved)
    late = (1 + sum(seconds > limit for seconds in task_seconds)) / (1 + len(task_seconds))
    going_on = min(1.0, (1 + 3 * late * sum(here.reserved)) / count) if count else 1.0
    lost = expired + count * (1 - going_on)
    survival = sum(done) / (sum(done) + lost) if lost else 1.0
    there = slot_loads(done, here, survival)
    away = slot_loads([0] * len(done), silent, survival)
    return [round(load + going_on * away[slot], 6) for slot, load in enumerate(there)]


def silence_s(task_seconds: Sequence[float]) -> float:
    """Return for how many seconds a participant may say nothing before that counts as silence.

    `task_seconds` has how long each of the last finished tasks took: nine in ten of them are shorter than two thirds
    of the answer. Who comes back after that goes on with the same task; only what others get does not wait for it.
    """
    if len(task_seconds) < _LEAST_TASKS:
        return _ABSENT_S
    usual = sorted(task_seconds)[9 * len(task_seconds) // 10]
    return min(_ABSENT_S, _TASKS_LONG * usual)


def next_slot(
    plan: Sequence[int],
    position: int,
    load: Sequence[float],
    is_open: Sequence[bool],
    *,
    slack: float = SLACK,
    retired: int = 0,
) -> int | None:
    """Return the slot of the task at this position of a participant; None where every slot is closed.

    `plan` has the slots of all tasks, those before `position` as they were; `retired` slots, whose bots the study has
    no more, are closed to everybody, and the others make up for them. Among the slots that the participant had
    least often, the next one of the plan is taken unless another one has a load that is smaller by more than `slack`.
    """
    had = [list(plan[:position]).count(slot) for slot in range(len(load))]
    most = -(-len(plan) // (len(load) - retired))  # a slot that is left out is not made up for by more of the others
    usable = [slot for slot in range(len(load)) if is_open[slot] and had[slot] < most]
    if not usable:
        return None
    fewest = min(had[slot] for slot in usable)
    rest = list(dict.fromkeys([*plan[position:], *range(len(load))]))
    ordered: list[int] = [slot for slot in rest if slot in usable and had[slot] == fewest]
    best: int = min(ordered, key=lambda slot: load[slot])  # the first of equals
    return ordered[0] if load[ordered[0]] <= load[best] + slack else best


def replanned(plan: Sequence[int], position: int, slot: int) -> tuple[int, ...]:
    """Return the plan with this slot at this position; the slots before it stay, and those after it keep order."""
    rest = list(plan[position:])
    if slot in rest:
        rest.remove(slot)
    else:
        rest = rest[:-1]
    return (*plan[:position], slot, *rest)


def left_slot(first: int, second: int, *, first_was_left: int, second_was_left: int) -> int:
    """Return which slot of a pair stands on the left: the one that stood there less often, so that sides alternate."""
    return first if first_was_left <= second_was_left else second


def check_plan(tasks: int, *, attention: int, degraded: bool, repeats: int, seed: int) -> list[PlannedTask]:
    """Return a participant's sequence: so many tasks with checks among them, at places drawn from the seed.

    A degraded bot is not the first one. Repetitions stand at the end, as far from the first time as possible.
    """
    drawn = random.Random(f"checks {seed}")  # noqa: S311  places of a study, no secrets
    attentive = set(drawn.sample(range(tasks), min(attention, tasks)))
    sequence = [PlannedTask(asks_attention=place in attentive) for place in range(tasks)]
    if degraded:
        sequence.insert(drawn.randint(1, len(sequence)), PlannedTask(check=TaskCheck.DEGRADED))
    return sequence + [PlannedTask(check=TaskCheck.REPEAT)] * repeats


# ── Williams squares: orders of n conditions in which each follows each other one equally often ───────────────────────
#
# An even n needs n orders, an odd n twice as many (E. J. Williams, 1949). Over all rows of a square each condition
# stands equally often at each place, and each ordered pair of neighbours comes equally often.


def williams_rows(count: int) -> list[tuple[int, ...]]:
    """Return the rows of the square of so many conditions, numbered from 0."""
    if count < 1:
        raise ValueError("a square has at least one condition")
    first = [0]
    low, high = 1, count - 1
    while low <= high:  # 0, 1, n-1, 2, n-2, …
        first.append(low)
        if low != high:
            first.append(high)
        low, high = low + 1, high - 1
    rows = [tuple((condition + shift) % count for condition in first) for shift in range(count)]
    return rows if count % 2 == 0 or count == 1 else rows + [row[::-1] for row in rows]


def planned_order(rows: Sequence[Sequence[int]], row: int, tasks: int) -> tuple[int, ...]:
    """Return the conditions of a participant's tasks: the row, then the following rows where there are more tasks.

    Of two rows the second one does not begin with the condition that the first one ends with, where that can be.
    """
    order = list(rows[row % len(rows)])
    following = row
    while len(order) < tasks:
        following += 1
        candidates = [rows[(following + step) % len(rows)] for step in range(len(rows))]
        order += next((candidate for candidate in candidates if candidate[0] != order[-1]), candidates[0])
    return tuple(order[:tasks])
