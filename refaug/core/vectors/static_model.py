"""Encoders without a network: a vector for each token, whatever its context, from a file of weights in safetensors.

Two layouts are read: `embedding.weight`, as wordllama ships it, and that of model2vec: `embeddings`, with or without
the weight of each token and the row that it has. A sentence is the mean of its tokens; special tokens are not added.
"""

from __future__ import annotations

import mmap
import struct
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import numpy as np
import orjson
from numpy.typing import NDArray

from refaug.core.errors import BadInput, Corrupt
from refaug.core.vectors.encoder_files import refuse_pointer
from refaug.core.vectors.encoder_model import EncodedText, Floats

_LENGTH: Final = struct.Struct("<Q")
_MOST_HEADER: Final = 100 << 20
_TYPES: Final = {"F16": "<f2", "F32": "<f4", "F64": "<f8", "I32": "<i4", "I64": "<i8"}
_OUTPUT: Final = "tokens"


class StaticModel:
    """The vectors of all tokens; the same interface as a graph in ONNX's format."""

    one_row_only = False
    fixed_length: int | None = None
    token_output: str | None = _OUTPUT
    sentence_output: str | None = None
    outputs = _OUTPUT

    def __init__(self, path: Path) -> None:
        self._path = path
        self._matrix = _read_matrix(path)
        self.pad_id = 0

    @property
    def outputs_in_use(self) -> list[str]:
        """The name of the only output."""
        return [_OUTPUT]

    def leave_out(self, token: int | None) -> None:
        """Give a token no part in a sentence: the unknown one, as model2vec does."""
        if token is not None and token < len(self._matrix):
            self._matrix[token] = 0

    def run(self, texts: Sequence[EncodedText], output: str) -> Floats:
        """Return (texts, padded length, dimensions)."""
        del output
        lengths = np.fromiter(map(len, texts), np.int64, len(texts))
        ids = np.concatenate([text.ids for text in texts])
        if len(ids) and int(ids.max()) >= len(self._matrix):
            raise BadInput(
                f"{self._path} has vectors of {len(self._matrix):,} tokens, and its tokenizer knows more",
                remedy="check that tokenizer.json belongs to the model",
            )
        rows = np.zeros((len(texts), int(lengths.max(initial=0)), self._matrix.shape[1]), np.float32)
        rows[np.arange(rows.shape[1]) < lengths[:, None]] = self._matrix[ids]
        return rows


def is_static(path: Path) -> bool:
    """Return whether a file of weights holds a vector for each token, and no network."""
    return bool({"embedding.weight", "embeddings"} & _read_header(path).keys()) and len(_read_header(path)) <= 3


def is_model2vec(path: Path) -> bool:
    """Return whether the layout is that of model2vec."""
    return "embeddings" in _read_header(path)


def _read_header(path: Path) -> Mapping[str, Any]:
    try:
        with path.open("rb") as file:
            start = file.read(_LENGTH.size)
            refuse_pointer(path, start + file.read(64))
            file.seek(_LENGTH.size)
            (length,) = _LENGTH.unpack(start)
            header = orjson.loads(file.read(min(length, _MOST_HEADER)))
    except (OSError, struct.error, orjson.JSONDecodeError) as error:
        raise Corrupt(f"{path} is not a file of safetensors: {error}", remedy="copy it again") from error
    if not isinstance(header, dict):
        raise Corrupt(f"{path} is not a file of safetensors: its header is not an object", remedy="copy it again")
    return {name: facts for name, facts in header.items() if name != "__metadata__"}


def _read_matrix(path: Path) -> Floats:
    """Return the vector of each token, (tokens, dimensions)."""
    tensors = read_arrays(path)
    if "embeddings" not in tensors:
        return tensors["embedding.weight"].astype(np.float32)
    matrix = tensors["embeddings"].astype(np.float32)
    if "mapping" in tensors:
        matrix = matrix[tensors["mapping"].astype(np.int64)]
    if "weights" in tensors:
        matrix *= tensors["weights"].astype(np.float32)[:, None]
    return matrix


def read_arrays(path: Path) -> dict[str, NDArray[Any]]:
    """Return the arrays of a file of safetensors by their names."""
    header, tensors = _read_header(path), dict[str, NDArray[Any]]()
    with path.open("rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as content:
        begin = _LENGTH.size + _LENGTH.unpack(content[: _LENGTH.size])[0]
        for name, facts in header.items():
            try:
                first, last = facts["data_offsets"]
                stored = np.frombuffer(content[begin + first : begin + last], _TYPES[facts["dtype"]])
                tensors[name] = stored.reshape(facts["shape"])
            except (KeyError, TypeError, ValueError) as error:
                raise Corrupt(f"{path}: the tensor {name} cannot be read: {error!r}", remedy="copy it again") from error
    return tensors
