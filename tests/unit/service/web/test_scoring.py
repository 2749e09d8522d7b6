"""What scoring costs, and so with whom it waits."""

from __future__ import annotations

from pathlib import Path

import pytest

from core.records import Item, TestPair
from service.engine import Lease
from service.serve_settings import ServeSettings
from service.settings import Settings
from service.web.schemas.scoring import ScoresIn
from service.web.scoring import Clock, Plan, Work
from service.web.state import State


@pytest.mark.parametrize(
    ("items", "systems", "metrics", "more", "cost", "is_small"),
    [
        (1, 1, 1, {}, 1, True),
        (100, 1, 1, {}, 2, True),
        (1_000, 1, 1, {}, 20, True),
        (1, 10, 10, {"draws": 10_000}, 4, False),  # more than the item is worth
        (200, 10, 1, {"draws": 500}, 42, True),
        (1_000, 10, 1, {}, 200, False),  # more than a batch
        (1_000, 10, 1, {"explain": True}, 1_000, False),  # more than it may cost
        (1_000, 10, 11, {"draws": 10_000}, 1_000, False),
    ],
)
def test_what_takes_longer_than_a_batch_is_not_small_however_many_items_it_has(
    items: int, systems: int, metrics: int, more: dict[str, int], cost: int, is_small: bool, tmp_path: Path
) -> None:
    state = State(home=Settings(home=tmp_path), serve=ServeSettings(queue_items=4_000, batch_items=64))
    named = [
        f"multi-bleu:n={1 + number % 4},smooth={('floor', 'add-k', 'exp')[number // 4]}" for number in range(metrics)
    ]
    asked = ScoresIn(items=[{}], metrics=named, **more)
    replies = {f"s{number}": "yes" for number in range(systems)}
    work = Work(
        state=state,
        plan=Plan.of(asked, state.home, state.serve),
        items=[Item(pair=TestPair(id=str(number)), replies=replies) for number in range(items)],
        bad=[],
        lease=Lease(index=None, rater=None),
        made=None,
        clock=Clock(0.0),
    )
    assert (work.cost, work.is_small) == (cost, is_small)
