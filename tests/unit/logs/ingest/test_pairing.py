"""From blocks to pairs: who answers whom, under which id and key, and what a dropped turn or a flood does to it."""

from __future__ import annotations

import pickle
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import orjson
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray
from xxhash import xxh3_64_intdigest

from refaug.core.text.normalisation import normalise
from refaug.logs.ingest.cleaning import FILTERS, REPAIRS, CleaningSettings
from refaug.logs.ingest.pairing import MESSAGE_SCHEMA, BlockResult, FloodCounter, ReadSettings, Reject, block_worker
from refaug.logs.pairs import PAIR_SCHEMA, erasure_key
from refaug.logs.reading.containers import ArrowBlock, RowBlock
from refaug.logs.reading.formats import Container, Format
from refaug.logs.reading.shapes import Fields, Shape
from refaug.logs.reading.sources import BadRow, LineBlock

DIALOGUES = Format(
    name="jsonl",
    container=Container.JSON,
    shape=Shape.DIALOGUES,
    fields=Fields(names={"turns": "turns", "id": "id", "tags": "tags"}),
)
PAIRS = Format(
    name="jsonl",
    container=Container.JSON,
    shape=Shape.PAIRS,
    fields=Fields(names={"utterance": "q", "response": "a", "id": "id", "speaker": "who", "time": "at"}),
)
MESSAGES = Format(
    name="messages",
    container=Container.JSON,
    shape=Shape.MESSAGES,
    fields=Fields(
        names={
            "id": "id",
            "parent": "up",
            "text": "text",
            "root": "top",
            "speaker": "who",
            "time": "at",
            "tags": "tags",
        }
    ),
)

TURNS = Format(
    name="jsonl",
    container=Container.JSON,
    shape=Shape.TURNS,
    fields=Fields(names={"root": "talk", "text": "text", "id": "n"}),
)


def reading(format_: Format = DIALOGUES, **how: Any) -> ReadSettings:
    return ReadSettings(
        source="log", fingerprint="f00d", format=format_, cleaning=how.pop("cleaning", CleaningSettings()), **how
    )


def result_of(*rows: Any, format_: Format = DIALOGUES, first_line: int = 1, **how: Any) -> BlockResult:
    """A block of JSON lines, read; a row given as bytes is a line as it is."""
    data = b"\n".join(row if isinstance(row, bytes) else orjson.dumps(row) for row in rows)
    return block_worker(reading(format_, **how))(LineBlock(first_line=first_line, data=data))


def said(result: BlockResult) -> list[tuple[str, str, str, str]]:
    """Dialogue, position, utterance and response of every pair."""
    return [(row["dialogue"], row["position"], row["utterance"], row["response"]) for row in result.rows.to_pylist()]


def key(text: str) -> int:
    return xxh3_64_intdigest(normalise(text).encode())


# ── pairs ─────────────────────────────────────────────────────────────────────────────────────────────────────────


def test_consecutive_turns_are_pairs_with_all_that_is_known_of_them() -> None:
    turns = [
        {"text": "Hi, you!", "speaker": "ann", "time": 1},
        {"text": "Hello  THERE", "speaker": "bo", "time": 2.5},
        {"text": "Bye."},
    ]
    result = result_of({"id": "d", "turns": turns, "tags": ["train"]})
    assert result.rows.schema == PAIR_SCHEMA
    assert result.rows.to_pylist() == [
        {
            "dialogue": "d",
            "position": "1",
            "utterance": "Hi, you!",
            "response": "Hello THERE",
            "utterance_speaker": "ann",
            "response_speaker": "bo",
            "time": datetime(1970, 1, 1, 0, 0, 2, 500_000, tzinfo=UTC),
            "tags": ["train"],
            "utterance_key": xxh3_64_intdigest(b"hi you"),
            "response_key": xxh3_64_intdigest(b"hello there"),
        },
        {
            "dialogue": "d",
            "position": "2",
            "utterance": "Hello THERE",
            "response": "Bye.",
            "utterance_speaker": "bo",
            "response_speaker": None,
            "time": None,
            "tags": ["train"],
            "utterance_key": xxh3_64_intdigest(b"hello there"),
            "response_key": xxh3_64_intdigest(b"bye"),
        },
    ]
    assert result.turns.tolist() == [1, 2]
    assert result.counts == {
        "dialogues": 1,
        "rows": 1,
        "turns": 3,
        "changed:spaces": 1,
        "one-turn dialogues": 0,
        "unreadable times": 0,
    }


