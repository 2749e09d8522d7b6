"""What the pages of reports have in common: how they look, and how tables and plots stand in them.

A page needs nothing from elsewhere, and no script. Names and texts in it are other people's: all of them are escaped,
and what cannot be seen of them (line ends, control characters, turned directions) is written out.
"""

from __future__ import annotations

import base64
import html
import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from core.files import write_aside
from core.text import harmless
from service.plotting import Plot

_STYLE: Final = """
:root { color-scheme: light dark; --ink: #1b1f24; --paper: #ffffff; --faint: #5a6470; --line: #d4d9df;
  --stripe: #f5f7f9; --link: #005a8f; }
@media (prefers-color-scheme: dark) { :root { --ink: #e6e6e6; --paper: #1a1a1a; --faint: #a3a3a3; --line: #454545;
  --stripe: #232323; --link: #7cc4f0; } }
* { box-sizing: border-box; }
html { -webkit-text-size-adjust: 100%; }
body { margin: 0 auto; padding: 1rem; max-width: 78rem; background: var(--paper); color: var(--ink);
  font: 1rem/1.5 system-ui, sans-serif; overflow-wrap: anywhere; }
h1 { font-size: 1.6rem; line-height: 1.2; margin: 0.5rem 0; }
h2 { font-size: 1.3rem; margin: 2.5rem 0 0.5rem; padding-top: 0.5rem; border-top: 2px solid var(--line); }
h3 { font-size: 1.05rem; margin: 1.75rem 0 0.25rem; }
a { color: var(--link); }
nav ul { list-style: none; padding: 0; display: flex; flex-wrap: wrap; gap: 0.25rem 1.25rem; margin: 0.5rem 0; }
.note, figcaption { color: var(--faint); font-size: 0.85rem; }
ul.note { margin: 0.25rem 0; padding-left: 1.2rem; }
.warning { border-left: 4px solid #e69f00; padding: 0.25rem 0.75rem; margin: 1rem 0; }
.scroll { overflow-x: auto; margin: 0.5rem 0; }
table { border-collapse: collapse; font-size: 0.875rem; font-variant-numeric: tabular-nums; }
th, td { padding: 0.25rem 0.6rem; text-align: left; vertical-align: top; border-bottom: 1px solid var(--line); }
thead th { border-bottom: 2px solid var(--line); vertical-align: bottom; white-space: nowrap; }
thead th.long { white-space: normal; min-width: 10rem; max-width: 16rem; }
td { white-space: nowrap; overflow-wrap: normal; }
td.text { white-space: normal; overflow-wrap: anywhere; }
td.text:last-child { min-width: 14rem; }
tbody th { font-weight: 600; min-width: 11rem; max-width: 22rem; position: sticky; left: 0; background: var(--paper); }
tbody tr:nth-child(even) > * { background: var(--stripe); }
tr.apart > * { border-top: 2px solid var(--line); }
.plots { display: grid; grid-template-columns: repeat(auto-fill, minmax(min(100%, 22rem), 1fr)); gap: 1rem;
  align-items: start; }
figure { margin: 0.75rem 0; }
img { display: block; max-width: 100%; height: auto; background: #ffffff; }
/* white becomes the paper */
@media (prefers-color-scheme: dark) { img { filter: invert(0.9) hue-rotate(180deg); } }
@media (max-width: 40rem) { tbody th { min-width: 7rem; font-size: 0.8rem; } thead th.long { min-width: 7rem; } }
@media print {
  :root { --ink: #000000; --paper: #ffffff; --faint: #444444; --line: #bbbbbb; --stripe: #ffffff; --link: #000000; }
  html { font-size: 10pt; } body { max-width: none; padding: 0; }
  .scroll { overflow: visible; } table { font-size: 7.5pt; } th, td { padding: 0.1rem 0.3rem; }
  td { white-space: normal; }
  tbody th { position: static; min-width: 6rem; } thead th.long { min-width: 5rem; }
  thead { display: table-header-group; } tr, figure { break-inside: avoid; }
  h2, h3 { break-after: avoid; } img { filter: none; } nav { display: none; }
  .plots { grid-template-columns: 1fr 1fr; }
}
"""
_LONG: Final = ' class="long"'
_LONG_HEADING: Final = 24  # characters


