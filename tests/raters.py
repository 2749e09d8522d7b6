"""Tiny corpora, networks and raters for tests: texts of drawn piece ids, of which those that belong share a topic."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch

from refaug.core.progress import Progress, Silent
from refaug.core.text.sentencepiece_tokenizer import open_sentencepiece
from refaug.core.text.tokenizer_training import TokenizerTraining, train_sentencepiece
from refaug.rater.nn.build import task_of
from refaug.rater.nn.checkpoint import NNRater
from refaug.rater.nn.model import BiGRURater
from refaug.rater.nn.sizes import RaterConfig
from refaug.rater.rating import Rater
from refaug.rater.training.examples import ExampleCorpus, Examples, ExampleSettings
from refaug.rater.training.loop import OnEpoch, OnNow, TrainConfig, TrainingCourse, run

FIRST_PIECE = 2  # after pad and unk
TOPICS = 6  # the first pieces; every text of an utterance and its responses holds the utterance's


def tiny_corpus(
    seed: int = 1, utterances: int = 120, responses: int = 3, words: int = 24, *, related: bool = True
) -> ExampleCorpus:
    """So many utterances with so many responses each, of 2 to 6 of `words` different pieces.

    With `related=False` the responses of all utterances are dealt out anew, so that nothing can be learnt.
    """
    rng = np.random.default_rng(seed)
    topics = rng.integers(0, TOPICS, utterances)
    texts = [[_text(topic, words, rng) for _ in range(1 + responses)] for topic in topics.tolist()]
    if not related:
        dealt = rng.permutation(utterances * responses)
        pool = [text for own in texts for text in own[1:]]
        texts = [
            [own[0], *(pool[at] for at in dealt[place * responses : (place + 1) * responses])]
            for place, own in enumerate(texts)
        ]
    return corpus_of(texts, names=rng.integers(0, 2**63, utterances).tolist())


def _text(topic: int, words: int, rng: np.random.Generator) -> list[int]:
    pieces = [FIRST_PIECE + TOPICS + piece for piece in rng.integers(0, words - TOPICS, rng.integers(1, 6)).tolist()]
    return [*pieces[:1], FIRST_PIECE + topic, *pieces[1:]]


def corpus_of(texts: list[list[list[int]]], names: list[int] | None = None) -> ExampleCorpus:
    """The corpus of these texts: each utterance's pieces, and after them those of its responses."""
    flat = [text for own in texts for text in own]
    return ExampleCorpus(
        pieces=np.array([piece for text in flat for piece in text], np.uint16),
        start=np.cumsum([0, *map(len, flat)], dtype=np.int64),
        first=np.cumsum([0, *map(len, texts)], dtype=np.int64),
        names=np.array(range(len(texts)) if names is None else names, np.uint64),
    )


def tiny_model(
    vocabulary: int = FIRST_PIECE + 24,
    *,
    embedding: int = 8,
    hidden: int = 8,
    width: int = 16,
    layers: int = 2,
    max_tokens: int = 16,
    seed: int = 1,
) -> BiGRURater:
    """A network of such sizes with drawn weights."""
    torch.manual_seed(seed)
    return BiGRURater(
        RaterConfig(
            vocabulary=vocabulary,
            embedding=embedding,
            hidden=hidden,
            width=width,
            layers=layers,
            max_tokens=max_tokens,
        )
    )


def tiny_rater(texts: Sequence[str], folder: Path, *, pieces: int = 100, temperature: float = 1.0) -> Rater:
    """Such a network that was taught nothing and yet has opinions, over at most so many pieces of these texts."""
    train_sentencepiece(iter(texts), folder / "tiny.model", TokenizerTraining(vocab_size=pieces, at_most=True))
    tokenizer = open_sentencepiece(folder / "tiny.model")
    model = tiny_model(tokenizer.vocab_size)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.mul_(2.5)  # as torch draws them, all texts are rated alike
    return NNRater(model, tokenizer, temperature=temperature, spec="tiny@1#0123456789ab")


def tiny_examples(corpus: ExampleCorpus | None = None, **given: Any) -> tuple[Examples, Examples]:
    """Training and validation examples, of a corpus of 80 utterances unless another is given."""
    settings = ExampleSettings(**{"batch": 40, "validation_share": 0.3, **given})
    corpus = corpus or tiny_corpus(utterances=80)
    return Examples(corpus, "train", settings, 16), Examples(corpus, "validation", settings, 16)


@dataclass(frozen=True, kw_only=True)
class TrainedRater(TrainingCourse):
    """The network with the least validation loss, and the course of its training."""

    model: BiGRURater


def train(
    model: BiGRURater,
    examples: Examples,
    validation: Examples,
    config: TrainConfig,
    folder: Path,
    progress: Progress,
    on_now: OnNow = lambda _now: None,
    on_epoch: OnEpoch = lambda _figures: None,
) -> TrainedRater:
    """Train until the validation loss stops falling; continue from a checkpoint in `folder` if there is one.

    The training changes the model.
    """
    course = run(task_of(model, examples, validation, config), config, folder, progress, on_now, on_epoch)
    return TrainedRater(model=model, best_epoch=course.best_epoch, epochs=course.epochs)


def tiny_training(
    folder: Path,
    on_now: OnNow = lambda _now: None,
    on_epoch: OnEpoch = lambda _figures: None,
    **config: Any,
) -> TrainedRater:
    """Train a tiny network on them, always from the same first weights, saved after every other batch."""
    asked = TrainConfig(**{"epochs": 3, "learning_rate": 0.01, "save_every": 2, **config})
    return train(tiny_model(), *tiny_examples(), asked, folder, Silent(), on_now, on_epoch)
