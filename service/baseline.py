"""What a metric gives to replies that have nothing to do with their reference: the b of υ-anything, from a log."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from core.engine import Engine
from core.errors import BadInput, Usage
from core.log_store import StoredLog
from metrics.parameters import shortest
from metrics.specification import Specification, build
from metrics.upsilon import PREFIX, Upsilon, baseline


@dataclass(frozen=True, kw_only=True)
class Baseline:
    """The mean over random pairs, and all that made it."""

    specification: str  # the weighted form with this b
    metric: str
    b: float
    pairs: int
    seed: int
    log: str
    log_pairs: int

    @property
    def parameter(self) -> str:
        """How a specification has it."""
        return _parameter(self.b)

    def as_json(self) -> dict[str, Any]:
        """As the command prints it."""
        return {
            "metric": self.metric,
            "b": self.b,
            "parameter": self.parameter,
            "specification": self.specification,
            "pairs": self.pairs,
            "seed": self.seed,
            "log": self.log,
            "log_pairs": self.log_pairs,
        }


def baseline_of(
    specification: Specification, log: StoredLog, engine: Engine, *, pairs: int = 10_000, seed: int = 1
) -> Baseline:
    """Score responses of a log against responses of other dialogues, both drawn by the seed."""
    metric = build(specification)
    if not (isinstance(metric, Upsilon) or metric.info.upsilon):
        raise Usage(
            f"{metric.name} has no υ form, so it needs no baseline", remedy="refaug metrics list has those that do"
        )
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
    b = baseline(metric, [reply for reply, _ in pairings], [reference for _, reference in pairings])
    given = [f"{key}={value}" for key, value in specification.given if key not in ("b", "refs", "multi")]
    return Baseline(
        specification=f"{PREFIX}{specification.name.removeprefix(PREFIX)}:{','.join([*given, _parameter(b)])}",
        metric=metric.name,
        b=b,
        pairs=len(pairings),
        seed=seed,
        log=log.manifest.name,
        log_pairs=log.manifest.totals.get("pairs", 0),
    )


def _parameter(b: float) -> str:
    """Seven digits are more than a sample of pairs can tell."""
    return f"b={shortest(round(b, 7))}"
