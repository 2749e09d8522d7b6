"""The OpenAPI document: what FastAPI derives from the routes, with bodies, errors, scopes and examples added.

Routes say what they need and answer by `route_options`, and read their bodies themselves, so the models are added here.
Errors have one shape and a media type; the scope that a route needs is an attribute of one of its dependencies.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any, Final

import orjson
from fastapi import Depends, FastAPI
from fastapi.encoders import jsonable_encoder
from fastapi.openapi.utils import get_openapi
from fastapi.routing import APIRoute, iter_route_contexts
from pydantic import BaseModel
from pydantic.json_schema import JsonSchemaMode, models_json_schema

from refaug.service.scopes import Scope
from refaug.service.web.connection.body import MODELS, request_body
from refaug.service.web.dependencies import Requires
from refaug.service.web.problems import MEDIA_TYPE, ProblemOut

EXAMPLES_FILE: Final = Path(__file__).with_name("examples.json")  # recorded by tests/api_answers.py
_REQUESTS_FILE: Final = Path(__file__).with_name(
    "request_examples.json"
)  # by operation and title; the first is recorded
TEXT: Final[Mapping[str, Any]] = {"schema": {"type": "string"}}
BINARY: Final[Mapping[str, Any]] = {"schema": {"type": "string", "format": "binary"}}
_REF: Final = "#/components/schemas/{model}"
_PROBLEM: Final = {MEDIA_TYPE: {"schema": {"$ref": _REF.format(model=ProblemOut.__name__)}}}
_STATUS_DESCRIPTIONS: Final[Mapping[int, str]] = {
    400: "The request makes no sense as it stands: `usage`.",
    401: "No key was given, or none that is known: `no_key`.",
    403: "The caller may not do this: `not_allowed`.",
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
_STATUSES_OF_ALL: Final = (500, 503)
_NEVER_BUSY_PATH: Final = "/healthz"  # always answers, also under load
_STATUSES_OF_KEYS: Final = (401, 403, 429)
_STATUSES_OF_BODIES: Final = (400, 408, 413, 415, 422)
_WRITING_SCOPES: Final = frozenset({Scope.WRITE, Scope.ADMIN})
_SECURITY: Final = {
    "bearer": {"type": "http", "scheme": "bearer", "description": "`Authorization: Bearer refaug_…`"},
    "key": {"type": "apiKey", "in": "header", "name": "X-API-Key", "description": "The same key in another header."},
}


def _header(description: str, kind: str = "string") -> dict[str, Any]:
    return {"description": description, "schema": {"type": kind}}


_HEADERS_OF_ALL: Final = {
    "X-Request-Id": _header("Names the request in the server's log: the one that it came with, or a new one.")
}
_RETRY_AFTER: Final = {"Retry-After": _header("Seconds after which it is worth to come again.", "integer")}
_HEADERS_OF_STATUSES: Final[Mapping[int, Mapping[str, Any]]] = {
    401: {"WWW-Authenticate": _header("`Bearer`.")},
    416: {"Content-Range": _header("How large the file is: `bytes */1234`.")},
    429: _RETRY_AFTER,
    503: _RETRY_AFTER,
}
_CREATED_HEADERS: Final[Mapping[str, Any]] = {
    "Location": _header("Where it is."),
    "Idempotent-Replayed": _header("`true`: this is the answer that the same `Idempotency-Key` got before."),
}
ETAG_HEADER: Final[Mapping[str, Any]] = {"ETag": _header("Names the bytes; for `If-None-Match`.")}


def route_options(
    scope: Scope | None,
    answers: type[BaseModel] | Mapping[int, type[BaseModel] | Mapping[str, Any]],
    *error_statuses: int,
    body: type[BaseModel] | None = None,
    examples: Mapping[str, object] | None = None,
    other_scope: Scope | None = None,
) -> dict[str, Any]:
    """Return how a router takes a route: who may request it, what it reads and answers, and which errors it has.

    `answers` is the model of the only answer, with status 200, or the model of each status, of which the first is the
    usual one. `examples` of the body follow those of the file.
    """
    models = answers if isinstance(answers, Mapping) else {200: answers}
    responses = {
        status: answer if isinstance(answer, Mapping) else {"model": answer} for status, answer in models.items()
    }
    return {
        "dependencies": [Depends(Requires(scope, other_scope))],
        "status_code": next(iter(models)),
        "responses": {**responses, **errors(*error_statuses)},
        **({} if body is None else {"openapi_extra": request_body(body, examples=examples)}),
    }


def created(model: type[BaseModel], description: str | None = None) -> dict[str, Any]:
    """Return the response that something was created, or will be, for `answers` of `route_options`."""
    described = {} if description is None else {"description": description}
    return {"model": model, "headers": _CREATED_HEADERS, **described}


def raw(description: str, contents: Mapping[str, Mapping[str, Any]]) -> dict[str, Any]:
    """Return a response that is no JSON, by its media types, for `answers` of `route_options`."""
    return {"description": description, "content": contents}


def errors(*statuses: int) -> dict[int | str, dict[str, Any]]:
    """Return the error responses of a route, for its `responses`; those of all routes are added automatically."""
    return {status: _error(status) for status in statuses}


def _error(status: int) -> dict[str, Any]:
    headers = {"headers": dict(_HEADERS_OF_STATUSES[status])} if status in _HEADERS_OF_STATUSES else {}
    return {"description": _STATUS_DESCRIPTIONS[status], "content": _PROBLEM, **headers}


def operation_id(route: APIRoute) -> str:
    """Return the function's name, so that generated clients read like ours."""
    return route.name


