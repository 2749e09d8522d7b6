"""Reading a request's body: a limit on every size and time, gzip undone, and one validation straight from the bytes."""

from __future__ import annotations

import asyncio
import zlib
from collections.abc import Awaitable, Callable
from typing import Any, Final, TypeVar

from fastapi import Request
from pydantic import BaseModel, ValidationError
from starlette.requests import ClientDisconnect

from core.errors import TooLarge
from service.serve_settings import MIB
from service.web.deps import ClientGone
from service.web.problems import BadRequest, of_validation
from service.web.state import state_of

_PIECE: Final = 1 << 18
Model = TypeVar("Model", bound=BaseModel)

# Models that bodies are read as: the OpenAPI document gets their schemas from here.
MODELS: dict[str, type[BaseModel]] = {}


def takes(model: type[BaseModel], *, examples: dict[str, Any] | None = None) -> dict[str, Any]:
    """What the OpenAPI document says of a body that a route reads by itself, for `openapi_extra`."""
    MODELS[model.__name__] = model
    content: dict[str, Any] = {"schema": {"$ref": f"#/components/schemas/{model.__name__}"}}
    if examples:
        content["examples"] = {name: {"value": value} for name, value in examples.items()}
    return {"requestBody": {"required": True, "content": {"application/json": content}}}


def body_of(model: type[Model]) -> Callable[[Request], Awaitable[Model]]:
    """A dependency that reads the body as this model."""

    async def read(request: Request) -> Model:
        return parsed(model, await raw_body(request))

    return read


def parsed(model: type[Model], raw: bytes) -> Model:
    """Validated straight from the bytes: no second walk over what may be megabytes."""
    try:
        return model.model_validate_json(raw)
    except ValidationError as error:
        raise of_validation(error) from None


async def raw_body(request: Request, media_types: tuple[str, ...] = ("application/json",)) -> bytes:
    """The bytes of the body, unpacked, within the limits."""
    state = state_of(request)
    limit = state.serve.body_mib * MIB
    kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if kind not in media_types:  # no type will not do: a browser lets a page send that to any site without asking it
        what = f"a body of type {kind[:80]!r}" if kind else "a body without a type"
        raise BadRequest(what, remedy=f"send it as {' or '.join(media_types)}", status=415)
    encoding = request.headers.get("content-encoding", "identity").strip().lower()
    if encoding not in ("identity", "gzip"):
        raise BadRequest(f"a body packed as {encoding[:40]!r}", remedy="gzip, or not packed", status=415)
    length = request.headers.get("content-length", "")
    if length.isdecimal() and int(length) > limit:
        raise _too_large(limit)
    try:
        async with asyncio.timeout(state.serve.body_timeout_s):
            return await _read(request, limit, packed=encoding == "gzip")
    except ClientDisconnect:
        raise ClientGone from None
    except TimeoutError:
        raise BadRequest(
            f"the body was not there after {state.serve.body_timeout_s:g} s", remedy="send it faster", status=408
        ) from None


async def _read(request: Request, limit: int, *, packed: bool) -> bytes:
    pieces, size = list[bytes](), 0
    unpacker = zlib.decompressobj(wbits=31) if packed else None
    async with state_of(request).room_for_bodies() as room:
        async for sent in request.stream():
            rest = sent
            while rest:
                piece, rest = _unpacked(unpacker, rest)
                size += len(piece)
                if size > limit:
                    raise _too_large(limit)
                room.take(len(piece))
                pieces.append(piece)
        if unpacker is not None and not unpacker.eof:
            raise BadRequest("the body is no whole gzip file", remedy="send all of it, packed once", status=400)
        return b"".join(pieces)


def _unpacked(unpacker: Any, sent: bytes) -> tuple[bytes, bytes]:
    """A piece of bounded size, and what is still packed, or follows."""
    if unpacker is None:
        return sent, b""
    if unpacker.eof:
        raise BadRequest("something follows the gzip file in the body", remedy="send one gzip file", status=400)
    try:
        return unpacker.decompress(sent, _PIECE), unpacker.unconsumed_tail or unpacker.unused_data
    except zlib.error as error:
        raise BadRequest(f"the body is no gzip file: {error}", remedy="pack it with gzip", status=400) from None


def _too_large(limit: int) -> TooLarge:
    return TooLarge(f"the body is larger than {limit / MIB:g} MiB", remedy="send it in several requests")
