"""Pre-training a VHRED: from logs to a published version, stage by stage."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field, replace
from typing import Any, ClassVar, Final, NamedTuple, Unpack

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from refaug.core.errors import Usage
from refaug.core.progress import Progress
from refaug.core.text.sentencepiece_tokenizer import SentencePieceTokenizer
from refaug.rater.adem.pretraining.dialogues import (
    CodedDialogues,
    DialogueWindows,
    ExcludedTexts,
    WindowBatch,
    WindowSettings,
    code_dialogues,
    open_dialogues,
    require_dialogues,
)
from refaug.rater.adem.pretraining.latent_report import HeldOutLatents, LatentGaussians
from refaug.rater.adem.pretraining.targets import (
    NO_TEACHERS,
    HeadOrder,
    TeacherOpeners,
    TurnTargets,
    chosen_inputs,
    heads_loss,
    teach,
    with_directions,
)
from refaug.rater.adem.vhred.artefact import KIND, piece_log_likelihoods, save_vhred
from refaug.rater.adem.vhred.encoder import Turns
from refaug.rater.adem.vhred.gaussians import Gaussian, divergence, standard_like
from refaug.rater.adem.vhred.network import VhredNetwork, new_vhred
from refaug.rater.adem.vhred.sizes import VhredConfig
from refaug.rater.language_coverage import Coverage
from refaug.rater.network_folder import TrainingPlaces
from refaug.rater.training.loop import (
    VALIDATION_EPOCH,
    BatchResult,
    TrainingCourse,
    ValidationScores,
    mixed_precision,
    seed_from,
)
from refaug.rater.training.order import (
    PreparedVersion,
    TrainedVersion,
    Training,
    TrainingKeywords,
    TrainingLogs,
    TrainingOrder,
    train_network,
)

# ── The objective of pre-training: the bound on the likelihood of all turns of dialogues ──────────────────────────────


class Noise(NamedTuple):
    """Standard normal numbers, from which latent variables are drawn; None without the variable."""

    turns: Tensor | None  # (turns, latent)
    conversations: Tensor | None  # (windows, conversation)

    def draw_conversations(self, after: Gaussian) -> Tensor:
        """Return the conversations' variable."""
        assert self.conversations is not None, "noise is drawn for the network"
        return after.sample(self.conversations)


class BoundTerms(NamedTuple):
    """The terms of the bound for the turns of a batch."""

    losses: Tensor  # (all steps,): −log p of each piece and of each end, in nats, packed as the turns are
    divergences: Tensor  # (turns,), in nats; zeros without a latent variable
    right: Tensor  # (all steps,): whether the likeliest piece is the true one
    conversations: Tensor  # (windows,): divergences of the conversations' variable, in nats; zeros without it
    contexts: Tensor  # (turns, context): before each turn; where heads are an input, the vector of the turn before
    gaussians: tuple[LatentGaussians, LatentGaussians]  # of the turns, and of the conversations

    def cost(self, weight: float, windows: int, heads: Tensor | float = 0.0) -> Tensor:
        """Return the sum of all terms over the number of windows, with this weight of the divergences."""
        divergences = self.divergences.sum() + self.conversations.sum()
        return (self.losses.sum() + weight * divergences + heads) / windows


def kl_weight(step: int, kl_steps: int) -> float:
    """Return the weight of the divergence in a step: from 0, linearly to 1 after so many steps."""
    return 1.0 if kl_steps <= 0 else min(1.0, step / kl_steps)


def bound_terms(network: VhredNetwork, batch: WindowBatch, noise: Noise, device: str) -> BoundTerms:
    """Return the terms of the bound."""
    with mixed_precision(device):
        states = network.read(batch.dialogues, noise.draw_conversations, batch.dropped)
        before = torch.from_numpy(batch.before).to(device)
        contexts, utterances = states.contexts.flatten(0, 1), states.utterances.flatten(0, 1)
        context, utterance = (nn.functional.embedding(before, each) for each in (contexts, states.heard.flatten(0, 1)))
        latent = prior = posterior = None
        divergences, conversations = context.new_zeros(len(before)), context.new_zeros(batch.window_count)
        if network.latent is not None and noise.turns is not None:
            prior = network.latent.prior(context)
            posterior = network.latent.posterior(context, nn.functional.embedding(before + 1, utterances), prior)
            latent, divergences = posterior.sample(noise.turns), divergence(posterior, prior)
        if (after := states.conversations) is not None:
            conversations = divergence(after, standard_like(after))
        logits = network.decode(batch.turns, network.condition(context, utterance, latent))
    targets = torch.from_numpy(batch.turns.targets).to(device)
    losses = nn.functional.cross_entropy(_single(logits), targets, reduction="none")
    gaussians = LatentGaussians(prior, posterior), LatentGaussians(after and standard_like(after), after)
    right, of_network = logits.argmax(dim=1) == targets, context[:, : network.config.context]
    if network.heads is not None:
        of_network = network.heads.read_from(of_network, nn.functional.embedding(before, utterances))
    return BoundTerms(losses, _single(divergences), right, _single(conversations), of_network, gaussians)


