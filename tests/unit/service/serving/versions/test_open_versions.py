"""What serves: names mean what is published, leases keep what they hold open, and what is damaged changes nothing."""

from __future__ import annotations

import gc
import os
import random
import shutil
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from engines import add_rater, home_with_versions
from refusals import refusing

from refaug.core.artefacts.kinds import artefact_stores
from refaug.core.artefacts.version_locks import lock_if_unread
from refaug.core.artefacts.versions import CURRENT
from refaug.core.errors import Conflict, Corrupt, NotFound, Overloaded, RefaugError, Unavailable, Usage
from refaug.core.home import Settings
from refaug.core.records import Item, Reference
from refaug.indexer.manifest import IndexManifest
from refaug.rater.nn.checkpoint import read_manifest
from refaug.rater.rating import RatingRequest
from refaug.scoring.home.indexes import open_index
from refaug.scoring.home.networks import open_rater
from refaug.service.process.live_processes import LiveProcesses
from refaug.service.server_settings import ServeSettings
from refaug.service.serving.versions import version_opener as module
from refaug.service.serving.versions.leases import Kind, Lease, ServedVersions
from refaug.service.serving.versions.open_versions import OpenVersions, VersionWatcher
from refaug.service.serving.versions.version_names import NoDefaultIndex, NoDefaultRater, NoIndex, NoRater

PAIR = Item(id="x", turns=("how do we fly",), references=(Reference(text="we do"),))
ASKED = RatingRequest(
    utterance="how do we fly", golds=("we do",), candidates=(Reference(text="no"), Reference(text="i do"))
)


@pytest.fixture(scope="module")
def template(tmp_path_factory: pytest.TempPathFactory) -> Settings:
    return home_with_versions(tmp_path_factory.mktemp("engines"), indexes=3, raters=4)


@pytest.fixture
def home(template: Settings, tmp_path: Path) -> Settings:
    """The template's, for one test to spoil."""
    return Settings(home=shutil.copytree(template.home, tmp_path / "home"))


class Clock:
    """Time that stands still until it is told to go on."""

    def __init__(self) -> None:
        self.now = 1_000.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def opening(home: Settings, clock: Clock) -> Iterator[Callable[..., OpenVersions]]:
    """Engines with settings, which have looked once unless they are told not to."""
    made = list[OpenVersions]()

    def open_them(*, look: bool = True, **serve: Any) -> OpenVersions:
        made.append(OpenVersions(home, ServeSettings(**serve), threads=1, clock=clock))
        if look:
            made[-1].refresh()
        return made[-1]

    yield open_them
    for one in made:
        one.close()


def take(engines: OpenVersions, index: str | None = None, rater: str | None = None) -> Lease:
    """Both, as a request for references does."""
    return engines.lease(index=index, rater=rater, needs_index=True, needs_rater=True)


def take_rater(engines: OpenVersions, rater: str | None = None) -> Lease:
    return engines.lease(index=None, rater=rater, needs_index=False, needs_rater=True)


def take_index(engines: OpenVersions, index: str | None = None) -> Lease:
    return engines.lease(index=index, rater=None, needs_index=True, needs_rater=False)


def versions(home: Settings, kind: Kind) -> list[str]:
    return artefact_stores(home)[kind].versions({"index": "chat", "rater": "base"}[kind])


def is_held(home: Settings, kind: Kind, version: str) -> bool:
    name = {"index": "chat", "rater": "base"}[kind]
    with lock_if_unread(artefact_stores(home)[kind].folder(name, version)) as free:
        return not free


def held(home: Settings, kind: Kind) -> list[int]:
    """Which versions some process has locked, as places in their list."""
    return [place for place, version in enumerate(versions(home, kind)) if is_held(home, kind, version)]


def until(is_so: Callable[[], bool], *, within_s: float = 20.0) -> None:
    """Wait until something is so."""
    end = time.monotonic() + within_s
    while not is_so():
        assert time.monotonic() < end, "it did not come about"
        time.sleep(0.005)


def refusal(do: Callable[[], object]) -> RefaugError:
    with pytest.raises(RefaugError) as caught:
        do()
    return caught.value


# ── what a lease gives ────────────────────────────────────────────────────────────────────────────────────────────


def test_a_lease_gives_the_published_versions_and_says_which_they_are(
    home: Settings, opening: Callable[..., OpenVersions]
) -> None:
    engines = opening()
    index, rater = versions(home, "index")[0], versions(home, "rater")[0]
    assert engines.served.versions() == {"index": {"chat": index}, "rater": {"base": rater}}
    assert engines.problems() == {}
    with take(engines) as lease, open_index(home, "chat", threads=1) as plain:
        assert lease.index is not None
        assert lease.rater is not None
        index_id = IndexManifest.read(home.home / "indexes" / "chat" / index).id[:12]
        rater_id = read_manifest(home.home / "raters" / "base" / rater).id[:12]
        assert lease.versions() == {"index": f"chat@{index}#{index_id}", "rater": f"base@{rater}#{rater_id}"}
        assert lease.index.search([PAIR]) == plain.search([PAIR])
        assert lease.rater.rate([ASKED])[0] == pytest.approx(open_rater(home, "base").rate([ASKED])[0], abs=1e-5)
    with take_rater(engines) as lease:
        assert (lease.index, list(lease.versions())) == (None, ["rater"])
    with take_index(engines) as lease:
        assert (lease.rater, list(lease.versions())) == (None, ["index"])


def test_all_requests_share_one_rater_and_so_what_it_has_read(opening: Callable[..., OpenVersions]) -> None:
    engines = opening()
    with take(engines) as one, take(engines) as other, take(engines, "chat", "base") as named:
        assert one.rater is other.rater is named.rater
        assert one.index is other.index is named.index


