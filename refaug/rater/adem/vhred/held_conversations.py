"""The variable of a conversation while replies are written: held from reply to reply, or inferred for each of them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from refaug.rater.adem.vhred.encoder import Turns, batch_dialogues
from refaug.rater.adem.vhred.gaussians import Gaussian
from refaug.rater.adem.vhred.network import VhredNetwork


class HeldConversation(NamedTuple):
    """What stays as it is while a conversation goes on, and so holds the variable."""

    opening: Turns  # turns before the first reply; none where the network begins
    seed: int


def conversation_draw(
    network: VhredNetwork,
    conversations: Sequence[HeldConversation] | None,
    generators: Sequence[np.random.Generator] | None,
) -> Callable[[Gaussian], Tensor]:
    """Return how the variable is chosen, given its Gaussian after the turns that are read.

    Held, it is that of the opening of each conversation. Without conversations it is inferred for each reply, as in
    the released code of Ghandeharioun et al. (2019). It is drawn where `generators` draw, and otherwise the mean.
    """

    def choose(after: Gaussian) -> Tensor:
        drawing = generators
        if conversations is not None and network.conversation is not None:
            opened = batch_dialogues([each.opening for each in conversations], network.config.end)
            after = network.conversation.posterior(
                network.encoder.utterances(opened, network.embedding), opened.end_counts
            )
            if generators is not None:
                drawing = [np.random.default_rng([each.seed, 8]) for each in conversations]
        if drawing is None:
            return after.mean
        noise = np.stack([generator.standard_normal(network.config.conversation) for generator in drawing])
        return after.sample(torch.from_numpy(noise).float())

    return choose
