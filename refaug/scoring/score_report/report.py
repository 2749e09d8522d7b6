"""The files of a report: a page, the scores as JSON, and a table."""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import chain, islice
from pathlib import Path
from typing import Any, Final

import numpy as np
import orjson

from refaug.core.files import make_folder
from refaug.core.version import VERSION
from refaug.metrics.base import Metric
from refaug.scoring.comparison.comparison import ComparisonRequest, RunComparison, compare_systems
from refaug.scoring.comparison.reply_changes import ChangeFilter
from refaug.scoring.comparison.scored_system import CreditedReference, SystemRun, metric_of_sums
from refaug.scoring.comparison.wording import TEST_COLUMNS, score_text, test_cells, verdict_text
from refaug.scoring.score_files.score_document import FIELD
from refaug.scoring.score_files.score_file import ScoreFile, StoredScores, sealed
from refaug.scoring.settings import ScoreSettings
from refaug.tables.reports.html_page import (
    BINS,
    CardList,
    CardRow,
    ReplyCard,
    ScoreHistogram,
    cut_text,
    ends_of,
    references_title,
    report_page,
    write_file,
)
from refaug.tables.reports.report import Part, PartForm, Report, Section
from refaug.tables.reports.table import Table, csv_text

# ── The page of a report: one HTML file without scripts, made from a score file with details ──────────────────────────

_CARDS: Final = 64  # on a page; each system has as many as fit, up to _LARGEST of each kind
_LARGEST: Final = 5
_SHOWN_PROBLEMS: Final = 20


def page(file: ScoreFile, settings: ScoreSettings) -> str:
    """Return the page; it needs no other file and no script, and the same scores give the same page."""
    document = file.document
    made = Section(
        title="How to verify",
        anchor="how",
        link="how to verify",
        text=[
            "This command makes the scores again from their signatures, with the items that were scored, and says for "
            "each part whether it holds:"
        ],
        parts=[
            Part(PartForm.COMMAND, _commands(file)),
            *(
                Part(PartForm.TABLE, table)
                for table in (
                    _evidence_table(document.get("evidence") or {}),
                    _problems_table(document.get("problems") or []),
                    _settings_table(file),
                )
                if table is not None
            ),
        ],
    )
    return report_page(
        Report(
            title="Scores",
            summary=[_summary(file)],
            warnings=document.get("warnings", []),
            parts=list(_overview(file, settings)),
            sections=[*(_section(file, place) for place in range(len(file.scores))), made],
        )
    )


def _overview(file: ScoreFile, settings: ScoreSettings) -> Iterator[Part]:
    """Yield the scores of all metrics, and what differs between the systems, where there are several."""
    if len(file.scores) > 1:
        yield Part(PartForm.TABLE, _metrics_table(file.scores))
    comparison = _comparison(file, settings)
    if comparison is not None:
        yield Part(PartForm.SENTENCES, [verdict_text(pair) for pair in comparison.pairs])
        yield Part(PartForm.TABLE, _differences_table(comparison))


def _summary(file: ScoreFile) -> str:
    systems, metrics = file.scores[0].systems, len(file.scores)
    against = f" against the frozen set {file.set_id}" if file.set_id is not None else ""
    return (
        f"{len(systems)} system{'s' * (len(systems) != 1)} by {metrics} metric{'s' * (metrics != 1)} on "
        f"{file.document.get('items', 0):,} items{against}."
    )


# ── Systems and differences ───────────────────────────────────────────────────────────────────────────────────────────


def _comparison(file: ScoreFile, settings: ScoreSettings) -> RunComparison | None:
    """Compare every system with the baseline, or with the best by the first metric; None where there is one system."""
    systems = file.scores[0].systems
    if len(systems) < 2 or not settings.draws:
        return None
    request = ComparisonRequest(
        settings=replace(settings, baseline=None), changes=ChangeFilter(limit=1, has_references=False)
    )
    return compare_systems(file, settings.baseline or _best(file.scores[0]), request)


def _best(stored: StoredScores) -> str:
    sign = 1.0 if stored.document.get("higher_is_better") is not False else -1.0
    corpora = {name: system.get("corpus") for name, system in stored.systems.items()}
    return max(corpora, key=lambda name: -np.inf if (corpus := corpora[name]) is None else sign * float(corpus))


def _differences_table(comparison: RunComparison) -> Table:
    baseline = comparison.pairs[0].first_system
    return Table(
        title=f"Differences from {baseline}",
        columns=TEST_COLUMNS,
        rows=[test_cells(pair, pair.main) for pair in comparison.pairs],
        notes=[
            "The interval and p bootstrap are of the paired bootstrap, p randomisation of approximate randomisation; "
            f"Holm: the latter over all rows. A difference is shown where that is below "
            f"{1 - comparison.settings.confidence:.4g}."
        ],
    )


