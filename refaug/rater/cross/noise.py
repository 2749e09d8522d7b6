"""Replies that are made wrong by their words: dropped, in another order, or repeated (Sinha et al. 2020, MAUDE).

The paper's network tells true replies from such ones and from drawn utterances, by noise-contrastive estimation. Its
negatives by a model of generation, and its positives by translation there and back, need further models and are left
out. A word is a piece that begins one, with the pieces up to the next such.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import numpy as np
from numpy.typing import NDArray

from refaug.core.text.sentencepiece_tokenizer import SentencePieceTokenizer

NOISES: Final = ("dropped", "shuffled", "repeated")
_SHARE: Final = 0.3  # of the words that are dropped or repeated, at least one
_SPACE: Final = "▁"

Begins = NDArray[np.bool_]


def beginnings(tokenizer: SentencePieceTokenizer) -> Begins:
    """Return whether each piece begins a word."""
    return np.array([piece.startswith(_SPACE) for piece in tokenizer.pieces])


def with_noise(pieces: Sequence[int], noise: str, begins: Begins, rng: np.random.Generator) -> list[int] | None:
    """Return the pieces with this noise; None where the words are too few for it, or all the same."""
    words = _words(pieces, begins)
    if noise == "repeated":
        chosen = _chosen(len(words), rng, most=len(words))
        return [piece for at, word in enumerate(words) for piece in (*word, *(word if at in chosen else ()))]
    if len(set(words)) < 2:
        return None
    if noise == "dropped":
        chosen = _chosen(len(words), rng, most=len(words) - 1)
        return [piece for at, word in enumerate(words) if at not in chosen for piece in word]
    while (order := [words[at] for at in rng.permutation(len(words)).tolist()]) == words:
        pass
    return [piece for word in order for piece in word]


def _words(pieces: Sequence[int], begins: Begins) -> list[tuple[int, ...]]:
    """Return the pieces of each word."""
    first = [at for at, piece in enumerate(pieces) if at == 0 or begins[piece]]
    return [tuple(pieces[begin:end]) for begin, end in zip(first, [*first[1:], len(pieces)], strict=True)]


def _chosen(count: int, rng: np.random.Generator, *, most: int) -> set[int]:
    """Return the places of some of so many words."""
    return set(rng.permutation(count)[: min(most, max(1, round(_SHARE * count)))].tolist())
