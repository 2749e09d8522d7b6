"""Versions of artefacts side by side, one of them published: adding, publishing, rolling back, removing old ones.

    <root>/<name>/<version>/     a complete version: its manifest, and the files that the manifest names
    <root>/<name>/CURRENT        the name of the published version
    <root>/<name>/.newest        the last name that was given, so that none is given twice
    <root>/<name>/.lock          held by whoever writes

A version appears by one rename and is never changed. Readers take no lock that a writer waits for: they hold the
manifest of the version they have open with a shared lock, and removing passes over what is held.
"""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from datetime import UTC, date, datetime
from pathlib import Path
from typing import Final, Self

from core.artefacts import MANIFEST, require_files
from core.errors import Conflict, Corrupt, NotFound, Usage
from core.files import (
    NAME,
    exclusive,
    read_json,
    remove_asides,
    remove_tree,
    require_name,
    sync_folder,
    unique,
    write_aside,
)
from core.holding import Held, hold, unread

CURRENT: Final = "CURRENT"
DELETED: Final = ".deleted-"  # begins the name of what is being removed
IMPORTING: Final = ".importing-"  # begins the name of a folder that an import fills
_NEWEST: Final = ".newest"
_VERSION: Final = re.compile(r"([0-9]{4}-[0-9]{2}-[0-9]{2})\.([1-9][0-9]{0,8})")


@dataclass(frozen=True, order=True)
class VersionName:
    """`2026-11-20.3`: the third version of that day, in UTC; they are ordered by day, then by number."""

    day: date
    number: int

    @classmethod
    def parse(cls, text: str) -> Self | None:
        """The name that a text spells, or None."""
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


