"""A cross rater's folder: among the raters, with the name of its network in the manifest."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar, Final, Protocol, Unpack

import numpy as np
from numpy.typing import NDArray

from refaug.core.text.sentencepiece_tokenizer import SentencePieceTokenizer
from refaug.rater import network_folder
from refaug.rater.cross.array_network import ArrayCross
from refaug.rater.cross.sequences import CrossConfig, Pieces, SequenceBatch, SequenceShape
from refaug.rater.rating import OpenedFacts, PieceRater, Probabilities, Triplet
from refaug.rater.text_encoding import WORTH_THREADS

# ── Rating candidates with the cross rater: each candidate is read with the turns and the gold, or without a gold ─────

_READ_AT_ONCE: Final = 128  # sequences of like length


class SequenceNetwork(Protocol):
    """A network that judges sequences, whatever computes it."""

    runtime: str

    @property
    def config(self) -> CrossConfig:
        """Its sizes."""
        ...

    def logits(self, batch: SequenceBatch, threads: int) -> NDArray[np.float64]:
        """Return a logit for each sequence of a batch."""
        ...


class CrossRater(PieceRater):
    """The Transformer: a rating takes the whole network, so nothing but the texts' pieces can be used again."""

    turn_separator: ClassVar[str] = "\n"
    needs_gold: ClassVar[bool] = False

    def __init__(self, model: SequenceNetwork, tokenizer: SentencePieceTokenizer, **facts: Unpack[OpenedFacts]) -> None:
        super().__init__(tokenizer, **facts)
        self.model, self.runtime = model, model.runtime
        self._shape = SequenceShape(model.config.vocabulary, model.config.max_tokens)

    def _batch_probabilities(self, triplets: Sequence[Triplet], temperature: float) -> Probabilities:
        distinct = {triplet: place for place, triplet in enumerate(dict.fromkeys(triplets))}
        pieces = self._pieces_of(list(distinct))
        order = sorted(range(len(pieces)), key=lambda place: -_length(pieces[place]))
        logits = np.empty(len(pieces))
        threads = self._threads if len(pieces) >= WORTH_THREADS else 1
        with self._lock:
            for begin in range(0, len(order), _READ_AT_ONCE):
                places = order[begin : begin + _READ_AT_ONCE]
                batch = self._shape.batch([pieces[place] for place in places])
                logits[places] = self.model.logits(batch, threads)
        likely = 1 / (1 + np.exp(-logits / temperature))
        return np.asarray(likely[[distinct[triplet] for triplet in triplets]])

    def hidden_log_likelihoods(self, pairs: Sequence[tuple[str, str]]) -> list[NDArray[np.float64]]:
        """Return log p of each piece of each reply after its turns, in nats, when it alone is hidden; needs torch."""
        from refaug.rater.cross.masked import hidden_log_likelihoods  # noqa: PLC0415  torch

        batch = self._shape.batch(self._pieces_of([(turns, None, reply) for turns, reply in pairs]))
        with self._lock:
            return hidden_log_likelihoods(self.model, batch, self._threads)  # type: ignore[arg-type]

    def _pieces_of(self, triplets: Sequence[Triplet]) -> list[Pieces]:
        """Cut the texts of triplets into pieces, each distinct text once."""
        split = [(utterance.split(self.turn_separator), known, reply) for utterance, known, reply in triplets]
        texts = dict[str, Sequence[int]]()
        for turns, known, reply in split:
            texts |= dict.fromkeys((*turns, known or "", reply), ())
        texts = dict(zip(texts, self.tokenizer.encode_ids_batch(list(texts)), strict=True))
        return [
            Pieces(
                turns=[texts[turn] for turn in turns],
                known=None if known is None else texts[known],
                reply=texts[reply],
            )
            for turns, known, reply in split
        ]


def _length(pieces: Pieces) -> int:
    return sum(map(len, pieces.turns)) + len(pieces.known or ()) + len(pieces.reply)


# ── A cross rater's folder ────────────────────────────────────────────────────────────────────────────────────────────

KIND: Final = "rater"
NETWORK: Final = "cross"


FILES: Final = network_folder.NetworkFiles[CrossConfig, SequenceNetwork](
    kind=KIND,
    config=CrossConfig,
    module="refaug.rater.cross.model:CrossNetwork",
    arrays=ArrayCross,
    network=NETWORK,
    has_temperature=True,
)
