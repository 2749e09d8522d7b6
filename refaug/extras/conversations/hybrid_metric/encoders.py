"""The encoders of the hybrid metric, as options name them, opened, and named as signatures name them.

Sentiment is read by VADER, a lexicon that the user brings, or DeepMoji's emojis from a model in ONNX's format.
The paper reads it from DeepMoji. A signature names what was used in its place.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from types import MappingProxyType
from typing import Final, Protocol

import numpy as np
from numpy.typing import NDArray

from refaug.core.artefacts.kinds import artefact_stores
from refaug.core.errors import BadInput
from refaug.core.home import Settings
from refaug.core.text.sentiment import LexiconSentiment, Sentiment, SentimentReader, VaderSentiment
from refaug.core.text.tokenizer_base import WordTokenizer
from refaug.core.vectors.encoders import OnnxEncoder, open_encoder
from refaug.core.vectors.word_vectors import WordVectors, open_word_vectors
from refaug.extras.conversations.metrics.sentiment import EMOJIS, emoji_score
from refaug.extras.conversations.options import EncoderRequest
from refaug.indexer.index_folders import open_vectors_version
from refaug.rater.adem.teachers.emotion import probabilities_of


class DeepMojiSentiment:
    """The 64 probabilities of emojis of a model in ONNX's format, in DeepMoji's order, and their weighted sum."""

    def __init__(self, encoder: OnnxEncoder) -> None:
        if encoder.dimensions != len(EMOJIS):
            raise BadInput(
                f"encoder {encoder.name} gives {encoder.dimensions} numbers, and DeepMoji gives {len(EMOJIS)}",
                remedy="export the model with its softmax as the output sentence_embedding, (batch, 64)",
            )
        self._encoder = encoder
        self.name = f"deepmoji[{encoder.name}]"

    @classmethod
    def open(cls, path: Path) -> DeepMojiSentiment:
        """Open the model in a folder, with its tokenizer.json."""
        return cls(open_encoder(path))

    def require_language(self, texts: Iterable[str]) -> None:
        """Accept any text: what the model reads is known to those who bring it."""

    def read(self, text: str) -> Sentiment | None:
        """Return the weighted sum of the probabilities, and these; None where the text has no token."""
        [probabilities] = probabilities_of(self._encoder, [text])
        if np.isnan(probabilities).any():
            return None
        return Sentiment(float(emoji_score(probabilities)), tuple(probabilities.tolist()))


# ── What the components ask about texts: words and meaning from vectors, sentiment from a reader of it ────────────────

Floats = NDArray[np.float64]

_HELD: Final = 65_536  # texts whose sentiment or meaning is kept: a person's answer is read three times
_HELD_WORDS: Final = 64  # texts whose words are kept as vectors, which take far more memory


class MeaningEncoder(Protocol):
    """What gives a text one vector for its meaning."""

    @property
    def name(self) -> str:
        """The name in signatures."""

    def encode(self, text: str) -> Floats | None:
        """Return the vector of a text; None where nothing in it is known."""


class VectorReader:
    """A reader whose sentence vector is an encoder's, or without one the mean of the unit vectors of its words."""

    def __init__(
        self, vectors: WordVectors, sentiment: SentimentReader | None, meaning: MeaningEncoder | None = None
    ) -> None:
        self._vectors = vectors
        self._meaning = lru_cache(_HELD)(meaning.encode) if meaning is not None else self._mean_of_words
        self._tokenize = WordTokenizer().tokenize
        self._words = lru_cache(_HELD_WORDS)(self._read_words)
        self._sentiments = lru_cache(_HELD)(lambda text: sentiment.read(text) if sentiment is not None else None)

    def sentiment(self, text: str) -> Sentiment | None:
        """Return the sentiment of a text; None without words, or without a reader of sentiment."""
        return self._sentiments(text)

    def sentence_vector(self, text: str) -> Floats | None:
        """Return the vector of the whole text; None where nothing in it is known."""
        return self._meaning(text)

    def _mean_of_words(self, text: str) -> Floats | None:
        """Return the mean of the words' vectors, each scaled to unit length."""
        words = self._words(text)
        if not len(words):
            return None
        lengths = np.linalg.norm(words, axis=1, keepdims=True)
        return np.asarray(np.divide(words, lengths, out=np.zeros_like(words), where=lengths > 0).mean(axis=0))

    def word_vectors(self, text: str) -> Floats:
        """Return the vectors of the known words of a text."""
        return self._words(text)

    def tokens(self, text: str) -> list[str]:
        """Return the words and marks of a text."""
        return self._tokenize(text)

    def _read_words(self, text: str) -> Floats:
        rows = self._vectors.rows_of(self._tokenize(text))
        return np.asarray(self._vectors.matrix[rows[rows >= 0]], np.float64)


