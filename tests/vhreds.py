"""Tiny VHREDs for tests; and their equations once more, in plain numpy, one dialogue after another."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray

from refaug.core.text.sentencepiece_tokenizer import open_sentencepiece
from refaug.core.text.tokenizer_training import TokenizerTraining, train_sentencepiece
from refaug.rater.adem.vhred.artefact import Vhred
from refaug.rater.adem.vhred.network import VhredNetwork, new_vhred
from refaug.rater.adem.vhred.sizes import VhredConfig

Doubles = NDArray[np.float64]
Pieces = Sequence[int]
VOCABULARY = 30
SIZES: dict[str, Any] = {"embedding": 5, "utterance": 4, "context": 6, "latent": 3, "decoder": 7, "max_tokens": 12}
SENTENCES = [
    f"{start} {verb} the {thing} {place}"
    for start in ("i", "you", "we", "they all")
    for verb in ("see", "want", "buy", "never find")
    for thing in ("red boat", "old map", "warm bread", "tall lamp", "green tea")
    for place in ("at the harbour", "near the mill", "on sundays")
]


def tiny_vhred_network(seed: int = 1, *, vocabulary: int = VOCABULARY, **sizes: Any) -> VhredNetwork:
    """A network whose weights are all drawn, also those that begin as ones and zeros."""
    network = new_vhred(VhredConfig(vocabulary=vocabulary, **{**SIZES, **sizes}), seed, None)
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for parameter in network.parameters():
            parameter.add_(torch.randn(parameter.shape, generator=generator) * 0.3)
    return network.eval()


def tiny_vhred(folder: Path, seed: int = 1, **sizes: Any) -> Vhred:
    """A network with a tokenizer of its own."""
    path = folder / "tiny.model"
    train_sentencepiece(SENTENCES, path, TokenizerTraining(vocab_size=80, method="bpe", at_most=True))
    tokenizer = open_sentencepiece(path)
    network = tiny_vhred_network(seed, vocabulary=tokenizer.vocab_size + 1, **sizes)
    return Vhred(network, tokenizer, languages=("en",))


class PlainStates(NamedTuple):
    """The states of one dialogue at every end of a turn."""

    utterances: list[Doubles]
    contexts: list[Doubles]


class PlainVhred:
    """The equations of a network in double precision, without batches."""

    def __init__(self, network: VhredNetwork) -> None:
        self.config = network.config
        self.weights = {name: tensor.detach().double().numpy() for name, tensor in network.state_dict().items()}

    def read(self, dialogue: Sequence[Pieces]) -> PlainStates:
        """The states at the end that comes first, and after each turn."""
        context, utterances, contexts = np.zeros(self.config.context), self.utterances(dialogue), list[Doubles]()
        for utterance in utterances:
            context = self.step("encoder.turns", 0, self.told(utterance), context)
            contexts.append(context)
        return PlainStates(utterances, contexts)

    def told(self, utterance: Doubles) -> Doubles:
        """What the context hears of a turn: its vector, and behind it what heads predict where that is an input."""
        if not self.config.are_heads_input:
            return utterance
        return np.concatenate([utterance, softmax(self.head("emotion", utterance)), self.head("meaning", utterance)])

    def head(self, name: str, seen: Doubles) -> Doubles:
        """What a head says; its logits of emotion are never negative, unless the sizes say so."""
        first, second = f"heads.{name}.0", f"heads.{name}.2"
        hidden = np.maximum(self.weights[f"{first}.weight"] @ seen + self.weights[f"{first}.bias"], 0)
        said = self.weights[f"{second}.weight"] @ hidden + self.weights[f"{second}.bias"]
        return np.asarray(np.maximum(said, 0) if name == "emotion" and self.config.is_emotion_positive else said)

    def utterances(self, dialogue: Sequence[Pieces]) -> list[Doubles]:
        """The vectors at the end that comes first, and after each turn."""
        end, utterances = self.config.end, list[Doubles]()
        states = [np.zeros(self.config.utterance), np.zeros(self.config.utterance)]
        for turn in ([], *dialogue):
            for direction, pieces in enumerate((list(turn), list(turn)[::-1])):
                for piece in (*pieces, end):
                    embedded = self.weights["embedding"][piece]
                    states[direction] = self.step("encoder.pieces", direction, embedded, states[direction])
            utterances.append(np.concatenate(states))
        return utterances

    def step(self, cell: str, number: int, seen: Doubles, state: Doubles) -> Doubles:
        """One step of a cell."""
        weights = {
            name.removeprefix(f"{cell}."): weight[number]
            for name, weight in self.weights.items()
            if name.startswith(f"{cell}.")
        }
        units = len(state)
        is_normalised, has_overwrite = "input_gain" in weights, "overwrite_weight" in weights

        def gate(block: int) -> Doubles:
            columns = slice(block * units, (block + 1) * units)
            of_input, of_state = seen @ weights["input_weight"][:, columns], state @ weights["gate_weight"][:, columns]
            if is_normalised:
                of_input = weights["input_gain"][0, columns] * layer_normalised(of_input)
                of_state = weights["gate_gain"][0, columns] * layer_normalised(of_state)
            return logistic(of_input + of_state + weights["bias"][0, columns])

        reset, update = gate(0), gate(1)
        columns = slice((3 if has_overwrite else 2) * units, None)
        of_input, of_state = seen @ weights["input_weight"][:, columns], (reset * state) @ weights["candidate_weight"]
        if is_normalised:
            of_input = weights["input_gain"][0, columns] * layer_normalised(of_input)
            of_state = weights["candidate_gain"][0] * layer_normalised(of_state)
        candidate = np.tanh(of_input + of_state + weights["bias"][0, columns])
        if has_overwrite:
            overwrite = gate(2)
            through = seen @ weights["overwrite_weight"] + weights["overwrite_bias"][0]
            candidate = (1 - overwrite) * candidate + overwrite * through
        return np.asarray((1 - update) * state + update * candidate)

    def gaussian(self, layers: str, seen: Doubles, scale: float = 0.1) -> tuple[Doubles, Doubles]:
        """Mean and variance that layers give."""
        for layer in ("wide", "narrow"):
            weights = {name: self.weights[f"{layers}.{layer}.{name}"] for name in _LAYER}
            curved = weights["curved_gain"][0] * layer_normalised(
                seen @ weights["curved_weight"] + weights["curved_bias"][0]
            )
            straight = weights["straight_gain"][0] * layer_normalised(seen @ weights["straight_weight"])
            seen = np.tanh(curved) + straight + weights["straight_bias"][0]
        mean, spread = (
            self.weights[f"{layers}.{name}.weight"] @ seen + self.weights[f"{layers}.{name}.bias"]
            for name in ("mean", "variance")
        )
        return mean, np.clip(scale * np.log1p(np.exp(spread)), 0.01, 10)

    def prior(self, context: Doubles) -> tuple[Doubles, Doubles]:
        """Mean and variance before a turn is seen."""
        return self.gaussian("latent.prior_layers", context)

    def posterior(self, context: Doubles, utterance: Doubles) -> tuple[Doubles, Doubles]:
        """Mean and variance after a turn is seen."""
        before = self.prior(context)
        candidate = self.gaussian("latent.posterior_layers", np.concatenate([context, utterance]))
        shares = [self.weights[f"latent.{name}_share"] for name in ("mean", "variance")]
        mean, variance = (
            share * of_prior + (1 - share) * own for share, of_prior, own in zip(shares, before, candidate, strict=True)
        )
        return mean, np.clip(variance, 0.01, 10)

    def log_likelihoods(self, turn: Pieces, condition: Doubles, inputs: Pieces | None = None) -> Doubles:
        """log p of each piece of a turn and of its end; `inputs` are the pieces that the decoder sees instead."""
        state = np.tanh(self.weights["decoder.start.weight"] @ condition + self.weights["decoder.start.bias"])
        conditioned = self.weights["decoder.condition_gates.weight"] @ condition
        logs = list[float]()
        for before, after in zip((None, *(turn if inputs is None else inputs)), (*turn, self.config.end), strict=True):
            embedded = np.zeros(self.config.embedding) if before is None else self.weights["embedding"][before]
            state = self._decode(embedded, conditioned, state)
            features = (
                self.weights["decoder.state_output.weight"] @ state
                + self.weights["decoder.piece_output.weight"] @ embedded
                + self.weights["decoder.condition_output.weight"] @ condition
            )
            logits = self.weights["decoder.table"] @ features + self.weights["decoder.table_bias"]
            logs.append(float(logits[after] - logits.max() - np.log(np.exp(logits - logits.max()).sum())))
        return np.array(logs)

    def _decode(self, embedded: Doubles, conditioned: Doubles, state: Doubles) -> Doubles:
        weights = {name: self.weights[f"decoder.cell.{name}"][0] for name in _DECODER}
        seen = embedded @ weights["input_weight"] + weights["bias"][0] + conditioned
        units = len(state)
        reset, update = (
            logistic(seen[begin : begin + units] + state @ weights["gate_weight"][:, begin : begin + units])
            for begin in (0, units)
        )
        candidate = np.tanh(seen[2 * units :] + (reset * state) @ weights["candidate_weight"])
        return np.asarray((1 - update) * state + update * candidate)


_LAYER = (
    *("curved_weight", "curved_bias", "curved_gain"),
    *("straight_weight", "straight_gain", "straight_bias"),
)
_DECODER = ("input_weight", "bias", "gate_weight", "candidate_weight")


def plain_divergence(posterior: tuple[Doubles, Doubles], prior: tuple[Doubles, Doubles]) -> float:
    """KL of two diagonal Gaussians, one dimension after another."""
    total = 0.0
    for mean, variance, mean_before, variance_before in zip(*posterior, *prior, strict=True):
        ratio = variance / variance_before
        total += 0.5 * (ratio - 1 - np.log(ratio) + (mean - mean_before) ** 2 / variance_before)
    return float(total)


def layer_normalised(numbers: Doubles) -> Doubles:
    """LN of one gate's units."""
    return np.asarray((numbers - numbers.mean()) / np.sqrt(numbers.var() + 1e-7))


def softmax(logits: Doubles) -> Doubles:
    """Probabilities of logits."""
    likely = np.exp(logits - logits.max())
    return np.asarray(likely / likely.sum())


def logistic(numbers: Doubles) -> Doubles:
    """σ."""
    return np.asarray(1 / (1 + np.exp(-numbers)))
