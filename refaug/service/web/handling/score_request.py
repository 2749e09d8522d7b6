"""A request to POST /v1/scores, from its body to its answer: its metrics, its items, and the scoring in a thread."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Final

import numpy as np
from fastapi import Request
from starlette.concurrency import run_in_threadpool
from starlette.responses import Response

from refaug.core.errors import Usage
from refaug.core.processes.kept import cached_property
from refaug.core.records import Item
from refaug.metrics.base import Floats
from refaug.metrics.costs import lengths_of, lengths_of_replies, with_further
from refaug.metrics.metric_info import Uses
from refaug.metrics.models.model_kinds import ModelKind
from refaug.scoring.augmentation import missing_shards, require_preset_index
from refaug.scoring.cases import ScoringSteps, scored_alone
from refaug.scoring.evaluate import evaluation_steps
from refaug.scoring.metric_setup import metric_requests
from refaug.scoring.metric_setup.scoring_steps import bound_metrics, chosen_metrics
from refaug.scoring.provenance import Provenance, references_provenance, without_shards
from refaug.scoring.score_files.score_file import sealed
from refaug.scoring.scores import Evaluation, percent
from refaug.scoring.settings import find_preset
from refaug.service import prometheus_figures
from refaug.service.serving.batches.queued_requests import UNITS_PER_ITEM
from refaug.service.serving.versions.leases import Lease
from refaug.service.web import scoring_limits
from refaug.service.web.answers import large_json_response
from refaug.service.web.dependencies import count_items
from refaug.service.web.handling.request_items import ListedItems, faults_named, good_items, parse_items, problems_of
from refaug.service.web.handling.request_lease import DeadlineProgress, open_lease
from refaug.service.web.problems import unknown_field_warnings
from refaug.service.web.schemas.scoring import ScoresIn
from refaug.service.web.state import ServiceState

_GIVEN_METRIC: Final = "multi-bleu"  # of items that come with their references; all of BLEU cost the same
_MAX_ITEMS_INLINE: Final = 50  # items: measuring the texts of fewer takes less time than handing them to a thread
_FOUND_CHARACTERS: Final = 60  # of a reference that an index finds, about; longer ones run in more pieces
_BOUND_OVER_TIME: Final = 6  # bounds of cost are up to so many times what ordinary texts take


class ScoreRequest:
    """A request for scores."""

    def __init__(self, state: ServiceState, body: ScoresIn, deadline: float) -> None:
        self.state, self.body, self.options, self.deadline = state, body, body.options, deadline
        self.progress = DeadlineProgress(deadline)
        self.specifications: Sequence[str] = ()  # empty: the default for the items
        self.metrics: Sequence[metric_requests.MetricRequest] = ()  # what the metrics that are named ask for
        self.questions = 0  # to judges, about each reply
        self.finds = False  # whether further references are found
        self.listed: ListedItems = ()
        self.items: Sequence[Item] = ()
        self.lease = Lease(index=None, rater=None)
        self.missing: Sequence[str] = ()  # shards that had no part in some item's references
        self.pinned: Sequence[str] = ()  # the metrics with the versions of the models that they name

    async def answer(self, request: Request) -> Response:
        """Answer the request; the steps stand in the order in which they happen."""
        # 1. Read the metrics and the items, and check them.
        if any(":" in text for text in self.options.metrics):  # it may name a file or a model, which is looked at
            await run_in_threadpool(self.read_metrics)
        else:
            self.read_metrics()
        self.listed, unknown = await parse_items(
            self.body.items, self.state.serve, on_error=self.body.on_error, some=True
        )
        self.items = good_items(self.listed)
        replies = sum(len(item.replies) for item in self.items)
        scoring_limits.require_few_judged(self.metrics, self.questions, replies, self.state.serve)
        count_items(request, len(self.body.items))
        with faults_named(self.listed, unknown):
            # 2. Lease the versions: they stay the same, and open, until the items are scored.
            async with open_lease(
                self.state,
                index=self.options.index,
                rater=self.options.rater,
                needs_index=self.finds,
                needs_rater=self.needs_rater,
                sample=next((model.spec for one in self.metrics for model in one.models if model.is_sampled), None),
                deadline=self.deadline,
            ) as self.lease:
                evaluation, versions = await self._evaluate(), self.lease.versions()
        # 5. Write the answer.
        prometheus_figures.unscored(_unscored_counts(evaluation))
        notes = unknown_field_warnings(unknown)
        return await large_json_response(
            partial(self._content, evaluation, notes, versions), items=replies * len(evaluation.scores)
        )

    # ── metrics ───────────────────────────────────────────────────────────────────────────────────────────────────────

    def read_metrics(self) -> None:
        """Read what is to be scored by; Usage where a field is missing or has no effect, TooLarge beyond a limit."""
        options, serve, home = self.options, self.state.serve, self.state.home
        named = options.metrics or self._default_of_server()
        named = scoring_limits.require_few_metrics(named, home, serve, texts="items")
        scoring_limits.require_few_draws(options, serve)
        weighted = any(metric_requests.MetricRequest.of(text, home).weighted for text in named)
        self.finds = self.body.references == "find" or (
            self.body.references is None and (options.index is not None or weighted)
        )
        self.specifications = options.metrics_or_default(named, finds=self.finds) if self.finds else named
        self.metrics = [metric_requests.MetricRequest.of(text, home) for text in self.specifications]
        options.settings.require_effect(rates=self._rates)
        if self.finds and (preset := find_preset(options.settings.preset)) is not None:
            self.specifications = preset.specifications(self.specifications)
        if not serve.judge_hosts:
            metric_requests.refuse_judge(self.metrics)
        self.questions = scoring_limits.questions_a_reply(self.metrics)
        metric_requests.require_models(self.metrics, rater="", index="" if self.finds else None)
        if options.rater is not None and not self.needs_rater:
            raise Usage("nothing is to be rated", remedy="leave it out, or ask for rated weights", field="rater")
        scoring_limits.require_returned(options, self.body.return_)
        if self.finds:
            metric_requests.require_index_used(self.metrics)
            return
        remedy = 'leave it out, or "references": "find"'
        if options.index is not None:
            raise Usage('"index" with "references": "given"', remedy=remedy)
        options.settings.require_no_effect("where the references are those given", remedy=remedy, rates=self._rates)

    def _default_of_server(self) -> tuple[str, ...]:
        """Return the server's default metric where it suits the references of the request, else nothing."""
        metric, references = self.state.serve.default_metric, self.body.references
        if not metric:
            return ()
        if metric_requests.MetricRequest.of(metric).weighted:
            return () if references == "given" else (metric,)
        return () if references == "find" or self.options.index is not None else (metric,)

    @property
    def needs_rater(self) -> bool:
        """Whether the rater is asked about anything."""
        return self._rates or (self.finds and self.options.settings.needs_rater)

    @property
    def _rates(self) -> bool:
        """Whether the rater that no metric names is asked about replies."""
        return any(one.rates_by_default for one in self.metrics)

    # ── cost ──────────────────────────────────────────────────────────────────────────────────────────────────────────

    @cached_property
    def units(self) -> Mapping[str, float]:
        """The units of work of each metric, by the lengths of the texts."""
        specifications = self.specifications or (_GIVEN_METRIC,)
        counts = scoring_limits.counts_words(specifications)
        reads_turns = {text: scoring_limits.reads_turns(text) for text in specifications}
        read = {
            with_turns: self._read_lengths(with_turns=with_turns, counts_words=counts)
            for with_turns in {*reads_turns.values()}
        }
        replies = [reply for scored_item in self.items for reply in scored_item.replies.values()]
        places = np.repeat(np.arange(len(self.items)), [len(scored_item.replies) for scored_item in self.items])
        of_replies, explains = lengths_of_replies(replies, counts_words=counts), self.options.explain
        units = dict[str, float]()
        for text in specifications:
            lengths = read[reads_turns[text]]
            units |= scoring_limits.scoring_units([text], of_replies, lengths[:, places], explains=explains)
            units[text] += scoring_limits.reading_units([text], lengths)
        return units

    def _read_lengths(self, *, with_turns: bool, counts_words: bool) -> Floats:
        """Return the lengths of what is read of each item: its references, those to be found, and its turns."""
        texts = [[reference.text for reference in scored_item.references] for scored_item in self.items]
        if with_turns:
            texts = [[*own, *scored_item.turns] for own, scored_item in zip(texts, self.items, strict=True)]
        lengths = lengths_of(texts, counts_words=counts_words)
        return with_further(lengths, self.options.settings.k, characters=_FOUND_CHARACTERS) if self.finds else lengths

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
        """Whether something may have to be measured, sampled or read first: for seconds, in which no other waits."""
        models = (model for one in self.metrics for model in one.models)
        if any(model.parameter.kind is not ModelKind.VECTORS and (model.spec or model.is_sampled) for model in models):
            return True
        measured, index = self._measured, self.lease.index
        if not measured or index is None:
            return False
        return not self.state.bases.has_measured(index.spec, measured, self.options.language)

    @cached_property
    def _measured(self) -> list[str]:
        """The metrics that may first need a measurement of the index."""
        return [text for text in self.specifications if self.finds and metric_requests.MetricRequest.of(text).base]

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
        return rows * self.options.draws / scoring_limits.DRAWN_ROWS_PER_ITEM

    # ── scores ────────────────────────────────────────────────────────────────────────────────────────────────────────

    async def _evaluate(self) -> Evaluation:
        """Return the scores of the items, once the lease is there."""
        batcher, settings, deadline = self.state.batcher, self.options.settings, self.deadline
        if self.finds:
            require_preset_index(self.lease.require_index(), settings)
        is_quick = len(self.items) <= _MAX_ITEMS_INLINE and not scoring_limits.counts_words(self.specifications)
        units = self.units if is_quick else await run_in_threadpool(lambda: self.units)
        scoring_limits.require_units(units, self.state.serve)
        with self.progress.given_up_on_error():
            if self.finds and self.is_small:
                # 3. and 4. Find references and score, both in one turn of the queue.
                return await batcher.augment_and_score(self.lease, self.items, settings, self, deadline=deadline)
            # 3. Find references, in batches with other requests.
            augmented: tuple[Sequence[Item], Sequence[str]] = self.items, ()
            if self.finds:
                augmented = await batcher.augment(self.lease, self.items, settings, deadline=deadline)
            # 4. Score, in another turn of the queue.
            return await batcher.run(
                partial(self.score, *augmented),
                items=self.cost,
                deadline=deadline,
                lease=self.lease,
                is_long=self.is_uncertain,
            )

    def score(self, items: Sequence[Item], warnings: Sequence[str]) -> Evaluation:
        """Score the items alone, in a thread."""
        return scored_alone(self.steps(items, warnings), self.progress)

    def steps(self, items: Sequence[Item], warnings: Sequence[str]) -> ScoringSteps[Evaluation]:
        """Score the items with the references found for them, or with those that they came with, in steps."""
        provenance = None
        if self.finds:
            index = self.lease.require_index()
            self.missing = missing_shards(items)
            found = references_provenance(index, self.lease.rater, self.options.settings)
            provenance = without_shards(found, index, self.missing)
        evaluation = yield from self._scores(items, provenance)
        return replace(evaluation, warnings=(*warnings, *evaluation.warnings))

    def _scores(self, items: Sequence[Item], provenance: Provenance | None) -> ScoringSteps[Evaluation]:
        options, lease, bases = self.options, self.lease, self.state.bases
        indexes = [index for index in (lease.index, lease.sample) if index is not None]
        models = self.state.models.with_leased(rater=lease.rater, indexes=indexes)
        self.pinned = [metric_requests.pinned_metric(models, text) for text in self.specifications]
        chosen = chosen_metrics(
            self.specifications,
            items,
            models,
            provenance,
            references=options.settings,
            language=options.language,
            set_baseline=None if lease.index is None else bases.of(lease.index.spec),
        )
        if self._measured:
            bases.note_measured(lease.require_index().spec, self._measured, options.language)
        bad = [one for one in self.listed if not isinstance(one, Item)]
        bound = bound_metrics(chosen, models, provenance, augmenting=options.settings, progress=self.progress)
        evaluation = yield from evaluation_steps(
            [*items, *bad],
            bound,
            options,
            provenance=provenance,
            progress=self.progress,
            is_part=self.body.return_ == "stats",
            reports_metrics=self.body.on_error == "report",
        )
        if provenance is None:
            advice = metric_requests.baseline_advice(chosen, items, '"references": "find" measures b')
            evaluation = replace(evaluation, warnings=(*evaluation.warnings, *([advice] if advice else [])))
        return percent(evaluation) if options.percent else evaluation

    # ── answer ────────────────────────────────────────────────────────────────────────────────────────────────────────

    def _content(self, evaluation: Evaluation, notes: Sequence[str], versions: Mapping[str, str]) -> dict[str, object]:
        is_part = self.body.return_ == "stats"
        warnings = (*notes, *self._default_metric_hint(evaluation), *evaluation.warnings)
        answer = {
            **(evaluation.as_statistics() if is_part else evaluation.as_json()),
            "problems": [*problems_of(evaluation.bad_items), *self._metric_problems(evaluation)],
            "warnings": list(dict.fromkeys(self.state.without_paths(warning) for warning in warnings)),
            "versions": {**versions, **({"metrics": self.pinned} if self.pinned != list(self.specifications) else {})},
            **({"missing_shards": self.missing} if self.missing else {}),
        }
        return answer if is_part else sealed(answer)

    def _metric_problems(self, evaluation: Evaluation) -> Iterator[dict[str, object]]:
        """Yield the metrics that the references do not suit, each with its place, where the request asks for them."""
        if self.body.on_error == "fail":
            return
        names = [metric_requests.MetricRequest.of(text).name for text in self.options.metrics]
        for bad in {bad.metric: bad for bad in evaluation.bad_metrics}.values():
            for place in [place for place, name in enumerate(names) if name == bad.metric]:
                yield {
                    "item": None,
                    "place": None,
                    "field": f"metrics[{place}]",
                    "message": bad.message,
                    "metric": bad.metric,
                    "code": bad.code,
                }

    def _default_metric_hint(self, evaluation: Evaluation) -> Iterator[str]:
        """Yield a hint where the default metric looks at no found references, though index and rater are there.

        The metric itself never depends on what is published: a request means the same on every server without the
        setting `default_metric`.
        """
        versions = self.state.open_versions
        if self.options.metrics or self.body.references is not None or self.state.serve.default_metric:
            return
        metric = evaluation.scores[0].metric
        if metric.info.uses is not Uses.WEIGHTED and versions.has_default("index") and versions.has_default("rater"):
            yield (
                f"no metric is named, so these are scores by {metric.name}; this server has an index and a rater: "
                '"metrics": ["upsilon-bleu"] finds references and weighs them'
            )


def _unscored_counts(evaluation: Evaluation) -> Mapping[str, int]:
    """Count the replies without a score by reason, over all metrics."""
    counts = Counter[str]()
    for metric_scores in evaluation.scores:
        for system in metric_scores.systems.values():
            counts.update(system.unscored)
    return counts
