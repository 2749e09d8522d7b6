"""`refaug adem …`: pre-training the networks that ADEM's encoder is taken from."""

from __future__ import annotations

from typing import Annotated, Any, Final

import typer

from refaug.cli.adem import versions
from refaug.cli.shared.field_options import with_options
from refaug.cli.shared.network_commands import ThreadsOption, run_training
from refaug.cli.shared.output import JsonFlag
from refaug.core.errors import Usage

app = typer.Typer(
    help="Train judges on people's ratings: ADEM, and the networks that its encoder is taken from.",
    no_args_is_help=True,
)

_KIND: Final = "vhred"


@app.command("pretrain")
@with_options
def pretrain_command(
    context: typer.Context,
    logs: Annotated[list[str], typer.Argument(help="Logs that are learned from.", metavar="LOG…")],
    *,
    name: Annotated[str | None, typer.Option(help="Name of the VHRED; by default that of the first log.")] = None,
    preset: Annotated[str, typer.Option(help="Sizes that go together: small, base or paper.")] = "base",
    cell: Annotated[str, typer.Option(help="random: weights as they are drawn, never trained.")] = "random",
    seed: Annotated[int, typer.Option(help="Another seed, another network.", min=0, max=2**32 - 1)] = 1,
    threads: ThreadsOption = None,
    publish: Annotated[bool, typer.Option(help="Let it be what its name stands for from now on.")] = True,
    as_json: JsonFlag = False,
) -> None:
    """Make a VHRED of logs, from whose encoder ADEM takes its vectors."""
    from refaug.evaluation.home.indexes import cores  # noqa: PLC0415  compiles
    from refaug.evaluation.home.vhreds import vhred_places  # noqa: PLC0415  torch
    from refaug.rater.adem.pretraining.build import VhredOrder, pretrain_vhred  # noqa: PLC0415
    from refaug.rater.adem.vhred.sizes import PRESETS, VhredConfig  # noqa: PLC0415
    from refaug.rater.training.loop import TrainConfig  # noqa: PLC0415

    if preset not in PRESETS:
        raise Usage(f"there is no preset {preset!r}", remedy=f"one of: {', '.join(PRESETS)}")
    sizes = PRESETS[preset]
    order = VhredOrder(
        name=name or logs[0],
        logs=tuple(logs),
        model=VhredConfig(
            embedding=sizes.embedding,
            utterance=sizes.utterance,
            context=sizes.context,
            latent=sizes.latent,
            decoder=sizes.decoder,
            max_tokens=sizes.max_tokens,
            cell=cell,  # type: ignore[arg-type]
        ),
        training=TrainConfig(seed=seed, threads=threads or cores()),
        pieces=sizes.pieces,
        publish=publish,
    )
    places = vhred_places(context.obj)
    run_training(
        context.obj,
        _KIND,
        lambda progress, _on_now, _on_epoch: pretrain_vhred(places, order, progress),
        _report_facts,
        as_json=as_json,
    )


def _report_facts(report: Any) -> dict[str, Any]:
    """Return the main facts of a report."""
    return {"parameters": report["parameters"], "pieces": report["tokenizer"]["pieces"]}


app.command("list")(versions.list_command)
app.command("show")(versions.show_command)
app.command("publish")(versions.publish_command)
app.command("rollback")(versions.rollback_command)
app.command("gc")(versions.gc_command)
