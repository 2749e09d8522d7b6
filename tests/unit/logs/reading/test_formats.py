"""Formats are recognised by content, named or not; refusals say what was found and what to do."""

from __future__ import annotations

import gzip
import lzma
from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import orjson
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from refusals import refusing

from refaug.core.errors import DamagedSource, MissingField, NoSource, UnknownFormat, Usage
from refaug.logs.reading.containers import Row
from refaug.logs.reading.formats import FORMATS, Container, Format, blocks_of, detect, rows_of
from refaug.logs.reading.shapes import Fields, Shape
from refaug.logs.reading.sources import BadRow, LineReader, Source

NO_MAP: Mapping[str, str] = {}


def jsonl(*rows: object) -> bytes:
    return b"".join(orjson.dumps(row) + b"\n" for row in rows)


def source_of(folder: Path, data: bytes, name: str = "log") -> Source:
    path = folder / name
    path.write_bytes(data)
    return Source.of(path)


def detected(
    folder: Path,
    data: bytes,
    name: str = "log",
    *,
    wanted: str = "auto",
    mapping: Mapping[str, str] = NO_MAP,
    encoding: str = "auto",
) -> Format:
    return detect(source_of(folder, data, name), requested=wanted, mapping=mapping, encoding=encoding)


def all_rows(source: Source, format_: Format, **how: Any) -> list[tuple[int, Row] | BadRow]:
    blocks = blocks_of(LineReader(source, **how), format_)
    return [row for block in blocks for row in rows_of(block, format_)]


def parquet(folder: Path, *rows: Mapping[str, Any]) -> bytes:
    pq.write_table(pa.Table.from_pylist(list(rows)), folder / "made.parquet")
    return (folder / "made.parquet").read_bytes()


# ── every format, from its content ────────────────────────────────────────────────────────────────────────────────

COMMENT = {"id": "c1", "parent_id": "t3_s", "link_id": "t3_s", "body": "b", "author": "a", "created_utc": 1, "score": 2}
SUBMISSION = {"id": "s", "title": "t", "selftext": "", "author": "a", "created_utc": 1, "subreddit": "x"}
TWEET = {"id_str": "1", "text": "t", "in_reply_to_status_id_str": None, "user": {"screen_name": "a"}}
CONVOKIT = {"id": "1", "conversation_id": "1", "text": "t", "speaker": {"id": "a"}, "timestamp": 1}
REDDIT_NAMES = {
    "id": "id",
    "parent": "parent_id",
    "root": "link_id",
    "text": "body",
    "speaker": "author",
    "time": "created_utc",
    "tags": "subreddit",
}
TWITTER_NAMES = {
    "id": "id_str",
    "parent": "in_reply_to_status_id_str",
    "text": "text",
    "speaker": "user.screen_name",
    "time": "created_at",
}
CONVOKIT_NAMES = {"id": "id", "text": "text", "root": "conversation_id", "speaker": "speaker", "time": "timestamp"}


def json_format(shape: Shape, name: str = "jsonl", **names: str) -> Format:
    """JSON of a platform, or of none."""
    markup = name if name in ("reddit", "twitter") else "none"
    return Format(name=name, container=Container.JSON, shape=shape, fields=Fields(names=names), markup=markup)


def table_format(container: Container, shape: Shape, *columns: str, header: bool = True, **names: str) -> Format:
    return Format(
        name=container.value,
        container=container,
        shape=shape,
        fields=Fields(names=names or {column: column for column in columns}),
        columns=columns,
        header=header,
    )


