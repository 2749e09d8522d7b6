"""The shards of a server: what is wrong with the settings of their store is said before anything is started."""

from __future__ import annotations

import pytest
from refusals import refusing

from refaug.cli.main import main
from refaug.core.errors import Usage
from refaug.core.home import Settings
from refaug.service.process.server import serve
from refaug.service.server_settings import ServeSettings
from refaug.service.serving.versions.version_opener import ShardCluster

SERVE = ServeSettings(shards="127.0.0.1:9")
WRONG = ("REFAUG_STORE_TIMEOUT_S", "'abc'")


@pytest.fixture(autouse=True)
def wrong_store(monkeypatch, tmp_path):
    monkeypatch.setenv("REFAUG_STORE", str(tmp_path))
    monkeypatch.setenv("REFAUG_STORE_TIMEOUT_S", "abc")


def test_a_wrong_setting_of_the_store_is_not_taken_for_no_store(tmp_path):
    with refusing(Usage, *WRONG):
        ShardCluster(SERVE).hosts()
    with refusing(Usage, *WRONG):
        serve(Settings(home=tmp_path / "home"), SERVE)
    assert not (tmp_path / "home").exists()


def test_a_check_of_the_settings_names_it_and_knows_the_variables_of_stores_and_machines(tmp_path, monkeypatch, capsys):
    monkeypatch.setenv("REFAUG_NODE_CACHE", str(tmp_path))
    monkeypatch.setenv("REFAUG_STOER", str(tmp_path))
    assert main(["--home", str(tmp_path / "home"), "serve", "--shards", "127.0.0.1:9", "--check"]) != 0
    printed = capsys.readouterr().out
    assert all(fact in printed for fact in (*WRONG, "REFAUG_STOER"))
