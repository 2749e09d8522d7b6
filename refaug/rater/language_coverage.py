"""Whether a rater knows the language of a text: by its unknown pieces, and by how finely it cuts words.

A vocabulary cuts texts like its training texts into few pieces, about one for four characters of English. In another
language with the same letters it makes two to three times as many, and unknown pieces for other letters.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any, Final

from refaug.core.text.sentencepiece_tokenizer import SentencePieceTokenizer
from refaug.core.vectors.encoders import Encoder

_MOST_UNKNOWN: Final = 0.05  # of the characters
_MOST_PIECES: Final = 1.6  # times as many pieces a character; careless spelling makes 1.5
_LEAST_UNKNOWN: Final = 5  # characters: any text may have a sign or two
_LEAST_CHARACTERS: Final = 100  # with fewer, the number of pieces says little
_READ: Final = 1_000  # characters of a text, which tell its language as well as all of them


@dataclass(frozen=True, kw_only=True)
class Coverage:
    """How a tokenizer cuts some texts into pieces."""

    characters: int = 0
    pieces: int = 0
    unknown: int = 0  # characters: several in a row are one piece; of an encoder, pieces
    cut: int = 0  # texts that are longer than the encoder reads

    @classmethod
    def of(cls, tokenizer: SentencePieceTokenizer, texts: Sequence[str]) -> Coverage:
        """Count characters, pieces and unknown characters of these texts, of long ones of their beginning."""
        begun = [text[:_READ] for text in texts]
        return cls.of_pieces(tokenizer, begun, tokenizer.encode_ids_batch(begun))

    @classmethod
    def of_pieces(
        cls, tokenizer: SentencePieceTokenizer, texts: Sequence[str], coded: Sequence[Sequence[int]]
    ) -> Coverage:
        """Count them for texts that are cut already."""
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
    def read(cls, saved: Mapping[str, Any]) -> Coverage:
        """Read what `as_json` returned."""
        return cls(**{name: int(count) for name, count in saved.items()})

    def as_json(self) -> dict[str, int]:
        """Return the counts for a manifest."""
        return {name: count for name, count in asdict(self).items() if count or name != "cut"}

    def __add__(self, other: Coverage) -> Coverage:
        return Coverage(
            characters=self.characters + other.characters,
            pieces=self.pieces + other.pieces,
            unknown=self.unknown + other.unknown,
            cut=self.cut + other.cut,
        )

    @property
    def pieces_per_character(self) -> float:
        """The average number of pieces a character."""
        return self.pieces / self.characters if self.characters else 0.0


def coverage_of(encoder: Encoder, texts: Sequence[str]) -> Coverage:
    """Return how an encoder reads texts: its pieces, those that it does not know, and the texts that it cuts."""
    reading = encoder.reading_of(texts)
    return Coverage(
        characters=sum(map(len, texts)),
        pieces=int(reading.pieces.sum()),
        unknown=int(reading.unknown.sum()),
        cut=int(reading.is_cut.sum()),
    )


def unfamiliar(
    seen: Coverage,
    usual: Coverage,
    languages: Sequence[str],
    *,
    kind: str = "rater",
    scores_name: str = "ratings",
) -> str | None:
    """Return why a network's ratings of texts like these mean little; None if nothing speaks against them."""
    reason = f"the {kind} was trained on texts in {', '.join(languages)}, and its {scores_name} of others mean little"
    if seen.unknown >= _LEAST_UNKNOWN and seen.unknown > _MOST_UNKNOWN * seen.characters:
        share = f"{seen.unknown:,} of {seen.characters:,} characters ({100 * seen.unknown / seen.characters:.0f} %)"
        return f"the {kind} does not know {share} of these texts: {reason}"
    if (
        usual.pieces_per_character
        and seen.characters >= _LEAST_CHARACTERS
        and seen.pieces_per_character > _MOST_PIECES * usual.pieces_per_character
    ):
        times = f"{seen.pieces_per_character / usual.pieces_per_character:.1f} times as many pieces"
        return f"the {kind} cuts these texts into {times} as its own: {reason}"
    return None


def unfamiliar_to_encoder(seen: Coverage, usual: Coverage, languages: Sequence[str], *, most: int) -> str | None:
    """Return the same of a rater over an encoder that reads texts of so many tokens, whose unknown pieces count."""
    reasons = list[str]()
    if seen.cut:
        reasons.append(
            f"{seen.cut:,} of these texts are longer than the {most:,} tokens that the rater's encoder reads, so that "
            "their end does not count"
        )
    if seen.unknown >= _LEAST_UNKNOWN and seen.unknown > _MOST_UNKNOWN * seen.pieces:
        share = f"{seen.unknown:,} of {seen.pieces:,} pieces ({100 * seen.unknown / seen.pieces:.0f} %)"
        reasons.append(f"the rater's encoder does not know {share} of these texts: ratings of them mean little")
    elif (warning := unfamiliar(replace(seen, unknown=0), usual, languages)) is not None:
        reasons.append(warning)
    return "; ".join(reasons) or None


def _unknown(tokenizer: SentencePieceTokenizer, text: str, ids: Sequence[int]) -> int:
    """Count the characters of the unknown pieces."""
    return sum(
        len(piece)
        for piece, piece_id in zip(tokenizer.tokenize(text), ids, strict=True)
        if piece_id == tokenizer.unk_id
    )
