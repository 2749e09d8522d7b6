"""The nouns that travel between packages; each checks itself when it is made."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class Turn:
    """What one speaker said at once."""

    text: str
    speaker: str | None = None
    time: datetime | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Dialogue:
    """Turns in order; each one answers the one before it."""

    id: str
    turns: tuple[Turn, ...]
    tags: tuple[str, ...] = ()


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
