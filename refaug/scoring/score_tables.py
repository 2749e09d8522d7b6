"""Scores as rows for other programs, and as a table for a paper."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from refaug.scoring.scores import Evaluation, MetricScores, SystemScore
from refaug.tables.reports.table import Table, escape_latex

_COMPARED: Final = ("difference", "difference_low", "difference_high", "p_bootstrap", "p_randomisation")
_NO_SCORE: Final = "--"


def score_rows(evaluation: Evaluation, level: str) -> Table:
    """Return a table with the signature in each; with a baseline, the comparison stands after it."""
    if level == "reply":
        rows: list[Sequence[object]] = [
            (
                metric_scores.metric.name,
                system,
                reply["id"],
                reply["score"],
                reply.get("problem", ""),
                metric_scores.signature.short,
            )
            for metric_scores in evaluation.scores
            for system, scores in metric_scores.systems.items()
            for reply in scores.each_reply()
        ]
        return Table(level, ("metric", "system", "item", "score", "problem", "signature"), rows)
    has_comparisons = any(metric_scores.comparisons for metric_scores in evaluation.scores)
    column = "corpus" if level == "corpus" else "mean"
    columns = ("metric", "system", column, "low", "high", "scored", "unscored", "signature")
    rows = [
        (
            metric_scores.metric.name,
            system,
            *_score_and_interval(scores, level),
            *scores.counts(),
            metric_scores.signature.short,
            *(_compared_cells(metric_scores, system) if has_comparisons else ()),
        )
        for metric_scores in evaluation.scores
        for system, scores in metric_scores.systems.items()
    ]
    return Table(level, (*columns, *(_COMPARED if has_comparisons else ())), rows)


def _score_and_interval(scores: SystemScore, level: str) -> tuple[float | None, float | None, float | None]:
    """Return the score of a system at the level, and the bounds of its interval."""
    is_corpus = level == "corpus"
    low, high = scores.as_intervals()[0 if is_corpus else 1] or (None, None)
    return scores.corpus if is_corpus else scores.mean, low, high


def _compared_cells(metric_scores: MetricScores, system: str) -> tuple[object, ...]:
    """Return the comparison of a system with the baseline; empty cells for the baseline itself."""
    comparison = metric_scores.comparisons.get(system)
    if comparison is None:
        return (None,) * len(_COMPARED)
    figures = comparison.as_json()
    low, high = figures["interval"] or (None, None)
    return (figures["difference"], low, high, figures["p_bootstrap"], figures["p_randomisation"])


def explained_references(reply: Mapping[str, Any], scale: float) -> tuple[list[Sequence[object]], list[str]]:
    """Return a row for each reference of an explained reply, and the words of the reply that no reference has.

    A row is the weight, the text, the n-grams or words that it credits, and the change of the score without it.
    """
    credited = dict[int, list[str]]()
    for credit in reply.get("credited", ()):
        times = f" ×{credit['matched']}" if credit["matched"] > 1 else ""
        credited.setdefault(credit["reference"], []).append(f"{credit['ngram']}{times}")
    for match in reply.get("matched", ()):
        credited[match["reference"]] = [
            row["word"] if row["word"] == row["match"] else f"{row['word']} ~ {row['match']} {row['similarity']:.2f}"
            for row in match["reply"]
            if row["match"] is not None
        ]
    rows: list[Sequence[object]] = [
        (
            f"{one['weight']:.2f}",
            one["text"],
            ", ".join(credited.get(one["reference"], ())) or "-",
            "-" if one["change"] is None else f"{one['change']:+.{2 if scale > 1 else 4}f}",
        )
        for one in reply["without_reference"]
    ]
    if "credited" not in reply:
        return rows, []
    found = {credit["ngram"] for credit in reply["credited"] if credit["order"] == 1}
    return rows, list(dict.fromkeys(word for word in reply.get("words", ()) if word not in found))


# ── LaTeX ─────────────────────────────────────────────────────────────────────────────────────────────────────────────


def latex_table(evaluation: Evaluation, level: str) -> str:
    """Return a table with a row for each system, or for each reply, and a column for each metric; it needs booktabs.

    Intervals stand beside the scores, and p of the randomisation test where there is a baseline. Signatures stand in
    comments below.
    """
    names = metric_names(evaluation)
    columns, rows = _reply_cells(evaluation) if level == "reply" else _system_cells(evaluation, level)
    head = [*columns, *(_with_scale(escape_latex(name), scores.scale) for name, scores in names)]
    lines = [
        r"% needs \usepackage{booktabs}",
        *Table(level, head, rows).as_latex("l" * len(columns) + "r" * len(names)).splitlines(),
        *(f"% {name}: {scores.signature.short}" for name, scores in names),
        f"% data {evaluation.data}: {evaluation.items:,} items{_intervals_in_words(evaluation, level)}",
    ]
    return "\n".join(lines) + "\n"


def metric_names(evaluation: Evaluation) -> list[tuple[str, MetricScores]]:
    """Return each metric with its name, or with a number behind it where several parameters have one name."""
    names = [metric_scores.metric.name for metric_scores in evaluation.scores]
    return [
        (f"{name} ({names[: place + 1].count(name)})" if names.count(name) > 1 else name, metric_scores)
        for place, (name, metric_scores) in enumerate(zip(names, evaluation.scores, strict=True))
    ]


def _with_scale(name: str, scale: float) -> str:
    return rf"${scale:g}\times${name}" if scale > 1 else name


def _system_cells(evaluation: Evaluation, level: str) -> tuple[list[str], list[list[str]]]:
    systems = list(dict.fromkeys(name for scores in evaluation.scores for name in scores.systems))
    return ["System"], [
        [escape_latex(system), *(_system_cell(metric_scores, system, level) for metric_scores in evaluation.scores)]
        for system in systems
    ]


def _system_cell(metric_scores: MetricScores, system: str, level: str) -> str:
    """Return the score with its interval, and p of the difference from the baseline."""
    if system not in metric_scores.systems:
        return _NO_SCORE
    score, low, high = _score_and_interval(metric_scores.systems[system], level)
    cell = _number(score, metric_scores.scale)
    if low is not None and high is not None:
        cell += rf" ${{\scriptstyle[{_digits(low, metric_scores.scale)}, {_digits(high, metric_scores.scale)}]}}$"
    comparison = metric_scores.comparisons.get(system)
    p = None if comparison is None else comparison.randomisation.difference.p
    return cell if p is None else cell + rf" ${{\scriptstyle (p {'<0.001' if p < 0.001 else f'= {p:.3f}'})}}$"


def _reply_cells(evaluation: Evaluation) -> tuple[list[str], list[list[str]]]:
    cells = dict[tuple[str, str], list[str]]()
    for place, metric_scores in enumerate(evaluation.scores):
        for system, scores in metric_scores.systems.items():
            for reply in scores.each_reply():
                row = cells.setdefault((system, reply["id"]), [_NO_SCORE] * len(evaluation.scores))
                row[place] = _number(reply["score"], metric_scores.scale)
    return ["System", "Item"], [
        [escape_latex(system), escape_latex(name), *row] for (system, name), row in cells.items()
    ]


def _number(score: float | None, scale: float) -> str:
    return _NO_SCORE if score is None else f"${_digits(score, scale)}$"


def _digits(score: float, scale: float) -> str:
    return f"{score:.2f}" if scale > 1 else f"{score:.4f}"


def _intervals_in_words(evaluation: Evaluation, level: str) -> str:
    """Say how the intervals were drawn, and what p is."""
    drawn = evaluation.settings
    if not drawn.draws or level == "reply":
        return ""
    compared = f"; p: approximate randomisation against {drawn.baseline}" if drawn.baseline else ""
    return f"; intervals: {drawn.confidence:.4g} of {drawn.draws:,} draws, seed {drawn.seed}{compared}"
