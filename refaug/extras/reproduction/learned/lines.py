"""The lines of the tables of `reproduce adem`: ADEM on each encoder, in each form, and the controls."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

import numpy as np
from numpy.typing import NDArray

from refaug.core.text.tokenizer_base import WordTokenizer
from refaug.core.vectors.word_vectors import WordVectors, open_word_vectors
from refaug.extras.reproduction.learned.learners import AdemLearner, LengthLearner, NamedEncoders, RidgeLearner
from refaug.extras.reproduction.learned.protocols import LearnedLine
from refaug.extras.reproduction.learned.rated_rows import LearnedRows
from refaug.metrics.base import Floats
from refaug.rater.adem.scorer.fitting import VectorCache
from refaug.rater.adem.scorer.rated_triples import Form
from refaug.rater.adem.scorer.settings import ScorerSettings
from refaug.rater.nn.checkpoint import NNRater
from refaug.rater.rating import Rater

# ── Features for ridge regression: products of the vectors of texts, as the bilinear score multiplies them ────────────

Features = Callable[[LearnedRows], Floats]
TextVectors = Callable[[Sequence[str]], NDArray[np.float32]]


def encoder_products(cache: VectorCache, form: Form) -> Features:
    """Return the products of the reply's vector with each vector that the form compares it with."""

    def features(rows: LearnedRows) -> Floats:
        vectors = cache.triple_vectors(rows.rated.triples, form)
        own = vectors.vectors.astype(np.float64)
        return np.concatenate([own[places] * own[vectors.replies] for places in vectors.compared], axis=1)

    return features


def text_products(read: TextVectors, form: Form, *, cosines: bool) -> Features:
    """Return the same products of vectors that are read text by text, the context as its last turn; with cosines."""

    def features(rows: LearnedRows) -> Floats:
        triples = rows.rated.triples
        replies = read([triple.reply for triple in triples]).astype(np.float64)
        compared = list[NDArray[np.float32]]()
        if form.has_context:
            compared.append(read([" ".join(triple.context[-1:]) for triple in triples]))
        if form.has_reference:
            compared.append(read([triple.reference for triple in triples]))
        blocks = [np.asarray(vectors, dtype=np.float64) * replies for vectors in compared]
        if cosines:
            blocks += [_cosine(np.asarray(vectors, dtype=np.float64), replies)[:, None] for vectors in compared]
        return np.concatenate(blocks, axis=1)

    return features


def _cosine(first: Floats, second: Floats) -> Floats:
    norms = np.linalg.norm(first, axis=1) * np.linalg.norm(second, axis=1)
    return np.asarray((first * second).sum(axis=1) / np.maximum(norms, 1e-9))


class MeanWordVectors:
    """The mean of the vectors of a text's words; zeros for a text without any known word."""

    def __init__(self, path: Path) -> None:
        self._vectors: WordVectors = open_word_vectors(path)
        self._means = dict[str, NDArray[np.float32]]()

    def __call__(self, texts: Sequence[str]) -> NDArray[np.float32]:
        """Return a vector for each text."""
        return np.stack([self._mean(text) for text in texts])

    def _mean(self, text: str) -> NDArray[np.float32]:
        if text not in self._means:
            rows = self._vectors.rows_of(self._words(text))
            rows = rows[rows >= 0]
            mean = self._vectors.matrix[rows].mean(axis=0) if len(rows) else np.zeros(self._vectors.dimensions)
            self._means[text] = np.asarray(mean, dtype=np.float32)
        return self._means[text]

    def _words(self, text: str) -> Iterable[str]:
        return WordTokenizer().tokenize(text)


def rater_vectors(rater: NNRater) -> TextVectors:
    """Return a function that reads texts with the frozen reader of a rater."""
    return rater.text_vectors


# ── The lines of the tables of `reproduce adem` ───────────────────────────────────────────────────────────────────────

FORM_NAMES: Final = {Form.FULL: "ADEM", Form.CONTEXT: "C-ADEM", Form.REFERENCE: "R-ADEM"}
LENGTH: Final = "length alone"
RIDGE, WORD_RIDGE, RATER_HEAD = "ridge on vectors", "ridge on word vectors", "rater, linear head"
_EPOCHS: Final = 60
_STATE: Final = "context"


