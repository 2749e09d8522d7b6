"""Scores of replies against a held set, for training loops with thousands of replies a second.

A request looks up its items, runs the metric on its replies, and returns the answer. The scores are those of
`refaug.scoring.reference_sets.set_scores.score`, bit for bit, whatever the batch that a reply came in:
metrics are bound to the whole set, and sums are taken in the order of the set.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, Literal, TypedDict, Unpack

import numpy as np

from refaug.core.errors import BadInput
from refaug.core.progress import Progress
from refaug.metrics.base import Indexes, Metric, Problem, References
from refaug.metrics.metric_info import Uses
from refaug.scoring import evaluate
from refaug.scoring.cases import Reply, UnsuitableReferences, bind_to_replies
from refaug.scoring.copies import CopiedReplies, copy_warning, find_copies
from refaug.scoring.held_sets.held_set import UNKNOWN_ITEM, AskedMetric, HeldMetric, HeldSet, references_of
from refaug.scoring.items import BadItem
from refaug.scoring.metric_setup.metric_requests import MetricRequest
from refaug.scoring.reference_sets.reference_set import NO_LINE
from refaug.scoring.scores import BadMetric, Evaluation, MetricScores, ReplyForm, percent, require_share
from refaug.scoring.settings import ScoreSettings

OnError = Literal["fail", "report"]
Returned = Literal["scores", "values", "stats"]
_PLACE: Final = re.compile(r"items\[(\d+)\]")


class UnknownItems(BadInput):
    """Ids that the set does not have."""

    def __init__(self, bad: Sequence[BadItem]) -> None:
        more = f", and {len(bad) - 1:,} more are unknown" if len(bad) > 1 else ""
        super().__init__(
            f"{bad[0].field}: {bad[0].message}{more}",
            remedy='ids of items of the set; with "on_error": "report" the others are scored',
        )
        self.bad = bad


# ── Requests ──────────────────────────────────────────────────────────────────────────────────────────────────────


@dataclass(frozen=True, kw_only=True)
class SetRequest:
    """Replies to items of a set: the i-th reply of every system is to `items[i]`; None is no reply.

    An item may occur several times. Without `items`, every system has a reply to each item, in the set's order.
    """

    replies: Mapping[str, Sequence[str | None]]
    items: Sequence[str] | None = None
    _places: dict[str, Indexes] = field(default_factory=dict, init=False, repr=False, compare=False)

    def places_in(self, held: HeldSet) -> Indexes:
        """Return the places of the items in a set, found once; −1 where the set has no such item."""
        places = self._places.get(held.manifest.id)
        if places is None:
            ids = range(len(held.ids)) if self.items is None else [held.places.get(name, -1) for name in self.items]
            places = self._places[held.manifest.id] = np.array(ids, dtype=np.int64)
        return places


class SetOptions(TypedDict, total=False):
    """How replies to a set are scored beside its settings."""

    language: str | None
    on_error: OnError
    progress: Progress | None


def answer_request(
    held: HeldSet,
    request: SetRequest,
    metrics: Sequence[str],
    settings: ScoreSettings,
    *,
    returned: Returned = "scores",
    **options: Unpack[SetOptions],
) -> dict[str, Any]:
    """Return what a request for scores is answered with, over HTTP and in process."""
    answer: dict[str, object]
    if returned == "stats":
        answer = statistics_of(held, request, metrics, **options)
    else:
        plain = ReplyForm.REPLIES if settings.explain else ReplyForm.PLAIN
        form = ReplyForm.VALUES if returned == "values" else plain
        answer = score_set(held, request, metrics, settings, form=form, **options)
    problems: Any = answer["problems"]
    return {**answer, "problems": [problem_json(one) for one in problems]}


def problem_json(bad: Mapping[str, Any]) -> dict[str, Any]:
    """Return an unknown id, or a metric that does not suit the set, as errors list it."""
    place = _PLACE.fullmatch(bad["field"])
    return {
        "item": bad["id"],
        "place": int(place[1]) if place else None,
        "field": bad["field"],
        "message": bad["message"],
        **{name: bad[name] for name in ("metric", "code") if name in bad},
    }


def score_set(
    held: HeldSet,
    request: SetRequest,
    metrics: Sequence[str],
    settings: ScoreSettings,
    *,
    form: ReplyForm = ReplyForm.REPLIES,
    **options: Unpack[SetOptions],
) -> dict[str, object]:
    """Return the scores as JSON, in the shape of an evaluation, with the set that they are against.

    Without metrics, the default metric of the set's references is used. An unknown id is an error; with
    `on_error="report"` it is listed, and the rest is scored.
    """
    evaluation = evaluate_set(held, request, metrics, settings, **options)
    answer = evaluation.as_json(form)
    return {**answer, "problems": [*answer["problems"], *_metric_problems(evaluation, metrics)], "set": held.as_json()}


def _metric_problems(evaluation: Evaluation, metrics: Sequence[str]) -> Iterator[dict[str, object]]:
    """Yield the metrics that the references of the set do not suit, each with its place in the request."""
    names = [MetricRequest.of(text).name for text in metrics]
    for bad in evaluation.bad_metrics:
        for place in [place for place, name in enumerate(names) if name == bad.metric]:
            field = f"metrics[{place}]"
            yield {"id": None, "field": field, "message": bad.message, "metric": bad.metric, "code": bad.code}


def statistics_of(
    held: HeldSet,
    request: SetRequest,
    metrics: Sequence[str],
    **options: Unpack[SetOptions],
) -> dict[str, object]:
    """Return the sums that the scores are computed from, for `refaug.scoring.combine`.

    `places` tells where the items stand in the set (null: the set has no such item), so that the sums of several
    batches can be taken in its order.
    """
    evaluation = evaluate_set(held, request, metrics, ScoreSettings(draws=0), is_part=True, **options)
    places = [place if place >= 0 else None for place in _ResolvedRequest.of(held, request).places.tolist()]
    sums = evaluation.as_statistics()
    problems = [*sums["problems"], *_metric_problems(evaluation, metrics)]
    return {**sums, "problems": problems, "set": {**held.as_json(), "places": places}}


def evaluate_set(
    held: HeldSet,
    request: SetRequest,
    metrics: Sequence[str],
    settings: ScoreSettings,
    *,
    language: str | None = None,
    on_error: OnError = "fail",
    is_part: bool = False,
    progress: Progress | None = None,
) -> Evaluation:
    """Score replies to items of a set, in the order sent; intervals draw those items, not the whole set.

    In a part of the replies (`is_part`) it is no error if no reply has a score.
    """
    resolved = _ResolvedRequest.of(held, request)
    suitable, bad_metrics = _suitable_metrics(held, metrics, language, reports=on_error == "report")
    if settings.percent:
        require_share([held_metric.metric for held_metric in suitable])
    if resolved.bad and on_error == "fail":
        raise UnknownItems(resolved.bad)
    evaluate.require_baseline(settings.baseline, resolved.systems)
    held_metrics = [_bound_to(held, held_metric, resolved, progress) for held_metric in suitable]
    scores = tuple(_metric_scores(held, held_metric, resolved, settings, progress) for held_metric in held_metrics)
    unscored = [error for of_metric in scores if (error := evaluate.unscored_error(of_metric))]
    if len(unscored) == len(scores) and on_error == "fail" and not is_part:
        raise unscored[0]
    is_weighted = any(held_metric.metric.info.uses is Uses.WEIGHTED for held_metric in held_metrics)
    places, bound = resolved.item_places(), [held_metric.metric for held_metric in held_metrics]
    copies = find_copies(held.facts.utterances, resolved.places.tolist(), resolved.ids, resolved.replies)
    evaluation = Evaluation(
        scores=scores,
        data=held.facts.data,
        items=len(places),
        evidence=held.evidence(places) if is_weighted and settings.explain else {},
        bad_items=resolved.bad,
        bad_metrics=bad_metrics,
        warnings=(
            *(error.message for error in unscored),
            *_warnings(held, resolved, bound, copies, places if is_weighted else None),
            *evaluate.score_remarks(scores),
        ),
        settings=settings,
        copies=copies,
    )
    return percent(evaluation) if settings.percent else evaluation


def _suitable_metrics(
    held: HeldSet, specifications: Sequence[str], language: str | None, *, reports: bool
) -> tuple[list[HeldMetric], tuple[BadMetric, ...]]:
    """Return the metrics that the references of the set suit, and others; the first error, unless others are reported.

    Where no metric is suitable, that is an error in any case.
    """
    if not reports or len(specifications) < 2:
        return held.metrics(specifications, language), ()
    suitable, unsuitable, errors = list[HeldMetric](), dict[str, BadMetric](), list[BadInput]()
    for text in specifications:
        try:
            suitable += held.metrics([text], language)
        except UnsuitableReferences as error:
            name = MetricRequest.of(text).name
            unsuitable[name] = BadMetric(metric=name, code=error.code, message=error.message)
            errors.append(error)
    if not suitable:
        raise errors[0]
    return list(dict.fromkeys(suitable)), tuple(unsuitable.values())


def _warnings(
    held: HeldSet,
    resolved: _ResolvedRequest,
    metrics: Sequence[Metric],
    copies: Mapping[str, CopiedReplies],
    weighted: Sequence[int] | None,
) -> Iterator[str]:
    """Yield the warnings of an evaluation; those of thin evidence for the items at the places `weighted`."""
    listed = {system: [text for text in texts if text is not None] for system, texts in resolved.replies.items()}
    yield from evaluate.reply_warnings(
        max(map(len, resolved.replies.values()), default=0),
        {system: len(texts) for system, texts in listed.items()},
        {system: sum(not text or text.isspace() for text in texts) for system, texts in listed.items()},
        metrics,
    )
    yield from evaluate.blank_warning(held.facts.blank)
    yield from copy_warning(copies)
    yield from evaluate.ignored_warning(held.facts.other_golds, metrics)
    if weighted is not None:
        yield from evaluate.thin_warning(int(held.facts.thin[weighted].sum()), len(weighted))


@dataclass(frozen=True, kw_only=True)
class _ResolvedRequest:
    """A request with the places of its items in the set."""

    systems: Sequence[str]
    replies: Mapping[str, Sequence[str | None]]
    ids: Sequence[str]
    places: Indexes  # of the items in the set; −1 where the set has no such item
    bad: tuple[BadItem, ...]

    @classmethod
    def of(cls, held: HeldSet, request: SetRequest) -> _ResolvedRequest:
        """Look the items up; BadInput where lists do not fit together."""
        if not request.replies:
            raise BadInput("no system has replies", remedy='"replies": {"system": ["its reply", …]}')
        ids = held.ids if request.items is None else request.items
        whose = "the set" if request.items is None else "items"
        for system, listed in request.replies.items():
            if len(listed) != len(ids):
                raise BadInput(
                    f"replies.{system} has {len(listed):,} entries, {whose} has {len(ids):,}",
                    remedy="one entry for each item, in the same order; null where there is no reply"
                    if request.items is not None
                    else 'name the items that are answered: "items": ["id", …]',
                )
        if not ids:
            raise BadInput("there are no items in it", remedy='name at least one: "items": ["id", …]')
        places = request.places_in(held)
        return cls(
            systems=list(request.replies),
            replies=request.replies,
            ids=ids,
            places=places,
            bad=tuple(_unknown_item(held, row, ids[row]) for row in np.flatnonzero(places < 0).tolist()),
        )

    def rows(self) -> tuple[list[str | None], list[int]]:
        """Return the replies of all systems, one system after the other, and the places of their items."""
        replies = [reply for system in self.systems for reply in self.replies[system]]
        return replies, self.places.tolist() * len(self.systems)

    def item_places(self) -> list[int]:
        """Return the places of the items, each once, in the set's order."""
        return sorted(set(self.places.tolist()) - {-1})