def test_what_is_open_is_warm(opening: Callable[..., OpenVersions], monkeypatch: pytest.MonkeyPatch) -> None:
    searched, rated = list[str](), list[str]()
    search, rate = module.ReferenceIndex.search, module.Rater.rate

    def noted_search(self: Any, pairs: Any, settings: Any = None) -> Any:
        found = search(self, pairs, settings)
        searched.extend(settings.mode for one in found if one.references and "note" not in one.search_notes)
        return found

    def noted_rate(self: Any, asked: Any, settings: Any = None) -> Any:
        rated.append(self.spec.partition("#")[0])
        return rate(self, asked, settings)

    monkeypatch.setattr(module.ReferenceIndex, "search", noted_search)
    monkeypatch.setattr(module.Rater, "rate", noted_rate)
    engines = opening()
    assert searched == ["embedding-utterance", "embedding-dialog", "bm25-utterance", "bm25-dialog"]
    assert rated == [f"base@{engines.served.versions()['rater']['base']}"]


# ── swapping ──────────────────────────────────────────────────────────────────────────────────────────────────────


def test_a_request_keeps_its_version_and_the_next_one_gets_the_new(
    home: Settings, opening: Callable[..., OpenVersions]
) -> None:
    engines, (first, second, _) = opening(), versions(home, "index")
    before = engines.served
    lease = take_index(engines)
    assert lease.index is not None
    found = lease.index.search([PAIR])
    artefact_stores(home)["index"].publish("chat", second)
    assert lease.index.version == first
    assert engines.refresh()
    assert held(home, "index") == [0, 1]
    with take_index(engines) as new:
        assert new.index is not None
        assert new.index.version == second
        assert new.index.search([PAIR]) != found
    assert lease.index.version == first
    assert lease.index.search([PAIR]) == found
    lease.release()
    assert held(home, "index") == [1]
    assert (before.generation + 1, before.versions()["index"]["chat"]) == (engines.served.generation, first)


def test_version_swapped_while_it_is_being_leased_is_not_given_out(
    home: Settings, opening: Callable[..., OpenVersions], monkeypatch: pytest.MonkeyPatch
) -> None:
    engines, second, meant = opening(), versions(home, "rater")[1], list[str]()
    resolve = engines._names.resolve

    def swapped_after(served: ServedVersions, kind: Kind, spec: str | None, **how: Any) -> Any:
        key = resolve(served, kind, spec, **how)
        meant.append(key.version)
        if len(meant) == 1:
            artefact_stores(home)["rater"].publish("base", second)
            engines.refresh()
        return key

    monkeypatch.setattr(engines._names, "resolve", swapped_after)
    with take_rater(engines) as lease:
        assert lease.versions()["rater"].startswith(f"base@{second}#")
    assert meant == versions(home, "rater")[:2]
    assert held(home, "rater") == [1]


def test_a_look_without_news_changes_nothing(opening: Callable[..., OpenVersions]) -> None:
    engines = opening(look=False)
    assert [engines.refresh(), engines.refresh(), engines.refresh()] == [True, False, False]
    assert engines.served.generation == 1


def test_a_lease_is_released_once_and_a_shared_one_on_its_own(
    home: Settings, opening: Callable[..., OpenVersions]
) -> None:
    engines = opening()
    first, others = take_rater(engines), [take_rater(engines), take_rater(engines)]
    shared = first.share()
    artefact_stores(home)["rater"].publish("base", versions(home, "rater")[1])
    engines.refresh()
    for _ in range(5):
        first.release()
        first.release()
    assert held(home, "rater") == [0, 1]
    shared.release()
    others[0].release()
    assert held(home, "rater") == [0, 1]
    others[1].release()
    assert held(home, "rater") == [1]


def test_the_index_that_is_sampled_is_leased_beside_or_with_the_index(
    home: Settings, opening: Callable[..., OpenVersions]
) -> None:
    engines = opening()
    first, second, _ = versions(home, "index")
    other = engines.lease(index=None, rater=None, needs_index=True, needs_rater=False, sample=f"chat@{second}")
    same = engines.lease(index=None, rater=None, needs_index=True, needs_rater=False, sample=f"chat@{first}")
    alone = engines.lease(index=None, rater=None, needs_index=False, needs_rater=False, sample="chat")
    assert [lease.sample and lease.sample.spec.partition("#")[0] for lease in (other, same, alone)] == [
        f"chat@{second}",
        f"chat@{first}",
        f"chat@{first}",
    ]
    assert (same.sample is same.index, other.sample is other.index, alone.index) == (True, False, None)
    assert (other.versions(), alone.versions()) == (same.versions(), {})
    shared = other.share()
    for lease in (other, same, alone):
        lease.release()
    assert engines.is_open(None, None, f"chat@{second}")
    assert (shared.sample, held(home, "index")) == (other.sample, [0, 1])
    shared.release()
    engines.close()
    assert held(home, "index") == []


def test_a_name_that_is_new_appears_and_one_that_is_deleted_goes(
    home: Settings, opening: Callable[..., OpenVersions], tmp_path: Path
) -> None:
    engines = opening()
    with take_rater(engines) as lease:
        assert lease.versions()["rater"].startswith("base@")
        version = add_rater(home, tmp_path / "other", "other", temperature=3.0)
        assert not engines.refresh()  # nothing says that it is to serve
        artefact_stores(home)["rater"].publish("other", version)
        assert engines.refresh()
        assert engines.served.versions()["rater"] == {"base": versions(home, "rater")[0], "other": version}
        shutil.rmtree(home.home / "raters" / "base")
        assert engines.refresh()
        assert engines.served.versions()["rater"] == {"other": version}
        assert engines.problems() == {}
    with take_rater(engines) as lease:
        assert lease.versions()["rater"].startswith("other@")
    assert isinstance(refusal(lambda: take_rater(engines, "base")), NotFound)


