"""Runs of replies that stand in a log word for word: w turns that follow each other in one of its dialogues.

A log stores pairs, so a window of w turns is a chain of w − 1 pairs of one dialogue, each of which begins with the turn
that the one before ends with. The log is read once for the hashes of its texts, which lie in a file; conversations
come block by block, and each block reads that file, and the dialogues of the log where some conversation has longer
chains. So neither the conversations nor the log need fit in memory, and a block is small.

In dialogues of turns, positions are turn numbers, which must follow each other. In message trees, positions are names,
and the log does not say which message a pair answers: there two pairs are joined only where the text between them
stands once in the tree, by one speaker, so that no window crosses two branches.
"""

from __future__ import annotations

from array import array
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from hashlib import blake2b
from itertools import pairwise
from pathlib import Path
from types import TracebackType
from typing import Final, Self

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from refaug.core.files import make_folder, remove_tree, storage_errors, unique_suffix
from refaug.core.progress import Progress, Silent
from refaug.logs.store import StoredLog

# ── Log hashes ────────────────────

Hashes = NDArray[np.uint64]  # of texts

_TEXTS: Final = ("utterance", "response")
_NO_TEXT: Final = 0  # the hash of a missing one
_AT_ONCE: Final = 20_000  # pairs that are read at a time


class LogHashes:
    """The hashes of utterances and responses, pair by pair in the log's order; a context manager, for its file."""

    def __init__(self, log: StoredLog, scratch: Path, progress: Progress) -> None:
        self.log = log
        self._folder = scratch / f"self-play-log-{unique_suffix()}"
        make_folder(scratch)
        make_folder(self._folder)
        self._path, self._progress, self._is_written = self._folder / "hashes", progress, False

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, _kind: type[BaseException] | None, _error: BaseException | None, _at: TracebackType | None
    ) -> None:
        remove_tree(self._folder)

    @property
    def pairs(self) -> int:
        """The pairs of the log."""
        return sum(part.pairs for part in self.log.manifest.parts)

    def blocks(self) -> Iterator[tuple[Hashes, Hashes]]:
        """Yield the hashes of utterances and of responses, some thousand pairs at a time; the log is read once."""
        if not self._is_written:
            self._write()
        with self._path.open("rb") as file:
            while len(rows := np.fromfile(file, np.uint64, 2 * _AT_ONCE)):
                yield rows[0::2], rows[1::2]

    def batches(self, columns: tuple[str, ...]) -> Iterator[tuple[Hashes, Hashes, pa.RecordBatch]]:
        """Yield the hashes beside other columns of the same pairs."""
        if not self._is_written:
            self._write()
        with self._path.open("rb") as file:
            for batch in self.log.batches(columns, size=_AT_ONCE):
                rows = np.fromfile(file, np.uint64, 2 * batch.num_rows)
                yield rows[0::2], rows[1::2], batch

    def _write(self) -> None:
        self._progress.stage("log", self.pairs, "pairs")
        with storage_errors(self._path), self._path.open("wb") as file:
            for batch in self.log.batches(_TEXTS, size=_AT_ONCE):
                rows = np.empty(2 * batch.num_rows, np.uint64)
                for place, name in enumerate(_TEXTS):
                    rows[place::2] = _hashes_of(batch[name])
                file.write(rows.tobytes())
                self._progress.advance(batch.num_rows)
        self._is_written = True


def text_hash(text: str) -> int:
    """Return the hash of a text, as the file has it."""
    digest = blake2b(text.encode("utf-8", "surrogatepass"), digest_size=8).digest()
    return int.from_bytes(digest, "little") or 1  # 0 is a text that is missing


def _hashes_of(column: pa.Array) -> Hashes:
    """Return the hashes of the texts of a column; equal texts are hashed once."""
    distinct = column.dictionary_encode()
    hashes = np.array([*map(text_hash, distinct.dictionary.to_pylist()), _NO_TEXT], np.uint64)  # its end: no text
    of_rows: Hashes = hashes[distinct.indices.fill_null(len(hashes) - 1).to_numpy(zero_copy_only=False)]
    return of_rows


# ── Runs of replies that stand in a log word for word ─────────────────────────────────────────────────────────────────

Numbers = NDArray[np.int64]

_COLUMNS: Final = ("dialogue", "position", "utterance_speaker", "response_speaker")
_ABSENT: Final = -1
_LONGEST_NUMBER: Final = 6  # digits of a turn number; longer positions are names of messages
MOST_REPLIES: Final = 1 << 14  # of a block, with its conversations


