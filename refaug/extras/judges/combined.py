"""The metric `judge-fit`: a combination of metrics that was fitted to ratings, read back and bound."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, Literal, Self, get_args

import numpy as np

from refaug.core.artefacts.kinds import artefact_stores
from refaug.core.artefacts.manifests import MANIFEST, require_format, verify_files
from refaug.core.artefacts.versions import Versions
from refaug.core.errors import Conflict, Corrupt, Usage
from refaug.core.files import read_json
from refaug.core.home import Settings
from refaug.core.progress import Progress
from refaug.core.text.tokenizers import get_tokenizer
from refaug.extras.judges.metrics.combined_replies import CombinedReplies
from refaug.metrics.base import Floats, Metric
from refaug.metrics.models.model_kinds import VectorOpener
from refaug.metrics.signature import Signature
from refaug.rater.adem.scorer.seen_texts import SEEN, SeenTexts
from refaug.scoring.metric_setup.metric_requests import metrics_of
from refaug.scoring.metric_setup.model_registry import ModelRegistry
from refaug.scoring.metric_setup.scoring_steps import Bind

Method = Literal["ridge", "equal"]
LengthEffect = Literal["free", "held"]
LENGTH_TOKENIZER: Final = "word"  # counts lengths of texts that are not Japanese
_KNOTS: Final = 101  # of the map from a metric's values to normal scores
_REMEDY: Final = "restore it, or fit it again"


@dataclass(frozen=True, kw_only=True)
class FitSettings:
    """How a judge is fitted."""

    method: Method = "ridge"
    length: LengthEffect = "free"
    seed: int = 1

    def __post_init__(self) -> None:
        if self.method not in get_args(Method):
            raise Usage(f"there is no method {self.method!r}", remedy=f"one of: {', '.join(get_args(Method))}")
        if self.length not in get_args(LengthEffect):
            raise Usage(f"length {self.length!r}", remedy=f"one of: {', '.join(get_args(LengthEffect))}")


@dataclass(frozen=True, kw_only=True)
class NormalScale:
    """A map from values to normal scores, linear between some values of the training rows and flat beyond them."""

    values: tuple[float, ...]
    scores: tuple[float, ...]

    @classmethod
    def of(cls, values: Floats) -> Self:
        """Measure the scale of some values; equal values share their mean rank."""
        from scipy.special import ndtri  # noqa: PLC0415  who reads a judge back does without

        distinct, counts = np.unique(values, return_counts=True)
        scores = ndtri((counts.cumsum() - counts / 2) / len(values))
        if len(distinct) > _KNOTS:
            chosen = np.unique(np.linspace(0, len(distinct) - 1, _KNOTS).round().astype(np.int64))
            distinct, scores = distinct[chosen], scores[chosen]
        return cls(values=tuple(distinct.tolist()), scores=tuple(scores.tolist()))

    def apply(self, values: Floats) -> Floats:
        """Return the normal scores of values; NaN stays NaN."""
        scores = np.interp(values, self.values, self.scores)
        return np.where(np.isnan(values), np.nan, scores)


@dataclass(frozen=True, kw_only=True)
class CombinedJudge:
    """The weights of metrics, each on its scale, and what is taken off for the length of a reply."""

    features: tuple[str, ...]
    scales: tuple[NormalScale, ...]
    coefficients: tuple[float, ...]
    length_scale: NormalScale
    length_slopes: tuple[float, ...]  # of the metrics; all 0 where the effect of length is free
    penalty: float
    settings: FitSettings
    length_tokenizer: str = LENGTH_TOKENIZER  # counts the lengths of replies

    @property
    def limits(self) -> tuple[float, float]:
        """The least and the most that a reply can get: every scale is flat beyond its ends."""
        of_length = [min(self.length_scale.scores), max(self.length_scale.scores)]
        low = high = 0.0
        for weight, scale, slope in zip(self.coefficients, self.scales, self.length_slopes, strict=True):
            ends = [weight * end for end in (min(scale.scores), max(scale.scores))]
            taken_off = [weight * slope * end for end in of_length]
            low += min(ends) - max(taken_off)
            high += max(ends) - min(taken_off)
        return low, high

    def score(self, values: Floats, lengths: Floats) -> Floats:
        """Return the scores of rows (rows, features); NaN where a value is missing."""
        return np.asarray(self.design(values, lengths) @ np.array(self.coefficients))

    def design(self, values: Floats, lengths: Floats) -> Floats:
        """Return the metrics on their scales, without the effect of length where that is held."""
        columns = [scale.apply(values[:, column]) for column, scale in enumerate(self.scales)]
        taken_off = self.length_scale.apply(lengths)[:, None] * np.array(self.length_slopes)
        return np.asarray(np.stack(columns, axis=1) - taken_off)

    def as_json(self) -> dict[str, object]:
        """Return everything that scoring needs."""
        return {
            "features": list(self.features),
            "scales": [{"values": list(scale.values), "scores": list(scale.scores)} for scale in self.scales],
            "coefficients": list(self.coefficients),
            "length_scale": {"values": list(self.length_scale.values), "scores": list(self.length_scale.scores)},
            "length_slopes": list(self.length_slopes),
            "penalty": self.penalty,
            "length_tokenizer": self.length_tokenizer,
            "settings": {"method": self.settings.method, "length": self.settings.length, "seed": self.settings.seed},
        }

    @classmethod
    def read(cls, saved: Mapping[str, Any], place: str) -> Self:
        """Read what `as_json` returned; raise Corrupt for anything else."""
        try:
            judge = cls(
                features=tuple(map(str, saved["features"])),
                scales=tuple(_scale_of(scale) for scale in saved["scales"]),
                coefficients=_finite_numbers(saved["coefficients"]),
                length_scale=_scale_of(saved["length_scale"]),
                length_slopes=_finite_numbers(saved["length_slopes"]),
                penalty=float(saved["penalty"]),
                settings=FitSettings(**saved["settings"]),
                length_tokenizer=str(saved.get("length_tokenizer", LENGTH_TOKENIZER)),
            )
        except (KeyError, TypeError, ValueError, Usage) as error:
            raise Corrupt(f"{place} is not a fitted judge: {error}", remedy=_REMEDY) from error
        sizes = {len(judge.features), len(judge.scales), len(judge.coefficients), len(judge.length_slopes)}
        if len(sizes) != 1:
            raise Corrupt(f"{place} has lists of {sorted(sizes)} entries for its metrics", remedy=_REMEDY)
        return judge


def _scale_of(saved: Mapping[str, Any]) -> NormalScale:
    scale = NormalScale(values=_finite_numbers(saved["values"]), scores=_finite_numbers(saved["scores"]))
    if not scale.values or len(scale.values) != len(scale.scores) or (np.diff(scale.values) <= 0).any():
        raise ValueError("a scale whose values do not rise")
    return scale


def _finite_numbers(numbers: Sequence[Any]) -> tuple[float, ...]:
    """Return the numbers; raise ValueError where one of them is not finite."""
    read = tuple(float(number) for number in numbers)
    if not np.isfinite(read).all():
        raise ValueError("a number that is not finite")
    return read


KIND: Final = "judge-fit"
FORMAT_VERSION: Final = 1
JUDGE: Final = "judge.json"
REPORT: Final = "report.json"


@dataclass(frozen=True, kw_only=True, eq=False)
class StoredJudge:
    """An opened judge with what its manifest says."""

    spec: str  # name@version#content
    judge: CombinedJudge
    metrics: tuple[str, ...]  # with their models as name@version#content
    seen: SeenTexts
    report: Mapping[str, Any]
    signatures: tuple[str, ...]  # of the metrics as they were bound

    @property
    def name(self) -> str:
        """The name with the version, without the content."""
        return self.spec.partition("#")[0]


def judge_versions(settings: Settings) -> Versions:
    """Return the versions of this home's fitted judges."""
    return artefact_stores(settings)[KIND]


