"""From the user's names to bytes: files found, fingerprinted, decompressed, decoded and cut into blocks of lines.

Everything streams. A block holds whole lines and knows its first line's number, so that a later error can name file and
line.
"""

from __future__ import annotations

import bz2
import codecs
import glob
import lzma
import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO, Final, Protocol, Self

import orjson
import zstandard
from isal import igzip_lib

from refaug.core.errors import DamagedSource, NoSource, SourceChanged, UnknownFormat, Usage
from refaug.core.files import sha256_of

# ── Reading that somebody watches: a check runs with every piece and row that is read, and may end the reading ────────
#
# The check is a context variable, since pieces are unpacked far below what asks for them.

Check = Callable[[int], None]
_CHECK: Final[ContextVar[Check | None]] = ContextVar("refaug.logs.reading.sources", default=None)


class ReadingEnded(Exception):
    """As much was read as should be: readers of lines yield the whole lines so far, others let it pass."""


@contextmanager
def watched_reading(check: Check) -> Iterator[None]:
    """Call `check` with the bytes of each piece that is read in the block, and with 0 for each row."""
    token = _CHECK.set(check)
    try:
        yield
    finally:
        _CHECK.reset(token)


def note_reading(size: int = 0) -> None:
    """Tell who watches that so many bytes were read, or a row; what the check raises ends the reading."""
    check = _CHECK.get()
    if check is not None:
        check(size)


# ── From the user's names to bytes: files found, fingerprinted, decompressed, decoded and cut into blocks of lines ────

DAMAGED: Final = "damaged"  # the reason of the bad row where a file breaks off
BLOCK_BYTES: Final = 4 << 20
MAX_LINE_BYTES: Final = 16 << 20
_PIECE_BYTES: Final = 1 << 18
_HEAD_BYTES: Final = 1 << 16
# Reddit's dumps use windows of 2 GiB; zstandard refuses more than 128 MiB by default.
_ZSTD_WINDOW: Final = 1 << 31
_ZSTD_FEED: Final = 1 << 10  # a kilobyte of zstd can hold 32 MiB, and zstandard returns them in one piece

_MAGIC: Final = {b"\x1f\x8b": "gzip", b"\x28\xb5\x2f\xfd": "zstd", b"BZh": "bzip2", b"\xfd7zXZ\x00": "xz"}
_ARCHIVES: Final = {
    b"PK\x03\x04": "a zip archive",
    b"7z\xbc\xaf": "a 7z archive",
    b"Rar!": "a rar archive",
    b"\x04\x22\x4d\x18": "compressed with lz4",
}
# UTF-32's mark begins with UTF-16's, so it comes first.
_BOMS: Final = {
    codecs.BOM_UTF8: "utf-8",
    codecs.BOM_UTF32_LE: "utf-32",
    codecs.BOM_UTF32_BE: "utf-32",
    codecs.BOM_UTF16_LE: "utf-16",
    codecs.BOM_UTF16_BE: "utf-16",
}
_ISAL_ERROR: Final[type[Exception]] = igzip_lib.IsalError  # type: ignore[assignment]  # its stub says: an instance
_DAMAGE: Final = (EOFError, _ISAL_ERROR, lzma.LZMAError, zstandard.ZstdError, OSError)


@dataclass(frozen=True, slots=True, kw_only=True)
class Source:
    """One file as it was when the work began."""

    path: Path
    size: int
    modified_ns: int
    sha256: str

    @classmethod
    def of(cls, path: Path) -> Source:
        """Compute the fingerprint; this reads the file once."""
        stat = path.stat()
        return cls(path=path, size=stat.st_size, modified_ns=stat.st_mtime_ns, sha256=sha256_of(path))

    @property
    def name(self) -> str:
        """The path in messages and manifests; bytes that are not UTF-8 are escaped."""
        return os.fsencode(self.path).decode("utf-8", "backslashreplace")

    @property
    def fingerprint(self) -> str:
        """The short fingerprint, used in the ids of dialogues without an id."""
        return self.sha256[:12]

    def require_unchanged(self) -> None:
        """Refuse a file that was changed while it was read."""
        stat = self.path.stat()
        if (stat.st_size, stat.st_mtime_ns) != (self.size, self.modified_ns):
            raise SourceChanged(f"{self.path} was written to while it was read", remedy="run again when it is complete")


