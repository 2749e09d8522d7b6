"""Versions of artefacts, one of them published: adding, publishing, rolling back, removing old ones.

    <root>/<name>/<version>/     a complete version: its manifest, and the files that the manifest names
    <root>/<name>/CURRENT        the name of the published version
    <root>/<name>/.newest        the last assigned name, so that none is assigned twice
    <root>/<name>/.publications.json    the versions that were published before, and those that a check refused
    <root>/<name>/.lock          held by the writer

A version appears by one rename and is never changed. Readers take no lock that a writer waits for: they hold the
manifest of the version they have open with a shared lock, and removing skips held versions.
"""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from contextvars import ContextVar
from dataclasses import dataclass, field, replace
from datetime import UTC, date, datetime
from pathlib import Path
from typing import Any, Final, Self

from refaug.core import files
from refaug.core.artefacts.manifests import MANIFEST, file_problems, named_files, require_files
from refaug.core.artefacts.removals import note_removal, read_removal, remove_half_notes
from refaug.core.artefacts.version_locks import HeldVersion, hold, lock_if_unread
from refaug.core.errors import Conflict, Corrupt, NotFound, RefaugError, Usage
from refaug.core.files import read_json, write_json

# ── Changes of what serves, reported when they happen; an observer notes them, also when the work fails afterwards ────


@dataclass(frozen=True, kw_only=True)
class Change:
    """One change: a version was published, refused or removed, a set withdrawn, something erased."""

    action: str
    subject: str
    details: Mapping[str, Any] = field(default_factory=dict)


REFUSE: Final = "refuse"  # the action of a check that keeps a version from being published

_observer: Final[ContextVar[Callable[[Change], None] | None]] = ContextVar("observer of changes", default=None)


@contextmanager
def observing_changes(observe: Callable[[Change], None]) -> Iterator[None]:
    """Call `observe` with every change of this thread until the block ends."""
    token = _observer.set(observe)
    try:
        yield
    finally:
        _observer.reset(token)


def report_change(action: str, subject: str, **details: Any) -> None:
    """Report a change to the observer, if this thread has one."""
    observe = _observer.get()
    if observe is not None:
        observe(Change(action=action, subject=subject, details=details))


# ── ───────────────────────────────────────────────────────────────────────────────────────────────────────────────────
#
# Which versions of an artefact were ever published, and which ones a check refused: what rolling back may return to.
#
# <root>/<name>/.publications.json    {"published": [version, …], "refused": {version: reason}}
#
# The file is written after `CURRENT`, so that the published version always counts as published, whatever the file
# says.

PUBLICATIONS: Final = ".publications.json"


@dataclass(frozen=True, kw_only=True)
class Publications:
    """The versions that were published at some time, and the refused ones, each with the reason."""

    published: frozenset[str] = frozenset()
    refused: Mapping[str, str] = field(default_factory=dict)

    @classmethod
    def read(cls, folder: Path) -> Self:
        """Return what the folder of an artefact says: nothing, where nothing was published or refused yet."""
        path = folder / PUBLICATIONS
        if not path.exists():
            return cls()
        document = read_json(path)
        published, refused = document.get("published"), document.get("refused")
        if not isinstance(published, list) or not isinstance(refused, dict) or not _are_texts(published, refused):
            raise Corrupt(
                f"{path} does not list versions",
                remedy="delete it, or publish a version: no other counts as published then",
            )
        return cls(published=frozenset(published), refused=dict(refused))

    def with_published(self, version: str) -> Self:
        """Return them with a version that is published now, and therefore no longer refused."""
        refused = {name: reason for name, reason in self.refused.items() if name != version}
        return replace(self, published=self.published | {version}, refused=refused)

    def with_refused(self, version: str, reason: str) -> Self:
        """Return them with a version that a check refused."""
        return replace(self, refused={**self.refused, version: reason})

    def only(self, is_stored: Callable[[str], bool]) -> Self:
        """Return them without the versions that were removed."""
        refused = {name: reason for name, reason in self.refused.items() if is_stored(name)}
        return replace(self, published=frozenset(filter(is_stored, self.published)), refused=refused)

    def write(self, folder: Path) -> None:
        """Write the file of an artefact; the caller holds its lock."""
        write_json(folder / PUBLICATIONS, {"published": sorted(self.published), "refused": dict(self.refused)})


