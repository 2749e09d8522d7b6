"""The scores of rated replies under several metrics, on the same rows for all of them.

Each metric is bound to the set first, to all references of its items, so that an idf depends neither on who replied nor
on which rows count. A row that one metric has no score for is left out for all, so that none looks better for having
been spared the hard ones; but a metric without a single score is left out itself, and the others are compared.
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

from core.errors import BadInput
from core.progress import Progress
from core.text import default_tokenizer, get_tokenizer
from metrics.agreement import RatedSet
from metrics.base import Floats, Metric, Problem, References
from metrics.signature import Signature
from service.cases import Case, bound_to, references_for, score_cases
from service.meta_records import ComparedMetric, GoldRows, GoldScore, Points
from service.meta_rows import Row, TakenSet, data_hash

LENGTH_TOKENIZER: Final = "word"  # what lengths are counted in, where texts are not Japanese
_NAMED_REASONS: Final = 3
# Hiragana, Katakana and its half-width forms, each with the long mark that both are written with.
_KANA: Final = re.compile("[\u3041-\u309f\u30a1-\u30fa\u30fc-\u30ff\u31f0-\u31ff\uff66-\uff9f]")
_HAN: Final = re.compile("[\u3005-\u3007\u3400-\u9fff\uf900-\ufaff]")
_LEAST_KANA: Final = 0.1  # of kana and Han together: Chinese has next to none, and `word` is its tokenizer


@dataclass(frozen=True, kw_only=True)
class ScoredSet:
    """The rows that are compared: every metric that has a score at all has one for each of them."""

    taken: TakenSet
    points: Points
    contexts: NDArray[np.int64]
    # place of the metric, or the number of metrics for the length → (rows,), turned so that higher should be better
    signed: Mapping[int, Floats]
    without_scores: Mapping[int, str]  # place of each metric that is not among them → why
    signatures: Mapping[str, Signature]
    unscored: Mapping[str, Mapping[str, int]]  # metric → code of the problem → candidates
    left_out: int
    removed: int  # of the references of all candidates
    golds: GoldRows | None
    data: str

    def rated(self, places: Sequence[int]) -> RatedSet:
        """These metrics as the bootstrap wants them."""
        return RatedSet(np.stack([self.signed[place] for place in places]), self.points.ratings, self.contexts)


@dataclass(frozen=True, kw_only=True)
class _Scores:
    """One metric's scores of all rated rows of a set, NaN where there is none, and then the reason."""

    signature: Signature
    values: Floats
    problems: Mapping[int, Problem]


def score_set(taken: TakenSet, metrics: Sequence[ComparedMetric], progress: Progress) -> ScoredSet:
    """Score the rows of a set under all metrics, and keep those that can be compared."""
    scores = dict[str, _Scores]()
    for one in metrics:
        progress.stage(f"score {taken.name}, {one.name}", len(taken.rows), "replies")
        scores[one.name] = _scores(taken, one.metric, progress)
    candidates = np.flatnonzero(taken.is_candidate)
    silent = {name: why for name, one in scores.items() if (why := _why_silent(one, candidates)) is not None}
    if len(silent) == len(metrics):
        raise BadInput(f"{taken.name}: no reply has a score by any metric: {'; '.join(dict.fromkeys(silent.values()))}")
    used = taken.is_candidate & np.all([np.isfinite(scores[name].values) for name in scores.keys() - silent], axis=0)
    rows = [row for row, use in zip(taken.rows, used, strict=True) if use]
    points = _points(taken, used, {name: one.values[used] for name, one in scores.items() if name not in silent})
    signed = {
        place: (-1.0 if one.turned else 1.0) * points.values[one.name]
        for place, one in enumerate(metrics)
        if one.name not in silent
    }
    return ScoredSet(
        taken=taken,
        points=points,
        contexts=np.array([row.item for row in rows], dtype=np.int64),
        signed={**signed, len(metrics): points.lengths},
        without_scores={
            place: f"no reply has a score: {silent[one.name]}"
            for place, one in enumerate(metrics)
            if one.name in silent
        },
        signatures={name: one.signature for name, one in scores.items()},
        unscored={name: _by_code(one, candidates) for name, one in scores.items()},
        left_out=len(candidates) - len(rows),
        removed=sum(taken.rows[row].removed for row in candidates),
        golds=_gold_rows(taken, scores, used),
        data=_data(taken, rows, points, metrics),
    )


def _data(taken: TakenSet, rows: Sequence[Row], points: Points, metrics: Sequence[ComparedMetric]) -> str:
    """Names the rows; so much of their dialogues is part of it as one of the metrics looks at."""
    named = data_hash(taken.items, rows, points.by_annotator)
    if not any(one.metric.info.looks_at_utterance for one in metrics):
        return named
    turns = max(one.metric.turns for one in metrics if one.metric.info.looks_at_utterance)
    pairs = [taken.items[row.item].pair for row in rows]
    said = [one.utterance if turns == 1 else one.turns[-turns:] for one in pairs]
    return hashlib.sha256(orjson.dumps([named, said])).hexdigest()[:12]


