"""Compile every loop that commands, server and jobs need: `python -m refaug.cli.server.kernels`, run at installation.

Nothing knows better which loops are called with what than the commands themselves. So they do all of their work here
once, on a small demo log in a home that is gone afterwards, and a web process opens what they have made. Those that
need no index are run by a second process meanwhile.
"""

from __future__ import annotations

import asyncio
import contextlib
import multiprocessing
import os
import sys
import tempfile
import time
from collections.abc import Iterable, Iterator
from multiprocessing.connection import Connection
from pathlib import Path

import numpy as np

from refaug.cli.main import main as run
from refaug.core.home import Settings
from refaug.core.installation import is_installed
from refaug.core.kernels import kernel_cache

_VECTORS = ("embedding-average", "vector-extrema", "pooled", "greedy")
_SCORED = ("bleu", "multi-bleu:smooth=floor", "chrf", "ter", "cider", "upsilon-bleu", "upsilon-chrf", "upsilon-rouge-l")
FIRST = (
    ("log", "demo", "--dialogues", "1500", "--items", "12", "--output", "all.jsonl", "--items-output", "items.jsonl"),
    ("log", "ingest", "all.jsonl", "--log", "demo"),
    ("train", "vectors", "demo", "--dimensions", "64", "--epochs", "1", "--min-count", "2"),
    ("index", "vectors", "write", "demo", "vectors.txt"),
)
_RATER = "demo --preset small --epochs 1 --max-tokens 16 --validation-share 0.2 --threads 1"
MEANWHILE = (
    ("train", "rater", *_RATER.split()),
    ("score", "items.jsonl", *(part for name in _VECTORS for part in ("--metric", f"{name}:vectors=./vectors.txt"))),
    ("agreement", "items.jsonl", "--metric", "bleu", "--metric", "chrf", "--draws", "50"),
)
INDEXED = (
    ("index", "build", "demo", "--check-queries", "20"),
    ("log", "ingest", "more.jsonl", "--log", "demo"),
    ("index", "update", "demo"),
    ("index", "delete", "demo", "--dialogue", "demo/000003"),
    *(
        command
        for where in ("embedding", "bm25")
        for what in ("utterance", "dialog")
        for command in (
            ("index", "search", "demo", "where is the bus", "--gold", "at the stop", "--mode", f"{where}-{what}"),
            ("index", "check", "demo", "--queries", "10", "--mode", f"{where}-{what}"),
        )
    ),
    ("index", "build", "demo", "--name", "lists", "--factory", "PCAR32,IVF8,PQ16x4fs", "--recall", "0.01"),
    ("index", "search", "lists", "where is the bus", "--gold", "at the stop"),
)
LAST = (
    ("sets", "references", "items.jsonl", "--index", "demo", "--rater", "demo"),
    (
        "score",
        "items.jsonl",
        *("--index", "demo", "--rater", "demo", "--baseline", "generic", "--draws", "50"),
        *(part for name in _SCORED for part in ("--metric", name)),
    ),
    ("score", "metrics", "baseline", "upsilon-rouge-l", "--index", "demo", "--pairs", "50"),
    ("admin", "jobs", "list"),  # makes the tables of the database
)


def fill() -> None:
    """Do all of it, and note that it is done."""
    with tempfile.TemporaryDirectory(prefix="refaug-kernels-") as folder, contextlib.chdir(folder):
        kernels = _run(FIRST)
        spawning = multiprocessing.get_context("spawn")
        receiving, sending = spawning.Pipe(duplex=False)
        meanwhile = spawning.Process(target=_run_meanwhile, args=(sending,))
        meanwhile.start()
        sending.close()
        kernels |= _run(INDEXED)
        try:
            kernels |= receiving.recv()
        except EOFError:
            raise RuntimeError("the second process ended early: the lines above say why") from None
        meanwhile.join()
        kernels |= _run(LAST)
        with _discarded_output():
            asyncio.run(_serve(Settings(home=Path(folder, "home"))))
    from refaug.rater.array_layers import Floats, gelu  # noqa: PLC0415

    numbers: Floats = np.zeros(1, np.float32)
    gelu(numbers)  # for raters without torch
    kernels |= _kernels()
    files = {Path(file) for file, _ in kernels}
    kernel_cache.note_filled((path for path in files if path.is_relative_to(kernel_cache.ROOT)), len(kernels))


