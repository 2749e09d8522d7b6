"""What the document and its page show was answered so, and is still: every example is sent, and every route asked."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

import jsonschema_rs
import orjson
import pytest
from api_answers import Asked, answering, answers
from starlette.testclient import TestClient

from refaug.core.home import Settings
from refaug.service.jobs.worker import run_worker
from refaug.service.server_settings import ServeSettings
from refaug.service.web import openapi
from refaug.service.web.app import create_app

DOCUMENT = create_app(Settings(), ServeSettings()).openapi()
OPERATIONS = {
    operation["operationId"]: (method, path, operation)
    for path, found in DOCUMENT["paths"].items()
    for method, operation in found.items()
}
KEPT = openapi.examples()


@pytest.fixture(scope="module")
def now(tmp_path_factory: pytest.TempPathFactory) -> Mapping[str, Asked]:
    """All of them asked once more."""
    with answering(tmp_path_factory.mktemp("asked")) as client:
        return answers(client)


def shape(value: Any) -> Any:
    """What is told, without what it says: names and kinds; of a list the kinds that are in it."""
    if isinstance(value, dict):
        return {name: shape(one) for name, one in value.items()}
    if isinstance(value, list):
        return list({repr(kind): kind for kind in map(shape, value)}.values())
    return "number" if isinstance(value, float | int) and not isinstance(value, bool) else type(value).__name__


@pytest.mark.parametrize("name", list(OPERATIONS))
def test_a_route_answers_what_the_document_shows(now: Mapping[str, Asked], name: str) -> None:
    kept, found = KEPT[name], now[name]
    assert (found["method"], found["status"]) == (kept["method"], kept["status"])
    remedy = "what is shown is not what is answered: python tests/api_answers.py"
    if isinstance(kept.get("answer"), str):
        assert kept["answer"].splitlines()[0].partition(" ")[0] == found["answer"].splitlines()[0].partition(" ")[0], (
            remedy
        )
    else:
        assert shape(found.get("answer")) == shape(kept.get("answer")), remedy
    assert shape(found.get("body")) == shape(kept.get("body")), remedy


@pytest.mark.parametrize("name", [name for name, kept in KEPT.items() if isinstance(kept.get("answer"), dict)])
def test_what_is_shown_is_as_the_schema_says(name: str) -> None:
    _, _, operation = OPERATIONS[name]
    content = operation["responses"][str(KEPT[name]["status"])]["content"]["application/json"]
    jsonschema_rs.validate({**content["schema"], "components": DOCUMENT["components"]}, KEPT[name]["answer"])


# ── every example of a body ───────────────────────────────────────────────────────────────────────────────────────


@pytest.fixture(scope="module")
def client(tmp_path_factory: pytest.TempPathFactory) -> Iterator[TestClient]:
    with answering(tmp_path_factory.mktemp("sent")) as found:
        yield found


@pytest.fixture(scope="module")
def set_id(client: TestClient) -> str:
    """A set with the items that the examples of its routes name."""
    example = OPERATIONS["freeze_set"][2]["requestBody"]["content"]["application/json"]["examples"]["found"]["value"]
    answer = client.post("/v1/reference-sets", json={**example, "settings": {"parrot": "rated"}})
    assert answer.status_code == 201, answer.text
    return str(answer.json()["id"])


@pytest.fixture(scope="module")
def evaluation(client: TestClient) -> tuple[str, str]:
    """The ids of an upload and of an evaluation of it that is done."""
    table = b"id,prompt,gold,answer\nd1,who is it,it is me,me\nd2,where,here,there\n"
    sent = client.post("/v1/uploads?name=t.csv", content=table, headers={"Content-Type": "application/octet-stream"})
    order = {"kind": "score", "items": f"upload:{sent.json()['id']}", "map": ["reply:new=answer"], "metrics": ["chrf"]}
    queued = client.post("/v1/evaluations", json=order).json()["id"]
    assert run_worker(client.app.state.refaug.home, ServeSettings(), once=True) == 0  # type: ignore[attr-defined]
    return str(sent.json()["id"]), str(queued)


# One request leads to the next there: they are asked in their order in the test of all answers.
WALKED = ("/v1/studies", "/v1/take")
EXAMPLES = [
    (name, called)
    for name, (_, _, operation) in OPERATIONS.items()
    if not OPERATIONS[name][1].startswith(WALKED)
    for called in operation.get("requestBody", {}).get("content", {}).get("application/json", {}).get("examples", {})
]
# Names that are only there where they were made: these are 404, and the document says so.
NOT_THERE = {
    ("publish_artefact", "a version"),
    ("score_by_hybrid", "conversations"),
    ("score_by_hybrid", "self-play"),
}
NEEDS_KEYS = {"create_key"}  # this server asks for none: 409, and the document says so


@pytest.mark.parametrize(("name", "called"), EXAMPLES)
def test_every_example_of_a_body_is_answered_well(
    client: TestClient, set_id: str, evaluation: tuple[str, str], name: str, called: str
) -> None:
    method, path, operation = OPERATIONS[name]
    body = operation["requestBody"]["content"]["application/json"]["examples"][called]["value"]
    if name == "combine_scores":  # sums are bound to what made them; those of another machine do as well
        assert body["batches"][0]["stats"][0]["metric"] == "bleu"
    body = orjson.loads(re.sub(rb"upload:[0-9a-z]+", f"upload:{evaluation[0]}".encode(), orjson.dumps(body)))
    at = evaluation[1] if "evaluations" in path else set_id
    address = path.format(id=at, kind="index", name="chat", place=0)
    answer = client.request(method, address, json=body)
    if (name, called) in NOT_THERE:
        assert (answer.status_code, answer.json()["code"]) == (404, "not_found")
    elif name in NEEDS_KEYS:
        assert (answer.status_code, "409" in operation["responses"]) == (409, True)
    elif called == "the one before" and answer.status_code == 409:
        assert "409" in operation["responses"]  # there is none before the first
    else:
        assert 200 <= answer.status_code < 300, answer.text
        content = operation["responses"][str(answer.status_code)]["content"]["application/json"]
        jsonschema_rs.validate({**content["schema"], "components": DOCUMENT["components"]}, answer.json())


def test_there_are_examples_of_every_body() -> None:
    with_body = {
        name
        for name, (_, path, operation) in OPERATIONS.items()
        if "requestBody" in operation and not path.startswith(WALKED)
    }
    with_body.remove("upload_file")  # which is sent a file
    assert {name for name, _ in EXAMPLES} == with_body
    assert len(EXAMPLES) > len(with_body)
