"""How many record types a request for scores makes between its body and its answer: checks/record_types.py."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Final

import pytest

CHECK: Final = Path(__file__).parents[3] / "checks" / "record_types.py"
TIMED: Final = {"ServedVersions", "VersionSwitch", "VersionName", "ProcessReport"}  # of the clock, not of the request


@pytest.mark.slow
@pytest.mark.parametrize(
    ("request_name", "most"), [pytest.param("supplied", 10, marks=pytest.mark.faults), ("found", 20)]
)
def test_a_request_makes_no_more_record_types(request_name: str, most: int) -> None:
    command = [sys.executable, str(CHECK), request_name]
    output = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    records = output.partition("objects\n")[0].splitlines()[1:-1]
    names = {line.rpartition(".")[2] for line in records} - TIMED
    assert len(names) <= most, names
