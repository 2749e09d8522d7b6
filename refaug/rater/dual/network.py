"""The two towers over pieces and hashed pairs of pieces, rating with them, and their folder.

A tower adds up the vectors of a text's pieces and of each two neighbours, which share a fixed number of vectors by
hash; two layers follow. Nothing in it knows the order of words beyond neighbours, and it reads thousands of texts a
second.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import ClassVar, Final, Unpack

import numpy as np
import torch
from torch import Tensor, nn

from refaug.core.text.sentencepiece_tokenizer import SentencePieceTokenizer
from refaug.rater import network_folder
from refaug.rater.language_coverage import Coverage
from refaug.rater.rating import PieceRater, Probabilities, Triplet
from refaug.rater.text_encoding import CACHE_BYTES, PAD, TextReader, require_sizes
from refaug.rater.training.calibration import initial_weights, logits_of

KIND: Final = "rater"
NETWORK: Final = "dual"
_SPREAD: Final = 1_000_003  # a prime that tells the first piece of a pair from the second
_INITIAL_PIECE: Final = 0.1  # standard deviation of a piece's first numbers
_INITIAL_SCALE: Final = 10.0  # of cosines in the softmax


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


class Tower(nn.Module):
    """Texts to vectors of unit length."""

    def __init__(self, config: DualConfig) -> None:
        super().__init__()
        self.vocabulary, self.pairs, self.dropout = config.vocabulary, config.pairs, 0.0
        self.embedding = nn.Embedding(config.vocabulary + config.pairs, config.embedding, padding_idx=PAD)
        # What a training never saw must say nothing: with the usual normal numbers, the sum of a text of ten pieces
        # is mostly that of its unseen pairs, and the everyday logs were told apart at an AUC of .71 instead of .84.
        with torch.no_grad():
            nn.init.normal_(self.embedding.weight[1 : config.vocabulary], std=_INITIAL_PIECE)
            nn.init.zeros_(self.embedding.weight[config.vocabulary :])
        self.first = nn.Linear(config.embedding, config.width)
        self.last = nn.Linear(config.width, config.width)

    def forward(self, tokens: Tensor, lengths: Tensor) -> Tensor:
        """Return vectors (texts, width) of piece ids (texts, time), padded with 0."""
        features = self.features(tokens)
        counted = nn.functional.dropout(torch.ones(features.shape, device=tokens.device), self.dropout, self.training)
        total = nn.functional.embedding_bag(
            features, self.embedding.weight, mode="sum", padding_idx=PAD, per_sample_weights=counted
        )
        mean = total / (2 * lengths - 1).to(total).sqrt()[:, None]
        mean = nn.functional.dropout(mean, self.dropout, self.training)
        return nn.functional.normalize(self.last(nn.functional.gelu(self.first(mean))), dim=1)

    def features(self, tokens: Tensor) -> Tensor:
        """Return the rows of pieces and of pairs of neighbours: (texts, 2 * time - 1)."""
        left, right = tokens[:, :-1], tokens[:, 1:]
        pairs = self.vocabulary + (left * _SPREAD + right) % self.pairs
        return torch.cat([tokens, torch.where(right == PAD, PAD, pairs)], dim=1)


class DualNetwork(nn.Module):
    """A tower for turns and one for replies, and how cosines become logits."""

    without_known: Tensor
    with_known: Tensor

    def __init__(self, config: DualConfig) -> None:
        super().__init__()
        self.config = config
        self.turns, self.replies = Tower(config), Tower(config)
        self.scale = nn.Parameter(torch.tensor(_INITIAL_SCALE).log())
        for name, weights in initial_weights().items():
            self.register_buffer(name, weights)

    @property
    def dropout(self) -> float:
        """The share of a text's pieces and pairs that a batch leaves out, and of the numbers of their sum."""
        return self.turns.dropout

    @dropout.setter
    def dropout(self, share: float) -> None:
        self.turns.dropout = self.replies.dropout = share

    @property
    def parameter_count(self) -> int:
        """The numbers that are trained."""
        return sum(parameter.numel() for parameter in self.parameters())


