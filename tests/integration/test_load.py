"""The service with two web processes under load: versions are published, too much is asked, it is stopped and begun."""

from __future__ import annotations

import http.client
import os
import re
import shutil
import signal
import statistics
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import product
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import httpx2
import orjson
import pytest
from servers import ROOT, Served, said_by, served
from serving import small_home, small_items

from refaug.core.artefacts.kinds import artefact_stores
from refaug.core.artefacts.versions import Versions
from refaug.core.home import Settings
from refaug.metrics.specification import build
from refaug.scoring.augmentation import augment
from refaug.scoring.evaluate import evaluate
from refaug.scoring.held_sets.held_set import HeldSets
from refaug.scoring.held_sets.set_scoring import SetRequest, score_set
from refaug.scoring.home.indexes import open_index
from refaug.scoring.home.networks import open_rater
from refaug.scoring.items import item_of
from refaug.scoring.metric_setup.model_registry import ModelRegistry
from refaug.scoring.provenance import references_provenance
from refaug.scoring.settings import AugmentSettings, ScoreSettings
from refaug.service.process.live_processes import LiveProcesses

pytestmark = pytest.mark.slow

SECONDS = 8.0  # of mixed load, of which `make faults` has minutes
TOO_MUCH_S = 3.0
NEAR = 1e-5  # within which ratings, and scores made of them, are the same
HANGS_S = 120.0  # that nothing here takes, unless it would take for ever

NAMES = {"index": "chat", "rater": "base"}

Values = dict[str, list[float | None]]  # the scores of the replies, by system
Known = dict[tuple[str, str], list[Values]]  # by the versions of index and rater, for each of several bodies


@pytest.fixture(scope="module")
def template(tmp_path_factory: pytest.TempPathFactory) -> Settings:
    return small_home(tmp_path_factory.mktemp("load"), indexes=2, raters=2)


