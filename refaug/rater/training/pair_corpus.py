"""All pairs of logs, with hashes that tell which utterance and dialogue each belongs to, and their texts as piece ids.

Texts are read piece by piece; the arrays are in memory twice.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import Any, Final, Literal, NamedTuple, get_args

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray
from xxhash import xxh3_64_intdigest

from refaug.core.array_files import write_array
from refaug.core.errors import BadInput, Corrupt, Usage
from refaug.core.processes.kept import cached_property
from refaug.core.progress import Progress
from refaug.core.text.sentencepiece_tokenizer import SentencePieceTokenizer
from refaug.logs.pairs import text_key
from refaug.rater.language_coverage import Coverage
from refaug.rater.training.examples import hash_share
from refaug.rater.training.order import TrainingLogs

Rows = NDArray[np.int64]  # of pairs
Side = Literal["train", "validation"]

LEAST_LIMIT: Final = 20  # pairs an epoch
_AT_ONCE: Final = 100_000  # hashes that are Python integers at the same time
_MIXED: Final = np.uint64(0x9E3779B97F4A7C15)  # 2**64 over the golden ratio: spreads the numbers it multiplies
_PAIR_ARRAYS: Final = ("utterance", "reply", "asked", "said", "dialogue", "first")
_TEXT_ARRAYS: Final = ("pieces", "start")
_COLUMNS: Final = ("dialogue", "utterance", "response", "utterance_key", "response_key")
_EMPTY: Final = text_key("")  # of a text without visible characters
LEAST_PAIRS: Final = 200  # with fewer, a network learns nothing that generalises


@dataclass(frozen=True, kw_only=True)
class PairSettings:
    """Which pairs are used, and in what order."""

    batch: int = 256  # pairs
    validation_share: float = 0.05  # of the utterances
    limit: int | None = None  # pairs an epoch, drawn again each time; None: all
    seed: int = 1

    def __post_init__(self) -> None:
        if self.batch < 1:
            raise Usage(f"batches of {self.batch} pairs", remedy="at least 1")
        if self.limit is not None and self.limit < LEAST_LIMIT:
            raise Usage(f"{self.limit} pairs an epoch", remedy=f"at least {LEAST_LIMIT}, or all")
        if not 0 < self.validation_share < 1:
            raise Usage(f"a validation share of {self.validation_share}", remedy="give one between 0 and 1")


@dataclass(frozen=True, eq=False, kw_only=True)
class LogPairs:
    """The pairs of logs by the numbers of their texts, and hashes that identify utterances, replies and dialogues.

    Pair p has the texts `utterance[p]` and `reply[p]`; equal texts near each other in a log are one text. The pairs of
    log l are those from `first[l]` to `first[l + 1]`.
    """

    utterance: NDArray[np.int32]
    reply: NDArray[np.int32]
    asked: NDArray[np.uint64]  # hashes of the normalised utterances
    said: NDArray[np.uint64]  # hashes of the normalised replies
    dialogue: NDArray[np.uint64]  # hashes of the dialogues' names
    first: NDArray[np.int64]

    def __len__(self) -> int:
        return len(self.utterance)

    @cached_property
    def answered_pairs(self) -> NDArray[np.uint64]:
        """Sorted hashes of all pairs of an utterance and its reply."""
        return np.unique(_combine_hashes(self.asked, self.said))

    def fits_elsewhere(self, rows: Rows, other_rows: Rows) -> NDArray[np.bool_]:
        """Whether the reply of each other pair comes from another dialogue, and never answered the pair's utterance."""
        candidates = _combine_hashes(self.asked[rows], self.said[other_rows])
        places = np.minimum(np.searchsorted(self.answered_pairs, candidates), len(self.answered_pairs) - 1)
        fits: NDArray[np.bool_] = (self.answered_pairs[places] != candidates) & (
            self.dialogue[rows] != self.dialogue[other_rows]
        )
        return fits

    def of_sides(self, settings: PairSettings) -> dict[Side, Rows]:
        """Return the pairs to train on and to validate on; BadInput where there are too few of either."""
        sides: dict[Side, Rows] = {side: self.of_side(side, settings) for side in get_args(Side)}
        for side, rows in sides.items():
            if len(rows) < 2:
                raise BadInput(
                    f"{len(rows):,} of {len(self):,} pairs are left for {side}",
                    remedy="give more logs, or another --validation-share",
                )
        return sides

    def facts_of(self, rows: Rows) -> dict[str, int]:
        """Return how many pairs, utterances and dialogues there are among some pairs."""
        return {
            "positive": len(rows),
            "utterances": len(np.unique(self.asked[rows])),
            "dialogues": len(np.unique(self.dialogue[rows])),
        }

    def of_side(self, side: Side, settings: PairSettings) -> Rows:
        """Return the pairs of a side; pairs of the same utterance are on the same side, whatever else the log holds."""
        keys, of_pair = np.unique(self.asked, return_inverse=True)
        below = np.concatenate(
            [
                [hash_share(key, settings.seed) < settings.validation_share for key in batch.tolist()]
                for batch in (keys[at : at + _AT_ONCE] for at in range(0, max(1, len(keys)), _AT_ONCE))
            ]
        ).astype(np.bool_)
        is_validation = below[of_pair]
        return np.flatnonzero(is_validation if side == "validation" else ~is_validation)


