"""`refaug rater negatives`: the hard negatives that a rater would be trained on, to be read."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from core.errors import Usage
from service.cli.common import JsonFlag, MemoryOption, parse_size, print_json, print_line
from service.cli.index_common import ThreadsOption
from service.cli.progress import shown_progress

if TYPE_CHECKING:
    from rater.negatives import HardNegative, HardNegatives


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
    from core.pairs import SharedSettings  # noqa: PLC0415
    from rater.examples import ExampleSettings  # noqa: PLC0415
    from rater.making import PRESETS, RaterOrder  # noqa: PLC0415  torch
    from rater.model import RaterConfig  # noqa: PLC0415
    from rater.negatives import hard_negatives  # noqa: PLC0415
    from rater.train import TrainConfig  # noqa: PLC0415
    from service.piece_vectors import learn_piece_vectors  # noqa: PLC0415
    from service.retrieval import cores  # noqa: PLC0415

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
    with shown_progress(quiet=context.obj.quiet) as progress:
        found = hard_negatives(context.obj.logs, context.obj.cache, order, learn_piece_vectors, progress, count=count)
    if as_json:
        print_json({"negatives": [_as_json(one) for one in found.negatives], "without_partner": found.without_partner})
    else:
        _print(found)


def _as_json(one: HardNegative) -> dict[str, str]:
    return {"utterance": one.utterance, "response": one.response, "hard": one.hard, "answered": one.answered}


def _print(found: HardNegatives) -> None:
    for one in found.negatives:
        for line in (one.utterance, f"  → {one.response}", f"  ≠ {one.hard}", f"    said to: {one.answered}"):
            print_line(line)
    print_line(f"{100 * found.without_partner:.1f} % of the responses have no hard negative")
