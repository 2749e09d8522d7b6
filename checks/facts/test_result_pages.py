"""Pages say nothing that a result contradicts: each figure is read from the results, and each claim is held to them."""

from __future__ import annotations

import json
import re
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from refaug.extras.reproduction.command import PARTS
from refaug.extras.reproduction.figures.correlations import IntervalEstimate
from refaug.extras.reproduction.report.report import cell, verdict
from refaug.metrics.statistics.correlation import PARTIAL

ROOT = Path(__file__).resolve().parents[2]
RESULTS = ROOT / "docs" / "results"
METHOD = "docs/internals/proof.md"
PAGES = ("README.md", "docs/proof.md", METHOD, "docs/bleu.md", "docs/metrics.md", "docs/upsilon.md")
KINDS = ("spearman", PARTIAL)
GROUPS = ("DailyDialog", "grade_empatheticdialogues", "mean")
RETRIEVED = ("υBLEU, closest", "υBLEU, no penalty", "υ-greedy, best", "υ-greedy, weighted")
JUDGED = ("ΔBLEU", "ΔBLEU without penalty", "ΔBLEU without smoothing", "ΔBLEU with neither", "υ-greedy")
SHUFFLED, ONE = "the rater's weights beat the same ones dealt out anew", "the rater's weights beat weights of one"
_FIGURE = re.compile(r"-?\d?\.\d{3} \[-?\d?\.\d\d, -?\d?\.\d\d\]")
_SOURCE = re.compile(r"<!-- (.*) -->$")
_CODE = re.compile(r"^```.*?^```$", re.MULTILINE | re.DOTALL)


@cache
def result_of(part: str) -> dict[str, Any]:
    figures: dict[str, Any] = json.loads((RESULTS / f"{part}.json").read_text("utf-8"))
    return figures


def estimate_at(part: str, path: str) -> IntervalEstimate:
    """The figure at a path of keys, such as `main / figures / length / spearman / mean`."""
    figure: Any = result_of(part)
    for key in path.split(" / "):
        figure = figure[key]
    return IntervalEstimate(**{end: figure.get(end) for end in ("value", "low", "high")})


def page(name: str) -> str:
    return (ROOT / name).read_text("utf-8")


def table(text: str, heading: str) -> tuple[list[str], list[list[str]]]:
    """The columns and rows of the first table under a heading, or after a line that begins so."""
    [_, after] = text.split(f"{heading}\n", 1)
    lines = re.split(r"\n(?!\|)", after[after.index("|") :], maxsplit=1)[0].splitlines()
    cells = [[part.strip() for part in line.strip("|").split(" | ")] for line in lines]
    return cells[0], cells[2:]


def sentences() -> list[tuple[str, str]]:
    """Every line with a figure and its interval, outside tables and code."""
    return [
        (name, line)
        for name in PAGES
        for line in _CODE.sub("", page(name)).splitlines()
        if _FIGURE.search(line) and not line.startswith("|")
    ]


# ── figures ───────────────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(("name", "line"), sentences(), ids=lambda text: text[:40])
def test_every_figure_of_a_sentence_stands_in_its_result(name: str, line: str) -> None:
    sources = _SOURCE.search(line)
    assert sources is not None, f"{name}: say where the figures stand, as <!-- part: key / key; … -->: {line[:60]}"
    paths = [source.split(": ", 1) for source in sources[1].split("; ")]
    expected = [cell(estimate_at(part, path)) for part, path in paths]
    assert _FIGURE.findall(line) == expected, "copy the new figures into the page"


def test_sentences_with_figures_are_found_at_all() -> None:
    assert {name for name, _ in sentences()} == {"docs/proof.md", METHOD}
    assert len(sentences()) > 6


def recommended(kind: str) -> dict[str, list[str]]:
    """Return the lines of the recommended metric's result as pages show them: figures by groups, or leads."""
    found = result_of("recommended")[kind]

    def shown(value: float | None, sign: str = "") -> str:
        return "–" if value is None else f"{value:{sign}.3f}".replace("0.", ".", 1)

    lines = {}
    for name, value in found.items():
        if isinstance(value, dict):
            lines[name] = [shown(one) for one in (value["mean"], value["partial"], *value["groups"].values())]
        elif isinstance(value, list):
            lines[name] = [f"{shown(value[0], '+')} [{shown(value[1])}, {shown(value[2])}]"]
        else:
            lines[name] = [shown(value)]
    return lines


def test_the_rows_of_the_readme_are_those_of_the_result() -> None:
    columns, rows = table(page("README.md"), "## What it is worth")
    lines = recommended("agreement")
    assert columns == ["metric", "Spearman", "partial"]
    assert {row[0]: row[1:] for row in rows} == {row[0]: lines[row[0]][:2] for row in rows}, "copy the new figures"


