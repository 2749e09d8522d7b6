"""What scoring costs, and so with whom it waits."""

from __future__ import annotations

import asyncio
import threading
import time
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from refaug.core.errors import Expired, TooLarge
from refaug.core.home import Settings
from refaug.core.records import Item, Origin, Reference
from refaug.metrics.base import References
from refaug.metrics.costs import lengths_of
from refaug.metrics.specification import build
from refaug.scoring.cases import score_replies
from refaug.scoring.home.indexes import places_of
from refaug.scoring.metric_setup.metric_requests import BaselineCache
from refaug.scoring.settings import ScoreSettings
from refaug.service.server_settings import ServeSettings
from refaug.service.serving.batches.batcher import Batcher
from refaug.service.serving.versions.leases import Lease
from refaug.service.web.handling.request_lease import DeadlineProgress
from refaug.service.web.handling.score_request import ScoreRequest
from refaug.service.web.schemas.scoring import ScoresIn
from refaug.service.web.scoring_limits import combining_cost, require_units
from refaug.service.web.state import ServiceState


@pytest.mark.parametrize(
    ("items", "systems", "metrics", "more", "cost", "is_small"),
    [
        (1, 1, 1, {}, 1, True),
        (100, 1, 1, {}, 3, True),
        (1_000, 1, 1, {}, 22, True),
        (1, 10, 10, {"draws": 10_000}, 5, False),  # more than the item is worth
        (200, 10, 1, {"draws": 500}, 45, True),
        (1_000, 10, 1, {}, 212, False),  # more than a batch
        (1_000, 10, 11, {"draws": 10_000}, 1_000, False),  # more than it may cost
    ],
)
def test_work_longer_than_a_batch_is_not_small_for_any_number_of_items(
    items: int, systems: int, metrics: int, more: dict[str, Any], cost: int, is_small: bool, tmp_path: Path
) -> None:
    named = [
        f"multi-bleu:n={1 + number % 4},smooth={('floor', 'add-k', 'exp')[number // 4]}" for number in range(metrics)
    ]
    work = work_of(tmp_path, items, systems, metrics=named, **more)
    assert (work.cost, work.is_small) == (cost, is_small)


def work_of(folder: Path, items: int = 1, replies: int = 1, **asked: Any) -> ScoreRequest:
    """A request of items with so many replies each, over an index that is a name."""
    state = ServiceState(home=Settings(home=folder), serve=ServeSettings(queue_items=4_000, batch_items=64))
    state.bases = BaselineCache(places_of(state.home).indexes)
    index: Any = SimpleNamespace(spec="chat@2026-11-20.1#0123")
    work = ScoreRequest(state, ScoresIn(items=[{}], **asked), 0.0)
    work.read_metrics()
    work.lease = Lease(index=index, rater=None)
    work.items = [
        Item(id=str(item), replies={f"s{number}": "yes" for number in range(replies)}) for item in range(items)
    ]
    return work


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
        ({"references": "find"}, True),  # refaug-1 reads its encoder
        ({"references": "find", "metrics": ["upsilon-bleu"]}, False),
        ({"metrics": ["upsilon-chrf: char-order=3 , b = 0.1"]}, False),
        ({"metrics": ["upsilon-chrf"], "references": "given"}, False),
        ({"metrics": ["upsilon-chrf:char-order=3"]}, True),
        ({"metrics": ["ruber:model=talk,sample=chat"]}, True),
        ({"metrics": ["ruber:norm=none,model=talk"]}, True),
        ({"metrics": ["rater:model=talk"]}, True),
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
    assert (plain.cost, plain.is_small) == (68, False)
    assert (judged.cost, judged.is_small) == (516, False)


