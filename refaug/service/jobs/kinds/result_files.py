"""What a job of an evaluation keeps: the documents and tables that its command prints, and their page."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import orjson

from refaug.agreement.records import MetaResult
from refaug.agreement.report.report import as_csv, as_latex, write_report
from refaug.core.files import write_aside
from refaug.core.installation import missing_part
from refaug.operations.agreement import MeasureAgreement
from refaug.operations.scoring_options import ReferenceOptions, Score
from refaug.scoring.metric_setup.model_registry import ModelRegistry
from refaug.scoring.score_tables import latex_table
from refaug.scoring.score_views.score_view import write_view
from refaug.scoring.scores import Evaluation
from refaug.service.evaluations import evaluation_store
from refaug.service.jobs.kinds.job_context import JobContext

_OPTIONS = orjson.OPT_NON_STR_KEYS | orjson.OPT_SERIALIZE_NUMPY | orjson.OPT_APPEND_NEWLINE


def store_scores(
    order: Score, evaluation: Evaluation, document: Mapping[str, Any], files: Sequence[str], context: JobContext
) -> evaluation_store.StoredEvaluation:
    """Keep a sealed score document with its LaTeX table."""

    def write(folder: Path) -> None:
        write_view(document, folder)
        _write(folder / evaluation_store.SCORES_LATEX, latex_table(evaluation, "corpus").encode())

    replies = sum(len(system.ids) for system in evaluation.scores[0].systems.values()) if evaluation.scores else 0
    counts = {"items": evaluation.items, "replies": replies, "bad": len(evaluation.bad_items)}
    return evaluation_store.EvaluationStore(context.home, context.serve).add(
        context.job, kind="score", name=order.name, owner=order.owner, files=files, counts=counts, write=write
    )


def store_agreement(
    order: MeasureAgreement, report: MetaResult, files: Sequence[str], context: JobContext
) -> evaluation_store.StoredEvaluation:
    """Keep what `refaug agreement` prints and writes; without libraries of plots, the page is left out and said so."""

    def write(folder: Path) -> None:
        _write(folder / evaluation_store.AGREEMENT, orjson.dumps(report.as_json(), option=_OPTIONS))
        _write(folder / evaluation_store.AGREEMENT_CSV, as_csv(report).encode())
        _write(folder / evaluation_store.AGREEMENT_LATEX, as_latex(report).encode())
        try:
            write_report(report, folder)
        except ModuleNotFoundError as error:  # the libraries of plots are an extra
            if (missing := missing_part(error)) is None:
                raise
            context.progress.warn(f"no page with plots: {missing.message}; {missing.remedy}")

    counts = {
        "items": sum(set_result.counts.items for set_result in report.sets),
        "replies": sum(set_result.counts.used for set_result in report.sets),
        "bad": sum(len(set_result.bad_items) for set_result in report.sets),
    }
    return evaluation_store.EvaluationStore(context.home, context.serve).add(
        context.job, kind="meta", name=order.name, owner=order.owner, files=files, counts=counts, write=write
    )


def _write(path: Path, content: bytes) -> None:
    with write_aside(path) as file:
        file.write(content)


# ── The models that the metrics of an order need ──────────────────────────────────────────────────────────────────────


def job_models(context: JobContext, order: ReferenceOptions, threads: int) -> ModelRegistry:
    """Return the models of the metrics of an order; metrics name no files of the server."""
    return ModelRegistry(context.home, threads, allows_paths=False, default_rater=order.rater)
