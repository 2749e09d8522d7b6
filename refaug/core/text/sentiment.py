"""What reads the sentiment of a text: VADER, or a lexicon that the user brings."""

from __future__ import annotations

import math
import os
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, Protocol

from refaug.core.errors import BadInput
from refaug.core.files import sha256_of
from refaug.core.installation import extras_named
from refaug.core.text.tokenizer_base import WordTokenizer

_LEAST_ASCII: Final = 0.8  # of the letters of English texts
MOST_WORDS: Final = 1_000_000  # of a lexicon
_MOST_BYTES: Final = 64 << 20  # of a lexicon
_DIGITS: Final = 12  # of hashes in names
_STEEP: Final = 15.0  # how soon the score of a lexicon nears its ends, as in VADER


@dataclass(frozen=True, slots=True)
class Sentiment:
    """What a reader of sentiment says of a text."""

    score: float
    vector: tuple[float, ...]


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


def require_lexicon(path: Path, second: str) -> None:
    """Raise BadInput for a file that is not there, or cannot be read; `second` is what stands after a word."""
    remedy = f"a file with a word, a tab and a {second} a line"
    try:
        if not path.is_file():
            raise BadInput(f"there is no lexicon {path.name}", remedy=remedy)
        with path.open("rb") as file:
            size = os.fstat(file.fileno()).st_size
    except OSError as error:
        raise BadInput(f"the lexicon {path.name} cannot be read: {error.strerror}", remedy=remedy) from error
    if size > _MOST_BYTES:
        raise BadInput(f"{path.name} has more than {_MOST_BYTES >> 20} MiB", remedy="a lexicon of words")


def _read_lexicon(path: Path) -> Mapping[str, float]:
    require_lexicon(path, "number")
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
                f"{path.name}, line {line}: {text[:40]!r} is not a word and number", remedy="separate them by a tab"
            )
        if scores.setdefault(word.strip().lower(), score) != score:
            raise BadInput(f"{path.name}, line {line}: {word.strip()!r} has two scores", remedy="give it one")
    if not scores or len(scores) > MOST_WORDS:
        raise BadInput(f"{path.name} has {len(scores):,} words", remedy=f"1 to {MOST_WORDS:,} words")
    return scores


def _score_of(text: str) -> float | None:
    try:
        score = float(text)
    except ValueError:
        return None
    return score if math.isfinite(score) and "_" not in text else None


def _plain(name: str) -> str:
    return "".join(letter if letter.isascii() and (letter.isalnum() or letter in "._-") else "-" for letter in name)
