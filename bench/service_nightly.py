"""The part `nightly` of bench_service.py: a nightly job beside requests at 30 % of what the server can answer."""

from __future__ import annotations

import gzip
import json
import os
import shutil
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import orjson
from common import median, tree_of
from service_load import (
    NAME,
    Load,
    ServiceWorkload,
    ask,
    begin_load,
    end_load,
    get,
    items_of,
    link_home,
    load,
    quantile,
    scores_body,
    server,
)

SHARE = 0.3  # of the requests a second that the server answers at most
CONNECTIONS = 32
RUNS = 5
DIALOGUES = 6_000  # that come overnight
SET_ITEMS = 100
LONGEST_S = 600.0
TICKS = os.sysconf("SC_CLK_TCK")


def nightly(settings: ServiceWorkload, folder: Path) -> dict[str, Any]:
    """Measure requests alone, a job alone, and both at once, in turn; every job does the same work on a fresh home."""
    del folder  # a home for each job
    capacity = _capacity(settings)
    rate = SHARE * capacity
    runs = [_run(settings, number, rate) for number in range(RUNS)]
    figures = {name: median([run[name] for run in runs]) for name in ("p99_ratio", "job_ratio")}
    return {
        "capacity_per_s": round(capacity, 1),
        "requests_per_s": round(rate, 1),
        "dialogues": DIALOGUES,
        "set_items": SET_ITEMS,
        **figures,
        "runs": runs,
    }


def _capacity(settings: ServiceWorkload) -> float:
    """Return the single items a second that the server answers when it does nothing else."""
    home = _fresh_home(settings, "capacity")
    with server(home, "--job-worker") as (_, port):
        load(port, "/v1/scores", _bodies(settings, 0), connections=CONNECTIONS, seconds=3.0)  # warm
        answered = load(port, "/v1/scores", _bodies(settings, 1), connections=CONNECTIONS, seconds=settings.seconds)
    shutil.rmtree(home)
    return answered.per_second


def _run(settings: ServiceWorkload, number: int, rate: float) -> dict[str, Any]:
    """Measure each of the three once, on two homes."""
    with _server_with_set(settings, f"alone-{number}") as (port, order, pid):
        others, began = _busy_seconds(pid), time.time()
        bodies, plan = _bodies(settings, 2 + 3 * number), {"connections": CONNECTIONS, "rate": rate}
        load(port, "/v1/scores", bodies[-500:], **plan, seconds=3.0)
        without = load(port, "/v1/scores", bodies, **plan, seconds=settings.seconds)
        alone_s, alone = _job_seconds(port, order)
        others = (_busy_seconds(pid) - others) / (time.time() - began)
    with _server_with_set(settings, f"beside-{number}") as (port, order, _):
        bodies = _bodies(settings, 3 + 3 * number)
        load(port, "/v1/scores", bodies[-500:], **plan, seconds=3.0)
        requests = begin_load(port, "/v1/scores", bodies, **plan, seconds=3.0 * alone_s + 10.0)
        time.sleep(1.0)
        began = time.time()
        beside_s, beside = _job_seconds(port, order)
        ended = time.time()
        during = _between(end_load(requests), began, ended)
    return {
        "without_p50_ms": _ms(without, 0.5),
        "without_p99_ms": _ms(without, 0.99),
        "beside_p50_ms": _ms(during, 0.5),
        "beside_p99_ms": _ms(during, 0.99),
        "p99_ratio": round(during.quantile(0.99) / without.quantile(0.99), 3),
        "requests_beside": len(during.sent),
        "statuses_beside": during.statuses(),
        "job_alone_s": round(alone_s, 2),
        "job_beside_s": round(beside_s, 2),
        "job_ratio": round(beside_s / alone_s, 3),
        "stages_alone_s": alone["seconds_by_stage"],
        "stages_beside_s": beside["seconds_by_stage"],
        "cores_of_other_processes": round(others, 2),
        "load_average": os.getloadavg()[0],
    }


