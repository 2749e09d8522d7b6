"""The whole service as one starts it, in processes of its own: for tests that kill some of them."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx2

ROOT = Path(__file__).resolve().parents[1]
DEADLINE_S = 120.0  # on a machine that has little else to do
# What dies young again and again is begun ever later, up to half a minute: no use where a test is what kills it.
_START = """
import sys
from refaug.cli import start
from refaug.service.process import job_process
job_process._MAX_BACKOFF_S = 0.5
sys.exit(start())
"""


@dataclass
class Served:
    """A running service."""

    process: subprocess.Popen[bytes]
    home: Path
    client: httpx2.Client
    options: tuple[str, ...] = ()
    environment: Mapping[str, str] = field(default_factory=dict)  # what is added to that of the tests

    def restart_after_kill(self) -> None:
        """End the whole service as a power cut would, and begin it again at the same address."""
        self.process.send_signal(signal.SIGSTOP)  # it begins no process while its processes are looked up
        for pid in [self.process.pid, *(pid for pids in self.children().values() for pid in pids)]:
            os.kill(pid, signal.SIGKILL)
        self.process.wait()
        self.process = _started(self.home, self.client.base_url.port or 0, *self.options, **self.environment)

    def children(self) -> dict[str, list[int]]:
        """The processes below it, by what they are: web, jobs."""
        found: dict[str, list[int]] = {"web": [], "jobs": []}
        for pid in _children(self.process.pid):
            said = _command_of(pid)
            if "spawn_main" in said:
                found["web"].append(pid)
            elif " -P -c " in said:
                found["jobs"].append(pid)
        return found

    def kill(self, *kinds: str) -> list[int]:
        """End processes of these kinds as a power cut would; those that were ended."""
        children = self.children()
        pids = [pid for kind in kinds for pid in children[kind]]
        for pid in pids:
            os.kill(pid, signal.SIGKILL)
        return pids

    def ask(self, method: str, path: str, **given: Any) -> httpx2.Response:
        """An answer, asked for again while processes are begun anew."""
        deadline = time.monotonic() + deadline_s()
        while True:
            try:
                answer = self.client.request(method, path, **given)
                if answer.status_code != 503:
                    return answer
            except httpx2.TransportError:
                pass
            assert time.monotonic() < deadline, f"no answer to {method} {path}"
            time.sleep(0.05)

    def until(self, condition: Callable[[], Any], what: str) -> Any:
        """What the condition gives when it is true."""
        deadline = time.monotonic() + deadline_s()
        while not (found := condition()):
            assert self.process.poll() is None, said_by(self.home)
            assert time.monotonic() < deadline, f"waited in vain: {what}"
            time.sleep(0.02)
        return found

    def ended(self, job: str) -> dict[str, Any]:
        """A job when it is over."""

        def over() -> dict[str, Any] | None:
            found: dict[str, Any] = self.ask("GET", f"/v1/jobs/{job}").json()
            return found if found["state"] in ("done", "failed", "cancelled") else None

        return self.until(over, f"job {job} to end")  # type: ignore[no-any-return]


def deadline_s() -> float:
    """How long anything is waited for: as much longer as more processes want to run than there are cores."""
    return DEADLINE_S * max(1.0, os.getloadavg()[0] / (os.cpu_count() or 1))


def _children(pid: int) -> list[int]:
    try:
        return [int(child) for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]
    except OSError:
        return []


def _command_of(pid: int) -> str:
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ").decode("utf-8", "replace")
    except OSError:
        return ""


def said_by(home: Path) -> str:
    """The end of the log."""
    return (home.parent / f"{home.name}.log").read_text("utf-8", "replace")[-4_000:]


@contextmanager
def served(home: Path, *options: str, **environment: str) -> Iterator[Served]:
    """The service over a home, ready, on a port that was free."""
    process = _started(home, 0, *options, **environment)
    found: Served | None = None
    try:
        address = _address_of(process, home)
        with httpx2.Client(base_url=address, timeout=60) as client:
            found = Served(process=process, home=home, client=client, options=options, environment=environment)
            found.until(lambda: found.ask("GET", "/readyz").status_code == 200, "the service to be ready")
            yield found
    finally:
        process = found.process if found else process
        if process.poll() is None:
            process.terminate()
        try:
            process.wait(60)
        finally:
            process.kill()
            process.wait()


def _started(home: Path, port: int, *options: str, **added: str) -> subprocess.Popen[bytes]:
    environment = {name: value for name, value in os.environ.items() if not name.startswith("REFAUG_")} | added
    environment.setdefault("NUMBA_CACHE_DIR", "")  # what was compiled beside the code, not anew for every home
    environment["PYTHONPATH"] = added.get("PYTHONPATH", str(ROOT))
    environment.pop("PYTHONDONTWRITEBYTECODE", None)  # modules, too, not anew for every process that is begun
    environment["REFAUG_JOB_NICE"] = (
        "0"  # other tests take the cores: a job that lets them go first ends late, and a test waits
    )
    command = [sys.executable, "-c", _START, "--home", str(home), "serve", "--port", str(port), *options]
    with (home.parent / f"{home.name}.log").open("ab") as log:
        return subprocess.Popen(command, cwd=ROOT, env=environment, stdout=log, stderr=log)


def _address_of(process: subprocess.Popen[bytes], home: Path) -> str:
    """Where it says that it listens."""
    deadline = time.monotonic() + deadline_s()
    while time.monotonic() < deadline and process.poll() is None:
        for line in said_by(home).splitlines():
            at = line.find("http://127.0.0.1:")
            if at >= 0:
                return line[at:].split('"')[0].split()[0].rstrip("/.,")
        time.sleep(0.02)
    raise AssertionError(said_by(home))
