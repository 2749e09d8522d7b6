"""The report of a study as a page, as Markdown, and as JSON in a folder; all of it from the JSON, which has no time."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

import orjson

from refaug.core.errors import BadInput
from refaug.core.files import make_folder
from refaug.core.text.characters import make_printable
from refaug.evaluation.reports.html_page import Table, render_page, write_file
from refaug.evaluation.studies.report.numbers import FORMAT
from refaug.evaluation.studies.report.sections import study_sections, study_summary, study_warnings

PAGE: Final = "report.html"
MARKDOWN: Final = "report.md"
JSON: Final = "report.json"
_MARKS: Final = re.compile(r"([\\`*_{}\[\]<>#|~])")


def study_page(report: Mapping[str, Any]) -> str:
    """Return the page; names and texts in it are escaped."""
    sections = study_sections(report)
    return render_page(
        "studies/report/page.html.j2",
        title=_title(report),
        summary=study_summary(report),
        warnings=study_warnings(report),
        contents=[(section.anchor, section.title) for section in sections],
        sections=sections,
    )


def study_markdown(report: Mapping[str, Any]) -> str:
    """Return the same as Markdown; what would be a mark or HTML in a name is escaped."""
    lines = [f"# {_plain(_title(report))}", "", _plain(study_summary(report)), ""]
    warnings = study_warnings(report)
    lines += [f"- {_plain(warning)}" for warning in warnings] + ([""] if warnings else [])
    for section in study_sections(report):
        lines += [f"## {_plain(section.title)}", ""]
        for sentence in section.text:
            lines += [_plain(sentence), ""]
        for table in section.tables:
            lines += [f"### {_plain(table.title)}", "", *_table_lines(table), ""]
    return "\n".join(lines)


def write_study_report(report: Mapping[str, Any], folder: Path) -> list[Path]:
    """Write the three files and return their paths, the page first; where there is a page, the others are there."""
    page, markdown = study_page(report), study_markdown(report)
    make_folder(folder)
    content = orjson.dumps(report, option=orjson.OPT_INDENT_2 | orjson.OPT_APPEND_NEWLINE)
    written = [write_file(folder / JSON, content), write_file(folder / MARKDOWN, markdown.encode())]
    return [write_file(folder / PAGE, page.encode()), *written]


def stored_study_pages(document: Mapping[str, Any], shown_name: str) -> tuple[str, str]:
    """Return page and Markdown of a stored report; BadInput where it is of another format or lacks something."""
    if document.get("study_report") != FORMAT:
        raise BadInput(f"{shown_name}: format {document.get('study_report')!r} is not {FORMAT}", remedy="make it again")
    try:
        return study_page(document), study_markdown(document)
    except (KeyError, TypeError, AttributeError, ValueError) as error:
        raise BadInput(
            f"{shown_name} is not as refaug studies report writes it: {error!r}",
            remedy="run refaug studies report again",
        ) from error


def _title(report: Mapping[str, Any]) -> str:
    return f"What people said in study {report['study']}"


def _table_lines(table: Table) -> list[str]:
    rows = [table.columns, *table.rows]
    cells = [[_plain(text) for text in row] for row in rows]
    cells.insert(1, ["---"] * len(table.columns))
    lines = ["| " + " | ".join(row) + " |" for row in cells]
    return [*lines, *(["", *(f"- {_plain(note)}" for note in table.notes)] if table.notes else [])]


def _plain(text: str) -> str:
    return _MARKS.sub(r"\\\1", make_printable(text))
