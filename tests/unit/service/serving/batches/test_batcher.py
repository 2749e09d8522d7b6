"""Many requests at once: each gets what it gets alone, in its order, in its time, and nobody else's trouble."""

from __future__ import annotations

import asyncio
import random
import threading
import time
from collections.abc import AsyncIterator, Callable, Coroutine, Sequence
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any, TypeVar

import pytest
from engines import home_with_versions
from refusals import refusing
from told import Told
from unit.conftest import TEXTS, Tools

from refaug.core.artefacts.kinds import artefact_stores
from refaug.core.artefacts.version_locks import lock_if_unread
from refaug.core.errors import Expired, Overloaded, RefaugError, TooLarge, Unavailable, Usage
from refaug.core.home import Settings
from refaug.core.records import Item, Origin, Reference
from refaug.indexer.search.search_settings import SearchSettings
from refaug.metrics.base import Floats, Metric
from refaug.metrics.specification import build
from refaug.rater.language_coverage import Coverage
from refaug.rater.rating import RatingRequest
from refaug.rater.rating_settings import RatingSettings
from refaug.scoring.augmentation import ReferenceCache, augment
from refaug.scoring.cases import ScoringSteps, references_for, scored_alone
from refaug.scoring.settings import AugmentSettings
from refaug.service.server_settings import ServeSettings
from refaug.service.serving.batches import batcher
from refaug.service.serving.batches.batcher import Batcher
from refaug.service.serving.batches.queued_requests import QueuedCall
from refaug.service.serving.versions.leases import Lease
from refaug.service.serving.versions.open_versions import OpenVersions

T = TypeVar("T")
CLOSE = 1e-5
WAIT_S = 30.0  # so long nothing here takes unless it hangs
POISON = "the poison"
PLAIN = AugmentSettings(k=4, parrot="rated")
UNRATED = AugmentSettings(k=3, parrot="off", weights="one")
WAYS = [
    PLAIN,
    UNRATED,
    AugmentSettings(k=4, gold="rated", combine="mean"),
    AugmentSettings(k=2, mode="embedding-dialog", parrot=0.5),
    AugmentSettings(k=6, mode="bm25-utterance", calibrated=True),
]


def item_of(number: int, utterance: str | None = None) -> Item:
    """With a gold or two; some have no gold or no utterance, and so nothing to be rated."""
    rng = random.Random(number)
    turns = () if number % 17 == 5 else (utterance or rng.choice(TEXTS),)
    golds = tuple(Reference(text=rng.choice(TEXTS)) for _ in range(0 if number % 13 == 4 else 1 + number % 2))
    return Item(id=f"item-{number}", turns=turns, references=golds)


def items_of(*numbers: int) -> list[Item]:
    return [item_of(number) for number in numbers]


def rating_of(settings: AugmentSettings) -> RatingSettings:
    return RatingSettings(combine=settings.combine, calibrated=settings.calibrated)


def asked_of(number: int) -> RatingRequest:
    rng = random.Random(number)
    candidates = tuple(Reference(text=rng.choice(TEXTS)) for _ in range(number % 5))
    return RatingRequest(
        utterance=rng.choice(TEXTS), golds=(rng.choice(TEXTS), rng.choice(TEXTS)), candidates=candidates
    )


def require_equal(found: Sequence[Item], wanted: Sequence[Any]) -> None:
    """The same items in the same order, the same references, and ratings within what a batch may change."""
    assert [one.id for one in found] == [one.id for one in wanted]
    for one, other in zip(found, wanted, strict=True):
        assert one.search_notes == other.search_notes
        pairs = list(zip(one.references, other.references, strict=True))
        for a, b in pairs:
            assert replace(a, weight=None, rating=None) == replace(b, weight=None, rating=None)
            assert a.rating == (None if b.rating is None else pytest.approx(b.rating, abs=CLOSE))
            assert a.weight == (None if b.weight is None else pytest.approx(b.weight, abs=CLOSE))


Found = tuple[list[Item], tuple[str, ...]]  # items with their references, and warnings


def alone(tools: Tools, items: Sequence[Item], settings: AugmentSettings = PLAIN) -> list[Any]:
    return list(augment(items, tools.index, tools.rater, settings))


class Listener:
    """An index and a rater that pass on what they are asked, write it down, and can be held up or fail."""

    def __init__(self, tools: Tools) -> None:
        self._tools = tools
        self.searched, self.rated = list[list[str]](), list[list[str]]()  # ids; utterances
        self.poisoned_search = self.poisoned_rating = False
        self.at_rating: Callable[[int], None] = lambda _number: None  # is told which rating begins, from 1
        self.unfamiliar = tools.rater.unfamiliar
        self.spec = "listener"

    def search(self, pairs: Sequence[Item], settings: SearchSettings, *, excluded: int = 0) -> Any:
        self.searched.append([pair.id for pair in pairs])
        if self.poisoned_search and any(pair.utterance == POISON for pair in pairs):
            raise ValueError("poisoned search")
        return self._tools.index.search(pairs, settings)

    def rate(self, asked: Sequence[RatingRequest], settings: RatingSettings, **checks: Any) -> list[list[float]]:
        self.rated.append([one.utterance for one in asked])
        self.at_rating(len(self.rated))
        if self.poisoned_rating and any(one.utterance == POISON for one in asked):
            raise ValueError("poisoned rating")
        return self._tools.rater.rate(asked, settings, **checks)

    def coverage(self, texts: Sequence[str]) -> Any:
        return self._tools.rater.coverage(texts)

    def lease(self) -> Lease:
        made: Any = self
        return Lease(index=made, rater=made)


@pytest.fixture
def listener(tools: Tools) -> Listener:
    return Listener(tools)


def soon() -> float:
    return time.monotonic() + WAIT_S


@asynccontextmanager
async def batching(**serve: Any) -> AsyncIterator[Batcher]:
    listeners = {name: serve.pop(name) for name in ("observe", "waiting_changed", "looked_up") if name in serve}
    batcher = Batcher(ServeSettings(**{"held_references_mib": 0, **serve}), **listeners)
    try:
        yield batcher
    finally:
        await batcher.close(WAIT_S)


