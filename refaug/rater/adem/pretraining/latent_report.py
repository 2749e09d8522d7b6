"""What became of each latent variable of a network, and how well its heads predict: figures over held-out batches."""

from __future__ import annotations

from typing import Final, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from refaug.rater.adem.pretraining.dialogues import DialogueWindows, WindowBatch
from refaug.rater.adem.pretraining.targets import TurnTargets, constant_losses, input_contexts
from refaug.rater.adem.vhred.gaussians import Gaussian
from refaug.rater.adem.vhred.network import VhredNetwork

_LEAST_DIVERGENCE: Final = 0.1  # nats; below, the decoder does without the variable
_LEAST_SPREAD: Final = 0.01  # of a unit's mean, as in Burda et al. (2016)


class LatentGaussians(NamedTuple):
    """The Gaussians of a variable before and after it is inferred; None without the variable."""

    before: Gaussian | None
    after: Gaussian | None

    @property
    def shifts(self) -> NDArray[np.float64] | None:
        """The means after, less those before, in standard deviations before, (rows, size)."""
        if self.before is None or self.after is None:
            return None
        shifts = (self.after.mean - self.before.mean) / self.before.variance.sqrt()
        return np.asarray(shifts.detach().double().cpu().numpy())


class UnitSpread:
    """The variance of each unit's shift over batches."""

    def __init__(self) -> None:
        self._count = 0
        self._sums: NDArray[np.float64] = np.zeros(1)
        self._squares: NDArray[np.float64] = np.zeros(1)

    def add(self, gaussians: LatentGaussians) -> None:
        """Add a batch."""
        if (shifts := gaussians.shifts) is not None:
            self._count += len(shifts)
            self._sums = self._sums + shifts.sum(axis=0)
            self._squares = self._squares + np.square(shifts).sum(axis=0)

    @property
    def active_units(self) -> int:
        """The number of units whose mean depends on what was seen: its variance is above 0.01."""
        count = max(self._count, 1)
        return int((self._squares / count - np.square(self._sums / count) > _LEAST_SPREAD).sum())


class _Terms(Protocol):
    """Of the bound, what is counted here."""

    @property
    def conversations(self) -> Tensor:
        """Divergences of the windows."""

    @property
    def contexts(self) -> Tensor:
        """Before each turn."""

    @property
    def gaussians(self) -> tuple[LatentGaussians, LatentGaussians]:
        """Of the turns, and of the conversations."""


class HeldOutLatents:
    """Sums over the held-out batches of a network."""

    def __init__(self, network: VhredNetwork, targets: TurnTargets | None) -> None:
        self._network, self._targets = network, targets
        self._turns, self._conversations = UnitSpread(), UnitSpread()
        self._windows, self._inputs, self._losses = 0, 0, np.zeros(2)
        self.divergence = 0.0  # of all conversations

    def add(self, batch: WindowBatch, terms: _Terms) -> None:
        """Add a batch."""
        self._windows += batch.window_count
        self._inputs += len(batch.inputs)
        self.divergence += float(terms.conversations.double().sum())
        self._turns.add(terms.gaussians[0])
        self._conversations.add(terms.gaussians[1])
        if self._network.heads is not None and self._targets is not None:
            contexts = input_contexts(terms.contexts, batch)
            losses = self._network.heads.losses(contexts, self._targets.of(batch.inputs))
            self._losses += len(batch.inputs) * np.array([float(loss) for loss in losses])

    def report(self, kl: float, train: DialogueWindows, validation: DialogueWindows) -> dict[str, object]:
        """Return what a report says; `kl` is the divergence of a turn, in nats.

        A head's loss stands beside that of one which always says the mean of the turns it learned from.
        """
        config = self._network.config
        report: dict[str, object] = {
            "kl": kl,
            "latent": state_of(config.latent, kl),
            "active_units": self._turns.active_units,
        }
        if config.conversation:
            of_conversation = self.divergence / max(self._windows, 1)
            report |= {
                "kl_conversation": of_conversation,
                "latent_conversation": state_of(config.conversation, of_conversation),
                "active_units_conversation": self._conversations.active_units,
                "skipped_dialogues": {"train": train.skipped_count, "validation": validation.skipped_count},
            }
        if config.has_heads and self._targets is not None:
            constant = constant_losses(self._targets, train, validation)
            losses = dict(zip(("emotion", "meaning"), self._losses / max(self._inputs, 1), strict=True))
            report["heads"] = {
                name: {"loss": float(losses[name]), "constant_loss": of_mean}
                for name, of_mean in zip(losses, constant, strict=True)
                if getattr(config, name)
            }
        return report


def state_of(size: int, divergence: float) -> str:
    """Return a word for what became of a latent variable of a size."""
    if not size:
        return "none"
    return "collapsed" if divergence < _LEAST_DIVERGENCE else "used"
