"""Every error in one shape: problem details (RFC 9457) with a stable code, never with status 200."""

from __future__ import annotations

import http
import logging
import math
from collections.abc import Mapping, Sequence
from functools import cache
from typing import Annotated, Any, Final, get_args, get_origin

import orjson
from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.routing import APIRoute, iter_route_contexts
from pydantic import BaseModel, ConfigDict, Field, ValidationError
from starlette.exceptions import HTTPException
from starlette.responses import Response

from refaug.core.errors import Later, NotAllowed, RefaugError, Usage
from refaug.core.text.messages import MOST_SUGGESTIONS, suggestion
from refaug.scoring.items import BadItem
from refaug.service.web.pages.problem_page import VARY, problem_page, wants_page
from refaug.service.web.state import state_of
from refaug.tables.item_fields import ITEM_FIELDS, UnusedField, unused_fields

# ── Fields of a body that nothing looks at: they are named, with the field that was probably meant ────────────────────
#
# An unknown field of an item is no error, since items may carry notes; but where a request is refused, it is often
# the reason: a `"reference"` leaves an item without a gold.

_ANSWERED: Final = ("evidence", "no_reply")  # added to items by answers of /v1/references and /v1/replies
_KNOWN: Final = frozenset({*ITEM_FIELDS, *_ANSWERED})
_MAX_NAMED: Final = 10  # fields that are listed by name


# The place of the first item that has a field which no item, or no reference, has; with the field.
UnknownField = tuple[int, UnusedField]


def unknown_item_fields(posted_items: object) -> list[UnknownField]:
    """Return the unknown fields of the items of a body, as far as these are items."""
    fields = dict[tuple[bool, str], UnknownField]()
    for place, posted_item in enumerate(posted_items if isinstance(posted_items, list) else ()):
        for unused in unused_fields(posted_item, _KNOWN) if isinstance(posted_item, dict) else ():
            fields.setdefault(unused.key, (place, unused))
    return list(fields.values())


def unknown_field_warnings(unknown: Sequence[UnknownField]) -> list[str]:
    """Return a warning for each field, the first ones by name: what commands say, too."""
    more = [f"and {len(unknown) - _MAX_NAMED:,} more fields are not used"] if len(unknown) > _MAX_NAMED else []
    return [unused.warning for _, unused in unknown[:_MAX_NAMED]] + more


def unknown_field_problems(unknown: Sequence[UnknownField]) -> list[dict[str, str]]:
    """Return the first fields as problem documents list them."""
    return [{"field": f"items[{place}].{field.at}", "message": field.fault} for place, field in unknown[:_MAX_NAMED]]


def body_field_suggestion(model: type[BaseModel], location: Sequence[int | str]) -> str:
    """Return which field was probably meant by the last part of a place in a body of this model."""
    *path, name = location
    inner: type[BaseModel] | None = model
    for part in path:
        if isinstance(part, str) and inner is not None:
            inner = _model_of_field(inner, part)
    return suggestion(str(name), _names(inner)) if inner is not None else ""


def _names(model: type[BaseModel]) -> list[str]:
    return [field.alias or name for name, field in model.model_fields.items()]


def _model_of_field(model: type[BaseModel], name: str) -> type[BaseModel] | None:
    """Return the model in a field, also in a list or beside null; None where there is none."""
    field = next((field for key, field in model.model_fields.items() if name in (key, field.alias)), None)
    return None if field is None else _model_in(field.annotation)


def _model_in(annotation: Any) -> type[BaseModel] | None:
    if get_origin(annotation) is Annotated:
        return _model_in(get_args(annotation)[0])
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return annotation
    models = (_model_in(part) for part in get_args(annotation))
    return next((inner for inner in models if inner is not None), None)


# ── Every error in one shape: problem details (RFC 9457) with a stable code, never with status 200 ────────────────────

log = logging.getLogger(__name__)

MEDIA_TYPE: Final = "application/problem+json"
MAX_SHOWN: Final = 100  # errors listed in a response; the others are counted
_CODES: Final = {
    400: "usage",
    401: "no_key",
    403: "not_allowed",
    405: "method_not_allowed",
    408: "body_timeout",
    413: "too_large",
    415: "unsupported_media_type",
    422: "bad_input",
    431: "head_too_large",
    503: "overloaded",
}


