"""Checks of an installation, one by one, for `refaug admin doctor` and for a health page."""

from __future__ import annotations

import contextlib
import os
import platform
import shutil
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum
from functools import cache
from importlib import metadata, util
from pathlib import Path
from typing import TYPE_CHECKING, Final

from refaug.core.artefacts.kinds import artefact_stores, encodings_in
from refaug.core.artefacts.versions import DELETED, IMPORTING, Versions, check_version
from refaug.core.errors import Conflict, RefaugError, Unavailable
from refaug.core.home import Settings
from refaug.core.installation import is_installed
from refaug.core.kernels import kernel_cache
from refaug.core.processes.live_file import IN_USE, LiveFile
from refaug.core.text.tokenizers import get_tokenizer
from refaug.core.version import VERSION
from refaug.service.server_settings import ServeSettings

if TYPE_CHECKING:
    from refaug.service.database.database import Database

PACKAGES: Final = ("refaug",)  # the import names that must be ours
_LIBRARIES: Final = (
    "pyarrow",
    "duckdb",
    "numpy",
    "orjson",
    "isal",
    "zstandard",
    "regex",
    "sentencepiece",
    "fugashi",
    "numba",
    "scipy",
    "sacrebleu",
    "faiss-cpu",
    "bm25s",
    "gensim",
    "onnxruntime",
    "torch",
)
_OPENMP: Final = ("libgomp", "libiomp5", "libomp")
_WITH_OPENMP: Final = ("numpy", "torch", "faiss", "scipy")  # where they are installed
_MIN_DISK: Final = 2 << 30
_MIN_MEMORY: Final = 2 << 30

_REMOVABLE_PATTERNS: Final = tuple(
    f"{kind}{inner}/{begin}*"
    for kind in ("vectors", "indexes", "raters", "rubers", "vhreds", "adems", "self-plays", "hybrids")
    for inner in ("", "/*")
    for begin in (DELETED, IMPORTING)
)
_RESUMABLE_PATTERNS: Final = ("cache/*/stages.json", "cache/.staging-*", "vectors/*/.staging-*", "indexes/*/.staging-*")


class FindingState(StrEnum):
    """The severity of a finding."""

    GOOD = "good"
    NOTE = "note"
    WRONG = "wrong"


@dataclass(frozen=True, kw_only=True)
class Finding:
    """The result of one check."""

    what: str
    state: FindingState
    found: str
    remedy: str = ""


def examine(settings: Settings, *, verify: bool = False) -> list[Finding]:
    """Run all checks; none of them changes anything."""
    return [
        _version(),
        *_package_origins(),
        *_libraries(),
        _tokenizer("mecab", "pip install fugashi ipadic"),
        _threads(),
        _openmp(),
        _kernels(),
        _memory(),
        *_home(settings.home),
        *_encodings(settings),
        *_leftovers(settings),
        *_unfinished_deletions(settings),
        *_logs(settings, verify=verify),
        *_artefacts(settings, verify=verify),
        *_sets(settings, verify=verify),
        *_service_parts(settings, verify=verify),
    ]


def _version() -> Finding:
    python = platform.python_version()
    fits = sys.version_info >= (3, 11)
    return Finding(
        what="refaug",
        state=FindingState.GOOD if fits else FindingState.WRONG,
        found=f"{VERSION} on Python {python}",
        remedy="" if fits else "install Python 3.11 or newer",
    )


def _package_origins() -> Iterator[Finding]:
    """Check that the package names do not belong to another distribution in a shared environment."""
    root = Path(__file__).resolve().parents[1]
    for name in PACKAGES:
        spec = util.find_spec(name)
        origin = Path(spec.origin).resolve() if spec is not None and spec.origin else None
        is_ours = origin is not None and origin.is_relative_to(root)
        yield Finding(
            what=f"package {name}",
            state=FindingState.GOOD if is_ours else FindingState.WRONG,
            found="of this installation" if is_ours else f"another distribution's: {origin}",
            remedy="" if is_ours else "install refaug into an environment of its own: make demo does",
        )


def _libraries() -> Iterator[Finding]:
    """Compare installed versions with the lock file."""
    locked = _locked_versions()
    for name in _LIBRARIES:
        try:
            version = metadata.version(name)
        except metadata.PackageNotFoundError:
            yield Finding(what=name, state=FindingState.NOTE, found="not installed", remedy="pip install 'refaug[all]'")
            continue
        pin = locked.get(name)
        is_pinned = pin is None or version.split("+")[0] == pin
        yield Finding(
            what=name,
            state=FindingState.GOOD if is_pinned else FindingState.NOTE,
            found=version if is_pinned else f"{version}; the lock says {pin}",
            remedy="" if is_pinned else "pip install -r requirements.lock; figures may differ in the last digits",
        )


