"""The head of a cluster is lost: with Redis the work goes on, without it a new head and new machines are needed."""

from __future__ import annotations

import subprocess
from contextlib import suppress

import httpx2
import pytest
from cluster_builds import assert_is, command_of, order_of, small_home
from cluster_machines import add_machine, bring_head_back, lose_head, redis_server, start_head
from cluster_shards import home_of_chance, log_of_chance, processes_of_shards, until
from indexes import build
from servers import said_by, served

from refaug.core.progress import Silent
from refaug.indexer.building.build import build_index
from refaug.indexer.building.plan import Limits
from refaug.indexer.manifest import IndexManifest
from refaug.indexer.search.index import ReferenceIndex
from refaug.indexer.search.search_settings import SearchSettings

pytestmark = pytest.mark.slow

WITHOUT_HEAD_S = 5  # that Ray waits for a head before its processes end, 60 unless it is told


@pytest.fixture(scope="module")
def log():
    return log_of_chance(3, 1_500, 12)


@pytest.fixture(scope="module")
def served_places(log, tmp_path_factory):
    places = home_of_chance(tmp_path_factory.mktemp("head"), log[0])
    build(places, "chat", shards=3, check_queries=50, limits=Limits(factory="PCAR8,IVF8,PQ4x4fs", recall=0.5))
    return places


@pytest.fixture(scope="module")
def places(tmp_path_factory):
    return small_home(tmp_path_factory.mktemp("built") / "home")


@pytest.fixture(scope="module")
def expected(places):
    return build_index(places, order_of("alone"), Silent()).manifest


def body_of(tests, k):
    items = [
        {"id": pair.id, "utterance": pair.utterance, "references": [reference.text for reference in pair.references]}
        for pair in tests
    ]
    return {"items": items, "settings": {"weights": "one", "parrot": "off", "k": k}}


def assert_answers(service, index, tests, k):
    """A server answers as one process does, perhaps after a while; `k` is one that no cache has."""
    answer = service.ask("POST", "/v1/references", json=body_of(tests, k))
    assert answer.status_code == 200, answer.text
    pairs = [pair.__class__(id=pair.id, turns=pair.turns, references=pair.references) for pair in tests]
    assert [
        [(found["text"], found["similarity"]) for found in item["references"] if found["source"] == "retrieved"]
        for item in answer.json()["items"]
    ] == [
        [(found.text, found.similarity) for found in result.references]
        for result in index.search(pairs, SearchSettings(k=k))
    ]


def started_build(places, name, address, until_line):
    """Start a build, and return it when it has said this line."""
    command = subprocess.Popen(**{**command_of(places, name, address), "stdout": subprocess.DEVNULL})
    for line in command.stderr:
        if line.startswith(until_line) and "done in" in line:
            return command
    raise AssertionError(f"the build ended with {command.wait()}")


def built(places, name):
    index, version = places.indexes.resolve(name)
    return IndexManifest.read(places.indexes.folder(index, version))


@pytest.mark.machine
def test_with_redis_everything_goes_on_while_the_head_is_away(
    token, node_cache, served_places, log, places, expected, tmp_path
):
    assert token
    assert node_cache
    with redis_server(tmp_path) as redis:
        machines = start_head(redis)
        try:
            for _ in range(2):
                add_machine(machines)
            options = ("--no-job-worker", "--shards", machines.address)
            with (
                ReferenceIndex.open(served_places, "chat") as alone,
                served(served_places.logs.parent, *options) as service,
            ):
                web = service.children()["web"]
                building = started_build(places, "redis", machines.address, "writing tables")
                lose_head(machines)
                for k in range(1, 11):
                    assert_answers(service, alone, log[1], k)
                bring_head_back(machines)
                building.communicate(timeout=200)
                assert building.returncode == 0
                assert_is(built(places, "redis"), expected)
                assert_answers(service, alone, log[1], 20)
                assert service.children()["web"] == web
                before = set(processes_of_shards())
                service.kill("web")  # Ray knows no more where its processes are
                until(lambda: not before & set(processes_of_shards()), processes_of_shards)
                service.until(lambda: service.ask("GET", "/readyz").status_code == 200, "the service to be ready again")
                assert_answers(service, alone, log[1], 21)
        finally:
            machines.shutdown()


@pytest.mark.faults
def test_without_redis_a_new_head_and_new_machines_take_over(
    token, node_cache, served_places, log, places, expected, monkeypatch
):
    assert token
    assert node_cache
    monkeypatch.setenv("RAY_gcs_rpc_server_reconnect_timeout_s", str(WITHOUT_HEAD_S))
    machines = start_head()
    port = int(machines.address.rpartition(":")[2])
    try:
        for _ in range(2):
            add_machine(machines)
        options = ("--no-job-worker", "--shards", machines.address)
        with (
            ReferenceIndex.open(served_places, "chat") as alone,
            served(served_places.logs.parent, *options) as service,
        ):
            assert_answers(service, alone, log[1], 1)
            building = started_build(places, "new-head", machines.address, "writing tables")
            lose_head(machines)
            _, said = building.communicate(timeout=200)
            assert building.returncode != 0, said
            assert places.indexes.current("new-head") is None
            refused = until_refused(service, log[1])
            assert refused["code"] == "unavailable"
            machines.shutdown()
            machines = start_head(port=port)
            for _ in range(2):
                add_machine(machines)
            service.until(lambda: service.client.get("/readyz").status_code == 200, "the service to be ready again")
            assert_answers(service, alone, log[1], 2)
        again = subprocess.run(**command_of(places, "new-head", machines.address), check=False, timeout=200)
        assert again.returncode == 0, again.stderr
        assert "writing tables" not in again.stderr
        assert_is(built(places, "new-head"), expected)
    finally:
        machines.shutdown()


def until_refused(service, tests):
    """Ask until the service says that there is no cluster, and return what it says."""
    answers = []

    def is_refused():
        with suppress(httpx2.TransportError):  # of the web process that ends
            answers.append(service.client.post("/v1/references", json=body_of(tests, 300 + len(answers) % 50)))
        return answers and "no cluster answers" in answers[-1].text

    until(is_refused, lambda: said_by(service.home))
    assert answers[-1].status_code == 503
    return answers[-1].json()
