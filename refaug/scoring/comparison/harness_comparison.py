"""Two runs of another harness side by side: the difference of every metric that both logs have, sample by sample.

Samples are paired by their ids. Intervals and p are those of the jackknife over clusters: the epochs of a sample, or
the samples with one label, are not independent. p is adjusted over all metrics by Holm's method. Where samples carry
records with sums, the difference is that of the corpus scores; else that of the means.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, replace

import numpy as np

from refaug.core.errors import BadInput, Usage
from refaug.metrics.base import Floats
from refaug.metrics.statistics.clustered_figures import jackknifed
from refaug.metrics.statistics.resampling import ValueOfSums, holm
from refaug.scoring.combine import metric_of
from refaug.scoring.metric_setup.signature_requests import signature_differences
from refaug.scoring.score_files.harness_logs import HarnessLog, ScoredSample


@dataclass(frozen=True, kw_only=True)
class RunDifferenceByMetric:
    """The second run less the first under one metric, on the samples that both have a score for."""

    metric: str
    first: float
    second: float
    difference: float | None
    interval: tuple[float, float] | None
    p: float | None
    holm_p: float | None = None  # adjusted over all metrics compared
    samples: int
    clusters: int
    left_out: int  # samples that only one of the runs has a score for
    signature: str | None = None  # of scores by refaug
    note: str | None = None  # why there is no difference, or no interval of it

    def as_json(self) -> dict[str, object]:
        """Return the fields."""
        return asdict(self)


def compare_logs(
    first: HarnessLog,
    second: HarnessLog,
    *,
    metrics: Sequence[str] = (),
    cluster: str | None = None,
    confidence: float = 0.95,
) -> tuple[RunDifferenceByMetric, ...]:
    """Compare two logs under the metrics that both have, or those named.

    `cluster` is the field of the document or the metadata whose samples belong together; without it, those are the
    scores of one sample. BadInput where the scores of a metric are not comparable.
    """
    before, now = first.by_metric(), second.by_metric()
    both = [name for name in before if name in now]
    if unknown := [name for name in metrics if name not in both]:
        raise Usage(f"not both logs have scores by {unknown[0]!r}", remedy=f"one of: {', '.join(both) or '—'}")
    if not both:
        raise BadInput(
            f"the logs have no metric in common: {', '.join(before)} and {', '.join(now)}",
            remedy="compare runs of one task",
        )
    compared = [
        _Paired.of(name, before[name], now[name], cluster).difference(confidence)
        for name in both
        if not metrics or name in metrics
    ]
    adjusted = holm([found.p for found in compared])
    return tuple(replace(found, holm_p=p) for found, p in zip(compared, adjusted, strict=True))


@dataclass(frozen=True, kw_only=True)
class _Paired:
    """The samples of two runs that both have a score for, in the order of the first."""

    metric: str
    first: Sequence[ScoredSample]
    second: Sequence[ScoredSample]
    clusters: Sequence[str]
    left_out: int

    @classmethod
    def of(
        cls, metric: str, first: Sequence[ScoredSample], second: Sequence[ScoredSample], cluster: str | None
    ) -> _Paired:
        """Pair samples by their ids; BadInput where an id is there twice, or names two items."""
        before, now = _by_id(metric, first), _by_id(metric, second)
        ids = [name for name, sample in before.items() if name in now and None not in (sample.score, now[name].score)]
        if not ids:
            raise BadInput(f"{metric}: the logs have no sample in common", remedy="compare runs of one task")
        for name in ids:
            _require_comparable(metric, before[name], now[name])
        return cls(
            metric=metric,
            first=[before[name] for name in ids],
            second=[now[name] for name in ids],
            clusters=[_cluster(before[name], cluster) for name in ids],
            left_out=len({*before, *now}) - len(ids),
        )

    def difference(self, confidence: float) -> RunDifferenceByMetric:
        """Return the difference with its interval and p."""
        rows, value_of = self._sums()
        half = rows.shape[1] // 2

        def difference_of(sums: Floats) -> Floats:
            return np.asarray(value_of(sums[..., half:]) - value_of(sums[..., :half]))

        found = jackknifed(rows, np.array(self.clusters), difference_of, level=confidence)
        total = rows.sum(axis=0)
        record = self.first[0].record
        return RunDifferenceByMetric(
            metric=self.metric,
            first=float(value_of(total[:half])),
            second=float(value_of(total[half:])),
            difference=found.value,
            interval=None if found.low is None or found.high is None else (found.low, found.high),
            p=found.p,
            samples=len(self.first),
            clusters=len(set(self.clusters)),
            left_out=self.left_out,
            signature=None if record is None else record.signature.short,
            note=found.why,
        )

    def _sums(self) -> tuple[Floats, ValueOfSums]:
        """Return the sums of both runs side by side, and the function from sums of one to its score."""
        records = [sample.record for sample in (*self.first, *self.second)]
        if all(record is not None and record.document.get("corpus_from") == "sums" for record in records):
            sums = [record.sums() for record in records if record is not None]
            metric, _ = metric_of(records[0].signature.full)  # type: ignore[union-attr]  # none is None
            if any(row is None or len(row) != len(metric.columns) for row in sums):
                raise BadInput(f"{self.metric}: a record lacks its sums", remedy="give the log as the harness wrote it")
            rows, value_of = np.array(sums, dtype=np.float64), metric.value_of_sums
        else:
            scores = [sample.score for sample in (*self.first, *self.second)]
            rows, value_of = np.stack([np.array(scores, dtype=np.float64), np.ones(len(scores))], axis=1), _mean_of_sums
        return np.hstack([rows[: len(self.first)], rows[len(self.first) :]]), value_of


def _mean_of_sums(sums: Floats) -> Floats:
    return np.asarray(sums[..., 0] / sums[..., 1])


def _by_id(metric: str, samples: Sequence[ScoredSample]) -> dict[str, ScoredSample]:
    by_id = dict[str, ScoredSample]()
    for sample in samples:
        if sample.id in by_id:
            raise BadInput(
                f"{metric}: the log has the sample {sample.id} twice",
                remedy="compare logs of one run each: lm_eval adds to a file that is there",
            )
        by_id[sample.id] = sample
    return by_id


def _cluster(sample: ScoredSample, field: str | None) -> str:
    if field is None:
        return sample.context
    label = sample.labels.get(field)
    if label is None:
        raise BadInput(f"the sample {sample.id} has no field {field!r}", remedy="name a field that every sample has")
    return str(label)


def _require_comparable(metric: str, first: ScoredSample, second: ScoredSample) -> None:
    """Raise BadInput where two scores of one sample are of other settings or references."""
    records = [sample.record for sample in (first, second)]
    if records == [None, None]:
        return
    before, now = records
    if before is None or now is None:
        raise BadInput(
            f"{metric}: only one log has records of the sample {first.id}", remedy="score both by one metric"
        )
    differences = [str(difference) for difference in signature_differences(before.signature, now.signature)]
    if before.document.get("references") != now.document.get("references"):
        differences.append("other references or weights")
    if differences:
        raise BadInput(
            f"{metric}: the scores of the sample {first.id} cannot be compared: {'; '.join(differences)}",
            remedy="score both runs by the same metric, release and references",
        )


# ── As a table ────────────────────────────────────────────────────────────────────────────────────────────────────────


def table_of(compared: Sequence[RunDifferenceByMetric]) -> Iterator[tuple[str, ...]]:
    """Yield a heading, and a row of texts for each metric."""
    yield ("metric", "first", "second", "difference", "interval", "p", "Holm", "samples", "clusters", "left out")
    for found in compared:
        interval = found.note or ("" if found.interval is None else "[{:.4f}, {:.4f}]".format(*found.interval))
        yield (
            found.metric,
            f"{found.first:.4f}",
            f"{found.second:.4f}",
            _shown(found.difference, "+.4f"),
            interval,
            _shown(found.p, ".4f"),
            _shown(found.holm_p, ".4f"),
            str(found.samples),
            str(found.clusters),
            str(found.left_out),
        )


def _shown(number: float | None, form: str) -> str:
    return "" if number is None else format(number, form)
