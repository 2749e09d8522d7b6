"""Texts to tokens as arrays: the position of each token's bytes, its 64-bit hash, and a table from hash to code.

A billion tokens are too many for a Python object each, so a token is a hash here, and its spelling is decoded only on
request. ASCII texts of the tokenizer `word` never become Python objects.
"""

from __future__ import annotations

import itertools
import re
import string
from array import array
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NamedTuple, Self

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from refaug.core.errors import BadInput, Corrupt, Usage
from refaug.core.files import make_folder, write_aside
from refaug.core.kernels.kernel import compiled, frozen
from refaug.core.text.sentencepiece_tokenizer import SentencePieceTokenizer
from refaug.core.text.tokenizer_base import Tokenizer, WordTokenizer
from refaug.core.text.tokenizers import default_tokenizer, get_tokenizer

if TYPE_CHECKING:
    from refaug.logs.store import StoredLog


# ── Compiled loops of `tokens.py`: splitting ASCII texts, hashing tokens, and the table from hash to code ─────────────

Bytes = NDArray[np.uint8]
Hashes = NDArray[np.uint64]
Codes = NDArray[np.int32]
Places = NDArray[np.int64]

# The tokens of `word` in ASCII text, as tokenizer_base.WordTokenizer defines them; tests keep both equal.

_SEPARATOR: Final = 0  # white space and control characters
_MARK: Final = 1
_LETTER: Final = 2
_DIGIT: Final = 3


def _kinds() -> Bytes:
    kinds = np.full(256, _SEPARATOR, np.uint8)
    for characters, kind in ((string.punctuation, _MARK), (string.ascii_letters, _LETTER), (string.digits, _DIGIT)):
        kinds[list(characters.encode())] = kind
    return kinds


_KIND: Final = _kinds()
_LOWER: Final = np.array([ord(chr(byte).lower()) if byte < 128 else byte for byte in range(256)], np.uint8)
_OPENING: Final = ord("<")
_CLOSING: Final = ord(">")
_APOSTROPHE: Final = ord("'")
_IN_NUMBERS: Final = (ord("."), ord(","))
_IN_NAMES: Final = (ord("_"), ord("-"))
_LONGEST_NAME: Final = 32


@compiled
def survey(raw: Bytes, bounds: Places, lowered: Bytes, plain: NDArray[np.bool_]) -> int:
    """Fill in the lower-case bytes and which texts are ASCII; return room enough for the tokens of those.

    A token begins where a byte differs from the one before and the two are not both of a word. The only other
    tokens begin beside a <name>, at a < before it and a > after it, and a name leaves room for two such tokens: its
    first letter and its >.
    """
    room = 0
    for text in range(bounds.size - 1):
        highest, changes = 0, 0
        before, kind_before = np.uint8(0), _SEPARATOR
        for place in range(bounds[text], bounds[text + 1]):
            byte = raw[place]
            kind = _KIND[byte]
            highest |= byte
            changes += kind != _SEPARATOR and byte != before and (kind < _LETTER or kind_before < _LETTER)
            lowered[place] = _LOWER[byte]
            before, kind_before = byte, kind
        plain[text] = highest < 128
        room += changes if plain[text] else 0
    return room


@compiled
def cut(
    content: Bytes,
    bounds: Places,
    plain: NDArray[np.bool_],
    python_counts: Places,
    python_bounds: Places,
    starts: Places,
    ends: Places,
    offsets: Places,
) -> int:
    """Fill in the bounds of the tokens of all texts, in order, and return their number.

    Texts that are not plain were split in Python: `python_counts` has the tokens of each of them, `python_bounds` the
    bounds of all these tokens in the common bytes.
    """
    count, tokens_used, texts_used = 0, 0, 0
    for text in range(plain.size):
        if plain[text]:
            count = _cut_text(content, bounds[text], bounds[text + 1], count, starts, ends)
        else:
            for _ in range(python_counts[texts_used]):
                starts[count], ends[count] = python_bounds[tokens_used], python_bounds[tokens_used + 1]
                count += 1
                tokens_used += 1
            texts_used += 1
        offsets[text + 1] = count
    return count


