"""What can be wrong with an installation, looked at one by one; `refaug doctor` prints it, a health page may too."""

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

from core.artefacts import MANIFEST, file_troubles, named_files
from core.engine import IN_USE
from core.errors import Conflict, RefaugError, Unavailable
from core.files import is_held, read_json
from core.log_store import StoredLog, list_logs
from core.text import get_tokenizer
from core.version import VERSION
from core.versions import DELETED, IMPORTING, Versions
from service.artefacts import stored
from service.serve_settings import ServeSettings
from service.settings import Settings

if TYPE_CHECKING:
    from service.database import Database

PACKAGES: Final = ("core", "indexer", "metrics", "rater", "service")  # the top-level names that must be ours
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
_WITH_OPENMP: Final = ("numpy", "torch", "faiss", "scipy")  # as far as they are installed
_LEAST_DISK: Final = 2 << 30
_LEAST_MEMORY: Final = 2 << 30

_USELESS: Final = tuple(
    f"{kind}{inner}/{begin}*"
    for kind in ("vectors", "indexes", "raters", "rubers")
    for inner in ("", "/*")
    for begin in (DELETED, IMPORTING)
)
_RESUMED: Final = ("cache/*/stages.json", "cache/.staging-*", "vectors/*/.staging-*", "indexes/*/.staging-*")


class State(StrEnum):
    """How a finding is meant."""

    GOOD = "good"
    NOTE = "note"
    WRONG = "wrong"


@dataclass(frozen=True, kw_only=True)
class Finding:
    """One thing that was looked at."""

    what: str
    state: State
    found: str
    remedy: str = ""


def examine(settings: Settings, *, verify: bool = False) -> list[Finding]:
    """Everything worth knowing, worst things included; nothing here changes anything."""
    return [
        _version(),
        *_names(),
        *_libraries(),
        _tokenizer("mecab", "pip install fugashi ipadic"),
        _threads(),
        _openmp(),
        _memory(),
        *_home(settings.home),
        *_leftovers(settings),
        *_without_manifest(settings),
        *_logs(settings, verify=verify),
        *_artefacts(settings, verify=verify),
        *_sets(settings, verify=verify),
        *_service(settings, verify=verify),
    ]


def _version() -> Finding:
    python = platform.python_version()
    fits = sys.version_info >= (3, 11)
    return Finding(
        what="refaug",
        state=State.GOOD if fits else State.WRONG,
        found=f"{VERSION} on Python {python}",
        remedy="" if fits else "install Python 3.11 or newer",
    )


def _names() -> Iterator[Finding]:
    """Short package names may belong to somebody else in a shared environment."""
    root = Path(__file__).resolve().parents[1]
    for name in PACKAGES:
        spec = util.find_spec(name)
        origin = Path(spec.origin).resolve() if spec is not None and spec.origin else None
        ours = origin is not None and origin.is_relative_to(root)
        yield Finding(
            what=f"package {name}",
            state=State.GOOD if ours else State.WRONG,
            found="ours" if ours else f"another distribution's: {origin}",
            remedy="" if ours else "install refaug into an environment of its own: make demo does",
        )


def _libraries() -> Iterator[Finding]:
    """Installed versions beside the ones in the lock."""
    locked = _locked()
    for name in _LIBRARIES:
        try:
            found = metadata.version(name)
        except metadata.PackageNotFoundError:
            yield Finding(
                what=name, state=State.WRONG, found="not installed", remedy="pip install -r requirements.lock"
            )
            continue
        wanted = locked.get(name)
        same = wanted is None or found.split("+")[0] == wanted
        yield Finding(
            what=name,
            state=State.GOOD if same else State.NOTE,
            found=found if same else f"{found}; the lock says {wanted}",
            remedy="" if same else "pip install -r requirements.lock; figures may differ in the last digits",
        )


def _locked() -> dict[str, str]:
    lock = Path(__file__).resolve().parents[1] / "requirements.lock"
    if not lock.exists():
        return {}
    pins = (line.split("==", 1) for line in lock.read_text("utf-8").splitlines() if "==" in line and line[0] != "#")
    return {name.strip(): pin.strip() for name, pin in pins}


def _tokenizer(name: str, remedy: str) -> Finding:
    try:
        version = get_tokenizer(name).version
    except RefaugError as error:
        return Finding(what=f"tokenizer {name}", state=State.NOTE, found=error.message, remedy=error.remedy or remedy)
    return Finding(what=f"tokenizer {name}", state=State.GOOD, found=version)


def _threads() -> Finding:
    cores = len(os.sched_getaffinity(0))
    told = os.environ.get("OMP_NUM_THREADS")
    if told and told.isdigit() and int(told) > cores:
        return Finding(
            what="threads",
            state=State.NOTE,
            found=f"OMP_NUM_THREADS={told} on {cores} cores",
            remedy="more threads than cores make every barrier wait: unset it",
        )
    return Finding(what="threads", state=State.GOOD, found=f"{cores} cores; OMP_NUM_THREADS {told or 'not set'}")


