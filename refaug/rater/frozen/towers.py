"""The small network over an encoder's vectors: a tower for turns and one for replies, several times, and their mean.

A tower adds to a vector what two layers make of it, and begins as what leaves it as it is: so the network starts with
the encoder's own cosines. A head is two towers, and each head has other first weights; the similarity of the rater is
the mean over its heads.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, Final, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from refaug.rater.dual.in_batch import BatchVectors, ChoiceBatch, ChoiceTask, PairBatches, choice_loss
from refaug.rater.dual.network import cosines
from refaug.rater.frozen.array_network import TowerConfig
from refaug.rater.frozen.encoded_pairs import EncodedPairs, ShuffledReplies
from refaug.rater.frozen.linear import Space, logits_in
from refaug.rater.text_encoding import Floats, Ids
from refaug.rater.torch_networks import inference
from refaug.rater.training.accuracy import auc
from refaug.rater.training.calibration import initial_weights
from refaug.rater.training.loop import VALIDATION_EPOCH
from refaug.rater.training.pair_corpus import PairSettings, Rows

_INITIAL_SCALE: Final = 15.0  # of cosines in the softmax


class VectorTower(nn.Module):
    """Vectors of an encoder to vectors of unit length; a vector of zeros, of a text without tokens, stays one."""

    def __init__(self, config: TowerConfig) -> None:
        super().__init__()
        self.dropout = 0.0
        self.first = nn.Linear(config.dimensions, config.hidden)
        self.last = nn.Linear(config.hidden, config.dimensions)
        nn.init.zeros_(self.last.weight)
        nn.init.zeros_(self.last.bias)

    def forward(self, vectors: Tensor) -> Tensor:
        """Return vectors (…, dimensions)."""
        read = nn.functional.dropout(vectors, self.dropout, self.training)
        # Numbers of unit vectors are small: the layer reads them as having a variance of 1.
        hidden = nn.functional.gelu(self.first(read * vectors.shape[-1] ** 0.5))
        change = self.last(nn.functional.dropout(hidden, self.dropout, self.training))
        has_tokens = (vectors != 0).any(dim=-1, keepdim=True)
        return nn.functional.normalize(vectors + change, dim=-1) * has_tokens


class Head(nn.Module):
    """One network: a tower for turns and one for replies."""

    def __init__(self, config: TowerConfig) -> None:
        super().__init__()
        self.turns, self.replies = VectorTower(config), VectorTower(config)
        self.scale = nn.Parameter(torch.tensor(_INITIAL_SCALE).log())

    def set_dropout(self, share: float) -> None:
        """Set the share of numbers that a batch leaves out."""
        self.turns.dropout = self.replies.dropout = share

    def similarities(self, turns: Tensor, known: Tensor, replies: Tensor) -> Tensor:
        """Return how alike replies are to the turns, and to the known response: (replies, 2)."""
        return cosines(self.turns(turns), self.replies(known), self.replies(replies))


class TowerNetwork(nn.Module):
    """The heads, and how the mean of their similarities becomes a logit."""

    runtime = "torch"

    without_known: Tensor
    with_known: Tensor

    def __init__(self, config: TowerConfig, heads: Sequence[Head] = ()) -> None:
        super().__init__()
        self.config = config
        self.heads = nn.ModuleList(heads or [Head(config) for _ in range(config.heads)])
        for name, weights in initial_weights().items():
            self.register_buffer(name, weights)

    @property
    def parameter_count(self) -> int:
        """The numbers that are trained."""
        return sum(parameter.numel() for parameter in self.parameters())

    def similarities(self, turns: Tensor, known: Tensor, replies: Tensor) -> Tensor:
        """Return the mean of the heads' similarities: (replies, 2)."""
        of_heads = [head.similarities(turns, known, replies) for head in self.heads]  # type: ignore[operator]
        return torch.stack(of_heads).mean(dim=0)

    def spaces(self, texts: Tensor) -> Iterator[Space]:
        """Yield texts, (texts, dimensions), as each head reads them, as turns and as replies."""
        for head in self.heads:
            assert isinstance(head, Head)
            replies = head.replies(texts)
            yield Space(head.turns(texts), replies, replies)

    def logits(self, vectors: Floats, rows: Ids, has_known: NDArray[np.bool_]) -> NDArray[np.float64]:
        """Return the logit of each row, (rows, 3): turns, known response and reply by their numbers in vectors."""
        with inference(self):
            return logits_in(self, self.spaces(torch.from_numpy(vectors)), has_known, torch.from_numpy(rows))

    def heads_alone(self) -> list[TowerNetwork]:
        """Return the network of each head, with the same weights of its similarities."""
        networks = list[TowerNetwork]()
        for head in self.heads:
            assert isinstance(head, Head)
            network = TowerNetwork(self.config, [head])
            network.without_known, network.with_known = self.without_known, self.with_known
            networks.append(network.eval())
        return networks


# ── Learning them: examples, wrong replies among them, and the task ───────────────────────────────────────────────────
#
# The examples are vectors of pairs, with further replies that are wrong. Beside the replies of the other pairs of a
# batch, many of which are near by the encoder, a pair has three wrong replies: the utterance itself, another turn of
# the dialogue, and, for some pairs, the right reply with its words shuffled.


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
