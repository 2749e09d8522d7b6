"""Kills at random while an index is built and another is served: of tasks, shards, servers, machines and the head.

CLUSTER_KILLS_TO names a file that each scene adds a line of JSON to: what was killed, how many requests were asked, how
long after each kill the first answer came, and what was refused meanwhile.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from contextlib import suppress
from pathlib import Path
from random import Random

import httpx2
import orjson
import pytest
from cluster_builds import assert_is, command_of, left_of, order_of, small_home
from cluster_machines import add_machine, bring_head_back, lose_head, redis_server, start_head
from cluster_shards import home_of_chance, log_of_chance, processes_of_shards, titles_of_cluster, until
from indexes import build
from plain_search import MODES
from servers import served

from refaug.core.progress import Silent
from refaug.indexer.building.build import build_index
from refaug.indexer.building.plan import Limits
from refaug.indexer.manifest import IndexManifest
from refaug.indexer.search.index import ReferenceIndex
from refaug.indexer.search.search_settings import SearchSettings

pytestmark = [pytest.mark.machine, pytest.mark.slow, pytest.mark.faults]

KILLS = 5  # of a scene
SHARDS, MACHINES = 3, 2
VICTIMS = ("task", "task", "command", "shard", "shard", "web", "machine", "head")
TASKS = ("write_table", "code_shard", "add_shard", "train_index", "number_words", "check_recall")
FIGURES = os.environ.get("CLUSTER_KILLS_TO", "")
SEEDS = range(10)


@pytest.fixture(scope="module")
def log():
    return log_of_chance(3, 1_500, 12)


@pytest.fixture(scope="module")
def served_places(log, tmp_path_factory):
    places = home_of_chance(tmp_path_factory.mktemp("kills"), log[0])
    build(places, "chat", shards=SHARDS, check_queries=50, limits=Limits(factory="PCAR8,IVF8,PQ4x4fs", recall=0.5))
    return places


@pytest.fixture(scope="module")
def places(tmp_path_factory):
    return small_home(tmp_path_factory.mktemp("built") / "home")


@pytest.fixture(scope="module")
def expected(places):
    return build_index(places, order_of("alone"), Silent()).manifest


@pytest.fixture(scope="module")
def kept_machines(token, node_cache, tmp_path_factory):
    """A cluster whose head may be lost, since Redis has what it knows."""
    assert token
    assert node_cache
    with redis_server(tmp_path_factory.mktemp("redis")) as redis:
        machines = start_head(redis)
        for _ in range(MACHINES):
            add_machine(machines)
        try:
            yield machines
        finally:
            machines.shutdown()


@pytest.fixture(scope="module", params=[2, 1], ids=["replicas", "alone"])
def service(request, kept_machines, served_places):
    """A server with so many web processes and replicas of each shard."""
    options = ("--no-job-worker", "--shards", kept_machines.address, "--shard-timeout-s", "5", "--replicas")
    with served(served_places.logs.parent, *options, str(request.param), "--workers", str(request.param)) as running:
        running.copies = request.param
        yield running


@pytest.mark.parametrize("seed", SEEDS)
def test_nothing_is_wrong_or_lost_after_five_kills(seed, service, kept_machines, served_places, log, places, expected):
    random = Random(100 * service.copies + seed)
    victims, figures = random.sample(VICTIMS, KILLS), []
    with (
        ReferenceIndex.open(served_places, "chat") as alone,
        Builds(places, expected, kept_machines.address, f"kills-{service.copies}-{seed}") as builds,
        Asking(service, alone, log[1], random) as asking,
    ):
        asking.until_answered()
        for victim in victims:
            killed_at = kill(victim, kept_machines, service, builds, random)
            restore(victim, kept_machines)
            until(lambda: is_whole(service), lambda: titles_of_cluster("ray::"))
            asking.until_answered()
            figures.append({"killed": victim, **asking.after(killed_at), "load": round(os.getloadavg()[0])})
        builds.finish()
    assert asking.wrong == []
    assert len(figures) == KILLS
    write({"replicas": service.copies, "seed": seed, "kills": figures, **asking.counts(), "builds": builds.finished})


def kill(victim, machines, service, builds, random):
    """Kill it, and return when."""
    if victim in ("task", "command"):
        builds.ensure()
    if victim == "head":
        lose_head(machines)
    elif victim == "machine":
        machines.remove_node(
            random.choice(sorted(machines.worker_nodes, key=lambda node: node.unique_id)), allow_graceful=False
        )
    elif victim == "command":
        builds.kill()
    elif victim == "task":
        builds.kill_task(random)
    else:
        process = random.choice(processes_of_shards() if victim == "shard" else service.children()["web"])
        os.kill(process, signal.SIGKILL)
    return time.monotonic()


def restore(victim, machines):
    """Start what an operator or a supervisor starts again."""
    if victim == "head":
        bring_head_back(machines)
    elif victim == "machine":
        add_machine(machines)


def is_whole(service):
    """Whether all web processes are there, and all replicas of their shards answer, on different machines."""
    return (
        len(service.children()["web"]) == service.copies
        and len(processes_of_shards()) == SHARDS * service.copies**2
        and all(are_spread(service) for _ in range(4 * service.copies))
    )


def are_spread(service):
    """Whether one of the web processes says so of its shards."""
    try:
        with httpx2.Client(base_url=service.client.base_url, timeout=60) as client:  # a new connection, to any of them
            figures = client.get("/metrics").text
    except httpx2.TransportError:
        return False
    machines = [line.split()[-1] for line in figures.splitlines() if line.startswith("refaug_shard_machines{")]
    return machines == [f"{service.copies}.0"] * SHARDS


def write(figures):
    """Print what happened in a scene, as a line of JSON, and add it to the file."""
    sys.stdout.write(f"{orjson.dumps(figures).decode()}\n")
    if FIGURES:
        with Path(FIGURES).open("ab") as file:
            file.write(orjson.dumps(figures) + b"\n")


class Asking:
    """A thread that asks one request after the other, each for something else, and compares every answer."""

    def __init__(self, service, alone, tests, random):
        self._service, self._alone, self._tests = service, alone, tests
        self._random, self._seen = Random(random.random()), set()
        self._over, self._thread = threading.Event(), threading.Thread(target=self._run)
        self.asked, self.wrong = [], []  # began, ended, whether it was answered

    def __enter__(self):
        self._thread.start()
        return self

    def __exit__(self, *_):
        self._over.set()
        self._thread.join()

    def _run(self):
        with httpx2.Client(base_url=self._service.client.base_url, timeout=60) as client:
            while not self._over.is_set():
                self._ask(client)

    def _ask(self, client):
        question = self._question()
        pair, mode, k = question
        began, answered = time.monotonic(), False
        try:
            answer = client.post("/v1/references", json=body_of(pair, mode, k))
        except httpx2.TransportError:
            answer = None  # of a web process that was killed
        ended = time.monotonic()
        if answer is not None and answer.status_code == 200:
            answered = True
            if found_in(answer) != expected_of(self._alone, pair, mode, k):
                self.wrong.append((question, answer.text))
        elif answer is not None and answer.status_code != 503:
            self.wrong.append((question, answer.text))
        self.asked.append((began, ended, answered))
        if not answered:
            self._over.wait(0.02)

    def _question(self):
        """A question that nobody has asked before, which no cache can answer."""
        while True:
            question = (
                self._random.randrange(len(self._tests)),
                self._random.choice(MODES),
                self._random.randrange(1, 400),
            )
            if question not in self._seen:
                self._seen.add(question)
                return self._tests[question[0]], *question[1:]

    def until_answered(self):
        """Wait until twenty requests after now, one after the other, were answered."""
        now = time.monotonic()

        def are_answered():
            assert self._thread.is_alive()
            last = self.asked[-20:]
            return len(last) == 20 and last[0][0] > now and all(answered for *_, answered in last)

        until(are_answered, lambda: self.asked[-3:])

    def after(self, killed_at):
        """Return what came after a kill: the first answer to a request that began then, and what was refused."""
        asked = [of_request for of_request in self.asked if of_request[1] >= killed_at]
        answers = [(began, ended) for began, ended, answered in asked if answered and began >= killed_at]
        refused = [ended for *_, ended, answered in asked if not answered]
        return {
            "again_s": round(answers[0][1] - killed_at, 2),
            "slowest_s": round(max(ended - began for began, ended in answers), 2),
            "refused": len(refused),
            "last_refused_s": round(refused[-1] - killed_at, 2) if refused else None,
        }

    def counts(self):
        answered = sum(answered for *_, answered in self.asked)
        return {
            "asked": len(self.asked),
            "answered": answered,
            "refused": len(self.asked) - answered,
            "wrong": len(self.wrong),
        }


class Builds:
    """The command that builds an index on the cluster, run again after it was killed; each build is compared."""

    def __init__(self, places, expected, address, name):
        self._places, self._expected, self._address, self._name = places, expected, address, name
        self._process, self.finished, self._killed = None, 0, False

    def __enter__(self):
        return self

    def __exit__(self, *_):
        if self._process is not None and self._process.poll() is None:
            self._process.kill()
            self._process.wait()

    @property
    def name(self):
        return f"{self._name}-{self.finished}"

    def _run(self):
        command = command_of(self._places, self.name, self._address)
        self._process = subprocess.Popen(**{**command, "stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL})

    def ensure(self):
        """Begin a build, or go on with it after it was killed."""
        if self._process is not None and self._process.poll() is not None:
            self._end()
        if self._process is None:
            self._run()

    def kill(self):
        """Kill the command when it has finished some stage."""
        until(lambda: left_of(self.name, self._places) or self._process.poll() is not None)
        self._process.kill()
        self._process.wait()

    def kill_task(self, random):
        """Kill a process of the cluster that works on a task of the build."""
        while True:
            tasks = titles_of_cluster(*(f"ray::{name}" for name in TASKS))
            if tasks:
                with suppress(ProcessLookupError):
                    os.kill(random.choice(tasks)[0], signal.SIGKILL)
                    return
            if self._process.poll() is not None:
                self.ensure()

    def _end(self):
        """Look at what a command has left that has ended; one that was killed is run again."""
        returned, self._process = self._process.returncode, None
        if returned == -signal.SIGKILL:
            current = self._places.indexes.current(self.name)
            assert current is None or len(self._places.indexes.versions(self.name)) == 1
            self._run()
            return
        assert returned == 0, (self.name, returned)
        index, version = self._places.indexes.resolve(self.name)
        assert self._places.indexes.versions(index) == [version]
        assert_is(IndexManifest.read(self._places.indexes.folder(index, version)), self._expected)
        assert left_of(index, self._places) == []
        self.finished += 1

    def finish(self):
        """Finish the build that is under way."""
        while self._process is not None:
            self._process.wait()
            self._end()


def body_of(pair, mode, k):
    item = {
        "id": pair.id,
        "utterance": pair.utterance,
        "references": [reference.text for reference in pair.references],
        "exclude": list(pair.exclude),
        **({"dialogue": pair.dialogue} if pair.dialogue else {}),
    }
    return {"items": [item], "settings": {"weights": "one", "parrot": "off", "mode": mode, "k": k}}


def found_in(answer):
    return [
        (found["text"], found["similarity"], found["rank"], found["pair"])
        for found in answer.json()["items"][0]["references"]
        if found["source"] == "retrieved"
    ]


def expected_of(index, pair, mode, k):
    return [
        (found.text, found.similarity, found.more["rank"], found.more["pair"])
        for found in index.search([pair], SearchSettings(mode=mode, k=k))[0].references
    ]
