"""`refaug sets …` as users type it: with an index and a rater, without them, after they are gone, and when killed."""

from __future__ import annotations

import json
import os
import random
import shutil
import subprocess
import sys

import pytest
from indexes import build, home_of, pairs_of
from integration.conftest import ROOT
from raters import tiny_rater

from refaug.core.artefacts.kinds import artefact_stores
from refaug.core.home import Settings
from refaug.core.options.describing import options_of
from refaug.core.options.kinds import ChoiceKind
from refaug.operations.references import FreezeSet
from refaug.rater.nn.checkpoint import save_rater
from refaug.scoring.reference_sets.reference_set import Purpose

WORDS = ["we", "you", "they", "go", "eat", "drink", "tea", "milk", "home", "today", "never", "often"]
TEXTS = sorted({" ".join(random.Random(number).choices(WORDS, k=1 + number % 6)) for number in range(300)})
QUIET = ("--draws", "0", "--json")
UNRATED = ("--reference-weights", "one", "--parrot", "off")


def write(path, items):
    path.write_text("".join(json.dumps(item, ensure_ascii=False) + "\n" for item in items), "utf-8")
    return path


def an_item(number):
    rng = random.Random(f"item {number}")
    return {
        "id": f"d{number}",
        "utterance": rng.choice(TEXTS),
        "references": [rng.choice(TEXTS)],
        "replies": {"old": rng.choice(TEXTS), "new": rng.choice(TEXTS)},
    }


ITEMS = [an_item(number) for number in range(12)]
WEIGHTED = [
    {
        **item,
        "references": [
            *item["references"],
            {"text": item["utterance"], "source": "parrot", "weight": -0.5, "rating": -0.5},
            {"text": TEXTS[number], "source": "retrieved", "weight": 0.5, "rating": 0.5, "similarity": 0.9},
            {"text": TEXTS[-number], "source": "retrieved", "weight": 1, "rating": 1, "pair": f"chat/d{number}#1"},
        ],
    }
    for number, item in enumerate(ITEMS)
]


@pytest.fixture
def weighted(tmp_path):
    return write(tmp_path / "weighted.jsonl", WEIGHTED)


@pytest.fixture
def items(tmp_path):
    return write(tmp_path / "items.jsonl", ITEMS)


@pytest.fixture
def with_tools(home, tmp_path):
    """The home has an index and a rater called chat."""
    rng = random.Random(1)
    pairs = pairs_of(*((rng.choice(TEXTS), rng.choice(TEXTS)) for _ in range(200)))
    build(home_of(home.path, pairs, {word: [rng.gauss(0, 1) for _ in range(8)] for word in WORDS}))
    rater = tiny_rater(TEXTS, tmp_path, pieces=60)
    raters = artefact_stores(Settings(home=home.path))["rater"]
    folder = tmp_path / "rater"
    save_rater(folder, rater.model, rater.tokenizer, temperature=1.0, languages=["en"], report={}, details={"logs": {}})
    raters.publish("chat", raters.add("chat", folder))
    return home


def made(result):
    assert result.code == 0, result.err
    return result.json


def freeze(home, path, *more):
    return made(home("sets", "freeze", path, "--purpose", "test", *more, "--json"))


# ── with an index and a rater ─────────────────────────────────────────────────────────────────────────────────────────


def test_what_a_rater_reads_of_an_index_is_kept_and_changes_no_set(with_tools, items) -> None:
    home, tools = with_tools, ("--index", "chat", "--rater", "chat", "-k", "4", "--threads", "1")
    frozen = freeze(home, items, *tools)
    encode = ("index", "encode", "chat", "--rater", "chat", "--threads", "1")
    read = made(home(*encode, "--json"))
    assert read["not_kept"] == 0
    assert 0 < read["read"] < read["texts"] <= 400
    assert made(home(*encode, "--json")) == {**read, "read": 0}
    assert freeze(home, items, *tools)["id"] == frozen["id"]
    assert home(*encode, "--encoder", "tiny").code == 2
    content = made(home("artefacts", "show", "rater", "chat", "--json"))["id"]
    removed = home("artefacts", "remove", "rater", "chat", "--yes")
    assert f"texts: refaug index encoder forget {content}" in removed.err
    assert made(home("index", "encoder", "forget", content, "--json"))["freed"] > 0


