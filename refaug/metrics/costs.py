"""What scoring costs at most, told from the lengths of texts before anything runs.

A unit is what takes about a microsecond on one core. Each entry of the catalogue has its `Cost`: what one row costs, by
the lengths of a reply and of its references. Costs are upper bounds over all texts of these lengths (one word repeated,
one long word, many short words, combining characters, punctuation); most texts take a third of them or less.
`bench/bench_costs.py` measures what long texts do to others.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from refaug.core.errors import TooLarge

if TYPE_CHECKING:  # the catalogue has costs, and loads at once
    import numpy as np
    from numpy.typing import NDArray

    Floats = NDArray[np.float64]
    # (3, rows), a row for one reply, or for all references that it is compared with: how many texts, the characters of
    # all of them together, and the words of the longest, at most.
    Lengths = Floats

# With the costs of the catalogue, texts of 64 KiB (one word repeated, one long word, punctuation, digits …) took 0.9
# million units or more a second of processor time on a machine of two cores; chrF of ten orders took the fewest.
UNITS_PER_S: Final = 1_000_000
PIECE: Final = 50_000  # units of work between two looks at deadline and client: about 50 ms

# A run of ASCII letters and digits, or any other character: no tokenizer of TER makes more words of a text.
_WORD: Final = re.compile(r"[0-9A-Za-z]+|[^\s0-9A-Za-z]")

# TER of sacrebleu looks at so many shifted replies at most, and compares each within a beam of 25 words on both sides.
_SHIFTS: Final = 1_000
_BEAM: Final = 51
LARGEST_TER_TABLE: Final = 250_000  # words times words: 500 with 500 take ten to twenty seconds; longer has no score


def lengths_of(rows: Sequence[Sequence[str]], *, counts_words: bool) -> Lengths:
    """Measure the texts of each row; where words are not counted, every character may be one."""
    import numpy as np  # noqa: PLC0415

    measure = word_count if counts_words else len
    texts = [len(of_row) for of_row in rows]
    characters = [sum(map(len, of_row)) for of_row in rows]
    words = [max(map(measure, of_row), default=0) for of_row in rows]
    return np.array([texts, characters, words], np.float64)


def lengths_of_replies(texts: Sequence[str], *, counts_words: bool) -> Lengths:
    """Measure rows of one text each."""
    import numpy as np  # noqa: PLC0415

    lengths = np.ones((3, len(texts)))
    lengths[1] = lengths[2] = list(map(len, texts))
    if counts_words:
        lengths[2] = list(map(word_count, texts))
    return lengths


def with_further(lengths: Lengths, count: int, *, characters: int) -> Lengths:
    """Return the lengths with so many further texts of so many characters in each row."""
    import numpy as np  # noqa: PLC0415

    texts, of_all, words = lengths
    return np.array([texts + count, of_all + float(count * characters), np.maximum(words, characters / 2)])


def word_count(text: str) -> int:
    """Return how many words any tokenizer makes of a text at most."""
    return len(_WORD.findall(text))


@dataclass(frozen=True, kw_only=True)
class Cost:
    """The units of a reply of h characters beside r references of s characters together.

    Reading the references takes `character · s`, once for all replies to them. Each reply then takes
    `row + pair · r + character · h + again · (h · r + s) + product · h · s`, and the shifts of TER. n-grams are linear
    in the lengths of a pair, alignments are not: they have a `product`. A network reads the beginning of each text,
    which takes `token` for each character up to TOKENS.
    """

    row: float = 50.0
    pair: float = 5.0
    character: float = 1.0  # tokenising and counting, once for each text
    again: float = 0.5  # what is done for each pair with the texts as they were read
    product: float = 0.0
    token: float = 0.0
    counts_shifts: bool = False

    def reading(self, references: Lengths) -> Floats:
        """Return the units of preparing the references of each row."""
        import numpy as np  # noqa: PLC0415

        texts, characters, _ = references
        units: Floats = self.character * characters + self.token * np.minimum(characters, TOKENS * texts)
        return units

    def units(self, replies: Lengths, references: Lengths) -> Floats:
        """Return the units of each reply beside prepared references."""
        (_, reply_characters, reply_words), (texts, characters, words) = replies, references
        units: Floats = self.row + self.pair * texts + self.character * reply_characters
        units += self.again * (reply_characters * texts + characters)
        if self.token:
            units += self.token * reply_characters.clip(max=TOKENS)
        if self.product:
            units += self.product * reply_characters * characters
        if self.counts_shifts:
            units += texts * _shift_units(reply_words, words)
        return units

    def is_within(self, units: float, replies: Sequence[str], references: Lengths) -> bool:
        """Whether replies take no more than these units, each beside the longest references; told for words alone."""
        if self.counts_shifts or self.token:
            return False
        rows, of_replies = len(replies), sum(map(len, replies))
        texts, characters = references[:2].max(axis=1, initial=0.0).tolist()
        of_texts = self.row * rows + self.pair * texts * rows + self.character * of_replies
        of_pairs = self.again * (of_replies * texts + characters * rows) + self.product * of_replies * characters
        return bool(of_texts + of_pairs <= units)


LINEAR: Final = Cost()


def require_work(units: float, limit_s: float, *, what: str, setting: str, remedy: str) -> None:
    """Raise TooLarge for more units than a setting allows seconds of work."""
    if (seconds := units / UNITS_PER_S) > limit_s:
        raise TooLarge(
            f"{what} may take {seconds:,.0f} s of work by its sizes, and the setting {setting} allows {limit_s:,.0f} s",
            remedy=remedy,
        )


# Of a metric of a package that states none: a child process scores a few replies at a time, with a limit on each.
UNSTATED: Final = Cost(row=20_000.0)

# Encoders and networks cut texts to a number of tokens, so that their part does not grow with the characters. A rater
# judges a reply by each gold.
TOKENS: Final = 128
ENCODED: Final = Cost(row=1_000.0, pair=1_000.0, again=0.0)
JUDGED: Final = Cost(row=250.0, pair=250.0, again=0.0, token=50.0)
HIDDEN: Final = Cost(row=5_000.0, again=0.0, token=2_500.0)  # each piece of the reply is hidden in a sequence
FOLLOWED: Final = Cost(row=20_000.0, again=0.0, token=400.0)  # of eight texts after the reply


def _shift_units(reply: Floats, reference: Floats) -> Floats:
    """Return the units of TER for texts of so many words: each shifted reply is compared with the reference."""
    import numpy as np  # noqa: PLC0415

    compared = np.minimum(reference, LARGEST_TER_TABLE / np.maximum(reply, 1))
    return reply * np.minimum(compared, _BEAM) * np.minimum(_SHIFTS, reply * compared / 2)


def piece_numbers(units: Floats) -> NDArray[np.int64]:
    """Return the piece of each row, in order: a piece begins where it has about PIECE units of rows before it."""
    return ((units.cumsum() - units) // PIECE).astype("int64")