@dataclass(frozen=True, eq=False, kw_only=True)
class PairCorpus(LogPairs):
    """The pairs of logs with their texts as piece ids: text t is `pieces[start[t]:start[t + 1]]`."""

    pieces: NDArray[np.uint16]
    start: NDArray[np.int64]


def _combine_hashes(utterance_hashes: NDArray[np.uint64], reply_hashes: NDArray[np.uint64]) -> NDArray[np.uint64]:
    """Return one hash of each utterance and reply; their order matters."""
    mixed: NDArray[np.uint64] = (utterance_hashes * _MIXED) ^ reply_hashes
    return mixed


def require_pairs(sources: TrainingLogs) -> None:
    """Raise BadInput if the logs have too few pairs, before any work starts."""
    pair_count = sources.pair_count
    if pair_count < LEAST_PAIRS:
        raise BadInput(
            f"{', '.join(log.manifest.name for log in sources.logs)}: {pair_count:,} pairs; at least {LEAST_PAIRS} are "
            "needed",
            remedy="give more logs",
        )


class PairPart(NamedTuple):
    """Some pairs of a log with the distinct texts in them, without pairs that have an empty text."""

    log: int
    texts: Sequence[str]  # in memory as long as they are read; then none
    text_count: int
    utterance: NDArray[np.int32]  # which of these texts
    reply: NDArray[np.int32]
    asked: NDArray[np.uint64]
    said: NDArray[np.uint64]
    dialogue: NDArray[np.uint64]

    def only(self, usable: NDArray[np.bool_]) -> PairPart:
        """Return the pairs both of whose texts are usable; the texts stay."""
        rows = usable[self.utterance] & usable[self.reply]
        return self._replace(**{name: getattr(self, name)[rows] for name in _PAIR_ARRAYS[:-1]})


def read_parts(sources: TrainingLogs, progress: Progress) -> Iterator[PairPart]:
    """Yield the pairs of the logs, in their order."""
    progress.stage("reading pairs", sources.pair_count, "pairs")
    for number, log in enumerate(sources.logs):
        for batch in log.batches(_COLUMNS):
            yield _without_empty(number, log.manifest.name, batch)
            progress.advance(batch.num_rows)