def test_messages_that_are_no_turns_are_counted_and_pair_with_nothing() -> None:
    result = result_of(
        {
            "id": "x",
            "messages": [
                {"role": "system", "content": "Be brief."},
                {"role": "user", "content": "How warm is it?"},
                {"role": "assistant", "content": None, "tool_calls": [{"id": "1"}, {"id": "2"}]},
                {"role": "tool", "content": "21"},
                {"role": "tool", "content": "C"},
                {"role": "assistant", "content": "It is 21 degrees."},
            ],
        },
        {"id": "y", "messages": [{"role": "system", "content": "Be brief."}]},
        format_=replace(DIALOGUES, fields=Fields(names={"id": "id", "turns": "messages"})),
    )
    assert said(result) == [("x", "1", "How warm is it?", "It is 21 degrees.")]
    assert result.rows.column("tags").to_pylist() == [["role:system", "role:tool"]]
    counted = {"rows": 2, "turns": 2, "bad:fields": 1, "system messages": 1, "tool messages": 2, "tool calls": 2}
    assert {name: result.counts[name] for name in counted} == counted


def test_a_dropped_turn_breaks_the_dialogue_there() -> None:
    result = result_of(
        {"id": "x", "turns": ["one", "two", "[deleted]", "four", "five"]},
        {"id": "y", "turns": ["[removed]", "b", "c"]},
        {"id": "z", "turns": ["k", "l", ""]},
        {"id": "q", "turns": ["a", " ", "c"]},
    )
    assert said(result) == [
        ("x", "1", "one", "two"),
        ("x", "4", "four", "five"),
        ("y", "2", "b", "c"),
        ("z", "1", "k", "l"),
    ]
    assert result.turns.tolist() == [1, 4, 7, 9]
    assert {name: count for name, count in result.counts.items() if name.startswith("dropped")} == {
        "dropped:deleted": 2,
        "dropped:empty": 2,
    }


def test_dialogue_end_is_not_paired_with_the_beginning_of_the_next() -> None:
    result = result_of({"id": "x", "turns": ["a"]}, {"id": "y", "turns": ["b", "c"]}, {"id": "z", "turns": ["d"]})
    assert said(result) == [("y", "1", "b", "c")]
    assert (result.counts["dialogues"], result.counts["one-turn dialogues"]) == (3, 2)


TURN = st.sampled_from(["hi", "Oh, no!", "[deleted]", "", "犬", "x" * 101, "see www.a.example"])


@given(
    dialogues=st.lists(st.lists(TURN, min_size=1, max_size=6), max_size=6),
    cut=st.integers(0, 6),
    use_ids=st.booleans(),
)
@settings(deadline=None)
def test_pairs_are_the_consecutive_surviving_turns_of_each_dialogue(
    dialogues: list[list[str]], cut: int, use_ids: bool
) -> None:
    survives = {"hi": "hi", "Oh, no!": "Oh, no!", "犬": "犬", "see www.a.example": "see <url>"}
    expected = [
        (f"d{number}" if use_ids else f"f00d:{number + 10}", str(place), survives[before], survives[after])
        for number, turns in enumerate(dialogues)
        for place, (before, after) in enumerate(pairwise(turns), 1)
        if before in survives and after in survives
    ]
    rows = [{"id": f"d{number}", "turns": turns} for number, turns in enumerate(dialogues)]
    whole = result_of(*rows, first_line=10, use_ids=use_ids)
    assert said(whole) == expected
    for row in whole.rows.to_pylist():
        assert (row["utterance_key"], row["response_key"]) == (key(row["utterance"]), key(row["response"]))
    parts = [rows[:cut], rows[cut:]]
    first, second = (
        result_of(*part, first_line=10 + skipped, use_ids=use_ids)
        for part, skipped in zip(parts, (0, len(parts[0])), strict=True)
    )
    assert said(first) + said(second) == expected
    assert first.counts + second.counts == +whole.counts


