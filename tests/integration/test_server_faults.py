"""Web processes, job processes and both killed at any moment of an ingest, a build, a publish, a freeze.

The service is begun as one begins it. Whatever is killed, it comes back by itself; what was posted is in the log once,
a version is there whole or not at all, and the one that serves answers as it did before.
"""

from __future__ import annotations

import random
import shutil
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from servers import Served, served

from refaug.core.artefacts.manifests import verify_files
from refaug.core.artefacts.versions import Versions
from refaug.core.files import read_json
from refaug.logs.store import StoredLog
from refaug.scoring.reference_sets.set_store import ReferenceSets

pytestmark = pytest.mark.slow

FEW, MANY = 2, 200
SCENES = ("ingest", "build", "publish", "freeze")
TARGETS = (("web",), ("jobs",), ("web", "jobs"))
MOST_DELAY_S = {"ingest": 1.2, "build": 1.5, "publish": 0.25, "freeze": 0.8}
ITEMS = [
    {"id": f"d{number}", "utterance": f"where is my {thing}", "references": [f"the {thing} is here"]}
    for number, thing in enumerate(("tea", "bus", "dog", "hat", "cup", "book", "key", "coat"))
]


@pytest.fixture(scope="module")
def service(with_all: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    """One service for all kills: what one of them broke, the next ones meet."""
    home = tmp_path_factory.mktemp("killed") / "home"
    shutil.copytree(with_all, home)
    with served(
        home, "--freeze-at-once", "1", "--job-tries", "100", "--default-rater", "tiny", "--default-index", "chat"
    ) as found:
        assert scored(found)["versions"]["index"].startswith("chat@")
        yield found


def scored(service: Served) -> dict[str, Any]:
    item = {**ITEMS[0], "replies": {"a": "it is here"}}
    answer = service.ask("POST", "/v1/scores", json={"items": [item], "metrics": ["upsilon-bleu"]})
    assert answer.status_code == 200, answer.text
    return answer.json()


def kill_after(service: Served, targets: tuple[str, ...], delay_s: float) -> None:
    """Kill, as soon as the delay is over and there is something of each kind to kill; and wait until all are back."""
    time.sleep(delay_s)
    before = service.until(
        lambda: all((there := service.children())[kind] for kind in targets) and there, "something to kill"
    )
    service.kill(*targets)
    service.until(
        lambda: (
            all((now := service.children())[kind] for kind in before)
            and not any(set(now[kind]) & set(before[kind]) for kind in targets)
        ),
        "all to be back",
    )
    service.until(lambda: service.ask("GET", "/readyz").status_code == 200, "the service to be ready again")


@pytest.mark.parametrize("number", range(FEW))
def test_a_kill_loses_nothing_and_leaves_nothing_half_visible(service: Served, number: int) -> None:
    one_kill(service, number)


@pytest.mark.faults
@pytest.mark.parametrize("number", range(FEW, MANY))
def test_many_kills_do_no_more_harm(service: Served, number: int) -> None:
    one_kill(service, number)


def one_kill(service: Served, number: int) -> None:
    """The scene and the target in turn, the moment drawn."""
    scene, targets = SCENES[number % len(SCENES)], TARGETS[number // len(SCENES) % len(TARGETS)]
    delay_s = random.Random(number).uniform(0, MOST_DELAY_S[scene])
    {"ingest": ingest, "build": build, "publish": publish, "freeze": freeze}[scene](service, targets, delay_s, number)
    scored(service)


def ingest(service: Served, targets: tuple[str, ...], delay_s: float, number: int) -> None:
    """Dialogues that were accepted are in the log, each once, when the job that takes them is done."""
    posted = [
        {"id": f"k{number}-{one}", "turns": [{"text": f"what about {one}"}, {"text": f"about {one} of {number}"}]}
        for one in range(40)
    ]
    for begin in range(0, 40, 10):
        answer = service.ask("POST", "/v1/logs/posted/dialogues", json={"dialogues": posted[begin : begin + 10]})
        assert answer.status_code == 202, answer.text
    order = {"kind": "ingest", "log": "posted", "posted": True, "workers": 0}
    job = service.ask("POST", "/v1/jobs", json=order, headers={"Idempotency-Key": f"ingest-{number}"}).json()["id"]
    kill_after(service, targets, delay_s)
    ended = service.ended(job)
    assert ended["state"] == "done", ended
    log = StoredLog.open(service.home / "logs", "posted")
    ids = sorted(pair.dialogue for pair in log.pairs() if pair.dialogue.startswith(f"k{number}-"))
    assert ids == sorted(one["id"] for one in posted)


def build(service: Served, targets: tuple[str, ...], delay_s: float, number: int) -> None:
    """A build ends as one whole version more, and the published one was a whole one all the time."""
    versions = Versions(service.home / "indexes", "index")
    name = f"built{number}"
    order = {"kind": "index-build", "logs": ["chat"], "name": name, "vectors": "chat", "check_queries": 10}
    job = service.ask("POST", "/v1/jobs", json={**order, "threads": 1, "seed": number}).json()["id"]
    kill_after(service, targets, delay_s)
    ended = service.ended(job)
    assert ended["state"] == "done", ended
    there = versions.versions(name)
    assert there == [versions.current(name)]
    folder = versions.folder(name, there[0])
    verify_files(folder, read_json(folder / "manifest.json"))
    assert not any((service.home / "cache").glob("*/stages.json"))


def publish(service: Served, targets: tuple[str, ...], delay_s: float, number: int) -> None:
    """The published version is the old one or the new one, and what is said over HTTP is what is on the disk."""
    versions = Versions(service.home / "indexes", "index")
    if len(versions.versions("chat")) < 2:
        order = {"kind": "index-build", "logs": ["chat"], "name": "chat", "vectors": "chat", "seed": 7}
        again = service.ask("POST", "/v1/jobs", json={**order, "check_queries": 10, "threads": 1, "weighting": "sif"})
        assert service.ended(again.json()["id"])["state"] == "done"
    there = versions.versions("chat")
    new = there[number % 2]
    before = versions.current("chat")
    answer = service.ask("PUT", "/v1/artefacts/index/chat/current", json={"version": new})
    assert answer.status_code in (200, 202), answer.text
    kill_after(service, targets, delay_s)
    assert versions.current("chat") == new
    assert before in there
    assert scored(service)["versions"]["index"].startswith(f"chat@{new}#")


def freeze(service: Served, targets: tuple[str, ...], delay_s: float, number: int) -> None:
    """A set that was asked for is there once and whole."""
    items = [{**one, "id": f"{one['id']}-{number}"} for one in ITEMS]
    order = {"items": items, "purpose": "validation", "index": "chat", "rater": "chat"}
    asked = service.ask("POST", "/v1/reference-sets", json=order, headers={"Idempotency-Key": f"freeze-{number}"})
    assert asked.status_code == 202, asked.text
    kill_after(service, targets, delay_s)
    again = service.ask("POST", "/v1/reference-sets", json=order, headers={"Idempotency-Key": f"freeze-{number}"})
    job = asked.json()["id"]
    assert again.json()["id"] == job
    ended = service.ended(job)
    assert ended["state"] == "done", ended
    sets = ReferenceSets(service.home / "reference-sets")
    frozen = sets.open(ended["result"]["set"])
    frozen.verify()
    assert [item.id for item in frozen.items()] == [one["id"] for one in items]
    holding = [name for name in sets.ids() if next(sets.open(name).items()).id == items[0]["id"]]
    assert holding == [frozen.id]
