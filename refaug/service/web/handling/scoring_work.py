"""Scoring the items of a request to POST /v1/scores: its cost in the queue, and the work in the batcher's thread."""

from __future__ import annotations

import math
import time
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, Final

import numpy as np

from refaug.core.errors import Expired, Interrupted
from refaug.core.records import Item
from refaug.evaluation.metric_setup.metric_requests import baseline_advice, pinned_metric
from refaug.evaluation.metric_setup.model_registry import MetricModels, ModelRegistry
from refaug.evaluation.metric_setup.scoring_steps import ScoringSteps
from refaug.evaluation.scoring.items import BadItem
from refaug.evaluation.scoring.provenance import Provenance
from refaug.evaluation.scoring.score_settings import ScoreSettings
from refaug.evaluation.scoring.scores import Evaluation, percent
from refaug.metrics.costs import Lengths
from refaug.service.server_settings import ServeSettings
from refaug.service.serving.batches.reference_lookup import AugmentedItems
from refaug.service.serving.versions.leases import Lease
from refaug.service.web.handling.reference_retrieval import leased_provenance, leased_without_shards
from refaug.service.web.handling.request_items import ParsedItems
from refaug.service.web.handling.scoring_plan import ScoringPlan
from refaug.service.web.scoring_units import UNITS_PER_ITEM, counts_words, reading_units, scoring_units
from refaug.service.web.state import ServiceState

_ROWS_PER_ITEM: Final = 500  # rows of sums that can be read and added in the time of an item, some milliseconds
_DRAWN_ROWS_PER_ITEM: Final = 500_000  # rows that a bootstrap can add up in that time
_FOUND_CHARACTERS: Final = 60  # of a reference that an index finds, about; longer ones run in more pieces
_BOUND_OVER_TIME: Final = 6  # bounds of cost are up to so many times what ordinary texts take
_DEFAULT_METRIC: Final = "multi-bleu"  # of items that come with their references; all of BLEU cost the same


class DeadlineProgress:
    """Progress of scoring that is not shown: it stops the work at the deadline or when the client has left."""

    def __init__(self, deadline: float) -> None:
        self._deadline = deadline
        self.is_given_up = False

    def stage(self, name: str, total: int | None = None, unit: str = "") -> None:
        """Check the deadline."""
        del name, total, unit
        self.advance(0)

    def advance(self, amount: int) -> None:
        """Check the deadline."""
        del amount
        if self.is_given_up:
            raise Interrupted("the client disconnected before the answer was ready")
        if time.monotonic() > self._deadline:
            raise Expired("the time was over before the answer was ready", remedy="ask for more time, or for less")

    def warn(self, message: str) -> None:
        """Drop the warning: stored answers do not concern the client."""
        del message

    @contextmanager
    def given_up_on_error(self) -> Iterator[None]:
        """Stop the thread that works when the block is left by an error, such as the end of the connection."""
        try:
            yield
        except BaseException:
            self.is_given_up = True
            raise


