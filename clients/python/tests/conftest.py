"""A real server for the tests of the client: one for all of a test process, with an index, a rater and frozen sets."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

ROOT = Path(__file__).resolve().parents[3]
for folder in (str(ROOT / "tests"), str(Path(__file__).parent)):
    if folder not in sys.path:
        sys.path.append(folder)  # at the end: `conftest` is that of the server's tests, for those who ask for it

from known_items import ITEMS  # noqa: E402
from servers import Served, served  # noqa: E402
from serving import small_home  # noqa: E402


@pytest.fixture(scope="session")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    """A service over a small home: index `chat`, rater `base`; `server.home` is its folder."""
    home = small_home(tmp_path_factory.mktemp("served"))
    with served(home.home) as found:
        yield found


@pytest.fixture(scope="session")
def url(server: Served) -> str:
    """Where the service answers."""
    return str(server.client.base_url).rstrip("/")


@pytest.fixture(scope="session")
def sets(url: str) -> dict[str, str]:
    """Ids of frozen sets of `ITEMS` by purpose: train, validation, test."""
    return {purpose: frozen(url, purpose) for purpose in ("train", "validation", "test")}


def frozen(url: str, purpose: str, items: Any = ITEMS) -> str:
    """The id of a set of these items, with their references as they are given."""
    plain = [{key: item[key] for key in ("id", "utterance", "references")} for item in items]
    weighed = [
        {**item, "references": [*item["references"], {"text": "we like red boats", "weight": 0.5}]} for item in plain
    ]
    body = {"items": weighed, "purpose": purpose, "references": "given"}
    answer = httpx.post(f"{url}/v1/reference-sets", json=body, timeout=60)
    answer.raise_for_status()
    return str(answer.json()["id"])


@pytest.fixture(autouse=True)
def no_settings_of_the_user(monkeypatch: pytest.MonkeyPatch) -> None:
    """Tests see the defaults, whatever the shell that runs them has set."""
    for name in ("REFAUG_URL", "REFAUG_KEY"):
        monkeypatch.delenv(name, raising=False)
