"""Rated conversations become tasks with a protocol; lines that cannot be used are named."""

import orjson
import pytest
from refusals import refusing
from study_tasks import study_task

from refaug.core.errors import BadInput
from refaug.extras.studies.exclusions import exclusions
from refaug.extras.studies.exports import chat_records
from refaug.extras.studies.imports import (
    imported_chat_rows,
    imported_conversations,
    is_chat_rows,
)
from refaug.extras.studies.questions import protocol_questions
from refaug.extras.studies.records import TaskCheck


def line(number, participant, bot, fun, **fields):
    return {
        "id": f"c{number}",
        "participant": participant,
        "bot": bot,
        "turns": [{"role": "participant", "text": "hello"}, {"role": "bot", "text": "hi", "vote": 1}],
        "ratings": {"fun": fun, "robotic": 100 - fun},
        "scale": [0, 100],
        "reversed": ["robotic"],
        **fields,
    }


def write(tmp_path, *lines):
    path = tmp_path / "rated.jsonl"
    path.write_bytes(b"".join(orjson.dumps(each) + b"\n" for each in lines))
    return path


def test_conversations_become_tasks_in_the_order_of_each_person(tmp_path):
    path = write(
        tmp_path,
        line(1, "p2", "a", 70, kept_by_authors=False),
        line(2, "p1", "b", 60),
        line(3, "p2", "worse", 10, is_degraded=True),
    )
    study = imported_conversations(path, study="ours")
    assert [(task.participant, task.position, task.task) for task in study.tasks] == [
        ("p1", 1, "c2"),
        ("p2", 1, "c1"),
        ("p2", 2, "c3"),
    ]
    first = study.tasks[1]
    assert first.answers == {"fun": 70, "robotic": 30}
    assert [(turn.role.value, turn.text, turn.vote) for turn in first.sides[0].turns] == [
        ("participant", "hello", None),
        ("bot", "hi", 1),
    ]
    assert first.item == {"id": "c1", "kept_by_authors": False}
    assert first.excluded is None
    assert study.tasks[2].check is TaskCheck.DEGRADED
    assert study.protocol["exclude"] == {"degraded_not_lower": True}


def test_the_rule_of_the_degraded_bot_finds_who_does_not_notice(tmp_path):
    lines = [line(k, "p1", "a", 60 + k) for k in range(5)] + [line(9, "p1", "worse", 5, is_degraded=True)]
    lines += [line(10 + k, "p2", "a", 60 + k) for k in range(5)] + [line(19, "p2", "worse", 70, is_degraded=True)]
    study = imported_conversations(write(tmp_path, *lines), study="ours")
    questions = protocol_questions(study.protocol, study.tasks)
    assert list(exclusions(study.tasks, study.protocol["exclude"], questions).reasons) == ["p2"]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"participant": ""}, "line 1: participant is missing"),
        ({"ratings": {}, "reversed": []}, "line 1: ratings is missing"),
        ({"is_degraded": "yes"}, "is_degraded"),
        ({"ratings": {"fun": 101}, "reversed": []}, "ratings.fun"),
    ],
)
def test_a_line_that_cannot_be_used_is_named(tmp_path, change, message):
    with refusing(BadInput, message):
        imported_conversations(write(tmp_path, {**line(1, "p", "a", 50), **change}), study="ours")


def test_two_scales_in_a_file_are_refused(tmp_path):
    other = {**line(2, "p", "a", 5), "scale": [0, 200], "ratings": {"fun": 5, "robotic": 5}}
    with refusing(BadInput):
        imported_conversations(write(tmp_path, line(1, "p", "a", 50), other), study="ours")


def test_csv_with_the_published_columns_comes_back_and_is_written_again_the_same(tmp_path):
    times = ("2026-11-20T08:30:00.000Z", "2026-11-20T08:31:00.250Z")
    turns = [
        {"n": 1, "role": "participant", "text": "=1+1, she said"},
        {"n": 2, "role": "bot", "text": "Two.\nOr three?", "at": times[0], "vote": -1},
        {"n": 3, "role": "participant", "text": "مرحبا 😀"},
        {"n": 4, "role": "bot", "text": "'quoted'", "at": times[1], "vote": 1},
    ]
    sides = [{"side": "one", "turns": turns}]
    answers = {"quality": 4, "contingency": 2.5, "comments": "7", "calm": 3}
    tasks = [
        study_task("P-1", ("a",), answers, sides=sides, position=1, seconds=61.5),
        study_task("P-1", ("b",), {"quality": 6}, sides=sides, position=2, check="degraded", state="done"),
        study_task("P-2", ("b",), {}, sides=sides, position=1, state="expired", excluded="asked for it"),
    ]
    written = b"".join(chat_records(tasks))
    (tmp_path / "chats.csv").write_bytes(written)
    assert is_chat_rows(tmp_path / "chats.csv")
    imported = imported_chat_rows(tmp_path / "chats.csv", study="other")
    assert b"".join(chat_records(imported.tasks)) == written
    assert [task.answers for task in imported.tasks] == [answers, {"quality": 6}, {}]
    assert [(turn.text, turn.at, turn.vote) for turn in imported.tasks[0].sides[0].turns] == [
        ("=1+1, she said", None, None),
        ("Two.\nOr three?", times[0], -1),
        ("مرحبا 😀", None, None),
        ("'quoted'", times[1], 1),
    ]
    assert imported.protocol["bots"] == ["a", "b"]
    assert {question["id"]: question["type"] for question in imported.protocol["form"]["questions"]} == {
        "quality": "slider", "contingency": "slider", "comments": "text", "calm": "slider",
    }  # fmt: skip


def test_checks_of_attention_come_back_as_passed_or_failed(tmp_path):
    path, turns = tmp_path / "chats.csv", ("Hi", "Ho")
    tasks = [
        study_task("P-1", ("a",), {"quality": 3, "attention": False}, turns=turns, position=1),
        study_task("P-2", ("a",), {"quality": 3, "attention": True}, turns=turns, position=1),
    ]
    path.write_bytes(b"".join(chat_records(tasks)))
    imported = imported_chat_rows(path, study="other")
    assert [task.answers["attention"] for task in imported.tasks] == [False, True]
    assert b"".join(chat_records(imported.tasks)) == path.read_bytes()
    questions = protocol_questions(imported.protocol, imported.tasks)
    assert [question.id for question in questions] == ["quality"]
    assert list(exclusions(imported.tasks, {"failed_attention": 1}, questions).reasons) == ["P-1"]
    path.write_bytes(path.read_bytes().replace(b"false", b"FALSE"))
    assert imported_chat_rows(path, study="other").tasks == imported.tasks
    path.write_bytes(path.read_bytes().replace(b"FALSE", b"no"))
    with refusing(BadInput, "line 2: Answer attention: 'no'"):
        imported_chat_rows(path, study="other")


@pytest.mark.parametrize(
    ("cells", "message"),
    [
        ("c,b,Hi,Ho,", "line 2: no chat, bot or participant"),
        ("c,b,Hi,Ho", "line 2: not as many cells as the header"),
        ("", "there are no chats"),
    ],
)
def test_a_row_of_chats_that_cannot_be_used_is_named(tmp_path, cells, message):
    path = tmp_path / "chats.csv"
    path.write_text(f"Chat ID,Chatbot ID,Message,Response,User Session Key\n{cells}\n", "utf-8")
    with refusing(BadInput, message):
        imported_chat_rows(path, study="s")
