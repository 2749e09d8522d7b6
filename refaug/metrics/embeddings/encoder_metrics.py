"""BERTScore and sentence cosine as metrics, with `refaug.metrics.embeddings.contextual` and a user's encoder.

A text for which the encoder's tokenizer gives no token except special ones has no score: as a reference it is left out,
as a reply it gives a row of NaN. With `idf=yes` a BERTScore depends on all references of the set.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from copy import copy
from typing import Any, Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from refaug.core.vectors.encoders import TokenVectors
from refaug.metrics.base import NO_REFERENCE, Floats, Indexes, Problem, References
from refaug.metrics.embeddings.contextual import IdfWeights, Measure, bertscore, idf_weights, sentence_cosine
from refaug.metrics.embeddings.soft_matches import WordVectorsOfText, soft_matches
from refaug.metrics.metric_info import MetricInfo
from refaug.metrics.models.model_kinds import PathVectors, VectorOpener
from refaug.metrics.shared_parameters import ENCODER
from refaug.metrics.single_reference import SingleReferenceMetric

NO_TOKENS: Final = Problem("no_tokens", "the encoder's tokenizer finds no token in the reply")
NO_WEIGHT: Final = Problem("no_idf_weight", "no token of the reply has any weight by idf")
NO_REFERENCE_WEIGHT: Final = Problem(
    "no_reference_idf_weight",
    "no token of its references has any weight by idf, as is always so in a set of one reference",
)
_MEASURES: Final[Mapping[str, Measure]] = {"f": "f", "precision": "precision", "recall": "recall"}


class EncodedTexts(NamedTuple):
    """Texts as token vectors; references also have the idf weights of their tokens."""

    texts: list[TokenVectors]
    idf: IdfWeights | None


class EncoderMetric(SingleReferenceMetric):
    """The common part of both metrics."""

    def __init__(self, info: MetricInfo, settings: Mapping[str, str], source: VectorOpener | None = None) -> None:
        if not settings["vectors"]:
            raise ENCODER.missing(info.name)
        opened = (source or PathVectors()).encoder(settings["vectors"])
        self.info, self._encoder = info, opened.encoder
        self.settings = {**settings, "vectors": opened.spec}
        self.choose_references(settings)

    def versions(self) -> Mapping[str, str]:
        """Return the encoder's."""
        return {"encoder": self._encoder.version}

    def undefined(self) -> Problem:
        """The reply has no tokens; references without any are left out."""
        return NO_TOKENS


class BertScore(EncoderMetric):
    """Every token matched with the most similar one of the other text."""

    def __init__(self, info: MetricInfo, settings: Mapping[str, str], source: VectorOpener | None = None) -> None:
        super().__init__(info, settings, source)
        self._measure = _MEASURES[settings["measure"]]
        self._uses_idf = settings["idf"] == "yes"
        self._idf: IdfWeights | None = None

    def undefined(self) -> Problem:
        """The reply has no tokens, or none with weight."""
        return NO_WEIGHT if self._uses_idf else NO_TOKENS

    def unusable(self) -> Problem:
        """No reference has tokens, or none with weight."""
        return NO_REFERENCE_WEIGHT if self._uses_idf else NO_REFERENCE

    def for_set(self, references: Sequence[References]) -> BertScore:
        """Return the metric with the idf of this set, where idf is requested."""
        if not self._uses_idf:
            return self
        encoded = self.prepare(references).read
        assert isinstance(encoded, EncodedTexts)
        copied = copy(self)
        copied._idf = encoded.idf  # noqa: SLF001
        return copied

    def matches(self, reply: str, references: References) -> list[dict[str, object]]:
        """Return the best match of each token."""
        first, *others = (_own_words(text) for text in self._encoder.token_vectors([reply, *references.texts]))
        return soft_matches(first, others, references)

    def words_of(self, reply: str) -> list[str]:
        """Return the encoder's tokens."""
        return list(_own_words(self._encoder.token_vectors([reply])[0]).words)

    def versions(self) -> Mapping[str, str]:
        """Return the encoder's, and the idf once there is one."""
        return {**super().versions(), **({"idf": self._idf.sha256[:12]} if self._idf else {})}

    def read(self, texts: list[str]) -> EncodedTexts:
        """Return token vectors."""
        return EncodedTexts(self._encoder.token_vectors(texts), None)

    def read_references(self, texts: list[str]) -> EncodedTexts:
        """Return token vectors, and the idf weights over these texts."""
        encoded = self.read(texts)
        if not self._uses_idf:
            return encoded
        return EncodedTexts(encoded.texts, self._idf or _idf_of(encoded.texts))

    def usable(self, read: Any) -> NDArray[np.bool_]:
        """Return which texts have tokens with weight."""
        weight_of = len if read.idf is None else lambda ids: read.idf.of(ids.tolist()).sum()
        return np.array([weight_of(_own_ids(text)) > 0 for text in read.texts], dtype=np.bool_)

    def pair_values(self, replies: Any, references: Any, reply_places: Indexes, reference_places: Indexes) -> Floats:
        """Return the BERTScore of each pair."""
        return bertscore(
            replies.texts, references.texts, reply_places, reference_places, measure=self._measure, idf=references.idf
        )


class SentenceCosine(EncoderMetric):
    """The cosine of two sentence vectors."""

    def read(self, texts: list[str]) -> NDArray[np.float32]:
        """Return sentence vectors, one a row."""
        return self._encoder.sentence_vectors(texts)

    def usable(self, read: Any) -> NDArray[np.bool_]:
        """Return which texts have a vector."""
        return np.asarray(~np.isnan(read).any(axis=1))

    def pair_values(self, replies: Any, references: Any, reply_places: Indexes, reference_places: Indexes) -> Floats:
        """Return the cosine of each pair; of the many references of a held set, a batch uses few."""
        used, place = np.unique(reference_places, return_inverse=True)
        return sentence_cosine(np.concatenate([replies, references[used]]), reply_places, place + len(replies))


def _idf_of(texts: Sequence[TokenVectors]) -> IdfWeights:
    return idf_weights(ids for text in texts if len(ids := _own_ids(text)))


def _own_words(text: TokenVectors) -> WordVectorsOfText:
    own = np.flatnonzero(~text.special)
    return WordVectorsOfText([text.tokens[place] for place in own.tolist()], text.vectors[own])


def _own_ids(text: TokenVectors) -> NDArray[np.int64]:
    """Return the ids of a text's tokens without the special ones."""
    return text.ids[~text.special]