def test_dialogues_without_ids_are_known_by_fingerprint_and_line() -> None:
    rows = [{"turns": ["a", "b"]}, b"", {"id": " ", "turns": ["c", "d"]}, {"id": "own", "turns": ["e", "f"]}]
    assert [pair[0] for pair in said(result_of(*rows, first_line=7))] == ["f00d:7", "f00d:9", "own"]
    assert [pair[0] for pair in said(result_of(*rows, first_line=7, use_ids=False))] == ["f00d:7", "f00d:9", "f00d:10"]


def test_further_labels_of_a_parlai_line_keep_ids_of_their_own() -> None:
    parlai = Format(
        name="parlai",
        container=Container.PARLAI,
        shape=Shape.DIALOGUES,
        fields=Fields(names={"turns": "turns", "id": "id"}),
        columns=("turns", "id"),
    )
    block = RowBlock(lines=[2, 1], rows=[(["hi", "b"], "f00d:2.2"), (["x", "y", "hi", "a"], "")])
    for use_ids in (True, False):
        result = block_worker(reading(parlai, use_ids=use_ids))(block)
        assert [pair[:2] for pair in said(result)] == [
            ("f00d:2.2", "1"),
            ("f00d:1", "1"),
            ("f00d:1", "2"),
            ("f00d:1", "3"),
        ]


def test_pairs_as_rows_have_the_responses_speaker_and_time() -> None:
    row = {"q": "Why?", "a": "So.", "who": "bo", "at": "1970-01-01T00:00:01Z"}
    (pair,) = result_of(row, format_=PAIRS, first_line=3).rows.to_pylist()
    assert (pair["dialogue"], pair["position"]) == ("f00d:3", "1")
    assert (pair["utterance_speaker"], pair["response_speaker"]) == (None, "bo")
    assert pair["time"] == datetime(1970, 1, 1, 0, 0, 1, tzinfo=UTC)


def test_rows_of_parquet_are_known_by_their_row() -> None:
    sink = pa.BufferOutputStream()
    batch = pa.RecordBatch.from_pylist([{"q": "a", "a": "b"}, {"q": None, "a": "d"}])
    with pa.ipc.new_stream(sink, batch.schema) as writer:
        writer.write_batch(batch)
    result = block_worker(reading(PAIRS))(ArrowBlock(first_row=40, data=sink.getvalue().to_pybytes()))
    assert said(result) == [("f00d:40", "1", "a", "b")]
    message = "'q' is missing or null; a string is expected"
    assert result.bad == [BadRow(line=41, reason="fields", message=message, place="row")]


def test_bad_rows_are_counted_and_the_rows_around_them_survive() -> None:
    result = result_of(
        {"turns": ["a", "b"]}, b'{"turns": ["cut', {"turns": []}, {"turns": ["c", "d"]}, rejects=True, first_line=5
    )
    assert said(result) == [("f00d:5", "1", "a", "b"), ("f00d:8", "1", "c", "d")]
    assert [(bad.line, bad.reason) for bad in result.bad] == [(6, "json"), (7, "fields")]
    assert (result.counts["rows"], result.counts["bad:json"], result.counts["bad:fields"]) == (4, 1, 1)
    assert result.rejects == [
        Reject(
            line=6,
            reason="bad:json",
            text='{"turns": ["cut',
            message="not JSON at character 16: unexpected end of data",
        ),
        Reject(line=7, reason="bad:fields", message="'turns' is empty; a list with at least one turn is expected"),
    ]