def test_a_set_scores_as_the_index_did_when_index_and_rater_are_gone(with_tools, items, tmp_path) -> None:
    home, tools = with_tools, ("--index", "chat", "--rater", "chat", "-k", "4", "--threads", "1")
    frozen = freeze(home, items, *tools)
    direct = made(home("score", items, *tools, "-m", "upsilon-bleu", *QUIET))
    listed = home("sets", "references", items, *tools)
    given = freeze(home, write(tmp_path / "refs.jsonl", map(json.loads, listed.out.splitlines())))
    assert given["content"] == frozen["content"]
    assert (given["provenance"], given["details"]) == (frozen["provenance"], frozen["details"])
    assert given["how"] == {"freeze": {"references": "given"}}
    assert given["id"] != frozen["id"]
    said = frozen["provenance"]
    assert said["k"] == "4"
    assert said["index"].startswith("chat@")
    assert said["rater"].startswith("chat@")
    assert (frozen["items"], frozen["details"]["oov"]) == (12, "skip")

    for name in ("indexes", "raters", "logs", "vectors"):
        shutil.rmtree(home.path / name)
    shuffled = write(tmp_path / "shuffled.jsonl", random.Random(2).sample(ITEMS, len(ITEMS)))
    command = [
        "import sys; from refaug.cli.main import main",
        f"arguments = ['sets', 'score', {frozen['id']!r}, {str(shuffled)!r}, *{QUIET!r}]",
        f"code = main(['--home', {str(home.path)!r}, *arguments])",
        "print(*{'torch', 'faiss', 'rater', 'indexer'} & set(sys.modules), file=sys.stderr)",
        "sys.exit(code)",
    ]
    done = subprocess.run(
        [sys.executable, "-c", "\n".join(command)],
        check=True, capture_output=True, text=True, env={**os.environ, "PYTHONPATH": str(ROOT)},
    )  # fmt: skip
    assert done.stderr.splitlines()[-1] == ""
    found = json.loads(done.stdout)
    assert found["set"] == frozen["id"]
    assert (found["data"], found["evidence"]) == (direct["data"], direct["evidence"])
    one, other = found["scores"][0], direct["scores"][0]
    assert (one["systems"], one["references"]) == (other["systems"], other["references"])
    assert (one["signature"], one["signature_full"]) == (other["signature"], other["signature_full"])
    again = made(home("sets", "score", frozen["id"][:6], items, *QUIET))
    assert (again.pop("inputs"), found.pop("inputs")) == ({"items": [str(items)]}, {"items": [str(shuffled)]})
    assert found == again


def test_a_set_cannot_be_frozen_without_what_it_is_asked_for(with_tools, items) -> None:
    home = with_tools
    for arguments, code, told in [
        (("--purpose", "test", "--index", "chat"), 2, "no rater is named"),
        (("--purpose", "test", "--rater", "chat"), 2, "--rater: it has no effect without an index"),
        (
            ("--purpose", "test", "--index", "chat", "--rater", "chat", *UNRATED),
            2,
            "--rater: nothing is to be rated",
        ),
        (("--purpose", "exam"), 2, "exam"),
        ((), 2, "purpose"),
        (("--purpose", "test", "--index", "gone", *UNRATED), 3, "gone"),
    ]:
        result = home("sets", "freeze", items, *arguments, "--json")
        assert (result.code, told in result.err) == (code, True), result.err
    assert home("sets", "list", "--json").json == []


# ── without them ──────────────────────────────────────────────────────────────────────────────────────────────────────


def test_sets_are_listed_shown_verified_and_withdrawn(home, weighted) -> None:
    first = freeze(home, weighted)
    again = freeze(home, weighted)
    assert (first["new"], again["new"], again["id"]) == (True, False, first["id"])
    other = made(home("sets", "derive", first["id"], "--parrot", "off", "--json"))
    rows = home("sets", "list", "--json").json
    assert [row["id"] for row in rows] == sorted([first["id"], other["id"]])
    assert {row["id"]: (row["items"], row["references"], row["parent"]) for row in rows} == {
        first["id"]: (12, 48, None),
        other["id"]: (12, 36, first["id"]),
    }
    shown = made(home("sets", "show", first["id"][:8], "--json"))
    assert [one["references"] for one in shown["evidence"]["weights"]] == [0, 0, 12, 0, 0, 0, 0, 12, 0, 12]
    assert (shown["evidence"]["thin"], shown["evidence"]["sources"]["parrot"]) == (12, 12)
    text = home("sets", "show", first["id"]).out
    assert "12 of 12 items" in text
    assert "+0.8  +1.0          12" in text
    assert home("sets", "verify", first["id"]).out == (
        f"set {first['id']}: 12 items, 48 references, as the manifest says\n"
    )

    withdrawn = home("sets", "withdraw", first["id"], "--reason", "erased text", "--instead", other["id"][:7])
    assert withdrawn.out == f"set {first['id']} is withdrawn; instead: {other['id']}\n"
    for command in (("score", first["id"], weighted), ("verify", first["id"]), ("derive", first["id"], "-k", "1")):
        refused = home("sets", *command, "--json")
        assert (refused.code, refused.error["code"]) == (4, "withdrawn")
        assert "erased text" in refused.error["message"]
        assert other["id"] in refused.error["remedy"]
    assert made(home("sets", "show", first["id"], "--json"))["withdrawn"]["instead"] == other["id"]
    assert "withdrawn: erased text" in home("sets", "list").out
    assert home("sets", "freeze", weighted, "--purpose", "test").code == 4


