"""The results of a study by question: each bot with and without the participants who are left out, side by side.

From the JSON of a report alone. A figure that is not there says why in a note, and a table that would be empty is a
sentence.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Final

from refaug.extras.studies.report.wording import (
    NONE,
    Json,
    count_text,
    missing_intervals,
    number_text,
    p_text,
    question_title,
    range_text,
    without_empty_columns,
)
from refaug.tables.reports.forest import ForestFigure, ForestPlot
from refaug.tables.reports.report import Section
from refaug.tables.reports.table import Table

KEPT: Final = "without those left out"
ALL: Final = "everybody"
_GAP_COLUMNS: Final = ("difference", "interval", "p (Holm)")
NOTHING: Final = "No finished task has an answer yet that could be counted."


def result_sections(report: Json) -> list[Section]:
    """Return a section of each question, or one that says that there is nothing to show."""
    analyses = _shown_analyses(report)
    all_figures = report["analyses"]["all"]
    sections = [_ratings(question, analyses, report) for question in all_figures["ratings"]]
    sections += [_choices(question, analyses, report) for question in all_figures["choices"]]
    sections += [_labels(question, analyses, report) for question in all_figures.get("labels", {})]
    return sections or [Section(anchor="results", title="Results", text=[NOTHING])]


def _shown_analyses(report: Json) -> dict[str, Json]:
    """Return the analyses that stand beside each other: one where no participant is left out."""
    analyses = report["analyses"]
    if not report["exclusions"]["excluded"]:
        return {"": analyses["all"]}
    return {KEPT: analyses["kept"], ALL: analyses["all"]}


def _about(question: str, report: Json) -> list[str]:
    text = (report.get("questions") or {}).get(question, {}).get("text")
    is_reversed = (report.get("questions") or {}).get(question, {}).get("reversed")
    turned = " Answers are turned: higher is better." if is_reversed else ""
    return [f"{text}{turned}"] if text else []


def _anchor(kind: str, question: str) -> str:
    return f"{kind}-{re.sub(r'[^a-z0-9]+', '-', question.lower()).strip('-')}"


def _scale(question: str, report: Json) -> tuple[float, float] | None:
    """Return the ends of a question's scale; the mean of all questions has the scale that they share."""
    questions: Mapping[str, Json] = report.get("questions") or {}
    scale = questions.get(question)
    if scale is None:  # of the mean of all
        scale = next((each for each in questions.values() if each["least"] is not None), None)
    if scale is None or scale["least"] is None:
        return None
    return scale["least"], scale["most"]


# ── Ratings: means and differences ────────────────────────────────────────────────────────────────────────────────────


def _ratings(question: str, analyses: Mapping[str, Json], report: Json) -> Section:
    figures = {name: analysis["ratings"].get(question) or {} for name, analysis in analyses.items()}
    level = f"{report['settings']['level']:.0%}"
    means = _rows(figures, "means", lambda mean: mean["bot"])
    gaps = _rows(figures, "differences", lambda gap: tuple(sorted((gap["first"], gap["second"]))))
    forests = [
        ForestPlot.of(
            f"Means with {level} intervals, highest first",
            _series(analyses, "mean"),
            [(own[-1]["bot"], [_forest_figure(mean, "mean") for mean in own]) for own in means],
            ends=_scale(question, report),
        )
    ]
    tables = [_means_table(analyses, means)]
    if gaps:
        turned: list[list[Any]] = [[_towards(gap, own[-1]) for gap in own] for own in gaps]
        forests.append(
            ForestPlot.of(
                f"Differences with {level} intervals; right of the line the first bot is better",
                _series(analyses, "difference"),
                [
                    (f"{own[-1]['first']} − {own[-1]['second']}", [_forest_figure(gap, "difference") for gap in own])
                    for own in turned
                ],
                has_zero=True,
            )
        )
        tables.append(_differences_table(analyses, turned))
    return Section(
        anchor=_anchor("ratings", question),
        title=question_title(question),
        text=_about(question, report),
        forests=forests,
        tables=tables,
    )


def _rows(figures: Mapping[str, Json], kind: str, key: Callable[[Json], object]) -> list[list[Any]]:
    """Return the figures of each thing in all analyses, the last of which has all things, in its order."""
    by_key = [{key(entry): entry for entry in analysis.get(kind, ())} for analysis in figures.values()]
    return [[entries.get(name) for entries in by_key] for name in by_key[-1]]


