"""Roles of chat messages: what is a turn, what is left out, and under which name it is counted."""

from __future__ import annotations

from typing import Any

import pytest

from refaug.logs.reading.shapes import Fields, TurnColumns, chat_turns, dialogue_columns


def message(role: str, content: Any = "", **more: Any) -> dict[str, Any]:
    return {"role": role, "content": content, **more}


def columns_of(messages: list[Any], **row: Any) -> TurnColumns:
    return dialogue_columns([(1, {"m": messages, **row})], Fields(names={"turns": "m", "tags": "tags"}))


def test_the_system_prompt_is_a_tag_and_the_first_message_answers_nothing() -> None:
    messages = [message("system", "Be kind."), message("user", "hi"), message("assistant", "hello")]
    columns = columns_of(messages, tags="t")
    assert (columns.texts, columns.speakers) == (["hi", "hello"], ["user", "assistant"])
    assert columns.tags == [("t", "role:system")]
    assert columns.left_out == {"system messages": 1}


def test_sharegpt_has_from_and_value() -> None:
    columns = columns_of(
        [
            {"from": "system", "value": "Be kind."},
            {"from": "human", "value": "hi"},
            {"from": "function_call", "value": "{}"},
            {"from": "observation", "value": "3"},
            {"from": "gpt", "value": "hello"},
        ]
    )
    assert (columns.texts, columns.speakers) == (["hi", "hello"], ["human", "gpt"])
    assert columns.tags == [("role:system", "role:tool")]
    assert columns.left_out == {"system messages": 1, "tool calls": 1, "tool messages": 1}


@pytest.mark.parametrize("role", ["Developer", "system", "tool", "function", "ipython"])
def test_roles_that_are_no_turns(role: str) -> None:
    chat = chat_turns([message("user", "a"), message(role, "b"), message("assistant", "c")])
    assert [place for place, _ in chat.turns] == [0, 2]
    assert sum(chat.left_out.values()) == len(chat.tags) == 1


def test_a_text_beside_calls_of_tools_stays() -> None:
    chat = chat_turns([message("user", "a"), message("assistant", "I look.", tool_calls=[{}, {}])])
    assert ([turn["content"] for _, turn in chat.turns], chat.left_out) == (["a", "I look."], {"tool calls": 2})
    called = chat_turns([message("user", "a"), message("assistant", "", function_call={"name": "f"})])
    assert ([place for place, _ in called.turns], called.left_out) == ([0], {"tool calls": 1})


def test_texts_of_parts_are_joined_and_parts_of_tools_are_no_text() -> None:
    parts = [{"type": "text", "text": "one"}, {"type": "image_url", "image_url": {}}, "two", {"type": "tool_use"}]
    chat = chat_turns([message("user", parts), message("user", [{"type": "tool_result", "content": "3"}])])
    assert [turn["content"] for _, turn in chat.turns] == ["one\ntwo"]
    assert chat.left_out == {"parts without text": 1, "tool calls": 1, "tool messages": 1}


def test_system_is_a_speaker_where_nothing_else_answers_users() -> None:
    task = [message("user", "a taxi"), message("system", "where to?"), message("user", "home")]
    assert columns_of(task).texts == ["a taxi", "where to?", "home"]
    assert columns_of([*task, message("assistant", "on its way")]).texts == ["a taxi", "home", "on its way"]
    assert columns_of([message("system", "Be kind."), message("user", "hi")]).texts == ["hi"]


def test_speakers_are_no_roles_and_texts_need_none() -> None:
    turns = ["hi", {"speaker": "system", "text": "hello"}, {"speaker": "tool", "text": "bye"}]
    columns = columns_of(turns)
    assert (columns.texts, columns.tags, columns.left_out) == (["hi", "hello", "bye"], [None], {})


def test_places_in_errors_are_those_of_the_file_and_a_bad_row_counts_nothing() -> None:
    columns = columns_of([message("system", "x"), message("user", "a"), message("assistant", 5)])
    assert "turns[2].text" in columns.bad[0].message
    assert columns.left_out == {}
    (bad,) = columns_of([message("system", "x")]).bad
    assert bad.message == "no message is a turn: all of them are of the system, the developer or tools"