class FieldProblem(BaseModel):
    """What is wrong in one place of a request."""

    model_config = ConfigDict(extra="allow")

    item: str | None = Field(default=None, description="id of the item, where it has one")
    place: int | None = Field(default=None, description="the item's place in the list, from 0")
    field: str = Field(description="the field, such as `items[3].references[0].weight`")
    message: str = Field(description="what was found, and what would be right")


class UnknownFieldOut(BaseModel):
    """A field of an item that nothing looks at."""

    field: str = Field(description="the field in the first item that has it, such as `items[0].reference`")
    message: str = Field(description="what is wrong with it, and which field was probably meant")


class ProblemOut(BaseModel):
    """An error: RFC 9457 problem details."""

    model_config = ConfigDict(extra="allow")

    type: str = Field(description="what kind of problem it is: a relative address that ends in its code")
    title: str = Field(description="the kind in a few words; always the same for a code")
    status: int = Field(description="the status of the answer")
    code: str = Field(description="the kind, for programs; it never changes its meaning")
    detail: str = Field(description="what happened")
    remedy: str | None = Field(default=None, description="what would help")
    field: str | None = Field(default=None, description="the option of the request that it is about")
    scope: str | None = Field(default=None, description="the scope that the key lacks")
    request_id: str = Field(description="names this request in the server's log")
    errors: list[FieldProblem] | None = Field(default=None, description="every place that is wrong, the first ones")
    more_errors: int | None = Field(default=None, description="how many more there are")
    unknown_fields: list[UnknownFieldOut] | None = Field(
        default=None, description="fields that no item has: probably typing errors"
    )


class Details:
    """An error with more data than its message: `details` become members of the problem document."""

    details: Mapping[str, Any]


class BadRequest(RefaugError):
    """The request cannot be read as what it should be; its message ends in the first unknown field of its items."""

    code, status = "bad_input", 422

    def __init__(
        self,
        message: str,
        *,
        errors: Sequence[Mapping[str, Any]] = (),
        error_count: int | None = None,
        unknown: Sequence[UnknownField] = (),
        remedy: str = "",
        status: int = 422,
        given_code: str | None = None,
    ) -> None:
        self.errors, self.unknown_fields = list(errors), unknown_field_problems(unknown)
        named = "".join(f"; {one['field']}: {one['message']}" for one in self.unknown_fields[:1])
        super().__init__(f"{message}{named}", remedy=remedy)
        self.given_status, self.given_code = status, given_code or _CODES.get(status, self.code)
        self.error_count = len(self.errors) if error_count is None else error_count


class UnknownPath(RefaugError):
    """Nothing answers at this path."""

    code, exit_code, status = "unknown_path", 3, 404


def bad_items_error(bad: Sequence[BadItem], of: int, unknown: Sequence[UnknownField] = ()) -> BadRequest:
    """Return the error of a request that is refused because of some of its items; it names unknown fields, too."""
    first = field_problem(bad[0])
    return BadRequest(
        f"{len(bad):,} of {of:,} items cannot be used: {first['field']}: {first['message']}",
        errors=[field_problem(one) for one in bad],
        unknown=unknown,
        remedy='correct them, or send "on_error": "report" to have the others done',
    )


def field_problem(bad: BadItem) -> dict[str, Any]:
    """Return a bad item as errors and problems list it; its line is its place in the list, counted from 1."""
    place = bad.line - 1
    at = f"items[{place}]" if place >= 0 else "items"
    return {
        "item": bad.item,
        "place": place if place >= 0 else None,
        "field": f"{at}.{bad.field}" if bad.field else at,
        "message": bad.message,
    }


def from_validation(
    error: ValidationError | RequestValidationError,
    count: int | None = None,
    *,
    model: type[BaseModel] | None = None,
    unknown: Sequence[UnknownField] = (),
) -> BadRequest:
    """Return pydantic's errors as one of our errors; `count` is how many there are, if there are more than these.

    With the model of the body, each of the first unknown fields comes with the field that was probably meant.
    """
    faults = error.errors()
    meant = [_suggestion(fault, model) if place < MOST_SUGGESTIONS else "" for place, fault in enumerate(faults)]
    problems = [
        {
            "field": _path(fault["loc"]),
            "message": f"{_in_words(fault)}{_describe_input(fault)}{hint}",
            "item": None,
            "place": _place(fault["loc"]),
        }
        for fault, hint in zip(faults, meant, strict=True)
    ]
    first = problems[0]
    return BadRequest(
        f"{first['field'] or 'body'}: {first['message']}",
        errors=problems,
        error_count=count,
        unknown=unknown,
    )


