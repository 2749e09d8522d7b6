"""Words as numbers: rows of the word vectors' matrix first, then further words of the log."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from refaug.core.text.tokenizer_base import Tokenizer
from refaug.indexer.tokens.tokens import Splitter, WordTable


class CodedTexts(NamedTuple):
    """Texts as codes, −1 for a word without one; text i is `codes[offsets[i]:offsets[i + 1]]`."""

    codes: NDArray[np.int32]
    offsets: NDArray[np.int64]
    hashes: NDArray[np.uint64]  # of each token; distinguishes unknown words


class Vocabulary:
    """The words of an index, and the tokenizer that finds them in a text."""

    def __init__(self, words: Sequence[str], tokenizer: Tokenizer) -> None:
        self.tokenizer = tokenizer
        self._splitter = Splitter(tokenizer)
        self._table = WordTable.of(words)
        self.with_vector = len(words)

    def __len__(self) -> int:
        return len(self._table)

    def extend(self, hashes: NDArray[np.uint64]) -> NDArray[np.int32]:
        """Number further words, in the order in which a segment found them, and return their codes."""
        return self._table.codes(hashes, grow=True)

    def extra_words(self, since: int) -> NDArray[np.uint64]:
        """Return the hashes of the words numbered from `since` on."""
        return self._table.hashes_in_order()[since:]

    def code(self, texts: pa.StringArray | Sequence[str], *, grow: bool = False) -> CodedTexts:
        """Return texts as codes; with `grow`, words without a code get the next ones."""
        tokens = self._splitter.split(texts)
        return CodedTexts(self._table.codes(tokens.hashes, grow=grow), tokens.offsets, tokens.hashes)
