"""`refaug judge conversations`: every reply of a conversation scored in its context, and the course of the whole."""

from __future__ import annotations

from typing import TYPE_CHECKING

import typer

from refaug.cli.shared.field_options import with_options
from refaug.cli.shared.output import JsonFlag, print_json, print_line, print_table
from refaug.cli.shared.progress import display_progress
from refaug.extras.conversations.commands.inputs import read_conversations
from refaug.extras.conversations.operations.judge_conversations import JudgeConversations

if TYPE_CHECKING:
    from refaug.extras.conversations.judged import JudgedConversations


@with_options
def judge_command(context: typer.Context, *, order: JudgeConversations, as_json: JsonFlag = False) -> None:
    """Score every reply of a bot in its context, without a gold: the mean, the worst reply, and the course.

    Where conversations have ratings, the figures are compared with them, over bots and within bots.
    """
    from refaug.extras.conversations.judged import (  # noqa: PLC0415  scipy
        JudgedConversations,
        judge_turns,
        require_target,
    )

    judges = order.judges_of(context.obj, order.threads)
    assert judges is not None, "an order has a metric"
    with display_progress(quiet=context.obj.quiet) as progress:
        talks = read_conversations(context.obj, order, progress)
        require_target(talks, order.target)
        judged = JudgedConversations(
            conversations=talks, judged=judge_turns(context.obj, talks, judges, progress), target=order.target
        )
    if as_json:
        print_json(judged.as_json())
        return
    _print_judged(judged)


def _print_judged(judged: JudgedConversations) -> None:
    for scores in judged.judged:
        print_line(scores.signature.short)
    columns = ("mean", "worst", "slope", "first", "second")
    rows = judged.bots()
    for scores in judged.judged:
        print_table(
            f"{scores.name}: means over conversations",
            ("bot", "conversations", *columns),
            [
                (row["bot"], row["conversations"], *(_digits(row["figures"][scores.name][name], 4) for name in columns))
                for row in rows
            ],
        )
    agreement = judged.agreement()
    if agreement is None:
        return
    print_table(
        f"agreement with {agreement['target']} over {agreement['conversations']:,} rated conversations",
        ("figure", "bots", "Pearson", "Spearman", "within bots"),
        [
            (
                f"{name}, {figure}",
                values["bots"],
                *(_digits(values[kind]) for kind in ("pearson", "spearman", "within_bots")),
            )
            for name, figures in agreement["figures"].items()
            for figure, values in figures.items()
        ],
    )
    reasons = {values["reason"] for figures in agreement["figures"].values() for values in figures.values()} - {""}
    for reason in sorted(reasons):
        print_line(reason)


def _digits(figure: float | None, digits: int = 3) -> str:
    return "–" if figure is None else f"{figure:.{digits}f}"
