"""A folder for one attempt at a task: links to the files of the build, and what the task writes beside them.

A process that was taken for dead may still write, while its task is done again elsewhere. Each attempt therefore writes
into a separate folder, and its finished files are renamed into the build: two attempts at one task make the same
bytes, so it does not matter whose rename comes last.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from refaug.core.artefacts.build_stages import MARK, Stages
from refaug.core.errors import Conflict
from refaug.core.files import make_folder, remove_tree, sync_folder, unique_suffix
from refaug.core.full_disk import storage_errors


@contextmanager
def attempt(build: Path, attempts: Path, writes: Sequence[str]) -> Iterator[Path]:
    """Yield a folder that looks like the build's; what is written there moves into the build when the block ends.

    `writes` are the folders of the build in which there will be new files; the top always is one of them.
    """
    folder = attempts / unique_suffix()
    make_inside(attempts, folder)
    try:
        _link(build, folder, {Path(name) for name in writes})
        yield folder
        _move(folder, build)
    finally:
        remove_tree(folder)


def make_inside(scratch: Path, folder: Path) -> None:
    """Create a folder inside the scratch folder.

    The scratch folder is not made again: a task that outlives its build would leave it behind.
    """
    inner = folder.relative_to(scratch)
    for path in [*reversed(inner.parents), inner][1:]:
        try:
            with storage_errors(scratch):
                (scratch / path).mkdir(exist_ok=True)
        except FileNotFoundError as error:
            raise Conflict(f"the build has ended: {scratch} is gone", remedy="run the build again") from error
    sync_folder(folder.parent)


def scratch_of(cache: Path, stages: Stages) -> Path:
    """Return the folder of what tasks of a build write that is no part of the index."""
    return cache.resolve() / f"cluster-{stages.folder.name}"


def remove_scratch(cache: Path, name: str, *, but: Path | None = None) -> None:
    """Remove what stopped builds of an index on a cluster left behind, texts among it, but this folder.

    Only the holder of the lock of the index may call this.
    """
    for folder in cache.resolve().glob(f"cluster-index-{name}-{'?' * 12}"):
        if folder != but:
            remove_tree(folder)


def _link(build: Path, folder: Path, writes: set[Path], at: Path = Path()) -> None:
    """Link everything, but make the folders that are written to, and those around them."""
    own = {parent for path in writes for parent in (path, *path.parents)} - {Path()}
    present = {path.name for path in (build / at).iterdir()} if (build / at).is_dir() else set()
    for name in sorted(present | {path.name for path in own if path.parent == at}):
        inner = at / name
        if inner in own:
            (folder / inner).mkdir()
            _link(build, folder, writes, inner)
        elif name != MARK and not name.endswith(".aside"):
            (folder / inner).symlink_to((build / inner).resolve())


def _move(folder: Path, target: Path) -> None:
    """Rename every new file into the build; a link is none."""
    for path in sorted(folder.iterdir()):
        if path.is_symlink():
            continue
        if path.is_dir():
            make_folder(target / path.name)
            _move(path, target / path.name)
        else:
            path.replace(target / path.name)
    sync_folder(target)
