"""Which slot a participant gets next, on which side, and where checks of attention stand: pure functions.

A slot is a bot, or a pair of bots. Its load is what is done, reserved, and planned for the other participants who are
present. As long as no participant leaves, loads stay equal and each follows the planned row; after one has left, the
slots that this has cost come first.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations

from refaug.evaluation.studies.records import TaskCheck


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


def slot_loads(
    done: Sequence[int], live: Sequence[int], plans: Sequence[Sequence[int]], survival: float
) -> list[float]:
    """Return the load of each slot: done, reserved, and planned for others who are there.

    `plans` has the slots that each of them has still to begin. `survival` is the share of begun tasks that are
    finished: the later a planned task, the less likely it is to be reached. It is 1 until a participant has left.
    """
    loads = [float(done[slot] + live[slot]) for slot in range(len(done))]
    for plan in plans:
        for step, slot in enumerate(plan, 1):
            loads[slot] += survival**step
    return [round(load, 6) for load in loads]


def next_slot(
    plan: Sequence[int], position: int, load: Sequence[float], is_open: Sequence[bool], *, slack: int = 0
) -> int | None:
    """Return the slot of the task at this position of a participant; None where every slot is closed.

    `plan` has the slots of all tasks, those before `position` as they were. Among the slots that the participant had
    least often, the next one of the plan is taken unless another one has a load that is smaller by more than `slack`.
    """
    had = [list(plan[:position]).count(slot) for slot in range(len(load))]
    most = -(-len(plan) // len(load))  # a slot that is left out is not made up for by more of the others
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
