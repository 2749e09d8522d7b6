"""Hard negatives of logs as texts, to be read before training on them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import Final

import numpy as np

from refaug.core.artefacts.build_stages import Stages
from refaug.core.errors import Usage
from refaug.core.files import remove_tree
from refaug.core.progress import Progress
from refaug.core.query_engine import occupy_scratch, scratch_in
from refaug.rater.nn.build import RaterOrder, find_hard_partners, prepare
from refaug.rater.training.corpus import open_corpus, shared_rows
from refaug.rater.training.examples import ExampleCorpus, Texts
from refaug.rater.training.hard_negatives import HardPartners
from refaug.rater.training.initial_embeddings import LearnVectors
from refaug.rater.training.order import Training, open_training_logs

READ: Final = 100


@dataclass(frozen=True, kw_only=True)
class HardNegative:
    """A response to an utterance, and a response to another utterance that the rater must separate from it."""

    utterance: str
    response: str
    hard: str
    answered: str  # the utterance that the hard negative answers


@dataclass(frozen=True, kw_only=True)
class HardNegatives:
    """Some hard negatives, and the share of the responses without one."""

    negatives: tuple[HardNegative, ...]
    without_partner: float


def hard_negatives(
    logs: Path, cache: Path, order: RaterOrder, learn_vectors: LearnVectors, progress: Progress, *, count: int = READ
) -> HardNegatives:
    """Return up to `count` hard negatives that the training of an order would draw, of different responses.

    No network is trained. The vectors and shared utterances computed for it are deleted afterwards.
    """
    if order.start != "vectors":
        raise Usage("hard negatives are found by vectors of the pieces", remedy="start=vectors")
    sources = open_training_logs(logs, order)
    with _scratch(cache) as folder:
        training = Training(
            order=order, sources=sources, stages=Stages(folder), progress=progress, learn_vectors=learn_vectors
        )
        prepare(training, cache, with_short=False)
        corpus = open_corpus(folder)
        partners = find_hard_partners(corpus, "train", order, folder, progress)
        rows = _draw_rows(corpus, partners, count, order.examples.seed)
        texts = _texts(folder, rows)
    return HardNegatives(
        negatives=tuple(
            HardNegative(utterance=texts[u], response=texts[r], hard=texts[h], answered=texts[v])
            for u, r, v, h in rows.tolist()
        ),
        without_partner=partners.without_partner,
    )


@contextmanager
def _scratch(cache: Path) -> Iterator[Path]:
    """Create a folder that is deleted when the block ends or, after a kill, when the next engine starts."""
    folder = scratch_in(cache)
    with occupy_scratch(folder):
        try:
            yield folder
        finally:
            remove_tree(folder)


def _draw_rows(corpus: ExampleCorpus, hard_partners: HardPartners, count: int, seed: int) -> Texts:
    """Return rows of texts: utterance, response, utterance, hard negative, as in examples."""
    rng = np.random.default_rng(seed)
    responses = rng.permutation(np.flatnonzero(hard_partners.partners[:, 0] >= 0))[:count]
    choices = (hard_partners.partners[responses] >= 0).sum(axis=1)
    hard_responses = hard_partners.partners[responses, rng.integers(0, np.maximum(choices, 1))]
    return np.stack(
        [corpus.utterances_of(responses), responses, corpus.utterances_of(hard_responses), hard_responses], axis=1
    )


def _texts(folder: Path, rows: Texts) -> Mapping[int, str]:
    """Read the texts with these numbers from the file of all texts."""
    numbers = set(rows.ravel().tolist())
    every = chain.from_iterable((row["utterance"], *row["responses"]) for row in shared_rows(folder))
    return {number: text for number, text in enumerate(every) if number in numbers}
