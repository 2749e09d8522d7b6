"""A published network of RUBER's unreferenced part: how related replies are to utterances, in memory and on disk."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from threading import Lock
from typing import Final, Unpack

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from refaug.core.errors import Usage
from refaug.core.text.normalisation import normalise
from refaug.core.text.sentencepiece_tokenizer import SentencePieceTokenizer
from refaug.rater.language_coverage import Coverage, unfamiliar
from refaug.rater.network_folder import NetworkFiles
from refaug.rater.rating import OpenedFacts
from refaug.rater.text_encoding import CACHE_BYTES, PAD, Floats, Ids, TextReader, require_sizes
from refaug.rater.torch_networks import inference, last_states

# ── The network of RUBER's unreferenced part (Tao et al. 2018): how related a reply is to the utterance before it ─────
#
# A Bi-GRU over one embedding reads each text; a text's vector is the last state of the forward and of the backward
# reading. The two vectors q and r and the quadratic feature qᵀMr go through layers with tanh, and a sigmoid gives the
# score.
#
# As published, utterances and replies have separate readers. With one reader for both, the default here, there is
# less to learn, and every text trains the reader.


@dataclass(frozen=True, kw_only=True)
class RuberConfig:
    """The sizes of the network."""

    vocabulary: int = 16_002  # pieces, pad and unk
    embedding: int = 128
    hidden: int = 128  # in each direction
    width: int = 256  # of the layers that judge
    layers: int = 1  # number of these, each with tanh
    max_tokens: int = 128  # the rest of a longer text is not read
    readers: int = 1  # or 2: one for utterances, one for replies

    def __post_init__(self) -> None:
        require_sizes("ruber", asdict(self))
        if self.readers not in (1, 2):
            raise Usage(f"a ruber's readers are {self.readers!r}", remedy="1 for both texts, or 2: one for each")


class RuberNetwork(nn.Module):
    """Turns texts into vectors, and pairs of vectors into logits, whose sigmoid is the score."""

    def __init__(self, config: RuberConfig) -> None:
        super().__init__()
        self.config = config
        self.dropout = 0.0  # share of an embedding's numbers left out in training
        self.embedding = nn.Embedding(config.vocabulary, config.embedding, padding_idx=PAD)
        self.readers = nn.ModuleList(
            nn.GRU(config.embedding, config.hidden, batch_first=True, bidirectional=True) for _ in range(config.readers)
        )
        size = 2 * config.hidden
        self.quadratic = nn.Parameter(torch.empty(size, size))  # M
        nn.init.xavier_normal_(self.quadratic)
        sizes = [2 * size + 1, *[config.width] * config.layers]
        self.hidden = nn.ModuleList(nn.Linear(sizes[at], sizes[at + 1]) for at in range(config.layers))
        self.last = nn.Linear(config.width, 1)

    def read_utterances(self, tokens: Tensor, lengths: Tensor) -> Tensor:
        """Return vectors (texts, 2 * hidden) of tokens (texts, time), the longest text first.

        Lengths (texts,) on the CPU.
        """
        return self._read(0, tokens, lengths)

    def read_replies(self, tokens: Tensor, lengths: Tensor) -> Tensor:
        """Return the vectors of replies, with their own reader if there are two."""
        return self._read(self.config.readers - 1, tokens, lengths)

    def _read(self, reader: int, tokens: Tensor, lengths: Tensor) -> Tensor:
        embedded = nn.functional.dropout(self.embedding(tokens), self.dropout, self.training)
        gru = self.readers[reader]
        assert isinstance(gru, nn.GRU)
        return last_states(gru, embedded, lengths)

    def judge(self, utterances: Tensor, replies: Tensor) -> Tensor:
        """Return logits (pairs,) of vectors, each (pairs, 2 * hidden)."""
        related = ((utterances @ self.quadratic) * replies).sum(dim=1, keepdim=True)  # (pairs, 1)
        state = torch.cat([utterances, related, replies], dim=1)
        for layer in self.hidden:
            state = torch.tanh(layer(state))
        logits: Tensor = self.last(state)
        return logits[:, 0]

    @property
    def parameter_count(self) -> int:
        """The number of parameters."""
        return sum(parameter.numel() for parameter in self.parameters())


# ── A published network of RUBER's unreferenced part: how related replies are to utterances, in memory and on disk ────

KIND: Final = "ruber"
_JUDGED_AT_ONCE: Final = 4_096  # pairs
_HELD_AT_ONCE: Final = 32_768  # pairs whose texts' vectors are in memory besides the cache

Scores = NDArray[np.float64]


class Relevance:
    """A network with its tokenizer; several threads may use it.

    The same pair gets the same score within 1e-5, whatever else is scored with it.
    """

    def __init__(
        self,
        model: RuberNetwork,
        tokenizer: SentencePieceTokenizer,
        *,
        cache_bytes: int = CACHE_BYTES,
        **facts: Unpack[OpenedFacts],
    ) -> None:
        self.model, self.tokenizer, self.spec = model.eval(), tokenizer, facts.get("spec", "")
        self.languages, self._usual = tuple(facts.get("languages", ())), facts.get("usual") or Coverage()
        self._threads = facts.get("threads", 1)
        readers = model.config.readers  # each has its own cache; a single reader reads a text once for both places
        self._utterances, self._replies = (
            TextReader(
                partial(_vectors, model, read),
                tokenizer,
                size=2 * model.config.hidden,
                max_tokens=model.config.max_tokens,
                cache_bytes=cache_bytes // readers,
            )
            for read in (model.read_utterances, model.read_replies)
        )
        if readers == 1:
            self._replies = self._utterances
        self._lock = Lock()

    def score(self, pairs: Sequence[tuple[str, str]]) -> Scores:
        """Return how related each reply is to its utterance, from 0 to 1, in the order given.

        A reply without visible characters scores 0, without asking the network.
        """
        scores = np.zeros(len(pairs))
        visible = [at for at, (_, reply) in enumerate(pairs) if normalise(reply)]
        for begin in range(0, len(visible), _HELD_AT_ONCE):
            batch = visible[begin : begin + _HELD_AT_ONCE]
            scores[batch] = self._batch_scores([pairs[at] for at in batch])
        return scores

    def coverage(self, texts: Sequence[str]) -> Coverage:
        """Return how the tokenizer cuts texts into pieces; coverages can be added up for `unfamiliar`."""
        return Coverage.of(self.tokenizer, texts)

    def unfamiliar(self, texts_coverage: Coverage) -> str | None:
        """Return why scores of texts like these mean little; None if nothing speaks against them."""
        return unfamiliar(texts_coverage, self._usual, self.languages, kind=KIND, scores_name="scores")

    def _batch_scores(self, pairs: Sequence[tuple[str, str]]) -> Scores:
        with self._lock, inference(self.model, self._threads):
            utterances, of_utterance = self._vectors_of(self._utterances, [utterance for utterance, _ in pairs])
            replies, of_reply = self._vectors_of(self._replies, [reply for _, reply in pairs])
            logits = [
                self.model.judge(
                    utterances[of_utterance[at : at + _JUDGED_AT_ONCE]], replies[of_reply[at : at + _JUDGED_AT_ONCE]]
                )
                for at in range(0, len(pairs), _JUDGED_AT_ONCE)
            ]
        return torch.cat(logits).double().sigmoid().numpy()  # in single precision the highest scores would tie

    def _vectors_of(self, reader: TextReader, texts: Sequence[str]) -> tuple[Tensor, Tensor]:
        """Return the vectors of the distinct texts, and the row of each text."""
        places = dict[str, int]()
        rows = torch.tensor([places.setdefault(text, len(places)) for text in texts])
        return torch.from_numpy(reader.vectors(list(places), self._threads)), rows


def _vectors(
    model: RuberNetwork, read: Callable[[Tensor, Tensor], Tensor], tokens: Ids, lengths: Ids, threads: int
) -> Floats:
    """Return the vectors of tokens (texts, time), the longest text first."""
    with inference(model, threads):
        vectors: Floats = read(torch.from_numpy(tokens), torch.from_numpy(lengths)).numpy()
    return vectors


# On disk


FILES: Final = NetworkFiles[RuberConfig, RuberNetwork](
    kind=KIND, config=RuberConfig, module="refaug.rater.ruber.network:RuberNetwork"
)
save_ruber, read_ruber_manifest = FILES.save, FILES.read


def open_relevance(folder: Path, *, spec: str = "", threads: int = 1) -> Relevance:
    """Load a ruber; refuse files that were altered after saving."""
    model, tokenizer, stored = FILES.open(folder)
    return Relevance(model, tokenizer, **stored.opened(spec, threads))