def _section(file: ScoreFile, place: int) -> Section:
    stored = file.scores[place]
    systems = [SystemRun(file=file, place=place, name=name) for name in stored.systems]
    scores = {system.name: system.scores(list(system.rows)) for system in systems}
    ends = ends_of(list(scores.values()))
    histograms = [
        ScoreHistogram.of(f"{name}: scores of {int((~np.isnan(each)).sum()):,} replies", each, ends)
        for name, each in scores.items()
    ]
    return Section(
        anchor=f"metric-{place}",
        title=stored.name,
        parts=[
            Part(PartForm.NOTE, stored.short_signature or stored.signature.short),
            Part(PartForm.TABLE, _systems_table(stored)),
            Part(PartForm.HEADING, "Distribution of reply scores"),
            Part(PartForm.HISTOGRAMS, histograms),
            Part(PartForm.FOLDED, _counts_table(list(scores), histograms, ends)),
            Part(PartForm.CARD_LISTS, list(_extreme_lists(systems, len(file.scores)))),
        ],
    )


def _metrics_table(scores: Sequence[StoredScores]) -> Table:
    """Return the corpus score of each system by each metric."""
    rows = [
        (name, *(score_text((stored.systems.get(name) or {}).get("corpus"), stored.scale) for stored in scores))
        for name in scores[0].systems
    ]
    return Table(title="All metrics: corpus scores", columns=("system", *(stored.name for stored in scores)), rows=rows)


def _systems_table(stored: StoredScores) -> Table:
    direction = "" if stored.document.get("higher_is_better") is not False else ", lower is better"
    rows = [
        (
            name,
            score_text(system.get("corpus"), stored.scale),
            _span(system.get("interval"), stored.scale),
            score_text(system.get("mean"), stored.scale),
            _span(system.get("mean_interval"), stored.scale),
            f"{system.get('scored', 0):,}",
            ", ".join(f"{count:,} {code}" for code, count in (system.get("unscored_by_reason") or {}).items()) or "0",
        )
        for name, system in stored.systems.items()
    ]
    columns = ("system", "corpus", "interval", "mean", "its interval", "scored", "unscored")
    return Table(title=f"Systems{direction}", columns=columns, rows=rows)


def _span(interval: Sequence[float] | None, scale: float) -> str:
    return "-" if interval is None else f"[{', '.join(score_text(bound, scale) for bound in interval)}]"


def _counts_table(names: Sequence[str], histograms: Sequence[ScoreHistogram], ends: tuple[float, float]) -> Table:
    edges = np.linspace(*ends, BINS + 1)
    rows = [
        (
            f"{edges[bin_number]:.4g} to {edges[bin_number + 1]:.4g}",
            *(f"{chart.counts[bin_number]:,}" for chart in histograms),
        )
        for bin_number in range(BINS)
    ]
    return Table(title="The same in numbers", columns=("score", *names), rows=rows)


# ── Replies ───────────────────────────────────────────────────────────────────────────────────────────────────────────