@asynccontextmanager
async def busy(batcher: Batcher, items: int = 1) -> AsyncIterator[None]:
    """A thread does nothing but wait until the block ends: what is asked of it meanwhile queues up."""
    begun, may_end = threading.Event(), threading.Event()

    def hold() -> None:
        begun.set()
        assert may_end.wait(WAIT_S)

    queues = [batcher._long] if items > batcher._max_batch else [batcher._batches, batcher._calls]
    held = [admitted(queue, hold, items) for queue in queues]
    await until(lambda: begun.is_set() and not batcher.waiting())
    try:
        yield
    finally:
        may_end.set()
        await asyncio.gather(*held)


def admitted(queue: batcher.RequestQueue, work: Callable[[], None], items: int = 1) -> asyncio.Future[Any]:
    """What a piece of work gives that waits in this queue."""
    call = QueuedCall(work, None, items, soon())
    queue.admit(call)
    return call.future


async def until(is_so: Callable[[], bool]) -> None:
    end = soon()
    while not is_so():
        assert time.monotonic() < end, "it did not come about"
        await asyncio.sleep(0.002)


async def begin(batcher: Batcher, work: Coroutine[Any, Any, T]) -> asyncio.Task[T]:
    """Ask, and go on when it waits in the queue."""
    before = batcher.waiting()
    task = asyncio.ensure_future(work)
    await until(lambda: batcher.waiting() != before or task.done())
    return task


async def settled(batcher: Batcher) -> None:
    """Until the threads are through with all that came before."""
    await asyncio.gather(*(admitted(queue, lambda: None) for queue in (batcher._batches, batcher._calls)))


# ── answers ───────────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("seed", range(3))
def test_concurrent_requests_get_the_same_as_each_alone(tools: Tools, seed: int) -> None:
    rng = random.Random(seed)
    wanted = [
        (items_of(*(rng.randrange(400) for _ in range(rng.choice([0, 1, 1, 2, 5, 23])))), rng.choice(WAYS))
        for _ in range(40)
    ]
    to_rate = [
        ([asked_of(rng.randrange(100)) for _ in range(rng.randrange(9))], rating_of(one)) for _, one in wanted[:12]
    ]
    lease = Lease(index=tools.index, rater=tools.rater)

    async def all_at_once() -> tuple[list[Found], list[list[list[float]]], list[int]]:
        async with batching(batch_items=8) as batcher:
            asked = [batcher.augment(lease, items, one, deadline=soon()) for items, one in wanted]
            rated = [batcher.rate(lease, some, one, deadline=soon()) for some, one in to_rate]
            ran = [batcher.run(lambda square=n: square * square, items=n, deadline=soon()) for n in range(9)]
            return await asyncio.gather(asyncio.gather(*asked), asyncio.gather(*rated), asyncio.gather(*ran))  # type: ignore[return-value]

    found, rated, ran = asyncio.run(all_at_once())
    for (items, settings), one in zip(wanted, found, strict=True):
        require_equal(one[0], alone(tools, items, settings))
        assert one[1] == ()
    for (some, settings), ratings in zip(to_rate, rated, strict=True):
        for one, own in zip(some, ratings, strict=True):
            assert own == pytest.approx(tools.rater.rate([one], settings)[0], abs=CLOSE)
    assert list(ran) == [n * n for n in range(9)]


def test_equal_requests_are_searched_and_rated_together_in_queue_order(listener: Listener) -> None:
    async def asking() -> None:
        async with batching(batch_items=8) as batcher:
            async with busy(batcher):
                tasks = [
                    await begin(batcher, batcher.augment(listener.lease(), items, settings, deadline=soon()))
                    for items, settings in (
                        (items_of(0, 1, 2), PLAIN),
                        (items_of(10, 11), UNRATED),
                        (items_of(20, 21, 23), replace(PLAIN)),  # equal settings, another object
                        (items_of(30, 31, 32), PLAIN),
                        (items_of(40), UNRATED),
                        (items_of(50, 51, 52, 53), PLAIN),
                    )
                ]
            await asyncio.gather(*tasks)

    asyncio.run(asking())
    assert listener.searched == [
        ["item-0", "item-1", "item-2", "item-20", "item-21", "item-23", "item-30", "item-31"],
        ["item-10", "item-11", "item-40"],
        ["item-32", "item-50", "item-51", "item-52", "item-53"],
    ]


def test_a_large_request_goes_in_parts_and_small_ones_get_between(listener: Listener, tools: Tools) -> None:
    large, ended = items_of(*range(100, 121)), list[str]()

    async def asking() -> Found:
        async with batching(batch_items=8) as batcher:

            async def ask(name: str, items: Sequence[Item], settings: AugmentSettings) -> Found:
                found = await batcher.augment(listener.lease(), items, settings, deadline=soon())
                ended.append(name)
                return found

            async with busy(batcher):
                first = await begin(batcher, ask("large", large, PLAIN))
                others = [
                    await begin(batcher, ask("small", items_of(1), UNRATED)),
                    await begin(batcher, ask("alike", items_of(2, 3), PLAIN)),
                ]
            await asyncio.gather(*others)
            return await first

    found = asyncio.run(asking())
    names = [item.id for item in large]
    assert listener.searched == [names[:8], ["item-1"], ["item-2", "item-3", *names[8:14]], names[14:]]
    assert ended == ["small", "alike", "large"]
    require_equal(found[0], alone(tools, large))


def test_request_is_answered_with_its_last_item_not_with_its_batch(listener: Listener) -> None:
    may_end = threading.Event()

    def at_rating(number: int) -> None:
        assert number == 1 or may_end.wait(WAIT_S)

    listener.at_rating = at_rating

    async def asking() -> None:
        async with batching() as batcher:
            batcher._runner.candidate_s = 1.0  # so that every item is a piece
            async with busy(batcher):
                first = await begin(batcher, batcher.augment(listener.lease(), items_of(1), PLAIN, deadline=soon()))
                unrated = await begin(batcher, batcher.augment(listener.lease(), items_of(5), PLAIN, deadline=soon()))
                second = await begin(batcher, batcher.augment(listener.lease(), items_of(2), PLAIN, deadline=soon()))
            assert [one.id for one in (await first)[0]] == ["item-1"]
            assert [one.id for one in (await unrated)[0]] == ["item-5"]
            assert not second.done()
            assert listener.searched == [["item-1", "item-5", "item-2"]]  # one batch
            may_end.set()
            assert [one.id for one in (await second)[0]] == ["item-2"]

    asyncio.run(asking())


