"""The service beside what one would write in an afternoon, and under what a long day brings.

    python bench/bench_service.py batch --home FOLDER …       100 test pairs over HTTP beside the same work in process
    python bench/bench_service.py single --home FOLDER …      single items over 32 connections, beside a naive service
    python bench/bench_service.py sets --home FOLDER …        batches of 64 replies to a frozen set, beside sacrebleu
    python bench/bench_service.py mixed --home FOLDER …       load while indexes and raters are published
    python bench/bench_service.py overload --home FOLDER …    ten times what can be done
    python bench/bench_service.py cold --home FOLDER …        two web processes opening a large index

`--home` holds an index and a rater, and for `mixed` another of each whose answers differ: `--index`, `--other-index`,
`--rater`, `--other-rater` name them. They are linked into a home of the benchmark's own under `--scratch`, on the same
disk. Texts come from `--data` (logs/dailydialog_en.jsonl.gz). Results go to bench/results/service_<part>.json. The load
comes from a process of its own (bench/load.py), over 127.0.0.1 alone.
"""

from __future__ import annotations

import os

os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")  # as the service sets it, for what is measured beside it as well

import argparse
import gzip
import json
import shutil
import signal
import statistics
import subprocess
import sys
import tempfile
import threading
import time
import urllib.error
import urllib.request
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import count, islice, pairwise
from math import ceil, inf
from pathlib import Path
from typing import Any

import orjson
from common import ROOT, free_port, median, pss_of, tree_of, write_result

from core.files import write_aside
from core.items import item_of
from metrics.specification import build
from service.artefacts import stored
from service.augment import AugmentSettings, augment, provenance, provenance_details
from service.evaluate import evaluate
from service.rating import open_rater
from service.retrieval import open_index
from service.scores import ScoreSettings
from service.settings import Settings

PACKAGES = ("refaug", "fastapi", "uvicorn", "torch", "faiss-cpu", "numba", "sacrebleu")
NAME = "bench"
RUNS = 5
OVERLOAD_ITEMS = 64
BATCH_RUNS = 31  # of less than a second each: single ones differ by half
START_S = 300.0
NEAR = 1e-5  # how near a score has to be to itself


@dataclass(frozen=True, kw_only=True)
class Given:
    """What the command line says."""

    home: Path
    scratch: Path
    data: Path
    index: str
    rater: str
    other_index: str
    other_rater: str
    seconds: float


# ── texts ─────────────────────────────────────────────────────────────────────────────────────────────────────────


def items_of(data: Path, count: int, first: int = 0) -> list[dict[str, Any]]:
    """Different test pairs with one reply each, the reply being what was said in another dialogue."""
    source = data / "logs" / "dailydialog_en.jsonl.gz"
    if not source.exists():
        sys.exit(f"{source} is not there: nothing is measured")
    pairs = list[tuple[str, str]]()
    with gzip.open(source, "rt", encoding="utf-8") as lines:
        for line in lines:
            turns = json.loads(line)["turns"]
            pairs += pairwise(turns)
            if len(pairs) > 2 * (first + count) + 1_000:
                break
    chosen = pairs[first : first + count]
    others = pairs[first + count : first + 2 * count]
    return [
        {"id": f"d{first + n}", "utterance": one[0], "references": [one[1]], "replies": {"model": other[1]}}
        for n, (one, other) in enumerate(zip(chosen, others, strict=True))
    ]


def scores_body(items: Sequence[dict[str, Any]]) -> bytes:
    """A request for υBLEU."""
    return orjson.dumps({"items": items, "metrics": ["upsilon-bleu"]})


# ── the home and the servers ──────────────────────────────────────────────────────────────────────────────────────


def linked_home(given: Given, folder: Path, *, both: bool) -> Path:
    """A home with the index and the rater under one name, each a version, and what they need; files are linked."""
    theirs, ours = stored(Settings(home=given.home)), folder
    for kind, place, specs in (
        ("index", "indexes", [given.index, given.other_index]),
        ("rater", "raters", [given.rater, given.other_rater]),
    ):
        target = ours / place / NAME
        target.mkdir(parents=True)
        for number, spec in enumerate(specs[: 2 if both else 1], start=1):
            name, version = theirs[kind].resolve(spec)
            source = theirs[kind].folder(name, version)
            shutil.copytree(source, target / f"2026-01-01.{number}", copy_function=os.link)
        with write_aside(target / "CURRENT") as file:
            file.write(b"2026-01-01.1\n")
    shutil.copytree(given.home / "vectors", ours / "vectors", copy_function=os.link, symlinks=True)
    return ours


