"""The encoder that a scorer stands on, and the vectors of triples: every distinct text is read once."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final
from typing import Protocol as Interface

import numpy as np
from numpy.typing import NDArray

from refaug.core.progress import Progress
from refaug.rater.adem.scorer.rated_triples import Form, Indexes, Triple
from refaug.rater.adem.scorer.settings import State

Vectors = NDArray[np.float32]
_ENCODED_AT_ONCE: Final = 512  # dialogues between two reports of progress


class DialogueEncoder(Interface):
    """A frozen network that turns dialogues into vectors; a text alone is a dialogue of one turn."""

    @property
    def spec(self) -> str:
        """The name, version and content of the network, for signatures."""

    def encode(self, dialogues: Sequence[Sequence[str]], *, state: State) -> Vectors:
        """Return a vector for each dialogue, in order: (dialogues, dimensions)."""


@dataclass(frozen=True, kw_only=True, eq=False)
class TripleVectors:
    """The vectors of distinct dialogues, and the place of each part of each triple among them."""

    vectors: Vectors  # (dialogues, dimensions)
    compared: Indexes  # (terms, rows): contexts, references, or both in this order
    replies: Indexes  # (rows,)

    def select(self, rows: Indexes) -> TripleVectors:
        """Return these rows; the vectors stay."""
        return TripleVectors(vectors=self.vectors, compared=self.compared[:, rows], replies=self.replies[rows])

    def counts(self, row_counts: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return how often each vector stands in rows that count so often, over all parts of the rows."""
        totals = np.bincount(self.replies, weights=row_counts, minlength=len(self.vectors)).astype(np.float64)
        for places in self.compared:
            totals += np.bincount(places, weights=row_counts, minlength=len(self.vectors))
        return totals


class VectorCache:
    """Vectors of dialogues by their turns, so that forms and folds that share texts encode them once."""

    def __init__(self, encoder: DialogueEncoder, state: State) -> None:
        self._encoder, self._state = encoder, state
        self._vectors = dict[tuple[str, ...], Vectors]()

    def triple_vectors(self, triples: Sequence[Triple], form: Form, progress: Progress | None = None) -> TripleVectors:
        """Return the vectors of triples for a form."""
        parts = list[list[tuple[str, ...]]]()
        if form.has_context:
            parts.append([triple.context for triple in triples])
        if form.has_reference:
            parts.append([(triple.reference,) for triple in triples])
        parts.append([(triple.reply,) for triple in triples])
        dialogues = dict.fromkeys(dialogue for part in parts for dialogue in part)
        self._encode_new(dialogues, progress)
        number_of = {dialogue: number for number, dialogue in enumerate(dialogues)}
        places = np.array([[number_of[dialogue] for dialogue in part] for part in parts], dtype=np.int64)
        vectors = np.stack([self._vectors[dialogue] for dialogue in dialogues])
        return TripleVectors(vectors=vectors, compared=places[:-1], replies=places[-1])

    def _encode_new(self, dialogues: Iterable[tuple[str, ...]], progress: Progress | None) -> None:
        new = [dialogue for dialogue in dialogues if dialogue not in self._vectors]
        if progress is not None and new:
            progress.stage("encoding texts", len(new), "texts")
        new.sort(key=lambda turns: sum(map(len, turns)))  # batches of like lengths
        for first in range(0, len(new), _ENCODED_AT_ONCE):
            chunk = new[first : first + _ENCODED_AT_ONCE]
            self._vectors |= zip(chunk, self._encoder.encode(chunk, state=self._state), strict=True)
            if progress is not None:
                progress.advance(len(chunk))
