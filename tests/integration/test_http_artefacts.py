"""Indexes and raters over HTTP: what is said of them, and a version that is published once every process serves it."""

from __future__ import annotations

import os
import shutil
import threading
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from serving import client_of, small_home, small_items
from starlette.testclient import TestClient

from refaug.core.artefacts.kinds import artefact_stores
from refaug.core.artefacts.versions import Publications, Versions
from refaug.core.home import Settings
from refaug.indexer.manifest import IndexManifest
from refaug.service.process.live_processes import LiveProcesses
from refaug.service.serving.versions.leases import ServedVersions


@pytest.fixture(scope="module")
def template(tmp_path_factory: pytest.TempPathFactory) -> Settings:
    return small_home(tmp_path_factory.mktemp("artefacts"), indexes=2, raters=2)


@pytest.fixture
def home(template: Settings, tmp_path: Path) -> Settings:
    shutil.copytree(template.home, tmp_path / "home")
    return Settings(home=tmp_path / "home")


@pytest.fixture
def client(home: Settings) -> Iterator[TestClient]:
    with client_of(home) as found:
        yield found


def versions_of(home: Settings, kind: str) -> tuple[Versions, list[str]]:
    artefacts = artefact_stores(home)[kind]
    return artefacts, artefacts.versions({"index": "chat", "rater": "base"}[kind])


# ── looking ───────────────────────────────────────────────────────────────────────────────────────────────────────


def test_an_index_says_what_its_manifests_say(home: Settings, client: TestClient) -> None:
    indexes, (first, second) = versions_of(home, "index")
    manifests = {version: IndexManifest.read(indexes.folder("chat", version)) for version in (first, second)}

    listed = client.get("/v1/artefacts/index/chat/versions").json()

    assert (listed["name"], listed["current"]) == ("chat", first)
    assert [(one["version"], one["published"], one["problem"]) for one in listed["versions"]] == [
        (first, True, None),
        (second, False, None),
    ]
    for one in listed["versions"]:
        manifest = manifests[one["version"]]
        folder = indexes.folder("chat", one["version"])
        assert one["id"] == manifest.id[:12]
        assert (one["pairs"], one["utterances"]) == (manifest.pairs, manifest.utterances)
        assert one["bytes"] == sum(
            path.stat().st_size for path in folder.rglob("*") if path.is_file() and path.name != "manifest.json"
        )
        assert (one["logs"], one["vectors"], one["tokenizer"]) == (["chat"], manifest.vectors.name, "word")
        assert (one["kind"], one["segments"], one["recall_at_15"]) == ("Flat", 1, None)
    assert listed["versions"][0]["pairs"] < listed["versions"][1]["pairs"]

    single = client.get("/v1/artefacts/index/chat").json()
    written = datetime.fromtimestamp((indexes.folder("chat") / "CURRENT").stat().st_mtime, UTC)
    assert single["published_at"] == written.isoformat(timespec="seconds")
    assert (single["versions"], single["published"]) == ([first, second], listed["versions"][0])
    everything = client.get("/v1/artefacts/index").json()["artefacts"]
    assert everything == [{name: single[name] for name in ("name", "current", "published_at", "versions", "published")}]


@pytest.mark.parametrize(("kind", "name"), [("index", "chat"), ("rater", "base")])
def test_versions_say_whether_they_were_published_and_why_a_check_refused_them(
    home: Settings, client: TestClient, kind: str, name: str
) -> None:
    artefacts, (first, second) = versions_of(home, kind)
    path = f"/v1/artefacts/{kind}/{name}/versions"

    def records() -> list[tuple[Any, ...]]:
        listed = client.get(path).json()["versions"]
        return [(one["version"], one["published"], one["was_published"], one["refused"]) for one in listed]

    Publications(published=frozenset({first})).write(artefacts.folder(name))  # as if the second one never was
    assert records() == [(first, True, True, None), (second, False, False, None)]
    artefacts.refuse(name, second, "recall is 0.5, at least 0.9 is asked for")
    assert records()[1] == (second, False, False, "recall is 0.5, at least 0.9 is asked for")
    artefacts.publish(name, second, even_refused=True)
    assert records() == [(first, False, True, None), (second, True, True, None)]
    (artefacts.folder(name) / ".publications.json").write_text("{}")
    assert [one[2:] for one in records()] == [(None, None), (None, None)]


