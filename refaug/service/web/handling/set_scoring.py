"""The work of POST /v1/reference-sets/{id}/scores: the request checked against the limits, and its scoring."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, Final, Literal

import numpy as np

from refaug.core.errors import TooLarge, Usage
from refaug.core.home import Settings
from refaug.core.progress import Progress
from refaug.evaluation.metric_setup.metric_requests import MetricRequest, refuse_judge, require_models
from refaug.evaluation.scoring.score_settings import ScoreSettings
from refaug.evaluation.scoring.scores import ReplyForm
from refaug.metrics.costs import Lengths
from refaug.metrics.models.model_kinds import ModelKind
from refaug.service.jobs.kinds.sources import resolve_metric_files
from refaug.service.server_settings import ServeSettings
from refaug.service.serving.sets.held_set import HeldSet, default_metric_of
from refaug.service.serving.sets.set_scoring import SetRequest, UnknownItems, score_set, statistics_of
from refaug.service.web.handling.scoring_plan import require_few_judged, score_settings
from refaug.service.web.problems import BadRequest
from refaug.service.web.schemas.sets import SetScoresIn
from refaug.service.web.scoring_units import UNITS_PER_ITEM, counts_words, require_units, scoring_units

_MAX_REPLIES_INLINE: Final = 500
_PLACE: Final = re.compile(r"items\[(\d+)\]")
_DRAWN_ROWS_PER_ITEM: Final = 50_000  # rows that a bootstrap over the items of a set can add up in an item's time


@dataclass(frozen=True, kw_only=True)
class SetScoringWork:
    """A checked request to score against a set."""

    request: SetRequest
    metrics: tuple[str, ...]
    settings: ScoreSettings
    language: str | None
    percent: bool
    on_error: Literal["fail", "report"]
    response_form: Literal["scores", "values", "stats"]
    asks_model: bool  # which may have to be opened first, and takes long

    @classmethod
    def of(cls, body: SetScoresIn, home: Settings, serve: ServeSettings) -> SetScoringWork:
        """Check the request: TooLarge beyond a limit, Usage where a field has no effect."""
        options = body.options
        metrics = options.metrics
        if len(metrics) > serve.metrics:
            raise TooLarge(
                f"{len(metrics):,} metrics are more than the {serve.metrics:,} of one request",
                remedy="send the replies again with the others",
            )
        specifications = resolve_metric_files(metrics, home, serve)
        wants = [MetricRequest.of(text, home) for text in specifications]
        require_models(wants, rater=None, index=None)
        if not serve.judge_hosts:
            refuse_judge(wants)
        work = cls(
            request=SetRequest(items=body.items, replies=body.replies),
            metrics=specifications,
            settings=replace(score_settings(options, serve, explain=options.explain), parts=options.explain),
            language=options.language,
            percent=options.percent,
            on_error=body.on_error,
            response_form=body.return_,
            asks_model=any(model.parameter.is_asked for want in wants for model in want.models),
        )
        work.require_used()
        work.require_within(serve)
        if any(want.asks(ModelKind.JUDGE) for want in wants):
            require_few_judged(work.replies, serve)
        return work

    def require_used(self) -> None:
        """Raise Usage for a field that the form of the response has no place for."""
        lost = {
            "explain": self.settings.explain and self.response_form != "scores",
            "draws": self.settings.draws and self.response_form == "stats",
            "percent": self.percent and self.response_form == "stats",
        }
        if name := next((name for name, is_lost in lost.items() if is_lost), None):
            raise Usage(f'"{name}" with "return": "{self.response_form}"', remedy="leave one of the two out")

    def require_within(self, serve: ServeSettings) -> None:
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
            for system, texts in self.request.replies.items()
            for place, text in enumerate(texts)
            if text is not None and len(text) > serve.text_chars
        ]
        if long:
            raise BadRequest(f"{long[0]['field']}: {long[0]['message']}", errors=long, remedy="send shorter texts")

    @property
    def replies(self) -> int:
        """The number of replies of all systems."""
        return sum(map(len, self.request.replies.values()))

    @property
    def is_quick_to_measure(self) -> bool:
        """Whether measuring the texts takes less time than handing them to a thread."""
        return self.replies <= _MAX_REPLIES_INLINE and not counts_words(self.metrics)

    def cost(self, held: HeldSet, serve: ServeSettings) -> int:
        """Return the number of queue items that the work is worth; TooLarge for more than one request may be."""
        units = self._units(held)
        require_units(units, serve)
        drawn = self.replies * len(units) * self.settings.draws / _DRAWN_ROWS_PER_ITEM
        return max(1, min(math.ceil(sum(units.values()) / UNITS_PER_ITEM + drawn), serve.queue_items))

    def _units(self, held: HeldSet) -> Mapping[str, float]:
        """Return the units of work of each metric, by the lengths of the replies and of the set's references."""
        metrics = self.metrics or (default_metric_of(held.facts.sources),)
        ids = held.ids if self.request.items is None else self.request.items
        places = np.array([held.places.get(name, -1) for name in ids], dtype=np.int64)
        systems = self.request.replies.values()
        replies = [[] if text is None else [text] for texts in systems for text in texts]
        rows = [places[: len(texts)] for texts in systems]  # lists of other lengths are refused later
        return scoring_units(
            metrics,
            Lengths.of(replies[: sum(map(len, rows))], counts_words=counts_words(metrics)),
            held.facts.lengths.at(np.concatenate([places[:0], *rows])),
            explains=self.settings.explain,
        )

    def run(self, held: HeldSet, progress: Progress) -> Mapping[str, Any]:
        """Return the response without its request id."""
        try:
            answer = self._statistics(held, progress) if self.response_form == "stats" else self._scores(held, progress)
        except UnknownItems as error:
            places = [_problem({"id": one.item, "field": one.field, "message": one.message}) for one in error.bad]
            raise BadRequest(error.message, errors=places, remedy=error.remedy) from None
        return {**answer, "problems": [_problem(one) for one in answer["problems"]]}

    def _statistics(self, held: HeldSet, progress: Progress) -> dict[str, Any]:
        return statistics_of(
            held, self.request, self.metrics, language=self.language, on_error=self.on_error, progress=progress
        )

    def _scores(self, held: HeldSet, progress: Progress) -> dict[str, Any]:
        return score_set(
            held,
            self.request,
            self.metrics,
            self.settings,
            language=self.language,
            percent=self.percent,
            on_error=self.on_error,
            progress=progress,
            form=ReplyForm.VALUES if self.response_form == "values" else ReplyForm.REPLIES,
        )


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
