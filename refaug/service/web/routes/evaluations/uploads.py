"""Routes of uploaded files: sending, listing, removing, and a look at them before they are scored."""

from __future__ import annotations

import asyncio
from functools import partial
from typing import Annotated, Final

from fastapi import APIRouter, Depends, Path, Query, Request
from fastapi.concurrency import contextmanager_in_threadpool
from pydantic import BaseModel, Field
from starlette.concurrency import run_in_threadpool
from starlette.requests import ClientDisconnect
from starlette.responses import FileResponse, Response

from refaug.operations.item_sources import ItemSources
from refaug.scoring.item_files import preview
from refaug.service.evaluations.uploads import MAX_NAME_CHARS, IncomingFile, Upload, UploadFormat, new_upload_id
from refaug.service.jobs.kinds.sources import item_files
from refaug.service.option_groups import OptionsBody
from refaug.service.scopes import Scope
from refaug.service.server_settings import MIB
from refaug.service.web.answers import json_response
from refaug.service.web.connection.body import body_of
from refaug.service.web.dependencies import ClientGone, Deadline, key_of, try_to_add_audit_row, while_connected
from refaug.service.web.handling import database_threads
from refaug.service.web.handling.request_lease import DeadlineProgress
from refaug.service.web.handling.turns import Turns
from refaug.service.web.openapi import BINARY, created, raw, route_options
from refaug.service.web.problems import BadRequest
from refaug.service.web.routes.evaluations.access import require_allowed_sources
from refaug.service.web.schemas.common import ResponseModel
from refaug.service.web.state import state_of
from refaug.service.web.visibility import is_visible, visible_upload

MAX_PREVIEWS: Final = 2  # at once: each takes the memory of what it reads, and processor time of all requests
PREVIEWS: Final = Turns(MAX_PREVIEWS, "preview")


# ── Bodies and answers ────────────────────────────────────────────────────────────────────────────────────────────────


class UploadRow(BaseModel):
    """An uploaded file."""

    id: str = Field(description="names it: `upload:` and this is how orders name the file")
    name: str = Field(description="what it was called; messages call it so")
    format: UploadFormat = Field(description="what it holds; auto: its content says")
    bytes: int = Field(description="its size, as it was sent")
    sha256: str = Field(description="hash of its bytes")
    created: str = Field(description="when it came")
    expires: str = Field(description="when it is removed")
    owner: str = Field(description="name of the key that sent it")


class UploadOut(UploadRow, ResponseModel):
    """An uploaded file."""


class UploadsOut(ResponseModel):
    """The uploaded files that the key may see."""

    uploads: list[UploadRow] = Field(description="newest first")
    bytes: int = Field(description="what all uploads on this server take")
    limit_bytes: int = Field(description="what they may take")
    largest_bytes: int = Field(description="what one of them may take")


class PreviewIn(OptionsBody[ItemSources]):
    """Files to look at, named as an order of kind score names them."""


class PreviewCounts(BaseModel):
    """What the files hold."""

    items: int = Field(description="items that can be used")
    replies: int = Field(description="their replies")
    ratings: int = Field(description="their ratings")
    bad: int = Field(description="rows or items that cannot be used")
    is_partial: bool = Field(description="whether reading stopped at the server's limit of a preview")


class UsedColumn(BaseModel):
    """A column that is used."""

    field: str = Field(description="the field of items that it holds")
    system: str = Field(description="the system that it is of, or nothing")
    column: str = Field(description="its name in the table")


class PreviewTable(BaseModel):
    """The columns of a table."""

    kind: str = Field(description="how the file holds rows, in words")
    shape: str = Field(description="what a row is: item, reply or rating")
    rows: int = Field(description="rows that were read")
    used: list[UsedColumn] = Field(description="columns that are used")
    columns: list[str] = Field(description="all columns, the used ones first; at most 200")
    more_columns: int = Field(description="how many more there are")
    unused: list[str] = Field(description="columns that are not used; at most 200")
    more_unused: int = Field(description="how many more there are")
    duplicates: int = Field(description="rows that say what an earlier one says")
    left_out: dict[str, int] = Field(description="what was left out, by its reason")


