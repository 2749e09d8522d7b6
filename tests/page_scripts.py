"""The files of the pages as tests read them: their texts, and what scripts import."""

from __future__ import annotations

import posixpath
import re

from refaug.service.web.pages.static_files import static_files

FILES = {name: file.content.decode() for name, file in static_files().files.items()}
SCRIPTS = {name: text for name, text in FILES.items() if name.endswith(".js")}
FIRST_PAGE = 100_000  # bytes, with nothing packed
PARTICIPANTS = 60_000  # bytes of the page of participants, packed as they are sent
PAGE = 120_000  # bytes of a page with its files, packed as they are sent
PAGE_OF_THE_API = 150_000  # with the OpenAPI document


def imports_of(name: str) -> list[tuple[str, str]]:
    """What a script imports, and from which script."""
    found = re.findall(r'import \{([^}]*)\} from "(\.[\w./-]+\.js)"', SCRIPTS[name])
    return [(names, posixpath.normpath(f"{posixpath.dirname(name)}/{source}").lstrip("/")) for names, source in found]


def imported_by(name: str) -> set[str]:
    """A script and all that it imports, directly or not."""
    seen, pending = set[str](), [name]
    while pending:
        current = pending.pop()
        if current not in seen:
            seen.add(current)
            pending += [source for _, source in imports_of(current)]
    return seen
