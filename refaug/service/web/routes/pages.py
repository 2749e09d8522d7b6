"""Routes of the pages for people with a browser: shells, and their files."""

from __future__ import annotations

from typing import Final

from fastapi import APIRouter, Request
from starlette.responses import Response

from refaug.core.errors import NotFound
from refaug.service.web.pages.shells import POLICY, render_shell, shells
from refaug.service.web.pages.static_files import static_files

router = APIRouter(include_in_schema=False)

_FOR_EVER: Final = {"Cache-Control": "public, max-age=31536000, immutable"}


async def show_page(request: Request) -> Response:
    """Return the shell of a page; its script asks the API for the rest."""
    root: str = request.scope.get("root_path", "")
    path = request.scope["path"].removeprefix(root)
    page = render_shell(path, root.rstrip("/"))
    return Response(page, media_type="text/html", headers={"Content-Security-Policy": POLICY})


for _path in shells():
    router.add_api_route(_path, show_page, methods=["GET"])


@router.get("/pages/{digest}/{name:path}")
async def get_page_file(digest: str, name: str) -> Response:
    """Return a file of the pages; the digest in its address is that of all files."""
    files = static_files()
    if digest != files.digest or name not in files.files:
        raise NotFound(f"the pages have no file {name[:80]!r} of this version", remedy="load the page again")
    file = files.files[name]
    return Response(file.content, headers={"Content-Type": file.media_type, **_FOR_EVER})
