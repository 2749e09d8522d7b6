"""What an installation has compiled: read where others write elsewhere, whatever the files' times, told by doctor."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from unit.core.test_kernels import LOOP, PROGRAM

from refaug.core.home import Settings
from refaug.core.kernels import kernel_cache
from refaug.core.kernels.compiler import COMMON
from refaug.service.doctor import FindingState, examine

ROOT = Path(__file__).resolve().parents[3]
OWN = "from refaug.core.kernels.compiler import compile_for_this_processor as own; own()\n"


def run(folder: Path, before: str = "", **environment: str) -> tuple[str, ...]:
    """What the loop in this folder gives, and how many compiled ones came from a cache."""
    done = subprocess.run(
        [sys.executable, "-c", before + PROGRAM],
        capture_output=True,
        text=True,
        check=True,
        env={**os.environ, "NUMBA_CACHE_DIR": "", "PYTHONPATH": f"{folder}:{ROOT}", **environment},
        timeout=300,
    )
    return tuple(done.stdout.split())


def test_what_lies_beside_the_code_is_read_whatever_folder_is_written_to(tmp_path: Path) -> None:
    installed, other = tmp_path / "installed", tmp_path / "other"
    installed.mkdir()
    (installed / "loop.py").write_text(LOOP)
    assert run(installed) == ("0.75", "0")
    shutil.copytree(installed, other)  # as an image does: at another place, and with other times
    os.utime(other / "loop.py", (1, 1))
    kept = tmp_path / "kept"
    kept.mkdir()
    assert run(other, NUMBA_CACHE_DIR=str(kept)) == ("0.75", "1")
    assert list(kept.rglob("*.nbc")) == []


@pytest.mark.slow
def test_code_compiled_for_a_generic_processor_is_cached_separately(tmp_path: Path) -> None:
    (tmp_path / "loop.py").write_text(LOOP)
    assert run(tmp_path, NUMBA_CPU_NAME="generic") == ("0.75", "0")
    assert run(tmp_path) == ("0.75", "0")
    assert run(tmp_path, NUMBA_CPU_NAME="generic") == ("0.75", "1")


@pytest.mark.slow
def test_what_a_wheel_brings_is_read_unless_it_is_to_be_compiled_for_this_processor(tmp_path: Path) -> None:
    (tmp_path / "loop.py").write_text(LOOP)
    name, features = COMMON
    assert run(tmp_path, NUMBA_CPU_NAME=name, NUMBA_CPU_FEATURES=features) == ("0.75", "0")
    assert run(tmp_path) == ("0.75", "1")
    assert run(tmp_path, before=OWN) == ("0.75", "0")
    assert run(tmp_path, before=OWN) == ("0.75", "1")


@pytest.fixture
def beside(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An installation of one file with loops, and nothing compiled."""
    monkeypatch.setattr(kernel_cache, "ROOT", tmp_path)
    monkeypatch.setattr(kernel_cache, "BESIDE", tmp_path / "__pycache__")
    (tmp_path / "__pycache__").mkdir()
    (tmp_path / "loop.py").write_text(LOOP)
    return tmp_path


def finding_of(home: Path) -> tuple[FindingState, str]:
    (found,) = (one for one in examine(Settings(home=home)) if one.what == "compiled loops")
    return found.state, found.found


def test_doctor_tells_whether_the_loops_are_compiled(beside: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    state, said = finding_of(beside / "home")
    assert (state, said.partition(";")[0]) == (FindingState.NOTE, "none was compiled at installation")
    kernel_cache.note_filled([beside / "loop.py"], 1)
    assert finding_of(beside / "home") == (FindingState.GOOD, "1 beside the code")
    monkeypatch.setenv("NUMBA_CPU_NAME", "generic")
    assert finding_of(beside / "home")[1].startswith("compiled for processor ")
    monkeypatch.delenv("NUMBA_CPU_NAME")
    (beside / "loop.py").write_text(LOOP + "\n")
    assert finding_of(beside / "home")[1].startswith("the code has changed since: loop.py")


def test_a_state_that_is_no_json_is_told_and_stops_nothing(beside: Path) -> None:
    (beside / "__pycache__" / "kernels.json").write_text("{")
    assert finding_of(beside / "home")[0] is FindingState.NOTE
    (beside / "__pycache__" / "kernels.json").write_text(json.dumps({"numba": "0"}))
    assert finding_of(beside / "home")[1].startswith("compiled for numba 0")
