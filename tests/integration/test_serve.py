"""The processes of a server: starting, dying, being silent, stopping, with small apps of the tests; and the command."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

import pytest
from serving import small_home, small_items

from refaug.cli import main as cli
from refaug.core.artefacts.kinds import artefact_stores
from refaug.core.files import write_json
from refaug.core.home import Settings
from refaug.service.process.server_address import server_url
from refaug.service.server_settings import ServeSettings

ROOT = Path(__file__).resolve().parents[2]
DEADLINE_S = 120.0


@dataclass
class Server:
    """A server in a process of its own."""

    process: subprocess.Popen[str]
    home: Path
    address: str

    def ask(self, path: str = "/", **headers: str) -> dict[str, Any]:
        request = urllib.request.Request(self.address + path, headers={"connection": "close", **headers})
        with urllib.request.urlopen(request, timeout=DEADLINE_S) as answer:
            return json.load(answer)

    def logged(self) -> list[dict[str, Any]]:
        return logged(self.home)

    def events(self, event: str) -> list[dict[str, Any]]:
        return [line for line in self.logged() if line["event"] == event]

    def end(self, *signals: int) -> int:
        for one in signals or (signal.SIGTERM,):
            self.process.send_signal(one)
        return self.process.wait(DEADLINE_S)


def until(condition: Callable[[], object], what: str) -> None:
    deadline = time.monotonic() + DEADLINE_S
    while not condition():
        assert time.monotonic() < deadline, f"waited in vain: {what}"
        time.sleep(0.02)


def lives(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(") ")[2][0] not in "ZX"
    except (FileNotFoundError, ProcessLookupError):
        return False


@contextmanager
def server(home: Path, app: str, *settings: str, **variables: str) -> Iterator[Server]:
    home.mkdir(exist_ok=True)
    environment = {
        **{name: value for name, value in os.environ.items() if not name.startswith("REFAUG_")},
        "REFAUG_HOME": str(home),
        "PYTHONPATH": os.pathsep.join((str(ROOT), str(ROOT / "tests"))),
        **variables,
    }
    command = [sys.executable, str(ROOT / "tests" / "served_apps.py"), app, *settings]
    with (home / "stderr").open("a") as errors:  # as `2>>` does
        process = subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, stderr=errors, text=True, cwd=home)
    with process:
        assert process.stdout is not None
        try:
            yield Server(process=process, home=home, address=process.stdout.readline().strip())
        finally:
            with suppress(ProcessLookupError):
                process.kill()
            process.wait()
            until(lambda: not any(lives(pid) for pid in _children(home)), "children that end with their parent")


def logged(home: Path) -> list[dict[str, Any]]:
    """The lines of the log; the last one is an error for people where the server has ended with one."""
    lines = (home / "stderr").read_text("utf-8").split("\n")
    return [json.loads(line) for line in lines if line.startswith("{") and line.endswith("}")]


def _children(home: Path) -> list[int]:
    return [line["child"] for line in logged(home) if line["event"].endswith("process started")]


def test_all_web_processes_answer_until_a_signal_ends_the_server(tmp_path: Path) -> None:
    with server(tmp_path / "home", "quick", "workers=2", "root_path=/refaug") as served:
        answers = dict[int, dict[str, Any]]()

        def ask() -> bool:
            answer = served.ask()
            answers[answer["pid"]] = answer
            return len(answers) == 2

        until(ask, "an answer of each of two processes")
        told = next(iter(answers.values()))
        assert {answer["parent"] for answer in answers.values()} == {served.process.pid}
        assert told["environment"]["REFAUG_HOME"] == str(tmp_path / "home")
        assert told["environment"]["REFAUG_WORKERS"] == "2"
        assert told["environment"]["OMP_WAIT_POLICY"] == "PASSIVE"
        assert (told["root_path"], told["path"]) == ("/refaug", "/refaug/")  # as if it had come with that path
        assert served.ask("/refaug/x")["path"] == "/refaug/refaug/x", "a proxy takes it away"
        assert server_url(Settings(home=served.home)) == served.address, "what a proxy adds is not there"
        assert served.ask(**{"x-forwarded-proto": "https"})["scheme"] == "https"
        figures = Path(told["environment"]["REFAUG_FIGURES"])
        assert figures.exists()
        assert served.end(signal.SIGTERM) == 0
        assert {(tmp_path / "home" / f"ended-{pid}").exists() for pid in answers} == {True}
        assert not figures.exists()
        assert served.events("stopped")


@pytest.mark.slow
def test_sighup_changes_nothing_and_a_log_can_be_cut_while_it_is_written(tmp_path: Path) -> None:
    home = tmp_path / "home"
    with server(home, "quick") as served:
        before = served.ask()["pid"]
        os.truncate(home / "stderr", 0)  # as logrotate does with copytruncate
        served.process.send_signal(signal.SIGHUP)
        until(lambda: (home / "stderr").stat().st_size > 0, "a line in the log")
        until(lambda: any(line["event"].startswith("SIGHUP does nothing") for line in served.logged()), "its line")
        assert (home / "stderr").read_bytes().startswith(b"{")
        assert served.ask()["pid"] == before
        assert served.end(signal.SIGTERM) == 0


def test_a_request_that_is_under_way_is_answered_before_the_server_ends(tmp_path: Path) -> None:
    begun = tmp_path / "begun"
    with server(tmp_path / "home", "quick", "shutdown_s=30", BEGUN=str(begun), SLOW_S="1.5") as served:
        answers = list[dict[str, Any]]()
        asking = threading.Thread(target=lambda: answers.append(served.ask("/slow")))
        asking.start()
        until(begun.exists, "the request to begin")
        assert served.end(signal.SIGINT) == 0
        asking.join(DEADLINE_S)
        assert [answer["parent"] for answer in answers] == [served.process.pid]


@pytest.mark.slow
def test_a_second_signal_ends_at_once(tmp_path: Path) -> None:
    begun = tmp_path / "begun"
    with server(tmp_path / "home", "quick", "shutdown_s=3000", BEGUN=str(begun), SLOW_S="3000") as served:
        lost = list[Exception]()

        def ask() -> None:
            try:
                served.ask("/slow")
            except OSError as error:
                lost.append(error)

        asking = threading.Thread(target=ask)
        asking.start()
        until(begun.exists, "the request to begin")
        served.process.send_signal(signal.SIGTERM)
        served.process.send_signal(signal.SIGINT)
        assert served.process.wait(DEADLINE_S) == 0
        asking.join(DEADLINE_S)
        assert len(lost) == 1
        assert served.events("ended by force")


@pytest.mark.slow
def test_a_web_process_may_be_silent_for_start_s(tmp_path: Path) -> None:
    home = tmp_path / "home"
    with server(home, "silent", SILENT_S="6") as served:  # uvicorn by itself gives up after 5
        pid = served.ask()["pid"]
        assert (home / "begun").read_text() == f"{pid}\n"
        assert served.events("a web process was silent for too long") == []
        assert served.end() == 0


@pytest.mark.slow
def test_silent_process_is_restarted_and_the_server_can_still_be_stopped(tmp_path: Path) -> None:
    home = tmp_path / "home"
    with server(home, "silent", "start_s=3", SILENT_S="3000") as served:
        until(lambda: served.events("a web process was silent for too long"), "the silence to be noticed")
        [silent] = served.events("a web process was silent for too long")
        assert silent["code"] == -signal.SIGKILL
        until(lambda: len(served.events("web process started")) == 2, "the next one")
        assert served.end(signal.SIGTERM, signal.SIGTERM) == 0


@pytest.mark.slow
def test_ready_server_reports_ready_from_every_process(tmp_path: Path) -> None:
    home = small_home(tmp_path).home
    with server(home, "one_opens_slowly", "workers=2", SILENT_S="4", NUMBA_CACHE_DIR="") as served:
        until(lambda: is_ready(served), "the service to be ready")
        for _ in range(40):  # each on a connection of its own, which either process may take
            assert is_ready(served)
        reported = [json.loads(path.read_bytes()) for path in (home / "serving").glob("[!.]*.json")]
        assert [one["is_ready"] for one in reported if one["accepts"]] == [True] * len(reported)
        assert served.end() == 0


@pytest.mark.slow
def test_failing_start_ends_the_server_with_a_reason_and_nothing_private(tmp_path: Path) -> None:
    home = tmp_path / "home"
    with server(home, "broken") as served:
        assert served.process.wait(DEADLINE_S) == 1
        *lines, last = (home / "stderr").read_text("utf-8").strip().split("\n")
        assert len(lines) == len(served.logged())  # nothing but JSON, no trace of a library's either
        [failed] = served.events("the web process failed")
        assert failed["error"]["kind"] == "ValueError"
        assert failed["error"]["at"][-1].startswith("served_apps.py:")
        assert "secret" not in "".join(lines)
        assert str(home) not in "".join(lines)
        assert last.startswith("internal: the web processes cannot start")


@pytest.mark.slow
def test_web_processes_end_with_a_parent_that_was_killed(tmp_path: Path) -> None:
    with server(tmp_path / "home", "quick", "workers=2") as served:
        served.ask()
        children = _children(served.home)
        assert len(children) == 2
        served.process.kill()
        until(lambda: not any(lives(pid) for pid in children), "web processes that end with their parent")
        with server(tmp_path / "home", "quick") as again:
            assert again.ask()["parent"] == again.process.pid
            assert again.end() == 0


# ── the command ───────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.fixture
def plain(monkeypatch: pytest.MonkeyPatch) -> None:
    """An environment that says nothing of a server."""
    for name in ServeSettings().as_env():
        monkeypatch.delenv(name, raising=False)


@dataclass(frozen=True)
class Checked:
    """What `refaug serve --check --json` comes to: its exit code, what it prints, and the code of the error."""

    exit_code: int
    told: dict[str, Any]
    error: str

    @property
    def wrong(self) -> list[str]:
        return [look["what"] for look in self.told["looks"] if look["error"]]


Check = Callable[..., Checked]


@pytest.fixture
def check(plain: None, capfdbinary: pytest.CaptureFixture[bytes]) -> Check:
    def checked(home: Path, *options: str) -> Checked:
        code = cli.main(["--home", str(home), "serve", "--check", "--json", *options])
        told, error = capfdbinary.readouterr()
        return Checked(code, json.loads(told or b"{}"), json.loads(error)["error"]["code"] if error else "")

    return checked


def test_options_go_before_variables_and_those_before_defaults(
    check: Check, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("REFAUG_ITEMS", "77")
    monkeypatch.setenv("REFAUG_PORT", "1")
    monkeypatch.setenv("REFAUG_JOB_WORKER", "yes")
    found = check(tmp_path / "home", "--port", "0", "--no-job-worker", "--timeout-s", "2.5")
    assert (found.exit_code, found.told["starts"]) == (0, True)
    shown = {name: (one["value"], one["from"]) for name, one in found.told["settings"].items()}
    assert list(shown) == [field.name for field in fields(ServeSettings)]
    assert shown["port"] == ("0", "--port")
    assert shown["job_worker"] == ("no", "--job-worker")
    assert shown["timeout_s"] == ("2.5", "--timeout-s")
    assert shown["items"] == ("77", "REFAUG_ITEMS")
    assert shown["workers"] == ("1", "default")
    assert not (tmp_path / "home").exists()  # looking changes nothing


def test_a_check_ends_as_the_server_would(check: Check, tmp_path: Path) -> None:
    home = tmp_path / "home"
    public = check(home, "--host", "0.0.0.0", "--port", "0")
    assert (public.exit_code, public.error, public.told["starts"], public.wrong) == (2, "usage", False, ["keys"])
    assert check(home, "--host", "0.0.0.0", "--port", "0", "--open").exit_code == 0
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = str(server.getsockname()[1])
        taken = check(home, "--port", port)
        assert (taken.exit_code, taken.error, taken.wrong) == (4, "conflict", ["address"])
        assert check(home, "--port", port, "--any-port").exit_code == 0
    unknown = check(home, "--port", "0", "--default-index", "chat")
    assert (unknown.exit_code, unknown.error, unknown.wrong) == (3, "not_found", ["index"])
    senseless = check(home, "--port", "99999")
    assert (senseless.exit_code, senseless.told, senseless.error) == (2, {}, "usage")


def test_a_check_looks_whether_the_home_can_be_used(check: Check, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("not a folder")
    for home in (tmp_path / "file", tmp_path / "file" / "below"):
        found = check(home, "--port", "0")
        assert (found.exit_code, found.error, found.wrong) == (1, "no_access", ["home"]), home
    below = check(tmp_path / "not" / "there", "--port", "0")
    assert (below.exit_code, below.wrong) == (0, [])


def test_a_check_says_which_indexes_requests_may_name(check: Check, tmp_path: Path) -> None:
    home = tmp_path / "home"
    indexes = artefact_stores(Settings(home=home))["index"]

    def look(*options: str) -> str:
        looks = check(home, "--port", "0", *options).told["looks"]
        return next(look["found"] for look in looks if look["what"] == "index")

    assert look() == "none is published: requests that need one are refused (refaug index build makes one)"
    specs = []
    for name in ("tea", "chat"):
        folder = tmp_path / name
        folder.mkdir()
        write_json(folder / "manifest.json", {"kind": "index", "format_version": 1, "files": {}})
        version = indexes.add(name, folder)
        indexes.publish(name, version)
        specs.append(f"{name}@{version}")
        if name == "tea":
            assert look() == specs[0]
    assert look() == f"{specs[1]}, {specs[0]}; requests must name one, or --default-index"
    assert look("--default-index", "tea") == f"{specs[0]} for requests that name none; 2 published names in all"


def test_check_reports_missing_source_folders_and_refuses_misspelt_variables(
    check: Check, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "there").mkdir()
    sources = f"{tmp_path}/there:{tmp_path}/gone"
    found = check(tmp_path / "home", "--port", "0", "--sources", sources)
    assert (found.exit_code, found.error, found.wrong) == (3, "no_source", ["sources"])
    assert {look["what"]: look["found"] for look in found.told["looks"]}["sources"] == f"no folder: {tmp_path}/gone"
    monkeypatch.setenv("REFAUG_NOTEBOOK_OF_MINE", "a variable that no setting is like")
    found = check(tmp_path / "home", "--port", "0")
    assert (found.exit_code, found.wrong) == (0, [])
    assert "REFAUG_NOTEBOOK_OF_MINE" in found.told["looks"][-1]["found"]
    monkeypatch.setenv("REFAUG_WROKERS", "2")
    found = check(tmp_path / "home", "--port", "0")
    assert (found.exit_code, found.error, found.wrong) == (2, "usage", ["variables"])
    assert {look["what"]: look["found"] for look in found.told["looks"] if look["error"]} == {
        "variables": "REFAUG_WROKERS is not a setting"
    }


def test_a_check_shows_where_a_webhook_leads_and_not_its_path(check: Check, tmp_path: Path) -> None:
    found = check(tmp_path, "--port", "0", "--webhook", "http://127.0.0.1:9/services/hush?key=hush")
    assert (found.exit_code, found.wrong) == (0, [])
    assert found.told["settings"]["webhook"] == {"value": "http://127.0.0.1:9/…", "from": "--webhook"}
    assert "hush" not in json.dumps(found.told)


def test_a_check_shows_no_password(check: Check, tmp_path: Path) -> None:
    url = "postgresql+psycopg://refaug:geheim@127.0.0.1:1/refaug"
    found = check(tmp_path, "--port", "0", "--database", url)
    assert (found.exit_code, found.error, found.wrong) == (4, "unavailable", ["database"])
    assert found.told["settings"]["database"]["value"] == "postgresql+psycopg://refaug:…@127.0.0.1:1/refaug"
    assert "geheim" not in json.dumps(found.told)


@contextmanager
def real_server(home: Path, *options: str) -> Iterator[Server]:
    """`refaug serve`, ready."""
    command = [sys.executable, "-m", "refaug", "serve", "--port", "0", *options]
    environment = {**os.environ, "REFAUG_HOME": str(home), "NUMBA_CACHE_DIR": ""}  # compiled by other tests, mostly
    with (home / "stderr").open("w") as errors:
        process = subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, stderr=errors, text=True)
    with process:
        assert process.stdout is not None
        try:
            served = Server(process=process, home=home, address=process.stdout.readline().split()[-1])
            until(lambda: is_ready(served), "the service to be ready")
            yield served
        finally:
            with suppress(ProcessLookupError):
                process.kill()


def is_ready(served: Server) -> bool:
    try:
        return bool(served.ask("/readyz"))
    except urllib.error.HTTPError as error:
        error.close()
        return False


@pytest.mark.slow
def test_the_service_scores_as_the_command_and_takes_care_of_its_processes(check: Check, tmp_path: Path) -> None:
    home = small_home(tmp_path).home
    items = tmp_path / "items.jsonl"
    items.write_text("".join(json.dumps(item) + "\n" for item in small_items(20)), "utf-8")
    asked = [str(items), "--metric", "upsilon-bleu", "--metric", "bleu", "--baseline", "b", "--percent"]
    asked += ["--index", "chat", "--rater", "base", "--draws", "200"]

    def printed(*command: str) -> str:
        done = subprocess.run(
            [sys.executable, *command], capture_output=True, text=True, timeout=DEADLINE_S, check=True
        )
        return done.stdout

    table = printed("-m", "refaug", "--quiet", "--home", str(home), "score", *asked)
    with real_server(home) as served:
        assert printed(str(ROOT / "examples" / "score_over_http.py"), served.address, *asked) == table
        assert table.count("against b") == 2

        found = check(home, "--port", "0")
        assert (found.exit_code, found.error, found.wrong) == (4, "locked", ["home"])

        [started] = served.events("job process started")
        nice = min(19, os.getpriority(os.PRIO_PROCESS, 0) + ServeSettings().job_nice)
        until(lambda: os.getpriority(os.PRIO_PROCESS, started["child"]) == nice, "the job process to step back")
        os.kill(started["child"], signal.SIGKILL)
        until(lambda: len(served.events("job process started")) == 2, "another job process")
        [ended] = served.events("the job process ended")
        assert (ended["child"], ended["code"]) == (started["child"], -signal.SIGKILL)

        request = next(line for line in served.logged() if line.get("route") == "/v1/scores")
        assert (request["status"], request["items"]) == (200, 20)
        assert served.end(signal.SIGTERM) == 0
        assert not any(lives(pid) for pid in _children(home))
        assert str(home) not in (home / "stderr").read_text("utf-8")
