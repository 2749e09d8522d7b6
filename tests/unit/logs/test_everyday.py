"""The cleaning of everyday conversations, on a made-up file of the package's layout."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from refusals import refusing

from refaug.core.errors import BadInput, NoSource
from refaug.core.progress import Silent
from refaug.logs.everyday import EverydayDialogues, write_dialogues


def said(sender: str, *texts: str) -> list[dict[str, str]]:
    return [{"text": text, "timestamp": "2020-01-01T00:00:00Z", "sender": sender} for text in texts]


TALKS: dict[str, Any] = {
    "one": {"messages": [said("x9", "Hello", "how are you?"), said("b7", "Fine , hey Marianne!"), said("x9", "Good")]},
    "alone": {"messages": [said("x9", "Anybody?")]},
    "dropped": {
        "messages": [
            said("c1", "What now?"),
            said("b7", "Marianne left"),
            said("c1", " "),
            said("b7", "oh"),
            said("c1", "this is bullshit"),
            said("b7", "Well"),
            said("c1", "Sorry"),
        ]
    },
    "common": {"messages": [said("x9", "hey There, you there?"), said("b7", "I was there"), said("b7", "ok")]},
    "more": {"messages": [said("c1", "there it is"), said("b7", "is it there?")]},
}


def written(tmp_path: Path, content: object) -> tuple[EverydayDialogues, list[dict[str, Any]], bytes]:
    source, target = tmp_path / "dataset.json", tmp_path / "out" / "log.jsonl"
    source.write_text(json.dumps(content))
    report = write_dialogues(source, target, tmp_path / "items.jsonl", Silent())
    raw = target.read_bytes()
    return report, [json.loads(line) for line in raw.splitlines()], raw


def test_turns_names_and_speakers_are_cleaned_and_counted(tmp_path: Path) -> None:
    report, dialogues, raw = written(tmp_path, TALKS)

    turns = {row["id"]: [(turn["speaker"], turn["text"]) for turn in row["turns"]] for row in dialogues}
    assert turns == {
        "c0001-1": [("p0001", "Hello how are you?"), ("p0002", "Fine , hey <name>!"), ("p0001", "Good")],
        "c0003-1": [("p0003", "What now?"), ("p0002", "Marianne left")],  # nobody is called so in this conversation
        "c0003-2": [("p0002", "Well"), ("p0003", "Sorry")],
        "c0004-1": [("p0001", "hey There, you there?"), ("p0002", "I was there ok")],
        "c0005-1": [("p0003", "there it is"), ("p0002", "is it there?")],
    }
    assert report == EverydayDialogues(
        conversations=5,
        held_out=0,
        dialogues=5,
        turns=11,
        rules={
            "abusive turns": 1,
            "conversations of one speaker": 1,
            "empty turns": 1,
            "names replaced": 1,
            "turns without a neighbour": 1,
        },
    )
    assert written(tmp_path, TALKS)[2] == raw


@pytest.mark.parametrize(
    ("content", "place"),
    [
        ([], ""),
        ({"one": {"turns": []}}, "one"),
        ({"one": {"messages": "Hello"}}, "one"),
        ({"one": {"messages": [[{"text": "Hello"}]]}}, "one.messages[0]"),
        ({"one": {"messages": [said("a", "Hi"), []]}}, "one.messages[1]"),
        ({"one": {"messages": [[{"text": 7, "sender": "a"}]]}}, "one.messages[0]"),
    ],
)
def test_another_layout_is_named_with_its_place(tmp_path: Path, content: object, place: str) -> None:
    with refusing(BadInput, "dataset.json", place):
        written(tmp_path, content)
    assert not (tmp_path / "out" / "log.jsonl").exists()


def test_what_is_no_json_is_refused(tmp_path: Path) -> None:
    (tmp_path / "dataset.json").write_text('{"one": ')
    with refusing(BadInput, "dataset.json"):
        write_dialogues(tmp_path / "dataset.json", tmp_path / "log.jsonl", tmp_path / "items.jsonl", Silent())


def test_a_file_that_is_not_there_or_has_no_dialogue_is_refused(tmp_path: Path) -> None:
    with refusing(NoSource, "none.json"):
        write_dialogues(tmp_path / "none.json", tmp_path / "log.jsonl", tmp_path / "items.jsonl", Silent())
    with refusing(BadInput, "dataset.json"):
        written(tmp_path, {"alone": TALKS["alone"]})
    assert list(tmp_path.glob("**/*.jsonl*")) == []


def test_the_last_conversations_are_held_out_and_give_test_items(tmp_path: Path) -> None:
    def talk(number: int, last: str) -> dict[str, Any]:
        texts = ["Hi", f"a {number}", f"so you like the number {number}", f"yes I like {number} and more", last]
        return {"messages": [said("ab"[place % 2], text) for place, text in enumerate(texts)]}

    talks = {f"talk {number}": talk(number, "ok") for number in range(1, 20)} | {"short": TALKS["more"]}
    report, dialogues, _ = written(tmp_path, talks)

    assert (report.conversations, report.held_out, report.dialogues) == (18, 2, 18)
    assert [row["id"] for row in dialogues] == [*(f"c{number:04}-1" for number in range(1, 18)), "c0020-1"]
    items = [json.loads(line) for line in (tmp_path / "items.jsonl").read_text().splitlines()]
    assert items == [
        {
            "id": f"c00{number}",
            "turns": ["Hi", f"a {number}", f"so you like the number {number}"],
            "replies": {
                "human": f"yes I like {number} and more",
                "generic": "what about you?",
                "random": f"yes I like {other} and more",
                "echo": f"so you like the number {number}",
            },
        }
        for number, other in ((18, 19), (19, 18))
    ]

    few = write_dialogues(tmp_path / "dataset.json", tmp_path / "few.jsonl", tmp_path / "same.jsonl", Silent(), most=3)
    assert (few.conversations, few.held_out, few.dialogues) == (3, 2, 3)
    assert (tmp_path / "out" / "log.jsonl").read_bytes().startswith((tmp_path / "few.jsonl").read_bytes())
    assert (tmp_path / "same.jsonl").read_bytes() == (tmp_path / "items.jsonl").read_bytes()