def get(port: int, path: str, *, timeout: float = 30.0) -> tuple[int, Any]:
    """A page as JSON, or its text."""
    return ask("GET", port, path, None, timeout=timeout)


def ask(method: str, port: int, path: str, body: bytes | None, *, timeout: float = 120.0) -> tuple[int, Any]:
    """One request without any hurry."""
    request = urllib.request.Request(f"http://127.0.0.1:{port}{path}", data=body, method=method)
    request.add_header("Content-Type", "application/json")
    try:
        with urllib.request.urlopen(request, timeout=timeout) as answer:
            raw, status = answer.read(), answer.status
    except urllib.error.HTTPError as error:
        raw, status = error.read(), error.code
    try:
        return status, orjson.loads(raw)
    except orjson.JSONDecodeError:
        return status, raw.decode("utf-8", "replace")


@contextmanager
def server(home: Path, *options: str) -> Iterator[tuple[subprocess.Popen[bytes], int]]:
    """The service as one starts it, ready."""
    port = free_port()
    start = "import sys; from service.cli import start; sys.exit(start())"
    command = [sys.executable, "-c", start, "--home", str(home), "serve", "--port", str(port), *options]
    with (home / "serve.log").open("wb") as said:
        process = subprocess.Popen(command, cwd=ROOT, stdout=said, stderr=said)
        try:
            wait_until_ready(process, port, home)
            yield process, port
        finally:
            stop(process)


def wait_until_ready(process: subprocess.Popen[bytes], port: int, home: Path) -> None:
    """Until /readyz says so."""
    until = time.time() + START_S
    while time.time() < until:
        if process.poll() is not None:
            sys.exit(f"the server has ended:\n{(home / 'serve.log').read_text()[-3000:]}")
        try:
            if get(port, "/readyz", timeout=5)[0] == 200:
                return
        except OSError:
            pass
        time.sleep(0.1)
    stop(process)
    sys.exit(f"the server was not ready after {START_S:g} s:\n{(home / 'serve.log').read_text()[-3000:]}")


def stop(process: subprocess.Popen[bytes]) -> None:
    """As Ctrl-C does, and by force where that is not enough."""
    if process.poll() is None:
        process.send_signal(signal.SIGTERM)
        try:
            process.wait(60)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


@contextmanager
def naive(*arguments: str) -> Iterator[int]:
    """The other service, answering."""
    port = free_port()
    process = subprocess.Popen(
        [sys.executable, str(ROOT / "bench" / "naive_service.py"), *arguments, str(port)], cwd=ROOT
    )
    try:
        until = time.time() + START_S
        while time.time() < until:
            try:
                get(port, "/openapi.json", timeout=5)
                break
            except OSError:
                time.sleep(0.1)
        yield port
    finally:
        stop(process)


@dataclass(frozen=True, kw_only=True)
class Load:
    """What the generator saw."""

    sent: list[dict[str, Any]]
    broken: int
    seconds: float

    @property
    def per_second(self) -> float:
        """Requests that were answered well, a second."""
        return sum(1 for one in self.sent if one["status"] == 200) / self.seconds

    def quantile(self, share: float) -> float:
        """Seconds that so many of the answers took at most."""
        return quantile([one["seconds"] for one in self.sent], share)

    def statuses(self) -> dict[str, int]:
        """How many there are of each."""
        return dict(sorted(Counter(str(one["status"]) for one in self.sent).items()))


def quantile(values: Sequence[float], share: float) -> float:
    """The value below which so many are."""
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, int(share * len(ordered)))] if ordered else float("nan")


def begin_load(port: int, path: str, bodies: Sequence[bytes], **plan: Any) -> subprocess.Popen[bytes]:
    """A generator that is running."""
    process = subprocess.Popen(
        [sys.executable, str(ROOT / "bench" / "load.py")], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    )
    assert process.stdin is not None
    process.stdin.write(orjson.dumps({"port": port, "path": path, "bodies": [b.decode() for b in bodies], **plan}))
    process.stdin.close()
    process.stdin = None
    return process


