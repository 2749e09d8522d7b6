"""`import refaug` beside evaluate, datasets and the lm-evaluation-harness: the examples of docs/coming-from.md.

Each runs in a process that has the packages of both environments, those of the frameworks first.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from beside import ROOT

PAGE = (ROOT / "docs" / "coming-from.md").read_text("utf-8")


@pytest.fixture(scope="module")
def packages() -> str:
    """The folder of the packages in the server's environment."""
    python = os.environ.get("REFAUG_SERVER_PYTHON", str(ROOT / ".venv" / "bin" / "python"))
    command = [python, "-c", "import sysconfig; print(sysconfig.get_path('purelib'))"]
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout.strip()


def printed(code: str, packages: str, folder: Path) -> str:
    """What code prints in an empty home without a network."""
    offline = {"HF_HUB_OFFLINE": "1", "HF_EVALUATE_OFFLINE": "1", "HF_DATASETS_OFFLINE": "1", "OMP_NUM_THREADS": "1"}
    done = subprocess.run(
        [sys.executable, "-c", f"import site; site.addsitedir({packages!r})\n{code}"],
        check=False,
        capture_output=True,
        text=True,
        timeout=300,
        cwd=folder,
        env={**os.environ, **offline, "HF_HOME": str(folder / "hf"), "REFAUG_HOME": str(folder / "home")},
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def block(package: str) -> str:
    (code,) = re.findall(rf"^```python in={package}\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL)
    return str(code)


@pytest.mark.parametrize("package", ["evaluate", "datasets"])
def test_the_examples_print_what_the_page_shows(package: str, packages: str, tmp_path: Path) -> None:
    code = block(package)
    shown = re.findall(r"^ *print\(.*\)  # (.*)$", code, re.MULTILINE)
    lines = printed(code, packages, tmp_path).splitlines()
    assert len(lines) == len(shown)
    for line, pattern in zip(lines, shown, strict=True):
        assert re.fullmatch(".*".join(map(re.escape, pattern.split("…"))), line), (line, pattern)


EVALUATE = """
import json, evaluate, refaug
from refaug.library.hugging_face import EVALUATE_MODULE
predictions, references = ["a red boat", "no", "x"], [["a boat", "the red boat"], ["yes"], ["y", "x"]]
metric = evaluate.load(EVALUATE_MODULE)
metric.add_batch(predictions=predictions[:2], references=references[:2])
metric.add(prediction=predictions[2], reference=references[2])
batches = metric.compute(metric="multi-bleu", percent=True)
single = evaluate.load(EVALUATE_MODULE, "chrf").compute(predictions=["a boat"], references=["a red boat"])
both = evaluate.combine({"one": evaluate.load(EVALUATE_MODULE, "bleu"), "two": evaluate.load(EVALUATE_MODULE, "chrf")})
combined = both.compute(predictions=predictions, references=references)
direct = refaug.score(predictions=predictions, references=references, metrics=["multi-bleu", "bleu", "chrf"])
wrong = ""
try:
    metric.compute(predictions=["a"], references=[["a"], ["b"]])
except ValueError as error:
    wrong = str(error)
print(json.dumps([batches, single["chrf"], combined, [metric.corpus for metric in direct], direct["multi-bleu"].replies,
    direct["multi-bleu"].signature, wrong]))
"""


def test_evaluate_has_the_scores_of_refaug(packages: str, tmp_path: Path) -> None:
    output = json.loads(printed(EVALUATE, packages, tmp_path).splitlines()[-1])
    batches, single, combined, direct, replies, signature, wrong = output
    assert batches["multi-bleu"] == pytest.approx(100 * direct[0])
    assert batches["multi-bleu_replies"] == pytest.approx([100 * score for score in replies])
    assert batches["multi-bleu_signature"] == signature
    assert 0 < single < 1
    assert (combined["bleu"], combined["chrf"]) == (direct[1], direct[2])
    assert "Mismatch in the number of predictions (1) and references (2)" in wrong
