"""`refaug score`: scoring test files."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import replace
from typing import TYPE_CHECKING, Annotated

import typer

from refaug.cli.shared.field_options import with_options
from refaug.cli.shared.index_options import ThreadsOption
from refaug.cli.shared.item_inputs import AlignedOptions, ItemInputs, ItemsArgument, TableOptions
from refaug.cli.shared.progress import display_progress
from refaug.cli.shared.reference_options import IndexOption, OnOption, require_searched, require_used
from refaug.cli.shared.required_models import require_models
from refaug.cli.shared.score_options import ScoreOptions, report_problems
from refaug.core.errors import Usage
from refaug.core.progress import Progress
from refaug.evaluation.scoring.augment_settings import AugmentSettings
from refaug.evaluation.scoring.presets import find_preset

if TYPE_CHECKING:
    from refaug.evaluation.metric_setup.signature_requests import SignatureRequest
    from refaug.evaluation.scoring.provenance import Provenance
    from refaug.evaluation.scoring.scores import Evaluation

RaterOption = Annotated[
    str | None,
    typer.Option(
        "--rater",
        help="Rater of references that are found, and of metrics that name none: name or name@version.",
        metavar="NAME",
    ),
]
SignatureOption = Annotated[
    str | None,
    typer.Option(
        "--signature",
        help="Signature of an earlier score: its metric, index, rater and settings, instead of options for them.",
        metavar="SIGNATURE",
    ),
]


@with_options
def score_command(
    context: typer.Context,
    items: ItemsArgument = None,
    *,
    aligned: AlignedOptions,
    table: TableOptions,
    scoring: ScoreOptions,
    allow_truncated: Annotated[
        bool,
        typer.Option("--allow-truncated", help="Score the items before the place where a compressed ITEMS breaks off."),
    ] = False,
    index: IndexOption = None,
    rater: RaterOption = None,
    augmenting: AugmentSettings,
    signature: SignatureOption = None,
    threads: ThreadsOption = None,
    on: OnOption = None,
) -> None:
    """Score the replies of one or several systems against their references.

    ITEMS is JSONL (docs/items.md) or a table (docs/tables.md); or give line-aligned files with --replies and
    --references. With --index, further references are found in it first, and weighed by --rater; a weighted form
    without b has that of the index. Metrics name the models that they ask: ruber:model=NAME. What cannot be scored is
    listed and counted, and the rest is scored. --signature scores as an earlier score was made.
    """
    from refaug.evaluation.metric_setup.metric_requests import (  # noqa: PLC0415  compiles
        MetricRequest,
        baseline_advice,
        require_index_used,
    )
    from refaug.evaluation.metric_setup.model_registry import MetricModels  # noqa: PLC0415
    from refaug.evaluation.metric_setup.scoring_steps import referenced_items  # noqa: PLC0415  torch
    from refaug.evaluation.metric_setup.signature_requests import unsearched_remedy  # noqa: PLC0415  numpy
    from refaug.evaluation.scoring.cases import UnsuitableReferences  # noqa: PLC0415  compiles
    from refaug.evaluation.scoring.held.item_collection import ItemCollection  # noqa: PLC0415  compiles

    inputs = ItemInputs(items=items, aligned=aligned, table=table, allow_truncated=allow_truncated)
    if signature is not None:
        request = _request_of(signature, scoring, index, rater, augmenting)
        scoring, index, rater = replace(scoring, metric=[request.metric]), request.index, request.rater
        augmenting = request.augmenting
    require_searched(on, index)
    asks_rater = require_models(context.obj, scoring.specifications, rater=rater, index=index)
    if index is not None:
        require_index_used([MetricRequest.of(text, context.obj) for text in scoring.specifications])
    if index is None and rater is not None and not asks_rater:
        raise Usage(
            "--rater without --index",
            remedy="--index NAME, whose references it weighs, or --metric rater, for which it rates the replies",
        )
    if signature is None:
        require_used(augmenting, index, rater, rates=asks_rater, scores=True)
    preset = find_preset(augmenting.preset)
    with display_progress(quiet=context.obj.quiet) as progress, ExitStack() as stack:
        provenance: Provenance | None = None
        if index is not None:
            test_items, provenance = stack.enter_context(
                referenced_items(
                    context.obj,
                    inputs.within_stage(progress),
                    index,
                    rater,
                    augmenting,
                    threads,
                    progress,
                    on=on,
                    with_origins=scoring.shows_items,
                )
            )
        else:
            test_items = ItemCollection.read(inputs.read(progress), context.obj.cache)
        steps = scoring.steps(
            MetricModels.of(context.obj, threads, rater=rater),
            augmenting if asks_rater or index is not None else None,
            rating=augmenting.rating,
            preset=preset,
        )
        chosen = steps.chosen(test_items, provenance, progress=progress)
        if (advice := baseline_advice(chosen, test_items)) is not None:
            progress.warn(advice)
        try:
            evaluation = steps.score_by(chosen, test_items, provenance, progress=progress)
        except UnsuitableReferences as error:
            search = unsearched_remedy(scoring.metric or ())
            raise UnsuitableReferences(error.message, remedy=search or error.remedy) from None
        _warn_of_unsearched(scoring.metric or (), evaluation, progress)
        report_problems(evaluation.bad_items, evaluation.warnings, progress)
        if signature is not None:
            _warn_of_differences(request, evaluation, progress)
    scoring.show(evaluation, test_items, inputs.names)


def _request_of(
    signature: str, scoring: ScoreOptions, index: str | None, rater: str | None, augmenting: AugmentSettings
) -> SignatureRequest:
    """Read the signature back; Usage where options beside it say the same or something else."""
    from refaug.evaluation.metric_setup.signature_requests import SignatureRequest  # noqa: PLC0415  numpy

    beside = {"--metric": scoring.metric, "--language": scoring.language, "--index": index, "--rater": rater}
    if names := [name for name, text in beside.items() if text]:
        raise Usage(f"--signature with {', '.join(names)}", remedy="one of the two: the signature says it all")
    augmenting.require_no_effect("with a signature", remedy="leave it out: the signature says how references are found")
    return SignatureRequest.parse(signature)


def _warn_of_unsearched(texts: Sequence[str], evaluation: Evaluation, progress: Progress) -> None:
    """Warn where a signature as a metric names an index, and the scores have no references of one."""
    from refaug.evaluation.metric_setup.signature_requests import unsearched_remedy  # noqa: PLC0415  numpy

    signatures = [metric_scores.signature for metric_scores in evaluation.scores]
    if (remedy := unsearched_remedy(texts, signatures)) is not None:
        progress.warn(f"these scores have no references of an index, which a signature has: {remedy}")


def _warn_of_differences(request: SignatureRequest, evaluation: Evaluation, progress: Progress) -> None:
    """Warn where the scores have another signature than the requested one."""
    from refaug.evaluation.metric_setup.signature_requests import signature_differences  # noqa: PLC0415  numpy

    for difference in signature_differences(request.signature, evaluation.scores[0].signature):
        progress.warn(f"the signature differs in {difference}")