def _locked_versions() -> dict[str, str]:
    lock = Path(__file__).resolve().parents[2] / "requirements.lock"
    if not lock.exists():
        return {}
    pins = (line.split("==", 1) for line in lock.read_text("utf-8").splitlines() if "==" in line and line[0] != "#")
    return {name.strip(): pin.strip() for name, pin in pins}


def _tokenizer(name: str, remedy: str) -> Finding:
    try:
        version = get_tokenizer(name).version
    except RefaugError as error:
        return Finding(
            what=f"tokenizer {name}", state=FindingState.NOTE, found=error.message, remedy=error.remedy or remedy
        )
    return Finding(what=f"tokenizer {name}", state=FindingState.GOOD, found=version)


def _threads() -> Finding:
    cores = len(os.sched_getaffinity(0))
    setting = os.environ.get("OMP_NUM_THREADS")
    if setting and setting.isdigit() and int(setting) > cores:
        return Finding(
            what="threads",
            state=FindingState.NOTE,
            found=f"OMP_NUM_THREADS={setting} on {cores} cores",
            remedy="more threads than cores make every barrier wait: unset it",
        )
    return Finding(
        what="threads", state=FindingState.GOOD, found=f"{cores} cores; OMP_NUM_THREADS {setting or 'not set'}"
    )


def _openmp() -> Finding:
    """Check for OpenMP runtimes of two kinds: those in one process crash on macOS and slow each other down elsewhere.

    Copies of one kind come with the wheels of several libraries, and do no harm.
    """
    loaded = _openmp_runtimes(tuple(name for name in _WITH_OPENMP if util.find_spec(name) is not None))
    if loaded is None:
        return Finding(what="OpenMP", state=FindingState.NOTE, found="cannot be told on this system")
    kinds = {next(kind for kind in _OPENMP if file.startswith(kind)) for file in loaded}
    is_mixed = len(kinds) > 1
    return Finding(
        what="OpenMP",
        state=FindingState.NOTE if is_mixed else FindingState.GOOD,
        found=f"loaded by all libraries together: {', '.join(loaded) or 'none'}",
        remedy="one kind should serve all: reinstall from the lock; never set KMP_DUPLICATE_LIB_OK" if is_mixed else "",
    )


@cache
def _openmp_runtimes(libraries: tuple[str, ...]) -> list[str] | None:
    """Return the OpenMP files of a process that has imported these libraries; a separate one, since they are heavy."""
    program = f"import {', '.join((*libraries, 'sys'))}; print(open('/proc/self/maps').read())"
    done = subprocess.run([sys.executable, "-P", "-c", program], capture_output=True, text=True, check=False)  # noqa: S603
    if done.returncode:
        return None
    files = {Path(line.split()[-1]).name for line in done.stdout.splitlines() if "/" in line}
    return sorted(file for file in files if file.startswith(_OPENMP))


def _kernels() -> Finding:
    """Whether the loops that numba compiles are there, or the first score and the first search wait for them."""
    if trouble := kernel_cache.trouble():
        return Finding(
            what="compiled loops",
            state=FindingState.NOTE,
            found=f"{trouble}; each is compiled when it is first used",
            remedy=f"{kernel_cache.FILL}, once, as a user who may write to {kernel_cache.ROOT}",
        )
    return Finding(what="compiled loops", state=FindingState.GOOD, found=f"{kernel_cache.count()} beside the code")


def _memory() -> Finding:
    pages = Path("/proc/meminfo")
    lines = pages.read_text("utf-8").splitlines() if pages.exists() else []
    free = next((int(line.split()[1]) << 10 for line in lines if line.startswith("MemAvailable")), None)
    if free is None:
        return Finding(what="memory", state=FindingState.NOTE, found="cannot be told on this system")
    short = free < _MIN_MEMORY
    return Finding(
        what="memory",
        state=FindingState.NOTE if short else FindingState.GOOD,
        found=f"{free / 2**30:.1f} GiB available",
        remedy="ingest with --memory 512MiB" if short else "",
    )


def _home(home: Path) -> Iterator[Finding]:
    if not home.exists():
        yield Finding(
            what="REFAUG_HOME", state=FindingState.NOTE, found=f"{home} is not there yet; the first ingest makes it"
        )
        return
    writable = os.access(home, os.W_OK)
    yield Finding(
        what="REFAUG_HOME",
        state=FindingState.GOOD if writable else FindingState.WRONG,
        found=str(home) + ("" if writable else ", which cannot be written"),
        remedy="" if writable else f"chown it to the user that runs refaug: {os.geteuid()}",
    )
    free = shutil.disk_usage(home).free
    short = free < _MIN_DISK
    yield Finding(
        what="disk",
        state=FindingState.NOTE if short else FindingState.GOOD,
        found=f"{free / 2**30:.1f} GiB free",
        remedy="free some room, or move REFAUG_HOME" if short else "",
    )


