"""`refaug sets references`, and `refaug score` with an index: the same references, weights and scores by either way."""

from __future__ import annotations

import io
import random
import signal
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import orjson
import pytest
from integration.conftest import Home

from refaug.core.home import Settings
from refaug.core.progress import Silent
from refaug.core.records import Item, Origin
from refaug.metrics.signature import Signature
from refaug.scoring.items import read_items
from refaug.scoring.metric_setup.scoring_steps import find_references
from refaug.scoring.settings import AugmentSettings

ONE = ("--threads", "1")
BOTH = ("--index", "chat", "--rater", "tiny", *ONE)
UNRATED = ("--index", "chat", "--parrot", "off", "--reference-weights", "one", *ONE)
NO_INTERVALS = ("--draws", "0", "--json")
WORDS = ("at", "near", "the", "market", "mill", "i", "think", "it")
ASKED = (
    "where do you buy tea in autumn",
    "who sells you bread at noon",
    "where would you get shoes tomorrow",
    "how did you find a map in winter",
    "who sells you a lamp on mondays",
    "where do you buy milk now",
)


def items_of(count: int = 12) -> list[dict[str, Any]]:
    """One or two golds, some with a supplied reference, two systems."""
    rng = random.Random(1)
    said = ["at the market", "near the mill i think", "never at the bridge", "my aunt gets it by the station"]
    rows = []
    for number in range(count):
        references: list[Any] = rng.sample(said, 1 + number % 2)
        if number % 3 == 0:
            references.append({"text": "i would not know", "weight": -0.5})
        replies = {"a": rng.choice(said), "b": " ".join(rng.choices(WORDS, k=5))}
        rows.append({"id": f"i{number}", "utterance": ASKED[number % 6], "references": references, "replies": replies})
    return rows


def written(path: Path, rows: list[Any]) -> Path:
    path.write_bytes(b"".join((row if isinstance(row, bytes) else orjson.dumps(row)) + b"\n" for row in rows))
    return path


@pytest.fixture
def items(tmp_path: Path) -> Path:
    return written(tmp_path / "items.jsonl", items_of())


def rows_of(out: str) -> list[dict[str, Any]]:
    return [orjson.loads(line) for line in out.splitlines()]


def scored(home: Home, *arguments: Any) -> list[dict[str, Any]]:
    result = home("score", *arguments, *NO_INTERVALS)
    assert result.code == 0, result.err
    found: list[dict[str, Any]] = result.json["scores"]
    return found


def signature_of(score: dict[str, Any]) -> Signature:
    return Signature.parse(score["signature_full"])


# ── references ────────────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    "options",
    [
        (*BOTH,),
        (*BOTH, "--mode", "bm25-dialog", "--parrot", "-0.25", "--calibrated"),
        (*BOTH, "--parrot", "rated", "--reference-weights", "one"),
        ("--index", "chat", "--parrot", "0.75", "--reference-weights", "one", *ONE),
    ],
)
def test_what_refs_prints_scores_as_score_does_with_the_index(
    ready: Home, items: Path, tmp_path: Path, options: tuple[str, ...]
) -> None:
    result = ready("sets", "references", items, *options)
    assert result.code == 0, result.err
    file = tmp_path / "refs.jsonl"
    file.write_text(result.out)
    assert all(isinstance(one, Item) for one in read_items(file))
    (there,) = scored(ready, file, "-m", "upsilon-bleu")
    (here,) = scored(ready, items, *options, "-m", "upsilon-bleu")
    (chosen,) = scored(ready, file)  # without -m: what the references were made for
    assert here["systems"] == there["systems"] == chosen["systems"]
    assert here["references"] == there["references"]
    assert list(here["systems"]) == ["a", "b"]
    for system in here["systems"].values():
        assert all(reply["score"] is not None for reply in system["replies"])