def test_what_is_open_is_taken_while_something_else_is_being_opened(
    home: Settings, opening: Callable[..., OpenVersions], monkeypatch: pytest.MonkeyPatch
) -> None:
    engines, (first, second, _) = opening(), versions(home, "index")
    begun, may_end = threading.Event(), threading.Event()

    def slow(*given: Any, **named: Any) -> Any:
        begun.set()
        assert may_end.wait(20)
        return open_index(*given, **named)

    monkeypatch.setattr(module, "open_index", slow)
    artefact_stores(home)["index"].publish("chat", second)
    with ThreadPoolExecutor(2) as pool:
        look = pool.submit(engines.refresh)
        assert begun.wait(20)
        with take(engines) as lease:
            assert lease.index is not None
            assert lease.index.version == first
        pinned = pool.submit(take_index, engines, f"chat@{second}")  # waits for the same, and does not open it twice
        may_end.set()
        assert look.result(20)
        with pinned.result(20) as other, take_index(engines) as new:
            assert other.index is new.index
            assert new.versions()["index"].startswith(f"chat@{second}#")


def test_lease_has_versions_of_one_snapshot_and_unused_ones_are_closed(
    home: Settings, opening: Callable[..., OpenVersions]
) -> None:
    """Requests from many threads, while versions are published back and forth."""
    engines, raters, over = opening(), versions(home, "rater")[:2], threading.Event()
    specs = {}
    for version in raters:
        with take_rater(engines, f"base@{version}") as lease:
            specs[version] = lease.versions()["rater"]

    def requests(seed: int) -> int:
        rng, count = random.Random(seed), 0
        while not over.is_set() or not count:
            pin = rng.choice([None, *raters])
            before = engines.served
            with take_rater(engines, pin and f"base@{pin}") as lease:
                after = engines.served
                assert lease.rater is not None
                assert is_held(home, "rater", lease.rater.spec.partition("#")[0].partition("@")[2])
                if pin is not None:
                    assert lease.rater.spec == specs[pin]
                elif before is after:
                    assert lease.rater.spec == specs[before.versions()["rater"]["base"]]
            count += 1
        return count

    with ThreadPoolExecutor(4) as pool:
        running = [pool.submit(requests, seed) for seed in range(4)]
        for number in range(12):
            artefact_stores(home)["rater"].publish("base", raters[(number + 1) % 2])
            assert engines.refresh()
        over.set()
        assert all(one.result(30) > 0 for one in running)
    assert engines.served.generation == 13
    engines.close()
    assert held(home, "rater") == held(home, "index") == []


# ── pinned versions ───────────────────────────────────────────────────────────────────────────────────────────────


def test_old_versions_are_limited_and_the_least_recently_used_closes_first(
    home: Settings, opening: Callable[..., OpenVersions]
) -> None:
    engines, four = opening(old_versions=2), versions(home, "rater")

    def ask(place: int) -> None:
        with take_rater(engines, f"base@{four[place]}") as lease:
            assert lease.versions()["rater"].startswith(f"base@{four[place]}#")

    states = []
    for place in (1, 2, 1, 3, 0, 2):
        ask(place)
        states.append(held(home, "rater"))
    assert states == [[0, 1], [0, 1, 2], [0, 1, 2], [0, 1, 3], [0, 1, 3], [0, 2, 3]]


def test_a_pinned_version_that_has_to_go_stays_until_its_last_request_ends(
    home: Settings, opening: Callable[..., OpenVersions]
) -> None:
    engines, four = opening(old_versions=1), versions(home, "rater")
    first = take_rater(engines, f"base@{four[1]}")
    with take_rater(engines, f"base@{four[2]}"):
        assert held(home, "rater") == [0, 1, 2]
        with take_rater(engines, f"base@{four[1]}") as again:
            assert again.rater is first.rater
        assert held(home, "rater") == [0, 1, 2]
    assert held(home, "rater") == [0, 1]  # what was asked for last is kept
    first.release()
    assert held(home, "rater") == [0, 1]
    none_kept = opening(old_versions=0)
    lease = take_rater(none_kept, f"base@{four[3]}")
    assert held(home, "rater") == [0, 1, 3]
    lease.release()
    assert held(home, "rater") == [0, 1]


def test_versions_from_before_a_deletion_are_neither_served_nor_kept_open(
    home: Settings, opening: Callable[..., OpenVersions]
) -> None:
    first, second, third = versions(home, "index")
    engines, indexes = opening(old_versions=2), artefact_stores(home)["index"]
    take_index(engines, f"chat@{third}").release()
    assert held(home, "index") == [0, 2]
    folder = indexes.folder("chat", second)
    replace(IndexManifest.read(folder), erasures=1).write(folder)
    indexes.publish("chat", second)
    engines.refresh()
    assert held(home, "index") == [1]
    for outdated in (first, third):
        with refusing(Conflict, f"chat@{outdated}", f"chat@{second}"):
            take_index(engines, f"chat@{outdated}")
    assert held(home, "index") == [1]


