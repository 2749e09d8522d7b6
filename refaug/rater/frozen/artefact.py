"""Rating candidates with networks over an encoder's vectors, and their folders, which name the encoder by its hash."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar, Final, Protocol, Self, Unpack

import numpy as np
from numpy.typing import NDArray

from refaug.core.vectors.encoders import Encoder
from refaug.rater import network_folder
from refaug.rater.frozen.array_network import ArrayLinear, ArrayTowers, LinearConfig, TowerConfig
from refaug.rater.language_coverage import Coverage, coverage_of, unfamiliar_to_encoder
from refaug.rater.rating import OpenedFacts, Probabilities, Rater, Triplet
from refaug.rater.text_encoding import Floats, Ids

KIND: Final = "rater"
LINEAR: Final = "linear"
ENCODER: Final = "encoder"
TURNS: Final = 3  # that are read together, as one text, beside the last one alone


class FrozenNetwork(Protocol):
    """A network over sentence vectors, whatever computes it."""

    runtime: str

    def logits(self, vectors: Floats, rows: Ids, has_known: NDArray[np.bool_]) -> NDArray[np.float64]:
        """Return the logit of each row, (rows, 3): turns, known response and reply by their numbers in vectors."""
        ...

    def heads_alone(self) -> Sequence[Self]:
        """Return the networks that its heads are by themselves; none where it has no heads."""
        ...


class FrozenRater(Rater):
    """A network over sentence vectors; a context of several turns is its last turn, and the last ones as one text.

    Logits are the mean over the two. A text without tokens has a vector of zeros, which is like no other.
    """

    turn_separator: ClassVar[str] = "\n"
    needs_gold: ClassVar[bool] = False

    def __init__(self, model: FrozenNetwork, encoder: Encoder, **facts: Unpack[OpenedFacts]) -> None:
        super().__init__(**facts)
        self.model, self.runtime, self.encoder = model, model.runtime, encoder

    def coverage(self, texts: Sequence[str]) -> Coverage:
        """Return how the encoder reads texts."""
        return coverage_of(self.encoder, texts)

    def unfamiliar(self, texts_coverage: Coverage) -> str | None:
        """Return why ratings of texts like these mean little; None if nothing speaks against them."""
        return unfamiliar_to_encoder(texts_coverage, self._usual, self.languages, most=self.encoder.max_length)

    def of_heads(self) -> list[FrozenRater]:
        """Return the raters that its heads are by themselves; none where it has no heads."""
        return [
            FrozenRater(
                network,
                self.encoder,
                temperature=self.temperature,
                languages=self.languages,
                usual=self._usual,
                spec=self.spec,
                threads=self._threads,
            )
            for network in self.model.heads_alone()
        ]

    def _batch_probabilities(self, triplets: Sequence[Triplet], temperature: float) -> Probabilities:
        contexts = [self._contexts(utterance) for utterance, _, _ in triplets]
        texts = dict.fromkeys(text for own in contexts for text in own)
        texts |= dict.fromkeys(text for _, known, reply in triplets for text in (known or "", reply))
        vectors = np.nan_to_num(self.encoder.sentence_vectors(list(texts)))
        number_of = {text: number for number, text in enumerate(texts)}
        rows = np.array(
            [
                (place, number_of[context], number_of[known or ""], known is not None, number_of[reply])
                for place, (_, known, reply) in enumerate(triplets)
                for context in contexts[place]
            ]
        )
        with self._lock:
            logits = self.model.logits(vectors, rows[:, [1, 2, 4]], rows[:, 3] > 0)
        means = np.bincount(rows[:, 0], logits) / np.bincount(rows[:, 0])
        return np.asarray(1 / (1 + np.exp(-means / temperature)))

    def _contexts(self, utterance: str) -> tuple[str, ...]:
        turns = utterance.split(self.turn_separator)
        return (turns[-1],) if len(turns) == 1 else (turns[-1], " ".join(turns[-TURNS:]))


# ── Its folder ────────────────────────────────────────────────────────────────────────────────────────────────────────

LINEAR_FILES: Final = network_folder.NetworkFiles[LinearConfig, FrozenNetwork](
    kind=KIND,
    config=LinearConfig,
    module="refaug.rater.frozen.linear:LinearNetwork",
    arrays=ArrayLinear,
    network=LINEAR,
    has_temperature=True,
)
TOWER_FILES: Final = network_folder.NetworkFiles[TowerConfig, FrozenNetwork](
    kind=KIND,
    config=TowerConfig,
    module="refaug.rater.frozen.towers:TowerNetwork",
    arrays=ArrayTowers,
    network=ENCODER,
    has_temperature=True,
)