def long_work(folder: Path, characters: int, pairs: int, **asked: Any) -> ScoreRequest:
    """Pairs of a reply and a reference of so many characters, two to a word."""
    work, text = work_of(folder, **asked), "a " * (characters // 2)
    references = (Reference(text=text, source=Origin.GOLD),)
    work.items = [Item(id=str(number), references=references, replies={"s": text}) for number in range(pairs)]
    return work


def test_the_lengths_of_texts_decide_what_scores_cost(tmp_path: Path) -> None:
    short, long = (long_work(tmp_path, size, 8, metrics=["rouge-l"]) for size in (20, 20_000))
    assert short.units == {"rouge-l": 8 * (50 + 10 + 4 * 40 + 0.5 * 40 + 3e-4 * 400)}
    assert long.units == {"rouge-l": 8 * (50 + 10 + 4 * 40_000 + 0.5 * 40_000 + 3e-4 * 4e8)}
    assert (short.cost, short.is_small) == (1, True)
    assert (long.cost, long.is_small) == (961, False)


def test_turns_cost_where_a_metric_reads_them(tmp_path: Path) -> None:
    silent, told = (long_work(tmp_path, 10, 1, metrics=["bleu", "rater"]) for _ in range(2))
    told.items = [replace(item, turns=("a " * 500,)) for item in told.items]
    more = {name: told.units[name] - silent.units[name] for name in told.units}
    assert more == {"bleu": 0, "rater": pytest.approx(1_000 + 250 + 50 * (256 - 10))}


def test_an_explanation_costs_the_scores_without_each_reference(tmp_path: Path) -> None:
    plain, explained = (long_work(tmp_path, 10, 1, metrics=["bleu"], explain=explain) for explain in (False, True))
    assert plain.units == {"bleu": 10 + (50 + 1 + 10 + 0.3 * 20)}
    assert explained.units == {"bleu": 10 + 2 * (50 + 1 + 10 + 0.3 * 20) + 10}


def test_found_references_are_counted_before_they_are_found(tmp_path: Path) -> None:
    work = work_of(tmp_path, metrics=["upsilon-bleu"])
    assert work.units == {"upsilon-bleu": pytest.approx(900 + (50 + 15 + 3 + 0.3 * (45 + 900)))}


def test_scores_that_may_take_too_long_are_refused_with_the_limit_and_the_costliest_metric(tmp_path: Path) -> None:
    work = long_work(tmp_path, 1_000, 40, metrics=["bleu", "ter"])
    assert work.units["ter"] == 40 * (50 + 5 + 6 * 2_000 + 0.1 * 2_000 + 500 * 51 * 1_000)
    with pytest.raises(TooLarge) as refused:
        require_units(work.units, ServeSettings(scoring_s=300))
    assert all(fact in refused.value.message for fact in ("1,021", "1,020", "300"))
    assert refused.value.remedy == "send shorter texts, or the items in several requests"
    require_units(work.units, ServeSettings(scoring_s=1_100))


def test_a_short_request_is_answered_while_a_long_one_runs_which_ends_when_its_client_leaves() -> None:
    started, answered, pieces = threading.Event(), threading.Event(), list[int]()

    class Pieces(DeadlineProgress):
        def advance(self, amount: int) -> None:
            pieces.append(amount)
            started.set()
            assert answered.wait(30)  # until the short request has its answer and this one's client has left
            super().advance(amount)

    progress = Pieces(time.monotonic() + 60)
    references = References.unweighted(["a b " * 5_000])
    texts = ["a c " * 5_000] * 20, [references] * 20

    def score_all() -> None:
        score_replies(build("chrf"), *texts, progress)

    async def ask(batcher: Batcher) -> None:
        with progress.given_up_on_error():
            await batcher.run(score_all, items=1_000, deadline=time.monotonic() + 60)

    async def ask_both() -> str:
        batcher = Batcher(ServeSettings())
        long = asyncio.create_task(ask(batcher))
        await asyncio.to_thread(started.wait, 30)
        short = await batcher.run(lambda: "short", items=1, deadline=time.monotonic() + 60)
        long.cancel()
        await asyncio.wait({long})
        answered.set()
        await batcher.close(30)
        return short

    assert (asyncio.run(ask_both()), pieces, progress.is_given_up) == ("short", [1], True)


@pytest.mark.parametrize(
    ("metrics", "units", "read"),
    [
        (["bleu", "multi-bleu"], {"bleu": 60.1, "multi-bleu": 60.1}, [["good"]]),
        (["next-utterance"], {"next-utterance": 1566.0}, [["good", "how is it"]]),
        (["bleu", "next-utterance"], {"bleu": 60.1, "next-utterance": 1566.0}, [["good"], ["good", "how is it"]]),
    ],
)
def test_texts_are_measured_with_the_turns_only_where_a_metric_reads_them(
    metrics: list[str], units: dict[str, float], read: list[list[str]], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    measured = list[list[str]]()

    def measure(rows: list[list[str]], *, counts_words: bool) -> Any:
        measured.extend(rows)
        return lengths_of(rows, counts_words=counts_words)

    monkeypatch.setattr("refaug.service.web.handling.score_request.lengths_of", measure)
    work = work_of(tmp_path, metrics=metrics)
    work.items = [replace(work.items[0], turns=("how is it",), references=(Reference(text="good"),))]
    assert (work.units, sorted(measured)) == (units, read)


def test_work_ends_after_the_piece_in_which_its_time_is_over() -> None:
    pieces = list[int]()

    class Pieces(DeadlineProgress):
        def advance(self, amount: int) -> None:
            pieces.append(amount)
            super().advance(amount)

    texts = ["a c " * 5_000] * 20, [References.unweighted(["a b " * 5_000])] * 20
    with pytest.raises(Expired):
        score_replies(build("chrf"), *texts, Pieces(0.0))
    assert pieces == [1]


def test_very_many_systems_cost_what_putting_them_in_order_takes() -> None:
    one = {"systems": {f"s{number}": {"rows": [[1.0]]} for number in range(6_000)}}
    assert combining_cost([{"stats": [one]}], ScoreSettings(draws=0), ServeSettings(queue_items=4_000)) == 812


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
