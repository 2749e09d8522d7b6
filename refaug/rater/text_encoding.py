"""Texts to vectors for inference: cut into pieces, read together with texts of similar length, and cached."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Final

import numpy as np
from numpy.typing import NDArray

from refaug.core.errors import Usage
from refaug.core.memory import BoundedCache
from refaug.core.text.sentencepiece_tokenizer import SentencePieceTokenizer
from refaug.core.vectors.kept_vectors import Encodings, KeptVectors

CACHE_BYTES: Final = 256 << 20
_ENTRY: Final = 600  # bytes of a cache entry's objects
_READ_AT_ONCE: Final = 1_024  # texts of like length
_PIECE_CHARACTERS: Final = 64  # more than a piece has: what lies behind so many times the pieces read is not looked at
# Texts; for fewer, one thread is faster, since threads wait for each other at every step.
WORTH_THREADS: Final = 512

Ids = NDArray[np.int64]
Floats = NDArray[np.float32]
# Returns vectors (texts, size) of tokens (texts, time), the longest text first, and of lengths (texts,), by so many
# threads.
Read = Callable[[Ids, Ids, int], Floats]


class TextReader:
    """Reads texts with a network and caches the most recent vectors, in at most `cache_bytes`; others may be kept.

    It is not thread-safe: callers must let in one thread at a time.
    """

    def __init__(
        self, read: Read, tokenizer: SentencePieceTokenizer, *, size: int, max_tokens: int, cache_bytes: int
    ) -> None:
        self._read, self._tokenizer, self._size, self._max_tokens = read, tokenizer, size, max_tokens
        self._cache = BoundedCache[str, Floats](cache_bytes, bytes_of)
        self._kept: KeptVectors[Floats] | None = None

    def open_kept(self, encodings: Encodings, content: str) -> None:
        """Take vectors that are kept from here on, under the hash of what decides them."""
        self._kept = encodings.open_states(content, self._size)

    def keep(self, texts: Sequence[str], threads: int) -> tuple[int, int]:
        """Read those texts whose vectors are not kept, and keep these; return how many were read, and not kept."""
        assert self._kept is not None
        kept, before = self._kept.get(texts), self._kept.not_kept.total()
        new = [text for text in dict.fromkeys(texts) if text not in kept]
        self._kept.put(dict(zip(new, self.vectors(new, threads), strict=True)))
        return len(new), self._kept.not_kept.total() - before

    def forget(self) -> None:
        """Empty the cache."""
        self._cache = BoundedCache[str, Floats](self._cache.most, bytes_of)

    def vectors(self, texts: Sequence[str], threads: int = 1) -> Floats:
        """Return the vector of each text, (texts, size), from the cache or from the network."""
        vectors = np.empty((len(texts), self._size), np.float32)
        new = list[int]()
        for place, text in enumerate(texts):
            cached = self._cache.get(text)
            if cached is None:
                new.append(place)
            else:
                vectors[place] = cached
        if self._kept is not None and new:
            kept = self._kept.get([texts[place] for place in new])
            for place in new:
                if (vector := kept.get(texts[place])) is not None:
                    vectors[place] = vector
                    self._cache.put(texts[place], vector)
            new = [place for place in new if texts[place] not in kept]
        most = _PIECE_CHARACTERS * self._max_tokens
        coded = self._tokenizer.encode_ids_batch([texts[place][:most] for place in new])
        order = sorted(range(len(new)), key=lambda at: -len(coded[at]))
        for begin in range(0, len(order), _READ_AT_ONCE):
            batch = order[begin : begin + _READ_AT_ONCE]
            vectors_read = self._read(*self._pad([coded[at] for at in batch]), threads)
            vectors[[new[at] for at in batch]] = vectors_read
            for at, vector in zip(batch, vectors_read, strict=True):
                self._cache.put(texts[new[at]], vector.copy())
        return vectors

    def _pad(self, coded: Sequence[Sequence[int]]) -> tuple[Ids, Ids]:
        """Return piece ids (texts, time), the longest text first, and lengths; an empty text is one unknown piece."""
        cut = [ids[: self._max_tokens] or [self._tokenizer.unk_id] for ids in coded]
        lengths = np.array([len(ids) for ids in cut], np.int64)
        tokens = np.zeros((len(cut), int(lengths.max())), np.int64)
        for row, ids in enumerate(cut):
            tokens[row, : len(ids)] = ids
        return tokens, lengths


def bytes_of(text: str, vector: Floats) -> int:
    """Return the approximate size of a cache entry: its numbers, its text, and the objects around them."""
    return vector.nbytes + 4 * len(text) + _ENTRY


# ── What the networks share: padding and checked sizes ────────────────────────────

PAD: Final = 0  # of the tokenizers trained here
_SIZES: Final = {  # a manifest's network is built before it is compared with the weights
    "vocabulary": (3, 1 << 20),
    "embedding": (1, 1 << 16),
    "hidden": (1, 1 << 16),
    "width": (1, 1 << 16),
    "pairs": (1, 1 << 24),
    "layers": (1, 64),
    "heads": (1, 256),
    "max_tokens": (1, 1 << 20),
}


def require_sizes(kind: str, sizes: Mapping[str, object]) -> None:
    """Raise Usage for sizes that no network can have."""
    for name, (least, most) in _SIZES.items():
        size = sizes.get(name, least)  # a size that this kind of network does not have
        if not isinstance(size, int) or not least <= size <= most:
            raise Usage(f"a {kind}'s {name} is {size}", remedy=f"a whole number, at least {least}, at most {most:,}")
