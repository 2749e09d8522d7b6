"""`reproduce hybrid`: what the hybrid metric and judgements of turns say of whole conversations, one bot left out.

The conversations are those of one study in which people talked with bots, one of them degraded on purpose. Components
stand on word vectors of the everyday logs; turns are judged by the rater, the index and, if one is named, the VHRED of
the same logs. Which columns each set has is laid down here, before any of them is compared with ratings.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, Final

from refaug.core.errors import BadInput, NotFound
from refaug.core.files import sha256_of
from refaug.extras.conversations.hybrid_report import BASELINES, HYBRID, JUDGED, WIDE, hybrid_report
from refaug.extras.conversations.hybrids import MeasuredConversations, measure
from refaug.extras.conversations.judged import TurnJudges
from refaug.extras.conversations.options import EncoderRequest, HybridSettings, TurnReferences
from refaug.extras.conversations.reading import Conversation, read_conversations
from refaug.extras.reproduction.material.chain import Chain
from refaug.extras.reproduction.material.rated_sets import ProofSet
from refaug.extras.reproduction.report.report import ExperimentReport, short
from refaug.tables.reports.report import Section
from refaug.tables.reports.table import Table

STUDY: Final = "ji2022_run1"  # by its name in dialogues/
DEGRADED: Final = "QualityControl"  # a bot of the study whose replies were made worse on purpose
ALL_BOTS, WITHOUT_DEGRADED = "all bots", "without the degraded bot"
PERSON_Z: Final = "ratings in deviations of their person"
_LEAST_RATINGS: Final = 3  # of a person, for deviations
_FIGURES: Final = ("worst", "slope", "first", "second")
_SET_COLUMNS: Final = (
    "columns",
    "r",
    "shuffled: centre",
    "shuffled: 95 %",
    "in folds: mean",
    "in folds: 95 %",
    "p",
    "icpt:fold",
    "within bots",
)
_IN_ERRORS: Final = 1.96  # half a 95 % interval, in standard errors


def hybrid(chain: Chain, _sets: Sequence[ProofSet]) -> ExperimentReport:
    """Report on the hybrid metric, its wider set, and judgements of turns."""
    path = chain.settings.data / "dialogues" / f"{STUDY}.jsonl.gz"
    if not path.is_file():
        raise NotFound(f"the data has no dialogues/{STUDY}.jsonl.gz", remedy="reproduce another part, or add it")
    read = list(read_conversations(path))
    talks = [entry for entry in read if isinstance(entry, Conversation)]
    settings = HybridSettings(draws=chain.settings.draws, seed=chain.settings.seed)
    measured = measure(
        chain.home, talks, EncoderRequest(vectors=chain.vectors()), settings, _judges(chain), chain.progress
    )
    reports = dict(_reports(measured, talks, settings, chain))
    return ExperimentReport(
        name="hybrid",
        title="Whole conversations: the hybrid metric and judgements of turns",
        summary=tuple(_summary(reports)),
        sections=[*(_section(name, report) for name, report in reports.items()), _courses(reports)],
        data={
            "study": {
                "name": STUDY,
                "sha256": sha256_of(path),
                "conversations": len(talks),
                "unusable": len(read) - len(talks),
                "people": len({talk.participant for talk in talks}),
            },
            "turn_signatures": dict(measured.turn_signatures),
            "reports": reports,
        },
        notes=() if chain.settings.vhred else ("no VHRED is named (--vhred): no likelihood of turns",),
    )


def _judges(chain: Chain) -> TurnJudges:
    """Return the metrics of turns; all of them do without a gold."""
    metrics = ["rater:refs=none", "rater:refs=none,turns=3", "upsilon-bleu"]
    if (vhred := chain.settings.vhred) is not None:
        metrics.append(f"likelihood:model={vhred}")
    return TurnJudges(
        metrics=metrics,
        models=chain.models.with_leased(rater=chain.rater()),
        index=chain.main_index(),
        references=TurnReferences(weights="one", mode="bm25-utterance"),
    )


def _reports(
    measured: MeasuredConversations, talks: Sequence[Conversation], settings: HybridSettings, chain: Chain
) -> Iterator[tuple[str, dict[str, object]]]:
    """Yield the figures over all bots, without the degraded one, and with ratings in deviations of their person."""
    chain.progress.stage("fit, intervals and controls")
    yield ALL_BOTS, hybrid_report(measured.table, settings, measured.details)
    without = [talk for talk in measured.rated.conversations if talk.bot != DEGRADED]
    if 1 < len({talk.bot for talk in without}) < len(measured.table.names):
        yield (
            WITHOUT_DEGRADED,
            hybrid_report(measured.table.of(without, measured.rated, settings), settings, measured.details),
        )
    standard = replace(settings, person_z=_LEAST_RATINGS)
    try:
        table = measured.table.of(talks, measured.rated, standard)
    except BadInput as error:
        chain.progress.warn(f"{PERSON_Z}: {error.message}")
        return
    yield PERSON_Z, hybrid_report(table, standard, measured.details)


# ── Tables ────────────────────────────────────────────────────────────────────────────────────────────────────────────


def _section(name: str, report: Mapping[str, Any]) -> Section:
    sets = report["sets"]
    bots = len(report["bots"])
    return Section(
        title=f"One bot left out: {name}",
        text=(
            f"{report['conversations']:,} conversations with {bots} bots, `{report['signature']}`. Pearson over bots "
            "with its interval over bots and conversations, beside what shuffled ratings give: all of them, with the "
            "centre and the middle 95 %, and in folds, where bots keep their own means: the mean correlation with its "
            "95 % interval, and the middle 95 %. Then p over orders of the bots; the published intercept; and the "
            "correlation over conversations within bots. The intercept alone, in the published form, has "
            f"{_digits(report['intercept_only']['pearson'])}.",
        ),
        tables=[
            Table(
                title=f"Fitted, {name}",
                columns=_SET_COLUMNS,
                rows=[_set_row(set_name, figures) for set_name, figures in sets.items()],
                notes=tuple(_comparisons(report)),
            ),
            Table(
                title=f"Each column alone, {name}: means of bots, without a fit",
                columns=("column", "Pearson", "Spearman", "within bots"),
                rows=[_alone_row(column, report) for column in sets[WIDE]["columns"]],
            ),
        ],
    )


def _set_row(name: str, figures: Mapping[str, Any]) -> tuple[str, ...]:
    shuffled, in_folds = figures["shuffled_ratings"], figures["shuffled_in_folds"]
    return (
        name,
        f"{_digits(figures['agreement']['common']['pearson'])} {_bounds(figures['interval'])}".rstrip(),
        "–" if shuffled is None else _digits(shuffled["centre"]),
        _bounds(shuffled),
        _mean_in_folds(in_folds),
        _bounds(in_folds),
        "–" if shuffled is None else _digits(figures["permuted_bots"]["p"]),
        _digits(figures["agreement"]["fold"]["pearson"]),
        _digits(figures["within_bots"]),
    )


def _mean_in_folds(control: Mapping[str, Any] | None) -> str:
    """Return the mean correlation of ratings shuffled in folds, with its 95 % interval."""
    if control is None or control["mean"] is None:
        return "–"
    half = _IN_ERRORS * control["error"]
    return f"{_digits(control['mean'])} [{short(control['mean'] - half, 2)}, {short(control['mean'] + half, 2)}]"


def _alone_row(column: str, report: Mapping[str, Any]) -> tuple[str, ...]:
    figures = report["alone"][column]
    return (column, _digits(figures["pearson"]), _digits(figures["spearman"]), _digits(report["within_alone"][column]))


def _courses(reports: Mapping[str, Mapping[str, Any]]) -> Section:
    """Return how far the figures of turns agree with ratings of the whole, over bots and within them."""
    report = reports[ALL_BOTS]
    judged = report["sets"].get(JUDGED, {"columns": []})["columns"]
    rows = [_alone_row(name, report) for metric in judged for name in (metric, *_names_of(metric))]
    return Section(
        title="Judged turn by turn",
        text=(
            "Every reply is scored in its context without a gold. Figures of a conversation are the mean, the worst "
            "reply, the slope over replies, and the means of both halves; their correlation with what people said of "
            "the whole, over all bots and within bots.",
        ),
        tables=[Table(title="Figures of turns", columns=("figure", "Pearson", "Spearman", "within bots"), rows=rows)],
    )


def _names_of(metric: str) -> Iterator[str]:
    return (f"{metric}, {figure}" for figure in _FIGURES)


# ── In words ──────────────────────────────────────────────────────────────────────────────────────────────────────────


def _summary(reports: Mapping[str, Mapping[str, Any]]) -> Iterator[str]:
    for name, report in reports.items():
        for set_name in (HYBRID, WIDE):
            comparison = report["against_counts"][set_name]
            if comparison["difference"] is None:
                yield f"{name}: no figure for {set_name}"
                continue
            verdict = "shown" if comparison["is_shown"] else "not shown"
            figures = report["sets"][set_name]
            yield (
                f"{name}: {set_name} {_digits(figures['agreement']['common']['pearson'])} "
                f"{_bounds(figures['interval'])}; better than {comparison['count']}, the best of "
                f"{', '.join(BASELINES)}: {verdict}, {_digits(comparison['difference'])} "
                f"{_bounds(comparison['interval'])}"
            )


def _comparisons(report: Mapping[str, Any]) -> Iterator[str]:
    for name, comparison in report["against_counts"].items():
        if comparison["difference"] is not None:
            yield (
                f"{name} less {comparison['count']}: {_digits(comparison['difference'])} "
                f"{_bounds(comparison['interval'])}"
            )


def _bounds(interval: Mapping[str, Any] | None) -> str:
    """Return the ends of an interval; nothing where there are too few bots for one."""
    return "" if interval is None else f"[{short(interval['low'], 2)}, {short(interval['high'], 2)}]"


def _digits(figure: float | None) -> str:
    return "–" if figure is None else short(figure)