def cosines(turns: Tensor, known: Tensor, replies: Tensor) -> Tensor:
    """Return both similarities (replies, 2) of vectors of unit length."""
    return torch.stack([(turns * replies).sum(dim=1), (known * replies).sum(dim=1)], dim=1)


class DualRater(PieceRater):
    """The two towers: each text is read once by each tower that needs it."""

    turn_separator: ClassVar[str] = "\n"
    needs_gold: ClassVar[bool] = False

    def __init__(
        self,
        model: DualNetwork,
        tokenizer: SentencePieceTokenizer,
        *,
        temperature: float = 1.0,
        languages: Sequence[str] = (),
        usual: Coverage | None = None,
        spec: str = "",
        threads: int = 1,
    ) -> None:
        super().__init__(
            tokenizer, temperature=temperature, languages=languages, usual=usual, spec=spec, threads=threads
        )
        self.model = model.eval()
        self._turns, self._replies = (
            TextReader(
                tower,
                tokenizer,
                size=model.config.width,
                max_tokens=model.config.max_tokens,
                cache_bytes=CACHE_BYTES // 2,
            )
            for tower in (model.turns, model.replies)
        )

    def forget_texts(self) -> None:
        """Empty the caches of texts."""
        with self._lock:
            self._turns.forget()
            self._replies.forget()

    def _batch_probabilities(self, triplets: Sequence[Triplet], temperature: float) -> Probabilities:
        turns = dict.fromkeys(self._last_turn(utterance) for utterance, _, _ in triplets)
        replies = dict.fromkeys(text for _, known, reply in triplets for text in (known or "", reply))
        turn_rows, reply_rows = ({text: row for row, text in enumerate(texts)} for texts in (turns, replies))
        with self._lock, torch.inference_mode():
            torch.set_num_threads(1)
            turn_vectors, reply_vectors = self._turns.vectors(list(turns)), self._replies.vectors(list(replies))
            similarities = cosines(
                turn_vectors[[turn_rows[self._last_turn(utterance)] for utterance, _, _ in triplets]],
                reply_vectors[[reply_rows[known or ""] for _, known, _ in triplets]],
                reply_vectors[[reply_rows[reply] for _, _, reply in triplets]],
            )
            has_known = torch.tensor([known is not None for _, known, _ in triplets])
            logits = logits_of(self.model, similarities, has_known).double().numpy()
        return np.asarray(1 / (1 + np.exp(-logits / temperature)))

    def _last_turn(self, utterance: str) -> str:
        return utterance.rsplit(self.turn_separator, 1)[-1]


# ── Its folder ────────────────────────────────────────────────────────────────────────────────────────────────────────

StoredDualRater = network_folder.StoredNetwork[DualConfig]
_SETTINGS: Final = ("network", "config", "temperature")


def save_dual_rater(
    folder: Path,
    model: DualNetwork,
    tokenizer: SentencePieceTokenizer,
    *,
    temperature: float,
    **facts: Unpack[network_folder.SavedFacts],
) -> str:
    """Write a rater's folder and return the rater's id."""
    settings = {"network": NETWORK, "config": asdict(model.config), "temperature": temperature}
    return network_folder.write_network(folder, KIND, model, tokenizer, settings=settings, **facts)


def read_dual_manifest(folder: Path) -> StoredDualRater:
    """Read a dual rater's manifest; raise Corrupt if the folder holds something else."""
    return network_folder.read_network_manifest(folder, KIND, DualConfig, _SETTINGS, network=NETWORK)


def open_dual_rater(folder: Path, *, spec: str = "", threads: int = 1) -> DualRater:
    """Load a dual rater; refuse files that were altered after saving."""
    stored = read_dual_manifest(folder)
    model, tokenizer = network_folder.open_network(folder, KIND, stored, lambda: DualNetwork(stored.config))
    return DualRater(
        model,
        tokenizer,
        temperature=stored.temperature,
        languages=stored.languages,
        usual=stored.coverage,
        spec=spec,
        threads=threads,
    )