def _openmp() -> Finding:
    """Two OpenMP runtimes in one process crash on macOS and slow each other down elsewhere."""
    loaded = _openmp_loaded_with(tuple(name for name in _WITH_OPENMP if util.find_spec(name) is not None))
    if loaded is None:
        return Finding(what="OpenMP", state=State.NOTE, found="cannot be told on this system")
    twice = len(loaded) > 1
    return Finding(
        what="OpenMP",
        state=State.NOTE if twice else State.GOOD,
        found=f"{len(loaded)} runtime(s) loaded by all libraries together: {', '.join(loaded) or 'none'}",
        remedy="one should serve all: reinstall from the lock; never set KMP_DUPLICATE_LIB_OK" if twice else "",
    )


@cache
def _openmp_loaded_with(libraries: tuple[str, ...]) -> list[str] | None:
    """The OpenMP files in a process that has imported these libraries; a process of its own, since they are heavy."""
    program = f"import {', '.join((*libraries, 'sys'))}; print(open('/proc/self/maps').read())"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)  # noqa: S603
    if done.returncode:
        return None
    files = {Path(line.split()[-1]).name for line in done.stdout.splitlines() if "/" in line}
    return sorted(file for file in files if file.startswith(_OPENMP))


def _memory() -> Finding:
    pages = Path("/proc/meminfo")
    lines = pages.read_text("utf-8").splitlines() if pages.exists() else []
    free = next((int(line.split()[1]) << 10 for line in lines if line.startswith("MemAvailable")), None)
    if free is None:
        return Finding(what="memory", state=State.NOTE, found="cannot be told on this system")
    short = free < _LEAST_MEMORY
    return Finding(
        what="memory",
        state=State.NOTE if short else State.GOOD,
        found=f"{free / 2**30:.1f} GiB available",
        remedy="ingest with --memory 512MiB" if short else "",
    )


def _home(home: Path) -> Iterator[Finding]:
    if not home.exists():
        yield Finding(what="REFAUG_HOME", state=State.NOTE, found=f"{home} is not there yet; the first ingest makes it")
        return
    writable = os.access(home, os.W_OK)
    yield Finding(
        what="REFAUG_HOME",
        state=State.GOOD if writable else State.WRONG,
        found=str(home) + ("" if writable else ", which cannot be written"),
        remedy="" if writable else f"chown it to the user that runs refaug: {os.geteuid()}",
    )
    free = shutil.disk_usage(home).free
    short = free < _LEAST_DISK
    yield Finding(
        what="disk",
        state=State.NOTE if short else State.GOOD,
        found=f"{free / 2**30:.1f} GiB free",
        remedy="free some room, or move REFAUG_HOME" if short else "",
    )


def _leftovers(settings: Settings) -> Iterator[Finding]:
    """Stages of runs that were stopped: they resume, or can be deleted."""
    for stage in sorted(settings.logs.glob("*/.staging-*")):
        yield Finding(
            what=f"log {stage.parent.name}",
            state=State.NOTE,
            found="an ingest was stopped before its end",
            remedy=f"run the same command again to finish it, or delete {stage}",
        )
    for scratch in sorted(settings.cache.glob("engine-*")):
        if not is_held(scratch / IN_USE):
            yield Finding(
                what="cache",
                state=State.NOTE,
                found=f"scratch of a process that is gone: {scratch}",
                remedy="delete it",
            )
    resumed = "run the same command again to finish it, or delete it"
    for patterns, remedy in ((_USELESS, "delete it if none is running"), (_RESUMED, resumed)):
        for path in sorted(path for pattern in patterns for path in settings.home.glob(pattern)):
            folder = path if path.is_dir() else path.parent
            yield Finding(
                what="leftovers",
                state=State.NOTE,
                found=f"of a command that is running, or was stopped: {folder}",
                remedy=remedy,
            )


def _without_manifest(settings: Settings) -> Iterator[Finding]:
    """Folders that are no logs: of a first ingest that failed, or of a deletion that was stopped."""
    for folder in sorted(settings.logs.glob("*")):
        if folder.is_dir() and folder.name.startswith(".deleted-"):
            yield Finding(what="logs", state=State.NOTE, found=f"a deletion was stopped: {folder}", remedy="delete it")