def openapi_document(app: FastAPI, *, description: str, tags: Sequence[Mapping[str, str]]) -> dict[str, Any]:
    """Return the whole document; called once."""
    openapi = get_openapi(
        title=app.title,
        version=app.version,
        description=description,
        routes=app.routes,
        tags=[dict(tag) for tag in tags],
    )
    routes = {(path, method.lower()): route for path, route in _routes(app) for method in route.methods or ()}
    for path, operations in openapi["paths"].items():
        for method, operation in operations.items():
            _complete(operation, path, routes[path, method])
            _add_examples(operation, path)
    schemas = openapi.setdefault("components", {}).setdefault("schemas", {})
    for name in ("HTTPValidationError", "ValidationError"):
        schemas.pop(name, None)
    _merge(schemas, _body_schemas())
    openapi["components"]["schemas"] = _extract_titled(schemas)
    openapi["components"]["securitySchemes"] = _SECURITY
    return openapi


def _routes(app: FastAPI) -> Iterator[tuple[str, APIRoute]]:
    """Yield every route in the document by its full path."""
    for context in iter_route_contexts(app.routes):
        route = context.original_route
        if isinstance(route, APIRoute) and route.include_in_schema:
            yield route.path_format, route


def _complete(operation: dict[str, Any], path: str, route: APIRoute) -> None:
    """Add the errors and headers of all routes, and the scope that the route needs."""
    statuses = [status for status in _STATUSES_OF_ALL if (status, path) != (503, _NEVER_BUSY_PATH)]
    if any(_is_validated(one["schema"]) for one in operation.get("parameters", [])):
        statuses.append(422)
    if "requestBody" in operation:
        statuses += _STATUSES_OF_BODIES
    operation["summary"] = operation["description"].partition("\n\n")[0].rstrip(".")
    required = next((one.call for one in route.dependant.dependencies if isinstance(one.call, Requires)), None)
    if required is not None:
        scope = required.scope
        statuses += [*_STATUSES_OF_KEYS, *((507,) if scope in _WRITING_SCOPES else ())]
        scopes = [each.value for each in (scope, required.other) if each is not None]
        # OpenAPI 3.1 has a place for what a key must be allowed; one of the requirements is enough.
        roles = [[name] for name in scopes] or [[]]
        operation["security"] = [*({kind: role} for role in roles for kind in ("bearer", "key")), {}]
        either = " or ".join(f"`{name}`" for name in scopes)
        which = f"one with the scope {either}" if scopes else "any one"
        requirement = f"Where keys are required, {which} is needed."
        operation["description"] = f"{operation.get('description', '')}\n\n{requirement}".strip()
    answers = operation["responses"]
    for status, answer in errors(*statuses).items():
        if str(status) not in answers or "HTTPValidationError" in str(answers[str(status)]):
            answers[str(status)] = answer
    answers = {status: one for status, one in answers.items() if "HTTPValidationError" not in str(one)}
    for answer in answers.values():
        answer["headers"] = {**_HEADERS_OF_ALL, **answer.get("headers", {})}
    operation["responses"] = dict(sorted(answers.items()))


