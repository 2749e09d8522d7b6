"""Write the result of `refaug meta` as CSV, as tables for LaTeX, or as a page with plots in a folder.

Nothing is computed here but what a plot needs, and no file contains a time: equal results give equal bytes.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Final

from refaug.core.errors import Usage
from refaug.core.files import make_folder
from refaug.evaluation.agreement.records import MetaResult
from refaug.evaluation.agreement.report.csv_table import as_csv
from refaug.evaluation.agreement.report.latex_tables import as_latex

__all__ = ["as_csv", "as_latex", "require_folder", "write_report"]

PAGE: Final = "report.html"


def write_report(meta_result: MetaResult, folder: Path) -> list[Path]:
    """Write report.html, with everything in it, and its plots beside it as PNG; the page comes first in the list.

    Other files in the folder stay, and files of the same names are replaced. The page is written last: where there is a
    page, its plots are there as well.
    """
    require_folder(folder)
    from refaug.evaluation.agreement.report.page import page  # noqa: PLC0415  matplotlib is slow to import
    from refaug.evaluation.agreement.report.plots import plots  # noqa: PLC0415
    from refaug.evaluation.reports.html_page import write_file  # noqa: PLC0415

    drawn = plots(meta_result)
    content = page(meta_result, drawn)
    make_folder(folder)
    written = [write_file(folder / plot.file, plot.png) for section in drawn for plot in section]
    return [write_file(folder / PAGE, content.encode()), *written]


def require_folder(folder: Path) -> None:
    """Refuse a path where no folder can be made; commands check this before they do the work."""
    existing = next(path for path in (folder, *folder.absolute().parents) if os.path.lexists(path))
    if not existing.is_dir():
        raise Usage(f"{existing} is not a folder", remedy="name another folder for the report, or move what is there")
