"""Spans of a real service, begun by `opentelemetry-instrument`, as a collector on loopback gets them."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx2
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.proto.trace.v1.trace_pb2 import Span, Status

ROOT = Path(__file__).resolve().parents[3]
SECRET = "xk4Jqz7planted"
TRACE, CALLER = "4bf92f3577b34da6a3ce929d0e0e4736", "00f067aa0ba902b7"
PATIENCE_S = 120.0


@contextmanager
def served(folder: Path, *before: str, **settings: str) -> Iterator[httpx2.Client]:
    """A client of a service with one web process and one job process; both end before the block does."""
    command = [*before, sys.executable, "-m", "refaug", "--home", str(folder / "home"), "serve", "--port", "0"]
    kept = {name: text for name, text in os.environ.items() if not name.startswith(("REFAUG_", "OTEL_"))}
    with (folder / "log").open("wb") as log:
        process = subprocess.Popen(command, cwd=ROOT, env={**kept, **settings}, stdout=log, stderr=log)
    try:
        address = until(lambda: re.search(r"http://127\.0\.0\.1:\d+", said(folder)), process, folder)[0]
        with httpx2.Client(base_url=address, timeout=60) as client:
            until(lambda: client.get("/readyz").status_code == 200, process, folder)
            yield client
        process.terminate()
        assert process.wait(PATIENCE_S) == 0, said(folder)
    finally:
        process.kill()
        process.wait()


def until(condition: Any, process: subprocess.Popen[bytes], folder: Path) -> Any:
    """What the condition gives as soon as it is true."""
    deadline = time.monotonic() + PATIENCE_S
    while not (met := condition()):
        assert process.poll() is None, said(folder)
        assert time.monotonic() < deadline, said(folder)
        time.sleep(0.05)
    return met


def said(folder: Path) -> str:
    return (folder / "log").read_text("utf-8", "replace")


def ask_for_a_score_and_a_job(client: httpx2.Client) -> str:
    """Send a request with a secret in each part, then a job that fails; return the id of the job."""
    scored = client.post(
        "/v1/scores",
        json={
            "metrics": ["chrf"],
            "items": [{"id": SECRET, "references": [f"At {SECRET}."], "replies": {SECRET: "At the shop."}}],
        },
        headers={
            "traceparent": f"00-{TRACE}-{CALLER}-01",
            "baggage": f"who={SECRET}",
            "X-Request-Id": "req-7",
            "Cookie": f"session={SECRET}",
            "User-Agent": SECRET,
        },
    )
    assert scored.status_code == 200, scored.text
    order = {"kind": "gc", "artefact": "vectors", "name": f"absent-{SECRET.lower()}"}
    job: str = client.post("/v1/jobs", json=order).json()["id"]
    deadline = time.monotonic() + PATIENCE_S
    while client.get(f"/v1/jobs/{job}", params={"why": SECRET}).json()["state"] in ("queued", "running"):
        assert time.monotonic() < deadline
    assert client.get(f"/nowhere/{SECRET}", headers={"Authorization": f"Bearer {SECRET}"}).status_code == 404
    return job


def attributes_of(message: Any) -> dict[str, Any]:
    return {pair.key: getattr(pair.value, pair.value.WhichOneof("value")) for pair in message.attributes}


def test_a_request_and_a_job_are_spans_without_texts_paths_and_keys(
    collector: tuple[str, list[bytes]], tmp_path: Path
) -> None:
    url, bodies = collector
    instrument = str(Path(sys.executable).parent / "opentelemetry-instrument")
    settings = {
        "OTEL_SERVICE_NAME": "refaug",
        "OTEL_TRACES_EXPORTER": "otlp",
        "OTEL_METRICS_EXPORTER": "none",
        "OTEL_LOGS_EXPORTER": "none",
        "OTEL_EXPORTER_OTLP_ENDPOINT": url,
        "OTEL_EXPORTER_OTLP_PROTOCOL": "http/protobuf",
        "OTEL_BSP_SCHEDULE_DELAY": "600000",  # what comes is what the processes send when they end
    }
    with served(tmp_path, instrument, **settings) as client:
        job = ask_for_a_score_and_a_job(client)

    requests = [ExportTraceServiceRequest.FromString(body) for body in bodies]
    resources = [resource for request in requests for resource in request.resource_spans]
    assert {attributes_of(one.resource)["service.name"] for one in resources} == {"refaug"}
    assert {scope.scope.name for one in resources for scope in one.scope_spans} == {"refaug"}
    spans = [span for one in resources for scope in one.scope_spans for span in scope.spans]
    named: dict[str, list[Any]] = {}
    for span in spans:
        named.setdefault(span.name, []).append(span)
    assert set(named) == {"POST /v1/scores", "POST /v1/jobs", "GET /v1/jobs/{id}", "GET", "job gc"}

    (scores,) = named["POST /v1/scores"]
    assert attributes_of(scores) == {
        "refaug.request.id": "req-7",
        "http.request.method": "POST",
        "http.route": "/v1/scores",
        "http.response.status_code": 200,
    }
    assert (scores.trace_id.hex(), scores.parent_span_id.hex(), scores.kind) == (TRACE, CALLER, Span.SPAN_KIND_SERVER)
    logged = {
        line["request"]: line
        for line in map(json.loads, filter(lambda line: line.startswith("{"), said(tmp_path).splitlines()))
        if line["event"] == "request"
    }
    of_requests = [span for span in spans if span.kind == Span.SPAN_KIND_SERVER]
    assert sorted(attributes_of(span)["refaug.request.id"] for span in of_requests) == sorted(logged)
    for span in of_requests:
        attributes = attributes_of(span)
        line = logged[attributes["refaug.request.id"]]
        assert attributes.get("http.route", "(none)") == line["route"]
        assert attributes["http.response.status_code"] == line["status"]
        assert abs((span.end_time_unix_nano - span.start_time_unix_nano) / 1e6 - line["ms"]) < 0.01
        assert span is scores or span.parent_span_id == b""
    assert attributes_of(named["GET"][0])["http.response.status_code"] == 404

    (run,) = named["job gc"]
    assert attributes_of(run) == {
        "refaug.job.id": job,
        "refaug.job.kind": "gc",
        "refaug.job.state": "failed",
        "refaug.job.try": 1,
        "error.type": "not_found",
    }
    assert (run.status.code, run.kind) == (Status.STATUS_CODE_ERROR, Span.SPAN_KIND_CONSUMER)
    assert not [body for body in bodies if SECRET.lower().encode() in body.lower()]


def test_without_a_provider_no_span_is_made(collector: tuple[str, list[bytes]], tmp_path: Path) -> None:
    """Variables alone set up nothing, since FastAPI is set to send nothing either."""
    url, bodies = collector
    settings = {"OTEL_EXPORTER_OTLP_ENDPOINT": url, "FASTAPI_OTEL_AUTO_CONFIGURE": "true"}
    with served(tmp_path, **settings) as client:
        ask_for_a_score_and_a_job(client)
    assert bodies == []
