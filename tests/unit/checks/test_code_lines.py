"""Lines of code are counted by room, without blank lines, comments and docstrings."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[3]
_SPEC = importlib.util.spec_from_file_location("refaug_code_lines", ROOT / "checks" / "code_lines.py")
assert _SPEC is not None
assert _SPEC.loader is not None
code_lines = importlib.util.module_from_spec(_SPEC)
sys.modules[_SPEC.name] = code_lines
_SPEC.loader.exec_module(code_lines)

MODULE = '''"""What the module is for.

Said in three lines."""

import os
from typing import (
    Any,
)


def size(path: str) -> dict[str, Any]:
    """Return the size."""
    # dict[str, Any] in a comment is no line of code
    import stat

    text = """a text

    over three lines"""
    return {"size": os.stat(path), "kind": stat, "text": text}  # a comment after code
'''


def test_blank_lines_comments_and_docstrings_are_no_code() -> None:
    assert code_lines.CodeLines.of(MODULE) == code_lines.CodeLines(files=1, lines=19, code=10, imports=5, untyped=1)


def test_rooms_are_the_folders_of_a_package(tmp_path: Path) -> None:
    for name in ("__init__.py", "a.py", "room/__init__.py", "room/inner/b.py"):
        path = tmp_path / "package" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("x = 1\n", "utf-8")
    two = code_lines.CodeLines(files=2, lines=2, code=2)
    assert code_lines.count_rooms(tmp_path / "package") == {"package": two, "package/room": two}
    assert code_lines.count_rooms(tmp_path) == {"package": two, "package/room": two}


def test_a_folder_without_a_package_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert code_lines.main([str(tmp_path)]) == 2
    assert str(tmp_path) in capsys.readouterr().err


def test_the_sum_stands_below_the_rooms() -> None:
    rooms = {
        "p/a": code_lines.CodeLines(files=1, lines=1_000, code=700, imports=90, untyped=2),
        "p/b": code_lines.CodeLines(files=2, lines=1_000, code=600, imports=10, untyped=1),
    }
    assert [row.split() for row in code_lines.table(rooms)[1:]] == [
        ["p/a", "1", "1,000", "700", "90", "9.0%", "2"],
        ["p/b", "2", "1,000", "600", "10", "1.0%", "1"],
        ["all", "3", "2,000", "1,300", "100", "5.0%", "3"],
    ]


def test_the_page_gets_the_counts_and_is_refused_once_they_are_a_tenth_away(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    page = tmp_path / "page.md"
    page.write_text("# Rooms\n\n```lines\n```\n\n```text\nrest\n```\n")
    monkeypatch.setattr(code_lines, "hundreds", lambda: {"small": 300, "large.room": 12_300})
    assert code_lines.write_page(page, checks=False) == 0
    lines = "```lines\nlarge.room   12,300\nsmall           300\n```"
    assert page.read_text() == f"# Rooms\n\n{lines}\n\n```text\nrest\n```\n"
    monkeypatch.setattr(code_lines, "hundreds", lambda: {"small": 400, "large.room": 13_800})
    assert code_lines.write_page(page, checks=True) == 1
    assert "large.room" in capsys.readouterr().err
    monkeypatch.setattr(code_lines, "hundreds", lambda: {"small": 400, "large.room": 13_400})
    assert code_lines.write_page(page, checks=True) == 0
