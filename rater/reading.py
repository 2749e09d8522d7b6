"""Texts to vectors for whoever serves a network: cut into pieces, read beside texts of like length, and kept."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Sequence
from typing import Final

import torch
from torch import Tensor

from core.text import SentencePieceTokenizer

CACHE_BYTES: Final = 256 << 20
_ENTRY: Final = 600
_READ_AT_ONCE: Final = 256  # texts of like length

# Vectors (texts, size) of tokens (texts, time), the longest text first, and of lengths (texts,).
Read = Callable[[Tensor, Tensor], Tensor]


class TextReader:
    """What a network reads of texts, those that were asked for last kept in at most so many bytes.

    It is not guarded: whoever asks from several threads lets in one at a time.
    """

    def __init__(
        self, read: Read, tokenizer: SentencePieceTokenizer, *, size: int, max_tokens: int, cache_bytes: int
    ) -> None:
        self._read, self._tokenizer, self._size, self._max_tokens = read, tokenizer, size, max_tokens
        self._most, self._kept, self._held = cache_bytes, OrderedDict[str, Tensor](), 0

    def vectors(self, texts: Sequence[str]) -> Tensor:
        """What the network has read of each text, (texts, size): now, or before."""
        vectors = torch.empty(len(texts), self._size)
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
            read = self._read(*self._padded([coded[at] for at in some]))
            for at, vector in zip(some, read, strict=True):
                vectors[new[at]] = vector
                self._keep(texts[new[at]], vector.clone())
        return vectors

    def _padded(self, coded: Sequence[Sequence[int]]) -> tuple[Tensor, Tensor]:
        """Piece ids (texts, time), the longest text first, and lengths; an empty text is one unknown piece."""
        cut = [list(ids[: self._max_tokens]) or [self._tokenizer.unk_id] for ids in coded]
        lengths = torch.tensor([len(ids) for ids in cut])
        tokens = torch.zeros(len(cut), int(lengths.max()), dtype=torch.int64)
        for row, ids in enumerate(cut):
            tokens[row, : len(ids)] = torch.tensor(ids)
        return tokens, lengths

    def _known(self, text: str) -> Tensor | None:
        """What was read of a text before, which becomes the newest."""
        found = self._kept.get(text)
        if found is not None:
            self._kept.move_to_end(text)
        return found

    def _keep(self, text: str, vector: Tensor) -> None:
        """Keep this; the oldest goes where there is no room."""
        if text not in self._kept:
            self._held += bytes_of(text, vector)
        self._kept[text] = vector
        while self._held > self._most:
            self._held -= bytes_of(*self._kept.popitem(last=False))


def bytes_of(text: str, vector: Tensor) -> int:
    """Roughly what an entry holds: its numbers, its text, and the objects around them."""
    return 4 * vector.numel() + 4 * len(text) + _ENTRY
