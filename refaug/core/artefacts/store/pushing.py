"""A version into a store: its files under their hashes, each once, then the record that makes them a version."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from refaug.core.artefacts.manifests import MANIFEST, NamedFile, checked_pieces, require_files
from refaug.core.artefacts.store.objects import Claim, NeededVersion, Store, VersionRecord, conflict_with
from refaug.core.artefacts.versions import Versions
from refaug.core.errors import Unavailable
from refaug.core.files import read_json
from refaug.core.progress import Progress

_PIECE: Final = 8 << 20
_MOST_ROUNDS: Final = 3  # of uploads, when files vanish meanwhile


@dataclass(frozen=True, kw_only=True)
class PushedVersion:
    """A version that is in a store now."""

    record: VersionRecord
    uploaded_files: int
    uploaded_bytes: int
    was_there: bool  # the same version was in the store already


def push_version(
    store: Store,
    versions: Versions,
    spec: str,
    progress: Progress,
    *,
    needs: Sequence[NeededVersion] = (),
    verify: bool = False,
) -> PushedVersion:
    """Put a version into a store; what is there already is not sent again.

    Files that are there are recognised by hash and size; with `verify` they are read, and damaged ones sent again.
    """
    with versions.open(spec) as held:
        manifest = (held.folder / MANIFEST).read_bytes()
        require_files(held.folder, read_json(held.folder / MANIFEST))
        record = VersionRecord.of(versions.kind, held.name, held.version, manifest, needs, held.folder / MANIFEST)
        was_there = held.version in store.versions(record.kind, record.name)
        if was_there and store.record(record.kind, record.name, record.version) != record:
            raise conflict_with(store, record)
        with store.claiming(record) as claim:
            upload = _Upload(store, claim, held.folder, progress)
            upload.run(record, verify=verify)
            claim.put_record()
    return PushedVersion(record=record, uploaded_files=upload.files, uploaded_bytes=upload.bytes, was_there=was_there)


class _Upload:
    """The files of a version on their way."""

    def __init__(self, store: Store, claim: Claim, folder: Path, progress: Progress) -> None:
        self._store, self._claim, self._folder, self._progress = store, claim, folder, progress
        self.files = self.bytes = 0

    def run(self, record: VersionRecord, *, verify: bool) -> None:
        """Send what is missing until nothing is."""
        wanted_files = {file.sha256: file for file in [*record.files, record.manifest]}
        for number in range(_MOST_ROUNDS):
            missing = self._missing(list(wanted_files.values()), verify=verify and number == 0)
            if not missing:
                return
            self._progress.stage(f"pushing {record.kind} {record.spec}", sum(file.size for file in missing), "B")
            for file in missing:
                pieces = checked_pieces(self._folder / file.name, file, self._advance, piece_bytes=_PIECE)
                self._store.put_object(file.sha256, file.size, pieces)
                self.files, self.bytes = self.files + 1, self.bytes + file.size
        if self._missing(list(wanted_files.values()), verify=False):
            raise Unavailable(
                f"files of {record.spec} vanish from the store {self._store.name} while it is pushed",
                remedy="find out what deletes them: a rule of the bucket?",
            )

    def _missing(self, files: Sequence[NamedFile], *, verify: bool) -> list[NamedFile]:
        sizes = self._store.object_sizes()
        missing = [file for file in files if sizes.get(file.sha256) != file.size]
        if verify:
            at_hand = [file for file in files if sizes.get(file.sha256) == file.size]
            self._progress.stage("reading what the store has", len(at_hand), "files")
            missing += [file for file in at_hand if self._is_damaged(file)]
        return sorted(missing, key=lambda file: file.name)

    def _is_damaged(self, file: NamedFile) -> bool:
        self._advance(1)
        return self._store.hash_of_object(file.sha256) != file.sha256

    def _advance(self, amount: int) -> None:
        self._progress.advance(amount)
        self._claim.renew_if_old()