def write_pairs(parts: Sequence[PairPart], sources: TrainingLogs, folder: Path) -> Mapping[str, int]:
    """Write the arrays of pairs whose texts are numbered from one part to the next; return their counts."""
    before = np.cumsum([0, *(part.text_count for part in parts)])
    counts = np.zeros(len(sources.logs), np.int64)
    np.add.at(counts, [part.log for part in parts], [len(part.asked) for part in parts])
    arrays = {
        "utterance": _concatenate([part.utterance + at for part, at in zip(parts, before, strict=False)], np.int32),
        "reply": _concatenate([part.reply + at for part, at in zip(parts, before, strict=False)], np.int32),
        "asked": _concatenate([part.asked for part in parts], np.uint64),
        "said": _concatenate([part.said for part in parts], np.uint64),
        "dialogue": _concatenate([part.dialogue for part in parts], np.uint64),
        "first": np.concatenate([[0], np.cumsum(counts)]),
    }
    for name, array in arrays.items():
        write_array(folder / f"{name}.npy", array)
    pair_count = len(arrays["asked"])
    return {
        "pairs": pair_count,
        "empty": sources.pair_count - pair_count,
        "dialogues": len(np.unique(arrays["dialogue"])),
        "texts": int(before[-1]),
    }


def code_pairs(
    tokenizer: SentencePieceTokenizer, sources: TrainingLogs, folder: Path, max_tokens: int, progress: Progress
) -> Mapping[str, Any]:
    """Write the pairs of the logs, and their texts as piece ids."""
    if tokenizer.vocab_size > np.iinfo(np.uint16).max:
        raise BadInput(f"{tokenizer.path} has {tokenizer.vocab_size:,} pieces", remedy="at most 65,535")
    coverage, cut_count, parts = Coverage(), 0, list[PairPart]()
    pieces, lengths = list[NDArray[np.uint16]](), list[NDArray[np.int64]]()
    for part in read_parts(sources, progress):
        coded = tokenizer.encode_ids_batch(part.texts)
        coverage += Coverage.of_pieces(tokenizer, part.texts, coded)
        cut_count += sum(len(ids) > max_tokens for ids in coded)
        coded = [ids[:max_tokens] for ids in coded]
        lengths.append(np.array([len(ids) for ids in coded], np.int64))
        pieces.append(np.fromiter(chain.from_iterable(coded), np.uint16))
        parts.append(part._replace(texts=()))
    all_pieces = _concatenate(pieces, np.uint16)
    write_array(folder / "pieces.npy", all_pieces)
    write_array(folder / "start.npy", np.concatenate([[0], np.cumsum(_concatenate(lengths, np.int64))]))
    counts = write_pairs(parts, sources, folder)
    return {**counts, "pieces": len(all_pieces), "cut": cut_count, "coverage": coverage.as_json()}


def _without_empty(number: int, log: str, batch: pa.RecordBatch) -> PairPart:
    """Return the distinct texts of some rows, and the rows by their places among them, without empty texts."""
    utterance_keys, response_keys = (
        batch[name].to_numpy(zero_copy_only=False) for name in ("utterance_key", "response_key")
    )
    batch = batch.filter(pa.array((utterance_keys != _EMPTY) & (response_keys != _EMPTY)))
    coded = pa.concat_arrays([batch["utterance"], batch["response"]]).dictionary_encode()
    places = coded.indices.to_numpy(zero_copy_only=False).astype(np.int32)
    dialogues = batch["dialogue"].dictionary_encode()
    names = np.array([_hash(log, name) for name in dialogues.dictionary.to_pylist()], np.uint64)
    rows = batch.num_rows
    return PairPart(
        log=number,
        texts=coded.dictionary.to_pylist(),
        text_count=len(coded.dictionary),
        utterance=places[:rows],
        reply=places[rows:],
        asked=batch["utterance_key"].to_numpy(zero_copy_only=False),
        said=batch["response_key"].to_numpy(zero_copy_only=False),
        dialogue=names[dialogues.indices.to_numpy(zero_copy_only=False)],
    )


def _hash(log: str, dialogue: str) -> int:
    return xxh3_64_intdigest(f"{log}\0{dialogue}".encode())


def _concatenate(parts: list[NDArray[Any]], kind: type[np.generic]) -> NDArray[Any]:
    return np.concatenate([np.empty(0, kind), *parts]).astype(kind, copy=False)