TURNS, PAIRS, DIALOGUES, MESSAGES = Shape.TURNS, Shape.PAIRS, Shape.DIALOGUES, Shape.MESSAGES
TEXT_FORMATS: list[tuple[str, bytes, Format]] = [
    (
        "dialogues",
        jsonl({"dialog_id": 1, "turns": ["a", "b"], "split": "train"}),
        json_format(DIALOGUES, turns="turns", id="dialog_id", tags="split"),
    ),
    (
        "chat messages",
        jsonl({"messages": [{"role": "user", "content": "a"}], "id": "x", "created_at": 1}),
        json_format(DIALOGUES, turns="messages", id="id"),
    ),
    (
        "shared conversations",
        jsonl({"conversations": [{"from": "human", "value": "a"}]}),
        json_format(DIALOGUES, turns="conversations"),
    ),
    (
        "pairs",
        jsonl({"question": "a", "answer": "b", "author": "x", "ts": 1}),
        json_format(PAIRS, utterance="question", response="answer", speaker="author", time="ts"),
    ),
    (
        "messages",
        jsonl({"conversation_id": "c", "message_id": 1, "reply_to": None, "text": "a"}),
        json_format(MESSAGES, id="message_id", parent="reply_to", text="text", root="conversation_id"),
    ),
    (
        "single turns",
        jsonl({"conversation_id": "c", "turn_id": 1, "text": "a", "role": "agent"}),
        json_format(TURNS, root="conversation_id", text="text", id="turn_id", speaker="role"),
    ),
    (
        "CSV of single turns",
        b"call_id,speaker,text\n1,agent,hello\n1,caller,hi\n",
        table_format(
            Container.CSV, TURNS, "call_id", "speaker", "text", root="call_id", text="text", speaker="speaker"
        ),
    ),
    (
        "a forum's messages, which are not Reddit's",
        jsonl({"id": 1, "parent_id": None, "body": "a"}),
        json_format(MESSAGES, id="id", parent="parent_id", text="body"),
    ),
    ("comments", jsonl(COMMENT), json_format(MESSAGES, "reddit", **REDDIT_NAMES)),
    ("submissions", jsonl(SUBMISSION), json_format(MESSAGES, "reddit", **REDDIT_NAMES)),
    ("tweets", jsonl(TWEET), json_format(MESSAGES, "twitter", **TWITTER_NAMES)),
    *(
        (
            f"ConvoKit with {spelling}",
            jsonl({**CONVOKIT, spelling: None}),
            json_format(MESSAGES, "convokit", parent=spelling, **CONVOKIT_NAMES),
        )
        for spelling in ("reply_to", "reply-to")
    ),
    (
        "TSV without a header",
        b"hi, you\thello\nhow are you?\tfine\n",
        table_format(Container.TSV, PAIRS, "utterance", "response", header=False),
    ),
    (
        "TSV with a header",
        b"answer\tquestion \tdate\r\na\tb\tc\r\n",
        table_format(
            Container.TSV, PAIRS, "answer", "question", "date", utterance="question", response="answer", time="date"
        ),
    ),
    (
        "CSV without a header",
        b'hi,hello\n"how, then?",fine\n',
        table_format(Container.CSV, PAIRS, "utterance", "response", header=False),
    ),
    (
        "CSV of messages",
        b'\xef\xbb\xbf"id",parent,text\n1,,"two\nlines"\n2,1,b\n',
        table_format(Container.CSV, MESSAGES, "id", "parent", "text"),
    ),
    (
        "ParlAI",
        b"text:hi\tlabels:hello\ntext:and\tlabels:so\tepisode_done:True\n",
        table_format(Container.PARLAI, DIALOGUES, "turns", "id", header=False),
    ),
]


@pytest.mark.parametrize(("data", "expected"), [row[1:] for row in TEXT_FORMATS], ids=[row[0] for row in TEXT_FORMATS])
def test_text_formats_are_recognised_by_their_content(tmp_path: Path, data: bytes, expected: Format) -> None:
    assert detected(tmp_path, data) == expected
    assert detected(tmp_path, gzip.compress(data), "log.weird") == expected
    suffix = {"csv": ".csv", "tsv": ".tsv"}.get(expected.container.value, ".txt")
    assert detected(tmp_path, lzma.compress(data), f"log{suffix}.xz") == expected
    wanted = expected.name if expected.name in FORMATS else "auto"
    assert detected(tmp_path, data, wanted=wanted) == expected


@pytest.mark.parametrize(("data", "expected"), [row[1:] for row in TEXT_FORMATS], ids=[row[0] for row in TEXT_FORMATS])
def test_formats_are_recognised_in_other_encodings(tmp_path: Path, data: bytes, expected: Format) -> None:
    text = data.decode("utf-8-sig")
    assert detected(tmp_path, text.encode("utf-16")) == expected
    assert detected(tmp_path, text.encode("utf-16-be"), encoding="utf-16-be") == expected


