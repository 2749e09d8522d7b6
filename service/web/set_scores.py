"""What POST /v1/reference-sets/{id}/scores asks for, within the limits; and the scoring, which runs in the executor."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, Final, Literal

from core.errors import TooLarge, Usage
from service.job_kinds.sources import metrics_within
from service.scores import ReplyForm, ScoreSettings
from service.serve_settings import ServeSettings
from service.set_scoring import HeldSet, SetRequest, UnknownItems, score_set, statistics_of
from service.settings import Settings
from service.web.problems import BadRequest
from service.web.schemas.sets import SetScoresIn
from service.web.scoring import score_settings

# The queue counts items that are found and rated, which take milliseconds each; a reply under one metric takes some
# fifty microseconds against references that are prepared. So a batch of 64 is one or two places in the queue, and a
# training loop does not crowd out those who search.
_SCORES_AN_ITEM: Final = 50
_EXPLAINED: Final = 16  # times as many scores: one without each of so many references
_PLACE: Final = re.compile(r"items\[(\d+)\]")
_A_DRAW: Final = 1_000  # draws of which each reply costs as much as one more score


@dataclass(frozen=True, kw_only=True)
class SetWork:
    """A request, decided."""

    request: SetRequest
    metrics: tuple[str, ...]
    settings: ScoreSettings
    language: str | None
    percent: bool
    on_error: Literal["fail", "report"]
    gives: Literal["scores", "values", "stats"]

    @classmethod
    def of(cls, asked: SetScoresIn, home: Settings, serve: ServeSettings) -> SetWork:
        """TooLarge beyond a limit, Usage where something was said that changes nothing."""
        metrics = asked.metrics or []
        if len(metrics) > serve.metrics:
            raise TooLarge(
                f"{len(metrics):,} metrics are more than the {serve.metrics:,} of one request",
                remedy="send the replies again with the others",
            )
        work = cls(
            request=SetRequest(items=asked.items, replies=asked.replies),
            metrics=metrics_within(metrics, home, serve),
            settings=replace(score_settings(asked, serve, explain=asked.explain), parts=asked.explain),
            language=asked.language,
            percent=asked.percent,
            on_error=asked.on_error,
            gives=asked.return_,
        )
        work.require_used()
        work.require_within(serve)
        return work

    def require_used(self) -> None:
        """Usage for what the form of the answer has no place for."""
        lost = {
            "explain": self.settings.explain and self.gives != "scores",
            "draws": self.settings.draws and self.gives == "stats",
            "percent": self.percent and self.gives == "stats",
        }
        if name := next((name for name, is_lost in lost.items() if is_lost), None):
            raise Usage(f'"{name}" with "return": "{self.gives}"', remedy="leave one of the two out")

    def require_within(self, serve: ServeSettings) -> None:
        """As many replies, and as long ones, as one request may have."""
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
        """How many there are, of all systems."""
        return sum(map(len, self.request.replies.values()))

    @property
    def cost(self) -> int:
        """How many items of the queue it is worth."""
        scores = self.replies * (len(self.metrics) or 1) * (1 + self.settings.draws / _A_DRAW)
        return max(1, math.ceil(scores * (_EXPLAINED if self.settings.explain else 1) / _SCORES_AN_ITEM))

    def run(self, held: HeldSet) -> Mapping[str, Any]:
        """The answer, but for its request's id."""
        try:
            found = self._statistics(held) if self.gives == "stats" else self._scores(held)
        except UnknownItems as error:
            places = [_problem({"id": one.item, "field": one.field, "message": one.message}) for one in error.bad]
            raise BadRequest(error.message, errors=places, remedy=error.remedy) from None
        return {**found, "problems": [_problem(one) for one in found["problems"]]}

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
            form=ReplyForm.VALUES if self.gives == "values" else ReplyForm.REPLIES,
        )


def _problem(bad: Mapping[str, Any]) -> dict[str, Any]:
    """An id that the set does not have, as errors list it."""
    place = _PLACE.fullmatch(bad["field"])
    return {
        "item": bad["id"],
        "place": int(place[1]) if place else None,
        "field": bad["field"],
        "message": bad["message"],
    }