def end_load(process: subprocess.Popen[bytes]) -> Load:
    """What it saw, when it is done."""
    found = orjson.loads(process.communicate()[0])
    sent = found["sent"]
    ends = [one["began"] + one["seconds"] for one in sent] or [1.0]
    return Load(sent=sent, broken=found["broken"], seconds=max(ends) - min([one["began"] for one in sent] or [0.0]))


def load(port: int, path: str, bodies: Sequence[bytes], **plan: Any) -> Load:
    """Such a load from begin to end."""
    return end_load(begin_load(port, path, bodies, **plan))


class Direct:
    """The same work without a server: an index and a rater, opened."""

    def __init__(self, home: Path, index: str, rater: str) -> None:
        self.index = open_index(Settings(home=home), index)
        self.rater = open_rater(Settings(home=home), rater)

    def answer(self, items: Sequence[dict[str, Any]]) -> Any:
        """Scores as JSON, there and back."""
        settings = AugmentSettings()
        read = [item_of(one, fallback_id="") for one in items]
        found = [one.item for one in augment(read, self.index, self.rater, settings)]
        said = provenance(self.index, self.rater, settings)
        details = provenance_details(self.index, settings)
        scored = evaluate(found, [build("upsilon-bleu")], ScoreSettings(draws=0), provenance=said, details=details)
        return orjson.loads(orjson.dumps(scored.as_json()))

    def close(self) -> None:
        """Let the index go."""
        self.index.close()


# ── a batch over HTTP, and in process ─────────────────────────────────────────────────────────────────────────────


def batch(given: Given, home: Path) -> dict[str, Any]:
    """The same 100 items both ways, in turn; other items in every run, so that nothing is remembered of them."""
    runs = [items_of(given.data, 100, first=1_000 + 300 * run) for run in range(BATCH_RUNS + 2)]
    direct = Direct(home, NAME, NAME)
    ratios, ours, theirs, furthest = list[float](), list[float](), list[float](), 0.0
    with server(home) as (_, port):
        for number, items in enumerate(runs):
            body = scores_body(items)

            def over_http(body: bytes = body) -> Any:
                return ask("POST", port, "/v1/scores", body)[1]

            def in_process(items: Any = items) -> Any:
                return direct.answer(items)

            order = [over_http, in_process] if number % 2 else [in_process, over_http]
            taken, answers = {}, {}
            for way in order:
                began = time.perf_counter()
                answers[way.__name__] = way()
                taken[way.__name__] = time.perf_counter() - began
            furthest = max(furthest, furthest_apart(answers["over_http"], answers["in_process"]))
            if number < 2:
                continue  # both warm
            ours.append(taken["over_http"])
            theirs.append(taken["in_process"])
            ratios.append(taken["over_http"] / taken["in_process"])
    direct.close()
    return {
        "items": 100,
        "runs": BATCH_RUNS,
        "over_http_s": median(ours),
        "in_process_s": median(theirs),
        "ratio": median(ratios),
        "ratios": [round(one, 3) for one in ratios],
        "furthest_apart": furthest,
    }


def values_of(answer: Any) -> list[float | None]:
    """The scores of the replies of the first metric and system."""
    return [one["score"] for one in next(iter(answer["scores"][0]["systems"].values()))["replies"]]


def furthest_apart(one: Any, other: Any) -> float:
    """The largest difference between two answers to the same request; infinite where one of them lacks a score."""
    pairs = list(zip(values_of(one), values_of(other), strict=True))
    if any((a is None) != (b is None) for a, b in pairs):
        return float("inf")
    return max((abs(a - b) for a, b in pairs if a is not None and b is not None), default=0.0)


# ── single items ──────────────────────────────────────────────────────────────────────────────────────────────────


def single(given: Given, home: Path) -> dict[str, Any]:
    """Single-item requests over 32 connections, ours and the naive service in turn.

    `first`: every item is a new one, in every run. `plain`: the same, and the naive service has the network read every
    text of every triplet. `again`: the same 500 items over and over, each time with another reply, as when the replies
    of one system after another are scored. All of it with one web process, as by default, and with two.
    """
    found: dict[str, Any] = {"connections": 32, "seconds_a_run": given.seconds}
    for workers in (1, 2):
        with (
            server(home, "--workers", str(workers)) as (_, port),
            naive("references", str(home), NAME, NAME) as same,  # a new one too: it would know the texts by now
            naive("plain", str(home), NAME, NAME) as plain,
        ):
            for name, other in (("first", same), ("plain", plain), ("again", same)):
                runs = _single_runs(given, name, port, other)
                key = name if workers == 1 else f"{name}_with_two_processes"
                found[key] = {**_medians(runs), "runs": runs}
                if key == "first":
                    found["mean_batch"] = _batch_sizes(port)
    return found


