"""Training word vectors on co-occurrences with GloVe (Pennington, Socher and Manning 2014).

Weighted least squares on log x with AdaGrad, as in the original program: the loss of an entry (i, j, x) is ½ · f(x) ·
(wᵢ · cⱼ + bᵢ + bⱼ − log x)² with f(x) = min(1, (x / x_max)^α), every entry is trained in both orientations, and the
vector of a word is the sum of its word vector and its context vector.

Entries come in blocks that fit into the cache (`refaug.indexer.vectors.glove_blocks`). An epoch is a Latin square of
blocks, trained
stratum by stratum: the blocks of a stratum share neither rows nor columns, so threads may train them at the same time,
and the result has the same bits for every number of threads. A variant with racing threads would hardly be faster.
"""

from __future__ import annotations

import functools
import hashlib
import math
import os
from collections.abc import Callable, Iterator
from concurrent.futures import Executor, ThreadPoolExecutor
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Final, NamedTuple

import numpy as np
import orjson
from numpy.typing import NDArray

from refaug.core.array_files import write_array
from refaug.core.errors import BadInput, Usage
from refaug.core.files import make_folder, read_json, write_json
from refaug.core.progress import Progress
from refaug.indexer.columns import map_array
from refaug.indexer.vectors import glove_kernels as kernels
from refaug.indexer.vectors.cooccurrence import Cooccurrences
from refaug.indexer.vectors.glove_blocks import Blocks, BlockSettings, ranges_for

_STATE: Final = "state.json"
_FORMAT: Final = 1
_LANES: Final = 16  # numbers in a cache line; lengths are multiples of it, numbers beyond the dimensions stay 0
_PIECES: Final = 16  # of a stratum: a thread that finishes one takes the next

Floats = NDArray[np.float32]
OnEpoch = Callable[[int, float], None]  # called with the number of an epoch, from 1 on, and its loss


@dataclass(frozen=True, kw_only=True)
class GloveSettings:
    """How vectors are trained; the defaults are the original's except for dimensions and epochs."""

    dimensions: int = 200
    epochs: int = 25
    x_max: float = 100.0
    alpha: float = 0.75
    learning_rate: float = 0.05
    seed: int = 1
    threads: int | None = None  # None: all cores the process may use; never changes the result

    def __post_init__(self) -> None:
        for name, least in (("dimensions", 1), ("epochs", 1), ("threads", 1), ("seed", 0)):
            if (setting := getattr(self, name)) is not None and setting < least:
                raise Usage(f"{name} of {setting}", remedy=f"give at least {least}")
        for name in ("x_max", "alpha", "learning_rate"):
            if not 0 < getattr(self, name) < math.inf:
                raise Usage(f"{name} of {getattr(self, name)}", remedy="give a number above 0")

    def hash_with(self, fingerprint: str, ranges: int) -> str:
        """Return the hash that ties a saved state to this training; more epochs continue from fewer."""
        names = [field.name for field in fields(self) if field.name not in ("threads", "epochs")]
        decisive = {name: getattr(self, name) for name in names}
        return hashlib.sha256(
            orjson.dumps([_FORMAT, fingerprint, ranges, decisive], option=orjson.OPT_SORT_KEYS)
        ).hexdigest()


class GloveModel(NamedTuple):
    """A vector for each word, and the mean loss of the entries in each epoch."""

    matrix: Floats  # (words, dimensions)
    losses: list[float]


def train_glove(
    cooccurrences: Cooccurrences,
    settings: GloveSettings,
    folder: Path,
    progress: Progress,
    on_epoch: OnEpoch = lambda _epoch, _loss: None,
) -> GloveModel:
    """Train in a folder, from the last epoch finished there with the same settings and entries."""
    if not len(cooccurrences):
        raise BadInput("there are no co-occurrences to learn from", remedy="give more texts")
    make_folder(folder)
    blocks = Blocks.lay_out(cooccurrences, block_settings(cooccurrences, settings), folder / "blocks", progress)
    training = settings.hash_with(cooccurrences.fingerprint, blocks.settings.ranges)
    state = GloveState(folder, training, new_parameters(blocks, settings))
    state.resume(settings.epochs)
    threads = settings.threads or len(os.sched_getaffinity(0))
    with ThreadPoolExecutor(threads) as pool:
        for epoch in range(len(state.losses) + 1, settings.epochs + 1):
            progress.stage(f"epoch {epoch} of {settings.epochs}", int(blocks.visits.sum()), "entries")
            loss = _train_epoch(blocks, state.parameters, settings, epoch, pool, threads, progress)
            _require_finite(loss, state.parameters, epoch, settings)
            state.save(loss)
            on_epoch(epoch, loss)
    vectors = state.parameters[:, blocks.positions, : settings.dimensions]
    return GloveModel(vectors[0] + vectors[1], state.losses)


def block_settings(cooccurrences: Cooccurrences, settings: GloveSettings) -> BlockSettings:
    """Return how the entries are divided into blocks for a training."""
    ranges = ranges_for(cooccurrences.words, 2 * len(cooccurrences), 4 * (2 * _width(settings.dimensions) + _LANES))
    return BlockSettings(ranges=ranges, x_max=settings.x_max, alpha=settings.alpha, seed=settings.seed)