def test_scores_do_not_depend_on_where_references_come_from_which_details_show(ready: Home, items: Path) -> None:
    asked = ("score", items, "-m", "upsilon-bleu", "-m", "rater", *BOTH, *NO_INTERVALS)
    plain, detailed = ready(*asked).json, ready(*asked, "--details").json
    shown = detailed.pop("details")["items"]
    sealed = ("checksum", "format_version")
    assert {name: plain[name] for name in plain if name not in sealed} == {
        name: detailed[name] for name in detailed if name not in sealed
    }
    found = [one for row in shown for one in row["references"] if one["source"] == "retrieved"]
    assert found
    assert all({"log", "dialogue", "pair", "index", "utterance"} <= one.keys() for one in found)


def test_references_without_origins_say_texts_weights_and_the_index_alone(ready: Home, items: Path) -> None:
    settings, home = AugmentSettings(gold="rated"), Settings(home=ready.path)
    both = [
        find_references(home, read_items(items), "chat", "tiny", settings, 1, Silent(), with_origins=whole)
        for whole in (True, False)
    ]
    (whole, provenance), (bare, same_provenance) = both
    assert same_provenance == provenance
    for one, other in zip(whole, bare, strict=True):
        for full, alone in zip(one.references, other.references, strict=True):
            assert replace(full, more={}, utterance=None) == replace(alone, more={})
            assert dict(alone.more) == ({"index": full.more["index"]} if full.source is Origin.RETRIEVED else {})


def test_score_reads_what_refs_prints_without_a_word_about_its_fields(ready: Home, items: Path, tmp_path: Path) -> None:
    row = {"id": "first", "references": ["at the mill"], "replies": {"a": "at the mill"}}  # will have a note
    every = written(tmp_path / "every.jsonl", [row, *items_of()])
    result = ready("sets", "references", every, *UNRATED)
    assert "note" in rows_of(result.out)[0]
    (tmp_path / "refs.jsonl").write_text(result.out)
    assert "is not used" not in ready("score", tmp_path / "refs.jsonl", *NO_INTERVALS).err


# ── refusals ──────────────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("options", "code", "told"),
    [
        (("--index", "chat"), 2, "no rater is named"),
        ((*UNRATED, "--gold", "rated"), 2, "no rater is named"),
        (("--rater", "chat"), 2, "index"),
        ((*BOTH, "--gold", "none", "--mode", "embedding-dialog"), 2, "--gold"),
        ((*BOTH, "--gold", "none", "--preset", "tsuta20"), 2, "gold"),
        ((*BOTH, "--parrot", "on"), 2, "--parrot"),
        ((*BOTH, "-k", "0"), 2, "-k"),
        (("--index", "other", "--rater", "chat"), 3, "other"),
        (("--index", "chat", "--rater", "chat@2020-01-01.1"), 3, "chat@2020-01-01.1"),
    ],
)
def test_what_cannot_be_meant_is_refused_before_anything_is_printed(
    ready: Home, items: Path, options: tuple[str, ...], code: int, told: str
) -> None:
    result = ready("sets", "references", items, *options)
    assert (result.code, told in result.err, result.out) == (code, True, ""), result.err


# ── bad items, stdin ──────────────────────────────────────────────────────────────────────────────────────────────────

BAD = [b"{", {"id": "nameless", "references": [{"weight": 1}]}, {"id": "i0", "references": ["again"]}]


def test_bad_items_are_reported_and_the_others_done(ready: Home, tmp_path: Path) -> None:
    first, *rest = items_of(5)
    file = written(tmp_path / "some.jsonl", [first, *BAD, *rest])
    result = ready("sets", "references", file, *UNRATED)
    assert result.code == 0
    assert [row["id"] for row in rows_of(result.out)] == [f"i{number}" for number in range(5)]
    for line, what in ((2, ""), (3, "references[0]"), (4, "'i0' was used in line 1")):
        assert f"{file}, line {line}" in result.err
        assert what in result.err
    strict = ready("sets", "references", file, *UNRATED, "--strict")
    assert (strict.code, strict.out) == (3, result.out)
    assert "3 items could not be used" in strict.err


