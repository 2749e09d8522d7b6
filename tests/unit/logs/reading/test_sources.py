"""From names to lines: every file format gives the same lines, and damage costs only what is damaged."""

from __future__ import annotations

import bz2
import codecs
import gzip
import lzma
import os
import subprocess
import sys
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
import zstandard
from hypothesis import example, given, settings
from hypothesis import strategies as st
from refusals import refusing
from safeguards import mostly_slow

from refaug.core.errors import DamagedSource, NoSource, SourceChanged, UnknownFormat, Usage
from refaug.logs.reading import sources
from refaug.logs.reading.sources import BadRow, LineReader, Source, encoding_of, find_files, head_of, line_cuts

Lines = list[tuple[int, bytes | BadRow]]


def _zstd(data: bytes) -> bytes:
    return zstandard.ZstdCompressor(write_checksum=True).compress(data)


def _zstd_without_size(data: bytes) -> bytes:
    compressor = zstandard.ZstdCompressor().compressobj()
    return compressor.compress(data) + compressor.flush()


SINGLE: dict[str, Callable[[bytes], bytes]] = {
    "gzip": gzip.compress,
    "zstd": _zstd,
    "bzip2": bz2.compress,
    "xz": lzma.compress,
}
EVERY: dict[str, Callable[[bytes], bytes]] = {
    "plain": bytes,
    "zstd without sizes": _zstd_without_size,
    **SINGLE,
    **{
        f"{name} in members": lambda data, compress=compress: b"".join(  # type: ignore[misc]
            compress(data[start : start + len(data) // 3 + 1]) for start in range(0, len(data), len(data) // 3 + 1)
        )
        for name, compress in SINGLE.items()
    },
}
OWN_DECOMPRESSOR: dict[str, Callable[[bytes], bytes]] = {
    "gzip": lambda data: zlib.decompressobj(wbits=31).decompress(data),
    "zstd": lambda data: zstandard.ZstdDecompressor().decompressobj().decompress(data),
    "bzip2": lambda data: bz2.BZ2Decompressor().decompress(data),
    "xz": lambda data: lzma.LZMADecompressor().decompress(data),
}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("sources")


def written(folder: Path, data: bytes, name: str = "log") -> Source:
    path = folder / name
    path.write_bytes(data)
    return Source.of(path)


def lines_of(reader: LineReader) -> Lines:
    """Every line with the number that its block gives it."""
    lines: Lines = []
    for block in reader:
        if block.bad is not None:
            assert block.data == b""
            lines.append((block.first_line, block.bad))
        else:
            lines += enumerate(block.data.split(b"\n"), block.first_line)
    return lines


def numbered(lines: list[bytes]) -> Lines:
    return list(enumerate(lines, 1))


def expected_lines(text: str) -> list[bytes]:
    """The definition: what stands between newlines, and the last line even without one."""
    lines = text.encode().split(b"\n")
    return lines[:-1] if lines[-1] == b"" else lines


# ── lines ─────────────────────────────────────────────────────────────────────────────────────────────────────────

TEXTS = st.lists(
    st.sampled_from([*'ab \t"é犬😂\0\r\u2028\x85', "\n", "\n", "\r\n"]),
    max_size=60,
).map("".join)


@given(text=TEXTS, kind=st.sampled_from([*EVERY]), block_bytes=st.integers(1, 70))
@example(text="\n", kind="plain", block_bytes=1)
@example(text="a\n\n", kind="zstd", block_bytes=2)
@example(text="犬", kind="zstd in members", block_bytes=1)
@settings(deadline=None, max_examples=50)
def test_lines_are_those_of_the_file_for_any_blocks_and_compression(
    folder: Path, text: str, kind: str, block_bytes: int
) -> None:
    source = written(folder, EVERY[kind](text.encode()))
    assert lines_of(LineReader(source, block_bytes=block_bytes)) == numbered(expected_lines(text))


@pytest.mark.parametrize(
    "encoding", ["utf-8-sig", "utf-16", "utf-32", "with marks: utf-16-le", "with marks: utf-16-be"]
)
@given(
    text=TEXTS.filter(lambda text: text[:1] not in {"", "\0"}),
    kind=st.sampled_from([*EVERY]),
    block_bytes=st.integers(1, 70),
)
@settings(deadline=None, max_examples=40)
def test_a_byte_order_mark_tells_the_encoding_and_is_taken_off(
    folder: Path, text: str, encoding: str, kind: str, block_bytes: int
) -> None:
    codec = encoding.removeprefix("with marks: ")  # UTF-16 that begins with a NUL cannot be told from UTF-32
    data = text.encode(codec) if codec == encoding else ("\ufeff" + text).encode(codec)
    source = written(folder, EVERY[kind](data))
    assert lines_of(LineReader(source, block_bytes=block_bytes)) == numbered(expected_lines(text))
    named = LineReader(source, encoding=codec, block_bytes=block_bytes)
    assert lines_of(named) == numbered(expected_lines(text))


@given(
    text=st.text(st.characters(max_codepoint=255), max_size=40),
    kind=st.sampled_from([*EVERY]),
    block_bytes=st.integers(1, 70),
)
@settings(deadline=None, max_examples=50)
def test_a_named_encoding_is_obeyed(folder: Path, text: str, kind: str, block_bytes: int) -> None:
    source = written(folder, EVERY[kind](text.encode("latin-1")))
    reader = LineReader(source, encoding="latin-1", block_bytes=block_bytes)
    assert lines_of(reader) == numbered(expected_lines(text))


def test_a_block_holds_many_lines_and_the_number_of_its_first(folder: Path) -> None:
    data = b"".join(b"%06d\n" % number for number in range(1, 1001))
    blocks = list(LineReader(written(folder, data), block_bytes=700))
    assert [(block.first_line, len(block.data)) for block in blocks] == [(1 + 100 * i, 699) for i in range(10)]
    assert blocks[3].data.split(b"\n")[0] == b"000301"


def test_an_empty_file_has_no_lines(folder: Path) -> None:
    for compress in EVERY.values():
        assert lines_of(LineReader(written(folder, compress(b"")))) == []


def test_the_content_decides_on_the_compression_not_the_name(folder: Path) -> None:
    assert lines_of(LineReader(written(folder, b"not gzip\n", "log.gz"))) == [(1, b"not gzip")]
    assert lines_of(LineReader(written(folder, lzma.compress(b"xz\n"), "log.txt"))) == [(1, b"xz")]


def test_zstd_with_a_window_of_two_gigabytes_is_read(folder: Path) -> None:
    parameters = zstandard.ZstdCompressionParameters(window_log=31, hash_log=6, chain_log=6)
    compressor = zstandard.ZstdCompressor(compression_params=parameters).compressobj()
    data = compressor.compress(b"long window\n") + compressor.flush()
    assert lines_of(LineReader(written(folder, data))) == [(1, b"long window")]


def test_zstd_frames_to_be_skipped_are_skipped(folder: Path) -> None:
    data = _zstd(b"one\n") + b"\x50\x2a\x4d\x18\x04\x00\x00\x00skip" + _zstd(b"two\n")
    assert lines_of(LineReader(written(folder, data))) == [(1, b"one"), (2, b"two")]


def test_position_counts_bytes_of_the_file_as_it_is(folder: Path) -> None:
    for compress in EVERY.values():
        source = written(folder, compress(b"a line\n" * 1000))
        reader = LineReader(source, block_bytes=500)
        positions = [reader.position() for _ in reader]
        assert reader.position() == 0  # nothing is open
        assert positions == sorted(positions)
        assert positions[-1] == source.size


# ── lines that are too long ───────────────────────────────────────────────────────────────────────────────────────


@given(
    sizes=st.lists(st.integers(0, 30), max_size=8),
    final=st.sampled_from(["\n", ""]),
    kind=st.sampled_from([*EVERY]),
    block_bytes=st.integers(1, 70),
    limit=st.integers(1, 20),
)
@example(sizes=[30], final="", kind="plain", block_bytes=1, limit=1)
@example(sizes=[30, 0], final="\n", kind="plain", block_bytes=30, limit=5)
@example(sizes=[0, 21, 1, 22], final="", kind="plain", block_bytes=70, limit=20)
@settings(deadline=None, max_examples=50)
def test_overlong_lines_are_bad_rows_and_the_lines_around_them_survive(
    folder: Path, sizes: list[int], final: str, kind: str, block_bytes: int, limit: int
) -> None:
    text = "\n".join(chr(ord("a") + size % 26) * size for size in sizes) + final
    reader = LineReader(written(folder, EVERY[kind](text.encode())), block_bytes=block_bytes)
    reader.max_line_bytes = limit
    expected: Lines = [
        (number, line)
        if len(line) <= limit
        else (
            number,
            BadRow(
                line=number,
                reason="too-long-line",
                message=f"a line of {len(line)} bytes; at most {limit} are read",
            ),
        )
        for number, line in enumerate(expected_lines(text), 1)
    ]
    assert lines_of(reader) == expected


# VmHWM and not ru_maxrss, which a child takes over from the process that starts it.
_READ_IN_A_CHILD = r"""
import re, sys
from pathlib import Path
from refaug.logs.reading.sources import LineReader, Source
for block in LineReader(Source.of(Path(sys.argv[1]))):
    print(block.first_line, block.data.decode(), block.bad.message if block.bad else "")
print(int(re.search(r"VmHWM:\s+(\d+)", Path("/proc/self/status").read_text())[1]) >> 10)
"""


@pytest.mark.parametrize("kind", mostly_slow(["plain", "gzip", "zstd"], quick=[2]))
def test_a_line_of_a_hundred_megabytes_takes_little_memory(tmp_path: Path, kind: str) -> None:
    compress = {"plain": bytes, "gzip": lambda data: gzip.compress(data, 1), "zstd": _zstd}[kind]
    path = tmp_path / "log"
    path.write_bytes(compress(b"first\n" + b"x" * 100_000_000 + b"\nthird\nfourth"))
    child = subprocess.run(
        [sys.executable, "-c", _READ_IN_A_CHILD, path], check=True, capture_output=True, text=True, cwd=Path.cwd()
    )
    *blocks, peak_mib = child.stdout.splitlines()
    said = "a line of 100,000,000 bytes; at most 16,777,216 are read"
    assert [line.rstrip() for line in blocks] == ["1 first", f"2  {said}", "3 third", "fourth"]
    assert int(peak_mib) < 300


# ── damage ────────────────────────────────────────────────────────────────────────────────────────────────────────

MANY = [b"line %d of the log, %d" % (number, number * 7919 % 10_007) for number in range(1, 3001)]
MANY_TEXT = b"".join(line + b"\n" for line in MANY)


def damaged(lines: Lines) -> BadRow:
    """The last thing read, which must be the damage."""
    number, bad = lines[-1]
    assert isinstance(bad, BadRow)
    assert (bad.line, bad.reason) == (number, "damaged")
    assert bad.message.startswith("the file breaks off or is damaged here (")
    return bad


@pytest.mark.parametrize("kind", [*SINGLE])
def test_a_stream_that_is_cut_off_gives_every_whole_line_before_the_cut(folder: Path, kind: str) -> None:
    data = SINGLE[kind](MANY_TEXT)
    cuts = {9, 13, 40, *range(100, len(data), len(data) // 40), *range(len(data) - 12, len(data))}
    most = 0
    for cut in sorted(cuts):
        readable = OWN_DECOMPRESSOR[kind](data[:cut])
        whole = readable.count(b"\n")
        lines = lines_of(LineReader(written(folder, data[:cut])))
        assert lines[:-1] == numbered(MANY[:whole]), cut
        assert damaged(lines).line == whole + 1
        most = max(most, whole)
    assert most > 2000


@pytest.mark.parametrize("kind", [*SINGLE])
def test_a_cut_in_a_later_member_keeps_the_earlier_ones(folder: Path, kind: str) -> None:
    compress = SINGLE[kind]
    first, second = compress(b"one\ntwo\n"), compress(b"three\nfour\n")
    for cut in range(1, len(second)):
        readable = OWN_DECOMPRESSOR[kind](second[:cut]).count(b"\n")
        lines = lines_of(LineReader(written(folder, first + second[:cut])))
        assert lines[:-1] == numbered([b"one", b"two", b"three", b"four"][: 2 + readable])
        assert damaged(lines).line == 3 + readable
    assert lines_of(LineReader(written(folder, first))) == [(1, b"one"), (2, b"two")]


def test_the_line_that_a_cut_goes_through_is_not_taken_for_a_whole_one(folder: Path) -> None:
    data = zlib.compressobj(wbits=31)
    piece = data.compress(b"whole\nhalf of a li") + data.flush(zlib.Z_FULL_FLUSH)
    lines = lines_of(LineReader(written(folder, piece)))
    assert lines[0] == (1, b"whole")
    assert damaged(lines).line == 2
    assert len(lines) == 2


@pytest.mark.parametrize("kind", [*SINGLE])
def test_a_corrupted_member_ends_the_reading_and_keeps_those_before(folder: Path, kind: str) -> None:
    compress = SINGLE[kind]
    first, second, third = (compress(MANY_TEXT[start::3]) for start in range(3))
    whole = OWN_DECOMPRESSOR[kind](first) + OWN_DECOMPRESSOR[kind](second)
    middle = bytearray(third)
    for at in (*range(len(third) // 2, len(third) // 2 + 60), *range(len(third) - 40, len(third) - 30)):
        middle[at] ^= 0x5A
    lines = lines_of(LineReader(written(folder, first + second + bytes(middle))))
    kept = whole.split(b"\n")[:-1]
    assert lines[: len(kept)] == numbered(kept)
    damaged(lines)


@pytest.mark.parametrize("kind", [*SINGLE])
@pytest.mark.parametrize(
    "garbage", [b"sudden garbage", b"x", b"\x1f\x8bnot gzip at all", b"BZh9 no", b"\0\0\0garbage\0"]
)
def test_garbage_after_the_compressed_data_is_damage_not_silence(folder: Path, kind: str, garbage: bytes) -> None:
    lines = lines_of(LineReader(written(folder, SINGLE[kind](b"one\ntwo\n") + garbage)))
    assert lines[:-1] == [(1, b"one"), (2, b"two")]
    assert damaged(lines).line == 3


@pytest.mark.parametrize("kind", [*SINGLE])
def test_padding_with_nul_bytes_is_no_damage(folder: Path, kind: str) -> None:
    padded = SINGLE[kind](b"one\n") + b"\0" * 512 + SINGLE[kind](b"two\n") + b"\0" * 300_000
    assert lines_of(LineReader(written(folder, padded))) == [(1, b"one"), (2, b"two")]


def test_damage_inside_an_overlong_line_is_reported_at_that_line(folder: Path) -> None:
    data = gzip.compress(b"short\n" + os.urandom(4000).replace(b"\n", b"?") + b"\n", 0)
    reader = LineReader(written(folder, data[:2000]), block_bytes=100)
    reader.max_line_bytes = 500
    lines = lines_of(reader)
    assert lines[0] == (1, b"short")
    assert damaged(lines).line == 2
    assert len(lines) == 2


# ── encodings ─────────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("encoding", "good", "bad"),
    [
        ("euc-jp", "犬と猫", b"\xb8\xff\xa4\xc8"),
        ("cp1252", "señor", b"a\x81b"),
        ("ascii", "sir", b"se\xf1or"),
        ("gb18030", "狗和猫", b"\xff"),
        ("utf-16-le", "sir", b"a\0\x00\xdcb\0"),
    ],
)
def test_a_byte_that_is_not_of_the_encoding_costs_its_line_only(
    folder: Path, encoding: str, good: str, bad: bytes
) -> None:
    newline = "\n".encode(encoding)
    source = written(folder, newline.join([good.encode(encoding), bad, good.encode(encoding)]) + newline)
    (_, first), (_, broken), (_, third) = lines_of(LineReader(source, encoding=encoding))
    assert (first, third) == (good.encode(), good.encode())
    assert isinstance(broken, bytes)
    with pytest.raises(UnicodeDecodeError):
        broken.decode()


def test_utf_16_that_ends_in_half_a_character_spoils_the_last_line_only(folder: Path) -> None:
    source = written(folder, "one\ntwo".encode("utf-16")[:-1])
    (_, first), (_, last) = lines_of(LineReader(source))
    assert first == b"one"
    assert isinstance(last, bytes)
    with pytest.raises(UnicodeDecodeError):
        last.decode()


def test_utf_16_without_a_byte_order_mark_is_refused(folder: Path) -> None:
    source = written(folder, "one\ntwo\n".encode("utf-16-le"))
    ((number, bad),) = lines_of(LineReader(source, encoding="utf-16"))
    assert (number, bad) == (
        1,
        BadRow(line=1, reason="damaged", message="this is not utf-16: UTF-16 stream does not start with BOM"),
    )


def test_utf_8_mark_bytes_stay_if_another_encoding_is_named(folder: Path) -> None:
    source = written(folder, codecs.BOM_UTF8 + b"x\n")
    assert lines_of(LineReader(source, encoding="latin-1")) == [(1, "ï»¿x".encode())]
    assert lines_of(LineReader(source, encoding="utf-8")) == [(1, b"x")]


@pytest.mark.parametrize("name", ["klingon", "hex", "rot13", "undefined", "a\0b", ""])
def test_an_encoding_that_does_not_exist_is_refused_with_examples(name: str) -> None:
    with refusing(Usage) as refused:
        encoding_of(b"", name)
    assert refused.value.message == f"no encoding {name!r}"
    assert "shift_jis" in refused.value.remedy


# ── the head, which formats are recognised by ─────────────────────────────────────────────────────────────────────


def test_the_head_is_utf_8_whatever_the_file_is(folder: Path) -> None:
    for kind, compress in EVERY.items():
        path = written(folder, compress("犬\nzwei\n".encode("utf-16"))).path
        assert head_of(path, "auto") == "犬\nzwei\n".encode(), kind


def test_the_head_holds_a_whole_first_line_however_long_it_is(folder: Path) -> None:
    line = b'{"turns": ["' + b"long " * 100_000 + b'"]}\n'
    for compress in SINGLE.values():
        head = head_of(written(folder, compress(line + MANY_TEXT * 40)).path, "auto")
        assert head.startswith(line)
        assert len(head) < 2_500_000


def test_the_head_of_a_damaged_file_is_what_can_be_read_of_it(folder: Path) -> None:
    path = written(folder, gzip.compress(b"a,b\nc,d\n")[:-3]).path
    assert head_of(path, "auto") == b"a,b\nc,d\n"


def test_a_file_without_a_readable_byte_is_damaged_and_named(folder: Path) -> None:
    path = written(folder, gzip.compress(b"a,b\n")[:10], "stump.gz").path
    with refusing(DamagedSource, "stump.gz"):
        head_of(path, "auto")


@pytest.mark.parametrize(
    ("magic", "what"),
    [
        (b"PK\x03\x04rest", "a zip archive"),
        (b"7z\xbc\xaf\x27\x1c", "a 7z archive"),
        (b"Rar!\x1a\x07", "a rar archive"),
        (b"\x04\x22\x4d\x18rest", "compressed with lz4"),
    ],
)
def test_archives_are_refused_with_what_to_do(folder: Path, magic: bytes, what: str) -> None:
    source = written(folder, magic, "logs.bin")
    with pytest.raises(UnknownFormat) as refused:
        list(LineReader(source))
    assert refused.value.message == f"{source.path} is {what}"
    assert refused.value.remedy == "unpack it and name the files or the folder"


# ── sources ───────────────────────────────────────────────────────────────────────────────────────────────────────


def test_a_source_is_known_by_the_hash_of_its_bytes(tmp_path: Path) -> None:
    source = written(tmp_path, b"abc")
    assert source.size == 3
    assert source.sha256 == "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"
    assert source.fingerprint == "ba7816bf8f01"


def test_a_source_that_grew_while_it_was_read_is_refused(tmp_path: Path) -> None:
    source = written(tmp_path, b"abc")
    source.require_unchanged()
    source.path.write_bytes(b"abcd")
    with refusing(SourceChanged) as refused:
        source.require_unchanged()
    assert refused.value.remedy == "run again when it is complete"


# ── finding files ─────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.fixture
def tree(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    for name in ("b.jsonl", "a.jsonl", "deep/er/c.jsonl", "deep/d.csv", ".hidden", ".git/e.jsonl", "deep/.f.swp"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text("x\n")
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_a_folder_stands_for_all_files_below_it_that_are_not_hidden(tree: Path) -> None:
    found = find_files([str(tree)])
    assert found == [tree / name for name in ("a.jsonl", "b.jsonl", "deep/d.csv", "deep/er/c.jsonl")]


def test_a_hidden_file_or_folder_that_is_named_is_taken(tree: Path) -> None:
    assert find_files([".hidden", ".git"]) == [Path(".hidden"), Path(".git/e.jsonl")]


def test_patterns_match_files_only_and_reach_down_with_two_stars(tree: Path) -> None:
    assert find_files(["*"]) == [Path("a.jsonl"), Path("b.jsonl")]
    assert find_files(["**/*.jsonl"]) == [Path("a.jsonl"), Path("b.jsonl"), Path("deep/er/c.jsonl")]


def test_names_keep_their_order_and_no_file_comes_twice(tree: Path) -> None:
    assert find_files(["b.jsonl", "./b.jsonl", "*.jsonl", "deep"]) == [
        Path("b.jsonl"),
        Path("a.jsonl"),
        Path("deep/d.csv"),
        Path("deep/er/c.jsonl"),
    ]


def test_a_file_whose_name_looks_like_a_pattern_is_found_by_its_name(tree: Path) -> None:
    (tree / "log[1].csv").write_text("x")
    assert find_files(["log[1].csv"]) == [Path("log[1].csv")]


def test_links_to_files_are_followed(tree: Path) -> None:
    (tree / "deep" / "link").symlink_to(tree / "a.jsonl")
    assert find_files(["deep"]) == [Path("deep/d.csv"), Path("deep/er/c.jsonl"), Path("deep/link")]


@pytest.mark.parametrize("name", ["nothing", "*.nothing", "a.jsonl/x", "nul\0", ""])
def test_a_name_behind_which_nothing_lies_is_refused(tree: Path, name: str) -> None:
    if name == "":
        (tree / "empty").mkdir()
        os.chdir(tree / "empty")
    with pytest.raises(NoSource) as refused:
        find_files([name])
    expected = "a folder without files" if name == "" else "no such file, and no file matches it as a pattern"
    assert refused.value.message == f"{name}: {expected}"


def test_a_name_that_is_too_long_is_refused_by_name(tree: Path) -> None:
    name = "x" * 300
    with pytest.raises(NoSource) as refused:
        find_files([name])
    assert refused.value.message == f"{name}: File name too long"


def test_a_folder_with_nothing_but_hidden_files_is_refused(tree: Path) -> None:
    (tree / "empty" / "er").mkdir(parents=True)
    (tree / "empty" / ".keep").write_text("")
    with pytest.raises(NoSource) as refused:
        find_files(["empty"])
    assert refused.value.message == "empty: a folder without files"


def test_pipes_and_devices_are_refused_with_what_to_do(tree: Path) -> None:
    os.mkfifo(tree / "pipe")
    for name in ("pipe", "/dev/null"):
        with pytest.raises(NoSource) as refused:
            find_files([name])
        assert refused.value.message == f"{name}: not a regular file"
        assert refused.value.remedy == "write the stream to a file first: resuming needs one"


def test_a_pipe_inside_a_folder_is_passed_over(tree: Path) -> None:
    os.mkfifo(tree / "deep" / "pipe")
    assert find_files(["deep"]) == [Path("deep/d.csv"), Path("deep/er/c.jsonl")]


@contextmanager
def user_without_rights(tree: Path) -> Iterator[None]:
    """Root may read everything, and becomes another user for a while."""
    tree.chmod(0o755)
    users = os.getresuid()
    if users[0] == 0:
        os.setresuid(65_534, 65_534, 0)
    try:
        yield
    finally:
        os.setresuid(*users)


@pytest.mark.parametrize(
    ("closed", "source", "reason"),
    [("a.jsonl", "a.jsonl", "no permission to read it"), ("deep/er", "deep", "Permission denied")],
)
def test_what_may_not_be_read_is_refused_by_name(tree: Path, closed: str, source: str, reason: str) -> None:
    (tree / closed).chmod(0)
    with user_without_rights(tree), pytest.raises(NoSource) as refused:
        find_files([source])
    assert refused.value.message == f"{closed}: {reason}"
    (tree / closed).chmod(0o700)


@pytest.mark.parametrize("mark", [b"", codecs.BOM_UTF8])
@pytest.mark.parametrize("end", [b"", b"\n"])
@pytest.mark.parametrize("block_bytes", [7, 60, 10_000])
def test_a_block_can_be_read_at_its_cut(tmp_path: Path, mark: bytes, end: bytes, block_bytes: int) -> None:
    path = tmp_path / "log.jsonl"
    path.write_bytes(mark + b"\n".join(b"line %d \xc3\xa9\r" % n if n % 3 else b"" for n in range(50)) + end)
    source = Source.of(path)
    cuts = line_cuts(source, encoding="auto", block_bytes=block_bytes)
    content = path.read_bytes()
    assert cuts is not None
    assert [(cut.first_line, content[cut.start : cut.start + cut.size]) for cut in cuts] == [
        (block.first_line, block.data) for block in LineReader(source, block_bytes=block_bytes)
    ]
    assert len(cuts) > (1 if block_bytes < 10_000 else 0)


def test_what_is_no_plain_text_has_no_cuts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sources, "MAX_LINE_BYTES", 40)
    contents = {
        "gz": gzip.compress(b"a line\n"),
        "utf16": codecs.BOM_UTF16_LE + "a line\n".encode("utf-16-le"),
        "long": b"short\n" + b"x" * 50 + b"\nshort\n",
        "binary": b"a\0b\n",
    }
    for name, content in contents.items():
        (tmp_path / name).write_bytes(content)
        assert line_cuts(Source.of(tmp_path / name), encoding="auto", block_bytes=100) is None
    (tmp_path / "latin").write_bytes(b"caf\xe9\n")
    assert line_cuts(Source.of(tmp_path / "latin"), encoding="latin-1", block_bytes=100) is None
