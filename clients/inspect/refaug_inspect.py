"""A scorer of refaug for inspect: replies beside references, with a sealed record in the log for each score."""

from __future__ import annotations

import math
from typing import Any

import anyio.to_thread
from inspect_ai.scorer import Metric, SampleScore, Score, Scorer, Target, mean, metric, scorer, stderr
from inspect_ai.solver import TaskState
from refaug.library.harnesses import SampleScorer, compare, corpus_score
from refaug.scoring.score_files.harness_logs import item_of_sample
from refaug.scoring.score_files.sample_records import RECORD, score_of

__all__ = ["compare", "corpus", "refaug_score"]


@metric
def corpus() -> Metric:
    """Return the corpus score, as refaug computes it of all replies at once.

    It is NaN where a score is a mean over epochs, since the sums of their replies are not at hand.
    """

    def corpus_of_scores(scores: list[SampleScore]) -> float:
        records = [(sample.score.metadata or {}).get(RECORD) for sample in scores]
        values = [sample.score.as_float() for sample in scores]
        held = [record for record in records if record is not None]
        if len(held) != len(scores) or any(
            value != score_of(record) and not math.isnan(value) for value, record in zip(values, held, strict=True)
        ):
            return math.nan
        return corpus_score(held)

    return corpus_of_scores


@scorer(metrics=[corpus(), mean(), stderr()])
def refaug_score(metric: str = "refaug-1", **options: Any) -> Scorer:
    """Return a scorer by a metric of refaug; `index`, `rater` and `settings` say how references are found and weighed.

    An item is the metadata of a sample: its `references`, else the targets, and its `utterance` or `turns`, else the
    input. A reply without a score is unscored, with the reason.
    """
    samples = SampleScorer(metric, **options)

    async def score(state: TaskState, target: Target) -> Score:
        item = item_of_sample(state.input_text, list(target), state.metadata)
        reply = state.output.completion
        record = await anyio.to_thread.run_sync(lambda: samples.record(item, reply))
        number = score_of(record)
        metadata = {RECORD: record}
        if number is None:
            problem = (record["system"]["problems"] or [{}])[0]
            return Score.unscored(
                reason=problem.get("problem"), explanation=problem.get("message"), answer=reply, metadata=metadata
            )
        return Score(value=number, answer=reply, metadata=metadata)

    return score