def test_a_line_that_could_not_be_read_is_a_block_of_its_own() -> None:
    bad = BadRow(line=9, reason="too-long-line", message="a line of 17,000,000 bytes; at most 16,777,216 are read")
    result = block_worker(reading())(LineBlock(first_line=9, bad=bad))
    assert (said(result), result.bad, result.counts["rows"]) == ([], [bad], 1)


def test_rejects_name_the_turn_as_it_was_and_why_it_was_left_out() -> None:
    rows = ({"id": "d", "turns": ["hi", "[deleted] ", "  x ", ""]}, {"turns": ["(removed)"]})
    assert result_of(*rows, rejects=True).rejects == [
        Reject(line=1, reason="deleted", dialogue="d", position="1", text="[deleted] "),
        Reject(line=1, reason="empty", dialogue="d", position="3", text=""),
        Reject(line=2, reason="deleted", dialogue="f00d:2", position="0", text="(removed)"),
    ]
    assert result_of(*rows).rejects == []


# ── who may not speak ─────────────────────────────────────────────────────────────────────────────────────────────


def spoken(*turns: tuple[str | None, str]) -> dict[str, Any]:
    return {"id": "d", "turns": [{"speaker": speaker, "text": text} for speaker, text in turns]}


CHAT = spoken(("ann", "a"), ("bo", "b"), ("ann", "c"), (None, "d"), ("AutoModerator", "e"), ("cy", "f"), ("ann", "g"))


def test_blocked_speakers_and_bots_are_left_out_and_break_the_dialogue() -> None:
    result = result_of(CHAT, blocked_speakers=frozenset({"bo"}))
    assert said(result) == [("d", "3", "c", "d"), ("d", "6", "f", "g")]
    assert (result.counts["dropped:blocked-speaker"], result.counts["dropped:bots"]) == (1, 1)


def test_bots_stay_where_their_rule_is_off() -> None:
    rules = tuple(rule for rule in (*REPAIRS, *FILTERS) if rule != "bots")
    assert len(said(result_of(CHAT, cleaning=CleaningSettings(rules=rules)))) == 6


def test_erased_speakers_are_known_by_their_salted_key_only() -> None:
    erased = frozenset({erasure_key("ann", "log-a")})
    assert said(result_of(CHAT, erased_speakers=erased, erasure_salt="log-b"))[0] == ("d", "1", "a", "b")
    result = result_of(CHAT, erased_speakers=erased, erasure_salt="log-a")
    assert said(result) == []
    assert result.counts["dropped:erased"] == 3
    assert "ann" not in erasure_key("ann", "log-a")


def test_a_speaker_both_blocked_and_erased_is_counted_once() -> None:
    result = result_of(
        CHAT,
        blocked_speakers=frozenset({"ann"}),
        erased_speakers=frozenset({erasure_key("ann", "s"), erasure_key("bo", "s")}),
        erasure_salt="s",
    )
    assert (result.counts["dropped:blocked-speaker"], result.counts["dropped:erased"]) == (3, 1)


def test_erased_dialogues_are_left_out_by_id_or_by_line() -> None:
    rows = ({"id": "x", "turns": ["a", "b"]}, {"turns": ["c", "d", "e"]}, {"id": "y", "turns": ["f", "g"]})
    erased = frozenset(erasure_key(name, "log") for name in ("x", "f00d:2"))
    result = result_of(*rows, erased_dialogues=erased, erasure_salt="log", rejects=True)
    assert said(result) == [("y", "1", "f", "g")]
    assert result.counts["dropped:erased"] == 5
    assert {reject.reason for reject in result.rejects} == {"erased"}


# ── messages ──────────────────────────────────────────────────────────────────────────────────────────────────────


