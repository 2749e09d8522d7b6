"""What scoring costs, and so with whom it waits."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from refaug.core.home import Settings
from refaug.core.records import Item, TestPair
from refaug.evaluation.home.indexes import places_of
from refaug.evaluation.metric_setup.metric_requests import BaselineCache
from refaug.evaluation.scoring.score_settings import ScoreSettings
from refaug.service.server_settings import ServeSettings
from refaug.service.serving.versions.leases import Lease
from refaug.service.web.handling.scoring_plan import ScoringPlan
from refaug.service.web.handling.scoring_work import DeadlineProgress, ScoringWork, combining_cost
from refaug.service.web.schemas.scoring import ScoresIn
from refaug.service.web.state import ServiceState


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
def test_work_longer_than_a_batch_is_not_small_for_any_number_of_items(
    items: int, systems: int, metrics: int, more: dict[str, int], cost: int, is_small: bool, tmp_path: Path
) -> None:
    state = ServiceState(home=Settings(home=tmp_path), serve=ServeSettings(queue_items=4_000, batch_items=64))
    named = [
        f"multi-bleu:n={1 + number % 4},smooth={('floor', 'add-k', 'exp')[number // 4]}" for number in range(metrics)
    ]
    asked = ScoresIn(items=[{}], metrics=named, **more)
    replies = {f"s{number}": "yes" for number in range(systems)}
    work = ScoringWork(
        state=state,
        plan=ScoringPlan.of(asked, state.home, state.serve),
        items=[Item(pair=TestPair(id=str(number)), replies=replies) for number in range(items)],
        bad=[],
        lease=Lease(index=None, rater=None),
        provenance=None,
        progress=DeadlineProgress(0.0),
    )
    assert (work.cost, work.is_small) == (cost, is_small)


def work_of(folder: Path, items: int = 1, replies: int = 1, **asked: Any) -> ScoringWork:
    """A request of items with so many replies each, over an index that is a name."""
    state = ServiceState(home=Settings(home=folder), serve=ServeSettings(queue_items=4_000, batch_items=64))
    state.bases = BaselineCache(places_of(state.home).indexes)
    index: Any = SimpleNamespace(spec="chat@2026-11-20.1#0123")
    return ScoringWork(
        state=state,
        plan=ScoringPlan.of(ScoresIn(items=[{}], **asked), state.home, state.serve),
        items=[
            Item(pair=TestPair(id=str(item)), replies={f"s{number}": "yes" for number in range(replies)})
            for item in range(items)
        ],
        bad=[],
        lease=Lease(index=index, rater=None),
        provenance=None,
        progress=DeadlineProgress(0.0),
    )


def test_what_may_have_to_be_measured_first_is_not_small_until_it_was(tmp_path: Path) -> None:
    work = work_of(tmp_path, metrics=["bleu", "upsilon-bleu", "upsilon-rouge-l", "upsilon-chrf"], language="en")
    assert (work.is_uncertain, work.is_small) == (True, False)
    told = work.state.bases.note_measured
    told("chat@2026-11-20.1#0123", ["upsilon-rouge-l"], "en")
    told("chat@2026-11-20.1#0123", ["upsilon-chrf"], None)
    told("chat@2026-11-20.2#4567", ["upsilon-chrf"], "en")
    assert work.is_uncertain
    told("chat@2026-11-20.1#0123", ["upsilon-chrf"], "en")
    assert (work.is_uncertain, work.is_small) == (False, True)


@pytest.mark.parametrize(
    ("asked", "is_uncertain"),
    [
        ({}, False),
        ({"metrics": ["bleu", "multi-bleu", "chrf"]}, False),
        ({"metrics": ["upsilon-bleu"]}, False),  # which has no b
        ({"references": "find"}, False),
        ({"metrics": ["upsilon-chrf: char-order=3 , b = 0.1"]}, False),
        ({"metrics": ["upsilon-chrf"], "references": "given"}, False),
        ({"metrics": ["upsilon-chrf:char-order=3"]}, True),
        ({"metrics": ["ruber"], "ruber": "talk", "sample": "chat"}, True),
        ({"metrics": ["ruber:norm=none"], "ruber": "talk"}, True),
        ({"metrics": ["rater"], "rater": "base"}, False),
    ],
)
def test_only_what_the_server_does_not_hold_may_take_long(
    asked: dict[str, Any], is_uncertain: bool, tmp_path: Path
) -> None:
    assert work_of(tmp_path, **asked).is_uncertain == is_uncertain


def test_a_reply_that_a_network_is_asked_about_costs_more(tmp_path: Path) -> None:
    asked = {"items": 64, "replies": 50}
    plain, judged = (work_of(tmp_path, **asked, metrics=[name]) for name in ("multi-bleu", "rater"))
    assert (plain.cost, plain.is_small) == (64, True)
    assert (judged.cost, judged.is_small) == (320, False)


def test_putting_batches_together_costs_what_is_read_and_drawn() -> None:
    rows = {"systems": {"a": {"rows": [[1.0]] * 400}, "b": {"rows": [[1.0]] * 600}}}
    batches = [{"stats": [rows, rows]}] * 5
    serve, plain = ServeSettings(queue_items=4_000), ScoreSettings(draws=0)
    assert combining_cost(batches[:1], plain, serve) == 4
    assert combining_cost(batches, plain, serve) == 20
    assert combining_cost(batches, ScoreSettings(draws=10_000), serve) == 220
    assert combining_cost(batches * 200, ScoreSettings(draws=10_000), serve) == 1_000


@pytest.mark.parametrize(
    "batch", [{}, {"stats": 3}, {"stats": [None]}, {"stats": [{"systems": []}]}, {"stats": [{"systems": {"a": 1}}]}]
)
def test_what_is_no_batch_costs_nothing_to_refuse(batch: dict[str, Any]) -> None:
    assert combining_cost([batch], ScoreSettings(draws=10_000), ServeSettings()) == 1
