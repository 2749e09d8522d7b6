"""GloVe written plainly from its definition, slowly: what the compiled loops are held to."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Sequence
from fractions import Fraction

import numpy as np


def cooccurrences(texts: Iterable[Sequence[int]], window: int) -> dict[tuple[int, int], float]:
    """Sum 1/distance over the pairs of known words in each text, row ≤ column; a word beside itself counts twice."""
    sums: Counter[tuple[int, int]] = Counter()
    for text in texts:
        known = [code for code in text if code >= 0]
        for right, code in enumerate(known):
            for left in range(max(0, right - window), right):
                pair = min(known[left], code), max(known[left], code)
                weight = round(2**32 / (right - left))  # counted in whole units of 2^-32
                sums[pair] += weight if pair[0] != pair[1] else 2 * weight
    return {pair: float(np.float32(float(Fraction(total, 2**32)))) for pair, total in sorted(sums.items())}


class AdaGrad:
    """Vectors and biases for words and contexts, in double precision."""

    def __init__(self, vectors: np.ndarray, biases: np.ndarray, rate: float) -> None:
        self.vectors, self.biases = vectors.astype(np.float64), biases.astype(np.float64)  # (2, words[, dimensions])
        self.vector_squares, self.bias_squares = np.ones_like(self.vectors), np.ones_like(self.biases)
        self.rate = rate

    def learn(self, word: int, context: int, x: float, x_max: float, alpha: float) -> float:
        """The loss of an entry, and the step away from it: the gradient over the root of the sum of its squares.

        The original has the rate inside the squares of a vector's steps, starts the sums at 1, and moves biases at
        the rate 1.
        """
        w, c = self.vectors[0, word].copy(), self.vectors[1, context].copy()
        difference = w @ c + self.biases[0, word] + self.biases[1, context] - math.log(x)
        weight = min(1.0, (x / x_max) ** alpha)
        for side, row, other in ((0, word, c), (1, context, w)):
            step = self.rate * weight * difference * other
            self.vectors[side, row] -= step / np.sqrt(self.vector_squares[side, row])
            self.vector_squares[side, row] += step**2
            self.biases[side, row] -= weight * difference / math.sqrt(self.bias_squares[side, row])
            self.bias_squares[side, row] += (weight * difference) ** 2
        return 0.5 * weight * difference**2
