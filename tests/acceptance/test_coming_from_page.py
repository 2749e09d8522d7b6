"""The page for users of other tools: its commands and examples print what it shows."""

from __future__ import annotations

import contextlib
import io
import json
import re
from pathlib import Path
from typing import Any

import pytest
from acceptance.examples import ROOT, fences, matches, run, whole

PAGE = ROOT / "docs" / "coming-from.md"
TEXT = PAGE.read_text("utf-8")
CODE = "".join(fence.text for fence in fences(TEXT) if fence.language == "python" and not fence.role)


def test_commands_and_examples_print_what_the_page_shows(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    run(whole(PAGE), tmp_path, monkeypatch, capfd)
    monkeypatch.chdir(tmp_path)
    printed, names = io.StringIO(), dict[str, Any]()
    with contextlib.redirect_stdout(printed):
        exec(compile(CODE, str(PAGE), "exec"), names)
    lines = re.findall(r"^# (.*)$|^ *print\(.*\)  +# (.*)$", CODE, re.MULTILINE)
    shown = "".join(f"{below or beside}\n" for below, beside in lines)
    assert matches(printed.getvalue(), shown), printed.getvalue()


def test_figures_of_meteor_are_those_of_the_benchmark() -> None:
    figures = json.loads((ROOT / "bench" / "results" / "meteor.json").read_text("utf-8"))
    near, nltk = figures["beside_meteor_1.5"], figures["nltk_beside_meteor_1.5"]
    assert (
        f"For {figures['replies']} replies of the demo, METEOR correlates at {near['pearson']:.3f} "
        f"with that of nlg-eval, and differs by {near['mean_difference']:.3f} on average; "
        "refaug's metric `meteor`, which is nltk's, "
        f"correlates at {nltk['pearson']:.3f} and differs by {nltk['mean_difference']:.3f}"
    ) in TEXT
