"""The service beside straightforward ones, and under load.

    python bench/bench_service.py batch --home HOME …      100 test pairs over HTTP beside the same work in process
    python bench/bench_service.py single --home HOME …     single items over 32 connections, beside a naive service,
                                                           and beside that of an earlier commit with --before TREE
    python bench/bench_service.py sets --home HOME …       batches of 64 replies to a frozen set, beside sacrebleu
    python bench/bench_service.py mixed --home HOME …      load while indexes and raters are published
    python bench/bench_service.py nightly --home HOME …    a nightly job beside requests at 30 % of capacity
    python bench/bench_service.py overload --home HOME …   ten times the possible load
    python bench/bench_service.py cold --home HOME …       two web processes opening a large index

`--home` holds an index and a rater, and for `mixed` another of each whose answers differ: `--index`, `--other-index`,
`--rater`, `--other-rater` name them. They are linked into a separate home under `--scratch`, on the same disk. Texts
come from `--data FOLDER` (logs/dailydialog_en.jsonl.gz), which all parts but `cold` need. Results go to
bench/results/service_<part>.json. The load comes from a separate process (bench/load.py), over 127.0.0.1 only.
"""

from __future__ import annotations

import os

os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")  # as the service sets it, for the work in this process as well

import argparse
import json
import subprocess
import sys
import tempfile
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from itertools import count, islice
from math import ceil, inf
from pathlib import Path
from typing import Any

import orjson
from common import add_data_option, commit_of, median, pss_of, require_data, tree_of, write_result
from service_load import (
    NAME,
    Direct,
    Load,
    Running,
    ServiceWorkload,
    ask,
    get,
    items_of,
    link_home,
    load,
    load_server,
    naive_service,
    sample_memory,
    scores_body,
    server,
    values_of,
)
from service_nightly import nightly
from service_publishing import mixed

PACKAGES = ("refaug", "fastapi", "uvicorn", "torch", "faiss-cpu", "numba", "sacrebleu")
RUNS = 5
OVERLOAD_ITEMS = 64
BATCH_RUNS = 31  # of less than a second each: single ones differ by half


# ── a batch over HTTP, and in process ─────────────────────────────────────────────────────────────────────────────


def batch(settings: ServiceWorkload, home: Path) -> dict[str, Any]:
    """Measure the same 100 items both ways, in turn; items differ from run to run, so that no cache has them."""
    runs = [items_of(settings.data, 100, first=1_000 + 300 * run) for run in range(BATCH_RUNS + 2)]
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
            seconds, answers = {}, {}
            for way in order:
                began = time.perf_counter()
                answers[way.__name__] = way()
                seconds[way.__name__] = time.perf_counter() - began
            furthest = max(furthest, furthest_apart(answers["over_http"], answers["in_process"]))
            if number < 2:
                continue  # both warm
            ours.append(seconds["over_http"])
            theirs.append(seconds["in_process"])
            ratios.append(seconds["over_http"] / seconds["in_process"])
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


def furthest_apart(answer: Any, other_answer: Any) -> float:
    """Return the largest difference between two answers to the same request; infinite where a score is missing."""
    pairs = list(zip(values_of(answer), values_of(other_answer), strict=True))
    if any((a is None) != (b is None) for a, b in pairs):
        return float("inf")
    return max((abs(a - b) for a, b in pairs if a is not None and b is not None), default=0.0)


# ── single items ──────────────────────────────────────────────────────────────────────────────────────────────────


def single(settings: ServiceWorkload, home: Path) -> dict[str, Any]:
    """Measure single-item requests over 32 connections, ours and the naive service in turn.

    `first`: every item is a new one, in every run. `plain`: the same, and the naive service has the network read every
    text of every triplet. `again`: the same 500 items over and over, each time with another reply, as when the replies
    of one system after another are scored. `before`: new items, beside the naive service of an earlier commit. All of
    it with one web process, as by default, and with two. Our service has what the rater reads of the index; the naive
    ones have a home without.
    """
    figures: dict[str, Any] = {"connections": 32, "seconds_a_run": settings.seconds}
    if settings.before is not None:
        figures["commit_before"] = commit_of(settings.before)
    naive_home = str(link_home(settings, home / "naive", both=False))
    encode = ["index", "encode", NAME, "--rater", NAME, "--threads", "1"]
    subprocess.run([sys.executable, "-m", "refaug", "--home", str(home), *encode], check=True)
    for workers in (1, 2):
        with ExitStack() as stack:
            ours = stack.enter_context(server(home, "--workers", str(workers)))
            # new ones for each server: they would have the texts in their caches
            with_references, plain = (
                stack.enter_context(naive_service(kind, naive_home, NAME, NAME)) for kind in ("references", "plain")
            )
            others = {"first": with_references}
            if settings.before is not None:
                earlier = naive_service("references", naive_home, NAME, NAME, tree=settings.before)
                others["before"] = stack.enter_context(earlier)
            others |= {"plain": plain, "again": with_references}
            for name, other in others.items():
                runs = _single_runs(settings, name, ours, other)
                key = name if workers == 1 else f"{name}_with_two_processes"
                figures[key] = {**_medians(runs), "runs": runs}
                if key == "first":
                    figures["mean_batch"] = _batch_sizes(ours[1])
    return figures


