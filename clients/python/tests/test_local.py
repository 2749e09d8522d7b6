"""A server of one's own: one suite against it and against one over HTTP; how it starts, fails to, and ends."""

from __future__ import annotations

import asyncio
import gc
import json
import os
import pickle
import shutil
import signal
import socket
import stat
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from known_items import ITEMS
from refusals import refusing
from servers import ROOT, Served

from refaug_client import AsyncClient, CannotConnect, Client, JobFailed, NotStarted, Usage, _local
from refaug_client._local import ServerStart, find_command

DEADLINE_S = 120.0
GIVEN = [
    {"id": item["id"], "references": [*item["references"], {"text": "we like red boats", "weight": 0.5}]}
    for item in ITEMS
]
ONE = [{"id": "a", "utterance": "do you like it", "references": ["yes we do"], "replies": {"m": "yes we do like it"}}]
SERVE = [sys.executable, "-c", "import sys; from refaug.cli import start; sys.exit(start())"]


@pytest.fixture(autouse=True)
def checkout(monkeypatch: pytest.MonkeyPatch) -> None:
    """The server under test is that of this checkout, with what was compiled beside its code."""
    monkeypatch.setenv("PYTHONPATH", str(ROOT))
    if "NUMBA_CACHE_DIR" not in os.environ:
        monkeypatch.setenv("NUMBA_CACHE_DIR", "")


