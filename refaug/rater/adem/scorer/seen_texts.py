"""The texts that a scorer was fitted to, as hashes: a guard against scoring a judge on its own training rows.

A row counts as seen when its context was seen, or its reply with its context. Texts are compared normalised. A
context is all turns; its last turn alone counts only when it is long, since short ones occur everywhere. A row without
a context counts as seen when its reply was seen with one of its references, or when one of its long references was.

The file `seen.bin` holds the first sixteen bytes of the SHA-256 of each key, sorted and without repetitions.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Final

import numpy as np
from numpy.typing import NDArray

from refaug.core.errors import Corrupt
from refaug.core.files import write_aside
from refaug.core.text.normalisation import is_distinctive, normalise
from refaug.rater.adem.scorer.rated_triples import Triple

SEEN: Final = "seen.bin"
_HASH_BYTES: Final = 16
_JOINT: Final = "\x1f"  # stands in no normalised text


@dataclass(frozen=True, kw_only=True)
class SeenTexts:
    """The hashes of the texts that a scorer was fitted to."""

    hashes: frozenset[bytes]

    @classmethod
    def of(cls, triples: Iterable[Triple]) -> SeenTexts:
        """Return the hashes of contexts, replies with their contexts, and references."""
        return cls(hashes=frozenset(_hash(key) for triple in triples for key in _keys(triple)))

    @classmethod
    def read(cls, path: Path) -> SeenTexts:
        """Read the file; raise Corrupt where it is none."""
        content = path.read_bytes()
        rows: NDArray[np.void] = np.frombuffer(content[: len(content) // _HASH_BYTES * _HASH_BYTES], f"V{_HASH_BYTES}")
        hashes = [row.tobytes() for row in rows]
        if len(content) % _HASH_BYTES or any(first >= second for first, second in pairwise(hashes)):
            raise Corrupt(f"{path} holds no sorted hashes", remedy="restore it from a backup, or train the adem again")
        return cls(hashes=frozenset(hashes))

    def write(self, path: Path) -> None:
        """Write the file."""
        with write_aside(path) as file:
            file.write(b"".join(sorted(self.hashes)))

    def contains(self, context: Sequence[str], references: Sequence[str], reply: str) -> bool:
        """Say whether a row with these texts was trained on."""
        if _has_words(context):
            keys = [*_context_keys(context), _pair_key(context, reply)]
        else:
            pairs = (_pair_key((reference,), reply) for reference in references)
            keys = [*pairs, *(_reference_key(text) for text in references if is_distinctive(normalise(text)))]
        return any(_hash(key) in self.hashes for key in keys)


def _keys(triple: Triple) -> Iterator[str]:
    if _has_words(triple.context):
        yield from _context_keys(triple.context)
        yield _pair_key(triple.context, triple.reply)
    if triple.reference:
        yield _reference_key(triple.reference)
        yield _pair_key((triple.reference,), triple.reply)


def _context_keys(turns: Sequence[str]) -> Iterator[str]:
    yield _JOINT.join(["context", *map(normalise, turns)])
    if is_distinctive(last := normalise(turns[-1])):
        yield _JOINT.join(["last turn", last])


def _pair_key(turns: Sequence[str], reply: str) -> str:
    return _JOINT.join(["pair", *map(normalise, turns), "reply", normalise(reply)])


def _reference_key(text: str) -> str:
    return _JOINT.join(["reference", normalise(text)])


def _has_words(turns: Sequence[str]) -> bool:
    return any(map(normalise, turns))


def _hash(key: str) -> bytes:
    return hashlib.sha256(key.encode()).digest()[:_HASH_BYTES]