_EXPECTED: Final = {
    "string": "a text",
    "int": "a whole number",
    "float": "a number",
    "finite": "a finite number",
    "bool": "true or false",
    "list": "a list",
    "tuple": "a list",
    "set": "a list",
    "dict": "an object",
    "model": "an object",
    "dataclass": "an object",
    "datetime": "a time, such as 2026-11-20T08:00:00Z,",
}
_IN_WORDS: Final = {  # by pydantic's type of a fault, with the names of its context
    "missing": "it is missing",
    "extra_forbidden": "there is no such field",
    "json_invalid": "not JSON: {error}",
    "literal_error": "{expected} is expected",
    "enum": "{expected} is expected",
    "value_error": "{error}",
    "greater_than": "more than {gt} is expected",
    "greater_than_equal": "at least {ge} is expected",
    "less_than": "less than {lt} is expected",
    "less_than_equal": "at most {le} is expected",
    "string_too_short": "at least {min_length} characters are expected",
    "string_too_long": "at most {max_length} characters are expected",
    "too_short": "at least {min_length} elements are expected",
    "too_long": "at most {max_length} elements are expected",
    "string_pattern_mismatch": "a text like {pattern} is expected",
}


def _in_words(fault: Mapping[str, Any]) -> str:
    """Return what is wrong in our words; pydantic's where it has found something that we have none for."""
    kind = str(fault["type"])
    if kind in _IN_WORDS:
        return _IN_WORDS[kind].format(**fault.get("ctx", {}))
    expected = _EXPECTED.get(kind.partition("_")[0])
    return str(fault["msg"]) if expected is None else f"{expected} is expected"


def _suggestion(fault: Mapping[str, Any], model: type[BaseModel] | None) -> str:
    """Return the field of the body that an unknown one was probably meant to be."""
    is_unknown = model is not None and fault.get("type") == "extra_forbidden" and fault["loc"]
    return body_field_suggestion(model, fault["loc"]) if is_unknown and model is not None else ""


def _path(location: Sequence[int | str]) -> str:
    path = ""
    for part in location:
        path += f"[{part}]" if isinstance(part, int) else f".{part}" if path else str(part)
    return path


def _place(location: Sequence[int | str]) -> int | None:
    return next((part for part in location if isinstance(part, int)), None)


def _describe_input(fault: Mapping[str, Any]) -> str:
    """Return the wrong value, if it is short and not the whole body."""
    given_input = fault.get("input")
    if fault.get("type") == "option":  # its message has the value
        return ""
    if isinstance(given_input, str | int | float | bool) or given_input is None:
        text = repr(given_input)
        return f"; found {text if len(text) <= 60 else text[:57] + '…'}" if fault.get("type") != "missing" else ""
    return ""


def problem_response(request: Request, error: RefaugError) -> Response:
    """Return the problem document of an error."""
    state = state_of(request)
    status = error.given_status if isinstance(error, BadRequest) else error.status
    code = error.given_code if isinstance(error, BadRequest) else error.code
    body: dict[str, Any] = {
        "type": f"{request.scope.get('root_path', '')}/problems/{code}",
        "title": code_meanings()[code]["title"],
        "status": status,
        "code": code,
        "detail": state.without_paths(error.message),
        "request_id": request.scope.get("request_id", ""),
    }
    if error.remedy:
        body["remedy"] = state.without_paths(error.remedy)
    if isinstance(error, Usage) and error.field:
        body["field"] = error.field
    if isinstance(error, NotAllowed) and error.scope:
        body["scope"] = error.scope
    if isinstance(error, BadRequest) and error.errors:
        body["errors"] = error.errors[:MAX_SHOWN]
        if error.error_count > len(body["errors"]):
            body["more_errors"] = error.error_count - len(body["errors"])
    if isinstance(error, BadRequest) and error.unknown_fields:
        body["unknown_fields"] = error.unknown_fields
    if isinstance(error, Details):
        body |= {name: value for name, value in error.details.items() if name not in body}
    headers = {}
    if isinstance(error, Later):
        headers["Retry-After"] = str(max(1, math.ceil(error.retry_after_s)))
    if status == http.HTTPStatus.UNAUTHORIZED:
        headers["WWW-Authenticate"] = "Bearer"
    return Response(orjson.dumps(body), status_code=status, media_type=MEDIA_TYPE, headers=headers)