class BadRowOut(BaseModel):
    """A row that cannot be used."""

    file: str | None = Field(description="name of its file")
    line: int | None = Field(description="its line, from 1")
    item: str | None = Field(description="id of the item, where it has one")
    field: str | None = Field(description="the field that is wrong, or nothing")
    message: str | None = Field(description="what was found, and what would be right")


class PreviewOut(ResponseModel):
    """Files as a score would read them."""

    items: list[dict[str, object]] = Field(description="the first five items")
    counts: PreviewCounts = Field(description="what the files hold")
    systems: list[str] = Field(description="systems that have replies")
    table: PreviewTable | None = Field(description="the columns; null for files without columns")
    warnings: list[str] = Field(description="what to know")
    bad_rows: list[BadRowOut] = Field(description="the first hundred rows that cannot be used")
    more_bad_rows: int = Field(description="how many more there are")


# ── Routes ────────────────────────────────────────────────────────────────────────────────────────────────────────────


router = APIRouter(prefix="/v1", tags=["evaluations"])

BYTES: Final = "application/octet-stream"
_PIECE: Final = 1 << 20  # written at once
_BODY: Final = {
    "requestBody": {
        "required": True,
        **raw("the bytes of the file, as they are", {BYTES: BINARY}),
    }
}
UploadId = Annotated[str, Path(description="id of the upload", pattern=r"^[0-9a-z]{26}$")]


@router.post("/uploads", openapi_extra=_BODY, **route_options(Scope.SCORE, {201: created(UploadOut)}, 507))
async def upload_file(
    request: Request,
    name: Annotated[
        str, Query(description="what the file is called in messages", min_length=1, max_length=MAX_NAME_CHARS)
    ],
    format: Annotated[
        UploadFormat, Query(description="what it holds; auto: by the end of its name, else by its content")
    ] = UploadFormat.AUTO,
) -> Response:
    """Upload a file of items, a table or line-aligned texts, to be previewed and evaluated.

    The bytes are kept as they come, compressed ones too, until the upload expires or is removed. A file is there whole
    or not at all. The key that sent it sees it, and `admin`.
    """
    store, key = state_of(request).uploads, key_of(request)
    _require_bytes(request)
    length = request.headers.get("content-length", "")
    if length.isdecimal():
        store.require_size(int(length))
    await run_in_threadpool(store.remove_expired)
    async with contextmanager_in_threadpool(store.incoming(new_upload_id(), name, format)) as incoming:
        await _receive(request, incoming)
        upload = await run_in_threadpool(store.finish, incoming, name, format, key.name)
    add_row = partial(try_to_add_audit_row, request, "upload", f"upload {upload.id}")
    await database_threads.poll_query(partial(add_row, bytes=upload.bytes, sha256=upload.sha256))
    location = f"{request.scope.get('root_path', '')}/v1/uploads/{upload.id}"
    return json_response(upload.as_json(), status=201, headers={"Location": location})


def _require_bytes(request: Request) -> None:
    kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if kind != BYTES:  # a type that browsers let no page of another site send without asking
        what = f"a body of type {kind[:80]!r}" if kind else "a body without a type"
        raise BadRequest(what, remedy=f"send the file as {BYTES}", status=415)
    encoding = request.headers.get("content-encoding", "identity").strip().lower()
    if encoding != "identity":
        raise BadRequest(
            f"a body packed as {encoding[:40]!r}",
            remedy="leave Content-Encoding out: a file that is packed is read as it is",
            status=415,
        )


