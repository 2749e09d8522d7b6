"""The orders of raters of both kinds, from the options of `refaug rater train`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from refaug.cli.shared.network_commands import TrainingOptions
from refaug.cli.shared.output import parse_size
from refaug.core.errors import Usage

if TYPE_CHECKING:
    from refaug.rater.cross.build import CrossOrder
    from refaug.rater.nn.build import RaterOrder

NN: Final = "nn"
CROSS: Final = "cross"


@dataclass(frozen=True, kw_only=True)
class RaterOptions:
    """Which network is trained, and on which examples; a group of options."""

    name: Annotated[str | None, typer.Option(help="Name of the rater; by default that of the first log.")] = None
    network: Annotated[
        str,
        typer.Option(
            help="nn: the Bi-GRU of the method, trained on utterances that got several responses; cross: a Transformer "
            "that reads up to three turns, gold and reply at once, trained on every pair of the logs."
        ),
    ] = NN
    preset: Annotated[
        str, typer.Option(help="Sizes that go together: paper, base or small; for cross large, base or small.")
    ] = "base"
    positives: Annotated[
        int | None, typer.Option(help="Positive examples an epoch, drawn anew each time; by default all.", min=1)
    ] = None
    min_words: Annotated[
        int | None,
        typer.Option(help="Words of the shortest utterance of nn; by default four, or ten characters.", min=1),
    ] = None
    min_chars: Annotated[
        int | None,
        typer.Option(help="The same in characters, where words are not set apart by spaces.", min=1),
    ] = None
    negatives: Annotated[
        str | None,
        typer.Option(
            help="For nn random: responses to drawn utterances (default); hard: such as share rare words with the good "
            "one; mixed: half of either. For cross random, or mixed (default): also other turns of the dialogue and "
            "hard ones."
        ),
    ] = None

    def __post_init__(self) -> None:
        if self.network not in (NN, CROSS):
            raise Usage(f"there is no network {self.network!r}", remedy=f"one of: {NN}, {CROSS}")
        if self.network == CROSS and (self.min_words, self.min_chars) != (None, None):
            raise Usage(
                "a cross rater is trained on all utterances, short ones too",
                remedy=f"--network {NN}, or no --min-words and --min-chars",
            )


def nn_order(logs: list[str], options: RaterOptions, training: TrainingOptions, workers: int = 1) -> RaterOrder:
    """Return the order of an NN-rater."""
    from refaug.logs.pairs import SharedSettings  # noqa: PLC0415
    from refaug.rater.nn.build import PRESETS, RaterOrder  # noqa: PLC0415  torch
    from refaug.rater.nn.model import RaterConfig  # noqa: PLC0415
    from refaug.rater.training.examples import ExampleSettings  # noqa: PLC0415

    sizes = _preset(options.preset, PRESETS)
    min_words, min_chars = options.min_words, options.min_chars
    return RaterOrder(
        name=options.name or logs[0],
        logs=tuple(logs),
        more_texts=tuple(training.more_texts or ()),
        model=RaterConfig(
            embedding=sizes.embedding,
            hidden=sizes.hidden,
            width=sizes.width,
            max_tokens=training.max_tokens,
            features=sizes.features,
        ),
        examples=ExampleSettings(
            batch=training.batch or sizes.batch,
            limit=options.positives,
            validation_share=training.validation_share,
            seed=training.seed,
            negatives=options.negatives or "random",  # type: ignore[arg-type]
        ),
        training=training.config(sizes, workers),
        shared=None
        if min_words is None and min_chars is None
        else SharedSettings(min_words=min_words or 1, min_chars=min_chars or 1, seed=training.seed),
        pieces=sizes.pieces,
        start=training.start(sizes),
        memory=parse_size(training.memory),
        publish=training.publish,
    )


def cross_order(logs: list[str], options: RaterOptions, training: TrainingOptions, workers: int = 1) -> CrossOrder:
    """Return the order of a cross rater."""
    from refaug.rater.cross.build import PRESETS, CrossOrder  # noqa: PLC0415  torch
    from refaug.rater.cross.examples import CrossExampleSettings  # noqa: PLC0415
    from refaug.rater.cross.model import CrossConfig  # noqa: PLC0415

    sizes = _preset(options.preset, PRESETS)
    return CrossOrder(
        name=options.name or logs[0],
        logs=tuple(logs),
        more_texts=tuple(training.more_texts or ()),
        model=CrossConfig(
            embedding=sizes.embedding,
            hidden=sizes.hidden,
            layers=sizes.layers,
            heads=sizes.heads,
            max_tokens=training.max_tokens,
        ),
        examples=CrossExampleSettings(
            batch=training.batch or sizes.batch,
            wrong=sizes.wrong,
            negatives=options.negatives or "mixed",  # type: ignore[arg-type]
            validation_share=training.validation_share,
            limit=options.positives,
            seed=training.seed,
        ),
        training=training.config(sizes, workers),
        pieces=sizes.pieces,
        start=training.start(sizes),
        memory=parse_size(training.memory),
        publish=training.publish,
    )


def _preset(name: str, presets: Any) -> Any:
    if name not in presets:
        raise Usage(f"there is no preset {name!r}", remedy=f"one of: {', '.join(presets)}")
    return presets[name]
