"""The b of an index as users meet it: taken by `refaug score`, printed by `score metrics baseline`, given to sets."""

from __future__ import annotations

import json
import random
import shutil
from pathlib import Path
from typing import Any

import pytest
from indexes import build, home_of
from integration.conftest import Home
from plain_search import RawPair

from refaug.metrics.signature import Signature

WORDS = ["we", "you", "they", "go", "eat", "drink", "tea", "milk", "home", "today", "never", "often"]
FOUND = ("--index", "chat", "--parrot", "off", "--reference-weights", "one", "-k", "4", "--threads", "1")
QUIET = ("--draws", "0", "--json")


def text(rng: random.Random) -> str:
    return " ".join(rng.sample(WORDS, rng.randint(2, 6)))


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    rng, folder = random.Random(1), tmp_path_factory.mktemp("made")
    pairs = [RawPair("chat", f"d{number // 3}", str(number), text(rng), text(rng)) for number in range(150)]
    build(home_of(folder, pairs, {word: [rng.gauss(0, 1) for _ in range(8)] for word in WORDS}))
    return folder


@pytest.fixture
def ready(home: Home, made: Path) -> Home:
    shutil.copytree(made, home.path)
    return home


@pytest.fixture
def items(tmp_path: Path) -> Path:
    rng, file = random.Random(2), tmp_path / "items.jsonl"
    rows = [
        {"id": f"i{n}", "utterance": text(rng), "references": [text(rng)], "replies": {"a": text(rng), "b": text(rng)}}
        for n in range(10)
    ]
    file.write_text("".join(json.dumps(row) + "\n" for row in rows), "utf-8")
    return file


def scored(home: Home, *arguments: Any) -> list[dict[str, Any]]:
    result = home(*arguments, *QUIET)
    assert result.code == 0, result.err
    found: list[dict[str, Any]] = result.json["scores"]
    return found


def b_of(score: dict[str, Any]) -> str:
    return Signature.parse(score["signature"]).settings["b"]


def baselines(home: Home) -> Path:
    return home.path / "indexes" / "chat" / "baselines"


def test_score_takes_the_b_that_the_command_prints(ready: Home, items: Path) -> None:
    (bare,) = scored(ready, "score", items, *FOUND, "-m", "upsilon-chrf")
    printed = ready("score", "metrics", "baseline", "chrf", "--index", "chat", "--json").json
    version = ready("artefacts", "show", "index", "chat", "--json").json
    assert printed["parameter"] == f"b={b_of(bare)}"
    assert (printed["index"], printed["pairs"], printed["seed"]) == (f"chat@{version['version']}", 10_000, 1)
    assert printed["index_pairs"] == version["segments"][0]["pairs"]
    assert 0 < printed["b"] < 0.5
    given, none = scored(ready, "score", items, *FOUND, "-m", printed["specification"], "-m", "upsilon-chrf:b=0")
    assert given["systems"] == bare["systems"]
    assert b_of(none) == "0"
    for name, system in bare["systems"].items():
        pairs = zip(system["replies"], none["systems"][name]["replies"], strict=True)
        assert all(0 <= low["score"] < high["score"] for low, high in pairs)


def test_a_measured_b_and_the_same_b_given_have_one_signature(ready: Home, items: Path) -> None:
    wanted = ("upsilon-chrf", "upsilon-chrf:b=0.1", "upsilon-bleu", "upsilon-rouge-1", "chrf")
    found = scored(ready, "score", items, *FOUND, *(part for one in wanted for part in ("-m", one)))
    assert b_of(found[0]) != b_of(found[3])
    given = scored(ready, "score", items, *FOUND, "-m", f"upsilon-chrf:b={b_of(found[0])}")[0]
    assert given["signature_full"] == found[0]["signature_full"]
    assert given["systems"] == found[0]["systems"]


def test_without_b_and_with_b_0_are_two_metrics_with_an_index(ready: Home, items: Path) -> None:
    found = scored(ready, "score", items, *FOUND, "-m", "upsilon-chrf", "-m", "upsilon-chrf:b=0")
    assert [b_of(one) == "0" for one in found] == [False, True]


def test_baseline_is_the_same_for_any_number_of_threads(ready: Home, items: Path) -> None:
    answers = []
    for threads in ("1", "2", "5"):
        found = ready("score", items, *FOUND, "--threads", threads, "-m", "upsilon-chrf", "-m", "upsilon-ter", *QUIET)
        files = {path.name: path.read_bytes() for path in baselines(ready).glob("[!.]*")}
        answers.append((found.out, files))
        shutil.rmtree(baselines(ready))
    assert len(answers[0][1]) == 2
    assert answers[0] == answers[1] == answers[2]


def test_nothing_is_measured_where_no_metric_asks_for_it(ready: Home, items: Path) -> None:
    for metric in ("upsilon-bleu", "upsilon-chrf:b=0.1"):
        scored(ready, "score", items, *FOUND, "-m", metric)
    assert not baselines(ready).exists()


