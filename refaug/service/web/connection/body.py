"""Reading a request's body: limits of size, time and number of values, gzip, and validation straight from the bytes."""

from __future__ import annotations

import asyncio
import zlib
from collections.abc import Awaitable, Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from typing import Any, Final, NamedTuple, TypeVar, get_origin

import numpy as np
from annotated_types import MaxLen
from fastapi import Request
from pydantic import BaseModel, ValidationError
from pydantic_core import from_json, to_json
from starlette.requests import ClientDisconnect

from refaug.core.errors import TooLarge
from refaug.core.kernels.kernel import compiled
from refaug.core.text.content_shapes import repeated_key
from refaug.service.server_settings import MIB
from refaug.service.web.dependencies import ClientGone
from refaug.service.web.problems import BadRequest, UnknownField, from_validation, unknown_item_fields
from refaug.service.web.schemas.common import Item
from refaug.service.web.state import state_of

# ── How many values, fields and elements a body of JSON has, counted before anything is made of them ──────────────────
#
# The loop holds no lock of the interpreter: other requests are answered while megabytes are counted.

_QUOTE, _BACKSLASH, _COLON, _COMMA, _LIST, _LIST_END, _OBJECT, _OBJECT_END = b'"\\:,[]{}'


class BodyMarks(NamedTuple):
    """The commas and opening brackets outside of texts, and what the largest object and the longest list hold."""

    values: int  # at most: each value but the first follows a comma or an opening bracket
    most_fields: int
    most_elements: int  # at most: an empty list counts as one of one element


def count_marks(raw: bytes) -> BodyMarks:
    """Count, up to a bracket that closes nothing: what follows it is no JSON, as the parser finds without making it."""
    depth = raw.count(b"[") + raw.count(b"{")
    return BodyMarks(*_marks_of(np.frombuffer(raw, np.uint8), np.empty((depth, 3), np.int32)))


@compiled
def _marks_of(raw: Any, outer: Any) -> tuple[int, int, int]:
    """`outer` has room for each list and object around the one at hand: fields, elements, whether it is a list."""
    values, fields, elements, most_fields, most_elements, depth, place = 0, 0, 0, 0, 0, 0, 0
    is_list = False
    while place < raw.size:
        byte = raw[place]
        if byte == _QUOTE:
            place += 1
            while place < raw.size and raw[place] != _QUOTE:
                place += 2 if raw[place] == _BACKSLASH else 1
        elif byte == _COLON:
            fields += 1
            most_fields = max(most_fields, fields)
        elif byte == _COMMA:
            values += 1
            elements += 1
            if is_list:
                most_elements = max(most_elements, elements)
        elif byte in (_LIST, _OBJECT):
            values += 1
            outer[depth, 0], outer[depth, 1], outer[depth, 2] = fields, elements, is_list
            depth += 1
            fields, elements, is_list = 0, 1, byte == _LIST
            if is_list:
                most_elements = max(most_elements, elements)
        elif byte in (_LIST_END, _OBJECT_END):
            if depth == 0:
                break
            depth -= 1
            fields, elements, is_list = outer[depth, 0], outer[depth, 1], outer[depth, 2] == 1
        place += 1
    return values, most_fields, most_elements


# ── The body ──────────────────────────────────────────────────────────────────────────────────────────────────────────

_PIECE: Final = 1 << 18
MAX_VALUES: Final = 1_000_000  # in a body: each takes a hundred times the memory of the two bytes that say it
MAX_FIELDS: Final = 50_000  # of an object: the error of a field takes 350 bytes, and is found for six that are sent
_MANY_ELEMENTS: Final = 100_000  # no list is too long below: it is read in a hundredth of a second
_LARGE_BYTES: Final = 1 << 16  # larger bodies are read beside the event loop
_MAX_ERRORS: Final = 1_000  # more take longer to list than to find
_SHOWN_ELEMENTS: Final = 100  # of each list and object, in a body with more errors
Model = TypeVar("Model", bound=BaseModel)

