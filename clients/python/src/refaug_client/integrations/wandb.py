"""Scores in a run of Weights & Biases: numbers, signature and references as configuration, and a table of replies."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Optional

import wandb

from refaug_client.integrations.tracked_scores import Replies, TrackedScores


def log_scores(
    run: Any,
    scores: Any,
    *,
    step: Optional[int] = None,
    replies: Optional[Replies] = None,
    items: Optional[Sequence[str]] = None,
    name: str = "refaug",
    examples: int = 20,
) -> TrackedScores:
    """Log scores in a run, or have a scorer score replies and log that.

        log_scores(run, client.score(items, metric="upsilon-bleu"), step=step)
        log_scores(run, scorer, replies=replies, items=ids, step=step)

    The configuration gets signatures and references; scores by another signature than before are refused. `examples` is
    the number of replies in the table: the lowest and the highest scores. `name` begins all names.
    """
    tracked = TrackedScores.of(scores, name=name, replies=replies, items=items, examples=examples)
    tracked.require_settings(run.config)
    run.config.update(tracked.settings)
    content: dict[str, object] = dict(tracked.numbers)
    if tracked.rows:
        content[f"{name}/examples"] = wandb.Table(columns=tracked.columns, data=tracked.rows)
    run.log(content, step=step)
    return tracked
