"""The answers of version 0.1.0, over a home that it made, are those of this code: see tests/goldens/record.py."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from goldens import record

pytestmark = pytest.mark.filterwarnings("ignore::ResourceWarning")


@pytest.fixture(scope="module")
def folder() -> Iterator[Path]:
    with record.unpacked() as folder:
        yield folder


def in_a_process(kind: str, folder: Path) -> Any:
    """Record in a separate process: what other tests have imported decides how typer lays out its help."""
    program = (
        "import json, sys; from pathlib import Path; sys.path[:0] = sys.argv[1:3]\n"
        "from goldens import record\n"
        "Path(sys.argv[4], 'found.json').write_text(json.dumps(record.KINDS[sys.argv[3]](Path(sys.argv[4]))))\n"
    )
    tests = Path(__file__).resolve().parents[1]
    command = [sys.executable, "-c", program, str(tests), str(tests.parent), kind, str(folder)]
    subprocess.run(command, check=True, capture_output=True, timeout=120)
    return json.loads((folder / "found.json").read_text("utf-8"))


@pytest.mark.parametrize("kind", list(record.KINDS))
def test_the_answers_are_those_that_were_recorded(folder: Path, kind: str) -> None:
    found = in_a_process(kind, folder) if kind == "help" else json.loads(json.dumps(record.KINDS[kind](folder)))
    assert record.undecided(record.differences(record.read(kind), found, kind)) == []


def test_the_comparison_sees_what_is_gone_or_new_or_another_number() -> None:
    before = {"a": 0.5, "b": [1, "x"], "c": None}
    assert list(record.differences(before, {"a": 0.5 + 1e-9, "b": [1, "x"], "c": None})) == []
    for other in (
        {"a": 0.5001, "b": [1, "x"], "c": None},
        {"a": 0.5, "b": [1, "y"], "c": None},
        {"a": 0.5, "b": [1], "c": None},
        {"a": 0.5, "b": [1, "x"]},
        {"b": [1, "x"], "a": 0.5, "c": None},
        {"a": 0.5, "b": [True, "x"], "c": None},
    ):
        assert len(list(record.differences(before, other))) == 1


def test_only_the_last_bits_of_ratings_may_differ() -> None:
    def differ(at: str, before: str, now: str) -> bool:
        return bool(list(record.differences(before, now, at)))

    assert not differ("score/signature", "log|range:0.8990909", "log|range:0.899091")
    assert differ("score/signature", "log|range:0.8990909", "log|range:0.8991909")
    assert differ("score/signature", "log|range:0.8990909", "norm|range:0.899091")
    hashes = "19a4a0df92ea", "1b4ba2ff6be6"
    assert not differ("score --rater demo/scores/0/references", *hashes)
    assert differ("score/scores/0/references", *hashes)
    assert differ("score --rater demo/scores/0/references", hashes[0], "none")
    assert differ("score --rater demo/scores/0/reply", *hashes)
