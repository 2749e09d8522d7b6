"""The encoders of the hybrid metric, as options name them, opened, and named as signatures name them.

Sentiment is read by VADER, a lexicon that the user brings, or DeepMoji's emojis from a model in ONNX's format.
The paper reads it from DeepMoji. A signature names what was used in its place.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from types import MappingProxyType
from typing import Any, Final, Protocol

import numpy as np
from numpy.typing import NDArray

from refaug.core.artefacts.kinds import artefact_stores
from refaug.core.errors import BadInput
from refaug.core.files import sha256_of
from refaug.core.home import Settings
from refaug.core.installation import extras_named
from refaug.core.text.tokenizer_base import WordTokenizer
from refaug.core.vectors.encoders import OnnxEncoder, open_encoder
from refaug.core.vectors.word_vectors import WordVectors, open_word_vectors
from refaug.extras.conversations.metrics.components import Sentiment
from refaug.extras.conversations.metrics.sentiment import EMOJIS, emoji_score
from refaug.extras.conversations.options import EncoderRequest
from refaug.indexer.index_folders import open_vectors_version

_LEAST_ASCII: Final = 0.8  # of the letters of English texts
_MOST_WORDS: Final = 1_000_000  # of a lexicon
_MOST_BYTES: Final = 64 << 20
_DIGITS: Final = 12  # of hashes in names
_STEEP: Final = 15.0  # how soon the score of a lexicon nears its ends, as in VADER


class SentimentReader(Protocol):
    """What reads the sentiment of a text."""

    @property
    def name(self) -> str:
        """The name in signatures."""

    def require_language(self, texts: Iterable[str]) -> None:
        """Refuse texts of a language that it does not read."""

    def read(self, text: str) -> Sentiment | None:
        """Return the sentiment of a text; None where it has no words."""


class VaderSentiment:
    """The lexicon and rules of VADER, for English.

    The score is its compound score; the vector holds the shares that it calls negative, neutral and positive.
    """

    def __init__(self) -> None:
        with extras_named():
            from importlib.metadata import version  # noqa: PLC0415

            from vaderSentiment.vaderSentiment import SentimentIntensityAnalyzer  # noqa: PLC0415  an extra
        self._analyzer: Any = SentimentIntensityAnalyzer()
        self.name = f"vader[{version('vaderSentiment')}]"

    def require_language(self, texts: Iterable[str]) -> None:
        """Refuse texts whose letters are not those of English."""
        letters = ascii_letters = 0
        for text in texts:
            letters += sum(map(str.isalpha, text))
            ascii_letters += sum(character.isascii() and character.isalpha() for character in text)
        if ascii_letters < _LEAST_ASCII * letters:
            raise BadInput(
                f"VADER reads English, and {1 - ascii_letters / letters:.0%} of the letters are of other scripts",
                remedy="--sentiment none leaves its components out, and lexicon:FILE reads any language",
            )

    def read(self, text: str) -> Sentiment | None:
        """Return VADER's compound score and shares."""
        if not text.strip():
            return None
        scores = self._analyzer.polarity_scores(text)
        return Sentiment(scores["compound"], (scores["neg"], scores["neu"], scores["pos"]))


class LexiconSentiment:
    """A file of words with scores, a word and a number a line, separated by a tab.

    The score of a text is s / √(s² + 15) for the sum s of its words' scores; the vector holds the shares of its words
    that are below 0, that are 0 or not in the file, and above 0.
    """

    def __init__(self, path: Path) -> None:
        self._scores = _read_lexicon(path)
        self._tokenize = WordTokenizer().tokenize
        self.name = f"lexicon[{_plain(path.name.split('.')[0])}#{sha256_of(path)[:_DIGITS]}]"

    def require_language(self, texts: Iterable[str]) -> None:
        """Refuse texts none of whose words the lexicon has."""
        for text in texts:
            if any(word in self._scores for word in self._words(text)):
                return
        raise BadInput(f"{self.name} has no word of these conversations", remedy="a lexicon of their language")

    def read(self, text: str) -> Sentiment | None:
        """Return the score and shares of a text; None where it has no words."""
        scores = [self._scores.get(word, 0.0) for word in self._words(text)]
        if not scores:
            return None
        total = math.fsum(scores)
        below, above = (sum(sign * score > 0 for score in scores) / len(scores) for sign in (-1, 1))
        return Sentiment(total / math.sqrt(total * total + _STEEP), (below, 1 - below - above, above))

    def _words(self, text: str) -> list[str]:
        return [token.lower() for token in self._tokenize(text) if any(map(str.isalnum, token))]


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
        vector = np.asarray(self._encoder.sentence_vectors([text])[0], np.float64)
        if np.isnan(vector).any():
            return None
        if vector.min() < 0:
            raise BadInput(
                f"encoder {self._encoder.name} gives {vector.min():g} for an emoji, which is no probability",
                remedy="export the model with its softmax",
            )
        probabilities = vector / vector.sum()  # the encoder scales to unit length
        return Sentiment(float(emoji_score(probabilities)), tuple(probabilities.tolist()))


def _read_lexicon(path: Path) -> Mapping[str, float]:
    if not path.is_file():
        raise BadInput(f"there is no lexicon {path.name}", remedy="a file with a word, a tab and a number a line")
    if path.stat().st_size > _MOST_BYTES:
        raise BadInput(f"{path.name} has more than {_MOST_BYTES >> 20} MiB", remedy="a lexicon of words")
    scores = dict[str, float]()
    try:
        lines = path.read_text("utf-8").splitlines()
    except UnicodeDecodeError as error:
        raise BadInput(f"{path.name} is not UTF-8: {error.reason}", remedy="write it as UTF-8") from error
    for line, text in enumerate(lines, 1):
        if not text.strip() or text.startswith("#"):
            continue
        word, _, number = text.partition("\t")
        score = _score_of(number.split("\t")[0])
        if score is None or not word.strip():
            raise BadInput(
                f"{path.name}, line {line}: {text[:40]!r} is no word and number", remedy="separate them by a tab"
            )
        if scores.setdefault(word.strip().lower(), score) != score:
            raise BadInput(f"{path.name}, line {line}: {word.strip()!r} has two scores", remedy="give it one")
    if not scores or len(scores) > _MOST_WORDS:
        raise BadInput(f"{path.name} has {len(scores):,} words", remedy=f"1 to {_MOST_WORDS:,} words")
    return scores


def _score_of(text: str) -> float | None:
    try:
        score = float(text)
    except ValueError:
        return None
    return score if math.isfinite(score) and "_" not in text else None


def _plain(name: str) -> str:
    return "".join(letter if letter.isascii() and (letter.isalnum() or letter in "._-") else "-" for letter in name)


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
