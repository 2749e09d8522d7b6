from __future__ import annotations

import io
import json
import logging
import warnings
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from refaug.core.errors import Corrupt
from refaug.core.text.messages import without_secrets
from refaug.service.keys import Token
from refaug.service.process.json_logging import JsonLines, configure_logging


@pytest.fixture
def stream(tmp_path: Path) -> Iterator[io.StringIO]:
    """What the process logs from now on; the loggers are as before afterwards."""
    root = logging.getLogger()
    before, level = root.handlers[:], root.level
    talkative = {
        name: logging.getLogger(name).level for name in ("faiss", "uvicorn", "httpx", "httpx2", "httpcore", "httpcore2")
    }
    written = io.StringIO()
    handler = configure_logging(tmp_path / "home", stream=written)
    yield written
    logging.captureWarnings(capture=False)
    root.removeHandler(handler)
    for one in before:
        root.addHandler(one)
    root.setLevel(level)
    for name, was in talkative.items():
        logging.getLogger(name).setLevel(was)


def lines(stream: io.StringIO) -> list[dict[str, object]]:
    return [json.loads(line) for line in stream.getvalue().split("\n") if line]


def test_a_line_has_its_event_and_what_belongs_to_it(stream: io.StringIO) -> None:
    extra = {"request": "01ab", "route": "/v1/scores", "status": 200, "ms": 12.5, "reasons": {"empty": 2}}
    logging.getLogger("refaug.service.web.connection.admission").info("request", extra=extra)
    [line] = lines(stream)
    assert {name: line[name] for name in ("event", "level", "logger", *extra)} == {
        "event": "request",
        "level": "info",
        "logger": "refaug.service.web.connection.admission",
        **extra,
    }
    assert str(line["time"]).endswith("+00:00")


def test_every_record_is_one_line_whatever_is_in_it(stream: io.StringIO) -> None:
    # Only to ours: reports of tests, which keep what is logged, cannot hold a lone surrogate.
    [handler] = [one for one in logging.getLogger().handlers if isinstance(one.formatter, JsonLines)]
    text = 'two\nlines, a "quote", a lone \ud800 and %s'
    handler.handle(logging.LogRecord("a", logging.WARNING, "here", 1, text, ("\u2028",), None))
    logging.getLogger("a").info(
        "second", extra={"what": object, "nested": [{"a": (1, "x\ny")}], "n": [2**64, -(2**70)]}
    )
    first, second = lines(stream)
    assert second["n"] == [str(2**64), str(-(2**70))], "JSON as others read it has no such numbers"
    assert first["event"] == 'two\nlines, a "quote", a lone ? and \u2028'
    assert second["what"] == str(object)
    assert second["nested"] == [{"a": [1, "x\ny"]}]


def test_what_belongs_to_a_line_cannot_change_what_the_line_says_of_itself(stream: io.StringIO) -> None:
    logging.getLogger("a").info("true", extra={"event": "false", "level": "error", "time": "never"})
    [line] = lines(stream)
    assert (line["event"], line["level"]) == ("true", "info")
    assert line["time"] != "never"


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("Authorization: Bearer abcdef123456", "Authorization: …"),
        ("{'authorization': 'Bearer abc', 'a': 'b'}", "{'authorization': '…', 'a': 'b'}"),
        ("(b'x-api-key', b'secret-of-mine')", "(b'x-api-key', b'…')"),
        ("sent Bearer eyJhbGciOi.abc~d+e/f= and left", "sent Bearer … and left"),
        ("postgresql+psycopg://refaug:geheim@db.local:5432/x", "postgresql+psycopg://refaug:…@db.local:5432/x"),
        ("http://127.0.0.1:8000/v1/scores", "http://127.0.0.1:8000/v1/scores"),
        ("the author is organised, and the basics stay", "the author is organised, and the basics stay"),
    ],
)
def test_keys_and_passwords_are_not_shown(text: str, shown: str) -> None:
    assert without_secrets(text) == shown


def test_a_key_of_ours_is_hidden_wherever_it_stands(stream: io.StringIO) -> None:
    tokens = [str(Token.new()) for _ in range(50)]
    for token in tokens:
        logging.getLogger("a").info("came with %s", token, extra={"path": f"/v1?key={token}&x=1", token: {token}})
    assert [token for token in tokens if token in stream.getvalue() or token[20:] in stream.getvalue()] == []
    assert lines(stream)[0]["path"] == "/v1?key=refaug_…&x=1"


@given(st.one_of(st.text(), st.from_regex(r"(Bearer|x-api-key: |refaug_ab_|a://b:)?[A-Za-z0-9._@/-]*", fullmatch=True)))
def test_a_quick_look_lets_nothing_through_that_a_close_one_would_hide(text: str) -> None:
    formatter = JsonLines(Path("/srv/refaug"))
    shown = without_secrets(text).replace(str(Path.home()), "~").replace("/srv/refaug", "HOME")
    for _ in range(2):  # made, and remembered
        line = json.loads(formatter.format(logging.makeLogRecord({"msg": "%s", "args": (text,), "value": text})))
        assert line["value"] == line["event"]
        if len(text) <= 64:
            assert line["value"] == shown.encode(errors="replace").decode()


def test_where_we_live_is_not_shown(stream: io.StringIO, tmp_path: Path) -> None:
    home = tmp_path / "home"
    text = f"{home}/indexes/a and {Path.home()}/x"
    logging.getLogger("a").info(text)
    assert lines(stream)[0]["event"] == "HOME/indexes/a and ~/x"


def test_a_relative_home_is_hidden_where_it_is_written_out(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    record = logging.makeLogRecord({"msg": f"{tmp_path}/data/x"})
    assert json.loads(JsonLines(Path("data")).format(record))["event"] == "HOME/x"


def failing(text: str, kind: type[Exception] = ValueError) -> None:
    raise kind(text)


def test_an_error_says_what_and_where_but_quotes_nothing(stream: io.StringIO, tmp_path: Path) -> None:
    log = logging.getLogger("a")
    try:
        failing("what somebody sent")
    except ValueError:
        log.exception("failed")
    try:
        failing(f"{tmp_path}/home/indexes/a: not JSON", Corrupt)
    except Corrupt:
        log.exception("failed")
    foreign, ours = lines(stream)
    assert "somebody" not in stream.getvalue()
    assert foreign["error"]["kind"] == "ValueError"
    assert [at.split(":")[0] + at.split(" ")[1] for at in foreign["error"]["at"]] == [
        "test_json_logging.pytest_an_error_says_what_and_where_but_quotes_nothing",
        "test_json_logging.pyfailing",
    ]
    assert ours["error"]["code"] == "corrupt"
    assert ours["error"]["message"] == "HOME/indexes/a: not JSON"


def test_long_value_is_cut_in_the_middle_so_a_trace_keeps_its_end(stream: io.StringIO) -> None:
    logging.getLogger("a").info("x" * 5_000 + "y" * 979 + "NameError: no such x!")
    assert lines(stream)[0]["event"] == "x" * 1_000 + "…" + "y" * 979 + "NameError: no such x!"


def test_warnings_are_lines_too_and_libraries_are_quiet(stream: io.StringIO) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("always")
        logging.captureWarnings(capture=True)
        warnings.warn("this changes", stacklevel=1)
    logging.getLogger("uvicorn.error").info("Started server process")
    logging.getLogger("uvicorn.error").error("cannot bind")
    said = lines(stream)
    assert [line["level"] for line in said] == ["warning", "error"]
    assert "this changes" in str(said[0]["event"])
    assert said[1]["event"] == "cannot bind"
