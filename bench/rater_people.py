"""How a rater's own opinion of replies goes with people's, beside what needs no rater: length, shared words, vectors.

Rows, scores and intervals are those of `refaug meta`: fair rows, and whole contexts drawn again. Every set is read
twice, with all its golds and with the first alone, and compared twice, with all systems and without the one whose
replies stand in the dialogues that raters are trained on.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from core.errors import NotFound
from core.log_store import StoredLog
from core.progress import Silent
from core.records import Item
from core.text import get_tokenizer
from metrics.agreement import Agreement, RatedSet, mean_over_sets
from metrics.base import Floats, Indexes, Metric, tokenizer_versions
from metrics.catalogue import Corpus, MetricInfo, Uses
from metrics.resampling import Estimate
from metrics.several import SingleReferenceMetric, non_empty
from metrics.specification import Specification, build
from rater.checkpoint import read_manifest
from service.artefacts import stored
from service.meta_records import LENGTH, ComparedMetric, MetaSettings, RatedItems
from service.meta_rows import TakenSet
from service.meta_scores import ScoredSet, score_set
from service.proof.sets import read_rated
from service.rating import open_rater, with_rater
from service.settings import Settings

SETS: Final = ("dailydialog_gupta", "dailydialog_zhao")
# 88 and 81 of whose 100 replies stand word for word in the log dailydialog_en.
SEEN: Final = {"dailydialog_gupta": "dualencoder_train", "dailydialog_zhao": "negative-sample"}
RATINGS: Final = {"rating": "first", "rating_mean": "mean", "rating_max": "max"}
BASELINES: Final = (LENGTH, "idf_overlap", "embedding_average", "greedy")
_TOKENIZER: Final = "word"


# ── words in common ───────────────────────────────────────────────────────────────────────────────────────────────


@dataclass(frozen=True, kw_only=True)
class Idf:
    """How rare words are among texts: ln((texts + 1) / (texts with the word + 1))."""

    source: str
    texts: int
    counts: Mapping[str, int]  # texts with each word

    @classmethod
    def of(cls, source: str, texts: Iterable[Sequence[str]]) -> Idf:
        """Count batch after batch."""
        tokenizer = get_tokenizer(_TOKENIZER)
        counts, seen = Counter[str](), 0
        for batch in texts:
            seen += len(batch)
            for words in tokenizer.tokenize_batch(batch):
                counts.update(set(words))
        return cls(source=source, texts=seen, counts=counts)

    def __call__(self, words: Iterable[str]) -> float:
        """The sum over these words, in an order of its own, so that equal sets have equal sums."""
        return float(sum(np.log((self.texts + 1) / (self.counts.get(word, 0) + 1)) for word in sorted(words)))


class IdfOverlap(SingleReferenceMetric):
    """The idf of the words that a reply and a reference share, over that of all words of the two."""

    info = MetricInfo(
        name="idf-overlap",
        summary="words in common, each counted by its rarity",
        uses=Uses.OWN,
        low=0,
        high=1,
        parameters=(),
        corpus=Corpus.MEAN,
        paper="",
        module="rater_people",
    )

    def __init__(self, idf: Idf) -> None:
        self._idf, self._tokenizer = idf, get_tokenizer(_TOKENIZER)
        self.settings = {"idf": idf.source, "texts": str(idf.texts), "tok": _TOKENIZER}
        self.choose_references({"refs": "own", "multi": "best"})

    def versions(self) -> Mapping[str, str]:
        """The tokenizer's."""
        return tokenizer_versions(self._tokenizer)

    def read(self, texts: list[str]) -> list[set[str]]:
        """The different words of each text."""
        return [set(words) for words in self._tokenizer.tokenize_batch(texts)]

    def usable(self, read: Any) -> NDArray[np.bool_]:
        """Those with a word."""
        return non_empty(read)

    def pair_values(self, replies: Any, references: Any, reply: Indexes, reference: Indexes) -> Floats:
        """The share of each pair."""
        pairs = zip(reply.tolist(), reference.tolist(), strict=True)
        return np.array([self._share(replies[one], references[other]) for one, other in pairs], dtype=np.float64)

    def _share(self, one: set[str], other: set[str]) -> float:
        every = self._idf(one | other)
        return self._idf(one & other) / every if every else 0.0


# ── what comes in ─────────────────────────────────────────────────────────────────────────────────────────────────


def rated_sets(folder: Path) -> dict[str, list[Item]]:
    """The sets as items, a line for each context; NotFound where one is not there."""
    found = {name: read_rated(folder / f"{name}.jsonl.gz") for name in SETS}
    return {name: [one for one in items if isinstance(one, Item)] for name, items in found.items()}


def with_first_gold(item: Item) -> Item:
    """The same without its other golds."""
    return replace(item, pair=replace(item.pair, references=item.pair.references[:1]))


@dataclass(frozen=True, kw_only=True)
class Compared:
    """The metrics by their names in the result, and what else is to be said of them."""

    metrics: Mapping[str, Metric]
    facts: Mapping[str, Any]


