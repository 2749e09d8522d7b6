"""Replies on pages: the utterance, each reply with its score, and the references behind it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from refaug.evaluation.reports.html_page import Table

_LONGEST: Final = 1_000  # characters of a text; a page is to be mailed


@dataclass(frozen=True, kw_only=True)
class CardRow:
    """A reply on a card: the system, its score, and what the score rests on."""

    system: str
    score: str
    text: str
    evidence: str = ""


@dataclass(frozen=True, kw_only=True)
class ReplyCard:
    """The replies to one item."""

    heading: str
    utterance: str | None
    rows: Sequence[CardRow]
    references: Table | None


@dataclass(frozen=True, kw_only=True)
class CardList:
    """Cards under a title."""

    title: str
    cards: Sequence[ReplyCard]


def cut_text(text: str) -> str:
    """Return the beginning of a long text, and its length."""
    return text if len(text) <= _LONGEST else f"{text[:_LONGEST]} … ({len(text):,} characters)"


def references_title(count: int) -> str:
    """Return the title of a table of references."""
    return f"{count:,} references, those credited most first" if count > 1 else "the only reference"
