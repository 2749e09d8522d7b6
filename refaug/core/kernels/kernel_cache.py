"""The state of the compiled loops that an installation has left beside the code: written by what compiles them all.

Nothing here imports numba, so that the server and `refaug admin doctor` can ask.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable
from hashlib import sha256
from importlib import metadata
from pathlib import Path
from typing import Any, Final

from refaug.core.errors import RefaugError
from refaug.core.files import is_private, make_folder, read_json, write_json

ROOT: Final = Path(__file__).parents[2]
BESIDE: Final = Path(__file__).parent / "__pycache__"
FILL: Final = "python -m refaug.cli.server.kernels"
_STATE: Final = "kernels.json"


def is_writable() -> bool:
    """Whether what is compiled can be kept beside the code, for all."""
    return os.access(BESIDE if BESIDE.exists() else BESIDE.parent, os.W_OK)


def note_filled(files: Iterable[Path], count: int) -> None:
    """Write down that the loops in these files have been compiled, for this machine as numba sees it."""
    hashes = {str(path.relative_to(ROOT)): _hash_of(path) for path in sorted(files)}
    make_folder(BESIDE)
    write_json(BESIDE / _STATE, {**_surroundings(), "kernels": count, "files": hashes})


def trouble() -> str:
    """Why the loops have to be compiled when they are first used; empty where they are there already."""
    if not is_private(BESIDE):
        return f"others may write to {BESIDE}, so nothing is loaded from there"
    try:
        state = read_json(BESIDE / _STATE)
    except FileNotFoundError:
        return "none was compiled at installation"
    except (OSError, RefaugError) as error:
        return f"what was compiled cannot be told: {error}"
    for what, now in _surroundings().items():
        if state.get(what) != now:
            return f"compiled for {what} {state.get(what)}, and this is {now}"
    files: Any = state["files"]
    changed = [name for name, seen in files.items() if _hash_of(ROOT / name) != seen]
    return f"the code has changed since: {', '.join(changed)}" if changed else ""


def count() -> int:
    """How many loops were compiled."""
    kernels: Any = read_json(BESIDE / _STATE)["kernels"]
    return int(kernels)


def _surroundings() -> dict[str, str]:
    from llvmlite import binding  # type: ignore[import-untyped]  # noqa: PLC0415

    return {
        "numba": metadata.version("numba"),
        "Python": f"{sys.version_info[0]}.{sys.version_info[1]}",
        "processor": os.environ.get("NUMBA_CPU_NAME") or binding.get_host_cpu_name(),
    }


def _hash_of(path: Path) -> str:
    try:
        return sha256(path.read_bytes()).hexdigest()
    except OSError:
        return ""