def test_open_old_versions_never_exceed_the_limit_for_any_requests(
    home: Settings, opening: Callable[..., OpenVersions]
) -> None:
    engines, four = opening(old_versions=1), versions(home, "rater")
    index = versions(home, "index")[1]
    first, second = take_rater(engines, f"base@{four[1]}"), take_rater(engines, f"base@{four[2]}")
    for _ in range(2):  # what was refused leaves nothing behind
        refused = refusal(lambda: take_rater(engines, f"base@{four[3]}"))
        assert isinstance(refused, Overloaded)
        assert refused.message == "2 older versions are open, and requests need all of them"
    assert isinstance(refusal(lambda: take(engines, f"chat@{index}", f"base@{four[1]}")), Overloaded)
    assert (held(home, "rater"), held(home, "index")) == ([0, 1, 2], [0])
    with take_rater(engines, f"base@{four[2]}") as again, take_rater(engines) as serving:
        assert again.rater is second.rater
        assert serving.versions()["rater"].startswith(f"base@{four[0]}#")
    first.release()
    with take_rater(engines, f"base@{four[3]}"):
        assert held(home, "rater") == [0, 2, 3]
    second.release()
    with take(engines, f"chat@{index}", f"base@{four[1]}"):  # two of one request always find room
        assert (held(home, "rater"), held(home, "index")) == ([0, 1], [0, 1])


def test_for_a_version_that_is_known_to_be_damaged_no_other_has_to_go(
    home: Settings, opening: Callable[..., OpenVersions], monkeypatch: pytest.MonkeyPatch
) -> None:
    engines, four = opening(), versions(home, "rater")
    open_now = module.VersionOpener._open_version

    def damaged(self: module.VersionOpener, key: Any) -> Any:
        if key.version == four[3]:
            raise OSError("damaged")
        return open_now(self, key)

    monkeypatch.setattr(module.VersionOpener, "_open_version", damaged)
    assert isinstance(refusal(lambda: take_rater(engines, f"base@{four[3]}")), Unavailable)
    for version in (four[1], four[2]):
        take_rater(engines, f"base@{version}").release()
    assert isinstance(refusal(lambda: take_rater(engines, f"base@{four[3]}")), Unavailable)
    assert held(home, "rater") == [0, 1, 2]


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["index", "rater"])
def test_where_warming_fails_no_file_stays_open(
    opening: Callable[..., OpenVersions],
    home: Settings,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
    kind: Kind,
) -> None:
    engines, name = opening(look=False), {"index": "chat", "rater": "base"}[kind]
    version = versions(home, kind)[0]

    def fail(_tool: object) -> None:
        raise MemoryError

    caplog.set_level("CRITICAL", logger=module.__name__)  # a logged error would hold the half-opened version
    monkeypatch.setattr(module, f"_warm_{kind}", fail)
    with refusing(Unavailable, "MemoryError"):
        (take_index if kind == "index" else take_rater)(engines, f"{name}@{version}")
    gc.collect()
    folder = artefact_stores(home)[kind].folder(name, version)
    targets = [handle.readlink() for handle in Path("/proc/self/fd").iterdir() if handle.is_symlink()]
    assert [target for target in targets if target.is_relative_to(folder)] == []


def test_a_version_is_opened_anew_when_its_file_is_put_back_by_rename(
    opening: Callable[..., OpenVersions], home: Settings
) -> None:
    engines, oldest, newest = opening(), versions(home, "rater")[0], versions(home, "rater")[-1]
    running, pinned = take_rater(engines), take_rater(engines, f"base@{oldest}")
    pinned.release()
    before = running.rater.rate([ASKED])
    contents = dict[Path, bytes]()
    for version in (oldest, newest):
        weights = next(artefact_stores(home)["rater"].folder("base", version).rglob("*.safetensors"))
        contents[weights] = weights.read_bytes()
        os.truncate(weights, 100)
    engines.check_files()
    assert engines.changed_names() == ["rater base"]
    for weights, content in contents.items():
        (weights.parent / "other").write_bytes(content)
        (weights.parent / "other").replace(weights)
    generation = engines.served.generation
    engines.check_files()
    assert (engines.changed_names(), engines.problems()) == ([], {})
    assert engines.served.generation == generation + 1
    for spec in (None, f"base@{oldest}"):
        with take_rater(engines, spec) as lease:
            lease.require_unchanged_files()
            assert lease.rater is not running.rater
    with take_rater(engines) as lease:
        assert lease.rater.rate([ASKED]) == before
    with refusing(Unavailable, "100"):
        running.require_unchanged_files()  # what it has mapped is the cut file
    running.release()
    with take_rater(engines) as lease:
        lease.require_unchanged_files()
    assert engines.is_open(None, f"base@{oldest}")


def test_what_cannot_be_opened_takes_no_room(home: Settings, opening: Callable[..., OpenVersions]) -> None:
    engines, four = opening(old_versions=0), versions(home, "rater")
    for place in (1, 2):
        (artefact_stores(home)["rater"].folder("base", four[place]) / "manifest.json").write_text("{}")
        for _ in range(2):
            assert isinstance(refusal(lambda at=place: take_rater(engines, f"base@{four[at]}")), Unavailable)
    with take(engines, f"chat@{versions(home, 'index')[1]}", f"base@{four[3]}"):
        assert (held(home, "rater"), held(home, "index")) == ([0, 3], [0, 1])


def test_a_version_that_is_published_meanwhile_takes_no_room_among_the_old(
    home: Settings, opening: Callable[..., OpenVersions]
) -> None:
    engines, four = opening(old_versions=2), versions(home, "rater")
    first, second = take_rater(engines, f"base@{four[1]}"), take_rater(engines, f"base@{four[2]}")
    artefact_stores(home)["rater"].publish("base", four[1])
    assert engines.refresh()
    third = take_rater(engines, f"base@{four[3]}")
    assert held(home, "rater") == [1, 2, 3]
    assert isinstance(refusal(lambda: take_rater(engines, f"base@{four[0]}")), Overloaded)
    for lease in (first, second, third):
        lease.release()


