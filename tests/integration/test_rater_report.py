"""`refaug train report rater`: a page with pictures, of training alone, and of what an index has for test pairs."""

from __future__ import annotations

import io
import sys
from pathlib import Path
from typing import Any

import orjson
import pytest
from integration.conftest import Home

from refaug.logs.store import StoredLog

ONE = ("--threads", "1")
PICTURES = ["curves.png", "reliability.png"]
ROW = {"id": "i1", "utterance": "where do you buy tea in autumn", "references": ["at the market"]}


def written(path: Path, *rows: dict[str, Any] | bytes) -> Path:
    path.write_bytes(b"".join((row if isinstance(row, bytes) else orjson.dumps(row)) + b"\n" for row in rows))
    return path


def reported(home: Home, to: Path, *arguments: Any) -> dict[str, Any]:
    result = home("train", "report", "rater", "chat", "--to", to, *arguments, *ONE, "--json")
    assert result.code == 0, result.err
    found: dict[str, Any] = result.json
    assert found == orjson.loads((to / "report.json").read_bytes())
    return found


def files(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in sorted(folder.iterdir())}


def test_without_an_index_the_report_is_of_the_training_alone(ready: Home, tmp_path: Path) -> None:
    to = tmp_path / "new" / "report"
    found = reported(ready, to)
    shown = ready("artefacts", "show", "rater", "chat", "--json").json
    assert found["training"] == shown["report"]
    assert (found["id"], found["logs"], found["retrieved"]) == (shown["id"], ["chat"], None)
    assert found["rater"] == f"chat@{shown['version']}#{shown['id'][:12]}"
    assert set(files(to)) - {"ratings.png"} == {"index.html", "report.json", *PICTURES}
    assert "Retrieved references" not in (to / "index.html").read_text("utf-8")
    people = ready("train", "report", "rater", f"chat@{shown['version']}", "--to", to)
    assert people.code == 0
    lines = [" ".join(line.split()) for line in people.out.splitlines()]
    assert lines[0] == f"rater chat@{shown['version']}"
    assert f"page {to / 'index.html'}" in lines


@pytest.mark.slow
def test_report_with_an_index_rates_fifty_held_out_pairs_reproducibly(ready: Home, tmp_path: Path) -> None:
    found = reported(ready, tmp_path / "a", "--index", "chat", "-k", "4")["retrieved"]
    assert (found["pairs"], len(found["examples"])) == (50, 50)
    assert found["references"] == sum(len(one["references"]) - 1 for one in found["examples"]) == 100
    own = [one for example in found["examples"] for one in example["references"] if one["source"] == "retrieved"]
    assert len(own) == 100  # of four each, two had answered the utterance itself
    assert found["made_by"]["k"] == "4"
    ratings = [
        one["rating"] for example in found["examples"] for one in example["references"] if one["source"] == "retrieved"
    ]
    assert found["mean"] == pytest.approx(sum(ratings) / len(ratings))
    assert found["above_0"] == sum(rating > 0 for rating in ratings) / len(ratings)
    asked = {(pair.utterance, pair.response) for pair in StoredLog.open(ready.logs, "chat").pairs()}
    assert all((one["utterance"], gold) in asked for one in found["examples"] for gold in one["golds"])
    reported(ready, tmp_path / "b", "--index", "chat", "-k", "4")
    assert files(tmp_path / "a") == files(tmp_path / "b")
    assert [path for path in (ready.path / "cache").rglob("*") if path.suffix == ".arrow"] == []


@pytest.mark.slow
def test_references_of_given_items_are_those_that_refs_prints(
    ready: Home, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = written(tmp_path / "items.jsonl", ROW, b"{", {"id": "i2", "references": ["at the mill"]})
    result = ready("train", "report", "rater", "chat", "--to", tmp_path / "a", "--index", "chat", "--items", file, *ONE)
    assert result.code == 0, result.err
    assert f"{file}, line 2" in result.err
    lines = [" ".join(line.split()) for line in result.out.splitlines()]
    assert {"test_pairs 2", "with_references 1", "references 15"} <= set(lines)
    (example,) = orjson.loads((tmp_path / "a" / "report.json").read_bytes())["retrieved"]["examples"]
    refs = ready(
        "sets", "references", file, "--index", "chat", "--rater", "chat", "--parrot", "rated", *ONE
    ).out.splitlines()[0]
    wanted = [one for one in orjson.loads(refs)["references"] if one["source"] != "gold"]
    wanted.sort(key=lambda one: -one["weight"])
    for name in ("text", "source", "weight", "rating", "similarity", "utterance"):
        assert [one[name] for one in example["references"]] == [one.get(name) for one in wanted]
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(file.read_bytes())))
    from_stdin = reported(ready, tmp_path / "b", "--index", "chat", "--items", "-")["retrieved"]
    assert (from_stdin["examples"], from_stdin["pairs_from"]) == ([example], "stdin")
    strict = ready(
        "train", "report", "rater", "chat", "--to", tmp_path / "c", "--index", "chat", "--items", file, "--strict"
    )
    assert (strict.code, "1 item could not be used" in strict.err) == (3, True)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("deletion", "told"), [(("--dialogue", "3"), "1 of the 1 parts"), (("--whole", "--yes"), "is not here")]
)
def test_when_the_log_is_gone_or_has_lost_something_items_must_be_given(
    ready: Home, tmp_path: Path, deletion: tuple[str, ...], told: str
) -> None:
    assert ready("log", "delete", "chat", *deletion).code == 0
    refused = ready("train", "report", "rater", "chat", "--to", tmp_path / "a", "--index", "chat", *ONE, "--json")
    assert (refused.code, refused.error["code"], told in refused.error["message"]) == (3, "not_found", True)
    assert "--items" in refused.error["remedy"]
    assert not (tmp_path / "a").exists()
    file = written(tmp_path / "items.jsonl", ROW)
    assert reported(ready, tmp_path / "a", "--index", "chat", "--items", file)["retrieved"]["pairs"] == 1


@pytest.mark.parametrize(
    ("arguments", "code", "told"),
    [
        (("nobody",), 3, "nobody"),
        (("chat@2020-01-01.1",), 3, "chat@2020-01-01.1"),
        (("chat", "--index", "nowhere"), 3, "nowhere"),
        (("chat", "--items", "items.jsonl"), 2, "need an index"),
        (("chat", "--index", "chat", "--items", "nowhere.jsonl"), 3, "nowhere.jsonl"),
        (("chat", "--index", "chat", "--items", "empty.jsonl"), 3, "no test pairs"),
        (("chat", "--index", "chat", "-k", "0"), 2, "-k"),
        (("chat", "--memory", "much", "--index", "chat"), 2, "much"),
    ],
)
def test_what_cannot_be_done_is_refused_and_nothing_is_written(
    ready: Home, tmp_path: Path, arguments: tuple[str, ...], code: int, told: str
) -> None:
    empty = tmp_path / "empty.jsonl"
    empty.touch()
    arguments = tuple(str(empty) if argument == empty.name else argument for argument in arguments)
    result = ready("train", "report", "rater", *arguments, "--to", tmp_path / "report")
    assert (result.code, told in result.err, result.out) == (code, True, ""), result.err
    assert not (tmp_path / "report").exists()


def test_a_place_that_is_no_folder_is_refused_before_any_work(ready: Home, tmp_path: Path) -> None:
    file = written(tmp_path / "file", ROW)
    result = ready("train", "report", "rater", "nobody", "--to", file / "report")
    assert (result.code, "is not a folder" in result.err) == (2, True)
