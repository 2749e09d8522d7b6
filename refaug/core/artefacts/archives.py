"""Archives: a tar inside zstd, written and read as a stream of plain files.

The reader is stricter than the format, since the file may come from anywhere: every header is one block, so there are
no links, folders, long names or extensions, and the amount unpacked at once is bounded, whatever the compression ratio.
"""

from __future__ import annotations

import tarfile
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from types import TracebackType
from typing import BinaryIO, Final, Self

import zstandard

from refaug.core.errors import DamagedSource, UnknownFormat

COPY_AGAIN: Final = "copy the file again, and compare its hash with the original's"

_BLOCK: Final = tarfile.BLOCKSIZE
_END: Final = bytes(2 * _BLOCK)  # two blocks of zeros end a tar
_RECORD: Final = tarfile.RECORDSIZE  # tar programs add zeros up to this
_ZSTD: Final = b"\x28\xb5\x2f\xfd"
_PACKED: Final = 2048  # read at once: four bytes unpack to 128 KiB at most, so this to 64 MiB at most
_PIECE: Final = 1 << 16


@dataclass(frozen=True, kw_only=True)
class Member:
    """A file in an archive."""

    name: str
    size: int


class ArchiveWriter:
    """Writes the same bytes for the same members."""

    def __init__(self, out: BinaryIO) -> None:
        self._stream = zstandard.ZstdCompressor(level=3, write_checksum=True).stream_writer(out, closefd=False)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        if kind is None:
            self._stream.write(_END)
            self._stream.flush(zstandard.FLUSH_FRAME)

    def add(self, name: str, size: int, pieces: Iterable[bytes]) -> None:
        """Write one file, whose pieces have this size together, without owner and time."""
        header = tarfile.TarInfo(name)
        header.size = size
        header.mode = 0o644
        block = header.tobuf(tarfile.GNU_FORMAT)
        assert len(block) == _BLOCK, name
        self._stream.write(block)
        written = 0
        for piece in pieces:
            self._stream.write(piece)
            written += len(piece)
        assert written == size, name
        self._stream.write(bytes(-size % _BLOCK))


class ArchiveReader:
    """Yields the members in order; the content of each must be read before the next one."""

    def __init__(self, stream: BinaryIO, name: str) -> None:
        self.name = name  # of the file, for messages
        self._stream = stream
        self._packed = stream.read(_PACKED)
        if not self._packed.startswith(_ZSTD):
            raise self._unknown("it is not a zstd file" if self._packed else "it is empty")
        self._unpacker = zstandard.ZstdDecompressor().decompressobj()
        self._buffer = bytearray()
        self._members = 0

    def next_member(self) -> Member | None:
        """Return the next file; None at a proper end of the archive."""
        block = self._take(_BLOCK)
        if block == bytes(_BLOCK):
            self._require_end()
            return None
        try:
            header = tarfile.TarInfo.frombuf(block, "utf-8", "surrogateescape")
        except tarfile.HeaderError as error:
            if self._members == 0:
                raise self._unknown("there is no tar in it") from error
            raise self.damage_error(f"where a file should begin, there is none: {error}") from error
        if header.type not in {tarfile.REGTYPE, tarfile.AREGTYPE} or header.size < 0:
            raise self.damage_error(f"it holds {header.name!r}, which is not a plain file")
        self._members += 1
        return Member(name=header.name, size=header.size)

    def content(self, member: Member) -> Iterator[bytes]:
        """Yield the bytes of the last member in pieces."""
        remaining = member.size
        while remaining:
            piece = self._take(min(remaining, _PIECE))
            remaining -= len(piece)
            yield piece
        self._take(-member.size % _BLOCK)

    def read_member(self, name: str, largest: int) -> bytes:
        """Return the next file as a whole; its name must be this one."""
        member = self.next_member()
        if member is None or member.name != name:
            raise self._unknown(f"{name} is not where it should be")
        if member.size > largest:
            raise self.damage_error(f"{name} has {member.size:,} bytes; at most {largest:,} are read")
        return b"".join(self.content(member))

    def damage_error(self, what: str) -> DamagedSource:
        """Return an error that says what is wrong with the file."""
        return DamagedSource(f"{self.name}: {what}", remedy=COPY_AGAIN)

    def _unknown(self, what: str) -> UnknownFormat:
        return UnknownFormat(
            f"{self.name} is not what refaug artefacts export writes: {what}",
            remedy="give a file that refaug artefacts export has written",
        )

    def _take(self, count: int) -> bytes:
        """Return so many unpacked bytes."""
        self._unpack(count)
        if len(self._buffer) < count:
            raise self.damage_error("it ends early")
        unpacked = bytes(self._buffer[:count])
        del self._buffer[:count]
        return unpacked

    def _unpack(self, count: int) -> None:
        """Fill the buffer with so many bytes, or all that remain."""
        try:
            while len(self._buffer) < count and self._packed and not self._unpacker.eof:
                self._buffer += self._unpacker.decompress(self._packed)
                self._packed = self._stream.read(_PACKED)
        except zstandard.ZstdError as error:
            raise self.damage_error(f"it cannot be unpacked: {error}") from error

    def _require_end(self) -> None:
        """Require the archive's end after its first block of zeros: a second one, then zeros up to a full record."""
        if self._take(_BLOCK) != bytes(_BLOCK):
            raise self.damage_error("where a file should begin, there is none")
        self._unpack(_RECORD + 1)
        if len(self._buffer) > _RECORD or self._buffer.strip(b"\0") or self._packed or self._unpacker.unused_data:
            raise self.damage_error("it goes on after its end")
        if not self._unpacker.eof:
            raise self.damage_error("it ends early")
