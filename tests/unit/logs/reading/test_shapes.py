"""What rows mean: fields under their names, what is peculiar to platforms, values that are not what they should be."""

from __future__ import annotations

import math
from datetime import UTC, date, datetime, timedelta, timezone
from email.utils import format_datetime
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from refaug.logs.reading.containers import Row
from refaug.logs.reading.shapes import (
    Fields,
    MessageColumns,
    Shape,
    TurnColumns,
    as_id,
    as_tags,
    as_time,
    dialogue_columns,
    message_columns,
    pair_columns,
)
from refaug.logs.reading.sources import BadRow

MICRO = 1_000_000
BAD_BEFORE = BadRow(line=1, reason="json", message="not JSON")


def dialogues(*rows: Row, place: str = "line", **names: str) -> TurnColumns:
    return dialogue_columns(enumerate(rows, 1), Fields(names={"turns": "turns", **names}), place)


def pairs(*rows: Row, **names: str) -> TurnColumns:
    return pair_columns(enumerate(rows, 1), Fields(names={"utterance": "q", "response": "a", **names}))


def messages(*rows: Row, preset: str = "", **names: str) -> MessageColumns:
    fields = Fields(names={"id": "id", "parent": "parent", "text": "text", **names})
    return message_columns(enumerate(rows, 1), fields, preset)


# ── the map ───────────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("column", "row", "found"),
    [
        ("user.name", {"user": {"name": "ann"}}, "ann"),
        ("user.name", {"user.name": "literal", "user": {"name": "ann"}}, "literal"),
        ("a.b.c", {"a": {"b": {"c": 1}}}, 1),
        ("a.b.c", {"a": {"b": "no object"}}, None),
        ("a.b", {"a": None}, None),
        ("a.b", {}, None),
        ("a", {"a": "plain"}, "plain"),
        ("a", {}, None),
    ],
)
def test_dots_lead_into_objects_unless_they_are_in_the_name(column: str, row: Row, found: object) -> None:
    assert Fields(names={"speaker": column}).get("speaker")(row) == found


def test_a_field_without_a_name_is_none() -> None:
    assert Fields().get("speaker")({"speaker": "ann"}) is None


# ── dialogues ─────────────────────────────────────────────────────────────────────────────────────────────────────


def test_turns_become_columns() -> None:
    columns = dialogues(
        {"turns": ["hi", "hello", "bye"], "id": 7, "tags": ["train", 1]},
        {"turns": [{"text": "a", "speaker": "x", "time": 1}, "b", {"body": "c", "author": {"id": "y"}}]},
        id="id",
        tags="tags",
    )
    assert columns == TurnColumns(
        ids=["7", None],
        lines=[1, 2],
        first=[0, 3],
        tags=[("train",), None],
        texts=["hi", "hello", "bye", "a", "b", "c"],
        speakers=[None, None, None, "x", None, "y"],
        times=[None, None, None, MICRO, None, None],
    )


@pytest.mark.parametrize(
    "turn",
    [
        {"text": "hi", "speaker": "a"},
        {"role": "a", "content": "hi"},
        {"from": "a", "value": "hi"},
        {"user": "a", "message": "hi"},
        {"speaker": {"id": "a"}, "utterance": "hi"},
    ],
)
def test_turns_are_understood_under_the_names_in_the_wild(turn: dict[str, Any]) -> None:
    columns = dialogues({"turns": [turn]})
    assert (columns.texts, columns.speakers) == (["hi"], ["a"])


def test_the_map_reaches_into_turns() -> None:
    turns = [{"body": "no", "said": "yes", "who": {"nick": "ann"}, "at": 2}, {"text": "known name", "at": 3}]
    columns = dialogues({"turns": turns}, text="said", speaker="who.nick", time="at")
    assert columns.texts == ["yes", "known name"]
    assert columns.speakers == ["ann", None]
    assert columns.times == [2 * MICRO, 3 * MICRO]