@dataclass(frozen=True)
class Versions:
    """All artefacts of one kind, each with its versions."""

    root: Path
    kind: str
    today: Callable[[], date] = _today

    def folder(self, name: str, version: str = "") -> Path:
        """Where an artefact or one of its versions lies, or would lie."""
        return self.root / require_name(f"stored {self.kind}", name) / version

    # ── reading ──────────────────────────────────────────────────────────────────────────────────────────────────

    def names(self) -> list[str]:
        """The artefacts that have a version, or say that they do."""
        found = {path.parents[1].name for path in self.root.glob(f"*/*/{MANIFEST}")}
        published = {path.parent.name for path in self.root.glob(f"*/{CURRENT}")}
        return sorted(name for name in found | published if NAME.fullmatch(name))

    def versions(self, name: str) -> list[str]:
        """The complete versions of an artefact, oldest first; none where there is no such artefact."""
        found = (VersionName.parse(manifest.parent.name) for manifest in self.folder(name).glob(f"*/{MANIFEST}"))
        return [str(version) for version in sorted(version for version in found if version is not None)]

    def current(self, name: str) -> str | None:
        """The published version, or None."""
        path = self.folder(name) / CURRENT
        try:
            text = path.read_bytes().decode("ascii", "replace").strip()
        except (FileNotFoundError, NotADirectoryError):
            return None
        if VersionName.parse(text) is None:
            raise Corrupt(f"{path} holds {text[:80]!r}, which is no version", remedy=self._remedy_to_publish(name))
        return text

    def resolve(self, spec: str) -> tuple[str, str]:
        """`name@version`, or `name` for its published version, as (name, version); both are there."""
        name, at, version = spec.partition("@")
        if not at:
            return name, self._published(name)
        if VersionName.parse(version) is None or not self._is_there(name, version):
            there = _listed(name, self._require(name))
            raise NotFound(f"no {self.kind} {spec!r} in {self.root}", remedy=f"there are: {there}")
        return name, version

    def _published(self, name: str) -> str:
        """The published version, which is there; looked up again if another one was published and this one removed."""
        while True:
            current = self.current(name)
            if current is None:
                there = _listed(name, self._require(name))
                raise Conflict(
                    f"{self.kind} {name} has versions, but none of them is published",
                    remedy=f"publish one, or name one: {there}",
                )
            if self._is_there(name, current):
                return current
            if self.current(name) == current:
                raise Corrupt(
                    f"{self.folder(name) / CURRENT} names {current}, which is not there",
                    remedy=self._remedy_to_publish(name),
                )

    def _is_there(self, name: str, version: str) -> bool:
        return (self.folder(name, version) / MANIFEST).exists()

    def open(self, spec: str) -> Held:
        """Hold a version until it is let go; needs no right to write."""
        while True:
            name, version = self.resolve(spec)
            held = hold(self.folder(name, version), name, version)
            if held is not None:
                return held

    def _require(self, name: str) -> list[str]:
        """The versions of an artefact, or NotFound with the names that there are."""
        there = self.versions(name)
        if not there:
            known = ", ".join(self.names()) or "none yet"
            raise NotFound(f"no {self.kind} {name!r} in {self.root}", remedy=f"there are: {known}")
        return there

    def _remedy_to_publish(self, name: str) -> str:
        return f"publish one that is there: {', '.join(self.versions(name)) or 'none is'}"

    # ── writing ──────────────────────────────────────────────────────────────────────────────────────────────────

    @contextmanager
    def writing(self, name: str, purpose: str) -> Iterator[Writer]:
        """Be the only writer of an artefact for as long as the block lasts; another one gets Locked."""
        folder = self.folder(name)
        with exclusive(folder, purpose):
            try:
                self._remove_leftovers(name)
                yield Writer(self, name)
            finally:
                _remove_if_empty(folder)

    def add(self, name: str, staged: Path) -> str:
        """`Writer.add` as a step of its own."""
        with self.writing(name, f"adding a version to {self.kind} {name}") as writer:
            return writer.add(staged)

    def publish(self, name: str, version: str) -> None:
        """`Writer.publish` as a step of its own."""
        self._require(name)
        with self.writing(name, f"publishing {self.kind} {name}@{version}") as writer:
            writer.publish(version)

    def rollback(self, name: str, to: str | None = None) -> str:
        """`Writer.rollback` as a step of its own."""
        self._require(name)
        with self.writing(name, f"rolling back {self.kind} {name}") as writer:
            return writer.rollback(to)

    def gc(self, name: str, keep: int, spare: Callable[[str, str], bool] = _none_spared) -> list[str]:
        """`Writer.gc` as a step of its own."""
        self._require(name)
        with self.writing(name, f"removing old versions of {self.kind} {name}") as writer:
            return writer.gc(keep, spare)

    def delete(self, name: str) -> list[str]:
        """Remove an artefact with all its versions, which are the answer; refused while one of them is held."""
        self._require(name)
        gone = self.root / f"{DELETED}{name}@{unique()}"
        with exclusive(self.folder(name), f"deleting {self.kind} {name}"):
            there = self.versions(name)
            with ExitStack() as locks:
                for version in there:
                    if not locks.enter_context(unread(self.folder(name, version))):
                        raise Conflict(f"{self.kind} {name}@{version} is in use", remedy="stop what reads it")
                self.folder(name).rename(gone)
                sync_folder(self.root)
            remove_tree(gone)
        return there

    def _remove_leftovers(self, name: str) -> None:
        """Delete what killed writers of this artefact left; errors are passed over, for two may do so at once."""
        folder = self.folder(name)
        remove_asides(folder)
        left = [*folder.glob(f"{DELETED}*"), *folder.glob(f"{IMPORTING}*"), *self.root.glob(f"{DELETED}{name}@*")]
        for path in left:
            shutil.rmtree(path, ignore_errors=True)


