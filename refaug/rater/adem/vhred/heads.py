"""Heads on the context that predict emotion and meaning of the turn that was read last (Ghandeharioun et al. 2019).

Each is linear, ReLU, linear. The logits of emotion pass another ReLU, as in the released code, unless the sizes say
otherwise. Their losses regularise the context; replies are decoded without them.

Or they are an input alone ("input only"): they read the turn's vector instead, the context hears their predictions
behind it, and no gradient passes them either way: their losses shape no other part of the network.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from refaug.rater.adem.vhred.sizes import VhredConfig

Values = NDArray[np.float32]


class HeadTargets(NamedTuple):
    """What teachers say of turns; None without a head."""

    emotion: Values | None  # (turns, classes), each row adds up to 1
    meaning: Values | None  # (turns, numbers)


class Predictions(NamedTuple):
    """What heads say of turns; None without a head."""

    emotion: Tensor | None  # logits
    meaning: Tensor | None


class InputHeads(nn.Module):
    """The heads of a network; one of size 0 is none."""

    def __init__(self, config: VhredConfig) -> None:
        super().__init__()
        self.is_emotion_positive = config.is_emotion_positive
        self.are_input = config.are_heads_input
        inputs = 2 * config.utterance if self.are_input else config.context
        self.emotion = _head(inputs, config.emotion_hidden, config.emotion)
        self.meaning = _head(inputs, config.meaning_hidden, config.meaning)

    def forward(self, contexts: Tensor) -> Predictions:
        """Return predictions from contexts (turns, context), in single precision at least."""
        with torch.autocast(contexts.device.type, enabled=False):
            emotion = None if self.emotion is None else self.emotion(contexts)
            if emotion is not None and self.is_emotion_positive:
                emotion = torch.relu(emotion)
            return Predictions(emotion, None if self.meaning is None else self.meaning(contexts))

    def inputs_with(self, utterances: Tensor) -> Tensor:
        """Return turns' vectors, and behind them what heads predict where that is an input: probabilities, numbers."""
        if not self.are_input:
            return utterances
        with torch.no_grad():
            emotion, meaning = self(utterances)
            predictions = [None if emotion is None else torch.softmax(emotion, dim=-1), meaning]
        numbers = [prediction.to(utterances.dtype) for prediction in predictions if prediction is not None]
        return torch.cat([utterances, *numbers], dim=-1)

    def read_from(self, contexts: Tensor, utterances: Tensor) -> Tensor:
        """Return what heads predict from: contexts, or vectors of turns, which they do not change."""
        return utterances.detach() if self.are_input else contexts

    def losses(self, contexts: Tensor, targets: HeadTargets) -> tuple[Tensor, Tensor]:
        """Return the mean cross-entropy with the emotions, and the mean squared error of all numbers of meanings.

        Without a head, or without turns, they are 0.
        """
        predicted, none = self(contexts), contexts.new_zeros(())
        emotion = meaning = none
        if len(contexts) and predicted.emotion is not None and targets.emotion is not None:
            logs = torch.log_softmax(predicted.emotion, dim=-1)
            emotion = -(logs * _like(targets.emotion, logs)).sum(dim=-1).mean()
        if len(contexts) and predicted.meaning is not None and targets.meaning is not None:
            meaning = (predicted.meaning - _like(targets.meaning, predicted.meaning)).square().mean()
        return emotion, meaning


def _head(inputs: int, hidden: int, outputs: int) -> nn.Sequential | None:
    return nn.Sequential(nn.Linear(inputs, hidden), nn.ReLU(), nn.Linear(hidden, outputs)) if outputs else None


def _like(values: Values, tensor: Tensor) -> Tensor:
    return torch.from_numpy(np.asarray(values)).to(tensor.device, tensor.dtype)
