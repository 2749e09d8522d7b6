"""A published network of RUBER's unreferenced part: how related replies are to utterances, asked and on disk."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from threading import Lock
from typing import Any, Final

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from core.text import SentencePieceTokenizer, normalise
from rater.coverage import Coverage, unfamiliar
from rater.folder import Stored, open_network, read_network_manifest, write_network
from rater.reading import CACHE_BYTES, TextReader
from rater.ruber_model import RuberConfig, RuberNetwork

KIND: Final = "ruber"
_JUDGED_AT_ONCE: Final = 4_096  # pairs
_HELD_AT_ONCE: Final = 32_768  # pairs whose texts' vectors are in memory, beside the cache

Scores = NDArray[np.float64]


class Relevance:
    """A network with its tokenizer; it may be asked from several threads.

    The same pair gets the same score within 1e-5 whatever else is asked at once.
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
        readers = model.config.readers  # each keeps what it has read; with one, a text is read once in both places
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
        """How related each reply is to its utterance, from 0 to 1, in the order given.

        A reply of which nothing can be seen is not related at all, and the network is not asked.
        """
        scores = np.zeros(len(pairs))
        said = [at for at, (_, reply) in enumerate(pairs) if normalise(reply)]
        for begin in range(0, len(said), _HELD_AT_ONCE):
            some = said[begin : begin + _HELD_AT_ONCE]
            scores[some] = self._scores_of_some([pairs[at] for at in some])
        return scores

    def coverage(self, texts: Sequence[str]) -> Coverage:
        """How texts are cut into pieces; to be added up, and then judged by `unfamiliar`."""
        return Coverage.of(self.tokenizer, texts)

    def unfamiliar(self, found: Coverage) -> str | None:
        """Why scores of texts like these mean little; None where nothing speaks against them."""
        return unfamiliar(found, self._usual, self.languages, kind=KIND, said="scores")

    def _scores_of_some(self, pairs: Sequence[tuple[str, str]]) -> Scores:
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
        return torch.cat(logits).double().sigmoid().numpy()  # in single precision the surest would tie


def _read(reader: TextReader, texts: Sequence[str]) -> tuple[Tensor, Tensor]:
    """The vectors of different texts, and which of them each text has."""
    places = dict[str, int]()
    rows = torch.tensor([places.setdefault(text, len(places)) for text in texts])
    return reader.vectors(list(places)), rows


# On disk


@dataclass(frozen=True, kw_only=True)
class StoredRuber(Stored):
    """What a manifest says of a ruber."""

    config: RuberConfig


def save_ruber(
    folder: Path,
    model: RuberNetwork,
    tokenizer: SentencePieceTokenizer,
    *,
    languages: Sequence[str],
    coverage: Coverage | None = None,
    report: Mapping[str, Any],
    details: Mapping[str, Any],
) -> str:
    """Write all of it; the answer is the ruber's id."""
    return write_network(
        folder,
        KIND,
        model,
        tokenizer,
        settings={"config": asdict(model.config)},
        languages=languages,
        coverage=coverage,
        report=report,
        details=details,
    )


def read_ruber_manifest(folder: Path) -> StoredRuber:
    """What the folder says it holds; Corrupt, if it is no ruber's."""
    return read_network_manifest(
        folder, KIND, lambda manifest, fields: StoredRuber(config=RuberConfig(**manifest["config"]), **fields)
    )


def open_relevance(folder: Path, *, spec: str = "", threads: int = 1, cache_bytes: int = CACHE_BYTES) -> Relevance:
    """Load a ruber as it was saved; what was altered since is refused."""
    stored = read_ruber_manifest(folder)
    model, tokenizer = open_network(folder, KIND, stored, lambda: RuberNetwork(stored.config), settings=("config",))
    return Relevance(
        model,
        tokenizer,
        languages=stored.languages,
        usual=stored.coverage,
        spec=spec,
        threads=threads,
        cache_bytes=cache_bytes,
    )
