"""Principal components: the directions in which the vectors of an encoder differ most."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from refaug.core.errors import BadInput
from refaug.rater.adem.scorer.rated_triples import Floats


@dataclass(frozen=True, kw_only=True, eq=False)
class PrincipalComponents:
    """Centred, unwhitened principal components of vectors; the share of the variance of each is in `shares`."""

    mean: Floats  # (dimensions,)
    components: Floats  # (components, dimensions), of length 1, those of most variance first
    shares: Floats  # (components,)

    @classmethod
    def fit(cls, vectors: Floats, counts: Floats, components: int) -> PrincipalComponents:
        """Return the components of vectors, each of which counts as often as `counts` says.

        The eigenvectors come from a symmetric solver in float64. Their sign is not determined by the variance, so the
        entry of the largest size is made positive; the first one where several are equally large.
        """
        rows, dimensions = vectors.shape
        if not 1 <= components <= min(rows, dimensions):
            raise BadInput(
                f"{components} components of {rows:,} vectors of {dimensions:,} numbers",
                remedy=f"at most {min(rows, dimensions):,}, or an encoder with longer vectors",
            )
        total = counts.sum()
        mean = counts @ vectors / total
        centred = vectors - mean
        covariance = (centred * counts[:, None]).T @ centred / total
        variances, directions = np.linalg.eigh(covariance)
        order = np.argsort(variances, kind="stable")[::-1][:components]
        chosen = directions[:, order].T
        largest = np.abs(chosen).argmax(axis=1)
        signs = np.where(chosen[np.arange(components), largest] < 0, -1.0, 1.0)
        everything = max(float(np.maximum(variances, 0).sum()), np.finfo(np.float64).tiny)
        return cls(mean=mean, components=chosen * signs[:, None], shares=np.maximum(variances[order], 0) / everything)

    def apply(self, vectors: Floats) -> Floats:
        """Return the coordinates of vectors: (rows, dimensions) → (rows, components)."""
        return np.asarray((vectors - self.mean) @ self.components.T)
