"""Where a command is defined, so that the help of `refaug` imports none of them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True, kw_only=True)
class CommandPlace:
    """The place of a command or a group as module:name, and its line in the help of `refaug`."""

    at: str
    help: str
    inner: Mapping[str, str] = field(default_factory=dict)  # commands of a group that are defined in other modules
