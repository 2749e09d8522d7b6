"""Training data of the networks over an encoder: vectors of pairs, with further replies that are wrong.

Beside the replies of the other pairs of a batch, many of which are near by the encoder, a pair has three wrong replies:
the utterance itself, another turn of the dialogue, and, for some pairs, the right reply with its words shuffled.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from refaug.rater.dual.in_batch import BatchVectors, ChoiceBatch, ChoiceTask, PairBatches, choice_loss
from refaug.rater.frozen.encoded_pairs import EncodedPairs, ShuffledReplies
from refaug.rater.frozen.towers import Head
from refaug.rater.training.accuracy import auc
from refaug.rater.training.loop import VALIDATION_EPOCH
from refaug.rater.training.pair_corpus import PairSettings, Rows

WRONG_KINDS: Final = ("parrot", "dialogue", "shuffled")
_PLANES: Final = 10  # that sort replies: those on the same sides are near


class EncodedBatch(NamedTuple):
    """The vectors of a batch, as the encoder gives them."""

    pairs: ChoiceBatch
    turns: Tensor  # (pairs, dimensions)
    replies: Tensor
    known: Tensor  # (known rows, dimensions)
    wrong: Tensor  # (pairs, kinds, dimensions); zeros where there is none of a kind


class EncodedExamples:
    """The pairs of one side in batches of vectors; an epoch's number and the settings determine its batches."""

    def __init__(self, encoded: EncodedPairs, rows: Rows, settings: PairSettings, shuffled: ShuffledReplies) -> None:
        self._encoded, self._shuffled = encoded, shuffled
        self._batches = PairBatches(encoded.pairs, rows, settings, self._near)

    @property
    def epoch_size(self) -> int:
        """The number of pairs in one epoch."""
        return self._batches.epoch_size

    def batch_count(self) -> int:
        """Return the number of batches in an epoch."""
        return self._batches.batch_count()

    def batches(self, number: int, *, skip: int = 0) -> Iterator[EncodedBatch]:
        """Yield the batches of an epoch after the first `skip`."""
        pairs = self._encoded.pairs
        for batch in self._batches.batches(number, skip=skip):
            turns = self._encoded.of(pairs.utterance[batch.rows])
            wrong = (turns, self._from_dialogue(batch), self._shuffled.of(pairs.reply[batch.rows]))
            vectors = (turns, self._encoded.of(pairs.reply[batch.rows]), self._encoded.of(batch.known))
            yield EncodedBatch(batch, *map(torch.from_numpy, (*vectors, np.stack(wrong, axis=1))))

    def _from_dialogue(self, batch: ChoiceBatch) -> NDArray[np.float32]:
        texts = self._batches.draws.from_dialogue(batch.rows, batch.rng, 0.0)
        vectors = self._encoded.of(np.maximum(texts, 0))
        vectors[texts < 0] = 0
        return vectors

    def _near(self, rows: Rows, rng: np.random.Generator) -> NDArray[Any]:
        """Return on which sides of drawn planes the replies lie, as one number."""
        vectors = self._encoded.of(self._encoded.pairs.reply[rows])
        planes = rng.normal(size=(vectors.shape[1], _PLANES)).astype(np.float32)
        # Vectors of an encoder have a common direction, which would put most of them on one side.
        sides = (vectors - vectors.mean(axis=0)) @ planes > 0
        return np.asarray(sides @ (1 << np.arange(_PLANES)))


class TowerTask(ChoiceTask[Head, EncodedBatch]):
    """Choosing replies by the vectors of a head."""

    def choose(self, batch: EncodedBatch) -> tuple[Tensor, Tensor]:
        """Return the loss of a batch, and its logits."""
        turns, replies, known, wrong = (vectors.to(self.device) for vectors in batch[1:])
        read = BatchVectors(
            self.model.turns(turns), self.model.replies(replies), self.model.replies(known), self.model.replies(wrong)
        )
        return choice_loss(read, batch.pairs, self.model.scale.exp())


def auc_by_wrong_kind(heads: list[Head], examples: EncodedExamples) -> dict[str, float]:
    """Return how often the mean of some heads puts a right reply above a wrong one, by the kind of the wrong one.

    A random reply is that of the next pair of the batch, a near one what the encoder takes for the most like the right
    one.
    """
    scores = dict[str, list[NDArray[np.float64]]]()
    with torch.inference_mode():
        for batch in examples.batches(VALIDATION_EPOCH):
            fits_too = torch.from_numpy(batch.pairs.fits_too)
            likeness = (batch.replies @ batch.replies.T).masked_fill(fits_too, -torch.inf)
            near = batch.replies[likeness.argmax(dim=1)]
            random = batch.replies.roll(-1, dims=0) * ~fits_too.roll(-1, dims=1).diagonal()[:, None]
            offered = torch.cat([torch.stack([batch.replies, near, random], dim=1), batch.wrong], dim=1)
            cosines = sum(torch.einsum("pw,pkw->pk", head.turns(batch.turns), head.replies(offered)) for head in heads)
            numbers = np.where((offered == 0).all(dim=2).numpy(), np.nan, torch.as_tensor(cosines).double().numpy())
            for name, column in zip(("right", "near", "random", *WRONG_KINDS), numbers.T, strict=True):
                scores.setdefault(name, []).append(column)
    joined = {name: np.concatenate(columns) for name, columns in scores.items()}
    right = joined.pop("right")
    return {
        name: auc(np.concatenate([right, own]), np.arange(len(right) + len(own)) < len(right))
        for name, column in joined.items()
        if len(own := column[np.isfinite(column)])
    }
