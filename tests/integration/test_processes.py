"""Ingest as a process among processes: interrupted, bereft of a worker, killed with its workers, locked out."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import orjson
import pytest
from integration.conftest import ROOT, content
from integration.reference import dialogue_log

# A command whose ingest waits, when a stage begins, until it is told to go on: tests act while it waits.
PROGRAM = """if True:
    import sys
    from refaug.cli.main import main
    from refaug.cli.shared import progress
    from refaug.logs import part_files
    from refaug.logs.ingest import order as staging, source_reading

    stage = sys.argv[1]
    part_files.ROWS_A_GROUP, staging.PART_BYTES, source_reading._SMALL_BYTES = 8, 3_000, 0
    staging.IngestOrder.block_bytes = 2_000
    advance = progress.ProgressLines.advance
    seen = []

    def wait(self, amount):
        advance(self, amount)
        seen.append(self._stage)
        if seen.count(stage) == 12:
            print("waiting", flush=True)
            sys.stdin.readline()

    progress.ProgressLines.advance = wait
    if __name__ == "__main__":
        sys.exit(main(sys.argv[2:]))
"""


@pytest.fixture
def begun(tmp_path):
    """Start an ingest that waits in the middle of its reading."""
    (tmp_path / "log.jsonl").write_bytes(dialogue_log(1, 150)[0])
    running = []

    def begin(home, *more, stage="reading"):
        command = ["--home", home.path, "log", "ingest", tmp_path / "log.jsonl", "--log", "chat", "--json", *more]
        process = subprocess.Popen(
            [sys.executable, "-c", PROGRAM, stage, *map(str, command)],
            env={**os.environ, "PYTHONPATH": str(ROOT)},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
        )
        running.append(process)
        if stage:
            assert process.stdout.readline() == b"waiting\n"
        return process

    yield begin
    for process in running:
        process.kill()
        process.communicate()


def finish(process):
    """Let it go on to its end: exit code, answer, error."""
    out, err = process.communicate(b"\n")
    error = orjson.loads(err[err.index(b'{"error"') :])["error"] if b'{"error"' in err else None
    return process.returncode, orjson.loads(out) if out.strip() else None, error


def is_running(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] != "Z"
    except FileNotFoundError:
        return False


def ends(pid: int, attempts: int = 500) -> bool:
    """Whether a process ends soon; it is not our child, so that it cannot be waited for."""
    return any(not is_running(pid) or time.sleep(0.02) for _ in range(attempts))


def children(pid: int) -> list[int]:
    found = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
    return [int(child) for child in found if b"spawn_main" in Path(f"/proc/{child}/cmdline").read_bytes()]


@pytest.fixture
def whole(home_at, tmp_path, begun):
    """The log as it should be in the end."""
    home = home_at(tmp_path / "whole")
    assert finish(begun(home, "--workers", "0", stage=""))[0] == 0
    return content(home)


@pytest.mark.slow
@pytest.mark.parametrize("workers", [0, 2])
def test_ctrl_c_says_how_to_go_on_and_going_on_works(home_at, tmp_path, begun, whole, workers):
    home = home_at(tmp_path / "home")
    process = begun(home, "--workers", workers)
    workers_of_it = children(process.pid)
    assert len(workers_of_it) == workers
    process.send_signal(signal.SIGINT)
    code, _, error = finish(process)
    assert (code, error["code"]) == (5, "interrupted")
    assert not any(map(is_running, workers_of_it))
    code, answer, _ = finish(begun(home, "--workers", workers, stage=""))
    assert (code, answer["resumed"]) == (0, True)
    assert content(home) == whole


@pytest.mark.slow
def test_killed_worker_ends_the_run_with_an_error_and_the_next_resumes(home_at, tmp_path, begun, whole):
    home = home_at(tmp_path / "home")
    process = begun(home, "--workers", 2)
    one, other = children(process.pid)
    os.kill(one, signal.SIGKILL)
    code, answer, error = finish(process)
    assert (code, answer) == (1, None)
    assert "a worker process ended by signal 9" in error["message"]
    assert not is_running(other)
    code, answer, _ = finish(begun(home, "--workers", 2, stage=""))
    assert (code, answer["resumed"]) == (0, True)
    assert content(home) == whole


@pytest.mark.slow
def test_killing_the_parent_leaves_no_worker_and_no_lock(home_at, tmp_path, begun, whole):
    home = home_at(tmp_path / "home")
    process = begun(home, "--workers", 2)
    pids = children(process.pid)
    assert len(pids) == 2
    process.kill()
    process.wait()
    assert all(map(ends, pids))
    code, answer, _ = finish(begun(home, "--workers", 2, stage=""))
    assert (code, answer["resumed"]) == (0, True)
    assert content(home) == whole


def test_an_interrupt_while_the_libraries_load_ends_like_any_other() -> None:
    """The import itself is interrupted, at a moment that is the same in every run."""
    program = """
import sys
from refaug.cli import start

class Interrupting:
    def find_spec(self, name, path=None, target=None):
        if name == "typer":
            raise KeyboardInterrupt

sys.meta_path.insert(0, Interrupting())
sys.exit(start())
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False, cwd=ROOT)
    assert (done.returncode, done.stderr.strip()) == (5, "error [interrupted]: interrupted")
