"""Files whose hash this process has compared with a manifest, so that none is read twice for it.

A file counts as the same while its device, inode, size and both times are the same. The time of the last change of the
inode cannot be set back by a program, so a file that was altered and dated back is read again.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Collection, Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, Final

from refaug.core.artefacts.manifests import MANIFEST, REMEDY, NamedFile, named_files
from refaug.core.errors import Corrupt
from refaug.core.files import sha256_of
from refaug.core.memory import BoundedCache
from refaug.core.processes.free_cores import available_cores

Stamp = tuple[int, int, int, int, int]
Check = Callable[[], None]

_MOST_FILES: Final = 65_536
_MOST_THREADS: Final = 4


def stamp_of(path: Path | str) -> Stamp:
    """Return what identifies the content of a file without reading it."""
    status = os.stat(path)  # noqa: PTH116  making a Path takes longer than this
    return status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns, status.st_ctime_ns


class VerifiedFiles:
    """The hashes of files that were read, by stamp; thread-safe."""

    def __init__(self, most: int = _MOST_FILES) -> None:
        self._hashes = BoundedCache[Stamp, str](most)

    def sha256(self, path: Path, check: Check | None = None) -> str:
        """Return the hash of a file; read only a file that has changed since the last time.

        `check` is called before each piece that is read, and ends the reading by an error.
        """
        stamp = stamp_of(path)
        known_hash = self._hashes.get(stamp)
        if known_hash is not None:
            return known_hash
        digest = sha256_of(path, check)
        if stamp_of(path) == stamp:  # else it was written to meanwhile
            self._hashes.put(stamp, digest)
        return digest

    def require(
        self,
        folder: Path,
        manifest: Mapping[str, Any],
        only: Collection[str] | None = None,
        check: Check | None = None,
    ) -> None:
        """Require the hashes that a manifest names: of all files, or of some; Corrupt names the first other one."""
        named = [file for file in named_files(manifest, folder / MANIFEST) if only is None or file.name in only]
        threads = max(1, min(_MOST_THREADS, available_cores(), len(named)))
        with ThreadPoolExecutor(threads) as pool:  # hashing releases Python's lock
            for file, digest in zip(named, pool.map(lambda file: self._hash(folder, file, check), named), strict=True):
                if digest != file.sha256:
                    raise Corrupt(
                        f"{folder / file.name} has SHA-256 {digest[:12]}…; the manifest says {file.sha256[:12]}…",
                        remedy=REMEDY,
                    )

    def unread_bytes(self, folder: Path, manifest: Mapping[str, Any], only: Collection[str] | None = None) -> int:
        """Return how many bytes `require` would read: those of files that have changed since they were hashed."""
        named = [file for file in named_files(manifest, folder / MANIFEST) if only is None or file.name in only]
        return sum(file.size for file in named if not self._has_hash(folder / file.name))

    def _has_hash(self, path: Path) -> bool:
        try:
            return self._hashes.get(stamp_of(path)) is not None
        except OSError:
            return True  # there is nothing to read

    def _hash(self, folder: Path, file: NamedFile, check: Check | None) -> str:
        path = folder / file.name
        try:
            return self.sha256(path, check)
        except OSError as error:
            raise Corrupt(f"{path} cannot be read: {error.strerror}", remedy=REMEDY) from error


verified_files: Final = VerifiedFiles()
