"""`refaug score`: scoring test files."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from refaug.cli.shared.field_options import with_options
from refaug.cli.shared.index_options import ThreadsOption
from refaug.cli.shared.model_options import ModelOptions
from refaug.cli.shared.output import file_or_stdin
from refaug.cli.shared.progress import display_progress
from refaug.cli.shared.reference_options import IndexOption, ReferenceOptions
from refaug.cli.shared.score_options import ScoreOptions, report_problems
from refaug.core.errors import Usage
from refaug.core.progress import Progress
from refaug.core.records import Item
from refaug.evaluation.scoring.items import BadItem, read_aligned, read_items, system_name

if TYPE_CHECKING:
    from refaug.evaluation.metric_setup.signature_requests import SignatureRequest
    from refaug.evaluation.scoring.provenance import Provenance
    from refaug.evaluation.scoring.scores import Evaluation

ItemsArgument = Annotated[
    Path | None,
    typer.Argument(
        help="JSONL with one item a line, or a table (.tsv), compressed or not; - for JSONL from stdin.",
        metavar="[ITEMS]",
    ),
]
RepliesOption = Annotated[
    list[str] | None,
    typer.Option(help="Line-aligned replies of a system, NAME=FILE or FILE; repeat it; - for stdin.", metavar="FILE"),
]
ReferencesOption = Annotated[
    list[Path] | None,
    typer.Option(help="Line-aligned references, golds first; repeat it; empty lines: none.", metavar="FILE"),
]
RaterOption = Annotated[
    str | None,
    typer.Option(
        "--rater",
        help="Rater that weighs references that are found, and that the metric rater asks: name or name@version.",
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
    replies: RepliesOption = None,
    references: ReferencesOption = None,
    weights: Annotated[
        list[Path] | None,
        typer.Option(help="Their weights, a number from -1 to 1 a line: a file for each --references.", metavar="FILE"),
    ] = None,
    *,
    scoring: ScoreOptions,
    allow_truncated: Annotated[
        bool,
        typer.Option("--allow-truncated", help="Score the items before the place where a compressed ITEMS breaks off."),
    ] = False,
    index: IndexOption = None,
    rater: RaterOption = None,
    models: ModelOptions,
    options: ReferenceOptions,
    signature: SignatureOption = None,
    threads: ThreadsOption = None,
) -> None:
    """Score the replies of one or several systems against their references.

    ITEMS is JSONL (docs/items.md); or give line-aligned files with --replies and --references. With --index, further
    references are found in it first, and weighed by --rater; a weighted form without b has that of the index. The
    metric rater asks --rater about the replies themselves, and ruber asks --ruber. What cannot be scored is listed and
    counted, and the rest is scored. --signature scores as an earlier score was made.
    """
    from refaug.evaluation.metric_setup.metric_requests import baseline_advice  # noqa: PLC0415  compiles
    from refaug.evaluation.metric_setup.scoring_steps import find_references  # noqa: PLC0415  torch

    augmenting = options.settings(context)
    if signature is not None:
        request = _request_of(signature, scoring, index, rater, options)
        scoring, index, rater = replace(scoring, metric=[request.metric]), request.index, request.rater
        augmenting = request.augmenting
    asks_rater = models.require_named(scoring.specifications, rater, index=index)
    if index is None and rater is not None and not asks_rater:
        raise Usage(
            "--rater without --index",
            remedy="--index NAME, whose references it weighs, or --metric rater, for which it rates the replies",
        )
    options.require_used(context, index, rater, rates=asks_rater, scores=True)
    preset = options.chosen_preset
    with display_progress(quiet=context.obj.quiet) as progress:
        test_items = list(
            items_from(items, replies or [], references or [], weights or [], progress, allow_truncated=allow_truncated)
        )
        if preset is not None and index is None:
            preset.require_items(test_items)
            if scoring.specifications:
                preset.require_effect(scoring.specifications)
        provenance: Provenance | None = None
        if index is not None:
            test_items, provenance = find_references(
                context.obj, test_items, index, rater, augmenting, threads, progress
            )
        steps = scoring.steps(
            context.obj,
            models.names(rater, threads),
            augmenting if asks_rater or index is not None else None,
            rating=augmenting.rating,
            preset=preset,
        )
        chosen = steps.chosen(test_items, provenance, progress=progress)
        if (advice := baseline_advice(chosen, test_items)) is not None:
            progress.warn(advice)
        evaluation = steps.score_by(chosen, test_items, provenance, progress=progress)
        report_problems(evaluation.bad_items, evaluation.warnings, progress)
        if signature is not None:
            _warn_of_differences(request, evaluation, progress)
    scoring.show(evaluation, input_names(items, replies, references, weights, allow_truncated=allow_truncated))


def _request_of(
    signature: str, scoring: ScoreOptions, index: str | None, rater: str | None, options: ReferenceOptions
) -> SignatureRequest:
    """Read the signature back; Usage where options beside it say the same or something else."""
    from refaug.evaluation.metric_setup.signature_requests import SignatureRequest  # noqa: PLC0415  numpy

    beside = {"--metric": scoring.metric, "--language": scoring.language, "--index": index, "--rater": rater}
    if names := [name for name, text in beside.items() if text]:
        raise Usage(f"--signature with {', '.join(names)}", remedy="one of the two: the signature says it all")
    options.require_unchanged("with --signature", remedy="leave it out: the signature says how references are found")
    return SignatureRequest.parse(signature)


def _warn_of_differences(request: SignatureRequest, evaluation: Evaluation, progress: Progress) -> None:
    """Warn where the scores have another signature than the requested one."""
    from refaug.evaluation.metric_setup.signature_requests import signature_differences  # noqa: PLC0415  numpy

    for difference in signature_differences(request.signature, evaluation.scores[0].signature):
        progress.warn(f"the signature differs in {difference}")


# ── input ─────────────────────────────────────────────────────────────────────────────────────────────────────────────


def input_names(
    items: Path | None,
    replies: Sequence[str] | None,
    references: Sequence[Path] | None,
    weights: Sequence[Path] | None,
    *,
    allow_truncated: bool = False,
) -> dict[str, object]:
    """Return the files as they were named, for score files; nothing where one of them is stdin."""
    names: dict[str, list[str]] = {
        "items": [str(items)] if items is not None else [],
        "replies": list(replies or []),
        "references": [str(path) for path in references or []],
        "weights": [str(path) for path in weights or []],
    }
    if any(name == "-" or name.endswith("=-") for listed in names.values() for name in listed):
        return {}
    truncated = {"allow_truncated": True} if allow_truncated else {}
    return {**{what: listed for what, listed in names.items() if listed}, **truncated}


def items_from(
    items: Path | None,
    replies: Sequence[str],
    references: Sequence[Path],
    weights: Sequence[Path],
    progress: Progress,
    *,
    allow_truncated: bool = False,
) -> Iterator[Item | BadItem]:
    """Read items from the files that the command names."""
    if items is not None and (replies or references or weights):
        raise Usage("ITEMS and line-aligned files at once", remedy="one of the two")
    progress.stage("read")
    with ExitStack() as stack:
        if items is not None:
            path = stack.enter_context(file_or_stdin(items))
            called = "stdin" if str(items) == "-" else str(items)
            yield from read_items(
                path,
                shown_name=called,
                on_unknown_field=progress.warn,
                allow_truncated=allow_truncated,
            )
            return
        if not (replies and references):
            raise Usage(
                "no items were given",
                remedy="name a file of items, or line-aligned files: --replies FILE --references FILE",
            )
        files = dict(_name_and_file(text) for text in replies)
        if len(files) < len(replies):
            raise Usage("two systems of one name", remedy="--replies NAME=FILE")
        inputs = [*files.values(), *references, *weights]
        if [str(path) for path in inputs].count("-") > 1:
            raise Usage("- twice", remedy="stdin can be one of the files only")
        spooled = {name: stack.enter_context(file_or_stdin(path)) for name, path in files.items()}
        yield from read_aligned(
            spooled,
            [stack.enter_context(file_or_stdin(path)) for path in references],
            [stack.enter_context(file_or_stdin(path)) for path in weights],
        )


def _name_and_file(text: str) -> tuple[str, Path]:
    """Parse `NAME=FILE`, or a file that names the system."""
    name, equals, file = text.partition("=")
    if equals and file and not Path(text).exists():
        return system_name(name), Path(file)
    return "stdin" if text == "-" else system_name(Path(text).name.split(".")[0] or text), Path(text)
