"""How likely a cross rater finds each piece of a reply, hidden as in its training, beside all that is not hidden."""

from __future__ import annotations

from typing import Final

import numpy as np
import torch
from numpy.typing import NDArray
from torch import nn

from refaug.rater.cross.model import CrossNetwork
from refaug.rater.cross.sequences import FIRST_PIECE, MASK, REPLY_SEGMENT, SequenceBatch
from refaug.rater.torch_networks import inference

_AT_ONCE: Final = 128  # sequences
_NO_PIECE: Final = np.array([-np.inf])  # of a reply without a piece that the network can predict
LogLikelihoods = NDArray[np.float64]


def hidden_log_likelihoods(model: CrossNetwork, sequences: SequenceBatch, threads: int) -> list[LogLikelihoods]:
    """Return log p of each known piece of the reply of each sequence, in nats, when it alone is hidden."""
    is_piece = (sequences.tokens >= FIRST_PIECE) & (sequences.tokens < model.config.vocabulary)
    is_piece &= sequences.segments == REPLY_SEGMENT
    rows, places = np.nonzero(is_piece)
    logs = np.empty(len(rows))
    order = np.argsort(-sequences.lengths[rows], kind="stable")
    with inference(model, threads):
        for begin in range(0, len(order), _AT_ONCE):
            some = order[begin : begin + _AT_ONCE]
            logs[some] = _hidden(model, sequences, rows[some], places[some])
    by_row = np.split(logs, np.cumsum(is_piece.sum(axis=1))[:-1])
    return [of_reply if len(of_reply) else _NO_PIECE for of_reply in by_row]


def _hidden(
    model: CrossNetwork, sequences: SequenceBatch, rows: NDArray[np.int64], places: NDArray[np.int64]
) -> LogLikelihoods:
    """Return log p of the piece in one place of each sequence, which is hidden there."""
    lengths, at = sequences.lengths[rows], np.arange(len(rows))
    width = int(lengths.max())
    tokens, segments = sequences.tokens[rows, :width], sequences.segments[rows, :width]
    hidden = torch.from_numpy(tokens[at, places])
    tokens[at, places] = model.config.vocabulary + MASK
    states = model.read(*map(torch.from_numpy, (tokens, segments, lengths)))
    logits = model.predict_pieces(states[at, places]).double()
    return np.asarray(-nn.functional.cross_entropy(logits, hidden, reduction="none").numpy())
