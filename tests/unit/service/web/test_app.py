"""The app as the server starts it."""

from __future__ import annotations

import gc
from pathlib import Path

import pytest
from starlette.testclient import TestClient

from refaug.service.web.app import from_env


def test_app_reads_its_environment_and_freezes_imports_for_the_collector(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("REFAUG_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("REFAUG_ITEMS", "3")
    monkeypatch.setenv("REFAUG_ALLOWED_HOSTS", "testserver")
    try:
        app = from_env()
        assert gc.get_freeze_count() > 100_000
        assert not any(one is app for one in gc.get_objects())
    finally:
        gc.unfreeze()
    items = [{"id": str(number), "references": ["a"], "replies": {"a": "a"}} for number in range(4)]
    with TestClient(app) as client:
        answer = client.post("/v1/scores", json={"items": items, "metrics": ["bleu"]})
    assert answer.json()["detail"] == "4 items are more than the 3 that one request may have"
