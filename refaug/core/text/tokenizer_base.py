"""What tokenizers share: their interface, pickling, and libraries that are imported on demand."""

from __future__ import annotations

import functools
import importlib
from collections.abc import Callable, Sequence
from types import ModuleType
from typing import Any, Protocol

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


class PickledByArguments:
    """A tokenizer that is pickled as its class and arguments, so that another process can make it again."""

    arguments: tuple[str, ...] = ()

    def __reduce__(self) -> tuple[Callable[..., Any], tuple[Any, ...]]:
        return tokenizer_of_class, (type(self), *self.arguments)


@functools.cache
def tokenizer_of_class(kind: Callable[..., Tokenizer], *arguments: str) -> Tokenizer:
    """Return the one tokenizer of a class with these arguments, in this process."""
    return kind(*arguments)


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
