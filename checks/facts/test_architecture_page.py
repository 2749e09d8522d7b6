"""The diagram of docs/architecture.md has the rooms of the import contract, in its order."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]


def rooms_of_the_diagram() -> list[list[str]]:
    """The rooms of each line, from top to bottom."""
    page = (ROOT / "docs" / "architecture.md").read_text("utf-8")
    diagram = re.search(r"^```rooms\n(.*?)^```$", page, re.MULTILINE | re.DOTALL)
    assert diagram is not None, "the page has no block ```rooms"
    return [re.findall(r"refaug\.\w+", line) for line in diagram[1].splitlines() if "refaug." in line]


def rooms_of_the_contract() -> list[list[str]]:
    """The layers of the contract `the rooms`, from top to bottom."""
    contracts = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["tool"]["importlinter"]["contracts"]
    [layers] = [contract["layers"] for contract in contracts if contract["name"] == "the rooms"]
    return [[f"refaug.{room}" for room in layer.split(" | ")] for layer in layers]


def test_the_diagram_has_the_rooms_of_the_contract() -> None:
    assert rooms_of_the_diagram() == rooms_of_the_contract()
