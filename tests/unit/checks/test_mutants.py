"""The seeded mutants: where they are drawn, and that each is other Python than before."""

from __future__ import annotations

import ast
import importlib.util
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[3]
_SPEC = importlib.util.spec_from_file_location("refaug_mutants", ROOT / "checks" / "mutants.py")
assert _SPEC is not None
assert _SPEC.loader is not None
mutants = importlib.util.module_from_spec(_SPEC)
sys.modules[_SPEC.name] = mutants
_SPEC.loader.exec_module(mutants)

SOURCE = b"""LIMIT = 3


def clip(value, low):
    if value < low and low:
        return low + 1
    return value
"""


def test_every_operator_constant_and_condition_of_a_function_has_a_mutant() -> None:
    found = {(mutant.before.strip(), mutant.after.strip()) for mutant in mutants.mutants_of("a.py", SOURCE)}
    assert found == {
        ("<", "<="),
        ("and", "or"),
        ("+", "-"),
        ("1", "2"),
        ("value < low and low", "not (value < low and low)"),
    }


def test_a_mutant_changes_only_its_place() -> None:
    [mutant] = [mutant for mutant in mutants.mutants_of("a.py", SOURCE) if mutant.before.strip() == "+"]
    assert mutants.apply(SOURCE, mutant) == SOURCE.replace(b"low + 1", b"low - 1")
    assert mutant.line == 6


@pytest.mark.slow
def test_the_same_seed_draws_the_same_valid_mutants_from_all_packages() -> None:
    drawn = mutants.draw(ROOT, 18, 7)
    assert drawn == mutants.draw(ROOT, 18, 7)
    assert {next(name for name in mutants.PACKAGES if mutant.file.startswith(f"{name}/")) for mutant in drawn} == {
        *mutants.PACKAGES
    }
    for mutant in drawn:
        content = (ROOT / mutant.file).read_bytes()
        assert ast.dump(ast.parse(mutants.apply(content, mutant))) != ast.dump(ast.parse(content))


def test_a_mutant_is_found_again_in_the_function_of_its_name_wherever_that_lies(tmp_path: Path) -> None:
    [earlier] = [mutant for mutant in mutants.mutants_of("a.py", SOURCE) if mutant.before.strip() == "+"]
    for file, text in (
        ("refaug/core/a.py", "def cut(value):\n    return value + 1\n"),
        ("refaug/metrics/b.py", "class Range:\n    def clip(self, low):\n        return low + 1\n"),
        ("refaug/metrics/c.py", "def clip(value, low):\n    return low  +  2\n"),
    ):
        path = tmp_path / file
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    now = mutants.match(tmp_path, earlier)
    assert (now.file, now.function, now.change) == ("refaug/metrics/c.py", "clip", ("+", "-"))
    [other] = [mutant for mutant in mutants.mutants_of("a.py", SOURCE) if mutant.before == "1"]
    assert mutants.match(tmp_path, other).function == "Range.clip"
    [gone] = [mutant for mutant in mutants.mutants_of("a.py", SOURCE) if mutant.before.strip() == "and"]
    assert mutants.match(tmp_path, gone) is None
