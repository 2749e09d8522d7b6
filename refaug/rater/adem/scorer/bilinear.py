"""The score of ADEM (Lowe et al., Towards an Automatic Turing Test, ACL 2017), and the gradient of its loss.

With c, r and h the projected vectors of context, reference and reply, M and N square matrices,

    x = cᵀ M h + rᵀ N h          score = (x − α) / β = 3 + 4 · (x − m) / R

where m is the mean and R the range (largest less smallest) of x over the training rows while M and N are the identity.
So the first predictions have mean 3 and span 4. The paper gives eq. 1 without α and β; their formula is that of the
released code. A form of one term lacks the other term everywhere, in m and R as well.

The loss is the mean squared error plus γ times a norm of the parameters that is not squared. The paper (eq. 2) writes
one norm of all parameters, ‖(M, N)‖; the released code adds the norms of both matrices, ‖M‖ + ‖N‖.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from enum import StrEnum

import numpy as np

from refaug.core.errors import BadInput
from refaug.rater.adem.scorer.rated_triples import Floats, Form, Indexes


class Norm(StrEnum):
    """How the size of the parameters is penalised."""

    JOINT = "joint"  # the paper: one norm of all parameters
    SEPARATE = "separate"  # the released code: the sum of the norms of both matrices


@dataclass(frozen=True, kw_only=True, eq=False)
class ProjectedRows:
    """The projected vectors of rows: what replies are compared with, a block for each term, and the replies."""

    compared: Floats  # (terms, rows, components): contexts, references, or both in this order
    replies: Floats  # (rows, components)

    def select(self, rows: Indexes) -> ProjectedRows:
        """Return these rows."""
        return ProjectedRows(compared=self.compared[:, rows], replies=self.replies[rows])


@dataclass(frozen=True, kw_only=True, eq=False)
class Bilinear:
    """The matrices of a form, M before N, and the constants that map x to a score."""

    form: Form
    matrices: Floats  # (terms, components, components)
    centre: float  # m
    span: float  # R

    @classmethod
    def initial(cls, form: Form, rows: ProjectedRows, counts: Floats) -> Bilinear:
        """Return the scorer before training: identities, and the constants over rows that count so often."""
        terms, _, components = rows.compared.shape
        x = np.einsum("tij,ij->i", rows.compared, rows.replies)
        used = x[counts > 0]
        span = float(used.max() - used.min()) if len(used) else 0.0
        if not span > 0:
            raise BadInput(
                "the vectors of all training rows are alike, so that no range of scores is defined",
                remedy="give rows that differ, or another encoder",
            )
        return cls(
            form=form,
            matrices=np.tile(np.eye(components), (terms, 1, 1)),
            centre=float(counts @ x / counts.sum()),
            span=span,
        )

    @property
    def alpha(self) -> float:
        """The constant that is subtracted from x."""
        return self.centre - 0.75 * self.span

    @property
    def beta(self) -> float:
        """The constant that the difference is divided by."""
        return self.span / 4

    def with_matrices(self, matrices: Floats) -> Bilinear:
        """Return the scorer with other parameters."""
        return replace(self, matrices=matrices)

    def score(self, rows: ProjectedRows) -> Floats:
        """Return the score of each row."""
        x = np.einsum("tij,ij->i", rows.compared @ self.matrices, rows.replies)
        return np.asarray((x - self.alpha) / self.beta)

    def gradient(self, rows: ProjectedRows, ratings: Floats, penalty: float, norm: Norm) -> Floats:
        """Return the gradient of the loss on these rows by the matrices."""
        errors = self.score(rows) - ratings
        slopes = errors * (2 / (len(ratings) * self.beta))
        slope = rows.compared.transpose(0, 2, 1) @ (slopes[:, None] * rows.replies)
        norms = parameter_norms(self.matrices, norm)
        return np.asarray(slope + penalty * self.matrices / np.maximum(norms, np.finfo(np.float64).tiny))

    def loss(self, rows: ProjectedRows, ratings: Floats, penalty: float, norm: Norm) -> float:
        """Return the mean squared error plus the penalty."""
        squared = float(np.mean((self.score(rows) - ratings) ** 2))
        norms = parameter_norms(self.matrices, norm)
        return squared + penalty * float(norms.sum() if norm is Norm.SEPARATE else norms.flat[0])


def parameter_norms(matrices: Floats, norm: Norm) -> Floats:
    """Return the norm that each matrix is penalised by, of shape (terms, 1, 1): its own, or that of all together."""
    squares = (matrices**2).sum(axis=(1, 2), keepdims=True)
    if norm is Norm.JOINT:
        squares = np.broadcast_to(squares.sum(), squares.shape)
    return np.asarray(np.sqrt(squares))


def root_mean_squared_error(scores: Floats, ratings: Floats) -> float:
    """Return the root of the mean squared difference."""
    return float(np.sqrt(np.mean((scores - ratings) ** 2)))


def matrix_facts(matrices: Floats) -> Sequence[dict[str, float]]:
    """Return what is left of the identity in each matrix: norms, mean diagonal, largest singular value."""
    identity = np.eye(matrices.shape[1])
    return [
        {
            "norm": float(np.linalg.norm(matrix)),
            "norm_less_identity": float(np.linalg.norm(matrix - identity)),
            "mean_diagonal": float(np.mean(np.diagonal(matrix))),
            "largest_singular_value": float(np.linalg.norm(matrix, 2)),
        }
        for matrix in matrices
    ]
