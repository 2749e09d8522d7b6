"""The process that runs jobs, as the server starts it: its log when it is stopped."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import orjson
import pytest
from serving import migrated, wait_until

from refaug.core.home import Settings
from refaug.service.database.database import Database
from refaug.service.jobs.store import JobState, JobStore
from refaug.service.process.job_process import JobProcess


@contextmanager
def job_process(log: Path, capture: pytest.CaptureFixture[str]) -> Iterator[None]:
    """Run jobs in a process during the block, and stop it; what it wrote on stderr is added to the log."""

    def copy_log() -> str:
        with log.open("a") as copy:
            copy.write(capture.readouterr().err)
        return log.read_text()

    process = JobProcess(within_s=30, level=logging.INFO)
    process.keep_alive()
    try:
        wait_until(lambda: '"event":"worker"' in copy_log(), log.read_text)
        yield
        process.terminate()
        wait_until(lambda: not process.is_running(), copy_log)
    finally:
        process.kill()
        copy_log()


@pytest.mark.slow
def test_the_log_of_a_stopped_job_process_has_lines_of_json_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    home = migrated(Settings(home=tmp_path / "home"))
    monkeypatch.setenv("REFAUG_HOME", str(home.home))
    (home.home / "inbox").mkdir()
    with (home.home / "inbox" / "chat.jsonl").open("wb") as dialogues:
        for number in range(2_000):
            turns = [f"how is number {number}", f"it is fine and has {number} apples", "that is good to know"]
            dialogues.write(orjson.dumps({"id": str(number), "turns": turns}) + b"\n")
    database = Database.open(home)
    jobs = JobStore(database)

    def ingest(log: str) -> str:
        order = {"kind": "ingest", "log": log, "sources": ["chat.jsonl"], "workers": 0}
        return jobs.enqueue("ingest", order, [f"log/{log}"]).id

    with job_process(tmp_path / "log", capfd):
        done = ingest("first")
        wait_until(lambda: jobs.get(done).state in (JobState.DONE, JobState.FAILED))
        stopped = ingest("second")
        wait_until(lambda: jobs.get(stopped).state is not JobState.QUEUED)
    assert jobs.get(done).state is JobState.DONE
    assert jobs.get(stopped).state in (JobState.QUEUED, JobState.DONE)
    database.close()
    log = (tmp_path / "log").read_text()
    assert log.endswith("\n")
    events = [orjson.loads(line)["event"] for line in log.splitlines()]
    assert events.count("job ended") == 2
