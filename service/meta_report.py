"""What `refaug meta` found, for others to read: as CSV, as tables for LaTeX, or as a page with plots in a folder.

Nothing is computed here but what a plot needs, and no file holds a time: equal results give equal bytes.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Final

from core.errors import Usage
from core.files import make_folder
from service.meta_csv import as_csv
from service.meta_latex import as_latex
from service.meta_records import MetaResult

__all__ = ["as_csv", "as_latex", "require_folder", "write_report"]

PAGE: Final = "report.html"


def write_report(result: MetaResult, folder: Path) -> list[Path]:
    """Write report.html, with everything in it, and its plots beside it as PNG; the page comes first in the list.

    Other files in the folder are left alone, those of the same names replaced. The page is written last: where there
    is a page, its plots are there as well.
    """
    require_folder(folder)
    from service.meta_page import page  # noqa: PLC0415  matplotlib is slow to import
    from service.meta_plots import plots  # noqa: PLC0415
    from service.pages import write_file  # noqa: PLC0415

    drawn = plots(result)
    content = page(result, drawn)
    make_folder(folder)
    written = [write_file(folder / plot.file, plot.png) for of_section in drawn for plot in of_section]
    return [write_file(folder / PAGE, content.encode()), *written]


def require_folder(folder: Path) -> None:
    """Refuse a place where no folder can be made; a command may ask before it does the work."""
    there = next(path for path in (folder, *folder.absolute().parents) if os.path.lexists(path))
    if not there.is_dir():
        raise Usage(f"{there} is not a folder", remedy="name another folder for the report, or move what is there")
