"""How far a rater agrees with people: `refaug rater evaluate`.

Two questions, each asked where a test set has what it needs, which is an utterance and a gold in any case:

- replies that people rated: the rater's rating of each beside the golds, against people's mean. These are the rows and
  figures of `refaug meta`, for the metric `rater` under every way to combine;
- references that people rated: the rater weighs references, so this is its own trade. Each is rated as a candidate
  beside the golds, against the weight that people gave it; one that is a gold itself, normalised, tells nothing.

Intervals draw whole items in both.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any, Final

import numpy as np
import orjson

from core.errors import BadInput, Usage
from core.items import BadItem
from core.progress import Progress, Silent
from core.records import Item, Origin, Reference
from core.text import get_tokenizer, normalise
from metrics.agreement import Comparison, RatedSet, mean_over_sets
from metrics.base import References
from metrics.catalogue import Uses
from metrics.resampling import Estimate
from metrics.specification import build
from rater.rate import COMBINES, Calibration, Candidate, Rater, RatingSettings, ToRate
from service.cases import references_of, split
from service.meta import agreement
from service.meta_records import LENGTH, ComparedMetric, MetaResult, MetaSettings, RatedItems
from service.meta_scores import length_tokenizer
from service.rating import with_rater

_AT_ONCE: Final = 200  # test pairs between two looks at the clock


# ── what is asked for, and what comes of it ───────────────────────────────────────────────────────────────────────


@dataclass(frozen=True, kw_only=True)
class RaterEvaluationSettings:
    """Which ratings are compared, and how; the first way to combine is what the others are compared with."""

    combines: tuple[str, ...] = COMBINES
    calibration: Calibration = "raw"
    draws: int = 10_000
    seed: int = 1
    confidence: float = 0.95

    def __post_init__(self) -> None:
        if not self.combines:
            raise Usage("no way to combine", remedy=f"at least one of: {', '.join(COMBINES)}")
        if twice := next((one for one in self.combines if self.combines.count(one) > 1), None):
            raise Usage(f"combine={twice} is named twice", remedy="give every way once")
        _ = self.ratings, self.meta  # these refuse what is out of range

    @property
    def ratings(self) -> tuple[RatingSettings, ...]:
        """What the rater is asked for, in order."""
        return tuple(
            RatingSettings(combine=one, calibration=self.calibration)  # type: ignore[arg-type]
            for one in self.combines
        )

    @property
    def meta(self) -> MetaSettings:
        """The same for figures about replies."""
        return MetaSettings(draws=self.draws, seed=self.seed, confidence=self.confidence)

    @property
    def metrics(self) -> tuple[str, ...]:
        """The metric by its specification, under every way to combine."""
        calibrated = ",cal=cal" if self.calibration == "cal" else ""
        return tuple(f"rater:combine={one}{calibrated}" for one in self.combines)


@dataclass(frozen=True, kw_only=True)
class ReferenceRow:
    """How well one way to combine, or the length of the reference, agrees with people's weights."""

    name: str
    spearman: Estimate
    pearson: Estimate
    differences: Mapping[str, Estimate]  # by kind, what it has over the first way; none for that one itself

    def as_json(self) -> dict[str, Any]:
        """One row."""
        return {
            "name": self.name,
            "spearman": _estimate(self.spearman),
            "pearson": _estimate(self.pearson),
            "difference": {kind: _estimate(one) for kind, one in self.differences.items()},
        }


@dataclass(frozen=True, kw_only=True)
class RatedReferences:
    """The references of one set that people rated; rated = unusable + golds_themselves + used."""

    name: str
    rated: int
    unusable: int  # of items without an utterance or a gold
    golds_themselves: int
    used: int
    items: int  # of the used ones
    rows: tuple[ReferenceRow, ...]  # the ways to combine in order, then the length
    data: str  # a hash of the used ones: items, utterances, golds, texts, weights

    def as_json(self) -> dict[str, Any]:
        """All of it."""
        counts = {name: value for name, value in asdict(self).items() if name not in ("name", "rows", "data")}
        return {"name": self.name, "data": self.data, "counts": counts, "rows": [row.as_json() for row in self.rows]}