@dataclass(frozen=True, kw_only=True)
class Table:
    """A table of plain text, the first column of which names its rows; `notes` say why something is missing."""

    title: str
    columns: Sequence[str]
    rows: Sequence[Sequence[str]]
    notes: Sequence[str] = ()
    text: bool = False  # whether cells are sentences rather than figures
    apart: frozenset[int] = frozenset()  # rows with a line above


def whole_page(title: str, body: Sequence[str]) -> str:
    """A page with this heading; the parts of its body are HTML already."""
    return "\n".join(
        [
            "<!DOCTYPE html>",
            '<html lang="en">',
            "<head>",
            '<meta charset="utf-8">',
            '<meta name="viewport" content="width=device-width, initial-scale=1">',
            '<meta http-equiv="Content-Security-Policy" content="default-src \'none\'; img-src data:; '
            "style-src 'unsafe-inline'\">",
            f"<title>{escaped(title)}</title>",
            f"<style>{_STYLE}</style>",
            "</head>",
            "<body>",
            f"<h1>{escaped(title)}</h1>",
            *body,
            "</body>",
            "</html>",
            "",
        ]
    )


def write_file(path: Path, content: bytes) -> Path:
    """Write a file of a report, whole or not at all."""
    with write_aside(path) as file:
        file.write(content)
    return path


def escaped(text: str) -> str:
    """Text as it stands in a page."""
    return html.escape(harmless(text))


def _breakable(text: str) -> str:
    """Escaped, with places where a line may end in a long name: not within numbers."""
    return re.sub(r"[:/|](?=\S)|,(?=[^\s\d])", r"\g<0><wbr>", escaped(text))


def warnings_box(warnings: Sequence[str]) -> str:
    """What a reader should know first."""
    if not warnings:
        return ""
    listed = "".join(f"<li>{escaped(one)}</li>" for one in warnings)
    return f'<div class="warning"><strong>To bear in mind</strong><ul>{listed}</ul></div>'


def html_plots(plots: Sequence[Plot]) -> str:
    """Plots beside each other."""
    return "\n".join(['<div class="plots">', *map(html_figure, plots), "</div>"])


def html_figure(plot: Plot) -> str:
    """A plot with its caption, held in the page itself."""
    data, caption = base64.b64encode(plot.png).decode("ascii"), html.escape(plot.caption)
    return (
        f'<figure><img src="data:image/png;base64,{data}" width="{plot.width}" height="{plot.height}" '
        f'alt="{caption}"><figcaption>{caption}</figcaption></figure>'
    )


def html_table(table: Table) -> str:
    """A table with its title and notes."""
    head = "".join(
        f'<th scope="col"{_LONG if len(name) > _LONG_HEADING else ""}>{_breakable(name)}</th>' for name in table.columns
    )
    kind = ' class="text"' if table.text else ""
    title = escaped(table.title)
    lines = [f"<h3>{title}</h3>", f'<div class="scroll" tabindex="0" role="region" aria-label="{title}"><table>']
    lines.append(f"<thead><tr>{head}</tr></thead><tbody>")
    for place, (name, *cells) in enumerate(table.rows):
        apart = ' class="apart"' if place in table.apart else ""
        content = "".join(f"<td{kind}>{_breakable(cell)}</td>" for cell in cells)
        lines.append(f'<tr{apart}><th scope="row">{_breakable(name)}</th>{content}</tr>')
    lines.append("</tbody></table></div>")
    if table.notes:
        lines.append('<ul class="note">' + "".join(f"<li>{escaped(one)}</li>" for one in table.notes) + "</ul>")
    return "\n".join(lines)
