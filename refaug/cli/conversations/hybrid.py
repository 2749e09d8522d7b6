"""`refaug hybrid evaluate`: the hybrid metric on bots that its fit has not seen."""

from __future__ import annotations

import typer

from refaug.cli.conversations.inputs import read_conversations
from refaug.cli.shared.field_options import with_options
from refaug.cli.shared.output import JsonFlag, print_json, print_sections
from refaug.cli.shared.progress import display_progress
from refaug.evaluation.conversations.hybrids.stored_hybrids import hybrid_sections
from refaug.operations.bots.fit_hybrid import HybridOptions

app = typer.Typer(
    help="The hybrid metric of whole conversations, beside what it has to be better than.", no_args_is_help=True
)


@app.command("evaluate")
@with_options
def evaluate_command(
    context: typer.Context,
    *,
    order: HybridOptions,
    as_json: JsonFlag = False,
) -> None:
    """Say how far the hybrid metric agrees with people on bots that its fit has not seen.

    One bot after the other is left out. Beside the figures stand the intercept alone, shuffled ratings, permuted bots,
    each column alone, and plain counts. With -m, the mean scores of the bots' replies are columns of the wider set.
    """
    from refaug.evaluation.conversations.hybrid_report import hybrid_report  # noqa: PLC0415  scipy
    from refaug.evaluation.conversations.measuring import measure  # noqa: PLC0415

    judges = order.judges_of(context.obj, order.threads)
    with display_progress(quiet=context.obj.quiet) as progress:
        talks = read_conversations(context.obj, order, progress)
        measured = measure(context.obj, talks, order, order, judges, progress)
        report = hybrid_report(measured.table, order, measured.details)
    report["turn_signatures"] = dict(measured.turn_signatures)
    if as_json:
        print_json(report)
        return
    print_sections(hybrid_sections(report))