def test_parquet_is_recognised_by_its_content(tmp_path: Path) -> None:
    pairs = parquet(tmp_path, {"context": "a", "response": "b"})
    assert detected(tmp_path, pairs) == Format(
        name="parquet",
        container=Container.PARQUET,
        shape=Shape.PAIRS,
        fields=Fields(names={"utterance": "context", "response": "response"}),
    )
    dialogues = detected(tmp_path, parquet(tmp_path, {"turns": ["a", "b"], "id": "x"}))
    assert (dialogues.shape, dialogues.fields.names) == (Shape.DIALOGUES, {"turns": "turns", "id": "id"})
    reddit = detected(tmp_path, parquet(tmp_path, COMMENT))
    assert (reddit.name, reddit.shape, reddit.markup) == ("reddit", Shape.MESSAGES, "reddit")


@pytest.mark.parametrize("name", ["messages", "conversations"])
def test_lists_of_messages_in_parquet_are_dialogues(tmp_path: Path, name: str) -> None:
    source = parquet(tmp_path, {"prompt_id": "p", name: [{"role": "user", "content": "hi"}], "completion": "no"})
    assert (detected(tmp_path, source).shape, detected(tmp_path, source).fields.names) == (
        Shape.DIALOGUES,
        {"turns": name},
    )


def test_json_is_recognised_though_its_first_line_is_broken(tmp_path: Path) -> None:
    data = b'ner in the rain"]}\n' + jsonl({"turns": ["a", "b"]}) * 3
    format_ = detected(tmp_path, data)
    assert (format_.container, format_.shape) == (Container.JSON, Shape.DIALOGUES)


def test_json_is_recognised_though_its_first_line_is_long(tmp_path: Path) -> None:
    data = jsonl({"turns": ["long " * 50_000] * 3}, {"turns": ["a", "b"]})
    assert detected(tmp_path, data).shape is Shape.DIALOGUES


def test_fields_that_only_later_rows_have_count_too(tmp_path: Path) -> None:
    data = jsonl({"id": 1, "text": "root"}, {"id": 2, "parent": 1, "text": "reply"})
    assert detected(tmp_path, data).fields.names == {"id": "id", "parent": "parent", "text": "text"}


LATE_PAIR = {"utterance": "a", "response": "b", "dialog_id": 7, "author": "x", "ts": 9, "split": "t", "said": 8}
LATE_REPLY = {"id": 61, "conversation_id": 1, "text": "b", "reply_to": 1, "timestamp": 9}


def test_fields_that_the_first_rows_leave_out_are_read_where_they_come(tmp_path: Path) -> None:
    data = jsonl(*[{"utterance": "a", "response": "b"}] * 60, LATE_PAIR)
    fields = detected(tmp_path, data).fields
    assert [fields.get(name)(LATE_PAIR) for name in ("id", "speaker", "time", "tags")] == [7, "x", 9, "t"]
    assert fields.get("time")({"time": None, "date": 5}) == 5
    assert [fields.get(name)({"response": "b"}) for name in ("id", "time")] == [None, None]
    assert detected(tmp_path, data, mapping={"time": "said"}).fields.get("time")(LATE_PAIR) == 8


@pytest.mark.parametrize(("wanted", "mapping"), [("auto", {}), ("messages", {}), ("auto", {"parent": "reply_to"})])
def test_messages_whose_first_rows_have_no_parent_are_messages(
    tmp_path: Path, wanted: str, mapping: Mapping[str, str]
) -> None:
    roots = [{"id": number, "conversation_id": number, "text": "a"} for number in range(60)]
    format_ = detected(tmp_path, jsonl(*roots, LATE_REPLY), wanted=wanted, mapping=mapping)
    assert format_.shape is Shape.MESSAGES
    assert [format_.fields.get(name)(LATE_REPLY) for name in ("parent", "root", "time")] == [1, 1, 9]


def test_csv_with_newlines_in_quotes_is_recognised_without_a_name(tmp_path: Path) -> None:
    assert detected(tmp_path, b'"one\ntwo",a\n"three\n\nfour",b\nx,y\n').container is Container.CSV


