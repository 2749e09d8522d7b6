"""All draws of a bootstrap at once."""

from __future__ import annotations

import numpy as np

from refaug.metrics.base import Floats
from refaug.metrics.statistics.resampling import count_blocks


def resample_counts(n: int, draws: int, seed: int) -> Floats:
    """How often each of n rows is in each draw."""
    return np.concatenate(list(count_blocks(n, draws, seed)))