@contextmanager
def _server_with_set(settings: ServiceWorkload, name: str) -> Iterator[tuple[int, bytes, int]]:
    """Start a server over a fresh home with a frozen set; yield its port, the order of the night, and its process."""
    home = _fresh_home(settings, name)
    items = [{key: item[key] for key in ("id", "utterance", "references")} for item in _set_items(settings)]
    with server(home, "--job-worker") as (process, port):
        body = orjson.dumps({"items": items, "purpose": "validation"})
        status, frozen = ask("POST", port, "/v1/reference-sets", body, timeout=LONGEST_S)
        if status not in (200, 201):
            sys.exit(f"the set was not frozen: {frozen}")
        order = {"kind": "nightly", "log": _log_of(home), "index": NAME, "sources": ["new.jsonl"], "set": frozen["id"]}
        yield port, orjson.dumps(order), process.pid
    shutil.rmtree(home)


def _fresh_home(settings: ServiceWorkload, name: str) -> Path:
    """Make a home with the index, its rater, a log with their dialogues, and the dialogues of the night."""
    home = settings.scratch / f"nightly-{os.getpid()}-{name}"
    home.mkdir()
    link_home(settings, home, both=False)
    shutil.copytree(settings.home / "logs" / _log_of(home), home / "logs" / _log_of(home), copy_function=os.link)
    (home / "inbox").mkdir()
    with (home / "inbox" / "new.jsonl").open("wb") as file:
        file.writelines(orjson.dumps({"turns": turns}, option=orjson.OPT_APPEND_NEWLINE) for turns in _new(settings))
    return home


def _log_of(home: Path) -> str:
    """Return the log of the index, which has one."""
    manifest = json.loads((home / "indexes" / NAME / "2026-01-01.1" / "manifest.json").read_bytes())
    [log] = manifest["logs"]
    return str(log["name"])


def _new(settings: ServiceWorkload) -> Iterator[list[str]]:
    """Yield the dialogues of the night: the last ones of the texts, of which no request has any."""
    with gzip.open(settings.data / "logs" / "dailydialog_en.jsonl.gz", "rt", encoding="utf-8") as lines:
        dialogues = [json.loads(line)["turns"] for line in lines]
    yield from dialogues[-DIALOGUES:]


def _set_items(settings: ServiceWorkload) -> Sequence[dict[str, Any]]:
    return items_of(settings.data, SET_ITEMS, first=9_000)


def _bodies(settings: ServiceWorkload, number: int) -> list[bytes]:
    """Return requests of single items, of which no two runs share one."""
    texts = items_of(settings.data, 2_500)
    return [scores_body([{**item, "utterance": f"{item['utterance']} {number}"}]) for item in texts]


def _job_seconds(port: int, order: bytes) -> tuple[float, dict[str, Any]]:
    """Run the job, and return its seconds and its result."""
    status, job = ask("POST", port, "/v1/jobs", order)
    if status != 202:
        sys.exit(f"the job was not taken: {job}")
    until = time.time() + LONGEST_S
    while job["state"] in ("queued", "running") and time.time() < until:
        time.sleep(0.2)
        _, job = get(port, f"/v1/jobs/{job['id']}")
    if job["state"] != "done":
        sys.exit(f"the job did not end well: {job}")
    return sum(job["result"]["seconds_by_stage"].values()), job["result"]


def _between(answered: Load, began: float, ended: float) -> Load:
    """Return the requests that were begun while the job ran."""
    sent = [request for request in answered.sent if began <= request["began"] <= ended]
    return Load(sent=sent, broken=answered.broken, seconds=ended - began)


def _ms(answered: Load, share: float) -> float:
    return round(1_000 * quantile([request["seconds"] for request in answered.sent], share), 1)


def _busy_seconds(pid: int) -> float:
    """Return the seconds of processor that other processes have taken since the system started."""
    fields = Path("/proc/stat").read_text().splitlines()[0].split()[1:9]
    busy = sum(map(int, fields)) - int(fields[3]) - int(fields[4])
    return (busy - sum(map(_ticks_of, [*tree_of(pid), *tree_of(os.getpid())]))) / TICKS


def _ticks_of(pid: int) -> int:
    try:
        return sum(map(int, Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[11:15]))
    except OSError:
        return 0
