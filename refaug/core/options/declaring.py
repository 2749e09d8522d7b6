"""What is annotated to the fields of options: texts and limits.

k: Annotated[int, Ge(1), Le(1_000), Doc("References to find for each item.")] = 15
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Doc:
    """What the option means, for every face; `of_job` is what only the order of a job may say."""

    text: str
    of_job: str = ""


@dataclass(frozen=True)
class Ge:
    """The least number that is allowed."""

    bound: float


@dataclass(frozen=True)
class Gt:
    """A number that is too small, as is everything below it."""

    bound: float


@dataclass(frozen=True)
class Le:
    """The largest number that is allowed."""

    bound: float


@dataclass(frozen=True)
class Lt:
    """A number that is too large, as is everything above it."""

    bound: float


@dataclass(frozen=True)
class Length:
    """How many characters a text or elements a list may have."""

    least: int = 0
    most: int | None = None


@dataclass(frozen=True)
class Distinct:
    """Annotated to a list: no element comes twice."""


@dataclass(frozen=True)
class Pattern:
    """A regular expression that the whole text matches, with what it means in words."""

    expression: re.Pattern[str]
    meaning: str


@dataclass(frozen=True)
class Size:
    """Annotated to a whole number: bytes, which a text such as 512MiB spells, too."""


@dataclass(frozen=True)
class Argument:
    """A command takes the option by its place, without a flag."""

    metavar: str


@dataclass(frozen=True)
class Lines:
    """A command takes names of the list from a file, too, one a line: its flag has the plural."""


@dataclass(frozen=True)
class Flag:
    """How a command spells the option, where this is not the name of the field with dashes."""

    spelling: str


@dataclass(frozen=True)
class FileNames:
    """Annotated to files by names: a command takes a file without a name, which then is that of the file."""


@dataclass(frozen=True)
class Panel:
    """Under which heading help lists the options of a dataclass, and which of them a long help leaves to --help-all."""

    title: str
    rare: tuple[str, ...] = ()


@dataclass(frozen=True)
class NoFlag:
    """A command has no such option, for this reason."""

    reason: str


@dataclass(frozen=True, kw_only=True)
class Signed:
    """The option stands in signatures, and is read back from them."""

    key: str = ""  # where it is not the name of the field with dashes
    is_short: bool = False  # in their short form, too
    unset: str = ""  # what stands for None; by default nothing stands there
    flags: tuple[str, str] = ("no", "yes")  # what stands for False and True


@dataclass(frozen=True)
class Metavar:
    """What help shows in place of the text, such as NAME."""

    text: str


@dataclass(frozen=True)
class Named:
    """The name of a field in bodies and keywords, where Python does not allow that of the dataclass."""

    name: str


@dataclass(frozen=True)
class Schema:
    """The JSON schema of a field of type Any, whose content the code behind it checks."""

    schema: Mapping[str, Any]