def _single_runs(given: Given, name: str, port: int, other: int) -> list[dict[str, Any]]:
    """Both services in turn; a first run of each is not counted."""
    runs, plan = [], {"connections": 32, "seconds": given.seconds}
    for number in range(RUNS + 1):
        bodies = _single_bodies(given.data, name, number)
        if number % 2:
            ours, theirs = load(port, "/v1/scores", bodies, **plan), load(other, "/scores", bodies, **plan)
        else:
            theirs, ours = load(other, "/scores", bodies, **plan), load(port, "/v1/scores", bodies, **plan)
        if number:
            runs.append(_beside(ours, theirs))
    return runs


_NEW_A_RUN = 6_000  # more than are asked for in a run


def _single_bodies(data: Path, name: str, number: int) -> list[bytes]:
    if name != "again":
        first = _NEW_A_RUN * number + (3_500 if name == "plain" else 0)
        return [scores_body([one]) for one in items_of(data, _NEW_A_RUN, first=first)]
    items = items_of(data, 500, first=50_000)
    replies = [one["replies"]["model"] for one in items_of(data, _NEW_A_RUN, first=_NEW_A_RUN * (number % 4))]
    return [
        scores_body([{**items[place % len(items)], "replies": {"model": reply}}]) for place, reply in enumerate(replies)
    ]


def _beside(ours: Load, theirs: Load) -> dict[str, Any]:
    return {
        "ours_per_s": round(ours.per_second, 1),
        "naive_per_s": round(theirs.per_second, 1),
        "throughput_ratio": round(ours.per_second / theirs.per_second, 3),
        "ours_p95_s": round(ours.quantile(0.95), 4),
        "naive_p95_s": round(theirs.quantile(0.95), 4),
        "p95_ratio": round(ours.quantile(0.95) / theirs.quantile(0.95), 3),
        "ours_statuses": ours.statuses(),
        "naive_statuses": theirs.statuses(),
    }


def _medians(runs: Sequence[dict[str, Any]]) -> dict[str, float]:
    return {name: median([run[name] for run in runs]) for name, value in runs[0].items() if isinstance(value, float)}


def _batch_sizes(port: int) -> float:
    """Items that were searched for at once, on average, as the service itself counts them."""
    lines = str(get(port, "/metrics")[1]).splitlines()
    found = dict(line.rsplit(" ", 1) for line in lines if line.startswith("refaug_batch_items_"))
    total, count = (float(found[f'refaug_batch_items_{what}{{stage="search"}}']) for what in ("sum", "count"))
    return round(total / count, 2)


# ── frozen sets ───────────────────────────────────────────────────────────────────────────────────────────────────


def sets(given: Given, home: Path) -> dict[str, Any]:
    """Batches of 64 replies to a frozen set of 1,000 items, over four connections, beside sacrebleu behind a route."""
    items = items_of(given.data, 1_000)
    others = [one["replies"]["model"] for one in items_of(given.data, 20_000, first=2_000)]
    runs = []
    with server(home, "--freeze-at-once", "1000", "--timeout-s", "600") as (_, port):
        body = orjson.dumps({"items": [_without_replies(one) for one in items], "purpose": "validation"})
        status, frozen = ask("POST", port, "/v1/reference-sets", body, timeout=600)
        assert status in (200, 201), frozen
        name = frozen["id"]
        path = f"/v1/reference-sets/{name}/scores"
        with tempfile.TemporaryDirectory(dir=given.scratch) as folder:
            stored = Path(folder) / "references.json"
            stored.write_bytes(orjson.dumps(_texts_of(port, name)))
            with naive("sacrebleu", str(stored)) as other:
                for number in range(RUNS + 1):
                    bodies = _set_bodies(items, others, first=number * 3_000)
                    plan = {"connections": 4, "seconds": given.seconds}
                    theirs = load(other, "/scores", [_plain(body) for body in bodies], **plan)
                    ours = load(port, path, bodies, **plan)
                    if number:
                        runs.append(_beside(ours, theirs))
    for run in runs:
        run["ours_replies_per_s"] = round(64 * run["ours_per_s"], 1)
        run["naive_replies_per_s"] = round(64 * run["naive_per_s"], 1)
    return {"items": len(items), "batch": 64, "connections": 4, **_medians(runs), "runs": runs}