def open_judge(settings: Settings, spec: str) -> StoredJudge:
    """Open a judge by name or name@version; files that were altered are refused."""
    with judge_versions(settings).open(spec) as held:
        path = held.folder / MANIFEST
        manifest: Mapping[str, Any] = read_json(path)
        require_format(path, manifest, KIND, FORMAT_VERSION)
        verify_files(held.folder, manifest)
        if any((manifest.get("models") or {}).values()):
            raise Corrupt(f"{path} names models beside its metrics, which name none", remedy="fit the judge again")
        judge = CombinedJudge.read(read_json(held.folder / JUDGE), str(held.folder / JUDGE))
        try:
            return StoredJudge(
                spec=f"{held.name}@{held.version}#{str(manifest['id'])[:12]}",
                judge=judge,
                metrics=tuple(map(str, manifest["metrics"])),
                seen=SeenTexts.read(held.folder / SEEN),
                report=read_json(held.folder / REPORT),
                signatures=tuple(map(str, manifest["signatures"])),
            )
        except (KeyError, TypeError) as error:
            raise Corrupt(f"{path} lacks {error}", remedy="restore it, or fit the judge again") from error


def open_for_metrics(settings: Settings, spec: str, threads: int | None) -> StoredJudge:  # noqa: ARG001
    """Open a judge as models of metrics are opened; it uses no threads."""
    return open_judge(settings, spec)