@compiled
def _cut_text(content: Bytes, start: int, end: int, count: int, starts: Places, ends: Places) -> int:
    """Split one text in lower-case ASCII; `count`, the number of tokens so far, comes in and goes out."""
    place = start
    while place < end:
        kind = _KIND[content[place]]
        if kind == _SEPARATOR:
            place += 1
            continue
        stop = _end_of_word(content, place, end) if kind >= _LETTER else _end_of_marks(content, place, end)
        starts[count], ends[count] = place, stop
        count += 1
        place = stop
    return count


@compiled
def _end_of_word(content: Bytes, place: int, end: int) -> int:
    """Return where letters and digits end, including inner apostrophes, and . and , between digits."""
    stop = place + 1
    while stop < end:
        if _KIND[content[stop]] < _LETTER:
            after = _KIND[content[stop + 1]] if stop + 1 < end else _SEPARATOR
            joins = content[stop] == _APOSTROPHE and after >= _LETTER
            between_digits = content[stop] in _IN_NUMBERS and after == _DIGIT and _KIND[content[stop - 1]] == _DIGIT
            if not (joins or between_digits):
                break
        stop += 1
    return stop


@compiled
def _end_of_marks(content: Bytes, place: int, end: int) -> int:
    """Return where a <name> or a run of one mark ends; a run of < leaves its last one to the name after it."""
    mark = content[place]
    stop = _end_of_name(content, place, end) if mark == _OPENING else 0
    if stop > 0:
        return stop
    stop = place + 1
    while stop < end and content[stop] == mark:
        stop += 1
    if mark == _OPENING and stop - place > 1 and _end_of_name(content, stop - 1, end) > 0:
        return stop - 1
    return stop


@compiled
def _end_of_name(content: Bytes, opening: int, end: int) -> int:
    """Return where the <name> ends that begins at this <; 0 if none does."""
    first = opening + 1
    if first >= end or _KIND[content[first]] != _LETTER:
        return 0
    stop = first + 1
    while stop < end and (_KIND[content[stop]] >= _LETTER or content[stop] in _IN_NAMES):
        stop += 1
    return stop + 1 if stop < end and content[stop] == _CLOSING and stop - first <= _LONGEST_NAME else 0


# Hashes

_FNV_START: Final = np.uint64(0xCBF29CE484222325)
_FNV_PRIME: Final = np.uint64(0x100000001B3)
_MIX_FIRST: Final = np.uint64(0xFF51AFD7ED558CCD)
_MIX_SECOND: Final = np.uint64(0xC4CEB9FE1A85EC53)
_MIX_SHIFT: Final = np.uint64(33)


@compiled
def hash_all(content: Bytes, starts: Places, ends: Places, hashes: Hashes) -> None:
    """Fill in the 64-bit hash of each token's bytes: FNV-1a, then the final mixing of MurmurHash3.

    The mixing makes the low bits, which choose the slot in a table, depend on all bits. Hashes are stored in
    indexes, so this function must never change.
    """
    for token in range(starts.size):
        digest = _FNV_START
        for place in range(starts[token], ends[token]):
            digest = (digest ^ np.uint64(content[place])) * _FNV_PRIME
        digest = (digest ^ (digest >> _MIX_SHIFT)) * _MIX_FIRST
        digest = (digest ^ (digest >> _MIX_SHIFT)) * _MIX_SECOND
        hashes[token] = digest ^ (digest >> _MIX_SHIFT)


# The table: `slots` holds codes (-1: free), `by_code` the hash of each; probing starts at a hash's slot


@compiled
def _slot_of(digest: np.uint64, slots: Codes, by_code: Hashes) -> np.uint64:
    """Return the slot that has this hash, or the free one where it belongs; half of the slots are free."""
    mask = np.uint64(slots.size - 1)
    slot = digest & mask
    while slots[slot] >= 0 and by_code[slots[slot]] != digest:
        slot = (slot + np.uint64(1)) & mask
    return slot


