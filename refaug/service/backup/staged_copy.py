"""The files of a backup that is being written: each is copied once, or linked where the same content is there."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from refaug.core.errors import Conflict
from refaug.core.files import make_folder, sync_folder
from refaug.core.home import Settings
from refaug.core.progress import Progress
from refaug.service.backup import backup_files
from refaug.service.jobs.posted_requests import LIST_FILE

TRIES: Final = 20  # of what jobs change while it is copied
_PASSING: Final = (".aside", ".lock", ".adding", LIST_FILE)  # half-written files, locks, and what is made anew
_Stamp = tuple[int, int, int, int]


@dataclass(frozen=True, kw_only=True)
class EarlierBackup:
    """A backup whose unchanged files the new one shares."""

    folder: Path
    files: Mapping[str, backup_files.BackedUpFile]

    @classmethod
    def read(cls, folder: Path | None) -> EarlierBackup | None:
        """Read the manifest of a backup; None without a folder."""
        return None if folder is None else cls(folder=folder, files=backup_files.BackupManifest.read(folder).files)


@dataclass
class StagedCopy:
    """The folder in which a backup is prepared."""

    home: Settings
    folder: Path
    progress: Progress
    earlier: EarlierBackup | None = None
    files: dict[str, backup_files.BackedUpFile] = field(default_factory=dict)
    damaged: list[str] = field(default_factory=list)  # a sentence each
    shared: int = 0  # files that are links to those of the earlier backup
    _linked: dict[_Stamp, str] = field(default_factory=dict)  # files of versions by inode

    def name_of(self, path: Path) -> str:
        """Return the name of a file of the home in the backup."""
        return f"{backup_files.HOME}/{path.relative_to(self.home.home).as_posix()}"

    def add(self, path: Path) -> backup_files.BackedUpFile | None:
        """Copy a file of the home as it is; None if it was removed meanwhile."""
        name = self.name_of(path)
        try:
            name.encode()
        except UnicodeEncodeError:
            self.progress.warn(f"{path!r} is not in the backup: its name is not UTF-8")
            return None
        with suppress(FileNotFoundError):
            self.files[name] = self._share(path, name) or backup_files.copy_file(
                path, self.folder / name, self.progress
            )
            return self.files[name]
        return None

    def add_checked(self, path: Path, sha256: str | None) -> None:
        """Copy a file, and note where its hash is not the one that its manifest names."""
        copied = self.add(path)
        if copied is not None and sha256 is not None and copied.sha256 != sha256:
            self.damaged.append(f"{path} has SHA-256 {copied.sha256[:12]}…; its manifest says {sha256[:12]}…")

    def add_of_version(self, path: Path, sha256: str | None) -> None:
        """Copy a file of a version that is held; what versions share in the home they share in the backup."""
        name, stamp = self.name_of(path), _stamp_of(path)
        same = self._linked.get(stamp)
        if same is not None and backup_files.link_file(self.folder / same, self.folder / name):
            self.files[name] = self.files[same]
            return
        self.add_checked(path, sha256)
        if name in self.files:
            self._linked[stamp] = name

    def _share(self, path: Path, name: str) -> backup_files.BackedUpFile | None:
        """Link the file of the earlier backup, if both still have the content that its manifest names."""
        before = self.earlier.files.get(name) if self.earlier is not None else None
        if self.earlier is None or before is None or path.stat().st_size != before.size:
            return None
        same = self.earlier.folder / name
        if (
            backup_files.describe_file(path) != before
            or not same.is_file()
            or backup_files.describe_file(same) != before
        ):
            return None
        self.forget([path])
        if not backup_files.link_file(same, self.folder / name):
            return None
        self.progress.advance(before.size)
        self.shared += 1
        return before

    def add_bytes(self, path: Path, content: bytes) -> None:
        """Write a file under the name of a file of the home."""
        target = self.folder / self.name_of(path)
        make_folder(target.parent)
        with target.open("wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        self.files[self.name_of(path)] = backup_files.describe_file(target)

    def add_folder(self, folder: Path, *, without: Iterable[str] = ()) -> None:
        """Copy the files of a folder and of the folders in it, except files that are removed meanwhile."""
        for inner, folders, _ in os.walk(folder):
            folders[:] = sorted(set(folders) - (set(without) if Path(inner) == folder else set()))
            for path in _regular_files(Path(inner)):
                self.add(path)

    def add_moment(self, folder: Path, may_come: str) -> None:
        """Copy the files of one folder as they were at one moment; files that match `may_come` may come meanwhile."""
        for _ in range(TRIES):
            before = _regular_files(folder)
            for path in before:
                self.add(path)
            after = _regular_files(folder)
            if {path: stamp for path, stamp in after.items() if path in before or not path.match(may_come)} == before:
                return
            self.forget(before)
        raise Conflict(f"{folder} changes too often to be copied", remedy="run it again when less is written there")

    def forget(self, paths: Iterable[Path]) -> None:
        """Remove copied files."""
        for path in paths:
            name = self.name_of(path)
            self.files.pop(name, None)
            (self.folder / name).unlink(missing_ok=True)

    def forget_folder(self, folder: Path) -> None:
        """Remove the copied files of a folder of the home."""
        begin = f"{self.name_of(folder)}/"
        self.forget(
            [self.home.home / name[len(backup_files.HOME) + 1 :] for name in list(self.files) if name.startswith(begin)]
        )

    def sync(self) -> None:
        """Make all names survive a power cut."""
        make_folder(self.folder / backup_files.HOME)
        for folder, _, _ in os.walk(self.folder):
            sync_folder(Path(folder))


def _regular_files(folder: Path) -> dict[Path, _Stamp]:
    """Return the files of a folder with what a change of them changes; without links, locks and half-written ones."""
    stamps = dict[Path, _Stamp]()
    for path in sorted(folder.iterdir()) if folder.is_dir() else ():
        with suppress(FileNotFoundError):
            if stat.S_ISREG(path.lstat().st_mode) and not path.name.endswith(_PASSING):
                stamps[path] = _stamp_of(path)
    return stamps


def _stamp_of(path: Path) -> _Stamp:
    status = path.stat()
    return status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns
