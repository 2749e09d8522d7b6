"""Downloads: files that are there whole or not at all."""

from __future__ import annotations

import os
import re
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any, Union

from refaug_client._core.errors import NoAnswer

from .call import Call

if TYPE_CHECKING:
    from refaug_client._http.call import Wire


_NAME = re.compile(r'filename="([0-9A-Za-z][0-9A-Za-z._-]{0,200})"')


async def download(wire: Wire, call: Call[Any], to: Union[str, os.PathLike[str]], otherwise: str) -> Path:
    """Write an answer to a file, which is there whole or not at all, or into a folder; begin anew after a break."""
    began, tried = time.monotonic(), 0
    while True:
        tried, is_begun = tried + 1, False
        try:
            async with wire.stream(call) as response:
                is_begun = True
                target = download_path(to, response.headers, otherwise)
                with write_atomically(target) as file:
                    async for piece in response.aiter_bytes():
                        file.write(piece)
        except NoAnswer as error:
            spent_s, retry = time.monotonic() - began, wire.settings.retry
            wait = retry.pause(error, tried=tried, spent_s=spent_s, repeatable=True) if is_begun else None
            if wait is None:
                raise
            await wire.pause(wait)
        else:
            return target


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
