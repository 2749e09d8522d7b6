"""Everything at once: requests while versions are published and removed, backups written, processes killed, the disk
filled and emptied, and the database restarted. What happened is counted, and memory and open files are looked at.

How many requests get 503 depends on how long a machine takes to open a version. Whether they may does not: only while
`/readyz` says that the service is not ready, or where the answer itself says that it has more work than it can do.
"""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING, Any

import httpx2
from servers import Served
from serving import small_items
from studying import add_bots, chat_protocol, new_study
from talkers import PatientClient, Talker, toll

from refaug.core.home import Settings
from refaug.service.process.live_processes import LiveProcesses

if TYPE_CHECKING:
    from databases import Cluster  # a plugin, which pytest imports itself

TOLD = frozenset({429, 503, 507})  # statuses that say: come again
BUSY = frozenset({"overloaded", "expired"})  # codes of a 503 of a service that is ready, and has too much to do
KILL_S = 3.0  # after a kill connections of the killed process may break
LOOK_S = 2.0
PAUSE_S = 0.3  # between two acts
RETRY_S = 0.1  # after a 503
CLIENTS, TALKERS = 64, 2
TURNS = 3  # requests in a row that get 503 beside a /readyz that says 200: each may have met the end of an opening
FULL_S = 1.0
_ITEMS = small_items(12, systems=("a",))


@dataclass
class Look:
    """The memory and the open files of all processes of a server, and the files of its home."""

    at: float
    memory_mib: float
    handles: int
    files: int
    version_files: int  # of the largest version of the index: each update adds a segment
    is_ready: bool  # all processes, as /readyz says
    load: float  # of the machine, in the last minute