def test_only_the_first_of_many_bad_items_are_shown_without_score_options(ready: Home, tmp_path: Path) -> None:
    file = written(tmp_path / "some.jsonl", [*items_of(2), *[b"{"] * 9])
    err = ready("sets", "references", file, *UNRATED).err
    assert "and 4 more bad items" in err
    assert "--json" not in err  # an option of score


@pytest.fixture
def from_stdin(monkeypatch: pytest.MonkeyPatch) -> Callable[[bytes], None]:
    return lambda data: monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(data)))


def test_items_come_from_stdin_too(ready: Home, items: Path, from_stdin: Callable[[bytes], None]) -> None:
    wanted = ready("sets", "references", items, *BOTH, "-k", "2")
    from_stdin(items.read_bytes())
    found = ready("sets", "references", "-", *BOTH, "-k", "2")
    assert (found.code, found.out) == (0, wanted.out)
    assert rows_of(found.out)


def test_a_bad_item_from_stdin_is_said_to_be_from_there(ready: Home, from_stdin: Callable[[bytes], None]) -> None:
    from_stdin(b'{"id": "x"\n')
    result = ready("sets", "references", "-", *UNRATED)
    assert "stdin, line 1" in result.err
    assert "refaug-stdin-" not in result.err  # where it was put aside


class Pressed(io.BytesIO):
    """Ctrl-C comes while this is read."""

    def read(self, _size: int | None = -1, /) -> bytes:
        signal.raise_signal(signal.SIGINT)
        return b""


def test_ctrl_c_does_not_promise_that_refs_goes_on(ready: Home, monkeypatch: pytest.MonkeyPatch) -> None:
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(Pressed()))
    result = ready("sets", "references", "-", *UNRATED)
    signal.signal(signal.SIGINT, before)
    assert (result.code, result.out) == (5, "")
    assert "nothing was kept: run it again" in result.err


def test_the_same_score_has_one_signature_and_reads_back(ready: Home, items: Path, tmp_path: Path) -> None:
    flags = ("-m", "upsilon-bleu", "--draws", "0", "--json")
    direct = ready("score", items, *BOTH, "-k", "5", "--parrot", "rated", *flags).json["scores"][0]
    (tmp_path / "refs.jsonl").write_text(ready("sets", "references", items, *BOTH, "-k", "5", "--parrot", "rated").out)
    from_file = ready("score", tmp_path / "refs.jsonl", *flags).json["scores"][0]
    frozen = ready("sets", "freeze", tmp_path / "refs.jsonl", "--purpose", "test", "--json").json
    from_set = ready("sets", "score", frozen["id"], items, *flags).json["scores"][0]
    assert direct["signature_full"] == from_file["signature_full"] == from_set["signature_full"]
    assert direct["systems"] == from_file["systems"] == from_set["systems"]

    for form in ("signature_full", "signature"):
        again = ready("score", items, "--signature", direct[form], "--draws", "0", "--threads", "1", "--json")
        assert (again.json["scores"][0]["signature_full"], "differs" in again.err) == (direct["signature_full"], False)
        assert again.json["scores"][0]["systems"] == direct["systems"]
    named = ready("score", items, "--metric", direct["signature"], *BOTH, *flags[2:]).json["scores"][0]
    assert named["signature"].partition("|k:")[0] == direct["signature"].partition("|k:")[0]
    assert "--signature" not in ready("score", tmp_path / "refs.jsonl", "--metric", direct["signature"]).err
    listed = ready("compare", "--signatures", direct["signature_full"], named["signature_full"], "--json").json
    assert {row["key"]: (row["first"], row["second"]) for row in listed["differences"]}["k"] == ("5", "15")

    other = ready("score", items, "--signature", direct["signature"], "-k", "4")
    assert (other.code, "-k: it has no effect without an index" in other.err) == (2, True)
    gone = ready("score", items, "--signature", direct["signature"].replace("chat@20", "chat@10"))
    assert (gone.code, "chat@10" in gone.err) == (3, True)