@dataclass(frozen=True, slots=True)
class _LoggedPair:
    position: str
    key: int
    response: int  # the code of its text
    speakers: tuple[str | None, str | None]


@dataclass(frozen=True, slots=True)
class _Block:
    """Conversations as chains of pairs of codes: `keys` one behind the other, of which `ends` end a conversation.

    The code of a text is the place of its hash among those of all texts.
    """

    texts: Hashes
    keys: Numbers
    ends: Numbers

    @classmethod
    def of(cls, hashes: Hashes, lengths: Numbers) -> _Block:
        """Return the block of conversations, given as the hashes of all replies and the number of each one's."""
        texts, codes = np.unique(hashes, return_inverse=True)
        is_inner = np.ones(len(hashes), np.bool_)
        is_inner[np.cumsum(lengths)[lengths > 0] - 1] = False  # a last reply begins no pair
        firsts = np.flatnonzero(is_inner)
        keys = codes[firsts] * len(texts) + codes[firsts + 1]
        return cls(texts, keys.astype(np.int64), np.cumsum(np.maximum(lengths - 1, 0)))

    def conversation_of(self, places: Numbers) -> Numbers:
        """Return the conversation of each place among the keys."""
        return np.searchsorted(self.ends, places, side="right")

    def chains(self, is_found: NDArray[np.bool_], pairs: int) -> Numbers:
        """Return the places at which so many pairs in a row begin that are found, all of one conversation."""
        if len(self.keys) < pairs:
            return np.zeros(0, np.int64)
        begins = np.flatnonzero(np.lib.stride_tricks.sliding_window_view(is_found, pairs).all(axis=1))
        in_one: Numbers = begins[self.conversation_of(begins) == self.conversation_of(begins + pairs - 1)]
        return in_one


def _in_log(logged: LogHashes, block: _Block, windows: Sequence[int]) -> dict[int, set[int]]:
    present = {window: set[int]() for window in windows}
    if not len(block.keys):
        return present
    texts, sought = block.texts, np.unique(block.keys)
    is_found = np.zeros(len(sought), np.bool_)
    for utterances, responses in logged.blocks():
        keys = _keys(utterances, responses, texts)[0]
        is_found[_places(keys[keys >= 0], sought)] = True
    is_found_at = is_found[np.searchsorted(sought, block.keys)]
    chains = dict[tuple[int, ...], dict[int, list[int]]]()  # the conversations of each chain, by window
    for window in windows:
        begins = block.chains(is_found_at, window - 1)
        numbers = block.conversation_of(begins).tolist()
        if window == 2:
            present[window].update(numbers)
            continue
        for begin, number in zip(begins.tolist(), numbers, strict=True):
            chain = tuple(block.keys[begin : begin + window - 1].tolist())
            chains.setdefault(chain, {}).setdefault(window, []).append(number)
    if chains:
        _add_chained(present, chains, _dialogues(logged, texts, chains), len(texts))
    return present


@dataclass
class LogOverlap:
    """How many conversations of a bot there are, and how many have a window that the log has, by window length."""

    conversations: int = 0
    overlapping: Counter[int] = field(default_factory=Counter)


def count_in_log(
    log: StoredLog,
    conversations: Iterable[tuple[str, Sequence[str]]],
    windows: Sequence[int],
    scratch: Path,
    progress: Progress | None = None,
) -> dict[str, LogOverlap]:
    """Count bot by bot which conversations have a window that the log has; conversations are given with their bot.

    Files are made in `scratch`.
    """
    overlaps = defaultdict[str, LogOverlap](LogOverlap)
    with LogHashes(log, scratch, progress or Silent()) as logged:
        for bots, block in _blocks(conversations):
            present = _in_log(logged, block, windows)
            for bot in bots:
                overlaps[bot].conversations += 1
            for window, numbers in present.items():
                for number in numbers:
                    overlaps[bots[number]].overlapping[window] += 1
    return dict(overlaps)


def _blocks(conversations: Iterable[tuple[str, Sequence[str]]]) -> Iterator[tuple[list[str], _Block]]:
    """Yield the conversations in blocks of bounded size, with the bot of each; of texts the hashes are held."""
    bots, hashes, lengths, names = list[str](), array("Q"), array("q"), dict[str, str]()
    for bot, replies in conversations:
        bots.append(names.setdefault(bot, bot))
        hashes.extend(map(text_hash, replies))
        lengths.append(len(replies))
        if len(hashes) + len(bots) >= MOST_REPLIES:
            yield bots, _block_of(hashes, lengths)
            bots, hashes, lengths = [], array("Q"), array("q")
    if bots:
        yield bots, _block_of(hashes, lengths)


