"""The client in the frameworks, in an environment of their own (`make test-integrations`), beside a real server."""

from __future__ import annotations

import importlib.util
import os
from collections.abc import Iterator

import pytest

# where the frameworks are not installed, the other tests of the client run; here, that nothing ran is a failure
collect_ignore_glob = [] if importlib.util.find_spec("trl") else ["test_*.py"]

os.environ.update({"HF_HUB_OFFLINE": "1", "TOKENIZERS_PARALLELISM": "false", "CUDA_VISIBLE_DEVICES": ""})

if importlib.util.find_spec("trl"):
    from beside import Served, server_beside

    from refaug_client import Client

    @pytest.fixture(scope="session")
    def served() -> Iterator[Served]:
        """The one server of all tests."""
        with server_beside() as found:
            yield found

    @pytest.fixture
    def client(served: Served) -> Iterator[Client]:
        with Client(served.url) as made:
            yield made


@pytest.fixture(autouse=True)
def no_settings_of_the_user(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("REFAUG_URL", "REFAUG_KEY"):
        monkeypatch.delenv(name, raising=False)
