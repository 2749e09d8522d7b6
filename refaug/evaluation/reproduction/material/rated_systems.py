"""The systems of a rated set that answer with turns of the log."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

import numpy as np

from refaug.evaluation.reproduction.material.rated_sets import Mask, ProofSet

FROM_THE_LOG: Final = 2 / 3  # of a system's replies: from this share on it counts as answering with turns of the log


def systems_of_the_log(rated_set: ProofSet, in_logs: Mask) -> tuple[str, ...]:
    """Return the systems whose replies are mostly turns of the log word for word."""
    systems = np.array(rated_set.systems)
    return tuple(
        system
        for system in dict.fromkeys(np.array(rated_set.systems)[rated_set.fair].tolist())
        if in_logs[(systems == system) & rated_set.fair].mean() >= FROM_THE_LOG
    )


def without_systems(rated_set: ProofSet, systems: Sequence[str]) -> ProofSet:
    """Return the set without these systems, neither as replies nor as references."""
    return rated_set.restricted_to(rated_set.rows_where(lambda row: rated_set.systems[row] not in systems))


def share_in_the_log(rated_set: ProofSet, system: str, in_logs: Mapping[str, Mask]) -> float:
    """Return the share of a system's replies that are turns of the log."""
    of_system = rated_set.rows_where(lambda row: rated_set.systems[row] == system) & rated_set.fair
    return float(in_logs[rated_set.name][of_system].mean())