@pytest.mark.parametrize(
    ("row", "message"),
    [
        ({"a": 1, "b": 2}, "no field 'turns'; the row has a, b"),
        ({}, "no field 'turns'; the row has none"),
        ({"turns": None, "x": 1}, "no field 'turns'; the row has turns, x"),
        ({"turns": "hi"}, "'turns' is a string; a list with at least one turn is expected"),
        ({"turns": []}, "'turns' is empty; a list with at least one turn is expected"),
        ({"turns": {"0": "hi"}}, "'turns' is an object; a list with at least one turn is expected"),
        ({"turns": ["a", 5]}, "turns[1] is a number; a string, or an object with text, is expected"),
        ({"turns": ["a", None]}, "turns[1] is missing or null; a string, or an object with text, is expected"),
        ({"turns": [["a"]]}, "turns[0] is a list; a string, or an object with text, is expected"),
        ({"turns": ["a", {"speaker": "x"}]}, "turns[1].text is missing or null; a string is expected"),
        ({"turns": [{"text": True}]}, "turns[0].text is true or false; a string is expected"),
        ({"turns": [{"text": "good", "time": "?"}, {"text": 1.5}]}, "turns[1].text is a number; a string is expected"),
    ],
)
def test_a_dialogue_that_cannot_be_used_leaves_nothing_behind(row: Row, message: str) -> None:
    columns = dialogues({"turns": ["before"]}, row, {"turns": ["after"]}, place="row")
    assert columns == TurnColumns(
        ids=[None, None],
        lines=[1, 3],
        first=[0, 1],
        tags=[None, None],
        texts=["before", "after"],
        speakers=[None, None],
        times=[None, None],
        bad=[BadRow(line=2, reason="fields", message=message, place="row")],
    )


def test_bad_rows_of_the_container_are_passed_on_in_their_place() -> None:
    fields = Fields(names={"turns": "t", "utterance": "q", "response": "a", "id": "i", "text": "t"})
    assert dialogue_columns([BAD_BEFORE, (2, {})], fields).bad == [
        BAD_BEFORE,
        BadRow(line=2, reason="fields", message="no field 't'; the row has none"),
    ]
    assert pair_columns([BAD_BEFORE, (2, {"q": "x", "a": "y"})], fields).bad == [BAD_BEFORE]
    assert message_columns([(2, {"i": "x", "t": "y"}), BAD_BEFORE], fields, "").bad == [BAD_BEFORE]


# ── pairs ─────────────────────────────────────────────────────────────────────────────────────────────────────────


def test_pairs_are_two_turns_with_speaker_and_time_on_the_second() -> None:
    columns = pairs(
        {"q": "hi", "a": "hello", "id": "d1", "who": "ann", "at": "1970-01-01T00:00:02Z", "split": "train"},
        {"q": "", "a": " "},
        id="id",
        speaker="who",
        time="at",
        tags="split",
    )
    assert columns == TurnColumns(
        ids=["d1", None],
        lines=[1, 2],
        first=[0, 2],
        tags=[("train",), None],
        texts=["hi", "hello", "", " "],
        speakers=[None, "ann", None, None],
        times=[None, 2 * MICRO, None, None],
    )


@pytest.mark.parametrize(
    ("row", "message"),
    [
        ({"a": "x"}, "'q' is missing or null; a string is expected"),
        ({"q": "x", "a": None}, "'a' is missing or null; a string is expected"),
        ({"q": ["x"], "a": "y"}, "'q' is a list; a string is expected"),
        ({"q": "x", "a": 5}, "'a' is a number; a string is expected"),
        ({"q": b"x", "a": "y"}, "'q' is bytes; a string is expected"),
    ],
)
def test_a_pair_that_cannot_be_used_is_named(row: Row, message: str) -> None:
    columns = pairs(row, {"q": "x", "a": "y"})
    assert columns.bad == [BadRow(line=1, reason="fields", message=message)]
    assert (columns.lines, columns.texts) == ([2], ["x", "y"])


# ── messages ──────────────────────────────────────────────────────────────────────────────────────────────────────


def test_messages_become_columns() -> None:
    columns = messages(
        {"id": 1, "parent": None, "text": "hi", "root": 1, "who": "ann", "at": 5, "tags": "x"},
        {"id": "b", "parent": " 1 ", "text": ""},
        root="root",
        speaker="who",
        time="at",
        tags="tags",
    )
    assert columns == MessageColumns(
        lines=[1, 2],
        ids=["1", "b"],
        parents=[None, "1"],
        roots=["1", None],
        texts=["hi", ""],
        speakers=["ann", None],
        times=[5 * MICRO, None],
        tags=[("x",), None],
    )


@pytest.mark.parametrize(
    ("row", "message"),
    [
        ({"text": "x"}, "'id' is missing or null; a name or a whole number is expected"),
        ({"id": 1.5, "text": "x"}, "'id' is a number; a name or a whole number is expected"),
        ({"id": "", "text": "x"}, "'id' is empty; a name or a whole number is expected"),
        ({"id": "1"}, "'text' is missing or null; a string is expected"),
        ({"id": "1", "text": 3}, "'text' is a number; a string is expected"),
    ],
)
def test_a_message_that_cannot_be_used_is_named(row: Row, message: str) -> None:
    columns = messages(row, {"id": "2", "text": "y"})
    assert columns.bad == [BadRow(line=1, reason="fields", message=message)]
    assert (columns.lines, columns.ids) == ([2], ["2"])


