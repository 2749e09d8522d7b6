"""Errors that the guard sends by itself, since there is no request for the application."""

from __future__ import annotations

import http
import secrets
from collections.abc import Mapping
from typing import Any, Final

import orjson

from refaug.service import prometheus_figures
from refaug.service.process.guarded_config import ConnectionLimits
from refaug.service.web.connection.admission import HEADERS, UNKNOWN_ROUTE
from refaug.service.web.guard.states import State
from refaug.service.web.problems import MEDIA_TYPE, code_meanings, code_of

_IN_HEAD: Final = frozenset({State.CONNECTING, State.SURPLUS, State.IDLE, State.HEAD})
_UNREADABLE: Final = "this is no request that can be read"


def refusal(state: State, status: http.HTTPStatus, limits: ConnectionLimits, root_path: str, fault: str) -> bytes:
    """Return the whole answer to a connection that is refused in this state, and count it."""
    prometheus_figures.request(UNKNOWN_ROUTE, "", status, 0.0)
    return _answer(status, _detail(state, status, limits) or fault or _UNREADABLE, root_path)


def _detail(state: State, status: http.HTTPStatus, limits: ConnectionLimits) -> str:
    part = "head" if state in _IN_HEAD else "body"
    match status:
        case http.HTTPStatus.REQUEST_TIMEOUT:
            return f"the {part} of the request was not there in time"
        case http.HTTPStatus.REQUEST_HEADER_FIELDS_TOO_LARGE if part == "head":
            return f"the head of the request is longer than {limits.head_bytes >> 10} KiB"
        case http.HTTPStatus.REQUEST_HEADER_FIELDS_TOO_LARGE:
            return "the trailers or the chunk heads of the request are too long"
        case http.HTTPStatus.SERVICE_UNAVAILABLE:
            return f"{limits.connections:,} connections are open already"
    return ""


def _answer(status: http.HTTPStatus, detail: str, root_path: str) -> bytes:
    code, request_id = code_of(status), secrets.token_hex(8)
    problem: Mapping[str, Any] = {
        "type": f"{root_path}/problems/{code}",
        "title": code_meanings()[code]["title"],
        "status": int(status),
        "code": code,
        "detail": detail,
        "request_id": request_id,
    }
    body = orjson.dumps(problem)
    headers = {
        "Content-Type": MEDIA_TYPE,
        "Content-Length": str(len(body)),
        "Connection": "close",
        "X-Request-Id": request_id,
        **({"Retry-After": "1"} if status == http.HTTPStatus.SERVICE_UNAVAILABLE else {}),
        **HEADERS,
    }
    head = "".join(f"{name}: {content}\r\n" for name, content in headers.items())
    return f"HTTP/1.1 {int(status)} {status.phrase}\r\n{head}\r\n".encode("ascii") + body
