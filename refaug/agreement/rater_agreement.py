"""Measure how far a rater agrees with people, for `refaug agreement rater`.

There are two questions, each for test sets that have what it needs; both need an utterance and a gold:

- replies that people rated: the rater's rating of each beside the golds, against people's mean. These are the rows and
  figures of `refaug agreement`, for the metric `rater` under every way to combine;
- references that people rated, since weighting references is the rater's main task. Each is rated as a candidate
  beside the golds, against the weight that people gave it; a reference that equals a gold, normalised, is left out.

Intervals draw whole items in both.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Final

import numpy as np
import orjson

from refaug.agreement.meta import agreement
from refaug.agreement.records import LENGTH, ComparedMetric, MetaResult, RatedItems
from refaug.agreement.row_scores import length_tokenizer
from refaug.core.errors import BadInput, Usage
from refaug.core.progress import Progress, Silent
from refaug.core.records import Item, Origin, Reference, json_form, named
from refaug.core.text.normalisation import normalise
from refaug.core.text.tokenizers import get_tokenizer
from refaug.metrics.base import References
from refaug.metrics.metric_info import Uses
from refaug.metrics.specification import build
from refaug.metrics.statistics.agreement import Comparison, RatedSet, mean_over_sets
from refaug.metrics.statistics.resampling import Estimate
from refaug.rater.rating import Rater, RatingRequest
from refaug.rater.rating_settings import COMBINES, Calibration, RatingSettings
from refaug.scoring.cases import references_of, split
from refaug.scoring.home.networks import with_rater
from refaug.scoring.items import BadItem
from refaug.scoring.settings import MetaSettings

_BATCH_SIZE: Final = 200  # test pairs between two reports of progress


# ── Settings and results ──────────────────────────────────────────────────────────────────────────────────────────────


@dataclass(frozen=True, kw_only=True)
class RaterEvaluationSettings:
    """The ratings that are compared, and how; the other ways to combine are compared with the first."""

    combines: tuple[str, ...] = COMBINES
    calibration: Calibration = "raw"
    draws: int = 10_000
    seed: int = 1
    confidence: float = 0.95

    def __post_init__(self) -> None:
        if not self.combines:
            raise Usage("no way to combine", remedy=f"at least one of: {', '.join(COMBINES)}")
        if twice := next((way for way in self.combines if self.combines.count(way) > 1), None):
            raise Usage(f"combine={twice} is named twice", remedy="give every way once")
        if self.calibration not in ("raw", "cal"):
            raise Usage(f"cal={self.calibration!r} is not known", remedy="one of: raw, cal")
        _ = self.ratings, self.meta  # both refuse values out of range

    @property
    def ratings(self) -> tuple[RatingSettings, ...]:
        """The settings of each rating, in order."""
        return tuple(
            RatingSettings(combine=way, calibrated=self.calibration == "cal")  # type: ignore[arg-type]
            for way in self.combines
        )

    @property
    def meta(self) -> MetaSettings:
        """The settings of the figures about replies."""
        return MetaSettings(draws=self.draws, seed=self.seed, confidence=self.confidence)

    @property
    def metrics(self) -> tuple[str, ...]:
        """The specifications of the metric, under every way to combine."""
        calibrated = ",cal=cal" if self.calibration == "cal" else ""
        return tuple(f"rater:combine={way}{calibrated}" for way in self.combines)


@dataclass(frozen=True, kw_only=True)
class ReferenceRow:
    """How well one way to combine, or the length of the reference, agrees with people's weights."""

    name: str
    spearman: Estimate
    pearson: Estimate
    # by kind, the difference to the first way, which has none
    differences: Mapping[str, Estimate] = field(metadata=named("difference"))


@dataclass(frozen=True, kw_only=True)
class RatedReferences:
    """The references of one set that people rated; rated = unusable + golds_themselves + used."""

    name: str
    rated: int
    unusable: int  # of items without an utterance or a gold
    golds_themselves: int
    used: int
    items: int  # with used references
    rows: tuple[ReferenceRow, ...]  # the ways to combine in order, then the length
    data: str  # a hash of the used references: items, utterances, golds, texts, weights

    def as_json(self) -> dict[str, object]:
        """Return all figures."""
        counts = {name: count for name, count in asdict(self).items() if name not in ("name", "rows", "data")}
        return {"name": self.name, "data": self.data, "counts": counts, "rows": json_form(self.rows)}