# Models of bodies, by name; the OpenAPI document takes their schemas from here.
MODELS: dict[str, type[BaseModel]] = {}


def request_body(model: type[BaseModel], *, examples: Mapping[str, object] | None = None) -> dict[str, object]:
    """Return the `openapi_extra` of a route that reads its body itself."""
    MODELS[model.__name__] = model
    content: dict[str, object] = {"schema": {"$ref": f"#/components/schemas/{model.__name__}"}}
    if examples:
        content["examples"] = {name: {"value": value} for name, value in examples.items()}
    return {"requestBody": {"required": True, "content": {"application/json": content}}}


def body_of(model: type[Model]) -> Callable[[Request], Awaitable[Model]]:
    """Return a dependency that reads the body as this model."""

    async def read(request: Request) -> Model:
        return await parse_body(model, await read_body(request))

    return read


async def parse_body(model: type[Model], raw: bytes) -> Model:
    """Validate the bytes as this model; beside the event loop and one after the other, if there are many."""
    if len(raw) <= _LARGE_BYTES:
        return parse_json(model, raw)
    return await asyncio.get_running_loop().run_in_executor(_large_bodies(), parse_json, model, raw)


@cache
def _large_bodies() -> ThreadPoolExecutor:
    """Return the thread for large bodies: a second one would take memory and no less time."""
    return ThreadPoolExecutor(1, "large-bodies")


def parse_json(model: type[Model], raw: bytes) -> Model:
    """Validate the bytes as this model, without a second walk over what may be megabytes."""
    _require_few_values(raw, _longest_list(model))
    if len(raw) <= _LARGE_BYTES and (key := repeated_key(raw, None)) is not None:
        raise BadRequest(f"an object of the body has the key {key!r} twice", remedy="name each key once")
    try:
        return model.model_validate_json(raw)
    except ValidationError as error:
        raise _bad_body(model, raw, error) from None


@cache
def _longest_list(model: type[BaseModel]) -> int:
    """Return how many elements a list in this body may have: as many as the field takes that takes most of them."""
    lists = (field.metadata for field in model.model_fields.values() if get_origin(field.annotation) is list)
    bounds = [bound.max_length for metadata in lists for bound in metadata if isinstance(bound, MaxLen)]
    return max(_MANY_ELEMENTS, *bounds) if bounds else MAX_VALUES


def _require_few_values(raw: bytes, longest_list: int) -> None:
    """Refuse very many values, an object of very many fields and a list that no field takes, before they are made.

    Errors of a list end at its first; of an object, one would be made of each field. To make the values keeps the lock
    of the interpreter for a tenth of a second a million, and no other request is answered meanwhile. What is inside
    texts does not count: a body that has few marks in all is not looked at closely.
    """
    commas = raw.count(b",") if len(raw) > longest_list else 0
    if commas < longest_list and raw.count(b":") <= MAX_FIELDS:
        marks = commas + raw.count(b"[") + raw.count(b"{") if len(raw) > MAX_VALUES else 0
        if marks <= MAX_VALUES:
            return
    counted = count_marks(raw)
    if counted.values > MAX_VALUES:
        raise TooLarge(f"the body has more than {MAX_VALUES:,} values", remedy="send it in several requests")
    if counted.most_fields > MAX_FIELDS:
        raise TooLarge(
            f"an object of the body has more than {MAX_FIELDS:,} fields", remedy="send it in several requests"
        )
    if counted.most_elements > longest_list:
        raise TooLarge(
            f"a list of the body has more than {longest_list:,} elements", remedy="send it in several requests"
        )


