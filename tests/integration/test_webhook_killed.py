"""A served home tells its webhook of a failed schedule, and counts requests, while processes of it are killed."""

from __future__ import annotations

import base64
import hashlib
import hmac
import json
import threading
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest
from servers import served
from serving import migrated

from refaug.core.home import Settings
from refaug.service.database.database import Database
from refaug.service.history.hourly_figures import REQUESTS, HourlyFigures
from refaug.service.jobs.job_order import parse_order, resources_of
from refaug.service.jobs.store import JobStore

pytestmark = pytest.mark.slow
SECRET = "a secret of the hook"


@dataclass
class HangingHook:
    """A hook that lets the first call hang until it is told to go on, and takes all that come after."""

    port: int = 0
    calls: list[tuple[dict[str, str], bytes]] = field(default_factory=list)
    came: threading.Event = field(default_factory=threading.Event)
    goes_on: threading.Event = field(default_factory=threading.Event)


@contextmanager
def hanging_hook() -> Iterator[HangingHook]:
    hook = HangingHook()

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            hook.calls.append((dict(self.headers), self.rfile.read(int(self.headers["Content-Length"]))))
            if not hook.came.is_set():
                hook.came.set()
                hook.goes_on.wait(120)
                return  # its caller is dead
            self.send_response(200)
            self.end_headers()

        def log_message(self, *_: object) -> None:
            """Say nothing."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    hook.port = server.server_address[1]
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield hook
    finally:
        hook.goes_on.set()
        server.shutdown()
        server.server_close()


def test_a_notice_survives_the_death_of_the_process_that_sends_it(tmp_path: Path) -> None:
    home = migrated(Settings(home=tmp_path / "home"))
    order = parse_order({"kind": "ingest", "log": "chat", "sources": ["missing.jsonl"]})
    with (
        hanging_hook() as hook,
        served(home.home, "--webhook", f"http://127.0.0.1:{hook.port}/hook", WEBHOOK_SECRET=SECRET) as server,
        closing(Database.open(home)) as database,
    ):
        jobs = JobStore(database)
        job = jobs.enqueue(order.kind, order.as_order(), resources_of(order), schedule="night").id
        assert server.ended(job)["state"] == "failed"
        server.until(hook.came.is_set, "the first call")
        assert server.kill("jobs")
        server.until(lambda: len(hook.calls) == 2, "the second call")  # when the lease of the dead process is over
        hook.goes_on.set()
        (first, body), (second, again) = hook.calls
        assert (first["webhook-id"], body) == (second["webhook-id"], again)
        said = json.loads(body)
        assert (said["type"], said["data"]["job"], said["data"]["schedule"]) == ("schedule.failed", job, "night")
        signed = f"{second['webhook-id']}.{second['webhook-timestamp']}.".encode() + again
        by_hand = base64.b64encode(hmac.new(SECRET.encode(), signed, hashlib.sha256).digest()).decode()
        assert second["webhook-signature"] == f"v1,{by_hand}"
        server.until(lambda: server.ask("GET", "/readyz").json()["degraded"] == [], "a webhook that takes what it gets")


def test_requests_to_several_processes_add_up_over_a_stop_and_a_start(tmp_path: Path) -> None:
    home = migrated(Settings(home=tmp_path / "home"))

    def stored() -> int:
        with closing(Database.open(home)) as database:
            return sum(step.count(REQUESTS) for step in HourlyFigures(database).last(2)[1])

    asked = 0
    for _ in range(2):
        with served(home.home, "--workers", "2") as server:
            for _ in range(40):
                assert server.client.get("/v1/jobs", headers={"Connection": "close"}).status_code == 200
                asked += 1
        assert stored() == asked
