"""Judges that have seen no ratings, as lines beside those that are fitted to them."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Final

import numpy as np

from refaug.evaluation.reproduction.figures.correlations import Line
from refaug.evaluation.reproduction.learned.rated_rows import LearnedSet, learned_sets
from refaug.evaluation.reproduction.material.rated_sets import ProofSet
from refaug.metrics.base import Floats, Level, References
from refaug.metrics.specification import Specification, build
from refaug.rater.adem.scorer.rated_triples import Form
from refaug.rater.rating import Candidate, Rater, RatingRequest

RATER, GREEDY = "rater as it is", "greedy match with the gold"
_ABOUT_RATER: Final = "the rating of the reply by a rater of the everyday logs, which has seen no rating of people"
_ABOUT_GREEDY: Final = "greedy matching of word vectors with the first gold, published 25-d vectors"


def rater_line(rater: Rater, sets: Sequence[ProofSet]) -> Line:
    """Return the ratings that a rater gives to replies, by the utterance and the gold."""
    scores = {learned.name: learned.spread(_ratings(rater, learned)[None]) for learned in learned_sets(sets, Form.FULL)}
    return Line(name=RATER, scores=scores, about=_ABOUT_RATER)


def _ratings(rater: Rater, learned: LearnedSet) -> Floats:
    requests = [
        RatingRequest(
            utterance=triple.context[-1], golds=(triple.reference,), candidates=(Candidate(text=triple.reply),)
        )
        for triple in learned.fair_rows.rated.triples
    ]
    return np.array([ratings[0] for ratings in rater.rate(requests)], dtype=np.float64)


def greedy_line(vectors: Path, sets: Sequence[ProofSet]) -> Line:
    """Return how closely the words of replies match those of the gold."""
    metric = build(Specification("greedy", (("vectors", str(vectors)), ("refs", "gold"))))
    scores = dict[str, Floats]()
    for learned in learned_sets(sets, Form.REFERENCE):
        triples = learned.fair_rows.rated.triples
        prepared = metric.prepare([References.unweighted((triple.reference,)) for triple in triples])
        places = np.arange(len(triples), dtype=np.int64)
        rows = metric.statistics([triple.reply for triple in triples], prepared, places, places)
        values = np.nan_to_num(metric.values(rows, Level.REPLY), nan=metric.info.low)
        scores[learned.name] = learned.spread(values[None])
    return Line(name=GREEDY, scores=scores, about=_ABOUT_GREEDY)
