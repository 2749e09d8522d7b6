"""The shells of the pages: what a browser shows before the first answer of the API."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from typing import Final

from refaug.core.installation import PAGES, find, registered
from refaug.core.version import VERSION
from refaug.service.scopes import ALLOWED
from refaug.service.web.pages.static_files import page_folders, static_files
from refaug.tables.reports.html_page import render_page

TEMPLATES: Final = page_folders("templates")
# No script and no style inside of pages, nothing from elsewhere, and no markup made of texts (trusted types).
POLICY: Final = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; "
    "frame-ancestors 'none'; base-uri 'none'; form-action 'none'; require-trusted-types-for 'script'; trusted-types"
)


@dataclass(frozen=True, kw_only=True)
class Shell:
    """A page: its template and script have its name."""

    name: str
    title: str
    summary: str  # of the navigation
    folder: str = ""  # of its scripts, where it has a folder of its own
    styles: tuple[str, ...] = ()  # beside those of all pages
    is_listed: bool = True  # in the navigation of the others

    @property
    def script(self) -> str:
        """Return the name of its script among the files of the pages."""
        return f"{self.folder}{self.name}.js"


SHELLS: Final[Mapping[str, Shell]] = {
    "/": Shell(
        name="playground", title="Playground", summary="see why a reply gets its score", styles=("playground.css",)
    ),
    "/evaluate": Shell(name="evaluate", title="Evaluate", summary="score files, and see which system is better"),
    "/bots": Shell(
        name="bots",
        title="Bots",
        summary="add, try and watch what replies by itself",
        folder="bots/",
        styles=("bots/bots.css",),
    ),
    "/service": Shell(name="service", title="Service", summary="versions, jobs, schedules"),
    "/keys": Shell(name="keys", title="Keys", summary="who may do what"),
}
_LAST: Final[Mapping[str, Shell]] = {
    "/docs": Shell(
        name="documentation",
        title="API",
        summary="every route, with requests to send",
        folder="documentation/",
        styles=("documentation/documentation.css",),
    ),
}


@cache
def shells() -> Mapping[str, Shell]:
    """Return all pages by their paths: those of extras stand before the last one."""
    return {
        **SHELLS,
        **{f"/{name}": find(PAGES, name) for name in registered(PAGES)},
        **_LAST,
    }


def listed_shells() -> Mapping[str, Shell]:
    """Return the pages of the navigation by their paths."""
    return {address: shell for address, shell in shells().items() if shell.is_listed}


def render_shell(path: str, root: str) -> str:
    """Return the HTML of a page; `root` is the path under which a proxy shows the service."""
    return render_page(
        f"{shells()[path].name}.html.j2",
        folders=TEMPLATES,
        shell=shells()[path],
        path=path,
        shells=listed_shells(),
        scopes=ALLOWED,
        root=root,
        files=f"{root}/pages/{static_files().digest}",
        version=VERSION,
    )
