"""How far the scores of a scorer spread, and how narrow the cone of its vectors is.

A judge whose scores all lie near their mean tells replies apart badly, however high the correlation. The conicity of
vectors is the mean of their cosines with their mean vector: near 1, all of them point in one direction.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from refaug.metrics.base import Floats
from refaug.rater.adem.scorer.encoding import TripleVectors
from refaug.rater.adem.scorer.fitting import Scorer
from refaug.rater.adem.scorer.rated_triples import RatedTriples

_NEAR = 0.5  # on the scale from 1 to 5


def spread_of(scorer: Scorer, rated: RatedTriples, vectors: TripleVectors) -> Mapping[str, Any]:
    """Return the spread of scores on rated rows, and the conicity of each part before and after projection."""
    scores = scorer.score(vectors)
    spread = float(rated.ratings.std())
    form = scorer.bilinear.form
    kinds = [*(["context"] if form.has_context else []), *(["reference"] if form.has_reference else []), "reply"]
    raw = vectors.vectors.astype(np.float64)
    projected = scorer.projection.apply(raw)
    return {
        "rows": len(rated),
        "mean_score": float(scores.mean()),
        "mean_rating": float(rated.ratings.mean()),
        "sd_score_over_sd_rating": float(scores.std() / spread) if spread else None,
        "share_near_mean": float(np.mean(np.abs(scores - scores.mean()) <= _NEAR)),
        "conicity": {
            kind: {"encoder": conicity(raw[np.unique(places)]), "projected": conicity(projected[np.unique(places)])}
            for kind, places in zip(kinds, [*vectors.compared, vectors.replies], strict=True)
        },
    }


def conicity(vectors: Floats) -> float | None:
    """Return the mean cosine of vectors with their mean; None where the mean has no direction."""
    mean = vectors.mean(axis=0)
    norms = np.linalg.norm(vectors, axis=1) * np.linalg.norm(mean)
    has_direction = norms > np.finfo(np.float64).tiny
    return float(np.mean(vectors[has_direction] @ mean / norms[has_direction])) if has_direction.any() else None
