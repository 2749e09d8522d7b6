"""`refaug compare` as its users call it: what it writes, and what it refuses."""

from __future__ import annotations

import csv
import io
import json
from pathlib import Path

import pytest

from refaug.cli import main as cli

LINES = [
    {"id": "tea", "references": ["Yes, please."], "replies": {"old": "I do not know.", "new": "Yes, please."}},
    {"id": "bus", "references": ["In ten minutes."], "replies": {"old": "In ten minutes.", "new": "=1+1"}},
]


@pytest.fixture
def scores(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]) -> Path:
    """A score file of two systems, with details."""
    monkeypatch.chdir(tmp_path)
    Path("items.jsonl").write_text("".join(json.dumps(line) + "\n" for line in LINES), "utf-8")
    assert cli.main(["-q", "score", "items.jsonl", "-m", "multi-bleu", "--json", "--details", "--draws", "0"]) == 0
    path = tmp_path / "scores.json"
    path.write_text(capfd.readouterr().out, "utf-8")
    return path


def test_each_form_of_output_has_the_changed_replies(scores: Path, capfd: pytest.CaptureFixture[str]) -> None:
    command = ["-q", "compare", scores.name, "--systems", "old,new"]
    assert cli.main([*command, "--json"]) == 0
    document = json.loads(capfd.readouterr().out)
    assert [change["id"] for change in document["comparisons"][0]["changes"]] == ["tea", "bus"]
    assert cli.main([*command, "--csv"]) == 0
    rows = list(csv.DictReader(io.StringIO(capfd.readouterr().out)))
    assert [(row["kind"], row["id"], row["second_reply"]) for row in rows] == [
        ("test", "", ""), ("test", "", ""), ("reply", "tea", "Yes, please."), ("reply", "bus", "'=1+1"),
    ]  # fmt: skip
    assert cli.main([*command, "--html", "page.html", "--only", "regressed"]) == 0
    page = Path("page.html").read_text("utf-8")
    assert "In ten minutes." in page
    assert "Yes, please." not in page
    assert capfd.readouterr().out.startswith("scores.json: second minus first\nmetric ")


def test_the_table_names_what_anyway_overrides(scores: Path, capfd: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["-q", "score", "items.jsonl", "-m", "multi-bleu:n=3", "--json", "--draws", "0"]) == 0
    Path("other.json").write_text(capfd.readouterr().out, "utf-8")
    assert cli.main(["-q", "compare", scores.name, "other.json"]) == 3
    assert "these scores cannot be compared: multi-bleu: n: 2 and 3" in capfd.readouterr().err
    assert cli.main(["-q", "compare", scores.name, "other.json", "--anyway"]) == 0
    first_line = capfd.readouterr().out.splitlines()[0]
    assert first_line == (
        "NOT COMPARABLE: these scores are not comparable, and were compared all the same: multi-bleu: n: 2 and 3"
    )


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--json", "--csv"], "--latex"),
        (["--systems", "old"], "--systems"),
        (["--systems", "old,newest"], "scores.json"),
        ([], "one file with 2 systems"),
        (["--systems", "old,new", "--grep", "["], "is not a regular expression"),
    ],
)
def test_what_makes_no_sense_is_refused(
    scores: Path, options: list[str], message: str, capfd: pytest.CaptureFixture[str]
) -> None:
    assert cli.main(["-q", "compare", scores.name, *options]) == 2
    assert message in capfd.readouterr().err


def test_a_search_needs_texts_and_the_same_file_twice_shows_nothing(
    scores: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    assert cli.main(["-q", "score", "items.jsonl", "-m", "multi-bleu", "--json", "--draws", "0"]) == 0
    Path("plain.json").write_text(capfd.readouterr().out, "utf-8")
    assert cli.main(["-q", "compare", "plain.json", "--systems", "old,new", "--grep", "tea"]) == 2
    assert "a search in files without texts" in capfd.readouterr().err
    assert cli.main(["-q", "compare", scores.name, scores.name, "--json"]) == 0
    document = json.loads(capfd.readouterr().out)
    assert [pair["verdict"] for pair in document["comparisons"]] == ["not shown", "not shown"]
    assert "both files are of the same replies" in document["warnings"]
