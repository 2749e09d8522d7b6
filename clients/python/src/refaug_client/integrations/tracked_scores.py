"""Scores as the numbers, settings and examples that a tracker of experiments logs.

`TrackedScores.of` reads what `Client.score` and `refaug.score` return, the last score of a training callback, or asks a
scorer. The modules `wandb`, `mlflow` and `tensorboard` beside this one log it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Optional, Union

from refaug_client._core import errors
from refaug_client.integrations.distributed import ScoreOfAll, count_scored

Replies = Union[Sequence[Optional[str]], Mapping[str, Sequence[Optional[str]]]]
Cell = Union[str, float, None]

_LONGEST_TEXT = 500  # characters of a reply in a table


@dataclass(frozen=True)
class TrackedScores:
    """What is logged of scores."""

    numbers: dict[str, float]  # by name; a score that does not exist is left out
    settings: dict[str, str]  # signatures, and the names of references, by name
    columns: list[str] = field(default_factory=list)
    rows: list[list[Cell]] = field(default_factory=list)  # the best and the worst replies

    @classmethod
    def of(
        cls,
        scores: Any,
        *,
        name: str,
        replies: Optional[Replies] = None,
        items: Optional[Sequence[str]] = None,
        examples: int = 20,
    ) -> TrackedScores:
        """Read scores, or have a scorer score these replies to these items."""
        if examples < 0:
            raise errors.Usage(f"examples={examples}", remedy="0 or more")
        if hasattr(scores, "reference_set") and callable(scores):
            return _of_scorer(scores, name, replies, items, examples)
        if items is not None:
            raise errors.Usage("items=… with scores, which know their items", remedy="items=… belongs to a scorer")
        if isinstance(scores, ScoreOfAll):
            return _of_all(scores, name)
        if hasattr(scores, "systems"):
            return _of_metrics([scores], None, name, replies, examples)
        if hasattr(scores, "__iter__") and all(hasattr(metric, "systems") for metric in scores):
            return _of_metrics(list(scores), getattr(scores, "set", None), name, replies, examples)
        raise errors.Usage(
            f"{type(scores).__name__} is nothing that can be logged",
            remedy="the result of client.score(…) or refaug.score(…), a callback's last score, or a scorer",
        )

    def require_settings(self, logged: Mapping[str, Any]) -> None:
        """Refuse settings that differ from those that a run has logged already: a curve has one signature."""
        for setting, text in self.settings.items():
            if logged.get(setting, text) != text:
                raise errors.Usage(
                    f"the run has {setting} {logged[setting]!r}, and these scores {text!r}",
                    remedy="name='…', so that they have a curve of their own, or another run",
                )


def _of_scorer(
    scorer: Any, name: str, replies: Optional[Replies], items: Optional[Sequence[str]], examples: int
) -> TrackedScores:
    if replies is None or items is None or isinstance(replies, Mapping):
        raise errors.Usage("a scorer needs replies to score", remedy="replies=[…], items=[…]")
    outcome = scorer.submit(replies, items=items).outcome
    if outcome.error is not None:
        raise outcome.error.with_traceback(None)
    existing = [score for score in outcome.scores if score is not None]
    metric = scorer.metric or "score"
    numbers = {
        f"{name}/{metric}": scorer.corpus(replies, items=items) if existing else None,
        f"{name}/{metric}_mean": sum(existing) / len(existing) if existing else None,
        f"{name}/{metric}_unscored": float(len(outcome.scores) - count_scored(outcome)),
    }
    settings = {f"{name}/{metric}/references": scorer.reference_set}
    if signature := outcome.signature or (scorer.signatures or [""])[-1]:  # a silent server is not asked again
        settings[f"{name}/{metric}/signature"] = signature
    rows: list[list[Cell]] = [
        [item, _shorten(reply), score] for item, reply, score in zip(items, replies, outcome.scores) if signature
    ]
    return TrackedScores(_existing(numbers), settings, ["item", "reply", metric], _extremes(rows, 2, examples))


def _of_all(score: ScoreOfAll, name: str) -> TrackedScores:
    numbers = {
        f"{name}/{score.metric}": score.corpus,
        f"{name}/{score.metric}_mean": score.mean,
        f"{name}/{score.metric}_unscored": float(score.unscored + score.unavailable),
    }
    return TrackedScores(_existing(numbers), {f"{name}/{score.metric}/signature": score.signature})


def _of_metrics(
    metrics: Sequence[Any], reference_set: Any, name: str, replies: Optional[Replies], examples: int
) -> TrackedScores:
    if not metrics:
        raise errors.Usage("there are no scores to log", remedy="scores of one metric or more")
    systems = list(metrics[0].systems)
    numbers: dict[str, Optional[float]] = {}
    settings: dict[str, str] = {}
    for scores in metrics:
        settings[f"{name}/{scores.metric}/signature"] = scores.signature
        references = getattr(reference_set, "id", None) or getattr(scores, "references", None)
        if references is not None:
            settings[f"{name}/{scores.metric}/references"] = str(references)
        for system, of_system in scores.systems.items():
            key = f"{name}/{scores.metric}" if len(systems) == 1 else f"{name}/{system}/{scores.metric}"
            numbers[key], numbers[f"{key}_mean"] = of_system.corpus, of_system.mean
            numbers[f"{key}_unscored"] = float(of_system.unscored)
    texts = _replies_by_system(replies, systems)
    columns = [
        *(["system"] if len(systems) > 1 else []),
        "item",
        *(["reply"] if texts else []),
        *(scores.metric for scores in metrics),
        "problem",
    ]
    rows = [row for system in systems for row in _rows_of(metrics, system, texts, is_alone=len(systems) == 1)]
    first = len(columns) - 1 - len(metrics)  # the column of the first metric
    return TrackedScores(_existing(numbers), settings, columns, _extremes(rows, first, examples))


def _replies_by_system(
    replies: Optional[Replies], systems: Sequence[str]
) -> Optional[Mapping[str, Sequence[Optional[str]]]]:
    if replies is None or isinstance(replies, Mapping):
        return replies
    if len(systems) > 1:
        raise errors.Usage(f"there are {len(systems)} systems, and one list of replies", remedy="replies={system: […]}")
    return {systems[0]: replies}


def _rows_of(
    metrics: Sequence[Any], system: str, texts: Optional[Mapping[str, Sequence[Optional[str]]]], *, is_alone: bool
) -> Iterator[list[Cell]]:
    """Yield a row for each reply of a system, with a score by each metric."""
    details = [list(scores.systems[system].details or ()) for scores in metrics]
    own_texts = None if texts is None else list(texts.get(system, ()))
    if own_texts is not None and len(own_texts) != len(details[0]):
        raise errors.Usage(
            f"{len(details[0]):,} replies of {system} were scored, and replies=… has {len(own_texts):,}",
            remedy="the replies as they were scored, in the same order",
        )
    for place, scored in enumerate(zip(*details)):
        problems = [reply.problem for reply in scored if reply.problem]
        yield [
            *([] if is_alone else [system]),
            scored[0].id,
            *([] if own_texts is None else [_shorten(own_texts[place])]),
            *(reply.score for reply in scored),
            problems[0] if problems else None,
        ]


def _extremes(rows: list[list[Cell]], column: int, count: int) -> list[list[Cell]]:
    """Return the rows with the lowest and the highest numbers in a column, lowest first; those without one last."""

    def key(row: list[Cell]) -> float:
        number = row[column]
        return number if isinstance(number, (int, float)) else float("inf")

    ordered = sorted(rows, key=key)
    if len(ordered) <= count:
        return ordered
    lowest = (count + 1) // 2
    return ordered[:lowest] + ordered[len(ordered) - (count - lowest) :]


def _existing(numbers: Mapping[str, Optional[float]]) -> dict[str, float]:
    return {name: number for name, number in numbers.items() if number is not None}


def _shorten(text: Optional[str]) -> str:
    if text is None:
        return ""
    return text if len(text) <= _LONGEST_TEXT else f"{text[:_LONGEST_TEXT]}…"
