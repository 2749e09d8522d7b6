"""What a metric gives to replies that have nothing to do with their reference: the b of υ-anything.

From a log, or from an index, whose b is measured once for each metric and kept in `indexes/<name>/baselines/`: beside
the versions, which never change, and under a name made of what it is the answer to. So it is the same whoever measures
it, it stays when versions go, and it goes when the index does.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, Literal, NamedTuple, Self

import numpy as np

from core.engine import Engine
from core.errors import BadInput, Usage
from core.holding import Held
from core.log_store import StoredLog
from core.progress import Progress, Silent
from core.versions import Versions
from indexer.manifest import IndexManifest
from metrics.base import Metric
from metrics.parameters import shortest
from metrics.signature import Signature
from metrics.specification import Specification, build
from metrics.upsilon import PREFIX, Upsilon, baseline
from service.kept import Question, keep, kept
from service.log_sample import live_segments, unrelated_responses

PAIRS: Final = 10_000
SEED: Final = 1
FOLDER: Final = "baselines"  # among the versions of an index, and no name that a version can have
_KIND: Final = "baseline"
_FORMAT_VERSION: Final = 1
_OF_SEVERAL: Final = ("refs", "multi")  # settings without a meaning for a single reference
_LARGEST: Final = 0.999  # as the catalogue has it: above, nothing is left that a score could say


@dataclass(frozen=True, kw_only=True)
class Baseline:
    """The mean over random pairs, and all that made it."""

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
        """How a specification has it."""
        return f"b={_written(self.b)}"

    def as_json(self) -> dict[str, Any]:
        """As the command prints it."""
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
    """Seven digits are more than a sample of pairs can tell."""
    return shortest(round(b, 7))


def _asked(specification: Specification) -> Metric:
    metric = build(specification)
    if not (isinstance(metric, Upsilon) or metric.info.upsilon):
        raise Usage(
            f"{metric.name} has no υ form, so it needs no baseline", remedy="refaug metrics list has those that do"
        )
    return metric


def _with_b(specification: Specification, b: float) -> str:
    """The weighted form that a specification asks for, or is the base of."""
    given = [f"{key}={value}" for key, value in specification.given if key not in ("b", *_OF_SEVERAL)]
    return f"{PREFIX}{specification.name.removeprefix(PREFIX)}:{','.join([*given, f'b={_written(b)}'])}"


def _mean(metric: Metric, pairings: Sequence[tuple[str, str]], where: str) -> float:
    """The mean over pairs; BadInput where it leaves no room above it."""
    b = baseline(metric, [reply for reply, _ in pairings], [reference for _, reference in pairings])
    if b > _LARGEST:
        raise BadInput(
            f"random pairs of {where} score {b:.4g} by {metric.name}: a good reply cannot be told from any other",
            remedy="another metric, or texts that differ; or give b in the specification",
        )
    return b


# ── from a log ────────────────────────────────────────────────────────────────────────────────────────────────────


def baseline_of(
    specification: Specification, log: StoredLog, engine: Engine, *, pairs: int = PAIRS, seed: int = SEED
) -> Baseline:
    """Score responses of a log against responses of other dialogues, both drawn by the seed."""
    metric = _asked(specification)
    drawn = log.sample(2 * pairs, seed, engine)
    order = np.random.Generator(np.random.PCG64(seed)).permutation(len(drawn))
    half = len(drawn) // 2
    pairings = [
        (drawn[left].response, drawn[right].response)
        for left, right in zip(order[:half], order[half : 2 * half], strict=True)
        if drawn[left].dialogue != drawn[right].dialogue
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


# ── from an index ─────────────────────────────────────────────────────────────────────────────────────────────────


def baseline_in(
    specification: Specification,
    indexes: Versions,
    index: str,
    *,
    pairs: int = PAIRS,
    seed: int = SEED,
    progress: Progress | None = None,
) -> Baseline:
    """Score responses of an index against those of other pairs and dialogues, or look up what came of it before."""
    metric = _asked(specification)
    found = _of_index(metric, indexes, index, pairs, seed, progress or Silent())
    return Baseline(
        specification=_with_b(specification, found.b),
        metric=metric.name,
        b=found.b,
        pairs=found.drawn,
        seed=seed,
        kind="index",
        source=found.called,
        source_pairs=found.manifest.pairs,
    )


@dataclass(frozen=True, kw_only=True)
class Base:
    """The b of a weighted form as specifications write it, and how it was measured."""

    written: str
    measured: Mapping[str, str]


def base_of(metric: Upsilon, indexes: Versions, index: str, progress: Progress | None = None) -> Base:
    """What an index has for it: what is kept, or else measured and kept."""
    found = _of_index(metric, indexes, index, PAIRS, SEED, progress or Silent())
    measured = {"b-index": found.manifest.id[:12], "b-pairs": str(found.drawn), "b-seed": str(SEED)}
    return Base(written=_written(found.b), measured=measured)


def based_on(metric: Metric, indexes: Versions, index: str, progress: Progress | None = None) -> Metric:
    """The metric; a weighted form that was asked for without b has that of the index."""
    if not isinstance(metric, Upsilon) or not metric.b_is_open:
        return metric
    base = base_of(metric, indexes, index, progress)
    return metric.with_b(base.written, base.measured)


class _OfIndex(NamedTuple):
    """The b of an index, and which index that was."""

    b: float
    drawn: int  # pairs: fewer than asked for, where most of an index is one dialogue
    called: str  # name@version
    manifest: IndexManifest


def _of_index(metric: Metric, indexes: Versions, index: str, pairs: int, seed: int, progress: Progress) -> _OfIndex:
    """What is kept, or else measured and kept; the version is held, so that nobody removes the index meanwhile."""
    base = metric.base if isinstance(metric, Upsilon) else metric
    with indexes.open(index) as held:
        manifest, where = IndexManifest.read(held.folder), f"{held.name}@{held.version}"
        asked = {"metric": described(base), "pairs": pairs, "seed": seed}
        question = Question(kind=_KIND, format_version=_FORMAT_VERSION, index=manifest.id, asked=asked)
        path = indexes.folder(held.name, FOLDER) / question.file
        answer = _Answer.read(path, question, pairs)
        if answer is None:
            progress.stage(f"baseline of {base.name}")
            answer = _measured(base, held, manifest, pairs, seed)
            keep(path, question, {"drawn": answer.drawn, "b": answer.b}, "the baseline of the index", progress)
    return _OfIndex(answer.b, answer.drawn, where, manifest)


def described(base: Metric) -> str:
    """All that can change what the metric gives to a pair of texts."""
    settings = {key: value for key, value in base.settings.items() if key not in _OF_SEVERAL}
    return Signature(metric=base.name, settings=settings, details=base.versions()).full


@dataclass(frozen=True, kw_only=True)
class _Answer:
    """A mean, and over how many pairs."""

    b: float
    drawn: int

    @classmethod
    def read(cls, path: Path, question: Question, pairs: int) -> Self | None:
        """What was kept; None where there is nothing, or nothing to be trusted: then it is measured again."""
        found = kept(path, question, ("drawn", "b"))
        if found is None:
            return None
        b, drawn = found["b"], found["drawn"]
        if type(b) is not float or type(drawn) is not int:
            return None
        return cls(b=b, drawn=drawn) if -1 <= b <= _LARGEST and 1 <= drawn <= pairs else None


def _measured(base: Metric, held: Held, manifest: IndexManifest, pairs: int, seed: int) -> _Answer:
    where = f"index {held.name}@{held.version}"
    pairings = unrelated_responses(live_segments(held, manifest), pairs, seed)
    if not pairings:
        raise BadInput(
            f"{where} has no two pairs of different dialogues, which b could be measured on",
            remedy="give b in the specification, as refaug metrics baseline prints it for a larger log",
        )
    return _Answer(b=_mean(base, pairings, where), drawn=len(pairings))