@pytest.fixture(scope="module", autouse=True)
def temporary(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """Temporary files of these tests alone, so that what others start meanwhile is not taken for a leftover."""
    tmp_path_factory.getbasetemp()  # pytest's own folder is not to lie in this one, which goes before others are done
    with tempfile.TemporaryDirectory(prefix="refaug-tests-") as folder, pytest.MonkeyPatch.context() as patch:
        patch.setattr(tempfile, "tempdir", folder)  # short, unlike those of pytest: a socket has to fit in
        yield Path(folder)


@pytest.fixture(scope="module")
def home(server: Served, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The same home once more, without what its server keeps for itself."""
    copy = tmp_path_factory.mktemp("local") / "home"
    shutil.copytree(server.home, copy, ignore=shutil.ignore_patterns("serving", "refaug.db*", "reference-sets"))
    return copy


@pytest.fixture(scope="module")
def local(home: Path) -> Iterator[Client]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PYTHONPATH", str(ROOT))
        if "NUMBA_CACHE_DIR" not in os.environ:
            patch.setenv("NUMBA_CACHE_DIR", "")
        with Client.local(home=home, server=SERVE) as found:
            yield found


@pytest.fixture(scope="module")
def over_http(url: str) -> Iterator[Client]:
    with Client(url) as found:
        yield found


def leftovers() -> set[Path]:
    return set(Path(tempfile.gettempdir()).glob("refaug-*"))


@pytest.fixture(params=["over_http", "local"])
def either(request: pytest.FixtureRequest) -> Client:
    found: Client = request.getfixturevalue(request.param)
    return found


def until(condition: Any, what: str) -> None:
    ends = time.monotonic() + DEADLINE_S
    while not condition():
        assert time.monotonic() < ends, f"waited in vain: {what}"
        time.sleep(0.02)


def is_gone(pid: int) -> bool:
    """Whether a process is over, as far as it matters: a zombie is, whoever collects it."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] in "ZX"
    except OSError:
        return True


def descendants(pid: int) -> list[int]:
    """Its children, and theirs, by what each process says of its parent."""
    parents = dict[int, int]()
    for status in Path("/proc").glob("[0-9]*/stat"):
        with suppress(OSError):
            parents[int(status.parent.name)] = int(status.read_text().rpartition(")")[2].split()[1])
    found = [pid]
    for parent in found:  # it grows
        found += [child for child, one in parents.items() if one == parent]
    return found[1:]


# ── the same over both ways ───────────────────────────────────────────────────────────────────────────────────────


HOSTILE = ("metrics.py", "core.py", "logs/__init__.py", "torch.py", "numpy.py", "logging.py", "sitecustomize.py")


@pytest.mark.slow
def test_the_server_sees_no_modules_of_the_user(home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Neither those of the working directory nor those of PYTHONPATH, in any of its processes."""
    for name in HOSTILE:
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text('raise SystemExit("a module of the user was imported")\n', "utf-8")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([str(tmp_path), str(ROOT)]))
    copy = tmp_path / "home"
    shutil.copytree(home, copy, ignore=shutil.ignore_patterns("serving", "refaug.db*", "reference-sets"))
    with Client.local(home=copy, server=SERVE) as refaug:
        assert refaug.score(ONE, metric="upsilon-bleu", references="find").versions is not None
        refaug.logs.post("new", [{"id": "d1", "turns": ["do you like apples", "yes we do"]}])
        job = refaug.jobs.start("ingest", log="new", posted=True)
        assert refaug.jobs.wait(job.id, timeout_s=DEADLINE_S).state == "done"


def test_it_lives_and_is_ready(either: Client) -> None:
    assert either.health().status == "ok"
    ready = either.ready()
    assert ready.is_ready
    assert sorted(ready.versions) == ["index", "rater"]
    assert "refaug_web_processes" in either.server_metrics()


@pytest.mark.parametrize("references", ["given", "find"])
def test_scores_are_the_same_whichever_way_they_come(over_http: Client, local: Client, references: str) -> None:
    items = [{**item, **given} for item, given in zip(ITEMS, GIVEN)]
    metrics = ["delta-bleu", "bleu"] if references == "given" else ["upsilon-bleu", "bleu"]
    settings = None if references == "given" else {"k": 4}
    theirs = over_http.score(items, metrics=metrics, references=references, settings=settings)
    ours = local.score(items, metrics=metrics, references=references, settings=settings)
    for metric in metrics:
        assert ours[metric].signature_full == theirs[metric].signature_full
        for system in ("a", "b"):
            if references == "given":
                assert ours[metric][system].replies == theirs[metric][system].replies
                assert ours[metric][system].corpus == theirs[metric][system].corpus
            else:  # ratings of two processes differ in the last bits of single precision
                assert ours[metric][system].replies == pytest.approx(theirs[metric][system].replies, abs=1e-6)


def test_jobs_run_and_end(either: Client) -> None:
    job = either.jobs.start("gc", artefact="index", name="chat")
    assert either.jobs.wait(job.id).state == "done"
    assert [event.kind for event in either.jobs.events(job.id)][-1] == "state"
    lost = either.jobs.start("gc", artefact="index", name="nobody")
    with refusing(JobFailed, "nobody"):
        either.jobs.wait(lost.id)


def test_a_pickled_client_speaks_to_the_same_server(either: Client) -> None:
    code = "import pickle, sys; print(pickle.load(sys.stdin.buffer).health().status)"
    environment = {**os.environ, "PYTHONPATH": str(ROOT / "clients" / "python" / "src")}
    said = subprocess.run(
        [sys.executable, "-c", code], input=pickle.dumps(either), capture_output=True, env=environment, check=True
    )
    assert said.stdout.strip() == b"ok"


# A server that is one for all that matters here, and is there at once.
FAKE = [
    sys.executable,
    "-c",
    """
import json, socket, sys
from http.server import BaseHTTPRequestHandler, HTTPServer

class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_GET(self):
        body = json.dumps({"status": "ok" if self.path == "/healthz" else "ready", "version": "0.1.0"}).encode()
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def address_string(self):
        return "client"

class Server(HTTPServer):
    address_family = socket.AF_UNIX

    def server_bind(self):
        self.socket.bind(self.server_address)

Server(sys.argv[sys.argv.index("--uds") + 1], Handler).serve_forever()
""",
]


# ── how it begins and ends ────────────────────────────────────────────────────────────────────────────────────────


def test_only_this_user_reaches_the_socket(local: Client) -> None:
    place = Path(str(local._connection.settings.uds))
    assert len(os.fsencode(place)) < 100
    assert stat.S_IMODE(place.parent.stat().st_mode) == 0o700
    assert place.is_socket()


def test_a_home_has_one_server_and_a_second_one_is_told_so(server: Served, local: Client, home: Path) -> None:
    before = leftovers()
    for taken in (server.home, home):
        with refusing(NotStarted) as caught, Client.local(home=taken, server=SERVE):
            pass
        assert (caught.value.code, caught.value.exit_code) == ("locked", 4)
        assert str(taken) in str(caught.value)
        assert caught.value.remedy
    assert local.health().status == "ok"
    assert leftovers() == before


@pytest.mark.slow
def test_when_the_block_ends_its_server_is_gone_and_no_other_one(local: Client, tmp_path: Path) -> None:
    with Client.local(home=tmp_path / "empty", server=SERVE, options=["--no-job-worker"]) as refaug:
        keeper = next(one for one in _local._STARTED if one.uds == refaug._connection.settings.uds)
        place = Path(keeper.uds)
        started = [keeper._keeper.pid, *descendants(keeper._keeper.pid)]
        assert len(started) >= 3
        assert refaug.score(ONE, metric="multi-bleu").corpus is not None
        assert keeper.exit_code is None
    assert all(is_gone(pid) for pid in started[:2])  # the keeper and the server
    until(lambda: all(is_gone(pid) for pid in started), "Python's tracker of resources to end, a moment later")
    assert not place.parent.exists()
    assert local.health().status == "ok"
    with refusing(Usage, "closed"):
        refaug.health()


def test_a_block_is_entered_once(tmp_path: Path) -> None:
    block = Client.local(home=tmp_path / "h", server=["/bin/false"])
    with pytest.raises(NotStarted), block:
        pass
    with refusing(Usage), block:
        pass


def test_an_error_in_the_block_stops_the_server_and_comes_out(tmp_path: Path) -> None:
    places = []

    def work() -> None:
        with Client.local(home=tmp_path / "h", server=FAKE) as refaug:
            places.append(Path(str(refaug._connection.settings.uds)))
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        work()
    assert [place.parent.exists() for place in places] == [False]


def test_asyncio_has_it_too_and_its_loop_goes_on_meanwhile(tmp_path: Path) -> None:
    turns = 0

    async def count() -> None:
        nonlocal turns
        while True:
            await asyncio.sleep(0.01)
            turns += 1

    async def main() -> str:
        counting = asyncio.create_task(count())
        async with AsyncClient.local(home=tmp_path / "h", server=FAKE) as refaug:
            place = Path(str(refaug._connection.settings.uds))
            status = (await refaug.health()).status
        assert not place.parent.exists()
        counting.cancel()
        return status

    assert asyncio.run(main()) == "ok"
    assert turns > 3


def test_cancelled_while_it_starts_it_leaves_nothing_behind(tmp_path: Path) -> None:
    before = leftovers()

    async def enter() -> None:
        async with AsyncClient.local(home=tmp_path / "h", server=[sys.executable, "-c", "input() or open(0).read()"]):
            raise AssertionError("it cannot be ready")

    async def main() -> None:
        entering = asyncio.create_task(enter())
        await asyncio.sleep(0)
        entering.cancel()
        await asyncio.gather(entering, return_exceptions=True)
        assert entering.cancelled() or isinstance(entering.exception(), NotStarted)

    asyncio.run(main())
    assert leftovers() == before


_OWNER = """
import os, sys, time
from refaug_client import Client
with Client.local(home=sys.argv[1], server=[sys.executable, *sys.argv[3:]]) as refaug:
    child = os.fork() if sys.argv[2] == "fork" else None
    if child == 0:
        time.sleep(600)  # holds nothing of the server's, or that would live as long
    from refaug_client._local import _STARTED
    server = next(iter(_STARTED))
    print(server._keeper.pid, child or 0, server.folder, flush=True)
    sys.stdin.read()
"""


def owner(home: Path, how: str, server: list[str]) -> tuple[subprocess.Popen[str], int, int, Path]:
    """A process with a server of its own: the process, the keeper, its forked child, the folder."""
    paths = os.pathsep.join((str(ROOT), str(ROOT / "clients" / "python" / "src")))
    process = subprocess.Popen(
        [sys.executable, "-c", _OWNER, str(home), how, *server[1:]],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONPATH": paths},
    )
    assert process.stdout is not None
    keeper, child, folder = process.stdout.readline().split()
    return process, int(keeper), int(child), Path(folder)


def ended(process: subprocess.Popen[str]) -> int:
    assert process.stdin is not None
    assert process.stdout is not None
    code = process.wait(DEADLINE_S)
    process.stdin.close()
    process.stdout.close()
    return code


@pytest.mark.slow
def test_killed_process_ends_its_server_though_a_forked_child_lives(tmp_path: Path) -> None:
    process, keeper, child, folder = owner(tmp_path / "h", "fork", SERVE)
    try:
        started = [keeper, *descendants(keeper)]
        assert len(started) >= 3
        os.kill(process.pid, signal.SIGKILL)
        until(lambda: all(is_gone(pid) for pid in started), "the server to end")
        until(lambda: not folder.exists(), "its folder to be removed")
        assert not is_gone(child)
    finally:
        os.kill(child, signal.SIGKILL)
        assert ended(process) == -signal.SIGKILL


def test_a_keeper_that_is_killed_takes_the_server_along(tmp_path: Path) -> None:
    process, keeper, _, _ = owner(tmp_path / "h", "alone", FAKE)
    started = descendants(keeper)
    os.kill(keeper, signal.SIGKILL)
    until(lambda: all(is_gone(pid) for pid in started), "the server to end")
    assert process.stdin is not None
    process.stdin.close()
    assert ended(process) == 0


def test_ctrl_c_ends_the_block_in_order(tmp_path: Path) -> None:
    process, keeper, _, folder = owner(tmp_path / "h", "alone", FAKE)
    started = [keeper, *descendants(keeper)]
    os.kill(process.pid, signal.SIGINT)
    assert ended(process) == -signal.SIGINT
    assert all(is_gone(pid) for pid in started)
    assert not folder.exists()


def test_a_forked_child_stops_nothing_that_is_its_parents(local: Client) -> None:
    server = next(one for one in _local._STARTED if one.uds == local._connection.settings.uds)
    child = os.fork()
    if child == 0:
        code = 1
        try:
            server.stop()
            code = 0 if local.health().status == "ok" else 2
        finally:
            os._exit(code)
    assert os.waitpid(child, 0)[1] == 0
    assert server.exit_code is None
    assert local.health().status == "ok"


# ── how it fails ──────────────────────────────────────────────────────────────────────────────────────────────────


def started_with(command: list[str], **more: Any) -> NotStarted:
    before = leftovers()
    with pytest.raises(NotStarted) as caught, Client.local(server=command, **more):
        pass
    assert leftovers() == before
    return caught.value


def python(code: str) -> list[str]:
    return [sys.executable, "-c", code]


def test_what_a_server_says_before_it_ends_is_in_the_error() -> None:
    error = started_with(python("import sys; print('the moon is in the way', file=sys.stderr); sys.exit(7)"))
    assert (error.exit_code, error.code) == (7, "")
    assert "exit code 7" in str(error)
    assert "the moon is in the way" in str(error)
    assert error.log.strip() == "the moon is in the way"


def test_an_error_of_refaug_itself_is_told_in_its_words() -> None:
    said = "error [usage]: REFAUG_PORT is 'x'\\n  a whole number is expected"
    error = started_with(
        python(f"import sys; sys.stderr.write({said!r}.encode().decode('unicode_escape')); sys.exit(2)")
    )
    assert (error.message, error.remedy, error.code) == ("REFAUG_PORT is 'x'", "a whole number is expected", "usage")


def test_of_a_long_log_the_end_is_told() -> None:
    error = started_with(python("print('x' * 1_000_000 + ' the end'); raise SystemExit(3)"))
    assert len(error.log) <= 4_000
    assert error.log.rstrip().endswith("the end")


def test_a_silent_end_and_a_command_that_is_not_there_are_told_too(tmp_path: Path) -> None:
    assert "no word" in str(started_with(["/bin/false"]))
    error = started_with([str(tmp_path / "refaug")])
    assert error.exit_code == 127
    assert str(tmp_path / "refaug") in str(error)


def test_options_that_the_server_does_not_know_are_told() -> None:
    error = started_with(SERVE, options=["--colour", "blue"])
    assert error.exit_code == 2
    assert "--colour" in str(error)


def test_a_server_that_does_not_get_ready_in_time_is_stopped() -> None:
    error = started_with(python("open(0).read(); import time; time.sleep(600)"), ready_s=0.5)
    assert "0.5" in str(error)
    assert error.remedy.startswith("ready_s=")


_UNREADY = """
import json, socket, sys
path = sys.argv[sys.argv.index("--uds") + 1]
body = json.dumps({"code": "not_ready", "detail": "not ready yet", "missing": ["index chat"]}).encode()
with socket.socket(socket.AF_UNIX) as bound:
    bound.bind(path)
    bound.listen()
    while True:
        one, _ = bound.accept()
        with one:
            if not one.recv(65536):
                continue
            head = "HTTP/1.1 503 Later\\r\\ncontent-type: application/problem+json\\r\\ncontent-length: %d\\r\\n\\r\\n"
            one.sendall((head % len(body)).encode() + body)
"""


@pytest.mark.slow
def test_what_it_is_not_ready_for_is_told() -> None:
    error = started_with(python(_UNREADY), ready_s=3.0)
    assert "index chat" in str(error)


def test_the_command_has_the_home_first_and_the_socket_last(tmp_path: Path) -> None:
    named = "sorted(name for name in os.environ if name.startswith('REFAUG'))"
    code = f"import json, os, sys; print(json.dumps([sys.argv[1:], {named}])); sys.exit(9)"
    with pytest.MonkeyPatch.context() as patch:
        patch.delenv("REFAUG_REQUIRE", raising=False)
        patch.setenv("REFAUG_URL", "http://elsewhere")
        patch.setenv("REFAUG_KEY", "s3cret")
        patch.setenv("REFAUG_LOOK_S", "0.1")
        patch.chdir(tmp_path)
        error = started_with(python(code), home="a home", options=["--workers", "2", "--uds", "/elsewhere"])
    arguments, variables = json.loads(error.log)
    assert arguments[:4] == ["--home", str(tmp_path / "a home"), "--quiet", "serve"]
    assert arguments[-6:-1] == ["--workers", "2", "--uds", "/elsewhere", "--uds"]
    assert variables == ["REFAUG_LOOK_S"]


@pytest.mark.parametrize(
    "wrong",
    [
        {"options": "--workers 2"},
        {"server": []},
        {"server": [""]},
        {"server": [7]},
        {"home": ""},
        {"ready_s": 0},
        {"ready_s": float("nan")},
    ],
)
def test_what_makes_no_sense_starts_nothing(wrong: dict[str, Any]) -> None:
    with pytest.raises(Usage):
        Client.local(**wrong)


def test_the_command_is_the_one_beside_this_python_else_the_paths(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert Path(find_command()) == Path(sys.executable).parent / "refaug"
    monkeypatch.setattr(sys, "executable", str(tmp_path / "python"))
    monkeypatch.setattr(_local.sysconfig, "get_path", lambda *_: str(tmp_path))
    command = tmp_path / "elsewhere" / "refaug"
    command.parent.mkdir()
    command.write_text("#!/bin/sh\n")
    monkeypatch.setenv("PATH", str(command.parent))
    with refusing(Usage):
        find_command()
    command.chmod(0o755)
    assert find_command() == str(command)


def test_a_temporary_folder_with_a_long_path_is_passed_over(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    long = tmp_path / ("x" * 120)
    long.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(long))
    folder = _local._private_folder()
    try:
        assert len(os.fsencode(folder / "s")) < 100
        with socket.socket(socket.AF_UNIX) as bound:
            bound.bind(str(folder / "s"))
    finally:
        shutil.rmtree(folder)
    monkeypatch.setattr(_local.tempfile, "mkdtemp", lambda **_: (_ for _ in ()).throw(PermissionError()))
    with refusing(Usage, "TMPDIR"):
        _local._private_folder()


def test_a_home_may_be_a_path_and_begin_with_a_tilde(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    assert ServerStart.of(Path("~/data")).home == str(tmp_path / "data")
    assert ServerStart.of().home is None


@pytest.mark.filterwarnings("ignore:unclosed <socket:ResourceWarning")
def test_a_server_that_ends_in_the_block_is_seen_by_its_client(tmp_path: Path) -> None:
    with Client.local(home=tmp_path / "h", server=FAKE, retry=0) as refaug:
        server = next(one for one in _local._STARTED if one.uds == refaug._connection.settings.uds)
        for pid in descendants(server._keeper.pid)[:1]:
            os.kill(pid, signal.SIGTERM)
        until(lambda: server.exit_code is not None, "the server to end")
        assert server.exit_code == -signal.SIGTERM
        with pytest.raises(CannotConnect):
            refaug.health()
    gc.collect()  # httpcore leaves a socket that could not be connected to the collector, which warns of it: here