def test_messages_keep_their_place_in_the_tree_even_without_their_text() -> None:
    result = result_of(
        {"id": "1", "text": "Root &amp; branch", "who": "ann", "at": 1, "tags": "x"},
        {"id": "2", "up": "1", "top": "1", "text": "[deleted]", "who": "bo"},
        {"id": "3", "up": "2", "top": "1", "text": "I saw that!", "who": "AutoModerator"},
        {"id": "4", "text": None},
        format_=MESSAGES,
        first_line=5,
        rejects=True,
    )
    assert result.rows.schema == MESSAGE_SCHEMA
    empty = xxh3_64_intdigest(b"")
    assert result.rows.to_pylist() == [
        {
            "id": "1",
            "parent": None,
            "root": None,
            "text": "Root & branch",
            "speaker": "ann",
            "time": datetime(1970, 1, 1, 0, 0, 1, tzinfo=UTC),
            "tags": ["x"],
            "key": key("Root & branch"),
            "line": 5,
            "chain": False,
        },
        {
            "id": "2",
            "parent": "1",
            "root": "1",
            "text": None,
            "speaker": "bo",
            "time": None,
            "tags": None,
            "key": empty,
            "line": 6,
            "chain": False,
        },
        {
            "id": "3",
            "parent": "2",
            "root": "1",
            "text": None,
            "speaker": "AutoModerator",
            "time": None,
            "tags": None,
            "key": empty,
            "line": 7,
            "chain": False,
        },
    ]
    assert result.turns.tolist() == [0, 1, 2]
    assert result.counts == {
        "messages": 3,
        "rows": 4,
        "turns": 3,
        "bad:fields": 1,
        "dropped:deleted": 1,
        "dropped:bots": 1,
        "changed:entities": 1,
        "unreadable times": 0,
    }
    assert result.rejects == [
        Reject(line=8, reason="bad:fields", message="'text' is missing or null; a string is expected"),
        Reject(line=6, reason="deleted", dialogue="1", position="2", text="[deleted]"),
        Reject(line=7, reason="bots", dialogue="1", position="3", text="I saw that!"),
    ]


def test_single_turns_are_told_apart_from_messages_and_need_no_ids() -> None:
    result = result_of(
        {"talk": "t1", "text": "a"},
        {"talk": "t1", "text": "b", "n": 2},
        {"text": "c"},
        format_=TURNS,
        first_line=5,
    )
    found = [(row["id"], row["parent"], row["root"], row["text"], row["chain"]) for row in result.rows.to_pylist()]
    assert found == [("f00d:5", None, "t1", "a", True), ("2", None, "t1", "b", True)]
    message = "'talk' is missing or null; a name or a whole number is expected"
    assert result.bad == [BadRow(line=7, reason="fields", message=message)]


@pytest.mark.parametrize("format_", [DIALOGUES, PAIRS, MESSAGES, TURNS])
def test_a_block_without_a_usable_row_has_no_rows(format_: Format) -> None:
    result = result_of(b"", b"{", format_=format_)
    assert (result.rows.num_rows, result.counts["rows"], result.counts["bad:json"]) == (0, 1, 1)
    assert result.flood_keys.tolist() == result.turns.tolist() == []


def test_a_result_is_the_same_after_it_went_through_a_pipe() -> None:
    sent = result_of({"turns": ["a", "b", "[deleted]"]}, b"{", rejects=True)
    arrived: BlockResult = pickle.loads(pickle.dumps(sent))
    assert arrived.rows.equals(sent.rows)
    assert arrived.turns.tolist() == sent.turns.tolist()
    assert arrived.flood_keys.tolist() == sent.flood_keys.tolist()
    assert (arrived.counts, arrived.bad, arrived.rejects) == (sent.counts, sent.bad, sent.rejects)


# ── floods ────────────────────────────────────────────────────────────────────────────────────────────────────────


