"""A published network of RUBER's unreferenced part: how related replies are to utterances, in memory and on disk."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from threading import Lock
from typing import Final, Unpack

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from refaug.core.text.normalisation import normalise
from refaug.core.text.sentencepiece_tokenizer import SentencePieceTokenizer
from refaug.rater.language_coverage import Coverage, unfamiliar
from refaug.rater.network_folder import SavedFacts, StoredNetwork, open_network, read_network_manifest, write_network
from refaug.rater.ruber.model import RuberConfig, RuberNetwork
from refaug.rater.text_encoding import CACHE_BYTES, TextReader

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
        languages: Sequence[str] = (),
        usual: Coverage | None = None,
        spec: str = "",
        threads: int = 1,
        cache_bytes: int = CACHE_BYTES,
    ) -> None:
        self.model, self.tokenizer, self.spec = model.eval(), tokenizer, spec
        self.languages, self._usual = tuple(languages), usual or Coverage()
        self._threads = threads
        readers = model.config.readers  # each has its own cache; a single reader reads a text once for both places
        self._utterances, self._replies = (
            TextReader(
                read,
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
        with self._lock, torch.inference_mode():
            torch.set_num_threads(self._threads)
            utterances, of_utterance = _read(self._utterances, [utterance for utterance, _ in pairs])
            replies, of_reply = _read(self._replies, [reply for _, reply in pairs])
            logits = [
                self.model.judge(
                    utterances[of_utterance[at : at + _JUDGED_AT_ONCE]], replies[of_reply[at : at + _JUDGED_AT_ONCE]]
                )
                for at in range(0, len(pairs), _JUDGED_AT_ONCE)
            ]
        return torch.cat(logits).double().sigmoid().numpy()  # in single precision the highest scores would tie


def _read(reader: TextReader, texts: Sequence[str]) -> tuple[Tensor, Tensor]:
    """Return the vectors of the distinct texts, and the row of each text."""
    places = dict[str, int]()
    rows = torch.tensor([places.setdefault(text, len(places)) for text in texts])
    return reader.vectors(list(places)), rows


# On disk


StoredRuber = StoredNetwork[RuberConfig]


def save_ruber(
    folder: Path, model: RuberNetwork, tokenizer: SentencePieceTokenizer, **facts: Unpack[SavedFacts]
) -> str:
    """Write a ruber's folder and return the ruber's id."""
    return write_network(folder, KIND, model, tokenizer, settings={"config": asdict(model.config)}, **facts)


def read_ruber_manifest(folder: Path) -> StoredRuber:
    """Read a ruber's manifest; raise Corrupt if the folder holds something else."""
    return read_network_manifest(folder, KIND, RuberConfig)


def open_relevance(folder: Path, *, spec: str = "", threads: int = 1, cache_bytes: int = CACHE_BYTES) -> Relevance:
    """Load a ruber; refuse files that were altered after saving."""
    stored = read_ruber_manifest(folder)
    model, tokenizer = open_network(folder, KIND, stored, lambda: RuberNetwork(stored.config))
    return Relevance(
        model,
        tokenizer,
        languages=stored.languages,
        usual=stored.coverage,
        spec=spec,
        threads=threads,
        cache_bytes=cache_bytes,
    )
