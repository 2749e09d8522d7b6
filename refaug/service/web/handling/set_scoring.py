"""The work of POST /v1/reference-sets/{id}/scores: the request checked against the limits, and its scoring."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, Final, Literal

from refaug.core.errors import TooLarge, Usage
from refaug.core.home import Settings
from refaug.evaluation.scoring.score_settings import ScoreSettings
from refaug.evaluation.scoring.scores import ReplyForm
from refaug.service.jobs.kinds.sources import resolve_metric_files
from refaug.service.server_settings import ServeSettings
from refaug.service.serving.sets.held_set import HeldSet
from refaug.service.serving.sets.set_scoring import SetRequest, UnknownItems, score_set, statistics_of
from refaug.service.web.handling.scoring_plan import score_settings
from refaug.service.web.problems import BadRequest
from refaug.service.web.schemas.sets import SetScoresIn

# The queue counts items to search and rate, which take milliseconds each; a reply under one metric takes some fifty
# microseconds against prepared references. So a batch of 64 is one or two places in the queue, and a training loop
# does not crowd out searches.
_SCORES_PER_ITEM: Final = 50
_SCORES_PER_EXPLAINED: Final = 16  # further scores per reply: one without each of about so many references
_PLACE: Final = re.compile(r"items\[(\d+)\]")
_DRAWS_PER_SCORE: Final = 1_000  # draws that cost each reply as much as one more score


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

    @classmethod
    def of(cls, body: SetScoresIn, home: Settings, serve: ServeSettings) -> SetScoringWork:
        """Check the request: TooLarge beyond a limit, Usage where a field has no effect."""
        metrics = body.metrics or []
        if len(metrics) > serve.metrics:
            raise TooLarge(
                f"{len(metrics):,} metrics are more than the {serve.metrics:,} of one request",
                remedy="send the replies again with the others",
            )
        work = cls(
            request=SetRequest(items=body.items, replies=body.replies),
            metrics=resolve_metric_files(metrics, home, serve),
            settings=replace(score_settings(body, serve, explain=body.explain), parts=body.explain),
            language=body.language,
            percent=body.percent,
            on_error=body.on_error,
            response_form=body.return_,
        )
        work.require_used()
        work.require_within(serve)
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
    def cost(self) -> int:
        """The number of queue items that the work is worth."""
        scores = self.replies * (len(self.metrics) or 1) * (1 + self.settings.draws / _DRAWS_PER_SCORE)
        return max(1, math.ceil(scores * (_SCORES_PER_EXPLAINED if self.settings.explain else 1) / _SCORES_PER_ITEM))

    def run(self, held: HeldSet) -> Mapping[str, Any]:
        """Return the response without its request id."""
        try:
            answer = self._statistics(held) if self.response_form == "stats" else self._scores(held)
        except UnknownItems as error:
            places = [_problem({"id": one.item, "field": one.field, "message": one.message}) for one in error.bad]
            raise BadRequest(error.message, errors=places, remedy=error.remedy) from None
        return {**answer, "problems": [_problem(one) for one in answer["problems"]]}

    def _statistics(self, held: HeldSet) -> dict[str, Any]:
        return statistics_of(held, self.request, self.metrics, language=self.language, on_error=self.on_error)

    def _scores(self, held: HeldSet) -> dict[str, Any]:
        return score_set(
            held,
            self.request,
            self.metrics,
            self.settings,
            language=self.language,
            percent=self.percent,
            on_error=self.on_error,
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