@dataclass(frozen=True, slots=True, kw_only=True)
class BadRow:
    """A row that could not be used: its position, and what is wrong with it."""

    line: int
    reason: str
    message: str
    excerpt: str = ""
    place: str = "line"  # "row" in Parquet files, which have no lines


@dataclass(frozen=True, slots=True, kw_only=True)
class LineBlock:
    """Whole lines, without the newline of the last one; or one line that could not be read."""

    first_line: int
    data: bytes = b""
    bad: BadRow | None = None


def find_files(names: Iterable[str]) -> list[Path]:
    """Return files behind names, folders and glob patterns, each once, in the order named, sorted within each name."""
    files: dict[Path, None] = {}
    for name in names:
        try:
            inside = _expand(name)
        except OSError as error:
            raise NoSource(f"{error.filename or name}: {error.strerror}") from error
        for file in inside:
            require_readable(file)
        files.update(dict.fromkeys(inside))
    return list(files)


def _expand(name: str) -> list[Path]:
    path = Path(name)
    if path.is_dir():
        inside = sorted(file for file in _walk(path) if file.is_file() and not _is_hidden(file.relative_to(path)))
        if not inside:
            raise NoSource(f"{name}: a folder without files")
        return without_descriptions(inside)
    if path.exists():
        return [path]
    inside = sorted(Path(match) for match in glob.glob(name, recursive=True) if Path(match).is_file())  # noqa: PTH207
    if not inside:
        raise NoSource(f"{name}: no such file, and no file matches it as a pattern")
    return inside


def _walk(folder: Path) -> Iterator[Path]:
    """Yield everything below a folder; `rglob` would silently skip folders without read permission."""

    def refuse(error: OSError) -> None:
        raise error

    for parent, _, names in os.walk(folder, onerror=refuse):
        yield from (Path(parent, name) for name in names)


def _is_hidden(relative: Path) -> bool:
    return any(part.startswith(".") for part in relative.parts)


def require_readable(path: Path) -> None:
    """Refuse devices, pipes and unreadable files, by name, before any work starts."""
    if not path.exists():
        raise NoSource(f"{path}: no such file", remedy="correct the path")
    if not path.is_file():
        raise NoSource(f"{path}: not a regular file", remedy="write the stream to a file first: resuming needs one")
    if not os.access(path, os.R_OK):
        raise NoSource(f"{path}: no permission to read it")


class Stream:
    """The decompressed bytes of a file, with the position in the file itself."""

    def __init__(self, path: Path, *, piece_bytes: int = _PIECE_BYTES) -> None:
        self._raw = path.open("rb")
        head = self._raw.read(8)
        self._raw.seek(0)
        for magic, description in _ARCHIVES.items():
            if head.startswith(magic):
                self._raw.close()
                raise UnknownFormat(f"{path} is {description}", remedy="unpack it and name the files or the folder")
        kind = next((kind for magic, kind in _MAGIC.items() if head.startswith(magic)), "plain")
        self._pieces = _pieces(self._raw, kind, piece_bytes)  # the content decides, not the name

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._raw.close()

    def __iter__(self) -> Iterator[bytes]:
        """Yield piece by piece, to the end or to a DamagedSource where the file breaks off."""
        try:
            for piece in self._pieces:
                note_reading(len(piece))
                yield piece
        except _DAMAGE as error:
            raise DamagedSource(f"the file breaks off or is damaged here ({error or type(error).__name__})") from error

    def position(self) -> int:
        """Return how many bytes of the file itself, as compressed, were read so far."""
        return 0 if self._raw.closed else self._raw.tell()


