"""A cross rater's folder: among the raters, with the name of its network in the manifest."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import ClassVar, Final, Unpack

import numpy as np
import torch

from refaug.core.text.sentencepiece_tokenizer import SentencePieceTokenizer
from refaug.rater import network_folder
from refaug.rater.cross.model import CrossConfig, CrossNetwork
from refaug.rater.cross.sequences import Pieces, SequenceShape
from refaug.rater.language_coverage import Coverage
from refaug.rater.rating import PieceRater, Probabilities, Triplet
from refaug.rater.text_encoding import WORTH_THREADS

# ── Rating candidates with the cross rater: each candidate is read with the turns and the gold, or without a gold ─────

_READ_AT_ONCE: Final = 128  # sequences of like length


class CrossRater(PieceRater):
    """The Transformer: a rating takes the whole network, so nothing but the texts' pieces can be used again."""

    turn_separator: ClassVar[str] = "\n"
    needs_gold: ClassVar[bool] = False

    def __init__(
        self,
        model: CrossNetwork,
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
        self._shape = SequenceShape(model.config.vocabulary, model.config.max_tokens)

    def _batch_probabilities(self, triplets: Sequence[Triplet], temperature: float) -> Probabilities:
        distinct = {triplet: place for place, triplet in enumerate(dict.fromkeys(triplets))}
        pieces = self._pieces_of(list(distinct))
        order = sorted(range(len(pieces)), key=lambda place: -_length(pieces[place]))
        logits = np.empty(len(pieces))
        with self._lock, torch.inference_mode():
            torch.set_num_threads(self._threads if len(pieces) >= WORTH_THREADS else 1)
            for begin in range(0, len(order), _READ_AT_ONCE):
                places = order[begin : begin + _READ_AT_ONCE]
                batch = self._shape.batch([pieces[place] for place in places])
                tokens, segments, lengths = map(torch.from_numpy, batch)
                logits[places] = self.model(tokens, segments, lengths).double().numpy()
        likely = 1 / (1 + np.exp(-logits / temperature))
        return np.asarray(likely[[distinct[triplet] for triplet in triplets]])

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


StoredCrossRater = network_folder.StoredNetwork[CrossConfig]


def save_cross_rater(
    folder: Path,
    model: CrossNetwork,
    tokenizer: SentencePieceTokenizer,
    *,
    temperature: float,
    **facts: Unpack[network_folder.SavedFacts],
) -> str:
    """Write a rater's folder and return the rater's id."""
    return network_folder.write_network(
        folder,
        KIND,
        model,
        tokenizer,
        settings={"network": NETWORK, "config": asdict(model.config), "temperature": temperature},
        **facts,
    )


def read_cross_manifest(folder: Path) -> StoredCrossRater:
    """Read a cross rater's manifest; raise Corrupt if the folder holds something else."""
    settings = ("network", "config", "temperature")
    return network_folder.read_network_manifest(folder, KIND, CrossConfig, settings, network=NETWORK)


def open_cross_rater(folder: Path, *, spec: str = "", threads: int = 1) -> CrossRater:
    """Load a cross rater; refuse files that were altered after saving."""
    stored = read_cross_manifest(folder)
    model, tokenizer = network_folder.open_network(folder, KIND, stored, lambda: CrossNetwork(stored.config))
    return CrossRater(
        model,
        tokenizer,
        temperature=stored.temperature,
        languages=stored.languages,
        usual=stored.coverage,
        spec=spec,
        threads=threads,
    )