def _are_texts(published: list[Any], refused: dict[str, object]) -> bool:
    return all(isinstance(text, str) for text in (*published, *refused.values()))


# ── Versions of artefacts, one of them published: adding, publishing, rolling back, removing old ones ─────────────────

CURRENT: Final = "CURRENT"
DELETED: Final = ".deleted-"  # begins the name of a folder that is being removed
IMPORTING: Final = ".importing-"  # begins the name of a folder that an import fills
_NEWEST: Final = ".newest"
_VERSION: Final = re.compile(r"([0-9]{4}-[0-9]{2}-[0-9]{2})\.([1-9][0-9]{0,8})")


@dataclass(frozen=True, order=True)
class VersionName:
    """`2026-11-20.3`: the third version of that day, in UTC; ordered by day, then by number."""

    day: date
    number: int

    @classmethod
    def parse(cls, text: str) -> Self | None:
        """Parse a text; None if it is no version's name."""
        match = _VERSION.fullmatch(text)
        with suppress(ValueError):  # no such day
            return cls(date.fromisoformat(match[1]), int(match[2])) if match else None
        return None

    def __str__(self) -> str:
        return f"{self.day.isoformat()}.{self.number}"


def _today() -> date:
    return datetime.now(UTC).date()


def _none_spared(_name: str, _version: str) -> bool:
    return False


def _all_publishable(_name: str, _version: str) -> None:
    """Accept every version."""


