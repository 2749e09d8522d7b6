"""Pre-training a VHRED: from logs to a published version, stage by stage."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field, replace
from typing import Any, ClassVar, Final

import numpy as np

from refaug.core.artefacts.build_stages import Stages
from refaug.core.errors import Usage
from refaug.core.progress import Progress
from refaug.core.text.sentencepiece_tokenizer import SentencePieceTokenizer
from refaug.rater.adem.pretraining.dialogues import (
    CodedDialogues,
    code_dialogues,
    open_dialogues,
    require_dialogues,
)
from refaug.rater.adem.pretraining.excluded_texts import ExcludedTexts
from refaug.rater.adem.pretraining.task import HeldOutFigures, PretrainingTask, discrimination, held_out_figures
from refaug.rater.adem.pretraining.windows import DialogueWindows, WindowSettings
from refaug.rater.adem.vhred.artefact import KIND, save_vhred
from refaug.rater.adem.vhred.network import VhredNetwork, new_vhred
from refaug.rater.adem.vhred.sizes import VhredConfig
from refaug.rater.language_coverage import Coverage
from refaug.rater.training.loop import VALIDATION_EPOCH, OnEpoch, OnNow, TrainingCourse, run
from refaug.rater.training.order import (
    PreparedVersion,
    TrainedVersion,
    TrainingLogs,
    TrainingOrder,
    TrainingPlaces,
    details_of,
    inputs_of,
    interrupted_order,
    learn_tokenizer,
    open_training_logs,
    train_version,
    version_folder,
)

# ── report ────────────────────

_LEAST_DIVERGENCE: Final = 0.1  # nats a turn; below, the decoder does without the latent variable


def report_of(
    network: VhredNetwork, course: TrainingCourse, train: DialogueWindows, validation: DialogueWindows
) -> dict[str, object]:
    """Measure a trained network on dialogues that it was not trained on; nll is in nats a piece."""
    figures = held_out_figures(network, validation)
    return {
        "parameters": network.parameter_count,
        "best_epoch": course.best_epoch,
        "epochs": [asdict(epoch) for epoch in course.epochs],
        "dialogues": {"train": train.dialogue_count, "validation": validation.dialogue_count},
        "windows": {"train": train.window_count, "validation": validation.window_count},
        "held_out_pieces": figures.pieces,
        "validation_loss": figures.loss,
        "nll": figures.nll,
        "nll_with_context": figures.nll_with_context,
        "nll_without_context": figures.nll_without_context,
        "unigram_nll": unigram_nll(train, validation, network.config.vocabulary),
        "next_piece_accuracy": figures.accuracy,
        "kl": figures.divergence,
        "latent": latent_state(network, figures),
        "discrimination": discrimination(network, validation),
    }


def latent_state(network: VhredNetwork, figures: HeldOutFigures) -> str:
    """Return a word for what became of the latent variable."""
    if network.latent is None:
        return "none"
    return "collapsed" if figures.divergence < _LEAST_DIVERGENCE else "used"


def unigram_nll(train: DialogueWindows, validation: DialogueWindows, vocabulary: int) -> float:
    """Return −log p of a held-out piece by the counts of pieces in training, each counted once more, in nats."""
    counts = np.ones(vocabulary)
    np.add.at(counts, vocabulary - 1, train.turn_count)
    counts[: vocabulary - 1] += train.piece_counts(vocabulary - 1)
    logs = np.log(counts / counts.sum())
    targets = [batch.turns.targets for batch in validation.batches(VALIDATION_EPOCH)]
    return float(-logs[np.concatenate(targets)].mean())


# ── pre-training a VHRED ──────────────────────────────────────────────────────────────────────────────────────────────

_DRAWN_SCALE: Final = 0.01  # of the weights of a random encoder, as the released code draws them


@dataclass(frozen=True, kw_only=True)
class ExcludedFile:
    """A file of items that the training must not see."""

    path: str
    sha256: str


@dataclass(frozen=True, kw_only=True)
class VhredOrder(TrainingOrder):
    """The order of a vhred by name: its logs, sizes and training."""

    kind: ClassVar[str] = KIND
    command: ClassVar[str] = "adem pretrain"

    model: VhredConfig = field(default_factory=VhredConfig)
    windows: WindowSettings = field(default_factory=WindowSettings)
    kl_steps: int = 8_000  # until the divergence counts in full
    weight_scale: float | None = None
    exclude: tuple[ExcludedFile, ...] = ()

    @classmethod
    def read_settings(cls, written: Mapping[str, Any]) -> dict[str, object]:
        """Return the sizes of the network, the windows, and the excluded files."""
        return {
            "model": VhredConfig(**written["model"]),
            "windows": WindowSettings(**written["windows"]),
            "exclude": tuple(ExcludedFile(**each) for each in written["exclude"]),
        }

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.kl_steps < 0:
            raise Usage(f"{self.kl_steps} steps until the divergence counts in full", remedy="0 or more")
        if self.training.epochs != self.windows.rounds:
            raise Usage(f"{self.training.epochs} rounds for {self.windows.steps:,} steps", remedy="as many as needed")


ReadExcluded = Callable[[tuple[ExcludedFile, ...]], ExcludedTexts]


def pretrain_vhred(
    places: TrainingPlaces,
    order: VhredOrder,
    progress: Progress,
    on_now: OnNow = lambda _now: None,
    on_epoch: OnEpoch = lambda _figures: None,
    *,
    read_excluded: ReadExcluded = lambda _files: ExcludedTexts.none(),
    again: bool = False,
) -> TrainedVersion:
    """Learn the pieces, read the dialogues, train, measure and publish; resume an interrupted run.

    `read_excluded` reads the texts of the excluded files. If the published vhred was made of exactly these inputs, it
    is returned as it is, unless `again` is set. A random encoder is not trained, and reads no dialogues.
    """
    sources = open_training_logs(places.logs, order)

    def train_stages(stages: Stages, input_hash: str) -> PreparedVersion:
        tokenizer = learn_tokenizer(sources, order, order.windows.seed, stages, progress, method="bpe")
        config = replace(order.model, vocabulary=tokenizer.vocab_size + 1)
        if config.cell == "random":
            network = new_vhred(config, order.training.seed, _DRAWN_SCALE)
            report: dict[str, object] = {"parameters": network.parameter_count, "tokenizer": stages.facts("tokenizer")}
            coverage = None
        else:
            network = new_vhred(config, order.training.seed, order.weight_scale)
            dialogues = _code(tokenizer, sources, order, read_excluded, stages, progress)
            report = _train(network, dialogues, order, stages, progress, on_now, on_epoch)
            coverage = Coverage.read(stages.facts("dialogues")["coverage"])
        version = version_folder(stages)
        name = save_vhred(
            version,
            network,
            tokenizer,
            languages=sources.languages,
            coverage=coverage,
            report=report,
            details=details_of(order, sources, stages, input_hash, **_settings(order)),
        )
        return PreparedVersion(version, name, report)

    return train_version(places, order, _inputs(order, sources), train_stages, again=again)


def resume_vhred(
    places: TrainingPlaces,
    name: str,
    progress: Progress,
    on_now: OnNow = lambda _now: None,
    on_epoch: OnEpoch = lambda _figures: None,
    *,
    read_excluded: ReadExcluded = lambda _files: ExcludedTexts.none(),
) -> TrainedVersion:
    """Continue an interrupted training as it was ordered; the newest, if there are several."""
    order = interrupted_order(
        places.cache, VhredOrder, name, lambda order: _inputs(order, open_training_logs(places.logs, order))
    )
    return pretrain_vhred(places, order, progress, on_now, on_epoch, read_excluded=read_excluded, again=True)


def _settings(order: VhredOrder) -> dict[str, object]:
    """Return the settings of the training that are its own."""
    return {
        "windows": asdict(order.windows),
        "kl_steps": order.kl_steps,
        "weight_scale": order.weight_scale,
        "exclude": [asdict(each) for each in order.exclude],
    }


def _inputs(order: VhredOrder, sources: TrainingLogs) -> dict[str, object]:
    """Return the inputs that determine the vhred; of excluded files their content, not their place."""
    settings = {**_settings(order), "exclude": [each.sha256 for each in order.exclude]}
    return inputs_of(order, sources, model=asdict(order.model), **settings)


def _code(
    tokenizer: SentencePieceTokenizer,
    sources: TrainingLogs,
    order: VhredOrder,
    read_excluded: ReadExcluded,
    stages: Stages,
    progress: Progress,
) -> CodedDialogues:
    """Return the dialogues of the logs as pieces, coded as a stage."""

    def code() -> Mapping[str, Any]:
        excluded = read_excluded(order.exclude)
        return code_dialogues(tokenizer, sources, excluded, stages.folder, order.model.max_tokens, progress)

    counts = stages.run("dialogues", code)
    require_dialogues(counts, ", ".join(order.logs), order.windows.turns)
    return open_dialogues(stages.folder)


def _train(
    network: VhredNetwork,
    dialogues: CodedDialogues,
    order: VhredOrder,
    stages: Stages,
    progress: Progress,
    on_now: OnNow,
    on_epoch: OnEpoch,
) -> dict[str, object]:
    """Train a network, and return the report."""
    train, validation = (
        DialogueWindows(dialogues, order.windows, is_validation=side, end=network.config.end) for side in (False, True)
    )
    task = PretrainingTask(network, train, validation, order.kl_steps, order.training.device)
    course = run(task, order.training, stages.folder / "training", progress, on_now, on_epoch)
    progress.stage("measuring")
    return {
        "tokenizer": stages.facts("tokenizer"),
        "texts": stages.facts("dialogues"),
        **report_of(network, course, train, validation),
    }