def test_single_turns_need_their_conversation_and_no_id() -> None:
    fields = Fields(names={"root": "talk", "text": "text", "id": "turn"})
    rows: list[Row] = [{"talk": 7, "text": "a"}, {"talk": "", "text": "b"}, {"talk": "t", "turn": 2, "text": "c"}]
    columns = message_columns(enumerate(rows, 1), fields, "", shape=Shape.TURNS)
    assert (columns.ids, columns.roots, columns.texts) == ([None, "2"], ["7", "t"], ["a", "c"])
    message = "'talk' is empty; a name or a whole number is expected"
    assert columns.bad == [BadRow(line=2, reason="fields", message=message)]


REDDIT = {"parent": "parent_id", "root": "link_id", "text": "body", "speaker": "author", "tags": "subreddit"}
TWITTER = {"id": "id_str", "parent": "in_reply_to_status_id_str", "speaker": "user.screen_name", "time": "created_at"}


def test_reddit_comments_get_the_prefix_that_their_answers_call_them_by() -> None:
    columns = messages(
        {"id": "c2", "parent_id": "t1_c1", "link_id": "t3_s1", "body": "yes", "author": "ann", "subreddit": "AskMe"},
        {"id": "t1_c3", "parent_id": "t3_s1", "link_id": "t3_s1", "body": "[deleted]", "author": "[deleted]"},
        preset="reddit",
        **REDDIT,
    )
    assert columns.ids == ["t1_c2", "t1_c3"]
    assert columns.parents == ["t1_c1", "t3_s1"]
    assert columns.roots == ["t3_s1", "t3_s1"]
    assert columns.texts == ["yes", "[deleted]"]
    assert columns.speakers == ["ann", None]
    assert columns.tags == [("askme",), None]


@pytest.mark.parametrize(
    ("submission", "text"),
    [
        ({"title": "Why?", "selftext": "I ask."}, "Why?\nI ask."),
        ({"title": "Why?", "selftext": ""}, "Why?"),
        ({"title": "Why?", "selftext": "[removed]"}, "Why?"),
        ({"title": "Why?", "selftext": "[deleted]"}, "Why?"),
        ({"title": "Why?", "selftext": None, "parent_id": None, "body": None}, "Why?"),
        ({"title": "Why?"}, "Why?"),
        ({"title": None, "selftext": "I ask."}, "\nI ask."),
    ],
)
def test_reddit_submissions_are_roots_with_a_title(submission: dict[str, Any], text: str) -> None:
    columns = messages({"id": "s1", "author": "bo", **submission}, preset="reddit", **REDDIT)
    assert (columns.ids, columns.parents, columns.roots) == (["t3_s1"], [None], [None])
    assert (columns.texts, columns.speakers, columns.bad) == ([text], ["bo"], [])


def test_a_reddit_comment_without_a_body_is_bad() -> None:
    columns = messages({"id": "c1", "parent_id": "t3_s1"}, {"id": 5, "body": "x"}, preset="reddit", **REDDIT)
    assert columns.bad == [BadRow(line=1, reason="fields", message="'body' is missing or null; a string is expected")]
    assert columns.ids == ["5"]


def test_tweets_have_long_texts_and_ids_as_strings() -> None:
    columns = messages(
        {"id_str": "11", "id": 10, "text": "short…", "extended_tweet": {"full_text": "the long text"}},
        {"id_str": "12", "full_text": "extended mode", "in_reply_to_status_id_str": "11", "user": {"screen_name": "a"}},
        {"id": 13, "text": "old dump", "in_reply_to_status_id": 12, "created_at": "Wed Oct 10 20:19:24 +0000 2018"},
        preset="twitter",
        **TWITTER,
    )
    assert columns.ids == ["11", "12", "13"]
    assert columns.parents == [None, "11", "12"]
    assert columns.texts == ["the long text", "extended mode", "old dump"]
    assert columns.speakers == [None, "a", None]
    assert columns.times == [None, None, 1_539_202_764 * MICRO]


# ── values ────────────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("value", "text"),
    [
        ("a1", "a1"),
        ("  a 1\n", "a 1"),
        ("", None),
        ("  ", None),
        (0, "0"),
        (-5, "-5"),
        (2**70, "1180591620717411303424"),
        (17.0, "17"),
        (1e18, "1000000000000000000"),
        (17.5, None),
        (math.nan, None),
        (math.inf, None),
        (True, None),
        (None, None),
        ([], None),
        ({"id": "ann", "name": "Ann"}, "ann"),
        ({"id": 5}, "5"),
        ({"name": "Ann"}, None),
    ],
)
def test_ids_are_text_whatever_they_were(value: object, text: str | None) -> None:
    assert as_id(value) == text


