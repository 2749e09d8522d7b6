"""Reports as three files of one name: an HTML page, tables in Markdown, and JSON with every figure.

Beside the figures stands their provenance: the command, versions of artefacts and libraries, data, and time.
"""

from __future__ import annotations

import platform
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path
from typing import Any, Final, Protocol

import orjson

from refaug.core.errors import BadInput, Usage
from refaug.core.files import make_folder
from refaug.core.version import VERSION
from refaug.extras.reproduction.figures.correlations import MEAN, Correlations, IntervalEstimate, Line
from refaug.extras.reproduction.material.chain import Chain
from refaug.extras.reproduction.report.plots import redraw
from refaug.metrics.statistics.correlation import PARTIAL
from refaug.tables.reports.html_page import report_page, write_file
from refaug.tables.reports.report import Report, Section
from refaug.tables.reports.table import Table

PAGE: Final = "page"  # the field of the JSON with all that the page shows
_LIBRARIES: Final = ("numpy", "scipy", "torch", "faiss-cpu", "numba")
IN_WORDS: Final = {"spearman": "Spearman", PARTIAL: "partial Spearman", "pearson": "Pearson"}


class NamedSet(Protocol):
    """A rated set, as far as a report tells what it was made of."""

    @property
    def name(self) -> str:
        """Return its name in human/."""

    @property
    def data(self) -> str:
        """Return the hash of what it holds."""

    @property
    def replies(self) -> Sequence[str]:
        """Return the reply of every row."""

    @property
    def notes(self) -> Sequence[str]:
        """Return what its file lacks."""


@dataclass(frozen=True, kw_only=True)
class ExperimentReport(Report):
    """One part of the reproduction; its sentences hold figures of the same run."""

    name: str
    data: Mapping[str, Any]  # every figure, for programs
    sets: Sequence[NamedSet] = ()  # rated sets of its own, beside those that were asked for


def write_report(
    report: ExperimentReport, chain: Chain, sets: Sequence[NamedSet], command: str, folder: Path
) -> list[Path]:
    """Write the three files and return their paths, the page first."""
    make_folder(folder)
    provenance = provenance_of(chain, [*sets, *report.sets], command)
    content = json_of(report, provenance)  # first, for it refuses names of figures that are in use
    return [
        write_file(folder / f"{report.name}.html", page_of(report, provenance).encode()),
        write_file(folder / f"{report.name}.md", markdown_of(report, provenance).encode()),
        write_file(folder / f"{report.name}.json", content.encode()),
    ]


def json_of(report: ExperimentReport, provenance: Mapping[str, Any]) -> str:
    """Return the report as JSON: every figure for programs, and what the page shows, to render it again from there."""
    head = {"name": report.name, **provenance, "notes": list(report.notes)}
    if both := (head.keys() | {PAGE}) & report.data.keys():
        raise Usage(f"{report.name}: {', '.join(sorted(both))} would be written over by figures of that name")
    return f"{_json_lines({**head, **report.data, PAGE: _stored_page(report)})}\n"


def _stored_page(report: ExperimentReport) -> dict[str, object]:
    """Return what the page shows beside provenance and notes, by number of the section."""
    sections = {
        str(number): {
            "title": section.title,
            "text": list(section.text),
            "tables": [table.as_json() for table in section.tables],
            "plots": [plot.recipe for plot in section.plots],
        }
        for number, section in enumerate(report.sections)
    }
    return {"title": report.title, "summary": list(report.summary), "sections": sections}


def _json_lines(content: Any, depth: int = 0) -> str:
    """Return JSON in which a figure with its interval takes one line, so that hundreds of them stay readable."""
    if not isinstance(content, Mapping) or not any(isinstance(part, Mapping) for part in content.values()):
        return orjson.dumps(content).decode()
    indent = " " * (depth + 1)
    parts = [f"{indent}{orjson.dumps(key).decode()}: {_json_lines(part, depth + 1)}" for key, part in content.items()]
    return "{\n" + ",\n".join(parts) + f"\n{' ' * depth}}}"


