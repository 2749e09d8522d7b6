"""Score rated replies under several metrics, on the same rows for all of them.

Each metric is first bound to the set, with all references of its items, so that an idf depends neither on the replies
nor on the rows that count. A row for which one metric has no score is left out for all metrics, so that no metric
profits from missing the hard rows; but a metric without a single score is left out, and the others are compared.
"""

from __future__ import annotations

import hashlib
import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import compress
from typing import Final

import numpy as np
import orjson
from numpy.typing import NDArray

from refaug.agreement.records import ComparedMetric, GoldRows, GoldScore, Points
from refaug.agreement.rows import RatedRows, Row, RowsDigest
from refaug.core.errors import BadInput
from refaug.core.memory import CompactTexts
from refaug.core.progress import Progress
from refaug.core.records import Item
from refaug.core.text.tokenizers import default_tokenizer, get_tokenizer
from refaug.metrics.base import Floats, Level, Metric, Problem, References
from refaug.metrics.signature import Signature
from refaug.metrics.statistics.agreement import RatedSet
from refaug.scoring.cases import bind_metric, references_for, score_replies, trained_on_error
from refaug.scoring.evaluate import signature_of
from refaug.scoring.spooled_items.item_collection import blocks_of

LENGTH_TOKENIZER: Final = "word"  # counts lengths of texts that are not Japanese
_LISTED_REASONS: Final = 3
# Hiragana, Katakana and its half-width forms, each with the long mark that both use.
_KANA: Final = re.compile("[\u3041-\u309f\u30a1-\u30fa\u30fc-\u30ff\u31f0-\u31ff\uff66-\uff9f]")
_HAN: Final = re.compile("[\u3005-\u3007\u3400-\u9fff\uf900-\ufaff]")
_LEAST_KANA: Final = 0.1  # share of kana in kana and Han; Chinese has hardly any


@dataclass(frozen=True, kw_only=True)
class ScoredSet:
    """The rows that are compared, for each of which every metric has a score that has any scores."""

    rated_rows: RatedRows
    points: Points
    contexts: NDArray[np.int64]
    # place of the metric, or the number of metrics for the length → (rows,), turned so that higher should be better
    signed: Mapping[int, Floats]
    without_scores: Mapping[int, str]  # place of each metric without any score → why
    signatures: Mapping[str, Signature]
    unscored: Mapping[str, Mapping[str, int]]  # metric → code of the problem → candidates
    left_out: int
    removed: int  # the number of removed references of all candidates
    golds: GoldRows | None
    data: str

    def rated_set(self, places: Sequence[int]) -> RatedSet:
        """Return the scores of these metrics with the ratings, for the bootstrap."""
        return RatedSet(np.stack([self.signed[place] for place in places]), self.points.ratings, self.contexts)


@dataclass(frozen=True, kw_only=True)
class RowScores:
    """The scores of one metric for all rated rows of a set, NaN where there is none, with the reason."""

    signature: Signature
    values: Floats
    problems: Mapping[int, Problem]


def score_set(rated_rows: RatedRows, metrics: Sequence[ComparedMetric], progress: Progress) -> ScoredSet:
    """Score the rows of a set under all metrics, and select those that can be compared."""
    scores = dict[str, RowScores]()
    for compared in metrics:
        progress.stage(f"score {rated_rows.name}, {compared.name}", len(rated_rows.rows), "replies")
        scores[compared.name] = scores_of_rows(rated_rows, compared.metric, progress)
    candidates = np.flatnonzero(rated_rows.is_candidate)
    reasons = {name: _unscored_reason(of_metric, candidates) for name, of_metric in scores.items()}
    silent = {name: reason for name, reason in reasons.items() if reason is not None}
    for name in silent:
        codes = _count_codes(scores[name], candidates)
        if (error := trained_on_error(name, codes, len(candidates))) is not None:
            raise error
    if len(silent) == len(metrics):
        listed = "; ".join(dict.fromkeys(silent.values()))
        raise BadInput(f"{rated_rows.name}: no reply has a score by any metric: {listed}")
    has_scores = [np.isfinite(scores[name].values) for name in scores.keys() - silent]
    used = rated_rows.is_candidate & np.all(has_scores, axis=0)
    if not used.any():
        raise _no_row_error(rated_rows, len(candidates))
    values = {name: of_metric.values[used] for name, of_metric in scores.items() if name not in silent}
    points, hash_of_rows = _points(rated_rows, used, values)
    signed = {
        place: (-1.0 if compared.turned else 1.0) * points.values[compared.name]
        for place, compared in enumerate(metrics)
        if compared.name not in silent
    }
    return ScoredSet(
        rated_rows=rated_rows,
        points=points,
        contexts=rated_rows.contexts[used],
        signed={**signed, len(metrics): points.lengths},
        without_scores={
            place: f"no reply has a score: {silent[compared.name]}"
            for place, compared in enumerate(metrics)
            if compared.name in silent
        },
        signatures={name: of_metric.signature for name, of_metric in scores.items()},
        unscored={name: _count_codes(of_metric, candidates) for name, of_metric in scores.items()},
        left_out=len(candidates) - int(used.sum()),
        removed=int(rated_rows.removed[candidates].sum()),
        golds=_gold_rows(rated_rows, scores, used),
        data=_data_hash(rated_rows, used, hash_of_rows, metrics),
    )


