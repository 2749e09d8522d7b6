"""Line-aligned files: the texts with the same line number belong together."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import zip_longest
from pathlib import Path

from refaug.core.errors import BadInput
from refaug.logs.reading.sources import LineReader, Source, require_readable


def aligned_lines(files: Sequence[Path], shown_names: Sequence[str] = ()) -> Iterator[tuple[int, list[str]]]:
    """Yield the lines of one number from all files; BadInput where one of them ends before the others.

    Messages call the files by their paths, or by `shown_names`.
    """
    names = list(shown_names) or [str(path) for path in files]
    readers = [_lines(path, name) for path, name in zip(files, names, strict=True)]
    for number, row in enumerate(zip_longest(*readers), start=1):
        if missing := [name for name, text in zip(names, row, strict=True) if text is None]:
            _refuse_uneven(files, names, missing)
        yield number, [text for text in row if text is not None]


def _lines(path: Path, name: str) -> Iterator[str]:
    require_readable(path)
    source = Source.of(path)
    for block in LineReader(source):
        if block.bad is not None:
            raise BadInput(f"{name}, line {block.first_line}: {block.bad.message}")
        for number, line in enumerate(block.data.split(b"\n"), start=block.first_line):
            try:
                yield line.removesuffix(b"\r").decode("utf-8")
            except UnicodeDecodeError as error:
                raise BadInput(f"{name}, line {number}: not UTF-8: {error.reason}") from error


def _refuse_uneven(files: Sequence[Path], names: Sequence[str], missing: Sequence[str]) -> None:
    counts = {name: sum(1 for _ in _lines(path, name)) for name, path in zip(names, files, strict=True)}
    listed = ", ".join(f"{name} has {count:,}" for name, count in counts.items())
    raise BadInput(f"the files have different numbers of lines: {listed}", remedy=f"{missing[0]} ends first")
