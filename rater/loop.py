"""Training: one loop over seeded batches, kept on disk so that a stopped run ends as one that was not stopped."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from time import perf_counter
from typing import Any, Final, Literal, NamedTuple, Protocol, TypeVar, get_args

import torch
from torch import Tensor, nn

from core.errors import CheckFailed, Corrupt, Usage
from core.files import make_folder, read_json, write_json
from core.progress import Progress
from rater.tensors import read_tensors, write_tensors

_STATE: Final = "state.json"
_BEST: Final = "best.safetensors"
_SLOTS: Final = ("a", "b")  # written in turn: the state names the one that is whole
_REMEDY: Final = "remove the folder, and train anew"
_SMOOTHING: Final = 0.98  # of the loss that is shown while it runs
_STEADY: Final = 0.2  # of a training, before a rate that decays falls
_LEAST_RATE: Final = 0.02  # of the rate, at the end

Decay = Literal["none", "linear"]


@dataclass(frozen=True, kw_only=True)
class TrainConfig:
    """How a network is trained; with the defaults as in the paper, but for patience."""

    epochs: int = 15
    learning_rate: float = 1e-3
    decay: Decay = "none"  # or linear: after a fifth of all epochs it falls to a fiftieth at their end
    dropout: float = 0.0  # share of an embedding's numbers that are left out, others in every batch
    patience: int = 3  # epochs without a lower validation loss, after which it ends
    accumulate: int = 1  # batches to a step
    seed: int = 1  # of the first weights; examples have one of their own
    save_every: int = 500  # steps, beside the end of every epoch
    device: str = "cpu"  # or cuda, there in bfloat16 where it is offered
    threads: int = 1

    def __post_init__(self) -> None:
        if min(self.epochs, self.patience, self.accumulate, self.save_every, self.threads) < 1:
            raise Usage("epochs, patience, accumulated batches, steps between saves and threads are 1 or more")
        if not 0 < self.learning_rate < 1:
            raise Usage(f"a learning rate of {self.learning_rate}", remedy="such as 0.001")
        if self.decay not in get_args(Decay):
            raise Usage(f"decay {self.decay!r} is not known", remedy=f"one of: {', '.join(get_args(Decay))}")
        if not 0 <= self.dropout < 1:
            raise Usage(f"a dropout of {self.dropout}", remedy="from 0 on, below 1")
        if self.device not in ("cpu", "cuda"):
            raise Usage(f"device {self.device!r} is not known", remedy="cpu or cuda")
        if self.device == "cuda" and not torch.cuda.is_available():
            raise Usage("there is no CUDA device here, or this torch was built without CUDA", remedy="--device cpu")


@dataclass(frozen=True, kw_only=True)
class EpochFigures:
    """What one epoch came to."""

    epoch: int  # from 1 on
    train_loss: float
    validation_loss: float
    validation_accuracy: float  # as the task counts it
    auc: float  # of what belongs together against what does not
    seconds: float


@dataclass(frozen=True, kw_only=True)
class Course:
    """How a training went."""

    best_epoch: int
    epochs: tuple[EpochFigures, ...]


class Now(NamedTuple):
    """Where a running training is."""

    epoch: int
    step: int  # batches of this epoch that are done
    steps: int
    loss: float  # a running mean
    accuracy: float  # the same
    examples_a_second: float
    seconds_left: float  # until the end of the last epoch, if none is the last before


OnNow = Callable[[Now], None]
OnEpoch = Callable[[EpochFigures], None]
AnyBatch = TypeVar("AnyBatch")


class Taken(NamedTuple):
    """What a network says to a batch."""

    loss: Tensor
    right: float  # share of the batch
    examples: int


class Measured(NamedTuple):
    """What a network says to examples that it is not trained on."""

    loss: float
    accuracy: float
    auc: float


class Task(Protocol[AnyBatch]):
    """What is learnt: a network out of batches, the same ones for the same number of an epoch; and its measure."""

    @property
    def model(self) -> nn.Module:
        """The network, with its first weights; it is changed."""

    @property
    def of_an_epoch(self) -> int:
        """How many examples an epoch has."""

    def batch_count(self) -> int:
        """How many batches an epoch has."""

    def batches(self, number: int, *, skip: int = 0) -> Iterator[AnyBatch]:
        """The batches of an epoch, from 1 on, those after the first `skip`."""

    def taken(self, batch: AnyBatch) -> Taken:
        """What the network says to a batch, with the gradient of the loss still to be asked for."""

    def measured(self) -> Measured:
        """How good the network is now."""


@dataclass
class _State:
    """What is written down, beside weights and Adam's sums."""

    epoch: int = 0  # that is going on, from 0
    step: int = 0  # batches of it that are done
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
) -> Course:
    """Train until the validation loss has not fallen for a while; what `folder` has from a stopped run is gone on with.

    In the end the network has the weights of the epoch with the least validation loss.
    """
    torch.set_num_threads(config.threads)
    make_folder(folder)
    model = task.model.to(config.device)
    adam = torch.optim.Adam(model.parameters(), lr=config.learning_rate)
    state = _resumed(folder, model, adam, config.device)
    while state.epoch < config.epochs and state.bad_epochs < config.patience:
        _run_epoch(task, adam, config, state, folder, progress, on_now)
        figures = _figures(task, state)
        if not math.isfinite(figures.validation_loss):
            raise CheckFailed(
                f"the validation loss is {figures.validation_loss} after epoch {state.epoch + 1}; nothing is "
                f"published, and the best epoch before it, if there was one, lies in {folder / _BEST}",
                remedy="train again with a lower --learning-rate",
            )
        state.history.append(asdict(figures))
        if figures.validation_loss < state.best_loss:
            state.best_loss, state.best_epoch, state.bad_epochs = figures.validation_loss, state.epoch, 0
            write_tensors(folder / _BEST, model.state_dict())
        else:
            state.bad_epochs += 1
        state.epoch, state.step, state.loss_sum, state.seconds = state.epoch + 1, 0, 0.0, 0.0
        _save(folder, model, adam, state)
        on_epoch(figures)
    model.load_state_dict(read_tensors(folder / _BEST, config.device, remedy=_REMEDY))
    model.to("cpu").eval()
    return Course(best_epoch=state.best_epoch + 1, epochs=tuple(EpochFigures(**figures) for figures in state.history))


