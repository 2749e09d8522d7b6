"""Encoders that stay open while their files stay the same."""

from __future__ import annotations

import functools
from pathlib import Path

from refaug.core.vectors.encoders import EncoderConfig, OnnxEncoder, open_encoder


def shared_encoder(path: Path, config: EncoderConfig | None = None) -> OnnxEncoder:
    """Open the encoder at a path; while its files stay the same, all who use it in this way share it."""
    config = config or EncoderConfig()
    folder = path if path.is_dir() else path.parent
    try:
        files = [file for at in (folder, folder / "onnx", folder / "1_Pooling") if at.is_dir() for file in at.iterdir()]
        stamps = [(str(file), status.st_mtime_ns, status.st_size) for file in files for status in [file.stat()]]
    except OSError:  # the error of opening tells more
        return open_encoder(path, config)
    return _open_once(path, tuple(sorted(stamps)), config)


@functools.lru_cache(maxsize=2)
def _open_once(path: Path, _stamps: tuple[tuple[str, int, int], ...], config: EncoderConfig) -> OnnxEncoder:
    return open_encoder(path, config)
