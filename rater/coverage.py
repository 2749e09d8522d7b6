"""Whether a rater knows the language of a text: by pieces that it has never met, and by how finely words are cut.

A vocabulary cuts texts like those it was made of into few pieces: about one for four characters of English. Of another
language with the same letters it makes two to three times as many, and of other letters unknown ones.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any, Final

from core.text import SentencePieceTokenizer

_MOST_UNKNOWN: Final = 0.05  # of the characters
_MOST_CUT: Final = 1.6  # times as many pieces a character; careless spelling makes 1.5
_LEAST_UNKNOWN: Final = 5  # characters: a sign or two are in any text
_LEAST_CHARACTERS: Final = 100  # fewer say little about how finely words are cut


@dataclass(frozen=True, kw_only=True)
class Coverage:
    """How some texts are cut into pieces."""

    characters: int = 0
    pieces: int = 0
    unknown: int = 0  # characters: several on end are one piece

    @classmethod
    def of(cls, tokenizer: SentencePieceTokenizer, texts: Sequence[str]) -> Coverage:
        """Of these texts."""
        return cls.of_pieces(tokenizer, texts, tokenizer.encode_ids_batch(texts))

    @classmethod
    def of_pieces(
        cls, tokenizer: SentencePieceTokenizer, texts: Sequence[str], coded: Sequence[Sequence[int]]
    ) -> Coverage:
        """Of texts that are cut already."""
        return cls(
            characters=sum(map(len, texts)),
            pieces=sum(map(len, coded)),
            unknown=sum(
                _unknown(tokenizer, text, ids)
                for text, ids in zip(texts, coded, strict=True)
                if tokenizer.unk_id in ids
            ),
        )

    @classmethod
    def read(cls, written: Mapping[str, Any] | None) -> Coverage:
        """What `written` gave; of a rater that has none, that of no text."""
        return cls(**{name: int(value) for name, value in dict(written or {}).items()})

    def written(self) -> dict[str, int]:
        """For a manifest."""
        return asdict(self)

    def __add__(self, other: Coverage) -> Coverage:
        return Coverage(
            characters=self.characters + other.characters,
            pieces=self.pieces + other.pieces,
            unknown=self.unknown + other.unknown,
        )

    @property
    def cut(self) -> float:
        """Pieces a character."""
        return self.pieces / self.characters if self.characters else 0.0


def unfamiliar(
    found: Coverage, usual: Coverage, languages: Sequence[str], *, kind: str = "rater", said: str = "ratings"
) -> str | None:
    """Why what a network of a kind says of texts like these means little; None where nothing speaks against it."""
    learnt = f"the {kind} was trained on texts in {', '.join(languages)}, and its {said} of others mean little"
    if found.unknown >= _LEAST_UNKNOWN and found.unknown > _MOST_UNKNOWN * found.characters:
        share = f"{found.unknown:,} of {found.characters:,} characters ({100 * found.unknown / found.characters:.0f} %)"
        return f"the {kind} does not know {share} of these texts: {learnt}"
    if usual.cut and found.characters >= _LEAST_CHARACTERS and found.cut > _MOST_CUT * usual.cut:
        times = f"{found.cut / usual.cut:.1f} times as many pieces"
        return f"the {kind} cuts these texts into {times} as its own: {learnt}"
    return None


def _unknown(tokenizer: SentencePieceTokenizer, text: str, ids: Sequence[int]) -> int:
    """Characters of the unknown pieces."""
    return sum(len(piece) for piece, one in zip(tokenizer.tokenize(text), ids, strict=True) if one == tokenizer.unk_id)
