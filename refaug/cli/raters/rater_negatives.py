"""`refaug rater negatives`: the hard negatives that a rater would be trained on, for reading."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from refaug.cli.shared.index_options import ThreadsOption
from refaug.cli.shared.output import JsonFlag, MemoryOption, parse_size, print_json, print_line
from refaug.cli.shared.progress import display_progress
from refaug.core.errors import Usage

if TYPE_CHECKING:
    from refaug.rater.nn.negative_samples import HardNegative, HardNegatives


def negatives_command(
    context: typer.Context,
    logs: Annotated[list[str], typer.Argument(help="Logs that a rater would learn from.", metavar="LOG…")],
    count: Annotated[int, typer.Option("-n", "--count", help="How many.", min=1, max=100_000)] = 100,
    preset: Annotated[str, typer.Option(help="Sizes that go together: paper, base or small.")] = "base",
    min_words: Annotated[
        int | None, typer.Option(help="Shortest utterance; by default what suits the language.", min=1)
    ] = None,
    seed: Annotated[int, typer.Option(help="Another seed, others.", min=0, max=2**32 - 1)] = 1,
    threads: ThreadsOption = None,
    memory: MemoryOption = "2GiB",
    as_json: JsonFlag = False,
) -> None:
    """Some of the hard negatives that `refaug rater train --negatives hard` would draw from; nothing is trained.

    Each is shown with the response that it shares rare words with, and the utterances that the two were said to. A hard
    negative that would do as a response to the first utterance as well is learnt as a wrong one: read how many there
    are.
    """
    from refaug.evaluation.home.indexes import cores  # noqa: PLC0415
    from refaug.evaluation.home.piece_vectors import learn_piece_vectors  # noqa: PLC0415
    from refaug.logs.pairs import SharedSettings  # noqa: PLC0415
    from refaug.rater.nn.build import PRESETS, RaterOrder  # noqa: PLC0415  torch
    from refaug.rater.nn.model import RaterConfig  # noqa: PLC0415
    from refaug.rater.nn.negative_samples import hard_negatives  # noqa: PLC0415
    from refaug.rater.nn.train import TrainConfig  # noqa: PLC0415
    from refaug.rater.training.examples import ExampleSettings  # noqa: PLC0415

    if preset not in PRESETS:
        raise Usage(f"there is no preset {preset!r}", remedy=f"one of: {', '.join(PRESETS)}")
    sizes = PRESETS[preset]
    order = RaterOrder(
        name=logs[0],
        logs=tuple(logs),
        model=RaterConfig(embedding=sizes.embedding, max_tokens=128),
        examples=ExampleSettings(seed=seed, negatives="hard"),
        training=TrainConfig(seed=seed, threads=threads or cores()),
        shared=None if min_words is None else SharedSettings(min_words=min_words, seed=seed),
        pieces=sizes.pieces,
        start="vectors",
        memory=parse_size(memory),
    )
    with display_progress(quiet=context.obj.quiet) as progress:
        negatives = hard_negatives(
            context.obj.logs, context.obj.cache, order, learn_piece_vectors, progress, count=count
        )
    if as_json:
        print_json(
            {
                "negatives": [_as_json(negative) for negative in negatives.negatives],
                "without_partner": negatives.without_partner,
            }
        )
    else:
        _print(negatives)


def _as_json(negative: HardNegative) -> dict[str, str]:
    return {
        "utterance": negative.utterance,
        "response": negative.response,
        "hard": negative.hard,
        "answered": negative.answered,
    }


def _print(negatives: HardNegatives) -> None:
    for negative in negatives.negatives:
        for line in (
            negative.utterance,
            f"  → {negative.response}",
            f"  ≠ {negative.hard}",
            f"    said to: {negative.answered}",
        ):
            print_line(line)
    print_line(f"{100 * negatives.without_partner:.1f} % of the responses have no hard negative")