def strata(ranges: int, seed: int, epoch: int) -> Iterator[NDArray[np.int64]]:
    """Yield the Latin square of an epoch: for each stratum, the range of contexts that meets each range of words."""
    rng = np.random.default_rng([seed, 2, epoch])
    rows, columns = rng.permutation(ranges), rng.permutation(ranges)
    for shift in rng.permutation(ranges):
        yield columns[(rows + shift) % ranges]


def new_parameters(blocks: Blocks, settings: GloveSettings) -> Floats:
    """Return vectors and biases uniform in (−0.5, 0.5) / d, and sums of squares of 1.

    The shape is (words and contexts, positions, row length). A row holds a vector, the sums of squares of its
    steps, its bias, and the sum of squares of the bias. It begins with a cache line, which makes training a sixth
    faster.
    """
    width = _width(settings.dimensions)
    shape = (2, blocks.settings.ranges * blocks.size, 2 * width + _LANES)
    memory = np.zeros(math.prod(shape) + _LANES, np.float32)
    before = -(memory.ctypes.data // 4) % _LANES
    parameters = memory[before : before + math.prod(shape)].reshape(shape)
    parameters[:, :, width : 2 * width] = parameters[:, :, 2 * width + 1] = 1
    for side in range(2):
        rng = np.random.default_rng([settings.seed, 3, side])
        drawn = rng.random((len(blocks.positions), settings.dimensions + 1), np.float32)
        drawn = (drawn - np.float32(0.5)) / np.float32(settings.dimensions)
        parameters[side, blocks.positions, : settings.dimensions] = drawn[:, :-1]
        parameters[side, blocks.positions, 2 * width] = drawn[:, -1]
    return parameters


def _width(dimensions: int) -> int:
    return -(-dimensions // _LANES) * _LANES


def _train_epoch(
    blocks: Blocks,
    parameters: Floats,
    settings: GloveSettings,
    epoch: int,
    pool: Executor,
    threads: int,
    progress: Progress,
) -> float:
    """Train every entry in both orientations, stratum by stratum; return the mean loss."""
    rows, total = np.arange(blocks.settings.ranges), 0.0
    for columns in strata(blocks.settings.ranges, settings.seed, epoch):
        losses = np.zeros(len(rows))
        pieces = iter(np.array_split(rows, min(len(rows), _PIECES)))
        work = functools.partial(_train_pieces, pieces, columns, blocks, parameters, settings, losses)
        for done in [pool.submit(work) for _ in range(threads)]:
            done.result()
        total += float(losses.sum())
        progress.advance(int(blocks.visits[rows, columns].sum()))
    return total / int(blocks.visits.sum())


def _train_pieces(
    pieces: Iterator[NDArray[np.int64]],  # shared by the threads, each of which takes the next one when it is free
    columns: NDArray[np.int64],
    blocks: Blocks,
    parameters: Floats,
    settings: GloveSettings,
    losses: NDArray[np.float64],
) -> None:
    """Train blocks of a stratum until none are left."""
    for rows in pieces:
        kernels.train_blocks(
            rows,
            columns[rows],
            blocks.starts,
            blocks.pairs,
            blocks.targets,
            blocks.size,
            parameters,
            _width(settings.dimensions),
            np.float32(settings.learning_rate),
            losses,
        )


def _require_finite(loss: float, parameters: Floats, epoch: int, settings: GloveSettings) -> None:
    """Raise BadInput before a useless state is saved."""
    if not (math.isfinite(loss) and math.isfinite(parameters.sum(dtype=np.float64))):
        raise BadInput(
            f"training broke down in epoch {epoch}: the loss is {loss}",
            remedy=f"lower the learning rate, which is {settings.learning_rate}",
        )


class GloveState:
    """Parameters and losses after the last epoch, saved under the hash of their training."""

    def __init__(self, folder: Path, training: str, parameters: Floats) -> None:
        self._folder, self._training = folder, training
        self.parameters, self.losses = parameters, list[float]()

    def resume(self, epochs: int) -> None:
        """Load the saved state of this training, unless it has more epochs than requested."""
        if not (self._folder / _STATE).exists():
            return
        state = read_json(self._folder / _STATE)
        losses = state.get("losses")
        if state.get("training") == self._training and isinstance(losses, list) and len(losses) <= epochs:
            saved = map_array(self._parameters_after(len(losses)), np.float32)
            np.copyto(self.parameters, saved.reshape(self.parameters.shape))
            self.losses = losses

    def save(self, loss: float) -> None:
        """Save the state after an epoch, then delete the state before it."""
        before, self.losses = self.losses, [*self.losses, loss]
        write_array(self._parameters_after(len(self.losses)), self.parameters.reshape(-1, self.parameters.shape[-1]))
        write_json(self._folder / _STATE, {"training": self._training, "losses": self.losses})
        self._parameters_after(len(before)).unlink(missing_ok=True)

    def _parameters_after(self, epochs: int) -> Path:
        return self._folder / f"parameters-{epochs}.npy"
