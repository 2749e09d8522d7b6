"""`refaug bots reply`: bots become systems of a test file, which the other commands read and name."""

from __future__ import annotations

import gzip
import io
import random
import sys
from pathlib import Path
from typing import Any

import orjson
import pytest
from integration.conftest import Home

from refaug.bots.kinds import BotSources, open_bot, parse_bot
from refaug.bots.replier import ReplyRequest
from refaug.core.home import Settings
from refaug.scoring.home.indexes import open_index
from refaug.scoring.items import read_items

ONE = ("--threads", "1")
BM25_BOT = "retrieval:chat,mode=bm25-utterance"
DRAWN_BOT = "retrieval:chat,k=8,seed=5"
BM25 = ("--bot", f"c-bm25={BM25_BOT}")
DRAWN = ("--bot", f"drawn={DRAWN_BOT}")
UTTERANCES = (
    "where do you buy tea in autumn",
    "who sells you bread at noon",
    "where would you get shoes tomorrow",
    "how did you find a map in winter",
)


def items_of(count: int = 12) -> list[dict[str, Any]]:
    rng = random.Random(1)
    golds = ["at the market", "near the mill i think", "never at the bridge", "my aunt gets it by the station"]
    return [
        {
            "id": f"i{number}",
            "utterance": UTTERANCES[number % 4],
            "references": [rng.choice(golds)],
            "replies": {"human": rng.choice(golds)},
            "ratings": {"human": [4, 5]},
        }
        for number in range(count)
    ]


def written(path: Path, rows: list[dict[str, Any]]) -> Path:
    path.write_bytes(b"".join(orjson.dumps(row) + b"\n" for row in rows))
    return path


@pytest.fixture
def items(tmp_path: Path) -> Path:
    return written(tmp_path / "items.jsonl", items_of())


def rows_of(out: str) -> list[dict[str, Any]]:
    return [orjson.loads(line) for line in out.splitlines()]


def replies_of(home: Home, text: str, items: Path) -> list[str | None]:
    """What the bot replies where it is opened by hand."""
    specification = parse_bot(text)
    with open_index(Settings(home=home.path), "chat", threads=1) as index:
        bot = open_bot(
            specification, BotSources(open_index=lambda _: index, open_vhred=lambda _: pytest.fail("no network"))
        )
        requests = [ReplyRequest(item=one, seed=specification.seed) for one in read_items(items)]
        return [reply.text for reply in bot.replies(requests)]


def test_several_bots_reply_in_one_go_beside_the_systems_of_the_items(ready: Home, items: Path) -> None:
    result = ready("bots", "reply", items, *BM25, *DRAWN, *ONE)
    assert result.code == 0, result.err
    rows = rows_of(result.out)
    assert [row["id"] for row in rows] == [row["id"] for row in items_of()]
    assert [row["replies"]["human"] for row in rows] == [row["replies"]["human"] for row in items_of()]
    assert [row["ratings"] for row in rows] == [row["ratings"] for row in items_of()]
    assert [row["replies"]["c-bm25"] for row in rows] == replies_of(ready, BM25_BOT, items)
    assert [row["replies"]["drawn"] for row in rows] == replies_of(ready, DRAWN_BOT, items)
    with open_index(Settings(home=ready.path), "chat", threads=1) as index:
        spec = index.spec
    assert all(
        row["reply_provenance"]
        == {
            "c-bm25": f"kind:retrieval|index:{spec}|mode:bm25-utterance|k:1",
            "drawn": f"kind:retrieval|index:{spec}|mode:embedding-utterance|k:8|seed:5",
        }
        for row in rows
    )


def test_stdin_and_compressed_files_in_any_order_give_the_same_replies(
    ready: Home, items: Path, tmp_path: Path, monkeypatch
) -> None:
    expected = {row["id"]: row for row in rows_of(ready("bots", "reply", items, *DRAWN, *ONE).out)}
    packed = tmp_path / "turned.jsonl.gz"
    packed.write_bytes(gzip.compress(b"\n".join(items.read_bytes().splitlines()[::-1])))
    turned = rows_of(ready("bots", "reply", packed, *DRAWN, *ONE).out)
    assert [row["id"] for row in turned] == list(expected)[::-1]
    assert {row["id"]: row for row in turned} == expected
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(items.read_bytes()), "utf-8"))
    assert rows_of(ready("bots", "reply", "-", *DRAWN, *ONE).out) == list(expected.values())