@dataclass(frozen=True, kw_only=True)
class ScoringWork:
    """The items of a request, and everything that is needed to score them in the batcher's threads."""

    state: ServiceState
    plan: ScoringPlan
    items: Sequence[Item]
    bad: Sequence[BadItem]
    lease: Lease
    provenance: Provenance | None  # None: the references are given
    progress: DeadlineProgress
    metrics: list[str] = field(default_factory=list)  # with the versions of the models that they name
    missing: list[str] = field(default_factory=list)  # shards that had no part in some item's references

    @classmethod
    def of(
        cls, state: ServiceState, plan: ScoringPlan, parsed_items: ParsedItems, lease: Lease, deadline: float
    ) -> ScoringWork:
        """Return the work of a request that has its lease."""
        return cls(
            state=state,
            plan=plan,
            items=parsed_items.good,
            bad=parsed_items.bad,
            lease=lease,
            provenance=leased_provenance(lease, plan.augmenting) if plan.finds else None,
            progress=DeadlineProgress(deadline),
        )

    @cached_property
    def units(self) -> Mapping[str, float]:
        """The units of work of each metric, by the lengths of the texts."""
        specifications = self.plan.specifications or (_DEFAULT_METRIC,)
        counts = counts_words(specifications)
        references = [[reference.text for reference in scored_item.references] for scored_item in self.items]
        lengths = Lengths.of(references, counts_words=counts)
        if self.plan.finds:
            lengths = lengths.with_further(self.plan.augmenting.search.k, characters=_FOUND_CHARACTERS)
        replies = [[reply] for scored_item in self.items for reply in scored_item.replies.values()]
        places = np.repeat(np.arange(len(self.items)), [len(scored_item.replies) for scored_item in self.items])
        units = scoring_units(
            specifications,
            Lengths.of(replies, counts_words=counts),
            lengths.at(places),
            explains=self.plan.scoring.explain,
        )
        return {text: units[text] + reading_units([text], lengths) for text in units}

    @property
    def cost(self) -> int:
        """The number of queue items that the work is worth; at most a quarter of the queue, which admits it."""
        return max(1, min(math.ceil(self._worth), self.state.serve.queue_items // 4))

    @property
    def is_small(self) -> bool:
        """Whether scoring takes no longer than searching and rating, nor than a batch."""
        likely = self._scored / _BOUND_OVER_TIME + self._drawn
        return not self.is_uncertain and likely <= len(self.items) and self._worth <= self.state.serve.batch_items

    @property
    def is_uncertain(self) -> bool:
        """Whether something may have to be measured or read first, which takes seconds and must not delay others."""
        plan, index = self.plan, self.lease.index
        if plan.asks_index and index is not None:
            return plan.reads or not self.state.bases.has_measured(index.spec, plan.asks_index, plan.language)
        return plan.reads

    @property
    def _worth(self) -> float:
        """The number of items that could be searched and rated in the same time."""
        return self._scored + self._drawn

    @property
    def _scored(self) -> float:
        return sum(self.units.values()) / UNITS_PER_ITEM

    @property
    def _drawn(self) -> float:
        rows = len(self.units) * sum(len(scored_item.replies) for scored_item in self.items)
        return rows * self.plan.scoring.draws / _DRAWN_ROWS_PER_ITEM

    def score(self, augmented: AugmentedItems | None) -> Evaluation:
        """Score the items with the references found for them, or with those that they came with."""
        if augmented is None:
            return self._evaluate(self.items)
        work = self
        if augmented.missing and self.provenance is not None:
            self.missing.extend(augmented.missing)
            work = replace(self, provenance=leased_without_shards(self.lease, self.provenance, augmented.missing))
        evaluation = work._evaluate([one.item for one in augmented.items])  # noqa: SLF001  the same class
        return replace(evaluation, warnings=(*augmented.warnings, *evaluation.warnings))

    def _evaluate(self, items: Sequence[Item]) -> Evaluation:
        plan, lease, provenance, index = self.plan, self.lease, self.provenance, self.lease.index
        named = self.state.models.with_leased(rater=lease.rater, index=lease.index)
        models = MetricModels(
            registry=named.with_leased(index=lease.sample),
            rater=None if lease.rater is None else lease.rater.spec,
            judge_limits=plan.judge_limits,
        )
        self._note_models(models.registry)
        steps = ScoringSteps(
            models=models,
            specifications=plan.specifications,
            settings=plan.scoring,
            rating=plan.augmenting.rating,
            augmenting=plan.augmenting,
            language=plan.language,
            percent=plan.percent,
            is_part=plan.is_part,
            reports_metrics=plan.reports_metrics,
        )
        set_baseline = self.state.bases.of(index.spec) if index is not None else None
        chosen = steps.chosen(items, provenance, set_baseline=set_baseline if plan.finds else None)
        if plan.asks_index and index is not None:
            self.state.bases.note_measured(index.spec, plan.asks_index, plan.language)
        evaluation = steps.score_by(chosen, [*items, *self.bad], provenance, progress=self.progress)
        advice = baseline_advice(chosen, items, '"references": "find" measures b') if provenance is None else None
        evaluation = replace(evaluation, warnings=(*evaluation.warnings, *([advice] if advice is not None else [])))
        return percent(evaluation) if plan.percent else evaluation

    def _note_models(self, registry: ModelRegistry) -> None:
        """Note the metrics with the versions of the models that they name, for clients that send more items."""
        self.metrics[:] = [pinned_metric(registry, text) for text in self.plan.specifications]


def combining_cost(batches: Sequence[Mapping[str, Any]], settings: ScoreSettings, serve: ServeSettings) -> int:
    """Return the number of queue items that combining is worth; malformed batches are refused quickly."""
    stats = [one for batch in batches for one in _list_or_empty(batch.get("stats")) if isinstance(one, Mapping)]
    systems = [one for stat in stats if isinstance(found := stat.get("systems"), Mapping) for one in found.values()]
    rows = sum(len(_list_or_empty(one.get("rows"))) for one in systems if isinstance(one, Mapping))
    worth = rows / _ROWS_PER_ITEM + rows * settings.draws / _DRAWN_ROWS_PER_ITEM
    return max(1, min(math.ceil(worth), serve.queue_items // 4))


def _list_or_empty(content: object) -> Sequence[Any]:
    return content if isinstance(content, list) else ()


def unscored_counts(evaluation: Evaluation) -> Mapping[str, int]:
    """Count the replies without a score by reason, over all metrics."""
    counts = Counter[str]()
    for metric_scores in evaluation.scores:
        for system in metric_scores.systems.values():
            counts.update(system.unscored)
    return counts
