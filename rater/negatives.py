"""Hard negatives of logs as texts, to be read before anything is trained on them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import Final

import numpy as np

from core.engine import IN_USE, scratch_in
from core.errors import Usage
from core.files import hold, make_folder, remove_tree
from core.progress import Progress
from core.stages import Stages
from rater.embeddings import LearnVectors
from rater.examples import Corpus, Texts
from rater.hard import Hard
from rater.making import RaterOrder, ground_of, hard_of, prepare
from rater.mining import open_corpus, shared_rows

READ: Final = 100


@dataclass(frozen=True, kw_only=True)
class HardNegative:
    """A response to an utterance, and one to another utterance that is to be told from it."""

    utterance: str
    response: str
    hard: str
    answered: str  # the utterance that the hard one was said to


@dataclass(frozen=True, kw_only=True)
class HardNegatives:
    """Some of them, and the share of the responses that have none."""

    negatives: tuple[HardNegative, ...]
    without_partner: float


def hard_negatives(
    logs: Path, cache: Path, order: RaterOrder, learn_vectors: LearnVectors, progress: Progress, *, count: int = READ
) -> HardNegatives:
    """Up to so many that the training of an order would draw from, of different responses; no network is trained.

    Shared utterances are found and vectors learnt for it, and all of that is gone afterwards.
    """
    if order.start != "vectors":
        raise Usage("hard negatives are found by vectors of the pieces", remedy="start=vectors")
    ground = ground_of(logs, order)
    with _scratch(cache) as folder:
        prepare(ground, order, Stages(folder), cache, learn_vectors, progress, with_short=False)
        corpus = open_corpus(folder)
        found = hard_of(corpus, "train", order, folder, progress)
        rows = _drawn(corpus, found, count, order.examples.seed)
        texts = _texts(folder, rows)
    return HardNegatives(
        negatives=tuple(
            HardNegative(utterance=texts[u], response=texts[r], hard=texts[h], answered=texts[v])
            for u, r, v, h in rows.tolist()
        ),
        without_partner=found.without_partner,
    )


@contextmanager
def _scratch(cache: Path) -> Iterator[Path]:
    """A folder that goes when the work ends, or, after a kill, when the next engine is started."""
    folder = scratch_in(cache)
    make_folder(folder)
    lock = hold(folder / IN_USE)
    try:
        yield folder
    finally:
        lock.close()
        remove_tree(folder)


def _drawn(corpus: Corpus, found: Hard, count: int, seed: int) -> Texts:
    """Rows of texts: utterance, response, utterance, hard negative, as in examples."""
    rng = np.random.default_rng(seed)
    having = rng.permutation(np.flatnonzero(found.partners[:, 0] >= 0))[:count]
    choices = (found.partners[having] >= 0).sum(axis=1)
    hard = found.partners[having, rng.integers(0, np.maximum(choices, 1))]
    return np.stack([corpus.answered(having), having, corpus.answered(hard), hard], axis=1)


def _texts(folder: Path, rows: Texts) -> Mapping[int, str]:
    """The texts that are named, out of the file with all."""
    wanted = set(rows.ravel().tolist())
    every = chain.from_iterable((row["utterance"], *row["responses"]) for row in shared_rows(folder))
    return {number: text for number, text in enumerate(every) if number in wanted}
