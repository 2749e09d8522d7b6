"""The processes that train one network together, as the training loop sees them: alone, or several.

Each of them computes some of the batches of a step. Sums of gradients are exchanged before each step of Adam, so all
have the same weights, and the network is, up to the order of sums, that of one process with the same batches.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta
from typing import Any, Final, NamedTuple, Protocol

import torch
from torch import distributed, nn
from torch.distributed import TCPStore  # type: ignore[attr-defined]

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
