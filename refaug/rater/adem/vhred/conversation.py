"""The variable of a whole conversation, which makes a VHRED a VHCR (Park et al. 2018).

Before anything is said it is standard normal. A GRU that reads the vectors of all turns in both directions gives the
Gaussian after them. Its value is the first state of the reader of turns, after a linear map and tanh, and stands beside
all that depends on the context: the inputs of that reader, both Gaussians of a turn, and what a turn is decoded from.

In training some vectors of turns are replaced by a learned one, so that the reader of turns has less without the
variable. The Gaussian of the conversation, and that of the turn that is decoded, read the vectors as they are. Unlike
in the paper, the vector of the turn after a dropped one still holds it, since the reader of pieces is not reset.
"""

from __future__ import annotations

from typing import Literal, Protocol

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from refaug.rater.adem.vhred.encoder import GatedCell
from refaug.rater.adem.vhred.gaussians import Gaussian, GaussianLayers, standard_like
from refaug.rater.adem.vhred.sizes import VhredConfig

DropBy = Literal["turn", "place"]


class ConversationVariable(nn.Module):
    """What reads the variable of a conversation from its turns, and what the reader of turns begins with."""

    def __init__(self, config: VhredConfig) -> None:
        super().__init__()
        self.size = config.conversation
        vectors = 2 * config.utterance
        self.reader = GatedCell(vectors, config.context, cells=2, is_normalised=config.is_normalised)
        self.posterior_layers = GaussianLayers(2 * config.context, self.size, variance_scale=1.0)
        self.start = nn.Linear(self.size, config.context)
        self.dropped = nn.Parameter(torch.empty(1, vectors))  # in place of a turn's vector

    def posterior(self, utterances: Tensor, end_counts: NDArray[np.int64]) -> Gaussian:
        """Return the Gaussians after the turns, from the vectors at all ends; after no turn it is that before.

        Both directions step through all turns at once, the second from each dialogue's last turn on.
        """
        dialogues, ends = utterances.shape[:2]
        if ends == 1:
            return Gaussian(utterances.new_zeros(dialogues, self.size), utterances.new_ones(dialogues, self.size))
        turns, device = end_counts - 1, utterances.device
        forwards = np.broadcast_to(np.arange(ends - 1)[:, None], (ends - 1, dialogues))
        backwards = np.maximum(turns - 1 - forwards, 0)  # beyond a dialogue's first turn, nothing is read of the states
        places = np.stack([forwards, backwards]) + (ends - 1) * np.arange(2 * dialogues).reshape(2, 1, dialogues)
        last = np.maximum(turns - 1, 0) * dialogues + np.arange(dialogues)
        with torch.autocast(device.type, enabled=False):
            vectors = utterances[:, 1:].flatten(0, 1).to(self.dropped.dtype)
            gates = self.reader.gates_of(vectors).flatten(0, 1)  # (2 * dialogues * turns, 3 * context)
            by_step = nn.functional.embedding(torch.from_numpy(places.reshape(2, -1)).to(device), gates)
            begin = by_step.new_zeros(2, dialogues, self.reader.units)
            states = self.reader.run(by_step, [dialogues] * (ends - 1), begin)
            ending = states[:, torch.from_numpy(last).to(device)]  # (2, dialogues, context)
            after: Gaussian = self.posterior_layers(torch.cat([ending[0], ending[1]], dim=-1))
        is_begun, before = torch.from_numpy(turns > 0).to(device)[:, None], standard_like(after)
        return Gaussian(
            torch.where(is_begun, after.mean, before.mean), torch.where(is_begun, after.variance, before.variance)
        )

    def first_states(self, values: Tensor) -> Tensor:
        """Return the states of the reader of turns before the first end, (dialogues, context)."""
        return torch.tanh(self.start(values))

    def drop(self, utterances: Tensor, is_dropped: NDArray[np.bool_] | None) -> Tensor:
        """Return the vectors, those of dropped turns (dialogues, ends) replaced by the learned one."""
        if is_dropped is None:
            return utterances
        return torch.where(torch.from_numpy(is_dropped).to(utterances.device)[..., None], self.dropped, utterances)


class SentenceDrop(Protocol):
    """Settings of the turns that are dropped."""

    @property
    def sentence_drop(self) -> float:
        """The share."""

    @property
    def drop_by(self) -> DropBy:
        """Whether each turn is drawn, or each place for all dialogues of a batch.

        Park et al. (2018) tell the first; the released code of Ghandeharioun et al. (2019) does the second.
        """

    @property
    def seed(self) -> int:
        """The seed of all draws."""


def draw_dropped(end_counts: NDArray[np.int64], settings: SentenceDrop, number: int) -> NDArray[np.bool_] | None:
    """Return which turns of dialogues are dropped in a batch by its number, (dialogues, ends); None if none ever is.

    What comes before the first turn stays.
    """
    if not settings.sentence_drop:
        return None
    shape = (len(end_counts) if settings.drop_by == "turn" else 1, int(end_counts.max()))
    drawn = np.random.default_rng([settings.seed, 5, number]).random(shape) < settings.sentence_drop
    drawn[:, 0] = False
    return np.broadcast_to(drawn, (len(end_counts), shape[1])).copy()
