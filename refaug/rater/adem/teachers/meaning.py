"""The teacher of meaning: the vectors of a sentence encoder, reduced to the directions of most variance.

The directions are fitted to the texts of a training alone, in float64 and with fixed signs, so that the same texts give
the same ones; they are stored beside the network that learned from them. A text without a token lies at the mean.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from pathlib import Path
from typing import Final, Self

import numpy as np

from refaug.core.array_files import write_array
from refaug.core.errors import BadInput, Corrupt
from refaug.core.vectors.encoders import Encoder
from refaug.rater.adem.scorer.fitting import PrincipalComponents
from refaug.rater.adem.teachers.teacher import Targets

FILE: Final = "meaning.npy"
SHARE: Final = 0.95  # of the variance that is kept
_MOST_TEXTS: Final = 50_000  # that the directions are fitted to: every so-manieth where there are more
_FEWEST_TEXTS: Final = 2
_AT_ONCE: Final = 4_096  # texts
_DIGITS: Final = 12  # of hashes in names


class MeaningTeacher:
    """The coordinates of a text's vector by a mean and directions, (1 + size, dimensions)."""

    def __init__(self, encoder: Encoder, mean_and_directions: np.ndarray) -> None:
        if mean_and_directions.ndim != 2 or mean_and_directions.shape[1] != encoder.dimensions:
            raise BadInput(
                f"encoder {encoder.name} gives {encoder.dimensions:,} numbers, and directions of shape "
                f"{mean_and_directions.shape} were fitted to another one",
                remedy="the encoder that the network learned from",
            )
        self._encoder, self._rows = encoder, np.ascontiguousarray(mean_and_directions, np.float64)
        self.size = len(self._rows) - 1
        digest = hashlib.sha256(self._rows.tobytes()).hexdigest()
        self.name = f"pca[{encoder.name},{self.size}#{digest[:_DIGITS]}]"

    @classmethod
    def fit(cls, encoder: Encoder, texts: Sequence[str], *, share: float = SHARE) -> Self:
        """Fit the directions to texts, each of which counts as often as it is given."""
        chosen = texts[:: -(-len(texts) // _MOST_TEXTS) or 1]
        vectors = np.asarray(encoder.sentence_vectors(list(chosen)), np.float64)
        vectors = vectors[~np.isnan(vectors).any(axis=1)]
        most = min(vectors.shape)
        if len(vectors) < _FEWEST_TEXTS or not np.ptp(vectors, axis=0).any():
            raise BadInput(
                f"encoder {encoder.name} has no two vectors that differ among {len(texts):,} texts",
                remedy="more texts, or an encoder that knows their language",
            )
        fitted = PrincipalComponents.fit(vectors, np.ones(len(vectors)), most)
        count = min(int(np.searchsorted(np.cumsum(fitted.shares), share)) + 1, most)
        return cls(encoder, np.vstack([fitted.mean, fitted.components[:count]]))

    @classmethod
    def open(cls, folder: Path, encoder: Encoder) -> Self:
        """Return the teacher whose directions lie in a folder; BadInput for vectors of another length."""
        try:
            rows = np.load(folder / FILE, allow_pickle=False)
        except (OSError, ValueError, EOFError) as error:
            raise Corrupt(f"{folder / FILE}: {error}", remedy="restore it from a backup, or train it again") from error
        return cls(encoder, rows)

    def save(self, folder: Path) -> None:
        """Write the directions into a folder."""
        write_array(folder / FILE, self._rows)

    def targets(self, texts: Sequence[str]) -> Targets:
        """Return the coordinates of each text."""
        coordinates = np.empty((len(texts), self.size), np.float32)
        mean, directions = self._rows[0], self._rows[1:]
        for first in range(0, len(texts), _AT_ONCE):
            vectors = np.asarray(self._encoder.sentence_vectors(list(texts[first : first + _AT_ONCE])), np.float64)
            vectors = np.where(np.isnan(vectors), mean, vectors)
            coordinates[first : first + _AT_ONCE] = (vectors - mean) @ directions.T
        return coordinates


class DrawnMeaning:
    """A control: numbers of the same spread as a teacher's in each direction, drawn for each text by itself."""

    def __init__(self, teacher: MeaningTeacher, texts: Sequence[str]) -> None:
        self._deviations = teacher.targets(texts).std(axis=0)
        self.size = teacher.size
        self.name = f"drawn-{teacher.name}"

    def targets(self, texts: Sequence[str]) -> Targets:
        """Return the numbers that the hash of each text decides."""
        drawn = np.empty((len(texts), self.size), np.float32)
        for row, text in enumerate(texts):
            digest = hashlib.sha256(text.encode("utf-8", "surrogatepass")).digest()
            generator = np.random.default_rng(int.from_bytes(digest[:8], "big"))
            drawn[row] = generator.standard_normal(self.size) * self._deviations
        return drawn