def test_text_that_begins_with_a_bracket_is_no_json_array(tmp_path: Path) -> None:
    assert detected(tmp_path, b"[laughs]\tme too\n[sighs]\twhat?\n").container is Container.TSV


def test_names_of_files_decide_between_tabs_and_commas(tmp_path: Path) -> None:
    data = b"well, a\tb, c\n"
    assert detected(tmp_path, data).container is Container.TSV
    assert detected(tmp_path, data, "x.tsv").container is Container.TSV
    with refusing(MissingField):
        detected(tmp_path, data, "x.csv.gz")


# ── rows, end to end ──────────────────────────────────────────────────────────────────────────────────────────────


def test_every_text_format_gives_its_rows_without_the_header(tmp_path: Path) -> None:
    for name, data, _ in TEXT_FORMATS:
        source = source_of(tmp_path, data)
        format_ = detect(source, requested="auto", mapping={}, encoding="auto")
        whole = all_rows(source, format_)
        assert whole, name
        assert all(not isinstance(row, BadRow) for row in whole), name
        if format_.container is not Container.PARLAI:
            assert all_rows(source, format_, block_bytes=7) == whole, name
    csv_rows = next(row[1] for row in TEXT_FORMATS if row[0] == "CSV of messages")
    source = source_of(tmp_path, csv_rows)
    assert all_rows(source, detect(source, requested="auto", mapping={}, encoding="auto")) == [
        (2, {"id": "1", "parent": "", "text": "two\nlines"}),
        (4, {"id": "2", "parent": "1", "text": "b"}),
    ]


def test_a_parlai_episode_is_a_row_of_turns(tmp_path: Path) -> None:
    source = source_of(tmp_path, b"text:hi\tlabels:hello|hey\nnonsense\n")
    format_ = detect(source, requested="auto", mapping={}, encoding="auto")
    assert all_rows(source, format_) == [
        (1, {"turns": ["hi", "hey"], "id": f"{source.fingerprint}:1.2"}),
        (1, {"turns": ["hi", "hello"], "id": ""}),
        BadRow(line=2, reason="fields", message="no text: or no labels: here", excerpt="nonsense"),
    ]


def test_bad_lines_come_out_among_the_rows_in_every_text_format(tmp_path: Path) -> None:
    for name, data, _ in TEXT_FORMATS:
        source = source_of(tmp_path, gzip.compress(data)[:-2])
        rows = all_rows(source, detect(source, requested="auto", mapping={}, encoding="auto"))
        bad = [row for row in rows if isinstance(row, BadRow)]
        assert [(row.line, row.reason) for row in bad] == [(data.count(b"\n") + 1, "damaged")], name
        assert len(rows) > 1, name


def test_a_bad_row_group_comes_out_among_the_rows(tmp_path: Path) -> None:
    table = pa.table({"utterance": ["a"] * 20, "response": [f"r{number}" for number in range(20)]})
    pq.write_table(table, tmp_path / "p", row_group_size=10)
    with pq.ParquetFile(tmp_path / "p") as file:
        start = file.metadata.row_group(0).column(1).dictionary_page_offset
    data = bytearray((tmp_path / "p").read_bytes())
    data[start : start + 16] = b"\xff" * 16
    source = source_of(tmp_path, bytes(data))
    bad, *rows = all_rows(source, detect(source, requested="auto", mapping={}, encoding="auto"))
    assert isinstance(bad, BadRow)
    assert (bad.line, bad.place, bad.message[:45]) == (0, "row", "row group 0 (rows 0 to 9) cannot be read: Cou")
    assert rows == [(number, {"utterance": "a", "response": f"r{number}"}) for number in range(10, 20)]


def test_times_come_out_of_parquet_as_moments(tmp_path: Path) -> None:
    moment = datetime(2020, 1, 2, 3, 4, 5, tzinfo=UTC)
    source = source_of(tmp_path, parquet(tmp_path, {"utterance": "a", "response": "b", "time": moment}))
    format_ = detect(source, requested="auto", mapping={}, encoding="auto")
    ((_, row),) = (row for row in all_rows(source, format_) if not isinstance(row, BadRow))
    assert format_.fields.get("time")(row) == moment.replace(tzinfo=None)


