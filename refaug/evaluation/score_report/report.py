"""The files of a report: a page, the scores as JSON, and a table."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import orjson

from refaug.core.files import make_folder
from refaug.evaluation.reports.html_page import write_file
from refaug.evaluation.score_files.score_details import FIELD
from refaug.evaluation.score_files.score_file import ScoreFile, sealed
from refaug.evaluation.score_report.csv_table import as_csv
from refaug.evaluation.score_report.page import page
from refaug.evaluation.scoring.score_settings import ScoreSettings

PAGE: Final = "report.html"
SCORES: Final = "scores.json"
TABLE: Final = "scores.csv"


@dataclass(frozen=True, kw_only=True)
class WrittenReport:
    """The files of a report."""

    page: Path
    scores: Path
    table: Path


def write_report(
    folder: Path, document: Mapping[str, Any], settings: ScoreSettings, *, with_details: bool
) -> WrittenReport:
    """Write the page of scores with details, the sealed scores (with their details if asked for), and the table.

    The same scores give the same files.
    """
    file = ScoreFile.of(sealed(document), SCORES)
    stored = document if with_details else {name: part for name, part in document.items() if name != FIELD}
    options = orjson.OPT_INDENT_2 | orjson.OPT_APPEND_NEWLINE | orjson.OPT_NON_STR_KEYS
    make_folder(folder)
    return WrittenReport(
        page=write_file(folder / PAGE, page(file, settings).encode()),
        scores=write_file(folder / SCORES, orjson.dumps(sealed(stored), option=options)),
        table=write_file(folder / TABLE, as_csv(file).encode()),
    )