@pytest.mark.parametrize(
    ("candidate_s", "pieces"), [(0.0024, [4, 4, 2]), (0.0049, [2, 2, 2, 2, 2]), (0.3, [1] * 10), (1e-6, [10])]
)
def test_pieces_of_rating_take_as_long_as_may_pass_between_two_looks(
    listener: Listener, monkeypatch: pytest.MonkeyPatch, candidate_s: float, pieces: list[int]
) -> None:
    """Five candidates an item, four found and the parrot: in 50 ms go four items at 2.4 ms a candidate."""
    numbers = [number for number in range(0, 60, 2) if number % 17 != 5 and number % 13 != 4][:10]
    monkeypatch.setattr(batcher, "moving_average", lambda before, _measured: before)

    async def asking() -> None:
        async with batching() as batcher:
            batcher._runner.candidate_s = candidate_s
            await batcher.augment(listener.lease(), items_of(*numbers), PLAIN, deadline=soon())

    asyncio.run(asking())
    assert [len(piece) for piece in listener.rated] == pieces


def test_what_is_expected_follows_what_is_measured(listener: Listener, monkeypatch: pytest.MonkeyPatch) -> None:
    """A clock on which rating takes 10 ms a candidate: each measurement counts for three tenths."""
    now = [0.0]
    monkeypatch.setattr(batcher.time, "perf_counter", lambda: now[0])

    def at_rating(_number: int) -> None:
        now[0] += 0.010 * 5 * len(listener.rated[-1])

    listener.at_rating = at_rating

    async def asking() -> list[float]:
        expected = list[float]()
        async with batching() as batcher:
            batcher._runner.candidate_s = 0.020
            for number in (0, 2, 6):
                await batcher.augment(listener.lease(), items_of(number), PLAIN, deadline=soon())
                expected.append(batcher._runner.candidate_s)
        return expected

    assert asyncio.run(asking()) == pytest.approx([0.017, 0.0149, 0.01343])


def test_unknown_language_is_warned_of_as_augment_does(tools: Tools) -> None:
    strange = [replace(one, turns=("切符はどこで買えますか。",)) for one in items_of(*range(30), *range(60, 75))]
    told = Told()
    list(augment(strange, tools.index, tools.rater, PLAIN, told))
    assert len(told.warnings) == 1
    lease = Lease(index=tools.index, rater=tools.rater)

    async def asking() -> list[Found]:
        async with batching(batch_items=7) as batcher, busy(batcher):
            tasks = [
                await begin(batcher, batcher.augment(lease, items, settings, deadline=soon()))
                for items, settings in ((items_of(1, 2), PLAIN), (strange, PLAIN), (strange, UNRATED))
            ]
        return await asyncio.gather(*tasks)

    assert [warnings for _, warnings in asyncio.run(asking())] == [(), tuple(told.warnings), ()]


def test_nothing_asked_is_nothing_found_and_rating_needs_a_rater(tools: Tools) -> None:
    async def asking() -> None:
        async with batching() as batcher:
            lease, bare = Lease(index=tools.index, rater=tools.rater), Lease(index=tools.index, rater=None)
            assert await batcher.augment(lease, [], PLAIN, deadline=soon()) == ([], ())
            assert await batcher.rate(lease, [], RatingSettings(), deadline=soon()) == []
            with refusing(Usage, "rater"):
                await batcher.augment(bare, items_of(1), PLAIN, deadline=soon())
            with refusing(Usage, "rater"):
                await batcher.rate(bare, [asked_of(1)], RatingSettings(), deadline=soon())
            found = await batcher.augment(bare, items_of(1), UNRATED, deadline=soon())
            require_equal(found[0], alone(tools, items_of(1), UNRATED))

    asyncio.run(asking())


# ── how much waits ────────────────────────────────────────────────────────────────────────────────────────────────


def test_the_queue_takes_so_many_items_and_not_one_more(listener: Listener) -> None:
    numbers = list[int]()

    async def asking() -> None:
        async with batching(queue_items=10, batch_items=4, waiting_changed=numbers.append) as batcher:

            def ask(*of: int) -> Coroutine[Any, Any, Found]:
                return batcher.augment(listener.lease(), items_of(*of), PLAIN, deadline=soon())

            async with busy(batcher):
                four, five = await begin(batcher, ask(*range(4))), await begin(batcher, ask(*range(10, 15)))
                assert batcher.waiting() == 9
                batcher._batches.place_s = 0.5
                with pytest.raises(Overloaded) as caught:
                    await ask(20, 21)
                assert caught.value.message == "9 items wait already, and at most 10 may"
                assert caught.value.retry_after_s == 4.5
                one = await begin(batcher, ask(20))
                assert batcher.waiting() == 10
                with pytest.raises(Overloaded):
                    await ask(30)
                with refusing(TooLarge, 11, 10):
                    await ask(*range(40, 51))
                five.cancel()
                await until(lambda: batcher.waiting() == 5)
                batcher._batches.place_s = 0.001
                with pytest.raises(Overloaded) as caught:
                    await ask(*range(60, 66))
                assert caught.value.retry_after_s == 1.0
                more = await begin(batcher, ask(*range(60, 65)))
            assert [len((await task)[0]) for task in (four, one, more)] == [4, 1, 5]
            assert batcher.waiting() == 0

    asyncio.run(asking())
    assert numbers[-1] == 0
    assert max(numbers) == 10
    assert sorted(name for batch in listener.searched for name in batch) == sorted(
        item.id for item in items_of(*range(4), 20, *range(60, 65))
    )


def test_work_larger_than_the_queue_waits_until_no_other_of_its_kind_waits() -> None:
    async def asking() -> None:
        async with batching(queue_items=10, batch_items=4) as batcher:
            assert await batcher.run(lambda: "done", items=1_000, deadline=soon()) == "done"
            async with busy(batcher, items=5):
                waits = await begin(batcher, batcher.run(lambda: "first", items=5, deadline=soon()))
                with refusing(Overloaded, 5, 10):
                    await batcher.run(lambda: "second", items=1_000, deadline=soon())
            assert await waits == "first"

    asyncio.run(asking())


def test_long_work_and_what_waits_for_it_hold_up_nobody_else(listener: Listener, tools: Tools) -> None:
    """One request may draw for most of a minute, and another one wait to do the same: items go on being found."""

    async def asking() -> None:
        async with batching(queue_items=10, batch_items=4) as batcher:
            async with busy(batcher, items=5):
                waits = await begin(batcher, batcher.run(lambda: "long", items=1_000, deadline=soon()))
                assert batcher.waiting() == 10
                found = await batcher.augment(listener.lease(), items_of(*range(10)), PLAIN, deadline=soon())
                require_equal(found[0], alone(tools, items_of(*range(10))))
                assert await batcher.run(lambda: "short", items=4, deadline=soon()) == "short"
                assert not waits.done()
            assert await waits == "long"
            async with busy(batcher):
                assert await batcher.run(lambda: "beside", items=5, deadline=soon()) == "beside"

    asyncio.run(asking())