def _encodings(settings: Settings) -> Iterator[Finding]:
    """Report the vectors that are kept on disk, by encoder."""
    if not (settings.cache / "encodings").is_dir():
        return
    encodings = encodings_in(settings.cache)
    for store in encodings.sizes():
        yield Finding(
            what=f"encodings {store.encoder}",
            state=FindingState.GOOD,
            found=f"{store.texts:,} texts, {store.bytes / 2**20:.1f} MiB; {encodings.most_bytes / 2**30:.1f} GiB are "
            "allowed for all encoders",
        )


def _leftovers(settings: Settings) -> Iterator[Finding]:
    """Report the remains of stopped runs, which can be resumed or deleted."""
    for stage in sorted(settings.logs.glob("*/.staging-*")):
        yield Finding(
            what=f"log {stage.parent.name}",
            state=FindingState.NOTE,
            found="an ingest was stopped before its end",
            remedy=f"run the same command again to finish it, or delete {stage}",
        )
    for scratch in sorted(settings.cache.glob("engine-*")):
        if not LiveFile.is_live(scratch / IN_USE):
            yield Finding(
                what="cache",
                state=FindingState.NOTE,
                found=f"scratch of a process that is gone: {scratch}",
                remedy="delete it",
            )
    resumed = "run the same command again to finish it, or delete it"
    for patterns, remedy in ((_REMOVABLE_PATTERNS, "delete it if none is running"), (_RESUMABLE_PATTERNS, resumed)):
        for path in sorted(path for pattern in patterns for path in settings.home.glob(pattern)):
            folder = path if path.is_dir() else path.parent
            yield Finding(
                what="leftovers",
                state=FindingState.NOTE,
                found=f"of a command that is running, or was stopped: {folder}",
                remedy=remedy,
            )


def _unfinished_deletions(settings: Settings) -> Iterator[Finding]:
    """Report folders of deletions that were stopped."""
    for folder in sorted(settings.logs.glob("*")):
        if folder.is_dir() and folder.name.startswith(".deleted-"):
            yield Finding(
                what="logs", state=FindingState.NOTE, found=f"a deletion was stopped: {folder}", remedy="delete it"
            )


def _logs(settings: Settings, *, verify: bool) -> Iterator[Finding]:
    if not settings.logs.is_dir():
        return
    from refaug.logs.store import StoredLog, list_logs  # noqa: PLC0415  pyarrow, which only logs need

    for name in list_logs(settings.logs):
        try:
            log = StoredLog.open(settings.logs, name)
            broken = [trouble for _, trouble in log.verify() if trouble] if verify else []
        except RefaugError as error:
            broken, log = [error.message], None
        pairs = log.manifest.totals.get("pairs", 0) if log is not None else 0
        yield Finding(
            what=f"log {name}",
            state=FindingState.WRONG if broken else FindingState.GOOD,
            found="; ".join(broken)
            or f"{pairs:,} pair{'' if pairs == 1 else 's'}" + (", every hash as the manifest says" if verify else ""),
            remedy="restore the file from a backup, or ingest the sources again" if broken else "",
        )


def _artefacts(settings: Settings, *, verify: bool) -> Iterator[Finding]:
    """Check all versions of every kind, and which one is published."""
    for versions in artefact_stores(settings).values():
        for name in versions.names():
            yield from _publication_problems(versions, name)
            for version in versions.versions(name):
                yield _check_version(versions, name, version, verify=verify)


def _publication_problems(versions: Versions, name: str) -> Iterator[Finding]:
    """Report only problems of the published version."""
    try:
        versions.resolve(name)
    except Conflict as error:
        yield Finding(what=f"{versions.kind} {name}", state=FindingState.NOTE, found=error.message, remedy=error.remedy)
    except RefaugError as error:
        yield Finding(
            what=f"{versions.kind} {name}", state=FindingState.WRONG, found=error.message, remedy=error.remedy
        )


def _check_version(versions: Versions, name: str, version: str, *, verify: bool) -> Finding:
    files, broken = check_version(versions, name, version, hashes=verify)
    checked = "every hash" if verify else "every size"
    return Finding(
        what=f"{versions.kind} {name}@{version}",
        state=FindingState.WRONG if broken else FindingState.GOOD,
        found="; ".join(broken) or f"{files:,} file{'' if files == 1 else 's'}, {checked} as the manifest says",
        remedy="restore the file from a backup, or make this version again" if broken else "",
    )