@pytest.fixture
def home(template: Settings, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Settings:
    """The template's, with kernels that were compiled before."""
    monkeypatch.setenv("NUMBA_CACHE_DIR", "")
    return Settings(home=shutil.copytree(template.home, tmp_path / "home"))


@contextmanager
def two_serving(home: Settings, *options: str) -> Iterator[Served]:
    """The service with two web processes, both of them ready: `served` knows only that one is."""
    with served(home.home, "--workers", "2", *options) as service:
        presence = LiveProcesses(home)  # it reports nothing: it only looks
        service.until(lambda: len(presence.reports()) == 2, "two web processes")
        for kind, name in NAMES.items():
            published = artefact_stores(home)[kind].current(name)
            assert published is not None
            service.until(
                lambda at=(kind, name, published): not presence.pids_with_and_without(*at)[1],
                f"both to serve {kind} {name}",
            )
        yield service


# ── load, from processes of its own ───────────────────────────────────────────────────────────────────────────────


@contextmanager
def loaded(service: Served, path: str, bodies: Sequence[bytes], **plan: Any) -> Iterator[Callable[[], list[Any]]]:
    """A generator of load that runs; what is given waits for its end and tells what came."""
    port = urlsplit(str(service.client.base_url)).port
    texts = [body.decode() for body in bodies]
    process = subprocess.Popen(
        [sys.executable, str(ROOT / "bench" / "load.py")], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    )

    def ended() -> list[Any]:
        found = orjson.loads(process.communicate(timeout=plan.get("seconds", 0) + HANGS_S)[0])
        assert found["broken"] == 0, said_by(service.home)
        sent: list[Any] = found["sent"]
        return sent

    try:
        assert process.stdin is not None
        process.stdin.write(orjson.dumps({"port": port, "path": path, "bodies": texts, **plan}))
        process.stdin.close()
        process.stdin = None
        yield ended
    finally:
        process.kill()
        process.communicate()


def loads(service: Served, path: str, bodies: Sequence[bytes], **plan: Any) -> list[Any]:
    """The same from begin to end."""
    with loaded(service, path, bodies, **plan) as ended:
        return ended()


def bodies_of(groups: Sequence[Sequence[dict[str, Any]]]) -> list[bytes]:
    """Requests whose answers differ between the raters of the home: those have weights in common, not temperatures."""
    asked = {"metrics": ["upsilon-bleu"], "settings": {"calibrated": True}}
    return [orjson.dumps({"items": list(group), **asked}) for group in groups]


def values_of(answer: Mapping[str, Any]) -> Values:
    systems = answer["scores"][0]["systems"]
    return {name: [one["score"] for one in system["replies"]] for name, system in systems.items()}


def are_same(some: Values, others: Values) -> bool:
    """Whether all scores are, as near as whoever rates in batches can promise."""
    if {name: len(values) for name, values in some.items()} != {name: len(values) for name, values in others.items()}:
        return False
    pairs = [(a, b) for name, values in some.items() for a, b in zip(values, others[name], strict=True)]
    return all(a is b if a is None or b is None else abs(a - b) <= NEAR for a, b in pairs)


# ── publishing under load ─────────────────────────────────────────────────────────────────────────────────────────


def known_answers(home: Settings, groups: Sequence[Sequence[dict[str, Any]]]) -> Known:
    """What each pair of versions says of each group of items, without a server."""
    found, settings = Known(), AugmentSettings(calibrated=True)
    for one, other in product(*(artefact_stores(home)[kind].versions(name) for kind, name in NAMES.items())):
        index, rater = open_index(home, f"chat@{one}", threads=1), open_rater(home, f"base@{other}", threads=1)
        with index:
            of_both = references_provenance(index, rater, settings)
            scored = [
                evaluate(
                    list(augment([item_of(it, fallback_id="") for it in group], index, rater, settings)),
                    [build("upsilon-bleu")],
                    ScoreSettings(draws=0),
                    provenance=of_both,
                )
                for group in groups
            ]
        found[one, other] = [values_of(orjson.loads(orjson.dumps(it.as_json()))) for it in scored]
    return found


@dataclass
class Publisher:
    """Publishes the two versions of something in turn; every third time as a command does, beside the server."""

    service: Served
    home: Settings
    kind: str
    every_s: float
    done: list[tuple[str, float, float]] = field(default_factory=list)  # version, when it was begun, when all had it
    seconds: list[float] = field(default_factory=list)  # that it took those without the server
    failures: list[str] = field(default_factory=list)

    def run(self, is_over: threading.Event) -> None:
        name, versions = NAMES[self.kind], artefact_stores(self.home)[self.kind]
        with httpx2.Client(base_url=self.service.client.base_url, timeout=HANGS_S) as client:
            number = 0
            while not is_over.wait(self.every_s):
                number += 1
                version, begun = versions.versions(name)[number % 2], time.time()
                if number % 3:
                    answer = client.put(f"/v1/artefacts/{self.kind}/{name}/current", json={"version": version})
                    if answer.status_code != 200:
                        self.failures.append(f"{answer.status_code} {answer.text}")
                        continue
                else:
                    self.publish_beside(versions, name, version, begun)
                self.done.append((version, begun, time.time()))

    def publish_beside(self, versions: Versions, name: str, version: str, begun: float) -> None:
        versions.publish(name, version)
        presence = LiveProcesses(self.home)  # it reports nothing: it only looks
        while presence.pids_with_and_without(self.kind, name, version)[1] and time.time() < begun + HANGS_S:
            time.sleep(0.01)
        self.seconds.append(time.time() - begun)

    def allowed(self, began: float, ended: float, first: str) -> set[str]:
        """The versions that a request of this time may be answered by."""
        before = [one for one in self.done if one[2] <= began]
        meanwhile = {version for version, begun, all_had in self.done if all_had > began and begun < ended}
        return {before[-1][0] if before else first, *meanwhile}


@dataclass
class Memory:
    """What the processes of a service have taken, looked at again and again."""

    service: Served
    sizes: list[int] = field(default_factory=list)

    def run(self, is_over: threading.Event) -> None:
        pids = self.service.children()["web"]
        while not is_over.wait(0.25):
            self.sizes.append(sum(resident(pid) for pid in pids))

    def growth(self) -> float:
        """The last third over the second."""
        third = len(self.sizes) // 3
        return statistics.median(self.sizes[2 * third :]) / statistics.median(self.sizes[third : 2 * third])


def resident(pid: int) -> int:
    """Pages of a process, in bytes."""
    return int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * os.sysconf("SC_PAGESIZE")


def test_answers_during_publishing_are_of_the_version_they_name(home: Settings) -> None:
    singles, batches = small_items(40, seed=3), [small_items(25, seed=seed) for seed in (4, 5, 6)]
    groups = [*([one] for one in singles), *batches]
    known = known_answers(home, groups)
    tell_apart = [len({orjson.dumps(answers[at]) for answers in known.values()}) for at in range(len(groups))]
    assert sum(count == 4 for count in tell_apart) >= 3, tell_apart  # else a wrong version would not be seen
    first = {kind: artefact_stores(home)[kind].current(name) for kind, name in NAMES.items()}
    with two_serving(home) as service:
        frozen = service.ask("POST", "/v1/reference-sets", json={"items": singles, "purpose": "test"}).json()
        set_asked = {"items": ["d1", "d0", "d7"], "replies": {"m": ["we like boats", "no", "i do"]}}
        held = HeldSets(ModelRegistry(home), most=64, most_bytes=1 << 30).get(frozen["id"])
        request = SetRequest(items=set_asked["items"], replies=set_asked["replies"])
        set_known = values_of(score_set(held, request, ["upsilon-bleu"], ScoreSettings(draws=0)))
        publishers = [Publisher(service, home, "index", 2.0), Publisher(service, home, "rater", 4.5)]
        memory, is_over = Memory(service), threading.Event()
        plan = {"seconds": SECONDS, "keep": True}
        sets = f"/v1/reference-sets/{frozen['id']}/scores"
        web = service.children()["web"]
        with (
            ThreadPoolExecutor(3) as threads,
            loaded(service, "/v1/scores", bodies_of(groups[:40]), connections=6, rate=100, **plan) as of_singles,
            loaded(service, "/v1/scores", bodies_of(groups[40:]), connections=2, rate=8, **plan) as of_batches,
            loaded(service, sets, [orjson.dumps(set_asked)], connections=2, rate=20, **plan) as of_sets,
        ):
            running = [threads.submit(one.run, is_over) for one in (*publishers, memory)]
            try:
                found = [(one, 0) for one in of_singles()] + [(one, 40) for one in of_batches()]
                found_of_sets = of_sets()
            finally:
                is_over.set()
                for one in running:
                    one.result(HANGS_S)
        assert service.children()["web"] == web, said_by(home.home)
    failed = [one["answer"] for one, _ in found if one["status"] != 200]
    assert not failed, (len(failed), failed[:3])
    assert Counter(one["status"] for one in found_of_sets) == {200: len(found_of_sets)}
    assert all(values_of(one["answer"]) == set_known for one in found_of_sets)
    assert [one.failures for one in publishers] == [[], []]
    wrong = [said for one, offset in found if (said := what_is_wrong(one, offset, known, publishers, first))]
    assert not wrong, (len(wrong), wrong[:5])
    served_by = {tuple(one["answer"]["versions"].values()) for one, _ in found}
    assert len(served_by) == 4, served_by
    assert len(publishers[0].done) >= SECONDS / 4
    assert publishers[0].seconds
    assert max(publishers[0].seconds) < 10.0  # it is looked for every 0.2 s; the rest is opening it beside the load
    assert memory.growth() <= 1.15, memory.sizes


def what_is_wrong(
    one: Mapping[str, Any], offset: int, known: Known, publishers: Sequence[Publisher], first: Mapping[str, str | None]
) -> str:
    """Why an answer should not have been given; nothing, where it is right."""
    said = {kind: spec.partition("@")[2].partition("#")[0] for kind, spec in one["answer"]["versions"].items()}
    if not are_same(values_of(one["answer"]), known[said["index"], said["rater"]][offset + one["body"]]):
        return f"not made by {said}"
    for publisher in publishers:
        began, ended = one["began"], one["began"] + one["seconds"]
        allowed = publisher.allowed(began, ended, str(first[publisher.kind]))
        if said[publisher.kind] not in allowed:
            return f"{publisher.kind} {said[publisher.kind]} instead of {allowed}"
    return ""


# ── too much ──────────────────────────────────────────────────────────────────────────────────────────────────────


def test_overload_is_answered_or_refused_and_service_recovers(home: Settings) -> None:
    bodies = bodies_of([small_items(8, seed=seed) for seed in range(60)])
    small = ("--requests", "24", "--queue-items", "64", "--batch-items", "16", "--held-references-mib", "0")
    with two_serving(home, *small) as service:
        loads(service, "/v1/scores", bodies, connections=4, seconds=1.0)
        usual = loads(service, "/v1/scores", bodies, connections=4, seconds=3.0)
        assert {one["status"] for one in usual} == {200}
        usual_s = statistics.median(one["seconds"] for one in usual)
        rate = 10 * len(usual) / 3.0
        found = loads(service, "/v1/scores", bodies, connections=300, seconds=TOO_MUCH_S, rate=rate)
        statuses = Counter(one["status"] for one in found)
        assert set(statuses) <= {200, 429, 503}, statuses
        assert statuses[200], statuses
        assert statuses[503], statuses
        refused = [one for one in found if one["status"] != 200]
        assert all(one["retry_after"] is not None and 1 <= int(one["retry_after"]) <= 600 for one in refused)
        recovered = time.monotonic() + 5.0

        def is_as_quick() -> bool:
            began = time.monotonic()
            answer = service.client.post("/v1/scores", content=bodies[0], headers={"Content-Type": "application/json"})
            return answer.status_code == 200 and time.monotonic() - began <= max(2 * usual_s, 0.2)

        service.until(is_as_quick, "an answer that is as quick as before")
        assert time.monotonic() <= recovered
        assert len(service.children()["web"]) == 2
        assert re.search(r"\bdied\b", said_by(home.home)) is None


# ── the end ───────────────────────────────────────────────────────────────────────────────────────────────────────


def test_what_is_under_way_when_the_service_is_stopped_is_answered_whole(home: Settings) -> None:
    large = bodies_of([small_items(300, seed=seed, systems=("a",)) for seed in range(6)])
    singles = bodies_of([small_items(1, seed=seed) for seed in range(8)])
    with two_serving(home, "--held-references-mib", "0") as service:
        port = urlsplit(str(service.client.base_url)).port
        assert port is not None
        begun, told = threading.Barrier(len(large) + 1), Counter[str]()

        def ask_for_much(body: bytes) -> tuple[int, int]:
            connection = http.client.HTTPConnection("127.0.0.1", port, timeout=HANGS_S)
            try:
                connection.request("GET", "/healthz")  # so that a process has taken the connection
                connection.getresponse().read()
                connection.request("POST", "/v1/scores", body, {"Content-Type": "application/json"})
                begun.wait(HANGS_S)
                answer = connection.getresponse()
                return answer.status, len(orjson.loads(answer.read())["scores"][0]["systems"]["a"]["replies"])
            finally:
                connection.close()

        def ask_until_nobody_listens() -> None:
            while True:
                connection = http.client.HTTPConnection("127.0.0.1", port, timeout=HANGS_S)
                try:
                    connection.request("POST", "/v1/scores", singles[0], {"Content-Type": "application/json"})
                    answer = connection.getresponse()
                    orjson.loads(answer.read())  # IncompleteRead, if it is half an answer
                    told[str(answer.status)] += 1
                except ConnectionRefusedError:
                    return
                except (http.client.RemoteDisconnected, ConnectionResetError):
                    told["not taken any more"] += 1
                finally:
                    connection.close()

        with ThreadPoolExecutor(len(large) + 2) as threads:
            smalls = [threads.submit(ask_until_nobody_listens) for _ in range(2)]
            service.until(lambda: told["200"] > 5, "the first answers")
            larges = [threads.submit(ask_for_much, body) for body in large]
            begun.wait(HANGS_S)
            service.process.send_signal(signal.SIGTERM)
            assert [one.result(HANGS_S) for one in larges] == [(200, 300)] * len(large)
            for one in smalls:
                one.result(HANGS_S)
        assert set(told) <= {"200", "503", "not taken any more"}, told
        assert service.process.wait(HANGS_S) == 0
        assert not list((home.home / "serving").glob("*.json"))


# ── the beginning ─────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.faults
def test_processes_that_are_silent_while_they_open_are_not_taken_for_dead(
    home: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SILENT_S", "7")  # uvicorn by itself would wait for 5 s
    monkeypatch.setenv("REFAUG_HOME", str(home.home))
    monkeypatch.setenv("PYTHONPATH", str(ROOT))
    command = [sys.executable, str(ROOT / "tests" / "served_apps.py"), "opens_slowly", "workers=2", "start_s=60"]
    with (
        (home.home.parent / "home.log").open("wb") as log,
        subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, stderr=log, text=True) as process,
    ):
        try:
            assert process.stdout is not None
            with httpx2.Client(base_url=process.stdout.readline().strip(), timeout=HANGS_S) as client:
                service = Served(process=process, home=home.home, client=client)  # type: ignore[arg-type]
                service.until(lambda: len(service.children()["web"]) == 2, "two web processes")
                begun = service.children()["web"]
                presence, index = LiveProcesses(home), artefact_stores(home)["index"].current("chat")
                assert index is not None
                service.until(
                    lambda: (
                        len(presence.reports()) == 2 and not presence.pids_with_and_without("index", "chat", index)[1]
                    ),
                    "both to serve",
                )
                assert service.children()["web"] == begun
                asked = bodies_of([small_items(2)])[0]
                answer = service.ask("POST", "/v1/scores", content=asked, headers={"Content-Type": "application/json"})
                assert answer.json()["versions"]["index"].startswith(f"chat@{index}#")
            said = said_by(home.home)
            assert said.count("web process started") == 2, said
            assert "silent for too long" not in said
        finally:
            process.terminate()
            process.wait(HANGS_S)
