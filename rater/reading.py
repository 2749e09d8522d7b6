"""Texts to vectors for whoever serves a network: cut into pieces, read beside texts of like length, and kept."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Sequence
from typing import Final

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from core.text import SentencePieceTokenizer

CACHE_BYTES: Final = 256 << 20
_ENTRY: Final = 600
_READ_AT_ONCE: Final = 1_024  # texts of like length
# Texts; fewer are read sooner by one thread, since threads wait for each other at every step.
WORTH_THREADS: Final = 512

# Vectors (texts, size) of tokens (texts, time), the longest text first, and of lengths (texts,).
Read = Callable[[Tensor, Tensor], Tensor]
Vector = NDArray[np.float32]


class TextReader:
    """What a network reads of texts, those that were asked for last kept in at most so many bytes.

    It is not guarded: whoever asks from several threads lets in one at a time.
    """

    def __init__(
        self, read: Read, tokenizer: SentencePieceTokenizer, *, size: int, max_tokens: int, cache_bytes: int
    ) -> None:
        self._read, self._tokenizer, self._size, self._max_tokens = read, tokenizer, size, max_tokens
        self._most, self._kept, self._held = cache_bytes, OrderedDict[str, Vector](), 0

    def vectors(self, texts: Sequence[str]) -> Tensor:
        """What the network has read of each text, (texts, size): now, or before."""
        vectors = np.empty((len(texts), self._size), np.float32)
        new = list[int]()
        for place, text in enumerate(texts):
            kept = self._known(text)
            if kept is None:
                new.append(place)
            else:
                vectors[place] = kept
        coded = self._tokenizer.encode_ids_batch([texts[place] for place in new])
        order = sorted(range(len(new)), key=lambda at: -len(coded[at]))
        for begin in range(0, len(order), _READ_AT_ONCE):
            some = order[begin : begin + _READ_AT_ONCE]
            read = self._read(*self._padded([coded[at] for at in some])).numpy()
            vectors[[new[at] for at in some]] = read
            for at, vector in zip(some, read, strict=True):
                self._keep(texts[new[at]], vector.copy())
        return torch.from_numpy(vectors)

    def _padded(self, coded: Sequence[Sequence[int]]) -> tuple[Tensor, Tensor]:
        """Piece ids (texts, time), the longest text first, and lengths; an empty text is one unknown piece."""
        cut = [ids[: self._max_tokens] or [self._tokenizer.unk_id] for ids in coded]
        lengths = np.array([len(ids) for ids in cut], np.int64)
        tokens = np.zeros((len(cut), int(lengths.max())), np.int64)
        for row, ids in enumerate(cut):
            tokens[row, : len(ids)] = ids
        return torch.from_numpy(tokens), torch.from_numpy(lengths)

    def _known(self, text: str) -> Vector | None:
        """What was read of a text before, which becomes the newest."""
        found = self._kept.get(text)
        if found is not None:
            self._kept.move_to_end(text)
        return found

    def _keep(self, text: str, vector: Vector) -> None:
        """Keep this; the oldest goes where there is no room."""
        if text not in self._kept:
            self._held += bytes_of(text, vector)
        self._kept[text] = vector
        while self._held > self._most:
            self._held -= bytes_of(*self._kept.popitem(last=False))


def bytes_of(text: str, vector: Vector) -> int:
    """Roughly what an entry holds: its numbers, its text, and the objects around them."""
    return vector.nbytes + 4 * len(text) + _ENTRY