def _without_replies(item: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in item.items() if name != "replies"}


def _texts_of(port: int, name: str) -> dict[str, list[str]]:
    """The texts of a set's references, as a naive service would keep them."""
    request = urllib.request.Request(f"http://127.0.0.1:{port}/v1/reference-sets/{name}/download?format=jsonl")
    with urllib.request.urlopen(request, timeout=120) as answer:
        lines = answer.read().splitlines()
    rows = [orjson.loads(line) for line in lines[1:]]
    return {row["id"]: [one["text"] for one in row["references"]] for row in rows}


def _set_bodies(items: Sequence[dict[str, Any]], others: Sequence[str], first: int) -> list[bytes]:
    """Requests of 64 replies each, all different."""
    bodies = []
    for number in range(40):
        places = [(first + number * 64 + n) for n in range(64)]
        replies = [others[place % len(others)] for place in places]
        ids = [items[place % len(items)]["id"] for place in places]
        body = {"items": ids, "replies": {"model": replies}, "metrics": ["upsilon-bleu"], "return": "values"}
        bodies.append(orjson.dumps(body))
    return bodies


def _plain(body: bytes) -> bytes:
    return orjson.dumps({name: value for name, value in orjson.loads(body).items() if name in ("items", "replies")})


# ── publishing under load ─────────────────────────────────────────────────────────────────────────────────────────


@dataclass(frozen=True)
class Published:
    """When a version was asked for, when the 200 came, and what it was."""

    kind: str
    version: str
    asked: float
    answered: float
    status: int


def known_answers(home: Path, items: Sequence[dict[str, Any]]) -> dict[tuple[str, str], list[float | None]]:
    """What every pair of versions says of the items, found in process: {(index, rater): scores}."""
    found = {}
    for one in ("2026-01-01.1", "2026-01-01.2"):
        for other in ("2026-01-01.1", "2026-01-01.2"):
            direct = Direct(home, f"{NAME}@{one}", f"{NAME}@{other}")
            found[one, other] = values_of(direct.answer(items))
            direct.close()
    return found


def mixed(given: Given, home: Path) -> dict[str, Any]:
    """Single items, batches and pinned requests while an index is published every 20 s and a rater every 45 s."""
    items = items_of(given.data, 64)
    known = known_answers(home, items)
    distinct = sum(
        1 for place in range(len(items)) if len({round(scores[place] or 0.0, 6) for scores in known.values()}) > 1
    )
    groups = [[place] for place in range(len(items))] + [list(range(at, at + 8)) for at in range(0, 64, 8)]
    bodies = [scores_body([items[place] for place in group]) for group in groups]
    with server(home) as (process, port):
        load(port, "/v1/scores", bodies, connections=4, seconds=5)  # warm
        quiet = load(port, "/v1/scores", bodies, connections=4, seconds=min(30.0, given.seconds))
        memory, published = list[tuple[float, float]](), list[Published]()
        done = threading.Event()
        threads = [
            threading.Thread(target=_sample, args=(process.pid, memory, done)),
            threading.Thread(target=_publish, args=(port, "indexes", 20.0, published, done)),
            threading.Thread(target=_publish, args=(port, "raters", 45.0, published, done)),
        ]
        running = begin_load(port, "/v1/scores", bodies, connections=4, seconds=given.seconds, keep_values=True)
        for thread in threads:
            thread.start()
        found = end_load(running)
        done.set()
        for thread in threads:
            thread.join()
    wrong = _wrong(found, groups, known, published)
    during = [one["seconds"] for one in found.sent if _is_during(one, published)]
    without = [one["seconds"] for one in found.sent if not _is_during(one, published)]
    third = len(memory) // 3
    first, last = (statistics.median(size for _, size in part) for part in (memory[third : 2 * third], memory[-third:]))
    return {
        "seconds": given.seconds,
        "requests": len(found.sent),
        "statuses": found.statuses(),
        "failed": found.broken + sum(1 for one in found.sent if one["status"] != 200),
        "wrong": wrong,
        "items_whose_answers_differ": distinct,
        "publishes": len(published),
        "publishes_answered_200": sum(1 for one in published if one.status == 200),
        "publish_s": median([one.answered - one.asked for one in published]),
        "p99_during_s": round(quantile(during, 0.99), 4),
        "p99_without_s": round(quantile(without, 0.99), 4),
        "p99_quiet_s": round(quiet.quantile(0.99), 4),
        "p99_ratio": round(quantile(during, 0.99) / quantile(without, 0.99), 3),
        "p99_over_quiet": round(quantile(during, 0.99) / quiet.quantile(0.99), 3),
        "memory_second_third_mib": round(first / 2**20),
        "memory_last_third_mib": round(last / 2**20),
        "memory_growth": round(last / first, 3),
    }