def _single(tensor: Tensor) -> Tensor:
    """Return a tensor in single precision at least."""
    return tensor.to(torch.promote_types(tensor.dtype, torch.float32))


def draw_noise(network: VhredNetwork, batch: WindowBatch, seed: int, device: str) -> Noise:
    """Return noise for a batch, which its number and the seed determine on a device."""

    def draw(purpose: int, rows: int, size: int) -> Tensor | None:
        generator = torch.Generator(device).manual_seed(seed_from([seed, purpose, batch.number]))
        return torch.randn((rows, size), generator=generator, device=device) if size else None

    config = network.config
    return Noise(draw(4, len(batch.before), config.latent), draw(6, batch.window_count, config.conversation))


# ── Pre-training as a task of the shared loop, and what validates it ──────────────────────────────────────────────────

_COMPARED: Final = 1_000  # replies with their context and with a drawn one


class HeldOutFigures(NamedTuple):
    """How well a network predicts dialogues that it was not trained on, in nats."""

    loss: float  # of a piece or an end: the bound, with the whole divergence
    nll: float  # the same without the divergence
    nll_with_context: float  # of turns that follow another one
    nll_without_context: float  # of first turns
    divergence: float  # of a turn
    latents: HeldOutLatents
    accuracy: float  # share of pieces and ends that are the likeliest
    pieces: int


@dataclass(frozen=True)
class PretrainingTask:
    """Windows of dialogues, with the bound on their likelihood as the loss."""

    model: VhredNetwork
    examples: DialogueWindows
    validation: DialogueWindows
    kl_steps: int
    device: str
    targets: TurnTargets | None = None  # what the heads learn

    def evaluate_batch(self, batch: WindowBatch) -> BatchResult:
        """Return the cost of a batch; its number decides the noise and the weight of the divergence."""
        noise = draw_noise(self.model, batch, self.examples.settings.seed, self.device)
        terms = bound_terms(self.model, batch, noise, self.device)
        heads = heads_loss(self.model.heads, terms.contexts, batch, self.targets)
        cost = terms.cost(kl_weight(batch.number, self.kl_steps), batch.window_count, heads)
        return BatchResult(cost, float(terms.right.float().mean()), batch.window_count)

    def validate(self) -> ValidationScores:
        """Return the bound a piece, the share of right pieces, and how often the true context is the better one."""
        figures = held_out_figures(self.model, self.validation, self.device)
        return ValidationScores(figures.loss, figures.accuracy, discrimination(self.model, self.validation))


def held_out_figures(
    network: VhredNetwork, windows: DialogueWindows, device: str = "cpu", targets: TurnTargets | None = None
) -> HeldOutFigures:
    """Measure a network on the windows that validate."""
    network.eval()
    sums, counts = np.zeros(2), np.zeros(2)  # turns with a context, first turns
    divergences, turns, right, latents = 0.0, 0, 0, HeldOutLatents(network, targets)
    with torch.inference_mode():
        for batch in windows.batches(VALIDATION_EPOCH):
            terms = bound_terms(network, batch, draw_noise(network, batch, windows.settings.seed, device), device)
            side = batch.is_first[batch.turns.rows].astype(np.int64)
            sums += np.bincount(side, weights=terms.losses.double().cpu().numpy(), minlength=2)
            counts += np.bincount(side, minlength=2)
            divergences += float(terms.divergences.double().sum())
            turns += len(batch.before)
            right += int(terms.right.sum())
            latents.add(batch, terms)
    pieces = int(counts.sum())
    return HeldOutFigures(
        loss=float(sums.sum() + divergences + latents.divergence) / pieces,
        nll=float(sums.sum()) / pieces,
        nll_with_context=float(sums[0] / counts[0]),
        nll_without_context=float(sums[1] / counts[1]),
        divergence=divergences / turns,
        latents=latents,
        accuracy=right / pieces,
        pieces=pieces,
    )


def discrimination(network: VhredNetwork, windows: DialogueWindows, count: int = _COMPARED) -> float:
    """Return the share of held-out replies that their context makes likelier than a drawn one does, ties half."""
    network.eval()
    chosen = windows.sample(count)
    contexts, replies = list[Turns](), list[NDArray[np.int64]]()
    for first, turns in zip(chosen.first.tolist(), chosen.turns.tolist(), strict=True):
        *context, reply = windows.turns_of(first, turns)
        contexts.append(context)
        replies.append(reply)
    drawn = np.roll(np.arange(len(replies)), len(replies) // 2)
    true_logs, drawn_logs = (
        np.array([logs.sum() for logs in piece_log_likelihoods(network, of, replies)])
        for of in (contexts, [contexts[at] for at in drawn])
    )
    return float(np.mean((true_logs > drawn_logs) + 0.5 * (true_logs == drawn_logs)))


# ── Report ────────────────────


def report_of(
    network: VhredNetwork,
    course: TrainingCourse,
    train: DialogueWindows,
    validation: DialogueWindows,
    targets: TurnTargets | None = None,
) -> dict[str, object]:
    """Measure a trained network on dialogues that it was not trained on; nll is in nats a piece."""
    figures = held_out_figures(network, validation, targets=targets)
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
        **figures.latents.report(figures.divergence, train, validation),
        "discrimination": discrimination(network, validation),
    }


