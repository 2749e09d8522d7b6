"""The program is replaced by a newer one, and back, while dialogues are posted: what was acknowledged is there.

The newer program is this one with a further step of the core's tables.
"""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx2
import pytest
from servers import ROOT, Served, served
from serving import migrated

from refaug.core.home import Settings
from refaug.logs.store import StoredLog

pytestmark = [pytest.mark.slow, pytest.mark.faults]

INGEST = {"kind": "ingest", "log": "chat", "posted": True, "workers": 0}
NICE = ("--job-nice", "0")  # jobs wait for no request
NEWER = """
from dataclasses import replace
from sqlalchemy import Column, Text, text
from refaug.service.database import tables

tables.FIRINGS.append_column(Column("later", Text))
step = lambda connection: connection.execute(text("ALTER TABLE firings ADD COLUMN later TEXT"))
tables.CORE = replace(tables.CORE, steps=(step,))
"""


@pytest.fixture
def newer(tmp_path: Path) -> str:
    """The PYTHONPATH of the newer program."""
    folder = tmp_path / "newer" / "site-packages"  # or else children do without it
    folder.mkdir(parents=True)
    (folder / "sitecustomize.py").write_text(NEWER)
    return os.pathsep.join([str(folder), str(ROOT)])


@dataclass
class Posted:
    """The ids of dialogues that a server has taken, and what it answered otherwise."""

    taken: list[str] = field(default_factory=list)
    refused: list[dict[str, Any]] = field(default_factory=list)


@contextmanager
def posting(service: Served, name: str) -> Iterator[Posted]:
    """Post dialogues, one after another, until the block ends."""
    posted, stop = Posted(), threading.Event()

    def post() -> None:
        with httpx2.Client(base_url=service.client.base_url, timeout=60) as client:
            number = 0
            while not stop.is_set():
                number += 1
                one = {"id": f"{name}{number}", "turns": [{"text": f"what of {name}"}, {"text": f"{number} is here"}]}
                try:
                    answer = client.post("/v1/logs/chat/dialogues", json={"dialogues": [one]})
                except httpx2.TransportError:  # the server has gone: nothing was acknowledged
                    continue
                if answer.status_code == 202:
                    posted.taken.append(one["id"])
                else:
                    posted.refused.append(answer.json())

    thread = threading.Thread(target=post)
    thread.start()
    try:
        yield posted
        service.until(lambda: posted.taken or posted.refused, "an answer")
    finally:
        stop.set()
        thread.join()


def refaug(home: Path, path: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    """A command of one of the programs."""
    environment = {name: value for name, value in os.environ.items() if not name.startswith("REFAUG_")}
    command = [sys.executable, "-m", "refaug", "--quiet", "--home", str(home), *arguments]
    environment["PYTHONPATH"] = path
    return subprocess.run(command, env=environment, capture_output=True, text=True, check=False, timeout=600)


def ingested(service: Served) -> dict[str, Any]:
    """How a job ends that takes what was posted, or why there is none."""
    answer = service.client.post("/v1/jobs", json=INGEST)
    return service.ended(answer.json()["id"]) if answer.status_code == 202 else answer.json()


def dialogues(home: Path) -> list[str]:
    """The dialogues in the log, in order."""
    return sorted(pair.dialogue for pair in StoredLog.open(home / "logs", "chat").pairs())


def test_what_was_acknowledged_outlives_an_upgrade_in_mid_work_and_a_way_back(tmp_path: Path, newer: str) -> None:
    home = tmp_path / "home"
    home.mkdir()
    migrated(Settings(home=home))
    with served(home, *NICE) as service:
        with posting(service, "before") as before:
            service.until(lambda: len(before.taken) > 20, "dialogues to be posted")
        assert ingested(service)["state"] == "done"
        backup = refaug(home, str(ROOT), "admin", "backup", str(tmp_path / "backup"))
        assert backup.returncode == 0, backup.stderr
        with posting(service, "between") as between:
            count = len(between.taken)
            upgraded = refaug(home, newer, "admin", "jobs", "list")
            assert upgraded.returncode == 0, upgraded.stderr
            service.until(lambda: len(between.taken) > count + 20, "dialogues to be posted to the older program")
        old = ingested(service)
        assert old["state"] == "done", old
        assert service.client.get("/readyz").status_code == 200
    assert before.refused == between.refused == []

    refused = refaug(home, str(ROOT), "serve", "--port", "0")
    assert (refused.returncode, "Traceback" in refused.stderr) == (4, False)
    assert "error [newer_database]: the database's tables are of step 2, which refaug" in refused.stderr
    assert "restore the backup from before the upgrade" in refused.stderr
    for command in (("admin", "jobs", "list"), ("admin", "keys", "list"), ("admin", "backup", str(tmp_path / "other"))):
        ended = refaug(home, str(ROOT), *command)
        assert (ended.returncode, "newer_database" in ended.stderr) == (4, True), (command, ended.stderr)

    with served(home, *NICE, PYTHONPATH=newer) as service:
        with posting(service, "after") as after:
            service.until(lambda: len(after.taken) > 20, "dialogues to be posted to the newer program")
        assert ingested(service)["state"] == "done"
        jobs = service.ask("GET", "/v1/jobs").json()["jobs"]
        assert [job["state"] for job in jobs] == ["done"] * 3
    assert dialogues(home) == sorted([*before.taken, *between.taken, *after.taken])

    restored = refaug(tmp_path / "back", str(ROOT), "admin", "restore", str(tmp_path / "backup"))
    assert restored.returncode == 0, restored.stderr
    with served(tmp_path / "back", *NICE) as service:
        assert ingested(service)["state"] == "done"
        assert [job["state"] for job in service.ask("GET", "/v1/jobs").json()["jobs"]] == ["done"] * 2
    assert dialogues(tmp_path / "back") == sorted(before.taken)
