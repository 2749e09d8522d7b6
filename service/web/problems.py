"""Every error as one shape: problem details (RFC 9457) with a stable code, and never with status 200."""

from __future__ import annotations

import http
import logging
import math
from collections.abc import Mapping, Sequence
from functools import cache
from typing import Any, Final

import orjson
from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.routing import APIRoute, iter_route_contexts
from pydantic import BaseModel, ConfigDict, Field, ValidationError
from starlette.exceptions import HTTPException
from starlette.responses import Response

from core.errors import Later, RefaugError
from core.items import BadItem
from service.web.state import state_of

log = logging.getLogger(__name__)

MEDIA_TYPE: Final = "application/problem+json"
_SHOWN: Final = 100  # of what is wrong; the rest is counted
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


class ProblemOut(BaseModel):
    """An error: RFC 9457 problem details."""

    model_config = ConfigDict(extra="allow")

    type: str = Field(description="what kind of problem it is: a relative address that ends in its code")
    title: str = Field(description="the kind in a few words; always the same for a code")
    status: int = Field(description="the status of the answer")
    code: str = Field(description="the kind, for programs; it never changes its meaning")
    detail: str = Field(description="what happened")
    remedy: str | None = Field(default=None, description="what would help")
    request_id: str = Field(description="names this request in the server's log")
    errors: list[FieldProblem] | None = Field(default=None, description="every place that is wrong, the first ones")
    more_errors: int | None = Field(default=None, description="how many more there are")


class Details:
    """An error with more to say than its words: `details` become members of the problem."""

    details: Mapping[str, Any]


class BadRequest(RefaugError):
    """The request cannot be read as what it should be."""

    code, status = "bad_input", 422

    def __init__(
        self, message: str, *, errors: Sequence[Mapping[str, Any]] = (), remedy: str = "", status: int = 422
    ) -> None:
        super().__init__(message, remedy=remedy)
        self.errors, self.given_status = list(errors), status


class UnknownPath(RefaugError):
    """Nothing answers at this path."""

    code, exit_code, status = "unknown_path", 3, 404


def bad_items(bad: Sequence[BadItem], of: int) -> BadRequest:
    """A request that is refused because of some of its items."""
    first = field_of(bad[0])
    return BadRequest(
        f"{len(bad):,} of {of:,} items cannot be used: {first['field']}: {first['message']}",
        errors=[field_of(one) for one in bad],
        remedy='mend them, or send "on_error": "report" to have the others done',
    )


def field_of(bad: BadItem) -> dict[str, Any]:
    """A bad item as errors and problems list it; its line is its place in the list, counted from 1."""
    place = bad.line - 1
    at = f"items[{place}]" if place >= 0 else "items"
    return {
        "item": bad.item,
        "place": place if place >= 0 else None,
        "field": f"{at}.{bad.field}" if bad.field else at,
        "message": bad.message,
    }


def of_validation(error: ValidationError | RequestValidationError) -> BadRequest:
    """What pydantic found wrong, in our words' shape."""
    found = [
        {"field": _path(one["loc"]), "message": f"{one['msg']}{_shown(one)}", "item": None, "place": _place(one["loc"])}
        for one in error.errors()
    ]
    first = found[0]
    return BadRequest(f"{first['field'] or 'body'}: {first['message']}", errors=found)


def _path(location: Sequence[int | str]) -> str:
    said = ""
    for part in location:
        said += f"[{part}]" if isinstance(part, int) else f".{part}" if said else str(part)
    return said


def _place(location: Sequence[int | str]) -> int | None:
    return next((part for part in location if isinstance(part, int)), None)


def _shown(one: Mapping[str, Any]) -> str:
    """What was found, where that is short and not the whole body."""
    value = one.get("input")
    if isinstance(value, str | int | float | bool) or value is None:
        text = repr(value)
        return f"; found {text if len(text) <= 60 else text[:57] + '…'}" if one.get("type") != "missing" else ""
    return ""