def test_bad_items_and_unknown_ids_are_told_with_file_and_line(home, tmp_path, weighted) -> None:
    unweighted = {"id": "x", "references": ["hi", {"text": "oh", "source": "retrieved"}]}
    mixed = tmp_path / "mixed.jsonl"
    mixed.write_text("\n".join(["not JSON", "", json.dumps(unweighted), *map(json.dumps, WEIGHTED)]), "utf-8")
    result = home("sets", "freeze", mixed, "--purpose", "test", "--strict", "--json")
    assert (result.code, result.error["code"]) == (3, "bad_input")
    assert home("sets", "list", "--json").json == []
    result = home("sets", "freeze", mixed, "--purpose", "test")
    assert result.code == 0
    assert f"warning: {mixed}, line 1: not JSON" in result.err
    assert f"warning: {mixed}, line 3, item x, references[1]: a retrieved one without a weight" in result.err
    name = freeze(home, weighted)["id"]
    assert name in result.out

    replies = tmp_path / "replies.jsonl"
    lines = [{"id": "d3", "replies": {"a": "tea"}}, {"id": "who", "replies": {"a": "tea"}}, {"replies": {"a": "tea"}}]
    replies.write_text("\n\n".join(map(json.dumps, lines)), "utf-8")
    found = made(home("sets", "score", name, replies, *QUIET))
    assert [(one["file"], one["line"], one["id"]) for one in found["problems"]] == [
        (str(replies), 3, "who"),
        (str(replies), 5, "line-5"),
    ]
    assert found["scores"][0]["systems"]["a"]["unscored_by_reason"] == {"no_reply": 11}
    assert home("sets", "score", name, replies, "--strict", "--draws", "0").code == 3
    table = tmp_path / "replies.tsv"
    table.write_text("id\treply:a\nwho\ttea\nd3\ttea\n", "utf-8")
    again = made(home("sets", "score", name, table, *QUIET))
    assert [(one["line"], one["id"]) for one in again["problems"]] == [(2, "who")]
    assert again["scores"] == found["scores"]


def test_the_purposes_of_the_command_are_those_of_the_sets() -> None:
    purposes = {option.name: option.kind for option in options_of(FreezeSet)}["purpose"]
    assert isinstance(purposes, ChoiceKind)
    assert purposes.choices == tuple(one.value for one in Purpose)


# ── killed ────────────────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.slow
def test_a_kill_at_any_moment_leaves_no_set_or_the_whole_one(home_at, tmp_path, weighted, driver) -> None:
    command = ("sets", "freeze", weighted, "--purpose", "test", "--json")
    code, seen, _ = driver.answer("--home", tmp_path / "calm", *command)
    assert code == 0
    events = [(kind, number) for kind in ("fsync", "replace", "unlink") for number in range(1, seen.get(kind, 0) + 1)]
    assert len(events) >= 4
    wanted = freeze(home_at(tmp_path / "calm"), weighted)["id"]
    outcomes = []
    for kind, number in events:
        home = home_at(tmp_path / f"{kind}-{number}")
        code, _, _ = driver.answer("--home", home.path, *command, kind=kind, number=number)
        assert code == -9
        listed = [row["id"] for row in home("sets", "list", "--json").json]
        outcomes.append(listed)
        assert listed in ([], [wanted])
        if listed:
            assert home("sets", "verify", wanted).code == 0
        assert freeze(home, weighted)["id"] == wanted
        assert home("sets", "verify", wanted).code == 0
        left = {path.name for path in (home.path / "reference-sets").iterdir()}
        assert left == {".lock", f"{wanted}.jsonl.zst"}
    assert [] in outcomes
    assert [wanted] in outcomes
