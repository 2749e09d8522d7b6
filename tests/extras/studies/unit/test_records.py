"""The records of studies: read, written again byte for byte, and refused with their place."""

import gzip
import io

import orjson
import pytest
from refusals import refusing

from refaug.core.errors import BadInput
from refaug.extras.studies.records import StudyKind, TaskSideName, read_tasks, write_tasks

PAIR = {
    "study": "s1",
    "protocol_sha256": "aa",
    "pilot": False,
    "task": "t2",
    "participant": "P-1",
    "kind": "chat-pair",
    "position": 2,
    "state": "skipped",
    "skip_reason": "the reply was offensive",
    "check": None,
    "bots": [
        {"side": "left", "slot": "a", "bot": "bm25", "sha256": "bb"},
        {"side": "right", "slot": "b", "bot": "http", "sha256": "cc"},
    ],
    "item": {"id": "i1", "turns": ["こんにちは"]},
    "sides": [
        {
            "side": "left",
            "turns": [
                {
                    "n": 1,
                    "role": "participant",
                    "text": "hi",
                    "at": "2026-01-02T03:04:05.678Z",
                    "ms": None,
                    "vote": None,
                },
                {
                    "n": 2,
                    "role": "bot",
                    "text": "I am bm25",
                    "at": None,
                    "ms": 12,
                    "vote": -1,
                    "labels": [{"label": "rude", "start": 0, "end": 1}],
                    "names_bot": True,
                },
            ],
        }
    ],
    "answers": {"left/quality": 3, "right/quality": 4.5, "prefer": "left", "tags": ["a"], "sure": True},
    "seconds": 61.5,
    "started": "2026-01-02T03:04:05.678Z",
    "ended": "2026-01-02T03:05:07.178Z",
    "excluded": None,
}
CHAT = {
    **{key: content for key, content in PAIR.items() if key not in ("skip_reason", "item")},
    "task": "t1",
    "kind": "chat",
    "position": 1,
    "state": "done",
    "bots": [{"side": "one", "slot": "a", "bot": "bm25", "sha256": "bb"}],
    "sides": [{"side": "one", "turns": []}],
    "answers": {"quality": 3},
}


def write(path, *records):
    path.write_bytes(b"".join(orjson.dumps(record) + b"\n" for record in records))
    return path


def test_tasks_are_written_as_they_were_read(tmp_path):
    path = write(tmp_path / "study.jsonl", CHAT, PAIR)
    file = io.BytesIO()
    assert write_tasks(read_tasks(path), file) == 2
    assert file.getvalue() == path.read_bytes()


def test_a_compressed_file_has_the_same_tasks(tmp_path):
    plain = write(tmp_path / "study.jsonl", CHAT, PAIR)
    packed = tmp_path / "study.jsonl.gz"
    packed.write_bytes(gzip.compress(plain.read_bytes()))
    assert list(read_tasks(packed)) == list(read_tasks(plain))


def test_answers_belong_to_their_side(tmp_path):
    chat, pair = read_tasks(write(tmp_path / "study.jsonl", CHAT, PAIR))
    assert chat.kind is StudyKind.CHAT
    assert not chat.kind.is_pair
    assert pair.kind.is_pair
    assert chat.answers_of(TaskSideName.ONE) == {"quality": 3}
    assert pair.answers_of(TaskSideName.LEFT) == {"quality": 3}
    assert pair.answers_of(TaskSideName.RIGHT) == {"quality": 4.5}
    assert pair.bot_of(TaskSideName.RIGHT).bot == "http"
    assert pair.names_bot
    assert not chat.names_bot


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"state": "doing"}, "doing"),
        ({"answers": {"quality": {}}}, "answers.quality"),
        ({"started": "yesterday"}, "yesterday"),
        ({"mood": 1}, "line 1: mood: 1"),
        ({"bots": [{"side": "one", "slot": "a", "bot": ""}]}, "bots[0].bot"),
        ({"sides": [{"side": "one", "turns": [{"n": 1, "role": "bot", "text": "x", "vote": 2}]}]}, "turns[0].vote"),
    ],
)
def test_a_wrong_field_is_named_with_its_line(tmp_path, change, message):
    with pytest.raises(BadInput) as caught:
        list(read_tasks(write(tmp_path / "study.jsonl", {**CHAT, **change})))
    assert message in caught.value.message


def test_a_missing_field_is_named(tmp_path):
    record = {key: content for key, content in CHAT.items() if key != "participant"}
    with refusing(BadInput):
        list(read_tasks(write(tmp_path / "study.jsonl", record)))


def test_a_task_told_twice_is_refused_with_both_lines(tmp_path):
    with refusing(BadInput, "t1", "s1"):
        list(read_tasks(write(tmp_path / "study.jsonl", CHAT, CHAT)))


def test_half_a_line_is_refused(tmp_path):
    path = tmp_path / "study.jsonl"
    path.write_bytes(b'{"study": "s1"\n')
    with refusing(BadInput):
        list(read_tasks(path))
