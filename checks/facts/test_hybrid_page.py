"""docs/internals/networks.md has the figures of `refaug agreement reproduce hybrid`, and says what they show."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

from refaug.extras.conversations.hybrid_report import BASELINES
from refaug.extras.reproduction.report.report import short

ROOT = Path(__file__).resolve().parents[2]
SETS = {
    "the eleven components": "hybrid",
    "`wide`": "wide",
    "turns judged": "judged",
    "repeated replies alone": "repeated-replies",
    "turns alone": "log-turns",
    "words of the person alone": "words-of-person",
}


def results() -> dict[str, Any]:
    figures: dict[str, Any] = json.loads((ROOT / "docs/results/hybrid.json").read_text("utf-8"))
    return figures


def page() -> str:
    return (ROOT / "docs/internals/networks.md").read_text("utf-8")


def rows_below(first_column: str) -> dict[str, list[str]]:
    """The rows of the table whose first column has this name."""
    lines = page().split(f"\n| {first_column} |", 1)[1].split("\n\n", 1)[0].splitlines()[2:]
    cells = [[part.strip() for part in line.strip("|").split(" | ")] for line in lines]
    return {row[0]: row[1:] for row in cells}


def bounds(interval: dict[str, Any]) -> str:
    return f"[{short(interval['low'], 2)}, {short(interval['high'], 2)}]"


def digits(figure: float | None) -> str:
    return "–" if figure is None else short(figure, 2)


def in_folds(control: dict[str, Any]) -> str:
    """The mean with 1.96 of its standard errors on both sides."""
    half = 1.96 * control["error"]
    return f"{digits(control['mean'])} [{digits(control['mean'] - half)}, {digits(control['mean'] + half)}]"


def expected_rows(report: dict[str, Any]) -> dict[str, list[str]]:
    rows = {}
    for label, name in SETS.items():
        figures = report["sets"][name]
        rows[label] = [
            digits(figures["agreement"]["common"]["pearson"]),
            bounds(figures["interval"]),
            bounds(figures["shuffled_ratings"]),
            in_folds(figures["shuffled_in_folds"]),
            digits(figures["within_bots"]),
        ]
    return rows


def test_the_table_is_that_of_the_results() -> None:
    assert rows_below("eleven bots") == expected_rows(results()["reports"]["all bots"])


def test_differences_to_the_counts_stand_in_the_text() -> None:
    lines = re.findall(
        r"^- (.*): `?(\w+)`? less ([\w-]+) has (\S+ \[.*?\]): (shown|not shown)\.$", page(), re.MULTILINE
    )
    expected = []
    for set_name, comparison in results()["reports"]["all bots"]["against_counts"].items():
        verdict = "shown" if comparison["is_shown"] else "not shown"
        figure = f"{digits(comparison['difference'])} {bounds(comparison['interval'])}"
        expected.append(("eleven bots", set_name, comparison["count"], figure, verdict))
        assert comparison["count"] in BASELINES
    assert lines == expected
    for report in results()["reports"].values():
        for comparison in report["against_counts"].values():
            assert comparison["interval"]["low"] < 0 < comparison["interval"]["high"]


def test_the_command_is_that_of_the_results() -> None:
    assert "refaug agreement reproduce hybrid --data DATA" in page()
    assert results()["command"].startswith("refaug agreement reproduce hybrid --data ")
    assert "--encoder" in results()["command"]


def test_proof_says_that_the_hybrid_is_not_shown_to_be_better_than_counts() -> None:
    is_shown = any(
        comparison["is_shown"]
        for report in results()["reports"].values()
        for comparison in report["against_counts"].values()
    )
    proof = (ROOT / "docs/proof.md").read_text("utf-8")
    assert ("is not shown to agree better with people than" in proof) == (not is_shown)


def test_shuffled_ratings_are_centred_for_every_set() -> None:
    centres = [
        figures["shuffled_ratings"]["centre"]
        for report in results()["reports"].values()
        for figures in report["sets"].values()
    ]
    assert max(map(abs, centres)) == pytest.approx(0.03, abs=0.005)


def test_ratings_shuffled_in_folds_are_centred_for_every_set() -> None:
    controls = [
        figures["shuffled_in_folds"] for report in results()["reports"].values() for figures in report["sets"].values()
    ]
    assert len(controls) == 36
    assert max(abs(control["mean"]) for control in controls) == pytest.approx(0.04, abs=0.005)


def test_what_the_text_says_of_the_figures_holds() -> None:
    reports = results()["reports"]
    eleven, ten = reports["all bots"], reports["without the degraded bot"]
    above = [name for name, figures in eleven["sets"].items() if figures["interval"]["low"] > 0]
    assert above == ["repeated-replies", "likelihood:model=everyday-base"]
    within = {name: figures["within_bots"] for name, figures in eleven["sets"].items()}
    counts = ("log-turns", "words-of-person", "words-of-bot", "repeated-replies", "distinct-2")
    assert within["hybrid"] > max(within[name] for name in counts)
    assert (digits(within["hybrid"]), digits(within["wide"])) == (".28", ".28")
    assert digits(eleven["sets"]["hybrid"]["agreement"]["fold"]["pearson"]) == "-.56"
    assert [digits(report["intercept_only"]["pearson"]) for report in (eleven, ten)] == ["-.96", "-1.00"]
    assert digits(eleven["alone"]["rater:refs=none"]["pearson"]) == ".64"
    assert digits(eleven["within_alone"]["rater:refs=none"]) == "-.06"
