"""The matrix of ratings that the agreement of annotators is measured on.

Ratings are a matrix (rows, annotators), NaN where an annotator did not rate a row. Often column j is not the same
person in every row, since only the list of a row's ratings was published. Then those figures still mean something that
take the ratings of a row in any order: Krippendorff's α, ICC(1), `split_half`, and the mean of `one_against_others`.
Figures about persons do not: κ of pairs and everything derived from it, ICC(2), ICC(3), and a single annotator in
`one_against_others`.

A figure that is not defined is None, and `why` tells the reason; with one annotator no figure is defined.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from refaug.core.errors import BadInput
from refaug.metrics.statistics.resampling import Floats

ONE_ANNOTATOR = "only one annotator"


def ratings_matrix(ratings: ArrayLike) -> Floats:
    """Return ratings as float64 (rows, annotators), finite where they are not NaN."""
    matrix = np.asarray(ratings, dtype=np.float64)
    if matrix.ndim != 2 or matrix.shape[1] == 0:
        raise BadInput(f"ratings of shape {matrix.shape} are not a matrix", remedy="(rows, annotators)")
    if np.isinf(matrix).any():
        row = int(np.isinf(matrix).any(axis=1).argmax())
        raise BadInput(f"the ratings of row {row} are infinite", remedy="a number, or NaN where there is none")
    return matrix