@pytest.mark.parametrize(
    ("value", "tags"),
    [
        ("train", ("train",)),
        ("", None),
        (["a", 1, None, "b"], ("a", "b")),
        ([1], None),
        ([], None),
        (None, None),
        (5, None),
        ({"a": 1}, None),
    ],
)
def test_tags_are_strings_or_none(value: object, tags: tuple[str, ...] | None) -> None:
    assert as_tags(value) == tags


MOMENT = 1_539_202_764 * MICRO  # 2018-10-10 20:19:24 UTC


@pytest.mark.parametrize(
    ("value", "micros"),
    [
        (1_539_202_764, MOMENT),
        (1_539_202_764.0, MOMENT),
        (1_539_202_764.25, MOMENT + 250_000),
        (1_539_202_764_250, MOMENT + 250_000),
        (1_539_202_764_250_001, MOMENT + 250_001),
        (1_539_202_764_250_001_900, MOMENT + 250_002),
        ("1539202764", MOMENT),
        (" 1539202764.5 ", MOMENT + 500_000),
        ("1539202764250", MOMENT + 250_000),
        (0, 0),
        (-1, -MICRO),
        (1.000001, 1_000_001),
        ("2018-10-10T20:19:24Z", MOMENT),
        ("2018-10-10T22:19:24+02:00", MOMENT),
        ("2018-10-10 20:19:24", MOMENT),
        ("2018-10-10T20:19:24.250001", MOMENT + 250_001),
        ("2018-10-10", 1_539_129_600 * MICRO),
        ("20181010", 1_539_129_600 * MICRO),
        (20181010.0, 1_539_129_600 * MICRO),
        (201810102019, MOMENT - 24 * MICRO),
        ("20181010201924", MOMENT),
        ("20181310", 20_181_310 * MICRO),
        ("Wed Oct 10 20:19:24 +0000 2018", MOMENT),
        ("Wed Oct 10 16:19:24 -0400 2018", MOMENT),
        ("Wed, 10 Oct 2018 20:19:24 GMT", MOMENT),
        ("Wed, 10 Oct 2018 22:19:24 +0200", MOMENT),
        ("10 Oct 2018 20:19:24 -0000", MOMENT),
        (datetime(2018, 10, 10, 20, 19, 24, tzinfo=UTC), MOMENT),
        (datetime(2018, 10, 10, 20, 19, 24), MOMENT),  # noqa: DTZ001
        (datetime(2018, 10, 10, 22, 19, 24, tzinfo=timezone(timedelta(hours=2))), MOMENT),
        (date(2018, 10, 10), 1_539_129_600 * MICRO),
    ],
)
def test_times_in_every_spelling_are_one_number(value: object, micros: int) -> None:
    assert as_time(value) == micros


@pytest.mark.parametrize(
    "value",
    [
        "yesterday",
        "2018-13-45",
        "nan",
        "inf",
        "1e300",
        1e300,
        10**400,
        math.nan,
        True,
        [],
        {},
        "1 Jan 99999999999999999999 00:00:00",
        "Mon, 1 Jan 2018 00:00:00 +9999999999999",
        "٢٠١٨-١٠-١٠",
    ],
)
def test_nonsense_is_no_time(value: object) -> None:
    assert as_time(value) is None


@given(st.datetimes(timezones=st.just(UTC)))
def test_a_moment_is_the_same_however_it_is_written(moment: datetime) -> None:
    micros = (moment - datetime(1970, 1, 1, tzinfo=UTC)) // timedelta(microseconds=1)
    assert as_time(moment) == as_time(moment.isoformat()) == as_time(moment.replace(tzinfo=None)) == micros
    if moment.year >= 1970:
        assert as_time(format_datetime(moment)) == micros // MICRO * MICRO


@given(st.text(max_size=40) | st.floats() | st.integers())
@settings(max_examples=50)
def test_no_value_stops_the_reading_of_times(value: object) -> None:
    micros = as_time(value)
    assert micros is None or isinstance(micros, int)


def test_times_that_cannot_be_read_are_counted_and_the_texts_kept() -> None:
    turns = [{"text": "a", "time": "soon"}, {"text": "b", "time": None}, {"text": "c", "time": ""}, {"text": "d"}]
    columns = dialogues({"turns": turns})
    assert (columns.unreadable_times, columns.texts, columns.times) == (1, ["a", "b", "c", "d"], [None] * 4)
    assert pairs({"q": "x", "a": "y", "at": []}, time="at").unreadable_times == 1
    assert messages({"id": "1", "text": "x", "at": "?"}, {"id": "2", "text": "y"}, time="at").unreadable_times == 1
