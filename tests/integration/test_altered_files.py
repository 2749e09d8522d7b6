"""Files that were altered: nothing crashes, no server answers wrongly, and what a command misses doctor names."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest
from safeguards import has_extra

TESTS = Path(__file__).parents[1]


def problems(first: int, last: int) -> list[object]:
    """What went wrong with these alterations, made in a process that may die of them."""
    run = subprocess.run(
        [sys.executable, str(TESTS / "alterations.py"), str(first), str(last)],
        capture_output=True,
        text=True,
        check=False,
        env={"PYTHONPATH": str(TESTS), "PATH": "/usr/bin:/bin", "REFAUG_HOME": "/nonexistent"},
    )
    outcomes = [json.loads(line) for line in run.stdout.splitlines()]
    ended = [each for each in outcomes if "seed" in each]
    bad = [each for each in ended if not is_fine(each)]
    if len(ended) != last - first:
        bad.append({"exit": run.returncode, "at": outcomes[-1:], "err": run.stderr[-2_000:]})
    return bad


def is_fine(outcome: dict) -> bool:
    served, by_command = set(outcome["served"].values()), set(outcome["command"].values())
    return served <= {"right", "refused"} and by_command <= {"right", "refused", "wrong"} and outcome["named"]


@pytest.mark.slow
def test_a_sample_of_altered_files_crashes_nothing_and_is_never_served() -> None:
    assert problems(0, 5) == []


@pytest.mark.slow
def test_altered_backups_ranges_and_indexes_of_other_shapes_are_never_served() -> None:
    assert problems(2_000, 2_002) == []


@pytest.mark.slow
def test_altered_uploads_and_evaluations_are_never_served() -> None:
    assert problems(6_000, 6_004) == []


@pytest.mark.faults
def test_400_altered_uploads_and_evaluations_are_never_served() -> None:
    assert problems(6_000, 6_400) == []


@pytest.mark.faults
@pytest.mark.skipif(not all(map(has_extra, ("judges", "conversations"))), reason="an extra was removed")
@pytest.mark.parametrize("first", range(4_000, 4_400, 200))
def test_400_altered_networks_judges_and_files_of_scores_are_named_or_harmless(first: int) -> None:
    assert problems(first, first + 200) == []


@pytest.mark.faults
@pytest.mark.parametrize("first", range(2_000, 2_400, 200))
def test_400_altered_files_of_rarer_kinds_are_never_served(first: int) -> None:
    assert problems(first, first + 200) == []


@pytest.mark.faults
@pytest.mark.parametrize("first", range(0, 2_000, 200))
def test_2000_altered_files_crash_nothing_and_are_never_served(first: int) -> None:
    assert problems(first, first + 200) == []
