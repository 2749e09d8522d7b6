"""A vhred on disk, and opened: a network with its tokenizer, which turns dialogues into vectors."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from threading import Lock
from typing import Final, Self, Unpack

import numpy as np
import torch
from numpy.typing import NDArray

from refaug.core.errors import BadInput, Usage
from refaug.core.text.sentencepiece_tokenizer import SentencePieceTokenizer
from refaug.rater.adem.vhred.encoder import DialogueBatch, DialogueStates, Turns, batch_dialogues
from refaug.rater.adem.vhred.generation import generate_replies
from refaug.rater.adem.vhred.generation_settings import GenerationSettings
from refaug.rater.adem.vhred.likelihood import LogLikelihoods, piece_log_likelihoods
from refaug.rater.adem.vhred.network import VhredNetwork
from refaug.rater.adem.vhred.sizes import STATES, State, VhredConfig
from refaug.rater.language_coverage import Coverage, unfamiliar
from refaug.rater.network_folder import SavedFacts, StoredNetwork, open_network, read_network_manifest, write_network

KIND: Final = "vhred"
_READ_AT_ONCE: Final = 512  # dialogues of like length
_WRITTEN_AT_ONCE: Final = 64  # replies

Dialogue = Sequence[str]
Vectors = NDArray[np.float32]


class Vhred:
    """A network with its tokenizer; several threads may use it.

    The same dialogue gets the same vector within 1e-5, whatever else is encoded with it.
    """

    def __init__(
        self,
        network: VhredNetwork,
        tokenizer: SentencePieceTokenizer,
        *,
        vhred_id: str = "",
        languages: Sequence[str] = (),
        usual: Coverage | None = None,
        spec: str = "",
        threads: int = 1,
    ) -> None:
        self.network, self.tokenizer, self.id, self.spec = network.eval(), tokenizer, vhred_id, spec
        self.languages, self._usual = tuple(languages), usual or Coverage()
        self._threads, self.lock = threads, Lock()

    @classmethod
    def open(cls, folder: Path, *, spec: str = "", threads: int = 1) -> Self:
        """Load a vhred; refuse files that were altered after saving."""
        stored = read_vhred_manifest(folder)
        network, tokenizer = open_network(folder, KIND, stored, lambda: VhredNetwork(stored.config))
        return cls(
            network,
            tokenizer,
            vhred_id=stored.id,
            languages=stored.languages,
            usual=stored.coverage,
            spec=spec,
            threads=threads,
        )

    @property
    def config(self) -> VhredConfig:
        """The sizes of the network."""
        return self.network.config

    def encode(self, dialogues: Sequence[Dialogue], state: State = "context") -> Vectors:
        """Return the vector of each dialogue, (dialogues, size), in the order given.

        It is the state after the last turn: of the reader of turns, or of the reader of pieces (`utterance`). Of a
        longer dialogue the last `config.turns` turns are read; a reference or a reply is a dialogue of one turn.
        """
        if state not in STATES:
            raise Usage(f"state {state!r} is not known", remedy=f"one of: {', '.join(STATES)}")
        vectors = np.empty((len(dialogues), self.config.state_size(state)), np.float32)
        places = dict[tuple[str, ...], int]()
        rows = np.array([places.setdefault(tuple(turns), len(places)) for turns in dialogues], np.int64)
        distinct = self.pieces_of(list(places))
        of_distinct = np.empty((len(places), vectors.shape[1]), np.float32)
        order = sorted(range(len(distinct)), key=lambda at: -sum(len(turn) + 1 for turn in distinct[at]))
        for begin in range(0, len(order), _READ_AT_ONCE):
            at_once = order[begin : begin + _READ_AT_ONCE]
            batch = batch_dialogues([distinct[at] for at in at_once], self.config.end)
            states = self.read(batch)
            by_end = states.contexts if state == "context" else states.utterances
            last = torch.from_numpy(batch.end_counts - 1)
            of_distinct[at_once] = by_end[torch.arange(len(at_once)), last].numpy()
        return of_distinct[rows] if len(rows) else vectors

    def log_likelihoods(self, contexts: Sequence[Dialogue], replies: Sequence[str]) -> list[LogLikelihoods]:
        """Return log p of each piece of each reply, and of its end, in nats; a context without turns is none."""
        coded = self.tokenizer.encode_ids_batch(list(replies))
        with self.lock, torch.inference_mode():
            torch.set_num_threads(self._threads)
            turns = [self._turns(context) for context in contexts]
            return piece_log_likelihoods(self.network, turns, [self._cut(ids) for ids in coded])

    def generate(self, contexts: Sequence[Dialogue], settings: GenerationSettings, seeds: Sequence[int]) -> list[str]:
        """Return a reply to each context; a seed decides everything that is drawn for its reply.

        A context without turns is the end of a turn alone: the reply begins a dialogue.
        """
        texts = list[str]()
        pieces = [self._turns(turns) if turns else [] for turns in contexts]
        for begin in range(0, len(contexts), _WRITTEN_AT_ONCE):
            at_once = slice(begin, begin + _WRITTEN_AT_ONCE)
            with self.lock:
                torch.set_num_threads(self._threads)
                replies = generate_replies(self.network, pieces[at_once], settings, seeds[at_once])
            texts += [self.tokenizer.decode_ids(reply) for reply in replies]
        return texts

    def read(self, batch: DialogueBatch) -> DialogueStates:
        """Return the states of dialogues at the ends of their turns."""
        with self.lock, torch.inference_mode():
            torch.set_num_threads(self._threads)
            return self.network.read(batch)

    def pieces_of(self, dialogues: Sequence[Dialogue]) -> list[Turns]:
        """Return the pieces of the last turns of dialogues; a turn without any is the unknown piece."""
        for number, turns in enumerate(dialogues, 1):
            if not turns:
                raise BadInput(f"dialogue {number} of {len(dialogues)} has no turn", remedy="give at least one turn")
        return [self._turns(turns) for turns in dialogues]

    def _turns(self, turns: Dialogue) -> Turns:
        last_turns = list(turns)[-self.config.turns :]
        return [self._cut(ids) for ids in self.tokenizer.encode_ids_batch(last_turns)]

    def _cut(self, ids: Sequence[int]) -> NDArray[np.int64]:
        return np.array(ids[: self.config.max_tokens] or [self.tokenizer.unk_id], np.int64)

    def coverage(self, texts: Sequence[str]) -> Coverage:
        """Return how the tokenizer cuts texts into pieces; coverages can be added up for `unfamiliar`."""
        return Coverage.of(self.tokenizer, texts)

    def unfamiliar(self, texts_coverage: Coverage) -> str | None:
        """Return why scores of texts like these mean little; None if nothing speaks against them."""
        return unfamiliar(texts_coverage, self._usual, self.languages, kind=KIND, scores_name="scores")


# On disk


StoredVhred = StoredNetwork[VhredConfig]


def save_vhred(
    folder: Path, network: VhredNetwork, tokenizer: SentencePieceTokenizer, **facts: Unpack[SavedFacts]
) -> str:
    """Write a vhred's folder and return the vhred's id."""
    return write_network(folder, KIND, network, tokenizer, settings={"config": asdict(network.config)}, **facts)


def read_vhred_manifest(folder: Path) -> StoredVhred:
    """Read a vhred's manifest; raise Corrupt if the folder holds something else."""
    return read_network_manifest(folder, KIND, VhredConfig)