def _no_row_error(rated_rows: RatedRows, candidates: int) -> BadInput:
    """Return the error of a set without a row that counts for all metrics."""
    if candidates:
        why, remedy = "none has a score by every metric", "compare fewer metrics at once"
    else:
        why, remedy = "each is one of its own golds", "--rows all counts them, too"
    return BadInput(
        f"{rated_rows.name}: no row can be used, of {len(rated_rows.rows):,} rated replies: {why}", remedy=remedy
    )


def _data_hash(
    rated_rows: RatedRows, used: NDArray[np.bool_], hash_of_rows: str, metrics: Sequence[ComparedMetric]
) -> str:
    """Return a hash of the rows, including as many turns of their dialogues as any metric looks at."""
    if not any(compared.metric.info.looks_at_utterance for compared in metrics):
        return hash_of_rows
    turns = max(compared.metric.turns for compared in metrics if compared.metric.info.looks_at_utterance)
    digest, between = hashlib.sha256(b"[" + orjson.dumps(hash_of_rows) + b",["), b""
    for _, test_item in compress(rated_rows.with_items(), used):
        digest.update(between + orjson.dumps(test_item.utterance if turns == 1 else test_item.turns[-turns:]))
        between = b","
    digest.update(b"]]")
    return digest.hexdigest()[:12]


def values_of_rows(rated_rows: RatedRows, compared: ComparedMetric, progress: Progress) -> Floats:
    """Return the scores of all rows by one metric, turned so that higher should be better; NaN where there is none."""
    values = scores_of_rows(rated_rows, compared.metric, progress).values
    return -values if compared.turned else values


def lengths_of_rows(rated_rows: RatedRows, counted_by: str | None = None) -> Floats:
    """Return the lengths of all replies in tokens, counted as in tables of agreement or by a tokenizer named."""
    tokenizer = get_tokenizer(counted_by or length_tokenizer(row.reply for row in rated_rows.rows))
    lengths = np.empty(len(rated_rows.rows))
    for first, block in blocks_of(row.reply for row in rated_rows.rows):
        lengths[first : first + len(block)] = [len(tokens) for tokens in tokenizer.tokenize_batch(block)]
    return lengths


def scores_of_rows(rated_rows: RatedRows, metric: Metric, progress: Progress) -> RowScores:
    """Score all rows by one metric, whether they are compared or not.

    The texts of all rows are in memory only where the metric looks at the set.
    """
    values, problems, bound = np.empty(len(rated_rows.rows)), dict[int, Problem](), metric
    size = None
    if metric.looks_at_set:
        chosen = [references_for(metric, item.references, item.turns) for item in rated_rows.items]
        replies = [row.reply for row in rated_rows.rows]
        bound, size = bind_metric(metric, chosen, replies, _references(rated_rows.with_items(), metric)), len(replies)
    for first, block in blocks_of(rated_rows.with_items(), size):
        statistics, unscored = score_replies(
            bound, [row.reply for row, _ in block], _references(block, metric), progress
        )
        values[first : first + len(block)] = bound.values(statistics, Level.REPLY)
        problems |= {first + row: problem for row, problem in unscored.items()}
    silent = [row for row in np.flatnonzero(~np.isfinite(values)).tolist() if row not in problems]
    problems |= dict.fromkeys(silent, bound.undefined())
    return RowScores(
        signature=signature_of(bound, rated_rows.provenance),
        values=np.where(np.isfinite(values), values, np.nan),
        problems=problems,
    )


