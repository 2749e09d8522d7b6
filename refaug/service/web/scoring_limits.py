"""What a request for scores may have, and what it is worth: units of work, told before it is queued."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any, Final

from refaug.core.errors import TooLarge, Usage
from refaug.core.home import Settings
from refaug.metrics.base import Floats
from refaug.metrics.catalogue import cost_of, find_info
from refaug.metrics.costs import UNITS_PER_S
from refaug.metrics.specification import as_part, build
from refaug.operations.scoring_options import ScoringOptions
from refaug.scoring.metric_setup.metric_requests import MetricRequest
from refaug.scoring.metric_setup.model_registry import JudgeLimits
from refaug.scoring.settings import Resampling
from refaug.service.jobs.kinds.sources import resolve_metric_files
from refaug.service.server_settings import ServeSettings
from refaug.service.serving.batches.queued_requests import UNITS_PER_ITEM

DRAWN_ROWS_PER_ITEM: Final = 500_000  # rows that a bootstrap can add up in that time
_ROWS_PER_ITEM: Final = 500  # rows of sums that can be read and added in that time
_SYSTEMS_PER_ITEM: Final = 30  # that can be combined in that time; 3,000 take .4 s of a core
_PAIRS_OF_SYSTEMS_PER_ITEM: Final = 60_000  # that can be put in order
# Options that a form of the answer has no place for.
_DROPPED: Final[Mapping[str, Sequence[str]]] = {"values": ["explain"], "stats": ["draws", "explain", "percent"]}


# ── Limits ────────────────────────────────────────────────────────────────────────────────────────────────────────────


def require_few_metrics(named: Sequence[str], home: Settings, serve: ServeSettings, *, texts: str) -> tuple[str, ...]:
    """Return the metrics, with the files that they name; TooLarge for more than one request may have."""
    if len(named) > serve.metrics:
        raise TooLarge(
            f"{len(named):,} metrics are more than the {serve.metrics:,} of one request",
            remedy=f"send the {texts} again with the others",
        )
    return resolve_metric_files(named, home, serve)


def require_few_draws(options: Resampling, serve: ServeSettings) -> None:
    """Raise TooLarge for more draws than one request may have."""
    if options.draws > serve.draws:
        raise TooLarge(
            f"{options.draws:,} draws are more than the {serve.draws:,} of one request", remedy="ask for fewer draws"
        )


def require_returned(options: ScoringOptions, form: str) -> None:
    """Raise Usage for an option that the form of the answer has no place for."""
    if name := next((name for name in _DROPPED.get(form, ()) if getattr(options, name)), None):
        raise Usage(f'"{name}" with "return": "{form}"', remedy="leave one of the two out")


def questions_a_reply(requests: Sequence[MetricRequest]) -> int:
    """Return how often judges are asked about each reply, by all metrics and their parts; equal ones ask once."""
    judging = [build(text) for request in requests for text in request.judging]
    return sum({as_part(metric): metric.questions for metric in judging}.values())


def require_few_judged(requests: Sequence[MetricRequest], questions: int, replies: int, serve: ServeSettings) -> None:
    """Raise TooLarge where judges would be asked more about the replies than one request may ask."""
    if (asked := questions * replies) <= serve.judge_replies:
        return
    each = f", {questions:,} about each reply," if questions > 1 else ""
    metric = next(request.name for request in requests if request.judging)
    raise TooLarge(
        f"{asked:,} questions to judges{each} are more than the {serve.judge_replies:,} of one request",
        remedy=f"send fewer replies at a time, or score them with the command: refaug score ITEMS -m {metric}",
    )


def judge_limits(serve: ServeSettings) -> JudgeLimits | None:
    """Return what judges may do for requests; None where none may be asked."""
    if not serve.judge_hosts:
        return None
    return JudgeLimits(hosts=tuple(serve.judge_hosts.split(",")), tokens_a_day=serve.judge_tokens)


# ── Units of work ─────────────────────────────────────────────────────────────────────────────────────────────────────


def counts_words(specifications: Sequence[str]) -> bool:
    """Whether a metric's cost depends on words, which take a while to count."""
    return any(cost_of(text).counts_shifts for text in specifications)


def scoring_units(
    specifications: Sequence[str], replies: Floats, references: Floats, *, explains: bool
) -> Mapping[str, float]:
    """Return the units of each metric for replies beside prepared references of these lengths.

    An explanation reads and scores each reply again without each of its references.
    """
    units = dict[str, float]()
    for text in specifications:
        cost = cost_of(text)
        rows = cost.units(replies, references)
        again = references[0] * (rows + cost.reading(references)) if explains else 0.0
        units[text] = float((rows + again).sum())
    return units


def reading_units(specifications: Sequence[str], references: Floats) -> float:
    """Return the units of preparing references for all of the metrics."""
    return float(sum(cost_of(text).reading(references).sum() for text in specifications))


def require_units(units: Mapping[str, float], serve: ServeSettings) -> None:
    """Raise TooLarge for more work than one request may be worth."""
    seconds = {text: units_of_metric / UNITS_PER_S for text, units_of_metric in units.items()}
    if sum(seconds.values()) <= serve.scoring_s:
        return
    costliest = max(seconds, key=seconds.__getitem__)
    raise TooLarge(
        f"by the lengths of the texts, these scores may take {sum(seconds.values()):,.0f} s of work "
        f"({seconds[costliest]:,.0f} s of it for {costliest}), and one request may take {serve.scoring_s:,.0f} s",
        remedy="send shorter texts, or the items in several requests",
    )


def reads_turns(specification: str) -> bool:
    """Say whether a metric reads the turns of an item, too."""
    info = find_info(specification.partition(":")[0].strip())
    return info is not None and info.looks_at_utterance


def queue_places(units: float, serve: ServeSettings) -> int:
    """Return the places of the queue that work takes; at most a quarter of the queue, which admits it."""
    return max(1, min(math.ceil(units / UNITS_PER_ITEM), serve.queue_items // 4))


def combining_cost(batches: Sequence[Mapping[str, Any]], options: Resampling, serve: ServeSettings) -> int:
    """Return the number of queue items that combining is worth; malformed batches are refused quickly."""
    stats = [one for batch in batches for one in _list_or_empty(batch.get("stats")) if isinstance(one, Mapping)]
    systems = [one for stat in stats if isinstance(found := stat.get("systems"), Mapping) for one in found.values()]
    rows = sum(len(_list_or_empty(one.get("rows"))) for one in systems if isinstance(one, Mapping))
    worth = rows / _ROWS_PER_ITEM + rows * options.draws / DRAWN_ROWS_PER_ITEM
    worth += len(systems) // _SYSTEMS_PER_ITEM + len(systems) ** 2 // _PAIRS_OF_SYSTEMS_PER_ITEM
    return max(1, min(math.ceil(worth), serve.queue_items // 4))


def _list_or_empty(content: object) -> Sequence[Any]:
    return content if isinstance(content, list) else ()