# ── The meaning of a text by a sentence encoder in ONNX's format that the user brings ─────────────────────────────────


# kind → the length of its vectors; None: any
ENCODERS: Final[Mapping[str, int | None]] = MappingProxyType({"infersent1": 4096, "use3": 512, "onnx": None})


class OnnxMeaning:
    """A sentence encoder under the name of what it is: InferSent 1, the Universal Sentence Encoder 3, or any."""

    def __init__(self, kind: str, path: Path) -> None:
        self._encoder = open_encoder(path)
        width, dimensions = ENCODERS[kind], self._encoder.dimensions
        if width is not None and dimensions != width:
            raise BadInput(
                f"encoder {self._encoder.name} gives {dimensions} numbers, and {kind} gives {width}",
                remedy=f"--meaning onnx:{path.name}, or an export of {kind} with the output sentence_embedding",
            )
        self.name = f"{kind}[{self._encoder.name}]"

    def encode(self, text: str) -> Floats | None:
        """Return the unit vector of a text; None where it has no token."""
        vector = np.asarray(self._encoder.sentence_vectors([text])[0], np.float64)
        return None if np.isnan(vector).any() else vector


# ── The encoders of the hybrid metric, as options name them, opened, and named as signatures name them ────────────────

NEWS: Final = "word2vec-news"  # the vectors of the paper: GoogleNews, 3,000,000 words of 300 numbers
_NEWS_SHAPE: Final = (3_000_000, 300)


@dataclass(frozen=True, eq=False)
class OpenEncoders:
    """A reader with what signatures call its parts."""

    reader: VectorReader
    details: Mapping[str, str]  # sent, sem and coh
    sentiment: SentimentReader | None

    def require_language(self, texts: Iterable[str]) -> None:
        """Refuse texts of a language that the sentiment is not read in."""
        if self.sentiment is not None:
            self.sentiment.require_language(texts)


def open_encoders(home: Settings, request: EncoderRequest) -> OpenEncoders:
    """Open all of them."""
    vectors, name = open_vectors(home, request.vectors)
    sentiment = _open_sentiment(request.sentiment)
    meaning = _open_meaning(request.meaning)
    details = {
        "sent": "none" if sentiment is None else sentiment.name,
        "sem": f"mean[{name}]" if meaning is None else meaning.name,
        "coh": _coherence_name(vectors, name),
    }
    return OpenEncoders(VectorReader(vectors, sentiment, meaning), details, sentiment)


def pinned_encoders(home: Settings, request: EncoderRequest) -> dict[str, str | None]:
    """Return what opens the same encoders again: versions of the home; None for files, which lie anywhere."""
    is_file = "/" in request.vectors
    return {
        "vectors": None if is_file else "@".join(artefact_stores(home)["vectors"].resolve(request.vectors)),
        "sentiment": None if ":" in request.sentiment else request.sentiment,
        "meaning": None if ":" in request.meaning else request.meaning,
    }


def open_vectors(home: Settings, spec: str) -> tuple[WordVectors, str]:
    """Open vectors of the home by their name, or a file; return them with their name in signatures."""
    if "/" in spec:
        opened = open_word_vectors(Path(spec))
        return opened, opened.name
    with artefact_stores(home)["vectors"].open(spec) as held:
        opened = open_vectors_version(held)
        return opened, f"{held.name}@{held.version}#{opened.sha256[:12]}"


def _coherence_name(vectors: WordVectors, name: str) -> str:
    """Return the name of the words' vectors; those called `word2vec-news` must be as many and as long as published."""
    if name.partition("@")[0].partition("#")[0] != NEWS:
        return f"[{name}]"
    words, dimensions = vectors.matrix.shape
    if (words, dimensions) != _NEWS_SHAPE:
        raise BadInput(
            f"the vectors {NEWS} are {words:,} of {dimensions} numbers, and the published ones "
            f"{_NEWS_SHAPE[0]:,} of {_NEWS_SHAPE[1]}",
            remedy="give them another name, or take over the published file whole",
        )
    return f"{NEWS}[{name}]"


def _open_sentiment(spec: str) -> SentimentReader | None:
    kind, _, path = spec.partition(":")
    if kind == "lexicon":
        return LexiconSentiment(Path(path))
    if kind == "deepmoji":
        return DeepMojiSentiment.open(Path(path))
    return VaderSentiment() if kind == "vader" else None


def _open_meaning(spec: str) -> OnnxMeaning | None:
    kind, _, path = spec.partition(":")
    return OnnxMeaning(kind, Path(path)) if path else None
