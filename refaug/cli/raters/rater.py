"""`refaug rater …`: training raters on logs, reports on them, rating by hand."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, Final

import typer

from refaug.cli.raters.rater_evaluate import evaluate_command
from refaug.cli.raters.rater_negatives import negatives_command
from refaug.cli.raters.rater_report import report_command
from refaug.cli.shared import network_commands
from refaug.cli.shared.clusters import connected
from refaug.cli.shared.field_options import with_options
from refaug.cli.shared.network_commands import run_training
from refaug.cli.shared.output import JsonFlag, print_json
from refaug.operations.training.train_rater import CROSS, TrainRater

app = typer.Typer(help="Train raters on logs, measure them, rate replies.", no_args_is_help=True)

NameArgument = Annotated[str, typer.Argument(help="Name of the rater.", metavar="RATER")]
SpecArgument = Annotated[
    str, typer.Argument(help="Name of the rater, or name@version for one that is not published.", metavar="RATER")
]
OnOption = Annotated[
    str | None,
    typer.Option(
        "--on",
        help="Train on a cluster of Ray: HOST:PORT, auto on one of its machines, or local.",
        metavar="ADDRESS",
    ),
]
_KIND: Final = "rater"


@app.command("train")
@with_options
def train_command(context: typer.Context, *, options: TrainRater, as_json: JsonFlag = False) -> None:
    """Train a rater on logs; stopped, the same command goes on where it was."""
    from refaug.evaluation.home.indexes import cores  # noqa: PLC0415  compiles
    from refaug.evaluation.home.piece_vectors import learn_piece_vectors  # noqa: PLC0415
    from refaug.evaluation.home.raters import rater_places  # noqa: PLC0415
    from refaug.rater.cross.build import train_cross  # noqa: PLC0415  torch
    from refaug.rater.nn.build import train_rater  # noqa: PLC0415

    places, order = rater_places(context.obj), options.order(threads=options.threads or cores())
    train: Any = train_cross if options.network == CROSS else train_rater
    with connected(options.on) as cluster:
        run_training(
            context.obj,
            _KIND,
            lambda progress, on_now, on_epoch: train(
                places,
                order,
                progress,
                on_now,
                on_epoch,
                learn_vectors=learn_piece_vectors,
                illustrate=_illustrate,
                again=options.again,
                cluster=cluster,
            ),
            as_json=as_json,
        )


@app.command("resume")
def resume_command(context: typer.Context, name: NameArgument, on: OnOption = None, as_json: JsonFlag = False) -> None:
    """Go on with a training that was stopped, with the settings that it was started with.

    It may go on on a cluster, with the number of workers that it was started with, or without one.
    """
    from refaug.evaluation.home.piece_vectors import learn_piece_vectors  # noqa: PLC0415
    from refaug.evaluation.home.raters import rater_places  # noqa: PLC0415
    from refaug.rater.stored_raters import resume_any_rater  # noqa: PLC0415  torch

    places = rater_places(context.obj)
    with connected(on) as cluster:
        run_training(
            context.obj,
            _KIND,
            lambda progress, on_now, on_epoch: resume_any_rater(
                places,
                name,
                progress,
                on_now,
                on_epoch,
                learn_vectors=learn_piece_vectors,
                illustrate=_illustrate,
                cluster=cluster,
            ),
            as_json=as_json,
        )


def _illustrate(report: Mapping[str, Any]) -> Mapping[str, bytes]:
    from refaug.evaluation.rater_report.plots import training_images  # noqa: PLC0415  matplotlib

    return training_images(report)


app.command("report")(report_command)
app.command("negatives")(negatives_command)


@app.command("rate")
def rate_command(
    context: typer.Context,
    rater: SpecArgument,
    utterance: Annotated[str, typer.Argument(help="The test utterance.")],
    gold: Annotated[str, typer.Argument(help="A response that is known to fit.")],
    candidates: Annotated[list[str], typer.Argument(help="Texts to be rated.", metavar="TEXT…")],
    to: Annotated[str | None, typer.Option(help="The utterance that the texts answered, if another one.")] = None,
    combine: Annotated[
        str, typer.Option(help="first, first-literal, max, confident or mean: see the page on raters.")
    ] = "first",
    calibrated: Annotated[bool, typer.Option("--calibrated", help="With the rater's temperature.")] = False,
    as_json: JsonFlag = False,
) -> None:
    """Rate texts as responses to an utterance, from −1 to 1."""
    from refaug.core.records import Reference  # noqa: PLC0415
    from refaug.evaluation.home.raters import open_rater  # noqa: PLC0415
    from refaug.rater.rating import RatingRequest  # noqa: PLC0415  torch
    from refaug.rater.rating_settings import RatingSettings  # noqa: PLC0415  torch

    settings = RatingSettings(combine=combine, calibrated=calibrated)  # type: ignore[arg-type]
    network = open_rater(context.obj, rater)
    request = RatingRequest(
        utterance=utterance,
        golds=(gold,),
        candidates=tuple(Reference(text=text, utterance=to) for text in candidates),
    )
    ratings = network.rate([request], settings)[0]
    network_commands.warn_about(network.unfamiliar(network.coverage([utterance, gold, *candidates])), context.obj)
    if as_json:
        print_json({"rater": network.spec, "combine": combine, "ratings": ratings})
        return
    rows = [(f"{rating:+.4f}", text) for rating, text in zip(ratings, candidates, strict=True)]
    network_commands.print_texts(network.spec, "rating", rows)


app.command("evaluate")(evaluate_command)
