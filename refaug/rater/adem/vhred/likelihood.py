"""Likelihoods of replies: log p of every piece of a reply, given a context or given nothing.

The latent variable is at the mean of its Gaussian before the reply is seen, so these are probabilities of replies and
no bounds: over all replies to a context they add up to 1.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch
from numpy.typing import NDArray
from torch import nn

from refaug.rater.adem.vhred.encoder import Turns, batch_dialogues
from refaug.rater.adem.vhred.network import VhredNetwork
from refaug.rater.adem.vhred.packing import Numbers
from refaug.rater.adem.vhred.turns import pack_turns

LogLikelihoods = NDArray[np.float64]
_AT_ONCE = 256  # replies of like length


def piece_log_likelihoods(
    network: VhredNetwork, contexts: Sequence[Turns], replies: Sequence[Numbers]
) -> list[LogLikelihoods]:
    """Return log p of each piece of each reply and of its end, in nats; a context without turns is no context."""
    device = network.embedding.device
    logs: list[LogLikelihoods] = [np.empty(0)] * len(replies)
    order = np.argsort([-len(reply) for reply in replies], kind="stable")
    for begin in range(0, len(order), _AT_ONCE):
        at_once = order[begin : begin + _AT_ONCE]
        batch = batch_dialogues([contexts[at] for at in at_once], network.config.end)
        turns = pack_turns([replies[at] for at in at_once], network.config.end)
        with torch.inference_mode():
            states = network.read(batch)
            rows, ends = torch.from_numpy(turns.order).to(device), torch.from_numpy(batch.end_counts - 1).to(device)
            conditions = network.condition(states.contexts[rows, ends[rows]], states.utterances[rows, ends[rows]], None)
            logits = network.decode(turns, conditions).double()
            targets = torch.from_numpy(turns.targets).to(device)
            packed = -nn.functional.cross_entropy(logits, targets, reduction="none").cpu().numpy()
        by_turn = np.argsort(turns.rows, kind="stable")
        for row, of_reply in enumerate(np.split(packed[by_turn], np.cumsum(turns.lengths)[:-1])):
            logs[at_once[turns.order[row]]] = of_reply
    return logs