# ── the map ───────────────────────────────────────────────────────────────────────────────────────────────────────


def test_the_map_names_fields_and_with_them_the_shape(tmp_path: Path) -> None:
    row = {"said": "a", "answered": "b", "who": {"nick": "x"}, "no": 5}
    format_ = detected(
        tmp_path, jsonl(row), mapping={"utterance": "said", "response": "answered", "speaker": "who.nick"}
    )
    assert (format_.shape, format_.fields.names) == (
        Shape.PAIRS,
        {"utterance": "said", "response": "answered", "speaker": "who.nick"},
    )
    assert [format_.fields.get(name)(row) for name in ("utterance", "response", "speaker")] == ["a", "b", "x"]


def test_the_map_overrules_a_platform_that_the_fields_look_like(tmp_path: Path) -> None:
    row = {**COMMENT, "question": "q"}
    pairs = detected(tmp_path, jsonl(row), mapping={"utterance": "question", "response": "body"})
    assert (pairs.name, pairs.shape, pairs.markup) == ("jsonl", Shape.PAIRS, "none")
    assert pairs.fields.names["utterance"] == "question"
    comments = detected(tmp_path, jsonl(row), mapping={"text": "question"})
    assert (comments.name, comments.fields.names["text"]) == ("reddit", "question")


def test_the_map_reaches_into_turns_whose_fields_the_row_does_not_have(tmp_path: Path) -> None:
    format_ = detected(
        tmp_path, jsonl({"log": [{"said": "a"}]}), mapping={"turns": "log", "text": "said", "speaker": "who"}
    )
    assert (format_.shape, format_.fields.names) == (
        Shape.DIALOGUES,
        {"turns": "log", "text": "said", "speaker": "who"},
    )


def test_the_map_makes_a_header_of_names_that_are_not_known(tmp_path: Path) -> None:
    format_ = detected(tmp_path, b"eins,zwei\na,b\n", mapping={"utterance": "eins", "response": "zwei"})
    assert (format_.header, format_.columns, format_.fields.names) == (
        True,
        ("eins", "zwei"),
        {"utterance": "eins", "response": "zwei"},
    )


def test_a_column_may_have_a_dot_in_its_name(tmp_path: Path) -> None:
    format_ = detected(tmp_path, b"utterance,response,user.name\na,b,c\n", mapping={"speaker": "user.name"})
    assert format_.fields.get("speaker")({"user.name": "c"}) == "c"


@pytest.mark.parametrize("column", ["text", "user.name"])
def test_a_mapped_field_that_is_not_there_is_refused_with_what_is(tmp_path: Path, column: str) -> None:
    with pytest.raises(MissingField) as refused:
        detected(tmp_path, jsonl({"utterance": "a", "response": "b"}), mapping={"speaker": column})
    path = tmp_path / "log"
    assert refused.value.message == f"{path}: no field {column!r} (for speaker); it has: utterance, response"


def test_one_column_is_not_taken_for_two_fields(tmp_path: Path) -> None:
    data = jsonl({"message": "a", "reply": "b", "post": "c"})
    assert detected(tmp_path, data, mapping={"tags": "message"}).fields.names == {
        "utterance": "post",
        "response": "reply",
        "tags": "message",
    }


# ── what is told ──────────────────────────────────────────────────────────────────────────────────────────────────


def test_a_preset_that_is_told_needs_no_telling_fields(tmp_path: Path) -> None:
    row = {"id": "a", "body": "b", "parent_id": "t3_x"}
    assert detected(tmp_path, jsonl(row)).name == "jsonl"
    assert detected(tmp_path, jsonl(row), wanted="reddit").name == "reddit"
    tweet = detected(tmp_path, jsonl({"id": 1, "full_text": "a"}), wanted="twitter")
    assert (tweet.name, tweet.shape, tweet.fields.names) == ("twitter", Shape.MESSAGES, TWITTER_NAMES)


