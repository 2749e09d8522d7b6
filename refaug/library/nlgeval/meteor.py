"""METEOR 1.5 (Denkowski and Lavie 2014) for English, without its table of paraphrases and without Java.

Words match exactly, as stems (Snowball), or as words of one synset of WordNet. An alignment uses each word once; the
best one covers most words, then has the fewest chunks, then the shortest distances. With h the reply, r the reference,
f function words and c the other words, w the weight of the kind of a match, m its numbers of matches and ch the chunks:

    P, R   = Σ w · (δ m_c + (1 − δ) m_f) / (δ |c| + (1 − δ) |f|)       of h, and of r
    F      = P · R / (α P + (1 − α) R)
    score  = F · (1 − γ (ch / m)^β)                                     0 for the fraction where both texts match whole

The score of many replies comes from the sums of these numbers. nlg-eval runs the authors' program, which also matches
paraphrases, from a table of 60 MB: `docs/coming-from.md` has the difference as measured.
"""

from __future__ import annotations

import functools
import itertools
import json
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any, Final, NamedTuple

from refaug.metrics.words.meteor import NoWordNet, WordNet

# ── The words of a text as METEOR counts them, and which of them are function words ───────────────────────────────────

_SAME_MARKS: Final = str.maketrans({"“": '"', "”": '"', "„": '"', "‘": "'", "’": "'", "`": "'", "–": "-"})
_LETTERS_WITH_STOPS: Final = re.compile(r"\b(?:[^\W\d_]\.){2,}(?!\w)|\b(?:[^\W\d_]\.)+[^\W\d_]\b(?!\.?\w)")
_HYPHEN_IN_WORD: Final = re.compile(r"(?<=\w)-(?=\w)")
_TOKEN: Final = re.compile(
    r"\d+(?:[.,]\d+)*\.(?=[^\W\d_])[^\W\d_]*"  # 3.a
    r"|\d+(?:[.,]\d+)+"  # 1,000.5
    r"|(?<=\w)'[^\W\d_]+"  # 's
    r"|[\u3040-\u30ff\u3400-\u9fff\uf900-\ufaff]"  # a character of Japanese or Chinese
    r"|(?:(?![\u3040-\u30ff\u3400-\u9fff\uf900-\ufaff_])\w)+"
    r"|\.{2,}"
    r"|\S"
)


def normalize(text: str) -> list[str]:
    """Return the tokens of a text in lower case, as METEOR's -norm gives them."""
    marks = text.translate(_SAME_MARKS).replace("''", '"')
    joined = _LETTERS_WITH_STOPS.sub(lambda match: match.group().replace(".", ""), marks)
    words = _HYPHEN_IN_WORD.sub(" ", joined).split()
    tokens: list[str] = []
    for at, word in enumerate(words):
        tokens += _split(word, following=words[at + 1] if at + 1 < len(words) else "")
    return tokens


def _split(word: str, following: str) -> list[str]:
    """Split a word between white space; a full stop stays with its word where the sentence goes on."""
    tokens = _TOKEN.findall(word.lower())
    goes_on = following[:1].islower() or (following and tokens[-2:-1] and tokens[-2] in english_words("abbreviations"))
    if goes_on and len(tokens) > 1 and tokens[-1] == "." and tokens[-2].isalnum():
        return [*tokens[:-2], f"{tokens[-2]}."]
    return tokens


def is_function_word(token: str) -> bool:
    """Whether a token is so frequent that it says little."""
    return token in english_words("function_words")


@functools.cache
def english_words(kind: str) -> frozenset[str]:
    """Return `function_words`, those that are more than one word in a thousand, or `abbreviations`."""
    lists: dict[str, list[str]] = json.loads(Path(__file__).with_name("english_words.json").read_text("utf-8"))
    return frozenset(lists[kind])


# ── METEOR 1.5 (Denkowski and Lavie 2014) for English, without its table of paraphrases and without Java ──────────────

_ALPHA, _BETA, _GAMMA, _DELTA = 0.85, 0.20, 0.60, 0.75
_EXACT, _STEM, _SYNONYM = 1.0, 0.6, 0.8
_BEAM: Final = 40


@dataclass(frozen=True)
class MeteorSums:
    """The numbers that a score comes from; those of many replies are added."""

    reply_mass: float = 0.0
    reference_mass: float = 0.0
    reply_match_mass: float = 0.0
    reference_match_mass: float = 0.0
    matches: float = 0.0
    chunks: float = 0.0
    words: float = 0.0  # the mean of both lengths

    def __add__(self, other: MeteorSums) -> MeteorSums:
        names = [field.name for field in fields(self)]
        return MeteorSums(*(getattr(self, name) + getattr(other, name) for name in names))

    @property
    def score(self) -> float:
        """METEOR of these sums."""
        if not self.reply_match_mass or not self.reference_match_mass:
            return 0.0
        precision, recall = self.reply_match_mass / self.reply_mass, self.reference_match_mass / self.reference_mass
        mean = precision * recall / (_ALPHA * precision + (1 - _ALPHA) * recall)
        is_whole = self.chunks == 1 and self.matches == self.words
        fragmentation = 0.0 if is_whole else self.chunks / self.matches
        return mean * (1 - _GAMMA * float(fragmentation**_BETA))


