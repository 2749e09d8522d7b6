"""An encoder without a network and invented ratings, for tests of ADEM's scorer."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from refaug.rater.adem.scorer.rated_triples import RatedTriples, Triple

TOPICS = ("tea", "rain", "music", "trains", "bread", "football")
FILLER = ("the", "a", "it", "was", "very", "good", "and", "then", "we", "liked", "that", "so", "much", "again", "too")


class WordEncoder:
    """Gives a dialogue the mean of fixed vectors of its words, the second half of the numbers from its last turn."""

    spec = "words@1#0123456789ab"

    def __init__(self, size: int = 16) -> None:
        self.size = size
        self.calls = list[int]()

    def encode(self, dialogues: Sequence[Sequence[str]], state: str = "context") -> NDArray[np.float32]:
        """Return the vectors; `utterance` mirrors those of `context`."""
        self.calls.append(len(dialogues))
        rows = [np.concatenate([self._mean(" ".join(turns)), self._mean(turns[-1])]) for turns in dialogues]
        vectors = np.array(rows, dtype=np.float32).reshape(len(rows), self.size)
        return vectors if state == "context" else vectors[:, ::-1].copy()

    def _mean(self, text: str) -> NDArray[np.float64]:
        vectors = [self._vector(word) for word in text.lower().split()] or [np.zeros(self.size // 2)]
        return np.asarray(np.mean(vectors, axis=0))

    def _vector(self, word: str) -> NDArray[np.float64]:
        seed = int.from_bytes(hashlib.sha256(word.encode()).digest()[:8], "little")
        return np.random.default_rng(seed).normal(size=self.size // 2)


def rated_triples(contexts: int = 40, *, seed: int = 1, signal: float = 1.0) -> RatedTriples:
    """Four replies to each context; those on its topic are rated higher, by `signal`, in 1 to 5."""
    rng = np.random.default_rng(seed)
    triples, ratings, numbers, systems = list[Triple](), list[float](), list[int](), list[str]()
    for number in range(contexts):
        topic = TOPICS[number % len(TOPICS)]
        for system in range(4):
            is_good = system % 2 == 0
            named = topic if is_good else TOPICS[(number + 1 + system) % len(TOPICS)]
            reply = _sentence(named, rng)
            triples.append(
                Triple(
                    context=(_sentence("hello", rng), _sentence(topic, rng)),
                    reference=_sentence(topic, rng),
                    reply=reply,
                )
            )
            ratings.append(float(np.clip(3 + signal * (1.5 if is_good else -1.5) + rng.normal(0, 0.7), 1, 5)))
            numbers.append(number)
            systems.append(f"system-{system}")
    return RatedTriples(
        triples=tuple(triples),
        ratings=np.array(ratings),
        contexts=np.array(numbers, dtype=np.int64),
        systems=tuple(systems),
    )


def _sentence(topic: str, rng: np.random.Generator) -> str:
    words = rng.choice(FILLER, rng.integers(1, 12)).tolist()
    return " ".join([*words, topic, topic])