class _Decompressor(Protocol):
    """The common interface of `bz2`, `lzma` and `igzip_lib`; it ends with its member."""

    @property
    def eof(self) -> bool: ...
    @property
    def needs_input(self) -> bool: ...
    @property
    def unused_data(self) -> bytes: ...
    def decompress(self, packed: bytes, max_length: int = -1) -> bytes: ...


def _pieces(raw: BinaryIO, kind: str, size: int) -> Iterator[bytes]:
    """Yield decompressed bytes in pieces of about this size.

    The libraries' file objects are not used: where a file breaks off they keep back what they have decompressed (up
    to a megabyte of whole lines), and they may silently skip what follows a first bzip2 or xz stream.
    """
    match kind:
        case "gzip":
            return _members(raw, lambda: igzip_lib.IgzipDecompressor(flag=igzip_lib.DECOMP_GZIP), size)
        case "zstd":
            context = zstandard.ZstdDecompressor(max_window_size=_ZSTD_WINDOW)
            return _members(raw, lambda: _ZstdFrame(context), size)
        case "bzip2":
            return _members(raw, bz2.BZ2Decompressor, size)
        case "xz":
            return _members(raw, lzma.LZMADecompressor, size)
    return iter(lambda: raw.read(size), b"")


def _members(raw: BinaryIO, new: Callable[[], _Decompressor], size: int) -> Iterator[bytes]:
    """Yield member after member: programs that append, or compress in parallel, write several into one file."""
    waiting = _next_member(raw, b"")
    while waiting:
        member = new()
        while not member.eof:
            if member.needs_input:
                waiting = waiting or raw.read(_PIECE_BYTES)
                if not waiting:
                    raise EOFError("the compressed data end in the middle")
            piece = member.decompress(waiting, size)
            waiting = b""
            if piece:
                yield piece
        waiting = _next_member(raw, member.unused_data)


def _next_member(raw: BinaryIO, unused: bytes) -> bytes:
    """Return where the next member begins, after the NULs that gzip and xz allow in between.

    B"" at the end of the file.
    """
    while not (start := unused.lstrip(b"\0")):
        unused = raw.read(_PIECE_BYTES)
        if not unused:
            return b""
    return start


class _ZstdFrame:
    """One zstd frame with the interface of `bz2` and `lzma`.

    It reads small steps since zstandard has no `max_length`.
    """

    def __init__(self, context: zstandard.ZstdDecompressor) -> None:
        self._frame = context.decompressobj()
        self._fed, self._at = b"", 0

    @property
    def eof(self) -> bool:
        return self._frame.eof

    @property
    def needs_input(self) -> bool:
        return self._at >= len(self._fed)

    @property
    def unused_data(self) -> bytes:
        return self._frame.unused_data + self._fed[self._at :]

    def decompress(self, packed: bytes, max_length: int = -1) -> bytes:  # noqa: ARG002
        if packed:
            self._fed, self._at = packed, 0
        self._at += _ZSTD_FEED
        return self._frame.decompress(self._fed[self._at - _ZSTD_FEED : self._at])


# ── Text ──────────────────────────────────────────────────────────────────────────────────────────────────────────


def encoding_of(head: bytes, requested: str) -> str:
    """Return the codec to read with: the requested one, that of the byte-order mark, or UTF-8."""
    if requested == "auto":
        return next((codec for mark, codec in _BOMS.items() if head.startswith(mark)), "utf-8")
    try:
        "".encode(requested)  # unlike `lookup`, this refuses hex, rot13 and the like
        return codecs.lookup(requested).name
    except (LookupError, ValueError) as error:
        raise Usage(f"no encoding {requested!r}", remedy="for example utf-8, latin-1, cp1252, shift_jis") from error


def _mark_undecodable(error: UnicodeError) -> tuple[str, int]:
    """Replace bytes that an encoding does not have by the surrogates U+DC00 + byte."""
    if not isinstance(error, UnicodeDecodeError):
        raise error
    return "".join(chr(0xDC00 + byte) for byte in error.object[error.start : error.end]), error.end