def _sample(pid: int, memory: list[tuple[float, float]], done: threading.Event) -> None:
    while not done.wait(1.0):
        memory.append((time.time(), sum(pss_of(one) for one in tree_of(pid))))


def _publish(port: int, kind: str, every: float, published: list[Published], done: threading.Event) -> None:
    number = 1
    while not done.wait(every):
        number = 3 - number
        version = f"2026-01-01.{number}"
        asked = time.time()
        status, _ = ask("PUT", port, f"/v1/{kind}/{NAME}/current", orjson.dumps({"version": version}))
        published.append(Published(kind, version, asked, time.time(), status))


def _is_during(sent: dict[str, Any], published: Sequence[Published]) -> bool:
    ended = sent["began"] + sent["seconds"]
    return any(sent["began"] <= one.answered + 1.0 and ended >= one.asked for one in published)


def _wrong(
    found: Load,
    groups: Sequence[Sequence[int]],
    known: dict[tuple[str, str], list[float | None]],
    published: Sequence[Published],
) -> dict[str, int]:
    """Answers that the versions beside them did not make, and answers of an older version than was promised."""
    wrong = Counter[str]()
    for one in found.sent:
        if one["status"] != 200:
            continue
        said = one["answer"]["versions"]
        index, rater = (said[kind].partition("@")[2].partition("#")[0] for kind in ("index", "rater"))
        expected = [known[index, rater][place] for place in groups[one["body"]]]
        if any(not _same(a, b) for a, b in zip(one["answer"]["values"], expected, strict=True)):
            wrong["not_made_by_the_version_named"] += 1
        for kind, version in (("indexes", index), ("raters", rater)):
            before = [p for p in published if p.kind == kind and p.status == 200 and p.answered < one["began"]]
            after = {p.version for p in published if p.kind == kind and p.answered >= one["began"]}
            due = before[-1].version if before else "2026-01-01.1"
            later = any(
                p.kind == kind and p.asked < one["began"] + one["seconds"] and p.answered >= one["began"]
                for p in published
            )
            if version != due and not (later and version in after):
                wrong["older_than_promised"] += 1
    return {
        "not_made_by_the_version_named": wrong["not_made_by_the_version_named"],
        "older_than_promised": wrong["older_than_promised"],
    }


def _same(one: float | None, other: float | None) -> bool:
    return one is other if one is None or other is None else abs(one - other) <= NEAR


# ── overload, cold start ──────────────────────────────────────────────────────────────────────────────────────────


def overload(given: Given, home: Path) -> dict[str, Any]:
    """Ten times the requests a second that were answered before, for 30 s; no item comes twice.

    Requests are of 64 items, so that the load, which shares the cores, can be made without much of them.
    """
    bodies = new_bodies(given.data)
    with server(home) as (process, port):
        load(port, "/v1/scores", list(islice(bodies, 200)), connections=8, seconds=5)
        alone_s = max(_took(port, body) for body in islice(bodies, 5))
        usual = load(port, "/v1/scores", list(islice(bodies, 400)), connections=8, seconds=10)
        memory, done = list[tuple[float, float]](), threading.Event()
        sampler = threading.Thread(target=_sample, args=(process.pid, memory, done))
        sampler.start()
        before = sum(pss_of(one) for one in tree_of(process.pid))
        rate = 10 * usual.per_second
        asked = list(islice(bodies, ceil(30 * rate)))
        found = load(port, "/v1/scores", asked, connections=400, seconds=30.0, rate=rate)
        again = _recovered(port, bodies, 2 * alone_s, time.time())
        done.set()
        sampler.join()
    peak = max(size for _, size in memory)
    allowed = {"200", "429", "503"}
    asked_per_s = len(found.sent) / 30.0
    return {
        "items_a_request": OVERLOAD_ITEMS,
        "usual_per_s": round(usual.per_second, 1),
        "asked_per_s": round(asked_per_s, 1),
        "times_usual": round(asked_per_s / usual.per_second, 1),
        "answered_200_per_s": round(found.per_second, 1),
        "statuses": found.statuses(),
        "unanswered": found.broken,
        "other_statuses": sum(count for status, count in found.statuses().items() if status not in allowed),
        "p99_s": round(found.quantile(0.99), 3),
        "memory_before_mib": round(before / 2**20),
        "memory_peak_mib": round(peak / 2**20),
        "memory_peak_ratio": round(peak / before, 3),
        "alone_s": round(alone_s, 3),
        "recovered_after_s": again,
    }


