"""How a rater's ratings of replies agree with people's, beside scores without a rater: length, shared words, vectors.

Rows, scores and intervals are those of `refaug agreement`: fair rows, and whole contexts drawn again. Every set is read
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

from refaug.agreement.records import LENGTH, ComparedMetric, RatedItems
from refaug.agreement.row_scores import ScoredSet, score_set
from refaug.agreement.rows import RatedRows
from refaug.core.artefacts.kinds import artefact_stores
from refaug.core.errors import NotFound
from refaug.core.home import Settings
from refaug.core.progress import Silent
from refaug.core.records import Item
from refaug.core.text.tokenizers import get_tokenizer
from refaug.extras.reproduction.material.rated_sets import read_rated
from refaug.logs.store import StoredLog
from refaug.metrics.base import Floats, Indexes, Metric, tokenizer_versions
from refaug.metrics.metric_info import CorpusScore, MetricInfo, Uses
from refaug.metrics.single_reference import SingleReferenceMetric, non_empty
from refaug.metrics.specification import Specification, build
from refaug.metrics.statistics.agreement import Agreement, RatedSet, mean_over_sets
from refaug.metrics.statistics.resampling import Estimate
from refaug.rater.nn.checkpoint import read_manifest
from refaug.scoring.home.networks import open_rater, with_rater
from refaug.scoring.settings import MetaSettings

SETS: Final = ("dailydialog_gupta", "dailydialog_zhao")
# 88 and 81 of whose 100 replies stand word for word in the log dailydialog_en.
SEEN: Final = {"dailydialog_gupta": "dualencoder_train", "dailydialog_zhao": "negative-sample"}
RATINGS: Final = {"rating": "first", "rating_mean": "mean", "rating_max": "max"}
BASELINES: Final = (LENGTH, "idf_overlap", "embedding_average", "greedy")
_TOKENIZER: Final = "word"


# ── shared words ──────────────────────────────────────────────────────────────────────────────────────────────────────


@dataclass(frozen=True, kw_only=True)
class Idf:
    """How rare words are among texts: ln((texts + 1) / (texts with the word + 1))."""

    source: str
    texts: int
    counts: Mapping[str, int]  # texts with each word

    @classmethod
    def of(cls, source: str, texts: Iterable[Sequence[str]]) -> Idf:
        """Count the words of texts, batch after batch."""
        tokenizer = get_tokenizer(_TOKENIZER)
        counts, seen = Counter[str](), 0
        for batch in texts:
            seen += len(batch)
            for words in tokenizer.tokenize_batch(batch):
                counts.update(set(words))
        return cls(source=source, texts=seen, counts=counts)

    def __call__(self, words: Iterable[str]) -> float:
        """Return the sum over these words, in sorted order, so that equal sets have equal sums."""
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
        corpus=CorpusScore.MEAN,
        paper="",
        made_by="rater_people:IdfOverlap",
    )

    def __init__(self, idf: Idf) -> None:
        self._idf, self._tokenizer = idf, get_tokenizer(_TOKENIZER)
        self.settings = {"idf": idf.source, "texts": str(idf.texts), "tok": _TOKENIZER}
        self.choose_references({"refs": "own", "multi": "best"})

    def versions(self) -> Mapping[str, str]:
        """Return the tokenizer's version."""
        return tokenizer_versions(self._tokenizer)

    def read(self, texts: list[str]) -> list[set[str]]:
        """Return the distinct words of each text."""
        return [set(words) for words in self._tokenizer.tokenize_batch(texts)]

    def usable(self, read: Any) -> NDArray[np.bool_]:
        """Whether each text has a word."""
        return non_empty(read)

    def pair_values(self, replies: Any, references: Any, reply: Indexes, reference: Indexes) -> Floats:
        """Return the share of each pair."""
        pairs = zip(reply.tolist(), reference.tolist(), strict=True)
        return np.array([self._share(replies[one], references[other]) for one, other in pairs], dtype=np.float64)

    def _share(self, words: set[str], other_words: set[str]) -> float:
        total = self._idf(words | other_words)
        return self._idf(words & other_words) / total if total else 0.0


# ── sets and metrics ──────────────────────────────────────────────────────────────────────────────────────────────────


def read_sets(folder: Path) -> dict[str, list[Item]]:
    """Return the sets as items, a line for each context; NotFound where one is not there."""
    rows_by_set = {name: read_rated(folder / f"{name}.jsonl.gz") for name in SETS}
    return {name: [one for one in items if isinstance(one, Item)] for name, items in rows_by_set.items()}


def with_first_gold(rated_item: Item) -> Item:
    """Return the item without its other golds."""
    return replace(rated_item, references=rated_item.references[:1])


@dataclass(frozen=True, kw_only=True)
class MetricsToCompare:
    """The metrics by their names in the result, and facts about them."""

    metrics: Mapping[str, Metric]
    facts: Mapping[str, Any]


def compared_metrics(
    home: Settings, rater: str, vectors: str | None, golds: Sequence[str], open_artefacts: ExitStack
) -> MetricsToCompare:
    """Return the ratings and the metrics they are compared with; word vectors stay open with `open_artefacts`."""
    with artefact_stores(home)["rater"].open(rater) as opened_version:
        logs = list(read_manifest(opened_version.folder).details.get("logs", {}))
    idf = _idf(home, logs, golds)
    opened = open_rater(home, rater)
    asking = with_rater([build(f"rater:target=reply,combine={combine}") for combine in RATINGS.values()], opened)
    metrics: dict[str, Metric] = {**dict(zip(RATINGS, asking, strict=True)), "idf_overlap": IdfOverlap(idf)}
    facts: dict[str, Any] = {"rater": opened.spec, "logs": logs, "idf": {"of": idf.source, "texts": idf.texts}}
    try:
        path = _vectors(home, vectors or (logs or [rater])[0], open_artefacts)
    except NotFound as error:
        return MetricsToCompare(metrics=metrics, facts={**facts, "vectors": None, "without_vectors": str(error)})
    for name in ("embedding-average", "greedy"):
        metrics[name.replace("-", "_")] = build(Specification(name, (("vectors", str(path)),)))
    return MetricsToCompare(metrics=metrics, facts={**facts, "vectors": metrics["greedy"].settings["vectors"]})


