"""A real server for the tests of the client: one for all of a test process, with an index, a rater and frozen sets."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import httpx
import pytest

ROOT = Path(__file__).resolve().parents[3]
for folder in (str(ROOT / "tests"), str(Path(__file__).parent)):
    if folder not in sys.path:
        sys.path.append(folder)  # at the end: `conftest` is that of the server's tests, for those who ask for it

from kinds import KINDS, Opened  # noqa: E402
from safeguards import (  # noqa: E402, F401  hooks
    pytest_collection,
    pytest_runtest_call,
    pytest_runtest_setup,
    pytest_runtest_teardown,
    pytest_unconfigure,
    restore_signals,
)

if TYPE_CHECKING:
    from servers import Served

restore_signals()


@pytest.fixture(params=KINDS)
def opened(request: pytest.FixtureRequest) -> Iterator[Opened]:
    """Makes clients of a kind."""
    found = Opened(request.param)
    yield found
    found.close()


@pytest.fixture(scope="session")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    """A service over a small home: index `chat`, rater `base`; `server.home` is its folder."""
    # here, because the process that hands out tests to others reads this file too
    from servers import served  # noqa: PLC0415
    from serving import small_home  # noqa: PLC0415

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


def frozen(url: str, purpose: str, items: Any = None) -> str:
    """The id of a set of these items, else of `ITEMS`, with their references as they are given."""
    from known_items import ITEMS  # noqa: PLC0415

    items = ITEMS if items is None else items
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
