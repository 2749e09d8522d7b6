"""Writing a backup while the home is served and jobs run.

What is copied is as of several moments, in an order that a restored home can go on from. The rows of the database come
first, then the finished stages of jobs: what either says is done, such as an evaluation, lies in files that are copied
after them. Then all versions are held against removal, with what their names mean. Then each log is copied together
with the dialogues that wait to be ingested into it, as both were at one moment. If something was erased from a log
since the first of these steps, all are repeated: the job that erases is then in the rows. What is held, sets, uploads
and evaluations never change; the last two are copied whole, or not where they are removed meanwhile.
"""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from refaug.bots.endpoint.answer_store import copy_answers
from refaug.bots.endpoint.judge_files import answers_path
from refaug.core.artefacts.kinds import artefact_stores
from refaug.core.artefacts.manifests import MANIFEST as VERSION_MANIFEST
from refaug.core.artefacts.manifests import named_files
from refaug.core.artefacts.removals import REMOVED
from refaug.core.artefacts.version_locks import HeldVersion, hold
from refaug.core.artefacts.versions import CURRENT, PUBLICATIONS, VersionName, Versions
from refaug.core.errors import Conflict, Corrupt, NotFound, RefaugError
from refaug.core.files import exclusive, make_folder, read_json, remove_tree, storage_errors, sync_folder, write_aside
from refaug.core.home import Settings
from refaug.core.progress import Progress
from refaug.logs.manifest import MANIFEST as LOG_MANIFEST
from refaug.logs.manifest import Erasure, LogManifest, LogPart
from refaug.logs.store import list_logs
from refaug.service.audit import AuditLog, user_of_machine
from refaug.service.backup import backup_files
from refaug.service.backup.backup_files import ROWS, BackupManifest, describe_file
from refaug.service.database.database import Database
from refaug.service.database.table_rows import read_rows
from refaug.service.database.tables import BACKED_UP
from refaug.service.evaluations.evaluation_store import MANIFEST as EVALUATION_MANIFEST
from refaug.service.evaluations.evaluation_store import EvaluationStore
from refaug.service.evaluations.uploads import MANIFEST as UPLOAD_MANIFEST
from refaug.service.evaluations.uploads import UploadStore
from refaug.service.jobs.inbox import FOLDER as POSTED
from refaug.service.jobs.inbox import LIST_FILE
from refaug.service.server_settings import ServeSettings

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


_NEWEST: Final = ".newest"  # the last version name that an artefact has used
_REQUESTS: Final = "[0-9]*.jsonl"  # dialogues posted meanwhile


@dataclass(frozen=True, kw_only=True)
class BackupReport:
    """What a backup or a restore has written."""

    files: int
    bytes: int
    rows: int
    shared: int = 0  # files that are the earlier backup's
    damaged: tuple[str, ...] = ()  # files of the home that are not as their manifests say


def back_up(
    home: Settings, database: Database | None, target: Path, progress: Progress, earlier: Path | None = None
) -> BackupReport:
    """Write a backup into a folder, which appears when it is complete; Conflict where it holds something."""
    _require_free(home, target)
    shared = EarlierBackup.read(earlier)
    staging = target.with_name(f".{target.name}.partial")
    with exclusive(staging, "a backup"):
        staging.chmod(0o700)
        clear_folder(staging)
        copy = _HomeCopy(home, StagedCopy(home, staging, progress, shared))
        with storage_errors(target):
            report = copy.write(database)
            _move_into_place(staging, target)
    return report


def note_backup(database: Database, target: Path, report: BackupReport, progress: Progress) -> None:
    """Add a backup to the audit log, from which the service knows its age; a complete one is not refused for that."""
    facts: dict[str, Any] = {
        "bytes": report.bytes,
        "files": report.files,
        "rows": report.rows,
        "damaged": len(report.damaged),
    }
    try:
        AuditLog(database).add(user_of_machine(), BACKED_UP, f"backup {target.name}", **facts)
    except RefaugError as error:
        progress.warn(f"the backup is complete, and the service does not know of it: {error.message}")


def _require_free(home: Settings, target: Path) -> None:
    if target.is_file() or (target.is_dir() and any(target.iterdir())):
        raise Conflict(f"{target} is not empty", remedy="name another folder; a backup is never overwritten")
    if target.resolve().is_relative_to(home.home.resolve()):
        raise Conflict(f"{target} lies in the home", remedy="name a folder outside, best on another disk")


def _move_into_place(staging: Path, target: Path) -> None:
    try:
        staging.replace(target)
    except OSError as error:
        if error.errno not in (errno.ENOTEMPTY, errno.EEXIST, errno.ENOTDIR):
            raise
        raise Conflict(f"{target} was filled meanwhile", remedy="name another folder") from error
    (target / ".lock").unlink(missing_ok=True)
    sync_folder(target.parent)