def _references(rows: Iterable[tuple[Row, Item]], metric: Metric) -> list[References | Problem]:
    """Return what each row is scored against; rows of an item that lost no reference share the object."""
    prepared = dict[tuple[int, int], tuple[Row, References | Problem]]()  # with the row, whose references keep their id
    chosen = list[References | Problem]()
    for row, test_item in rows:
        key = (row.item, id(row.references))
        if key not in prepared:
            prepared[key] = row, references_for(metric, row.references, test_item.turns)
        chosen.append(prepared[key][1])
    return chosen


def _unscored_reason(scores: RowScores, candidates: NDArray[np.int64]) -> str | None:
    """Return why a metric has no score at all; None where it has one, or there is nothing to score."""
    if not len(candidates) or np.isfinite(scores.values[candidates]).any():
        return None
    messages = Counter(scores.problems[row].message for row in candidates.tolist())
    return "; ".join(message for message, _ in messages.most_common(_LISTED_REASONS))


def _count_codes(scores: RowScores, rows: Iterable[int]) -> dict[str, int]:
    return dict(Counter(scores.problems[row].code for row in rows if row in scores.problems))


def length_tokenizer(texts: Iterable[str]) -> str:
    """Return the tokenizer that counts the lengths of these texts: MeCab, if most letters are Japanese.

    Items do not tell their language, and a sentence without spaces would be one word. All texts decide together, so
    that lengths in a set can be compared, and a ツ in an English text changes nothing.
    """
    kana = letters = han = 0
    for text in texts:
        kana += len(_KANA.findall(text))
        han += len(_HAN.findall(text))
        letters += sum(map(str.isalpha, text))
    japanese = kana + han if kana else 0
    is_japanese = 2 * japanese > letters and kana >= _LEAST_KANA * japanese
    return default_tokenizer("ja") if is_japanese else LENGTH_TOKENIZER


def _points(rated_rows: RatedRows, used: NDArray[np.bool_], values: Mapping[str, Floats]) -> tuple[Points, str]:
    """Return the used rows as columns, and the hash of what they are."""
    tokenizer = get_tokenizer(length_tokenizer(row.reply for row in rated_rows.rows))
    by_annotator, digest = rated_rows.ratings[used], RowsDigest()
    items, systems, lengths = CompactTexts(), list[str](), np.empty(len(by_annotator))
    for first, block in blocks_of(compress(rated_rows.with_items(), used)):
        tokens = tokenizer.tokenize_batch([row.reply for row, _ in block])
        lengths[first : first + len(block)] = [len(tokens_of_reply) for tokens_of_reply in tokens]
        for (row, test_item), ratings in zip(block, by_annotator[first:], strict=False):
            items.append(test_item.id)
            systems.append(row.system)
            digest.add(test_item.id, row, ratings)
    points = Points(
        items=items,
        systems=tuple(systems),
        ratings=_row_means(by_annotator),
        by_annotator=by_annotator,
        lengths=lengths,
        values=values,
    )
    return points, digest.name


def _row_means(ratings: Floats) -> Floats:
    """Return the mean of each row's ratings; every row has at least one."""
    is_rated = ~np.isnan(ratings)
    return np.asarray(np.where(is_rated, ratings, 0.0).sum(axis=1) / is_rated.sum(axis=1))


def _gold_rows(rated_rows: RatedRows, scores: Mapping[str, RowScores], used: NDArray[np.bool_]) -> GoldRows | None:
    """Return the mean ratings and scores of the golds themselves, and of the fair rows that are compared."""
    golds, fair = rated_rows.is_gold, used & ~rated_rows.is_gold
    if not golds.any():
        return None
    rating = _mean(_row_means(rated_rows.ratings[golds]))
    assert rating is not None
    return GoldRows(
        rows=int(golds.sum()),
        fair_rows=int(fair.sum()),
        rating=rating,
        fair_rating=_mean(_row_means(rated_rows.ratings[fair])),
        scores={
            name: GoldScore(
                golds=_mean(of_metric.values[golds]),
                fair=_mean(of_metric.values[fair]),
                scored=int(np.isfinite(of_metric.values[golds]).sum()),
            )
            for name, of_metric in scores.items()
        },
    )


def _mean(values: Floats) -> float | None:
    """Return the mean of the finite values, or None."""
    finite = values[np.isfinite(values)]
    return float(finite.mean()) if len(finite) else None
