"""The two towers over pieces: their sizes, numpy's equations for inference, rating with them, and their folder.

The equations are those of `refaug.rater.dual.network`.

Nothing in the towers knows the order of words beyond neighbours, and they read thousands of texts a second.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import ClassVar, Final, Protocol, Unpack

import numpy as np
from numpy.typing import NDArray

from refaug.core.text.sentencepiece_tokenizer import SentencePieceTokenizer
from refaug.rater import network_folder
from refaug.rater.array_layers import Arrays, Floats, gelu, linear, logits_of, unit
from refaug.rater.rating import OpenedFacts, PieceRater, Probabilities, Triplet
from refaug.rater.text_encoding import CACHE_BYTES, PAD, Ids, TextReader, require_sizes

SPREAD: Final = 1_000_003  # a prime that tells the first piece of a pair from the second


@dataclass(frozen=True, kw_only=True)
class DualConfig:
    """The sizes of the network."""

    vocabulary: int = 16_002  # pieces, pad and unk
    pairs: int = 32_768  # vectors that pairs of pieces share
    embedding: int = 128
    width: int = 256
    max_tokens: int = 64

    def __post_init__(self) -> None:
        require_sizes("dual rater", asdict(self))


class ArrayDual:
    """A tower for turns and one for replies, and how cosines become logits."""

    runtime = "numpy"

    def __init__(self, config: DualConfig, arrays: Arrays) -> None:
        self.config, self._arrays = config, arrays

    def turn_vectors(self, tokens: Ids, lengths: Ids, threads: int) -> Floats:  # noqa: ARG002  numpy has its own
        """Return the vectors (texts, width) of turns, of their piece ids (texts, time)."""
        return self._read("turns", tokens, lengths)

    def reply_vectors(self, tokens: Ids, lengths: Ids, threads: int) -> Floats:  # noqa: ARG002
        """Return the vectors of replies."""
        return self._read("replies", tokens, lengths)

    def logits(
        self, turns: Floats, known: Floats, replies: Floats, has_known: NDArray[np.bool_]
    ) -> NDArray[np.float64]:
        """Return logits (replies,) of the vectors of turns, known responses and replies."""
        similarities = np.stack([(turns * replies).sum(axis=1), (known * replies).sum(axis=1)], axis=1)
        return logits_of(self._arrays, similarities, has_known)

    def _read(self, tower: str, tokens: Ids, lengths: Ids) -> Floats:
        left, right = tokens[:, :-1], tokens[:, 1:]
        pairs = self.config.vocabulary + (left * SPREAD + right) % self.config.pairs
        features = np.concatenate([tokens, np.where(right == PAD, PAD, pairs)], axis=1)
        is_read = features != PAD
        starts = np.concatenate([[0], np.cumsum(is_read.sum(axis=1))[:-1]])  # every text has a piece
        total = np.add.reduceat(self._arrays[f"{tower}.embedding.weight"][features[is_read]], starts)
        mean = np.asarray(total / np.sqrt(2 * lengths - 1, dtype=np.float32)[:, None], np.float32)
        return unit(linear(gelu(linear(mean, self._arrays, f"{tower}.first")), self._arrays, f"{tower}.last"))


# ── Rating ────────────────────────────────────────────────────────────────────────────────────────────────────────────

KIND: Final = "rater"
NETWORK: Final = "dual"


class TextTowers(Protocol):
    """A tower for turns and one for replies, whatever computes them."""

    runtime: str

    @property
    def config(self) -> DualConfig:
        """Their sizes."""
        ...

    def turn_vectors(self, tokens: Ids, lengths: Ids, threads: int) -> Floats:
        """Return the vectors (texts, width) of turns, of their piece ids (texts, time)."""
        ...

    def reply_vectors(self, tokens: Ids, lengths: Ids, threads: int) -> Floats:
        """Return the vectors of replies."""
        ...

    def logits(
        self, turns: Floats, known: Floats, replies: Floats, has_known: NDArray[np.bool_]
    ) -> NDArray[np.float64]:
        """Return logits (replies,) of the vectors of turns, known responses and replies."""
        ...


class DualRater(PieceRater):
    """The two towers: each text is read once by each tower that needs it."""

    turn_separator: ClassVar[str] = "\n"
    needs_gold: ClassVar[bool] = False

    def __init__(self, model: TextTowers, tokenizer: SentencePieceTokenizer, **facts: Unpack[OpenedFacts]) -> None:
        super().__init__(tokenizer, **facts)
        self.model, self.runtime = model, model.runtime
        self._turns, self._replies = (
            TextReader(
                read,
                tokenizer,
                size=model.config.width,
                max_tokens=model.config.max_tokens,
                cache_bytes=CACHE_BYTES // 2,
            )
            for read in (model.turn_vectors, model.reply_vectors)
        )
        self.readers = self._turns, self._replies

    def forget_texts(self) -> None:
        """Empty the caches of texts."""
        with self._lock:
            self._turns.forget()
            self._replies.forget()

    def _batch_probabilities(self, triplets: Sequence[Triplet], temperature: float) -> Probabilities:
        turns = dict.fromkeys(self._last_turn(utterance) for utterance, _, _ in triplets)
        replies = dict.fromkeys(text for _, known, reply in triplets for text in (known or "", reply))
        turn_rows, reply_rows = ({text: row for row, text in enumerate(texts)} for texts in (turns, replies))
        with self._lock:
            turn_vectors, reply_vectors = self._turns.vectors(list(turns)), self._replies.vectors(list(replies))
            logits = self.model.logits(
                turn_vectors[[turn_rows[self._last_turn(utterance)] for utterance, _, _ in triplets]],
                reply_vectors[[reply_rows[known or ""] for _, known, _ in triplets]],
                reply_vectors[[reply_rows[reply] for _, _, reply in triplets]],
                np.array([known is not None for _, known, _ in triplets]),
            )
        return np.asarray(1 / (1 + np.exp(-logits / temperature)))

    def _last_turn(self, utterance: str) -> str:
        return utterance.rsplit(self.turn_separator, 1)[-1]


# ── Its folder ────────────────────────────────────────────────────────────────────────────────────────────────────────

FILES: Final = network_folder.NetworkFiles[DualConfig, TextTowers](
    kind=KIND,
    config=DualConfig,
    module="refaug.rater.dual.network:DualNetwork",
    arrays=ArrayDual,
    network=NETWORK,
    has_temperature=True,
)
