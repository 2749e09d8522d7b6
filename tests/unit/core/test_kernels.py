"""Compiled loops: the same numbers with a cache on disk, with a damaged one, and without any."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[3]
LOOP = """
from refaug.core.kernels.kernel import compiled

@compiled
def add_up(numbers):
    total = 0.0
    for number in numbers:
        total += number
    return total
"""
PROGRAM = """
import numpy as np
from loop import add_up
print(add_up(np.array([0.25, 0.5])), sum(add_up.dispatcher.stats.cache_hits.values()))
"""


def run(folder: Path, cache: Path, program: str = PROGRAM) -> tuple[str, ...]:
    """What the loop gives, and how many compiled ones came from the cache."""
    environment = {**os.environ, "NUMBA_CACHE_DIR": str(cache), "PYTHONPATH": f"{folder}:{ROOT}"}
    found = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True, env=environment, timeout=300
    )
    return tuple(found.stdout.split())


@pytest.mark.slow
@pytest.mark.parametrize("damaged", ["*.nbi", pytest.param("*.nbc", marks=pytest.mark.slow)])
def test_a_damaged_cache_costs_time_and_nothing_else(tmp_path: Path, damaged: str) -> None:
    (tmp_path / "loop.py").write_text(LOOP)
    cache = tmp_path / "cache"
    cache.mkdir()
    assert run(tmp_path, cache) == ("0.75", "0")
    assert run(tmp_path, cache) == ("0.75", "1")
    files = list(cache.rglob(damaged))
    assert files
    for path in files:
        path.write_bytes(b"")
    assert run(tmp_path, cache) == ("0.75", "0")
    assert run(tmp_path, cache) == ("0.75", "1"), "what was damaged is written anew"


def test_without_a_place_for_a_cache_loops_are_compiled_each_time(tmp_path: Path) -> None:
    (tmp_path / "loop.py").write_text(LOOP)
    cache = tmp_path / "cache"
    cache.write_text("a file where the folder should be")
    assert run(tmp_path, cache) == ("0.75", "0")


CALLER = """
from refaug.core.kernels.kernel import compiled
from loop import add_up

@compiled
def twice(numbers):
    return 2.0 * add_up(numbers)
"""


@pytest.mark.slow
def test_loop_is_recompiled_after_a_change_of_a_callee_in_another_file(tmp_path: Path) -> None:
    (tmp_path / "loop.py").write_text(LOOP)
    (tmp_path / "caller.py").write_text(CALLER)
    cache = tmp_path / "cache"
    cache.mkdir()
    program = PROGRAM.replace("from loop import add_up", "from caller import twice as add_up")
    assert run(tmp_path, cache, program) == ("1.5", "0")
    assert run(tmp_path, cache, program) == ("1.5", "1")
    (tmp_path / "loop.py").write_text(LOOP.replace("total += number", "total += 10 * number"))
    assert run(tmp_path, cache, program) == ("15.0", "0")
    assert run(tmp_path, cache, program) == ("15.0", "1")