def _logs(settings: Settings, *, verify: bool) -> Iterator[Finding]:
    for name in list_logs(settings.logs):
        try:
            log = StoredLog.open(settings.logs, name)
            broken = [trouble for _, trouble in log.verify() if trouble] if verify else []
        except RefaugError as error:
            broken, log = [error.message], None
        pairs = log.manifest.totals.get("pairs", 0) if log is not None else 0
        yield Finding(
            what=f"log {name}",
            state=State.WRONG if broken else State.GOOD,
            found="; ".join(broken)
            or f"{pairs:,} pair{'' if pairs == 1 else 's'}" + (", every hash as the manifest says" if verify else ""),
            remedy="restore the file from a backup, or ingest the sources again" if broken else "",
        )


def _artefacts(settings: Settings, *, verify: bool) -> Iterator[Finding]:
    """Of every kind all versions, and which one is published."""
    for versions in stored(settings).values():
        for name in versions.names():
            yield from _published(versions, name)
            for version in versions.versions(name):
                yield _version_of(versions, name, version, verify=verify)


def _published(versions: Versions, name: str) -> Iterator[Finding]:
    """Only what is not as it should be."""
    try:
        versions.resolve(name)
    except Conflict as error:
        yield Finding(what=f"{versions.kind} {name}", state=State.NOTE, found=error.message, remedy=error.remedy)
    except RefaugError as error:
        yield Finding(what=f"{versions.kind} {name}", state=State.WRONG, found=error.message, remedy=error.remedy)


def _version_of(versions: Versions, name: str, version: str, *, verify: bool) -> Finding:
    files = 0
    try:
        with versions.open(f"{name}@{version}") as held:
            manifest = read_json(held.folder / MANIFEST)
            broken = list(file_troubles(held.folder, manifest, hashes=verify))
            files = len(named_files(manifest, held.folder / MANIFEST))
    except RefaugError as error:
        broken = [error.message]
    except OSError as error:
        broken = [str(error)]
    checked = "every hash" if verify else "every size"
    return Finding(
        what=f"{versions.kind} {name}@{version}",
        state=State.WRONG if broken else State.GOOD,
        found="; ".join(broken) or f"{files:,} file{'' if files == 1 else 's'}, {checked} as the manifest says",
        remedy="restore the file from a backup, or make this version again" if broken else "",
    )


def _sets(settings: Settings, *, verify: bool) -> Iterator[Finding]:
    """Frozen sets: how many there are; on demand each is read whole, and one whose hash is another's is named."""
    from service.reference_sets import ReferenceSets  # noqa: PLC0415  compiles

    sets = ReferenceSets(settings.reference_sets)
    ids = sets.ids()
    for name in ids if verify else ():
        try:
            sets.open(name, even_withdrawn=True).verify()
        except RefaugError as error:
            yield Finding(
                what=f"set {name}", state=State.WRONG, found=error.message, remedy="restore the file from a backup"
            )
    if ids:
        found = f"{len(ids):,}" + (", every one was read" if verify else "")
        yield Finding(what="reference sets", state=State.GOOD, found=found)


def _service(settings: Settings, *, verify: bool) -> Iterator[Finding]:
    """What a server has beside artefacts: its database, and schedules that fail."""
    from service.database import FILE, Database  # noqa: PLC0415  sqlalchemy, which a home without a server needs not

    lock = settings.home / "serving" / ".lock"
    if lock.exists() and is_held(lock):
        yield Finding(what="server", state=State.GOOD, found="one runs on this home")
    try:
        url = ServeSettings.from_env().database
        if not url and not (settings.home / FILE).exists():
            return
        database = Database.open(settings, url)
        with contextlib.closing(database):
            yield from _database(database, verify=verify)
    except RefaugError as error:
        yield Finding(what="database", state=State.WRONG, found=error.message, remedy=error.remedy)


def _database(database: Database, *, verify: bool) -> Iterator[Finding]:
    from service.job_store import JobStore  # noqa: PLC0415
    from service.schedules import Schedules  # noqa: PLC0415

    with database.reading() as connection:
        checked = verify and database.is_sqlite
        troubles = [row[0] for row in connection.exec_driver_sql("PRAGMA quick_check(3)")] if checked else ["ok"]
    if troubles != ["ok"]:
        yield Finding(
            what="database",
            state=State.WRONG,
            found="; ".join(" ".join(trouble.split()) for trouble in troubles),
            remedy="restore it from a backup: docs/operations.md",
        )
        return
    try:
        database.require_current()
    except Unavailable as error:
        yield Finding(what="database", state=State.NOTE, found=error.message, remedy=error.remedy)
        return
    waiting = Counter(JobStore(database).counts())
    yield Finding(
        what="database",
        state=State.GOOD,
        found=f"answers, and is up to date; jobs: {waiting['queued']:,} wait, {waiting['running']:,} run",
    )
    for name, why in sorted(Schedules(database).failing().items()):
        yield Finding(what=f"schedule {name}", state=State.NOTE, found=why, remedy=f"refaug schedules show {name}")
