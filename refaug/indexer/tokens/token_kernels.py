"""Compiled loops of `tokens.py`: splitting ASCII texts, hashing tokens, and the table from hash to code."""

from __future__ import annotations

import string
from typing import Final

import numpy as np
from numpy.typing import NDArray

from refaug.core.kernels import compiled

Bytes = NDArray[np.uint8]
Hashes = NDArray[np.uint64]
Codes = NDArray[np.int32]
Places = NDArray[np.int64]

# The tokens of `word` in ASCII text; refaug.core.text.words.WordTokenizer defines them, and tests keep the two equal.

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
