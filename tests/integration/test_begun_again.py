"""A web process that begins while others answer."""

from __future__ import annotations

import os
import threading
from pathlib import Path
from threading import Semaphore
from types import SimpleNamespace
from typing import Any

import pytest
from serving import client_of, migrated, wait_until
from starlette.testclient import TestClient

from refaug.core.home import Settings
from refaug.service.process.live_processes import LiveProcesses
from refaug.service.server_settings import ServeSettings
from refaug.service.serving.versions.leases import ServedVersions, VersionKey
from refaug.service.serving.versions.open_versions import OpenVersions
from refaug.service.web.app import create_app

pytestmark = pytest.mark.slow


def test_of_several_each_is_ready_when_all_are_that_take_requests(tmp_path: Path) -> None:
    home = migrated(Settings(home=tmp_path))
    other = LiveProcesses(home)  # another process, as far as anybody can see
    other.report(ServedVersions())
    with client_of(home, workers=2) as client:
        assert client.get("/readyz").status_code == 200, "the other one takes no requests"
        other.accepts = True
        other.report(ServedVersions())
        told = client.get("/readyz").json()
        assert (told["code"], told["missing"]) == ("not_ready", ["another process of this server"])
        other.report(ServedVersions(is_loaded=True))
        assert client.get("/readyz").status_code == 200
        assert [one.accepts and one.is_ready for one in other.reports()] == [True, True]
    assert [one.pid for one in other.reports()] == [os.getpid()]
    other.close()


@pytest.mark.parametrize("others_serve", [True, False])
def test_process_accepts_no_connections_until_loaded_unless_none_serves(
    others_serve: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    home = migrated(Settings(home=tmp_path))
    other = LiveProcesses(home)
    other.report(ServedVersions(generation=int(others_serve), is_loaded=others_serve))
    may_open, looked = threading.Event(), OpenVersions.refresh
    asked = threading.Event()

    def opening_takes_long(engines: OpenVersions, **given: Any) -> bool:
        asked.set()
        may_open.wait(60)
        return looked(engines, **given)

    monkeypatch.setattr(OpenVersions, "refresh", opening_takes_long)
    accepts = threading.Event()
    answers = list[int]()

    def run() -> None:
        with TestClient(create_app(home, ServeSettings(allowed_hosts="testserver"))) as client:
            answers.append(client.get("/readyz").status_code)
            accepts.set()
            may_open.wait(60)

    server = threading.Thread(target=run)
    server.start()
    try:
        wait_until(asked.is_set)
        if others_serve:
            assert not accepts.wait(1)
            other.close()  # now there is nobody else to answer
        wait_until(accepts.is_set)
        assert answers == [503]
    finally:
        may_open.set()
        server.join(60)
        other.close()


def test_incomplete_process_accepts_none_unless_the_others_lack_something(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    home = migrated(Settings(home=tmp_path))
    other, serve = LiveProcesses(home), ServeSettings(allowed_hosts="testserver", start_s=60)

    def with_names(*names: str) -> ServedVersions:
        opened = {("index", name): SimpleNamespace(key=VersionKey("index", name, "1")) for name in names}
        lacks = {f"index {name}": "no memory" for name in ("chat", "mail") if name not in names}
        return ServedVersions(opened=opened, troubles=lacks, is_loaded=True)  # type: ignore[arg-type]

    looks = Semaphore(0)

    def opening_fails(engines: OpenVersions, **_given: Any) -> bool:
        engines.served = with_names("chat")
        looks.release()
        return False

    monkeypatch.setattr(OpenVersions, "refresh", opening_fails)
    monkeypatch.setattr(OpenVersions, "close", lambda _engines: None)  # nothing was opened
    monkeypatch.setattr("refaug.service.web.app._warm", lambda state: state.warming.clear())
    answers = list[dict[str, Any]]()
    accepts = threading.Event()

    def run() -> None:
        with TestClient(create_app(home, serve)) as client:
            answers.append(client.get("/readyz").json())
            accepts.set()

    other.accepts = True
    other.report(with_names("chat", "mail"))
    server = threading.Thread(target=run)
    server.start()
    try:
        for _ in range(3):
            assert looks.acquire(timeout=60)
        assert not accepts.wait(1)
        assert sorted(one.accepts for one in other.reports()) == [False, True]
        other.report(with_names("mail"))
        wait_until(accepts.is_set)
        assert answers[0]["missing"] == ["index mail"]
    finally:
        other.close()
        server.join(60)