def test_small_work_that_may_take_long_is_long_work() -> None:
    async def asking() -> None:
        async with batching(queue_items=10, batch_items=4) as batcher, busy(batcher):
            assert await batcher.run(lambda: "beside", items=1, deadline=soon(), is_long=True) == "beside"
            waits = await begin(batcher, batcher.run(lambda: "behind", items=4, deadline=soon()))
            assert not waits.done()
        assert await waits == "behind"

    asyncio.run(asking())


def test_scores_that_need_no_search_wait_for_no_batch() -> None:
    async def asking() -> None:
        async with batching() as batcher:
            may_end = threading.Event()
            rating = admitted(batcher._batches, lambda: None if may_end.wait(WAIT_S) else pytest.fail("it waits"))
            assert await batcher.run(lambda: "scores", items=1, deadline=soon()) == "scores"
            assert not rating.done()
            may_end.set()
            await rating

    asyncio.run(asking())


def many_of(golds: int, candidates: int) -> RatingRequest:
    """A test pair whose golds and candidates make it a large one."""
    texts = [f"{text} {number}" for number, text in enumerate(TEXTS * 20)]
    return RatingRequest(
        utterance="how", golds=tuple(texts[:golds]), candidates=tuple(Reference(text=one) for one in texts[:candidates])
    )


def test_ratings_take_places_by_golds_candidates_and_lengths(listener: Listener) -> None:
    async def asking() -> None:
        async with batching(queue_items=200) as batcher, busy(batcher):
            small = await begin(
                batcher, batcher.rate(listener.lease(), [asked_of(4)], RatingSettings(), deadline=soon())
            )
            assert batcher.waiting() == 1
            large = await begin(
                batcher, batcher.rate(listener.lease(), [many_of(20, 1_000)], RatingSettings(), deadline=soon())
            )
            assert 100 < batcher.waiting() < 150  # 20,000 pairs of 250 units, at 50,000 a place
            with refusing(TooLarge, 200):
                await batcher.rate(listener.lease(), [many_of(1_000, 1_000)], RatingSettings(), deadline=soon())
            small.cancel()
            large.cancel()

    asyncio.run(asking())


def test_a_large_rating_ends_between_its_pieces_when_its_client_has_left(listener: Listener, tools: Tools) -> None:
    rated = list[int]()

    class Watched:
        unfamiliar, spec = tools.rater.unfamiliar, "watched"

        def rate(self, asked: Sequence[RatingRequest], settings: RatingSettings, *, check: Callable[[], None]) -> Any:
            def look() -> None:
                rated.append(len(rated))
                if len(rated) == 3:
                    leave()
                check()

            return tools.rater.rate(asked, settings, check=look)

    made: Any = Watched()
    leave: Callable[[], None]

    async def asking() -> None:
        nonlocal leave
        loop = asyncio.get_running_loop()
        async with batching() as batcher:
            asked = asyncio.ensure_future(
                batcher.rate(Lease(index=None, rater=made), [many_of(40, 100)], RatingSettings(), deadline=soon())
            )

            ended = threading.Event()
            asked.add_done_callback(lambda _: ended.set())

            def hang_up() -> None:
                loop.call_soon_threadsafe(asked.cancel)
                assert ended.wait(60)

            leave = hang_up
            with pytest.raises(asyncio.CancelledError):
                await asked
            await settled(batcher)

    asyncio.run(asking())
    assert len(rated) == 3  # of more than thirty


def test_a_request_in_pieces_is_rated_as_in_one_go(tools: Tools) -> None:
    asked = [asked_of(number) for number in range(30)] + [many_of(35, 130)]
    looks = list[None]()
    for settings in (RatingSettings(), RatingSettings(combine="max")):
        in_pieces = tools.rater.rate(asked, settings, check=lambda: looks.append(None))
        for own, whole in zip(in_pieces, tools.rater.rate(asked, settings), strict=True):
            assert own == pytest.approx(whole, abs=CLOSE)
    assert len(looks) == 2 * (1 + 5 * 9)  # those before the last one, and its five parts of golds, nine of candidates


def test_at_the_end_long_work_is_done_too_or_sent_away() -> None:
    begun, may_end = threading.Event(), threading.Event()

    def hold() -> None:
        begun.set()
        assert may_end.wait(WAIT_S)

    async def asking() -> None:
        batcher = Batcher(ServeSettings(batch_items=4))
        async with busy(batcher, items=5):
            waits = await begin(batcher, batcher.run(lambda: "done", items=5, deadline=soon()))
            closing = asyncio.ensure_future(batcher.close(WAIT_S))
            await until(batcher._batches.has_ended.is_set)
            assert not waits.done()
        await closing
        assert await waits == "done"
        batcher = Batcher(ServeSettings(batch_items=4))
        runs = asyncio.ensure_future(batcher.run(hold, items=5, deadline=soon()))
        await until(begun.is_set)
        waits = await begin(batcher, batcher.run(lambda: "never", items=5, deadline=soon()))
        await batcher.close(0.01)
        for task in (runs, waits):
            with refusing(Overloaded):
                await task
        may_end.set()
        await until(batcher._long.has_ended.is_set)

    asyncio.run(asking())


def test_how_long_to_wait_is_what_items_have_taken_times_those_that_wait(listener: Listener) -> None:
    async def asking() -> None:
        async with batching(queue_items=4_000) as batcher:
            batches = batcher._batches
            assert batches.estimate_wait_s() == 1.0
            await batcher.augment(listener.lease(), items_of(1, 2), PLAIN, deadline=soon())
            await settled(batcher)
            assert 0 < batches.place_s < WAIT_S
            batches.place_s, batches.waiting = 0.25, 100
            assert batches.estimate_wait_s() == 25.0
            batches.waiting = 4_000
            batches.place_s = 10.0
            assert batches.estimate_wait_s() == 600.0
            batches.waiting = 0

    asyncio.run(asking())


# ── who does not wait ─────────────────────────────────────────────────────────────────────────────────────────────


