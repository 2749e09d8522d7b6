"""BERTScore and sentence cosine as metrics, by the vectors of a user's contextual encoder.

BERTScore (Zhang, Kishore, Wu, Weinberger, Artzi: BERTScore: Evaluating Text Generation with BERT, ICLR 2020) pairs each
token with the most similar token of the other text, in context. With cosines c between a reply's tokens x and a
reference's tokens y, and weights v (all 1, or idf):

    precision = Σ_x v(x) · max_y c(x, y) / Σ_x v(x)        recall = Σ_y v(y) · max_x c(x, y) / Σ_y v(y)

and F is their harmonic mean. Special tokens ([CLS], [SEP] …) do not take part. The authors' program gives them the
weight 0, so that they do not count there either, but other tokens can still be paired with them: where a token's best
match is [SEP], its score is a little higher than here.

A text for which the encoder's tokenizer gives no token except special ones has no score: as a reference it is left out,
as a reply it gives a row of NaN. With `idf=yes` a BERTScore depends on all references of the set.
"""

from __future__ import annotations

import hashlib
import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from copy import copy
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, Final, Literal, NamedTuple, get_args

import numpy as np
from numpy.typing import NDArray

from refaug.core.errors import Usage
from refaug.core.vectors.encoders import TokenVectors
from refaug.metrics.base import NO_REFERENCE, Floats, Indexes, Problem, References
from refaug.metrics.embeddings.word_vector_metrics import WordVectorsOfText, soft_matches
from refaug.metrics.metric_info import MetricInfo
from refaug.metrics.models.model_kinds import PathVectors, VectorOpener
from refaug.metrics.shared_parameters import ENCODER
from refaug.metrics.single_reference import SingleReferenceMetric

Scores = NDArray[np.float64]
Measure = Literal["f", "precision", "recall"]


@dataclass(frozen=True)
class IdfWeights:
    """The weights of tokens; rare tokens have larger ones.

    They come from the references of a run, and so does every score that uses them: `sha256` belongs in the signature.
    """

    of_token: Mapping[int, float]
    unseen: float

    def of(self, ids: Iterable[int]) -> Scores:
        """Return the weights of a text's tokens."""
        return np.array([self.of_token.get(token, self.unseen) for token in ids], np.float64)

    @property
    def sha256(self) -> str:
        """The hash of the weights, the same for the same references in any order."""
        lines = [f"{token} {weight!r}" for token, weight in sorted(self.of_token.items())]
        return hashlib.sha256("\n".join([*lines, f"unseen {self.unseen!r}"]).encode()).hexdigest()


def idf_weights(references: Iterable[Sequence[int] | NDArray[np.integer[Any]]]) -> IdfWeights:
    """Weigh tokens by log((N + 1) / (df + 1)), over the N references with distinct token ids.

    A score with these weights depends on the whole set of references, not only on its pair. The authors' program counts
    a reference as often as it occurs; here each counts once, so that a reference that many items share does not change
    the scores of other items. A token of every reference has weight 0.
    """
    distinct = {tuple(map(int, reference)) for reference in references}
    frequency = Counter(token for reference in distinct for token in set(reference))
    weights = {token: math.log((len(distinct) + 1) / (count + 1)) for token, count in sorted(frequency.items())}
    return IdfWeights(MappingProxyType(weights), unseen=math.log(len(distinct) + 1))


def bertscore(
    replies: Sequence[TokenVectors],
    references: Sequence[TokenVectors],
    reply_of: Indexes,
    reference_of: Indexes,
    *,
    measure: Measure = "f",
    idf: IdfWeights | None = None,
) -> Scores:
    """Return the BERTScore of each pair: `replies[reply_of[p]]` against `references[reference_of[p]]`.

    NaN where a text has no tokens except special ones, or none of any weight. Each pair is computed separately, so that
    its score is the same to the last bit in any batch. A harmonic mean is one of positive numbers: F is 0 where
    precision or recall is not above 0, which also keeps it in [0, 1]. Precision and recall are in [-1, 1].

    All cosines of a pair are in memory at once, up to 12 bytes each: 3 MB for texts of 512 tokens, 800 MB for texts of
    8192. The bound is the length to which the encoder cuts texts.
    """
    if measure not in get_args(Measure):
        raise Usage(f"BERTScore has no measure {measure!r}", remedy=f"one of: {', '.join(get_args(Measure))}")
    ready_replies = _own_tokens(replies, reply_of, idf)
    ready_references = _own_tokens(references, reference_of, idf)
    scores = np.empty(len(reply_of), np.float64)
    for place, (reply, reference) in enumerate(zip(reply_of.tolist(), reference_of.tolist(), strict=True)):
        scores[place] = _score(ready_replies[reply], ready_references[reference], measure)
    return scores


