"""Training one network in several processes of a cluster, from its last checkpoint where one of them dies.

Each process has the whole network and makes the batches of every step, of which it computes its own. The first one
validates, and writes the checkpoints of a training in one process, so a training may begin on a cluster and go on
without one, or the other way round.
"""

from __future__ import annotations

import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from contextlib import closing
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, ClassVar, Final

import torch

from refaug.core.clusters import ConnectedCluster, MemberLost
from refaug.core.errors import Conflict, Unavailable
from refaug.core.installation import EXECUTORS, find
from refaug.core.progress import Progress
from refaug.rater.training.loop import (
    EpochFigures,
    ProcessGroup,
    Task,
    TrainConfig,
    TrainingStatus,
    run,
)
from refaug.rater.training.order import Training

_PACKAGES: Final = ("torch", "numpy", "sentencepiece")  # that can change a network
_RETRIES: Final = 5  # of a training one of whose processes has died
_PATIENCE_S: Final = 120.0  # for room for all processes again
_AGAIN_S: Final = 1.0


@dataclass(frozen=True, kw_only=True)
class TrainingNews:
    """How far a training is."""

    stage: str = ""
    total: int | None = None
    unit: str = ""
    done: int = 0
    now: TrainingStatus | None = None
    epochs: tuple[EpochFigures, ...] = ()  # that have ended since the process began
    warnings: tuple[str, ...] = ()


class _Notes:
    """Collects the progress of a process, for another one that asks."""

    def __init__(self) -> None:
        self.news = TrainingNews()

    def stage(self, name: str, total: int | None = None, unit: str = "") -> None:
        self.news = replace(self.news, stage=name, total=total, unit=unit, done=0)

    def advance(self, amount: int) -> None:
        self.news = replace(self.news, done=self.news.done + amount)

    def warn(self, message: str) -> None:
        self.news = replace(self.news, warnings=(*self.news.warnings, message))

    def now(self, status: TrainingStatus) -> None:
        self.news = replace(self.news, now=status)

    def epoch(self, figures: EpochFigures) -> None:
        self.news = replace(self.news, epochs=(*self.news.epochs, figures))


class TrainingMember(ABC):
    """One process of a training; a subclass makes the task."""

    network: ClassVar[str]

    def __init__(self, *, rank: int, size: int, config: TrainConfig, folder: Path, **arguments: Any) -> None:
        self._rank, self._size, self._config, self._folder = rank, size, config, folder
        self._arguments, self._notes = arguments, _Notes()
        self._store: Any = None  # of the first process

    @abstractmethod
    def task(self, progress: Progress, **arguments: Any) -> Task[Any]:
        """Return the task: network, examples, validation; every process has the same."""

    def ready(self) -> None:
        """Say that the process runs."""
        torch.set_num_threads(self._config.threads)

    def open_store(self) -> tuple[str, int]:
        """Open the place where the processes find each other; return its host and port."""
        host: str = find(EXECUTORS, "own-address")()
        self._store = ProcessGroup.open_store(host, self._size)
        return host, int(self._store.port)

    def status(self) -> TrainingNews:
        """Return how far the training is."""
        return self._notes.news

    def train(self, address: tuple[str, int]) -> None:
        """Train with the other processes until the training is over."""
        store = self._store or ProcessGroup.join_store(*address, self._size)
        task = self.task(self._notes, **self._arguments)
        with closing(ProcessGroup(self._rank, self._size, self._config.device, store)) as peers:
            run(task, self._config, self._folder, self._notes, self._notes.now, self._notes.epoch, peers)


class _Teller:
    """Tells of a training's progress here what is new there."""

    def __init__(self, training: Training[Any]) -> None:
        self._progress, self._on_now, self._on_epoch = training.progress, training.on_now, training.on_epoch
        self._last = TrainingNews()

    def __call__(self, news: TrainingNews) -> None:
        last = self._last
        for figures in news.epochs[len(last.epochs) :]:
            self._on_epoch(figures)
        for warning in news.warnings[len(last.warnings) :]:
            self._progress.warn(warning)
        if news.stage != last.stage:
            self._progress.stage(news.stage, news.total, news.unit)
        self._progress.advance(news.done - (last.done if news.stage == last.stage else 0))
        if news.now is not None and news.now != last.now:
            self._on_now(news.now)
        self._last = news


def train_on(
    cluster: ConnectedCluster,
    member: Callable[..., TrainingMember],
    training: Training[Any],
) -> None:
    """Train the network of an order in its workers' processes on a cluster; the checkpoint then says that it is over.

    `member` makes the task in each process from the order and the folder of the stages before the first batch;
    checkpoints lie in its folder `training`. Where a process or a machine dies, all of them begin
    again at the last checkpoint.
    """
    folder, config, progress = training.folder.resolve(), training.order.training, training.progress
    arguments = {"order": training.order, "folder_of_stages": folder}
    find(EXECUTORS, "alike")(cluster, folder / "training", _PACKAGES, progress)
    for attempt in range(_RETRIES + 1):
        try:
            with _group(cluster, member, arguments, config, folder / "training", patient=attempt > 0) as group:
                group.ready()
                address = group.first("open_store")
                group.all("train", address, look=_Teller(training), status="status")
                return
        except MemberLost as lost:
            if attempt == _RETRIES:
                raise Unavailable(
                    f"workers have died {_RETRIES + 1} times: {lost.message}",
                    remedy="perhaps for want of memory: fewer --workers, or a smaller --batch; the training goes on "
                    "from its last checkpoint",
                ) from lost
            progress.warn(f"{lost.message}; the training goes on from its last checkpoint")


def _group(
    cluster: ConnectedCluster,
    member: Callable[..., TrainingMember],
    arguments: Mapping[str, Any],
    config: TrainConfig,
    folder: Path,
    *,
    patient: bool,
) -> Any:
    """Return the processes; a patient call waits for room where a machine has gone."""
    given = [
        {"rank": rank, "size": config.workers, "config": config, "folder": folder, **arguments}
        for rank in range(config.workers)
    ]
    deadline = time.monotonic() + (_PATIENCE_S if patient else 0.0)
    while True:
        try:
            return find(EXECUTORS, "workers")(
                cluster, member, given, threads=config.threads, gpus=int(config.device == "cuda")
            )
        except Conflict as error:
            if time.monotonic() >= deadline:
                if patient:
                    error.remedy = f"{error.remedy}; the training goes on from its last checkpoint, without --on, too"
                raise
            time.sleep(_AGAIN_S)
