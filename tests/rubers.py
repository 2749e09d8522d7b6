"""Tiny pairs and networks for tests of RUBER's unreferenced part; and that part once more, in plain numpy."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from refaug.core.progress import Silent
from refaug.rater.ruber.build import PairExamples, task_of
from refaug.rater.ruber.network import RuberConfig, RuberNetwork
from refaug.rater.training.loop import OnEpoch, OnNow, TrainConfig, TrainingCourse, run
from refaug.rater.training.pair_corpus import PairCorpus, PairSettings

FIRST_PIECE = 2  # after pad and unk
TOPICS = 6  # the first pieces; an utterance and its replies hold the same one
MARGIN = 0.5

Text = tuple[int, ...]


def tiny_pairs(seed: int = 1, dialogues: int = 200, words: int = 24, *, related: bool = True) -> PairCorpus:
    """So many dialogues of one pair each, texts of 2 to 6 of `words` pieces; not `related`, nothing can be learnt."""
    rng = np.random.default_rng(seed)
    topics = rng.integers(0, TOPICS, dialogues)
    said = topics if related else rng.permutation(topics)
    rows = [(_text(one, words, rng), _text(other, words, rng)) for one, other in zip(topics, said, strict=True)]
    return pairs_of([[(utterance, reply, number) for number, (utterance, reply) in enumerate(rows)]])


def _text(topic: int, words: int, rng: np.random.Generator) -> Text:
    pieces = [FIRST_PIECE + TOPICS + piece for piece in rng.integers(0, words - TOPICS, rng.integers(1, 6)).tolist()]
    return (*pieces[:1], FIRST_PIECE + int(topic), *pieces[1:])


def pairs_of(logs: Sequence[Sequence[tuple[Text, Text, int]]]) -> PairCorpus:
    """The corpus of these logs' rows: utterance, reply, number of the dialogue. Texts are equal if their pieces are."""
    rows = [row for log in logs for row in log]
    texts = dict[Text, int]()
    for utterance, reply, _ in rows:
        for text in (utterance, reply):
            texts.setdefault(text, len(texts))
    names = {text: hash_of(text) for text in texts}
    return PairCorpus(
        pieces=np.array([piece for text in texts for piece in text], np.uint16),
        start=np.cumsum([0, *map(len, texts)], dtype=np.int64),
        utterance=np.array([texts[utterance] for utterance, _, _ in rows], np.int32),
        reply=np.array([texts[reply] for _, reply, _ in rows], np.int32),
        asked=np.array([names[utterance] for utterance, _, _ in rows], np.uint64),
        said=np.array([names[reply] for _, reply, _ in rows], np.uint64),
        dialogue=np.array([1_000 * at + number for at, log in enumerate(logs) for _, _, number in log], np.uint64),
        first=np.cumsum([0, *map(len, logs)], dtype=np.int64),
    )


def hash_of(text: Text) -> int:
    """As good as any: the same for the same text, and not near that of another one."""
    return int(np.random.default_rng([7, *text]).integers(0, 2**63))


def tiny_network(vocabulary: int = FIRST_PIECE + 24, *, seed: int = 1, **sizes: Any) -> RuberNetwork:
    """A network with drawn weights."""
    torch.manual_seed(seed)
    wanted = {"embedding": 8, "hidden": 8, "width": 16, "max_tokens": 16, **sizes}
    return RuberNetwork(RuberConfig(vocabulary=vocabulary, **wanted))


def tiny_sides(corpus: PairCorpus | None = None, **given: Any) -> tuple[PairExamples, PairExamples]:
    """Both sides of a corpus."""
    settings = PairSettings(**{"batch": 20, "validation_share": 0.3, **given})
    corpus = tiny_pairs() if corpus is None else corpus
    return PairExamples(corpus, "train", settings, 16), PairExamples(corpus, "validation", settings, 16)


def tiny_course(
    folder: Path,
    on_now: OnNow = lambda _now: None,
    on_epoch: OnEpoch = lambda _figures: None,
    **config: Any,
) -> tuple[RuberNetwork, TrainingCourse]:
    """Train a tiny network on them, always from the same first weights, saved after every other batch."""
    asked = TrainConfig(**{"epochs": 3, "learning_rate": 0.01, "save_every": 2, **config})
    model = tiny_network()
    return model, run(task_of(model, *tiny_sides(), MARGIN, asked), asked, folder, Silent(), on_now, on_epoch)


# The network in plain numpy, double precision


def score_plainly(model: RuberNetwork, utterance: Sequence[int], reply: Sequence[int]) -> float:
    """s(q, r) of two texts as piece ids."""
    weights = {name: tensor.detach().double().numpy() for name, tensor in model.state_dict().items()}
    config = model.config
    q = read_plainly(weights, "readers.0", utterance, config.hidden)
    r = read_plainly(weights, f"readers.{config.readers - 1}", reply, config.hidden)
    state = np.concatenate([q, [q @ weights["quadratic"] @ r], r])
    for layer in range(config.layers):
        state = np.tanh(weights[f"hidden.{layer}.weight"] @ state + weights[f"hidden.{layer}.bias"])
    return float(_sigmoid(weights["last.weight"] @ state + weights["last.bias"])[0])


def read_plainly(
    weights: dict[str, NDArray[np.float64]], reader: str, ids: Sequence[int], hidden: int
) -> NDArray[np.float64]:
    """The last state of a GRU (Cho et al. 2014, reset after the product) from left to right, and from right to left."""
    ends = []
    for way, order in (("l0", list(ids)), ("l0_reverse", list(ids)[::-1])):
        state = np.zeros(hidden)
        for piece in order:
            seen = weights[f"{reader}.weight_ih_{way}"] @ weights["embedding.weight"][piece]
            seen = np.split(seen + weights[f"{reader}.bias_ih_{way}"], 3)
            kept = np.split(weights[f"{reader}.weight_hh_{way}"] @ state + weights[f"{reader}.bias_hh_{way}"], 3)
            reset, update = _sigmoid(seen[0] + kept[0]), _sigmoid(seen[1] + kept[1])
            state = (1 - update) * np.tanh(seen[2] + reset * kept[2]) + update * state
        ends.append(state)
    return np.concatenate(ends)


def _sigmoid(values: NDArray[np.float64]) -> NDArray[np.float64]:
    return np.asarray(1 / (1 + np.exp(-values)))