_CONTENTS: Final = ("vectors", "encoder")  # details of a signature that name what a score was computed with


def bound_components(stored: StoredJudge, source: VectorOpener, bind: Bind) -> list[Metric]:
    """Return the metrics of a judge with their models; Conflict where one of them is not what it was fitted with."""
    metrics = metrics_of(list(stored.metrics), None, source=source)
    features, signatures = len(stored.judge.features), stored.signatures
    if not len(metrics) == len(signatures) == features:
        raise Corrupt(
            f"{stored.name} adds {features} metrics, names {len(metrics)}, has {len(signatures)} signatures",
            remedy="fit the judge again",
        )
    bound = bind(metrics)
    for before, metric in zip(signatures, bound, strict=True):
        _require_same(stored.name, Signature.parse(before), Signature.of(metric))
    return bound


def _require_same(judge: str, before: Signature, now: Signature) -> None:
    """Raise Conflict where a metric has other settings, or other word vectors, than when the judge was fitted."""
    for key in dict.fromkeys([*before.settings, *now.settings]):
        if before.settings.get(key) != now.settings.get(key):
            raise Conflict(
                f"{judge} was fitted with {now.metric} of {key}:{before.settings.get(key)}, here it has "
                f"{key}:{now.settings.get(key)}",
                remedy="bring back what it was fitted with, or fit the judge again",
            )
    for key in _CONTENTS:
        if key in before.details and before.details[key] != now.details.get(key):
            raise Conflict(
                f"{judge} was fitted with {key} {before.details[key]}, and {now.details.get(key)} are here",
                remedy="bring back what it was fitted with, or fit the judge again",
            )


# ── The metric ────────────────────────────────────────────────────────────────────────────────────────────────────────


class ReplyCombination:
    """A fitted judge that combines the values of its metrics, for one evaluation."""

    def __init__(self, stored: StoredJudge, components: Sequence[Metric]) -> None:
        self._stored = stored
        self.components = tuple(components)
        self._tokenizer = get_tokenizer(stored.judge.length_tokenizer)

    @property
    def spec(self) -> str:
        """The name, version and content of the judge."""
        return self._stored.spec

    @property
    def limits(self) -> tuple[float, float]:
        """The least and the most that a reply can get."""
        return self._stored.judge.limits

    def combine(self, values: Floats, replies: Sequence[str]) -> Floats:
        """Return the scores of replies from the values of the metrics (replies, metrics)."""
        lengths = np.array([len(tokens) for tokens in self._tokenizer.tokenize_batch(list(replies))], dtype=np.float64)
        return self._stored.judge.score(values, lengths)

    def has_seen(self, turns: Sequence[str], references: Sequence[str], reply: str) -> bool:
        """Say whether the judge was fitted to this row."""
        return self._stored.seen.contains(turns, references, reply)


def with_fitted_judges(
    metrics: Sequence[Metric],
    models: ModelRegistry,
    progress: Progress | None,  # noqa: ARG001
    bind: Bind,
) -> list[Metric]:
    """Return the metrics, those that need a fitted judge bound to the one that they name."""
    bound = list[Metric]()
    for metric in metrics:
        if not isinstance(metric, CombinedReplies):
            bound.append(metric)
            continue
        stored: StoredJudge = models.fitted_judge(metric.model)
        if asking := next((text for text in stored.metrics if text.partition(":")[0] == "judge"), None):
            raise Usage(
                f"{stored.name} adds {asking}, which calls an endpoint, and {metric.name} may not",
                remedy=f"refaug judge score judge-fit {stored.name} ITEMS",
            )
        bound.append(metric.with_judge(ReplyCombination(stored, bound_components(stored, models, bind))))
    return bound
