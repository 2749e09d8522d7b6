"""The training loop over seeded batches, with checkpoints: an interrupted run ends like an uninterrupted one."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass, field
from datetime import timedelta
from pathlib import Path
from time import perf_counter
from typing import Any, Final, Literal, NamedTuple, Protocol, TypeVar, get_args

import torch
from torch import Tensor, distributed, nn
from torch.distributed import TCPStore  # type: ignore[attr-defined]

from refaug.core.errors import CheckFailed, Corrupt, Usage
from refaug.core.files import make_folder, read_json, write_json
from refaug.core.progress import Progress
from refaug.rater.torch_networks import read_tensors, write_tensors

# ── The processes that train one network together, as the loop sees them: alone, or several ───────────────────────────
#
# Each of them computes some of the batches of a step. Sums of gradients are exchanged before each step of Adam, so all
# have the same weights, and the network is, up to the order of sums, that of one process with the same batches.

_TIMEOUT: Final = timedelta(hours=12)  # the first process validates alone meanwhile; a death is noticed without it
_JOIN_TIMEOUT: Final = timedelta(minutes=5)


class BatchFigures(NamedTuple):
    """The loss of a batch, the share that is right, and its examples."""

    loss: float
    right: float
    examples: int


class Peers(Protocol):
    """The processes of one training; `rank` is the number of this one."""

    @property
    def rank(self) -> int:
        """The number of this process, from 0."""

    @property
    def size(self) -> int:
        """The number of processes."""

    def gather(self, own: Sequence[tuple[int, BatchFigures]], count: int) -> list[BatchFigures]:
        """Return the figures of all `count` batches of a step; each process gives its own, with their places."""

    def add_gradients(self, model: nn.Module) -> None:
        """Replace the gradients of each process by their sum over all."""

    def of_first(self, numbers: Sequence[float]) -> list[float]:
        """Return the numbers of the first process to all."""


class Alone:
    """A single process."""

    rank, size = 0, 1

    def gather(self, own: Sequence[tuple[int, BatchFigures]], count: int) -> list[BatchFigures]:
        """Return the figures as they are."""
        assert len(own) == count
        return [figures for _, figures in own]

    def add_gradients(self, model: nn.Module) -> None:
        """Leave the gradients as they are."""

    def of_first(self, numbers: Sequence[float]) -> list[float]:
        """Return the numbers as they are."""
        return list(numbers)


class ProcessGroup:
    """Several processes that talk through torch.distributed: gloo on processors, NCCL on GPUs."""

    def __init__(self, rank: int, size: int, device: str, store: Any) -> None:
        self.rank, self.size, self._device = rank, size, device
        backend = "nccl" if device == "cuda" else "gloo"
        distributed.init_process_group(backend, store=store, rank=rank, world_size=size, timeout=_TIMEOUT)

    @staticmethod
    def open_store(host: str, size: int) -> Any:
        """Open the store by which the processes find each other, on a port that is free."""
        return TCPStore(host, 0, size, is_master=True, wait_for_workers=False, timeout=_JOIN_TIMEOUT)

    @staticmethod
    def join_store(host: str, port: int, size: int) -> Any:
        """Return the store that the first process has opened."""
        return TCPStore(host, port, size, is_master=False, wait_for_workers=False, timeout=_JOIN_TIMEOUT)

    def gather(self, own: Sequence[tuple[int, BatchFigures]], count: int) -> list[BatchFigures]:
        """Return the figures of all batches: to each number of one process the others add nothing."""
        table = torch.zeros((count, len(BatchFigures._fields)), dtype=torch.float64, device=self._device)
        for place, figures in own:
            table[place] = torch.tensor(figures, dtype=torch.float64)
        distributed.all_reduce(table)
        return [BatchFigures(loss, right, int(examples)) for loss, right, examples in table.tolist()]

    def add_gradients(self, model: nn.Module) -> None:
        """Replace the gradients of each process by their sum over all."""
        parameters = [parameter for parameter in model.parameters() if parameter.requires_grad]
        for parameter in parameters:
            if parameter.grad is None:  # of a process without a batch in this step
                parameter.grad = torch.zeros_like(parameter)
        gradients = [parameter.grad for parameter in parameters if parameter.grad is not None]
        flat = torch.cat([gradient.reshape(-1) for gradient in gradients])
        distributed.all_reduce(flat)
        begin = 0
        for gradient in gradients:
            gradient.copy_(flat[begin : begin + gradient.numel()].view_as(gradient))
            begin += gradient.numel()

    def of_first(self, numbers: Sequence[float]) -> list[float]:
        """Return the numbers of the first process to all."""
        table = torch.tensor(list(numbers), dtype=torch.float64, device=self._device)
        distributed.broadcast(table, src=0)
        return [float(number) for number in table.tolist()]

    def close(self) -> None:
        """Leave the group."""
        distributed.destroy_process_group()


# ── The training loop ─────────────────────────────────────────────────────────────────────────────────────────────────

_STATE: Final = "state.json"
_BEST: Final = "best.safetensors"
_SLOTS: Final = ("a", "b")  # written in turn: the state names the complete one
_REMEDY: Final = "remove the folder, and train anew"
_SMOOTHING: Final = 0.98  # of the loss shown while the training runs
_STEADY: Final = 0.2  # of a training, before a decaying rate falls
_LEAST_RATE: Final = 0.02  # of the initial rate, at the end

Decay = Literal["none", "linear"]


@dataclass(frozen=True, kw_only=True)
class TrainConfig:
    """Settings of a training; the defaults follow the paper, except for patience."""

    epochs: int = 15
    learning_rate: float = 1e-3
    decay: Decay = "none"  # or linear: after a fifth of all epochs the rate falls to a fiftieth at their end
    dropout: float = 0.0  # share of an embedding's numbers that each batch leaves out
    patience: int = 3  # epochs without a lower validation loss before the training ends
    accumulate: int = 1  # batches to a step
    clip_norm: float | None = None  # longer gradients are scaled down to this norm; None: none is
    seed: int = 1  # of the initial weights; examples have a separate seed
    save_every: int = 500  # steps, besides the end of every epoch
    device: str = "cpu"  # or cuda, with bfloat16 if it is supported
    threads: int = 1
    workers: int = 1  # processes that share the batches of each step; they do not change the network

    def __post_init__(self) -> None:
        if min(self.epochs, self.patience, self.accumulate, self.save_every, self.threads, self.workers) < 1:
            raise Usage("epochs, patience, accumulated batches, steps between saves, threads and workers are 1 or more")
        if self.accumulate % self.workers:
            raise Usage(
                f"{self.workers} workers cannot share steps of {self.accumulate} batches evenly",
                remedy="--accumulate with a multiple of --workers",
            )
        if not 0 < self.learning_rate < 1:
            raise Usage(f"a learning rate of {self.learning_rate}", remedy="such as 0.001")
        if self.decay not in get_args(Decay):
            raise Usage(f"decay {self.decay!r} is not known", remedy=f"one of: {', '.join(get_args(Decay))}")
        if not 0 <= self.dropout < 1:
            raise Usage(f"a dropout of {self.dropout}", remedy="from 0 on, below 1")
        if self.clip_norm is not None and not self.clip_norm > 0:
            raise Usage(f"gradients clipped at a norm of {self.clip_norm}", remedy="above 0, such as 1")
        if self.device not in ("cpu", "cuda"):
            raise Usage(f"device {self.device!r} is not known", remedy="cpu or cuda")
        if self.device == "cuda" and not torch.cuda.is_available():
            raise Usage("there is no CUDA device here, or this torch was built without CUDA", remedy="--device cpu")


@dataclass(frozen=True, kw_only=True)
class EpochFigures:
    """The figures of one epoch."""

    epoch: int  # from 1 on
    train_loss: float
    validation_loss: float
    validation_accuracy: float  # as the task counts it
    auc: float  # positives against negatives
    seconds: float


@dataclass(frozen=True, kw_only=True)
class TrainingCourse:
    """The course of a training: the figures of its epochs."""

    best_epoch: int
    epochs: tuple[EpochFigures, ...]


class TrainingStatus(NamedTuple):
    """The status of a running training."""

    epoch: int
    step: int  # finished batches of this epoch
    steps: int
    loss: float  # a running mean
    accuracy: float  # the same
    examples_a_second: float
    seconds_left: float  # until the end of the last epoch, if the training does not end early


OnNow = Callable[[TrainingStatus], None]
OnEpoch = Callable[[EpochFigures], None]
AnyBatch = TypeVar("AnyBatch")
AnyBatch_co = TypeVar("AnyBatch_co", covariant=True)
VALIDATION_EPOCH: Final = 0  # its batches validate: they are the same after every epoch


class BatchResult(NamedTuple):
    """The loss and accuracy of a network on a batch."""

    loss: Tensor
    right: float  # share of the batch
    examples: int


class ValidationScores(NamedTuple):
    """The scores of a network on examples that it is not trained on."""

    loss: float
    accuracy: float
    auc: float


class BatchedExamples(Protocol[AnyBatch_co]):
    """Examples in batches, which an epoch's number determines."""

    @property
    def epoch_size(self) -> int:
        """The number of examples in an epoch."""

    def batch_count(self) -> int:
        """Return the number of batches in an epoch."""

    def batches(self, number: int, *, skip: int = 0) -> Iterator[AnyBatch_co]:
        """Yield the batches of an epoch, from 1 on, after the first `skip`."""