def open_pairs(folder: Path) -> PairCorpus:
    """Map the files that `code_pairs` wrote."""
    return PairCorpus(**_map_arrays(folder, (*_PAIR_ARRAYS, *_TEXT_ARRAYS)))


def open_log_pairs(folder: Path) -> LogPairs:
    """Map the files that `write_pairs` wrote."""
    return LogPairs(**_map_arrays(folder, _PAIR_ARRAYS))


def _map_arrays(folder: Path, names: Sequence[str]) -> dict[str, Any]:
    try:
        return {name: np.load(folder / f"{name}.npy", mmap_mode="r", allow_pickle=False) for name in names}
    except (OSError, ValueError, EOFError) as error:
        raise Corrupt(f"{folder}: {error}", remedy="remove the folder and train again") from error


# ── Drawing replies for pairs: wrong ones from elsewhere or from the same dialogue, and others that fit ──────────────


Texts = NDArray[np.int64]
_DRAWS: Final = 20  # for a reply from elsewhere
_UTTERANCE: Final = 0.2  # share of the wrong replies from a dialogue that are the utterance itself


class ReplyDraws:
    """Draws replies, as texts, for pairs of one side; `rows` are the pairs of that side."""

    def __init__(self, pairs: LogPairs, rows: Rows) -> None:
        self._pairs, self._rows = pairs, rows
        self.bounds = np.searchsorted(rows, pairs.first)  # of the logs in it
        self._order = np.lexsort((np.arange(len(pairs)), pairs.asked))  # pairs of one utterance together
        self._sorted_asked = pairs.asked[self._order]
        self.begin, self.end = dialogue_runs(pairs.dialogue)

    def random(self, rows: Rows, rng: np.random.Generator) -> Texts:
        """Draw replies of the same log and side that never answered the utterance; the last draw stays if none fits."""
        log = np.searchsorted(self._pairs.first, rows, side="right") - 1
        drawn = np.zeros(len(rows), np.int64)
        waiting = np.arange(len(rows))
        for _ in range(_DRAWS):
            drawn[waiting] = self._rows[rng.integers(self.bounds[log[waiting]], self.bounds[log[waiting] + 1])]
            waiting = waiting[~self._pairs.fits_elsewhere(rows[waiting], drawn[waiting])]
            if not len(waiting):
                break
        return self._pairs.reply[drawn].astype(np.int64)

    def from_dialogue(self, rows: Rows, rng: np.random.Generator, utterances: float = _UTTERANCE) -> Texts:
        """Draw another turn of the dialogue, or the utterance itself; -1 where it says what the right reply says."""
        pairs = self._pairs
        drawn = rng.integers(self.begin[rows], self.end[rows])
        is_utterance = (drawn == rows) | (rng.random(len(rows)) < utterances)
        texts = np.where(is_utterance, pairs.utterance[rows], pairs.reply[drawn]).astype(np.int64)
        says = np.where(is_utterance, pairs.asked[rows], pairs.said[drawn])
        return np.where(says == pairs.said[rows], -1, texts)

    def known(self, rows: Rows, share: float, rng: np.random.Generator) -> Texts:
        """Draw another reply to the same utterance for a share of the pairs; -1 for the rest."""
        pairs = self._pairs
        begins = np.searchsorted(self._sorted_asked, pairs.asked[rows], side="left")
        ends = np.searchsorted(self._sorted_asked, pairs.asked[rows], side="right")
        drawn = self._order[rng.integers(begins, ends)]
        fits = (pairs.said[drawn] != pairs.said[rows]) & (rng.random(len(rows)) < share)
        return np.where(fits, pairs.reply[drawn], -1)


def dialogue_runs(dialogues: NDArray[np.uint64]) -> tuple[Rows, Rows]:
    """Return where the run of pairs of the same dialogue around each pair begins and ends."""
    starts = np.flatnonzero(np.concatenate([[True], dialogues[1:] != dialogues[:-1]]))
    lengths = np.diff(np.concatenate([starts, [len(dialogues)]]))
    return np.repeat(starts, lengths), np.repeat(starts + lengths, lengths)
