"""A job builds on a cluster that the operator named, tells how far it is, and stops when it is cancelled."""

from __future__ import annotations

import pytest
from cluster_builds import assert_is, order_of, small_home
from serving import client_of, migrated

from refaug.core.home import Settings
from refaug.core.progress import Silent
from refaug.indexer.building.build import build_index
from refaug.indexer.manifest import IndexManifest
from refaug.service.jobs.worker import run_worker
from refaug.service.server_settings import ServeSettings

ORDER = {
    "kind": "index-build",
    "logs": ["chat", "more"],
    "name": "asked",
    "vectors": "glove",
    "tokenizer": "word",
    "shards": 2,
    "check_queries": 50,
    "least_coverage": 0.0,
    "factory": "PCAR8,IVF8,PQ4x4fs",
    "recall": 0.5,
}


@pytest.fixture
def places(tmp_path):
    return small_home(tmp_path / "home")


def test_a_job_builds_on_a_cluster_and_tells_its_stages(machines, places):
    home, address = migrated(Settings(home=places.logs.parent)), machines.address
    alone = build_index(places, order_of("alone", 2), Silent()).manifest
    with client_of(home, ready=False, clusters=f"head:6379, {address}") as client:
        job = client.post("/v1/jobs", json={**ORDER, "on": address}).json()["id"]
        assert run_worker(home, ServeSettings(clusters=address), once=True) == 0
        ended = client.get(f"/v1/jobs/{job}").json()
        events = client.get(f"/v1/jobs/{job}/events", params={"follow": "false"}).text
    assert (ended["state"], ended["error"]) == ("done", None)
    assert ended["result"]["published"]
    name, version = places.indexes.resolve("asked")
    assert_is(IndexManifest.read(places.indexes.folder(name, version)), alone)
    stages = {
        1: "grouping",
        2: "writing tables",
        3: "reading words",
        7: "training, comparing, writing postings",
        8: "adding vectors",
        9: "measuring recall",
    }
    places_in_events = [events.index(f"{stage} on 2 machines, step {step} of 10") for step, stage in stages.items()]
    assert places_in_events == sorted(places_in_events)


def test_a_job_whose_cluster_is_named_no_longer_fails(machines, places):
    home, address = migrated(Settings(home=places.logs.parent)), machines.address
    with client_of(home, ready=False, clusters=address) as client:
        job = client.post("/v1/jobs", json={**ORDER, "on": address}).json()["id"]
        run_worker(home, ServeSettings(), once=True)
        ended = client.get(f"/v1/jobs/{job}").json()
    assert (ended["state"], ended["error"]["code"]) == ("failed", "not_allowed")
    assert places.indexes.current("asked") is None