def _unknown_item(held: HeldSet, row: int, name: str) -> BadItem:
    message = f"the set {held.manifest.id} has no item {name!r}"
    return BadItem(file="request", line=NO_LINE, item=name, field=f"items[{row}]", message=message)


# ── Scores of one metric ──────────────────────────────────────────────────────────────────────────────────────────────


def _bound_to(
    held: HeldSet, held_metric: HeldMetric, resolved: _ResolvedRequest, progress: Progress | None
) -> HeldMetric | AskedMetric:
    """Return the metric, one that asks models bound to them and to the replies of the request."""
    if not held_metric.metric.info.asks_model:
        return held_metric
    metric = held.bound(held_metric.metric, progress)
    replies, chosen = _scored_texts(held, metric, resolved)
    metric = bind_to_replies(metric, replies, chosen)
    return AskedMetric(
        metric=metric,
        signature=evaluate.signature_of(metric, held.manifest.references_provenance),
        references=held_metric.references,
        replies=replies,
        chosen=chosen,
    )


def _metric_scores(
    held: HeldSet,
    held_metric: HeldMetric | AskedMetric,
    resolved: _ResolvedRequest,
    settings: ScoreSettings,
    progress: Progress | None,
) -> MetricScores:
    """Score the replies of a request by a metric; explanations need the texts of the references."""
    metric, (statistics, problems) = held_metric.metric, held_metric.score_replies(*resolved.rows(), progress)
    explained = None
    if settings.explain:
        explained = evaluate.explanations(metric, statistics, *_scored_texts(held, metric, resolved), progress)
    return evaluate.metric_scores(
        metric,
        held_metric.signature,
        resolved.systems,
        resolved.ids,
        statistics,
        problems,
        settings,
        references=held_metric.references,
        places=resolved.places,
        explained=explained,
    )


def _scored_texts(
    held: HeldSet, metric: Metric, resolved: _ResolvedRequest
) -> tuple[list[Reply], list[References | Problem]]:
    """Return the replies, and the references of each; a problem of the references stands for the reply, too."""
    replies, places = resolved.rows()
    by_place = {place: references_of(metric, held.item(place)) for place in resolved.item_places()}
    chosen = [by_place.get(place, UNKNOWN_ITEM) for place in places]
    return [one if isinstance(one, Problem) else reply for reply, one in zip(replies, chosen, strict=True)], chosen
