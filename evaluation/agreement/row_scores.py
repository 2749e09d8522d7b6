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
from typing import Final

import numpy as np
import orjson
from numpy.typing import NDArray

from refaug.core.errors import BadInput
from refaug.core.progress import Progress
from refaug.core.text.tokenizers import default_tokenizer, get_tokenizer
from refaug.evaluation.agreement.records import ComparedMetric, GoldRows, GoldScore, Points
from refaug.evaluation.agreement.rows import RatedRows, Row, data_hash
from refaug.evaluation.scoring.cases import Case, bind_metric, references_for, score_cases, trained_on_error
from refaug.evaluation.scoring.evaluate import signature_of
from refaug.evaluation.scoring.provenance import Provenance
from refaug.metrics.base import Floats, Metric, Problem, References
from refaug.metrics.signature import Signature
from refaug.metrics.statistics.agreement import RatedSet

LENGTH_TOKENIZER: Final = "word"  # counts lengths of texts that are not Japanese
_LISTED_REASONS: Final = 3
# Hiragana, Katakana and its half-width forms, each with the long mark that both use.
_KANA: Final = re.compile("[\u3041-\u309f\u30a1-\u30fa\u30fc-\u30ff\u31f0-\u31ff\uff66-\uff9f]")
_HAN: Final = re.compile("[\u3005-\u3007\u3400-\u9fff\uf900-\ufaff]")
_LEAST_KANA: Final = 0.1  # share of kana in kana and Han; Chinese has hardly any, and `word` is its tokenizer


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
    rows = [row for row, use in zip(rated_rows.rows, used, strict=True) if use]
    values = {name: of_metric.values[used] for name, of_metric in scores.items() if name not in silent}
    points = _points(rated_rows, used, values)
    signed = {
        place: (-1.0 if compared.turned else 1.0) * points.values[compared.name]
        for place, compared in enumerate(metrics)
        if compared.name not in silent
    }
    return ScoredSet(
        rated_rows=rated_rows,
        points=points,
        contexts=np.array([row.item for row in rows], dtype=np.int64),
        signed={**signed, len(metrics): points.lengths},
        without_scores={
            place: f"no reply has a score: {silent[compared.name]}"
            for place, compared in enumerate(metrics)
            if compared.name in silent
        },
        signatures={name: of_metric.signature for name, of_metric in scores.items()},
        unscored={name: _count_codes(of_metric, candidates) for name, of_metric in scores.items()},
        left_out=len(candidates) - len(rows),
        removed=sum(rated_rows.rows[row].removed for row in candidates),
        golds=_gold_rows(rated_rows, scores, used),
        data=_data_hash(rated_rows, rows, points, metrics),
    )


def _data_hash(rated_rows: RatedRows, rows: Sequence[Row], points: Points, metrics: Sequence[ComparedMetric]) -> str:
    """Return a hash of the rows, including as many turns of their dialogues as any metric looks at."""
    hash_of_rows = data_hash(rated_rows.items, rows, points.by_annotator)
    if not any(compared.metric.info.looks_at_utterance for compared in metrics):
        return hash_of_rows
    turns = max(compared.metric.turns for compared in metrics if compared.metric.info.looks_at_utterance)
    pairs = [rated_rows.items[row.item].pair for row in rows]
    dialogues = [pair.utterance if turns == 1 else pair.turns[-turns:] for pair in pairs]
    return hashlib.sha256(orjson.dumps([hash_of_rows, dialogues])).hexdigest()[:12]


def values_of_rows(rated_rows: RatedRows, compared: ComparedMetric, progress: Progress) -> Floats:
    """Return the scores of all rows by one metric, turned so that higher should be better; NaN where there is none."""
    values = scores_of_rows(rated_rows, compared.metric, progress).values
    return -values if compared.turned else values


def lengths_of_rows(rated_rows: RatedRows, counted_by: str | None = None) -> Floats:
    """Return the lengths of all replies in tokens, counted as in tables of agreement or by a tokenizer named."""
    replies = [row.reply for row in rated_rows.rows]
    tokenizer = get_tokenizer(counted_by or length_tokenizer(replies))
    return np.array([len(tokens) for tokens in tokenizer.tokenize_batch(replies)], dtype=np.float64)


def scores_of_rows(rated_rows: RatedRows, metric: Metric, progress: Progress) -> RowScores:
    """Score all rows by one metric, whether they are compared or not."""
    chosen = [references_for(metric, item.pair.references, item.pair.turns) for item in rated_rows.items]
    cases = _cases(rated_rows, metric)
    bound = bind_metric(metric, chosen, cases)
    scored = score_cases(bound, cases, progress)
    values = scored.values(bound)
    silent = [row for row in np.flatnonzero(~np.isfinite(values)).tolist() if row not in scored.problems]
    problems = {**scored.problems, **dict.fromkeys(silent, bound.undefined())}
    return RowScores(
        signature=signature_of(bound, Provenance.of_items(rated_rows.items)),
        values=np.where(np.isfinite(values), values, np.nan),
        problems=problems,
    )


def _cases(rated_rows: RatedRows, metric: Metric) -> list[Case | Problem]:
    """Return what each row is scored against; rows of an item that lost no reference share the object."""
    prepared = dict[tuple[int, int], References | Problem]()
    cases = list[Case | Problem]()
    for row in rated_rows.rows:
        key = (row.item, id(row.references))
        if key not in prepared:
            prepared[key] = references_for(metric, row.references, rated_rows.items[row.item].pair.turns)
        references = prepared[key]
        cases.append(references if isinstance(references, Problem) else Case(row.reply, references))
    return cases


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
    text = "".join(texts)
    kana, letters = len(_KANA.findall(text)), sum(map(str.isalpha, text))
    japanese = kana + len(_HAN.findall(text)) if kana else 0
    is_japanese = 2 * japanese > letters and kana >= _LEAST_KANA * japanese
    return default_tokenizer("ja") if is_japanese else LENGTH_TOKENIZER


def _points(rated_rows: RatedRows, used: NDArray[np.bool_], values: Mapping[str, Floats]) -> Points:
    rows = [row for row, use in zip(rated_rows.rows, used, strict=True) if use]
    tokenizer = get_tokenizer(length_tokenizer(row.reply for row in rated_rows.rows))
    tokens = tokenizer.tokenize_batch([row.reply for row in rows])
    return Points(
        items=tuple(rated_rows.items[row.item].id for row in rows),
        systems=tuple(row.system for row in rows),
        ratings=_row_means(rated_rows.ratings[used]),
        by_annotator=rated_rows.ratings[used],
        lengths=np.array([len(tokens_of_reply) for tokens_of_reply in tokens], dtype=np.float64),
        values=values,
    )


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