codecs.register_error("refaug-mark", _mark_undecodable)


def _to_utf8(pieces: Iterator[bytes], requested: str) -> Iterator[bytes]:
    """Yield the same text in UTF-8, without a byte-order mark.

    A byte that its encoding does not have becomes an encoded surrogate, three bytes that UTF-8 does not have, so
    that only its line is lost.
    """
    head, damage = b"", None
    try:
        while len(head) < 4 and (piece := next(pieces, b"")):  # a byte-order mark has up to four bytes
            head += piece
    except DamagedSource as error:
        damage = error
    codec = encoding_of(head, requested)
    if codec == "utf-8":
        yield head.removeprefix(codecs.BOM_UTF8)
        yield from pieces
    else:
        decoder = codecs.getincrementaldecoder(codec)("refaug-mark")
        try:
            yield decoder.decode(head).removeprefix("\ufeff").encode("utf-8", "surrogatepass")
            for piece in pieces:
                yield decoder.decode(piece).encode("utf-8", "surrogatepass")
            yield decoder.decode(b"", damage is None).encode("utf-8", "surrogatepass")
        except UnicodeError as error:
            raise DamagedSource(f"this is not {codec}: {error}") from error
    if damage is not None:
        raise damage


def head_of(path: Path, encoding: str) -> bytes:
    """Return the beginning as UTF-8, for recognising a format: 64 KiB, or as much more as the first line takes."""
    head = bytearray()
    with Stream(path) as stream:
        try:
            for piece in _to_utf8(iter(stream), encoding):
                head += piece
                if len(head) >= _HEAD_BYTES and (b"\n" in head or len(head) > MAX_LINE_BYTES):
                    break
        except DamagedSource as error:
            if not head:
                raise DamagedSource(f"{path}: {error.message}") from error
    return bytes(head)


class LineReader:
    """Yields blocks of whole lines from one source."""

    def __init__(self, source: Source, *, encoding: str = "auto", block_bytes: int = BLOCK_BYTES) -> None:
        self.source = source
        self.encoding = encoding
        self.block_bytes = block_bytes
        self.max_line_bytes = MAX_LINE_BYTES
        self._stream: Stream | None = None

    def position(self) -> int:
        """Return the position in the (compressed) file, for a progress bar."""
        return self._stream.position() if self._stream is not None else 0

    def __iter__(self) -> Iterator[LineBlock]:
        """Read to the end; a stream that breaks off gives the whole lines before, then a bad row."""
        cutter = _LineCutter(self.block_bytes, self.max_line_bytes)
        with Stream(self.source.path, piece_bytes=min(_PIECE_BYTES, self.block_bytes)) as self._stream:
            try:
                for piece in _to_utf8(iter(self._stream), self.encoding):
                    yield from cutter.add(piece)
            except DamagedSource as error:
                yield from cutter.break_off(error.message)
            except ReadingEnded:
                yield from cutter.whole_lines()
            else:
                yield from cutter.end()


@dataclass(frozen=True, slots=True, kw_only=True)
class LineCut:
    """Where a block of a plain file lies, so that it can be read without what comes before it."""

    start: int
    size: int
    first_line: int


def line_cuts(source: Source, *, encoding: str, block_bytes: int) -> list[LineCut] | None:
    """Return where the blocks of a LineReader lie; None where they are not the file's own bytes.

    Compressed files and other encodings have none, and neither have files with a line that is too long to read.
    """
    with source.path.open("rb") as file:
        head = file.read(_HEAD_BYTES)
    is_packed = any(head.startswith(magic) for magic in (*_MAGIC, *_ARCHIVES))
    if is_packed or b"\0" in head or encoding_of(head, encoding) != "utf-8":
        return None
    cuts, start = list[LineCut](), len(codecs.BOM_UTF8) if head.startswith(codecs.BOM_UTF8) else 0
    for block in LineReader(source, encoding=encoding, block_bytes=block_bytes):
        if block.bad is not None:
            return None
        cuts.append(LineCut(start=start, size=len(block.data), first_line=block.first_line))
        start += len(block.data) + 1
    return cuts