def unigram_nll(train: DialogueWindows, validation: DialogueWindows, vocabulary: int) -> float:
    """Return −log p of a held-out piece by the counts of pieces in training, each counted once more, in nats."""
    counts = np.ones(vocabulary)
    np.add.at(counts, vocabulary - 1, train.turn_count)
    counts[: vocabulary - 1] += train.piece_counts(vocabulary - 1)
    logs = np.log(counts / counts.sum())
    targets = [batch.turns.targets for batch in validation.batches(VALIDATION_EPOCH)]
    return float(-logs[np.concatenate(targets)].mean())


# ── Pre-training a VHRED ──────────────────────────────────────────────────────────────────────────────────────────────

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

    model: VhredConfig = field(default_factory=VhredConfig)
    windows: WindowSettings = field(default_factory=WindowSettings)
    kl_steps: int = 8_000  # until the divergence counts in full
    weight_scale: float | None = None
    exclude: tuple[ExcludedFile, ...] = ()
    heads: HeadOrder = field(default_factory=HeadOrder)

    @classmethod
    def read_settings(cls, written: Mapping[str, Any]) -> dict[str, object]:
        """Return the excluded files."""
        return {"exclude": tuple(ExcludedFile(**each) for each in written["exclude"])}

    def own_inputs(self, sources: TrainingLogs) -> dict[str, object]:
        """Return its settings; of excluded files the content, not the place."""
        excluded = [each.sha256 for each in self.exclude]
        return chosen_inputs({**super().own_inputs(sources), "exclude": excluded}, self.heads)

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
    *,
    read_excluded: ReadExcluded = lambda _files: ExcludedTexts.none(),
    openers: TeacherOpeners = NO_TEACHERS,
    **told: Unpack[TrainingKeywords],
) -> TrainedVersion:
    """Learn the pieces, read the dialogues, train, measure and publish; resume an interrupted run.

    `read_excluded` reads the texts of the excluded files, and `openers` open the teachers of heads. If the published
    vhred was made of exactly these inputs, it is returned as it is, unless `again` is set. A random encoder is not
    trained, and reads no dialogues.
    """

    def train(training: Training[VhredOrder]) -> PreparedVersion:
        tokenizer = training.tokenizer(order.windows.seed, method="bpe")
        config = replace(order.model, vocabulary=tokenizer.vocab_size + 1)
        if config.cell == "random":
            network = new_vhred(config, order.training.seed, _DRAWN_SCALE)
            report: dict[str, object] = {"parameters": network.parameter_count, **training.facts(tokenizer="tokenizer")}
            coverage = None
        else:
            dialogues = _code(tokenizer, read_excluded, training)
            config, targets = teach(config, dialogues, tokenizer, training, openers)
            network = new_vhred(config, order.training.seed, order.weight_scale)
            report = _train(network, dialogues, targets, training)
            coverage = Coverage.read(training.stages.facts("dialogues")["coverage"])
        return training.version(
            with_directions(save_vhred, training.folder),
            network,
            tokenizer,
            report,
            coverage=coverage,
            **_settings(order),
        )

    return train_network(places, order, progress, train, **told)


def _settings(order: VhredOrder) -> dict[str, object]:
    """Return the settings of the training that are its own."""
    return {
        "windows": asdict(order.windows),
        "kl_steps": order.kl_steps,
        "weight_scale": order.weight_scale,
        "exclude": [asdict(each) for each in order.exclude],
        **({"heads": asdict(order.heads)} if order.heads.names else {}),
    }


def _code(
    tokenizer: SentencePieceTokenizer, read_excluded: ReadExcluded, training: Training[VhredOrder]
) -> CodedDialogues:
    """Return the dialogues of the logs as pieces, coded as a stage."""
    order, folder = training.order, training.folder

    def code() -> Mapping[str, Any]:
        excluded = read_excluded(order.exclude)
        return code_dialogues(tokenizer, training.sources, excluded, folder, order.model.max_tokens, training.progress)

    counts = training.stages.run("dialogues", code)
    require_dialogues(counts, ", ".join(order.logs), order.windows.turns)
    return open_dialogues(folder)


def _train(
    network: VhredNetwork, dialogues: CodedDialogues, targets: TurnTargets | None, training: Training[VhredOrder]
) -> dict[str, object]:
    """Train a network, and return the report."""
    order = training.order
    train, validation = (
        DialogueWindows(dialogues, order.windows, is_validation=side, end=network.config.end) for side in (False, True)
    )
    task = PretrainingTask(network, train, validation, order.kl_steps, order.training.device, targets)
    report = report_of(network, training.run(task), train, validation, targets)
    stages = {"tokenizer": "tokenizer", "texts": "dialogues", **({"teachers": "targets"} if targets else {})}
    return {**training.facts(**stages), **report}
