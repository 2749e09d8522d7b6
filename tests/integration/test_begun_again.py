"""A web process that begins while others answer."""

from __future__ import annotations

import os
import threading
from pathlib import Path
from typing import Any

import pytest
from serving import client_of, migrated, wait_until
from starlette.testclient import TestClient

from service.engine import Engine, Engines
from service.presence import Presence
from service.serve_settings import ServeSettings
from service.settings import Settings
from service.web.app import create_app


def test_of_several_each_is_ready_when_all_are_that_take_requests(tmp_path: Path) -> None:
    home = migrated(Settings(home=tmp_path))
    other = Presence(home)  # another process, as far as anybody can see
    other.report(Engine())
    with client_of(home, workers=2) as client:
        assert client.get("/readyz").status_code == 200, "the other one takes no requests"
        other.accepts = True
        other.report(Engine())
        told = client.get("/readyz").json()
        assert (told["code"], told["missing"]) == ("not_ready", ["another process of this server"])
        other.report(Engine(has_looked=True))
        assert client.get("/readyz").status_code == 200
        assert [one.accepts and one.is_ready for one in other.live()] == [True, True]
    assert [one.pid for one in other.live()] == [os.getpid()]
    other.close()


@pytest.mark.parametrize("others_serve", [True, False])
def test_it_takes_no_connections_before_it_can_answer_them_unless_nobody_can(
    others_serve: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    home = migrated(Settings(home=tmp_path))
    other = Presence(home)
    other.report(Engine(generation=int(others_serve), has_looked=others_serve))
    may_open, looked = threading.Event(), Engines.refresh
    asked = threading.Event()

    def opening_takes_long(engines: Engines, **given: Any) -> bool:
        asked.set()
        may_open.wait(60)
        return looked(engines, **given)

    monkeypatch.setattr(Engines, "refresh", opening_takes_long)
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
