"""Commands read tables as they read items, and verify reads them again."""

from __future__ import annotations

import csv
import io
import json
from pathlib import Path

import pytest

ROWS = [
    ("tea", "Would you like some tea?", "Yes, please.", "old", "I like tea.", (2, 1, 2)),
    ("tea", "Would you like some tea?", "Yes, please.", "new", "Yes, with milk.", (5, 4, 5)),
    ("bus", "When does the bus leave?", "In ten minutes.", "old", "I like the bus.", (1, 2, 1)),
    ("bus", "When does the bus leave?", "In ten minutes.", "new", "It leaves in ten minutes.", (4, 5, 5)),
    ("key", "Where is the key?", "Under the mat.", "old", "I do not know.", (2, 2, 3)),
    ("key", "Where is the key?", "Under the mat.", "new", "Look under the mat.", (5, 3, 4)),
]
MAP = ("--map", "utterance=Kontext", "--map", "reference=Gold", "--map", "system=Modell", "--map", "reply=Antwort")
RATED = (*MAP, "--map", "id=Nr", "--map", "annotator=Wer", "--map", "rating=Note")


@pytest.fixture
def items(tmp_path: Path) -> Path:
    """The rows as items."""
    documents: dict[str, dict] = {}
    for name, utterance, gold, system, reply, ratings in ROWS:
        item = {"id": name, "utterance": utterance, "references": [gold], "replies": {}, "ratings": {}}
        document = documents.setdefault(name, item)
        document["replies"][system] = reply
        document["ratings"][system] = list(ratings)
    path = tmp_path / "items.jsonl"
    path.write_text("".join(f"{json.dumps(document)}\n" for document in documents.values()), "utf-8")
    return path


@pytest.fixture
def table(tmp_path: Path) -> Path:
    """The rows as Excel writes them in Germany: one a rating."""
    text = io.StringIO()
    writer = csv.writer(text, delimiter=";")
    writer.writerow(["Nr", "Kontext", "Gold", "Modell", "Antwort", "Wer", "Note", "Bemerkung"])
    for name, utterance, gold, system, reply, ratings in ROWS:
        for who, rating in enumerate(ratings):
            writer.writerow([name, utterance, gold, system, reply, f"P{who}", f"{rating},0", ""])
    path = tmp_path / "noten.csv"
    path.write_text(text.getvalue(), "cp1252")
    return path


def test_scores_of_a_table_are_those_of_its_items_and_verify(home, tmp_path: Path, items: Path, table: Path) -> None:
    of_table = home("score", table, *RATED, "--encoding", "cp1252", "-m", "bleu", "--json")
    of_items = home("score", items, "-m", "bleu", "--json")
    assert of_table.json["scores"] == of_items.json["scores"]
    hashes = ("data", "utterances", "replies")
    assert [of_table.json[name] for name in hashes] == [of_items.json[name] for name in hashes]
    assert of_table.json["inputs"] == {"items": [str(table)], "map": list(RATED[1::2]), "encoding": "cp1252"}
    (tmp_path / "scores.json").write_text(of_table.out, "utf-8")
    verified = home("score", "verify", tmp_path / "scores.json")
    assert (verified.code, " unchecked " in verified.out) == (0, False), verified.out + verified.err
    named = home("score", "verify", tmp_path / "scores.json", table, *RATED, "--encoding", "cp1252")
    assert named.code == 0
    table.write_text(table.read_text("cp1252").replace("I like tea", "I love tea"), "cp1252")
    assert home("score", "verify", tmp_path / "scores.json").code == 6


def test_meta_of_a_table_is_that_of_its_items(home, items: Path, table: Path) -> None:
    options = ("-m", "bleu", "-m", "chrf", "--draws", "50", "--json")
    of_table, of_items = home("agreement", table, *RATED, *options).json, home("agreement", items, *options).json
    assert of_table["metrics"] == of_items["metrics"]
    different = {"name", "label"}
    (table_set,), (item_set,) = of_table["sets"], of_items["sets"]
    assert {k: v for k, v in table_set.items() if k not in different} == {
        k: v for k, v in item_set.items() if k not in different
    }


def test_frozen_sets_take_tables_of_items_and_of_replies(home, items: Path, table: Path) -> None:
    mapped = (*MAP, "--map", "id=Nr", "--encoding", "cp1252")
    of_table = home("sets", "freeze", table, *mapped, "--shape", "reply", "--purpose", "test", "--json")
    of_items = home("sets", "freeze", items, "--purpose", "test", "--json")
    assert of_table.json["id"] == of_items.json["id"]
    set_id = of_items.json["id"]
    scores = [
        home("sets", "score", set_id, *replies, "-m", "bleu", "--json").json["scores"]
        for replies in ((table, *mapped, "--shape", "reply"), (items,))
    ]
    assert scores[0] == scores[1]


def test_diagnose_and_stdin_read_tables(home, items: Path, table: Path) -> None:
    options = ("--encoding", "cp1252", "--json")
    assert home("score", "diagnose", table, *RATED, *options).json == home("score", "diagnose", items, "--json").json


def test_convert_writes_what_the_items_are(home, tmp_path: Path, items: Path, table: Path) -> None:
    output = tmp_path / "converted.jsonl"
    assert home("sets", "convert", table, *RATED, "--encoding", "cp1252", "-o", output).code == 0
    written = [json.loads(line) for line in output.read_text("utf-8").splitlines()]
    expected = [json.loads(line) for line in items.read_text("utf-8").splitlines()]
    for document in expected:
        document["references"] = [{"text": text, "source": "gold"} for text in document["references"]]
    assert written == expected
    again = home("sets", "convert", output)
    assert [json.loads(line) for line in again.out.splitlines()] == written


def test_convert_refuses_an_id_of_two_files_and_writes_nothing(home, tmp_path: Path, items: Path) -> None:
    copy = tmp_path / "copy.jsonl"
    copy.write_bytes(items.read_bytes())
    result = home("sets", "convert", items, copy, "-o", tmp_path / "out.jsonl")
    assert (result.code, "tea" in result.err, (tmp_path / "out.jsonl").exists()) == (3, True, False)


def test_a_dry_run_shows_five_items_and_what_is_not_used(home, tmp_path: Path) -> None:
    path = tmp_path / "many.csv"
    rows = "".join(f"{n},r,x,n\n" for n in range(9))
    path.write_text(f"id,reference,reply:a,note\n{rows}bad\n", "utf-8")
    result = home("sets", "convert", path, "--dry-run", "-o", tmp_path / "out.jsonl")
    lines = result.out.splitlines()
    assert [json.loads(line)["id"] for line in lines[:5]] == ["0", "1", "2", "3", "4"]
    assert "  not used    note" in lines
    assert lines[-1] == "9 items, 9 replies, 0 ratings; 1 rows or items could not be used"
    assert (result.code, (tmp_path / "out.jsonl").exists()) == (0, False)
    assert "note" in result.err
    assert home("sets", "convert", path, "--dry-run", "--strict").code == 3