def _single_runs(settings: ServiceWorkload, name: str, server: Running, naive: Running) -> list[dict[str, Any]]:
    """Measure both services in turn, without the first run of each."""
    runs, plan = [], {"connections": 32, "seconds": settings.seconds}
    for number in range(RUNS + 1):
        bodies = _single_bodies(settings.data, name, number)
        services, order = [(server, "/v1/scores"), (naive, "/scores")], 1 if number % 2 else -1
        loads = [load_server(service, path, bodies, **plan) for service, path in services[::order]]
        ours, theirs = loads[::order]
        if set(theirs.statuses()) != {"200"}:
            sys.exit(f"the naive service answered {theirs.statuses()}")
        if number:
            runs.append(_compare(ours, theirs))
    return runs


_NEW_A_RUN = 6_000  # more than are asked for in the runs of a number, of 3 s each
_FIRST_OF_RUN = {"first": 0, "plain": 2_000, "before": 4_000}


def _single_bodies(data_folder: Path, name: str, number: int) -> list[bytes]:
    if name in _FIRST_OF_RUN:
        first = _NEW_A_RUN * number + _FIRST_OF_RUN[name]
        return [scores_body([one]) for one in items_of(data_folder, _NEW_A_RUN, first=first)]
    items = items_of(data_folder, 500, first=50_000)
    replies = [one["replies"]["model"] for one in items_of(data_folder, _NEW_A_RUN, first=_NEW_A_RUN * (number % 4))]
    return [
        scores_body([{**items[place % len(items)], "replies": {"model": reply}}]) for place, reply in enumerate(replies)
    ]


def _compare(ours: Load, theirs: Load) -> dict[str, Any]:
    return {
        "ours_per_s": round(ours.per_second, 1),
        "naive_per_s": round(theirs.per_second, 1),
        "throughput_ratio": round(ours.per_second / theirs.per_second, 3),
        "ours_p95_s": round(ours.quantile(0.95), 4),
        "naive_p95_s": round(theirs.quantile(0.95), 4),
        "p95_ratio": round(ours.quantile(0.95) / theirs.quantile(0.95), 3),
        "ours_processor_ms": round(ours.processor_ms, 3),
        "naive_processor_ms": round(theirs.processor_ms, 3),
        "processor_ratio": round(theirs.processor_ms / ours.processor_ms, 3),
        "ours_statuses": ours.statuses(),
        "naive_statuses": theirs.statuses(),
    }


def _medians(runs: Sequence[dict[str, Any]]) -> dict[str, float]:
    return {name: median([run[name] for run in runs]) for name, value in runs[0].items() if isinstance(value, float)}


def _batch_sizes(port: int) -> float:
    """Return the mean number of items of a search, as the service itself counts them."""
    lines = str(get(port, "/metrics")[1]).splitlines()
    samples = dict(line.rsplit(" ", 1) for line in lines if line.startswith("refaug_batch_items_"))
    total, count = (float(samples[f'refaug_batch_items_{what}{{stage="search"}}']) for what in ("sum", "count"))
    return round(total / count, 2)


# ── frozen sets ───────────────────────────────────────────────────────────────────────────────────────────────────