def _towards(gap: Json | None, model: Json) -> Json | None:
    """Return a difference of the same two bots in the order of another one."""
    if gap is None or gap["first"] == model["first"]:
        return gap
    low, high = gap["low"], gap["high"]
    return {
        **gap,
        "first": gap["second"],
        "second": gap["first"],
        "difference": -gap["difference"],
        "low": None if high is None else -high,
        "high": None if low is None else -low,
    }


def _series(analyses: Mapping[str, Json], what: str) -> list[str]:
    return [name or what for name in analyses]


def _forest_figure(figure: Json | None, name: str) -> ForestFigure | None:
    if figure is None:
        return None
    sign = "+" if name in ("difference", "strength") else ""
    text = f"{figure[name]:{sign}.2f}"
    if figure["low"] is not None:
        text += f" [{figure['low']:.2f}, {figure['high']:.2f}]"
    return ForestFigure(value=figure[name], low=figure["low"], high=figure["high"], text=text.replace("-", "−"))


def _means_table(analyses: Mapping[str, Json], rows: Sequence[Sequence[Json | None]]) -> Table:
    columns = ["people", "ratings", "mean", "interval", "SD"]

    def cells(mean: Json | None) -> list[str]:
        if mean is None:
            return ["0", "0", NONE, NONE, NONE]
        shown = (number_text(mean["mean"]), range_text(mean["low"], mean["high"]), number_text(mean["sd"]))
        return [f"{mean['participants']:,}", f"{mean['n']:,}", *shown]

    return _table("Means", "bot", columns, analyses, [(own[-1]["bot"], own) for own in rows if own[-1]], cells, 2)


def _differences_table(analyses: Mapping[str, Json], rows: Sequence[Sequence[Json | None]]) -> Table:
    named = [(f"{own[-1]['first']} − {own[-1]['second']}", own) for own in rows if own[-1]]
    return _table("Differences", "bots", _GAP_COLUMNS, analyses, named, _gap_cells)


def _gap_cells(gap: Json | None) -> list[str]:
    if gap is None:
        return [NONE] * len(_GAP_COLUMNS)
    return [f"{gap['difference']:+.3f}", range_text(gap["low"], gap["high"]), p_text(gap["p_holm"])]


def _table(
    title: str,
    first: str,
    columns: Sequence[str],
    analyses: Mapping[str, Json],
    rows: Sequence[tuple[str, Sequence[Json | None]]],
    cells: Callable[[Any], list[str]],
    main: int = 0,
) -> Table:
    """Return a table, with a column of all participants at the end where rules leave some out, and its notes."""
    figures = [figure for _, own in rows for figure in own if figure is not None]
    has_both = len(analyses) > 1
    return without_empty_columns(
        Table(
            title=title,
            columns=[first, *columns, *([f"{ALL}: {columns[main]}"] if has_both else [])],
            rows=[
                [name, *cells(own[0]), *([_estimate_text(cells(own[1]), main)] if has_both else [])]
                for name, own in rows
            ],
            notes=missing_intervals(figures),
        )
    )


def _estimate_text(cells: Sequence[str], main: int) -> str:
    """Return the main figure of some cells with the interval behind it."""
    interval = cells[main + 1]
    return cells[main] if interval == NONE else f"{cells[main]} {interval}"


# ── Choices: pairs and strengths ──────────────────────────────────────────────────────────────────────────────────────


def _choices(question: str, analyses: Mapping[str, Json], report: Json) -> Section:
    figures = {name: analysis["choices"].get(question) or {} for name, analysis in analyses.items()}
    fits = {
        name: {"bots": choices["bradley_terry"]["half"]["bots"]} if choices else {} for name, choices in figures.items()
    }
    strengths = _rows(fits, "bots", lambda bot: bot["bot"])
    pairs = _rows(figures, "pairs", lambda pair: (pair["first"], pair["second"]))
    level = f"{report['settings']['level']:.0%}"
    forest = ForestPlot.of(
        f"Bradley–Terry strengths with {level} intervals, a tie as half a win; 0 is the average bot",
        _series(analyses, "strength"),
        [(own[-1]["bot"], [_forest_figure(bot, "strength") for bot in own]) for own in strengths],
        has_zero=True,
    )
    return Section(
        anchor=_anchor("choices", question),
        title=question_title(question),
        text=[*_about(question, report), *_left_side(figures)],
        forests=[forest],
        tables=[_strengths_table(analyses, strengths), _pairs_table(analyses, pairs)],
    )


def _left_side(figures: Mapping[str, Json]) -> Iterator[str]:
    side = next((choices["is_left"] for choices in figures.values() if choices), None)
    if side is not None and side["value"] is not None:
        interval = f" {range_text(side['low'], side['high'])}" if side["low"] is not None else ""
        yield f"The left side was chosen in {side['value']:.0%} of the choices without ties{interval}."


