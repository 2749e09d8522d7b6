"""The result of `score_iter`: the scores of one item."""

from __future__ import annotations

from dataclasses import field
from typing import Optional

from refaug_client._core.errors import Usage

from .base import Model, record, shorten
from .scores import ReplyScore


@record
class ScoredItem(Model):
    """The scores of an item's replies: by metric, by system.

    `item["upsilon-bleu"]["model"].score`, or `item.score` where there is one metric and one system. A score is None
    where there is none, and `problem` says why.
    """

    id: str
    scores: dict[str, dict[str, ReplyScore]]
    signatures: dict[str, str] = field(default_factory=dict)

    def __getitem__(self, metric: str) -> dict[str, ReplyScore]:
        if metric in self.scores:
            return self.scores[metric]
        raise KeyError(f"{metric!r}; there are: {', '.join(self.scores)}")

    @property
    def reply(self) -> ReplyScore:
        """The only score; Usage where there are several."""
        reply_scores = [reply for systems in self.scores.values() for reply in systems.values()]
        if len(reply_scores) == 1:
            return reply_scores[0]
        raise Usage(
            f"there are {len(reply_scores)} scores of {self.id}: by {', '.join(self.scores)}",
            remedy="say which one: item[metric][system]",
        )

    @property
    def score(self) -> Optional[float]:
        """The score as a number; None where the reply has none."""
        return self.reply.score

    @property
    def signature(self) -> str:
        """The signature of the only metric."""
        if len(self.signatures) == 1:
            return next(iter(self.signatures.values()))
        raise Usage(f"there are {len(self.signatures)} metrics", remedy="say which one: item.signatures[metric]")

    def __repr__(self) -> str:
        scores = {metric: {name: one.score for name, one in systems.items()} for metric, systems in self.scores.items()}
        return f"ScoredItem({self.id!r}, {shorten(scores)})"