def clear_folder(staging: Path) -> None:
    """Remove what a killed backup or restore has left in its folder; the caller holds the folder's lock."""
    for leftover in staging.iterdir():
        if leftover.is_dir():
            remove_tree(leftover)
        elif leftover.name != ".lock":
            leftover.unlink()


class _HomeCopy:
    """A copy of a home that is being written."""

    def __init__(self, home: Settings, staged: StagedCopy) -> None:
        self._home, self._staged = home, staged
        self._stores = tuple(artefact_stores(home).values())

    def write(self, database: Database | None) -> BackupReport:
        """Write all files, the manifest last."""
        progress = self._staged.progress
        progress.stage("copying the database, logs and stages of jobs", None, "B")
        with self._changing_files(database) as (rows, published, held):
            progress.stage("copying artefacts", None, "B")
            for path, current in published.items():
                self._staged.add_bytes(path, f"{current}\n".encode())
            for version in held:
                self._copy_version(version)
        for versions in self._stores:
            self._copy_beside_versions(versions)
        self._staged.add_folder(self._home.reference_sets)
        self._staged.add_folder(self._home.judges)
        self._copy_answers()
        self._copy_evaluations()
        self._staged.add_folder(self._home.home / "inbox", without=[POSTED])
        self._staged.sync()
        files = self._staged.files
        BackupManifest.of(database.steps() if database is not None else {}, files).write(self._staged.folder)
        total = sum(file.size for file in files.values())
        damaged = tuple(self._staged.damaged)
        return BackupReport(files=len(files), bytes=total, rows=rows, shared=self._staged.shared, damaged=damaged)

    def _copy_evaluations(self) -> None:
        """Copy uploads and evaluations that have not expired: each whole, or not where it is removed meanwhile."""
        uploads = UploadStore(self._home, ServeSettings())
        evaluations = EvaluationStore(self._home, ServeSettings())
        for upload in uploads.all():
            with suppress(NotFound):  # removed meanwhile
                content = uploads.path(upload.id)
                self._copy_whole(content.parent / UPLOAD_MANIFEST, {content: upload.sha256})
        for stored in filter(None, map(evaluations.find, evaluations.ids())):
            folder = evaluations.folder(stored.id)
            hashes = {folder / name: sha256 for name, sha256 in stored.hashes.items()}
            self._copy_whole(folder / EVALUATION_MANIFEST, hashes)
        unreadable = [*uploads.unreadable(), *evaluations.unreadable()]
        self._staged.damaged.extend(f"{path} is damaged; its folder is not in the backup" for path in unreadable)

    def _copy_whole(self, manifest: Path, hashes: Mapping[Path, str]) -> None:
        """Copy the files of a folder that is removed in one step; those that its manifest names and lacks are noted."""
        self._staged.add(manifest)
        for path, sha256 in hashes.items():
            self._staged.add_checked(path, sha256)
        if not manifest.exists():
            self._staged.forget([manifest, *hashes])
            return
        missing = [path for path in hashes if self._staged.name_of(path) not in self._staged.files]
        self._staged.damaged.extend(f"{path} is missing; its manifest names it" for path in missing)

    def _copy_answers(self) -> None:
        """Copy the answers that judges gave, as of one moment."""
        path = answers_path(self._home)
        if path.is_file():
            name = self._staged.name_of(path)
            make_folder((self._staged.folder / name).parent)
            copy_answers(path, self._staged.folder / name)
            self._staged.files[name] = describe_file(self._staged.folder / name)

    @contextmanager
    def _changing_files(self, database: Database | None) -> Iterator[tuple[int, Mapping[Path, str], list[HeldVersion]]]:
        """Copy what changes, and yield the rows, what is published, and all versions, held until the block ends."""
        for _ in range(TRIES):
            erasures = self._erasures()
            rows = self._copy_rows(database)
            self._staged.forget_folder(self._home.home / "jobs")
            self._staged.add_folder(self._home.home / "jobs")
            with ExitStack() as holding:
                published, held = self._hold_versions(holding)
                for name in self._log_names():
                    self._copy_log(name)
                if self._erasures() == erasures:
                    yield rows, published, held
                    return
        raise Conflict("logs change too often to be copied", remedy="run it again when fewer jobs run")

    def _copy_rows(self, database: Database | None) -> int:
        rows = 0
        with write_aside(self._staged.folder / ROWS) as file:
            for line in read_rows(database) if database is not None else ():
                file.write(line)
                rows += 1
        self._staged.files[ROWS] = describe_file(self._staged.folder / ROWS)
        return rows

    # ── logs ──────────────────────────────────────────────────────────────────────────────────────────────────────────

    def _erasures(self) -> dict[str, Erasure]:
        """Return what is erased from each log."""
        erasures = dict[str, Erasure]()
        for name in list_logs(self._home.logs):
            with suppress(FileNotFoundError, Corrupt):
                erasures[name] = LogManifest.read(self._home.logs / name).erased
        return erasures

    def _log_names(self) -> list[str]:
        """Return the logs, with those whose first dialogues wait."""
        posted = self._home.home / "inbox" / POSTED
        waiting = [folder.name for folder in posted.iterdir() if folder.is_dir()] if posted.is_dir() else []
        return sorted({*list_logs(self._home.logs), *waiting})

    def _copy_log(self, name: str) -> None:
        """Copy a log and the dialogues that wait for it: again, when the log was changed meanwhile."""
        folder, posted = self._home.logs / name, self._home.home / "inbox" / POSTED / name
        for _ in range(TRIES):
            manifest = _read_optional(folder / LOG_MANIFEST)
            missing = self._copy_parts(folder, manifest)
            self._staged.forget_folder(posted)
            self._staged.add_moment(posted, _REQUESTS)
            if _read_optional(folder / LOG_MANIFEST) == manifest:
                self._staged.damaged.extend(f"{path} is missing; its manifest names it" for path in missing)
                return
        raise Conflict(f"log {name} changes too often to be copied", remedy="run it again when fewer jobs run")

    def _copy_parts(self, folder: Path, manifest: bytes | None) -> list[Path]:
        """Copy the parts that a manifest names, unless they are copied already; return those that are not there."""
        staged, parts = self._staged, dict[Path, str]()
        if manifest is not None:
            parts = {folder / part.file: part.sha256 for part in self._parts(folder, manifest)}
        begin = staged.name_of(folder / LOG_MANIFEST)
        copied = {begin: ""} | {staged.name_of(path): sha256 for path, sha256 in parts.items()}
        for name in [name for name in staged.files if name.startswith(begin.removesuffix(LOG_MANIFEST))]:
            if manifest is None or name not in copied or copied[name] not in ("", staged.files[name].sha256):
                staged.forget([folder / Path(name).name])
        for path, sha256 in parts.items():
            if staged.name_of(path) not in staged.files:
                staged.add_checked(path, sha256)
        return [path for path in parts if staged.name_of(path) not in staged.files]

    def _parts(self, folder: Path, manifest: bytes) -> Sequence[LogPart]:
        """Write a manifest, and return the parts that it names."""
        self._staged.add_bytes(folder / LOG_MANIFEST, manifest)
        written = self._staged.folder / self._staged.name_of(folder)
        try:
            return LogManifest.read(written).parts
        except Corrupt as error:
            self._staged.damaged.append(error.message.replace(str(written), str(folder)))
            return ()

    # ── versions ──────────────────────────────────────────────────────────────────────────────────────────────────────

    def _hold_versions(self, holding: ExitStack) -> tuple[Mapping[Path, str], list[HeldVersion]]:
        """Hold all versions, and return what is published by the path of its CURRENT.

        Word vectors come last: those that an index needs stay while the index is held.
        """
        published, held = dict[Path, str](), list[HeldVersion]()
        for versions in self._stores:
            for name in versions.names():
                before = {version.folder for version in held}
                with suppress(NotFound, Conflict, Corrupt):  # removed meanwhile, or none is published
                    held.append(holding.enter_context(versions.open(name)))
                    before.add(held[-1].folder)
                    published[versions.folder(name) / CURRENT] = held[-1].version
                for version in versions.versions(name):
                    folder = versions.folder(name, version)
                    other = hold(folder, name, version) if folder not in before else None
                    if other is not None:
                        held.append(holding.enter_context(other))
        return published, held

    def _copy_version(self, held: HeldVersion) -> None:
        """Copy a version, and note what is not as its manifest says."""
        path = held.folder / VERSION_MANIFEST
        try:
            hashes = {held.folder / file.name: file.sha256 for file in named_files(read_json(path), path)}
        except Corrupt as error:
            hashes = {}
            self._staged.damaged.append(error.message)
        for file in sorted(file for file in held.folder.rglob("*") if file.is_file()):
            self._staged.add_of_version(file, hashes.pop(file, None))
        self._staged.damaged.extend(f"{missing} is missing; its manifest names it" for missing in hashes)

    def _copy_beside_versions(self, versions: Versions) -> None:
        """Copy what lies beside the versions: notes of removed ones, measurements, the last used name, publications."""
        self._staged.add_folder(versions.root / REMOVED)
        for name in versions.names():
            folder = versions.folder(name)
            for note in (_NEWEST, PUBLICATIONS):
                if (folder / note).exists():
                    self._staged.add(folder / note)
            for inner in sorted(path for path in folder.iterdir() if path.is_dir()):
                if not inner.name.startswith(".") and VersionName.parse(inner.name) is None:
                    self._staged.add_folder(inner)


def _read_optional(path: Path) -> bytes | None:
    with suppress(FileNotFoundError):
        return path.read_bytes()
    return None
