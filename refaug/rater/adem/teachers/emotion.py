"""Teachers of emotion: probabilities of classes, from a lexicon, a classifier in ONNX's format, or VADER's shares.

A text that says nothing of emotion, because it has no words or none that the lexicon has, gets the same probability for
every class: the head learns nothing from it but to have no opinion.
"""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Final

import numpy as np
from numpy.typing import NDArray

from refaug.core.errors import BadInput, Usage
from refaug.core.files import sha256_of
from refaug.core.text.sentiment import MOST_WORDS, LexiconSentiment, SentimentReader, VaderSentiment, require_lexicon
from refaug.core.text.tokenizer_base import WordTokenizer
from refaug.core.vectors.encoders import Encoder, open_encoder
from refaug.rater.adem.teachers.teacher import Targets, Teacher

Floats = NDArray[np.float64]

SHARES: Final = ("negative", "neutral", "positive")
KINDS: Final = "vader, lexicon:FILE or onnx:FOLDER"
SMOOTHING: Final = 0.1  # that each class has beside the weights of its words
_DIGITS: Final = 12  # of hashes in names
_FEWEST: Final = 2  # classes
_MOST: Final = 1_000  # classes of a lexicon
_MOST_WEIGHTS: Final = 10_000_000  # of all words for all classes, which are in memory


def open_emotion(spec: str, texts: Sequence[str] = ()) -> Teacher:
    """Open a teacher of emotion: vader, lexicon:FILE or onnx:FOLDER; Usage for anything else.

    The lines of a lexicon are a word with a class, or a word with a number, which is read as sentiment. BadInput where
    it cannot read the language of the texts.
    """
    teacher = _open(spec)
    if texts and isinstance(teacher, ReaderTeacher | WordEmotions):
        teacher.require_language(texts)
    return teacher


def _open(spec: str) -> Teacher:
    kind, _, path = spec.partition(":")
    if spec == "vader":
        return ReaderTeacher(VaderSentiment())
    if kind == "lexicon" and path:
        return _of_lexicon(Path(path))
    if kind == "onnx" and path:
        return ClassifierTeacher(open_encoder(Path(path)))
    raise Usage(f"{spec[:80]!r} is not a teacher of emotion", remedy=KINDS)


class ReaderTeacher:
    """The shares of a text that a reader of sentiment calls negative, neutral and positive."""

    size: int = len(SHARES)

    def __init__(self, reader: SentimentReader) -> None:
        self._reader, self.name, self.require_language = reader, reader.name, reader.require_language

    def targets(self, texts: Sequence[str]) -> Targets:
        """Return the shares of each text."""
        sentiments = map(self._reader.read, texts)
        return _normalised([(0.0,) * self.size if each is None else each.vector for each in sentiments], self.size)


class WordEmotions:
    """A file with a word and a class a line, separated by a tab; a third column is the word's weight in the class.

    The probability of a class is (s + Σ weights of the text's words in it) / (C·s + Σ weights in all classes) for C
    classes, in alphabetical order, and s = 0.1. A word may have several classes.
    """

    def __init__(self, path: Path) -> None:
        weights, classes = defaultdict[str, Counter[str]](Counter), set[str]()
        for line, word, kind, weight in _lines(path):
            if kind in weights[word]:
                raise BadInput(f"{path.name}, line {line}: {word!r} has {kind!r} twice", remedy="give it once")
            weights[word][kind] = weight  # type: ignore[assignment]  # counts need not be whole
            classes.add(kind)
            if len(weights) > MOST_WORDS or len(weights) * len(classes) > _MOST_WEIGHTS:
                raise BadInput(
                    f"{path.name}, line {line}: {len(weights):,} words and {len(classes):,} classes are too many",
                    remedy=f"at most {MOST_WORDS:,} words, and {_MOST_WEIGHTS:,} weights, one of each word for each "
                    "class",
                )
        self.classes = sorted(classes)
        if not _FEWEST <= len(self.classes) <= _MOST:
            raise BadInput(
                f"{path.name} has {len(self.classes):,} classes", remedy=f"{_FEWEST} to {_MOST:,}, each with a word"
            )
        self.size = len(self.classes)
        self._weights: Mapping[str, Floats] = {
            word: np.array([of_word[kind] for kind in self.classes], np.float64) for word, of_word in weights.items()
        }
        self._tokenize = WordTokenizer().tokenize
        self.name = f"emotions[{sha256_of(path)[:_DIGITS]},{self.size}]"

    def targets(self, texts: Sequence[str]) -> Targets:
        """Return the smoothed shares of the classes among the words of each text."""
        return _normalised([(self._sums(text) + SMOOTHING).tolist() for text in texts], self.size)

    def require_language(self, texts: Sequence[str]) -> None:
        """Refuse texts none of whose words has a class."""
        if not any(self._sums(text).any() for text in texts):
            raise BadInput(f"{self.name} has no word of these texts", remedy="a lexicon of their language")

    def _sums(self, text: str) -> Floats:
        sums = np.zeros(self.size)
        for token in self._tokenize(text):
            sums += self._weights.get(token.lower(), 0.0)
        return sums


