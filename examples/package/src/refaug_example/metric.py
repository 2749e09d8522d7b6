"""Soft overlap: the share of a reply's words that resemble a word of the reference."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from refaug.metrics.base import Problem
from refaug.metrics.costs import Cost
from refaug.metrics.metric_info import CorpusScore, MetricInfo, Uses
from refaug.metrics.models.model_kinds import PathVectors, VectorOpener
from refaug.metrics.parameters import Number
from refaug.metrics.shared_parameters import CASE, FAMILY, TOKENIZER, VECTORS
from refaug.metrics.single_reference import MetricTokenizer, SingleReferenceMetric


class SoftOverlap(SingleReferenceMetric):
    """Word vectors whose cosine reaches a threshold count as equal."""

    def __init__(self, info: MetricInfo, settings: Mapping[str, str], source: VectorOpener | None = None) -> None:
        if not settings["vectors"]:
            raise VECTORS.missing(info.name)
        self._words = MetricTokenizer(info.name, settings)
        self._vectors, spec = (source or PathVectors()).vectors(settings["vectors"])
        self._least = float(settings["least"])
        self.info = info
        self.settings = {**settings, "vectors": spec, **self._words.settings}
        self.choose_references(settings)

    def read(self, texts: list[str]) -> list[np.ndarray]:
        """Return the unit vectors of the known words of each text."""
        matrices = []
        for words in self._words.of(texts):
            rows = self._vectors.rows_of(words)
            vectors = self._vectors.matrix[rows[rows >= 0]].astype(np.float64)
            lengths = np.linalg.norm(vectors, axis=1, keepdims=True)
            matrices.append(vectors / np.where(lengths > 0, lengths, 1))
        return matrices

    def usable(self, read: Any) -> np.ndarray:
        """Return which texts have a known word."""
        return np.array([len(vectors) > 0 for vectors in read], bool)

    def pair_values(
        self, replies: Any, references: Any, reply_places: np.ndarray, reference_places: np.ndarray
    ) -> np.ndarray:
        """Return the share of each pair; NaN for a reply without a known word."""
        return np.array(
            [
                self._share(replies[reply], references[reference])
                for reply, reference in zip(reply_places, reference_places, strict=True)
            ],
            np.float64,
        )

    def _share(self, reply: np.ndarray, reference: np.ndarray) -> float:
        if not len(reply):
            return np.nan
        return float(((reply @ reference.T).max(axis=1) >= self._least).mean())

    def versions(self) -> Mapping[str, str]:
        """Return the tokenizer's version; refaug adds that of this package."""
        return self._words.versions()

    def undefined(self) -> Problem:
        """Return the meaning of a row of NaN."""
        return Problem("no_known_word", "no word of the reply has a vector")


SOFT_OVERLAP = MetricInfo(
    name="soft-overlap",
    summary="share of the reply's words that resemble a word of the reference",
    uses=Uses.OWN,
    low=0,
    high=1,
    parameters=(
        VECTORS,
        Number(name="least", default="0.5", least=-1, most=1, help="the cosine from which words count as equal"),
        *FAMILY,
        CASE,
        TOKENIZER,
    ),
    corpus=CorpusScore.MEAN,
    paper="none: an example",
    made_by="refaug_example.metric:SoftOverlap",
    cost=Cost(product=0.02),  # each word of the reply beside each of the reference
    upsilon=True,  # upsilon-soft-overlap scores against weighted, retrieved references
)
