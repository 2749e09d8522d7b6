"""Logs and places that somebody chose badly, or on purpose."""

from __future__ import annotations

import json
import os

import pytest

from refaug.cli import main as cli
from refaug.core.text.normalisation import make_printable, normalise, stream_safe
from refaug.logs.reading.shapes import as_id, as_time


def ingested(home, source, *options):
    return cli.main(["--quiet", "--home", str(home), "log", "ingest", str(source), "--log", "l", *options])


def sampled(home, capfdbinary):
    capfdbinary.readouterr()
    assert cli.main(["--home", str(home), "log", "sample", "l", "--json"]) == 0
    return json.loads(capfdbinary.readouterr().out)["pairs"]


def test_a_home_named_like_a_column_changes_nothing(tmp_path, capfdbinary):
    source = tmp_path / "two.jsonl"
    source.write_text('{"id": "d1", "turns": ["one", "two"]}\n{"id": "d2", "turns": ["three", "four"]}\n', "utf-8")
    home = tmp_path / "dialogue=prod"
    assert ingested(home, source) == 0
    assert sorted(pair["dialogue"] for pair in sampled(home, capfdbinary)) == ["d1", "d2"]


def test_a_silent_turn_keeps_its_neighbours_apart(tmp_path, capfdbinary):
    rows = [("Do you want to cancel?",), (None,), ("Great, see you tomorrow.",), ("Thanks.",)]
    source = tmp_path / "calls.jsonl"
    source.write_text("".join(json.dumps({"conversation_id": "c", "text": text}) + "\n" for (text,) in rows), "utf-8")
    assert ingested(tmp_path / "home", source) == 0
    pairs = [(pair["utterance"], pair["response"]) for pair in sampled(tmp_path / "home", capfdbinary)]
    assert pairs == [("Great, see you tomorrow.", "Thanks.")]


def test_runs_of_marks_are_cut_where_normalising_them_would_never_end():
    text = "a" + "\u0301\u0323" * 200_000
    assert stream_safe(text) == "a" + "\u0301\u0323" * 15
    assert normalise(normalise(text)) == normalise(text)
    assert stream_safe("e\u0301" * 500) == "e\u0301" * 500


@pytest.mark.parametrize("moment", [-99_999_999_999, "0001-01-01T00:00:00+14:00", 1e300, "9999-12-31T23:59:59-10:00"])
def test_a_time_that_no_calendar_shows_is_no_time(moment):
    assert as_time(moment) is None


def test_an_id_inside_an_id_inside_an_id_is_no_id():
    assert as_id({"id": "x"}) == "x"
    assert as_id({"id": {"id": "x"}}) is None


def test_what_a_terminal_would_obey_is_written_out(tmp_path, capfd):
    source = tmp_path / "escapes.jsonl"
    turns = {"id": "a\u001b[31m\u0007\nfake/log#9\u202e", "turns": ["こんにちは\u3000世界", "\u0646\u200cم 👨‍👩‍👧"]}
    source.write_text(json.dumps(turns) + "\n", "utf-8")
    assert ingested(tmp_path / "home", source) == 0
    capfd.readouterr()
    cli.main(["--home", str(tmp_path / "home"), "log", "sample", "l"])
    lines = capfd.readouterr().out.splitlines()
    assert lines[0] == "l/a\\x1b[31m\\x07\\nfake/log#9\\u202e#1"
    assert len(lines) == 3
    assert make_printable("\u0646\u200cم 👨‍👩‍👧 a\u3000b") == "\u0646\u200cم 👨‍👩‍👧 a\u3000b"


def test_a_list_of_names_from_windows_loses_none(tmp_path, capfdbinary):
    source, names = tmp_path / "talk.jsonl", tmp_path / "leavers.txt"
    turns = [{"speaker": "bob", "text": "hello there"}, {"speaker": "ann", "text": "good day"}]
    source.write_text(json.dumps({"id": "d", "turns": turns}) + "\n", "utf-8")
    names.write_bytes(b"\xef\xbb\xbfbob\r\n")
    assert ingested(tmp_path / "home", source) == 0
    capfdbinary.readouterr()
    assert cli.main(["--home", str(tmp_path / "home"), "log", "delete", "l", "--speakers", str(names), "--json"]) == 0
    assert json.loads(capfdbinary.readouterr().out)["speakers"] == {"bob": 1}


def test_rejects_go_into_files_only(tmp_path):
    source, fifo = tmp_path / "talk.jsonl", tmp_path / "fifo"
    source.write_text('{"id": "d", "turns": ["one", "two"]}\n', "utf-8")
    os.mkfifo(fifo)
    assert ingested(tmp_path / "home", source, "--rejects", str(fifo)) == 2
    assert ingested(tmp_path / "home", source, "--no-ids") == 0


def test_numbers_beyond_reason_are_refused(tmp_path):
    source = tmp_path / "talk.jsonl"
    source.write_text('{"id": "d", "turns": ["one", "two"]}\n', "utf-8")
    assert ingested(tmp_path / "home", source, "--max-chars", "9" * 20) == 2
    assert ingested(tmp_path / "home", source, "--memory", "9" * 400 + "g") == 2


def test_json_lines_stay_json_whatever_is_in_them(tmp_path, capfdbinary):
    source = tmp_path / "pairs.tsv"
    odd = "one\u2028two \u00ad three four five"
    source.write_text(f"{odd}\tyes\n{odd}\tno\n", "utf-8")
    assert ingested(tmp_path / "home", source, "--only-rules", "none") == 0
    capfdbinary.readouterr()
    assert cli.main(["--home", str(tmp_path / "home"), "log", "shared", "l"]) == 0
    shared = json.loads(capfdbinary.readouterr().out)
    assert (shared["utterance"], sorted(shared["responses"])) == (odd, ["no", "yes"])
