"""Conversations judged turn by turn: every reply of the bot is scored in its context, without any reference of people.

Metrics that need references get those that an index holds for the utterance; a conversation has no gold.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from refaug.core.errors import BadInput
from refaug.core.home import Settings
from refaug.core.options.decoding import as_values
from refaug.core.progress import Progress
from refaug.core.records import Item
from refaug.evaluation.agreement.records import ComparedMetric
from refaug.evaluation.agreement.row_scores import scores_of_rows
from refaug.evaluation.conversations.options.turn_references import TurnReferences
from refaug.evaluation.conversations.records import Conversation
from refaug.evaluation.fitted_judge.scoring import unrated_rows
from refaug.evaluation.metric_setup.model_registry import ModelRegistry
from refaug.evaluation.metric_setup.scoring_steps import bound_metrics, chosen_metrics, find_references, without_content
from refaug.evaluation.scoring.items import BadItem
from refaug.evaluation.scoring.provenance import Provenance, with_provenance
from refaug.metrics.conversations.course import Course, course_of
from refaug.metrics.signature import Signature

Floats = NDArray[np.float64]

SYSTEM = "bot"


@dataclass(frozen=True, kw_only=True)
class TurnJudges:
    """The metrics that score replies, and what they need."""

    metrics: Sequence[str]
    models: ModelRegistry
    index: str | None = None
    references: TurnReferences = field(default_factory=TurnReferences)

    def as_json(self) -> dict[str, Any]:
        """Return everything that the scores depend on, as manifests have it."""
        return {
            "metrics": list(self.metrics),
            "rater": self.models.default_rater,
            "index": self.index,
            "references": as_values(self.references),
        }


@dataclass(frozen=True, kw_only=True, eq=False)
class TurnScores:
    """The scores of one metric, conversation by conversation; higher is better, whatever the metric's own sign."""

    name: str
    signature: Signature
    is_turned: bool  # whether the scores are the negative of the metric's
    scores: tuple[Floats, ...]  # of the replies in order, NaN where the metric has none

    def courses(self) -> list[Course]:
        """Return the course of every conversation."""
        return [course_of(scores) for scores in self.scores]


def judge_turns(
    home: Settings, conversations: Sequence[Conversation], judges: TurnJudges, progress: Progress
) -> list[TurnScores]:
    """Score every reply by every metric; BadInput where a metric scores none."""
    items, counts = _items_of(conversations)
    if not items:
        raise BadInput("no reply has a turn before it", remedy="judge conversations that a person or a start begins")
    references, provenance = _with_references(home, items, judges, progress)
    models, settings = judges.models, judges.references
    rows = unrated_rows("turns", references)
    scores = list[TurnScores]()
    for name in judges.metrics:
        chosen = chosen_metrics([name], rows.items, models, provenance, references=settings, progress=progress)
        [bound] = bound_metrics(chosen, models, provenance, augmenting=settings, progress=progress)
        compared = ComparedMetric(name=name, metric=bound)
        progress.stage(f"score turns, {name}", len(rows.rows), "replies")
        scored = scores_of_rows(rows, bound, progress)
        if not np.isfinite(scored.values).any():
            reasons = ", ".join(sorted({problem.message for problem in scored.problems.values()})[:3])
            raise BadInput(
                f"no reply has a score by {name}: {reasons}", remedy="a metric without a gold; docs/hybrid.md"
            )
        of_item = dict(zip((rows.items[row.item].id for row in rows.rows), scored.values.tolist(), strict=True))
        ordered = np.array([of_item.get(entry.id, np.nan) for entry in items], np.float64)  # bad items have none
        scores.append(
            TurnScores(
                name=name,
                signature=scored.signature,
                is_turned=compared.turned,
                scores=tuple(np.split(-ordered if compared.turned else ordered, np.cumsum(counts)[:-1])),
            )
        )
    return scores


def _items_of(conversations: Sequence[Conversation]) -> tuple[list[Item], list[int]]:
    """Return an item for each reply, and the number of replies of each conversation."""
    items, counts = list[Item](), list[int]()
    for number, conversation in enumerate(conversations):
        replies = conversation.replies()
        counts.append(len(replies))
        items += [
            Item(id=f"{number}/{place}", turns=entry.context, replies={SYSTEM: entry.reply})
            for place, entry in enumerate(replies)
        ]
    return items, counts


def _with_references(
    home: Settings, items: Sequence[Item], judges: TurnJudges, progress: Progress
) -> tuple[list[Item | BadItem], Provenance | None]:
    if judges.index is None:
        return list(items), None
    rater = without_content(judges.models.default_rater) if judges.references.needs_rater else None
    augmented, provenance = find_references(
        home, items, judges.index, rater, judges.references, judges.models.threads, progress
    )
    line = provenance.line
    return [entry if isinstance(entry, BadItem) else with_provenance(entry, line) for entry in augmented], provenance


def turn_details(judged: Sequence[TurnScores]) -> dict[str, str]:
    """Return the metrics of turns as signatures of hybrids name them: by name, and by a hash of how each scores."""
    if not judged:
        return {}
    digest = hashlib.sha256("\n".join(scores.signature.full for scores in judged).encode()).hexdigest()
    return {"turns": f"[{'+'.join(scores.name for scores in judged)}#{digest[:12]}]"}