def _idf(home: Settings, logs: Sequence[str], golds: Sequence[str]) -> Idf:
    """Return the idf of the rater's logs, where they are all in this home; else of the golds."""
    try:
        opened = [StoredLog.open(home.logs, name) for name in logs]
    except NotFound:
        opened = []
    if not opened:
        return Idf.of("golds", [golds])
    return Idf.of(f"logs-{'+'.join(logs)}", (turns.to_pylist() for log in opened for turns in log.turns(Silent())))


def _vectors(home: Settings, named: str, open_artefacts: ExitStack) -> Path:
    """Return a file or folder of that name, or published vectors of this home."""
    if Path(named).exists():
        return Path(named)
    return open_artefacts.enter_context(artefact_stores(home)["vectors"].open(named)).folder


# ── agreement ─────────────────────────────────────────────────────────────────────────────────────────────────────────


def people(folder: Path, home: Settings, rater: str, vectors: str | None, draws: int) -> dict[str, Any]:
    """Return Spearman of every metric with people's ratings, and the differences of the ratings from the baselines."""
    sets = read_sets(folder)
    golds = [one.text for items in sets.values() for item in items for one in item.references]
    readings = {
        "several_golds": sets,
        "first_gold": {name: [with_first_gold(item) for item in items] for name, items in sets.items()},
    }
    with ExitStack() as open_artefacts:
        compared = compared_metrics(home, rater, vectors, golds, open_artefacts)
        results = {reading: _read(given, compared.metrics, draws) for reading, given in readings.items()}
    return {**compared.facts, "draws": draws, "left_out_systems": SEEN, **results}


def _read(sets: Mapping[str, Sequence[Item]], metrics: Mapping[str, Metric], draws: int) -> dict[str, Any]:
    named = [ComparedMetric(name=name, metric=metric) for name, metric in metrics.items()]
    scored = {
        name: score_set(RatedRows.of(RatedItems(name=name, items=items), MetaSettings()), named, Silent())
        for name, items in sets.items()
    }
    return {
        "sets": {
            name: {
                "data": scored_set.data,
                "gold_rows": int(scored_set.rated_rows.is_gold.sum()),
                "left_out": scored_set.left_out,
                "unscored": {metric: by_code for metric, by_code in scored_set.unscored.items() if by_code},
                "signatures": {metric: signature.full for metric, signature in scored_set.signatures.items()},
            }
            for name, scored_set in scored.items()
        },
        "all_systems": _figures(scored, metrics, {}, draws),
        "without_seen_systems": _figures(scored, metrics, SEEN, draws),
    }


def _figures(
    scored: Mapping[str, ScoredSet], metrics: Mapping[str, Metric], left_out: Mapping[str, str], draws: int
) -> dict[str, Any]:
    """Return the figures of each set, and the mean of both, on the same draws for all metrics."""
    places = {name: place for place, name in enumerate([*metrics, LENGTH])}
    names = [name for name, place in places.items() if all(place in one.signed for one in scored.values())]
    used = [places[name] for name in names]
    rated = {name: rows_without(one, used, left_out.get(name)) for name, one in scored.items()}
    return {
        **{name: _with_sizes(agreement_of([one], names, draws), one) for name, one in rated.items()},
        "mean": agreement_of(list(rated.values()), names, draws),
    }


def rows_without(scored: ScoredSet, places: Sequence[int], system: str | None) -> RatedSet:
    """Return the used rows under the metrics of these places, without the rows of one system."""
    all_rows = scored.rated_set(places)
    is_used = np.array([one != system for one in scored.points.systems], dtype=np.bool_)
    return RatedSet(all_rows.scores[:, is_used], all_rows.ratings[is_used], all_rows.clusters[is_used])


def _with_sizes(figures: Mapping[str, Any], rated: RatedSet) -> dict[str, Any]:
    return {"rows": len(rated.ratings), "contexts": len(np.unique(rated.clusters)), **figures}


def agreement_of(sets: Sequence[RatedSet], names: Sequence[str], draws: int) -> dict[str, Any]:
    """Return Spearman of all, and of each rating less each baseline that is there."""
    against = {
        baseline: mean_over_sets(sets, kinds=("spearman",), draws=draws, seed=1, baseline=names.index(baseline))
        for baseline in BASELINES
        if baseline in names
    }
    agreements = {name: dict(zip(names, one.by_kind["spearman"], strict=True)) for name, one in against.items()}
    first: Mapping[str, Agreement] = next(iter(agreements.values()))
    return {
        "spearman": {name: _estimate(one.correlation) for name, one in first.items()},
        "differences": {
            rating: {name: _estimate(of[rating].difference) for name, of in agreements.items()} for rating in RATINGS
        },
    }


def _estimate(estimate: Estimate | None) -> dict[str, Any]:
    assert estimate is not None
    numbers = {"value": estimate.value, "low": estimate.low, "high": estimate.high, "p": estimate.p}
    return {
        **{key: round(value, 4) for key, value in numbers.items() if value is not None},
        **({} if estimate.why is None else {"why": estimate.why}),
    }