def adem_name(form: Form, encoder: str) -> str:
    """Return the name of the line of a form on an encoder."""
    return f"{FORM_NAMES[form]}, {encoder}"


def shuffled_name(form: Form) -> str:
    """Return the name of the line of a form that is fitted to shuffled labels."""
    return f"{FORM_NAMES[form]}, shuffled labels"


def untrained_name(form: Form) -> str:
    """Return the name of the line of a form before training."""
    return f"{FORM_NAMES[form]}, before training"


@dataclass(frozen=True, kw_only=True)
class LineMaker:
    """Makes the lines; the first kind of encoders is the one that controls other than drawn ones stand on."""

    kinds: Sequence[NamedEncoders]
    caches: dict[tuple[str, int], VectorCache]
    seeds: int
    rater: Rater | None
    word_vectors: Path | None

    @classmethod
    def of(
        cls, kinds: Sequence[NamedEncoders], *, seeds: int, rater: Rater | None, word_vectors: Path | None
    ) -> LineMaker:
        """Return the maker; texts are encoded once for all lines."""
        caches = {
            (kind.name, number): VectorCache(encoder, _STATE)
            for kind in kinds
            for number, encoder in enumerate(kind.encoders)
        }
        return cls(kinds=kinds, caches=caches, seeds=seeds, rater=rater, word_vectors=word_vectors)

    @property
    def main(self) -> NamedEncoders:
        """The kind of encoders that the controls stand on."""
        return self.kinds[0]

    def adem_lines(self, form: Form) -> Iterator[LearnedLine]:
        """Yield a form on every kind of encoders."""
        for kind in self.kinds:
            yield LearnedLine(
                name=adem_name(form, kind.name),
                learners=[(self._adem(form, kind, number), number + 1) for number, _ in enumerate(kind.encoders)],
                about=f"{len(kind.encoders)} {kind.name} encoder{'s' if len(kind.encoders) > 1 else ''}, "
                f"fitted to the ratings, {form.value}",
            )

    def controls(self, form: Form) -> Iterator[LearnedLine]:
        """Yield the controls of a form that stand on the main encoder."""
        adem = self._adem(form, self.main, 0)
        own_name = adem_name(form, self.main.name)
        yield LearnedLine(
            name=shuffled_name(form),
            learners=[(replace(adem, has_shuffled_labels=True), seed) for seed in range(1, self.seeds + 1)],
            about=f"the same encoder and settings, ratings dealt out anew, {self.seeds} seeds",
            chooses_as=own_name,
        )
        yield LearnedLine(
            name=untrained_name(form),
            learners=[(replace(adem, is_trained=False), 1)],
            about="both matrices the identity: dot products of the projected vectors",
        )

    def shared_controls(self, form: Form) -> Iterator[LearnedLine]:
        """Yield the controls that are no ADEM, in what they compare as a form does."""
        cache = self.caches[self.main.name, 0]
        yield _ridge(RIDGE, encoder_products(cache, form), f"products of the vectors of the {self.main.name} encoder")
        if self.word_vectors is not None:
            words = MeanWordVectors(self.word_vectors)
            features = text_products(words, form, cosines=True)
            yield _ridge(WORD_RIDGE, features, "products and cosines of mean word vectors, published 25-d ones")
        if isinstance(self.rater, NNRater):
            features = text_products(rater_vectors(self.rater), form, cosines=False)
            yield _ridge(RATER_HEAD, features, "the rater's reader, frozen, and ridge on products of its vectors")
        yield LearnedLine(
            name=LENGTH, learners=[(LengthLearner(), 1)], about="a parabola in the logarithm of the words of the reply"
        )

    def _adem(self, form: Form, kind: NamedEncoders, number: int) -> AdemLearner:
        settings = ScorerSettings(form=form, state=_STATE, epochs=_EPOCHS)
        return AdemLearner(cache=self.caches[kind.name, number], settings=settings)


def _ridge(name: str, features: object, about: str) -> LearnedLine:
    return LearnedLine(name=name, learners=[(RidgeLearner(features=features), 1)], about=f"{about}; ridge")  # type: ignore[arg-type]
