"""The OpenAPI document: what FastAPI finds in the routes, and what it cannot see there.

Bodies are read by the routes themselves, so their models are added here; errors have one shape and a media type of
their own; and which key a route asks for stands in its dependencies.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any, Final

import orjson
from fastapi import FastAPI
from fastapi.encoders import jsonable_encoder
from fastapi.openapi.utils import get_openapi
from fastapi.routing import APIRoute, iter_route_contexts
from pydantic import BaseModel
from pydantic.json_schema import JsonSchemaMode, models_json_schema

from service.keys import Scope
from service.web.body import MODELS
from service.web.deps import Requires
from service.web.problems import MEDIA_TYPE, ProblemOut

ANSWERS: Final = Path(__file__).with_name("examples.json")  # real ones; tests/api_answers.py writes them down
_REF: Final = "#/components/schemas/{model}"
_PROBLEM: Final = {MEDIA_TYPE: {"schema": {"$ref": _REF.format(model=ProblemOut.__name__)}}}
_SAID: Final[Mapping[int, str]] = {
    400: "The request makes no sense as it stands: `usage`.",
    401: "No key was given, or none that is known: `no_key`.",
    403: "Whoever asks may not do this: `not_allowed`.",
    404: "There is nothing of that name: `not_found`.",
    408: "The body did not come in time: `body_timeout`.",
    409: "The request contradicts what is there: `conflict`, `locked`, `no_rater` and others.",
    410: "The reference set was withdrawn: `withdrawn`.",
    413: "More than the settings of the server allow: `too_large`.",
    415: "The body is of a type, or packed in a way, that is not read: `unsupported_media_type`.",
    416: "The part of the file that was asked for is not in it.",
    422: "Something in the request cannot be used, and `errors` says what and where: `bad_input` and others.",
    429: "More requests than the key is allowed: `too_many_requests`; see `Retry-After`.",
    500: "Our own fault: `internal`, or a damaged artefact: `corrupt`.",
    501: "Something that the request needs is not installed on the server: `missing_part`.",
    503: "Not now: `overloaded`, `expired` or `unavailable`; see `Retry-After`.",
    507: "The server's disk is full: `storage_full`.",
}
_OF_EVERY_ROUTE: Final = (500, 503)
_NEVER_BUSY: Final = "/healthz"  # answers whoever asks, whatever else is going on
_OF_KEYS: Final = (401, 403, 429)
_OF_BODIES: Final = (400, 408, 413, 415, 422)
_WRITING: Final = frozenset({Scope.WRITE, Scope.ADMIN})
_SECURITY: Final = {
    "bearer": {"type": "http", "scheme": "bearer", "description": "`Authorization: Bearer refaug_…`"},
    "key": {"type": "apiKey", "in": "header", "name": "X-API-Key", "description": "The same key in another header."},
}


def _header(description: str, kind: str = "string") -> dict[str, Any]:
    return {"description": description, "schema": {"type": kind}}


_OF_EVERY_ANSWER: Final = {
    "X-Request-Id": _header("Names the request in the server's log: the one that it came with, or a new one.")
}
_WHEN: Final = {"Retry-After": _header("Seconds after which it is worth to come again.", "integer")}
_OF_ERRORS: Final[Mapping[int, Mapping[str, Any]]] = {
    401: {"WWW-Authenticate": _header("`Bearer`.")},
    416: {"Content-Range": _header("How large the file is: `bytes */1234`.")},
    429: _WHEN,
    503: _WHEN,
}
# Of answers that something was made, or will be.
MADE: Final[Mapping[str, Any]] = {
    "Location": _header("Where it is."),
    "Idempotent-Replayed": _header("`true`: this is the answer that the same `Idempotency-Key` got before."),
}
TAG: Final[Mapping[str, Any]] = {"ETag": _header("Names the bytes; for `If-None-Match`.")}


def errors(*statuses: int) -> dict[int | str, dict[str, Any]]:
    """What a route answers where it goes wrong, for its `responses`; what goes for all routes is added by itself."""
    return {status: _error(status) for status in statuses}


def _error(status: int) -> dict[str, Any]:
    headers = {"headers": dict(_OF_ERRORS[status])} if status in _OF_ERRORS else {}
    return {"description": _SAID[status], "content": _PROBLEM, **headers}


def operation_id(route: APIRoute) -> str:
    """The name of the function: clients that are generated read like ours."""
    return route.name


def document(app: FastAPI, *, description: str, tags: Sequence[Mapping[str, str]]) -> dict[str, Any]:
    """The whole document; made once."""
    found = get_openapi(
        title=app.title,
        version=app.version,
        description=description,
        routes=app.routes,
        tags=[dict(tag) for tag in tags],
    )
    routes = {(path, method.lower()): route for path, route in _routes(app) for method in route.methods or ()}
    for path, operations in found["paths"].items():
        for method, operation in operations.items():
            _complete(operation, path, routes[path, method])
            _illustrate(operation, path)
    schemas = found.setdefault("components", {}).setdefault("schemas", {})
    for name in ("HTTPValidationError", "ValidationError"):
        schemas.pop(name, None)
    _add(schemas, _models())
    found["components"]["schemas"] = _named(schemas)
    found["components"]["securitySchemes"] = _SECURITY
    return found


def _routes(app: FastAPI) -> Iterator[tuple[str, APIRoute]]:
    """Every route that is in the document, by its whole path."""
    for context in iter_route_contexts(app.routes):
        route = context.original_route
        if isinstance(route, APIRoute) and route.include_in_schema:
            yield route.path_format, route


def _complete(operation: dict[str, Any], path: str, route: APIRoute) -> None:
    """The errors and headers that go without saying, and whose key the route asks for."""
    statuses = [status for status in _OF_EVERY_ROUTE if (status, path) != (503, _NEVER_BUSY)]
    if any(_is_checked(one["schema"]) for one in operation.get("parameters", [])):
        statuses.append(422)
    if "requestBody" in operation:
        statuses += _OF_BODIES
    operation["summary"] = operation["description"].partition("\n\n")[0].rstrip(".")
    scope = next((one.call.scope for one in route.dependant.dependencies if isinstance(one.call, Requires)), None)
    if scope is not None:
        statuses += [*_OF_KEYS, *((507,) if scope in _WRITING else ())]
        operation["security"] = [{"bearer": []}, {"key": []}, {}]
        said = f"Where keys are asked for, one with the scope `{scope.value}` is needed."
        operation["description"] = f"{operation.get('description', '')}\n\n{said}".strip()
    answers = operation["responses"]
    for status, answer in errors(*statuses).items():
        if str(status) not in answers or "HTTPValidationError" in str(answers[str(status)]):
            answers[str(status)] = answer
    answers = {status: one for status, one in answers.items() if "HTTPValidationError" not in str(one)}
    for answer in answers.values():
        answer["headers"] = {**_OF_EVERY_ANSWER, **answer.get("headers", {})}
    operation["responses"] = dict(sorted(answers.items()))


def _illustrate(operation: dict[str, Any], path: str) -> None:
    """A request that was answered, and what it got."""
    asked = answers().get(operation["operationId"])
    if asked is None:
        return
    there = re.fullmatch(re.sub(r"{(\w+)}", r"(?P<\1>[^?]+)", path) + r"(\?.*)?", asked["path"])
    assert there is not None, asked["path"]
    for parameter in operation.get("parameters", []):
        if parameter["in"] == "path":
            parameter["example"] = there[parameter["name"]]
    if "requestBody" in operation:
        operation["requestBody"]["content"]["application/json"].setdefault(
            "examples", {"one": {"value": asked["body"]}}
        )
    if "answer" in asked:
        (content,) = operation["responses"][str(asked["status"])]["content"].values()
        content["example"] = asked["answer"]


@cache
def answers() -> dict[str, dict[str, Any]]:
    """Of every operation, by its id: what was asked, and what was answered."""
    found: dict[str, dict[str, Any]] = orjson.loads(ANSWERS.read_bytes())
    return found


def _is_checked(schema: Mapping[str, Any]) -> bool:
    """Whether a parameter can be wrong as such; any text is a text."""
    return {name: value for name, value in schema.items() if name not in ("title", "description")} != {"type": "string"}


def _models() -> dict[str, Any]:
    """The schemas of bodies that routes read by themselves, of all that is in them, and of errors."""
    bodies: list[tuple[type[BaseModel], JsonSchemaMode]] = [(model, "validation") for model in MODELS.values()]
    _, found = models_json_schema([*bodies, (ProblemOut, "serialization")], ref_template=_REF)
    schemas: dict[str, Any] = jsonable_encoder(found["$defs"], exclude_none=True)  # as FastAPI does with its own
    return schemas


def _named(schemas: Mapping[str, Any]) -> dict[str, Any]:
    """The same with the objects that are spelled out inside of models as schemas of their own, by their titles."""
    found = dict[str, Any]()

    def without(value: Any) -> Any:
        if isinstance(value, list):
            return [without(one) for one in value]
        if not isinstance(value, dict):
            return value
        inner = {name: without(one) for name, one in value.items()}
        if isinstance(inner.get("properties"), dict) and "title" in inner:
            _add(found, {inner["title"]: inner})
            return {"$ref": _REF.format(model=inner["title"])}
        return inner

    for name, schema in schemas.items():
        _add(found, {name: {key: without(value) for key, value in schema.items()}})
    return dict(sorted(found.items()))


def _add(schemas: dict[str, Any], more: Mapping[str, Any]) -> None:
    for name, schema in more.items():
        assert schemas.get(name, schema) == schema, f"two models are called {name}"
        schemas[name] = schema
