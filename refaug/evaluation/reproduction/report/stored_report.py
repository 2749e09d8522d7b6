"""Reports that are read back from their JSON, so that their page and their tables are rendered again without the data.

The JSON has what the page shows: sentences, tables as they are printed, and the figures of the plots.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from refaug.core.errors import BadInput
from refaug.evaluation.reports.html_page import Table
from refaug.evaluation.reproduction.report.plots import redraw
from refaug.evaluation.reproduction.report.report import PAGE, Report, Section, json_of, markdown_of, page_of

_PROVENANCE: Final = (
    *("command", "date", "fraction", "draws", "seeds", "seed", "preset", "epochs", "threads", "made_of", "sets"),
    *("seconds", "software"),
)
_OLD: Final = "its page cannot be made from it alone; run its command again: "


@dataclass(frozen=True, kw_only=True)
class StoredReport:
    """A report with how it was made, as its JSON has both."""

    report: Report
    provenance: Mapping[str, Any]

    @classmethod
    def of(cls, document: Mapping[str, Any], shown_name: str) -> StoredReport:
        """Return the report of a document, or raise BadInput that says what the document lacks."""
        if missing := [name for name in ("name", *_PROVENANCE, "notes") if name not in document]:
            raise BadInput(
                f"{shown_name} is no result of refaug reproduce: it has no {', no '.join(missing)}",
                remedy="the .json that refaug reproduce wrote",
            )
        if PAGE not in document:
            raise BadInput(f"{shown_name} has no {PAGE!r}", remedy=f"{_OLD}{document['command']}")
        try:
            report = _report(document)
        except (KeyError, TypeError, AttributeError, ValueError) as error:
            raise BadInput(
                f"{shown_name}: {PAGE!r} is not as refaug reproduce writes it: {error}",
                remedy=f"{_OLD}{document['command']}",
            ) from error
        return cls(report=report, provenance={name: document[name] for name in _PROVENANCE})

    def page(self) -> str:
        """Return the page with plots."""
        return page_of(self.report, self.provenance)

    def markdown(self) -> str:
        """Return the tables to be read as text."""
        return markdown_of(self.report, self.provenance)

    def json(self) -> str:
        """Return the JSON that the report was read from."""
        return json_of(self.report, self.provenance)


def _report(document: Mapping[str, Any]) -> Report:
    page = document[PAGE]
    head = {"name", "notes", PAGE, *_PROVENANCE}
    return Report(
        name=document["name"],
        title=page["title"],
        summary=page["summary"],
        sections=[_section(stored) for stored in page["sections"].values()],
        data={name: figures for name, figures in document.items() if name not in head},
        notes=document["notes"],
    )


def _section(stored: Mapping[str, Any]) -> Section:
    return Section(
        title=stored["title"],
        text=stored["text"],
        tables=[Table(**{**table, "apart": frozenset(table["apart"])}) for table in stored["tables"]],
        plots=[redraw(recipe) for recipe in stored["plots"]],
    )
