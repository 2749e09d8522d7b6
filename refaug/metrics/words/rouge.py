"""ROUGE-1, ROUGE-2 and ROUGE-L of the package rouge-score, over its tokens or ours.

The longest common subsequence of ROUGE-L is computed here, from rows of bits: two texts of 3,000 words take two
milliseconds, where the package's table takes two seconds. The tests compare it with the package, bit for bit.

With several references `multi=best` takes the best by the chosen measure; rouge-score's `score_multi` always chooses by
F, which differs for precision and recall only.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from refaug.core.errors import Usage
from refaug.metrics import single_reference
from refaug.metrics.base import Floats, Indexes, Problem
from refaug.metrics.metric_info import MetricInfo

_TYPES: Final = {"rouge-1": "rouge1", "rouge-2": "rouge2", "rouge-l": "rougeL"}
_FIELDS: Final = {"f": "fmeasure", "precision": "precision", "recall": "recall"}
_LARGEST_TABLE: Final = 10_000_000  # 3,000 words with 3,000; longer texts have never had a score
_STEM_FROM: Final = 4  # rouge-score leaves words of up to three letters as they are

Tokens = list[str]


class _TokenPassThrough:
    """A tokenizer for RougeScorer that gets tokens instead of texts, so that no text is tokenised twice."""

    @staticmethod
    def tokenize(tokens: Tokens) -> Tokens:
        """Return the tokens unchanged."""
        return tokens


class Rouge(single_reference.SingleReferenceMetric):
    """One kind of ROUGE."""

    def __init__(self, info: MetricInfo, settings: Mapping[str, str]) -> None:
        chosen = dict(settings)
        library = single_reference.import_library("rouge_score.rouge_scorer", package="rouge-score", metric=info.name)
        self._type = _TYPES[info.name]
        self._field = _FIELDS[chosen["measure"]]
        self._scorer = library.RougeScorer([self._type], tokenizer=_TokenPassThrough())
        self._fmeasure = library.scoring.fmeasure
        self._words = (
            _RougeWords(info.name, chosen) if chosen["tok"] == "rouge" else _metric_tokenizer(info.name, chosen)
        )
        self.info = info
        self.settings = {**chosen, **self._words.settings}
        self.choose_references(chosen)

    def versions(self) -> Mapping[str, str]:
        """Return the package's and the tokenizer's."""
        return {**single_reference.package_version("rouge-score"), **self._words.versions()}

    def read(self, texts: list[str]) -> list[Tokens]:
        """Return tokens."""
        return self._words.of(texts)

    def usable(self, read: Any) -> NDArray[np.bool_]:
        """Return which texts have tokens."""
        return single_reference.non_empty(read)

    def pair_values(self, replies: Any, references: Any, reply_places: Indexes, reference_places: Indexes) -> Floats:
        """Return F, precision or recall."""
        pairs = zip(reply_places.tolist(), reference_places.tolist(), strict=True)
        return np.array([self._value(replies[h], references[t]) for h, t in pairs], dtype=np.float64)

    def _value(self, reply: Tokens, reference: Tokens) -> float:
        if self._type != "rougeL":
            return float(getattr(self._scorer.score(reference, reply)[self._type], self._field))
        if len(reply) * len(reference) > _LARGEST_TABLE:
            return float("nan")
        return self._subsequence_value(reply, reference)

    def _subsequence_value(self, reply: Tokens, reference: Tokens) -> float:
        """Return ROUGE-L with the package's arithmetic; 0 where a text has no tokens."""
        if not reply or not reference:
            return 0.0
        common = common_subsequence(reply, reference)
        precision, recall = common / len(reply), common / len(reference)
        if self._field == "fmeasure":
            return float(self._fmeasure(precision, recall))
        return precision if self._field == "precision" else recall

    def undefined(self) -> Problem:
        """Only texts that are too long have no score."""
        return single_reference.TOO_LONG


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
        library = single_reference.import_library("rouge_score.tokenizers", package="rouge-score", metric=metric)
        self._stems = settings["stem"] == "yes"
        self._tokenizer = library.DefaultTokenizer(use_stemmer=self._stems)
        self.settings = {"case": "lc", "tok": "rouge"}

    def of(self, texts: list[str]) -> list[Tokens]:
        tokenize = self._tokenizer.tokenize
        return [tokenize(text) for text in texts]

    def versions(self) -> dict[str, str]:
        return single_reference.package_version("nltk") if self._stems else {}


def _metric_tokenizer(metric: str, settings: dict[str, str]) -> single_reference.MetricTokenizer:
    return single_reference.MetricTokenizer(metric, settings, stem_from=_STEM_FROM)


def build(info: MetricInfo, settings: Mapping[str, str]) -> Rouge:
    """Build the metric from checked settings."""
    return Rouge(info, settings)