def internal_error_response(request: Request, error: Exception) -> Response:
    """Return the response to an unexpected error; the log gets its kind and place, the response its kind."""
    kind = type(error).__name__
    state = state_of(request)
    log.error("failed", extra={"code": "internal", "why": kind, "trace": state.trace_of(error)})
    return problem_response(request, RefaugError(f"something went wrong that was not foreseen ({kind})"))


def code_of(status: int) -> str:
    """Return the code of a malformed request by its status."""
    return _CODES[status]


@cache
def code_meanings() -> dict[str, dict[str, Any]]:
    """Return every code with its usual status and its meaning, from the tree of errors."""
    titles = dict[str, dict[str, Any]]()
    kinds = [RefaugError]
    for kind in kinds:  # the list grows during the walk
        kinds += kind.__subclasses__()
        if "code" in vars(kind) and kind is not BadRequest:
            titles.setdefault(kind.code, {"status": kind.status, "title": kind.summary().rstrip(".")})
    for status, code in _CODES.items():
        titles.setdefault(code, {"status": status, "title": http.HTTPStatus(status).phrase})
    return dict(sorted(titles.items()))


def _allowed_methods(app: FastAPI, request: Request) -> list[str]:
    """Return all methods of a path; each method has its route, and only one of them was matched."""
    path, methods = request.scope["path"].removeprefix(request.scope.get("root_path", "")), set[str]()
    for context in iter_route_contexts(app.routes):
        route = context.original_route
        if isinstance(route, APIRoute) and route.path_regex.match(path):
            methods |= set(route.methods or ())
    return sorted(methods | ({"HEAD"} if "GET" in methods else set()))  # refaug.service.web.connection.admission


def install(app: FastAPI) -> None:
    """Register the handlers that turn every error into a problem document."""

    async def handle_own_error(request: Request, error: Exception) -> Response:
        assert isinstance(error, RefaugError)
        if error.status >= http.HTTPStatus.INTERNAL_SERVER_ERROR and not isinstance(error, Later):
            state = state_of(request)
            log.error("failed", extra={"code": error.code, "why": state.without_paths(error.message)})
        return problem_response(request, error)

    async def handle_http_error(request: Request, error: Exception) -> Response:
        assert isinstance(error, HTTPException)
        if error.status_code == http.HTTPStatus.NOT_FOUND:  # not one of our errors: no route has this path
            unknown = UnknownPath(remedy="look at /docs, and at the path that a proxy adds or takes away")
            if wants_page(request):
                lines = ["The pages of this service stand above; an older link may lead nowhere by now."]
                return problem_page(
                    request, title=str(code_meanings()[unknown.code]["title"]), lines=lines, status=unknown.status
                )
            response = problem_response(request, unknown)
            response.headers.update(VARY)
            return response
        words = http.HTTPStatus(error.status_code).phrase
        problem = BadRequest(str(error.detail) or words, status=error.status_code)
        response = problem_response(request, problem)
        for name, content in (error.headers or {}).items():
            response.headers[name] = content
        if error.status_code == http.HTTPStatus.METHOD_NOT_ALLOWED:
            response.headers["Allow"] = ", ".join(_allowed_methods(app, request))
        return response

    async def handle_validation_error(request: Request, error: Exception) -> Response:
        assert isinstance(error, ValidationError | RequestValidationError)
        return problem_response(request, from_validation(error))

    app.add_exception_handler(RefaugError, handle_own_error)
    app.add_exception_handler(HTTPException, handle_http_error)
    app.add_exception_handler(RequestValidationError, handle_validation_error)
    app.add_exception_handler(ValidationError, handle_validation_error)
