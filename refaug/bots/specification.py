"""Specifications such as `retrieval:chat,mode=bm25-utterance,k=10`, by which commands and requests name bots."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from typing import Final, Self

from refaug.core.errors import Usage

STORED: Final = "bot"  # the kind of stored bots
SEED: Final = "seed"  # a key of every kind
DEFAULT_SEED: Final = 1
MAX_SEED: Final = 2**32 - 1


@dataclass(frozen=True, slots=True, kw_only=True)
class BotSpecification:
    """The kind of a bot, what it replies from, and its settings as they were written."""

    kind: str
    source: str  # an index, for a bot that retrieves
    settings: tuple[tuple[str, str], ...] = ()

    @classmethod
    def parse(cls, text: str) -> Self:
        """Read `KIND:SOURCE,key=value,key=value`; the first colon ends the kind, the first comma the source.

        A text without a colon names a stored bot.
        """
        kind, _, rest = (text if ":" in text else f"{STORED}:{text}").strip().partition(":")
        source, *parts = (part.strip() for part in rest.split(","))
        return cls(kind=kind.strip(), source=source, settings=tuple(_setting(part, text) for part in parts))

    def __str__(self) -> str:
        return ",".join([f"{self.kind}:{self.source}", *(f"{key}={setting}" for key, setting in self.settings)])

    def require_keys(self, allowed: Collection[str], repeated: Collection[str]) -> None:
        """Raise Usage for a key that the kind does not have, and for a key that comes twice and may not."""
        keys = [key for key, _ in self.settings]
        if unknown := next((key for key in keys if key not in allowed), None):
            raise Usage(f"{self}: {self.kind} has no key {unknown!r}", remedy=f"it has: {', '.join(allowed)}")
        if twice := next((key for key in keys if keys.count(key) > 1 and key not in repeated), None):
            raise Usage(f"{self}: {twice} comes twice", remedy="give it once")

    def texts(self, key: str) -> tuple[str, ...]:
        """Return the settings of a key that may be repeated."""
        return tuple(setting for name, setting in self.settings if name == key)

    def text(self, key: str) -> str | None:
        """Return the setting of a key, or None."""
        return next(iter(self.texts(key)), None)

    def whole_number(self, key: str, default: int, *, least: int, most: int) -> int:
        """Return a setting that is a whole number; Usage where it is none, or out of range."""
        text = self.text(key)
        if text is None:
            return default
        is_number = text.isascii() and text.isdigit() and len(text) <= len(str(most))
        if not (is_number and least <= int(text) <= most):
            raise Usage(f"{self}: {key}={text}", remedy=f"{key} is a whole number from {least} to {most:,}")
        return int(text)

    @property
    def is_stored(self) -> bool:
        """Whether the source is the name of a stored bot."""
        return self.kind == STORED

    @property
    def seed(self) -> int:
        """The seed of all draws."""
        return self.whole_number(SEED, DEFAULT_SEED, least=0, most=MAX_SEED)

    def require_seed(self) -> None:
        """Raise Usage for a seed that is none."""
        self.whole_number(SEED, DEFAULT_SEED, least=0, most=MAX_SEED)


def _setting(part: str, text: str) -> tuple[str, str]:
    key, equals, setting = part.partition("=")
    if not (equals and key.strip() and setting.strip()):
        raise Usage(f"{part!r} in {text!r} is not key=value", remedy="for example retrieval:chat,mode=bm25-utterance")
    return key.strip(), setting.strip()