@dataclass(frozen=True)
class Writer:
    """What `Versions.writing` gives: the right to change one artefact."""

    artefacts: Versions
    name: str

    @property
    def folder(self) -> Path:
        """The artefact's folder."""
        return self.artefacts.folder(self.name)

    def add(self, staged: Path, version: str | None = None) -> str:
        """Move a finished folder into place as the next version, or as the one named; it is not published by this.

        Its manifest is there, its files are synced, and it lies on the same disk.
        """
        require_files(staged, read_json(staged / MANIFEST))
        name = self._next() if version is None else _order(version)
        target = self.folder / str(name)
        if target.exists():
            raise Conflict(f"{target} is there already", remedy="remove it, or keep it")
        if version is None:
            self._mark(name)
        else:
            self._mark_foreign([name])
        for folder, _, _ in os.walk(staged):
            sync_folder(Path(folder))
        staged.rename(target)
        sync_folder(self.folder)
        return str(name)

    def publish(self, version: str) -> None:
        """From now on the artefact's name means this version."""
        _, version = self.artefacts.resolve(f"{self.name}@{version}")
        require_files(self.folder / version, read_json(self.folder / version / MANIFEST))
        with write_aside(self.folder / CURRENT) as file:
            file.write(f"{version}\n".encode())

    def rollback(self, to: str | None = None) -> str:
        """Publish another version: the one named, or the newest of those older than the published one."""
        version = to or self._version_before_current()
        self.publish(version)
        return version

    def _version_before_current(self) -> str:
        there, current = self.artefacts.versions(self.name), self.artefacts.current(self.name)
        older = [version for version in there if current is not None and _order(version) < _order(current)]
        if not older:
            raise Conflict(
                f"{self.artefacts.kind} {self.name} has no version older than its published one, {current or 'none'}",
                remedy=f"there are: {_listed(self.name, there)}",
            )
        return older[-1]

    def gc(self, keep: int, spare: Callable[[str, str], bool] = _none_spared) -> list[str]:
        """Remove old versions, which are the answer.

        What stays: the published one, the `keep` newest, those that `spare(name, version)` wants, those that are held.
        """
        if keep < 0:
            raise Usage(f"{keep} versions cannot be kept", remedy="0 keeps the published one alone")
        there = self.artefacts.versions(self.name)
        kept = {self.artefacts.current(self.name), *there[max(0, len(there) - keep) :]}
        self._mark_foreign(map(_order, there))
        candidates = (version for version in there if version not in kept and not spare(self.name, version))
        return [version for version in candidates if self._removed(version)]

    def _removed(self, version: str) -> bool:
        """Whether a version could be removed: not, if somebody holds it."""
        gone = self.folder / f"{DELETED}{version}-{unique()}"
        with unread(self.folder / version) as free:
            if not free:
                return False
            (self.folder / version).rename(gone)
            sync_folder(self.folder)
        remove_tree(gone)
        return True

    def _next(self) -> VersionName:
        """The next free name of today; of the day of the newest one, where the clock was set back since."""
        marked, there = self._marked(), self.artefacts.folder(self.name).glob("*")
        day = max(self.artefacts.today(), marked.day) if marked is not None else self.artefacts.today()
        taken = [marked, *(VersionName.parse(path.name) for path in there)]
        number = max((name.number for name in taken if name is not None and name.day == day), default=0)
        return VersionName(day, number + 1)

    def _marked(self) -> VersionName | None:
        with suppress(FileNotFoundError):
            return VersionName.parse((self.folder / _NEWEST).read_bytes().decode("ascii", "replace").strip())
        return None

    def _mark_foreign(self, names: Iterable[VersionName]) -> None:
        """Names that were given elsewhere count, too; not those of a wrong clock, which would decide all later ones."""
        believed = [name for name in names if name.day <= self.artefacts.today()]
        if believed:
            self._mark(max(believed))

    def _mark(self, name: VersionName) -> None:
        """Remember that this name was given, before anything bears it."""
        marked = self._marked()
        if marked is None or name > marked:
            with write_aside(self.folder / _NEWEST) as file:
                file.write(f"{name}\n".encode())


def _remove_if_empty(folder: Path) -> None:
    """An artefact of which nothing came about leaves no folder; only whoever holds its lock may ask for this."""
    if [path.name for path in folder.iterdir()] == [".lock"]:
        (folder / ".lock").unlink()
        with suppress(OSError):  # the next writer is there already
            folder.rmdir()


def _order(version: str) -> VersionName:
    name = VersionName.parse(version)
    assert name is not None, version
    return name


def _listed(name: str, versions: list[str]) -> str:
    return ", ".join(f"{name}@{version}" for version in versions)
