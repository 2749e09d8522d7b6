"""The page of the papers' figures has each of them, and beside it what the results hold."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from checks.reference.papers import TABLES, PaperTable, figure_at, papers_page

ROOT = Path(__file__).resolve().parents[2]
PAPERS = json.loads((ROOT / "checks/reference/papers.json").read_text("utf-8"))


def rows_of(title: str) -> dict[str, list[str]]:
    """The cells of the table under a heading, by the first of each row."""
    [_, section] = papers_page().split(f"## {title}\n", 1)
    lines = [line for line in section.partition("\n## ")[0].splitlines() if line.startswith("|")]
    cells = [[cell.strip() for cell in line.strip("|").split(" | ")] for line in lines[2:]]
    return {row[0]: row[1:] for row in cells}


@pytest.mark.parametrize("table", TABLES, ids=lambda each: each.key)
def test_every_row_of_the_papers_is_there(table: PaperTable) -> None:
    rows, of_paper = rows_of(table.title), PAPERS[table.key]["rows"]
    assert table.why
    assert list(rows) == list(of_paper)
    published = {column for row in of_paper.values() for column in row}
    assert {len(row) for row in rows.values()} == {len(published) + len(table.columns)}


def test_every_table_of_the_papers_is_compared() -> None:
    assert sorted(PAPERS) == sorted(table.key for table in TABLES)


def test_figures_are_those_of_the_results() -> None:
    measured = json.loads((ROOT / "docs/results/adem-base.json").read_text("utf-8"))
    figure = measured["in_set"]["folds"]["figures"]["ADEM, pre-trained"]["spearman"]["mean"]
    mean, low, high = (f"{figure[end]:.{digits}f}".replace("0.", ".", 1) for end, digits in _ENDS)
    row = rows_of("ADEM: agreement with people, reply by reply")["ADEM"]
    assert row[:5] == [".428", ".436", ".410", ".418", f"{mean} [{low}, {high}]"]
    seconds = json.loads((ROOT / "bench/results/adem.json").read_text("utf-8"))["seconds_to_score_the_triples"]["wall"]
    assert rows_of("ADEM: time to score the test set") == {"616 replies": ["2,861", "168", f"{seconds:.3f}"]}


_ENDS = (("value", 3), ("low", 2), ("high", 2))


def test_what_no_result_has_was_not_run() -> None:
    assert figure_at("docs/results/adem.json", "in_set", "nothing") == "not run"
    assert figure_at("docs/results/none.json", "figures") == "not run"


def test_what_is_read_as_input_alone_stands_beside_what_it_is_published_for() -> None:
    rows = rows_of("HRED, VHRED and VHCR: perplexity")
    assert [rows[f"{network} input only"][:2] for network in ("HRED", "VHRED", "VHCR")] == [
        ["47.911", "41.227"],
        ["49.819", "40.248"],
        ["50.966", "37.342"],
    ]
    assert rows["HRED input only"][2] == "not run"


def test_a_system_that_was_left_out_stands_beside_its_namesake() -> None:
    measured = json.loads((ROOT / "docs/results/adem-base.json").read_text("utf-8"))
    of_system = measured["in_set"]["systems"]["dailydialog_gupta"]["dualencoder_train"]
    rows = rows_of("ADEM: systems that it was not fitted to")
    assert rows["Dual Encoder"][4:6] == [f"{of_system[key]:.3f}".lstrip("0") for key in ("all", "removed")]
    assert rows["TF-IDF"][4:] == ["–", "–", "–"]
