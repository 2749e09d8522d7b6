"""What a part of the proof found, as three files of one name: a page, a table in Markdown, and JSON with every figure.

Beside the figures stands what made them: the command, versions of artefacts and libraries, data, and time.
"""

from __future__ import annotations

import platform
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from importlib.metadata import version
from pathlib import Path
from typing import Any, Final

from core.errors import Usage
from core.files import make_folder, write_json
from core.version import VERSION
from metrics.correlation import PARTIAL
from service.pages import Table, escaped, html_plots, html_table, whole_page, write_file
from service.plotting import Plot
from service.proof.chain import Chain
from service.proof.figures import MEAN, Figure, Line, Measured
from service.proof.sets import ProofSet

_LIBRARIES: Final = ("numpy", "scipy", "torch", "faiss-cpu", "numba")
IN_WORDS: Final = {"spearman": "Spearman", PARTIAL: "partial Spearman", "pearson": "Pearson"}


@dataclass(frozen=True, kw_only=True)
class Section:
    """A heading with what is to be said, tables and plots; the sentences hold figures of the same run."""

    title: str
    text: Sequence[str] = ()
    tables: Sequence[Table] = ()
    plots: Sequence[Plot] = ()


@dataclass(frozen=True, kw_only=True)
class Report:
    """One part of the proof."""

    name: str
    title: str
    summary: Sequence[str]  # what is shown and what is not, first of all
    sections: Sequence[Section]
    data: Mapping[str, Any]  # every figure, for programs
    notes: Sequence[str] = field(default=())  # gaps: what could not be measured, and why


def write_report(report: Report, chain: Chain, sets: Sequence[ProofSet], command: str, folder: Path) -> list[Path]:
    """Write the three files; the page comes first."""
    make_folder(folder)
    how = made_how(chain, sets, command)
    page = write_file(folder / f"{report.name}.html", _page(report, how).encode())
    text = write_file(folder / f"{report.name}.md", _markdown(report, how).encode())
    written = folder / f"{report.name}.json"
    head = {"name": report.name, **how, "notes": list(report.notes)}
    if both := head.keys() & report.data.keys():
        raise Usage(f"{report.name}: {', '.join(sorted(both))} would be written over by figures of that name")
    write_json(written, {**head, **report.data})
    return [page, text, written]


def made_how(chain: Chain, sets: Sequence[ProofSet], command: str) -> dict[str, Any]:
    """All that somebody needs who wants the same figures."""
    settings = chain.settings
    return {
        "command": command,
        "fraction": settings.fraction,
        "draws": settings.draws,
        "seeds": settings.seeds,
        "seed": settings.seed,
        "preset": settings.preset,
        "epochs": settings.epochs or "of the preset",
        "threads": settings.threads,
        "made_of": dict(chain.made),
        "sets": {one.name: {"data": one.data, "replies": len(one.replies), "notes": list(one.notes)} for one in sets},
        "seconds": dict(chain.seconds),
        "software": {
            "refaug": VERSION,
            "python": platform.python_version(),
            **{name: version(name) for name in _LIBRARIES},
        },
    }


# ── tables ────────────────────────────────────────────────────────────────────────────────────────────────────────


def cell(figure: Figure) -> str:
    """A figure with its interval, as it stands in a table: .312 [.22, .40]."""
    if figure.value is None:
        return f"– ({figure.why})" if figure.why else "–"
    value = short(figure.value)
    if figure.low is None or figure.high is None:
        return value
    return f"{value} [{short(figure.low, 2)}, {short(figure.high, 2)}]"


def verdict(differences: Sequence[Figure]) -> str:
    """What differences that are claimed to be above 0 allow to be said, one for each kind of correlation."""
    sure = [one.low is not None and one.low > 0 for one in differences]
    if any(one.high is not None and one.high < 0 for one in differences):
        return "refuted" if not any(sure) else "shown for one kind, refuted for another"
    if all(sure):
        return "shown"
    return "shown for one kind" if any(sure) else "not shown"


def short(value: float, digits: int = 3) -> str:
    """A correlation without its leading zero."""
    text = f"{value:.{digits}f}"
    if float(text) == 0:
        text = f"{0:.{digits}f}"
    return text.replace("0.", ".", 1) if text.lstrip("-").startswith("0.") else text