def test_open_version_is_not_opened_again_when_published_or_pinned(
    home: Settings, opening: Callable[..., OpenVersions], monkeypatch: pytest.MonkeyPatch
) -> None:
    opened = list[str]()

    def noted(settings: Settings, spec: str, **named: Any) -> Any:
        opened.append(spec)
        return open_rater(settings, spec, **named)

    monkeypatch.setattr(module, "open_rater", noted)
    engines, four = opening(old_versions=1), versions(home, "rater")
    with take_rater(engines, f"base@{four[1]}") as pinned:
        artefact_stores(home)["rater"].publish("base", four[1])
        assert engines.refresh()
        with take_rater(engines) as lease, take_rater(engines, f"base@{four[1]}") as both:
            assert lease.rater is pinned.rater is both.rater
    assert opened == [f"base@{four[0]}", f"base@{four[1]}"]
    with take_rater(engines, f"base@{four[2]}"):  # the published one takes no place among the old
        pass
    assert held(home, "rater") == [1, 2]
    artefact_stores(home)["rater"].publish("base", four[0])
    assert engines.refresh()
    assert held(home, "rater") == [0, 2]
    with take_rater(engines, f"base@{four[3]}"):
        artefact_stores(home)["rater"].publish("base", four[3])
        engines.refresh()
    artefact_stores(home)["rater"].publish("base", four[0])
    engines.refresh()
    assert held(home, "rater") == [0]  # what was published is not kept for having been pinned before


def test_whether_something_has_to_be_opened_is_known_before(
    home: Settings, opening: Callable[..., OpenVersions]
) -> None:
    engines, (first, second, *_) = opening(), versions(home, "rater")
    assert [engines.is_open(None, spec) for spec in (None, "base", "no such", f"base@{first}")] == [True] * 4
    assert not engines.is_open(None, f"base@{second}")
    assert not engines.is_open(f"chat@{second}", None)
    with take_rater(engines, f"base@{second}"):
        assert engines.is_open(None, f"base@{second}")


# ── what a name means ─────────────────────────────────────────────────────────────────────────────────────────────


def test_where_several_are_published_one_has_to_be_named_or_be_the_default(
    home: Settings, opening: Callable[..., OpenVersions], tmp_path: Path
) -> None:
    version = add_rater(home, tmp_path / "other", "other", temperature=3.0)
    artefact_stores(home)["rater"].publish("other", version)
    shutil.copytree(home.home / "indexes" / "chat", home.home / "indexes" / "side")
    engines = opening()
    rater, index = refusal(lambda: take_rater(engines)), refusal(lambda: take_index(engines))
    assert (type(rater), rater.code, rater.status) == (NoDefaultRater, "no_default_rater", 409)
    assert (type(index), index.code, index.status) == (NoDefaultIndex, "no_default_index", 409)
    assert (rater.remedy, index.remedy) == ("name one of: base, other", "name one of: chat, side")
    with take(engines, "side", "other") as lease:
        assert [spec.partition("@")[0] for spec in lease.versions().values()] == ["side", "other"]
    by_default = opening(default_rater="other", default_index="chat")
    with take(by_default) as lease:
        assert [spec.partition("@")[0] for spec in lease.versions().values()] == ["chat", "other"]


def test_a_default_may_be_a_version_and_then_it_stays_open(
    home: Settings, opening: Callable[..., OpenVersions]
) -> None:
    first, second, third, _ = versions(home, "rater")
    engines = opening(default_rater=f"base@{second}", old_versions=0)
    assert engines.is_open(None, None)
    assert held(home, "rater") == [0, 1]
    with take_rater(engines) as lease, take_rater(engines, "base") as named:
        assert lease.versions()["rater"].startswith(f"base@{second}#")
        assert named.versions()["rater"].startswith(f"base@{first}#")
    assert engines.served.versions()["rater"] == {"base": first}
    artefact_stores(home)["rater"].publish("base", third)
    assert engines.refresh()
    assert held(home, "rater") == [1, 2]


def test_a_default_that_is_not_there_is_a_problem_and_says_so_to_requests(opening: Callable[..., OpenVersions]) -> None:
    engines = opening(default_rater="gone", default_index="chat@2020-01-01.1")
    assert engines.problems()["rater gone"] == "it is the default of this server, and it is not published"
    assert "no index 'chat@2020-01-01.1'" in engines.problems()["index chat@2020-01-01.1"]
    rater = refusal(lambda: take_rater(engines))
    assert (type(rater), rater.remedy) == (
        NoDefaultRater,
        "publish it, or name another one; published are: base",
    )
    assert "chat@2020-01-01.1" in refusal(lambda: take_index(engines)).message
    with take(engines, "chat", "base") as lease:
        assert list(lease.versions()) == ["index", "rater"]


@pytest.mark.parametrize(
    ("spec", "kind", "message", "remedy"),
    [
        ("nobody", NotFound, "there is no rater 'nobody'", "there are: base"),
        ("nobody@2026-01-01.1", NotFound, "there is no rater 'nobody'", "there are: base"),
        ("base@2020-01-01.1", NotFound, "there is no rater 'base@2020-01-01.1'", "there are: base@"),
        ("base@", NotFound, "there is no rater 'base@'", "there are: base@"),
        ("base@../base", NotFound, "there is no rater 'base@../base'", "there are: base@"),
        ("../raters/base", Usage, "'../raters/base' is not a name for a rater", "use lower-case letters"),
        ("../raters/base@2020-01-01.1", Usage, "'../raters/base' is not a name for a rater", "use lower-case letters"),
    ],
)
def test_a_name_that_means_nothing_is_refused_with_what_there_is(
    opening: Callable[..., OpenVersions], spec: str, kind: type[RefaugError], message: str, remedy: str
) -> None:
    error = refusal(lambda: take_rater(opening(), spec))
    assert type(error) is kind
    assert error.message == message
    assert error.remedy.startswith(remedy)


