"""The names of nlg-eval's metrics, and scores by these names."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, NoReturn

BLEU: Final = ("Bleu_1", "Bleu_2", "Bleu_3", "Bleu_4")
METEOR: Final = "METEOR"
ROUGE: Final = "ROUGE_L"
CIDER: Final = "CIDEr"
SPICE: Final = "SPICE"
SKIP_THOUGHTS: Final = "SkipThoughtCS"
AVERAGE: Final = "EmbeddingAverageCosineSimilarity"
OLD_AVERAGE: Final = "EmbeddingAverageCosineSimilairty"  # a slip of the pen that nlg-eval still answers to
EXTREMA: Final = "VectorExtremaCosineSimilarity"
GREEDY: Final = "GreedyMatchingScore"
OVERLAP: Final = (*BLEU, METEOR, ROUGE, CIDER, SPICE)
EMBEDDINGS: Final = (AVERAGE, EXTREMA, GREEDY)
ALL: Final = (*OVERLAP, SKIP_THOUGHTS, *EMBEDDINGS)


class NamedScores(dict[str, float]):
    """Scores by the names of nlg-eval, in its order; a name that is missing says why.

    `omitted` holds the metrics without a score, each with the reason; `signature` says what the scores depend on.
    """

    def __init__(self, scores: Mapping[str, float], omitted: Mapping[str, str], signature: str) -> None:
        super().__init__(scores)
        self.omitted = dict(omitted)
        self.signature = signature

    def __missing__(self, name: str) -> NoReturn:
        reason = self.omitted.get(name, "nlg-eval has no metric of that name")
        raise KeyError(f"{name}: {reason}")