class _Path(NamedTuple):
    """A partial alignment, ordered by what makes it better: words covered, then chunks, then distances."""

    matched: int
    chunks: int
    distance: int
    used: int  # a bit for each word of the reference
    last: int  # the place in the reference of the previous word of the reply; -2 where that has no match
    pairs: tuple[tuple[int, int, float], ...]

    @property
    def rank(self) -> tuple[int, int, int]:
        return (-self.matched, self.chunks, self.distance)


class MeteorScorer:
    """METEOR with the synonyms of a folder of WordNet, or without synonyms."""

    def __init__(self, wordnet: Path | None) -> None:
        self._wordnet = NoWordNet() if wordnet is None else WordNet.open(wordnet)
        self.name = self._wordnet.name
        self._stem = _stemmer()
        self._meaning_numbers: dict[Any, int] = {}
        self._unused_numbers = itertools.count()
        self._meanings = functools.lru_cache(maxsize=2**16)(self._meanings_of)

    def score(self, items: Sequence[tuple[str, Sequence[str]]]) -> float:
        """Return METEOR of all replies together, each against its best reference."""
        total = MeteorSums()
        for reply, references in items:
            total += max((self.sums(reply, reference) for reference in references), key=lambda sums: sums.score)
        return total.score

    def sums(self, reply: str, reference: str) -> MeteorSums:
        """Return the numbers of one reply and one reference."""
        first, second = normalize(reply), normalize(reference)
        path = self._align(first, second)
        return MeteorSums(
            reply_mass=_mass(first),
            reference_mass=_mass(second),
            reply_match_mass=sum(weight * _word_mass(first[at]) for at, _, weight in path.pairs),
            reference_match_mass=sum(weight * _word_mass(second[at]) for _, at, weight in path.pairs),
            matches=path.matched,
            chunks=path.chunks,
            words=(len(first) + len(second)) / 2,
        )

    def _align(self, reply: Sequence[str], reference: Sequence[str]) -> _Path:
        """Return the best alignment that a beam search finds, word by word of the reply."""
        weigh = functools.cache(self._weight)
        paths = [_Path(0, 0, 0, 0, -2, ())]
        for at, word in enumerate(reply):
            options = [(place, weight) for place, other in enumerate(reference) if (weight := weigh(word, other))]
            best: dict[tuple[int, int], _Path] = {}
            for path in paths:
                extended = [_extend(path, at, place, weight) for place, weight in options if not path.used >> place & 1]
                for further in (path._replace(last=-2), *extended):
                    state = (further.used, further.last)
                    if state not in best or further.rank < best[state].rank:
                        best[state] = further
            paths = sorted(best.values(), key=lambda path: path.rank)[:_BEAM]
        return paths[0]

    def _weight(self, word: str, other: str) -> float:
        """Return the weight of a match of two words, 0 where they do not match."""
        if word == other:
            return _EXACT
        if self._stem(word) == self._stem(other):
            return _STEM
        return _SYNONYM if not self._meanings(word).isdisjoint(self._meanings(other)) else 0.0

    def _meanings_of(self, word: str) -> frozenset[int]:
        """Return the numbers of the synsets of a word: numbers compare quicker than synsets."""
        numbers, unused = self._meaning_numbers, self._unused_numbers
        return frozenset(numbers.setdefault(synset, next(unused)) for synset in self._wordnet.synsets(word))


def _extend(path: _Path, at: int, place: int, weight: float) -> _Path:
    return _Path(
        matched=path.matched + 1,
        chunks=path.chunks + (path.last + 1 != place),
        distance=path.distance + abs(at - place),
        used=path.used | 1 << place,
        last=place,
        pairs=(*path.pairs, (at, place, weight)),
    )


def _word_mass(word: str) -> float:
    return 1 - _DELTA if is_function_word(word) else _DELTA


def _mass(words: Sequence[str]) -> float:
    return sum(map(_word_mass, words))


@functools.cache
def _stemmer() -> Callable[[str], str]:
    from nltk.stem.snowball import EnglishStemmer  # noqa: PLC0415  a third of a second

    stem: Any = EnglishStemmer().stem
    return functools.lru_cache(maxsize=2**16)(stem)
