"""Encoders that stay open while their files stay the same."""

from __future__ import annotations

import functools
from pathlib import Path

from refaug.core.vectors.encoders import EncoderConfig, OnnxEncoder, open_encoder
from refaug.core.vectors.kept_vectors import Encodings


def shared_encoder(path: Path, encodings: Encodings | None = None) -> OnnxEncoder:
    """Open the encoder at a path; while its files stay the same, all share it.

    With encodings it keeps sentence vectors on disk, as encoders of a home do.
    """
    folder = path if path.is_dir() else path.parent
    try:
        files = [file for at in (folder, folder / "onnx", folder / "1_Pooling") if at.is_dir() for file in at.iterdir()]
        stamps = [(str(file), status.st_mtime_ns, status.st_size) for file in files for status in [file.stat()]]
    except OSError:  # the error of opening tells more
        return _open(path, encodings)
    return _open_once(path, tuple(sorted(stamps)), encodings)


@functools.lru_cache(maxsize=2)
def _open_once(path: Path, _stamps: tuple[tuple[str, int, int], ...], encodings: Encodings | None) -> OnnxEncoder:
    return _open(path, encodings)


def _open(path: Path, encodings: Encodings | None) -> OnnxEncoder:
    return open_encoder(path, EncoderConfig(encodings=encodings))