def test_messages_that_are_told_may_have_no_parents(tmp_path: Path) -> None:
    format_ = detected(tmp_path, b"id,text\n1,a\n", wanted="messages")
    assert (format_.name, format_.shape, format_.fields.names) == (
        "messages",
        Shape.MESSAGES,
        {"id": "id", "text": "text"},
    )


def test_requested_turns_are_read_as_turns_whatever_other_fields_exist(tmp_path: Path) -> None:
    data = jsonl({"thread_id": 1, "id": 5, "question": "a", "answer": "b", "text": "c"})
    assert detected(tmp_path, data).shape is Shape.PAIRS
    turns = detected(tmp_path, data, wanted="turns")
    assert (turns.shape, turns.fields.names) == (Shape.TURNS, {"root": "thread_id", "text": "text", "id": "id"})


def test_csv_that_is_told_is_read_as_csv_whatever_it_looks_like(tmp_path: Path) -> None:
    assert detected(tmp_path, b"a\tb,c\n", wanted="csv").container is Container.CSV
    assert detected(tmp_path, b"a,b\tc\n", wanted="tsv").container is Container.TSV


def test_a_format_that_does_not_exist_is_refused_with_those_that_do(tmp_path: Path) -> None:
    with pytest.raises(Usage) as refused:
        detected(tmp_path, b"a,b\n", wanted="xml")
    assert "xml" in refused.value.message
    assert refused.value.remedy == f"there are: auto, {', '.join(FORMATS)}"


# ── what cannot be read ───────────────────────────────────────────────────────────────────────────────────────────

REMEDY_FOR_NAMES = (
    "name them: --map turns=FIELD, or --map utterance=… --map response=…, or --map id=… --map parent=… --map text=…, "
    "or --map root=… --map text=…"
)
NO_SHAPE = (
    "neither dialogues (turns), nor pairs (utterance, response), nor messages (id, parent, text), "
    "nor single turns (conversation_id, text)"
)


@pytest.mark.parametrize(
    ("data", "how", "message", "remedy"),
    [
        (jsonl({"eins": 1, "zwei": 2}), {}, f"{NO_SHAPE}; fields found: eins, zwei", REMEDY_FOR_NAMES),
        (
            b'{"turns":\n',
            {},
            "no readable row among the first: line 1: not JSON at character 10: unexpected end of data",
            "write one JSON object a line: jq -c . FILE",
        ),
        (
            jsonl({"turns": ["a", "b"], "references": ["c"], "replies": {"s": "d"}}),
            {},
            "a test file, not dialogues: its rows have references or replies",
            "refaug score reads it; to take its dialogues all the same, name them with --map",
        ),
        (b"id,body\n1,a\n", {}, f"{NO_SHAPE}; fields found: id, body", REMEDY_FOR_NAMES),
        (
            jsonl({"question": "a", "x": "b"}),
            {"mapping": {"utterance": "question"}},
            "no field for response of pairs; it has: question, x",
            "--map response=FIELD",
        ),
        (
            jsonl({"up": 1, "x": "b"}),
            {"mapping": {"parent": "up"}},
            "no field for id and text of messages; it has: up, x",
            "--map id=FIELD --map text=FIELD",
        ),
        (
            jsonl({"parent_id": "t3_x", "selbsttext": "b"}),
            {"wanted": "reddit"},
            "no field for id and text of messages; it has: parent_id, selbsttext",
            "--map id=FIELD --map text=FIELD",
        ),
        (
            jsonl({"id": 1, "inhalt": "b"}),
            {"wanted": "twitter"},
            "no field for text of messages; it has: id, inhalt",
            "--map text=FIELD",
        ),
        (
            jsonl({"id": 1, "speaker": "b"}),
            {"wanted": "convokit"},
            "no field for text of messages; it has: id, speaker",
            "--map text=FIELD",
        ),
    ],
)
def test_missing_fields_are_named_with_what_was_found_and_what_to_do(
    tmp_path: Path, data: bytes, how: dict[str, Any], message: str, remedy: str
) -> None:
    with pytest.raises((MissingField, UnknownFormat)) as refused:
        detected(tmp_path, data, **how)
    assert refused.value.message == f"{tmp_path / 'log'}: {message}"
    assert refused.value.remedy == remedy