def _run_meanwhile(sending: Connection) -> None:
    """Run, in the second process, the commands that need no index, and send which loops it has met."""
    sending.send(_run(MEANWHILE))


def _run(commands: Iterable[tuple[str, ...]]) -> set[tuple[str, str]]:
    """Run commands, and return the loops that are known by now."""
    if "NUMBA_CPU_NAME" not in os.environ:  # which names common processors where a wheel is built
        from refaug.core.kernels.compiler import compile_for_this_processor  # noqa: PLC0415  numba

        compile_for_this_processor()
    for command in _possible(commands):
        _do(command)
        if command[:2] == ("log", "demo"):
            _part(Path("all.jsonl"), Path("more.jsonl"))
    return _kernels()


def _kernels() -> set[tuple[str, str]]:
    """Return the file and the name of every loop that this process knows."""
    from refaug.core.kernels.kernel import KERNELS  # noqa: PLC0415  numba

    return {(kernel.py_func.__code__.co_filename, kernel.py_func.__qualname__) for kernel in KERNELS}


def _possible(commands: Iterable[tuple[str, ...]]) -> Iterator[tuple[str, ...]]:
    """Yield the commands; without a rater where it cannot be trained, without agreement where SciPy is missing."""
    has_statistics = is_installed("meta")
    has_rater = has_statistics and is_installed("rater")
    for command in commands:
        if not has_rater and "--rater" in command:
            at = command.index("--rater")
            yield (*command[:at], "--reference-weights", "one", *command[at + 2 :])
        elif (has_rater or command[:2] != ("train", "rater")) and (has_statistics or command[0] != "agreement"):
            yield command


def _part(whole: Path, rest: Path) -> None:
    """Keep the last dialogues back, for an update."""
    lines = whole.read_bytes().splitlines(keepends=True)
    whole.write_bytes(b"".join(lines[:-40]))
    rest.write_bytes(b"".join(lines[-40:]))


def _do(command: tuple[str, ...]) -> None:
    begun = time.perf_counter()
    with _discarded_output():
        code = run(["--quiet", "--home", "home", *command])
    if code != 0:
        raise RuntimeError(f"refaug {' '.join(command)} ended with {code}")
    sys.stderr.write(f"{time.perf_counter() - begun:6.1f} s  refaug {' '.join(command[:3])}\n")


@contextlib.contextmanager
def _discarded_output() -> Iterator[None]:
    """Discard what commands print during the block."""
    with Path(os.devnull).open("w", encoding="utf-8") as nowhere, contextlib.redirect_stdout(nowhere):
        yield


async def _serve(home: Settings) -> None:
    """Be a web process until it is ready."""
    from refaug.service.server_settings import ServeSettings  # noqa: PLC0415
    from refaug.service.web.app import create_app  # noqa: PLC0415
    from refaug.service.web.routes.health import missing_parts  # noqa: PLC0415

    app = create_app(home, ServeSettings())
    async with app.router.lifespan_context(app):
        while missing_parts(app.state.refaug):
            await asyncio.sleep(0.05)


def main() -> int:
    """Fill the cache, and say how long it took."""
    begun = time.perf_counter()
    sys.stderr.write("compiling: each command runs once, in a temporary home, for about 90 s of a free processor\n")
    fill()
    sys.stderr.write(f"{time.perf_counter() - begun:6.1f} s  in all: the loops are compiled beside the code\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
