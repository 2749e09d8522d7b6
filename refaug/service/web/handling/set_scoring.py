"""The work of POST /v1/reference-sets/{id}/scores: the request checked against the limits, and its scoring."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from typing import Any, Final

import numpy as np

from refaug.core.errors import TooLarge
from refaug.core.home import Settings
from refaug.core.progress import Progress
from refaug.evaluation.metric_setup.metric_requests import (
    MetricRequest,
    default_metric_of,
    refuse_judge,
    require_models,
)
from refaug.evaluation.scoring.scores import ReplyForm
from refaug.metrics.costs import lengths_of
from refaug.metrics.models.model_kinds import ModelKind
from refaug.service.server_settings import ServeSettings
from refaug.service.serving.sets.held_set import HeldSet
from refaug.service.serving.sets.set_scoring import SetRequest, UnknownItems, score_set, statistics_of
from refaug.service.web import scoring_limits
from refaug.service.web.problems import BadRequest
from refaug.service.web.schemas.sets import SetScoresIn

_MAX_REPLIES_INLINE: Final = 500
_PLACE: Final = re.compile(r"items\[(\d+)\]")
_DRAWN_ROWS_PER_ITEM: Final = 50_000  # rows that a bootstrap over the items of a set can add up in an item's time


class SetScoring:
    """A request to score against a set."""

    def __init__(self, body: SetScoresIn, home: Settings, serve: ServeSettings) -> None:
        self.body, self.options, self._home, self._serve = body, body.options, home, serve
        self.replies = sum(map(len, body.replies.values()))  # of all systems
        self.metrics: Sequence[str] = ()
        self.asks_model = False  # which may have to be opened first, and takes long

    def check(self) -> None:
        """Check the request: TooLarge beyond a limit, Usage where a field has no effect."""
        options, serve = self.options, self._serve
        self.metrics = scoring_limits.require_few_metrics(options.metrics, self._home, serve, texts="replies")
        wants = [MetricRequest.of(text, self._home) for text in self.metrics]
        require_models(wants, rater=None, index=None)
        if not serve.judge_hosts:
            refuse_judge(wants)
        scoring_limits.require_few_draws(options, serve)
        self.asks_model = any(model.parameter.is_asked for want in wants for model in want.models)
        scoring_limits.require_returned(options, self.body.return_)
        self._require_within(serve)
        if any(want.asks(ModelKind.JUDGE) for want in wants):
            scoring_limits.require_few_judged(self.replies, serve)

    def _require_within(self, serve: ServeSettings) -> None:
        """Raise for too many replies, or too long ones."""
        if self.replies > serve.replies:
            raise TooLarge(
                f"{self.replies:,} replies are more than the {serve.replies:,} that one request may have",
                remedy="send them in several requests",
            )
        long = [
            {
                "item": None,
                "place": place,
                "field": f"replies.{system}[{place}]",
                "message": f"{len(text):,} characters are more than the {serve.text_chars:,} of one text",
            }
            for system, texts in self.body.replies.items()
            for place, text in enumerate(texts)
            if text is not None and len(text) > serve.text_chars
        ]
        if long:
            raise BadRequest(f"{long[0]['field']}: {long[0]['message']}", errors=long, remedy="send shorter texts")

    @property
    def is_quick_to_measure(self) -> bool:
        """Whether measuring the texts takes less time than handing them to a thread."""
        return self.replies <= _MAX_REPLIES_INLINE and not scoring_limits.counts_words(self.metrics)

    def cost(self, held: HeldSet) -> int:
        """Return the number of queue items that the work is worth; TooLarge for more than one request may be."""
        units = self._units(held)
        scoring_limits.require_units(units, self._serve)
        drawn = self.replies * len(units) * self.options.draws / _DRAWN_ROWS_PER_ITEM
        worth = sum(units.values()) / scoring_limits.UNITS_PER_ITEM + drawn
        return max(1, min(math.ceil(worth), self._serve.queue_items))

    def _units(self, held: HeldSet) -> Mapping[str, float]:
        """Return the units of work of each metric, by the lengths of the replies and of the set's references."""
        metrics = self.metrics or (default_metric_of(held.facts.sources),)
        ids = held.ids if self.body.items is None else self.body.items
        places = np.array([held.places.get(name, -1) for name in ids], dtype=np.int64)
        systems = self.body.replies.values()
        replies = [[] if text is None else [text] for texts in systems for text in texts]
        rows = [places[: len(texts)] for texts in systems]  # lists of other lengths are refused later
        of_replies = np.concatenate([places[:0], *rows])
        return scoring_limits.scoring_units(
            metrics,
            lengths_of(replies[: sum(map(len, rows))], counts_words=scoring_limits.counts_words(metrics)),
            np.where(of_replies < 0, 0.0, held.facts.lengths[:, of_replies]),
            explains=self.options.explain,
        )

    def run(self, held: HeldSet, progress: Progress) -> Mapping[str, Any]:
        """Return the response without its request id."""
        body, options = self.body, self.options
        request = SetRequest(items=body.items, replies=body.replies)
        try:
            if body.return_ == "stats":
                answer = statistics_of(
                    held, request, self.metrics, language=options.language, on_error=body.on_error, progress=progress
                )
            else:
                plain = ReplyForm.REPLIES if options.explain else ReplyForm.PLAIN
                form = ReplyForm.VALUES if body.return_ == "values" else plain
                answer = score_set(
                    held,
                    request,
                    self.metrics,
                    options,
                    language=options.language,
                    on_error=body.on_error,
                    progress=progress,
                    form=form,
                )
        except UnknownItems as error:
            places = [_problem({"id": one.item, "field": one.field, "message": one.message}) for one in error.bad]
            raise BadRequest(error.message, errors=places, remedy=error.remedy) from None
        problems: Any = answer["problems"]
        return {**answer, "problems": [_problem(one) for one in problems]}


def _problem(bad: Mapping[str, Any]) -> dict[str, Any]:
    """Return an unknown id, or a metric that does not suit the set, as errors list it."""
    place = _PLACE.fullmatch(bad["field"])
    return {
        "item": bad["id"],
        "place": int(place[1]) if place else None,
        "field": bad["field"],
        "message": bad["message"],
        **{name: bad[name] for name in ("metric", "code") if name in bad},
    }
