"""Tensors and arrays on disk: whole or not there, and never pickled."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from safetensors import SafetensorError
from safetensors.torch import load_file, save
from torch import Tensor

from core.errors import Corrupt
from core.files import write_aside


def write_tensors(path: Path, tensors: Mapping[str, Tensor]) -> None:
    """Written by us and not by the library, whose own error for a full disk is not one of the system's."""
    content = save({name: tensor.detach().cpu().contiguous() for name, tensor in tensors.items()})
    with write_aside(path) as file:
        file.write(content)


def read_tensors(path: Path, device: str = "cpu", *, remedy: str) -> dict[str, Tensor]:
    """What was written, or Corrupt."""
    try:
        tensors: dict[str, Tensor] = load_file(path, device=device)
    except (SafetensorError, OSError) as error:
        reason = " ".join(str(error).split())
        raise Corrupt(f"{path} cannot be read: {reason}", remedy=remedy) from error
    return tensors