@dataclass(frozen=True, kw_only=True)
class RaterEvaluation:
    """The result of comparing a rater with people."""

    rater: str
    settings: RaterEvaluationSettings
    replies: MetaResult | None  # None where no set has rated replies
    references: tuple[RatedReferences, ...]  # one for each set that has rated references
    mean: tuple[ReferenceRow, ...]  # over these sets, where there are several
    warnings: tuple[str, ...]
    bad_items: tuple[BadItem, ...]

    def as_json(self) -> dict[str, object]:
        """Return one document."""
        return {
            "rater": self.rater,
            "settings": asdict(self.settings),
            "replies": self.replies and self.replies.as_json(),
            "references": {
                "sets": [references.as_json() for references in self.references],
                "mean": json_form(self.mean) or None,
            }
            if self.references
            else None,
            "warnings": list(self.warnings),
            "problems": [asdict(bad) for bad in self.bad_items],
        }


# ── Both questions ────────────────────────────────────────────────────────────────────────────────────────────────────


def evaluate_rater(
    rater: Rater,
    sets: Sequence[RatedItems],
    settings: RaterEvaluationSettings | None = None,
    progress: Progress | None = None,
) -> RaterEvaluation:
    """Compare a rater with people on one or several test sets; BadInput where nothing in them can be compared."""
    settings, progress = settings or RaterEvaluationSettings(), progress or Silent()
    read = {rated_items.name: split(rated_items.items) for rated_items in sets}
    references = {name: _SetReferences.of(usable) for name, (usable, _) in read.items()}
    with_replies = [name for name, (usable, _) in read.items() if any(map(_has_rated_reply, usable))]
    with_references = [name for name, of_set in references.items() if of_set.to_rate]
    if not with_replies and not with_references:
        raise BadInput(
            f"there is nothing to compare {rater.spec} with: no item with an utterance and a gold has been rated",
            remedy='give items "ratings" of their "replies", or references as {"text": …, "ratings": [2, 3]}',
        )
    compared = [RatedItems(name=name, items=[*read[name][0], *read[name][1]]) for name in with_replies]
    replies = _agreement_of_replies(rater, compared, settings, progress) if compared else None
    rated = [references[name].rate(rater, settings, progress) for name in with_references]
    of_references = [
        references[name].with_rows(name, _rows([rated_set], settings))
        for name, rated_set in zip(with_references, rated, strict=True)
    ]
    not_compared = [name for name in read if name not in {*with_replies, *with_references}]
    return RaterEvaluation(
        rater=rater.spec,
        settings=settings,
        replies=replies,
        references=tuple(of_references),
        mean=_rows(rated, settings) if len(rated) > 1 else (),
        warnings=(
            *(_reply_warnings(replies, settings) if replies is not None else ()),
            *_reference_warnings(references),
            *(f"{name}: nothing in it was rated by people, or can be rated by a rater" for name in not_compared),
        ),
        bad_items=tuple(bad for _, of_set in read.values() for bad in of_set),
    )


def _has_rated_reply(test_item: Item) -> bool:
    """Whether an item has a rated reply, and the utterance and gold that the rater needs."""
    chosen = references_of(test_item.references, Uses.GOLDS, test_item.utterance)
    return isinstance(chosen, References) and any(
        rating is not None for ratings in test_item.ratings.values() for rating in ratings
    )


def _agreement_of_replies(
    rater: Rater, sets: Sequence[RatedItems], settings: RaterEvaluationSettings, progress: Progress
) -> MetaResult:
    metrics = with_rater([build(specification) for specification in settings.metrics], rater)
    compared = [
        ComparedMetric(name=name, metric=metric) for name, metric in zip(settings.metrics, metrics, strict=True)
    ]
    return agreement(sets, compared, settings.meta, progress=progress)


def _reply_warnings(replies: MetaResult, settings: RaterEvaluationSettings) -> Iterator[str]:
    """Yield each warning once for all ways to combine: a reply has a rating by all of them, or by none."""
    warnings = dict[str, None]()
    for warning in replies.warnings:
        plain = warning.removesuffix(": left out for all metrics")
        for name in settings.metrics:
            plain = plain.replace(f"{name} has no score", "the rater has no rating")
        warnings[plain] = None
    yield from warnings


def _reference_warnings(references: Mapping[str, _SetReferences]) -> Iterator[str]:
    for name, of_set in references.items():
        if of_set.unusable:
            yield f"{name}: {of_set.unusable:,} rated references are of items without an utterance or a gold: left out"


# ── References that people rated ──────────────────────────────────────────────────────────────────────────────────────


