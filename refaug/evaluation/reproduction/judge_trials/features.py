"""Features of rated replies that fitted judges are tried with: metrics, and what can be seen in the texts themselves.

Each is a number a reply, whatever its scale: a fitted judge maps all of them to normal scores.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from time import process_time
from typing import Final

import numpy as np

from refaug.core.progress import Silent
from refaug.core.records import Item, Reference
from refaug.core.text.tokenizers import get_tokenizer
from refaug.core.vectors.word_vectors import WordVectors, open_word_vectors
from refaug.evaluation.home.indexes import open_index
from refaug.evaluation.reproduction.figures.correlations import Line
from refaug.evaluation.reproduction.judge_trials.vhred_features import vhred_computations
from refaug.evaluation.reproduction.material import metric_candidates
from refaug.evaluation.reproduction.material.chain import Chain
from refaug.evaluation.reproduction.material.rated_sets import ProofSet
from refaug.evaluation.reproduction.material.reference_kinds import line_of
from refaug.evaluation.scoring.augment_settings import AugmentSettings
from refaug.evaluation.scoring.augmentation import augment
from refaug.logs.store import StoredLog
from refaug.metrics.base import Floats
from refaug.metrics.specification import build
from refaug.rater.rating import Rater, RatingRequest

CROSS: Final = "cross rater on the reply, three turns"
CROSS_ALONE: Final = "cross rater on the reply, without the gold"
RECALL: Final = "gold's rare words in the reply"
SPECIFICITY: Final = "specificity: mean idf"
REPETITION: Final = "no repetition of the turns"
CONSISTENCY: Final = "cosine with the turns"
CROWDING: Final = "crowding: cosine with 50 retrieved"
CHRF: Final = metric_candidates.CHRF_GOLD.name
BLEU: Final = "BLEU-2, gold"
LENGTH: Final = "length"
TEXT_FEATURES: Final = (RECALL, SPECIFICITY, REPETITION, CONSISTENCY, CROWDING)
RETRIEVING: Final = frozenset(
    (metric_candidates.GREEDY_BY_WORDS.name, metric_candidates.RECOMMENDED.name, CROWDING)
)  # what needs retrieved references
_TURNS: Final = 3
_NEAREST: Final = 50  # retrieved references that crowding looks at

Words = Sequence[str]
RowFeature = Callable[[Words, Item, int], float]  # words of the reply, its item, the item's number


@dataclass(frozen=True, kw_only=True)
class JudgeFeatures:
    """The features of all rows of some sets, and the seconds that each takes for a thousand replies on one core.

    `search_seconds` come on top, once, where any of the features looks at retrieved references.
    """

    lines: Mapping[str, Line]
    seconds: Mapping[str, float]
    search_seconds: float = 0.0

    def cost_of(self, names: Sequence[str]) -> float:
        """Return the seconds that some features take together for a thousand replies."""
        searching = self.search_seconds if RETRIEVING & set(names) else 0.0
        return round(sum(self.seconds[name] for name in names) + searching, 2)


def features_of(chain: Chain, trial: metric_candidates.Trial) -> JudgeFeatures:
    """Compute every feature and the processor time that it takes, apart from the search.

    Each is computed for one set first, so that what is compiled or opened at its first use counts for none of them.
    """
    rows = sum(len(rated_set.replies) for rated_set in trial.sets)
    if chain.settings.cross:
        chain.cross_rater()  # trained before any time is taken
    for rated_set in trial.sets:
        trial.pool(rated_set, metric_candidates.WORDS)
    smallest = metric_candidates.Trial(chain, [min(trial.sets, key=lambda each: len(each.replies))])
    texts = _TextFeatures.of(chain, trial)
    for compute in _computations(chain, smallest, replace(texts, trial=smallest)).values():
        compute()
    lines, seconds, computed = dict[str, Line](), dict[str, float](), _computations(chain, trial, texts)
    chain.progress.stage("features of judges", len(computed), "features")
    for name, compute in computed.items():
        began = process_time()
        lines[name] = compute()
        seconds[name] = round(1_000 * (process_time() - began) / rows, 2)
        chain.progress.advance(1)
    return JudgeFeatures(lines=lines, seconds=seconds, search_seconds=_search_seconds(chain, trial))


def _search_seconds(chain: Chain, trial: metric_candidates.Trial) -> float:
    """Return the processor time of the search for a thousand replies: an item of these sets is searched for once."""
    rated_set = min(trial.sets, key=lambda each: len(each.items))
    settings = AugmentSettings(k=_NEAREST, mode=metric_candidates.WORDS, weights="one", parrot="off")
    with open_index(chain.home, trial.index, threads=chain.settings.threads) as opened:
        list(augment(rated_set.items[:1], opened, None, settings, Silent()))  # opened before any time is taken
        began = process_time()
        list(augment(rated_set.items, opened, None, settings, Silent()))
        seconds = process_time() - began
    items, rows = (sum(map(len, parts)) for parts in zip(*((s.items, s.replies) for s in trial.sets), strict=True))
    return round(1_000 * seconds / len(rated_set.items) * items / rows, 2)


def _computations(chain: Chain, trial: metric_candidates.Trial, texts: _TextFeatures) -> dict[str, Callable[[], Line]]:
    computed: dict[str, Callable[[], Line]] = {
        metric_candidates.REPLY_TO_THREE.name: lambda: trial.line(metric_candidates.REPLY_TO_THREE, {}),
        metric_candidates.GREEDY_BY_WORDS.name: lambda: trial.line(metric_candidates.GREEDY_BY_WORDS, {}),
        metric_candidates.GREEDY_GOLD.name: lambda: trial.line(metric_candidates.GREEDY_GOLD, {}),
        metric_candidates.RECOMMENDED.name: lambda: trial.line(metric_candidates.RECOMMENDED, {}),
        CROSS: lambda: _cross_line(chain, trial),
        CROSS_ALONE: lambda: _line(CROSS_ALONE, trial, lambda rated_set: _rated_alone(chain.cross_rater(), rated_set)),
        RECALL: lambda: texts.line(RECALL, texts.recall),
        SPECIFICITY: lambda: texts.line(SPECIFICITY, texts.specificity),
        REPETITION: lambda: texts.line(REPETITION, texts.novelty),
        CONSISTENCY: lambda: texts.line(CONSISTENCY, texts.consistency),
        CROWDING: lambda: _line(CROWDING, trial, texts.crowding),
        CHRF: lambda: trial.line(metric_candidates.CHRF_GOLD, {}),
        BLEU: lambda: line_of(BLEU, trial.sets, build("bleu"), about="bleu"),
        LENGTH: lambda: _line(LENGTH, trial, lambda rated_set: rated_set.lengths),
        **vhred_computations(chain, trial.sets),
    }
    if chain.settings.cross:
        return computed
    return {name: compute for name, compute in computed.items() if name not in (CROSS, CROSS_ALONE)}


def _line(name: str, trial: metric_candidates.Trial, scores_of: Callable[[ProofSet], Floats]) -> Line:
    return Line(name=name, scores={rated_set.name: scores_of(rated_set)[None] for rated_set in trial.sets})


def _cross_line(chain: Chain, trial: metric_candidates.Trial) -> Line:
    candidate = metric_candidates.MetricCandidate(
        name=CROSS, why="", family="rater", metric=metric_candidates.REPLY_TO_THREE.metric
    )
    metric = chain.bind_rater(build(candidate.metric), chain.cross_rater())
    return line_of(CROSS, trial.sets, metric, about=candidate.metric)


def _rated_alone(rater: Rater, rated_set: ProofSet) -> Floats:
    requests = [
        RatingRequest(
            utterance=rater.turn_separator.join(rated_set.items[number].turns[-_TURNS:]),
            golds=(),
            candidates=(Reference(text=reply),),
        )
        for number, reply in zip(rated_set.item.tolist(), rated_set.replies, strict=True)
    ]
    return np.array([ratings[0] for ratings in rater.rate(requests)])


@dataclass(frozen=True, kw_only=True, eq=False)
class _TextFeatures:
    """What can be seen in the texts: words with their idf in the log, and their vectors."""

    trial: metric_candidates.Trial
    idf: Mapping[str, float]
    rarest: float  # of words that the log does not have
    vectors: WordVectors

    @classmethod
    def of(cls, chain: Chain, trial: metric_candidates.Trial) -> _TextFeatures:
        counts, texts = Counter[str](), 0
        tokenizer = get_tokenizer(trial.sets[0].tokenizer)
        for name in chain.logs(chain.everyday):
            for batch in StoredLog.open(chain.home.logs, name).batches(["response"]):
                for words in tokenizer.tokenize_batch(batch["response"].to_pylist()):
                    counts.update(set(map(str.lower, words)))
                    texts += 1
        idf = {word: float(np.log(texts / count)) for word, count in counts.items()}
        vectors = open_word_vectors(chain.vectors_folder(chain.vectors()))
        return cls(trial=trial, idf=idf, rarest=float(np.log(max(texts, 2))), vectors=vectors)

    def line(self, name: str, feature: RowFeature) -> Line:
        """Compute a feature row by row."""
        return _line(name, self.trial, lambda rated_set: self._by_row(rated_set, feature))

    def _by_row(self, rated_set: ProofSet, feature: RowFeature) -> Floats:
        words = [self._words(rated_set, reply) for reply in rated_set.replies]
        return np.array(
            [
                feature(own, rated_set.items[number], number)
                for own, number in zip(words, rated_set.item.tolist(), strict=True)
            ]
        )

    def _words(self, rated_set: ProofSet, text: str) -> list[str]:
        return [word.lower() for word in get_tokenizer(rated_set.tokenizer).tokenize(text)]

    def _idf(self, word: str) -> float:
        return self.idf.get(word, self.rarest)

    def specificity(self, words: Words, item: Item, number: int) -> float:
        """Return the mean idf of the reply's words."""
        del item, number
        return float(np.mean([self._idf(word) for word in words])) if words else 0.0

    def recall(self, words: Words, item: Item, number: int) -> float:
        """Return the share of the gold's idf that the reply has: a longer reply loses nothing of it."""
        del number
        text = item.gold.text if item.gold else ""
        gold = dict.fromkeys(self._words(self.trial.sets[0], text))  # in order: a sum over a set differs in last digits
        reply = set(words)
        total = sum(map(self._idf, gold))
        return sum(self._idf(word) for word in gold if word in reply) / total if total else 0.0

    def novelty(self, words: Words, item: Item, number: int) -> float:
        """Return the share of the reply's idf that the turns do not have."""
        del number
        said = {word for turn in item.turns[-_TURNS:] for word in self._words(self.trial.sets[0], turn)}
        total = sum(map(self._idf, words))
        return sum(self._idf(word) for word in words if word not in said) / total if total else 0.0

    def consistency(self, words: Words, item: Item, number: int) -> float:
        """Return the cosine of the reply and the last turns, words weighted by idf."""
        del number
        turns = [word for turn in item.turns[-_TURNS:] for word in self._words(self.trial.sets[0], turn)]
        return float(self._vector(words) @ self._vector(turns))

    def crowding(self, rated_set: ProofSet) -> Floats:
        """Return the mean cosine of each reply and what people say in such a place."""
        pool = self.trial.pool(rated_set, metric_candidates.WORDS)
        means = [
            np.mean(
                [self._vector(self._words(rated_set, reference.text)) for reference in references[:_NEAREST]], axis=0
            )
            if references
            else np.zeros(self.vectors.dimensions)
            for references in pool.retrieved
        ]
        return np.array(
            [
                float(self._vector(self._words(rated_set, reply)) @ means[number])
                for reply, number in zip(rated_set.replies, rated_set.item.tolist(), strict=True)
            ]
        )

    def _vector(self, words: Words) -> Floats:
        """Return the unit vector of the mean of some words' vectors, weighted by idf; 0 where none is known."""
        rows = self.vectors.rows_of(words)
        is_there = rows >= 0
        if not is_there.any():
            return np.zeros(self.vectors.dimensions)
        weights = np.array([self._idf(word) for word in words])[is_there]
        total = weights @ np.asarray(self.vectors.matrix[rows[is_there]], np.float64)
        return np.asarray(total / (np.linalg.norm(total) or 1.0))