def test_what_has_expired_is_never_begun(listener: Listener) -> None:
    begun = list[str]()

    async def asking() -> None:
        async with batching() as batcher:
            async with busy(batcher):
                short = time.monotonic() + 0.02
                tasks = [
                    await begin(batcher, batcher.augment(listener.lease(), items_of(1), PLAIN, deadline=short)),
                    await begin(batcher, batcher.run(lambda: begun.append("short"), items=3, deadline=short)),
                    await begin(batcher, batcher.run(lambda: begun.append("long"), items=1, deadline=soon())),
                ]
                for task in tasks[:2]:  # they hear of it while the thread is busy with something else
                    with refusing(Expired):
                        await task
                assert batcher.waiting() == 1
            await tasks[2]
            with pytest.raises(Expired):
                await batcher.augment(listener.lease(), items_of(1), PLAIN, deadline=time.monotonic() - 1)

    asyncio.run(asking())
    assert (begun, listener.searched) == (["long"], [])


def test_expired_request_is_dropped_between_pieces_and_others_go_on(listener: Listener, tools: Tools) -> None:
    begun, may_end = threading.Event(), threading.Event()

    def at_rating(_number: int) -> None:
        begun.set()
        assert may_end.wait(WAIT_S)

    listener.at_rating = at_rating
    four, other = items_of(1, 2, 3, 6), items_of(7)

    async def asking() -> Found:
        async with batching() as batcher:
            batcher._runner.candidate_s = 1.0  # every item is a piece
            async with busy(batcher):
                short = await begin(
                    batcher, batcher.augment(listener.lease(), four, PLAIN, deadline=time.monotonic() + 0.3)
                )
                long = await begin(batcher, batcher.augment(listener.lease(), other, PLAIN, deadline=soon()))
            await until(begun.is_set)
            with pytest.raises(Expired):
                await short
            may_end.set()
            return await long

    require_equal(asyncio.run(asking())[0], alone(tools, other))
    assert listener.searched == [["item-1", "item-2", "item-3", "item-6", "item-7"]]
    assert listener.rated == [[four[0].utterance], [other[0].utterance]]


def test_what_nobody_waits_for_any_more_is_dropped_before_and_between(listener: Listener, tools: Tools) -> None:
    begun, may_end = threading.Event(), threading.Event()

    def at_rating(_number: int) -> None:
        begun.set()
        assert may_end.wait(WAIT_S)

    listener.at_rating = at_rating

    async def asking() -> Found:
        async with batching(batch_items=2) as batcher:
            batcher._runner.candidate_s = 1.0
            async with busy(batcher):
                gone = await begin(
                    batcher, batcher.augment(listener.lease(), items_of(1, 2, 3), PLAIN, deadline=soon())
                )
                waits = await begin(batcher, batcher.augment(listener.lease(), items_of(6), UNRATED, deadline=soon()))
                stays = await begin(batcher, batcher.augment(listener.lease(), items_of(7), PLAIN, deadline=soon()))
                waits.cancel()
                with pytest.raises(asyncio.CancelledError):
                    await waits
                assert batcher.waiting() == 4
            await until(begun.is_set)
            assert batcher.waiting() == 2  # the third item of the first request, and the one that stays
            gone.cancel()
            with pytest.raises(asyncio.CancelledError):
                await gone
            assert batcher.waiting() == 1
            may_end.set()
            return await stays

    require_equal(asyncio.run(asking())[0], alone(tools, items_of(7)))
    assert listener.searched == [["item-1", "item-2"], ["item-7"]]
    assert listener.rated == [[item_of(1).utterance], [item_of(7).utterance]]


def test_what_runs_for_nobody_keeps_its_versions_until_it_has_ended(tmp_path: Path) -> None:
    home: Settings = home_with_versions(tmp_path, indexes=2, raters=1)
    indexes = artefact_stores(home)["index"]
    first, second = indexes.versions("chat")
    indexes.publish("chat", first)
    folder = indexes.folder("chat", first)
    engines = OpenVersions(home, ServeSettings(), threads=1)
    engines.refresh()
    begun, may_end, was_free = threading.Event(), threading.Event(), list[bool]()

    def is_free() -> bool:
        with lock_if_unread(folder) as free:
            return free

    def work() -> None:
        begun.set()
        assert may_end.wait(WAIT_S)
        was_free.append(is_free())

    def take() -> Lease:
        return engines.lease(index=None, rater=None, needs_index=True, needs_rater=True)

    async def asking() -> None:
        async with batching() as batcher:
            with take() as lease:
                running = asyncio.ensure_future(batcher.run(work, items=1, deadline=soon(), lease=lease))
                await until(begun.is_set)
                gone = await begin(batcher, batcher.augment(lease, items_of(1), PLAIN, deadline=soon()))
            indexes.publish("chat", second)
            engines.refresh()
            assert engines.served.versions()["index"] == {"chat": second}
            for task in (gone, running):
                task.cancel()
            await asyncio.gather(gone, running, return_exceptions=True)
            assert not is_free()
            may_end.set()
            await settled(batcher)
            assert was_free == [False]
            assert is_free()

    asyncio.run(asking())
    engines.close()


def test_what_waits_keeps_its_versions_though_the_request_let_them_go(tmp_path: Path) -> None:
    home = home_with_versions(tmp_path, indexes=1, raters=1)
    folder = artefact_stores(home)["rater"].folder("base", artefact_stores(home)["rater"].versions("base")[0])
    engines = OpenVersions(home, ServeSettings(), threads=1)
    engines.refresh()

    async def asking() -> None:
        async with batching() as batcher:
            async with busy(batcher):
                with engines.lease(index=None, rater=None, needs_index=False, needs_rater=True) as lease:
                    wanted = lease.rater.rate([asked_of(3)]) if lease.rater is not None else []
                    asked = await begin(batcher, batcher.rate(lease, [asked_of(3)], RatingSettings(), deadline=soon()))
                engines.close()
                with lock_if_unread(folder) as free:
                    assert not free
            assert (await asked)[0] == pytest.approx(wanted[0], abs=CLOSE)
            await settled(batcher)
            with lock_if_unread(folder) as free:
                assert free

    asyncio.run(asking())