def test_a_name_without_a_published_version_is_refused_with_its_versions(
    home: Settings, opening: Callable[..., OpenVersions]
) -> None:
    (home.home / "indexes" / "chat" / CURRENT).unlink()
    engines = opening()
    error = refusal(lambda: take_index(engines, "chat"))
    assert type(error) is Conflict
    listed = ", ".join(f"chat@{version}" for version in versions(home, "index"))
    assert error.remedy == f"publish one, or name one: {listed}"
    with take_index(engines, f"chat@{versions(home, 'index')[2]}") as lease:
        assert lease.index is not None
        assert lease.index.version == versions(home, "index")[2]


def test_where_nothing_is_published_at_all_there_is_a_code_of_its_own(
    opening: Callable[..., OpenVersions], home: Settings
) -> None:
    shutil.rmtree(home.home / "raters")
    shutil.rmtree(home.home / "indexes")
    engines = opening()
    assert engines.problems() == {}
    for spec in (None, "base"):
        error = refusal(lambda asked=spec: take_rater(engines, asked))
        assert (type(error), error.code, error.status) == (NoRater, "no_rater", 409)
    error = refusal(lambda: take_index(engines))
    assert (type(error), error.code, error.status) == (NoIndex, "no_index", 409)
    with engines.lease(index=None, rater=None, needs_index=False, needs_rater=False) as lease:
        assert lease.versions() == {}


def test_before_the_first_look_requests_are_asked_to_come_again(
    opening: Callable[..., OpenVersions], home: Settings
) -> None:
    engines = opening(look=False)
    assert engines.problems() == {"engine": "indexes and raters are being opened"}
    for spec in (None, "base", "nobody"):
        assert isinstance(refusal(lambda asked=spec: take_rater(engines, asked)), Unavailable)
    engines.refresh()
    assert engines.problems() == {}
    with take(engines) as lease:
        assert lease.rater is not None


def test_what_was_published_a_moment_ago_is_being_opened_and_not_unknown(
    opening: Callable[..., OpenVersions], home: Settings, tmp_path: Path
) -> None:
    engines = opening()
    version = add_rater(home, tmp_path / "other", "other", temperature=3.0)
    artefact_stores(home)["rater"].publish("other", version)
    error = refusal(lambda: take_rater(engines, "other"))
    assert isinstance(error, Unavailable)
    assert error.message == "rater other is being opened"


def test_after_the_end_there_is_nothing_to_take(opening: Callable[..., OpenVersions], home: Settings) -> None:
    engines = opening()
    lease = take(engines)
    engines.close()
    engines.close()
    assert (held(home, "rater"), held(home, "index")) == ([0], [0])
    for spec in (None, "base", f"base@{versions(home, 'rater')[1]}"):
        error = refusal(lambda asked=spec: take_rater(engines, asked))
        assert (type(error), error.message) == (Unavailable, "the service is stopping")
    assert not engines.refresh()
    lease.release()
    assert (held(home, "rater"), held(home, "index")) == ([], [])


# ── what is damaged ───────────────────────────────────────────────────────────────────────────────────────────────


def spoil_current(home: Settings) -> None:
    (home.home / "indexes" / "chat" / CURRENT).write_bytes(b"\xff\x00 no version\n")


def empty_current(home: Settings) -> None:
    (home.home / "indexes" / "chat" / CURRENT).write_bytes(b"")


def name_a_version_that_is_not_there(home: Settings) -> None:
    (home.home / "indexes" / "chat" / CURRENT).write_text("2020-01-01.1\n")


def cut_a_file(home: Settings) -> None:
    new = versions(home, "index")[1]
    file = next((home.home / "indexes" / "chat" / new).rglob("pairs.arrow"))
    file.write_bytes(file.read_bytes()[:-8])
    stored_current(home, new)


def spoil_the_manifest(home: Settings) -> None:
    new = versions(home, "index")[1]
    (home.home / "indexes" / "chat" / new / "manifest.json").write_text("{")
    stored_current(home, new)


def stored_current(home: Settings, version: str) -> None:
    """Publish without being asked whether it is whole."""
    (home.home / "indexes" / "chat" / CURRENT).write_text(f"{version}\n")


def remove_the_vectors(home: Settings) -> None:
    """What a version needs beside itself."""
    shutil.rmtree(home.home / "vectors")
    stored_current(home, versions(home, "index")[1])


@pytest.mark.parametrize(
    ("spoil", "told"),
    [
        (spoil_current, "which is not a version"),
        (empty_current, "which is not a version"),
        (name_a_version_that_is_not_there, "no index 'chat@2020-01-01.1'"),
        (cut_a_file, "pairs.arrow has"),
        (spoil_the_manifest, "not JSON"),
        (remove_the_vectors, "word vectors glove"),
    ],
)
def test_failed_opening_keeps_the_old_version_and_is_reported_without_path(
    home: Settings, opening: Callable[..., OpenVersions], clock: Clock, spoil: Callable[[Settings], None], told: str
) -> None:
    engines, first = opening(), versions(home, "index")[0]
    with take_index(engines) as lease:
        before = lease.index
    spoil(home)
    for _ in range(3):
        assert not engines.refresh()
        clock.now += 100
        assert list(engines.problems()) == ["index chat"]
        assert told in engines.problems()["index chat"]
        assert str(home.home) not in engines.problems()["index chat"]
        assert str(home.home.parent) not in engines.problems()["index chat"]
        with take_index(engines) as lease, take_index(engines, "chat") as named:
            assert lease.index is named.index is before
    stored_current(home, first)
    assert not engines.refresh()
    assert engines.problems() == {}
    assert engines.served.generation == 1