class ClassifierTeacher:
    """The probabilities that a classifier in ONNX's format gives: its softmax as the output sentence_embedding."""

    def __init__(self, encoder: Encoder) -> None:
        self._encoder, self.size = encoder, encoder.dimensions
        self.name = f"onnx[{encoder.name}]"

    def targets(self, texts: Sequence[str]) -> Targets:
        """Return the probabilities of each text."""
        return _normalised(np.nan_to_num(probabilities_of(self._encoder, texts)), self.size)


def probabilities_of(encoder: Encoder, texts: Sequence[str]) -> Floats:
    """Return the probabilities that a classifier gives to each text; NaN for a text without a token."""
    vectors = np.asarray(encoder.sentence_vectors(list(texts)), np.float64)  # of unit length
    if vectors.size and np.nanmin(vectors, initial=0.0) < 0:
        raise BadInput(
            f"encoder {encoder.name} gives {np.nanmin(vectors):g} for a class, which is not a probability",
            remedy="export the model with its softmax",
        )
    return np.asarray(vectors / vectors.sum(axis=1, keepdims=True))


def _normalised(weights: Sequence[Sequence[float]] | Floats, size: int) -> Targets:
    """Return rows that add up to 1; a row of zeros says the same of every class."""
    rows = np.asarray(weights, np.float64).reshape(-1, size)
    sums = rows.sum(axis=1, keepdims=True)
    return np.asarray(np.divide(rows, sums, out=np.full_like(rows, 1 / size), where=sums > 0), np.float32)


def _of_lexicon(path: Path) -> Teacher:
    """Return the teacher of a lexicon: its second column has numbers, or names of classes."""
    require_lexicon(path, "class")
    first = next(_fields(path), None)
    if first is not None and len(first[1]) > 1 and _weight(first[1][1]) is not None:
        return ReaderTeacher(LexiconSentiment(path))
    return WordEmotions(path)


def _fields(path: Path) -> Iterator[tuple[int, list[str]]]:
    """Yield the columns of the lines that are neither empty nor remarks."""
    with path.open(encoding="utf-8") as file:
        try:
            for line, text in enumerate(file, 1):
                if text.strip() and not text.startswith("#"):
                    yield line, [column.strip() for column in text.split("\t")]
        except UnicodeDecodeError as error:
            raise BadInput(f"{path.name} is not UTF-8: {error.reason}", remedy="write it as UTF-8") from error


def _lines(path: Path) -> Iterator[tuple[int, str, str, float]]:
    """Yield word, class and weight of each line; a weight of 0, as some lexicons write, says that it has no part."""
    for line, columns in _fields(path):
        word, kind, weight = (*columns, "1")[:3] if len(columns) > 1 else ("", "", "")
        number = _weight(weight)
        if not word or not kind or _weight(kind) is not None or number is None or number < 0:
            raise BadInput(
                f"{path.name}, line {line}: {' '.join(columns)[:40]!r} is not a word and class",
                remedy="a word, a tab and a class, and after another tab a weight of 0 or more",
            )
        if number > 0:
            yield line, word.lower(), kind, number


def _weight(text: str) -> float | None:
    try:
        number = float(text)
    except ValueError:
        return None
    return number if math.isfinite(number) and "_" not in text else None