@dataclass(frozen=True, kw_only=True)
class RaterEvaluation:
    """What came of comparing a rater with people."""

    rater: str
    settings: RaterEvaluationSettings
    replies: MetaResult | None  # None where no set has rated replies
    references: tuple[RatedReferences, ...]  # one for each set that has rated references
    mean: tuple[ReferenceRow, ...]  # over these sets, where there are several
    warnings: tuple[str, ...]
    bad_items: tuple[BadItem, ...]

    def as_json(self) -> dict[str, Any]:
        """One document."""
        return {
            "rater": self.rater,
            "settings": asdict(self.settings),
            "replies": self.replies and self.replies.as_json(),
            "references": {
                "sets": [one.as_json() for one in self.references],
                "mean": [one.as_json() for one in self.mean] or None,
            }
            if self.references
            else None,
            "warnings": list(self.warnings),
            "problems": [asdict(one) for one in self.bad_items],
        }


def _estimate(one: Estimate) -> dict[str, Any]:
    interval = None if one.low is None or one.high is None else [one.low, one.high]
    more = {"interval": interval, "p": one.p, "undefined_draws": one.undefined or None, "why": one.why}
    return {"value": one.value, **{name: value for name, value in more.items() if value is not None}}


# ── both questions ────────────────────────────────────────────────────────────────────────────────────────────────


def evaluate_rater(
    rater: Rater,
    sets: Sequence[RatedItems],
    settings: RaterEvaluationSettings | None = None,
    progress: Progress | None = None,
) -> RaterEvaluation:
    """Compare a rater with people on one or several test sets; BadInput where they hold nothing to compare it with."""
    settings, progress = settings or RaterEvaluationSettings(), progress or Silent()
    read = {one.name: split(one.items) for one in sets}
    taken = {name: _Taken.of(good) for name, (good, _) in read.items()}
    with_replies = [name for name, (good, _) in read.items() if any(map(_has_rated_reply, good))]
    with_references = [name for name, one in taken.items() if one.asked]
    if not with_replies and not with_references:
        raise BadInput(
            f"there is nothing to compare {rater.spec} with: no item with an utterance and a gold has been rated",
            remedy='give items "ratings" of their "replies", or references as {"text": …, "ratings": [2, 3]}',
        )
    compared = [RatedItems(name=name, items=[*read[name][0], *read[name][1]]) for name in with_replies]
    replies = _agreement_of_replies(rater, compared, settings, progress) if compared else None
    rated = [taken[name].rated(rater, settings, progress) for name in with_references]
    of_references = [
        taken[name].result(name, _rows([one], settings)) for name, one in zip(with_references, rated, strict=True)
    ]
    nothing = [name for name in read if name not in {*with_replies, *with_references}]
    return RaterEvaluation(
        rater=rater.spec,
        settings=settings,
        replies=replies,
        references=tuple(of_references),
        mean=_rows(rated, settings) if len(rated) > 1 else (),
        warnings=(
            *(_said_of_replies(replies, settings) if replies is not None else ()),
            *_said_of_references(taken),
            *(f"{name}: nothing in it was rated by people, or can be rated by a rater" for name in nothing),
        ),
        bad_items=tuple(bad for _, of_set in read.values() for bad in of_set),
    )


def _has_rated_reply(item: Item) -> bool:
    """Whether there is a rated reply, and what it takes to ask the rater about it."""
    usable = isinstance(references_of(item.pair.references, Uses.GOLDS, item.pair.utterance), References)
    return usable and any(one is not None for given in item.ratings.values() for one in given)


def _agreement_of_replies(
    rater: Rater, sets: Sequence[RatedItems], settings: RaterEvaluationSettings, progress: Progress
) -> MetaResult:
    metrics = with_rater([build(one) for one in settings.metrics], rater)
    named = [ComparedMetric(name=name, metric=one) for name, one in zip(settings.metrics, metrics, strict=True)]
    return agreement(sets, named, settings.meta, progress=progress)


def _said_of_replies(replies: MetaResult, settings: RaterEvaluationSettings) -> Iterator[str]:
    """The warnings, once for all ways to combine: a reply has a rating by each of them, or by none."""
    said = dict[str, None]()
    for warning in replies.warnings:
        plain = warning.removesuffix(": left out for all metrics")
        for name in settings.metrics:
            plain = plain.replace(f"{name} has no score", "the rater has no rating")
        said[plain] = None
    yield from said


def _said_of_references(taken: Mapping[str, _Taken]) -> Iterator[str]:
    for name, one in taken.items():
        if one.unusable:
            yield f"{name}: {one.unusable:,} rated references are of items without an utterance or a gold: left out"


# ── references that people rated ──────────────────────────────────────────────────────────────────────────────────