def _block_of(hashes: array[int], lengths: array[int]) -> _Block:
    return _Block.of(np.array(hashes, np.uint64), np.array(lengths, np.int64))


def _codes(hashes: Hashes, texts: Hashes) -> Numbers:
    """Return the codes of texts, -1 for a text that is not in the list."""
    places = np.minimum(np.searchsorted(texts, hashes), len(texts) - 1)
    codes: Numbers = np.where(texts[places] == hashes, places, _ABSENT).astype(np.int64)
    return codes


def _keys(utterances: Hashes, responses: Hashes, texts: Hashes) -> tuple[Numbers, Numbers]:
    """Return the key of each pair, -1 where a text is not in the list, and the codes of its responses."""
    firsts, seconds = _codes(utterances, texts), _codes(responses, texts)
    keys = np.where((firsts >= 0) & (seconds >= 0), firsts * len(texts) + seconds, _ABSENT)
    return keys, seconds


def _places(keys: Numbers, sought: Numbers) -> Numbers:
    """Return the places, in a sorted list, of those keys that are in it."""
    places = np.minimum(np.searchsorted(sought, keys), len(sought) - 1)
    present: Numbers = places[sought[places] == keys]
    return present


def _dialogues(logged: LogHashes, texts: Hashes, chains: Iterable[tuple[int, ...]]) -> dict[str, list[_LoggedPair]]:
    """Return by dialogue the pairs of the chains, and all that end with a text between two of them."""
    wanted_keys = np.unique(np.array([key for chain in chains for key in chain], np.int64))
    between = np.unique(np.array([key % len(texts) for chain in chains for key in chain[:-1]], np.int64))
    by_dialogue: dict[str, list[_LoggedPair]] = defaultdict(list)
    for utterances, responses, batch in logged.batches(_COLUMNS):
        keys, codes = _keys(utterances, responses, texts)
        rows = np.flatnonzero(np.isin(keys, wanted_keys) | np.isin(codes, between))
        for row, fields in zip(rows.tolist(), batch.take(pa.array(rows)).to_pylist(), strict=True):
            speakers = fields["utterance_speaker"], fields["response_speaker"]
            pair = _LoggedPair(fields["position"], int(keys[row]), int(codes[row]), speakers)
            by_dialogue[fields["dialogue"]].append(pair)
    return by_dialogue


def _add_chained(
    present: dict[int, set[int]],
    chains: dict[tuple[int, ...], dict[int, list[int]]],
    by_dialogue: dict[str, list[_LoggedPair]],
    count: int,
) -> None:
    """Add the conversations whose chains some dialogue has; `count` is the number of texts."""
    by_first: dict[int, list[tuple[int, ...]]] = defaultdict(list)
    for chain in chains:
        by_first[chain[0]].append(chain)
    for pairs in by_dialogue.values():
        of_key: dict[int, list[_LoggedPair]] = defaultdict(list)
        responses = Counter(pair.response for pair in pairs)
        for pair in pairs:
            of_key[pair.key].append(pair)
        for first in list(of_key):
            for chain in list(by_first.get(first, ())):
                if _is_chained(chain, of_key, responses, count):
                    for window, numbers in chains[chain].items():
                        present[window].update(numbers)
                    by_first[first].remove(chain)  # found once is enough


def _is_chained(
    chain: tuple[int, ...], of_key: dict[int, list[_LoggedPair]], responses: Counter[int], count: int
) -> bool:
    """Return whether a dialogue has the pairs of a chain one behind the other."""
    ends = of_key[chain[0]]
    for before, key in pairwise(chain):
        is_once = responses[before % count] == 1
        ends = [pair for pair in of_key.get(key, ()) if any(_follows(end, pair, is_once=is_once) for end in ends)]
    return bool(ends)


def _follows(before: _LoggedPair, after: _LoggedPair, *, is_once: bool) -> bool:
    """Return whether a pair answers another; `is_once`: the text between them stands once in the dialogue."""
    speakers = before.speakers[1], after.speakers[0]
    if None not in speakers and speakers[0] != speakers[1]:
        return False
    if _is_number(before.position) and _is_number(after.position):
        return int(after.position) == int(before.position) + 1
    return is_once


def _is_number(position: str) -> bool:
    return position.isdigit() and position.isascii() and len(position) <= _LONGEST_NUMBER
