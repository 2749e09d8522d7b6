"""From what the user named to bytes: files found, fingerprinted, decompressed, decoded and cut into blocks of lines.

Everything streams. A block holds whole lines and knows its first line's number, so that an error far from here can
still name file and line.
"""

from __future__ import annotations

import bz2
import codecs
import glob
import lzma
import os
import zlib
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO, Final, Self

import zstandard
from isal import igzip

from core.errors import BadInput, DamagedSource, NoSource, SourceChanged, UnknownFormat
from core.files import sha256_of

BLOCK_BYTES: Final = 4 << 20
MAX_LINE_BYTES: Final = 16 << 20
_READ_BYTES: Final = 1 << 20
# Reddit's dumps are compressed with windows of 2 GiB; zstandard refuses more than 128 MiB unless told.
_ZSTD_WINDOW: Final = 1 << 31

_MAGIC: Final = {b"\x1f\x8b": "gzip", b"\x28\xb5\x2f\xfd": "zstd", b"BZh": "bzip2", b"\xfd7zXZ\x00": "xz"}
_ARCHIVES: Final = {b"PK\x03\x04": "a zip archive", b"7z\xbc\xaf": "a 7z archive"}
_BOMS: Final = {codecs.BOM_UTF8: "utf-8", codecs.BOM_UTF16_LE: "utf-16", codecs.BOM_UTF16_BE: "utf-16"}
_DAMAGE: Final = (EOFError, zlib.error, igzip.BadGzipFile, lzma.LZMAError, zstandard.ZstdError, OSError)


@dataclass(frozen=True, slots=True, kw_only=True)
class Source:
    """One file as it was when the work began."""

    path: Path
    size: int
    modified_ns: int
    sha256: str

    @classmethod
    def of(cls, path: Path) -> Source:
        """Take the fingerprint; this reads the file once."""
        stat = path.stat()
        return cls(path=path, size=stat.st_size, modified_ns=stat.st_mtime_ns, sha256=sha256_of(path))

    @property
    def fingerprint(self) -> str:
        """Short form, used in the ids of dialogues that have none of their own."""
        return self.sha256[:12]

    def require_unchanged(self) -> None:
        """Refuse a result made of two states of one file."""
        stat = self.path.stat()
        if (stat.st_size, stat.st_mtime_ns) != (self.size, self.modified_ns):
            raise SourceChanged(f"{self.path} was written to while it was read", remedy="run again when it is complete")


@dataclass(frozen=True, slots=True, kw_only=True)
class BadRow:
    """A row that could not be used: where, and what is wrong with it."""

    line: int
    reason: str
    message: str
    excerpt: str = ""
    place: str = "line"  # "row" in Parquet files, which have no lines


@dataclass(frozen=True, slots=True, kw_only=True)
class LineBlock:
    """Whole lines, the newline of the last one taken off; or one line that could not be read."""

    first_line: int
    data: bytes = b""
    bad: BadRow | None = None


def find_files(named: Iterable[str]) -> list[Path]:
    """Files behind names, folders and glob patterns, each once, in the order named and sorted within each name."""
    found: dict[Path, None] = {}
    for name in named:
        path = Path(name)
        if path.is_dir():
            inside = sorted(p for p in path.rglob("*") if p.is_file() and not _hidden(p.relative_to(path)))
            if not inside:
                raise NoSource(f"{name}: a folder without files")
        elif path.exists():
            inside = [path]
        else:
            inside = sorted(Path(match) for match in glob.glob(name, recursive=True) if Path(match).is_file())  # noqa: PTH207
            if not inside:
                raise NoSource(f"{name}: no such file, and no file matches it as a pattern")
        for file in inside:
            require_readable(file)
        found.update(dict.fromkeys(inside))
    return list(found)


def _hidden(relative: Path) -> bool:
    return any(part.startswith(".") for part in relative.parts)


def require_readable(path: Path) -> None:
    """Refuse devices, pipes and files that we may not read, by name, before any work is done."""
    if not path.is_file():
        raise NoSource(f"{path}: not a regular file", remedy="write the stream to a file first: resuming needs one")
    if not os.access(path, os.R_OK):
        raise NoSource(f"{path}: no permission to read it")


class Stream:
    """The decompressed bytes of a file; knows how far into the file itself it has read."""

    def __init__(self, path: Path) -> None:
        self._raw = path.open("rb")
        head = self._raw.read(8)
        self._raw.seek(0)
        for magic, what in _ARCHIVES.items():
            if head.startswith(magic):
                self._raw.close()
                raise UnknownFormat(f"{path} is {what}", remedy="unpack it and name the files or the folder")
        kind = next((kind for magic, kind in _MAGIC.items() if head.startswith(magic)), "plain")
        self._read = _reader(self._raw, kind)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._raw.close()

    def read(self, size: int) -> bytes:
        """Up to `size` bytes, none at the end; DamagedSource where the file breaks off."""
        try:
            return self._read(size)
        except _DAMAGE as error:
            raise DamagedSource(f"the file breaks off or is damaged here ({error or type(error).__name__})") from error

    def position(self) -> int:
        """Bytes of the file itself, compressed as it is, that were read so far."""
        return 0 if self._raw.closed else self._raw.tell()


