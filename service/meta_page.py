"""What `refaug meta` found as one HTML page, with everything in it: tables, plots, and how it was made."""

from __future__ import annotations

import base64
import html
import platform
import re
from collections.abc import Sequence
from importlib.metadata import version
from typing import Final

from core.text import harmless
from core.version import VERSION
from service.meta_plots import Plot
from service.meta_records import MetaResult, SetResult
from service.meta_tables import (
    Table,
    agreement_table,
    annotator_tables,
    bad_item_tables,
    difference_tables,
    gold_tables,
    group_tables,
    rows_table,
    system_tables,
)
from service.meta_text import ROWS_IN_WORDS, all_signatures, draws_in_words, per_cent

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


def page(result: MetaResult, plots: Sequence[Sequence[Plot]]) -> str:
    """The whole page; the plots are those of each set, and after them those of the mean."""
    sections = [_set_section(number, found, result, plots[number]) for number, found in enumerate(result.sets)]
    contents = [(f"set-{number}", found.name) for number, found in enumerate(result.sets)]
    if result.mean is not None:
        sections.insert(0, _mean_section(result, plots[-1]))
        contents.insert(0, ("mean", "mean over sets"))
    contents.append(("how", "how it was made"))
    links = "".join(f'<li><a href="#{anchor}">{_escaped(name)}</a></li>' for anchor, name in contents)
    body = [
        "<h1>Agreement of metrics with people</h1>",
        f"<p>{_escaped(_summary(result))}</p>",
        _warnings(result.warnings),
        f"<nav><ul>{links}</ul></nav>",
        *sections,
        _how(result),
    ]
    return "\n".join(
        [
            "<!DOCTYPE html>",
            '<html lang="en">',
            "<head>",
            '<meta charset="utf-8">',
            '<meta name="viewport" content="width=device-width, initial-scale=1">',
            '<meta http-equiv="Content-Security-Policy" content="default-src \'none\'; img-src data:; '
            "style-src 'unsafe-inline'\">",
            "<title>Agreement of metrics with people</title>",
            f"<style>{_STYLE}</style>",
            "</head>",
            "<body>",
            *body,
            "</body>",
            "</html>",
            "",
        ]
    )


def _escaped(text: str) -> str:
    return html.escape(harmless(text))


def _breakable(text: str) -> str:
    """Escaped, with places where a line may end in a long name: not within numbers."""
    return re.sub(r"[:/|](?=\S)|,(?=[^\s\d])", r"\g<0><wbr>", _escaped(text))


def _summary(result: MetaResult) -> str:
    settings = result.settings
    rows = sum(found.counts.used for found in result.sets)
    metrics, sets = len(result.metrics), len(result.sets)
    return (
        f"{metrics} metric{'s' * (metrics != 1)} on {rows:,} rated replies of {sets} test set{'s' * (sets != 1)}; "
        f"{ROWS_IN_WORDS[settings.rows]}. Correlations are with the mean rating of a reply, intervals of "
        f"{per_cent(settings)} from {draws_in_words(settings)}. "
        f"The baseline is {result.baseline}."
    )


def _warnings(warnings: Sequence[str]) -> str:
    if not warnings:
        return ""
    listed = "".join(f"<li>{_escaped(one)}</li>" for one in warnings)
    return f'<div class="warning"><strong>To bear in mind</strong><ul>{listed}</ul></div>'


def _mean_section(result: MetaResult, plots: Sequence[Plot]) -> str:
    mean = result.mean
    assert mean is not None
    tables = [agreement_table(mean.rows, result), *difference_tables(mean.rows, result)]
    intro = f"Of {', '.join(mean.sets)}; each set counts the same. Kendall and partial Spearman have no interval here."
    content = [f"<p>{_escaped(intro)}</p>", *map(_html_figure, plots), *map(_html_table, tables)]
    return "\n".join(['<section id="mean">', "<h2>Mean over sets</h2>", *content, "</section>"])


def _set_section(number: int, found: SetResult, result: MetaResult, plots: Sequence[Plot]) -> str:
    bars, *others = plots
    tables = [agreement_table(found.rows, result), *difference_tables(found.rows, result), rows_table(found)]
    tables += gold_tables(found)
    further = [*annotator_tables(found, result), *system_tables(found)]
    further += [*group_tables(found, result), *bad_item_tables(found)]
    content = [_html_figure(bars), *map(_html_table, tables)]
    if others:  # a scatter and the systems' boxes by turns; beside plots of the same kind they fill a page better
        content += ["<h3>Scores and ratings</h3>", _html_plots(others[::2])]
        content += ["<h3>Scores by system</h3>", _html_plots(others[1::2])]
    content += map(_html_table, further)
    return "\n".join([f'<section id="set-{number}">', f"<h2>{_escaped(found.name)}</h2>", *content, "</section>"])


def _html_plots(plots: Sequence[Plot]) -> str:
    return "\n".join(['<div class="plots">', *map(_html_figure, plots), "</div>"])


def _html_figure(plot: Plot) -> str:
    data, caption = base64.b64encode(plot.png).decode("ascii"), html.escape(plot.caption)
    return (
        f'<figure><img src="data:image/png;base64,{data}" width="{plot.width}" height="{plot.height}" '
        f'alt="{caption}"><figcaption>{caption}</figcaption></figure>'
    )


def _html_table(table: Table) -> str:
    head = "".join(
        f'<th scope="col"{_LONG if len(name) > _LONG_HEADING else ""}>{_breakable(name)}</th>' for name in table.columns
    )
    kind = ' class="text"' if table.text else ""
    title = _escaped(table.title)
    lines = [f"<h3>{title}</h3>", f'<div class="scroll" tabindex="0" role="region" aria-label="{title}"><table>']
    lines.append(f"<thead><tr>{head}</tr></thead><tbody>")
    for place, (name, *cells) in enumerate(table.rows):
        apart = ' class="apart"' if place in table.apart else ""
        content = "".join(f"<td{kind}>{_breakable(cell)}</td>" for cell in cells)
        lines.append(f'<tr{apart}><th scope="row">{_breakable(name)}</th>{content}</tr>')
    lines.append("</tbody></table></div>")
    if table.notes:
        lines.append('<ul class="note">' + "".join(f"<li>{_escaped(one)}</li>" for one in table.notes) + "</ul>")
    return "\n".join(lines)


def _how(result: MetaResult) -> str:
    """All that somebody needs who wants the same figures."""
    settings = result.settings
    least = (
        "none left out" if settings.min_kappa is None else f"those below a mean κ of {settings.min_kappa:g} left out"
    )
    facts = [
        ("rows", f"{settings.rows.value}: {ROWS_IN_WORDS[settings.rows]}"),
        ("baseline", result.baseline),
        ("draws", f"{settings.draws:,}"),
        ("seed", str(settings.seed)),
        ("confidence", f"{settings.confidence:g}"),
        ("annotators", least),
        *((f"data of {found.name}", found.data) for found in result.sets),
        ("refaug", VERSION),
        ("Python", platform.python_version()),
        *((name, version(name)) for name in ("numpy", "scipy", "matplotlib")),
    ]
    signatures = [(name, one.short, one.full) for name, one in all_signatures(result)]
    tables = [
        Table(title="Settings and versions", columns=("what", "value"), rows=facts, text=True),
        Table(title="Signatures", columns=("metric", "short", "full"), rows=signatures, text=True),
    ]
    return "\n".join(['<section id="how">', "<h2>How it was made</h2>", *map(_html_table, tables), "</section>"])
