"""Downloads: files that are there whole or not at all."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO, Union

_NAME = re.compile(r'filename="([0-9A-Za-z][0-9A-Za-z._-]{0,200})"')


@contextmanager
def write_atomically(to: Path) -> Iterator[IO[bytes]]:
    """Yield a temporary file that gets its name when the block ends well, and is removed otherwise."""
    aside = to.with_name(f"{to.name}.{os.getpid()}.part")
    try:
        with aside.open("wb") as file:
            yield file
        aside.replace(to)
    except BaseException:
        with suppress(FileNotFoundError):
            aside.unlink()
        raise


def download_path(to: Union[str, os.PathLike[str]], headers: Mapping[str, str], otherwise: str) -> Path:
    """Return where a download goes: to this file, or into this folder by the name that the server gives."""
    path = Path(to)
    if not path.is_dir():
        return path
    named = _NAME.search(headers.get("content-disposition", ""))
    return path / (named[1] if named else otherwise)