@dataclass(frozen=True, kw_only=True)
class _Taken:
    """The references of a set that can be compared, by item, and why others cannot."""

    asked: tuple[ToRate, ...]
    weights: tuple[tuple[float, ...], ...]  # people's, for the candidates of each
    ids: tuple[str, ...]
    unusable: int
    golds_themselves: int

    @classmethod
    def of(cls, items: Sequence[Item]) -> _Taken:
        """Look at every item."""
        asked, weights, ids = list[ToRate](), list[tuple[float, ...]](), list[str]()
        unusable, same = 0, 0
        for item in items:
            rated = [one for one in item.pair.references if _is_rated(one)]
            golds = references_of(item.pair.references, Uses.GOLDS, item.pair.utterance)
            if not isinstance(golds, References):
                unusable += len(rated)
                continue
            texts = {normalise(text) for text in golds.texts}
            kept = [one for one in rated if normalise(one.text) not in texts]
            same += len(rated) - len(kept)
            if kept:
                candidates = tuple(Candidate(text=one.text, utterance=_answered(one)) for one in kept)
                asked.append(ToRate(utterance=golds.utterance or "", golds=golds.texts, candidates=candidates))
                weights.append(tuple(one.weight for one in kept if one.weight is not None))
                ids.append(item.id)
        return cls(asked=tuple(asked), weights=tuple(weights), ids=tuple(ids), unusable=unusable, golds_themselves=same)

    def rated(self, rater: Rater, settings: RaterEvaluationSettings, progress: Progress) -> RatedSet:
        """The ratings under every way to combine, and the lengths after them, beside people's weights."""
        progress.stage("rate references", len(self.asked) * len(settings.ratings), "items")
        scores = [self._ratings(rater, one, progress) for one in settings.ratings]
        texts = [candidate.text for one in self.asked for candidate in one.candidates]
        lengths = [len(tokens) for tokens in get_tokenizer(length_tokenizer(texts)).tokenize_batch(texts)]
        return RatedSet(
            np.array([*scores, lengths], dtype=np.float64),
            np.array([weight for one in self.weights for weight in one], dtype=np.float64),
            np.repeat(np.arange(len(self.weights)), [len(one) for one in self.weights]),
        )

    def _ratings(self, rater: Rater, settings: RatingSettings, progress: Progress) -> list[float]:
        found = list[float]()
        for begin in range(0, len(self.asked), _AT_ONCE):
            some = self.asked[begin : begin + _AT_ONCE]
            found += [rating for one in rater.rate(some, settings) for rating in one]
            progress.advance(len(some))
        return found

    def result(self, name: str, rows: tuple[ReferenceRow, ...]) -> RatedReferences:
        """With the counts, and the name of what was compared."""
        digest = hashlib.sha256()
        for item, one, weights in zip(self.ids, self.asked, self.weights, strict=True):
            candidates = [[each.text, each.utterance] for each in one.candidates]
            content = [item, one.utterance, one.golds, candidates, weights]
            digest.update(orjson.dumps(content, option=orjson.OPT_APPEND_NEWLINE))
        used = sum(map(len, self.weights))
        return RatedReferences(
            name=name,
            rated=used + self.unusable + self.golds_themselves,
            unusable=self.unusable,
            golds_themselves=self.golds_themselves,
            used=used,
            items=len(self.asked),
            rows=rows,
            data=digest.hexdigest()[:12],
        )


def _is_rated(reference: Reference) -> bool:
    """Whether people gave it a weight; an empty one is not there."""
    return reference.source is Origin.SUPPLIED and reference.weight is not None and bool(reference.text.strip())


def _answered(reference: Reference) -> str | None:
    """The utterance that a reference answered where it was found, if the file says so."""
    known = reference.more.get("utterance")
    return known if isinstance(known, str) else None


def _rows(sets: Sequence[RatedSet], settings: RaterEvaluationSettings) -> tuple[ReferenceRow, ...]:
    """Figures on one set, or their means over several, in which every set counts the same."""
    found = mean_over_sets(sets, draws=settings.draws, seed=settings.seed, baseline=0, level=settings.confidence)
    names = [*settings.combines, LENGTH]
    return tuple(_row(name, place, found) for place, name in enumerate(names))


def _row(name: str, place: int, found: Comparison) -> ReferenceRow:
    of = {kind: rows[place] for kind, rows in found.by_kind.items()}
    return ReferenceRow(
        name=name,
        spearman=of["spearman"].correlation,
        pearson=of["pearson"].correlation,
        differences={kind: one.difference for kind, one in of.items() if one.difference is not None},
    )
