"""What a teacher is: it says of a text what a head is to predict of it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

Targets = NDArray[np.float32]


class Teacher(Protocol):
    """What a head is to predict of each text; an equal text has equal targets, whatever else is asked."""

    @property
    def name(self) -> str:
        """The name in settings of artefacts, with hashes of all that decides the targets; ASCII."""

    @property
    def size(self) -> int:
        """The numbers of a text: classes of emotion, or dimensions of meaning."""

    def targets(self, texts: Sequence[str]) -> Targets:
        """Return the numbers of each text, (texts, size), in their order."""