def test_current_that_is_gone_is_reported_and_the_version_goes_on_serving(
    home: Settings, opening: Callable[..., OpenVersions]
) -> None:
    engines, first = opening(), versions(home, "index")[0]
    (home.home / "indexes" / "chat" / CURRENT).unlink()
    engines.refresh()
    assert engines.problems() == {"index chat": "its file CURRENT is gone: publish one of its versions"}
    assert engines.served.versions()["index"] == {"chat": first}
    stored_current(home, first)
    engines.refresh()
    assert engines.problems() == {}


def test_a_published_version_that_was_deleted_by_hand_is_reported(
    home: Settings, opening: Callable[..., OpenVersions]
) -> None:
    engines, (first, second, _) = opening(), versions(home, "index")
    shutil.rmtree(home.home / "indexes" / "chat" / first)
    engines.refresh()
    assert engines.problems() == {"index chat": f"its published version {first} was deleted: publish another"}
    assert engines.served.versions()["index"] == {"chat": first}
    stored_current(home, second)
    engines.refresh()
    assert engines.problems() == {}


def test_a_server_compares_every_hash_before_a_version_serves(
    home: Settings, opening: Callable[..., OpenVersions]
) -> None:
    first = versions(home, "index")[0]
    path = home.home / "indexes" / "chat" / first / "segments/0/utterance_sha.npy"
    content = bytearray(path.read_bytes())
    content[-1] ^= 1
    path.write_bytes(content)
    engines = opening()
    assert "utterance_sha.npy has SHA-256" in engines.problems()["index chat"]
    with open_index(home, "chat", threads=1) as index:  # a command looks for numbers out of bounds only
        assert index.version == first


def test_where_no_version_serves_yet_requests_hear_why(home: Settings, opening: Callable[..., OpenVersions]) -> None:
    spoil_current(home)
    engines = opening()
    assert engines.served.versions()["index"] == {}
    for spec in (None, "chat"):
        error = refusal(lambda asked=spec: take_index(engines, asked))
        assert isinstance(error, Unavailable)
        assert error.message.startswith("index chat cannot be used now: ")
        assert "which is not a version" in error.message
        assert str(home.home) not in str(error)


def test_a_broken_one_of_two_does_not_make_the_other_the_default(
    home: Settings, opening: Callable[..., OpenVersions]
) -> None:
    shutil.copytree(home.home / "indexes" / "chat", home.home / "indexes" / "side")
    spoil_current(home)
    engines = opening()
    assert list(engines.served.versions()["index"]) == ["side"]
    error = refusal(lambda: take_index(engines))
    assert (type(error), error.remedy) == (NoDefaultIndex, "name one of: chat, side")