def test_only_messages_long_enough_to_be_templates_have_a_flood_key() -> None:
    turns = [
        "good morning everyone!",
        "Click here for 20% off, ann: www.a.example",
        "click here for 99% off, ann: www.b.example",
    ]
    short, first, second = result_of({"turns": turns}).flood_keys.tolist()
    assert short == 0
    assert first == second != 0
    without = CleaningSettings(rules=tuple(rule for rule in (*REPAIRS, *FILTERS) if rule != "flood"))
    assert result_of({"turns": turns}, cleaning=without).flood_keys.tolist() == [0, 0, 0]


def test_a_message_is_long_in_characters_not_in_bytes() -> None:
    twenty_three, twenty_four = "今日" * 11 + "は", "今日" * 12
    assert [bool(key) for key in result_of({"turns": [twenty_three, twenty_four]}).flood_keys] == [False, True]


def test_a_dropped_message_counts_towards_no_flood() -> None:
    turns = ["[deleted]", "x" * 101, "hello"]
    assert result_of({"turns": turns}).flood_keys.tolist() == [0, 0, 0]


def as_keys(numbers: list[int]) -> NDArray[np.uint64]:
    return np.array([xxh3_64_intdigest(b"%d" % number) if number else 0 for number in numbers], dtype=np.uint64)


def over_by_hand(numbers: list[int], cap: int) -> list[bool]:
    seen: Counter[int] = Counter()
    over = []
    for number in numbers:
        seen[number] += 1
        over.append(number != 0 and seen[number] > cap)
    return over


@given(
    numbers=st.lists(st.integers(0, 6), max_size=60),
    cap=st.integers(1, 9),
    cuts=st.lists(st.integers(0, 60), max_size=5),
)
@settings(deadline=None)
def test_the_first_messages_of_a_flood_are_kept_however_the_log_is_cut(
    numbers: list[int], cap: int, cuts: list[int]
) -> None:
    counter = FloodCounter(cap, bits=16)
    edges = [0, *sorted(cuts), 60]
    over = [counter.over_cap(as_keys(numbers[start:end])) for start, end in pairwise(edges)]
    assert np.concatenate(over).tolist() == over_by_hand(numbers, cap)


@given(numbers=st.lists(st.integers(0, 40), max_size=80), cap=st.integers(1, 5), cut=st.integers(0, 80))
@settings(deadline=None)
def test_flood_is_found_early_but_never_late_where_cells_are_shared(numbers: list[int], cap: int, cut: int) -> None:
    counter = FloodCounter(cap, bits=2)
    found = [*counter.over_cap(as_keys(numbers[:cut])), *counter.over_cap(as_keys(numbers[cut:]))]
    for number, is_over, must_be in zip(numbers, found, over_by_hand(numbers, cap), strict=True):
        assert is_over or not must_be
        assert not (number == 0 and is_over)


def test_messages_are_spread_over_all_cells_of_every_row() -> None:
    counter = FloodCounter(5, bits=4)
    assert not counter.over_cap(as_keys(list(range(1, 401)))).all()
    assert counter.cells.shape == (4, 16)
    assert (counter.cells > 0).all()


def test_counting_ends_at_what_a_cell_holds_and_stays_over_the_cap() -> None:
    counter = FloodCounter(60_000, bits=4)
    many = np.full(100_000, as_keys([1])[0])
    assert counter.over_cap(many).tolist() == [False] * 60_000 + [True] * 40_000
    assert counter.over_cap(many[:3]).tolist() == [True] * 3
    assert counter.cells.max() == 60_000


@pytest.mark.parametrize(
    "again", [lambda counter: counter, lambda counter: FloodCounter(counter.cap, bits=counter.bits)]
)
def test_a_saved_counter_counts_on(tmp_path: Path, again: Callable[[FloodCounter], FloodCounter]) -> None:
    counter = FloodCounter(3, bits=10)
    counter.over_cap(as_keys([1, 1, 2]))
    counter.save(tmp_path / "flood")
    later = again(counter)
    later.load(tmp_path / "flood")
    assert later.cells.tolist() == counter.cells.tolist()
    assert later.over_cap(as_keys([1, 1, 2, 2, 2])).tolist() == [False, True, False, False, True]