def _add_examples(operation: dict[str, Any], path: str) -> None:
    """Add a recorded request and its response."""
    example = examples().get(operation["operationId"])
    if example is None:
        return
    parameters = re.fullmatch(re.sub(r"{(\w+)}", r"(?P<\1>[^?]+)", path) + r"(\?.*)?", example["path"])
    assert parameters is not None, example["path"]
    for parameter in operation.get("parameters", []):
        if parameter["in"] == "path":
            parameter["example"] = parameters[parameter["name"]]
    if "body" in example:
        content = operation["requestBody"]["content"]["application/json"]
        bodies = _request_examples().get(operation["operationId"], {})
        named = {title: {"value": body} for title, body in bodies.items()} | content.get("examples", {})
        content["examples"] = named or {"one": {"value": example["body"]}}
    if "answer" in example:
        content, *_ = operation["responses"][str(example["status"])]["content"].values()  # of the type that comes first
        content["example"] = example["answer"]


@cache
def examples() -> dict[str, dict[str, Any]]:
    """Return a recorded request and response of every operation, by its id."""
    examples: dict[str, dict[str, Any]] = orjson.loads(EXAMPLES_FILE.read_bytes())
    return examples


@cache
def _request_examples() -> dict[str, dict[str, Any]]:
    """Return the bodies of an operation's examples by their titles, by its id."""
    bodies: dict[str, dict[str, Any]] = orjson.loads(_REQUESTS_FILE.read_bytes())
    return bodies


def _is_validated(schema: Mapping[str, Any]) -> bool:
    """Return whether a parameter can be invalid; any string is a valid string."""
    return {name: value for name, value in schema.items() if name not in ("title", "description")} != {"type": "string"}


def _body_schemas() -> dict[str, Any]:
    """Return the schemas of bodies that routes read themselves, of all models in them, and of errors."""
    bodies: list[tuple[type[BaseModel], JsonSchemaMode]] = [(model, "validation") for model in MODELS.values()]
    _, definitions = models_json_schema([*bodies, (ProblemOut, "serialization")], ref_template=_REF)
    schemas: dict[str, Any] = jsonable_encoder(definitions["$defs"], exclude_none=True)  # as FastAPI does
    return schemas


def _extract_titled(schemas: Mapping[str, Any]) -> dict[str, Any]:
    """Replace titled objects inside models by references to schemas under their titles."""
    titled = dict[str, Any]()

    def without(node: Any) -> Any:
        if isinstance(node, list):
            return [without(one) for one in node]
        if not isinstance(node, dict):
            return node
        inner = {name: without(one) for name, one in node.items()}
        if isinstance(inner.get("properties"), dict) and "title" in inner:
            _merge(titled, {inner["title"]: inner})
            return {"$ref": _REF.format(model=inner["title"])}
        return inner

    for name, schema in schemas.items():
        _merge(titled, {name: {key: without(value) for key, value in schema.items()}})
    return dict(sorted(titled.items()))


def _merge(schemas: dict[str, Any], more: Mapping[str, Any]) -> None:
    for name, schema in more.items():
        assert schemas.get(name, schema) == schema, f"two models are called {name}"
        schemas[name] = schema
