from __future__ import annotations

import os
import resource
import socket
import stat
import time
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from unittest.mock import Mock

import pytest
from refusals import refusing

from refaug.core.errors import Conflict, Locked, Usage
from refaug.core.home import Settings
from refaug.service import prometheus_figures
from refaug.service.database.database import Database
from refaug.service.keys import KeyStore
from refaug.service.process.job_process import JobProcess, RestartBackoff
from refaug.service.process.listening_socket import address_of, bound_socket
from refaug.service.process.server import (
    APP,
    Supervisor,
    WebProcess,
    config_of,
    environment_of,
    has_keys,
    lock_home,
    raise_file_limit,
    require_keys_if_public,
)
from refaug.service.scopes import Scope
from refaug.service.server_settings import ServeSettings, is_local

CORES = len(os.sched_getaffinity(0))


def never() -> bool:
    raise AssertionError("nobody has to be asked")


# ── who may reach it ──────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("host", ["127.0.0.1", "127.8.9.10", "::1", "[::1]", "localhost"])
def test_an_address_of_this_machine_alone_needs_no_keys(host: str) -> None:
    settings = ServeSettings(host=host)
    assert is_local(settings)
    assert require_keys_if_public(settings, never) == settings


@pytest.mark.parametrize("host", ["0.0.0.0", "::", "10.0.0.7", "", "example.org", "127.0.0.1.example.org"])
def test_any_other_address_needs_keys_and_asks_for_them(host: str) -> None:
    settings = ServeSettings(host=host)
    assert not is_local(settings)
    with refusing(Usage) as refused:
        require_keys_if_public(settings, lambda: False)
    assert all(fact in refused.value.remedy for fact in ("--scope", "--host", "127.0.0.1", "--open"))
    assert require_keys_if_public(settings, lambda: True) == ServeSettings(host=host, keys=True)


def test_a_public_address_can_be_opened_to_anybody_by_saying_so() -> None:
    settings = ServeSettings(host="0.0.0.0", open=True)
    assert require_keys_if_public(settings, never) == settings
    with refusing(Usage):
        require_keys_if_public(ServeSettings(host="0.0.0.0", open=True, keys=True), never)


def test_a_unix_socket_is_this_machines_whatever_the_host() -> None:
    assert is_local(ServeSettings(host="0.0.0.0", uds="/tmp/x.sock"))


@pytest.fixture
def files(monkeypatch: pytest.MonkeyPatch) -> Callable[[int, int], list[tuple[int, int]]]:
    """Limits of open files as a test has them; what they are set to is listed."""

    def limited(allowed: int, most: int) -> list[tuple[int, int]]:
        changed = list[tuple[int, int]]()
        monkeypatch.setattr(resource, "getrlimit", lambda _which: (allowed, most))
        monkeypatch.setattr(resource, "setrlimit", lambda _which, limits: changed.append(limits))
        return changed

    return limited


def test_as_many_files_may_be_open_as_connections_need(files: Callable[[int, int], list[tuple[int, int]]]) -> None:
    settings = ServeSettings(connections=1_000)
    for allowed, most in ((1_256, 1_256), (20_000, resource.RLIM_INFINITY), (resource.RLIM_INFINITY,) * 2):
        changed = files(allowed, most)
        assert (raise_file_limit(settings), changed) == (allowed, [])
    for allowed in (1_024, 1_256):  # versions of many segments need more than connections do
        for most, raised in ((1_300, 1_300), (524_288, 17_640), (resource.RLIM_INFINITY, 17_640)):
            changed = files(allowed, most)
            assert (raise_file_limit(settings), changed) == (raised, [(raised, most)])
    changed = files(1_024, 1_255)
    with refusing(Usage, "1,000", "1,256", "1,255") as refused:
        raise_file_limit(settings)
    assert refused.value.remedy.startswith("--connections 999, or a higher limit")
    assert changed == []
    assert raise_file_limit(ServeSettings(connections=768)) == 1_255


def test_only_keys_that_open_something_count(tmp_path: Path) -> None:
    home, settings = Settings(home=tmp_path), ServeSettings()
    database = Database.open(home)
    database.migrate()
    store = KeyStore(database)
    assert not has_keys(home, settings)
    long_ago = datetime.now(UTC) - timedelta(days=9)
    store.create("expired", [Scope.READ], now=long_ago, expires=long_ago + timedelta(days=1))
    store.create("revoked", [Scope.READ])
    store.revoke("revoked")
    assert not has_keys(home, settings)
    store.create("counts", [Scope.READ])
    database.close()
    assert has_keys(home, settings)