@dataclass
class MixedTally:
    """What came of it."""

    statuses: Counter[int] = field(default_factory=Counter)
    refusals: Counter[str] = field(default_factory=Counter)  # 503, by its code and what /readyz says right after it
    outages_s: list[float] = field(default_factory=list)  # of one client: from a first 503 to the next 200
    acts: Counter[str] = field(default_factory=Counter)
    broken_by_kills: int = 0
    failed: list[str] = field(default_factory=list)  # what nothing explains
    looks: list[Look] = field(default_factory=list)
    study: dict[str, int] = field(default_factory=dict)  # acts of participants, and how many were lost or doubled
    scores: dict[str, list[Any]] = field(default_factory=dict)  # the first answer of each pair of versions, by item

    def growth(self, quantity: Callable[[Look], float]) -> tuple[float, float]:
        """The median of the second quarter of the looks, and of the last one."""
        values = [quantity(look) for look in self.looks]
        quarter = max(1, len(values) // 4)
        return median(values[quarter : 2 * quarter] or values), median(values[-quarter:])


class MixedLoad:
    """One server under all of it, for some seconds."""

    def __init__(self, service: Served, cluster: Cluster, aside: Path, *, seconds: float, seed: int) -> None:
        self.service, self.cluster, self.aside = service, cluster, aside
        self.until = time.monotonic() + seconds
        self.restarts = [time.monotonic() + seconds * share for share in (1 / 3, 2 / 3)]
        self.chance, self.tally = random.Random(seed), MixedTally()
        self.processes = LiveProcesses(Settings(home=service.home))
        self.over = threading.Event()
        self.lock, self.last_kill = threading.Lock(), float("-inf")
        self.backups = 0
        self.token, self.talkers = "", list[Talker]()

    def run(self) -> MixedTally:
        """Do all of it, until the time is over, and each act and both restarts have been done."""
        patient = PatientClient(self.service.client)
        add_bots(patient, "one", "other")
        protocol = chat_protocol("one", "other", per_participant=200, target=100_000, votes=True)
        self.token = new_study(patient, "mixed", protocol)
        asking = (self._ask, self._ask, *[self._ask_sometimes] * (CLIENTS - 2))
        works = (*asking, *[self._talk] * TALKERS, self._look)
        threads = [threading.Thread(target=self._guarded, args=(work,)) for work in works]
        for thread in threads:
            thread.start()
        try:
            self._act()
        finally:
            self.over.set()
            for thread in threads:
                thread.join()
        self._look_up(patient)
        return self.tally

    # ── a study ───────────────────────────────────────────────────────────────────────────────────────────────────

    def _talk(self) -> None:
        """Take part in the study again and again, as one participant after another."""
        while not self.over.is_set():
            with self.lock:
                talker = Talker(str(self.service.client.base_url), self.token, len(self.talkers), pause_s=0.5)
                self.talkers.append(talker)
            talker.run(self.over.is_set)
            if talker.error is not None:
                self._fail(f"participant {talker.number} could not go on: {talker.error!r}")

    def _look_up(self, patient: PatientClient) -> None:
        """Look every acknowledged act of the participants up."""
        lines = patient.request("GET", "/v1/studies/mixed/export").text.splitlines()
        self.tally.study = toll(self.talkers, [json.loads(line) for line in lines])
        if self.tally.study["lost"] or self.tally.study["doubled"]:
            self._fail(f"acknowledged acts of participants: {self.tally.study}")

    def _guarded(self, work: Callable[[], None]) -> None:
        try:
            work()
        except Exception as error:  # noqa: BLE001  the test names it
            self._fail(f"{work.__name__}: {error!r}")

    def _fail(self, what: str) -> None:
        with self.lock:
            self.tally.failed.append(what)

    # ── requests ──────────────────────────────────────────────────────────────────────────────────────────────────

    def _ask_sometimes(self) -> None:
        self._ask(pause_s=2.0)

    def _ask(self, pause_s: float = 0.02) -> None:
        """Ask for scores again and again; the same versions give the same scores."""
        outage_since, beside_ready = None, 0
        with httpx2.Client(base_url=self.service.client.base_url, timeout=60) as client:
            while not self.over.is_set():
                place = random.randrange(len(_ITEMS))
                order = {"items": [_ITEMS[place]], "metrics": ["upsilon-bleu"], "index": "chat", "rater": "base"}
                begun = time.monotonic()
                try:
                    answer = client.post("/v1/scores", json=order)
                    why = _why_refused(client, answer) if answer.status_code == 503 else ""
                except httpx2.TransportError as error:
                    self._note_broken(begun, error)
                    time.sleep(0.05)
                    continue
                self._note(place, answer)
                if answer.status_code == 503:
                    outage_since = outage_since or begun
                    beside_ready = beside_ready + 1 if why.endswith(" beside 200") else 0
                    self._note_refusal(why, beside_ready)
                    time.sleep(RETRY_S)
                    continue
                if outage_since is not None:
                    with self.lock:
                        self.tally.outages_s.append(time.monotonic() - outage_since)
                outage_since, beside_ready = None, 0
                time.sleep(pause_s)

    def _note_refusal(self, why: str, beside_ready: int) -> None:
        with self.lock:
            self.tally.refusals[why] += 1
        if beside_ready == TURNS and why.partition(" ")[0] not in BUSY:
            self._fail(f"{TURNS} requests in a row got 503 while the service was ready: {why}")

    def _note_broken(self, begun: float, error: Exception) -> None:
        with self.lock:
            if self.last_kill > begun - KILL_S:
                self.tally.broken_by_kills += 1
                return
        self._fail(f"a connection broke: {error!r}")

    def _note(self, place: int, answer: httpx2.Response) -> None:
        with self.lock:
            self.tally.statuses[answer.status_code] += 1
        if answer.status_code in TOLD:
            return
        if answer.status_code != 200:
            self._fail(f"{answer.status_code}: {answer.text[:300]}")
            return
        content = answer.json()
        key = f"{sorted(content['versions'].items())} {place}"
        scores = [reply["score"] for reply in content["scores"][0]["systems"]["a"]["replies"]]
        with self.lock:
            first = self.tally.scores.setdefault(key, scores)
        if any(abs(a - b) > 1e-5 for a, b in zip(first, scores, strict=True)):
            self._fail(f"other scores of the same versions: {key}: {first} and {scores}")

    # ── acts ──────────────────────────────────────────────────────────────────────────────────────────────────────

    def _act(self) -> None:
        acts = {
            "publish": self._publish,
            "post": self._post,
            "update": lambda: self._start({"kind": "index-update", "index": "chat"}),
            "ingest": lambda: self._start({"kind": "ingest", "log": "chat", "posted": True, "workers": 0}),
            "retention": lambda: self._start({"kind": "gc", "artefact": "index", "name": "chat", "keep": 3}),
            "backup": self._back_up,
            "kill web": lambda: self._kill("web"),
            "kill jobs": lambda: self._kill("jobs"),
            "full disk": self._fill,
        }
        waiting = list[str]()
        while time.monotonic() < self.until or self.restarts or not self.tally.acts.keys() >= acts.keys():
            if self.restarts and time.monotonic() >= self.restarts[0]:
                self.restarts.pop(0)
                self.cluster.stop()
                time.sleep(FULL_S)
                self.cluster.start()
                self.tally.acts["restart of the database"] += 1
            if not waiting:  # each in turn, in another order each time
                waiting = self.chance.sample(sorted(acts), len(acts))
            name = waiting.pop()
            with suppress(httpx2.TransportError):  # of a process that was just killed
                self.tally.acts[name] += acts[name]() is not False
            time.sleep(PAUSE_S)

    def _send(self, method: str, path: str, order: Any, fine: frozenset[int]) -> Any:
        answer = self.service.client.request(method, path, json=order)
        if answer.status_code not in fine | TOLD:
            self._fail(f"{method} {path}: {answer.status_code}: {answer.text[:300]}")
        return answer.json() if answer.status_code < 300 else None

    def _publish(self) -> None:
        found = self.service.client.get("/v1/artefacts/index/chat")
        if found.status_code == 200:
            version = self.chance.choice(found.json()["versions"])
            # a version that holds what was erased since, or that retention has just removed, is refused
            self._send("PUT", "/v1/artefacts/index/chat/current", {"version": version}, frozenset({200, 202, 404, 409}))

    def _post(self) -> None:
        words = [self.chance.choice(["red", "blue", "boats", "fly", "we", "do"]) for _ in range(8)]
        turns = [" ".join(words[:4]), " ".join(words[4:])]
        self._send("POST", "/v1/logs/chat/dialogues", {"dialogues": [{"turns": turns}]}, frozenset({202}))

    def _start(self, order: dict[str, Any]) -> None:
        self._send("POST", "/v1/jobs", order, frozenset({202, 409}))  # one of a kind waits at a time

    def _back_up(self) -> None:
        self.backups += 1
        target = self.aside / f"backup-{self.backups}"
        command = [sys.executable, "-m", "refaug", "--quiet", "--home", str(self.service.home), "admin", "backup"]
        done = subprocess.run([*command, str(target)], capture_output=True, text=True, check=False)
        if done.returncode not in (0, 4):  # 4: the database is away, or the home is too busy
            self._fail(f"backup: {done.returncode}: {done.stderr[-300:]}")

    def _kill(self, kind: str) -> bool:
        """Kill one process of a kind; of the web processes only where all are ready, so that another one answers."""
        if kind == "web" and sum(report.is_ready and report.accepts for report in self.processes.reports()) < 2:
            return False
        with self.lock:
            self.last_kill = time.monotonic() if kind == "web" else self.last_kill
        if pids := self.service.children()[kind]:
            with suppress(ProcessLookupError):
                os.kill(self.chance.choice(pids), signal.SIGKILL)
        return bool(pids)

    def _fill(self) -> None:
        filler = self.service.home / "filler"
        with filler.open("ab", buffering=0) as file:
            for size in (1 << 20, 1 << 12, 1):
                with suppress(OSError):
                    while file.write(b"x" * size) == size:
                        pass
        time.sleep(FULL_S)
        filler.unlink()

    def _is_ready(self) -> bool:
        with suppress(httpx2.TransportError):  # of a process that was just killed
            return self.service.client.get("/readyz").status_code == 200
        return False

    # ── looks ─────────────────────────────────────────────────────────────────────────────────────────────────────

    def _look(self) -> None:
        began = time.monotonic()
        while not self.over.is_set():
            pids = [self.service.process.pid, *(pid for pids in self.service.children().values() for pid in pids)]
            files = _entries(self.service.home)
            memory, handles = sum(map(_memory_mib, pids)), sum(map(_handles, pids))
            versions = (self.service.home / "indexes" / "chat").glob("2*")
            largest = max((_entries(version) for version in versions), default=0)
            is_ready = self._is_ready()
            look = Look(time.monotonic() - began, memory, handles, files, largest, is_ready, os.getloadavg()[0])
            with self.lock:
                self.tally.looks.append(look)
            time.sleep(LOOK_S)


def _why_refused(client: httpx2.Client, answer: httpx2.Response) -> str:
    """The code of a 503, and what /readyz says right after it, over the same connection."""
    ready = client.get("/readyz")
    return f"{answer.json()['code']} beside {ready.status_code}"


def _entries(folder: Path) -> int:
    """How many files and folders there are; some go while they are counted."""
    return sum(len(folders) + len(files) for _, folders, files in os.walk(folder))


def _memory_mib(pid: int) -> float:
    with suppress(OSError):
        for line in Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines():
            if line.startswith("Pss_Anon:"):
                return int(line.split()[1]) / 1024
    return 0.0


def _handles(pid: int) -> int:
    with suppress(OSError):
        return sum(1 for _ in Path(f"/proc/{pid}/fd").iterdir())
    return 0


def good_backups(folder: Path) -> Iterator[Path]:
    """The backups that were finished."""
    yield from sorted(path.parent for path in folder.glob("backup-*/backup.json"))
