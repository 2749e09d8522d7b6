"""The documentation of the API as a page, which loads nothing from other sites, and the meanings of problem codes."""

from __future__ import annotations

from functools import cache
from html import escape
from importlib import resources
from typing import Annotated, Final

import orjson
from fastapi import APIRouter, Path, Request
from starlette.responses import Response

from refaug.core.errors import NotFound
from refaug.service.web.answers import json_response
from refaug.service.web.openapi import errors
from refaug.service.web.problems import code_meanings
from refaug.service.web.schemas.catalogue import ProblemCodeOut

router = APIRouter(tags=["about"])

_OURS: Final = resources.files("refaug.service.web") / "documentation"
_DAY: Final = {"Cache-Control": "max-age=86400"}
# Swagger UI sets styles on its elements and has images inside of its style sheet.
_POLICY: Final = (
    "default-src 'none'; script-src 'self'; style-src 'self' 'unsafe-inline'; img-src 'self' data:; "
    "connect-src 'self'; frame-ancestors 'none'; base-uri 'none'; form-action 'none'"
)
_FILES: Final = {
    "start.js": "text/javascript; charset=utf-8",  # ours; the others are of a package
    "swagger-ui-bundle.js": "text/javascript; charset=utf-8",
    "swagger-ui.css": "text/css; charset=utf-8",
    "favicon.png": "image/png",
}


@router.get("/docs", include_in_schema=False)
async def show_docs(request: Request) -> Response:
    """Return the page that shows the OpenAPI document and sends requests."""
    page = _file("page.html").decode().format(title=escape(request.app.title), root=escape(_root(request)))
    return Response(page, media_type="text/html", headers={"Content-Security-Policy": _POLICY})


@router.get("/docs/files/{name}", include_in_schema=False)
def get_docs_file(name: str) -> Response:
    """Return a file of the documentation page."""
    if name not in _FILES:
        raise NotFound(f"the documentation has no file {name[:80]!r}")
    return Response(_file(name), headers={"Content-Type": _FILES[name], **_DAY})


@router.get("/openapi.json", include_in_schema=False)
def get_openapi_document(request: Request) -> Response:
    """Return the OpenAPI document; under a proxy it names the path prefix."""
    document: dict[str, object] = request.app.openapi()
    if root := _root(request):
        document = {**document, "servers": [{"url": root}]}
    return Response(orjson.dumps(document), media_type="application/json")


@router.get("/problems/{code}", responses={200: {"model": ProblemCodeOut}, **errors(404)})
def get_problem(code: Annotated[str, Path(description="the code")]) -> Response:
    """What a code of problem means: where the `type` of an error leads."""
    titles = code_meanings()
    if code not in titles:
        raise NotFound(f"no problem has the code {code[:80]!r}", remedy=f"one of: {', '.join(titles)}")
    return json_response({"code": code, **titles[code]})


@cache
def _file(name: str) -> bytes:
    """Return a file of ours, else of the package, whose application is not used."""
    ours = _OURS / name
    return ours.read_bytes() if ours.is_file() else (resources.files("fastapi_offline") / "static" / name).read_bytes()


def _root(request: Request) -> str:
    root: str = request.scope.get("root_path", "")
    return root.rstrip("/")