class _LineCutter:
    """Turns bytes into blocks of whole lines; a line that is too long is discarded while it comes in."""

    def __init__(self, block_bytes: int, max_line_bytes: int) -> None:
        self._block_bytes = block_bytes
        self._max_line_bytes = max_line_bytes
        self._line = 1  # number of the line at the beginning of `_pending`
        self._pending = bytearray()
        self._discarded = 0  # bytes of that line that were discarded

    def add(self, piece: bytes) -> Iterator[LineBlock]:
        """Add bytes; yield a block when there are enough."""
        self._pending += piece
        if len(self._pending) >= self._block_bytes:
            yield from self._cut()

    def end(self) -> Iterator[LineBlock]:
        """Yield the rest; the last line may lack its newline."""
        if (self._pending or self._discarded) and not self._pending.endswith(b"\n"):
            self._pending += b"\n"
        yield from self._cut()

    def break_off(self, message: str) -> Iterator[LineBlock]:
        """Yield the whole lines that remain, then a bad row in place of the broken one."""
        yield from self._cut()
        yield self._bad(DAMAGED, message)

    def whole_lines(self) -> Iterator[LineBlock]:
        """Yield the whole lines that remain, and drop the beginning of another one."""
        yield from self._cut()

    def _cut(self) -> Iterator[LineBlock]:
        end = self._pending.rfind(b"\n") + 1
        if end:
            whole = bytes(self._pending[: end - 1])
            del self._pending[:end]
            if self._discarded or len(whole) > self._max_line_bytes:
                yield from self._around_long_lines(whole.split(b"\n"))
            else:
                yield self._block(whole)
        if self._discarded or len(self._pending) > self._max_line_bytes:
            self._discarded += len(self._pending)
            self._pending.clear()

    def _around_long_lines(self, lines: list[bytes]) -> Iterator[LineBlock]:
        """Yield blocks of the readable lines, and bad rows in place of the others."""
        good: list[bytes] = []
        for line in lines:
            size, self._discarded = self._discarded + len(line), 0
            if size <= self._max_line_bytes:
                good.append(line)
                continue
            if good:
                yield self._block(b"\n".join(good))
            good = []
            yield self._bad("too-long-line", f"a line of {size:,} bytes; at most {self._max_line_bytes:,} are read")
        if good:
            yield self._block(b"\n".join(good))

    def _block(self, content: bytes) -> LineBlock:
        first, self._line = self._line, self._line + content.count(b"\n") + 1
        return LineBlock(first_line=first, data=content)

    def _bad(self, reason: str, message: str) -> LineBlock:
        line, self._line = self._line, self._line + 1
        return LineBlock(first_line=line, bad=BadRow(line=line, reason=reason, message=message))


# ── Folders that `datasets` writes with `save_to_disk`: Arrow files, and JSON files that describe them ────────────────


SPLITS_FILE: Final = "dataset_dict.json"
STATE_FILE: Final = "state.json"
_MAX_STATE_BYTES: Final = 1 << 20


def without_descriptions(paths: Sequence[Path]) -> list[Path]:
    """Return the paths without what describes saved datasets, and without the caches that `map` leaves beside them."""
    files_of = {path.parent: names for path in paths if path.name == STATE_FILE and (names := _data_files(path))}
    split_folders = {folder.parent for folder in files_of}
    return [
        path
        for path in paths
        if (path.parent not in files_of or path.name in files_of[path.parent])
        and not (path.name == SPLITS_FILE and path.parent in split_folders)
    ]


def _data_files(state_file: Path) -> set[str]:
    """Return the names of the data files; none for a file of the same name that describes no dataset."""
    try:
        if state_file.stat().st_size > _MAX_STATE_BYTES:
            return set()
        state = orjson.loads(state_file.read_bytes())
        return {Path(file["filename"]).name for file in state["_data_files"]}
    except (OSError, orjson.JSONDecodeError, LookupError, TypeError):
        return set()
