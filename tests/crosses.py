"""Tiny cross raters for tests: dialogues of drawn pieces, networks of drawn weights, and the network in plain numpy."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from rubers import FIRST_PIECE, TOPICS, Text, pairs_of
from scipy.special import erf

from refaug.core.progress import Silent
from refaug.rater.cross.build import task_of
from refaug.rater.cross.examples import CrossExamples, CrossExampleSettings
from refaug.rater.cross.model import CrossNetwork
from refaug.rater.cross.sequences import CrossConfig, SequenceBatch, SequenceShape
from refaug.rater.training.loop import OnNow, TrainConfig, TrainingCourse, run
from refaug.rater.training.pair_corpus import PairCorpus

WORDS = 24
SHAPE = SequenceShape(vocabulary=FIRST_PIECE + WORDS, max_tokens=64)


def tiny_dialogues(seed: int = 1, dialogues: int = 80, turns: int = 4) -> PairCorpus:
    """Dialogues of so many turns, all of which hold the piece of the dialogue's topic."""
    rng = np.random.default_rng(seed)
    rows = list[tuple[Text, Text, int]]()
    for number in range(dialogues):
        topic = FIRST_PIECE + int(rng.integers(0, TOPICS))
        said = [_turn(topic, rng) for _ in range(turns)]
        rows += [(before, after, number) for before, after in pairwise(said)]
    return pairs_of([rows])


def _turn(topic: int, rng: np.random.Generator) -> Text:
    pieces = rng.integers(FIRST_PIECE + TOPICS, FIRST_PIECE + WORDS, rng.integers(1, 5)).tolist()
    return (*pieces[:1], topic, *pieces[1:])


def tiny_cross(seed: int = 1, **sizes: Any) -> CrossNetwork:
    """A network with drawn weights."""
    torch.manual_seed(seed)
    wanted = {"vocabulary": SHAPE.vocabulary, "embedding": 16, "hidden": 24, "layers": 2, "heads": 2, **sizes}
    return CrossNetwork(CrossConfig(max_tokens=SHAPE.max_tokens, **wanted))


def tiny_sides(corpus: PairCorpus | None = None, **settings: Any) -> tuple[CrossExamples, CrossExamples]:
    """Examples to train on and to validate on."""
    corpus = corpus or tiny_dialogues()
    wanted = CrossExampleSettings(**{"batch": 24, "validation_share": 0.3, "negatives": "random", **settings})
    return CrossExamples(corpus, "train", wanted, SHAPE), CrossExamples(corpus, "validation", wanted, SHAPE)


def tiny_course(
    folder: Path, on_now: OnNow = lambda _now: None, corpus: PairCorpus | None = None, **config: Any
) -> tuple[CrossNetwork, TrainingCourse]:
    """Train a tiny network, always from the same first weights, saved after every other batch."""
    wanted = TrainConfig(**{"epochs": 2, "learning_rate": 0.003, "dropout": 0.1, "save_every": 2, **config})
    model = tiny_cross()
    return model, run(task_of(model, *tiny_sides(corpus), wanted), wanted, folder, Silent(), on_now)


def judge_plainly(model: CrossNetwork, batch: SequenceBatch, row: int) -> float:
    """The logit of one sequence without its padding, in float64, by the equations."""
    weights, states = _weights_of(model), read_plainly(model, batch, row)
    segments = batch.segments[row, : int(batch.lengths[row])]
    turns, known, reply = (
        _norm(states[segments == segment].mean(axis=0), weights["mean_norm.weight"])
        if (segments == segment).any()
        else np.zeros(states.shape[1])
        for segment in range(3)
    )
    judged = np.concatenate([states[0], turns, reply, turns * reply, known * reply])
    wide = _gelu(judged @ weights["widen.weight"].T + weights["widen.bias"])
    return float((wide @ weights["last.weight"].T + weights["last.bias"])[0])


def read_plainly(model: CrossNetwork, batch: SequenceBatch, row: int) -> Array:
    """The states of one sequence without its padding, (time, embedding), in float64, by the equations."""
    weights, length, heads = _weights_of(model), int(batch.lengths[row]), model.config.heads
    table = np.concatenate([weights["embedding.weight"], weights["marks.weight"]])
    states = table[batch.tokens[row, :length]] + weights["segments.weight"][batch.segments[row, :length]]
    for layer in range(model.config.layers):
        states = _block(states, {name: weights[f"blocks.{layer}.{name}"] for name in _NAMES}, heads)
    return _norm(states, weights["norm.weight"])


def _weights_of(model: CrossNetwork) -> dict[str, Array]:
    return {name: tensor.detach().double().numpy() for name, tensor in model.state_dict().items()}


_NAMES = (
    "attention_norm.weight",
    "together.weight",
    "joined.weight",
    "feed_norm.weight",
    "widen.weight",
    "widen.bias",
    "narrow.weight",
    "narrow.bias",
)
Array = NDArray[np.float64]


def _norm(states: Array, weight: Array) -> Array:
    return states / np.sqrt((states**2).mean(axis=-1, keepdims=True) + np.finfo(np.float32).eps) * weight


def _block(states: Array, weights: dict[str, Array], heads: int) -> Array:
    size = states.shape[1] // heads
    parts = _norm(states, weights["attention_norm.weight"]) @ weights["together.weight"].T
    queries, keys, values = np.split(parts, 3, axis=1)
    read = []
    for head in range(heads):
        columns = slice(head * size, (head + 1) * size)
        query, key = _turned(queries[:, columns]), _turned(keys[:, columns])
        shares = np.exp(query @ key.T / np.sqrt(size))
        read.append(shares / shares.sum(axis=1, keepdims=True) @ values[:, columns])
    states = states + np.concatenate(read, axis=1) @ weights["joined.weight"].T
    wide = _norm(states, weights["feed_norm.weight"]) @ weights["widen.weight"].T + weights["widen.bias"]
    return states + _gelu(wide) @ weights["narrow.weight"].T + weights["narrow.bias"]


def _turned(states: Array) -> Array:
    """Pair i of a head turns by place / 10000^(2i / size): complex numbers say it in one product."""
    half = states.shape[1] // 2
    angles = np.arange(len(states))[:, None] / 10_000 ** (np.arange(half) / half)
    turned = (states[:, :half] + 1j * states[:, half:]) * np.exp(1j * angles)
    return np.concatenate([turned.real, turned.imag], axis=1)


def _gelu(numbers: Array) -> Array:
    return np.asarray(numbers * (1 + erf(numbers / np.sqrt(2))) / 2)
