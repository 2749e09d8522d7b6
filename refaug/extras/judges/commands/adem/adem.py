"""`refaug train adem …`: pre-training the networks that ADEM's encoder is taken from."""

from __future__ import annotations

from typing import Annotated, Final

import typer

from refaug.cli.shared.field_options import with_options
from refaug.cli.shared.network_commands import run_training
from refaug.cli.shared.output import JsonFlag
from refaug.extras.judges.operations.pretrain_vhred import PretrainVhred

_KIND: Final = "vhred"


@with_options
def pretrain_command(context: typer.Context, *, options: PretrainVhred, as_json: JsonFlag = False) -> None:
    """Pre-train a VHRED on dialogues, or draw the weights of one; stopped, the same command goes on where it was."""
    from refaug.extras.judges.commands.adem.excluded_files import excluded_file, read_excluded  # noqa: PLC0415  torch
    from refaug.rater.adem.pretraining.build import pretrain_vhred  # noqa: PLC0415
    from refaug.scoring.home.indexes import cores  # noqa: PLC0415  compiles
    from refaug.scoring.home.networks import vhred_places  # noqa: PLC0415

    excluded = [excluded_file(path) for path in options.exclude]
    order, places = options.order(threads=options.threads or cores(), exclude=excluded), vhred_places(context.obj)
    run_training(
        context.obj,
        _KIND,
        lambda progress, on_now, on_epoch: pretrain_vhred(
            places, order, progress, on_now, on_epoch, read_excluded=read_excluded, again=options.again
        ),
        as_json=as_json,
    )


def resume_command(
    context: typer.Context,
    name: Annotated[str, typer.Argument(help="Name of the VHRED.", metavar="NAME")],
    as_json: JsonFlag = False,
) -> None:
    """Go on with a pre-training that was stopped, with the settings that it was started with."""
    from refaug.extras.judges.commands.adem.excluded_files import read_excluded  # noqa: PLC0415
    from refaug.rater.adem.pretraining.build import VhredOrder, pretrain_vhred  # noqa: PLC0415
    from refaug.rater.training.order import interrupted_order  # noqa: PLC0415
    from refaug.scoring.home.networks import vhred_places  # noqa: PLC0415  torch

    places = vhred_places(context.obj)
    order = interrupted_order(places, VhredOrder, name)
    run_training(
        context.obj,
        _KIND,
        lambda progress, on_now, on_epoch: pretrain_vhred(
            places, order, progress, on_now, on_epoch, read_excluded=read_excluded, again=True
        ),
        as_json=as_json,
    )
