"""Problems as a page, for who opens an address with a browser; programs get the problem document."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from fastapi import Request
from starlette.responses import Response

from refaug.service.web.pages.shells import POLICY, TEMPLATES, listed_shells
from refaug.service.web.pages.static_files import static_files
from refaug.tables.reports.html_page import render_page

VARY: Final = {"Vary": "Accept"}  # of both forms, for caches between


def wants_page(request: Request) -> bool:
    """Return whether a browser asks for an address to show it: it accepts XHTML, which programs do not name."""
    return request.method in ("GET", "HEAD") and "application/xhtml+xml" in request.headers.get("accept", "")


def problem_page(
    request: Request, *, title: str, lines: Sequence[str], status: int = 200, codes: Sequence[str] = ()
) -> Response:
    """Return a page with what is wrong and what helps, and the way to the other pages."""
    root: str = request.scope.get("root_path", "").rstrip("/")
    page = render_page(
        "problem.html.j2",
        folders=TEMPLATES,
        title=title,
        lines=lines,
        codes=codes,
        shells=listed_shells(),
        root=root,
        files=f"{root}/pages/{static_files().digest}",
    )
    headers = {"Content-Security-Policy": POLICY, **VARY}
    return Response(page, status_code=status, media_type="text/html", headers=headers)