async def _receive(request: Request, incoming: IncomingFile) -> None:
    """Write the body piece by piece, within the time that a body has."""
    timeout_s = state_of(request).serve.body_timeout_s
    waiting = bytearray()
    try:
        async with asyncio.timeout(timeout_s):
            async for piece in request.stream():
                waiting += piece
                if len(waiting) >= _PIECE:
                    await run_in_threadpool(incoming.write, bytes(waiting))
                    waiting.clear()
            if waiting:
                await run_in_threadpool(incoming.write, bytes(waiting))
    except ClientDisconnect:
        raise ClientGone from None
    except TimeoutError:
        raise BadRequest(
            f"the file was not there after {timeout_s:g} s",
            remedy="pack it with gzip, or have the setting body_timeout_s raised",
            status=408,
        ) from None


@router.get("/uploads", **route_options(Scope.SCORE, UploadsOut))
def list_uploads(request: Request) -> Response:
    """Uploaded files, newest first, and the room that there is for more."""
    store, key = state_of(request).uploads, key_of(request)
    return json_response(
        {
            "uploads": [upload.as_json() for upload in store.all() if is_visible(key, upload.owner)],
            "bytes": store.used_bytes(),
            "limit_bytes": store.limit_bytes,
            "largest_bytes": store.largest_bytes,
        }
    )


@router.get("/uploads/{id}", **route_options(Scope.SCORE, UploadOut, 404))
def get_upload(request: Request, id: UploadId) -> Response:
    """An uploaded file: its name, size, hash and times."""
    return json_response(visible_upload(request, id).as_json())


@router.get(
    "/uploads/{id}/content",
    response_class=Response,
    **route_options(Scope.SCORE, {200: raw("The bytes.", {BYTES: BINARY})}, 404),
)
def download_upload(request: Request, id: UploadId) -> Response:
    """The bytes of a file as they came, or as a job has written them, such as one of kind `replies`."""
    upload = visible_upload(request, id)
    # The name is from outside: browsers get a fixed one, and never show the content as a page of this site.
    headers = {"Content-Disposition": f'attachment; filename="upload-{upload.id}"'}
    return FileResponse(state_of(request).uploads.unaltered_path(id), media_type=BYTES, headers=headers)


@router.delete("/uploads/{id}", **route_options(Scope.SCORE, UploadOut, 404))
async def remove_upload(request: Request, id: UploadId) -> Response:
    """Remove an uploaded file; evaluations of it stay, and a job that has not read it yet will fail."""
    upload = await run_in_threadpool(_remove, request, id)
    add_row = partial(try_to_add_audit_row, request, "remove", f"upload {id}", sha256=upload.sha256)
    await database_threads.poll_query(add_row)
    return json_response(upload.as_json())


def _remove(request: Request, upload_id: str) -> Upload:
    visible_upload(request, upload_id)
    return state_of(request).uploads.remove(upload_id)


@router.post("/uploads/preview", **route_options(Scope.SCORE, PreviewOut, 403, 404, 413, 503, body=PreviewIn))
async def preview_files(
    request: Request, body: Annotated[PreviewIn, Depends(body_of(PreviewIn))], deadline: Deadline
) -> Response:
    """Files as a score would read them: the first five items, the columns, and the rows that cannot be used.

    The files are named as an order of kind `score` names them. Nothing is kept, and a bad row spoils no other one.
    At most `preview_rows` items and `preview_mib` of the unpacked files are read, of two previews at a time.
    """
    work = partial(_preview, request, body)
    return await while_connected(request, PREVIEWS.run(work, deadline))


def _preview(request: Request, body: PreviewIn, progress: DeadlineProgress) -> Response:
    state = state_of(request)
    progress.check()  # it may have waited in line
    require_allowed_sources(request, body.options)
    files, limits = item_files(body.options, state.home, state.serve), state.serve
    shown = preview(files, limits.preview_rows, most_bytes=limits.preview_mib * MIB, check=progress.check)
    return json_response(shown.as_json())
