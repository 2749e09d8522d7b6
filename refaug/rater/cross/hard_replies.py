"""Hard negatives of the pairs of logs, found as for the NN-rater: by rare words that two replies share."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from refaug.core.progress import Progress
from refaug.rater.training.examples import ExampleCorpus
from refaug.rater.training.hard_negatives import HardSettings, hard_partners
from refaug.rater.training.pair_corpus import PairCorpus, Rows

Texts = NDArray[np.int64]


class _Grouped(NamedTuple):
    """Pairs by utterance: the corpus that hard negatives are found in, and the text and pair that each text comes from.

    The pair of an utterance is -1.
    """

    corpus: ExampleCorpus
    source: Texts
    pair: Rows


def hard_replies(
    corpus: PairCorpus, rows: Rows, embeddings: NDArray[np.float32], seed: int, progress: Progress
) -> Texts:
    """Return hard negatives of the reply of each pair, as texts (pairs of the corpus, most partners); -1 for none.

    They are found among these pairs alone.
    """
    settings = HardSettings(seed=seed)
    grouped = _group(corpus, rows)
    found = hard_partners(
        grouped.corpus, np.arange(grouped.corpus.utterances), embeddings, settings, progress
    ).partners  # (texts, partners)
    partners = np.full((len(corpus), settings.partners), -1, np.int64)
    is_reply = grouped.pair >= 0
    of_reply = found[is_reply]
    partners[grouped.pair[is_reply]] = np.where(of_reply >= 0, grouped.source[of_reply], -1)
    return partners


def _group(corpus: PairCorpus, rows: Rows) -> _Grouped:
    """Put the replies to one utterance together, behind the utterance."""
    ordered = rows[np.lexsort((rows, corpus.asked[rows]))]
    begins = np.flatnonzero(np.concatenate([[True], np.diff(corpus.asked[ordered]) != 0]))
    pair = np.insert(ordered, begins, -1)
    source = np.insert(corpus.reply[ordered].astype(np.int64), begins, corpus.utterance[ordered[begins]])
    lengths = np.diff(corpus.start)[source]
    start = np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64)
    places = np.arange(int(start[-1])) + np.repeat(corpus.start[source] - start[:-1], lengths)
    first = np.concatenate([begins + np.arange(len(begins)), [len(source)]]).astype(np.int64)
    grouped = ExampleCorpus(pieces=corpus.pieces[places], start=start, first=first, names=corpus.asked[ordered[begins]])
    return _Grouped(grouped, source, pair)
