"""What tokenizers share: their interface, pickling by name, and libraries that are imported on demand."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Sequence
from types import ModuleType
from typing import Protocol

from refaug.core.errors import MissingPart


class Tokenizer(Protocol):
    """Text to tokens, under a name that stands for exactly these tokens."""

    @property
    def name(self) -> str:
        """The name in manifests and signatures; ASCII."""
        ...

    @property
    def version(self) -> str:
        """The rules, libraries and dictionaries that determine its tokens, with their versions."""
        ...

    def tokenize(self, text: str) -> list[str]:
        """Return the tokens of one text; none for a text without content."""
        ...

    def tokenize_batch(self, texts: Sequence[str]) -> list[list[str]]:
        """Return the tokens of many texts in order, the same as one by one, faster."""
        ...


class PickledByName:
    """A tokenizer that is pickled as its name, so that another process can make it again."""

    name: str

    def __reduce__(self) -> tuple[Callable[[str], Tokenizer], tuple[str]]:
        return _unpickle_tokenizer, (self.name,)


def _unpickle_tokenizer(name: str) -> Tokenizer:
    """Return the tokenizer with this name; called in the process that reads the pickle."""
    from refaug.core.text.tokenizers import get_tokenizer  # noqa: PLC0415  it imports this module

    return get_tokenizer(name)


def import_library(module: str, *, package: str, wanted_by: str) -> ModuleType:
    """Import a library that only some tokenizers need; MissingPart says how to install it."""
    try:
        return importlib.import_module(module)
    except ImportError as error:
        raise MissingPart(
            f"tokenizer {wanted_by} needs the package {package}, which cannot be imported: {error}",
            remedy=f"pip install {package}",
        ) from error


def package_version(package: str) -> str:
    """Return a package's name and version, for `Tokenizer.version`."""
    metadata = importlib.import_module("importlib.metadata")  # half of this module's import time if imported at the top
    try:
        return f"{package} {metadata.version(package)}"
    except ImportError:  # put on the path by hand, without metadata
        return f"{package} (version unknown)"
