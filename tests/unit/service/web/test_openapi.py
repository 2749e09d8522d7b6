"""The OpenAPI document says of every route what it takes, what it answers and who may ask; its page fetches nothing."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import orjson
import pytest
from fastapi import FastAPI
from safeguards import has_extra
from starlette.testclient import TestClient

from refaug.core.home import Settings
from refaug.core.version import VERSION
from refaug.service.scopes import Scope
from refaug.service.server_settings import ServeSettings
from refaug.service.web.app import create_app
from refaug.service.web.connection.body import MODELS
from refaug.service.web.openapi import errors, examples

WITH_ROUTES = ("conversations", "studies")
PROBLEM = {"application/problem+json": {"schema": {"$ref": "#/components/schemas/ProblemOut"}}}


@pytest.fixture(scope="module")
def app(tmp_path_factory: pytest.TempPathFactory) -> FastAPI:
    return create_app(Settings(home=tmp_path_factory.mktemp("home")), ServeSettings(allowed_hosts="testserver"))


@pytest.fixture(scope="module")
def document(app: FastAPI) -> dict[str, Any]:
    return app.openapi()


@pytest.fixture
def client(app: FastAPI) -> TestClient:
    return TestClient(app)  # not started: pages need none of the parts


def operations(document: dict[str, Any]) -> Iterator[tuple[str, str, dict[str, Any]]]:
    for path, found in document["paths"].items():
        for method, operation in found.items():
            yield path, method, operation


def refs(value: Any) -> Iterator[str]:
    if isinstance(value, dict):
        if isinstance(value.get("$ref"), str):
            yield value["$ref"]
        for inner in value.values():
            yield from refs(inner)
    elif isinstance(value, list):
        for inner in value:
            yield from refs(inner)


def test_it_names_the_service_and_the_routes_that_score(document: dict[str, Any]) -> None:
    assert (document["info"]["title"], document["info"]["version"]) == ("refaug", VERSION)
    found = {(method, path): operation["operationId"] for path, method, operation in operations(document)}
    assert found["post", "/v1/references"] == "find_references"
    assert found["post", "/v1/scores"] == "score"
    assert found["post", "/v1/scores/combine"] == "combine_scores"
    assert found["post", "/v1/ratings"] == "rate"
    assert found["get", "/v1/metrics"] == "list_metrics"
    assert found["get", "/healthz"] == "get_health"
    assert found["get", "/readyz"] == "get_readiness"
    assert found["get", "/metrics"] == "get_figures"
    assert len(set(found.values())) == len(found)


def test_every_route_says_what_it_does_under_a_tag_that_is_described(document: dict[str, Any]) -> None:
    tags = {tag["name"] for tag in document["tags"]}
    for path, method, operation in operations(document):
        assert len(operation["description"]) > 20, (method, path)
        assert operation["description"].startswith(f"{operation['summary']}."), (method, path)
        assert set(operation["tags"]) <= tags, (method, path)
        assert operation["tags"], (method, path)
        for parameter in operation.get("parameters", []):
            assert parameter["description"], (method, path, parameter["name"])


def test_every_error_is_a_problem_and_routes_list_all_common_ones(document: dict[str, Any]) -> None:
    for path, method, operation in operations(document):
        told = operation["responses"]
        assert {"500"} | ({"503"} if path != "/healthz" else set()) <= set(told), (method, path)
        if "requestBody" in operation:
            assert {"400", "408", "413", "415", "422"} <= set(told), (method, path)
        for status, answer in told.items():
            assert answer["headers"]["X-Request-Id"]["schema"] == {"type": "string"}
            assert ("Retry-After" in answer["headers"]) == (status in ("429", "503")), (method, path, status)
            if int(status) >= 400:
                assert answer["content"] == PROBLEM, (method, path, status)
                assert answer["description"]
    assert not [name for name in document["components"]["schemas"] if name.startswith("HTTP")]


def test_no_route_promises_an_error_that_it_cannot_give(document: dict[str, Any]) -> None:
    given = {operation["operationId"]: set(operation["responses"]) for _, _, operation in operations(document)}
    assert given["get_health"] == {"200", "500"}  # never refused, and it looks at nothing
    assert given["get_problem"] == {"200", "404", "500", "503"}  # any text may be asked for: 404, not 422
    assert "422" not in given["get_artefact"]
    assert "422" in given["get_job"]  # an id has a form
    writing = {name for name, statuses in given.items() if "507" in statuses}
    assert writing >= {
        *("freeze_set", "derive_set", "withdraw_set", "post_dialogues", "erase_dialogue", "publish_artefact"),
        *("start_job", "cancel_job", "put_schedule", "delete_schedule"),
    }
    assert not writing & {
        "find_references",
        "score",
        "rate",
        "score_against_set",
        "list_metrics",
        "get_artefact",
        "get_set",
    }


def test_where_something_was_made_is_told_in_a_header(document: dict[str, Any]) -> None:
    told = {
        (operation["operationId"], status)
        for _, _, operation in operations(document)
        for status, answer in operation["responses"].items()
        if "Location" in answer["headers"]
    }
    assert told == {
        *(("freeze_set", status) for status in ("200", "201", "202")),
        *(("derive_set", status) for status in ("200", "201")),
        *(("erase_dialogue", "202"), ("start_job", "202"), ("start_evaluation", "202"), ("upload_file", "201")),
        *([("create_study", "201")] if has_extra("studies") else []),
    }


def test_every_route_under_v1_asks_for_a_key_of_a_scope_that_it_names(document: dict[str, Any]) -> None:
    for path, method, operation in operations(document):
        if path.startswith("/v1/take/"):  # a session that an invitation opens stands for a key
            assert "security" not in operation
        elif path.startswith("/v1/") or path == "/metrics":
            assert {"401", "403", "429"} <= set(operation["responses"]), (method, path)
            said = re.search("one with the scope ([a-z` -]+) is needed", operation["description"])
            if path == "/v1/key":  # what any key may ask: what it allows
                assert "any one is needed" in operation["description"]
                assert operation["security"] == [{"bearer": []}, {"key": []}, {}]
                continue
            assert said is not None, (method, path)
            scopes = re.findall("`([a-z-]+)`", said[1])
            assert scopes
            assert set(scopes) <= set(Scope)
            ways = [{kind: [scope]} for scope in scopes for kind in ("bearer", "key")]
            assert operation["security"] == [*ways, {}]
        else:
            assert "security" not in operation
    assert set(document["components"]["securitySchemes"]) == {"bearer", "key"}


def test_every_reference_leads_somewhere(document: dict[str, Any]) -> None:
    schemas = {f"#/components/schemas/{name}" for name in document["components"]["schemas"]}
    assert set(refs(document)) <= schemas
    assert len(set(refs(document))) > 20


def test_every_body_describes_its_fields_with_valid_examples(document: dict[str, Any]) -> None:
    for path, method, operation in operations(document):
        if "requestBody" not in operation:
            continue
        if operation["operationId"] == "upload_file":  # the bytes of a file
            assert set(operation["requestBody"]["content"]) == {"application/octet-stream"}
            continue
        content = operation["requestBody"]["content"]["application/json"]
        name = content["schema"]["$ref"].rpartition("/")[2]
        schema = document["components"]["schemas"][name]
        for field, of in schema.get("properties", {}).items():
            assert of.get("description"), (name, field)
        for called, example in content.get("examples", {}).items():
            assert MODELS[name].model_validate_json(orjson.dumps(example["value"])), (method, path, called)


@pytest.mark.parametrize("name", ["ReferencesIn", "ScoresIn", "SetIn"])
def test_items_are_spelled_out(document: dict[str, Any], name: str) -> None:
    schemas = document["components"]["schemas"]
    assert schemas[name]["properties"]["items"]["items"] == {"$ref": "#/components/schemas/Item"}
    assert {"id", "utterance", "turns", "references", "replies", "dialogue", "time", "exclude"} <= set(
        schemas["Item"]["properties"]
    )
    assert {"$ref": "#/components/schemas/Reference"} in schemas["Item"]["properties"]["references"]["items"]["anyOf"]


def nameless(value: Any, at: str) -> Iterator[str]:
    """Places in a document where a field says nothing of itself, or may be anything."""
    if isinstance(value, list):
        for number, one in enumerate(value):
            yield from nameless(one, f"{at}[{number}]")
    elif isinstance(value, dict):
        for name, schema in value.get("properties", {}).items():
            if not schema.get("description") and "$ref" not in schema:
                yield f"{at}.{name}: no description"
            if not {"type", "$ref", "anyOf", "oneOf", "enum", "const"} & set(schema):
                yield f"{at}.{name}: no type"
        for name in ("schema", "items"):
            if name in value and value[name] in ({}, True):
                yield f"{at}.{name}: anything"
        for name, inner in value.items():
            if name not in ("example", "examples"):
                yield from nameless(inner, f"{at}.{name}")


def test_every_field_of_every_schema_is_described_and_has_a_type(document: dict[str, Any]) -> None:
    assert list(nameless(document["paths"], "paths")) == []
    assert list(nameless(document["components"]["schemas"], "")) == []


def test_every_operation_has_an_example_that_was_answered(document: dict[str, Any]) -> None:
    found = {operation["operationId"]: operation for _, _, operation in operations(document)}
    left = set(examples()) - set(found)
    assert (set(found) - set(examples()), bool(left)) == (set(), not all(map(has_extra, WITH_ROUTES)))
    for name, operation in found.items():
        kept = examples()[name]
        if "answer" in kept:
            contents = operation["responses"][str(kept["status"])]["content"].values()
            assert [content["example"] for content in contents if "example" in content] == [kept["answer"]]
        if "requestBody" in operation and name != "upload_file":  # which is sent a file
            assert operation["requestBody"]["content"]["application/json"]["examples"]
        for parameter in operation.get("parameters", []):
            if parameter["in"] == "path":
                assert f"/{parameter['example']}" in kept["path"]


def test_what_an_error_means_is_said_in_words() -> None:
    assert errors(404, 409)[404]["description"] == "There is nothing of that name: `not_found`."
    assert list(errors(404, 409)) == [404, 409]
    with pytest.raises(KeyError):
        errors(418)


# ── pages ─────────────────────────────────────────────────────────────────────────────────────────────────────────


def addresses(page: str) -> list[str]:
    return re.findall(r'(?:src|href)="([^"]*)"', page)


def test_the_document_is_packed_for_those_who_take_it_so(client: TestClient, document: dict[str, Any]) -> None:
    plain = client.get("/openapi.json", headers={"Accept-Encoding": "identity"})
    packed = client.get("/openapi.json", headers={"Accept-Encoding": "br, gzip"})
    assert plain.json() == packed.json() == document
    assert "content-encoding" not in plain.headers
    assert (packed.headers["content-encoding"], packed.headers["vary"]) == ("gzip", "Accept-Encoding")
    assert int(packed.headers["content-length"]) < int(plain.headers["content-length"]) / 8


def test_the_root_is_a_page_that_leads_to_the_api(client: TestClient) -> None:
    answer = client.get("/")
    assert answer.status_code == 200
    assert "/docs" in addresses(answer.text)
    assert client.get("/docs/files/swagger-ui.css").status_code == 404


def test_under_the_path_of_a_proxy_everything_lies_there(app: FastAPI) -> None:
    client = TestClient(app, root_path="/refaug")
    assert all(path.startswith("/refaug/") for path in addresses(client.get("/").text) if not path.startswith("#"))
    assert all(path.startswith("/refaug/") for path in addresses(client.get("/docs").text) if not path.startswith("#"))
    assert client.get("/openapi.json").json()["servers"] == [{"url": "/refaug"}]
    assert "servers" not in TestClient(app).get("/openapi.json").json()
    assert client.get("/refaug/healthz").status_code == 200  # as the server has it of a proxy that takes the path away
    told = client.get("/refaug/refaug/healthz")  # and of one that does not
    assert (told.status_code, told.json()["code"], "proxy" in told.json()["remedy"]) == (404, "unknown_path", True)


def test_a_code_can_be_looked_up(client: TestClient) -> None:
    told = client.get("/problems/no_rater").json()
    assert (told["code"], told["status"], told["title"]) == (
        "no_rater",
        409,
        "A rater is needed, and none is published",
    )
    answer = client.get("/problems/no_such")
    assert answer.status_code == 404
    assert answer.json()["remedy"].startswith("one of: ")
    assert "no_rater" in answer.json()["remedy"]


@pytest.mark.parametrize(
    ("path", "status", "shown"),
    [
        ("/problems/no_rater", 200, "A rater is needed, and none is published"),
        ("/problems/no_such", 404, 'href="/problems/no_rater"'),
        ("/nowhere", 404, "Nothing answers at this path"),
    ],
)
def test_a_browser_gets_problems_as_a_page(client: TestClient, path: str, status: int, shown: str) -> None:
    accepted = "text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8"
    page = client.get(path, headers={"Accept": accepted})
    assert (page.status_code, page.headers["content-type"]) == (status, "text/html; charset=utf-8")
    assert shown in page.text
    assert 'href="/studies"' in page.text or 'href="/evaluate"' in page.text
    assert "script-src 'self'" in page.headers["content-security-policy"]
    for of_program in ({}, {"Accept": "text/html, image/gif, image/jpeg, *; q=.2, */*; q=.2"}):  # Java's own, too
        document = client.get(path, headers=of_program)
        assert document.headers["content-type"].startswith("application/")
    assert page.headers["vary"].startswith("Accept,")


def test_metrics_are_listed_with_their_parameters(client: TestClient, app: FastAPI) -> None:
    del client
    with TestClient(app) as running:
        found = {one["name"]: one for one in running.get("/v1/metrics").json()["metrics"]}
    upsilon = found["upsilon-bleu"]
    assert (upsilon["references"], upsilon["range"], upsilon["corpus_from"]) == ("weighted", [0, 1], "sums")
    assert upsilon["parameters"][0] == {
        "name": "n",
        "default": "2",
        "values": "a whole number from 1 to 4",
        "choices": None,
        "help": "the longest n-grams that are looked at",
    }
    variant = next(one for one in upsilon["parameters"] if one["name"] == "variant")
    assert variant["choices"] == ["galley15", "galley-fork", "tsuta20", "sacrebleu-raw"]
    assert (found["ter"]["range"], found["ter"]["higher_is_better"]) == ([0, None], False)
    assert "a ruber" in found["ruber"]["needs"]


def test_the_app_is_the_same_for_a_path_with_and_without_a_home(tmp_path: Path, document: dict[str, Any]) -> None:
    other = create_app(Settings(home=tmp_path / "nowhere"), ServeSettings(port=0, keys=True)).openapi()
    assert other == document