def _extreme_lists(systems: Sequence[SystemRun], metrics: int) -> Iterator[CardList]:
    """Yield the worst and the best replies of each system."""
    count = max(1, min(_LARGEST, _CARDS // (2 * metrics * len(systems))))
    for system in systems:
        metric, _ = metric_of_sums(system, system)
        ids = list(system.rows)
        scores = system.scores(ids)
        order = [int(place) for place in np.argsort(scores, kind="stable") if not np.isnan(scores[place])]
        if system.stored.document.get("higher_is_better") is False:
            order.reverse()
        worst = order[:count]
        best = [place for place in order[::-1][:count] if place not in worst]
        for title, places in (("Worst", worst), ("Best", best)):
            cards = [_card(system, ids[place], metric) for place in places]
            if cards:
                yield CardList(title=f"{title} replies of {system.name}", cards=cards)


def _card(system: SystemRun, name: str, metric: Metric | None) -> ReplyCard:
    test_item, reply, evidence = system.item(name), system.reply(name), system.evidence(name)
    utterance = None if test_item is None else test_item.utterance
    above = (
        "" if evidence is None else f"{evidence.get('above_zero', 0):,} references of positive weight beside the gold"
    )
    return ReplyCard(
        heading=name,
        utterance=None if utterance is None else cut_text(utterance),
        rows=[
            CardRow(
                system=system.name,
                score=score_text(system.rows[name].get("score"), system.stored.scale),
                text="(no text)" if reply is None else cut_text(reply) if reply.strip() else "(empty)",
                evidence=above + (", thin evidence" if evidence is not None and evidence.get("thin") else ""),
            )
        ],
        references=_references_table(system.references(name, metric)),
    )


def _references_table(references: Sequence[CreditedReference]) -> Table | None:
    if not references:
        return None
    rows = [
        (
            cut_text(reference.text),
            reference.source or "",
            f"{reference.weight:.2f}",
            f"{reference.credit:.2f}" if reference.credit else "—",
        )
        for reference in sorted(references, key=lambda each: -(each.credit or 0.0))
    ]
    return Table(title=references_title(len(rows)), columns=("reference", "source", "weight", "credit"), rows=rows)


# ── What the scores stand on ──────────────────────────────────────────────────────────────────────────────────────────


def _evidence_table(evidence: Mapping[str, Mapping[str, Any]]) -> Table | None:
    if not evidence:
        return None
    counts, above = ([each.get(field, 0) for each in evidence.values()] for field in ("references", "above_zero"))
    thin = sum(bool(each.get("thin")) for each in evidence.values())
    rows = [
        ("references of an item, on average", f"{np.mean(counts):.1f}"),
        ("of positive weight beside the gold, on average", f"{np.mean(above):.1f}"),
        ("items with thin evidence", f"{thin:,} of {len(evidence):,}"),
    ]
    return Table(title="Evidence of weighted scores", columns=("what", "figure"), rows=rows)


def _problems_table(problems: Sequence[Mapping[str, Any]]) -> Table | None:
    if not problems:
        return None
    rows = [
        tuple(str(problem.get(field) or "") for field in ("line", "id", "field", "message"))
        for problem in problems[:_SHOWN_PROBLEMS]
    ]
    notes = [f"{len(problems) - _SHOWN_PROBLEMS:,} more"] if len(problems) > _SHOWN_PROBLEMS else []
    columns = ("line", "item", "field", "what is wrong")
    return Table(
        title=f"Items that could not be used: {len(problems):,}", columns=columns, rows=rows, notes=notes, text=True
    )


def _settings_table(file: ScoreFile) -> Table:
    resampling = file.document.get("resampling") or {}
    facts = [
        ("data", file.text("data") or ""),
        ("utterances", file.text("utterances") or ""),
        ("replies", file.text("replies") or ""),
        *((f"references of {stored.name}", str(stored.document.get("references", ""))) for stored in file.scores),
        ("frozen set", file.set_id or "none"),
        ("draws", f"{resampling.get('draws', 0):,}"),
        ("confidence", f"{resampling.get('confidence', '')}"),
        ("seed", f"{resampling.get('seed', '')}"),
        *((f"signature of {stored.name}", stored.signature.full) for stored in file.scores),
        ("refaug", VERSION),
    ]
    return Table(title="What the scores depend on", columns=("what", "value"), rows=facts, text=True)


def _commands(file: ScoreFile) -> str:
    items = [name for name in file.inputs.get("items") or [] if isinstance(name, str)]
    return shlex.join(["refaug", "score", "verify", "scores.json", *(items or ["ITEMS"])])


# ── A score file as one long table for spreadsheets, pandas and R: a line for each system, then one for each reply ────

_COLUMNS: Final = (
    "kind", "metric", "system", "id", "score", "low", "high", "mean", "mean_low", "mean_high", "scored", "unscored",
    "problem", "utterance", "reply", "signature",
)  # fmt: skip
_LINES_AT_ONCE: Final = 2_000


def as_csv(file: ScoreFile) -> str:
    """Return the table; `kind` is system or reply, the score of a system is its corpus score."""
    return "".join(csv_pieces(file))


def csv_pieces(file: ScoreFile) -> Iterator[str]:
    """Yield the table in pieces of some thousand lines."""
    lines, columns = chain(_systems(file), _replies(file)), _COLUMNS
    yield csv_text(columns, islice(lines, _LINES_AT_ONCE))
    while piece := list(islice(lines, _LINES_AT_ONCE)):
        yield csv_text(None, piece)


def _systems(file: ScoreFile) -> Iterator[tuple[object, ...]]:
    for stored in file.scores:
        for name, system in stored.systems.items():
            low, high = system.get("interval") or (None, None)
            mean_low, mean_high = system.get("mean_interval") or (None, None)
            yield _line(
                kind="system",
                metric=stored.name,
                system=name,
                score=system.get("corpus"),
                low=low,
                high=high,
                mean=system.get("mean"),
                mean_low=mean_low,
                mean_high=mean_high,
                scored=system.get("scored"),
                unscored=system.get("unscored"),
                signature=stored.short_signature,
            )


def _replies(file: ScoreFile) -> Iterator[tuple[object, ...]]:
    for place, stored in enumerate(file.scores):
        for name in stored.systems:
            scored = SystemRun(file=file, place=place, name=name)
            for item_id, row in scored.rows.items():
                written = {} if file.details is None else file.details.row(item_id)
                yield _line(
                    kind="reply",
                    metric=stored.name,
                    system=name,
                    id=item_id,
                    score=row.get("score"),
                    problem=row.get("problem"),
                    utterance=_utterance_in(written),
                    reply=(written.get("replies") or {}).get(name),
                )


def _utterance_in(written: Mapping[str, Any]) -> str | None:
    """Return what is replied to in an item as it is written; None where that is not known."""
    turns = written.get("turns") or [written.get("utterance")]
    return None if turns[-1] is None else str(turns[-1])


def _line(**cells: object) -> tuple[object, ...]:
    return tuple(cells.get(column) for column in _COLUMNS)


# ── The files of a report: a page, the scores as JSON, and a table ────────────────────────────────────────────────────

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