def provenance_of(chain: Chain, sets: Sequence[NamedSet], command: str) -> dict[str, object]:
    """Return everything that is needed to compute the same figures again."""
    settings = chain.settings
    return {
        "command": command,
        "date": datetime.now(UTC).date().isoformat(),
        "fraction": settings.fraction,
        "draws": settings.draws,
        "seeds": settings.seeds,
        "seed": settings.seed,
        "preset": settings.preset,
        "epochs": settings.epochs or "of the preset",
        "threads": settings.threads,
        "made_of": dict(chain.artefacts),
        "sets": {
            rated_set.name: {"data": rated_set.data, "replies": len(rated_set.replies), "notes": list(rated_set.notes)}
            for rated_set in sets
        },
        "seconds": dict(chain.seconds),
        "software": {
            "refaug": VERSION,
            "python": platform.python_version(),
            **{name: version(name) for name in _LIBRARIES},
        },
    }


# ── Tables ────────────────────────────────────────────────────────────────────────────────────────────────────────────


def cell(estimate: IntervalEstimate) -> str:
    """Return a figure with its interval as a table shows it: .312 [.22, .40]."""
    if estimate.value is None:
        return f"– ({estimate.why})" if estimate.why else "–"
    number = short(estimate.value)
    if estimate.low is None or estimate.high is None:
        return number
    return f"{number} [{short(estimate.low, 2)}, {short(estimate.high, 2)}]"


def verdict(differences: Sequence[IntervalEstimate]) -> str:
    """Say what differences that are claimed to be above 0 show, one difference for each kind of correlation."""
    sure = [difference.low is not None and difference.low > 0 for difference in differences]
    if any(difference.high is not None and difference.high < 0 for difference in differences):
        return "refuted" if not any(sure) else "shown for one kind, refuted for another"
    if all(sure):
        return "shown"
    return "shown for one kind" if any(sure) else "not shown"


def short(number: float, digits: int = 3) -> str:
    """Return a correlation without its leading zero."""
    text = f"{number:.{digits}f}"
    if float(text) == 0:
        text = f"{0:.{digits}f}"
    return text.replace("0.", ".", 1) if text.lstrip("-").startswith("0.") else text


def agreement_table(
    correlations: Correlations,
    title: str,
    *,
    kinds: Sequence[str] = ("spearman", PARTIAL),
    baseline: str | Mapping[str, str] | None = None,
    lines: Sequence[str] | None = None,
    notes: Sequence[str] = (),
) -> Table:
    """Return a table with a row for each line: each correlation on each scope, and the difference to the baseline.

    The difference is that on the mean. The baseline may differ between kinds of correlation.
    """
    scopes, names = correlations.table_scopes, list(lines or correlations.names)
    columns = ["", *(f"{IN_WORDS[kind]}, {scope}" for kind in kinds for scope in scopes)]
    baselines = {kind: baseline if isinstance(baseline, str) else baseline[kind] for kind in kinds} if baseline else {}
    columns += [f"{IN_WORDS[kind]} less {other}, {_main_scope(correlations)}" for kind, other in baselines.items()]
    rows = []
    for name in names:
        row = [name, *(cell(correlations.estimate(name, kind, scope)) for kind in kinds for scope in scopes)]
        row += [
            "" if name == other else cell(correlations.difference(name, other, kind, scopes[-1]))
            for kind, other in baselines.items()
        ]
        rows.append(row)
    row_counts = "; ".join(_row_counts(correlations, set_name) for set_name in correlations.sets)
    return Table(title=title, columns=columns, rows=rows, notes=(row_counts, *notes))


def _row_counts(correlations: Correlations, scope: str) -> str:
    text = f"{scope}: {correlations.rows[scope]:,} rows of {correlations.contexts[scope]:,} contexts"
    left_out = correlations.left_out[scope]
    return text + (f", {left_out:,} left out, for which one of the lines has no score" if left_out else "")


def _main_scope(correlations: Correlations) -> str:
    return MEAN if MEAN in correlations.scopes else correlations.sets[0]


def about_table(lines: Sequence[Line]) -> Table:
    """Return a table that says how each line is made."""
    rows = [list(row) for row in dict.fromkeys((line.name, line.about) for line in lines if line.about)]
    return Table(title="What each line is", columns=("line", "how it is made"), rows=rows, text=True)


