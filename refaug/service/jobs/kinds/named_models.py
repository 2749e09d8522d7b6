"""The models that the metrics of an order need."""

from __future__ import annotations

from refaug.evaluation.metric_setup.model_registry import ModelRegistry
from refaug.operations.scoring_options import ReferenceOptions
from refaug.service.jobs.kinds.job_context import JobContext


def job_models(context: JobContext, order: ReferenceOptions, threads: int) -> ModelRegistry:
    """Return the models of the metrics of an order; metrics name no files of the server."""
    return ModelRegistry(context.home, threads, allows_paths=False, default_rater=order.rater)
