"""Judges that have seen no ratings, as lines beside those that are fitted to them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final

import numpy as np

from refaug.core.records import Reference
from refaug.evaluation.metric_setup.likelihood_models import with_likelihoods
from refaug.evaluation.reproduction.figures.correlations import Line
from refaug.evaluation.reproduction.learned.rated_rows import LearnedSet, learned_sets
from refaug.evaluation.reproduction.material.chain import Chain
from refaug.evaluation.reproduction.material.metric_lines import build_soft_match
from refaug.evaluation.reproduction.material.rated_sets import ProofSet
from refaug.evaluation.reproduction.material.reference_kinds import ONE, Pool, line_of
from refaug.metrics.base import Floats, Level, References
from refaug.metrics.models.likelihood import LikelyReplies
from refaug.metrics.specification import Specification, build
from refaug.rater.adem.scorer.rated_triples import Form
from refaug.rater.rating import Rater, RatingRequest

RATER, GREEDY = "rater as it is", "greedy match with the gold"
RATER_ALONE, UPSILON_ALONE = "rater as it is, without a gold", "υ-greedy, without a gold"
LIKELIHOOD: Final = "likelihood: mutual information a piece"
_ABOUT_RATER: Final = "the rating of the reply by a rater of the everyday logs, which has seen no rating of people"
_ABOUT_RATER_ALONE: Final = "the same, without the gold: it reads an empty text in its place"
_REFERENCES: Final = 15
_ABOUT_GREEDY: Final = "greedy matching of word vectors with the first gold, published 25-d vectors"


def rater_line(rater: Rater, sets: Sequence[ProofSet]) -> Line:
    """Return the ratings that a rater gives to replies, by the utterance and the gold."""
    scores = {learned.name: learned.spread(_ratings(rater, learned)[None]) for learned in learned_sets(sets, Form.FULL)}
    return Line(name=RATER, scores=scores, about=_ABOUT_RATER)


def _ratings(rater: Rater, learned: LearnedSet) -> Floats:
    requests = [
        RatingRequest(
            utterance=triple.context[-1], golds=(triple.reference,), candidates=(Reference(text=triple.reply),)
        )
        for triple in learned.fair_rows.rated.triples
    ]
    return np.array([ratings[0] for ratings in rater.rate(requests)], dtype=np.float64)


def goldless_lines(chain: Chain, rater: Rater | None, sets: Sequence[ProofSet]) -> Iterator[Line]:
    """Yield the judges that need no gold: the rater's rating, and soft matches with what people said in such places."""
    if rater is None:
        return
    dropped = [rated_set.without_golds() for rated_set in sets]
    yield line_of(RATER_ALONE, dropped, chain.bind_rater(build("rater:refs=none"), rater), about=_ABOUT_RATER_ALONE)
    chain.progress.stage("references by the utterance", len(dropped), "sets")
    pools = dict[str, Pool]()
    for rated_set in dropped:
        pools[rated_set.name] = chain.pool(
            rated_set, chain.main_index(), rater, mode="bm25-utterance", deep=_REFERENCES, gold="none"
        )
        chain.progress.advance(1)
    yield line_of(
        UPSILON_ALONE,
        dropped,
        build_soft_match(chain, agg="best"),
        lambda rated_set, seed: pools[rated_set.name].extras(ONE, k=_REFERENCES, parrot=False, seed=seed),
        about=f"soft matches with the nearest of {_REFERENCES} replies found by the utterance, each of weight one",
    )


def likelihood_line(chain: Chain, sets: Sequence[ProofSet]) -> Line:
    """Return how likely each reply is by the VHRED that the run names."""
    specification = f"likelihood:model={chain.settings.vhred},kind=pmi-token"
    metric = build(specification)
    assert isinstance(metric, LikelyReplies)
    bound = with_likelihoods(metric, chain.models)
    return line_of(LIKELIHOOD, sets, bound, about=specification)


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
