"""How varied what a bot said is: distinct n-grams, repeated replies, lengths."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from hashlib import blake2b

from refaug.core.text.normalisation import normalise


@dataclass(frozen=True, kw_only=True)
class Variety:
    """Figures of the replies of a conversation, or of many taken together."""

    replies: int
    words_per_reply: float
    distinct_1: float  # distinct words over all words
    distinct_2: float
    repeated: float  # the share of replies that equal an earlier one after normalisation


def variety(replies: Sequence[str], tokens: Sequence[Sequence[str]]) -> Variety:
    """Count the variety of replies, given with their tokens."""
    words = sum(map(len, tokens))
    return Variety(
        replies=len(replies),
        words_per_reply=words / len(replies) if replies else 0.0,
        distinct_1=distinct(tokens, 1),
        distinct_2=distinct(tokens, 2),
        repeated=repeated_share(replies),
    )


def repeated_share(replies: Sequence[str]) -> float:
    """Return the share of replies that equal an earlier one after normalisation; 0 where there are none."""
    return (len(replies) - len(set(map(normalise, replies)))) / len(replies) if replies else 0.0


def distinct(tokens: Sequence[Sequence[str]], order: int) -> float:
    """Return the distinct n-grams over all n-grams, none of which crosses two replies; 0 where there are none."""
    grams = [tuple(text[start : start + order]) for text in tokens for start in range(len(text) - order + 1)]
    return len(set(grams)) / len(grams) if grams else 0.0


# ── Runs of utterances that conversations share: with each other, or with the dialogues that a bot was trained on ─────
#
# A window is w utterances that follow each other, compared as exact strings. Two conversations overlap where some
# window of one equals some window of the other, at any place.


@dataclass(frozen=True, slots=True)
class Overlap:
    """How many of all possible cases overlap: pairs of conversations, or conversations."""

    window: int
    overlapping: int
    possible: int

    @property
    def percent(self) -> float:
        """The share of the cases, in per cent; 0 where there are none."""
        return 100 * self.overlapping / self.possible if self.possible else 0.0


def utterance_hashes(utterances: Sequence[str]) -> list[bytes]:
    """Return a hash of each utterance, so that a window of them keeps their borders."""
    return [blake2b(text.encode("utf-8", "surrogatepass"), digest_size=16).digest() for text in utterances]
