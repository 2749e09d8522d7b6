"""`refaug adem …`: pre-training the networks that ADEM's encoder is taken from."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final

import typer

from refaug.cli.adem import versions
from refaug.cli.shared.field_options import with_options
from refaug.cli.shared.network_commands import ThreadsOption, run_training
from refaug.cli.shared.output import JsonFlag, MemoryOption, parse_size
from refaug.core.errors import Usage

if TYPE_CHECKING:
    from refaug.rater.adem.pretraining.build import VhredOrder
    from refaug.rater.adem.pretraining.windows import WindowSettings
    from refaug.rater.adem.vhred.sizes import VhredConfig, VhredPreset
    from refaug.rater.training.loop import TrainConfig

app = typer.Typer(
    help="Train judges on people's ratings: ADEM, and the networks that its encoder is taken from.",
    no_args_is_help=True,
)

_KIND: Final = "vhred"


@dataclass(frozen=True, kw_only=True)
class PretrainingOptions:
    """How a VHRED is pre-trained, as typed; a group of options."""

    preset: Annotated[str, typer.Option(help="Sizes that go together: small, base or paper.")] = "base"
    cell: Annotated[
        str,
        typer.Option(
            help="ln-gru: with layer normalisation, as published; gru: without; random: weights as they are drawn, "
            "never trained."
        ),
    ] = "ln-gru"
    latent: Annotated[
        str | None, typer.Option(help="Size of each turn's Gaussian, or none for a HRED; by default the preset's.")
    ] = None
    turns: Annotated[int, typer.Option(help="Turns of a context that are read.", min=1, max=64)] = 3
    max_tokens: Annotated[int | None, typer.Option(help="Pieces of a turn that are read; the preset's.", min=1)] = None
    steps: Annotated[int | None, typer.Option(help="Batches, at most; by default the preset's.", min=1)] = None
    kl_steps: Annotated[
        int | None,
        typer.Option(help="Batches until the KL divergence counts in full; by default the preset's.", min=0),
    ] = None
    word_drop: Annotated[
        float, typer.Option(help="Share of the decoder's inputs that become the unknown piece in training.")
    ] = 0.25
    batch: Annotated[int | None, typer.Option(help="Windows of dialogues a batch; the preset's.", min=1)] = None
    learning_rate: Annotated[float | None, typer.Option(help="Of Adam; by default the preset's.")] = None
    decay: Annotated[
        str, typer.Option(help="none, or linear: after a fifth of all batches the rate falls to a fiftieth.")
    ] = "linear"
    clip_norm: Annotated[float | None, typer.Option(help="Longest gradient; by default the preset's.")] = None
    round_steps: Annotated[int, typer.Option(help="Batches between two validations.", min=1)] = 1_000
    patience: Annotated[int, typer.Option(help="Validations without a lower loss that end it.", min=1)] = 5
    validation_share: Annotated[float, typer.Option(help="Of the dialogues, never trained on.")] = 0.02
    more_texts: Annotated[
        list[str] | None,
        typer.Option(help="A further log: its turns teach which pieces there are; may be repeated.", metavar="LOG"),
    ] = None
    exclude: Annotated[
        list[Path] | None,
        typer.Option(
            help="A test file: dialogues with a context of it right before a reference or reply, or with a long last "
            "turn of a context, are left out; may be repeated.",
            metavar="ITEMS",
        ),
    ] = None
    device: Annotated[str, typer.Option(help="cpu or cuda.")] = "cpu"
    seed: Annotated[int, typer.Option(help="Another seed, another network.", min=0, max=2**32 - 1)] = 1
    threads: ThreadsOption = None
    memory: MemoryOption = "2GiB"
    publish: Annotated[bool, typer.Option(help="Let it be what its name stands for from now on.")] = True
    again: Annotated[
        bool, typer.Option("--again", help="Train even if the published version was made of exactly this.")
    ] = False

    def order(self, name: str | None, logs: list[str]) -> VhredOrder:
        """Return the order that these options make, completed by the preset."""
        from refaug.cli.adem.excluded_files import excluded_file  # noqa: PLC0415  torch
        from refaug.rater.adem.pretraining.build import VhredOrder  # noqa: PLC0415
        from refaug.rater.adem.vhred.sizes import PRESETS  # noqa: PLC0415

        if self.preset not in PRESETS:
            raise Usage(f"there is no preset {self.preset!r}", remedy=f"one of: {', '.join(PRESETS)}")
        sizes, windows = PRESETS[self.preset], self._windows()
        return VhredOrder(
            name=name or logs[0],
            logs=tuple(logs),
            more_texts=tuple(self.more_texts or ()),
            model=self._config(sizes),
            windows=windows,
            kl_steps=sizes.kl_steps if self.kl_steps is None else self.kl_steps,
            weight_scale=sizes.weight_scale,
            exclude=tuple(excluded_file(path) for path in self.exclude or ()),
            training=self._training(sizes, windows.rounds),
            pieces=sizes.pieces,
            memory=parse_size(self.memory),
            publish=self.publish,
        )

    def _config(self, sizes: VhredPreset) -> VhredConfig:
        from refaug.rater.adem.vhred.sizes import VhredConfig  # noqa: PLC0415

        return VhredConfig(
            embedding=sizes.embedding,
            utterance=sizes.utterance,
            context=sizes.context,
            latent=self._latent(sizes),
            decoder=sizes.decoder,
            max_tokens=self.max_tokens or sizes.max_tokens,
            turns=self.turns,
            cell=self.cell,  # type: ignore[arg-type]
        )

    def _latent(self, sizes: VhredPreset) -> int:
        if self.latent is None:
            return sizes.latent
        if self.latent == "none":
            return 0
        if not (self.latent.isascii() and self.latent.isdigit()):
            raise Usage(f"--latent {self.latent}", remedy="a whole number, or none")
        return int(self.latent[:9])

    def _windows(self) -> WindowSettings:
        from refaug.rater.adem.pretraining.windows import WindowSettings  # noqa: PLC0415  torch
        from refaug.rater.adem.vhred.sizes import PRESETS  # noqa: PLC0415

        sizes = PRESETS[self.preset]
        return WindowSettings(
            turns=self.turns,
            batch=self.batch or sizes.batch,
            steps=self.steps or sizes.steps,
            round_steps=min(self.round_steps, self.steps or sizes.steps),
            word_drop=self.word_drop,
            validation_share=self.validation_share,
            seed=self.seed,
        )

    def _training(self, sizes: VhredPreset, rounds: int) -> TrainConfig:
        from refaug.evaluation.home.indexes import cores  # noqa: PLC0415  compiles
        from refaug.rater.training.loop import TrainConfig  # noqa: PLC0415  torch

        return TrainConfig(
            epochs=rounds,
            patience=self.patience,
            learning_rate=sizes.learning_rate if self.learning_rate is None else self.learning_rate,
            decay=self.decay,  # type: ignore[arg-type]
            clip_norm=sizes.clip_norm if self.clip_norm is None else self.clip_norm,
            seed=self.seed,
            device=self.device,
            threads=self.threads or cores(),
        )


@app.command("pretrain")
@with_options
def pretrain_command(
    context: typer.Context,
    logs: Annotated[list[str], typer.Argument(help="Logs that are learned from.", metavar="LOG…")],
    *,
    name: Annotated[str | None, typer.Option(help="Name of the VHRED; by default that of the first log.")] = None,
    options: PretrainingOptions,
    as_json: JsonFlag = False,
) -> None:
    """Pre-train a VHRED on dialogues, or draw the weights of one; stopped, the same command goes on where it was."""
    from refaug.cli.adem.excluded_files import read_excluded  # noqa: PLC0415
    from refaug.evaluation.home.vhreds import vhred_places  # noqa: PLC0415  torch
    from refaug.rater.adem.pretraining.build import pretrain_vhred  # noqa: PLC0415

    order, places = options.order(name, logs), vhred_places(context.obj)
    run_training(
        context.obj,
        _KIND,
        lambda progress, on_now, on_epoch: pretrain_vhred(
            places, order, progress, on_now, on_epoch, read_excluded=read_excluded, again=options.again
        ),
        versions.report_facts,
        as_json=as_json,
    )


@app.command("resume")
def resume_command(
    context: typer.Context,
    name: Annotated[str, typer.Argument(help="Name of the VHRED.", metavar="NAME")],
    as_json: JsonFlag = False,
) -> None:
    """Go on with a pre-training that was stopped, with the settings that it was started with."""
    from refaug.cli.adem.excluded_files import read_excluded  # noqa: PLC0415
    from refaug.evaluation.home.vhreds import vhred_places  # noqa: PLC0415  torch
    from refaug.rater.adem.pretraining.build import resume_vhred  # noqa: PLC0415

    places = vhred_places(context.obj)
    run_training(
        context.obj,
        _KIND,
        lambda progress, on_now, on_epoch: resume_vhred(
            places, name, progress, on_now, on_epoch, read_excluded=read_excluded
        ),
        versions.report_facts,
        as_json=as_json,
    )


app.command("list")(versions.list_command)
app.command("show")(versions.show_command)
app.command("publish")(versions.publish_command)
app.command("rollback")(versions.rollback_command)
app.command("gc")(versions.gc_command)
