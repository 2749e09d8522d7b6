"""A server whose disk is full: requests are answered, no process dies, and with room it is ready again."""

from __future__ import annotations

import shutil
from contextlib import suppress
from pathlib import Path
from typing import Any

import httpx2
import pytest
from disks import fill, small_disk
from servers import Served, served

ITEM = {"id": "d1", "utterance": "where is my tea", "references": ["the tea is here"], "replies": {"a": "it is here"}}
PATHS = (
    "/healthz", "/readyz", "/metrics", "/v1/metrics", "/v1/artefacts/index", "/v1/artefacts/rater", "/v1/logs",
    "/v1/jobs", "/v1/schedules", "/v1/reference-sets", "/v1/artefacts/index/chat", "/v1/artefacts/rater/chat",
    "/v1/logs/chat", "/openapi.json",
)  # fmt: skip


def request_everything(service: Served) -> dict[str, int]:
    """One request of each kind, each of which has new figures to count: what was answered."""
    statuses = {path: service.client.get(path).status_code for path in PATHS}
    for metric in ("bleu", "upsilon-bleu", "chrf"):
        order: dict[str, Any] = {"items": [ITEM], "metrics": [metric]}
        statuses[metric] = service.client.post("/v1/scores", json=order).status_code
    for method in ("PUT", "PATCH", "DELETE", "BREW"):
        for path in PATHS:
            statuses[f"{method} {path}"] = service.client.request(method, path).status_code
    return statuses


@pytest.mark.machine
@pytest.mark.slow
@pytest.mark.parametrize("workers", [pytest.param(1, marks=pytest.mark.faults), 2])
def test_a_full_disk_ends_no_process_and_keeps_no_request_from_its_answer(
    with_all: Path, tmp_path: Path, workers: int
) -> None:
    size = sum(path.stat().st_size for path in with_all.rglob("*") if path.is_file())
    with small_disk(f"size={(size >> 10) + 4_096}k") as home:
        shutil.copytree(with_all, home, dirs_exist_ok=True)
        with served(home, "--workers", str(workers), "--default-index", "chat", "--default-rater", "tiny") as service:
            check_answers(service, home, workers)


def check_answers(service: Served, disk: Path, workers: int) -> None:
    """The same requests before, with a full disk, with a process that starts on it, and with room again."""
    web = set(service.children()["web"])
    assert len(web) == workers
    filler = fill(disk)
    answered = request_everything(service)
    fine = ("/healthz", "/metrics", "bleu", "upsilon-bleu", "/v1/artefacts/index")
    assert {path: answered[path] for path in fine} == dict.fromkeys(fine, 200)
    assert max(answered.values()) < 508
    assert set(service.children()["web"]) == web
    figures = service.client.get("/metrics").text
    assert 'refaug_requests_total{method="POST",route="/v1/scores",status="200"} 3.0' in figures
    service.kill("web")
    service.until(lambda: scored(service), "processes that start on a full disk")
    assert not set(service.children()["web"]) & web
    filler.unlink()
    service.until(lambda: service.client.get("/readyz").status_code == 200, "the service to be ready with room")
    figures = service.client.get("/metrics").text
    count = next(line for line in figures.splitlines() if 'method="POST",route="/v1/scores",status="200"' in line)
    assert float(count.split()[-1]) >= 4  # those that the killed processes counted, too


def scored(service: Served) -> bool:
    """Whether a request for scores is answered."""
    with suppress(httpx2.TransportError):
        answer = service.client.post("/v1/scores", json={"items": [ITEM], "metrics": ["bleu"]})
        return bool(answer.status_code == 200)
    return False