@pytest.mark.parametrize(
    ("kind", "before"),
    [
        ("agreement", "then each group:"),
        ("lead of refaug-1", "of paired bootstraps over contexts:"),
        ("lead of retrieval, out of fold", "with retrieval over without:"),
        ("lead over chrF with the gold", "not with certainty:"),
        ("PersonaChat without drawn replies", "Without them:"),
        ("without gold", "**Without a gold** retrieval is worth more:"),
        ("lead without gold", "By how much it leads without a gold:"),
    ],
)
def test_what_refaug_adds_stands_in_its_result(kind: str, before: str) -> None:
    text = page("docs/proof.md")
    section = text[text.index("## What refaug adds") : text.index("## Making the figures again")] + page(METHOD)
    _, rows = table(section, before)
    lines = recommended(kind)
    assert rows
    assert {row[0]: row[1:] for row in rows} == {row[0]: lines[row[0]] for row in rows}, "copy the new figures"


def test_the_claims_of_the_proof_are_those_of_the_result() -> None:
    columns, rows = table(
        page(METHOD), "The claims, in differences of Spearman; the verdict also needs the partial correlation:"
    )
    _, lines = table(page("docs/results/metrics.md"), "### Claims")
    by_name = {row[0]: row for row in lines}
    assert columns == ["claim", "DailyDialog", "EmpatheticDialogues", "mean", "verdict, mean"]
    assert len(rows) == 8
    for row in rows:
        assert row[1:] == [*by_name[row[0]][1:4], by_name[row[0]][9]], "copy the new figures into the page"


def test_the_table_of_smoothings_is_that_of_the_benchmark() -> None:
    measured = json.loads((ROOT / "bench" / "results" / "bleu_defaults.json").read_text("utf-8"))["smoothing"]
    columns, rows = table(
        page("docs/internals/bleu.md"),
        "And where they are other systems' replies, on the mean of two sets, less `add-k`:",
    )
    assert columns == ["smoothing", "people", "rated", "people, `bp=none`", "rated, `bp=none`"]
    assert [row[0] for row in rows] == ["exp", "none", "floor", "epsilon"]
    for name, *cells in rows:
        assert cells == [
            cell(IntervalEstimate(**measured[f"bp={penalty}"][weights][name]["mean"]["less_add_k"]))
            for penalty in ("closest", "none")
            for weights in ("people", "rated")
        ], "copy the new figures"


# ── claims in words ───────────────────────────────────────────────────────────────────────────────────────────────────


def claim_of(metric: str, claim: str, scope: str) -> str:
    """What the result says of a claim about retrieved references."""
    return verdict([estimate_at("metrics", f"claims / {metric} / {claim} / {kind} / {scope}") for kind in KINDS])


def claim_of_judged(metric: str, claim: str, scope: str = "mean") -> str:
    """What the result says of a claim about other systems' replies."""
    return verdict([estimate_at("weights", f"differences / {metric} / {claim} / {kind} / {scope}") for kind in KINDS])


def test_weights_of_retrieved_references_are_not_shown_to_help() -> None:
    assert "weights of one, or the same weights shuffled, is not shown on retrieved references" in page(METHOD)
    assert "For υ-greedy with weighted matches, weights of one are surely better on DailyDialog" in page(METHOD)
    verdicts = {
        (metric, claim, scope): claim_of(metric, claim, scope)
        for metric in RETRIEVED
        for claim in (SHUFFLED, ONE)
        for scope in GROUPS
    }
    otherwise = {place: outcome for place, outcome in verdicts.items() if outcome != "not shown"}
    assert otherwise == {("υ-greedy, weighted", ONE, "DailyDialog"): "refuted"}
    sets = result_of("metrics")["main"]["rows"]
    assert not any(claim_of(metric, ONE, name).startswith("shown") for metric in RETRIEVED for name in sets)


def test_retrieval_beats_drawn_replies_where_the_page_says_so() -> None:
    assert "on EmpatheticDialogues for soft matches alone with certainty" in page(METHOD)
    claim = "retrieval beats replies of the same lengths"
    assert {claim_of(metric, claim, scope) for metric in RETRIEVED for scope in ("DailyDialog", "mean")} == {"shown"}
    assert [claim_of(metric, claim, GROUPS[1]) for metric in RETRIEVED] == ["not shown"] * 2 + ["shown"] * 2


def test_weights_of_other_replies_help_where_the_page_says_so() -> None:
    text = page(METHOD)
    assert "rated weights do beat the same weights shuffled in all four forms of ΔBLEU" in text
    assert "People's weights beat the same ones shuffled in all five" in text
    rated = [claim_of_judged(metric, "rated weights beat the same ones dealt out anew") for metric in JUDGED]
    assert rated == ["shown"] * 4 + ["not shown"]
    people = [claim_of_judged(metric, "weights by people beat the same ones dealt out anew") for metric in JUDGED]
    assert people == ["shown"] * 5