def test_failed_opening_is_retried_less_often_and_at_once_when_republished(
    home: Settings, opening: Callable[..., OpenVersions], clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    engines, (_, second, third) = opening(), versions(home, "index")
    tried = list[float]()

    def failing(settings: Settings, spec: str, **named: Any) -> Any:
        if spec == f"chat@{second}":
            tried.append(clock.now - 1_000)
            raise Corrupt(f"{settings.home}/indexes/chat: it is broken", remedy="mend it")
        return open_index(settings, spec, **named)

    monkeypatch.setattr(module, "open_index", failing)
    stored_current(home, second)
    for _ in range(120):
        assert not engines.refresh()
        assert engines.problems() == {
            "index chat": f"index chat@{second} cannot be opened: indexes/chat: it is broken (mend it)"
        }
        clock.now += 1
    assert tried == [0, 1, 3, 7, 15, 31, 63]
    error = refusal(lambda: take_index(engines, f"chat@{second}"))
    assert isinstance(error, Unavailable)
    assert error.retry_after_s == 63 + 60 - 120  # the same failure, known already
    stored_current(home, third)
    assert engines.refresh()
    assert engines.problems() == {}
    assert engines.served.versions()["index"] == {"chat": third}
    assert held(home, "index") == [2]


def test_what_was_not_foreseen_is_told_by_its_kind_alone(
    home: Settings, opening: Callable[..., OpenVersions], monkeypatch: pytest.MonkeyPatch
) -> None:
    engines = opening()

    def failing(settings: Settings, spec: str, **_named: Any) -> Any:
        raise MemoryError(f"{settings.home} {spec}")

    monkeypatch.setattr(module, "open_index", failing)
    artefact_stores(home)["index"].publish("chat", versions(home, "index")[1])
    assert not engines.refresh()
    assert engines.problems()["index chat"].endswith("something went wrong that was not foreseen (MemoryError)")
    assert str(home.home) not in engines.problems()["index chat"]
    with take_index(engines) as lease:
        assert lease.index is not None
        assert lease.index.version == versions(home, "index")[0]


def test_a_version_that_cannot_answer_does_not_serve(
    home: Settings, opening: Callable[..., OpenVersions], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Warming is the last check, and what fails in it is let go."""
    engines, (first, second, _) = opening(), versions(home, "index")

    def failing(_self: Any, _pairs: Any, _settings: Any = None) -> Any:
        raise RuntimeError("no answer")

    monkeypatch.setattr(module.ReferenceIndex, "search", failing)
    artefact_stores(home)["index"].publish("chat", second)
    assert not engines.refresh()
    assert engines.served.versions()["index"] == {"chat": first}
    assert held(home, "index") == [0]


def test_when_the_folder_of_all_is_gone_what_serves_goes_on(
    home: Settings, opening: Callable[..., OpenVersions]
) -> None:
    engines = opening()
    (home.home / "raters").rename(home.home / "elsewhere")
    assert not engines.refresh()
    assert engines.problems() == {"rater base": "the folder of this kind cannot be read: No such file or directory"}
    with take_rater(engines) as lease:
        assert lease.versions()["rater"].startswith("base@")
    (home.home / "elsewhere").rename(home.home / "raters")
    assert not engines.refresh()
    assert engines.problems() == {}


def test_rollback_during_opening_keeps_the_old_version_serving(
    home: Settings, opening: Callable[..., OpenVersions], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whoever has rolled back was told that the old version serves: the new one must not take its place after that."""
    engines, (first, second, *_) = opening(), versions(home, "rater")
    open_now, opened = engines._opener._open_version, list[str]()

    def rolled_back_meanwhile(key: Any) -> Any:
        opened.append(key.version)
        artefact_stores(home)["rater"].publish("base", first)
        return open_now(key)

    monkeypatch.setattr(engines._opener, "_open_version", rolled_back_meanwhile)
    artefact_stores(home)["rater"].publish("base", second)
    before = engines.served
    assert not engines.refresh()
    assert opened == [second]
    assert engines.served is before
    assert held(home, "rater") == [0]
    assert not engines.refresh()
    assert (opened, engines.problems()) == ([second], {})


def test_between_two_versions_a_process_promises_neither(
    home: Settings, opening: Callable[..., OpenVersions], monkeypatch: pytest.MonkeyPatch
) -> None:
    engines, (first, second, *_), presence = opening(), versions(home, "rater"), LiveProcesses(home)
    replace_served, lacking = engines._replace_served, list[list[int]]()

    def rolled_back_at_the_last_moment(look: Any) -> bool:
        artefact_stores(home)["rater"].publish("base", first)
        lacking.append(presence.pids_with_and_without("rater", "base", first)[1])
        return replace_served(look)

    presence.report(engines.served)
    monkeypatch.setattr(engines, "_replace_served", rolled_back_at_the_last_moment)
    artefact_stores(home)["rater"].publish("base", second)
    assert engines.refresh(before_removal=presence.report)
    assert lacking == [[os.getpid()]]
    assert engines.served.versions()["rater"] == {"base": second}
    monkeypatch.undo()
    presence.report(engines.served)
    assert presence.pids_with_and_without("rater", "base", first)[1] == [os.getpid()]
    assert engines.refresh(before_removal=presence.report)
    presence.report(engines.served)
    assert presence.pids_with_and_without("rater", "base", first)[1] == []
    presence.close()


# ── watching ──────────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.fixture
def watching() -> Iterator[Callable[..., VersionWatcher]]:
    made = list[VersionWatcher]()

    def watch(engines: OpenVersions, **how: Any) -> VersionWatcher:
        made.append(VersionWatcher(engines, every_s=0.01, **how))
        made[-1].start()
        return made[-1]

    yield watch
    for one in made:
        one.stop()


def test_what_is_published_serves_soon_and_is_reported_after_it_serves(
    home: Settings, opening: Callable[..., OpenVersions], watching: Callable[..., VersionWatcher]
) -> None:
    engines = opening(look=False)
    (first, second, *_), chat = versions(home, "rater"), versions(home, "index")[0]
    told = list[tuple[int, Any]]()

    def report(engine: ServedVersions) -> None:
        told.append((engine.generation, engine.versions()))
        assert engine is engines.served or engines.served.versions()["rater"] == {"base": first}

    watcher = watching(engines, report=report)
    assert told[0][0] == 0  # before anything is opened, so that whoever publishes waits for this process
    until(lambda: engines.served.generation == 1)
    artefact_stores(home)["rater"].publish("base", second)
    until(lambda: told[-1][0] == 2)
    assert engines.problems() == {}
    assert engines.served.versions()["rater"] == {"base": second}
    watcher.stop()
    changes = [one for place, one in enumerate(told) if place == 0 or told[place - 1] != one]
    assert changes == [
        (0, {"index": {}, "rater": {}}),
        (1, {"index": {"chat": chat}, "rater": {"base": first}}),
        (1, {"index": {"chat": chat}, "rater": {}}),  # while one goes and the other comes, neither is promised
        (2, {"index": {"chat": chat}, "rater": {"base": second}}),
    ]
    artefact_stores(home)["rater"].publish("base", versions(home, "rater")[2])
    assert engines.served.versions()["rater"] == {"base": second}


def test_watching_survives_a_failure_and_reports_it_while_it_lasts(
    home: Settings,
    opening: Callable[..., OpenVersions],
    watching: Callable[..., VersionWatcher],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    engines, is_full = opening(), threading.Event()
    is_full.set()

    def report(_engine: ServedVersions) -> None:
        if is_full.is_set():
            raise OSError(28, "No space left on device")

    watching(engines, report=report)
    told = "something went wrong that was not foreseen (OSError)"
    until(lambda: engines.problems() == {"reporting what is served": told})
    second = versions(home, "rater")[1]
    artefact_stores(home)["rater"].publish("base", second)
    until(lambda: engines.served.versions()["rater"] == {"base": second})
    is_full.clear()
    until(lambda: engines.problems() == {})

    def broken(**_how: Any) -> bool:
        raise ValueError("no look")

    monkeypatch.setattr(engines, "refresh", broken)
    until(lambda: "looking at what is published" in engines.problems())
    monkeypatch.undo()
    until(lambda: engines.problems() == {})
