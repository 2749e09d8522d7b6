"""The pairs of logs with the sentence vectors of their texts, on disk while a rater is trained."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from refaug.core.errors import Corrupt
from refaug.core.files import write_aside
from refaug.core.progress import Progress
from refaug.core.vectors.encoders import Encoder
from refaug.rater.training.order import TrainingLogs
from refaug.rater.training.pair_corpus import LogPairs, PairPart, open_log_pairs, read_parts, write_pairs

_VECTORS: Final = "vectors.halves"
_HALF: Final = np.dtype("<f2")


@dataclass(frozen=True, eq=False, kw_only=True)
class EncodedPairs:
    """The pairs of logs, and the vector of each text, (texts, dimensions), in half precision, which defines it."""

    pairs: LogPairs
    vectors: NDArray[np.float16]

    def of(self, texts: NDArray[Any]) -> NDArray[np.float32]:
        """Return the vectors of some texts."""
        return np.asarray(self.vectors[texts], np.float32)


def encode_pairs(encoder: Encoder, sources: TrainingLogs, folder: Path, progress: Progress) -> Mapping[str, Any]:
    """Write the pairs of the logs whose texts both have a vector; the encoder computes those that are not kept yet."""
    parts, cut_before = list[PairPart](), encoder.truncated
    with write_aside(folder / _VECTORS) as file:
        for part in read_parts(sources, progress):
            vectors = encoder.sentence_vectors(part.texts)
            is_usable = np.asarray(np.isfinite(vectors).all(axis=1))
            file.write(np.where(is_usable[:, None], vectors, 0).astype(_HALF).tobytes())
            parts.append(part.only(is_usable)._replace(texts=()))
    return {**write_pairs(parts, sources, folder), "cut": encoder.truncated - cut_before}


def open_encoded_pairs(folder: Path, dimensions: int) -> EncodedPairs:
    """Map the files that `encode_pairs` wrote."""
    try:
        halves = np.memmap(folder / _VECTORS, _HALF, mode="r")
        vectors = halves.reshape(-1, dimensions)
    except (OSError, ValueError) as error:
        raise Corrupt(f"{folder}: {error}", remedy="remove the folder and train again") from error
    return EncodedPairs(pairs=open_log_pairs(folder), vectors=vectors)
