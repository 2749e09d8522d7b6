"""BM25 as its definition reads, in plain Python: what the compiled one is held to."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

Text = Sequence[int]


@dataclass(frozen=True)
class PlainBm25:
    """The texts whose words are counted; others can be scored too."""

    texts: Sequence[Text]
    k1: float = 1.2
    b: float = 0.75

    def df(self, word: int) -> int:
        """In how many texts a word is."""
        return sum(word in text for text in self.texts)

    def idf(self, word: int) -> float:
        """Lucene's, which is never negative."""
        return math.log(1 + (len(self.texts) - self.df(word) + 0.5) / (self.df(word) + 0.5))

    @property
    def average_length(self) -> float:
        """The mean length of the texts; 1 where there are no words."""
        words = sum(len(text) for text in self.texts)
        return words / len(self.texts) if words else 1.0

    def score(self, query: Text, text: Text) -> float:
        """What a query gives to a text, to a millionth; -1 in a query is a word that nobody knows."""
        norm = self.k1 * (1 - self.b + self.b * len(text) / self.average_length)
        total, occurrences = 0.0, Counter(text)
        for word, times in sorted(Counter(word for word in query if word >= 0).items()):
            if tf := occurrences[word]:
                total += times * self.idf(word) * (tf / (tf + norm))
        return round(total * 1e6) / 1e6

    def ranking(self, query: Text) -> list[tuple[int, float]]:
        """The texts with a score above 0, best first, the earlier first among equals."""
        scored = [(row, self.score(query, text)) for row, text in enumerate(self.texts)]
        return sorted(((row, score) for row, score in scored if score > 0), key=lambda found: (-found[1], found[0]))