@dataclass(frozen=True)
class Versions:
    """All artefacts of one kind, each with its versions."""

    root: Path
    kind: str
    today: Callable[[], date] = _today

    def folder(self, name: str, version: str = "") -> Path:
        """Return the folder of an artefact or one of its versions, whether or not it exists."""
        return self.root / files.require_name(f"stored {self.kind}", name) / version

    # ── reading ──────────────────────────────────────────────────────────────────────────────────────────────────

    def names(self) -> list[str]:
        """Return the artefacts that have a version, or a CURRENT file."""
        with_versions = {path.parents[1].name for path in self.root.glob(f"*/*/{MANIFEST}")}
        published = {path.parent.name for path in self.root.glob(f"*/{CURRENT}")}
        return sorted(name for name in with_versions | published if files.NAME.fullmatch(name))

    def versions(self, name: str) -> list[str]:
        """Return the complete versions of an artefact, oldest first; [] if there is no such artefact."""
        names = (VersionName.parse(manifest.parent.name) for manifest in self.folder(name).glob(f"*/{MANIFEST}"))
        return [str(version) for version in sorted(version for version in names if version is not None)]

    def current(self, name: str) -> str | None:
        """Return the published version, or None."""
        path = self.folder(name) / CURRENT
        try:
            text = path.read_bytes().decode("ascii", "replace").strip()
        except (FileNotFoundError, NotADirectoryError):
            return None
        if VersionName.parse(text) is None:
            raise Corrupt(f"{path} holds {text[:80]!r}, which is not a version", remedy=self._remedy_to_publish(name))
        return text

    def published_at(self, name: str) -> datetime | None:
        """Return when the name began to stand for its published version, or None where it stands for none."""
        try:
            return datetime.fromtimestamp((self.folder(name) / CURRENT).stat().st_mtime, UTC)
        except (FileNotFoundError, NotADirectoryError):
            return None

    def resolve(self, spec: str) -> tuple[str, str]:
        """Return `name@version`, or `name` for its published version, as (name, version); both exist."""
        name, at, version = spec.partition("@")
        if not at:
            return name, self._published_version(name)
        if VersionName.parse(version) is None or not self._exists(name, version):
            self._require_not_removed(name, version)
            existing = _list_versions(name, self.require_versions(name))
            raise NotFound(f"no {self.kind} {spec!r} in {self.root}", remedy=f"there are: {existing}")
        return name, version

    def _require_not_removed(self, name: str, version: str) -> None:
        """Raise NotFound with the time of its removal for a version that was here."""
        if VersionName.parse(version) is None or files.NAME.fullmatch(name) is None:
            return
        if (removal := read_removal(self.root, name, version)) is not None:
            raise NotFound(
                f"{self.kind} {name}@{version} was removed at {removal.at}: {removal.purpose}",
                remedy=f"there are: {_list_versions(name, self.versions(name)) if self.versions(name) else 'none'}",
            )

    def _published_version(self, name: str) -> str:
        """Return the published version, which exists; look again if it was replaced and removed meanwhile."""
        while True:
            current = self.current(name)
            if current is None:
                existing = _list_versions(name, self.require_versions(name))
                raise Conflict(
                    f"{self.kind} {name} has versions, but none of them is published",
                    remedy=f"publish one, or name one: {existing}",
                )
            if self._exists(name, current):
                return current
            if self.current(name) == current:
                raise Corrupt(
                    f"{self.folder(name) / CURRENT} names {current}, which is not there",
                    remedy=self._remedy_to_publish(name),
                )

    def _exists(self, name: str, version: str) -> bool:
        return (self.folder(name, version) / MANIFEST).exists()

    def open(self, spec: str) -> HeldVersion:
        """Hold a version until it is closed; needs no write permission."""
        while True:
            name, version = self.resolve(spec)
            held = hold(self.folder(name, version), name, version)
            if held is not None:
                return held

    def require_versions(self, name: str) -> list[str]:
        """Return the versions of an artefact; NotFound lists the existing names."""
        versions = self.versions(name)
        if not versions:
            names = ", ".join(self.names()) or "none yet"
            raise NotFound(f"no {self.kind} {name!r} in {self.root}", remedy=f"there are: {names}")
        return versions

    def _remedy_to_publish(self, name: str) -> str:
        return f"publish one that is there: {', '.join(self.versions(name)) or 'none is'}"

    # ── writing ──────────────────────────────────────────────────────────────────────────────────────────────────

    @contextmanager
    def writing(self, name: str, purpose: str) -> Iterator[Writer]:
        """Lock an artefact for writing until the block ends; another writer gets Locked."""
        folder = self.folder(name)
        with files.exclusive(folder, purpose):
            try:
                self._remove_leftovers(name)
                yield Writer(self, name)
            finally:
                _remove_if_empty(folder)

    def add(self, name: str, staged: Path) -> str:
        """Run `Writer.add` as a separate step."""
        with self.writing(name, f"adding a version to {self.kind} {name}") as writer:
            return writer.add(staged)

    def publish(
        self,
        name: str,
        version: str,
        require: Callable[[str, str], None] = _all_publishable,
        *,
        even_refused: bool = False,
    ) -> None:
        """Make this version the one that the name means, unless `require(name, version)` raises.

        A version that a check refused raises Conflict without `even_refused`.
        """
        self.require_versions(name)
        with self.writing(name, f"publishing {self.kind} {name}@{version}") as writer:
            require(name, version)
            writer.require_not_refused(version, even_refused=even_refused)
            writer.publish(version)

    def refuse(self, name: str, version: str, reason: str) -> None:
        """Run `Writer.refuse` as a separate step."""
        self.require_versions(name)
        with self.writing(name, f"refusing {self.kind} {name}@{version}") as writer:
            writer.refuse(version, reason)

    def publications(self, name: str) -> Publications:
        """Return which versions were published before, and which ones a check refused."""
        current, recorded = self.current(name), Publications.read(self.folder(name))
        return recorded if current is None else recorded.with_published(current)

    def rollback(
        self,
        name: str,
        to: str | None = None,
        require: Callable[[str, str], None] = _all_publishable,
        *,
        choose: Callable[[], str] | None = None,
        even_refused: bool = False,
    ) -> str:
        """Publish another version, and return it: `to`, or the one that `choose` returns.

        By default that is the newest of the versions older than the published one that were published before. A
        version that a check refused raises Conflict without `even_refused`.
        """
        self.require_versions(name)
        with self.writing(name, f"rolling back {self.kind} {name}") as writer:
            version = to or (choose or writer.version_before)()
            require(name, version)
            writer.require_not_refused(version, even_refused=even_refused)
            writer.publish(version)
        return version

    def gc(self, name: str, keep: int, spare: Callable[[str, str], bool] = _none_spared) -> list[str]:
        """Run `Writer.gc` as a separate step."""
        self.require_versions(name)
        with self.writing(name, f"removing old versions of {self.kind} {name}") as writer:
            return writer.gc(keep, spare)

    def delete(self, name: str) -> list[str]:
        """Remove an artefact with all its versions, and return them; refused while one of them is held."""
        self.require_versions(name)
        removed_folder = self.root / f"{DELETED}{name}@{files.unique_suffix()}"
        with files.exclusive(self.folder(name), f"deleting {self.kind} {name}"):
            versions = self.versions(name)
            with ExitStack() as locks:
                for version in versions:
                    if not locks.enter_context(lock_if_unread(self.folder(name, version))):
                        raise Conflict(f"{self.kind} {name}@{version} is in use", remedy="stop what reads it")
                for version in versions:
                    note_removal(self.root, name, version, "the artefact was removed")
                self.folder(name).rename(removed_folder)
                report_change("remove", f"{self.kind} {name}", versions=versions)
                files.sync_folder(self.root)
            files.remove_tree(removed_folder)
        return versions

    def _remove_leftovers(self, name: str) -> None:
        """Delete what killed writers of this artefact left; errors are ignored, since two may do so at once."""
        folder = self.folder(name)
        files.remove_asides(folder)
        remove_half_notes(self.root, name)
        leftovers = [*folder.glob(f"{DELETED}*"), *folder.glob(f"{IMPORTING}*"), *self.root.glob(f"{DELETED}{name}@*")]
        for path in leftovers:
            shutil.rmtree(path, ignore_errors=True)