@pytest.mark.parametrize(
    ("data", "name", "columns"),
    [
        (b"a,b,c\nd,e,f\n", "log", "3 columns instead of two: a, b, c"),
        (b"alone\n", "log.tsv", "1 columns instead of two: alone"),
        (b"eins;zwei\na;b\n", "log.csv", "1 columns instead of two: eins;zwei"),
    ],
)
def test_columns_without_a_header_must_be_two(tmp_path: Path, data: bytes, name: str, columns: str) -> None:
    with pytest.raises(MissingField) as refused:
        detected(tmp_path, data, name)
    said = f"no header that is known, and {columns}"
    assert refused.value.message == f"{tmp_path / name}, line 1: {said}"
    assert "--map" in refused.value.remedy


@pytest.mark.parametrize("wanted", ["auto", "jsonl", "reddit"])
@pytest.mark.parametrize(
    "data", [b'[{"turns": ["a"]},\n{"turns": ["b"]}]', b'[\n{"turns": []}\n]\n', b'["a", "b"]', b" []"]
)
def test_a_json_array_is_refused_with_how_to_convert_it(tmp_path: Path, data: bytes, wanted: str) -> None:
    with pytest.raises(UnknownFormat) as refused:
        detected(tmp_path, data, wanted=wanted)
    assert refused.value.message == f"{tmp_path / 'log'}: one JSON array; one object a line is expected"
    assert ".[]" in refused.value.remedy


def test_a_binary_file_is_called_one(tmp_path: Path) -> None:
    with pytest.raises(UnknownFormat) as refused:
        detected(tmp_path, b"\x7fELF\x02\x01\0\0\0,,,\tmore")
    assert (
        refused.value.message
        == f"{tmp_path / 'log'}: a binary file, it begins b'\\x7fELF\\x02\\x01\\x00\\x00\\x00,,,\\tmore'"
    )
    assert "--encoding" in refused.value.remedy


def test_prose_is_in_none_of_the_formats(tmp_path: Path) -> None:
    with pytest.raises(UnknownFormat) as refused:
        detected(tmp_path, b"Once upon a time\nthere was, I think, a log\n" * 30)
    said = "not JSON lines, CSV, TSV, Parquet, Arrow or ParlAI text; it begins"
    begins = "Once upon a time\nthere was, I think, a log\nOnce upon a time\n"
    assert refused.value.message == f"{tmp_path / 'log'}: {said} {begins[:60]!r}"
    assert "--format" in refused.value.remedy


def test_a_tar_archive_inside_gzip_is_called_one(tmp_path: Path) -> None:
    tar = b"log.jsonl".ljust(257, b"\0") + b"ustar\x0000".ljust(255, b"\0")
    with pytest.raises(UnknownFormat) as refused:
        detected(tmp_path, gzip.compress(tar), "logs.tar.gz")
    assert refused.value.message == f"{tmp_path / 'logs.tar.gz'} is a tar archive"
    assert refused.value.remedy == "unpack it and name the files or the folder"


@pytest.mark.parametrize("data", [b"", b"\n\n  \n", gzip.compress(b"", mtime=0), b"\xef\xbb\xbf"])
@pytest.mark.parametrize("wanted", ["auto", "csv", "reddit", "parlai"])
def test_an_empty_file_is_called_empty(tmp_path: Path, data: bytes, wanted: str) -> None:
    with pytest.raises(NoSource) as refused:
        detected(tmp_path, data, wanted=wanted)
    assert refused.value.message == f"{tmp_path / 'log'}: empty"


def test_a_cut_parquet_file_is_called_damaged(tmp_path: Path) -> None:
    whole = parquet(tmp_path, {"utterance": "a", "response": "b"})
    with pytest.raises(DamagedSource) as refused:
        detected(tmp_path, whole[:-20])
    assert refused.value.message.startswith(f"{tmp_path / 'log'} is not a whole Parquet file: ")


def test_an_encoding_that_does_not_exist_is_refused_before_the_format(tmp_path: Path) -> None:
    with refusing(Usage, "latin-77"):
        detected(tmp_path, b"a,b\n", encoding="latin-77")