def test_a_damaged_version_is_named_without_a_path_and_hides_no_other(home: Settings, client: TestClient) -> None:
    indexes, (first, second) = versions_of(home, "index")
    (indexes.folder("chat", second) / "manifest.json").write_text("{}")
    good, bad = client.get("/v1/artefacts/index/chat/versions").json()["versions"]
    assert (good["problem"], good["version"]) == (None, first)
    assert (bad["version"], bad["id"], bad["pairs"]) == (second, None, None)
    assert "HOME" in bad["problem"]
    assert str(home.home) not in bad["problem"]


@pytest.mark.parametrize("kind", ["index", "rater"])
def test_what_is_not_there_is_404_with_what_is_and_what_is_no_name_400(client: TestClient, kind: str) -> None:
    missing = client.get(f"/v1/artefacts/{kind}/nope")
    assert (missing.status_code, missing.json()["code"]) == (404, "not_found")
    assert missing.json()["remedy"] == f"there are: {'chat' if kind == 'index' else 'base'}"
    assert client.get(f"/v1/artefacts/{kind}/nope/versions").status_code == 404
    for name in ("No", "a@b", "..", "%2e%2e%2fjobs"):
        answer = client.get(f"/v1/artefacts/{kind}/{name}/versions")
        assert answer.status_code in (400, 404), name
        assert answer.headers["content-type"] == "application/problem+json"


# ── publishing ────────────────────────────────────────────────────────────────────────────────────────────────────


def found_with(client: TestClient) -> dict[str, str]:
    answer = client.post("/v1/references", json={"items": small_items(2)})
    assert answer.status_code == 200, answer.text
    versions: dict[str, str] = answer.json()["versions"]
    return {kind: spec.partition("#")[0] for kind, spec in versions.items()}


@pytest.mark.parametrize(("kind", "name"), [("index", "chat"), ("rater", "base")])
def test_after_200_every_request_is_answered_by_the_published_version(
    home: Settings, client: TestClient, kind: str, name: str
) -> None:
    artefacts, (first, second) = versions_of(home, kind)
    assert found_with(client)[kind] == f"{name}@{first}"

    answer = client.put(f"/v1/artefacts/{kind}/{name}/current", json={"version": second})

    assert answer.status_code == 200, answer.text
    told = answer.json()
    assert (told["kind"], told["name"], told["version"]) == (kind, name, second)
    assert (told["serving"], told["lacking"], told["problems"]) == ([os.getpid()], [], {})
    assert artefacts.current(name) == second
    assert found_with(client)[kind] == f"{name}@{second}"

    back = client.put(f"/v1/artefacts/{kind}/{name}/current", json={"rollback": True})
    assert (back.status_code, back.json()["version"]) == (200, first)
    assert found_with(client)[kind] == f"{name}@{first}"

    none_left = client.put(f"/v1/artefacts/{kind}/{name}/current", json={"rollback": True})
    assert (none_left.status_code, none_left.json()["code"]) == (409, "conflict")
    assert artefacts.current(name) == first


def test_it_is_202_with_the_processes_that_lack_it_until_they_have_it(home: Settings) -> None:
    indexes, (_, second) = versions_of(home, "index")
    other = LiveProcesses(home)  # a second process, as far as anybody can see
    other.report(ServedVersions())
    try:
        with client_of(home, publish_wait_s=0.2) as client:
            for _ in range(100):  # a slow machine may not have opened it in this process yet
                answer = client.put("/v1/artefacts/index/chat/current", json={"version": second})
                assert answer.status_code == 202
                if answer.json()["serving"]:
                    break
            assert (answer.json()["lacking"], answer.json()["serving"]) == ([os.getpid()], [os.getpid()])
            assert indexes.current("chat") == second
        with client_of(home, publish_wait_s=60) as client:
            asked = threading.Event()
            pids = client.app.state.refaug.processes.pids_with_and_without

            def pids_once(kind: str, name: str, version: str) -> tuple[list[int], list[int]]:
                found = pids(kind, name, version)
                asked.set()
                return found

            client.app.state.refaug.processes.pids_with_and_without = pids_once

            def follow() -> None:
                assert asked.wait(30)
                other.report(client.app.state.refaug.open_versions.served)

            following = threading.Thread(target=follow)
            following.start()
            answer = client.put("/v1/artefacts/index/chat/current", json={"version": second})
            following.join()
            assert answer.status_code == 200
            assert (answer.json()["lacking"], answer.json()["serving"]) == ([], [os.getpid(), os.getpid()])
    finally:
        other.close()