@compiled
def enter_all(by_code: Hashes, count: int, slots: Codes) -> None:
    """Enter the first `count` hashes into free slots; of equal ones the first keeps its code."""
    for code in range(count):
        slot = _slot_of(by_code[code], slots, by_code)
        if slots[slot] < 0:
            slots[slot] = code


@compiled
def look_up(hashes: Hashes, slots: Codes, by_code: Hashes, codes: Codes) -> None:
    """Fill in the code of each hash, -1 if it has none."""
    for token in range(hashes.size):
        codes[token] = slots[_slot_of(hashes[token], slots, by_code)]


@compiled
def look_up_or_enter(
    hashes: Hashes, first: int, slots: Codes, by_code: Hashes, count: int, codes: Codes
) -> tuple[int, int]:
    """Fill in codes from token `first` on, the next code for a new hash, until all are done or the table is full.

    Returns how many tokens are done, and how many codes there are.
    """
    for token in range(first, hashes.size):
        slot = _slot_of(hashes[token], slots, by_code)
        if slots[slot] < 0:
            if count == by_code.size:
                return token, count
            slots[slot] = count
            by_code[count] = hashes[token]
            count += 1
        codes[token] = slots[slot]
    return hashes.size, count


# Counting words


@compiled
def count_codes(codes: Codes, counts: Places, known_count: int, firsts: Places) -> None:
    """Count each code; fill in the token where each code from `known_count` on occurs first, in the order of codes."""
    following = known_count
    for token in range(codes.size):
        code = codes[token]
        counts[code] += 1
        if code == following:
            firsts[following - known_count] = token
            following += 1


@compiled
def copy_all(content: Bytes, starts: Places, ends: Places, out: Bytes) -> None:
    """Copy these stretches of the content, one after the other."""
    to = 0
    for stretch in range(starts.size):
        for place in range(starts[stretch], ends[stretch]):
            out[to] = content[place]
            to += 1


# ── Texts to tokens as arrays: the position of each token's bytes, its 64-bit hash, and a table from hash to code ─────


@dataclass(frozen=True, eq=False, kw_only=True)
class Tokens:
    """The tokens of texts, one text after the other."""

    hashes: Hashes  # (tokens,) of the token's bytes in UTF-8; never changes
    offsets: Places  # (texts + 1,) the tokens of text i are offsets[i] to offsets[i + 1]
    content: Bytes
    starts: Places  # (tokens,) where the token's bytes begin in content, in any order
    ends: Places  # (tokens,)

    def __len__(self) -> int:
        """The number of texts."""
        return self.offsets.size - 1


class Splitter:
    """A tokenizer for many texts at a time: its exact tokens, as arrays.

    For `word`, a compiled loop splits texts in ASCII; other texts, and all texts of other tokenizers, go through
    `tokenize_batch`. A splitter has no state between calls, so several threads may share one.
    """

    def __init__(self, tokenizer: Tokenizer) -> None:
        self.tokenizer = tokenizer

    def split(self, texts: pa.StringArray | pa.LargeStringArray | Sequence[str]) -> Tokens:
        """Return the tokens of texts in order; a null is refused, a lone surrogate counts as U+FFFD."""
        if len(texts) <= _FEW and not isinstance(texts, pa.Array) and None not in texts:
            column, (raw, bounds) = texts, _encode(texts)
        else:
            column = _column(texts)
            raw, bounds = _content(column)
        plain = np.zeros(len(column), np.bool_)
        lowered = np.empty(raw.size if isinstance(self.tokenizer, WordTokenizer) else 0, np.uint8)
        room = survey(raw, bounds, lowered, plain) if lowered.size else 0
        content, python_counts, python_bounds = self._tokenize_in_python(column, plain, lowered)
        room += python_bounds.size - 1
        starts, ends = np.empty(room, np.int64), np.empty(room, np.int64)
        offsets = np.zeros(len(column) + 1, np.int64)
        count = cut(content, bounds, plain, python_counts, python_bounds, starts, ends, offsets)
        starts, ends = starts[:count], ends[:count]
        return Tokens(
            hashes=_hash_tokens(content, starts, ends), offsets=offsets, content=content, starts=starts, ends=ends
        )

    def _tokenize_in_python(
        self, column: Any, plain: NDArray[np.bool_], lowered: Bytes
    ) -> tuple[Bytes, Places, Places]:
        """Tokenize the texts that are not plain, and append the bytes of their tokens to those of the others.

        Further values: the number of tokens of each of these texts, and the bounds of their tokens.
        """
        if plain.all():
            return lowered, np.zeros(0, np.int64), np.zeros(1, np.int64)
        lists = self.tokenizer.tokenize_batch(_column(column).filter(pa.array(~plain)).to_pylist())
        content, bounds = _content(pa.array(itertools.chain.from_iterable(lists), pa.large_string()))
        counts = np.fromiter(map(len, lists), np.int64, len(lists))
        return np.concatenate([lowered, content]), counts, bounds + lowered.size


