"""The score, its constants and its gradient, beside plain loops and finite differences."""

from __future__ import annotations

import numpy as np
import pytest
from refusals import refusing

from refaug.core.errors import BadInput
from refaug.rater.adem.scorer.bilinear import Bilinear, Norm, ProjectedRows, matrix_facts
from refaug.rater.adem.scorer.rated_triples import Form


def _rows(terms: int = 2, rows: int = 7, components: int = 4, seed: int = 1) -> ProjectedRows:
    rng = np.random.default_rng(seed)
    return ProjectedRows(
        compared=rng.normal(size=(terms, rows, components)), replies=rng.normal(size=(rows, components))
    )


def _trained(rows: ProjectedRows, form: Form = Form.FULL) -> Bilinear:
    scorer = Bilinear.initial(form, rows, np.ones(len(rows.replies)))
    return scorer.with_matrices(np.random.default_rng(2).normal(size=scorer.matrices.shape))


def test_first_predictions_have_mean_3_and_span_4() -> None:
    rows = _rows(rows=50)
    counts = np.random.default_rng(3).integers(1, 4, 50).astype(float)
    scores = Bilinear.initial(Form.FULL, rows, counts).score(rows)
    assert np.average(scores, weights=counts) == pytest.approx(3, abs=1e-6)
    assert np.ptp(scores) == pytest.approx(4, abs=1e-6)


def test_published_m_and_r_give_published_alpha_and_beta() -> None:
    scorer = Bilinear(form=Form.FULL, matrices=np.zeros((2, 1, 1)), centre=7.6631, span=142.7081)
    assert scorer.alpha == pytest.approx(-99.368, abs=5e-4)
    assert scorer.beta == pytest.approx(35.677, abs=5e-4)


@pytest.mark.parametrize(("form", "terms"), [(Form.FULL, 2), (Form.CONTEXT, 1), (Form.REFERENCE, 1)])
def test_score_equals_plain_loops_over_the_sum(form: Form, terms: int) -> None:
    rows = _rows(terms)
    scorer = _trained(rows, form)
    x = [
        sum(
            rows.compared[term, row, a] * scorer.matrices[term, a, b] * rows.replies[row, b]
            for term in range(terms)
            for a in range(4)
            for b in range(4)
        )
        for row in range(7)
    ]
    plain = [3 + 4 * (sum_of_row - scorer.centre) / scorer.span for sum_of_row in x]
    assert scorer.score(rows) == pytest.approx(np.array(plain), abs=1e-9)


@pytest.mark.parametrize("norm", list(Norm))
def test_gradient_equals_finite_differences(norm: Norm) -> None:
    rows, ratings = _rows(), np.linspace(1, 5, 7)
    scorer = _trained(rows)
    slope = scorer.gradient(rows, ratings, 0.3, norm)
    step = 1e-6
    for place in np.ndindex(scorer.matrices.shape):
        moved = [scorer.matrices.copy() for _ in range(2)]
        moved[0][place] += step
        moved[1][place] -= step
        above, below = (scorer.with_matrices(matrices).loss(rows, ratings, 0.3, norm) for matrices in moved)
        assert slope[place] == pytest.approx((above - below) / (2 * step), abs=1e-6)


def test_norms_of_the_paper_and_of_the_code_differ_as_written() -> None:
    rows = _rows()
    scorer = _trained(rows)
    ratings = scorer.score(rows)  # no error, so that the loss is the penalty alone
    first, second = (np.linalg.norm(matrix) for matrix in scorer.matrices)
    assert scorer.loss(rows, ratings, 0.5, Norm.SEPARATE) == pytest.approx(0.5 * (first + second))
    assert scorer.loss(rows, ratings, 0.5, Norm.JOINT) == pytest.approx(0.5 * np.hypot(first, second))


def test_equal_vectors_are_refused_for_they_have_no_range() -> None:
    rows = ProjectedRows(compared=np.ones((1, 3, 2)), replies=np.ones((3, 2)))
    with refusing(BadInput, "alike"):
        Bilinear.initial(Form.CONTEXT, rows, np.ones(3))


def test_facts_of_the_identity_say_that_nothing_has_changed() -> None:
    [facts] = matrix_facts(np.eye(50)[None])
    assert facts["norm"] == pytest.approx(np.sqrt(50))
    assert facts["norm_less_identity"] == 0
    assert facts["mean_diagonal"] == 1
    assert facts["largest_singular_value"] == pytest.approx(1)