def _scores(taken: TakenSet, metric: Metric, progress: Progress) -> _Scores:
    found = [references_for(metric, item.pair.references, item.pair.turns) for item in taken.items]
    cases = _cases(taken, metric)
    bound = bound_to(metric, found, cases)
    scored = score_cases(bound, cases, progress)
    values = scored.values(bound)
    silent = [row for row in np.flatnonzero(~np.isfinite(values)).tolist() if row not in scored.problems]
    problems = {**scored.problems, **dict.fromkeys(silent, bound.undefined())}
    return _Scores(
        signature=Signature.of(bound), values=np.where(np.isfinite(values), values, np.nan), problems=problems
    )


def _cases(taken: TakenSet, metric: Metric) -> list[Case | Problem]:
    """What each row is scored against; rows of an item that lost no reference share the object."""
    found = dict[tuple[int, int], References | Problem]()
    cases = list[Case | Problem]()
    for row in taken.rows:
        known = (row.item, id(row.references))
        if known not in found:
            found[known] = references_for(metric, row.references, taken.items[row.item].pair.turns)
        references = found[known]
        cases.append(references if isinstance(references, Problem) else Case(row.reply, references))
    return cases


def _why_silent(scores: _Scores, candidates: NDArray[np.int64]) -> str | None:
    """What keeps a metric from having any score; None where it has one, or there is nothing to score."""
    if not len(candidates) or np.isfinite(scores.values[candidates]).any():
        return None
    messages = Counter(scores.problems[row].message for row in candidates.tolist())
    return "; ".join(message for message, _ in messages.most_common(_NAMED_REASONS))


def _by_code(scores: _Scores, rows: Iterable[int]) -> dict[str, int]:
    return dict(Counter(scores.problems[row].code for row in rows if row in scores.problems))


def length_tokenizer(texts: Iterable[str]) -> str:
    """Name the tokenizer that lengths of these texts are counted in: MeCab's words, if most letters are Japanese.

    Items do not say their language, and a sentence without spaces would be one word. All texts decide together, so
    that lengths in a set can be compared, and a ツ in an English one changes nothing.
    """
    text = "".join(texts)
    kana, letters = len(_KANA.findall(text)), sum(map(str.isalpha, text))
    japanese = kana + len(_HAN.findall(text)) if kana else 0
    is_japanese = 2 * japanese > letters and kana >= _LEAST_KANA * japanese
    return default_tokenizer("ja") if is_japanese else LENGTH_TOKENIZER


def _points(taken: TakenSet, used: NDArray[np.bool_], values: Mapping[str, Floats]) -> Points:
    rows = [row for row, use in zip(taken.rows, used, strict=True) if use]
    tokenizer = get_tokenizer(length_tokenizer(row.reply for row in taken.rows))
    tokens = tokenizer.tokenize_batch([row.reply for row in rows])
    return Points(
        items=tuple(taken.items[row.item].id for row in rows),
        systems=tuple(row.system for row in rows),
        ratings=_row_means(taken.ratings[used]),
        by_annotator=taken.ratings[used],
        lengths=np.array([len(one) for one in tokens], dtype=np.float64),
        values=values,
    )


def _row_means(ratings: Floats) -> Floats:
    """The mean of each row's ratings; every row has one."""
    known = ~np.isnan(ratings)
    return np.asarray(np.where(known, ratings, 0.0).sum(axis=1) / known.sum(axis=1))


def _gold_rows(taken: TakenSet, scores: Mapping[str, _Scores], used: NDArray[np.bool_]) -> GoldRows | None:
    """What people and metrics give to the golds themselves, and what to the fair rows that are compared."""
    golds, fair = taken.is_gold, used & ~taken.is_gold
    if not golds.any():
        return None
    rating = _mean(_row_means(taken.ratings[golds]))
    assert rating is not None
    return GoldRows(
        rows=int(golds.sum()),
        fair_rows=int(fair.sum()),
        rating=rating,
        fair_rating=_mean(_row_means(taken.ratings[fair])),
        scores={
            name: GoldScore(
                golds=_mean(one.values[golds]),
                fair=_mean(one.values[fair]),
                scored=int(np.isfinite(one.values[golds]).sum()),
            )
            for name, one in scores.items()
        },
    )


def _mean(values: Floats) -> float | None:
    """The mean of those that there are."""
    known = values[np.isfinite(values)]
    return float(known.mean()) if len(known) else None