@dataclass(frozen=True)
class Writer:
    """The right to change one artefact, from `Versions.writing`."""

    artefacts: Versions
    name: str

    @property
    def folder(self) -> Path:
        """The artefact's folder."""
        return self.artefacts.folder(self.name)

    def add(self, staged: Path, version: str | None = None) -> str:
        """Move a finished folder into place as the next version, or as `version`, without publishing it.

        The folder must have its manifest and synced files, and lie on the same disk.
        """
        require_files(staged, files.read_json(staged / MANIFEST))
        name = self._next_name() if version is None else _parse_version(version)
        target = self.folder / str(name)
        if target.exists():
            raise Conflict(f"{target} is there already", remedy="remove it, or keep it")
        if version is None:
            self._write_newest(name)
        else:
            self._note_foreign([name])
        for folder, _, _ in os.walk(staged):
            files.sync_folder(Path(folder))
        staged.rename(target)
        files.sync_folder(self.folder)
        return str(name)

    def publish(self, version: str) -> None:
        """Make this version the one that the artefact's name means."""
        _, version = self.artefacts.resolve(f"{self.name}@{version}")
        require_files(self.folder / version, files.read_json(self.folder / version / MANIFEST))
        publications = self._publications()
        with files.write_aside(self.folder / CURRENT) as file:
            file.write(f"{version}\n".encode())
        report_change("publish", f"{self.artefacts.kind} {self.name}@{version}")
        self._write_publications(publications.with_published(version))

    def refuse(self, version: str, reason: str) -> None:
        """Record that a check refused a version, unless it is published; it then needs `even_refused`.

        A version that is refused again for the same reason, by a job that is tried again, is not reported again.
        """
        _, version = self.artefacts.resolve(f"{self.name}@{version}")
        publications = self._publications()
        if version != self.artefacts.current(self.name) and publications.refused.get(version) != reason:
            self._write_publications(publications.with_refused(version, reason))
            report_change(REFUSE, f"{self.artefacts.kind} {self.name}@{version}", reason=reason)

    def require_not_refused(self, version: str, *, even_refused: bool) -> None:
        """Raise Conflict for a version that a check refused, unless `even_refused`."""
        reason = self._publications().refused.get(version)
        if reason is not None and not even_refused:
            raise Conflict(
                f"{self.artefacts.kind} {self.name}@{version} was refused by a check: {reason}",
                remedy='publish it by name and with --even-refused, over HTTP with "even_refused": true',
            )

    def _publications(self) -> Publications:
        try:
            return self.artefacts.publications(self.name)
        except Corrupt:  # publishing is what repairs it
            return Publications()

    def _write_publications(self, publications: Publications) -> None:
        """Write the record of the stored versions, if it says anything new."""
        stored = publications.only(self.artefacts.versions(self.name).__contains__)
        with suppress(Corrupt):
            if stored == Publications.read(self.folder):
                return
        stored.write(self.folder)

    def version_before(self) -> str:
        """Return the newest of the versions older than the published one that were published before."""
        versions, current = self.artefacts.versions(self.name), self.artefacts.current(self.name)
        published = self.artefacts.publications(self.name).published
        older = [
            version
            for version in versions
            if current is not None and version in published and _parse_version(version) < _parse_version(current)
        ]
        if not older:
            raise Conflict(
                f"{self.artefacts.kind} {self.name} has no version older than its published one, {current or 'none'}, "
                "that was published before",
                remedy=f"there are: {_list_versions(self.name, versions)}",
            )
        return older[-1]

    def gc(self, keep: int, spare: Callable[[str, str], bool] = _none_spared) -> list[str]:
        """Remove old versions, and return them.

        The published version stays, with the `keep` newest, those for which `spare(name, version)` is true, and
        held ones.
        """
        if keep < 0:
            raise Usage(f"{keep} versions cannot be kept", remedy="0 keeps the published one alone")
        versions = self.artefacts.versions(self.name)
        spared = {self.artefacts.current(self.name), *versions[max(0, len(versions) - keep) :]}
        self._note_foreign(map(_parse_version, versions))
        candidates = (version for version in versions if version not in spared and not spare(self.name, version))
        return [version for version in candidates if self._try_remove(version)]

    def _try_remove(self, version: str) -> bool:
        """Remove a version, unless a process holds it; return whether it was removed."""
        removed_folder = self.folder / f"{DELETED}{version}-{files.unique_suffix()}"
        with lock_if_unread(self.folder / version) as is_free:
            if not is_free:
                return False
            note_removal(self.artefacts.root, self.name, version, "old versions were removed")
            (self.folder / version).rename(removed_folder)
            report_change("remove", f"{self.artefacts.kind} {self.name}", versions=[version])
            files.sync_folder(self.folder)
        files.remove_tree(removed_folder)
        return True

    def _next_name(self) -> VersionName:
        """Return the next free name of today, or of the newest name's day if the clock was set back since."""
        newest, folders = self._read_newest(), self.artefacts.folder(self.name).glob("*")
        day = max(self.artefacts.today(), newest.day) if newest is not None else self.artefacts.today()
        assigned = [newest, *(VersionName.parse(path.name) for path in folders)]
        number = max((name.number for name in assigned if name is not None and name.day == day), default=0)
        return VersionName(day, number + 1)

    def _read_newest(self) -> VersionName | None:
        with suppress(FileNotFoundError):
            return VersionName.parse((self.folder / _NEWEST).read_bytes().decode("ascii", "replace").strip())
        return None

    def _note_foreign(self, names: Iterable[VersionName]) -> None:
        """Count names assigned elsewhere too, except those of a fast clock, which would determine all later ones."""
        plausible = [name for name in names if name.day <= self.artefacts.today()]
        if plausible:
            self._write_newest(max(plausible))

    def _write_newest(self, name: VersionName) -> None:
        """Record that this name was assigned, before a version has it."""
        newest = self._read_newest()
        if newest is None or name > newest:
            with files.write_aside(self.folder / _NEWEST) as file:
                file.write(f"{name}\n".encode())


def check_version(versions: Versions, name: str, version: str, *, hashes: bool) -> tuple[int, list[str]]:
    """Return how many files a version has, and what is wrong with them; hashes only on demand."""
    try:
        with versions.open(f"{name}@{version}") as held:
            manifest = files.read_json(held.folder / MANIFEST)
            problems = list(file_problems(held.folder, manifest, hashes=hashes))
            return len(named_files(manifest, held.folder / MANIFEST)), problems
    except RefaugError as error:
        return 0, [error.message]
    except OSError as error:
        return 0, [str(error)]


def _remove_if_empty(folder: Path) -> None:
    """Remove the folder of an artefact without versions; only the holder of its lock may call this."""
    if [path.name for path in folder.iterdir()] == [".lock"]:
        (folder / ".lock").unlink()
        with suppress(OSError):  # the next writer has opened it already
            folder.rmdir()


def _parse_version(version: str) -> VersionName:
    name = VersionName.parse(version)
    assert name is not None, version
    return name


def _list_versions(name: str, versions: list[str]) -> str:
    return ", ".join(f"{name}@{version}" for version in versions)
