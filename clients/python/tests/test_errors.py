"""One tree of errors: what each says, what it keeps, and which answer becomes which."""

from __future__ import annotations

import copy
import inspect
import json
import pickle
import re
import time
from datetime import datetime, timezone
from email.utils import format_datetime
from typing import Any, Optional

import pytest
from refusals import refusing

from refaug_client._core import errors
from refaug_client._http.call import Answer, Call, path, read_answer, read_json

CLASSES = [
    one
    for one in vars(errors).values()
    if inspect.isclass(one) and issubclass(one, errors.RefaugError) and one.__module__ == errors.__name__
]
CALL = Call("GET", "/v1/jobs/x", read_json)


def made(kind: type[errors.RefaugError], **more: Any) -> errors.RefaugError:
    """An error of this kind with everything that it can have."""
    facts: dict[str, Any] = {"remedy": "do that", "request_id": "r1", "status": 418, "tries": 3, **more}
    if issubclass(kind, errors.Problem):
        facts["problem"] = {"code": "teapot", "detail": "no", "errors": [{"item": 0}], "instead": "other"}
    if issubclass(kind, errors.Later):
        facts["retry_after_s"] = 2.5
    return kind("it is so", **facts)


def answered(
    status: int, body: Any = None, kind: str = "application/json", raw: Optional[bytes] = None, **headers: str
) -> Answer:
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    content = json.dumps(body).encode() if raw is None else raw
    return Answer(status, {"content-type": kind, **named}, content, "asked")


def refusal(status: int, code: str = "some", **more: Any) -> dict[str, Any]:
    return {"type": f"/problems/{code}", "status": status, "code": code, "detail": "because", **more}


def test_the_tree_is_as_its_page_says() -> None:
    drawn = dict[str, str]()
    above = list[str]()
    for line in (errors.__doc__ or "").splitlines()[2:]:
        found = re.match(r"([ │├└─]*)(\w+)", line)
        assert found is not None, line
        depth = len(found[1]) // 4
        above[depth:] = [found[2]]
        drawn[found[2]] = above[depth - 1] if depth else ""
    assert drawn == {one.__name__: "" if one is errors.RefaugError else one.__bases__[0].__name__ for one in CLASSES}


@pytest.mark.parametrize("kind", CLASSES, ids=lambda kind: kind.__name__)
def test_an_error_comes_whole_out_of_another_process(kind: type[errors.RefaugError]) -> None:
    error = made(kind)
    error.job_of_mine = {"a": 1}  # type: ignore[attr-defined]
    for again in (pickle.loads(pickle.dumps(error)), copy.copy(error), copy.deepcopy(error)):
        assert type(again) is kind
        assert again.__dict__ == error.__dict__
        assert str(again) == str(error) == "it is so; do that (tried 3 times, request r1)"
        assert again.args == ("it is so",)
        assert repr(again) == repr(error)


def test_only_what_is_known_is_said() -> None:
    assert str(errors.Usage("so")) == "so"
    assert str(errors.Usage("so", remedy="other")) == "so; other"
    assert str(errors.NoAnswer("so", request_id="r")) == "so (request r)"
    assert str(errors.NoAnswer("so", tries=2)) == "so (tried 2 times)"


@pytest.mark.parametrize(
    ("status", "kind"),
    [
        (400, errors.BadInput),
        (401, errors.NoKey),
        (403, errors.NotAllowed),
        (404, errors.NotFound),
        (405, errors.BadInput),
        (408, errors.BadInput),
        (409, errors.Conflict),
        (410, errors.Withdrawn),
        (413, errors.BadInput),
        (415, errors.BadInput),
        (422, errors.BadInput),
        (429, errors.TooMany),
        (499, errors.BadInput),
        (500, errors.ServerFault),
        (501, errors.ServerFault),
        (503, errors.Unavailable),
        (507, errors.ServerFault),
    ],
)
def test_every_refusal_is_of_a_class_by_its_status_and_keeps_its_document(
    status: int, kind: type[errors.Problem]
) -> None:
    body = refusal(status, "some_code", remedy="do that", request_id="theirs", more={"new": [1]})
    with pytest.raises(errors.Problem) as caught:
        read_answer(CALL, answered(status, body, "application/problem+json"))
    error = caught.value
    assert type(error) is kind
    assert (error.status, error.code, error.request_id) == (status, "some_code", "theirs")
    assert (error.message, error.remedy) == ("because", "do that")
    assert error.problem == body