def test_where_weights_surely_lose_the_page_says_so() -> None:
    text = page(METHOD)
    for part, root, places in (
        ("metrics", "claims", ("mean", "DailyDialog", "predictive_engagement_dd")),
        ("weights", "differences", ("mean",)),
    ):
        for metric, claims in result_of(part)[root].items():
            for claim in (name for name in claims if "weights" in name and "beat" in name):
                for place in places:
                    high = claims[claim]["spearman"].get(place, {}).get("high", 1.0)
                    path = f"{part}: {root} / {metric} / {claim} / spearman / {place}"
                    assert high >= 0 or path in text or metric == "υ-greedy, weighted", path  # said in words


def test_rated_weights_are_near_those_of_people_only_with_smoothing() -> None:
    assert "υ comes near Δ only where smoothing blurs both" in page(METHOD)
    for kind in KINDS:
        smoothed = estimate_at("weights", f"differences / ΔBLEU / rated less people / {kind} / mean")
        plain = estimate_at("weights", f"differences / ΔBLEU without smoothing / rated less people / {kind} / mean")
        assert smoothed.low is not None
        assert smoothed.high is not None
        assert smoothed.low < -0.06 < 0 < smoothed.high
        assert plain.high is not None
        assert plain.high < 0
    gains = [
        claim_of_judged("ΔBLEU without smoothing", f"{weights} beat weights of one")
        for weights in ("weights by people", "rated weights")
    ]
    assert gains == ["shown", "not shown"]


def test_published_settings_are_below_the_default_where_it_is_said() -> None:
    assert "**As published it does worse than by default** on DailyDialog" in page(METHOD)
    by_scope = {
        (kind, scope): estimate_at("metrics", f"published_less_default / {kind} / {scope}")
        for kind in KINDS
        for scope in GROUPS
    }
    assert (by_scope["spearman", "DailyDialog"].high or 0) < 0
    assert (by_scope[PARTIAL, "DailyDialog"].value or 0) > 0
    assert (by_scope["spearman", "mean"].high or 0) > 0 > (by_scope["spearman", "mean"].low or 0)
    zeros = result_of("metrics")["zeros"]
    assert all(share > zeros["υBLEU, default"][name] for name, share in zeros["υBLEU as published, rater base"].items())


def test_no_page_says_that_figures_compare_with_published_ones() -> None:
    for name in PAGES:
        assert not re.search(
            r"compares? with published|to compare with published", page(name).replace("do not compare", "")
        )


# ── files ─────────────────────────────────────────────────────────────────────────────────────────────────────────────


def test_no_file_of_results_is_larger_than_500_kb() -> None:
    sizes = {path.name: path.stat().st_size for path in RESULTS.iterdir()}
    assert {name: size for name, size in sizes.items() if size > 500_000} == {}


def test_every_part_says_when_and_with_what_it_was_made() -> None:
    columns, rows = table(page("docs/results/README.md"), "because several of its sources forbid that.")
    assert columns == ["name", "what it measures", "made", "sets"]
    assert {row[0].split("`")[1] for row in rows} == set(PARTS)
    for row in rows:
        name = row[0].split("`")[1]
        result = result_of(name)
        assert row[2:] == [result["date"], str(len(result["sets"]))]
        assert f"    {result['command']}\n" in page(f"docs/results/{name}.md")
        assert ("made on 2026-11-22 with the defaults of then" in " ".join(result["notes"][:1])) == (
            result["date"] == "2026-11-22"
        )


def test_the_proof_names_what_a_larger_encoder_the_started_home_and_more_words_are_worth() -> None:
    page = (ROOT / "docs" / "proof.md").read_text("utf-8")
    [larger, started, words] = [
        json.loads((ROOT / "bench" / "results" / f"{name}.json").read_text("utf-8"))
        for name in ("larger_encoder", "everyday_home", "rater_words")
    ]
    figures = re.search(r"at (\.\d+) over the same references: (\S+ \[.*?\]) over `refaug-1`, (\S+ \[.*?\]) over", page)
    leads = larger["lead of large"]
    assert figures is not None
    assert figures.groups() == (
        _digits(larger["agreement"]["large"]["mean"]),
        _lead(leads["small"]),
        _lead(leads["without an index"]),
    )
    figures = re.search(r"has (\.\d+), less than these logs: (\S+ \[.*?\])\. .*: (\S+ \[.*?\])\.", page)
    leads = started["lead of home of refaug start"]
    assert figures is not None
    assert figures.groups() == (
        _digits(started["agreement"]["home of refaug start"]["mean"]),
        _lead(leads["logs of the proof"]),
        _lead(leads["without an index"]),
    )
    figures = re.search(r"the same rater has (\.\d+) on the four groups, (\S+ \[.*?\])\.", page)
    by_words = words["agreement"]["last turn"]
    assert figures is not None
    assert figures.groups() == (
        _digits(by_words["words of the larger log too"]["mean"]),
        _lead(by_words["lead of words of the larger log too"]),
    )


def _digits(figure: float) -> str:
    return f"{figure:.3f}".replace("0.", ".", 1)


def _lead(lead: dict[str, float]) -> str:
    return (
        f"{'+' if lead['value'] > 0 else ''}{_digits(lead['value'])} [{_digits(lead['low'])}, {_digits(lead['high'])}]"
    )