def sets(settings: ServiceWorkload, home: Path) -> dict[str, Any]:
    """Measure batches of 64 replies to a frozen set of 1,000 items, over four connections, beside sacrebleu."""
    items = items_of(settings.data, 1_000)
    other_replies = [one["replies"]["model"] for one in items_of(settings.data, 20_000, first=2_000)]
    runs = []
    with server(home, "--freeze-at-once", "1000", "--timeout-s", "600") as (process, port):
        body = orjson.dumps({"items": [_without_replies(one) for one in items], "purpose": "validation"})
        status, frozen = ask("POST", port, "/v1/reference-sets", body, timeout=600)
        assert status in (200, 201), frozen
        name = frozen["id"]
        path = f"/v1/reference-sets/{name}/scores"
        with tempfile.TemporaryDirectory(dir=settings.scratch) as folder:
            stored = Path(folder) / "references.json"
            stored.write_bytes(orjson.dumps(_texts_of(port, name)))
            with naive_service("sacrebleu", str(stored)) as naive:
                for number in range(RUNS + 1):
                    bodies = _set_bodies(items, other_replies, first=number * 3_000)
                    plan = {"connections": 4, "seconds": settings.seconds}
                    theirs = load_server(naive, "/scores", [_plain_body(body) for body in bodies], **plan)
                    ours = load_server((process, port), path, bodies, **plan)
                    if number:
                        runs.append(_compare(ours, theirs))
    for run in runs:
        run["ours_replies_per_s"] = round(64 * run["ours_per_s"], 1)
        run["naive_replies_per_s"] = round(64 * run["naive_per_s"], 1)
    return {"items": len(items), "batch": 64, "connections": 4, **_medians(runs), "runs": runs}


def _without_replies(test_item: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in test_item.items() if name != "replies"}


def _texts_of(port: int, name: str) -> dict[str, list[str]]:
    """Return the texts of a set's references, as a naive service would store them."""
    request = urllib.request.Request(f"http://127.0.0.1:{port}/v1/reference-sets/{name}/download?format=jsonl")
    with urllib.request.urlopen(request, timeout=120) as answer:
        lines = answer.read().splitlines()
    rows = [orjson.loads(line) for line in lines[1:]]
    return {row["id"]: [one["text"] for one in row["references"]] for row in rows}


def _set_bodies(items: Sequence[dict[str, Any]], other_replies: Sequence[str], first: int) -> list[bytes]:
    """Return requests of 64 replies each, all different."""
    bodies = []
    for number in range(40):
        places = [(first + number * 64 + n) for n in range(64)]
        replies = [other_replies[place % len(other_replies)] for place in places]
        ids = [items[place % len(items)]["id"] for place in places]
        body = {"items": ids, "replies": {"model": replies}, "metrics": ["upsilon-bleu"], "return": "values"}
        bodies.append(orjson.dumps(body))
    return bodies


def _plain_body(body: bytes) -> bytes:
    return orjson.dumps({name: value for name, value in orjson.loads(body).items() if name in ("items", "replies")})


# ── overload, cold start ──────────────────────────────────────────────────────────────────────────────────────────


def overload(settings: ServiceWorkload, home: Path) -> dict[str, Any]:
    """Send ten times the requests a second that were answered before, for 30 s; no item comes twice.

    Requests are of 64 items, so that the load, which shares the cores, takes little of them.
    """
    bodies = new_bodies(settings.data)
    with server(home) as (process, port):
        load(port, "/v1/scores", list(islice(bodies, 200)), connections=8, seconds=5)
        alone_s = max(_request_seconds(port, body) for body in islice(bodies, 5))
        usual = load(port, "/v1/scores", list(islice(bodies, 400)), connections=8, seconds=10)
        memory, done = list[tuple[float, float]](), threading.Event()
        sampler = threading.Thread(target=sample_memory, args=(process.pid, memory, done))
        sampler.start()
        before = sum(pss_of(one) for one in tree_of(process.pid))
        rate = 10 * usual.per_second
        requests = list(islice(bodies, ceil(30 * rate)))
        answered = load(port, "/v1/scores", requests, connections=400, seconds=30.0, rate=rate)
        again = _recovery_seconds(port, bodies, 2 * alone_s, time.time())
        done.set()
        sampler.join()
    peak = max(size for _, size in memory)
    allowed = {"200", "429", "503"}
    asked_per_s = len(answered.sent) / 30.0
    return {
        "items_a_request": OVERLOAD_ITEMS,
        "usual_per_s": round(usual.per_second, 1),
        "asked_per_s": round(asked_per_s, 1),
        "times_usual": round(asked_per_s / usual.per_second, 1),
        "answered_200_per_s": round(answered.per_second, 1),
        "statuses": answered.statuses(),
        "unanswered": answered.broken,
        "other_statuses": sum(count for status, count in answered.statuses().items() if status not in allowed),
        "p99_s": round(answered.quantile(0.99), 3),
        "memory_before_mib": round(before / 2**20),
        "memory_peak_mib": round(peak / 2**20),
        "memory_peak_ratio": round(peak / before, 3),
        "alone_s": round(alone_s, 3),
        "recovered_after_s": again,
    }


