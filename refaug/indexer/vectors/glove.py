"""Training word vectors on co-occurrences with GloVe (Pennington, Socher and Manning 2014).

Weighted least squares on log x with AdaGrad, as in the original program: the loss of an entry (i, j, x) is ½ · f(x) ·
(wᵢ · cⱼ + bᵢ + bⱼ − log x)² with f(x) = min(1, (x / x_max)^α), every entry is trained in both orientations, and the
vector of a word is the sum of its word vector and its context vector.

Entries come in blocks that fit into the cache (`refaug.indexer.vectors.glove`). An epoch is a Latin square of
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
from typing import Any, Final, NamedTuple, Self

import numpy as np
import orjson
from numpy.typing import DTypeLike, NDArray

from refaug.core.array_files import write_array
from refaug.core.errors import BadInput, Corrupt, Usage
from refaug.core.files import make_folder, read_json, remove_tree, storage_errors, sync_file, write_json
from refaug.core.kernels.kernel import compiled, compiled_with
from refaug.core.processes.kept import cached_property
from refaug.core.progress import Progress
from refaug.indexer.columns import map_array
from refaug.indexer.vectors.cooccurrence import Cooccurrences

# ── The entries of a co-occurrence matrix on disk, divided into blocks that fit into a core's cache ───────────────────
#
# Words are assigned to ranges at random, which spreads the frequent ones. The entries between two ranges are a block:
# it lies together on disk in random order and is trained with both ranges in the cache. As the matrix is symmetric,
# one block serves both orientations of its entries.

# ── Compiled loops of `glove_blocks.py` and `glove.py`: filling blocks, and AdaGrad over blocks ───────────────────────

# Sums in lanes, and 1/√x as the processor's estimate with a step of Newton's method: 1.4 times the speed for one last
# digit. The order is still fixed, so on one machine the same input gives the same bits.
_QUICK = {"reassoc", "contract", "nsz", "arcp"}

Floats = NDArray[np.float32]


@compiled
def block_number(first_range: int, second_range: int) -> int:
    """Return the block of the entries between two ranges of words, in the order (0, 0), (0, 1), (1, 1), (0, 2), …."""
    lower, higher = min(first_range, second_range), max(first_range, second_range)
    return higher * (higher + 1) // 2 + lower


@compiled
def count_blocks(
    rows: NDArray[np.int32],
    columns: NDArray[np.int32],
    positions: NDArray[np.int64],
    size: int,
    counts: NDArray[np.int64],
) -> None:
    """Add to the count of each block its entries among these."""
    for entry in range(len(rows)):
        counts[block_number(positions[rows[entry]] // size, positions[columns[entry]] // size)] += 1


@compiled
def deal(
    rows: NDArray[np.int32],
    columns: NDArray[np.int32],
    values: Floats,
    positions: NDArray[np.int64],
    size: int,
    x_max: float,
    alpha: float,
    ends: NDArray[np.int64],  # where each block ends so far; advanced
    pairs: NDArray[np.uint16],
    targets: Floats,
) -> None:
    """Append entries to their blocks: places in the lower and the higher range, log x and the weight f(x)."""
    for entry in range(len(rows)):
        row, column = positions[rows[entry]], positions[columns[entry]]
        lower, higher = min(row, column), max(row, column)
        block = block_number(lower // size, higher // size)
        pairs[ends[block], 0], pairs[ends[block], 1] = lower % size, higher % size
        targets[ends[block], 0] = np.log(values[entry])
        targets[ends[block], 1] = min(1.0, (values[entry] / x_max) ** alpha)
        ends[block] += 1


@compiled
def shuffle_blocks(
    first: int, last: int, starts: NDArray[np.int64], seed: np.uint64, pairs: NDArray[np.uint16], targets: Floats
) -> None:
    """Shuffle the entries of the blocks first … last − 1 (Fisher and Yates), each block with a separate seed."""
    for block in range(first, last):
        state = _mix(seed + np.uint64(block))
        for k in range(starts[block + 1] - starts[block] - 1, 0, -1):
            state += np.uint64(0x9E3779B97F4A7C15)
            # 32 random bits times the number of choices, over 2^32; a block has less than 2^32 entries
            drawn = ((_mix(state) >> np.uint64(32)) * np.uint64(k + 1)) >> np.uint64(32)
            place, other_place = starts[block] + k, starts[block] + np.int64(drawn)
            for side in range(2):
                pairs[place, side], pairs[other_place, side] = pairs[other_place, side], pairs[place, side]
                targets[place, side], targets[other_place, side] = targets[other_place, side], targets[place, side]


@compiled
def _mix(state: np.uint64) -> np.uint64:
    """Mix a counter into random bits with SplitMix64 (Steele, Lea and Flood 2014)."""
    state = (state ^ (state >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    state = (state ^ (state >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return state ^ (state >> np.uint64(31))


@compiled
def train_blocks(
    rows: NDArray[np.int64],  # ranges of words, each with …
    columns: NDArray[np.int64],  # … a range of contexts
    starts: NDArray[np.int64],
    pairs: NDArray[np.uint16],
    targets: Floats,
    size: int,
    parameters: Floats,  # (words and contexts, ranges · size, row length)
    width: int,
    rate: np.float32,
    losses: NDArray[np.float64],  # by range of words
) -> None:
    """Train blocks one after the other; blocks trained at the same time share neither rows nor columns.

    A block's entries serve both orientations: (row, column) has them as written, (column, row) the other way round.
    On the diagonal both orientations come one after the other, and pairs of a word with itself only once.
    """
    for n in range(len(rows)):
        row, column = rows[n], columns[n]
        block = block_number(row, column)
        first, last = starts[block], starts[block + 1]
        words = parameters[0, row * size : (row + 1) * size]
        contexts = parameters[1, column * size : (column + 1) * size]
        losses[row] = 0.0
        for side in range(int(row > column), 1 + int(row >= column)):
            once = row == column and side == 1
            losses[row] += _train(pairs[first:last], targets[first:last], side, once, words, contexts, width, rate)


@compiled_with(fastmath=_QUICK)
def _train(
    pairs: NDArray[np.uint16],
    targets: Floats,
    side: int,
    skip_equal: bool,
    words: Floats,  # a row is a vector, the sums of squares of its steps, its bias, the sum of squares of that
    contexts: Floats,
    width: int,
    rate: np.float32,
) -> float:
    """Run AdaGrad over the entries of a block in order; return the sum of their losses, each before its step.

    As in the original program, the squared steps include the learning rate, and biases have the rate 1.
    """
    loss, bias = 0.0, 2 * width
    for entry in range(len(pairs)):
        i, j = pairs[entry, side], pairs[entry, 1 - side]
        if skip_equal and i == j:
            continue
        word, context = words[i], contexts[j]
        product = np.float32(0)
        for k in range(width):
            product += word[k] * context[k]
        difference = product + word[bias] + context[bias] - targets[entry, 0]
        weighted = targets[entry, 1] * difference
        loss += 0.5 * weighted * difference
        factor = weighted * rate
        for k in range(width):
            word_step, context_step = factor * context[k], factor * word[k]
            word[k] -= word_step / np.sqrt(word[width + k])
            context[k] -= context_step / np.sqrt(context[width + k])
            word[width + k] += word_step * word_step
            context[width + k] += context_step * context_step
        word[bias] -= weighted / np.sqrt(word[bias + 1])
        context[bias] -= weighted / np.sqrt(context[bias + 1])
        word[bias + 1] += weighted * weighted
        context[bias + 1] += weighted * weighted
    return loss


# ── The entries of a co-occurrence matrix on disk, divided into blocks that fit into a core's cache ───────────────────

_MANIFEST: Final = "blocks.json"
_BLOCKS_FORMAT: Final = 1
_CACHE_BYTES: Final = 800 << 10  # of a core's cache that two ranges may take
_FEWEST_RANGES: Final = 16  # gives so many threads work, however small the vocabulary
_LARGEST_RANGE: Final = 1 << 16  # places are written as 16 bits
_ENTRIES_A_CALL: Final = 1 << 21


@dataclass(frozen=True, kw_only=True)
class BlockSettings:
    """The settings that determine the blocks and the order in them."""

    ranges: int
    x_max: float
    alpha: float
    seed: int

    @property
    def blocks(self) -> int:
        """One block for each pair of ranges."""
        return self.ranges * (self.ranges + 1) // 2


def ranges_for(words: int, entries: int, bytes_a_word: int) -> int:
    """Return into how many ranges to divide the words.

    Two ranges should fit into the cache, but loading the ranges must not cost more than training their block: a
    word should be used a dozen times when its range is loaded.
    """
    for_cache = -(-words * 2 * bytes_a_word // _CACHE_BYTES)
    worth_loading = entries // (12 * words)
    ranges = max(_FEWEST_RANGES, min(for_cache, worth_loading), -(-words // _LARGEST_RANGE))
    return min(words, ranges)


@dataclass(frozen=True, kw_only=True, eq=False)
class Blocks:
    """All entries with row ≤ column, by block; mapped from disk."""

    settings: BlockSettings
    size: int  # positions in a range
    positions: NDArray[np.int64]  # of each word: range · size + place in the range
    starts: NDArray[np.int64]  # (blocks + 1): where each block begins
    pairs: NDArray[np.uint16]  # (entries, 2): places in the lower and the higher range
    targets: NDArray[np.float32]  # (entries, 2): log x, and the weight f(x)

    @cached_property
    def visits(self) -> NDArray[np.int64]:
        """How many entries are trained when a range of words meets a range of contexts (ranges, ranges).

        A pair of a word with itself is trained once, all others in both orientations.
        """
        visits = np.empty((self.settings.ranges, self.settings.ranges), np.int64)
        for higher in range(self.settings.ranges):
            for lower in range(higher + 1):
                block = block_number(lower, higher)
                visits[lower, higher] = visits[higher, lower] = self.starts[block + 1] - self.starts[block]
            own = self.pairs[self.starts[block] : self.starts[block + 1]]
            visits[higher, higher] += int((own[:, 0] != own[:, 1]).sum())
        return visits

    def order(self, row: int, column: int) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.float32]]:
        """Return the words, contexts and targets trained, in order, when these ranges meet."""
        block, words = block_number(row, column), np.argsort(self.positions)
        entries = slice(self.starts[block], self.starts[block + 1])
        places, targets = self.pairs[entries].astype(np.int64), self.targets[entries]
        lower = words[np.searchsorted(self.positions[words], min(row, column) * self.size + places[:, 0])]
        higher = words[np.searchsorted(self.positions[words], max(row, column) * self.size + places[:, 1])]
        if row < column:
            return lower, higher, targets
        if row > column:
            return higher, lower, targets
        apart = lower != higher  # left out the second time
        both = np.concatenate((lower, higher[apart])), np.concatenate((higher, lower[apart]))
        return *both, np.concatenate((targets, targets[apart]))

    @classmethod
    def lay_out(cls, cooccurrences: Cooccurrences, settings: BlockSettings, folder: Path, progress: Progress) -> Self:
        """Divide the entries into blocks in a folder, or open those of an earlier run."""
        dealt = hashlib.sha256(
            orjson.dumps([_BLOCKS_FORMAT, cooccurrences.fingerprint, vars(settings)], option=orjson.OPT_SORT_KEYS)
        ).hexdigest()
        if not (folder / _MANIFEST).exists() or read_json(folder / _MANIFEST).get("dealt") != dealt:
            remove_tree(folder)
            make_folder(folder)
            _BlockWriter(cooccurrences, settings, folder).run(progress)
            write_json(folder / _MANIFEST, {"dealt": dealt})
        blocks = cls(
            settings=settings,
            size=-(-cooccurrences.words // settings.ranges),
            positions=_positions(cooccurrences.words, settings),
            starts=np.array(map_array(folder / "starts.npy", np.int64)),
            pairs=map_array(folder / "pairs.npy", np.uint16),
            targets=map_array(folder / "targets.npy", np.float32),
        )
        if (
            len(blocks.starts) != settings.blocks + 1
            or not len(blocks.pairs) == len(blocks.targets) == blocks.starts[-1]
        ):
            raise Corrupt(f"{folder}: its files do not fit together", remedy="delete it: it is made anew")
        return blocks


def _positions(words: int, settings: BlockSettings) -> NDArray[np.int64]:
    """Return each word's position: words in random order are assigned to the ranges in turn."""
    order, size = np.random.default_rng([settings.seed, words]).permutation(words), -(-words // settings.ranges)
    return order % settings.ranges * size + order // settings.ranges


class _BlockWriter:
    """Writes the blocks in three passes: count them, write their entries, shuffle them."""

    def __init__(self, cooccurrences: Cooccurrences, settings: BlockSettings, folder: Path) -> None:
        self._all, self._settings, self._folder = cooccurrences, settings, folder
        self._positions = _positions(cooccurrences.words, settings)
        self._size = -(-cooccurrences.words // settings.ranges)

    def run(self, progress: Progress) -> None:
        """Write all files."""
        progress.stage("dealing co-occurrences into blocks", 3 * len(self._all), "entries")
        counts = np.zeros(self._settings.blocks, np.int64)
        for piece in self._pieces():
            count_blocks(self._all.rows[piece], self._all.columns[piece], self._positions, self._size, counts)
            progress.advance(piece.stop - piece.start)
        starts = np.concatenate(([0], np.cumsum(counts)))
        pairs = _new_array(self._folder / "pairs.npy", np.uint16, len(self._all))
        targets = _new_array(self._folder / "targets.npy", np.float32, len(self._all))
        self._deal(starts[:-1].copy(), pairs, targets, progress)
        self._shuffle(starts, pairs, targets, progress)
        for array in (pairs, targets):
            array.flush()
            sync_file(Path(str(array.filename)))
        write_array(self._folder / "starts.npy", starts)

    def _pieces(self) -> list[slice]:
        firsts = range(0, len(self._all), _ENTRIES_A_CALL)
        return [slice(first, min(first + _ENTRIES_A_CALL, len(self._all))) for first in firsts]

    def _deal(self, ends: NDArray[np.int64], pairs: Any, targets: Any, progress: Progress) -> None:
        for piece in self._pieces():
            deal(
                self._all.rows[piece],
                self._all.columns[piece],
                self._all.values[piece],
                self._positions,
                self._size,
                self._settings.x_max,
                self._settings.alpha,
                ends,
                np.asarray(pairs),
                np.asarray(targets),
            )
            progress.advance(piece.stop - piece.start)

    def _shuffle(self, starts: NDArray[np.int64], pairs: Any, targets: Any, progress: Progress) -> None:
        seed = np.random.default_rng([self._settings.seed, 1]).integers(0, 1 << 62, dtype=np.uint64)
        for higher in range(self._settings.ranges):
            first, last = block_number(0, higher), block_number(0, higher + 1)
            shuffle_blocks(first, last, starts, seed, np.asarray(pairs), np.asarray(targets))
            progress.advance(int(starts[last] - starts[first]))


def _new_array(path: Path, dtype: DTypeLike, rows: int) -> np.memmap[Any, Any]:
    """Create a .npy file of pairs with all its space allocated: a memory map cannot report a full disk."""
    with storage_errors(path):
        array = np.lib.format.open_memmap(path, "w+", dtype, (rows, 2))
        with path.open("r+b") as file:
            os.posix_fallocate(file.fileno(), 0, path.stat().st_size)
    return array


# ── Training word vectors on co-occurrences with GloVe (Pennington, Socher and Manning 2014) ──────────────────────────

_STATE: Final = "state.json"
_FORMAT: Final = 1
_LANES: Final = 16  # numbers in a cache line; lengths are multiples of it, numbers beyond the dimensions stay 0
_PIECES: Final = 16  # of a stratum: a thread that finishes one takes the next

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
        train_blocks(
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
