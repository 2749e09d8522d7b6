"""Layers of networks over numpy's arrays, for rating where torch is not installed."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from refaug.core.kernels.kernel import compiled

Floats = NDArray[np.float32]
Arrays = Mapping[str, Floats]
_LEAST_LENGTH: Final = np.float32(1e-12)  # of a vector that is scaled to unit length, as in torch
_HALF: Final = np.float32(0.5)
_ROOT_OF_HALF: Final = np.float32(math.sqrt(0.5))


def linear(states: Floats, arrays: Arrays, name: str) -> Floats:
    """Return the states (…, size) that a layer with a bias makes of states."""
    made: Floats = states @ arrays[f"{name}.weight"].T
    made += arrays[f"{name}.bias"]
    return made


def sigmoid(numbers: Floats) -> Floats:
    """Apply the logistic function in place; by tanh, since an exponential may overflow."""
    numbers *= _HALF
    np.tanh(numbers, out=numbers)
    numbers += 1
    numbers *= _HALF
    return numbers


def gelu(states: Floats) -> Floats:
    """Apply x Φ(x) to contiguous states in place."""
    _gelu(states.reshape(-1))
    return states


@compiled
def _gelu(numbers: Any) -> None:
    for place in range(len(numbers)):
        number = numbers[place]
        numbers[place] = _HALF * number * (np.float32(1) + math.erf(number * _ROOT_OF_HALF))


def unit(vectors: Floats) -> Floats:
    """Scale vectors (…, size) to unit length; zeros stay zeros."""
    lengths = np.sqrt((vectors * vectors).sum(axis=-1, keepdims=True))
    return np.asarray(vectors / np.maximum(lengths, _LEAST_LENGTH))


def logits_of(arrays: Arrays, similarities: Floats, has_known: NDArray[np.bool_]) -> NDArray[np.float64]:
    """Return logits (replies,) of similarities (replies, 2), as `refaug.rater.training.calibration` fitted them."""
    without_known, with_known = arrays["without_known"], arrays["with_known"]
    alone = similarities[:, 0] * without_known[0] + without_known[1]
    return np.asarray(np.where(has_known, similarities @ with_known[:2] + with_known[2], alone), np.float64)
