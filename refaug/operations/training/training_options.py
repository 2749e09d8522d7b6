"""How a network is trained: options of every training by epochs."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, ClassVar, Literal

from refaug.core.options.declaring import Doc, Ge, Gt, Le, Length, Lt, Metavar, Panel
from refaug.core.options.decoding import Options
from refaug.operations.operation import MEMORY, Memory, Name, Seed, Threads

if TYPE_CHECKING:
    from refaug.rater.training.initial_embeddings import Start
    from refaug.rater.training.loop import TrainConfig
    from refaug.rater.training.order import NetworkPreset

Device = Literal["cpu", "cuda"]
Count = Annotated[int, Ge(1), Le(1_000_000)]
Few = Annotated[int, Ge(1), Le(10_000)]


@dataclass(frozen=True, kw_only=True)
class NetworkOptions(Options):
    """What every training of a network has."""

    panel: ClassVar[Panel] = Panel("Training", rare=("more_texts", "threads", "memory", "publish", "again"))

    more_texts: Annotated[
        tuple[Name, ...],
        Length(most=100),
        Metavar("LOG"),
        Doc(
            "Further logs: their turns teach which pieces there are and which are alike, and no examples are made of "
            "them."
        ),
    ] = ()
    learning_rate: Annotated[float | None, Gt(0), Lt(1), Doc("Learning rate of Adam; by default the preset's.")] = None
    device: Annotated[Device, Doc("Where it is trained.")] = "cpu"
    seed: Annotated[Seed, Doc("Seed; another one gives another network.")] = 1
    threads: Annotated[
        Threads,
        Doc(
            "Threads; another number gives other bits. By default one for each core, of a job those of the setting "
            "`job_threads`."
        ),
    ] = None
    memory: Memory = MEMORY
    publish: Annotated[bool, Doc("Publish the new version.")] = True
    again: Annotated[bool, Doc("Train even if the published version was made of exactly this.")] = False


@dataclass(frozen=True, kw_only=True)
class TrainingOptions(NetworkOptions):
    """How a network is trained by epochs."""

    panel: ClassVar[Panel] = Panel(
        "Training",
        rare=("patience", "decay", "dropout", "batch", "accumulate", "validation_share", "embeddings"),
    )

    epochs: Annotated[Few | None, Doc("Epochs at most; by default the preset's.")] = None
    patience: Annotated[Few, Doc("Epochs without a lower validation loss that end it.")] = 3
    decay: Annotated[
        Literal["none", "linear"] | None,
        Doc(
            "none, or linear: after a fifth of all epochs the learning rate falls to a fiftieth at their end; by "
            "default the preset's."
        ),
    ] = None
    dropout: Annotated[
        float | None, Ge(0), Lt(1), Doc("Share of an embedding's numbers left out in a batch; by default the preset's.")
    ] = None
    batch: Annotated[Count | None, Doc("Examples a batch; by default the preset's.")] = None
    accumulate: Annotated[Few, Doc("Batches a step.")] = 1
    max_tokens: Annotated[Few, Doc("Pieces of a text that are read.")] = 128
    validation_share: Annotated[float, Gt(0), Lt(1), Doc("Of the utterances, never trained on.")] = 0.05
    embeddings: Annotated[
        Literal["vectors", "random"] | None,
        Doc(
            "What they start from: vectors of the pieces, learnt from the logs first, or random numbers; by default "
            "the preset's."
        ),
    ] = None

    def config(self, sizes: NetworkPreset, *, threads: int, accumulate: int, workers: int = 1) -> TrainConfig:
        """Return how the network is trained, completed by the preset."""
        from refaug.rater.training.loop import TrainConfig  # noqa: PLC0415  torch

        return TrainConfig(
            epochs=sizes.epochs if self.epochs is None else self.epochs,
            patience=self.patience,
            learning_rate=sizes.learning_rate if self.learning_rate is None else self.learning_rate,
            decay=sizes.decay if self.decay is None else self.decay,
            dropout=sizes.dropout if self.dropout is None else self.dropout,
            accumulate=accumulate,
            seed=self.seed,
            device=self.device,
            threads=threads,
            workers=workers,
        )

    def start(self, sizes: NetworkPreset) -> Start:
        """Return what the embeddings start from."""
        return sizes.start if self.embeddings is None else self.embeddings
