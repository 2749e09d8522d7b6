"""Where Python looks for modules: in the installation, and not in the user's folders.

A research folder has a `metrics.py` or a `torch.py`. Python puts the working directory and the folders of PYTHONPATH
before the installed packages, so such a file would be imported in place of a library, by the command and by every
process that it starts.
"""

from __future__ import annotations

import os
from collections.abc import MutableMapping
from pathlib import Path
from typing import Final

_PACKAGE: Final = Path(__file__).resolve().parents[2]
_SITE: Final = frozenset({"site-packages", "dist-packages"})


def leave_user_folders(path: list[str], environment: MutableMapping[str, str]) -> None:
    """Take the working directory and the user's folders of PYTHONPATH off the path, of this process and its children.

    A folder of PYTHONPATH in which packages are installed stays, behind the installation, since a cluster offers its
    libraries in that way; so does one inside an installed package, from which `opentelemetry-instrument` sets up every
    process, and the folder of refaug.
    """
    named = [entry for entry in environment.get("PYTHONPATH", "").split(os.pathsep) if entry]
    installed = [entry for entry in named if _is_installation(Path(entry))]
    user_folders = {"", *named, *map(os.path.abspath, named), os.path.abspath(os.curdir)}  # noqa: PTH100  as sys.path has them
    if _holds_refaug(Path.cwd()):
        user_folders.discard(os.path.abspath(os.curdir))  # noqa: PTH100
    path[:] = [*(entry for entry in path if entry not in user_folders), *installed]
    environment["PYTHONSAFEPATH"] = "1"
    if installed:
        environment["PYTHONPATH"] = os.pathsep.join(map(os.path.abspath, installed))
    else:
        environment.pop("PYTHONPATH", None)


def _is_installation(folder: Path) -> bool:
    """Whether packages are installed in a folder, or it is inside one of them, or refaug lies there."""
    return (
        _holds_refaug(folder)
        or not _SITE.isdisjoint(folder.parts)
        or next(folder.glob("*.dist-info"), None) is not None
    )


def _holds_refaug(folder: Path) -> bool:
    return (folder / "refaug").resolve() == _PACKAGE