# ── what fails ────────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("where", ["search", "rating"])
def test_a_failure_reaches_only_the_request_that_it_is_of(listener: Listener, tools: Tools, where: str) -> None:
    listener.poisoned_search, listener.poisoned_rating = where == "search", where == "rating"
    poisoned = [item_of(6), item_of(7, POISON), item_of(8)]

    async def asking() -> list[Any]:
        async with batching() as batcher:
            batcher._runner.candidate_s = 1e-6  # all of it is one piece
            async with busy(batcher):
                tasks = [
                    await begin(batcher, batcher.augment(listener.lease(), items, PLAIN, deadline=soon()))
                    for items in (items_of(1, 2), poisoned, items_of(3))
                ]
            found = await asyncio.gather(*tasks, return_exceptions=True)
            again = await batcher.augment(listener.lease(), items_of(9), PLAIN, deadline=soon())
            require_equal(again[0], alone(tools, items_of(9)))
            return found

    first, second, third = asyncio.run(asking())
    require_equal(first[0], alone(tools, items_of(1, 2)))
    require_equal(third[0], alone(tools, items_of(3)))
    assert (type(second), str(second)) == (ValueError, f"poisoned {where}")


def test_large_request_that_fails_in_one_part_leaves_the_queue(listener: Listener) -> None:
    listener.poisoned_search = True
    poisoned = [item_of(1), item_of(7, POISON), *items_of(*range(20, 30))]

    async def asking() -> None:
        async with batching(batch_items=4) as batcher:
            with pytest.raises(ValueError, match="poisoned search"):
                await batcher.augment(listener.lease(), poisoned, PLAIN, deadline=soon())
            assert batcher.waiting() == 0
            await settled(batcher)

    asyncio.run(asking())
    assert listener.searched == [[item.id for item in poisoned[:4]]]


def test_ratings_without_a_gold_are_refused_to_the_one_who_asked(tools: Tools) -> None:
    lease = Lease(index=None, rater=tools.rater)
    bare = RatingRequest(utterance="how", golds=(), candidates=(Reference(text="so"),))

    async def asking() -> list[Any]:
        async with batching() as batcher:
            async with busy(batcher):
                tasks = [
                    await begin(batcher, batcher.rate(lease, asked, RatingSettings(), deadline=soon()))
                    for asked in ([asked_of(3)], [asked_of(4), bare], [asked_of(2)])
                ]
            return await asyncio.gather(*tasks, return_exceptions=True)

    first, second, third = asyncio.run(asking())
    assert first[0] == pytest.approx(tools.rater.rate([asked_of(3)])[0], abs=CLOSE)
    assert third[0] == pytest.approx(tools.rater.rate([asked_of(2)])[0], abs=CLOSE)
    assert isinstance(second, Usage)
    assert "without a gold" in second.message


@pytest.mark.parametrize("error", [SystemExit(3), KeyboardInterrupt(), StopIteration(), MemoryError("none left")])
def test_whatever_breaks_the_work_off_is_answered_and_the_thread_goes_on(error: BaseException) -> None:
    def work() -> None:
        raise error

    async def asking() -> None:
        async with batching() as batcher:
            with pytest.raises((RefaugError, MemoryError)) as caught:
                await batcher.run(work, items=1, deadline=soon())
            if isinstance(error, MemoryError):
                assert caught.value is error
            else:
                assert str(caught.value) == f"the work was broken off ({type(error).__name__})"
            assert await batcher.run(lambda: "on", items=1, deadline=soon()) == "on"

    asyncio.run(asking())


@pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning")
def test_if_the_thread_ends_nobody_is_left_waiting(monkeypatch: pytest.MonkeyPatch, listener: Listener) -> None:
    def ends(_shares: Any) -> None:
        raise SystemExit  # a thread ends by this without a word

    async def asking() -> None:
        async with batching() as batcher:
            async with busy(batcher):
                monkeypatch.setattr(batcher._runner, "run", ends)
                tasks = [
                    await begin(batcher, batcher.augment(listener.lease(), items_of(1), one, deadline=soon()))
                    for one in (PLAIN, UNRATED)
                ]
            for task in tasks:
                with refusing(Overloaded):
                    await task
            with pytest.raises((Overloaded, Unavailable)):
                await batcher.run(lambda: None, items=1, deadline=soon())
            assert batcher.waiting() == 0
            await asyncio.to_thread(
                batcher._batches.thread.join, WAIT_S
            )  # its end is told of here, not in the next test

    asyncio.run(asking())


# ── what was found lately ─────────────────────────────────────────────────────────────────────────────────────────


def test_what_was_found_is_not_looked_for_again_whatever_the_replies_are(listener: Listener, tools: Tools) -> None:
    looked_up = list[tuple[int, int]]()
    first, second = items_of(1, 2), [replace(one, replies={"b": "another"}) for one in items_of(2, 3)]

    async def asking() -> None:
        async with batching(
            held_references_mib=1, looked_up=lambda hits, misses: looked_up.append((hits, misses))
        ) as batcher:
            before = await batcher.augment(listener.lease(), first, PLAIN, deadline=soon())
            after = await batcher.augment(listener.lease(), second, PLAIN, deadline=soon())
            require_equal(before[0], alone(tools, first))
            require_equal(after[0], alone(tools, second))
            assert [one.replies for one in after[0]] == [{"b": "another"}] * 2
            assert replace(after[0][0], replies={}) == replace(before[0][1], replies={})  # to the last bit

    asyncio.run(asking())
    assert looked_up == [(0, 2), (1, 1)]
    assert sorted(name for batch in listener.searched for name in batch) == sorted(
        [*(one.id for one in first), second[1].id]
    )


def test_other_version_setting_or_gold_is_searched_anew(listener: Listener) -> None:
    (item,) = items_of(2)
    other_gold = replace(item, references=(Reference(text="something else"),))
    asked = [(item, PLAIN), (item, UNRATED), (other_gold, PLAIN), (item, PLAIN)]

    async def asking() -> None:
        async with batching(held_references_mib=1) as batcher:
            for one, settings in asked:
                await batcher.augment(listener.lease(), [one], settings, deadline=soon())
            listener.spec = "listener@2"
            await batcher.augment(listener.lease(), [item], PLAIN, deadline=soon())

    asyncio.run(asking())
    assert len(listener.searched) == 4  # the fourth of the first round had been found


