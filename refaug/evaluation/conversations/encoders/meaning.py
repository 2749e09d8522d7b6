"""The meaning of a text by a sentence encoder in ONNX's format that the user brings."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Final

import numpy as np
from numpy.typing import NDArray

from refaug.core.errors import BadInput
from refaug.core.vectors.encoders import open_encoder

Floats = NDArray[np.float64]

# kind → the length of its vectors; None: any
ENCODERS: Final[Mapping[str, int | None]] = MappingProxyType({"infersent1": 4096, "use3": 512, "onnx": None})


class OnnxMeaning:
    """A sentence encoder under the name of what it is: InferSent 1, the Universal Sentence Encoder 3, or any."""

    def __init__(self, kind: str, path: Path) -> None:
        self._encoder = open_encoder(path)
        width, dimensions = ENCODERS[kind], self._encoder.dimensions
        if width is not None and dimensions != width:
            raise BadInput(
                f"encoder {self._encoder.name} gives {dimensions} numbers, and {kind} gives {width}",
                remedy=f"--meaning onnx:{path.name}, or an export of {kind} with the output sentence_embedding",
            )
        self.name = f"{kind}[{self._encoder.name}]"

    def encode(self, text: str) -> Floats | None:
        """Return the unit vector of a text; None where it has no token."""
        vector = np.asarray(self._encoder.sentence_vectors([text])[0], np.float64)
        return None if np.isnan(vector).any() else vector