class Task(Protocol[AnyBatch]):
    """A training task: the network, its examples, and its validation."""

    @property
    def model(self) -> nn.Module:
        """The network with its initial weights; the training changes it."""

    @property
    def examples(self) -> BatchedExamples[AnyBatch]:
        """The examples that the network is trained on."""

    def evaluate_batch(self, batch: AnyBatch) -> BatchResult:
        """Run the network on a batch; the gradient of the loss is not yet computed."""

    def validate(self) -> ValidationScores:
        """Score the network on the validation examples."""


@dataclass
class _State:
    """The state of a training besides weights and Adam's sums."""

    epoch: int = 0  # the current epoch, from 0
    step: int = 0  # its finished batches
    loss_sum: float = 0.0
    bad_epochs: int = 0
    best_epoch: int = -1
    best_loss: float = math.inf
    seconds: float = 0.0
    slot: str = ""
    history: list[dict[str, Any]] = field(default_factory=list)


def run(
    task: Task[AnyBatch],
    config: TrainConfig,
    folder: Path,
    progress: Progress,
    on_now: OnNow = lambda _now: None,
    on_epoch: OnEpoch = lambda _figures: None,
    peers: Peers | None = None,
) -> TrainingCourse:
    """Train until the validation loss stops falling; continue from a checkpoint in `folder` if there is one.

    In the end the network has the weights of the epoch with the least validation loss. With `peers` several processes
    call this with the same task: the batches of a step are shared out, and the first one validates and saves.
    """
    peers = peers or Alone()
    torch.set_num_threads(config.threads)
    make_folder(folder)
    model = task.model.to(config.device)
    adam = torch.optim.Adam(model.parameters(), lr=config.learning_rate)
    state = _load_checkpoint(folder, model, adam, config.device)
    while state.epoch < config.epochs and state.bad_epochs < config.patience:
        _run_epoch(task, adam, config, state, folder, progress, on_now, peers)
        figures = _figures(task, state, peers)
        if not math.isfinite(figures.validation_loss):
            raise CheckFailed(
                f"the validation loss is {figures.validation_loss} after epoch {state.epoch + 1}; nothing is "
                f"published, and the best epoch before it, if there was one, lies in {folder / _BEST}",
                remedy="train again with a lower --learning-rate",
            )
        state.history.append(asdict(figures))
        if figures.validation_loss < state.best_loss:
            state.best_loss, state.best_epoch, state.bad_epochs = figures.validation_loss, state.epoch, 0
            if peers.rank == 0:
                write_tensors(folder / _BEST, model.state_dict())
        else:
            state.bad_epochs += 1
        state.epoch, state.step, state.loss_sum, state.seconds = state.epoch + 1, 0, 0.0, 0.0
        if peers.rank == 0:
            _save_checkpoint(folder, model, adam, state)
        on_epoch(figures)
    if peers.rank == 0:
        model.load_state_dict(read_tensors(folder / _BEST, config.device, remedy=_REMEDY))
    model.to("cpu").eval()
    return TrainingCourse(
        best_epoch=state.best_epoch + 1, epochs=tuple(EpochFigures(**figures) for figures in state.history)
    )


