"""A request to POST /v1/scores, from its body to its answer."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Final

from fastapi import Request
from starlette.concurrency import run_in_threadpool
from starlette.responses import Response

from refaug.evaluation.metric_setup.metric_requests import MetricRequest
from refaug.evaluation.score_files.score_file import sealed
from refaug.evaluation.scoring.scores import Evaluation
from refaug.metrics.metric_info import Uses
from refaug.service import prometheus_figures
from refaug.service.web.answers import large_json_response
from refaug.service.web.dependencies import count_items
from refaug.service.web.handling.reference_retrieval import open_lease, require_leased_preset
from refaug.service.web.handling.request_items import ParsedItems, parse_items, problems_of
from refaug.service.web.handling.scoring_plan import ScoringPlan
from refaug.service.web.handling.scoring_work import ScoringWork, unscored_counts
from refaug.service.web.schemas.scoring import ScoresIn
from refaug.service.web.scoring_units import counts_words, require_units
from refaug.service.web.state import ServiceState, state_of

_MAX_ITEMS_INLINE: Final = 50  # items: measuring the texts of fewer takes less time than handing them to a thread


@dataclass(frozen=True, kw_only=True)
class ScoreRequest:
    """A request for scores."""

    request: Request
    body: ScoresIn
    deadline: float  # on the clock of `time.monotonic`

    async def answer(self) -> Response:
        """Answer the request; the steps stand in the order in which they happen."""
        state, body = state_of(self.request), self.body
        # 1. Read the settings and the items, and check them.
        plan = await self._plan(state)
        parsed_items = await parse_items(body.items, state.serve, on_error=body.on_error, some=True)
        plan.require_judged(parsed_items.good, state.serve)
        count_items(self.request, len(body.items))
        with parsed_items.faults_named():
            evaluation, versions, missing = await self._evaluate(state, plan, parsed_items)
        # 5. Write the answer.
        prometheus_figures.unscored(unscored_counts(evaluation))
        return await large_json_response(
            partial(self._content, state, parsed_items, evaluation, versions, missing),
            items=sum(len(one.replies) for one in parsed_items.good) * len(evaluation.scores),
        )

    async def _evaluate(
        self, state: ServiceState, plan: ScoringPlan, parsed_items: ParsedItems
    ) -> tuple[Evaluation, dict[str, object], list[str]]:
        """Return the scores of the items, the versions that made them, and the shards that had no part in them."""
        # 2. Lease the versions: they stay the same, and open, until the items are scored.
        async with open_lease(
            state,
            index=self.body.options.index,
            rater=self.body.options.rater,
            needs_index=plan.finds,
            needs_rater=plan.needs_rater,
            sample=plan.sample,
            deadline=self.deadline,
        ) as lease:
            if plan.finds:
                require_leased_preset(lease, plan.augmenting)
            scoring = ScoringWork.of(state, plan, parsed_items, lease, self.deadline)
            await self._require_units(state, scoring)
            with scoring.progress.given_up_on_error():
                if plan.finds and scoring.is_small:
                    # 3. and 4. Find references and score, both in one turn of the queue.
                    evaluation = await state.batcher.augment_and_score(
                        lease, scoring.items, plan.augmenting, scoring, deadline=self.deadline
                    )
                else:
                    # 3. Find references, in batches with other requests.
                    augmented = None
                    if plan.finds:
                        augmented = await state.batcher.augment(
                            lease, scoring.items, plan.augmenting, deadline=self.deadline
                        )
                    # 4. Score, in another turn of the queue.
                    evaluation = await state.batcher.run(
                        partial(scoring.score, augmented),
                        items=scoring.cost,
                        deadline=self.deadline,
                        lease=lease,
                        is_long=scoring.is_uncertain,
                    )
            versions: dict[str, object] = {**lease.versions()}
            if scoring.metrics != list(plan.specifications):
                versions["metrics"] = scoring.metrics
            return evaluation, versions, scoring.missing

    async def _require_units(self, state: ServiceState, scoring: ScoringWork) -> None:
        """Refuse scores that would take too long; many texts, or words, are counted in a thread."""
        is_quick = len(scoring.items) <= _MAX_ITEMS_INLINE and not counts_words(scoring.plan.specifications)
        require_units(scoring.units if is_quick else await run_in_threadpool(lambda: scoring.units), state.serve)

    async def _plan(self, state: ServiceState) -> ScoringPlan:
        """Return the plan of the request; settings of metrics may name files, which are checked in a thread."""
        if any("=" in specification for specification in self.body.options.metrics):
            return await run_in_threadpool(ScoringPlan.of, self.body, state.home, state.serve)
        return ScoringPlan.of(self.body, state.home, state.serve)

    def _content(
        self,
        state: ServiceState,
        parsed_items: ParsedItems,
        evaluation: Evaluation,
        versions: Mapping[str, Any],
        missing: Sequence[str],
    ) -> dict[str, object]:
        content = evaluation.as_statistics() if self.body.return_ == "stats" else evaluation.as_json()
        listed = (*parsed_items.warnings, *self._default_metric_hint(state, evaluation), *evaluation.warnings)
        warnings = [state.without_paths(warning) for warning in listed]
        problems = [*problems_of(evaluation.bad_items), *self._metric_problems(evaluation)]
        answer = {**content, "problems": problems, "warnings": list(dict.fromkeys(warnings)), "versions": versions}
        if missing:
            answer["missing_shards"] = list(missing)
        return answer if self.body.return_ == "stats" else sealed(answer)

    def _metric_problems(self, evaluation: Evaluation) -> Iterator[dict[str, object]]:
        """Yield the metrics that the references do not suit, each with its place, where the request asks for them."""
        if self.body.on_error == "fail":
            return
        names = [MetricRequest.of(text).name for text in self.body.options.metrics]
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

    def _default_metric_hint(self, state: ServiceState, evaluation: Evaluation) -> Iterator[str]:
        """Yield a hint where the default metric looks at no found references, though index and rater are there.

        The metric itself never depends on what is published: a request means the same on every server without the
        setting `default_metric`.
        """
        body, versions = self.body, state.open_versions
        if body.options.metrics or body.references is not None or state.serve.default_metric:
            return
        metric = evaluation.scores[0].metric
        if metric.info.uses is not Uses.WEIGHTED and versions.has_default("index") and versions.has_default("rater"):
            yield (
                f"no metric is named, so these are scores by {metric.name}; this server has an index and a rater: "
                '"metrics": ["upsilon-bleu"] finds references and weighs them'
            )
