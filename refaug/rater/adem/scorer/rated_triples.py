"""What the scorer reads: a context, a reference and a reply, and how people rated the reply on a scale from 1 to 5."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Indexes = NDArray[np.int64]

LEAST: Final = 1.0
MOST: Final = 5.0
LEVELS: Final = (1, 2, 3, 4, 5)


class Form(StrEnum):
    """Which terms the score has."""

    FULL = "full"  # ADEM: context and reference
    CONTEXT = "context"  # C-ADEM: no reference
    REFERENCE = "reference"  # R-ADEM: no context

    @property
    def has_context(self) -> bool:
        """Whether the reply is compared with the context."""
        return self is not Form.REFERENCE

    @property
    def has_reference(self) -> bool:
        """Whether the reply is compared with the reference."""
        return self is not Form.CONTEXT


@dataclass(frozen=True, slots=True, kw_only=True)
class Triple:
    """A reply with the turns before it and a reference; an unused part is empty."""

    context: tuple[str, ...]
    reference: str
    reply: str


@dataclass(frozen=True, kw_only=True, eq=False)
class RatedTriples:
    """Triples with their ratings, row by row; rows of one context have one number and are never parted."""

    triples: tuple[Triple, ...]
    ratings: Floats  # from 1 to 5
    contexts: Indexes
    systems: tuple[str, ...]

    def __len__(self) -> int:
        return len(self.triples)

    def select(self, rows: Indexes) -> RatedTriples:
        """Return these rows, in this order."""
        return RatedTriples(
            triples=tuple(self.triples[row] for row in rows.tolist()),
            ratings=self.ratings[rows],
            contexts=self.contexts[rows],
            systems=tuple(self.systems[row] for row in rows.tolist()),
        )

    @classmethod
    def joined(cls, parts: Sequence[RatedTriples]) -> RatedTriples:
        """Return the rows of several sets; equal context numbers of different sets stay different contexts."""
        offsets = np.cumsum([0, *(int(part.contexts.max(initial=-1)) + 1 for part in parts)])
        return cls(
            triples=tuple(triple for part in parts for triple in part.triples),
            ratings=np.concatenate([part.ratings for part in parts]),
            contexts=np.concatenate([part.contexts + offset for part, offset in zip(parts, offsets[:-1], strict=True)]),
            systems=tuple(system for part in parts for system in part.systems),
        )


def rating_levels(ratings: Floats) -> Indexes:
    """Return the level from 1 to 5 that is nearest to each rating; a half counts as the level above."""
    return np.clip(np.floor(ratings + 0.5), LEAST, MOST).astype(np.int64)


def to_five(ratings: Floats, scale: tuple[float, float]) -> Floats:
    """Map ratings linearly from their scale to the scale from 1 to 5."""
    low, high = scale
    return LEAST + (MOST - LEAST) * (ratings - low) / (high - low)