def test_what_is_kept_takes_no_more_memory_than_it_may(tools: Tools) -> None:
    found = alone(tools, items_of(*range(1, 40)))
    kept, sizes = [(one, Coverage()) for one in found], list[int]()
    for one in kept:
        alone_there = ReferenceCache(1_000_000)
        alone_there.put(b"", one)
        sizes.append(alone_there.size)
    assert min(sizes) >= 900
    store = ReferenceCache(sum(sizes[-5:]))
    for number, one in enumerate(kept):
        store.put(bytes([number]), one)
    there = [number for number in range(len(kept)) if store.get(bytes([number])) is not None]
    assert there == list(range(len(kept) - len(there), len(kept)))
    assert sum(sizes[number] for number in there) <= sum(sizes[-5:])
    assert len(there) == 5
    ReferenceCache(0).put(b"", kept[0])
    assert ReferenceCache(0).get(b"") is None


@pytest.mark.parametrize("mib", [0, 1])
def test_callback_on_references_runs_in_the_batch_thread_in_the_same_turn(
    listener: Listener, tools: Tools, mib: int
) -> None:
    threads = list[str]()
    told = list[tuple[str, int]]()

    class Scoring:
        def steps(self, items: Sequence[Item], warnings: Sequence[str]) -> ScoringSteps[Sequence[Item]]:
            threads.append(threading.current_thread().name)
            yield from ()
            return items

    async def asking() -> None:
        async with batching(
            held_references_mib=mib, observe=lambda stage, _seconds, items: told.append((stage, items))
        ) as batcher:
            for _ in range(2):
                items = await batcher.augment_and_score(
                    listener.lease(), items_of(1, 3), PLAIN, Scoring(), deadline=soon()
                )
                assert [one.id for one in items] == ["item-1", "item-3"]
                wanted = alone(tools, items_of(1, 3))
                assert [[r.text for r in one.references] for one in items] == [
                    [r.text for r in pair.references] for pair in wanted
                ]
            await settled(batcher)

    asyncio.run(asking())
    assert threads == ["batches", "scores" if mib else "batches"]
    first = [("queue", 2), ("search", 2), ("score", 2), ("rate", 2)]
    second = first if mib == 0 else [("queue", 2), ("score", 2)]
    assert sorted(one for one in told if one[1] == 2) == sorted([*first, *second])


def test_what_cannot_be_made_of_the_references_is_the_requests_own_trouble(listener: Listener) -> None:
    class Broken:
        def steps(self, items: Sequence[Item], warnings: Sequence[str]) -> ScoringSteps[None]:
            yield from ()
            raise ValueError("cannot be scored")

    async def asking() -> list[Any]:
        async with batching() as batcher:
            async with busy(batcher):
                first = await begin(
                    batcher, batcher.augment_and_score(listener.lease(), items_of(1), PLAIN, Broken(), deadline=soon())
                )
                second = await begin(batcher, batcher.augment(listener.lease(), items_of(2), PLAIN, deadline=soon()))
            return await asyncio.gather(first, second, return_exceptions=True)

    failed, found = asyncio.run(asking())
    assert str(failed) == "cannot be scored"
    assert [one.id for one in found[0]] == ["item-2"]
    assert len(listener.searched) == 1  # both in one batch


class Replying:
    """Every item gets the same reply, which each of the metrics scores, one after the other."""

    def __init__(self, reply: str, *metrics: Metric) -> None:
        self.reply, self.metrics = reply, metrics

    def steps(self, items: Sequence[Item], warnings: Sequence[str]) -> ScoringSteps[list[Any]]:
        scored = list[Any]()
        for metric in self.metrics:
            references = [references_for(metric, one.references, one.turns) for one in items]
            statistics, problems = yield metric, [self.reply] * len(items), references
            scored.append((repr(statistics.tolist()), problems))
        return scored


class NotingMetric:
    """A metric that writes down what it scores at a time, and what happens then."""

    def __init__(self, text: str, monkeypatch: pytest.MonkeyPatch) -> None:
        self.metric, self.scored = build(text), list[list[str]]()
        self.at_scoring: Callable[[Sequence[str]], None] = lambda _replies: None
        score = self.metric.statistics

        def statistics(replies: Sequence[str], *rest: Any) -> Floats:
            self.scored.append(list(replies))
            self.at_scoring(replies)
            return score(replies, *rest)

        monkeypatch.setattr(self.metric, "statistics", statistics)


REPLIES = {"the bus is late": (1, 2), "we open at ten": (5,), "is it warm": (4,), "": (7, 8, 9)}


async def ask_together(batcher: Batcher, listener: Listener, *metrics: Metric) -> list[asyncio.Task[list[Any]]]:
    """Ask for the scores of all replies at once, which then wait in one queue."""
    async with busy(batcher):
        return [
            await begin(
                batcher,
                batcher.augment_and_score(
                    listener.lease(), items_of(*numbers), UNRATED, Replying(reply, *metrics), deadline=soon()
                ),
            )
            for reply, numbers in REPLIES.items()
        ]


def scores_alone(tools: Tools, *metrics: Metric) -> list[list[Any]]:
    return [
        scored_alone(Replying(reply, *metrics).steps(alone(tools, items_of(*numbers), UNRATED), ()))
        for reply, numbers in REPLIES.items()
    ]


def test_a_batch_is_scored_at_once_with_the_bits_of_each_request_alone(
    listener: Listener, tools: Tools, monkeypatch: pytest.MonkeyPatch
) -> None:
    bleu, chrf = NotingMetric("upsilon-bleu", monkeypatch), NotingMetric("upsilon-chrf", monkeypatch)

    async def asking() -> list[list[list[Any]]]:
        async with batching(held_references_mib=1) as batcher:
            found = [await asyncio.gather(*await ask_together(batcher, listener, bleu.metric, chrf.metric))]
            found.append(await asyncio.gather(*await ask_together(batcher, listener, chrf.metric)))  # from the cache
            return found

    found, again = asyncio.run(asking())
    every = ["the bus is late", "the bus is late", "is it warm", "", "", ""]  # item 5 has no utterance
    assert bleu.scored == [every]
    assert chrf.scored == [every, every]
    assert found == scores_alone(tools, bleu.metric, chrf.metric)
    assert again == scores_alone(tools, chrf.metric)


def test_a_reply_that_breaks_the_metric_fails_its_request_alone(
    listener: Listener, tools: Tools, monkeypatch: pytest.MonkeyPatch
) -> None:
    bleu = NotingMetric("upsilon-bleu", monkeypatch)

    def break_at_empty(replies: Sequence[str]) -> None:
        if "" in replies:
            raise ValueError("poisoned metric")

    async def asking() -> list[Any]:
        async with batching() as batcher:
            tasks = await ask_together(batcher, listener, bleu.metric)
            return await asyncio.gather(*tasks, return_exceptions=True)

    bleu.at_scoring = break_at_empty
    *found, failed = asyncio.run(asking())
    assert str(failed) == "poisoned metric"
    bleu.at_scoring = lambda _replies: None
    assert found == scores_alone(tools, bleu.metric)[:-1]


