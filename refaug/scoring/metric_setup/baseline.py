"""Measure the baseline b of υ-metrics: the mean score of replies that have nothing to do with their reference.

The baseline comes from a log or from an index. That of an index is measured once for each metric and cached in
`indexes/<name>/baselines/`, beside the versions, which never change, in a file named after everything that the
measurement depends on. So the baseline is the same whichever process measures it, it stays when versions are removed,
and it goes when the index does.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Literal, NamedTuple, Self

import numpy as np

from refaug.core.artefacts.version_locks import HeldVersion
from refaug.core.artefacts.versions import Versions
from refaug.core.errors import BadInput, Usage
from refaug.core.progress import Progress, Silent
from refaug.core.query_engine import QueryEngine
from refaug.indexer.manifest import IndexManifest
from refaug.logs.store import StoredLog
from refaug.metrics.base import Metric
from refaug.metrics.parameters import shortest
from refaug.metrics.signature import Signature
from refaug.metrics.specification import Specification, build
from refaug.metrics.upsilon import PREFIX, Upsilon, baseline
from refaug.scoring.metric_setup.log_sample import (
    MeasurementKey,
    live_segments,
    read_measurement,
    unrelated_responses,
    write_measurement,
)

PAIRS: Final = 10_000
SEED: Final = 1
FOLDER: Final = "baselines"  # among the versions of an index; no version can have this name
_KIND: Final = "baseline"
_FORMAT_VERSION: Final = 1
_MULTI_REFERENCE_SETTINGS: Final = ("refs", "multi")  # without a meaning for a single reference
_LARGEST: Final = 0.999  # as in the catalogue: above, a score could not tell replies apart any more


@dataclass(frozen=True, kw_only=True)
class Baseline:
    """The mean score over random pairs, with everything that it was measured from."""

    specification: str  # the weighted form with this b
    metric: str
    b: float
    pairs: int
    seed: int
    kind: Literal["log", "index"]
    source: str  # the log, or name@version of the index
    source_pairs: int

    @property
    def parameter(self) -> str:
        """The baseline as a parameter of a specification."""
        return f"b={_written(self.b)}"

    def as_json(self) -> dict[str, object]:
        """Return the baseline as the command prints it."""
        return {
            "metric": self.metric,
            "b": self.b,
            "parameter": self.parameter,
            "specification": self.specification,
            "pairs": self.pairs,
            "seed": self.seed,
            self.kind: self.source,
            f"{self.kind}_pairs": self.source_pairs,
        }


def _written(b: float) -> str:
    """Write b as specifications do; a sample of pairs cannot tell more than seven digits."""
    return shortest(round(b, 7))


def _require_upsilon(specification: Specification) -> Metric:
    """Build the metric, and refuse one without a υ form."""
    metric = build(specification)
    if not (isinstance(metric, Upsilon) or metric.info.upsilon):
        raise Usage(
            f"{metric.name} has no υ form, so it needs no baseline",
            remedy="refaug score metrics list has those that do",
        )
    return metric


def _with_b(specification: Specification, b: float) -> str:
    """Return the weighted form that a specification asks for, or is the base of, with this b."""
    dropped = ("b", *_MULTI_REFERENCE_SETTINGS)
    parameters = [f"{key}={value}" for key, value in specification.parameters if key not in dropped]
    return f"{PREFIX}{specification.name.removeprefix(PREFIX)}:{','.join([*parameters, f'b={_written(b)}'])}"


def _mean(metric: Metric, pairings: Sequence[tuple[str, str]], where: str) -> float:
    """Return the mean score over pairs; BadInput where hardly any score could be higher."""
    b = baseline(metric, [reply for reply, _ in pairings], [reference for _, reference in pairings])
    if b > _LARGEST:
        raise BadInput(
            f"random pairs of {where} score {b:.4g} by {metric.name}: a good reply cannot be told from any other",
            remedy="another metric, or texts that differ; or give b in the specification",
        )
    return b


# ── From a log ────────────────────────────────────────────────────────────────────────────────────────────────────


def baseline_of(
    specification: Specification, log: StoredLog, engine: QueryEngine, *, pairs: int = PAIRS, seed: int = SEED
) -> Baseline:
    """Score responses of a log against responses of other dialogues, both drawn by the seed."""
    metric = _require_upsilon(specification)
    drawn = log.sample(2 * pairs, seed, engine)
    order = np.random.Generator(np.random.PCG64(seed)).permutation(len(drawn))
    half = len(drawn) // 2
    pairings = [
        (drawn[first].response, drawn[second].response)
        for first, second in zip(order[:half], order[half : 2 * half], strict=True)
        if drawn[first].dialogue != drawn[second].dialogue
    ]
    if not pairings:
        raise BadInput(
            f"log {log.manifest.name} has no two responses of different dialogues", remedy="ingest more dialogues first"
        )
    b = _mean(metric, pairings, f"log {log.manifest.name}")
    return Baseline(
        specification=_with_b(specification, b),
        metric=metric.name,
        b=b,
        pairs=len(pairings),
        seed=seed,
        kind="log",
        source=log.manifest.name,
        source_pairs=log.manifest.totals.get("pairs", 0),
    )


# ── From an index ─────────────────────────────────────────────────────────────────────────────────────────────────


def baseline_in(
    specification: Specification,
    indexes: Versions,
    index: str,
    *,
    pairs: int = PAIRS,
    seed: int = SEED,
    progress: Progress | None = None,
) -> Baseline:
    """Score responses of an index against those of other pairs and dialogues, or read the cached result."""
    metric = _require_upsilon(specification)
    measured = _measure_index(metric, indexes, index, pairs, seed, progress or Silent())
    return Baseline(
        specification=_with_b(specification, measured.b),
        metric=metric.name,
        b=measured.b,
        pairs=measured.drawn,
        seed=seed,
        kind="index",
        source=measured.spec,
        source_pairs=measured.manifest.pairs,
    )


def index_baseline(metric: Upsilon, indexes: Versions, index: str, progress: Progress | None = None) -> str:
    """Return the b of an index for a metric as specifications write it, from the cache or measured and cached."""
    return _written(_measure_index(metric, indexes, index, PAIRS, SEED, progress or Silent()).b)


def with_index_baseline(metric: Metric, indexes: Versions, index: str, progress: Progress | None = None) -> Metric:
    """Return the metric; a weighted form that was requested without b gets that of the index."""
    if not isinstance(metric, Upsilon) or not metric.b_is_open:
        return metric
    return metric.with_b(index_baseline(metric, indexes, index, progress))


class _IndexMeasurement(NamedTuple):
    """The b of an index, with the version that it was measured on."""

    b: float
    drawn: int  # pairs; fewer than requested where most of an index is one dialogue
    spec: str  # name@version
    manifest: IndexManifest


def _measure_index(
    metric: Metric, indexes: Versions, index: str, pairs: int, seed: int, progress: Progress
) -> _IndexMeasurement:
    """Return the cached b, or measure and cache it; the version is leased so that it is not removed meanwhile."""
    base = metric.base if isinstance(metric, Upsilon) else metric
    with indexes.open(index) as held:
        manifest, where = IndexManifest.read(held.folder), f"{held.name}@{held.version}"
        parameters = {"metric": metric_identity(base), "pairs": pairs, "seed": seed, **sampling_of(manifest)}
        key = MeasurementKey(kind=_KIND, format_version=_FORMAT_VERSION, index=manifest.id, parameters=parameters)
        path = indexes.folder(held.name, FOLDER) / key.file
        mean = _MeanOfPairs.read(path, key, pairs)
        if mean is None:
            progress.stage(f"baseline of {base.name}")
            mean = _measure_pairs(base, held, manifest, pairs, seed)
            write_measurement(path, key, {"drawn": mean.drawn, "b": mean.b}, "the baseline of the index", progress)
    return _IndexMeasurement(mean.b, mean.drawn, where, manifest)


def sampling_of(manifest: IndexManifest) -> dict[str, object]:
    """Return what identifies the way in which pairs are drawn from a version of several segments."""
    return {"sampling": manifest.sampling} if len(manifest.segments) > 1 else {}


def metric_identity(base: Metric) -> str:
    """Return the full signature of everything that can change what the metric gives to a pair of texts."""
    settings = {key: value for key, value in base.settings.items() if key not in _MULTI_REFERENCE_SETTINGS}
    return Signature(metric=base.name, settings=settings, details=base.versions()).full


@dataclass(frozen=True, kw_only=True)
class _MeanOfPairs:
    """A mean score, and the number of pairs that it is over."""

    b: float
    drawn: int

    @classmethod
    def read(cls, path: Path, key: MeasurementKey, pairs: int) -> Self | None:
        """Read the cached mean; None where there is none or it is not plausible, so that it is measured again."""
        cached = read_measurement(path, key, ("drawn", "b"))
        if cached is None:
            return None
        b, drawn = cached["b"], cached["drawn"]
        if type(b) is not float or type(drawn) is not int:
            return None
        return cls(b=b, drawn=drawn) if -1 <= b <= _LARGEST and 1 <= drawn <= pairs else None


def _measure_pairs(base: Metric, held: HeldVersion, manifest: IndexManifest, pairs: int, seed: int) -> _MeanOfPairs:
    where = f"index {held.name}@{held.version}"
    pairings = unrelated_responses(live_segments(held, manifest), pairs, seed)
    if not pairings:
        raise BadInput(
            f"{where} has no two pairs of different dialogues, which b could be measured on",
            remedy="give b in the specification, as refaug score metrics baseline prints it for a larger log",
        )
    return _MeanOfPairs(b=_mean(base, pairings, where), drawn=len(pairings))
