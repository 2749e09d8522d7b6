"""The plug-in in runs of pytest of their own: what it asserts, what it reports, and what the figures are."""

from __future__ import annotations

import re
from xml.etree import ElementTree as ET

import pytest
import refaug
from refaug.metrics.statistics.resampling import holm

REFERENCES = [[f"It is at the market number {number}, I think."] for number in range(24)]
GOOD = [f"At the market number {number}, I think." for number in range(24)]
BAD = [f"I like music and {number} dogs." for number in range(24)]
# scored here, so that runs of pytest in this process import nothing anew
KNOWN = refaug.score(
    predictions={"old": BAD, "new": GOOD}, references=REFERENCES, metric="chrf", draws=1000, baseline="old"
).metric
DATA = f"REFERENCES, GOOD, BAD = {REFERENCES!r}, {GOOD!r}, {BAD!r}\n"


def written(pytester: pytest.Pytester, body: str) -> None:
    pytester.makepyfile(test_models=DATA + body)


def properties_of(pytester: pytest.Pytester) -> dict[str, str]:
    tree = ET.parse(pytester.path / "report.xml")
    return {node.attrib["name"]: node.attrib["value"] for node in tree.iter("property")}


def test_better_replies_pass_with_the_figures_of_the_library(pytester: pytest.Pytester) -> None:
    written(
        pytester, "def test_it(assert_better):\n    assert_better(GOOD, BAD, references=REFERENCES, metric='chrf')\n"
    )
    run = pytester.runpytest_subprocess("--junitxml=report.xml")
    run.assert_outcomes(passed=1)
    difference = KNOWN.comparisons["new"]
    assert properties_of(pytester) == {
        "refaug.chrf.old": str(KNOWN["old"].corpus),
        "refaug.chrf.new": str(KNOWN["new"].corpus),
        "refaug.chrf.difference": str(difference.difference),
        "refaug.chrf.low": str(difference.interval[0]),
        "refaug.chrf.high": str(difference.interval[1]),
        "refaug.chrf.confidence": "0.95",
        "refaug.chrf.p": str(difference.p_randomisation),
        "refaug.chrf.replies": "24",
        "refaug.chrf.signature": KNOWN.signature,
    }


@pytest.mark.parametrize(
    ("call", "words"),
    [
        ("GOOD, GOOD, references=REFERENCES, metric='chrf'", "no difference is shown: chrf: "),
        ("BAD, GOOD, references=REFERENCES, metric='chrf'", "the new replies are worse: chrf: "),
        ("GOOD, BAD, references=REFERENCES, metric='ter'", None),  # where less is better
        ("BAD, GOOD, references=REFERENCES, metric='ter'", "the new replies are worse: ter: "),
        ("GOOD[:2], BAD[:2], references=REFERENCES[:2], metric='chrf'", "no difference is shown: chrf: "),
    ],
)
def test_what_is_not_better_fails_and_says_why(pytester: pytest.Pytester, call: str, words: str | None) -> None:
    written(pytester, f"def test_it(assert_better):\n    assert_better({call})\n")
    run = pytester.runpytest_inprocess()
    run.assert_outcomes(**({"passed": 1} if words is None else {"failed": 1}))
    if words is not None:
        run.stdout.fnmatch_lines([f"E*AssertionError: {words}*"])


def test_replies_without_scores_fail_and_are_named(pytester: pytest.Pytester) -> None:
    references = [*REFERENCES[:-1], []]
    written(
        pytester,
        f"def test_it(assert_better):\n    assert_better(GOOD, BAD, references={references!r}, metric='chrf')\n",
    )
    run = pytester.runpytest_inprocess()
    run.assert_outcomes(failed=1)
    run.stdout.fnmatch_lines(["E*"])


@pytest.mark.parametrize("options", [[], ["-n", "2"]])
def test_the_table_has_every_comparison_and_adjusts_for_all(pytester: pytest.Pytester, options: list[str]) -> None:
    written(
        pytester,
        "def test_a(assert_better):\n"
        "    assert_better(GOOD, BAD, references=REFERENCES, metric='chrf')\n"
        "    assert_better(GOOD, BAD, references=REFERENCES, metric='bleu')\n"
        "def test_b(assert_better):\n"
        "    assert_better(GOOD, GOOD, references=REFERENCES, metric='chrf')\n"
        "def test_c():\n    pass\n",
    )
    run = pytester.runpytest(*options)
    run.assert_outcomes(passed=2, failed=1)
    start = next(number for number, line in enumerate(run.outlines) if line.startswith("test  "))
    assert re.split(r"  +", run.outlines[start]) == [
        "test", "metric", "old", "new", "difference", "interval", "p", "Holm",
    ]  # fmt: skip
    rows = sorted(re.split(r"  +", line) for line in run.outlines[start + 1 : start + 4])
    adjusted = holm([1 / 1001, 1 / 1001, 1.0])
    assert [(row[0], row[1], row[6], row[7]) for row in rows] == [
        ("test_models.py::test_a", "bleu", f"{1 / 1001:.3f}", f"{adjusted[0]:.3f}"),
        ("test_models.py::test_a", "chrf", f"{1 / 1001:.3f}", f"{adjusted[1]:.3f}"),
        ("test_models.py::test_b", "chrf", "1.000", "1.000"),
    ]


def test_runs_without_comparisons_have_no_table(pytester: pytest.Pytester) -> None:
    written(pytester, "def test_it():\n    pass\n")
    run = pytester.runpytest_inprocess()
    assert not [line for line in run.outlines if "refaug: replies" in line]