# ── Pages ─────────────────────────────────────────────────────────────────────────────────────────────────────────────


def page_of(report: ExperimentReport, provenance: Mapping[str, Any]) -> str:
    """Return the page with plots."""
    return report_page(_whole(report, provenance))


def _whole(report: ExperimentReport, provenance: Mapping[str, Any]) -> Report:
    """Return the report with how it was made as its last section."""
    sections = [replace(section, anchor=f"section-{number}") for number, section in enumerate(report.sections)]
    how = Section(title="How it was made", anchor="how", tables=[_provenance_table(provenance)])
    return replace(report, sections=[*sections, how], has_contents=False)


def _provenance_table(provenance: Mapping[str, Any]) -> Table:
    return Table(
        title="Settings, versions and time", columns=("what", "value"), rows=list(_facts(provenance)), text=True
    )


def _facts(provenance: Mapping[str, Any]) -> list[tuple[str, str]]:
    facts = list[tuple[str, str]]()
    for key, setting in provenance.items():
        if isinstance(setting, Mapping):
            facts += [(f"{key}: {inner}", _setting_in_words(part)) for inner, part in setting.items()]
        else:
            facts.append((key, _setting_in_words(setting)))
    return facts


def _setting_in_words(setting: Any) -> str:
    if isinstance(setting, Mapping):
        return ", ".join(f"{key} {_setting_in_words(part)}" for key, part in setting.items() if part not in ([], ""))
    if isinstance(setting, list):
        return "; ".join(map(str, setting))
    return f"{setting:,}" if isinstance(setting, int) else str(setting)


def markdown_of(report: ExperimentReport, provenance: Mapping[str, Any]) -> str:
    """Return the tables to be read as text."""
    whole = _whole(report, provenance)
    return whole.as_markdown(str, [f"    {provenance['command']}", ""])


# ── ───────────────────────────────────────────────────────────────────────────────────────────────────────────────────
#
# Reports that are read back from their JSON, so that their page and their tables are rendered again without the data.
#
# The JSON has what the page shows: sentences, tables as they are printed, and the figures of the plots.

_PROVENANCE: Final = (
    *("command", "date", "fraction", "draws", "seeds", "seed", "preset", "epochs", "threads", "made_of", "sets"),
    *("seconds", "software"),
)
_OLD: Final = "its page cannot be made from it alone; run its command again: "


@dataclass(frozen=True, kw_only=True)
class StoredReport:
    """A report with how it was made, as its JSON has both."""

    report: ExperimentReport
    provenance: Mapping[str, Any]

    @classmethod
    def of(cls, document: Mapping[str, Any], shown_name: str) -> StoredReport:
        """Return the report of a document, or raise BadInput that says what the document lacks."""
        if missing := [name for name in ("name", *_PROVENANCE, "notes") if name not in document]:
            raise BadInput(
                f"{shown_name} is not a result of refaug agreement reproduce: it has no {', no '.join(missing)}",
                remedy="the .json that refaug agreement reproduce wrote",
            )
        if PAGE not in document:
            raise BadInput(f"{shown_name} has no {PAGE!r}", remedy=f"{_OLD}{document['command']}")
        try:
            report = _report(document)
        except (KeyError, TypeError, AttributeError, ValueError) as error:
            raise BadInput(
                f"{shown_name}: {PAGE!r} is not as refaug agreement reproduce writes it: {error}",
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


def rendered(document: Mapping[str, Any], path: Path) -> dict[str, str]:
    """Return page and tables of a stored report, by the names of their files."""
    stored = StoredReport.of(document, str(path))
    return {f"{path.stem}.html": stored.page(), f"{path.stem}.md": stored.markdown()}


def _report(document: Mapping[str, Any]) -> ExperimentReport:
    page = document[PAGE]
    head = {"name", "notes", PAGE, *_PROVENANCE}
    return ExperimentReport(
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
        tables=[Table.of_json(table) for table in stored["tables"]],
        plots=[redraw(recipe) for recipe in stored["plots"]],
    )
