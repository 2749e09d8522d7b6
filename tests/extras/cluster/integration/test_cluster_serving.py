"""The service over HTTP with the shards of its index on a cluster: the answers of one process, or an error."""

from __future__ import annotations

import os
import signal
from dataclasses import replace
from random import Random

import pytest
from cluster_shards import home_of_chance, log_of_chance, pairs_of_chance, processes_of_shards, until
from indexes import add_to_log, build
from plain_search import MODES
from servers import served

from refaug.core.progress import Silent
from refaug.indexer.building.plan import Limits
from refaug.indexer.building.update import update_index
from refaug.indexer.search.index import ReferenceIndex
from refaug.indexer.search.search_settings import SearchSettings

PLAIN = {"weights": "one", "parrot": "off"}  # no rater is needed


@pytest.fixture(scope="module")
def log():
    return log_of_chance(3, 1_500, 12)


@pytest.fixture(scope="module")
def places(log, tmp_path_factory):
    places = home_of_chance(tmp_path_factory.mktemp("http"), log[0])
    build(places, "chat", shards=3, check_queries=50, limits=Limits(factory="PCAR8,IVF8,PQ4x4fs", recall=0.5))
    return places


@pytest.fixture(scope="module")
def service(machines, places):
    with served(
        places.logs.parent, "--no-job-worker", "--shards", machines.address, "--shard-timeout-s", "5"
    ) as running:
        yield running


def body_of(tests, **settings):
    items = [
        {
            "id": pair.id,
            "utterance": pair.utterance,
            "references": [reference.text for reference in pair.references],
            "exclude": list(pair.exclude),
            **({"dialogue": pair.dialogue} if pair.dialogue else {}),
        }
        for pair in tests
    ]
    return {"items": items, "settings": {**PLAIN, **settings}}


def found_in(answer):
    """The references that were found, as lists of records."""
    return [
        [
            (one["text"], one["similarity"], one["rank"], one["pair"], one["utterance"], one["index"], one["count"])
            for one in item["references"]
            if one["source"] == "retrieved"
        ]
        for item in answer.json()["items"]
    ]


def expected_of(index, tests, **settings):
    return [
        [
            (one.text, one.similarity, *(one.origin[name] for name in ("rank", "pair", "utterance", "index", "count")))
            for one in found.references
        ]
        for found in index.search(tests, SearchSettings(**settings))
    ]


def test_references_over_http_are_those_of_one_process(service, places, log):
    with ReferenceIndex.open(places, "chat") as alone:
        for mode in MODES:
            answer = service.ask("POST", "/v1/references", json=body_of(log[1], mode=mode))
            assert answer.status_code == 200, answer.text
            assert found_in(answer) == expected_of(alone, log[1], mode=mode)
            assert answer.json()["versions"]["index"] == alone.spec
            assert "missing_shards" not in answer.json()
    figures = service.ask("GET", "/metrics").text
    version = alone.spec.partition("#")[0]
    for shard in range(3):
        assert (
            f'refaug_shard_replicas{{index="{version}",shard="{shard}",state="answering"}} 1.0' in figures.splitlines()
        )
        assert f'refaug_shard_machines{{index="{version}",shard="{shard}"}} 1.0' in figures.splitlines()
        assert f'refaug_shard_calls_total{{outcome="answered",shard="shard {shard} of chat"}}' in figures


def test_a_shard_without_an_answer_is_an_error_unless_allowed_and_then_named(service, places, log):
    stopped = processes_of_shards()[0]
    os.kill(stopped, signal.SIGSTOP)
    try:
        refused = service.client.post("/v1/references", json=body_of(log[1], k=7))
        problem = refused.json()
        assert (refused.status_code, problem["code"]) == (503, "shards_missing")
        assert '"partial": "allow"' in problem["remedy"]
        assert int(refused.headers["Retry-After"]) >= 1
        answer = service.client.post("/v1/references", json=body_of(log[1], k=7, partial="allow"))
        assert answer.status_code == 200, answer.text
        scores = service.client.post(
            "/v1/scores",
            json={
                **body_of(log[1], k=7, partial="allow"),
                "items": [{**item, "replies": {"bot": "w1 w2"}} for item in body_of(log[1])["items"]],
                "metrics": ["upsilon-bleu"],
                "references": "find",
            },
        )
    finally:
        os.kill(stopped, signal.SIGCONT)
    missing = answer.json()["missing_shards"]
    assert len(missing) == 1
    with ReferenceIndex.open(places, "chat") as alone:
        others = [segment for number, segment in enumerate(alone.segments) if str(number) != missing[0]]
        assert found_in(answer) == expected_of(replace(alone, segments=tuple(others)), log[1], k=7)
        assert all(item["missing_shards"] == missing for item in answer.json()["items"])
        assert answer.json()["provenance"]["missing"] == f"{missing[0]}/3"
        assert all(f"|missing:{missing[0]}/3|" in item["provenance"] for item in answer.json()["items"])
        assert scores.status_code == 200, scores.text
        assert scores.json()["missing_shards"] == missing
        assert f"|missing:{missing[0]}/3|" in scores.json()["scores"][0]["signature"]
        service.until(lambda: service.client.post("/v1/references", json=body_of(log[1], k=7)).is_success, "its answer")
        again = service.ask("POST", "/v1/references", json=body_of(log[1], k=7, partial="allow"))
        assert found_in(again) == expected_of(alone, log[1], k=7)
        assert "missing_shards" not in again.json()


def test_a_killed_shard_answers_again(service, places, log):
    with ReferenceIndex.open(places, "chat") as alone:
        os.kill(processes_of_shards()[0], signal.SIGKILL)
        answer = service.ask("POST", "/v1/references", json=body_of(log[1], k=5))  # until it is no 503
        assert answer.status_code == 200, answer.text
        assert found_in(answer) == expected_of(alone, log[1], k=5)


def test_a_new_version_is_taken_over_at_once_and_the_old_one_answers_by_name(service, places, log, node_cache):
    before = places.indexes.current("chat")
    with ReferenceIndex.open(places, "chat") as old:
        old_names = {f"{old.manifest.id[:16]}-{place}" for place in range(3)}
        of_old = expected_of(old, log[1])
    assert old_names <= {folder.name for folder in (node_cache / "held").iterdir()}
    add_to_log(places, "chat", pairs_of_chance(Random(8), 200))
    update_index(places, "chat", Silent())
    with ReferenceIndex.open(places, "chat") as new:
        assert new.version != before
        of_new, seen = expected_of(new, log[1]), set()

        def is_served():
            answer = service.ask("POST", "/v1/references", json=body_of(log[1]))
            found = found_in(answer)
            assert found in (of_old, of_new)  # one version in each answer, with all of its shards
            seen.add(answer.json()["versions"]["index"])
            return found == of_new

        until(is_served)
        assert seen <= {old.spec, new.spec}
        pinned = service.ask("POST", "/v1/references", json={**body_of(log[1]), "index": f"chat@{before}"})
        assert found_in(pinned) == of_old
    names = {f"{new.manifest.id[:16]}-{place}" for place in range(3)}
    assert names <= {folder.name for folder in (node_cache / "held").iterdir()}
