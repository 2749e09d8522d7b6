"""Training a network of RUBER."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Literal

from refaug.core.options.declaring import Argument, Doc, Ge, Gt, Le, Length
from refaug.operations.operation import Name
from refaug.operations.training.training_options import Count, TrainingOptions

if TYPE_CHECKING:
    from refaug.rater.ruber.build import RuberOrder


@dataclass(frozen=True, kw_only=True)
class TrainRuber(TrainingOptions):
    """Train a ruber on all pairs of logs; stopped, the same command goes on where it was."""

    logs: Annotated[tuple[Name, ...], Length(1, 100), Argument("LOG…"), Doc("Logs that are learned from.")]
    name: Annotated[Name | None, Doc("Name of the ruber; by default that of the first log.")] = None
    preset: Annotated[Literal["base", "small"], Doc("Sizes that go together.")] = "base"
    readers: Annotated[
        int, Ge(1), Le(2), Doc("1: utterances and replies are read alike; 2: by a network each, as published.")
    ] = 1
    pairs: Annotated[Count | None, Doc("Pairs an epoch, drawn again each time; by default all.")] = None
    margin: Annotated[float, Gt(0), Le(1), Doc("So far above a reply from elsewhere the true one is to be scored.")] = (
        0.5
    )

    def order(self, *, threads: int) -> RuberOrder:
        """Return it as the network is trained."""
        from refaug.rater.ruber.build import PRESETS, RuberOrder  # noqa: PLC0415  torch
        from refaug.rater.ruber.network import RuberConfig  # noqa: PLC0415
        from refaug.rater.training.pair_corpus import PairSettings  # noqa: PLC0415

        sizes = PRESETS[self.preset]
        return RuberOrder(
            name=self.name or self.logs[0],
            logs=self.logs,
            more_texts=self.more_texts,
            model=RuberConfig(
                embedding=sizes.embedding,
                hidden=sizes.hidden,
                width=sizes.width,
                layers=sizes.layers,
                max_tokens=self.max_tokens,
                readers=self.readers,
            ),
            pairs=PairSettings(
                batch=self.batch or sizes.batch,
                limit=self.pairs,
                validation_share=self.validation_share,
                seed=self.seed,
            ),
            margin=self.margin,
            training=self.config(sizes, threads=threads, accumulate=self.accumulate),
            pieces=sizes.pieces,
            start=self.start(sizes),
            memory=self.memory,
            publish=self.publish,
        )
