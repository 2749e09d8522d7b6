"""Williams squares: orders of n conditions in which each follows each other one equally often.

An even n needs n orders, an odd n twice as many (E. J. Williams, 1949). Over all rows of a square each condition stands
equally often at each place, and each ordered pair of neighbours comes equally often.
"""

from __future__ import annotations

from collections.abc import Sequence


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
