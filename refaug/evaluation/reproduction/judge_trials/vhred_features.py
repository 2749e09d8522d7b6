"""Features of rated replies by a VHRED: how likely a reply is, and how close its vector is to turns and gold."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final

import numpy as np

from refaug.evaluation.home.vhreds import open_vhred
from refaug.evaluation.reproduction.figures.correlations import Line
from refaug.evaluation.reproduction.learned.untaught import LIKELIHOOD, likelihood_line
from refaug.evaluation.reproduction.material.chain import Chain
from refaug.evaluation.reproduction.material.rated_sets import ProofSet
from refaug.metrics.base import Floats
from refaug.rater.adem.scorer.encoding import DialogueEncoder, VectorCache
from refaug.rater.adem.scorer.rated_triples import Form, Triple

MUTUAL: Final = LIKELIHOOD
LIKELY: Final = "likelihood after the turns"
TURNS_COSINE: Final = "cosine of VHRED vectors, turns"
GOLD_COSINE: Final = "cosine of VHRED vectors, gold"
VHRED_FEATURES: Final = (MUTUAL, LIKELY, TURNS_COSINE, GOLD_COSINE)


def vhred_computations(chain: Chain, sets: Sequence[ProofSet]) -> dict[str, Callable[[], Line]]:
    """Return what computes each feature; nothing where the run names no VHRED."""
    if chain.settings.encoder is None:
        return {}
    encoder = open_vhred(chain.home, chain.settings.encoder, threads=chain.settings.threads)
    chain.note("vhred", encoder.spec)
    return {
        MUTUAL: lambda: likelihood_line(chain, sets, MUTUAL, kind="pmi-token"),
        LIKELY: lambda: likelihood_line(chain, sets, LIKELY, kind="conditional"),
        TURNS_COSINE: lambda: _cosine_line(TURNS_COSINE, encoder, sets, Form.CONTEXT),
        GOLD_COSINE: lambda: _cosine_line(GOLD_COSINE, encoder, sets, Form.REFERENCE),
    }


def _cosine_line(name: str, encoder: DialogueEncoder, sets: Sequence[ProofSet], form: Form) -> Line:
    cache = VectorCache(encoder, "context")
    scores = {rated_set.name: _cosines(cache, rated_set, form)[None] for rated_set in sets}
    return Line(name=name, scores=scores, about="frozen vectors of a VHRED, as ADEM compares them before training")


def _cosines(cache: VectorCache, rated_set: ProofSet, form: Form) -> Floats:
    """Return the cosine of each reply and what the form compares it with; NaN where that is missing."""
    triples = [_triple(rated_set, row) for row in range(len(rated_set.replies))]
    has_both = np.array(
        [
            bool(triple.reply.strip())
            and any(part.strip() for part in (triple.context if form.has_context else (triple.reference,)))
            for triple in triples
        ]
    )
    cosines = np.full(len(triples), np.nan)
    if has_both.any():
        vectors = cache.triple_vectors([triples[row] for row in np.flatnonzero(has_both).tolist()], form)
        unit = vectors.vectors / np.maximum(np.linalg.norm(vectors.vectors, axis=1, keepdims=True), 1e-9)
        cosines[has_both] = (unit[vectors.compared[0]] * unit[vectors.replies]).sum(axis=1)
    return cosines


def _triple(rated_set: ProofSet, row: int) -> Triple:
    test_item = rated_set.items[int(rated_set.item[row])]
    return Triple(
        context=test_item.turns, reference=test_item.gold.text if test_item.gold else "", reply=rated_set.replies[row]
    )
