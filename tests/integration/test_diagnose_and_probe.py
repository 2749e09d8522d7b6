"""`refaug score diagnose` and `refaug agreement probe` as commands, and docs/gaming.md held to what they print."""

from __future__ import annotations

import json
import re
import shlex
from pathlib import Path
from typing import Any

import pytest
from refusals import refusing
from typer.testing import CliRunner

from refaug.agreement.probe import Probe
from refaug.cli.main import app
from refaug.core.errors import BadInput, Usage
from refaug.metrics.diagnostics import FIGURES

DOCS = Path(__file__).resolve().parents[2] / "docs"
GAMING = "\n".join((DOCS / name).read_text("utf-8") for name in ("gaming.md", "internals/gaming.md"))


def run(*arguments: str | Path) -> None:
    app(["--quiet", *(str(one) for one in arguments)], standalone_mode=False)


ITEMS = [
    {"id": "1", "utterance": "Is it open?", "references": ["Yes, until six."], "replies": {"a": "Yes.", "b": "Is it?"}},
    {"id": "2", "references": ["We won the cup."], "replies": {"a": "We won, we won, we won.", "b": ""}},
    {"id": "3", "utterance": "Who won?", "references": ["They did."], "replies": {"a": "Yes!"}},
    {"id": "4", "references": 7},
]


@pytest.fixture
def items(tmp_path: Path) -> Path:
    path = tmp_path / "items.jsonl"
    path.write_text("".join(json.dumps(one) + "\n" for one in ITEMS), "utf-8")
    return path


# ── diagnose ──────────────────────────────────────────────────────────────────────────────────────────────────────────


def test_diagnose_prints_every_figure_of_every_system_as_json(items: Path, capfd: pytest.CaptureFixture[str]) -> None:
    run("score", "diagnose", items, "--json", "--sample", "5")
    found = json.loads(capfd.readouterr().out)
    assert (found["tokenizer"], found["sample"], found["items"]) == ("word", 5, 3)
    assert list(found["systems"]) == ["a", "b"]
    a, b = found["systems"]["a"], found["systems"]["b"]
    assert list(a["figures"]) == list(b["figures"]) == list(FIGURES)
    assert (a["replies"], a["missing"], a["tokens"]) == (3, 0, 13)
    assert (b["replies"], b["missing"], b["tokens"]) == (2, 1, 3)
    assert a["figures"]["generic_reused"] == a["figures"]["generic_listed"] == pytest.approx(2 / 3)
    assert (a["figures"]["repeated_trigram"], b["figures"]["empty"]) == (pytest.approx(1 / 3), 0.5)
    assert b["figures"]["distinct_1_sample"] is None
    assert b["reasons"]["distinct_1_sample"] == "3 n-grams, and the sample has 5"
    assert [(one["line"], one["field"]) for one in found["problems"]] == [(4, "references")]