def test_places_that_are_wrong_are_listed() -> None:
    places = [{"item": "d1", "place": 0, "field": "utterance", "message": "empty"}]
    with pytest.raises(errors.BadInput) as caught:
        read_answer(CALL, answered(422, refusal(422, errors=places)))
    assert caught.value.errors == places
    with pytest.raises(errors.BadInput) as caught:
        read_answer(CALL, answered(422, refusal(422)))
    assert caught.value.errors == []


def test_a_withdrawn_set_names_the_one_to_use_instead() -> None:
    for instead in ("rs-2", None):
        with pytest.raises(errors.Withdrawn) as caught:
            read_answer(CALL, answered(410, refusal(410, instead=instead)))
        assert caught.value.instead == instead


def test_when_to_come_again_is_read_as_seconds_or_as_a_date() -> None:
    date = format_datetime(datetime(2026, 1, 1, 12, 0, 30, tzinfo=timezone.utc), usegmt=True)
    now = format_datetime(datetime(2026, 1, 1, 12, 0, 0, tzinfo=timezone.utc), usegmt=True)
    past = format_datetime(datetime(1999, 1, 1, tzinfo=timezone.utc), usegmt=True)
    for said, seconds in [("3", 3.0), (" 2.5 ", 2.5), ("0", 0.0), (date, 30.0), (past, 0.0)]:
        assert answered(503, {}, retry_after=said, date=now).retry_after_s == seconds, said
    for said in ("", "-1", "soon", "1e9", "NaN", "inf", "٣", "99999999999999999999", "Thu, 99 Foo 2026"):
        assert answered(503, {}, retry_after=said, date=now).retry_after_s is None, said
    assert answered(503, {}).retry_after_s is None
    ahead = format_datetime(datetime.fromtimestamp(time.time() + 3_600, timezone.utc), usegmt=True)
    without_date = answered(503, {}, retry_after=ahead).retry_after_s
    assert without_date is not None
    assert 3_000 < without_date <= 3_600
    with pytest.raises(errors.Unavailable) as caught:
        read_answer(CALL, answered(503, refusal(503), retry_after="3"))
    assert caught.value.retry_after_s == 3.0
    with pytest.raises(errors.BadAnswer) as page:  # a proxy's own page says when, too
        read_answer(CALL, answered(503, kind="text/html", raw=b"<h1>busy</h1>", retry_after="4"))
    assert page.value.retry_after_s == 4.0


@pytest.mark.parametrize("status", [200, 201, 400, 401, 404, 429, 500, 502, 503, 504])
@pytest.mark.parametrize(
    ("kind", "raw"),
    [
        ("text/html", b"<html><h1>Gateway Time-out</h1></html>"),
        ("", b""),
        ("application/json", b""),
        ("application/json", b'{"items": [1, 2'),
        ("application/json", b"[1, 2]"),
        ("application/json", b"null"),
        ("application/json", b"\xff\xfe\xfd"),
        ("application/json", b"[" * 200_000),
        ("application/json", b'{"x":' + b"9" * 10_000 + b"}"),
        ("text/plain; charset=utf-8", b'{"status": "ok"}'),
    ],
    ids=["page", "nothing", "no body", "half", "list", "null", "no text", "deep", "long", "other type"],
)
def test_what_is_not_refaugs_is_a_bad_answer_whatever_its_status(status: int, kind: str, raw: bytes) -> None:
    asking = Call("GET", "/v1/x", lambda answer: answer.json()["items"])
    with pytest.raises(errors.BadAnswer) as caught:
        read_answer(asking, answered(status, kind=kind, raw=raw))
    error = caught.value
    assert (error.status, error.request_id, error.content_type) == (status, "asked", kind)
    assert error.excerpt == raw[:200].decode("utf-8", "replace")


@pytest.mark.parametrize("body", [{"detail": "Not Found"}, {"error": "x"}, {"code": 5, "detail": "x"}, {}])
def test_a_refusal_in_the_json_of_somebody_else_is_a_bad_answer(body: dict[str, Any]) -> None:
    with refusing(errors.BadAnswer, "proxy") as caught:
        read_answer(CALL, answered(404, body))
    assert not caught.value.complete


