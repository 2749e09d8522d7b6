"""Tiny VHCRs with heads for tests; and their equations once more, in plain numpy, one dialogue after another."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Any

import numpy as np
from vhreds import Doubles, Pieces, PlainStates, PlainVhred, tiny_vhred_network

from refaug.rater.adem.vhred.network import VhredNetwork

CONVERSATION: dict[str, Any] = {"conversation": 4}
HEADS: dict[str, Any] = {"emotion": 3, "emotion_hidden": 5, "meaning": 2, "meaning_hidden": 4}


def tiny_vhcr_network(seed: int = 1, **sizes: Any) -> VhredNetwork:
    """A VHCR with heads whose weights are all drawn."""
    return tiny_vhred_network(seed, **{**CONVERSATION, **HEADS, **sizes})


class PlainVhcr(PlainVhred):
    """The equations of a VHCR in double precision, without batches."""

    def conversation(self, utterances: Sequence[Doubles]) -> tuple[Doubles, Doubles]:
        """Mean and variance of the conversation's variable after the vectors at all ends."""
        size = self.config.conversation
        if len(utterances) == 1:
            return np.zeros(size), np.ones(size)
        last = list[Doubles]()
        for direction, ordered in enumerate((utterances[1:], utterances[:0:-1])):
            state = np.zeros(self.config.context)
            for utterance in ordered:
                state = self.step("conversation.reader", direction, utterance, state)
            last.append(state)
        return self.gaussian("conversation.posterior_layers", np.concatenate(last), scale=1.0)

    def read_with(
        self, dialogue: Sequence[Pieces], drawn: Doubles | None = None, dropped: Collection[int] = ()
    ) -> PlainStates:
        """The states with a value of the conversation's variable, by default its mean; `dropped` ends are not heard."""
        utterances, contexts = self.utterances(dialogue), list[Doubles]()
        variable = self.conversation(utterances)[0] if drawn is None else drawn
        context = np.tanh(
            self.weights["conversation.start.weight"] @ variable + self.weights["conversation.start.bias"]
        )
        heard = [
            self.weights["conversation.dropped"][0] if end in dropped else each for end, each in enumerate(utterances)
        ]
        for utterance in heard:
            context = self.step("encoder.turns", 0, np.concatenate([self.told(utterance), variable]), context)
            contexts.append(np.concatenate([context, variable]))
        return PlainStates(heard, contexts)

    def read(self, dialogue: Sequence[Pieces]) -> PlainStates:
        """The states with the variable at its mean."""
        return self.read_with(dialogue)
