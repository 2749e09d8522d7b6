"""Trainings of ADEM and of the network that its encoder is taken from."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

from refaug.core.options.declaring import Argument, Doc, Ge, Gt, Le, Length, Lt, Metavar
from refaug.core.options.decoding import Options, made_of
from refaug.extras.judges.conversation_options import ConversationOptions
from refaug.operations.operation import Name, Seed, Spec, Text, Threads
from refaug.operations.training import Count, Few

if TYPE_CHECKING:
    from refaug.rater.adem.pretraining.build import ExcludedFile, VhredOrder
    from refaug.rater.adem.pretraining.targets import TeacherChoice
    from refaug.rater.adem.scorer.settings import ScorerSettings


@dataclass(frozen=True, kw_only=True)
class PretrainVhred(ConversationOptions):
    """Pre-train a VHRED on dialogues, or draw the weights of one; stopped, the same command goes on where it was."""

    logs: Annotated[tuple[Name, ...], Length(1, 100), Argument("LOG…"), Doc("Logs that are learned from.")]
    name: Annotated[Name | None, Doc("Name of the VHRED; by default that of the first log.")] = None
    preset: Annotated[Literal["small", "base", "paper"], Doc("Sizes that go together.")] = "base"
    cell: Annotated[
        Literal["ln-gru", "gru", "random"],
        Doc("ln-gru: with layer normalisation, as published; gru: without; random: weights as drawn, never trained."),
    ] = "ln-gru"
    latent: Annotated[
        int | Literal["none"] | None,
        Ge(0),
        Le(10_000),
        Doc("Size of each turn's Gaussian, or none for a HRED; by default the preset's."),
    ] = None
    turns: Annotated[int | None, Ge(1), Le(64), Doc("Turns of a context that are read; by default 3, of a vhcr 9.")] = (
        None
    )
    max_tokens: Annotated[Few | None, Doc("Pieces of a turn that are read; by default the preset's.")] = None
    steps: Annotated[int | None, Ge(1), Le(100_000_000), Doc("Batches, at most; by default the preset's.")] = None
    kl_steps: Annotated[
        int | None,
        Ge(0),
        Le(100_000_000),
        Doc("Batches until the KL divergence counts in full; by default the preset's."),
    ] = None
    word_drop: Annotated[
        float, Ge(0), Lt(1), Doc("Share of the decoder's inputs that become the unknown piece in training.")
    ] = 0.25
    batch: Annotated[Count | None, Doc("Windows of dialogues a batch; by default the preset's.")] = None
    decay: Annotated[
        Literal["none", "linear"], Doc("none, or linear: after a fifth of all batches the rate falls to a fiftieth.")
    ] = "linear"
    clip_norm: Annotated[float | None, Gt(0), Doc("Longest gradient; by default the preset's.")] = None
    round_steps: Annotated[int, Ge(1), Le(100_000_000), Doc("Batches between two validations.")] = 1_000
    patience: Annotated[Few, Doc("Validations without a lower loss that end it.")] = 5
    validation_share: Annotated[float, Gt(0), Lt(1), Doc("Of the dialogues, never trained on.")] = 0.02
    exclude: Annotated[
        tuple[Path, ...],
        Metavar("ITEMS"),
        Doc(
            "Test files: dialogues with a context of one right before a reference or reply, or with a long last turn "
            "of a context, are left out."
        ),
    ] = ()

    def order(
        self, *, threads: int, exclude: Sequence[ExcludedFile], teachers: Mapping[str, TeacherChoice]
    ) -> VhredOrder:
        """Return it as the network is trained, completed by the preset; files and teachers as the face read them."""
        from refaug.rater.adem.pretraining.build import VhredOrder  # noqa: PLC0415  torch
        from refaug.rater.adem.pretraining.dialogues import WindowSettings  # noqa: PLC0415
        from refaug.rater.adem.vhred.sizes import PRESETS, VhredConfig  # noqa: PLC0415
        from refaug.rater.training.loop import TrainConfig  # noqa: PLC0415

        sizes = PRESETS[self.preset]
        steps = self.steps or sizes.steps
        latent, turns = self.latent_size(self.latent, sizes.latent), self.turns or self.context_turns
        batch, round_steps = self.batch or sizes.batch, min(self.round_steps, steps)
        windows = self.windows(WindowSettings, batch=batch, steps=steps, round_steps=round_steps, turns=turns)
        return VhredOrder(
            name=self.name or self.logs[0],
            logs=self.logs,
            more_texts=self.more_texts,
            model=made_of(
                VhredConfig,
                sizes,
                latent=latent,
                conversation=self.conversation_size(self.preset, latent),
                max_tokens=self.max_tokens or sizes.max_tokens,
                turns=turns,
                cell=self.cell,
            ),
            windows=windows,
            kl_steps=sizes.kl_steps if self.kl_steps is None else self.kl_steps,
            weight_scale=sizes.weight_scale,
            exclude=tuple(exclude),
            heads=self.heads(self.preset, self.cell, latent, teachers),
            training=TrainConfig(
                epochs=windows.rounds,
                patience=self.patience,
                learning_rate=sizes.learning_rate if self.learning_rate is None else self.learning_rate,
                decay=self.decay,
                clip_norm=sizes.clip_norm if self.clip_norm is None else self.clip_norm,
                seed=self.seed,
                device=self.device,
                threads=threads,
            ),
            pieces=sizes.pieces,
            memory=self.memory,
            publish=self.publish,
        )


@dataclass(frozen=True, kw_only=True)
class TrainAdem(Options):
    """Fit a scorer to the ratings of test files, on the vectors of a frozen encoder."""

    encoder: Annotated[Spec, Doc("VHRED whose encoder gives the vectors: name or name@version.")]
    name: Annotated[Name | None, Doc("Name of the adem; by default that of the VHRED.")] = None
    form: Annotated[
        Literal["full", "context", "reference"], Doc("full: context and reference; context: C-ADEM; reference: R-ADEM.")
    ] = "full"
    state: Annotated[
        Literal["context", "utterance"], Doc("Of the encoder: context, or utterance, as the released code takes it.")
    ] = "context"
    protocol: Annotated[
        Literal["paper", "released"], Doc("paper, or released: exactly as the code that came with the paper.")
    ] = "paper"
    components: Annotated[int, Ge(1), Le(10_000), Doc("Principal components of the vectors.")] = 50
    l2: Annotated[float, Ge(0), Le(1_000), Doc("Weight of the norm of the parameters in the loss.")] = 0.075
    rate: Annotated[
        float | None, Gt(0), Le(1), Doc("Learning rate of Adam; by default 0.01, with protocol released 0.001.")
    ] = None
    balance: Annotated[
        Literal["length", "none"], Doc("length: rows are repeated until length says nothing of the rating; or none.")
    ] = "length"
    seed: Annotated[Seed, Doc("Of the validation contexts and the batches.")] = 1
    without_systems: Annotated[tuple[Text, ...], Metavar("SYSTEM"), Doc("Systems whose replies are left out.")] = ()
    fraction: Annotated[float, Gt(0), Le(1), Doc("Share of the contexts of each file that is used.")] = 1.0
    threads: Threads = None
    publish: Annotated[bool, Doc("Publish the new version.")] = True

    def settings(self) -> ScorerSettings:
        """Return how the scorer is fitted."""
        from refaug.rater.adem.scorer.rated_triples import Form  # noqa: PLC0415  numpy
        from refaug.rater.adem.scorer.settings import ScorerSettings  # noqa: PLC0415

        balanced = self.balance == "length"
        return made_of(ScorerSettings, self, form=Form(self.form), penalty=self.l2, balanced=balanced)
