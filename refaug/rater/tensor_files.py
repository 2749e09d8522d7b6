"""Tensors on disk: written whole or not at all, and never pickled."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from safetensors import SafetensorError
from safetensors.torch import load_file, save
from torch import Tensor

from refaug.core.errors import Corrupt
from refaug.core.files import write_aside


def write_tensors(path: Path, tensors: Mapping[str, Tensor]) -> None:
    """Write tensors to a file with our own code, since the library's error for a full disk is not an OSError."""
    content = save({name: tensor.detach().cpu().contiguous() for name, tensor in tensors.items()})
    with write_aside(path) as file:
        file.write(content)


def read_tensors(path: Path, device: str = "cpu", *, remedy: str) -> dict[str, Tensor]:
    """Read tensors from a file; raise Corrupt if it cannot be read."""
    try:
        tensors: dict[str, Tensor] = load_file(path, device=device)
    except (SafetensorError, OSError) as error:
        reason = " ".join(str(error).split())
        raise Corrupt(f"{path} cannot be read: {reason}", remedy=remedy) from error
    return tensors
