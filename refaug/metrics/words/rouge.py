"""ROUGE-1, ROUGE-2 and ROUGE-L as in the package rouge-score, over its tokens or ours.

The tests compare all three with the package. The longest common subsequence of ROUGE-L comes from rows of bits: two
texts of 3,000 words take two milliseconds, where the package's table takes two seconds.

With several references `multi=best` takes the best by the chosen measure; rouge-score's `score_multi` always chooses by
F, which differs for precision and recall only.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any, Final

import numpy as np

from refaug.core.errors import Usage
from refaug.metrics import single_reference
from refaug.metrics.base import Floats, Indexes, Problem
from refaug.metrics.metric_info import MetricInfo

_SIZES: Final = {"rouge-1": 1, "rouge-2": 2}  # of n-grams; ROUGE-L has subsequences
_TOKENS: Final = re.compile("[a-z0-9]+")
_LARGEST_TABLE: Final = 10_000_000  # 3,000 words with 3,000; longer texts have never had a score
_STEM_FROM: Final = 4  # rouge-score leaves words of up to three letters as they are

Tokens = list[str]


class Rouge(single_reference.SingleReferenceMetric):
    """One kind of ROUGE."""

    def __init__(self, info: MetricInfo, settings: Mapping[str, str]) -> None:
        chosen = dict(settings)
        self._size = _SIZES.get(info.name)
        self._measure = chosen["measure"]
        self._words = (
            _RougeWords(info.name, chosen) if chosen["tok"] == "rouge" else _metric_tokenizer(info.name, chosen)
        )
        self.info = info
        self.settings = {**chosen, **self._words.settings}
        self.choose_references(chosen)

    def versions(self) -> Mapping[str, str]:
        """Return those of the tokenizer and the stemmer."""
        return self._words.versions()

    def read(self, texts: list[str]) -> list[Tokens]:
        """Return tokens."""
        return self._words.of(texts)

    def pair_values(self, replies: Any, references: Any, reply_places: Indexes, reference_places: Indexes) -> Floats:
        """Return F, precision or recall."""
        pairs = zip(reply_places.tolist(), reference_places.tolist(), strict=True)
        return np.array([self._value(replies[h], references[t]) for h, t in pairs], dtype=np.float64)

    def _value(self, reply: Tokens, reference: Tokens) -> float:
        if self._size is not None:
            grams, others = (_ngrams(tokens, self._size) for tokens in (reply, reference))
            return self._share((grams & others).total(), grams.total(), others.total())
        if len(reply) * len(reference) > _LARGEST_TABLE:
            return float("nan")
        return self._share(common_subsequence(reply, reference), len(reply), len(reference))

    def _share(self, common: int, of_reply: int, of_reference: int) -> float:
        """Return F, precision or recall; 0 where a text has nothing to count."""
        precision, recall = common / max(of_reply, 1), common / max(of_reference, 1)
        if self._measure == "f":
            return 2 * precision * recall / (precision + recall) if common else 0.0
        return precision if self._measure == "precision" else recall

    def undefined(self) -> Problem:
        """Only texts that are too long have no score."""
        return single_reference.TOO_LONG


def _ngrams(tokens: Tokens, size: int) -> Counter[tuple[str, ...]]:
    return Counter(zip(*(tokens[place:] for place in range(size)), strict=False))


def common_subsequence(first: Sequence[str], second: Sequence[str]) -> int:
    """Return the length of the longest common subsequence (Hyyrö 2004, Bit-parallel LCS-length computation revisited).

    A row of the usual table is one integer with a bit for each word of the shorter text; a bit of 0 is a step of the
    row, so that the zeros of the last row are the length.
    """
    shorter, longer = sorted((first, second), key=len)
    places = dict[str, int]()
    for place, word in enumerate(shorter):
        places[word] = places.get(word, 0) | 1 << place
    all_places = (1 << len(shorter)) - 1
    row = all_places
    for word in longer:
        matches = row & places.get(word, 0)
        row = (row + matches | row - matches) & all_places
    return len(shorter) - row.bit_count()


class _RougeWords:
    """The tokens of rouge-score: runs of ASCII letters and digits, lower-case."""

    def __init__(self, metric: str, settings: Mapping[str, str]) -> None:
        if settings["case"] == "mixed":
            raise Usage(
                f"{metric}: tok=rouge is lower-case by itself", remedy="case=lc, or another tokenizer: 13a, intl"
            )
        self._stem = single_reference.porter() if settings["stem"] == "yes" else None
        self.settings = {"case": "lc", "tok": "rouge"}

    def of(self, texts: list[str]) -> list[Tokens]:
        stem, tokens = self._stem, [_TOKENS.findall(text.lower()) for text in texts]
        if stem is None:
            return tokens
        return [[stem(word) if len(word) >= _STEM_FROM else word for word in words] for words in tokens]

    def versions(self) -> dict[str, str]:
        return single_reference.package_version("nltk") if self._stem else {}


def _metric_tokenizer(metric: str, settings: dict[str, str]) -> single_reference.MetricTokenizer:
    return single_reference.MetricTokenizer(metric, settings, stem_from=_STEM_FROM)
