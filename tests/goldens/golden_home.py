"""The golden home, unpacked, and what can be asked over it: the command and the service, both in this process."""

from __future__ import annotations

import errno
import io
import os
import shutil
import sys
import tarfile
import tempfile
from collections.abc import Iterator
from contextlib import chdir, contextmanager, redirect_stderr, redirect_stdout
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final
from unittest.mock import patch

import zstandard

FOLDER: Final = Path(__file__).parent
_LARGEST: Final = 1 << 25  # bytes of the unpacked archive


@contextmanager
def unpacked() -> Iterator[Path]:
    """Yield a folder with the home and the files that calls read; it is the working directory meanwhile."""
    with tempfile.TemporaryDirectory(prefix="refaug-goldens-") as folder:
        archive = zstandard.ZstdDecompressor(max_window_size=1 << 27).decompress(
            (FOLDER / "home.tar.zst").read_bytes(), max_output_size=_LARGEST
        )
        with tarfile.open(fileobj=io.BytesIO(archive)) as files:
            files.extractall(folder, filter="data")
        for path in (FOLDER / "calls" / "inputs").iterdir():
            shutil.copy(path, folder)
        environment = {name: text for name, text in os.environ.items() if not name.startswith("REFAUG_")}
        environment |= {"COLUMNS": "100", "TERM": "dumb", "NO_COLOR": "1"}
        with chdir(folder), patch.dict(os.environ, environment, clear=True), _without_wordnet():
            yield Path(folder)


@contextmanager
def _without_wordnet() -> Iterator[None]:
    """Let the WordNet of the machine be absent, so that answers are the same where it is installed."""
    from refaug.metrics.words import meteor  # noqa: PLC0415

    def absent(path: Path, stamps: object) -> meteor.WordNet:
        if path == Path("/usr/share/wordnet"):
            raise FileNotFoundError(errno.ENOENT, "not installed", str(path / meteor.FILES[0]))
        return read(path, stamps)

    read: Any = meteor._read
    with patch.object(meteor, "_read", absent):
        yield


@dataclass(frozen=True)
class Ended:
    """How a command ended, and what it wrote."""

    code: int
    out: str
    err: str


def run_command(arguments: list[str], stdin: str = "") -> Ended:
    """Run `refaug` in this process."""
    from refaug.cli.main import main  # noqa: PLC0415

    streams = [io.TextIOWrapper(io.BytesIO(), "utf-8") for _ in range(2)]
    read = io.TextIOWrapper(io.BytesIO(stdin.encode()), "utf-8")
    with redirect_stdout(streams[0]), redirect_stderr(streams[1]), patch.object(sys, "stdin", read), _as_the_script():
        code = main(arguments)
    texts = []
    for stream in streams:
        stream.flush()
        texts.append(stream.buffer.getvalue().decode())  # type: ignore[attr-defined]
    return Ended(code, *texts)


@contextmanager
def _as_the_script() -> Iterator[None]:
    """Name the program as it was started: here always `refaug`, not pytest."""
    with patch.object(sys, "argv", ["refaug"]), patch.object(sys.modules["__main__"], "__package__", None):
        yield


def command_tree() -> Any:
    """Return the command as an object of typer's."""
    from typer.main import get_command  # noqa: PLC0415

    from refaug.cli.main import app  # noqa: PLC0415

    return get_command(app)


def command_paths(command: Any, path: tuple[str, ...] = ()) -> Iterator[tuple[str, ...]]:
    """Yield the words of every command that does something, groups that do nothing left out."""
    inner = getattr(command, "commands", {})
    if path and (not inner or getattr(command, "invoke_without_command", False)):
        yield path
    for name, subcommand in inner.items():
        yield from command_paths(subcommand, (*path, name))


def web_app(home: Path, **settings: Any) -> Any:
    """Return the service over a home, as FastAPI has it."""
    from refaug.core.home import Settings  # noqa: PLC0415
    from refaug.service.server_settings import ServeSettings  # noqa: PLC0415
    from refaug.service.web.app import create_app  # noqa: PLC0415

    return create_app(Settings(home=home), ServeSettings(allowed_hosts="testserver", **settings))
