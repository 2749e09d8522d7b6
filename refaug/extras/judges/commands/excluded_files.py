"""Read the texts of test files that a training must not see."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

from refaug.core.errors import BadInput
from refaug.core.files import sha256_of
from refaug.core.records import Item
from refaug.rater.adem.pretraining.build import ExcludedFile
from refaug.rater.adem.pretraining.dialogues import ExcludedTexts
from refaug.scoring.items import BadItem, read_items


def excluded_file(path: Path) -> ExcludedFile:
    """Return a test file with its hash; its first item is read, so a file of another kind is refused at once."""
    if next(_items(path), None) is None:
        raise BadInput(f"{path} has no item", remedy="give a test file")
    return ExcludedFile(path=str(path.absolute()), sha256=sha256_of(path))


def read_excluded(files: Sequence[ExcludedFile]) -> ExcludedTexts:
    """Return the texts of test files; BadInput where one has changed since it was named, or has a bad item."""
    for file in files:
        if sha256_of(Path(file.path)) != file.sha256:
            raise BadInput(f"{file.path} has changed since the training was ordered", remedy="train anew")
    return ExcludedTexts.of(test_item for file in files for test_item in _items(Path(file.path)))


def _items(path: Path) -> Iterator[Item]:
    for test_item in read_items(path):
        if isinstance(test_item, BadItem):
            raise BadInput(str(test_item), remedy="correct or remove it: its texts could not be excluded")
        yield test_item