def _sets(settings: Settings, *, verify: bool) -> Iterator[Finding]:
    """Count the frozen sets; `verify` reads each one and names damaged ones."""
    from refaug.scoring.reference_sets.set_store import ReferenceSets  # noqa: PLC0415  compiles

    sets = ReferenceSets(settings.reference_sets)
    ids = sets.ids()
    for name in ids if verify else ():
        try:
            sets.open(name, even_withdrawn=True).verify()
        except RefaugError as error:
            yield Finding(
                what=f"set {name}",
                state=FindingState.WRONG,
                found=error.message,
                remedy="restore the file from a backup",
            )
    if ids:
        summary = f"{len(ids):,}" + (", every one was read" if verify else "")
        yield Finding(what="reference sets", state=FindingState.GOOD, found=summary)


def _service_parts(settings: Settings, *, verify: bool) -> Iterator[Finding]:
    if is_installed("serve"):
        yield from _evaluations(settings, verify=verify)
        yield from _service(settings, verify=verify)
    else:
        yield Finding(
            what="service",
            state=FindingState.NOTE,
            found="not installed: database, uploads and evaluations are not looked at",
            remedy="pip install 'refaug[serve]'",
        )


def _evaluations(settings: Settings, *, verify: bool) -> Iterator[Finding]:
    """Count uploads and evaluations, and name damaged ones; `verify` reads every file of theirs."""
    from refaug.service.evaluations.evaluation_store import EvaluationStore  # noqa: PLC0415  sqlalchemy
    from refaug.service.evaluations.uploads import DAMAGED, UploadStore  # noqa: PLC0415

    serve = ServeSettings()
    stores: dict[str, UploadStore | EvaluationStore] = {
        "uploads": UploadStore(settings, serve),
        "evaluations": EvaluationStore(settings, serve),
    }
    for what, store in stores.items():
        damaged = [f"{path} is damaged" for path in store.unreadable()]
        damaged += store.altered_files() if verify else []
        for trouble in damaged:
            yield Finding(
                what=what,
                state=FindingState.WRONG,
                found=trouble,
                remedy=DAMAGED,
            )
        if count := store.count():
            summary = f"{count:,}" + (", every hash as the manifests say" if verify and not damaged else "")
            yield Finding(what=what, state=FindingState.GOOD, found=summary)


def _service(settings: Settings, *, verify: bool) -> Iterator[Finding]:
    """Check what a server has beside artefacts: its database, and failing schedules."""
    from refaug.service.database.database import Database  # noqa: PLC0415  imports sqlalchemy, needed only with a server
    from refaug.service.database.stored_cells import FILE  # noqa: PLC0415

    lock = settings.home / "serving" / ".lock"
    if LiveFile.is_live(lock):
        yield Finding(what="server", state=FindingState.GOOD, found="one runs on this home")
    try:
        url = ServeSettings.from_env().database
        if not url and not (settings.home / FILE).exists():
            return
        database = Database.open(settings, url)
        with contextlib.closing(database):
            yield from _database(database, verify=verify)
    except RefaugError as error:
        yield Finding(what="database", state=FindingState.WRONG, found=error.message, remedy=error.remedy)


def _database(database: Database, *, verify: bool) -> Iterator[Finding]:
    from refaug.service.audit import AuditLog  # noqa: PLC0415
    from refaug.service.database.row_seals import verify_sealed_rows  # noqa: PLC0415
    from refaug.service.database.tables import absent_sets  # noqa: PLC0415
    from refaug.service.jobs.schedules import ScheduleStore  # noqa: PLC0415
    from refaug.service.jobs.store import JobStore  # noqa: PLC0415

    with database.reading() as connection:
        checked = verify and database.is_sqlite
        troubles = [row[0] for row in connection.exec_driver_sql("PRAGMA quick_check(3)")] if checked else ["ok"]
    if troubles != ["ok"]:
        yield Finding(
            what="database",
            state=FindingState.WRONG,
            found="; ".join(" ".join(trouble.split()) for trouble in troubles),
            remedy="restore it from a backup: docs/operations.md",
        )
        return
    try:
        database.require_current()
    except Unavailable as error:
        yield Finding(what="database", state=FindingState.NOTE, found=error.message, remedy=error.remedy)
        return
    if verify:
        AuditLog(database).verify()
        verify_sealed_rows(database)
    for name in absent_sets(database.steps()):
        yield Finding(
            what="database",
            state=FindingState.NOTE,
            found=f"has tables of {name}, which is not installed: they stay, but are not shown",
            remedy=f"pip install 'refaug[{name}]'",
        )
    waiting = Counter(JobStore(database).counts())
    yield Finding(
        what="database",
        state=FindingState.GOOD,
        found=f"answers, and is up to date; jobs: {waiting['queued']:,} wait, {waiting['running']:,} run",
    )
    for name, why in sorted(ScheduleStore(database).failing().items()):
        yield Finding(
            what=f"schedule {name}", state=FindingState.NOTE, found=why, remedy=f"refaug admin schedules show {name}"
        )
