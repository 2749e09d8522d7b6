"""One system of a score file under one metric: the scores of its replies, and what the file says of each."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from enum import StrEnum
from typing import Any, Final

import numpy as np

from refaug.core.errors import BadInput
from refaug.core.processes.kept import cached_property
from refaug.core.records import Item
from refaug.metrics.base import Floats, Metric, References
from refaug.metrics.statistics.resampling import ValueOfSums, approximate_randomisation, paired_bootstrap
from refaug.scoring.cases import references_for
from refaug.scoring.combine import metric_of
from refaug.scoring.score_files.score_file import ScoreFile, StoredScores
from refaug.scoring.score_files.stored_lists import RowsById, StoredRows
from refaug.scoring.settings import ScoreSettings

_REMEDY: Final = "give the output of refaug score --json as it was written, without --level"


@dataclass(frozen=True, kw_only=True)
class CreditedReference:
    """A reference that a metric looked at for one reply, with what the reply got for matching it."""

    text: str
    weight: float
    credit: float | None  # None where the metric credits no reference
    source: str | None = None


@dataclass(frozen=True, kw_only=True)
class SystemRun:
    """A system of a score file under one metric."""

    file: ScoreFile
    place: int  # of the metric in the file
    name: str

    @property
    def stored(self) -> StoredScores:
        """The scores of all systems under the metric."""
        return self.file.scores[self.place]

    @cached_property
    def rows(self) -> Mapping[str, Mapping[str, Any]]:
        """What the file says of each reply, by the id of its item; BadInput where that cannot be told."""
        where = f"{self.file.shown_name}: scores[{self.place}].systems.{self.name}"
        system = self.stored.systems[self.name]
        if "replies" not in system:
            raise BadInput(f"{where}: it has no scores of single replies", remedy=_REMEDY)
        if isinstance(system["replies"], StoredRows):
            return RowsById(system["replies"])
        rows = dict[str, Mapping[str, Any]]()
        for number, row in enumerate(system["replies"]):
            name, score = row.get("id"), row.get("score")
            if not isinstance(name, str):
                raise BadInput(f"{where}.replies[{number}].id: {name!r}, a text was expected", remedy=_REMEDY)
            if score is not None and (isinstance(score, bool) or not isinstance(score, int | float)):
                raise BadInput(f"{where}.replies[{number}].score: {score!r}, a number was expected", remedy=_REMEDY)
            if name in rows:
                raise BadInput(
                    f"{where}: several replies to the item {name}",
                    remedy="compare files with one reply to each item: which of several belong together is not known",
                )
            rows[name] = row
        return rows

    def scores(self, ids: Sequence[str]) -> Floats:
        """Return the scores of these items (items,), on the scale of the file; NaN where there is none."""
        replies = self.stored.systems[self.name].get("replies")
        if isinstance(replies, StoredRows):
            return replies.scores_of(ids)
        listed = (self.rows.get(name, {}).get("score") for name in ids)
        return np.array([np.nan if score is None else score for score in listed], dtype=np.float64)

    def sums(self, ids: Sequence[str]) -> tuple[tuple[str, ...], Floats] | None:
        """Return the columns and sums of these items (items, columns); None where the file has no details."""
        if self.file.details is None:
            return None
        columns, sums = self.file.details.sums(self.place, self.name, len(self.rows))
        place_of = {name: place for place, name in enumerate(self.rows)}
        rows = np.array([place_of.get(name, -1) for name in ids], dtype=np.int64)
        return columns, np.where((rows < 0)[:, None], np.nan, sums[rows])

    def item(self, name: str) -> Item | None:
        """Return the item of this id, where the file has details."""
        return None if self.file.details is None else self.file.details.item(name)

    def reply(self, name: str) -> str | None:
        """Return the reply to an item, where the file has details."""
        test_item = self.item(name)
        return None if test_item is None else test_item.replies.get(self.name)

    def evidence(self, name: str) -> Mapping[str, Any] | None:
        """Return the evidence behind a weighted score, where the file has it."""
        by_item = self.file.document.get("evidence")
        evidence = by_item.get(name) if isinstance(by_item, Mapping) else None
        return evidence if isinstance(evidence, dict) else None

    def references(self, name: str, metric: Metric | None) -> tuple[CreditedReference, ...]:
        """Return the references behind a score: as --explain wrote them, else those of the item, credited now."""
        row = self.rows.get(name, {})
        if isinstance(row.get("without_reference"), list):
            return tuple(_explained(row))
        test_item, reply = self.item(name), self.reply(name)
        if metric is None or test_item is None:
            return ()
        chosen = references_for(metric, test_item.references, test_item.turns)
        if not isinstance(chosen, References):
            return ()
        credit_records = None if reply is None else metric.credits(reply, chosen)
        credits_by_place = None if credit_records is None else _sums_by_place(credit_records)
        source_of = {reference.text: reference.source.value for reference in test_item.references}
        return tuple(
            CreditedReference(
                text=text,
                weight=weight,
                credit=None if credits_by_place is None else credits_by_place.get(place, 0.0),
                source=source_of.get(text),
            )
            for place, (text, weight) in enumerate(zip(chosen.texts, chosen.weights, strict=True))
        )


def _explained(row: Mapping[str, Any]) -> list[CreditedReference]:
    """Return the references of an explanation; what is no explanation of ours is left out."""
    credits_by_place = _sums_by_place(row["credited"]) if isinstance(row.get("credited"), list) else None
    return [
        CreditedReference(
            text=str(without.get("text", "")),
            weight=_number_or(without.get("weight"), 1.0),
            credit=None if credits_by_place is None else credits_by_place.get(place, 0.0),
        )
        for place, without in enumerate(row["without_reference"])
        if isinstance(without, dict)
    ]


def _sums_by_place(credit_records: Sequence[object]) -> dict[int, float]:
    """Return the credit of each reference over all n-grams, by its place."""
    sums = dict[int, float]()
    for record in credit_records:
        if isinstance(record, Mapping) and isinstance(place := record.get("reference"), int):
            sums[place] = sums.get(place, 0.0) + _number_or(record.get("credit"), 0.0)
    return sums


def _number_or(content: object, default: float) -> float:
    return float(content) if isinstance(content, int | float) else default


# ── Paired tests of two systems by one metric: those of `refaug score --baseline`, from score files alone ─────────────
#
# The corpus score is tested where its sums are there: for metrics whose corpus score is the mean of the reply scores,
# and in files with details. The mean of the reply scores is tested in any case.

_FIRST, _SECOND = "first", "second"


class ScoreLevel(StrEnum):
    """Which score of a system is tested."""

    CORPUS = "corpus"
    MEAN = "mean"


@dataclass(frozen=True, kw_only=True)
class SystemTest:
    """The second system less the first, on the replies that both have a score for, with two tests of the difference."""

    level: ScoreLevel
    first: float | None
    second: float | None
    difference: float | None
    interval: tuple[float, float] | None
    p_bootstrap: float | None
    p_randomisation: float | None
    replies: int
    left_out: int
    holm_p: float | None = None  # p_randomisation, adjusted over all metrics and systems compared
    note: str | None = None

    def as_json(self) -> dict[str, object]:
        """Return the fields."""
        return asdict(self)


def metric_of_sums(first: SystemRun, second: SystemRun) -> tuple[Metric | None, str]:
    """Return the metric that adds the sums of both, or None and why there is none."""
    specifications = [str(system.stored.signature.specification()) for system in (first, second)]
    if specifications[0] != specifications[1]:
        return None, f"no test of the corpus score: {' and '.join(specifications)} add other sums"
    try:
        metric, _ = metric_of(first.stored.signature.full)
        metric_of(second.stored.signature.full)
    except BadInput as error:
        return None, error.message
    return metric, ""


def system_tests(
    first: SystemRun,
    second: SystemRun,
    ids: list[str],
    settings: ScoreSettings,
    scale: float,
    check: Callable[[], None] = lambda: None,
) -> tuple[SystemTest, ...]:
    """Return the tests of two systems on these items: of the corpus score where it can be tested, and of the mean.

    `check` is called with each block of draws, and may raise.
    """

    def mean_of(sums: Floats) -> Floats:
        check()
        return _mean_of_sums(sums)

    means = [_rows_of_means(system.scores(ids) * (scale / system.stored.scale)) for system in (first, second)]
    mean = _test(ScoreLevel.MEAN, means[0], means[1], mean_of, settings)
    if first.stored.document.get("corpus_from") == "mean":
        return (mean,)
    metric, why = metric_of_sums(first, second)
    if metric is None:
        return (_untested(first, second, scale, why), mean)
    before, now = first.sums(ids), second.sums(ids)
    if before is None or now is None:
        lacking = " and ".join(
            system.file.shown_name for system, sums in ((first, before), (second, now)) if sums is None
        )
        lacking = first.file.shown_name if first.file is second.file else lacking
        why = f"no test of the corpus score: there are no sums in {lacking}; refaug score --json --details writes them"
        return (_untested(first, second, scale, why), mean)
    if not before[0] == now[0] == metric.columns:
        return (_untested(first, second, scale, "the columns of the sums are not those of the metric"), mean)

    def value_of(sums: Floats) -> Floats:
        check()
        return metric.value_of_sums(sums) * scale

    return (_test(ScoreLevel.CORPUS, before[1], now[1], value_of, settings), mean)


def _rows_of_means(scores: Floats) -> Floats:
    """Return rows whose sums give the mean: the score, and 1 where there is one."""
    return np.stack([scores, np.where(np.isnan(scores), np.nan, 1.0)], axis=1)


def _mean_of_sums(sums: Floats) -> Floats:
    with np.errstate(invalid="ignore", divide="ignore"):
        return np.asarray(sums[..., 0] / sums[..., 1])


def _test(
    level: ScoreLevel, first: Floats, second: Floats, value_of: ValueOfSums, settings: ScoreSettings
) -> SystemTest:
    statistics, draws, seed = {_FIRST: first, _SECOND: second}, settings.draws, settings.seed
    paired = paired_bootstrap(statistics, value_of, _FIRST, draws=draws, seed=seed, level=settings.confidence)[_SECOND]
    permuted = approximate_randomisation(statistics, value_of, _FIRST, trials=draws, seed=seed)[_SECOND]
    difference = paired.difference
    has_interval = difference.low is not None and difference.high is not None
    return SystemTest(
        level=level,
        first=paired.baseline,
        second=paired.value,
        difference=difference.value,
        interval=(difference.low, difference.high) if has_interval else None,  # type: ignore[arg-type]
        p_bootstrap=difference.p,
        p_randomisation=permuted.difference.p,
        replies=paired.replies,
        left_out=paired.left_out,
        note=difference.why,
    )


def _untested(first: SystemRun, second: SystemRun, scale: float, why: str) -> SystemTest:
    """Return the corpus scores as they stand in the files, and why they are not tested."""
    before, now = (
        None if corpus is None else corpus * (scale / system.stored.scale)
        for system in (first, second)
        for corpus in [system.stored.systems[system.name].get("corpus")]
    )
    return SystemTest(
        level=ScoreLevel.CORPUS,
        first=before,
        second=now,
        difference=None if before is None or now is None else now - before,
        interval=None,
        p_bootstrap=None,
        p_randomisation=None,
        replies=0,
        left_out=0,
        note=why,
    )
