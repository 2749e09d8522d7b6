"""`refaug judge panel`: what several judges and metrics are worth together, on labels by people."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from refaug.cli.scores.meta import read_set
from refaug.cli.shared.field_options import with_options
from refaug.cli.shared.index_options import ThreadsOption
from refaug.cli.shared.item_inputs import ItemInputs
from refaug.cli.shared.output import JsonFlag, print_facts, print_json, print_table
from refaug.cli.shared.progress import display_progress
from refaug.cli.shared.score_options import number, require_models
from refaug.core.errors import Usage
from refaug.extras.judges.commands.judge_fit import RaterOption, metrics_as_named
from refaug.operations.item_sources import TableOptions

if TYPE_CHECKING:
    from refaug.extras.judges.panel_worth import PanelWorth
    from refaug.metrics.statistics.resampling import Estimate


@with_options
def panel_command(
    context: typer.Context,
    items: Annotated[Path, typer.Argument(help="Items with ratings by people.", metavar="ITEMS")],
    *,
    metric: Annotated[
        str, typer.Option("--metric", "-m", help="The panel, such as panel:of=judge;model=NAME+judge;model=OTHER+chrf.")
    ],
    rater: RaterOption = None,
    reasons: Annotated[
        bool, typer.Option("--reasons", help="Show the reasons of judges whose rubric asks for them.")
    ] = False,
    draws: Annotated[int, typer.Option(help="Of the bootstrap over contexts.", min=100, max=100_000)] = 2_000,
    seed: Annotated[int, typer.Option(help="Of the bootstrap.", min=0, max=2**32 - 1)] = 1,
    table: TableOptions,
    threads: ThreadsOption = None,
    as_json: JsonFlag = False,
) -> None:
    """Say how far a panel and each of its members agree with people, and what the panel gains over the best member."""
    from refaug.agreement.records import RatedItems  # noqa: PLC0415
    from refaug.extras.judges.metrics.panels import JudgePanel  # noqa: PLC0415  numpy
    from refaug.extras.judges.panel_worth import panel_worth  # noqa: PLC0415  scipy
    from refaug.scoring.metric_setup.model_registry import ModelRegistry  # noqa: PLC0415

    require_models(context.obj, [metric], rater=rater)
    models = ModelRegistry(context.obj, threads, default_rater=rater)
    with display_progress(quiet=context.obj.quiet) as progress:
        rated = RatedItems(name=items.stem, items=list(read_set(ItemInputs(items=items, table=table), progress)))
        bound = metrics_as_named(models, [metric], progress)[0]
        if not isinstance(bound, JudgePanel):
            raise Usage(f"{metric} is not a panel", remedy="panel:of=judge;model=NAME+chrf")
        worth = panel_worth(rated, bound, progress, draws=draws, seed=seed, with_reasons=reasons)
        for remark in bound.remarks():
            progress.warn(remark)
    if as_json:
        print_json(worth.as_json())
        return
    _print(worth, with_reasons=reasons)


def _print(worth: PanelWorth, *, with_reasons: bool) -> None:
    gain = _shown(worth.gain) if worth.is_gain_shown else f"not shown {_shown(worth.gain)}"
    facts = {
        "labels": f"{worth.labels:,} in {worth.contexts:,} contexts",
        "Spearman": _shown(worth.spearman),
        "alpha over members": _shown(worth.alpha),
        f"gain over {worth.best}": gain,
    }
    print_facts(worth.signature.partition("|")[0], facts)
    rows: Sequence[Sequence[object]] = [(one.name, _shown(one.spearman), f"{one.missing:,}") for one in worth.members]
    print_table("members", ("member", "Spearman", "no verdict"), rows)
    if with_reasons:
        reason_rows = [
            (reply["id"], reply["system"], reason["member"], reason["reason"])
            for reply in worth.replies
            for reason in reply["reasons"]
        ]
        print_table("reasons", ("item", "system", "member", "reason"), reason_rows)


def _shown(estimate: Estimate) -> str:
    if estimate.value is None:
        return f"- ({estimate.why})"
    bounds = "" if estimate.low is None else f" [{number(estimate.low)}, {number(estimate.high)}]"
    return f"{number(estimate.value)}{bounds}"
