"""The shells of the pages of studies."""

from __future__ import annotations

from typing import Final

from refaug.service.web.pages.shells import Shell

STUDIES: Final = Shell(
    name="studies",
    title="Studies",
    summary="let people chat, rate and compare",
    folder="studies/",
    styles=("take/take.css", "studies/studies.css"),
)
# The page of participants; the token of their link is in a part of the address that no server sees.
TAKE: Final = Shell(name="take", title="Take part", summary="of a study", folder="take/", is_listed=False)
