"""Arrays as compiled loops take them."""

from __future__ import annotations

from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

AnyArray = TypeVar("AnyArray", bound=NDArray[Any])


def frozen(array: AnyArray) -> AnyArray:
    """Return a view that only allows reading: a loop is compiled for one kind of array, not for two."""
    view = np.ascontiguousarray(array).view()
    view.flags.writeable = False
    return view  # type: ignore[return-value]