def test_what_is_being_built_is_409_locked_and_what_is_unknown_404(home: Settings, client: TestClient) -> None:
    indexes, (first, second) = versions_of(home, "index")
    with indexes.writing("chat", "building index chat"):
        busy = client.put("/v1/artefacts/index/chat/current", json={"version": second})
    assert (busy.status_code, busy.json()["code"]) == (409, "locked")
    assert "building index chat" in busy.json()["detail"]
    assert str(home.home) not in busy.text
    unknown = client.put("/v1/artefacts/index/chat/current", json={"version": "2001-01-01.1"})
    assert (unknown.status_code, unknown.json()["code"]) == (404, "not_found")
    assert f"chat@{second}" in unknown.json()["remedy"]
    for version in ("..", "../../logs/chat", "CURRENT"):
        assert client.put("/v1/artefacts/index/chat/current", json={"version": version}).status_code == 404
    assert client.put("/v1/artefacts/rater/nope/current", json={"version": "2001-01-01.1"}).status_code == 404
    assert not (home.home / "raters" / "nope").exists()
    assert indexes.current("chat") == first


@pytest.mark.parametrize("body", [{}, {"rollback": False}, {"version": "2026-11-20.1", "rollback": True}])
def test_one_of_version_and_rollback_is_asked_for(client: TestClient, body: dict[str, object]) -> None:
    answer = client.put("/v1/artefacts/index/chat/current", json=body)
    assert (answer.status_code, answer.json()["code"]) == (422, "bad_input")
    assert all(fact in answer.json()["detail"] for fact in ("version", "rollback"))


# ── pages ─────────────────────────────────────────────────────────────────────────────────────────────────────────


def walked(client: TestClient, path: str, name: str, limit: int) -> tuple[list[str], int]:
    """What all pages hold, in order, and how many pages there were."""
    found, pages, after = list[str](), 0, ""
    while True:
        answer = client.get(path, params={"limit": limit, "after": after})
        assert answer.status_code == 200, answer.text
        page = answer.json()
        said = [one["name"] if "name" in one else one["version"] for one in page[name]]
        assert len(said) <= limit
        found, pages = found + said, pages + 1
        if page["next"] is None:
            return found, pages
        assert page["next"] == said[-1]
        after = page["next"]


@pytest.mark.parametrize(("kind", "first"), [("index", "chat"), ("rater", "base")])
@pytest.mark.parametrize("limit", [1, 2, 5])
def test_pages_hold_each_once_in_order_whatever_their_size(
    home: Settings, client: TestClient, kind: str, first: str, limit: int
) -> None:
    artefacts = artefact_stores(home)[kind]
    source = artefacts.folder(first, artefacts.versions(first)[0])
    others = ["a-first", "mid.dle", "z_last"]
    for name in others:
        shutil.copytree(source, artefacts.folder(name, "2026-01-01.1"))
    artefacts.folder("empty", "").mkdir(parents=True, exist_ok=True)  # a build that has made nothing yet
    found, pages = walked(client, f"/v1/artefacts/{kind}", "artefacts", limit)
    assert found == sorted([first, *others])
    assert pages == -(-len(found) // limit)

    made = [f"2026-01-0{day}.{number}" for day in (2, 3) for number in (2, 9, 10)]  # 10 after 9, by number
    for version in made:
        shutil.copytree(source, artefacts.folder("z_last", version))
    expected = ["2026-01-01.1", *made]
    assert walked(client, f"/v1/artefacts/{kind}/z_last/versions", "versions", limit)[0] == expected

    later = client.get(
        f"/v1/artefacts/{kind}/z_last/versions", params={"after": "2026-01-02.5"}
    )  # one that was removed
    assert [one["version"] for one in later.json()["versions"]] == expected[2:]
    wrong = client.get(f"/v1/artefacts/{kind}/z_last/versions", params={"after": "x"})
    assert (wrong.status_code, wrong.json()["detail"]) == (400, "after: 'x' is not a version")
    assert client.get(f"/v1/artefacts/{kind}", params={"limit": 0}).status_code == 422


def test_a_kind_that_no_request_names_is_listed_and_published_too(home: Settings, client: TestClient) -> None:
    vectors = artefact_stores(home)["vectors"]
    (name,) = vectors.names()
    (version,) = vectors.versions(name)
    (listed,) = client.get("/v1/artefacts/vectors").json()["artefacts"]
    assert (listed["name"], listed["versions"], listed["published"]["dimensions"]) == (name, [version], 6)
    published = client.put(f"/v1/artefacts/vectors/{name}/current", json={"version": version})
    assert (published.status_code, published.json()["lacking"], published.json()["serving"]) == (200, [], [])
    unknown = client.get("/v1/artefacts/indexes")
    assert (unknown.status_code, unknown.json()["code"]) == (400, "usage")
    assert "'index'" in unknown.json()["detail"]