@dataclass(frozen=True, eq=False)
class _OwnTokens:
    """The tokens of one text, without the special ones."""

    vectors: NDArray[np.float32]  # (tokens, dimensions)
    lengths: Scores  # of the vectors; 1 for a vector of zeros, which is similar to nothing
    shares: Scores | None  # of each token in the text's weight; None where there is no weight


def _own_tokens(texts: Sequence[TokenVectors], used: Indexes, idf: IdfWeights | None) -> dict[int, _OwnTokens]:
    return {index: _without_special(texts[index], idf) for index in np.unique(used).tolist()}


def _without_special(text: TokenVectors, idf: IdfWeights | None) -> _OwnTokens:
    own = np.flatnonzero(~text.special)
    # With most tokenizers, special tokens are at the ends of a text: then this is a view, not a copy.
    inside = len(own) > 0 and own[-1] - own[0] == len(own) - 1
    vectors = text.vectors[own[0] : own[-1] + 1] if inside else text.vectors[own]
    lengths = np.sqrt(np.square(vectors, dtype=np.float64).sum(axis=1))
    weights = np.ones(len(own)) if idf is None else idf.of(text.ids[own].tolist())
    total = weights.sum()
    return _OwnTokens(vectors, np.where(lengths > 0, lengths, 1.0), weights / total if total > 0 else None)


def _score(reply: _OwnTokens, reference: _OwnTokens, measure: Measure) -> float:
    if reply.shares is None or reference.shares is None:
        return math.nan
    cosines = (reply.vectors @ reference.vectors.T).astype(np.float64)  # (reply tokens, reference tokens)
    cosines /= reply.lengths[:, None]
    cosines /= reference.lengths
    if measure == "precision":
        return _weighted(cosines.max(axis=1), reply.shares)
    if measure == "recall":
        return _weighted(cosines.max(axis=0), reference.shares)
    precision, recall = _weighted(cosines.max(axis=1), reply.shares), _weighted(cosines.max(axis=0), reference.shares)
    return _harmonic_mean(precision, recall)


def _weighted(best: Scores, shares: Scores) -> float:
    """Return the weighted mean of the best cosines, clipped to [-1, 1] against rounding; NaN stays NaN."""
    mean = float((best * shares).sum())
    return max(min(mean, 1.0), -1.0)


def _harmonic_mean(precision: float, recall: float) -> float:
    if precision > 0 and recall > 0:
        return 2 * precision * recall / (precision + recall)
    return math.nan if math.isnan(precision + recall) else 0.0


_NUMBERS_AT_ONCE = 2**20


def sentence_cosine(vectors: NDArray[np.floating[Any]], reply_of: Indexes, reference_of: Indexes) -> Scores:
    """Return the cosine of each pair of rows: `vectors[reply_of[p]]` and `vectors[reference_of[p]]`, in [-1, 1].

    The vectors need not be of unit length. NaN where a row is NaN or zero: that text has no vector. Every row is summed
    separately in float64, so that a pair's cosine is the same to the last bit in any batch.
    """
    scores = np.empty(len(reply_of), np.float64)
    step = max(1, _NUMBERS_AT_ONCE // max(1, vectors.shape[1]))
    for start in range(0, len(reply_of), step):
        pairs = slice(start, start + step)
        replies, references = (vectors[rows[pairs]].astype(np.float64, order="C") for rows in (reply_of, reference_of))
        lengths = _lengths(replies) * _lengths(references)
        scores[pairs] = np.clip((replies * references).sum(axis=1) / lengths, -1.0, 1.0)
    return scores


def _lengths(rows: Scores) -> Scores:
    """Return the lengths of vectors; NaN for a vector of zeros, which has no direction."""
    lengths = np.sqrt((rows * rows).sum(axis=1))
    return np.where(lengths > 0, lengths, np.nan)


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

    @property
    def looks_at_set(self) -> bool:
        """With idf."""
        return self._uses_idf

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