def _reader(raw: BinaryIO, kind: str) -> Callable[[int], bytes]:
    """The `read` of the library that undoes this compression; the content decides, not the name."""
    match kind:
        case "gzip":
            return _gzip_reader(raw)
        case "zstd":
            pieces = _zstd_pieces(raw)
            return lambda _size: next(pieces)
        case "bzip2":
            return bz2.BZ2File(raw).read
        case "xz":
            return lzma.LZMAFile(raw).read
    return raw.read


def head_of(path: Path, encoding: str, size: int = 1 << 16) -> bytes:
    """The first bytes as UTF-8, for recognising a format; a damaged file gives what it has."""
    with Stream(path) as stream:
        try:
            head = stream.read(size)
        except DamagedSource:
            return b""
    codec = encoding_of(head, encoding)
    if codec == "utf-8":
        return head.removeprefix(codecs.BOM_UTF8)
    return codecs.getincrementaldecoder(codec)("replace").decode(head).encode()


def _gzip_reader(raw: BinaryIO) -> Callable[[int], bytes]:
    read: Callable[[int], bytes] = igzip.IGzipFile(fileobj=raw, mode="rb").read  # type: ignore[no-untyped-call]
    return read


def _zstd_pieces(raw: BinaryIO) -> Iterator[bytes]:
    """Decompressed pieces, frame after frame; zstandard's own reader takes a cut-off frame for the end."""
    decompressor = zstandard.ZstdDecompressor(max_window_size=_ZSTD_WINDOW)
    frame, unfinished = decompressor.decompressobj(), False
    while compressed := raw.read(_READ_BYTES >> 2):
        while compressed:
            piece = frame.decompress(compressed)
            unfinished = not frame.eof
            compressed = frame.unused_data
            if frame.eof:
                frame = decompressor.decompressobj()
            if piece:
                yield piece
            if unfinished:
                break
    if unfinished:
        raise EOFError("the last zstd frame is cut off")
    while True:
        yield b""


def encoding_of(head: bytes, wanted: str) -> str:
    """The codec to read with: as told, or by byte-order mark, or UTF-8."""
    if wanted != "auto":
        try:
            return codecs.lookup(wanted).name
        except LookupError as error:
            raise BadInput(f"no encoding {wanted!r}", remedy="for example utf-8, latin-1, cp1252, shift_jis") from error
    return next((codec for mark, codec in _BOMS.items() if head.startswith(mark)), "utf-8")


class LineReader:
    """Blocks of whole lines out of one source."""

    def __init__(self, source: Source, *, encoding: str = "auto", block_bytes: int = BLOCK_BYTES) -> None:
        self.source = source
        self.encoding = encoding
        self.block_bytes = block_bytes
        self.max_line_bytes = MAX_LINE_BYTES
        self._stream: Stream | None = None

    def position(self) -> int:
        """How far into the (compressed) file we are: what a progress bar shows."""
        return self._stream.position() if self._stream is not None else 0

    def __iter__(self) -> Iterator[LineBlock]:
        """Read to the end; a stream that breaks off gives the whole lines before, then a bad row saying so."""
        line, held, overlong = 1, bytearray(), 0
        with Stream(self.source.path) as self._stream:
            for piece in self._pieces(self._stream):
                if isinstance(piece, DamagedSource):
                    whole = bytes(held[: held.rfind(b"\n") + 1])
                    if whole:
                        yield LineBlock(first_line=line, data=whole[:-1])
                    line += whole.count(b"\n")
                    yield LineBlock(first_line=line, bad=BadRow(line=line, reason="damaged", message=piece.message))
                    return
                held += piece
                if overlong:
                    end = held.find(b"\n")
                    overlong += len(held) if end < 0 else end
                    del held[: end + 1 if end >= 0 else len(held)]
                    if end < 0:
                        continue
                    yield LineBlock(first_line=line, bad=self._too_long(line, overlong))
                    line, overlong = line + 1, 0
                if len(held) < self.block_bytes:
                    continue
                whole = bytes(held[: held.rfind(b"\n") + 1])
                if whole:
                    yield LineBlock(first_line=line, data=whole[:-1])
                    line += whole.count(b"\n")
                    del held[: len(whole)]
                if len(held) > self.max_line_bytes:
                    overlong = len(held)
                    held.clear()
            if overlong:
                yield LineBlock(first_line=line, bad=self._too_long(line, overlong))
            elif held:
                yield LineBlock(first_line=line, data=bytes(held).removesuffix(b"\n"))

    def _pieces(self, stream: Stream) -> Iterator[bytes | DamagedSource]:
        """UTF-8 bytes piece by piece; damage of the stream is the last piece."""
        decoder: codecs.IncrementalDecoder | None = None
        first = True
        try:
            while piece := stream.read(_READ_BYTES):
                if first:
                    codec, first = encoding_of(piece, self.encoding), False
                    decoder = None if codec == "utf-8" else codecs.getincrementaldecoder(codec)("strict")
                    piece = piece.removeprefix(codecs.BOM_UTF8)
                yield piece if decoder is None else decoder.decode(piece).encode()
            if decoder is not None:
                yield decoder.decode(b"", True).encode()  # complains of half a character at the end
        except DamagedSource as error:
            yield error
        except UnicodeError as error:
            yield DamagedSource(f"this is not {self.encoding}: {error}")

    def _too_long(self, line: int, size: int) -> BadRow:
        limit = self.max_line_bytes >> 20
        return BadRow(
            line=line, reason="too-long-line", message=f"a line of {size:,} bytes; at most {limit} MiB are read"
        )
