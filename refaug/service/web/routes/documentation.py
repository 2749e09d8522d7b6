"""The OpenAPI document, and the meanings of problem codes."""

from __future__ import annotations

import gzip
from typing import Annotated, Final

import orjson
from fastapi import APIRouter, Path, Request
from starlette.responses import Response

from refaug.core.errors import NotFound
from refaug.service.web.answers import json_response
from refaug.service.web.openapi import errors
from refaug.service.web.pages.problem_page import VARY, problem_page, wants_page
from refaug.service.web.problems import code_meanings
from refaug.service.web.schemas.catalogue import ProblemCodeOut

router = APIRouter(tags=["about"])

# The document repeats itself: of 808 kB this level leaves 78 in 9 ms, level 1 of all answers 108 in 4.
_GZIP_LEVEL: Final = 6


@router.get("/openapi.json", include_in_schema=False)
def get_openapi_document(request: Request) -> Response:
    """Return the OpenAPI document; under a proxy it names the path prefix."""
    document: dict[str, object] = request.app.openapi()
    if root := request.scope.get("root_path", "").rstrip("/"):
        document = {**document, "servers": [{"url": root}]}
    content, headers = orjson.dumps(document), {"Vary": "Accept-Encoding"}
    if "gzip" in request.headers.get("accept-encoding", ""):
        content = gzip.compress(content, _GZIP_LEVEL, mtime=0)
        headers["Content-Encoding"] = "gzip"
    return Response(content, media_type="application/json", headers=headers)


@router.get("/problems/{code}", responses={200: {"model": ProblemCodeOut}, **errors(404)})
def get_problem(request: Request, code: Annotated[str, Path(description="the code")]) -> Response:
    """What a code of problem means: where the `type` of an error leads. A browser gets a page."""
    titles = code_meanings()
    if wants_page(request):
        return _problem_page(request, code)
    if code not in titles:
        raise NotFound(f"no problem has the code {code[:80]!r}", remedy=f"one of: {', '.join(titles)}")
    return json_response({"code": code, **titles[code]}, headers=VARY)


def _problem_page(request: Request, code: str) -> Response:
    meanings = code_meanings()
    if code not in meanings:
        return problem_page(
            request, title=f"No problem has the code {code[:80]}", lines=[], status=404, codes=list(meanings)
        )
    meaning = meanings[code]
    lines = [
        f"An answer with the code {code} says this, usually with the status {meaning['status']}.",
        "Its detail says what it was about, and its remedy what helps.",
    ]
    return problem_page(request, title=meaning["title"], lines=lines)