def _figures(task: Task[AnyBatch], state: _State) -> EpochFigures:
    found = task.measured()
    return EpochFigures(
        epoch=state.epoch + 1,
        train_loss=state.loss_sum / task.batch_count(),
        validation_loss=found.loss,
        validation_accuracy=found.accuracy,
        auc=found.auc,
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
) -> None:
    model, steps = task.model, task.batch_count()
    progress.stage(f"epoch {state.epoch + 1} of {config.epochs}", task.of_an_epoch, "examples")
    progress.advance(task.of_an_epoch * state.step // steps)  # before a stop
    began, resumed_at, seen = perf_counter(), state.seconds, 0
    shown_loss, shown_accuracy, since_saved = math.nan, math.nan, 0
    model.train()
    adam.zero_grad(set_to_none=True)
    for batch in task.batches(state.epoch + 1, skip=state.step):
        for group in adam.param_groups:
            group["lr"] = config.learning_rate * rate_at(
                (state.epoch + state.step / steps) / config.epochs, config.decay
            )
        if config.dropout:  # what is left out depends on the place of the batch, not on what ran before
            torch.manual_seed(hash_of([config.seed, state.epoch, state.step]))
        taken = task.taken(batch)
        value = float(taken.loss.detach())
        if not math.isfinite(value):
            raise CheckFailed(
                f"the loss is {value} in batch {state.step + 1} of epoch {state.epoch + 1}; nothing is "
                f"published, and the best epoch before it, if there was one, lies in {folder / _BEST}",
                remedy="train again with a lower --learning-rate",
            )
        of_this_step = min(config.accumulate, steps - state.step // config.accumulate * config.accumulate)
        (taken.loss / of_this_step).backward()  # type: ignore[no-untyped-call]
        state.step += 1
        if state.step % config.accumulate == 0 or state.step == steps:
            adam.step()
            adam.zero_grad(set_to_none=True)
        state.loss_sum += value
        shown_loss = _smooth(shown_loss, value)
        shown_accuracy = _smooth(shown_accuracy, taken.right)
        seen += taken.examples
        state.seconds = resumed_at + perf_counter() - began
        progress.advance(taken.examples)
        speed = seen / (perf_counter() - began)
        left = (config.epochs - state.epoch - state.step / steps) * task.of_an_epoch / speed
        on_now(Now(state.epoch + 1, state.step, steps, shown_loss, shown_accuracy, speed, left))
        since_saved += 1
        if since_saved >= config.save_every and state.step % config.accumulate == 0 and state.step < steps:
            _save(folder, model, adam, state)
            since_saved = 0


def rate_at(done: float, decay: Decay) -> float:
    """The learning rate as a share of the first, when such a share of all epochs is done."""
    if decay == "none" or done <= _STEADY:
        return 1.0
    return max(_LEAST_RATE, (1 - done) / (1 - _STEADY))


def hash_of(numbers: Sequence[int]) -> int:
    """A seed out of several numbers."""
    return int.from_bytes(hashlib.blake2b(repr(list(numbers)).encode(), digest_size=8).digest(), "little")


def _smooth(shown: float, value: float) -> float:
    return value if math.isnan(shown) else _SMOOTHING * shown + (1 - _SMOOTHING) * value


# On disk


def _save(folder: Path, model: nn.Module, adam: torch.optim.Adam, state: _State) -> None:
    """Into the slot that the state does not name; then the state."""
    slot = _SLOTS[1] if state.slot == _SLOTS[0] else _SLOTS[0]
    names = {id(parameter): name for name, parameter in model.named_parameters()}
    tensors = {f"model.{name}": tensor for name, tensor in model.state_dict().items()}
    for parameter, sums in adam.state.items():
        tensors |= {f"adam.{names[id(parameter)]}.{key}": torch.as_tensor(value) for key, value in sums.items()}
    write_tensors(folder / f"{slot}.safetensors", tensors)
    state.slot = slot
    write_json(folder / _STATE, {**asdict(state), "best_loss": _finite(state.best_loss)})


def _finite(value: float) -> float | None:
    return value if math.isfinite(value) else None


def _resumed(folder: Path, model: nn.Module, adam: torch.optim.Adam, device: str) -> _State:
    """The state of a stopped run, its weights in the model and its sums in Adam; or a fresh one."""
    if not (folder / _STATE).exists():
        return _State()
    found: dict[str, Any] = read_json(folder / _STATE)
    try:
        state = _State(**{**found, "best_loss": math.inf if found["best_loss"] is None else found["best_loss"]})
        tensors = read_tensors(folder / f"{state.slot}.safetensors", device, remedy=_REMEDY)
        model.load_state_dict({name[6:]: tensor for name, tensor in tensors.items() if name.startswith("model.")})
        for name, parameter in model.named_parameters():
            sums = {key: tensors[f"adam.{name}.{key}"] for key in ("step", "exp_avg", "exp_avg_sq")}
            adam.state[parameter] = {**sums, "step": sums["step"].cpu()}
    except (KeyError, TypeError, RuntimeError) as error:
        reason = " ".join(str(error).split())
        raise Corrupt(f"{folder} does not hold a state of this training: {reason}", remedy=_REMEDY) from error
    return state
