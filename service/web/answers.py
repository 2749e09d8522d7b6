"""Answers as JSON: written by one library, named by the request that they answer."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextvars import ContextVar
from typing import Any, Final

import orjson
from starlette.concurrency import run_in_threadpool
from starlette.responses import Response

# Set for each request by the gate; also there in the threads that a request's work runs in.
REQUEST_ID: Final[ContextVar[str]] = ContextVar("request_id", default="")
_MANY: Final = 200  # items: more take the event loop longer than a small request takes as a whole
_OPTIONS: Final = orjson.OPT_NON_STR_KEYS | orjson.OPT_SERIALIZE_NUMPY


def json_answer(values: Mapping[str, Any], *, status: int = 200, headers: Mapping[str, str] | None = None) -> Response:
    """This as JSON, with the request's id; numbers that are none (NaN) become null."""
    return _response(_written(values), status, headers)


async def large_answer(
    make: Callable[[], Mapping[str, Any]],
    *,
    items: int,
    status: int = 200,
    headers: Mapping[str, str] | None = None,
) -> Response:
    """The same of what is yet to be made: of many items in a thread, so that others are answered meanwhile."""
    if items <= _MANY:
        return json_answer(make(), status=status, headers=headers)
    return _response(await run_in_threadpool(lambda: _written(make())), status, headers)


def _written(values: Mapping[str, Any]) -> bytes:
    return orjson.dumps({**values, "request_id": REQUEST_ID.get()}, option=_OPTIONS)


def _response(body: bytes, status: int, headers: Mapping[str, str] | None) -> Response:
    return Response(body, status_code=status, media_type="application/json", headers=dict(headers or {}))
