"""A report as features make it: sentences, tables, plots and replies in sections; a page and Markdown write it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, Any

from refaug.tables.reports.table import Table

if TYPE_CHECKING:
    from refaug.tables.reports.forest import ForestPlot
    from refaug.tables.reports.plotting import Plot


class PartForm(StrEnum):
    """How a part of a page is shown: the names of macros in parts.html.j2."""

    HEADING = "heading"  # a text
    NOTE = "note"  # a text that may break inside of long names
    COMMAND = "command"  # a text to copy
    PARAGRAPHS = "paragraphs"  # texts
    SENTENCES = "sentences"  # texts of which each stands for itself
    TABLE = "table"
    TABLE_BODY = "table_body"  # a table whose title stands above already
    FOLDED = "folded"  # a table that shows its title alone until it is opened
    FIGURE = "figure"  # a plot
    GRID = "grid"  # plots side by side where there is room
    HISTOGRAMS = "histograms"
    CARD_LISTS = "card_lists"


@dataclass(frozen=True)
class Part:
    """A part of a page, as its form takes it."""

    form: PartForm
    content: Any


@dataclass(frozen=True, kw_only=True)
class Section:
    """A heading with text, plots and tables, then further parts in their order."""

    title: str
    anchor: str = ""
    link: str = ""  # the title in the list of contents, where that is another
    text: Sequence[str] = ()
    plots: Sequence[Plot] = ()
    forests: Sequence[ForestPlot] = ()
    tables: Sequence[Table] = ()
    parts: Sequence[Part] = ()


@dataclass(frozen=True, kw_only=True)
class Report:
    """A title, the findings in a few sentences, and sections."""

    title: str
    summary: Sequence[str]
    sections: Sequence[Section]
    warnings: Sequence[str] = ()
    notes: Sequence[str] = ()  # gaps: what could not be measured, and why
    parts: Sequence[Part] = ()  # before the sections
    has_contents: bool = True

    def as_markdown(self, escape: Callable[[str], str], head: Sequence[str] = ()) -> str:
        """Return sentences and tables, each text escaped; `head` is Markdown below the title."""
        lines = [f"# {escape(self.title)}", "", *head]
        for sentence in self.summary:
            lines += [escape(sentence), ""]
        remarks = [*self.warnings, *self.notes]
        lines += [f"- {escape(remark)}" for remark in remarks] + ([""] if remarks else [])
        for section in self.sections:
            lines += [f"## {escape(section.title)}", ""]
            for sentence in section.text:
                lines += [escape(sentence), ""]
            for table in section.tables:
                lines += [f"### {escape(table.title)}", "", *table.as_markdown(escape), ""]
        return "\n".join(lines)
