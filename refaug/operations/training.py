"""Trainings of networks by epochs: the options of all, a rater, a network of RUBER."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import MISSING, dataclass, fields
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Final, Literal

from refaug.core.errors import Usage
from refaug.core.options.declaring import Argument, Doc, Ge, Gt, Le, Length, Lt, Metavar, Panel
from refaug.core.options.decoding import Options, made_of
from refaug.operations.operation import MEMORY, Cluster, Memory, Name, Operation, Seed, Spec, Threads

if TYPE_CHECKING:
    from refaug.rater.training.loop import TrainConfig
    from refaug.rater.training.order import NetworkPreset
    from refaug.rater.training.pair_corpus import PairSettings

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

    def of_pieces(self, sizes: NetworkPreset) -> dict[str, Any]:
        """Return what orders of networks over pieces share beside logs and training."""
        return {
            "more_texts": self.more_texts,
            "pieces": sizes.pieces,
            "start": sizes.start if self.embeddings is None else self.embeddings,
            "memory": self.memory,
            "publish": self.publish,
        }

    def of_pairs(self, sizes: NetworkPreset, limit: int | None) -> PairSettings:
        """Return which pairs are learned from, so many an epoch."""
        from refaug.rater.training.pair_corpus import PairSettings  # noqa: PLC0415  torch

        batch = self.batch or sizes.batch
        return PairSettings(batch=batch, validation_share=self.validation_share, limit=limit, seed=self.seed)


if TYPE_CHECKING:
    from refaug.rater.cross.build import CrossOrder
    from refaug.rater.dual.build import DualOrder
    from refaug.rater.frozen.build import LinearOrder, TowerOrder
    from refaug.rater.nn.build import RaterOrder
    from refaug.rater.training.order import TrainingOrder

NN: Final = "nn"
CROSS: Final = "cross"
DUAL: Final = "dual"
LINEAR: Final = "linear"
ENCODER: Final = "encoder"
OVER_ENCODERS: Final = (LINEAR, ENCODER)
_OF_ALL: Final = ("logs", "name", "network", "seed", "threads", "memory", "publish", "again", "validation_share")
_OF_EPOCHS: Final = (
    *("learning_rate", "device", "epochs", "patience", "decay", "dropout", "batch", "accumulate", "preset"),
    "positives",
)
_OPTIONS: Final[Mapping[str, tuple[str, ...]]] = {  # of networks that have few
    DUAL: (*_OF_ALL, *_OF_EPOCHS, "more_texts", "max_tokens"),
    LINEAR: (*_OF_ALL, "encoder"),
    ENCODER: (*_OF_ALL, *_OF_EPOCHS, "encoder", "seeds"),
}


@dataclass(frozen=True, kw_only=True)
class TrainRater(TrainingOptions, Operation):
    """Train a rater on logs; stopped, the same command goes on where it was."""

    operation: ClassVar[str] = "rater-train"
    runs: ClassVar[str] = "refaug.service.jobs.kinds.training:rater_job"
    panel: ClassVar[Panel] = Panel("Rater", rare=("seeds", "positives", "min_words", "min_chars", "on", "workers"))

    logs: Annotated[tuple[Name, ...], Length(1, 100), Argument("LOG…"), Doc("Logs that are learned from.")]
    name: Annotated[Name | None, Doc("Name of the rater; by default that of the first log.")] = None
    network: Annotated[
        Literal["nn", "cross", "dual", "linear", "encoder"],
        Doc(
            "nn: the Bi-GRU of the method, trained on utterances that got several responses; cross: a Transformer that "
            "reads up to three turns, gold and reply at once, trained on every pair of the logs; dual: two "
            "towers over words and pairs of words, trained on every pair in minutes; linear: the closed form over an "
            "encoder's vectors of turns and replies; encoder: the mean of several small networks over these vectors."
        ),
    ] = NN
    encoder: Annotated[
        Spec | None, Doc("Encoder of the home whose vectors linear and encoder read: NAME or NAME@VERSION.")
    ] = None
    seeds: Annotated[int, Ge(1), Le(64), Doc("Networks of encoder, with a seed each; the rater is their mean.")] = 5
    preset: Annotated[
        Literal["paper", "large", "base", "small"],
        Doc("Sizes that go together: paper, base or small; for cross large, base or small; else base or small."),
    ] = "base"
    positives: Annotated[Count | None, Doc("Positive examples an epoch, drawn again each time; by default all.")] = None
    min_words: Annotated[
        Count | None, Doc("Words of the shortest utterance of nn; by default four, or ten characters.")
    ] = None
    min_chars: Annotated[Count | None, Doc("The same in characters, where words are not set apart by spaces.")] = None
    negatives: Annotated[
        Literal["random", "hard", "mixed", "noise"] | None,
        Doc(
            "For nn random: responses to drawn utterances (default); hard: those that share rare words with the good "
            "one; mixed: half of either. For cross random, mixed (default): also other turns of the dialogue and hard "
            "ones, or noise: also the reply with its words dropped, shuffled or repeated."
        ),
    ] = None
    on: Annotated[Cluster, Doc("Train on a cluster of Ray: HOST:PORT, auto on one of its machines, or local.")] = None
    workers: Annotated[
        int | None,
        Ge(1),
        Le(1_024),
        Doc(
            "With `on`: processes that share the batches of a step, each with one thread unless `threads` says "
            "otherwise. N of them train what one process trains with `accumulate` N."
        ),
    ] = None

    def check(self) -> None:
        """Refuse options of other networks, and workers without a cluster."""
        if self.network in _OPTIONS:
            self._refuse_others(_OPTIONS[self.network])
            if self.preset not in ("base", "small"):
                raise Usage(f"network {self.network} has no preset {self.preset}", field="preset")
            if self.network in OVER_ENCODERS and self.encoder is None:
                raise Usage(
                    f"network {self.network} reads the vectors of an encoder",
                    remedy="name one of the home: refaug artefacts list encoder",
                    field="encoder",
                )
            return
        if self.encoder is not None:
            raise Usage(f"network {self.network} reads no encoder's vectors", remedy="leave it out", field="encoder")
        if self.seeds != TrainRater.seeds:
            raise Usage(
                f"network {self.network} has one seed", remedy="train it again with another --seed", field="seeds"
            )
        if self.preset == ("large" if self.network == NN else "paper"):
            raise Usage(f"network {self.network} has no preset {self.preset}", field="preset")
        if self.network == NN and self.negatives == "noise":
            raise Usage("network nn knows no negatives by noise", remedy="network cross", field="negatives")
        of_nn = {"min_words": self.min_words, "min_chars": self.min_chars, "negatives": self.negatives == "hard"}
        if self.network == CROSS and (stated := [name for name, setting in of_nn.items() if setting]):
            message = "network cross takes all utterances, with negatives random, mixed or noise"
            raise Usage(message, remedy="network nn, or leave it out", field=stated[0])
        if (self.on is None) != (self.workers is None):
            message = "both or neither: on names the cluster, workers the number of processes that train"
            raise Usage(message, field="workers" if self.on is None else "on")
        if self.batches_a_step % (self.workers or 1):
            message = f"{self.workers} workers cannot share steps of {self.accumulate} batches evenly"
            raise Usage(message, remedy="accumulate as a multiple of workers", field="accumulate")

    def _refuse_others(self, own: tuple[str, ...]) -> None:
        """Refuse an option that the network does not have, unless it is as by default."""
        for option in fields(self):
            if option.name in own or option.default is MISSING or getattr(self, option.name) == option.default:
                continue
            raise Usage(f"network {self.network} has no such option", remedy="leave it out", field=option.name)

    @property
    def rater_name(self) -> str:
        """The rater that is trained."""
        return self.name or self.logs[0]

    @property
    def batches_a_step(self) -> int:
        """The batches of a step: one for each worker, unless the options say otherwise."""
        return self.workers or 1 if self.accumulate == 1 else self.accumulate

    def order(self, *, threads: int) -> TrainingOrder:
        """Return it as the network is trained; a worker of a cluster has one thread, unless the options say so."""
        threads = threads if self.workers is None else self.threads or 1
        orders = {
            NN: self._nn_order,
            CROSS: self._cross_order,
            DUAL: self._dual_order,
            LINEAR: self._linear_order,
            ENCODER: self._tower_order,
        }
        return orders[self.network](threads)

    def _nn_order(self, threads: int) -> RaterOrder:
        from refaug.logs.pairs import SharedSettings  # noqa: PLC0415  duckdb
        from refaug.rater.nn.build import PRESETS, RaterOrder  # noqa: PLC0415  torch
        from refaug.rater.nn.sizes import RaterConfig  # noqa: PLC0415
        from refaug.rater.training.examples import ExampleSettings  # noqa: PLC0415

        sizes = PRESETS[self.preset]
        is_limited = self.min_words is not None or self.min_chars is not None
        return RaterOrder(
            name=self.rater_name,
            logs=self.logs,
            model=made_of(RaterConfig, sizes, max_tokens=self.max_tokens),
            examples=ExampleSettings(
                batch=self.batch or sizes.batch,
                limit=self.positives,
                validation_share=self.validation_share,
                seed=self.seed,
                negatives=self.negatives or "random",  # type: ignore[arg-type]  # `check` refuses "noise"
            ),
            training=self.config(sizes, threads=threads, accumulate=self.batches_a_step, workers=self.workers or 1),
            shared=SharedSettings(min_words=self.min_words or 1, min_chars=self.min_chars or 1, seed=self.seed)
            if is_limited
            else None,
            **self.of_pieces(sizes),
        )

    def _cross_order(self, threads: int) -> CrossOrder:
        from refaug.rater.cross.build import PRESETS, CrossOrder  # noqa: PLC0415  torch
        from refaug.rater.cross.examples import CrossExampleSettings  # noqa: PLC0415
        from refaug.rater.cross.sequences import CrossConfig  # noqa: PLC0415

        sizes = PRESETS[self.preset]
        return CrossOrder(
            name=self.rater_name,
            logs=self.logs,
            model=made_of(CrossConfig, sizes, max_tokens=self.max_tokens),
            examples=CrossExampleSettings(
                batch=self.batch or sizes.batch,
                wrong=sizes.wrong,
                negatives=self.negatives or "mixed",  # type: ignore[arg-type]  # `check` refuses "hard"
                validation_share=self.validation_share,
                limit=self.positives,
                seed=self.seed,
            ),
            training=self.config(sizes, threads=threads, accumulate=self.batches_a_step, workers=self.workers or 1),
            **self.of_pieces(sizes),
        )

    def _dual_order(self, threads: int) -> DualOrder:
        from refaug.rater.dual.build import PRESETS, DualOrder  # noqa: PLC0415  torch
        from refaug.rater.dual.checkpoint import DualConfig  # noqa: PLC0415

        sizes = PRESETS[self.preset]
        return DualOrder(
            name=self.rater_name,
            logs=self.logs,
            model=made_of(DualConfig, sizes, max_tokens=self.max_tokens),
            examples=self.of_pairs(sizes, self.positives),
            training=self.config(sizes, threads=threads, accumulate=self.accumulate),
            **self.of_pieces(sizes),
        )

    def _linear_order(self, threads: int) -> LinearOrder:
        from refaug.rater.frozen.build import LinearOrder  # noqa: PLC0415  torch
        from refaug.rater.training.loop import TrainConfig  # noqa: PLC0415
        from refaug.rater.training.pair_corpus import PairSettings  # noqa: PLC0415

        assert self.encoder is not None  # `check` refuses None
        return LinearOrder(
            name=self.rater_name,
            logs=self.logs,
            encoder=self.encoder,
            examples=PairSettings(validation_share=self.validation_share, seed=self.seed),
            training=TrainConfig(seed=self.seed, threads=threads),
            memory=self.memory,
            publish=self.publish,
        )

    def _tower_order(self, threads: int) -> TowerOrder:
        from refaug.rater.frozen.build import PRESETS, TowerOrder  # noqa: PLC0415  torch

        assert self.encoder is not None  # `check` refuses None
        sizes = PRESETS[self.preset]
        return TowerOrder(
            name=self.rater_name,
            logs=self.logs,
            encoder=self.encoder,
            hidden=sizes.hidden,
            heads=self.seeds,
            examples=self.of_pairs(sizes, self.positives),
            training=self.config(sizes, threads=threads, accumulate=self.accumulate),
            memory=self.memory,
            publish=self.publish,
        )

    def resources(self) -> tuple[str, ...]:
        """Return the rater."""
        return (f"rater/{self.rater_name}",)


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

        sizes = PRESETS[self.preset]
        return RuberOrder(
            name=self.name or self.logs[0],
            logs=self.logs,
            model=made_of(RuberConfig, sizes, max_tokens=self.max_tokens, readers=self.readers),
            pairs=self.of_pairs(sizes, self.pairs),
            margin=self.margin,
            training=self.config(sizes, threads=threads, accumulate=self.accumulate),
            **self.of_pieces(sizes),
        )