@dataclass(frozen=True, kw_only=True)
class _SetReferences:
    """The references of a set that can be compared, by item, and the numbers of those that cannot."""

    to_rate: tuple[RatingRequest, ...]
    weights: tuple[tuple[float, ...], ...]  # the weights that people gave to the candidates of each item
    ids: tuple[str, ...]
    unusable: int
    golds_themselves: int

    @classmethod
    def of(cls, items: Sequence[Item]) -> _SetReferences:
        """Collect the rated references of every item."""
        to_rate, weights, ids = list[RatingRequest](), list[tuple[float, ...]](), list[str]()
        unusable, same = 0, 0
        for test_item in items:
            rated = [reference for reference in test_item.references if _is_rated(reference)]
            golds = references_of(test_item.references, Uses.GOLDS, test_item.utterance)
            if not isinstance(golds, References):
                unusable += len(rated)
                continue
            texts = {normalise(text) for text in golds.texts}
            different = [reference for reference in rated if normalise(reference.text) not in texts]
            same += len(rated) - len(different)
            if different:
                request = RatingRequest(utterance=golds.utterance or "", golds=golds.texts, candidates=tuple(different))
                to_rate.append(request)
                weights.append(tuple(reference.weight for reference in different if reference.weight is not None))
                ids.append(test_item.id)
        return cls(
            to_rate=tuple(to_rate), weights=tuple(weights), ids=tuple(ids), unusable=unusable, golds_themselves=same
        )

    def rate(self, rater: Rater, settings: RaterEvaluationSettings, progress: Progress) -> RatedSet:
        """Return the ratings under every way to combine, then the lengths, with the weights that people gave."""
        progress.stage("rate references", len(self.to_rate) * len(settings.ratings), "items")
        scores = [self._ratings(rater, rating, progress) for rating in settings.ratings]
        texts = [candidate.text for test_pair in self.to_rate for candidate in test_pair.candidates]
        lengths = [len(tokens) for tokens in get_tokenizer(length_tokenizer(texts)).tokenize_batch(texts)]
        return RatedSet(
            np.array([*scores, lengths], dtype=np.float64),
            np.array([weight for weights in self.weights for weight in weights], dtype=np.float64),
            np.repeat(np.arange(len(self.weights)), [len(weights) for weights in self.weights]),
        )

    def _ratings(self, rater: Rater, settings: RatingSettings, progress: Progress) -> list[float]:
        all_ratings = list[float]()
        for begin in range(0, len(self.to_rate), _BATCH_SIZE):
            batch = self.to_rate[begin : begin + _BATCH_SIZE]
            all_ratings += [rating for ratings in rater.rate(batch, settings) for rating in ratings]
            progress.advance(len(batch))
        return all_ratings

    def with_rows(self, name: str, rows: tuple[ReferenceRow, ...]) -> RatedReferences:
        """Return the rows with the counts, and a hash of what was compared."""
        digest = hashlib.sha256()
        for item_id, test_pair, weights in zip(self.ids, self.to_rate, self.weights, strict=True):
            candidates = [[candidate.text, candidate.utterance] for candidate in test_pair.candidates]
            content = [item_id, test_pair.utterance, test_pair.golds, candidates, weights]
            digest.update(orjson.dumps(content, option=orjson.OPT_APPEND_NEWLINE))
        used = sum(map(len, self.weights))
        return RatedReferences(
            name=name,
            rated=used + self.unusable + self.golds_themselves,
            unusable=self.unusable,
            golds_themselves=self.golds_themselves,
            used=used,
            items=len(self.to_rate),
            rows=rows,
            data=digest.hexdigest()[:12],
        )


def _is_rated(reference: Reference) -> bool:
    """Whether people gave a weight to the reference; an empty reference does not count."""
    return reference.source is Origin.SUPPLIED and reference.weight is not None and bool(reference.text.strip())


def _rows(sets: Sequence[RatedSet], settings: RaterEvaluationSettings) -> tuple[ReferenceRow, ...]:
    """Return the figures of one set, or the means over several sets, each of which counts the same."""
    comparison = mean_over_sets(sets, draws=settings.draws, seed=settings.seed, baseline=0, level=settings.confidence)
    names = [*settings.combines, LENGTH]
    return tuple(_row(name, place, comparison) for place, name in enumerate(names))


def _row(name: str, place: int, comparison: Comparison) -> ReferenceRow:
    by_kind = {kind: rows[place] for kind, rows in comparison.by_kind.items()}
    return ReferenceRow(
        name=name,
        spearman=by_kind["spearman"].correlation,
        pearson=by_kind["pearson"].correlation,
        differences={kind: row.difference for kind, row in by_kind.items() if row.difference is not None},
    )
