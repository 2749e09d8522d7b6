"""Tensors on disk: the same bits come back, and a full disk or a damaged file is named."""

from __future__ import annotations

import resource
from pathlib import Path

import pytest
import torch
from raters import tiny_training
from refusals import refusing

from refaug.core.errors import Corrupt, StorageFull
from refaug.rater.torch_networks import read_tensors, write_tensors

TENSORS = {"one": torch.arange(12, dtype=torch.float32).reshape(3, 4) / 7, "step": torch.tensor(3.0)}


@pytest.fixture
def little_room():
    """No file may grow beyond two thousand bytes."""
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (2_000, limits[1]))
    yield
    resource.setrlimit(resource.RLIMIT_FSIZE, limits)


def test_what_is_written_comes_back_to_the_last_bit(tmp_path: Path) -> None:
    write_tensors(tmp_path / "a.safetensors", {**TENSORS, "turned": TENSORS["one"].T})
    found = read_tensors(tmp_path / "a.safetensors", remedy="none")
    assert {name: tensor.tolist() for name, tensor in found.items()} == {
        **{name: tensor.tolist() for name, tensor in TENSORS.items()},
        "turned": TENSORS["one"].T.tolist(),
    }


def test_a_full_disk_is_named_and_leaves_what_was_there(tmp_path: Path, little_room: None) -> None:
    path = tmp_path / "a.safetensors"
    write_tensors(path, TENSORS)
    before = path.read_bytes()
    with refusing(StorageFull, "a.safetensors"):
        write_tensors(path, {"large": torch.zeros(1_000)})
    assert path.read_bytes() == before
    assert [file.name for file in tmp_path.iterdir()] == ["a.safetensors"]


def test_a_training_on_a_full_disk_says_so(tmp_path: Path, little_room: None) -> None:
    with refusing(StorageFull):
        tiny_training(tmp_path, epochs=1)


def test_a_training_goes_on_when_there_is_room_again(tmp_path: Path) -> None:
    whole = tiny_training(tmp_path / "whole", epochs=2)
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (2_000, limits[1]))
    try:
        with pytest.raises(StorageFull):
            tiny_training(tmp_path / "full", epochs=2)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    again = tiny_training(tmp_path / "full", epochs=2)
    ours, theirs = again.model.state_dict(), whole.model.state_dict()
    assert {name: tensor.tolist() for name, tensor in ours.items()} == {
        name: tensor.tolist() for name, tensor in theirs.items()
    }


def test_what_holds_no_tensors_is_corrupt_by_name(tmp_path: Path) -> None:
    (tmp_path / "a.safetensors").write_bytes(b"no tensors at all")
    with refusing(Corrupt, "a.safetensors"):
        read_tensors(tmp_path / "a.safetensors", remedy="train anew")
