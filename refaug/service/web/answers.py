"""JSON responses with the id of their request."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextvars import ContextVar
from typing import Any, Final

import orjson
from starlette.concurrency import run_in_threadpool
from starlette.responses import Response

# Set for each request by the gate; threads that work for a request see it too.
REQUEST_ID: Final[ContextVar[str]] = ContextVar("request_id", default="")
_MAX_ITEMS_INLINE: Final = 200  # items: encoding more delays the event loop longer than a whole small request takes
_OPTIONS: Final = orjson.OPT_NON_STR_KEYS | orjson.OPT_SERIALIZE_NUMPY


def json_response(
    values: Mapping[str, Any], *, status: int = 200, headers: Mapping[str, str] | None = None
) -> Response:
    """Return these values as JSON with the request's id; NaN becomes null."""
    return _as_response(_encode(values), status, headers)


async def large_json_response(
    make: Callable[[], Mapping[str, Any]],
    *,
    items: int,
    status: int = 200,
    headers: Mapping[str, str] | None = None,
) -> Response:
    """Return what `make` returns as JSON; many items are made and encoded in a thread."""
    if items <= _MAX_ITEMS_INLINE:
        return json_response(make(), status=status, headers=headers)
    return _as_response(await run_in_threadpool(lambda: _encode(make())), status, headers)


def _encode(values: Mapping[str, Any]) -> bytes:
    return orjson.dumps({**values, "request_id": REQUEST_ID.get()}, option=_OPTIONS)


def _as_response(body: bytes, status: int, headers: Mapping[str, str] | None) -> Response:
    return Response(body, status_code=status, media_type="application/json", headers=dict(headers or {}))
