"""`refaug agreement hybrid`: the hybrid metric on bots that its fit has not seen."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Annotated, Any

import typer

from refaug.cli.shared.database import record_act
from refaug.cli.shared.field_options import with_options
from refaug.cli.shared.index_options import ThreadsOption
from refaug.cli.shared.output import JsonFlag, print_facts, print_json, print_line, print_sections, print_table
from refaug.cli.shared.progress import display_progress
from refaug.extras.conversations.commands.inputs import FittedFiles, read_conversations
from refaug.extras.conversations.hybrids.stored_hybrids import hybrid_sections
from refaug.extras.conversations.operations.fit_hybrid import FitHybrid, HybridOptions
from refaug.extras.conversations.options.conversation_source import ConversationSource


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
    from refaug.extras.conversations.hybrid_report import hybrid_report  # noqa: PLC0415  scipy
    from refaug.extras.conversations.measuring import measure  # noqa: PLC0415

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


# ── `refaug train hybrid|score`: a hybrid metric that stays, and what it says of other conversations ──────────────────

SpecArgument = Annotated[str, typer.Argument(help="Name of the hybrid, or name@version.", metavar="NAME")]


@with_options
def fit_command(context: typer.Context, *, order: FitHybrid, as_json: JsonFlag = False) -> None:
    """Fit the hybrid metric to rated conversations, and keep it with its figures on bots that were left out."""
    from refaug.extras.conversations.hybrids.fitting import HybridOrder, fit_hybrid  # noqa: PLC0415  scipy

    judges = order.judges_of(context.obj, order.threads)
    hybrid_order = HybridOrder(encoders=order, settings=order, judges=judges, columns=order.columns)
    with display_progress(quiet=context.obj.quiet) as progress:
        talks = read_conversations(context.obj, order, progress)
        fitted = fit_hybrid(context.obj, order.name, talks, hybrid_order, progress)
    record_act(context.obj, "publish", f"hybrid {order.name}@{fitted.version}")
    if as_json:
        print_json({"hybrid": order.name, "version": fitted.version, "report": dict(fitted.report)})
        return
    print_sections([f"hybrid {order.name}@{fitted.version}", *hybrid_sections(dict(fitted.report))])


@with_options
def score_command(
    context: typer.Context,
    hybrid: SpecArgument,
    *,
    source: ConversationSource,
    files: FittedFiles,
    threads: ThreadsOption = None,
    as_json: JsonFlag = False,
) -> None:
    """Score conversations with people, or self-play, by a hybrid that was fitted to others.

    A bot that the hybrid was fitted to is scored by the fit without it. Conversations that it was fitted to under
    another bot's name are left out.
    """
    from refaug.extras.conversations.hybrids.scoring import encoders_of, score_conversations  # noqa: PLC0415
    from refaug.extras.conversations.hybrids.stored import open_hybrid  # noqa: PLC0415

    stored = open_hybrid(context.obj, hybrid)
    encoders = encoders_of(stored, files.vectors, files.sentiment, files.meaning)
    with display_progress(quiet=context.obj.quiet) as progress:
        talks = read_conversations(context.obj, source, progress)
        scores = score_conversations(context.obj, stored, talks, encoders, progress, threads=threads)
    if as_json:
        print_json(scores.as_json())
        return
    print_line(scores.signature.short)
    facts: dict[str, Any] = {"conversations": len(scores.scores), "trained_on": len(scores.trained_on)}
    if scores.missing:
        facts["without"] = ", ".join(f"{name} {count:,}" for name, count in scores.missing.items())
    print_facts(f"hybrid {scores.hybrid}", facts)
    _print_bots(scores.bots())
    agreement = scores.agreement()
    if agreement["pearson"] is not None:
        print_line(f"agreement with people over {agreement['bots']} bots: Pearson {agreement['pearson']:.3f}")
    elif agreement["bots"]:
        print_line(agreement["reason"])


def _print_bots(rows: Sequence[Mapping[str, Any]]) -> None:
    print_table(
        "bots",
        ("bot", "conversations", "mean", "standard error", "fit", "people"),
        [
            (
                row["bot"],
                row["conversations"],
                f"{row['mean']:+.3f}",
                "–" if row["standard_error"] is None else f"{row['standard_error']:.3f}",
                row["fit"],
                "–" if row["rated"] is None else f"{row['rated']:.3f}",
            )
            for row in rows
        ],
    )
