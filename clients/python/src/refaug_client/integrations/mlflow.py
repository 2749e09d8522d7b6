"""Scores in a run of MLflow: metrics, signature and references as parameters, and a table of replies."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, Optional, TypeVar

import mlflow

from refaug_client._core import errors
from refaug_client.integrations.tracked_scores import Replies, TrackedScores

T = TypeVar("T")


def log_scores(
    scores: Any,
    *,
    step: Optional[int] = None,
    run_id: Optional[str] = None,
    replies: Optional[Replies] = None,
    items: Optional[Sequence[str]] = None,
    name: str = "refaug",
    examples: int = 20,
) -> TrackedScores:
    """Log scores in the active run, or have a scorer score replies and log that.

        log_scores(client.score(items, metric="upsilon-bleu"), step=step)
        log_scores(scorer, replies=replies, items=ids, step=step)

    Signatures and references are parameters of the run; scores by another signature than before are refused.
    `examples` is the number of replies in the table `refaug/examples.json`: the lowest and the highest scores. `name`
    begins all names, in which `chrf++` is `chrfpp`, and `bleu:n=4` is `bleu:n-4`: MLflow takes neither sign. `run_id`
    is another run than the active one.
    """
    run_id = run_id or _active_run_id()
    tracked = TrackedScores.of(scores, name=name, replies=replies, items=items, examples=examples)
    tracked = replace(tracked, numbers=_renamed(tracked.numbers), settings=_renamed(tracked.settings))
    logged = mlflow.MlflowClient().get_run(run_id).data.params
    tracked.require_settings(logged)
    if new := {setting: text for setting, text in tracked.settings.items() if setting not in logged}:
        mlflow.log_params(new, run_id=run_id)
    mlflow.log_metrics(tracked.numbers, step=step, run_id=run_id)
    if tracked.rows:
        columns = {column: [row[at] for row in tracked.rows] for at, column in enumerate(tracked.columns)}
        table = {"step": [step] * len(tracked.rows), **columns}
        mlflow.log_table(table, artifact_file=f"{name}/examples.json", run_id=run_id)
    return tracked


def _renamed(named: Mapping[str, T]) -> dict[str, T]:
    """Return the same by names that MLflow takes."""
    return {re.sub(r"[^\w\-./: ]", "-", name.replace("+", "p")): number for name, number in named.items()}


def _active_run_id() -> str:
    run = mlflow.active_run()
    if run is None:
        raise errors.Usage("no run of MLflow is active", remedy="with mlflow.start_run(): …, or run_id=…")
    return str(run.info.run_id)
