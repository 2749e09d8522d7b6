"""What `score_iter` gives: the scores of one item."""

from __future__ import annotations

from dataclasses import field
from typing import Optional

from ._errors import Usage
from ._models import Model, ReplyScore, record, short


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
        """The one score that there is; Usage where there are several."""
        found = [reply for systems in self.scores.values() for reply in systems.values()]
        if len(found) == 1:
            return found[0]
        raise Usage(
            f"there are {len(found)} scores of {self.id}: by {', '.join(self.scores)}",
            remedy="say which one: item[metric][system]",
        )

    @property
    def score(self) -> Optional[float]:
        """The number of it; None where the reply has no score."""
        return self.reply.score

    @property
    def signature(self) -> str:
        """Of the one metric that there is."""
        if len(self.signatures) == 1:
            return next(iter(self.signatures.values()))
        raise Usage(f"there are {len(self.signatures)} metrics", remedy="say which one: item.signatures[metric]")

    def __repr__(self) -> str:
        said = {metric: {name: one.score for name, one in systems.items()} for metric, systems in self.scores.items()}
        return f"ScoredItem({self.id!r}, {short(said)})"