@pytest.mark.parametrize(
    "read",
    [
        lambda answer: answer.json()["scores"],
        lambda answer: answer.json()["status"][5],
        lambda answer: int(answer.json()["status"]),
        lambda answer: answer.json()["status"].real,
        lambda answer: list(answer.json()["status"])[5],
    ],
)
def test_an_answer_that_says_something_else_is_not_asked_for_again(read: Any) -> None:
    with refusing(errors.BadAnswer, "200") as caught:
        read_answer(Call("GET", "/healthz", read), answered(200, {"status": "ok"}))
    assert caught.value.complete


@pytest.mark.parametrize("status", [300, 301, 302, 307, 308])
def test_an_answer_that_leads_elsewhere_is_not_followed(status: int) -> None:
    with refusing(errors.BadAnswer, "it leads elsewhere (https://login.example/)"):
        read_answer(CALL, answered(status, {}, location="https://login.example/"))


def test_a_status_that_is_expected_is_an_answer() -> None:
    asking = Call("GET", "/readyz", read_json, expected=(503,))
    assert read_answer(asking, answered(503, {"missing": ["index"]})) == {"missing": ["index"]}


@pytest.mark.parametrize(
    ("body", "said"),
    [
        ({"items": [{"id": "a"}, {"id": float("nan")}]}, "items[1].id"),
        ({"weights": [1.0, float("inf")]}, "weights[1]"),
        ({"reply": b"bytes"}, " (at reply)"),
        ({"metrics": {"bleu", "chrf"}}, " (at metrics)"),
        ({"at": {"x": object()}}, " (at at.x)"),
        ({"texts": ["fine", "half \ud83d of it"]}, " (at texts[1])"),
        ({"replies": {"\udc00": ["a"]}}, "POST"),
        ({"at": datetime(2026, 1, 1, tzinfo=timezone.utc)}, "datetime"),
    ],
)
def test_what_cannot_be_sent_is_named_with_its_place(body: Any, said: str) -> None:
    with refusing(errors.Usage, said):
        Call("POST", "/v1/scores", read_json, body=body).encode_body()


def test_a_body_that_holds_itself_is_refused() -> None:
    body: dict[str, Any] = {}
    body["self"] = [body]
    with refusing(errors.Usage, "POST"):
        Call("POST", "/v1/scores", read_json, body=body).encode_body()


def test_numbers_and_columns_of_other_libraries_are_sent_as_plain_ones() -> None:
    numpy, pandas = pytest.importorskip("numpy"), pytest.importorskip("pandas")
    body = {
        "weight": numpy.float32(0.5),
        "k": numpy.int64(3),
        "flags": numpy.array([True, False]),
        "ids": pandas.Series(["a", "b"]),
        "pair": (1, 2),
        "made": (str(n) for n in range(2)),
        "text": "日本語 🚢 \u2028",
    }
    assert json.loads(Call("POST", "/x", read_json, body=body).encode_body()) == {
        "weight": 0.5,
        "k": 3,
        "flags": [True, False],
        "ids": ["a", "b"],
        "pair": [1, 2],
        "made": ["0", "1"],
        "text": "日本語 🚢 \u2028",
    }
    with refusing(errors.Usage, "weights"):
        Call("POST", "/x", read_json, body={"weights": numpy.array([0.1, numpy.nan])}).encode_body()
    with refusing(errors.Usage, "DataFrame"):  # a table's names would be sent for its rows
        Call("POST", "/x", read_json, body={"items": pandas.DataFrame({"id": ["a"]})}).encode_body()


@pytest.mark.parametrize(
    ("names", "found"),
    [
        (("v1", "jobs", "a b"), "/v1/jobs/a%20b"),
        (("a/../b",), "/a%2F..%2Fb"),
        (("100%",), "/100%25"),
        (("日本",), "/%E6%97%A5%E6%9C%AC"),
        (("...",), "/..."),
        (("x?y#z",), "/x%3Fy%23z"),
    ],
)
def test_no_name_becomes_another_path(names: tuple[str, ...], found: str) -> None:
    assert path(*names) == found


@pytest.mark.parametrize("name", ["", ".", "..", None, 5, b"x", "\ud800"])
def test_what_is_no_name_is_refused(name: Any) -> None:
    with refusing(errors.Usage):
        path("v1", name)