def new_bodies(data_folder: Path) -> Iterator[bytes]:
    """Yield requests without end, each of items that no other has."""
    test_items = items_of(data_folder, 8_000)
    for number in count():
        at = number * OVERLOAD_ITEMS
        batch_items = [test_items[(at + n) % len(test_items)] for n in range(OVERLOAD_ITEMS)]
        yield scores_body([{**one, "utterance": f"{one['utterance']} {number}"} for one in batch_items])


def _request_seconds(port: int, body: bytes) -> float:
    began = time.time()
    status, _ = ask("POST", port, "/v1/scores", body)
    return time.time() - began if status == 200 else inf


def _recovery_seconds(port: int, bodies: Iterator[bytes], usual_s: float, since: float) -> float | None:
    """Return the seconds until three answers in a row are as fast as before."""
    good = 0
    while time.time() < since + 60:
        good = good + 1 if _request_seconds(port, next(bodies)) < usual_s else 0
        if good == 3:
            return round(time.time() - since, 2)
    return None


def cold(settings: ServiceWorkload, home: Path) -> dict[str, Any]:
    """Open the index in two web processes at once, after the system has dropped its files from the page cache."""
    del settings
    for path in home.rglob("*"):
        if path.is_file():
            handle = os.open(path, os.O_RDONLY)
            os.posix_fadvise(handle, 0, 0, os.POSIX_FADV_DONTNEED)
            os.close(handle)
    began = time.time()
    with server(home, "--workers", "2") as (_, port):
        ready = time.time() - began
        time.sleep(5)
        _, index = get(port, f"/v1/artefacts/index/{NAME}")
    log = (home / "serve.log").read_text("utf-8", "replace")
    return {
        "index": index,
        "web_processes": 2,
        "ready_after_s": round(ready, 2),
        "restarts": log.count('"web process started"') - 2,
    }


PARTS = {
    "batch": batch,
    "single": single,
    "sets": sets,
    "mixed": mixed,
    "nightly": nightly,
    "overload": overload,
    "cold": cold,
}


def main() -> None:
    """Run the parts that were named."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("parts", nargs="*", metavar="PART", help=", ".join(PARTS))
    parser.add_argument("--home", type=Path, required=True, help="home with index and rater")
    parser.add_argument("--scratch", type=Path, help="folder for the benchmark's own home, on the same disk")
    add_data_option(parser)
    parser.add_argument("--index", default="medium")
    parser.add_argument("--other-index", default="medium-less")
    parser.add_argument("--rater", default="medium")
    parser.add_argument("--other-rater", default="medium-less")
    parser.add_argument("--before", type=Path, help="for single: a checkout of an earlier commit, with its .venv")
    parser.add_argument("--seconds", type=float, help="of a run; 10, for mixed 600")
    arguments = parser.parse_args()
    if unknown := [part for part in arguments.parts if part not in PARTS]:
        parser.error(f"no part is called {unknown[0]}: {', '.join(PARTS)}")
    scratch = arguments.scratch or arguments.home
    needs_data = any(part != "cold" for part in arguments.parts or PARTS)
    data_folder = require_data(parser, arguments.data) if needs_data else Path()
    for part in arguments.parts or PARTS:
        settings = ServiceWorkload(
            home=arguments.home,
            scratch=scratch,
            data=data_folder,
            index=arguments.index,
            rater=arguments.rater,
            other_index=arguments.other_index,
            other_rater=arguments.other_rater,
            before=None if arguments.before is None else arguments.before.resolve(),
            seconds=arguments.seconds or (600.0 if part == "mixed" else 10.0),
        )
        with tempfile.TemporaryDirectory(prefix="bench-service-", dir=scratch) as folder:
            home = link_home(settings, Path(folder), both=part == "mixed")
            figures = PARTS[part](settings, home)
        artefacts = {"index": settings.index, "rater": settings.rater}
        print(part, json.dumps(figures, indent=2))
        write_result(f"service_{part}", {**artefacts, **figures}, PACKAGES)


if __name__ == "__main__":
    main()