def test_a_client_that_leaves_while_a_batch_is_scored_ends_no_other_request(
    listener: Listener, tools: Tools, monkeypatch: pytest.MonkeyPatch
) -> None:
    bleu, left = NotingMetric("upsilon-bleu", monkeypatch), threading.Event()

    async def asking() -> list[Any]:
        begun = threading.Event()

        def wait(_replies: Sequence[str]) -> None:
            begun.set()
            assert left.wait(WAIT_S)

        bleu.at_scoring = wait
        async with batching() as batcher:
            gone, *others = await ask_together(batcher, listener, bleu.metric)
            await until(begun.is_set)
            gone.cancel()
            await asyncio.wait({gone})
            left.set()
            return await asyncio.gather(gone, *others, return_exceptions=True)

    gone, *found = asyncio.run(asking())
    assert isinstance(gone, asyncio.CancelledError)
    assert found == scores_alone(tools, bleu.metric)[1:]


# ── figures ───────────────────────────────────────────────────────────────────────────────────────────────────────


def test_every_stage_is_told_with_its_items(listener: Listener) -> None:
    told = list[tuple[str, int]]()

    def observe(stage: str, seconds: float, items: int) -> None:
        assert seconds >= 0
        told.append((stage, items))

    async def asking() -> None:
        async with batching(observe=observe) as batcher:
            async with busy(batcher):
                tasks = [
                    await begin(batcher, batcher.augment(listener.lease(), items, PLAIN, deadline=soon()))
                    for items in (items_of(1, 2), items_of(3, 5))
                ]
            await asyncio.gather(*tasks)
            await batcher.rate(listener.lease(), [asked_of(3)], RatingSettings(), deadline=soon())
            await settled(batcher)

    asyncio.run(asking())
    calls = [("queue", 1), ("score", 1)]
    assert [one for one in told if one not in calls] == [
        ("queue", 2), ("queue", 2), ("search", 4), ("rate", 3),  # one has no utterance
        ("rate", 1),
    ]  # fmt: skip
    assert [told.count(one) for one in calls] == [5, 4]  # ratings wait, and are no scores


def test_a_figure_that_cannot_be_counted_costs_nobody_the_answer(listener: Listener, tools: Tools) -> None:
    def broken(*_told: object) -> None:
        raise OSError(28, "No space left on device")

    async def asking() -> None:
        async with batching(observe=broken, waiting_changed=broken) as batcher:
            found = await batcher.augment(listener.lease(), items_of(1, 2), PLAIN, deadline=soon())
            require_equal(found[0], alone(tools, items_of(1, 2)))
            assert batcher.waiting() == 0

    asyncio.run(asking())


# ── the end ───────────────────────────────────────────────────────────────────────────────────────────────────────


def test_at_the_end_what_waits_is_done_and_nothing_new_is_taken(listener: Listener, tools: Tools) -> None:
    async def asking() -> list[Found]:
        async with batching() as batcher:
            async with busy(batcher):
                tasks = [
                    await begin(batcher, batcher.augment(listener.lease(), items_of(n), way, deadline=soon()))
                    for n, way in ((1, PLAIN), (2, UNRATED))
                ]
                closing = asyncio.ensure_future(batcher.close(WAIT_S))
                await until(lambda: batcher._batches.is_stopping)
                with pytest.raises(Overloaded) as caught:
                    await batcher.run(lambda: None, items=1, deadline=soon())
                assert (caught.value.message, caught.value.retry_after_s) == ("the service is stopping", 1.0)
            await closing
            assert not batcher._batches.thread.is_alive() or batcher._batches.has_ended.is_set()
            return await asyncio.gather(*tasks)

    first, second = asyncio.run(asking())
    require_equal(first[0], alone(tools, items_of(1)))
    require_equal(second[0], alone(tools, items_of(2), UNRATED))


def test_what_is_not_done_in_the_last_moments_is_sent_away(listener: Listener) -> None:
    begun, may_end = threading.Event(), threading.Event()

    def at_rating(_number: int) -> None:
        begun.set()
        assert may_end.wait(WAIT_S)

    listener.at_rating = at_rating

    async def asking() -> None:
        async with batching() as batcher:
            batcher._runner.candidate_s = 1.0
            runs = asyncio.ensure_future(batcher.augment(listener.lease(), items_of(1, 2), PLAIN, deadline=soon()))
            await until(begun.is_set)
            waits = await begin(batcher, batcher.augment(listener.lease(), items_of(3), PLAIN, deadline=soon()))
            await batcher.close(0.01)
            for task in (runs, waits):
                with refusing(Overloaded):
                    await task
            assert batcher.waiting() == 0
            may_end.set()
            await until(batcher._batches.has_ended.is_set)

    asyncio.run(asking())
    assert len(listener.rated) == 1  # the piece that ran; nothing after it was begun


def test_an_answer_for_a_loop_that_is_gone_is_nobodys_trouble(listener: Listener) -> None:
    begun, may_end, batchers = threading.Event(), threading.Event(), list[Batcher]()

    def hold() -> None:
        begun.set()
        assert may_end.wait(WAIT_S)

    async def asking() -> None:
        batchers.append(Batcher(ServeSettings()))
        asking_now = asyncio.ensure_future(batchers[0].run(hold, items=1, deadline=soon()))
        await until(begun.is_set)
        asking_now.cancel()

    asyncio.run(asking())
    may_end.set()

    async def again() -> str:
        try:
            return await batchers[0].run(lambda: "on", items=1, deadline=soon())
        finally:
            await batchers[0].close(WAIT_S)

    assert asyncio.run(again()) == "on"


def test_references_of_people_are_kept_in_a_batch(tools: Tools) -> None:
    supplied = Reference(text="we do", source=Origin.SUPPLIED, weight=-0.5)
    item = replace(item_of(1), references=(supplied, Reference(text="yes")))

    async def asking() -> Found:
        async with batching() as batcher:
            lease = Lease(index=tools.index, rater=tools.rater)
            return await batcher.augment(lease, [item, item], PLAIN, deadline=soon())

    found = asyncio.run(asking())[0]
    assert [one.references[0] for one in found] == [supplied, supplied]
    require_equal(found, alone(tools, [item, item]))