def agreement_table(
    found: Measured,
    title: str,
    *,
    kinds: Sequence[str] = ("spearman", PARTIAL),
    baseline: str | Mapping[str, str] | None = None,
    lines: Sequence[str] | None = None,
    notes: Sequence[str] = (),
) -> Table:
    """A row for each line: every kind on every set and as the mean, and what it has over the baseline on the mean.

    The baseline may be another one for each kind of correlation.
    """
    wheres, names = found.wheres, list(lines or found.names)
    columns = ["", *(f"{IN_WORDS[kind]}, {where}" for kind in kinds for where in wheres)]
    beside = {kind: baseline if isinstance(baseline, str) else baseline[kind] for kind in kinds} if baseline else {}
    columns += [f"{IN_WORDS[kind]} less {other}, {_whole(found)}" for kind, other in beside.items()]
    rows = []
    for name in names:
        row = [name, *(cell(found.figure(name, kind, where)) for kind in kinds for where in wheres)]
        row += [
            "" if name == other else cell(found.difference(name, other, kind, wheres[-1]))
            for kind, other in beside.items()
        ]
        rows.append(row)
    counted = "; ".join(_counted(found, one) for one in found.sets)
    return Table(title=title, columns=columns, rows=rows, notes=(counted, *notes))


def _counted(found: Measured, where: str) -> str:
    text = f"{where}: {found.rows[where]:,} rows of {found.contexts[where]:,} contexts"
    left_out = found.left_out[where]
    return text + (f", {left_out:,} left out, for which one of the lines has no score" if left_out else "")


def _whole(found: Measured) -> str:
    return MEAN if MEAN in found.wheres else found.sets[0]


def about_table(lines: Sequence[Line]) -> Table:
    """How each line was made."""
    rows = [[line.name, line.about] for line in lines if line.about]
    return Table(title="What each line is", columns=("line", "how it is made"), rows=rows, text=True)


# ── pages ─────────────────────────────────────────────────────────────────────────────────────────────────────────


def _page(report: Report, how: Mapping[str, Any]) -> str:
    body = [f"<p>{escaped(one)}</p>" for one in report.summary]
    if report.notes:
        body.append('<ul class="note">' + "".join(f"<li>{escaped(one)}</li>" for one in report.notes) + "</ul>")
    for number, section in enumerate(report.sections):
        body.append(f'<section id="section-{number}"><h2>{escaped(section.title)}</h2>')
        body += [f"<p>{escaped(one)}</p>" for one in section.text]
        if section.plots:
            body.append(html_plots(section.plots))
        body += [html_table(one) for one in section.tables]
        body.append("</section>")
    body.append(f'<section id="how"><h2>How it was made</h2>{html_table(_how_table(how))}</section>')
    return whole_page(report.title, body)


def _how_table(how: Mapping[str, Any]) -> Table:
    return Table(title="Settings, versions and time", columns=("what", "value"), rows=list(_facts(how)), text=True)


def _facts(how: Mapping[str, Any]) -> list[tuple[str, str]]:
    facts = list[tuple[str, str]]()
    for key, value in how.items():
        if isinstance(value, Mapping):
            facts += [(f"{key}: {inner}", _said(one)) for inner, one in value.items()]
        else:
            facts.append((key, _said(value)))
    return facts


def _said(value: Any) -> str:
    if isinstance(value, Mapping):
        return ", ".join(f"{key} {_said(one)}" for key, one in value.items() if one not in ([], ""))
    if isinstance(value, list):
        return "; ".join(map(str, value))
    return f"{value:,}" if isinstance(value, int) else str(value)


def _markdown(report: Report, how: Mapping[str, Any]) -> str:
    lines = [f"# {report.title}", "", f"    {how['command']}", ""]
    for one in report.summary:
        lines += [one, ""]
    lines += [f"- {one}" for one in report.notes] + ([""] if report.notes else [])
    for section in report.sections:
        lines += [f"## {section.title}", ""]
        for one in section.text:
            lines += [one, ""]
        for table in section.tables:
            lines += [f"### {table.title}", "", *_table_lines(table), ""]
    lines += ["## How it was made", "", *_table_lines(_how_table(how)), ""]
    return "\n".join(lines)


def _table_lines(table: Table) -> list[str]:
    rows = [table.columns, ["---"] * len(table.columns), *table.rows]
    lines = ["| " + " | ".join(one.replace("|", "\\|") for one in row) + " |" for row in rows]
    return [*lines, *(["", *(f"- {one}" for one in table.notes)] if table.notes else [])]