def _figures(task: Task[AnyBatch], state: _State, peers: Peers) -> EpochFigures:
    own = task.validate() if peers.rank == 0 else ValidationScores(0.0, 0.0, 0.0)
    scores = ValidationScores(*peers.of_first(own))
    return EpochFigures(
        epoch=state.epoch + 1,
        train_loss=state.loss_sum / task.examples.batch_count(),
        validation_loss=scores.loss,
        validation_accuracy=scores.accuracy,
        auc=scores.auc,
        seconds=round(state.seconds, 3),
    )


def _run_epoch(
    task: Task[AnyBatch],
    adam: torch.optim.Adam,
    config: TrainConfig,
    state: _State,
    folder: Path,
    progress: Progress,
    on_now: OnNow,
    peers: Peers,
) -> None:
    model, steps, epoch_size = task.model, task.examples.batch_count(), task.examples.epoch_size
    progress.stage(f"epoch {state.epoch + 1} of {config.epochs}", epoch_size, "examples")
    progress.advance(epoch_size * state.step // steps)  # before the interruption
    began, resumed_at, seen = perf_counter(), state.seconds, 0
    shown_loss, shown_accuracy, since_saved = math.nan, math.nan, 0
    own = list[tuple[int, BatchFigures]]()  # of the current step, computed here
    model.train()
    adam.zero_grad(set_to_none=True)
    for batch in task.examples.batches(state.epoch + 1, skip=state.step):
        for group in adam.param_groups:
            group["lr"] = config.learning_rate * rate_at(
                (state.epoch + state.step / steps) / config.epochs, config.decay
            )
        place = state.step % config.accumulate
        if place % peers.size == peers.rank:
            own.append((place if peers.size > 1 else 0, _learn(task, batch, config, state, steps)))
        state.step += 1
        is_whole = state.step % config.accumulate == 0 or state.step == steps
        figures = peers.gather(own, place + 1 if peers.size > 1 else 1) if is_whole or peers.size == 1 else []
        if figures:
            own.clear()
        _require_finite(figures, state, folder)
        if is_whole:
            peers.add_gradients(model)
            if config.clip_norm is not None:
                nn.utils.clip_grad_norm_(model.parameters(), config.clip_norm)
            adam.step()
            adam.zero_grad(set_to_none=True)
        for of_batch in figures:
            state.loss_sum += of_batch.loss
            shown_loss = _smooth(shown_loss, of_batch.loss)
            shown_accuracy = _smooth(shown_accuracy, of_batch.right)
            seen += of_batch.examples
            state.seconds = resumed_at + perf_counter() - began
            progress.advance(of_batch.examples)
        if figures:
            speed = seen / (perf_counter() - began)
            seconds_left = (config.epochs - state.epoch - state.step / steps) * epoch_size / speed
            on_now(TrainingStatus(state.epoch + 1, state.step, steps, shown_loss, shown_accuracy, speed, seconds_left))
        since_saved += 1
        if since_saved >= config.save_every and state.step % config.accumulate == 0 and state.step < steps:
            if peers.rank == 0:
                _save_checkpoint(folder, model, adam, state)
            since_saved = 0


def _learn(task: Task[AnyBatch], batch: AnyBatch, config: TrainConfig, state: _State, steps: int) -> BatchFigures:
    """Add the gradient of a batch to those of its step."""
    if config.dropout:  # depends on the position of the batch, not on what ran before
        torch.manual_seed(seed_from([config.seed, state.epoch, state.step]))
    outcome = task.evaluate_batch(batch)
    of_this_step = min(config.accumulate, steps - state.step // config.accumulate * config.accumulate)
    (outcome.loss / of_this_step).backward()  # type: ignore[no-untyped-call]
    return BatchFigures(float(outcome.loss.detach()), outcome.right, outcome.examples)


def _require_finite(figures: Sequence[BatchFigures], state: _State, folder: Path) -> None:
    """Raise CheckFailed where the loss of one of the last batches is no number."""
    for number, of_batch in enumerate(figures, state.step - len(figures) + 1):
        if not math.isfinite(of_batch.loss):
            raise CheckFailed(
                f"the loss is {of_batch.loss} in batch {number} of epoch {state.epoch + 1}; nothing is "
                f"published, and the best epoch before it, if there was one, lies in {folder / _BEST}",
                remedy="train again with a lower --learning-rate",
            )


def mixed_precision(device: str) -> torch.autocast:
    """Return the context in which networks compute: in bfloat16 on a CUDA device that supports it."""
    return torch.autocast(device, dtype=torch.bfloat16, enabled=device == "cuda" and torch.cuda.is_bf16_supported())


def rate_at(progress_share: float, decay: Decay) -> float:
    """Return the learning rate as a share of the initial rate, after this share of all epochs."""
    if decay == "none" or progress_share <= _STEADY:
        return 1.0
    return max(_LEAST_RATE, (1 - progress_share) / (1 - _STEADY))


def seed_from(numbers: Sequence[int]) -> int:
    """Return a seed computed from several numbers."""
    return int.from_bytes(hashlib.blake2b(repr(list(numbers)).encode(), digest_size=8).digest(), "little")


def _smooth(shown: float, latest: float) -> float:
    return latest if math.isnan(shown) else _SMOOTHING * shown + (1 - _SMOOTHING) * latest


# On disk


def _save_checkpoint(folder: Path, model: nn.Module, adam: torch.optim.Adam, state: _State) -> None:
    """Write into the slot that the state does not name, then the state."""
    slot = _SLOTS[1] if state.slot == _SLOTS[0] else _SLOTS[0]
    names = {id(parameter): name for name, parameter in model.named_parameters()}
    tensors = {f"model.{name}": tensor for name, tensor in model.state_dict().items()}
    for parameter, sums in adam.state.items():
        tensors |= {f"adam.{names[id(parameter)]}.{key}": torch.as_tensor(tensor) for key, tensor in sums.items()}
    write_tensors(folder / f"{slot}.safetensors", tensors)
    state.slot = slot
    write_json(folder / _STATE, {**asdict(state), "best_loss": _finite(state.best_loss)})


def _finite(number: float) -> float | None:
    return number if math.isfinite(number) else None


def _load_checkpoint(folder: Path, model: nn.Module, adam: torch.optim.Adam, device: str) -> _State:
    """Load the checkpoint of an interrupted run into model and Adam and return its state; or return a new state."""
    if not (folder / _STATE).exists():
        return _State()
    saved: dict[str, Any] = read_json(folder / _STATE)
    try:
        state = _State(**{**saved, "best_loss": math.inf if saved["best_loss"] is None else saved["best_loss"]})
        tensors = read_tensors(folder / f"{state.slot}.safetensors", device, remedy=_REMEDY)
        model.load_state_dict({name[6:]: tensor for name, tensor in tensors.items() if name.startswith("model.")})
        for name, parameter in model.named_parameters():
            sums = {key: tensors[f"adam.{name}.{key}"] for key in ("step", "exp_avg", "exp_avg_sq")}
            adam.state[parameter] = {**sums, "step": sums["step"].cpu()}
    except (KeyError, TypeError, RuntimeError) as error:
        reason = " ".join(str(error).split())
        raise Corrupt(f"{folder} does not hold a state of this training: {reason}", remedy=_REMEDY) from error
    return state
