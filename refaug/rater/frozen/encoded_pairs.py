"""The pairs of logs with the sentence vectors of their texts, on disk while a rater is trained."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from refaug.core.array_files import write_array
from refaug.core.errors import Corrupt
from refaug.core.files import write_aside
from refaug.core.progress import Progress
from refaug.core.vectors.encoders import Encoder
from refaug.rater.language_coverage import Coverage, coverage_of
from refaug.rater.training.order import TrainingLogs
from refaug.rater.training.pair_corpus import LogPairs, PairPart, open_log_pairs, read_parts, write_pairs

_VECTORS: Final = "vectors.halves"
_SHUFFLED: Final = "shuffled.halves"
_SHUFFLED_NUMBERS: Final = "shuffled.npy"
_LEAST_WORDS: Final = 3  # of a reply whose words are shuffled
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
    parts, coverage = list[PairPart](), Coverage()
    with write_aside(folder / _VECTORS) as file:
        for part in read_parts(sources, progress):
            vectors = encoder.sentence_vectors(part.texts)
            is_usable = np.asarray(np.isfinite(vectors).all(axis=1))
            file.write(np.where(is_usable[:, None], vectors, 0).astype(_HALF).tobytes())
            coverage += coverage_of(encoder, part.texts)
            parts.append(part.only(is_usable)._replace(texts=()))
    return {**write_pairs(parts, sources, folder), "cut": coverage.cut, "coverage": coverage.as_json()}


# ── Replies with their words in another order, as wrong replies ───────────────────────────────────────────────────────


def shuffle_some(
    encoder: Encoder, sources: TrainingLogs, folder: Path, count: int, seed: int, progress: Progress
) -> Mapping[str, Any]:
    """Write the vectors of about so many replies whose words are shuffled, and the numbers of the replies."""
    rng, share = np.random.default_rng(seed), count / max(1, sources.pair_count)
    numbers, texts, before = list[int](), list[str](), 0
    for part in read_parts(sources, progress):
        for place in np.unique(part.reply[rng.random(len(part.reply)) < share]).tolist():
            if (shuffled := _shuffled_words(part.texts[place], rng)) is not None:
                numbers.append(before + place)
                texts.append(shuffled)
        before += part.text_count
    progress.stage("encoding shuffled replies", len(texts), "texts")
    vectors = np.nan_to_num(encoder.sentence_vectors(texts)).astype(_HALF)
    with write_aside(folder / _SHUFFLED) as file:
        file.write(vectors.tobytes())
    write_array(folder / _SHUFFLED_NUMBERS, np.array(numbers, np.int64))
    return {"texts": len(texts)}


def _shuffled_words(text: str, rng: np.random.Generator) -> str | None:
    """Return a text with its words in another order; None where they are few, or all the same."""
    words = text.split()
    shuffled = " ".join(words[place] for place in rng.permutation(len(words)).tolist())
    return shuffled if len(words) >= _LEAST_WORDS and shuffled != " ".join(words) else None


@dataclass(frozen=True, eq=False, kw_only=True)
class ShuffledReplies:
    """The vectors of some replies with shuffled words."""

    numbers: NDArray[np.int64]  # of the replies, as texts, rising
    vectors: NDArray[np.float16]

    def of(self, texts: NDArray[Any]) -> NDArray[np.float32]:
        """Return the vectors of some replies; zeros where there is none."""
        places = np.searchsorted(self.numbers, texts)
        has_one = np.isin(texts, self.numbers)
        vectors = np.zeros((len(texts), self.vectors.shape[1]), np.float32)
        vectors[has_one] = self.vectors[places[has_one]]
        return vectors


def open_shuffled_replies(folder: Path, dimensions: int) -> ShuffledReplies:
    """Map the files that `shuffle_some` wrote."""
    numbers: NDArray[np.int64] = np.load(folder / _SHUFFLED_NUMBERS, allow_pickle=False)
    vectors = np.fromfile(folder / _SHUFFLED, _HALF).reshape(-1, dimensions)
    return ShuffledReplies(numbers=numbers, vectors=vectors)


def open_encoded_pairs(folder: Path, dimensions: int) -> EncodedPairs:
    """Map the files that `encode_pairs` wrote."""
    try:
        halves = np.memmap(folder / _VECTORS, _HALF, mode="r")
        vectors = halves.reshape(-1, dimensions)
    except (OSError, ValueError) as error:
        raise Corrupt(f"{folder}: {error}", remedy="remove the folder and train again") from error
    return EncodedPairs(pairs=open_log_pairs(folder), vectors=vectors)