def _bad_body(model: type[Model], raw: bytes, error: ValidationError) -> BadRequest:
    """Return what is wrong with a body; of very many errors, those among the first elements of each list."""
    count, unknown = error.error_count(), _unknown_item_fields(model, raw)
    if count <= _MAX_ERRORS:
        return from_validation(error, model=model, unknown=unknown)
    try:
        model.model_validate_json(to_json(_first_elements(from_json(raw))))
    except ValidationError as of_first_elements:
        if of_first_elements.error_count() <= _MAX_ERRORS:
            return from_validation(of_first_elements, count, model=model, unknown=unknown)
    return BadRequest(f"{count:,} places of the body are wrong", remedy="send less, to see what is wrong")


def _unknown_item_fields(model: type[BaseModel], raw: bytes) -> list[UnknownField]:
    """Return the fields that no item has, of a body that has items."""
    field = model.model_fields.get("items")
    if field is None or field.annotation != list[Item]:
        return []
    try:
        body = from_json(raw)
    except ValueError:
        return []
    return unknown_item_fields(body.get("items")) if isinstance(body, dict) else []


def _first_elements(content: Any) -> Any:
    if isinstance(content, list):
        return [_first_elements(element) for element in content[:_SHOWN_ELEMENTS]]
    if isinstance(content, dict):
        return {name: _first_elements(content[name]) for name in list(content)[:_SHOWN_ELEMENTS]}
    return content


async def read_body(request: Request, media_types: tuple[str, ...] = ("application/json",)) -> bytes:
    """Return the bytes of the body, unpacked and within the limits."""
    state = state_of(request)
    limit = state.serve.body_mib * MIB
    kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if kind not in media_types:  # a type is required: browsers let a page send a body without one to any site
        what = f"a body of type {kind[:80]!r}" if kind else "a body without a type"
        raise BadRequest(what, remedy=f"send it as {' or '.join(media_types)}", status=415)
    encoding = request.headers.get("content-encoding", "identity").strip().lower()
    if encoding not in ("identity", "gzip"):
        raise BadRequest(f"a body packed as {encoding[:40]!r}", remedy="gzip, or not packed", status=415)
    length = request.headers.get("content-length", "")
    if length.isdecimal() and int(length) > limit:
        raise _too_large_error(limit)
    try:
        async with asyncio.timeout(state.serve.body_timeout_s):
            return await _read_pieces(request, limit, packed=encoding == "gzip")
    except ClientDisconnect:
        raise ClientGone from None
    except TimeoutError:
        raise BadRequest(
            f"the body was not there after {state.serve.body_timeout_s:g} s", remedy="send it faster", status=408
        ) from None


async def _read_pieces(request: Request, limit: int, *, packed: bool) -> bytes:
    pieces, size = list[bytes](), 0
    unpacker = zlib.decompressobj(wbits=31) if packed else None
    async with state_of(request).body_memory() as take_memory:
        async for sent in request.stream():
            rest = sent
            while rest:
                piece, rest = _unpack(unpacker, rest)
                size += len(piece)
                if size > limit:
                    raise _too_large_error(limit)
                take_memory(len(piece))
                pieces.append(piece)
                if rest:
                    await asyncio.sleep(0)  # what was packed small may be large: others are answered between its pieces
        if unpacker is not None and not unpacker.eof:
            raise BadRequest("the body is not a complete gzip file", remedy="send all of it, packed once", status=400)
        return b"".join(pieces)


def _unpack(unpacker: Any, sent: bytes) -> tuple[bytes, bytes]:
    """Return a piece of bounded size, and the bytes that are still packed or follow."""
    if unpacker is None:
        return sent, b""
    if unpacker.eof:
        raise BadRequest("something follows the gzip file in the body", remedy="send one gzip file", status=400)
    try:
        return unpacker.decompress(sent, _PIECE), unpacker.unconsumed_tail or unpacker.unused_data
    except zlib.error as error:
        raise BadRequest(f"the body is not a gzip file: {error}", remedy="pack it with gzip", status=400) from None


def _too_large_error(limit: int) -> TooLarge:
    return TooLarge(f"the body is larger than {limit / MIB:g} MiB", remedy="send it in several requests")