_SURROGATES: Final = re.compile("[\ud800-\udfff]")


def _column(texts: pa.StringArray | pa.LargeStringArray | Sequence[str]) -> Any:
    """Return texts as an Arrow array without nulls."""
    try:
        column = texts if isinstance(texts, pa.Array) else pa.array(texts, pa.large_string())
    except UnicodeEncodeError:
        column = pa.array([_SURROGATES.sub("\ufffd", text) for text in texts], pa.large_string())
    if not pa.types.is_string(column.type) and not pa.types.is_large_string(column.type):
        raise BadInput(f"texts are expected, an array of {column.type} was given", remedy="cast it to string")
    if column.null_count:
        place = column.is_null().index(True).as_py()
        raise BadInput(f"text {place} of {len(column)} is null", remedy='leave it out, or give ""')
    return column


_FEW: Final = 8  # texts that are encoded faster without Arrow


def _encode(texts: Sequence[str]) -> tuple[Bytes, Places]:
    """Return the same as `_content`, but of a few texts that are not in an Arrow array."""
    encoded = [text.encode("utf-8", "surrogatepass") for text in texts]
    if any(b"\xed" in encoded_text for encoded_text in encoded):  # surrogates begin with this byte
        return _content(_column(texts))
    bounds = np.zeros(len(encoded) + 1, np.int64)
    np.cumsum(list(map(len, encoded)), out=bounds[1:])
    content = np.frombuffer(b"".join(encoded), np.uint8)
    content.flags.writeable = False
    return content, bounds


def _content(column: Any) -> tuple[Bytes, Places]:
    """Return the bytes of an Arrow array of strings, without copying, and the bounds of each string, (strings + 1,).

    The bytes are read-only, so that loops are compiled for one kind of array.
    """
    _, bounds, buffer = column.buffers()
    wide = np.int64 if pa.types.is_large_string(column.type) else np.int32
    places = np.zeros(1, np.int64)
    if len(column):
        places = np.frombuffer(bounds, wide, len(column) + 1, column.offset * wide().itemsize).astype(np.int64)
    start, end = int(places[0]), int(places[-1])
    content = np.frombuffer(buffer, np.uint8, end - start, start) if end > start else np.zeros(0, np.uint8)
    content.flags.writeable = False
    return content, places - start


def _hash_tokens(content: Bytes, starts: Places, ends: Places) -> Hashes:
    hashes = np.empty(starts.size, np.uint64)
    hash_all(frozen(content), frozen(starts), frozen(ends), hashes)
    return hashes


def hash_words(words: Sequence[str]) -> Hashes:
    """Hash words as tokens are hashed."""
    content, bounds = _content(_column(words))
    return _hash_tokens(content, bounds[:-1], bounds[1:])


# Hashes to codes


