"""What the tests of the experiments share: small pictures in reports, because drawing takes longest."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from refaug.tables.reports import plotting


@pytest.fixture(scope="module", autouse=True)
def small_pictures() -> Iterator[None]:
    """Draw pictures of a few thousand pixels; the plots' own tests look at whole ones."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(plotting, "DPI", 20)
        yield