def new_bodies(data: Path) -> Iterator[bytes]:
    """Requests without end, each of items that no other has."""
    known = items_of(data, 8_000)
    for number in count():
        at = number * OVERLOAD_ITEMS
        some = [known[(at + n) % len(known)] for n in range(OVERLOAD_ITEMS)]
        yield scores_body([{**one, "utterance": f"{one['utterance']} {number}"} for one in some])


def _took(port: int, body: bytes) -> float:
    began = time.time()
    status, _ = ask("POST", port, "/v1/scores", body)
    return time.time() - began if status == 200 else inf


def _recovered(port: int, bodies: Iterator[bytes], usual_s: float, since: float) -> float | None:
    """Seconds until three answers in a row are as quick as before."""
    good = 0
    while time.time() < since + 60:
        good = good + 1 if _took(port, next(bodies)) < usual_s else 0
        if good == 3:
            return round(time.time() - since, 2)
    return None


def cold(given: Given, home: Path) -> dict[str, Any]:
    """Two web processes that open the index at once, after the system has forgotten its files as far as it will."""
    del given
    for path in home.rglob("*"):
        if path.is_file():
            handle = os.open(path, os.O_RDONLY)
            os.posix_fadvise(handle, 0, 0, os.POSIX_FADV_DONTNEED)
            os.close(handle)
    began = time.time()
    with server(home, "--workers", "2") as (_, port):
        ready = time.time() - began
        time.sleep(5)
        _, index = get(port, f"/v1/indexes/{NAME}")
    said = (home / "serve.log").read_text("utf-8", "replace")
    return {
        "index": index,
        "web_processes": 2,
        "ready_after_s": round(ready, 2),
        "restarts": said.count('"web process started"') - 2,
    }


PARTS = {"batch": batch, "single": single, "sets": sets, "mixed": mixed, "overload": overload, "cold": cold}


def main() -> None:
    """Run the parts that were asked for."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("parts", nargs="*", metavar="PART", help=", ".join(PARTS))
    parser.add_argument("--home", type=Path, required=True, help="home with index and rater")
    parser.add_argument("--scratch", type=Path, help="folder for the benchmark's own home, on the same disk")
    parser.add_argument("--data", type=Path, default=ROOT.parent / "shared" / "data")
    parser.add_argument("--index", default="medium")
    parser.add_argument("--other-index", default="medium-less")
    parser.add_argument("--rater", default="medium")
    parser.add_argument("--other-rater", default="medium-less")
    parser.add_argument("--seconds", type=float, help="of a run; 10, for mixed 600")
    chosen = parser.parse_args()
    if unknown := [part for part in chosen.parts if part not in PARTS]:
        parser.error(f"no part is called {unknown[0]}: {', '.join(PARTS)}")
    scratch = chosen.scratch or chosen.home
    for part in chosen.parts or PARTS:
        given = Given(
            home=chosen.home,
            scratch=scratch,
            data=chosen.data,
            index=chosen.index,
            rater=chosen.rater,
            other_index=chosen.other_index,
            other_rater=chosen.other_rater,
            seconds=chosen.seconds or (600.0 if part == "mixed" else 10.0),
        )
        with tempfile.TemporaryDirectory(prefix="bench-service-", dir=scratch) as folder:
            home = linked_home(given, Path(folder), both=part == "mixed")
            figures = PARTS[part](given, home)
        made = {"index": given.index, "rater": given.rater}
        print(part, json.dumps(figures, indent=2))
        write_result(f"service_{part}", {**made, **figures}, PACKAGES)


if __name__ == "__main__":
    main()