class WordTable:
    """Numbers words by their hashes; words with the same hash (one pair in 2⁶⁴) count as one.

    Several threads may read a table that does not grow.
    """

    def __init__(self) -> None:
        self._slots = np.full(_FEWEST_SLOTS, -1, np.int32)
        self._by_code = np.empty(_FEWEST_SLOTS // 2, np.uint64)  # its size bounds the codes: half of the slots
        self._count = 0

    @classmethod
    def of(cls, words: Sequence[str]) -> Self:
        """Number these words 0, 1, …; a repeated word keeps its first code, and its second code stays unused."""
        return cls.of_hashes(hash_words(words))

    @classmethod
    def of_hashes(cls, hashes: Hashes) -> Self:
        """Number words 0, 1, … by their hashes alone, as `hashes_in_order` returns them."""
        table = cls()
        size = _FEWEST_SLOTS
        while size < 2 * hashes.size:
            size *= 2
        table._count = hashes.size
        table._resize(hashes, size)
        return table

    def __len__(self) -> int:
        """The number of codes: the next new word gets this one."""
        return self._count

    def codes(self, hashes: Hashes, *, grow: bool = False) -> Codes:
        """Return the code of each hash; with `grow` a new hash gets the next code, else -1."""
        hashes = frozen(np.asarray(hashes, np.uint64))
        codes = np.empty(hashes.size, np.int32)
        if not grow:
            look_up(hashes, self._slots, self._by_code, codes)
            return codes
        done = 0
        while done < hashes.size:
            done, self._count = look_up_or_enter(hashes, done, self._slots, self._by_code, self._count, codes)
            if done < hashes.size:
                self._resize(self._by_code, 2 * self._slots.size)
        return codes

    def hashes_in_order(self) -> Hashes:
        """Return a copy of the hashes, in the order of their codes."""
        return self._by_code[: self._count].copy()

    def _resize(self, by_code: Hashes, size: int) -> None:
        self._slots = np.full(size, -1, np.int32)
        self._by_code = np.empty(size // 2, np.uint64)
        self._by_code[: self._count] = by_code[: self._count]
        enter_all(self._by_code, self._count, self._slots)


_FEWEST_SLOTS: Final = 1024


# The words of a log and how often they occur


class WordCounts:
    """Counts the words of texts, batch after batch; memory grows only with the number of distinct words."""

    def __init__(self) -> None:
        self.total = 0  # words counted so far, including repetitions
        self._table = WordTable()
        self._counts = np.zeros(_FEWEST_SLOTS, np.int64)
        self._spellings = bytearray()  # of the words in the order of their codes, one after the other
        self._lengths = array("q")

    def __len__(self) -> int:
        """The number of distinct words."""
        return len(self._table)

    def add(self, tokens: Tokens) -> None:
        """Add these tokens to the counts."""
        known_count = len(self._table)
        codes = self._table.codes(tokens.hashes, grow=True)
        if len(self._table) > self._counts.size:
            self._counts = np.concatenate([self._counts, np.zeros(len(self._table), np.int64)])
        firsts = np.empty(len(self._table) - known_count, np.int64)
        count_codes(codes, self._counts, known_count, firsts)
        starts, ends = tokens.starts[firsts], tokens.ends[firsts]
        spellings = np.empty(int((ends - starts).sum()), np.uint8)
        copy_all(tokens.content, starts, ends, spellings)
        self._spellings += spellings.tobytes()
        self._lengths.frombytes((ends - starts).tobytes())
        self.total += codes.size

    def spelled(self) -> tuple[pa.LargeStringArray, NDArray[np.int64]]:
        """Return all words and their counts."""
        return self._words(), self._counts[: len(self)]

    def add_counts(self, words: pa.LargeStringArray, counts: NDArray[np.int64]) -> None:
        """Add words that were counted elsewhere."""
        content, bounds = _content(words)
        starts, ends = bounds[:-1], bounds[1:]
        known_count = len(self._table)
        codes = self._table.codes(_hash_tokens(content, starts, ends), grow=True)
        if len(self._table) > self._counts.size:
            self._counts = np.concatenate([self._counts, np.zeros(len(self._table), np.int64)])
        np.add.at(self._counts, codes, counts)
        _, firsts = np.unique(codes, return_index=True)
        new = firsts[codes[firsts] >= known_count]
        spellings = np.empty(int((ends[new] - starts[new]).sum()), np.uint8)
        copy_all(content, starts[new], ends[new], spellings)
        self._spellings += spellings.tobytes()
        self._lengths.frombytes((ends[new] - starts[new]).tobytes())
        self.total += int(counts.sum())

    def most_common(self, *, min_count: int = 1, max_words: int | None = None) -> tuple[list[str], Places]:
        """Return the words and their counts: by descending frequency, then by code points."""
        if max_words is not None and max_words < 1:
            raise Usage(f"a vocabulary of {max_words} words is none", remedy="ask for one word or more")
        counts = self._counts[: len(self)]
        if max_words is not None and max_words < counts.size:
            min_count = max(min_count, int(np.partition(counts, -max_words)[-max_words]))
        rows = np.flatnonzero(counts >= min_count)
        words = self._words().take(pa.array(rows))
        table = pa.table({"count": counts[rows], "word": words})
        order = pc.sort_indices(table, [("count", "descending"), ("word", "ascending")])[:max_words]
        return words.take(order).to_pylist(), counts[rows][order.to_numpy()]

    def _words(self) -> Any:
        bounds = np.concatenate([[0], np.cumsum(np.frombuffer(self._lengths, np.int64))]).astype(np.int64)
        return pa.LargeStringArray.from_buffers(len(self), pa.py_buffer(bounds), pa.py_buffer(bytes(self._spellings)))


class CodedTexts(NamedTuple):
    """Texts as codes, −1 for a word without one; text i is `codes[offsets[i]:offsets[i + 1]]`."""

    codes: NDArray[np.int32]
    offsets: NDArray[np.int64]
    hashes: NDArray[np.uint64]  # of each token; distinguishes unknown words


class Vocabulary:
    """The words of an index, and the tokenizer that finds them in a text."""

    def __init__(self, words: Sequence[str], tokenizer: Tokenizer) -> None:
        self.tokenizer = tokenizer
        self._splitter = Splitter(tokenizer)
        self._table = WordTable.of(words)
        self.with_vector = len(words)

    def __len__(self) -> int:
        return len(self._table)

    def extend(self, hashes: NDArray[np.uint64]) -> NDArray[np.int32]:
        """Number further words, in the order in which a segment found them, and return their codes."""
        return self._table.codes(hashes, grow=True)

    def extra_words(self, since: int) -> NDArray[np.uint64]:
        """Return the hashes of the words numbered from `since` on."""
        return self._table.hashes_in_order()[since:]

    def code(self, texts: pa.StringArray | Sequence[str], *, grow: bool = False) -> CodedTexts:
        """Return texts as codes; with `grow`, words without a code get the next ones."""
        tokens = self._splitter.split(texts)
        return CodedTexts(self._table.codes(tokens.hashes, grow=grow), tokens.offsets, tokens.hashes)


# ── The tokenizer of an index or of word vectors: chosen, saved beside them if it is a file, and loaded again ─────────

FOLDER: Final = "tokenizer"
_FILE_KIND: Final = "sentencepiece:"


def default_tokenizer_for(logs: Sequence[StoredLog]) -> str:
    """Return the tokenizer for the language of the logs; words separated by spaces if their languages differ."""
    languages = {ingest.language for log in logs for ingest in log.manifest.ingests}
    names = {default_tokenizer(language) for language in languages}
    return names.pop() if len(names) == 1 else "word"


def save_tokenizer(tokenizer: Tokenizer, folder: Path) -> list[str]:
    """Copy a model file into an artefact's folder; return the names of the files written."""
    if not isinstance(tokenizer, SentencePieceTokenizer):
        return []
    make_folder(folder / FOLDER)
    name = f"{FOLDER}/{tokenizer.name.removeprefix(_FILE_KIND).split('#')[0]}.model"
    if not (folder / name).exists():
        with write_aside(folder / name) as file:
            file.write(tokenizer.path.read_bytes())
    return [name]


def load_tokenizer(name: str, folder: Path) -> Tokenizer:
    """Return the tokenizer of that name; a model is read from the artefact's folder and must match the name."""
    if not name.startswith(_FILE_KIND):
        return get_tokenizer(name)
    path = folder / FOLDER / f"{name.removeprefix(_FILE_KIND).split('#')[0]}.model"
    tokenizer = get_tokenizer(f"{_FILE_KIND}{path}")
    if tokenizer.name != name:
        raise Corrupt(f"{path} is {tokenizer.name}, the manifest says {name}", remedy="restore it from a backup")
    return tokenizer