# ── the lock ──────────────────────────────────────────────────────────────────────────────────────────────────────────


def test_a_second_server_of_a_home_is_told_who_has_it(tmp_path: Path) -> None:
    home = Settings(home=tmp_path / "home")
    first, second = lock_home(home, ServeSettings(port=8123)), lock_home(home, ServeSettings())
    with first, pytest.raises(Locked) as refused, second:
        never()
    assert refused.value.message == (
        f"{home.home} is served already: a server on 127.0.0.1, port 8123, process {os.getpid()}"
    )
    assert refused.value.exit_code == 4
    assert "--home" in refused.value.remedy
    with lock_home(home, ServeSettings()):
        pass  # it is free again


# ── the socket ────────────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.fixture
def taken() -> Iterator[int]:
    """A port on which somebody listens."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        yield server.getsockname()[1]


def test_connections_can_be_made_before_anybody_accepts_them() -> None:
    with bound_socket(ServeSettings(port=0)) as listener:
        port = listener.getsockname()[1]
        assert address_of(listener) == f"http://127.0.0.1:{port}"
        with socket.create_connection(("127.0.0.1", port)) as client:
            accepted, peer = listener.accept()
            accepted.close()
            assert peer == client.getsockname()


def test_a_port_in_use_is_refused_with_the_remedy(taken: int) -> None:
    with (
        refusing(Conflict, taken, "127.0.0.1") as refused,
        bound_socket(ServeSettings(port=taken)),
    ):
        never()
    assert "--any-port" in refused.value.remedy


def test_any_port_takes_the_port_asked_for_or_else_a_free_one(taken: int) -> None:
    with bound_socket(ServeSettings(port=taken), any_port=True) as listener:
        other = listener.getsockname()[1]
        assert other != taken
    with bound_socket(ServeSettings(port=other), any_port=True) as listener:
        assert listener.getsockname()[1] == other


def test_a_port_of_a_server_that_has_just_ended_can_be_taken_at_once() -> None:
    with bound_socket(ServeSettings(port=0)) as listener:
        port = listener.getsockname()[1]
        with socket.create_connection(("127.0.0.1", port)):
            listener.accept()[0].close()  # the side that closes first keeps the port in TIME_WAIT
    with bound_socket(ServeSettings(port=port)) as listener:
        assert listener.getsockname()[1] == port


@pytest.mark.parametrize("host", ["203.0.113.77", "no.such.host.invalid"])
def test_an_address_that_is_not_ours_is_a_mistake_of_the_command(host: str) -> None:
    with refusing(Usage, host), bound_socket(ServeSettings(host=host, port=0)):
        never()


def test_an_address_of_version_6_is_written_in_brackets() -> None:
    try:
        socket.create_server(("::1", 0), family=socket.AF_INET6).close()
    except OSError:
        pytest.skip("this machine has no IPv6")
    with bound_socket(ServeSettings(host="::1", port=0)) as listener:
        assert address_of(listener) == f"http://[::1]:{listener.getsockname()[1]}"


def test_a_unix_socket_is_for_its_user_alone_and_goes_with_the_server(tmp_path: Path) -> None:
    path = tmp_path / "refaug.sock"
    settings = ServeSettings(uds=str(path))
    with bound_socket(settings) as listener:
        assert stat.S_IMODE(path.stat().st_mode) == 0o600
        assert address_of(listener) == f"unix:{path}"
        with refusing(Conflict), bound_socket(settings):
            never()
        with socket.socket(socket.AF_UNIX) as client:
            client.connect(str(path))
    assert not path.exists()


def test_stale_unix_socket_is_replaced_and_another_file_is_not(tmp_path: Path) -> None:
    path = tmp_path / "refaug.sock"
    with socket.socket(socket.AF_UNIX) as left:
        left.bind(str(path))
    with bound_socket(ServeSettings(uds=str(path))):
        pass
    path.write_text("mine")
    with refusing(Conflict), bound_socket(ServeSettings(uds=str(path))):
        never()
    assert path.read_text() == "mine"
    with (
        refusing(Usage),
        bound_socket(ServeSettings(uds=str(tmp_path / "no" / "x.sock"))),
    ):
        never()


# ── what the children are told ────────────────────────────────────────────────────────────────────────────────────────


def test_children_read_back_the_same_settings(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    settings = ServeSettings(port=0, workers=2, root_path="/x", timeout_s=12.5, open=True, sources="/a:/b")
    told = environment_of(Settings(home=Path("data")), settings, "/proc/9/fd/4", {})
    assert ServeSettings.from_env(told) == settings
    assert Settings.from_env(told).home == tmp_path / "data"
    assert told[prometheus_figures.MEMORY_VARIABLE] == "/proc/9/fd/4"


@pytest.mark.parametrize("workers", [1, 2, CORES, 4 * CORES])
def test_threads_are_divided_among_the_web_processes(workers: int, tmp_path: Path) -> None:
    told = environment_of(Settings(home=tmp_path), ServeSettings(workers=workers), "", {})
    counts = {told[f"{library}_NUM_THREADS"] for library in ("OMP", "MKL", "NUMBA")}
    assert told["OPENBLAS_NUM_THREADS"] == "1"
    assert counts == {str(max(1, CORES // workers))}


@pytest.mark.parametrize("writable", [True, False])
def test_compiled_loops_are_cached_beside_the_code_or_else_in_the_home(
    writable: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("refaug.core.kernels.kernel_cache.is_writable", lambda: writable)
    told = environment_of(Settings(home=tmp_path), ServeSettings(), "", {})
    assert told.get("NUMBA_CACHE_DIR") == (None if writable else str(tmp_path / "cache" / "numba"))


def test_thread_counts_and_caches_that_somebody_has_set_are_kept(tmp_path: Path) -> None:
    given = {"OMP_NUM_THREADS": "3", "NUMBA_CACHE_DIR": "/data/cache/numba", "REFAUG_PORT": "1"}
    told = environment_of(Settings(home=tmp_path), ServeSettings(port=2), "", given)
    assert not {"OMP_NUM_THREADS", "NUMBA_CACHE_DIR"} & told.keys()
    assert told["REFAUG_PORT"] == "2"


def test_uvicorn_gets_the_timeouts_of_the_settings_and_logs_nothing() -> None:
    settings = ServeSettings(workers=3, start_s=1_234.0, shutdown_s=7.5, root_path="/refaug/", proxies="10.0.0.1")
    config = config_of(settings)
    assert (config.app, config.factory, config.workers) == (APP, True, 3)
    assert config.timeout_worker_healthcheck == 1_234.0
    assert config.timeout_graceful_shutdown == 7.5
    assert (config.root_path, config.proxy_headers, config.forwarded_allow_ips) == ("/refaug", True, "10.0.0.1")
    assert (config.log_config, config.access_log, config.server_header) == (None, False, False)
    assert (config.loop, config.http, config.ws) == (
        "uvloop",
        "refaug.service.web.guard.guard:Guard",
        "none",
    )


# ── beginning again ───────────────────────────────────────────────────────────────────────────────────────────────────


def test_who_dies_young_waits_longer_each_time_and_who_was_steady_does_not() -> None:
    backoff, now, waits = RestartBackoff(begun=0.0), 1.0, []
    for _ in range(9):
        again = backoff.record_death(now)
        waits.append(again - now)
        backoff.record_start(again)
        now = again + 1.0
    assert waits == [0.5, 1.0, 2.0, 4.0, 8.0, 16.0, 30.0, 30.0, 30.0]
    assert backoff.record_death(now + 3_600) == now + 3_600
    backoff.record_start(now + 3_600)
    assert backoff.record_death(now + 3_601) == now + 3_601.5


def test_a_process_that_cannot_be_made_leaves_the_others_alone(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr("sys.executable", "/nowhere/python")
    monkeypatch.setattr("multiprocessing.util.spawnv_passfds", Mock(side_effect=BlockingIOError("no process is left")))
    jobs = JobProcess(within_s=1.0, level=20)
    with monkeypatch.context() as patched:
        patched.setattr("signal.signal", lambda *_: None)
        supervisor = Supervisor(config_of(ServeSettings()), [], jobs)
    supervisor.processes = [WebProcess(supervisor.config, [], level=20)]
    supervisor._not_before = [time.monotonic()]  # it has died, and is to be started again
    supervisor.keep_subprocess_alive()
    assert [record.getMessage() for record in caplog.records] == [
        "a web process cannot be made",
        "the job process cannot start",
    ]
    assert (jobs.is_running(), supervisor.should_exit.is_set()) == (False, False)
    supervisor.keep_subprocess_alive()  # not before a while
    assert len(caplog.records) == 2