def test_a_signature_as_a_metric_says_that_nothing_is_searched(ready: Home, items: Path, tmp_path: Path) -> None:
    line = ready("score", items, *BOTH, "-m", "upsilon-bleu", "--draws", "0", "--json").json["scores"][0]["signature"]
    remedy = f"--signature in place of --metric finds references in {Signature.parse(line).settings['index'][:17]}"
    rows = [{**row, "references": ["at the market"]} for row in items_of()]
    refused = ready("score", written(tmp_path / "plain.jsonl", rows), "--metric", line)
    assert (refused.code, remedy in refused.err) == (3, True), refused.err
    rows = [{**row, "references": ["at the market", {"text": "no", "weight": 0.5}]} for row in rows]
    scored_alone = ready("score", written(tmp_path / "supplied.jsonl", rows), "--metric", line)
    assert (scored_alone.code, remedy in scored_alone.err) == (0, True), scored_alone.err


def test_items_without_golds_are_scored_retrieved_frozen_and_verified(ready: Home, items: Path, tmp_path: Path) -> None:
    bare_rows = [{**row, "references": []} for row in items_of()]
    plain_rows = [{**row, "references": row["references"][:1]} for row in items_of()]
    bare, plain = written(tmp_path / "bare.jsonl", bare_rows), written(tmp_path / "plain.jsonl", plain_rows)
    flags = (*BOTH, "-k", "4", "--gold", "none", "-m", "upsilon-bleu", "-m", "rater:refs=none")
    of_bare, of_plain = scored(ready, bare, *flags), scored(ready, plain, *flags)
    assert of_bare == of_plain
    assert [
        row["signature"].count(text) for row, text in zip(of_bare, ("|gold:none|", "|refs:none|"), strict=True)
    ] == [1, 1]
    default = ready("score", bare, *BOTH, "-m", "upsilon-bleu", *NO_INTERVALS)
    assert (default.code, "--gold" in default.err) == (3, True), default.err
    again = ready("score", bare, "--signature", of_bare[0]["signature_full"], "--threads", "1", *NO_INTERVALS).json
    assert again["scores"] == of_bare[:1]
    beside = scored(ready, plain, *BOTH, "--gold", "none", "-m", "bleu", "-m", "upsilon-bleu")
    assert beside[:1] == scored(ready, plain, "-m", "bleu")

    refs = ready("sets", "references", plain, *BOTH, "-k", "4", "--gold", "none").out
    assert {
        (one["source"], one.get("unused"), "weight" in one) for row in rows_of(refs) for one in row["references"]
    } == {
        ("gold", True, False),
        ("retrieved", None, True),
    }
    found = written(tmp_path / "found.jsonl", [line.encode() for line in refs.splitlines()])
    assert scored(ready, found, "-m", "upsilon-bleu") == of_bare[:1]
    frozen = ready("sets", "freeze", bare, *BOTH, "-k", "4", "--gold", "none", "--purpose", "test", "--json").json["id"]
    against = ready("sets", "score", frozen, bare, "-m", "upsilon-bleu", *NO_INTERVALS).json["scores"]
    assert (against[0]["signature_full"], against[0]["systems"]) == (
        of_bare[0]["signature_full"],
        of_bare[0]["systems"],
    )
    derived = ready("sets", "derive", frozen, "--gold", "one")
    assert (derived.code, "was made without golds" in derived.err) == (2, True), derived.err

    for path in (bare, plain):
        (tmp_path / "scores.json").write_text(ready("score", path, *flags, *NO_INTERVALS).out)
        assert ready("score", "verify", tmp_path / "scores.json", path, "--threads", "1").code == 0