def test_the_rest_of_the_index_is_as_it_was(ready: Home, items: Path) -> None:
    def others() -> dict[str, bytes]:
        files = (path for path in (ready.path / "indexes").rglob("*") if path.is_file())
        return {str(path): path.read_bytes() for path in files if path.parent != baselines(ready)}

    before, listed = others(), ready("artefacts", "list", "index").out
    scored(ready, "score", items, *FOUND, "-m", "upsilon-chrf")
    assert (others(), ready("artefacts", "list", "index").out) == (before, listed)
    assert "baselines" not in ready("admin", "doctor").out
    assert ready("artefacts", "gc", "index", "chat", "--keep", "1").code == 0
    assert len(list(baselines(ready).glob("[!.]*"))) == 1


# ── without the index ─────────────────────────────────────────────────────────────────────────────────────────────────


def test_items_that_refs_has_written_count_from_0_and_the_command_is_told(
    ready: Home, items: Path, tmp_path: Path
) -> None:
    file = tmp_path / "refs.jsonl"
    file.write_text(ready("sets", "references", items, *FOUND).out, "utf-8")
    index = f"chat@{ready('artefacts', 'show', 'index', 'chat', '--json').json['version']}"
    told = f"upsilon-chrf without b counts from 0, though the references are those of an index: refaug score metrics baseline upsilon-chrf --index {index} measures b"  # noqa: E501  one sentence
    bare = ready("score", file, "-m", "upsilon-chrf", *QUIET)
    assert (b_of(bare.json["scores"][0]), told in bare.err) == ("0", True)
    (measured,) = scored(ready, "score", items, *FOUND, "-m", "upsilon-chrf")
    given = ready("score", file, "-m", f"upsilon-chrf:b={b_of(measured)}", *QUIET)
    assert given.json["scores"][0]["systems"] == measured["systems"]
    assert "counts from 0" not in given.err
    assert "counts from 0" not in ready("score", file, "-m", "upsilon-bleu", *QUIET).err


def test_a_frozen_set_wants_b_and_says_how_to_get_it(ready: Home, items: Path) -> None:
    frozen = ready("sets", "freeze", items, "--purpose", "test", *FOUND, "--json").json["id"]
    index = f"chat@{ready('artefacts', 'show', 'index', 'chat', '--json').json['version']}"
    refused = ready("sets", "score", frozen, items, "-m", "upsilon-chrf", *QUIET)
    assert (refused.code, refused.out) == (2, "")
    assert "upsilon-chrf has no b" in refused.err
    assert all(str(fact) in refused.err for fact in ("--index", index))
    (measured,) = scored(ready, "score", items, *FOUND, "-m", "upsilon-chrf")
    printed = ready("score", "metrics", "baseline", "upsilon-chrf", "--index", index, "--json").json["specification"]
    shutil.rmtree(ready.path / "indexes")
    (again,) = scored(ready, "sets", "score", frozen, items, "-m", printed)
    assert again["systems"] == measured["systems"]
    assert b_of(scored(ready, "sets", "score", frozen, items, "-m", "upsilon-chrf:b=0")[0]) == "0"
    assert scored(ready, "sets", "score", frozen, items, "-m", "upsilon-bleu")


def test_a_set_of_given_references_counts_from_0(ready: Home, items: Path, tmp_path: Path) -> None:
    rows = [json.loads(line) for line in items.read_text("utf-8").splitlines()]
    weighted = [row | {"references": [*row["references"], {"text": "you drink tea", "weight": 0.5}]} for row in rows]
    file = tmp_path / "weighted.jsonl"
    file.write_text("".join(json.dumps(row) + "\n" for row in weighted), "utf-8")
    frozen = ready("sets", "freeze", file, "--purpose", "test", "--json").json["id"]
    (found,) = scored(ready, "sets", "score", frozen, file, "-m", "upsilon-chrf")
    assert b_of(found) == "0"


# ── the command ───────────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("arguments", "code", "told"),
    [
        (("chrf",), 2, "--index"),
        (("chrf", "--log", "chat", "--index", "chat"), 2, "--index"),
        (("chrf", "--index", "other"), 3, "other"),
        (("chrf", "--index", "chat@2020-01-01.1"), 3, "chat@2020-01-01.1"),
        (("chrf", "--index", "../chat"), 2, "../chat"),
        (("cider", "--index", "chat"), 2, "cider has no υ form"),
    ],
)
def test_what_cannot_be_meant_is_refused(ready: Home, arguments: tuple[str, ...], code: int, told: str) -> None:
    result = ready("score", "metrics", "baseline", *arguments)
    assert (result.code, result.out, told in result.err) == (code, "", True), result.err


def test_the_command_names_the_version_and_the_form_to_ask_for(ready: Home) -> None:
    shown = ready(
        "score", "metrics", "baseline", "chrf:char-order=4", "--index", "chat", "--pairs", "200", "--seed", "7"
    )
    version = ready("artefacts", "show", "index", "chat", "--json").json["version"]
    first, second = shown.out.splitlines()
    assert first.startswith("chrf: mean 0.")
    assert first.endswith(f" over 200 random pairs of index chat@{version} (seed 7)")
    assert second.startswith("give it to the weighted form: --metric upsilon-chrf:char-order=4,b=0.")
