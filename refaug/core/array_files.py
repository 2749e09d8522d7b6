"""Arrays as .npy files, written so that a full disk is reported as such."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from refaug.core.files import write_aside


def write_array(path: Path, array: NDArray[Any]) -> None:
    """Write a .npy file, whole or not at all, with our own code, since numpy's error does not name its cause."""
    plain = np.ascontiguousarray(array)
    with write_aside(path) as file:
        np.lib.format.write_array_header_1_0(file, np.lib.format.header_data_from_array_1_0(plain))
        file.write(plain.reshape(-1).view(np.uint8).data)
