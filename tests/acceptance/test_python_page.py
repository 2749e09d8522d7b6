"""The page about `import refaug`: its examples print what the comments beside them say."""

from __future__ import annotations

import contextlib
import io
import re
from inspect import signature
from pathlib import Path
from typing import Any

import pytest
from acceptance.examples import ROOT, fences, matches
from engines import home_with_versions

import refaug
from refaug.core.options.describing import options_of
from refaug.scoring.settings import AugmentSettings

PAGE = ROOT / "docs" / "python.md"
TEXT = PAGE.read_text("utf-8")
CODE = "".join(fence.text for fence in fences(TEXT) if fence.language == "python")


def shown_output(code: str) -> str:
    """What the comments say that the code prints: after a call of print, or in lines of their own below."""
    lines = re.findall(r"^# (.*)$|^ *print\(.*\)  +# (.*)$", code, re.MULTILINE)
    return "".join(f"{below or beside}\n" for below, beside in lines)


def test_the_examples_print_what_the_page_shows(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    home = home_with_versions(tmp_path, indexes=1, raters=1)
    monkeypatch.setenv("REFAUG_HOME", str(home.home))
    printed, names = io.StringIO(), dict[str, Any]()
    with contextlib.redirect_stdout(printed):
        exec(compile(CODE, str(PAGE), "exec"), names)
    assert matches(printed.getvalue(), shown_output(CODE)), printed.getvalue()


def test_the_page_has_every_function_and_every_setting() -> None:
    for name in ("score", "references", "rate", "meta", "Metric"):
        assert f"refaug.{name}(" in TEXT, name
    listed = re.search(r"^`settings` has .*$", TEXT, re.MULTILINE)
    assert listed is not None
    assert {*re.findall(r"`(\w+)`", listed[0])[1:]} == {option.spelling for option in options_of(AugmentSettings)}
    assert "home" in signature(refaug.score).parameters
