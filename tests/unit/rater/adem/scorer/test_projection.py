"""Principal components beside a singular value decomposition of the repeated rows."""

from __future__ import annotations

import numpy as np
import pytest
from refusals import refusing

from refaug.core.errors import BadInput
from refaug.rater.adem.scorer.fitting import PrincipalComponents


def _vectors() -> np.ndarray:
    return np.random.default_rng(1).normal(size=(30, 6)) * np.array([5, 4, 3, 2, 1, 0.5]) + 2


def test_counted_rows_have_the_components_of_repeated_rows() -> None:
    vectors, counts = _vectors(), np.random.default_rng(2).integers(0, 4, 30)
    projection = PrincipalComponents.fit(vectors, counts.astype(float), 3)
    repeated = np.repeat(vectors, counts, axis=0)
    centred = repeated - repeated.mean(axis=0)
    _, sizes, directions = np.linalg.svd(centred, full_matrices=False)
    assert projection.mean == pytest.approx(repeated.mean(axis=0))
    assert np.abs(projection.components @ directions[:3].T) == pytest.approx(np.eye(3), abs=1e-8)
    assert projection.shares == pytest.approx(sizes[:3] ** 2 / (sizes**2).sum())


def test_largest_loading_of_each_component_is_positive() -> None:
    components = PrincipalComponents.fit(_vectors(), np.ones(30), 6).components
    assert (components[np.arange(6), np.abs(components).argmax(axis=1)] > 0).all()


def test_coordinates_are_centred_and_not_whitened() -> None:
    vectors = _vectors()
    projection = PrincipalComponents.fit(vectors, np.ones(30), 2)
    coordinates = projection.apply(vectors)
    assert coordinates.mean(axis=0) == pytest.approx(np.zeros(2), abs=1e-9)
    assert coordinates.var(axis=0) / vectors.var(axis=0).sum() == pytest.approx(projection.shares)


def test_more_components_than_numbers_are_refused() -> None:
    with refusing(BadInput):
        PrincipalComponents.fit(_vectors(), np.ones(30), 7)
