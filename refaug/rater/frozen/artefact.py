"""Rating candidates with networks over an encoder's vectors, and their folders, which name the encoder by its hash."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import ClassVar, Final, Unpack

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from refaug.core.vectors.encoders import Encoder
from refaug.rater import network_folder
from refaug.rater.frozen.encoded_pairs import coverage_of
from refaug.rater.frozen.linear import LinearConfig, LinearNetwork
from refaug.rater.frozen.towers import TowerConfig, TowerNetwork
from refaug.rater.language_coverage import Coverage, unfamiliar_to_encoder
from refaug.rater.rating import Probabilities, Rater, Triplet
from refaug.rater.training.calibration import logits_of
from refaug.rater.training.order import EncoderOpener

KIND: Final = "rater"
LINEAR: Final = "linear"
ENCODER: Final = "encoder"
TURNS: Final = 3  # that are read together, as one text, beside the last one alone
_SETTINGS: Final = ("network", "config", "temperature")
_JUDGED_AT_ONCE: Final = 4_096  # triplets

FrozenNetwork = LinearNetwork | TowerNetwork


class FrozenRater(Rater):
    """A network over sentence vectors; a context of several turns is its last turn, and the last ones as one text.

    Logits are the mean over the two. A text without tokens has a vector of zeros, which is like no other.
    """

    turn_separator: ClassVar[str] = "\n"
    needs_gold: ClassVar[bool] = False

    def __init__(
        self,
        model: FrozenNetwork,
        encoder: Encoder,
        *,
        temperature: float = 1.0,
        languages: Sequence[str] = (),
        usual: Coverage | None = None,
        spec: str = "",
        threads: int = 1,
    ) -> None:
        super().__init__(temperature=temperature, languages=languages, spec=spec, threads=threads)
        self.model, self.encoder, self._usual = model.eval(), encoder, usual or Coverage()

    def coverage(self, texts: Sequence[str]) -> Coverage:
        """Return how the encoder reads texts."""
        return coverage_of(self.encoder, texts)

    def unfamiliar(self, texts_coverage: Coverage) -> str | None:
        """Return why ratings of texts like these mean little; None if nothing speaks against them."""
        return unfamiliar_to_encoder(texts_coverage, self._usual, self.languages, most=self.encoder.max_length)

    def of_heads(self) -> list[FrozenRater]:
        """Return the raters that its heads are by themselves; none where it has no heads."""
        if not isinstance(self.model, TowerNetwork):
            return []
        return [
            FrozenRater(
                self.model.of_head(number),
                self.encoder,
                temperature=self.temperature,
                languages=self.languages,
                usual=self._usual,
                spec=self.spec,
                threads=self._threads,
            )
            for number in range(len(self.model.heads))
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
        logits = self._logits(vectors, torch.from_numpy(rows))
        means = np.bincount(rows[:, 0], logits) / np.bincount(rows[:, 0])
        return np.asarray(1 / (1 + np.exp(-means / temperature)))

    def _contexts(self, utterance: str) -> tuple[str, ...]:
        turns = utterance.split(self.turn_separator)
        return (turns[-1],) if len(turns) == 1 else (turns[-1], " ".join(turns[-TURNS:]))

    def _logits(self, vectors: NDArray[np.float32], rows: Tensor) -> NDArray[np.float64]:
        """Return the logit of each row; every text is read once, however many rows it is in."""
        turns, known, replies = rows[:, 1], rows[:, 2], rows[:, 4]
        with self._lock, torch.inference_mode():
            torch.set_num_threads(1)
            total, count = torch.zeros(len(rows), 2), 0
            for space in self.model.spaces(torch.from_numpy(vectors)):
                for at in range(0, len(rows), _JUDGED_AT_ONCE):
                    some = slice(at, at + _JUDGED_AT_ONCE)
                    total[some] += space.similarities(turns[some], known[some], replies[some])
                count += 1
            logits: NDArray[np.float64] = logits_of(self.model, total / count, rows[:, 3] > 0).double().numpy()
        return logits


# ── Its folder ────────────────────────────────────────────────────────────────────────────────────────────────────────

StoredFrozenRater = network_folder.StoredNetwork[LinearConfig] | network_folder.StoredNetwork[TowerConfig]


def save_frozen_rater(
    folder: Path, model: FrozenNetwork, *, temperature: float, **facts: Unpack[network_folder.SavedFacts]
) -> str:
    """Write a rater's folder and return the rater's id."""
    network = LINEAR if isinstance(model, LinearNetwork) else ENCODER
    settings = {"network": network, "config": asdict(model.config), "temperature": temperature}
    return network_folder.write_network(folder, KIND, model, None, settings=settings, **facts)


def read_linear_manifest(folder: Path) -> network_folder.StoredNetwork[LinearConfig]:
    """Read the manifest of a linear rater; raise Corrupt if the folder holds something else."""
    return network_folder.read_network_manifest(folder, KIND, LinearConfig, _SETTINGS, network=LINEAR)


def read_tower_manifest(folder: Path) -> network_folder.StoredNetwork[TowerConfig]:
    """Read the manifest of a rater with towers over an encoder; raise Corrupt if the folder holds something else."""
    return network_folder.read_network_manifest(folder, KIND, TowerConfig, _SETTINGS, network=ENCODER)


def open_linear_rater(folder: Path, *, open_encoder: EncoderOpener, spec: str = "", threads: int = 1) -> FrozenRater:
    """Load a linear rater and its encoder; refuse files that were altered after saving."""
    stored = read_linear_manifest(folder)
    model = network_folder.open_weights(folder, KIND, stored, lambda: LinearNetwork(stored.config))
    return _with_encoder(model, stored, open_encoder, spec, threads)


def open_tower_rater(folder: Path, *, open_encoder: EncoderOpener, spec: str = "", threads: int = 1) -> FrozenRater:
    """Load a rater with towers and its encoder; refuse files that were altered after saving."""
    stored = read_tower_manifest(folder)
    model = network_folder.open_weights(folder, KIND, stored, lambda: TowerNetwork(stored.config))
    return _with_encoder(model, stored, open_encoder, spec, threads)


def _with_encoder(
    model: FrozenNetwork, stored: StoredFrozenRater, open_encoder: EncoderOpener, spec: str, threads: int
) -> FrozenRater:
    return FrozenRater(
        model,
        open_encoder(f"{stored.details.get('encoder', '')}#{stored.config.encoder}"),
        temperature=stored.temperature,
        languages=stored.languages,
        usual=stored.coverage,
        spec=spec,
        threads=threads,
    )
