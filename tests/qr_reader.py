"""A reader of QR codes, told apart from the page's writer: from the drawing back to the text, by ISO/IEC 18004."""

from __future__ import annotations

import re
from typing import Final

QUIET: Final = 4
# The fifteen bits of a format, of error correction M with each mask (table C.1 of the standard).
FORMATS: Final = {
    int(bits, 2): mask
    for mask, bits in enumerate((
        "101010000010010", "101000100100101", "101111001111100", "101101101001011",
        "100010111111001", "100000011001110", "100111110010111", "100101010100000",
    ))
}  # fmt: skip
VERSIONS: Final = {7: 0x07C94, 8: 0x085BC, 9: 0x09A99, 10: 0x0A4D3}  # table D.1
CENTRES: Final = {2: (6, 18), 3: (6, 22), 4: (6, 26), 5: (6, 30), 6: (6, 34), 7: (6, 22, 38), 8: (6, 24, 42),
                  9: (6, 26, 46), 10: (6, 28, 50)}  # fmt: skip
# Blocks of M: (blocks, codewords of each, data codewords of each), table 9.
BLOCKS: Final = {
    1: [(1, 26, 16)], 2: [(1, 44, 28)], 3: [(1, 70, 44)], 4: [(2, 50, 32)], 5: [(2, 67, 43)], 6: [(4, 43, 27)],
    7: [(4, 49, 31)], 8: [(2, 60, 38), (2, 61, 39)], 9: [(3, 58, 36), (2, 59, 37)], 10: [(4, 69, 43), (1, 70, 44)],
}  # fmt: skip
FINDER: Final = ("1111111", "1000001", "1011101", "1011101", "1011101", "1000001", "1111111")
_POWERS: Final = [1]
while len(_POWERS) < 255:
    _POWERS.append((_POWERS[-1] << 1) ^ (0x11D if _POWERS[-1] & 128 else 0))


def read_qr(path: str, width: int) -> str:
    """Return the text of a drawing: its path has a square of one unit for each dark module, inside the quiet zone."""
    size = width - 2 * QUIET
    dark = {(int(x) - QUIET, int(y) - QUIET) for x, y in re.findall(r"M(\d+) (\d+)h1v1h-1z", path)}
    assert all(0 <= x < size and 0 <= y < size for x, y in dark)
    return read_modules([[(x, y) in dark for x in range(size)] for y in range(size)])


def read_modules(rows: list[list[bool]]) -> str:
    """Return the text of a code; every pattern, both formats and every block have to be right."""
    size = len(rows)
    version = (size - 17) // 4
    for left, top in ((0, 0), (size - 7, 0), (0, size - 7)):
        found = tuple("".join(str(int(one)) for one in rows[top + y][left : left + 7]) for y in range(7))
        assert found == FINDER, (left, top)
    assert [rows[6][at] for at in range(8, size - 8)] == [at % 2 == 0 for at in range(8, size - 8)]
    assert [rows[at][6] for at in range(8, size - 8)] == [at % 2 == 0 for at in range(8, size - 8)]
    first = [rows[8][x] for x in (0, 1, 2, 3, 4, 5, 7, 8)] + [rows[y][8] for y in (7, 5, 4, 3, 2, 1, 0)]
    second = [rows[y][8] for y in range(size - 1, size - 8, -1)] + [rows[8][x] for x in range(size - 8, size)]
    formats = {int("".join(str(int(bit)) for bit in bits), 2) for bits in (first, second)}
    assert len(formats) == 1, formats
    mask = FORMATS[formats.pop()]
    if version >= 7:
        for bits in (
            [rows[at // 3][size - 11 + at % 3] for at in range(17, -1, -1)],
            [rows[size - 11 + at % 3][at // 3] for at in range(17, -1, -1)],
        ):
            assert int("".join(str(int(bit)) for bit in bits), 2) == VERSIONS[version]
    data = _data(_words(rows, version, mask), version)
    bits = "".join(f"{word:08b}" for word in data)
    length = 8 if version < 10 else 16
    assert bits[:4] == "0100", "bytes"
    count = int(bits[4 : 4 + length], 2)
    text = bits[4 + length : 4 + length + 8 * count]
    return bytes(int(text[at : at + 8], 2) for at in range(0, len(text), 8)).decode()


def _is_pattern(x: int, y: int, version: int) -> bool:
    size = 17 + 4 * version
    if x == 6 or y == 6 or (x < 9 and y < 9) or (x < 9 and y >= size - 8) or (x >= size - 8 and y < 9):
        return True
    if version >= 7 and ((x < 6 and y >= size - 11) or (y < 6 and x >= size - 11)):
        return True
    centres = CENTRES.get(version, ())
    corners = {(6, 6), (6, centres[-1]), (centres[-1], 6)} if centres else set()
    return any(
        abs(x - right) <= 2 and abs(y - down) <= 2
        for right in centres
        for down in centres
        if (right, down) not in corners
    )


def _is_masked(mask: int, row: int, column: int) -> bool:
    return (
        (row + column) % 2, row % 2, column % 3, (row + column) % 3, (row // 2 + column // 3) % 2,
        row * column % 2 + row * column % 3, (row * column % 2 + row * column % 3) % 2,
        ((row + column) % 2 + row * column % 3) % 2,
    )[mask] == 0  # fmt: skip


def _words(rows: list[list[bool]], version: int, mask: int) -> list[int]:
    size, bits, is_up = len(rows), "", True
    for right in [*range(size - 1, 6, -2), 5, 3, 1]:
        for row in range(size - 1, -1, -1) if is_up else range(size):
            for column in (right, right - 1):
                if not _is_pattern(column, row, version):
                    bits += str(int(rows[row][column] != _is_masked(mask, row, column)))
        is_up = not is_up
    return [int(bits[at : at + 8], 2) for at in range(0, len(bits) - 7, 8)]


def _data(words: list[int], version: int) -> list[int]:
    sizes = [(whole, data) for count, whole, data in BLOCKS[version] for _ in range(count)]
    parts = [list[int]() for _ in sizes]
    rest = iter(words)
    for at in range(max(data for _, data in sizes)):
        for part, (_, data) in zip(parts, sizes, strict=True):
            if at < data:
                part.append(next(rest))
    checks = [list[int]() for _ in sizes]
    for _ in range(sizes[0][0] - sizes[0][1]):
        for check in checks:
            check.append(next(rest))
    for part, check in zip(parts, checks, strict=True):
        for power in range(len(check)):  # what the standard writes has every syndrome 0
            assert _at([*part, *check], _POWERS[power]) == 0
    return [word for part in parts for word in part]


def _times(first: int, second: int) -> int:
    if not first or not second:
        return 0
    return _POWERS[(_POWERS.index(first) + _POWERS.index(second)) % 255]


def _at(polynomial: list[int], point: int) -> int:
    total = 0
    for coefficient in polynomial:
        total = _times(total, point) ^ coefficient
    return total
