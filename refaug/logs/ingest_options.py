"""The options of an ingest that the command, jobs and HTTP share: their defaults, limits and descriptions."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, Generic, TypeVar

AnyDefault = TypeVar("AnyDefault")


@dataclass(frozen=True, kw_only=True)
class IngestOption(Generic[AnyDefault]):
    """One option; its description is empty where the command and HTTP describe it differently."""

    default: AnyDefault
    least: int | None = None
    most: int | None = None
    description: str = ""

    @property
    def help(self) -> str:
        """The description as a sentence, for the command's help."""
        return f"{self.description[:1].upper()}{self.description[1:]}."


FORMAT: Final = IngestOption(default="auto")
USE_IDS: Final = IngestOption(
    default=True, description="keep the source's dialogue ids, or number dialogues by file and line"
)
ENCODING: Final = IngestOption(default="auto")
MARKUP: Final = IngestOption(default="auto")
LANGUAGE: Final[IngestOption[str | None]] = IngestOption(
    default=None, description="drop messages in another script than this language's, e.g. en, ja"
)
MIN_CHARS: Final = IngestOption(default=1, least=0, most=10_000_000, description="shorter messages are dropped")
MAX_CHARS: Final = IngestOption(default=2_000, least=1, most=10_000_000, description="longer messages are dropped")
FLOOD_CAP: Final = IngestOption(
    default=1_000, least=1, most=1_000_000_000, description="of near-identical messages this many are kept"
)
ON_ERROR: Final = IngestOption(
    default="report", description="report: leave bad rows out and go on; stop: end at the first"
)
MAX_BAD_SHARE: Final = IngestOption(default=0.1, description="give a source up when more of its rows than this are bad")
MEMORY_MIB: Final = IngestOption(default=2_048, least=256, most=16_777_216)
WORKERS: Final[IngestOption[int | None]] = IngestOption(
    default=None, least=0, most=64, description="processes beside this one; default: one a core, at most 8; 0: none"
)
