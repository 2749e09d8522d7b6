"""The store of frozen reference sets: freezing, deriving, opening and withdrawing them.

Their scores can be made anew only while the versions that they name are at hand: these are pinned.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import BinaryIO, Final

import orjson

from refaug.core import files
from refaug.core.artefacts.archives import COPY_AGAIN
from refaug.core.artefacts.versions import report_change
from refaug.core.errors import BadInput, Conflict, Corrupt, DamagedSource, NotFound, RefaugError, Usage, Withdrawn
from refaug.core.files import storage_errors
from refaug.core.home import Settings
from refaug.core.processes.kept import cached_property
from refaug.core.processes.live_file import LiveFile
from refaug.core.progress import Progress, Silent
from refaug.core.records import Item
from refaug.logs.reading.sources import MAX_LINE_BYTES
from refaug.scoring.items import BadItem
from refaug.scoring.provenance import ProvenanceWatch
from refaug.scoring.reference_sets.derivation import Derivation, derived_items
from refaug.scoring.reference_sets.reference_set import (
    SET_ID,
    SET_SUFFIX,
    ReferenceSet,
    SetDescription,
    SetManifest,
    describe_bad,
    write_items,
    write_set,
)

LEAST_PREFIX: Final = 6
_WITHDRAWN: Final = ".withdrawn"
_LOCK: Final = ".lock"
_PREFIX: Final = re.compile(rf"[0-9a-f]{{{LEAST_PREFIX},16}}")


@dataclass(frozen=True, kw_only=True)
class Withdrawal:
    """Why a set must not be used any more, and which set to use instead."""

    reason: str
    instead: str | None
    at: str


@dataclass(frozen=True, kw_only=True)
class FreezeResult:
    """The result of freezing."""

    set: ReferenceSet
    is_new: bool  # False: the same set was frozen before
    bad_items: tuple[BadItem, ...]


@dataclass(frozen=True, kw_only=True)
class AdoptedSet:
    """A set that came from another home."""

    set: ReferenceSet
    was_there: bool  # the same set was here before
    newly_withdrawn: bool  # it was here, in use, and came withdrawn


@dataclass(frozen=True)
class ReferenceSets:
    """The folder of the sets."""

    folder: Path

    @cached_property
    def _beginning(self) -> str:
        """What the path of every file of a set begins with."""
        return os.path.join(self.folder, "")  # noqa: PTH118

    def ids(self) -> list[str]:
        """Return the ids of all sets, including withdrawn ones."""
        names = (path.name.removesuffix(SET_SUFFIX) for path in self.folder.glob(f"*{SET_SUFFIX}"))
        return sorted(name for name in names if SET_ID.fullmatch(name))

    def resolve(self, text: str) -> str:
        """Return the full id for an id or its beginning; no other text ever becomes part of a path."""
        if not _PREFIX.fullmatch(text):
            raise Usage(
                f"{text!r} is not an id of a reference set",
                remedy=f"16 characters of 0-9 and a-f, or at least the first {LEAST_PREFIX} of them: refaug sets list, "
                "or GET /v1/reference-sets",
            )
        withdrawn = (path.name.removesuffix(_WITHDRAWN) for path in self.folder.glob(f"*{_WITHDRAWN}"))
        names = {*self.ids(), *(name for name in withdrawn if SET_ID.fullmatch(name))}
        matches = sorted(name for name in names if name.startswith(text))
        if not matches:
            raise NotFound(f"there is no reference set {text}", remedy="refaug sets list, or GET /v1/reference-sets")
        if len(matches) > 1:
            raise Usage(f"{text} is the beginning of several sets: {', '.join(matches[:5])}", remedy="give more of it")
        return matches[0]

    def open(self, text: str, *, even_withdrawn: bool = False) -> ReferenceSet:
        """Open a set by its id or the beginning of it; a withdrawn set only with `even_withdrawn`, for inspection."""
        name = self.resolve(text)
        if not even_withdrawn:
            self.require_valid(name)
        return ReferenceSet.at(self.path_of(name))

    def freeze(
        self,
        items: Iterable[Item | BadItem],
        description: SetDescription,
        *,
        called: str = "items",
        check: Callable[[Sequence[BadItem]], None] | None = None,
    ) -> FreezeResult:
        """Write items as a set, unless the same set exists; only their ids and the bad items stay in memory.

        `check` gets the items that could not be frozen before anything is published, and may refuse.
        """
        with self._aside() as (aside, file):
            watch = ProvenanceWatch()
            written = write_items(watch.over(items), file, called)
            if check is not None:
                check(written.bad)
            if not written.items:
                bad = written.bad
                raise BadInput(
                    f"no item can be frozen, of {len(bad):,}: {describe_bad(bad[0])}" if bad else "there are no items"
                )
            description = description.with_provenance_of(watch.provenance)
            counts = {"items": written.items, "references": written.references, "content": written.content}
            manifest = SetManifest.of(description, **counts)  # type: ignore[arg-type]
            is_new = self._publish(manifest, aside)
        return FreezeResult(set=ReferenceSet.at(self.path_of(manifest.id)), is_new=is_new, bad_items=tuple(written.bad))

    def adopt(
        self, name: str, pieces: Iterable[bytes], *, called: str, withdrawal: Withdrawal | None = None
    ) -> AdoptedSet:
        """Take over the file of a set from another home, and its withdrawal; every hash is checked before.

        DamagedSource where the file is no such set, Withdrawn where the set was withdrawn here, Conflict where the
        file that is here is another one.
        """
        with self._aside() as (aside, file):
            for piece in pieces:
                file.write(piece)
            file.flush()
            os.fsync(file.fileno())
            adopted = self._check(aside, name, called)
            with files.lock_file(self.folder / _LOCK):
                before = self.withdrawal(name)
                if before != withdrawal:
                    self.require_valid(name)
                if was_there := self.path_of(name).exists():
                    self._require_equal(adopted.manifest)
                if withdrawal is not None:  # before the set: a kill between leaves no set that may be used
                    files.write_json(self.folder / f"{name}{_WITHDRAWN}", files.with_checksum(asdict(withdrawal)))
                if not was_there:
                    aside.replace(self.path_of(name))
                    files.sync_folder(self.folder)
        return AdoptedSet(
            set=ReferenceSet.at(self.path_of(name)),
            was_there=was_there,
            newly_withdrawn=was_there and before != withdrawal,
        )

    def _check(self, path: Path, name: str, called: str) -> ReferenceSet:
        """Return the set in a file that is to get its place; DamagedSource where a hash or the name does not fit."""
        try:
            adopted = ReferenceSet.at(path, future_path=self.path_of(name))
            adopted.require_sealed()
            adopted.verify()
        except Corrupt as error:
            message = error.message.replace(str(path), called).replace(str(self.path_of(name)), called)
            raise DamagedSource(message, remedy=COPY_AGAIN) from None
        return adopted

    def _require_equal(self, manifest: SetManifest) -> None:
        """Raise Conflict unless the set of this id is here as it was frozen."""
        try:
            stored = ReferenceSet.at(self.path_of(manifest.id))
            stored.verify()
        except Corrupt as error:
            raise Conflict(
                f"the reference set {manifest.id} is there already, with other content: {error.message}",
                remedy="delete that file, and import again",
            ) from error
        if stored.manifest.content != manifest.content:
            raise Conflict(
                f"another reference set is there already under the id {manifest.id}",
                remedy="import into another REFAUG_HOME",
            )

    def derive(self, parent: str, change: Derivation, progress: Progress | None = None) -> FreezeResult:
        """Make a set with other weights from the stored ratings of another set."""
        progress = progress or Silent()
        parent_set = self.open(parent)
        change.require_possible(parent_set.manifest)
        progress.stage("derive", parent_set.manifest.items, "items")
        description = SetDescription(
            purpose=parent_set.manifest.purpose,
            provenance={**parent_set.manifest.provenance, **change.signature_fields()},
            details=parent_set.manifest.details,
            parent=parent_set.id,
            how={"derive": change.signature_fields()},
        )
        return self.freeze(derived_items(parent_set, change, progress), description, called=f"set {parent_set.id}")

    def withdrawal(self, name: str) -> Withdrawal | None:
        """Return why a set was withdrawn, or None."""
        path = f"{self._beginning}{name}{_WITHDRAWN}"  # a text: each request for scores looks here
        if not os.path.exists(path):  # noqa: PTH110
            return None
        document = files.read_json(Path(path))
        instead = document.get("instead")
        return Withdrawal(
            reason=str(document.get("reason", "")),
            instead=instead if isinstance(instead, str) else None,
            at=str(document.get("at", "")),
        )

    def withdraw(self, text: str, reason: str, instead: str | None = None) -> Withdrawal:
        """Withdraw a set from use; the file stays as it is, and requests for the set get the reason."""
        name = self.resolve(text)
        if not reason.strip():
            raise Usage("a withdrawal without a reason", remedy="say why: shown to everyone who uses the set")
        better = self.open(instead).id if instead is not None else None
        if better == name:
            raise Usage(f"{name} cannot stand in for itself", remedy="name another set, or none")
        withdrawal = Withdrawal(reason=reason, instead=better, at=datetime.now(UTC).isoformat(timespec="seconds"))
        with files.lock_file(self.folder / _LOCK):
            if (before := self.withdrawal(name)) is not None:
                if (before.reason, before.instead) == (reason, better):
                    return before
                raise Conflict(f"{name} was withdrawn at {before.at}: {before.reason}", remedy="that stands")
            files.write_json(self.folder / f"{name}{_WITHDRAWN}", files.with_checksum(asdict(withdrawal)))
            report_change("withdraw", f"set {name}")
        return withdrawal

    def require_valid(self, name: str) -> None:
        """Raise Withdrawn, with the reason and what to use instead, if the set was withdrawn."""
        if (withdrawal := self.withdrawal(name)) is not None:
            remedy = f"use {withdrawal.instead} instead" if withdrawal.instead else "no other set is named instead"
            raise Withdrawn(f"the reference set {name} was withdrawn: {withdrawal.reason}", remedy=remedy)

    def is_there(self, name: str) -> bool:
        """Whether there is a set with this id."""
        return os.path.exists(f"{self._beginning}{name}{SET_SUFFIX}")  # noqa: PTH110  as above

    def path_of(self, name: str) -> Path:
        """Return the path of the set with this id, whether or not it exists."""
        return self.folder / f"{name}{SET_SUFFIX}"

    @contextmanager
    def _aside(self) -> Iterator[tuple[Path, BinaryIO]]:
        """Open a temporary file for items, removed at the end; files that killed processes left are removed first.

        The file is locked while it is written, which tells it from abandoned ones.
        """
        files.make_folder(self.folder)
        path = self.folder / f".items.{files.unique_suffix()}.aside"
        with storage_errors(self.folder):
            with files.lock_file(self.folder / _LOCK):
                for abandoned in self.folder.glob(".*.aside"):
                    if not LiveFile.is_live(abandoned):
                        abandoned.unlink(missing_ok=True)
                file = files.lock_file(path)
            try:
                with file:
                    yield path, file
            finally:
                path.unlink(missing_ok=True)

    def _publish(self, manifest: SetManifest, items: Path) -> bool:
        """Write manifest, items and seal together under the set's id; False where the set exists already."""
        path = self.path_of(manifest.id)
        line = orjson.dumps(manifest.as_json(), option=orjson.OPT_APPEND_NEWLINE)
        if len(line) > MAX_LINE_BYTES:
            raise Usage(f"a manifest of {len(line):,} bytes", remedy="fewer logs or shorter names to leave out")
        with files.lock_file(self.folder / _LOCK):
            self.require_valid(manifest.id)
            if path.exists():
                return False
            write_set(path, line, items)
        return True


PINNED_KINDS: Final = ("index", "rater")  # as signatures name them


def pinned_versions(settings: Settings, kind: str, name: str) -> dict[str, list[str]]:
    """Return the versions of an artefact that frozen sets name, each with the ids of these sets, oldest first.

    Withdrawn sets pin nothing, and neither do damaged ones, which `refaug admin doctor` lists.
    """
    if kind not in PINNED_KINDS:
        return {}
    sets, pins = ReferenceSets(settings.reference_sets), dict[str, list[str]]()
    for set_id in sets.ids():
        with suppress(RefaugError):
            spec = sets.open(set_id).manifest.provenance.get(kind, "").partition("#")[0]
            artefact, _, version = spec.partition("@")
            if artefact == name and version:
                pins.setdefault(version, []).append(set_id)
    return dict(sorted(pins.items()))