def compared_metrics(
    home: Settings, rater: str, vectors: str | None, golds: Sequence[str], held: ExitStack
) -> Compared:
    """The ratings and what they are compared with; word vectors stay held as long as `held` is open."""
    with stored(home)["rater"].open(rater) as one:
        logs = list(read_manifest(one.folder).details.get("logs", {}))
    idf = _idf(home, logs, golds)
    opened = open_rater(home, rater)
    asking = with_rater([build(f"rater:target=reply,combine={combine}") for combine in RATINGS.values()], opened)
    metrics: dict[str, Metric] = {**dict(zip(RATINGS, asking, strict=True)), "idf_overlap": IdfOverlap(idf)}
    facts: dict[str, Any] = {"rater": opened.spec, "logs": logs, "idf": {"of": idf.source, "texts": idf.texts}}
    try:
        path = _vectors(home, vectors or (logs or [rater])[0], held)
    except NotFound as error:
        return Compared(metrics=metrics, facts={**facts, "vectors": None, "without_vectors": str(error)})
    for name in ("embedding-average", "greedy"):
        metrics[name.replace("-", "_")] = build(Specification(name, (("vectors", str(path)),)))
    return Compared(metrics=metrics, facts={**facts, "vectors": metrics["greedy"].settings["vectors"]})


def _idf(home: Settings, logs: Sequence[str], golds: Sequence[str]) -> Idf:
    """Of the rater's logs, where they are all in this home; else of the golds."""
    try:
        opened = [StoredLog.open(home.logs, name) for name in logs]
    except NotFound:
        opened = []
    if not opened:
        return Idf.of("golds", [golds])
    return Idf.of(f"logs-{'+'.join(logs)}", (turns.to_pylist() for log in opened for turns in log.turns(Silent())))


def _vectors(home: Settings, named: str, held: ExitStack) -> Path:
    """A file or folder of that name, or published vectors of this home."""
    if Path(named).exists():
        return Path(named)
    return held.enter_context(stored(home)["vectors"].open(named)).folder


# ── what comes of it ──────────────────────────────────────────────────────────────────────────────────────────────


def people(folder: Path, home: Settings, rater: str, vectors: str | None, draws: int) -> dict[str, Any]:
    """Spearman of every metric with people's ratings, and what the ratings have over the others."""
    sets = rated_sets(folder)
    golds = [one.text for items in sets.values() for item in items for one in item.pair.references]
    readings = {
        "several_golds": sets,
        "first_gold": {name: [with_first_gold(item) for item in items] for name, items in sets.items()},
    }
    with ExitStack() as held:
        compared = compared_metrics(home, rater, vectors, golds, held)
        results = {reading: _reading(given, compared.metrics, draws) for reading, given in readings.items()}
    return {**compared.facts, "draws": draws, "left_out_systems": SEEN, **results}


def _reading(sets: Mapping[str, Sequence[Item]], metrics: Mapping[str, Metric], draws: int) -> dict[str, Any]:
    named = [ComparedMetric(name=name, metric=metric) for name, metric in metrics.items()]
    scored = {
        name: score_set(TakenSet.of(RatedItems(name=name, items=items), MetaSettings()), named, Silent())
        for name, items in sets.items()
    }
    return {
        "sets": {
            name: {
                "data": one.data,
                "gold_rows": int(one.taken.is_gold.sum()),
                "left_out": one.left_out,
                "unscored": {metric: by_code for metric, by_code in one.unscored.items() if by_code},
                "signatures": {metric: signature.full for metric, signature in one.signatures.items()},
            }
            for name, one in scored.items()
        },
        "all_systems": _figures(scored, metrics, {}, draws),
        "without_seen_systems": _figures(scored, metrics, SEEN, draws),
    }


def _figures(
    scored: Mapping[str, ScoredSet], metrics: Mapping[str, Metric], left_out: Mapping[str, str], draws: int
) -> dict[str, Any]:
    """Each set, and the mean of both, on the same draws for all metrics."""
    places = {name: place for place, name in enumerate([*metrics, LENGTH])}
    names = [name for name, place in places.items() if all(place in one.signed for one in scored.values())]
    used = [places[name] for name in names]
    rated = {name: rated_without(one, used, left_out.get(name)) for name, one in scored.items()}
    return {
        **{name: _with_sizes(agreement_of([one], names, draws), one) for name, one in rated.items()},
        "mean": agreement_of(list(rated.values()), names, draws),
    }


def rated_without(scored: ScoredSet, places: Sequence[int], system: str | None) -> RatedSet:
    """The used rows under the metrics of these places, without the rows of one system."""
    every = scored.rated(places)
    kept = np.array([one != system for one in scored.points.systems], dtype=np.bool_)
    return RatedSet(every.scores[:, kept], every.ratings[kept], every.clusters[kept])


def _with_sizes(figures: Mapping[str, Any], rated: RatedSet) -> dict[str, Any]:
    return {"rows": len(rated.ratings), "contexts": len(np.unique(rated.clusters)), **figures}


def agreement_of(sets: Sequence[RatedSet], names: Sequence[str], draws: int) -> dict[str, Any]:
    """Spearman of all, and of each rating less each baseline that is there."""
    against = {
        baseline: mean_over_sets(sets, kinds=("spearman",), draws=draws, seed=1, baseline=names.index(baseline))
        for baseline in BASELINES
        if baseline in names
    }
    found = {name: dict(zip(names, one.by_kind["spearman"], strict=True)) for name, one in against.items()}
    first: Mapping[str, Agreement] = next(iter(found.values()))
    return {
        "spearman": {name: _estimate(one.correlation) for name, one in first.items()},
        "differences": {
            rating: {name: _estimate(of[rating].difference) for name, of in found.items()} for rating in RATINGS
        },
    }


def _estimate(one: Estimate | None) -> dict[str, Any]:
    assert one is not None
    numbers = {"value": one.value, "low": one.low, "high": one.high, "p": one.p}
    return {
        **{key: round(value, 4) for key, value in numbers.items() if value is not None},
        **({} if one.why is None else {"why": one.why}),
    }
