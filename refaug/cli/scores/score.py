"""`refaug score`: scoring test files."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import replace
from typing import TYPE_CHECKING, Annotated

import typer

from refaug.cli.shared.field_options import flag_of, with_options
from refaug.cli.shared.item_inputs import ItemInputs
from refaug.cli.shared.progress import display_progress
from refaug.cli.shared.score_options import ScoreOutput, report_problems
from refaug.core.errors import Usage
from refaug.core.progress import Progress
from refaug.operations.scoring_options import Score

if TYPE_CHECKING:
    from refaug.scoring.metric_setup.signature_requests import SignatureRequest
    from refaug.scoring.provenance import Provenance
    from refaug.scoring.scores import Evaluation

SignatureOption = Annotated[
    str | None,
    typer.Option(
        "--signature",
        help="Signature of an earlier score: its metric, index, rater and settings, instead of options for them.",
        metavar="SIGNATURE",
        rich_help_panel="Metric",
        hidden=True,
    ),
]


@with_options
def score_command(
    context: typer.Context, *, scoring: Score, signature: SignatureOption = None, output: ScoreOutput
) -> None:
    """Score the replies of one or several systems against their references.

    ITEMS is JSONL (docs/items.md) or a table (docs/tables.md); or give line-aligned files with --replies and
    --references. With --index, further references are found in it first, and weighed by --rater; a weighted form
    without b has that of the index. Metrics name the models that they use: ruber:model=NAME. What cannot be scored is
    listed and counted, and the rest is scored. --signature scores as an earlier score was made.
    """
    from refaug.scoring.cases import UnsuitableReferences  # noqa: PLC0415  compiles
    from refaug.scoring.evaluate import evaluate  # noqa: PLC0415  compiles
    from refaug.scoring.metric_setup.metric_requests import baseline_advice  # noqa: PLC0415  compiles
    from refaug.scoring.metric_setup.model_registry import ModelRegistry  # noqa: PLC0415
    from refaug.scoring.metric_setup.scoring_steps import bound_metrics, chosen_metrics, referenced_items  # noqa: PLC0415
    from refaug.scoring.metric_setup.signature_requests import unsearched_remedy  # noqa: PLC0415  numpy
    from refaug.scoring.spooled_items.item_collection import ItemCollection  # noqa: PLC0415  compiles

    output.require_shown(scoring)
    request = None if signature is None else _request_of(signature, scoring)
    if request is not None:
        metrics, settings = (request.metric,), request.augmenting
        scoring = replace(scoring, metrics=metrics, index=request.index, rater=request.rater, settings=settings)
    inputs = ItemInputs.of(scoring)
    requests = scoring.require_models(context.obj, scoring.metrics)
    finds = scoring.index is not None or any(one.rates_by_default for one in requests)
    with display_progress(quiet=context.obj.quiet) as progress, ExitStack() as stack:
        provenance: Provenance | None = None
        if scoring.index is not None:
            test_items, provenance = stack.enter_context(
                referenced_items(
                    context.obj,
                    inputs.within_stage(progress),
                    scoring.index,
                    scoring.rater,
                    scoring.settings,
                    scoring.threads,
                    progress,
                    on=scoring.on,
                    with_origins=output.shows_items,
                )
            )
        else:
            test_items = ItemCollection(inputs.read(progress), context.obj.cache)
        models = ModelRegistry(context.obj, scoring.threads, default_rater=scoring.rater)
        settings = scoring.settings
        chosen = chosen_metrics(
            scoring.specifications,
            test_items,
            models,
            provenance,
            references=settings,
            language=scoring.language,
            progress=progress,
        )
        if (advice := baseline_advice(chosen, test_items)) is not None:
            progress.warn(advice)
        try:
            bound = bound_metrics(chosen, models, provenance, augmenting=settings if finds else None, progress=progress)
            evaluation = evaluate(test_items, bound, scoring, provenance=provenance, progress=progress)
        except UnsuitableReferences as error:
            search = unsearched_remedy(scoring.metrics)
            raise UnsuitableReferences(error.message, remedy=search or error.remedy) from None
        _warn_of_unsearched(scoring.metrics, evaluation, progress)
        report_problems(evaluation.bad_items, evaluation.warnings, progress)
        if request is not None:
            _warn_of_differences(request, evaluation, progress)
    output.show(scoring, evaluation, test_items, inputs.names)


def _request_of(signature: str, scoring: Score) -> SignatureRequest:
    """Read the signature back; Usage where options beside it say the same or something else."""
    from refaug.scoring.metric_setup.signature_requests import SignatureRequest  # noqa: PLC0415  numpy

    stated = [name for name in ("metrics", "language", "index", "rater") if name in scoring.stated]
    if names := [flag_of(name) for name in stated]:
        raise Usage(f"--signature with {', '.join(names)}", remedy="one of the two: the signature says it all")
    scoring.settings.require_no_effect(
        "with a signature", remedy="leave it out: the signature says how references are found"
    )
    return SignatureRequest.parse(signature)


def _warn_of_unsearched(texts: Sequence[str], evaluation: Evaluation, progress: Progress) -> None:
    """Warn where a signature as a metric names an index, and the scores have no references of one."""
    from refaug.scoring.metric_setup.signature_requests import unsearched_remedy  # noqa: PLC0415  numpy

    signatures = [metric_scores.signature for metric_scores in evaluation.scores]
    if (remedy := unsearched_remedy(texts, signatures)) is not None:
        progress.warn(f"these scores have no references of an index, which a signature has: {remedy}")


def _warn_of_differences(request: SignatureRequest, evaluation: Evaluation, progress: Progress) -> None:
    """Warn where the scores have another signature than the requested one."""
    from refaug.scoring.metric_setup.signature_requests import signature_differences  # noqa: PLC0415  numpy

    for difference in signature_differences(request.signature, evaluation.scores[0].signature):
        progress.warn(f"the signature differs in {difference}")