def _strengths_table(analyses: Mapping[str, Json], rows: Sequence[Sequence[Json | None]]) -> Table:
    columns = ["strength", "interval", "rank", "ranks"]

    def cells(bot: Json | None) -> list[str]:
        if bot is None:
            return [NONE] * len(columns)
        return [f"{bot['strength']:+.3f}", range_text(bot["low"], bot["high"]), str(bot["rank"]), rank_range(bot)]

    return _table("Strengths", "bot", columns, analyses, [(own[-1]["bot"], own) for own in rows if own[-1]], cells)


def rank_range(bot: Json) -> str:
    """Return the interval of a bot's rank."""
    return NONE if bot["rank_low"] is None else f"{bot['rank_low']} to {bot['rank_high']}"


def _pairs_table(analyses: Mapping[str, Json], rows: Sequence[Sequence[Json | None]]) -> Table:
    columns = ["wins · losses · ties", "share, ties halved", "interval (Wilson)", "p (Holm)"]

    def cells(pair: Json | None) -> list[str]:
        if pair is None:
            return ["0 · 0 · 0", NONE, NONE, NONE]
        outcome = pair["outcome"]
        counts = " · ".join(f"{outcome[name]:,}" for name in ("wins", "losses", "ties"))
        share = outcome["halved"]
        return [
            counts, number_text(share["value"]), range_text(share["low"], share["high"]), p_text(pair["halved_holm"])
        ]  # fmt: skip

    named = [(f"{own[-1]['first']} and {own[-1]['second']}", own) for own in rows if own[-1]]
    return _table("Pairs", "first and second", columns, analyses, named, cells, 1)


# ── Labels of turns: shares of a bot's turns ──────────────────────────────────────────────────────────────────────────


def _labels(question: str, analyses: Mapping[str, Json], report: Json) -> Section:
    texts = report["questions"].get(question, {}).get("labels") or {}
    figures = {name: analysis["labels"].get(question) or {"labels": {}} for name, analysis in analyses.items()}
    shares, gaps = list[tuple[str, list[Any]]](), list[tuple[str, list[Any]]]()
    for label in next(reversed(figures.values()))["labels"]:
        of_label = {name: own["labels"].get(label) or {} for name, own in figures.items()}
        title = texts.get(label, label)
        shares += [(f"{title} · {own[-1]['bot']}", own) for own in _rows(of_label, "means", lambda mean: mean["bot"])]
        rows = _rows(of_label, "differences", lambda gap: tuple(sorted((gap["first"], gap["second"]))))
        turned: list[list[Any]] = [[_towards(gap, own[-1]) for gap in own] for own in rows]
        gaps += [(f"{title} · {own[-1]['first']} − {own[-1]['second']}", own) for own in turned]
    forest = ForestPlot.of(
        f"Share of turns with a label, with {report['settings']['level']:.0%} intervals",
        _series(analyses, "share"),
        [(name, [_forest_figure(share, "mean") for share in own]) for name, own in shares],
        ends=(0, 1),
    )
    tables = [_shares_table(analyses, shares), *([_label_gaps_table(analyses, gaps)] if gaps else [])]
    spans = next(reversed(figures.values()))["spans"]
    marked = (
        [f"Parts that are marked: {', '.join(f'{bot} {count:,}' for bot, count in spans.items())}."] if spans else []
    )
    return Section(
        anchor=_anchor("labels", question),
        title=question_title(question),
        text=[*_about(question, report), *marked],
        forests=[forest],
        tables=tables,
    )


def _shares_table(analyses: Mapping[str, Json], rows: Sequence[tuple[str, Sequence[Json | None]]]) -> Table:
    columns = ["people", "turns", "share", "interval"]

    def cells(share: Json | None) -> list[str]:
        if share is None:
            return ["0", "0", NONE, NONE]
        shown = (number_text(share["mean"]), range_text(share["low"], share["high"]))
        return [f"{share['participants']:,}", f"{share['n']:,}", *shown]

    return _table("Shares of turns", "label and bot", columns, analyses, rows, cells, 2)


def _label_gaps_table(analyses: Mapping[str, Json], rows: Sequence[tuple[str, Sequence[Json | None]]]) -> Table:
    return _table("Differences of shares", "label and bots", _GAP_COLUMNS, analyses, rows, _gap_cells)


def people_text(analysis: Json) -> str:
    """Return how many people and tasks an analysis has."""
    people, tasks = count_text(analysis["participants"], "participant"), count_text(analysis["tasks"], "task")
    return f"{people}, {tasks} without checks."