def test_diagnose_shows_a_table_for_each_group_and_why_there_is_a_dash(
    items: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    run("score", "diagnose", items)
    shown = capfd.readouterr()
    titles = [line for line in shown.out.splitlines() if re.fullmatch(r"[a-z]+", line)]
    assert titles == ["replies", "variety", "length", "generic", "repetition", "copies"]
    assert [name for name in FIGURES if name not in shown.out] == []
    assert "no distinct_1_sample of b: 3 n-grams, and the sample has 1,000\n" in shown.out
    assert "item 4, references: a list was expected" in shown.err


def test_diagnose_gives_rows_with_tabs_at_full_precision(items: Path, capfd: pytest.CaptureFixture[str]) -> None:
    run("score", "diagnose", items, "--tsv", "--language", "de")
    rows = [line.split("\t") for line in capfd.readouterr().out.splitlines()]
    assert rows[0] == ["system", "figure", "value", "reason"]
    assert [row[:2] for row in rows[1:]] == [[system, name] for system in "ab" for name in FIGURES]
    assert ["a", "characters_mean", str((4 + 23 + 4) / 3), ""] in rows
    assert ["a", "generic_listed", "", "the list of generic replies is English"] in rows


def test_what_diagnose_cannot_do_is_refused(items: Path, capfd: pytest.CaptureFixture[str]) -> None:
    with refusing(Usage, "--json", "--tsv"):
        run("score", "diagnose", items, "--json", "--tsv")
    with refusing(Usage, "words"):
        run("score", "diagnose", items, "--tok", "words")
    with refusing(BadInput):
        run("score", "diagnose", items, "--strict")
    assert "characters_mean" in capfd.readouterr().out


# ── probe ─────────────────────────────────────────────────────────────────────────────────────────────────────────────


def test_probe_prints_one_document_with_a_signature_for_each_metric(
    items: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    run(
        "agreement",
        "probe",
        items,
        "-m",
        "bleu",
        "-m",
        "ter",
        "--system",
        "b",
        "--generic",
        "So.",
        "--seed",
        "3",
        "--json",
    )
    found = json.loads(capfd.readouterr().out)
    assert {key: found[key] for key in ("base", "seed", "generic", "padding", "without_gold", "items")} == {
        "base": {"kind": "system", "name": "b"},
        "seed": 3,
        "generic": "So.",
        "padding": 5,
        "without_gold": False,
        "items": 3,
    }
    assert [(one["metric"], one["higher_is_better"]) for one in found["scores"]] == [("bleu", True), ("ter", False)]
    for one in found["scores"]:
        assert one["signature"].startswith(f"{one['metric']}|")
        names = [(row["kind"], row["name"]) for row in one["rows"]]
        assert names == [*(("probe", name) for name in Probe), ("system", "a"), ("system", "b")]
        assert [row["name"] for row in one["rows"] if row["base"]] == ["b"]
    parrot = next(row for row in found["scores"][0]["rows"] if row["name"] == "parrot")
    assert (parrot["scored"], parrot["unscored"], parrot["unscored_by_reason"]) == (2, 1, {"no_utterance": 1})
    assert [one["line"] for one in found["problems"]] == [4]


def test_probe_shows_a_table_that_names_the_base_and_the_direction(
    items: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    run("agreement", "probe", items, "-m", "ter", "--system", "a")
    out = capfd.readouterr().out.splitlines()
    assert out[0].endswith("(lower is better)")
    parrot = next(line.split() for line in out if line.startswith("probe") and "parrot" in line)
    assert parrot[-2:] == ["no_utterance", "1"]
    assert re.fullmatch(r"base: the replies of a; seed 1; data [0-9a-f]{12}: 3 items", out[-1])
    assert [line.split()[1] for line in out if " base " in line and line.startswith("system")] == ["a"]


# ── the page ──────────────────────────────────────────────────────────────────────────────────────────────────────────


def section(heading: str) -> str:
    found = re.search(rf"^## {re.escape(heading)}$(.*?)(?=^## |\Z)", GAMING, re.MULTILINE | re.DOTALL)
    assert found is not None
    return found[1]


def cells(heading: str) -> list[list[str]]:
    """The table of a section with its head, without the line under it."""
    lines = [line for line in section(heading).splitlines() if line.startswith("|")]
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in (lines[0], *lines[2:])]


@pytest.fixture(scope="module")
def demo_items(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The demo items as the page makes them; how long the log beside them is does not matter to them."""
    folder = tmp_path_factory.mktemp("demo")
    run("log", "demo", "--dialogues", "10", "--output", folder / "log.jsonl", "--items-output", folder / "items.jsonl")
    return folder / "items.jsonl"


SYSTEM = "The demo items, a system tampered with"


@pytest.fixture(scope="module")
def probed(demo_items: Path) -> dict[str, list[dict[str, Any]]]:
    """What the command of that section gives: for each specification its rows."""
    return _rows_printed(SYSTEM, demo_items)


def _rows_printed(heading: str, demo_items: Path) -> dict[str, list[dict[str, Any]]]:
    (line,) = re.findall(r"^    refaug (agreement probe .*)$", section(heading), re.MULTILINE)
    words = [str(demo_items) if word == "demo/demo-items.jsonl" else word for word in shlex.split(line)]
    printed = CliRunner().invoke(app, ["--quiet", *words, "--json"], catch_exceptions=False)
    specifications = re.findall(r" -m (\S+)", line)
    scores = json.loads(printed.stdout)["scores"]
    return {name: one["rows"] for name, one in zip(specifications, scores, strict=True)}


def shown(row: dict[str, Any]) -> str:
    return f"{row['corpus']:.4f}" if row["base"] else f"{round(row['corpus_difference'], 4) + 0.0:+.4f}"


def row_name(row: dict[str, Any]) -> str:
    return f"system `{row['name']}`" if row["kind"] == "system" else f"`{row['name']}`"


@pytest.mark.slow
def test_the_table_of_the_gaming_page_is_what_its_command_prints(probed: dict[str, list[dict[str, Any]]]) -> None:
    assert cells(SYSTEM) == [
        ["replies", *(f"`{name}`" for name in probed)],
        *([row_name(rows[0]), *(shown(row) for row in rows)] for rows in zip(*probed.values(), strict=True)),
    ]


@pytest.mark.slow
def test_what_the_gaming_page_concludes_holds_on_the_demo_items(probed: dict[str, list[dict[str, Any]]]) -> None:
    system = {name: {row_name(row): row for row in rows} for name, rows in probed.items()}
    beaten_by_parrot = [
        name
        for name, rows in system.items()
        if all(rows["`parrot`"]["rank"] < row["rank"] for row in rows.values() if row["kind"] == "system")
    ]
    assert beaten_by_parrot == [name for name in system if name != "multi-bleu:n=1"]
    assert [name for name, rows in system.items() if rows["`shuffled`"]["corpus_difference"] == 0] == ["multi-bleu:n=1"]
    without_penalty = system["multi-bleu:bp=none"]["`short`"]
    assert without_penalty["mean_difference"] > 0 > without_penalty["corpus_difference"] > -0.03
    recall = system["rouge-l:measure=recall"]
    assert recall["`padded`"]["corpus"] > recall["system `human-like`"]["corpus"] > recall["`repeated`"]["corpus"]
    gaining = [name for name in system if name != "ter" and system[name]["`padded`"]["corpus_difference"] > 0]
    assert gaining == ["rouge-l:measure=recall", "chrf"]
    ter = system["ter"]
    assert ter["`empty`"]["corpus"] == ter["system `decent`"]["corpus"] == 1.0
    assert ter["`generic`"]["corpus"] < ter["system `human-like`"]["corpus"]


def test_the_gaming_page_has_every_probe_and_every_figure_in_order() -> None:
    assert [row[0] for row in cells("The probes")[1:]] == [f"`{name}`" for name in Probe]
    named = [name for row in cells("Looking at the replies themselves")[1:] for name in re.findall(r"`(\w+)`", row[0])]
    assert named == list(FIGURES)