def answer(request: Request, error: RefaugError) -> Response:
    """The problem as an answer."""
    state = state_of(request)
    status = error.given_status if isinstance(error, BadRequest) else error.status
    code = _CODES.get(status, error.code) if isinstance(error, BadRequest) else error.code
    body: dict[str, Any] = {
        "type": f"{request.scope.get('root_path', '')}/problems/{code}",
        "title": meanings()[code]["title"],
        "status": status,
        "code": code,
        "detail": state.without_paths(error.message),
        "request_id": request.scope.get("request_id", ""),
    }
    if error.remedy:
        body["remedy"] = state.without_paths(error.remedy)
    if isinstance(error, BadRequest) and error.errors:
        body["errors"] = error.errors[:_SHOWN]
        if len(error.errors) > _SHOWN:
            body["more_errors"] = len(error.errors) - _SHOWN
    if isinstance(error, Details):
        body |= {name: value for name, value in error.details.items() if name not in body}
    headers = {}
    if isinstance(error, Later):
        headers["Retry-After"] = str(max(1, math.ceil(error.retry_after_s)))
    if status == http.HTTPStatus.UNAUTHORIZED:
        headers["WWW-Authenticate"] = "Bearer"
    return Response(orjson.dumps(body), status_code=status, media_type=MEDIA_TYPE, headers=headers)


def unforeseen(request: Request, error: Exception) -> Response:
    """Our own fault: the log has the kind and the place, the answer the kind alone, neither has a value."""
    kind = type(error).__name__
    state = state_of(request)
    log.error("failed", extra={"code": "internal", "why": kind, "trace": state.trace_of(error)})
    return answer(request, RefaugError(f"something went wrong that was not foreseen ({kind})"))


def code_of(status: int) -> str:
    """The code of what is wrong with a request as such, by its status."""
    return _CODES[status]


@cache
def meanings() -> dict[str, dict[str, Any]]:
    """Every code with its usual status and what it means, out of the tree of errors."""
    found = dict[str, dict[str, Any]]()
    kinds = [RefaugError]
    for kind in kinds:  # it grows as the tree is walked
        kinds += kind.__subclasses__()
        if "code" in vars(kind) and kind is not BadRequest:
            found.setdefault(kind.code, {"status": kind.status, "title": kind.summary().rstrip(".")})
    for status, code in _CODES.items():
        found.setdefault(code, {"status": status, "title": http.HTTPStatus(status).phrase})
    return dict(sorted(found.items()))


def _methods(app: FastAPI, request: Request) -> list[str]:
    """All that may be done with what is there: each method has a route of its own, and only one of them was asked."""
    path, found = request.scope["path"].removeprefix(request.scope.get("root_path", "")), set[str]()
    for context in iter_route_contexts(app.routes):
        route = context.original_route
        if isinstance(route, APIRoute) and route.path_regex.match(path):
            found |= set(route.methods or ())
    return sorted(found | ({"HEAD"} if "GET" in found else set()))  # service.web.heads


def install(app: FastAPI) -> None:
    """Let every error leave in this shape."""

    async def ours(request: Request, error: Exception) -> Response:
        assert isinstance(error, RefaugError)
        if error.status >= http.HTTPStatus.INTERNAL_SERVER_ERROR and not isinstance(error, Later):
            state = state_of(request)
            log.error("failed", extra={"code": error.code, "why": state.without_paths(error.message)})
        return answer(request, error)

    async def theirs(request: Request, error: Exception) -> Response:
        assert isinstance(error, HTTPException)
        if error.status_code == http.HTTPStatus.NOT_FOUND:  # of ours none is: nothing was asked
            return answer(request, UnknownPath(remedy="look at /docs, and at the path that a proxy adds or takes away"))
        words = http.HTTPStatus(error.status_code).phrase
        said = BadRequest(str(error.detail) or words, status=error.status_code)
        response = answer(request, said)
        for name, value in (error.headers or {}).items():
            response.headers[name] = value
        if error.status_code == http.HTTPStatus.METHOD_NOT_ALLOWED:
            response.headers["Allow"] = ", ".join(_methods(app, request))
        return response

    async def validation(request: Request, error: Exception) -> Response:
        assert isinstance(error, ValidationError | RequestValidationError)
        return answer(request, of_validation(error))

    app.add_exception_handler(RefaugError, ours)
    app.add_exception_handler(HTTPException, theirs)
    app.add_exception_handler(RequestValidationError, validation)
    app.add_exception_handler(ValidationError, validation)
