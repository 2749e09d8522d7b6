"""What the system says of an open file changes with every way of writing to it, and with nothing else."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from refaug.core.artefacts.mapped_files import stamp_of

LONG_AGO_NS = 1_000_000_000_000_000_000


@pytest.fixture
def handle(tmp_path: Path) -> Iterator[int]:
    path = tmp_path / "columns"
    path.write_bytes(b"0123456789")
    os.utime(path, ns=(LONG_AGO_NS, LONG_AGO_NS))
    opened = os.open(path, os.O_RDWR)
    yield opened
    os.close(opened)


def cut(opened: int) -> None:
    os.ftruncate(opened, 5)


def lengthen(opened: int) -> None:
    os.ftruncate(opened, 11)


def write_in_place(opened: int) -> None:
    os.pwrite(opened, b"X", 3)


def change_the_times(opened: int) -> None:
    os.utime(opened, ns=(LONG_AGO_NS, LONG_AGO_NS + 1))


@pytest.mark.parametrize("change", [cut, lengthen, write_in_place, change_the_times])
def test_every_change_shows(handle: int, change: Callable[[int], None]) -> None:
    before = stamp_of(handle)
    change(handle)
    assert stamp_of(handle) != before


def test_reading_shows_nothing(handle: int) -> None:
    before = stamp_of(handle)
    assert os.pread(handle, 10, 0) == b"0123456789"
    assert stamp_of(handle) == before


def test_another_handle_of_the_file_has_the_same_stamp(handle: int, tmp_path: Path) -> None:
    again = os.open(tmp_path / "columns", os.O_RDONLY)
    try:
        assert stamp_of(again) == stamp_of(handle)
    finally:
        os.close(again)


def test_a_closed_handle_is_an_error(tmp_path: Path) -> None:
    path = tmp_path / "columns"
    path.write_bytes(b"")
    handle = os.open(path, os.O_RDONLY)
    os.close(handle)
    with pytest.raises(OSError, match="Bad file descriptor"):
        stamp_of(handle)
