"""A real server beside the tests: it runs in the environment that REFAUG_SERVER_PYTHON is the Python of."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[3]


@dataclass(frozen=True)
class Served:
    """A server, its frozen sets by purpose, and the items in them."""

    url: str
    sets: dict[str, str]
    items: list[dict[str, Any]]

    @property
    def prompts(self) -> dict[str, str]:
        """What is said in each item, by its id."""
        return {item["id"]: item["utterance"] for item in self.items}

    @property
    def texts(self) -> list[str]:
        """Everything that is said."""
        return [text for item in self.items for text in (item["utterance"], *item["references"])]


@contextmanager
def server_beside() -> Iterator[Served]:
    """The server, until the end of the block."""
    python = os.environ.get("REFAUG_SERVER_PYTHON", str(ROOT / ".venv" / "bin" / "python"))
    environment = {name: value for name, value in os.environ.items() if not name.startswith(("PYTHON", "PYTEST"))}
    process = subprocess.Popen(
        [python, str(HERE / "small_server.py")], stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=environment
    )
    assert process.stdin is not None
    assert process.stdout is not None
    try:
        line = process.stdout.readline()
        assert line, "the server did not start; what it said is above"
        yield Served(**json.loads(line))
    finally:
        process.stdin.close()
        process.wait(60)
        process.stdout.close()