def test_notes_and_references_of_refs_stay_and_score_names_the_bots(ready: Home, tmp_path: Path) -> None:
    rows = [*items_of(), {"id": "mute", "references": ["yes"], "replies": {"human": "yes"}}]
    refs = ready(
        "sets", "references", written(tmp_path / "i.jsonl", rows), "--index", "chat", "--reference-weights", "one", *ONE
    )
    with_references = tmp_path / "refs.jsonl"
    with_references.write_text(refs.out)
    result = ready("bots", "reply", with_references, *BM25, *ONE)
    assert result.code == 0, result.err
    before, after = rows_of(refs.out), rows_of(result.out)
    assert before[-1]["note"] == "no_utterance"
    for old, new in zip(before, after, strict=True):
        bot_reply = new["replies"].pop("c-bm25", None)
        assert (bot_reply is None) == (new.pop("reply_provenance", None) is None) == (old["id"] == "mute")
        assert new == old
    after = rows_of(result.out)
    replied = tmp_path / "replied.jsonl"
    replied.write_text(result.out)
    scored = ready("score", replied, "--metric", "upsilon-bleu", "--draws", "0", "--json")
    assert scored.json["reply_provenance"] == {"c-bm25": after[0]["reply_provenance"]["c-bm25"]}
    assert scored.json["scores"][0]["systems"]["c-bm25"]["unscored_by_reason"]["no_reply"] == 1
    texts = {row["id"]: {one["text"] for one in row["references"] if one["source"] == "retrieved"} for row in after}
    copied = sum(row["replies"].get("c-bm25") in texts[row["id"]] for row in after)
    assert copied > 3
    warning = f"replies that are retrieved references of their items: c-bm25 ({copied}); take both from different logs"
    assert warning in scored.json["warnings"]
    table = ready("score", replied, "--metric", "bleu", "--draws", "0").out.splitlines()
    assert table[-1] == f"replies of c-bm25: {after[0]['reply_provenance']['c-bm25']}"


@pytest.mark.parametrize(
    ("options", "code", "message"),
    [
        ((), 2, "--bot"),
        (("--bot", BM25_BOT[:14]), 2, "retrieval:chat"),
        ((*BM25, *BM25), 2, "c-bm25"),
        (("--bot", f" ={BM25_BOT}"), 3, "is not a name for a system"),
        (("--bot", "x=oracle:chat"), 2, "one of: retrieval:INDEX,key=value"),
        (("--bot", "x=retrieval:none"), 3, "none"),
        (("--bot", "x=retrieval:chat,seed=3"), 2, "seed has no effect"),
        (("--bot", "x=nobody"), 3, "nobody"),
        ((*BM25, "--without-reply", "ignore"), 2, "--without-reply"),
    ],
)
def test_a_command_that_makes_no_sense_is_refused(ready: Home, items: Path, options, code, message) -> None:
    result = ready("bots", "reply", items, *options, *ONE)
    assert (result.code, result.out) == (code, "")
    assert message in result.err


def test_the_dialog_modes_warn_that_they_see_the_gold(ready: Home, items: Path) -> None:
    result = ready("bots", "reply", items, "--bot", "dialog=retrieval:chat,mode=bm25-dialog", *ONE)
    assert "dialog: bm25-dialog compares with the gold, which a system under test never sees" in result.err


def test_a_field_that_no_item_has_is_named_with_the_one_that_was_meant(ready: Home, tmp_path: Path) -> None:
    path = tmp_path / "misnamed.jsonl"
    row = {"utterance": "where do you buy tea", "reference": ["at the mill"], "replies": {"human": "no"}}
    path.write_bytes(b"".join(orjson.dumps({"id": name, **row}) + b"\n" for name in "ab"))
    unrated = ("--index", "chat", "--reference-weights", "one", *ONE)
    for command in (
        ("bots", "reply", path, *DRAWN, *ONE),
        ("sets", "references", path, *unrated),
        ("score", path),
        ("agreement", path),
    ):
        told = ready(*command).err
        assert told.count("warning: field 'reference' is not used; did you mean 'references'?") == 1, command
