"""The nouns that travel between packages."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class Pair:
    """An utterance and a response to it, as one row of a stored log."""

    log: str
    dialogue: str
    position: str
    utterance: str
    response: str
    utterance_speaker: str | None = None
    response_speaker: str | None = None
    time: datetime | None = None
    tags: tuple[str, ...] = ()

    @property
    def id(self) -> str:
        """`log/dialogue#position`: names this occurrence for ever."""
        return f"{self.log}/{self.dialogue}#{self.position}"
