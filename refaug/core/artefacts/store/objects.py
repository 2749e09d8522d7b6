"""What a store holds: files under their hashes, the records of versions, and the claims of publishers at work.

    objects/<ab>/<sha-256>                     files; the same content is stored once, whatever versions share it
    versions/<kind>/<name>/<version>.json      records; written last, never replaced
    claims/<kind>/<name>/<version>/…json       the record that a publisher is about to write, one file a publisher
    collecting/…json                           exists while unused files are deleted
    uploads/                                   files that are not complete yet

An object store without conditional writes cannot refuse a second writer, and pyarrow passes no condition on. Claims
take the place of the condition. A publisher writes its claim, then reads who else has one: since reads see all earlier
writes, of two publishers at least one sees the other, and withdraws. The same holds between a publisher's claim and
the mark of a collection. Both end by themselves after an hour without renewal, by the store's clock.
"""

from __future__ import annotations

import hashlib
import re
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from datetime import datetime, timedelta
from pathlib import Path, PurePosixPath
from typing import Any, Final, Self

import orjson

from refaug.core.artefacts.manifests import MANIFEST, NamedFile, named_files
from refaug.core.artefacts.store.store_files import UPLOADS, StoreEntry, StoreFiles, read_small, write_whole
from refaug.core.artefacts.versions import VersionName
from refaug.core.errors import Conflict, Corrupt, Locked, NotFound, Unavailable, Usage
from refaug.core.files import CHECKSUM, NAME, require_checksum, require_name, unique_suffix, with_checksum
from refaug.core.processes.kept import cached_property

# ── The record of a version in a store: which parts it has, with their hashes, and where they lie ─────────────────────
#
# A record has no times and no secrets, so the same version gives the same record on every machine.

FORMAT_VERSION: Final = 1
LARGEST_RECORD: Final = 1 << 26

_SHA256: Final = re.compile(r"[0-9a-f]{64}")
_REMEDY: Final = "remove it from the store, and push the version again"


@dataclass(frozen=True, kw_only=True)
class NeededVersion:
    """Another version that this one cannot be opened without, such as the word vectors of an index."""

    kind: str
    name: str
    version: str


@dataclass(frozen=True, kw_only=True)
class StoredPart:
    """A part of a version: a shard, a later segment, or the files beside them."""

    folder: str  # inside the version; "." for the files beside all parts
    bytes: int
    sha256: str  # over the names and hashes of its files
    files: Mapping[str, Mapping[str, int | str]]  # each with size, SHA-256, and where it lies in the store


@dataclass(frozen=True, kw_only=True)
class VersionRecord:
    """A version in a store; the file that holds this is written last."""

    kind: str
    name: str
    version: str
    manifest: NamedFile  # of the artefact, itself a file under its hash
    erasures: int  # counts deletions: what a version with a smaller count holds is to go
    needs: tuple[NeededVersion, ...]
    parts: tuple[StoredPart, ...]
    format_version: int = FORMAT_VERSION

    @property
    def spec(self) -> str:
        """`name@version`."""
        return f"{self.name}@{self.version}"

    @property
    def size(self) -> int:
        """The bytes of all files but the manifest."""
        return sum(part.bytes for part in self.parts)

    @cached_property
    def files(self) -> list[NamedFile]:
        """All files but the manifest."""
        return [
            NamedFile(name=name, size=int(facts["size"]), sha256=str(facts["sha256"]))
            for part in self.parts
            for name, facts in part.files.items()
        ]

    @property
    def objects(self) -> dict[str, int]:
        """The hash and size of everything that the record names, the manifest too."""
        return {file.sha256: file.size for file in [*self.files, self.manifest]}

    def as_bytes(self) -> bytes:
        """Return the record as it stands in the store."""
        content = {**asdict(self), "manifest": {"size": self.manifest.size, "sha256": self.manifest.sha256}}
        return orjson.dumps(with_checksum(content), option=orjson.OPT_INDENT_2 | orjson.OPT_APPEND_NEWLINE)

    @classmethod
    def of(
        cls, kind: str, name: str, version: str, manifest: bytes, needs: Sequence[NeededVersion], where: Path
    ) -> Self:
        """Return the record of a version with this manifest."""
        content = orjson.loads(manifest)
        erasures = content.get("erasures", 0)
        return cls(
            kind=kind,
            name=name,
            version=version,
            manifest=NamedFile(name=MANIFEST, size=len(manifest), sha256=hashlib.sha256(manifest).hexdigest()),
            erasures=erasures if isinstance(erasures, int) else 0,
            needs=tuple(needs),
            parts=_parts(named_files(content, where)),
        )

    @classmethod
    def read(cls, raw: bytes, where: Path) -> Self:
        """Return the record that these bytes hold; Corrupt for anything else, since they come from another machine."""
        try:
            content: Any = orjson.loads(raw)
        except orjson.JSONDecodeError as error:
            raise Corrupt(f"{where} is not JSON: {error}", remedy=_REMEDY) from error
        if not isinstance(content, dict):
            raise Corrupt(f"{where} is not a record of a version", remedy=_REMEDY)
        require_checksum(where, content)
        newest = content.get("format_version")
        if isinstance(newest, int) and newest > FORMAT_VERSION:
            raise Corrupt(f"{where} has format {newest}; this refaug reads {FORMAT_VERSION}", remedy="upgrade refaug")
        try:
            record = cls(
                **{
                    **{field: entry for field, entry in content.items() if field != CHECKSUM},
                    "manifest": NamedFile(name=MANIFEST, **content["manifest"]),
                    "needs": tuple(NeededVersion(**needed) for needed in content["needs"]),
                    "parts": tuple(StoredPart(**part) for part in content["parts"]),
                }
            )
            record._check(where)
        except (KeyError, TypeError, ValueError, AttributeError) as error:
            raise Corrupt(f"{where} is not a record of a version: {error!r}", remedy=_REMEDY) from error
        return record

    def _check(self, where: Path) -> None:
        """Require names that may become paths, and hashes that may become names of objects."""
        versions = [(self.kind, self.name, self.version), *((n.kind, n.name, n.version) for n in self.needs)]
        for kind, name, version in versions:
            if NAME.fullmatch(kind) is None or NAME.fullmatch(name) is None or VersionName.parse(version) is None:
                raise Corrupt(f"{where} names {kind!r} {name!r}@{version!r}, which is not a version", remedy=_REMEDY)
        named_files({"files": {file.name: asdict(file) for file in self.files}}, where)
        odd = next((file for file in [*self.files, self.manifest] if _SHA256.fullmatch(file.sha256) is None), None)
        if odd is not None or isinstance(self.erasures, bool) or self.erasures < 0 or self.manifest.size < 0:
            raise Corrupt(f"{where} has no hash for {odd.name if odd else 'its manifest'!r}", remedy=_REMEDY)


def object_path(sha256: str) -> str:
    """Return where a file with this hash lies in a store."""
    return f"objects/{sha256[:2]}/{sha256}"


def _parts(files: Sequence[NamedFile]) -> tuple[StoredPart, ...]:
    """Return the files of a version by the folder that they form a part in."""
    by_folder = dict[str, list[NamedFile]]()
    for file in files:
        by_folder.setdefault(_part_folder(file.name), []).append(file)
    return tuple(
        StoredPart(
            folder=folder,
            bytes=sum(file.size for file in inside),
            sha256=_hash_of(inside),
            files={
                file.name: {"size": file.size, "sha256": file.sha256, "at": object_path(file.sha256)} for file in inside
            },
        )
        for folder, inside in sorted(by_folder.items())
    )


def _part_folder(name: str) -> str:
    """Return the numbered folder that a file lies in, such as `shards/3`; else "."."""
    top, *inner = PurePosixPath(name).parts
    return f"{top}/{inner[0]}" if len(inner) > 1 and inner[0].isdecimal() else "."


def _hash_of(files: Sequence[NamedFile]) -> str:
    return hashlib.sha256(orjson.dumps([[file.name, file.sha256] for file in files])).hexdigest()


# ── What a store holds: files under their hashes, the records of versions, and the claims of publishers at work ───────

OBJECTS: Final = "objects"
LEASE: Final = timedelta(hours=1)

_VERSIONS: Final = "versions"
_CLAIMS: Final = "claims"
_COLLECTING: Final = "collecting"
_CLOCK: Final = "clock"
_RENEW_AFTER_S: Final = 300.0
_TRUST_S: Final = LEASE.total_seconds() / 2  # how old a claim may be by our clock when we rely on it


class Store:
    """A store, by what its files mean."""

    def __init__(self, files: StoreFiles) -> None:
        self.files, self.name = files, files.name

    # Objects

    def object_sizes(self) -> dict[str, int]:
        """Return the sizes of all files by their hashes."""
        return {entry.path.rpartition("/")[2]: entry.size for entry in self.files.list(OBJECTS)}

    def put_object(self, sha256: str, size: int, pieces: Iterable[bytes]) -> None:
        """Store a file under its hash after reading it back; Unavailable if the store returns other bytes."""
        path = object_path(sha256)
        direct = size > self.files.largest_rename
        written = path if direct else f"{UPLOADS}/{unique_suffix()}"
        self.files.write(written, pieces)
        try:
            self._require_hash(written, sha256, size)
            if not direct:
                self.files.rename(written, path)
        except BaseException:
            if not direct:
                self.files.delete(written)
            raise

    def object_pieces(self, sha256: str) -> Iterator[bytes]:
        """Yield the bytes of a file; the caller compares the hash."""
        return self.files.pieces(object_path(sha256))

    def hash_of_object(self, sha256: str) -> str:
        """Return the hash that the bytes of a file really have."""
        return _hash(self.object_pieces(sha256))

    def _require_hash(self, path: str, sha256: str, size: int) -> None:
        stored_size, stored_hash = self.files.size(path), _hash(self.files.pieces(path))
        if (stored_size, stored_hash) != (size, sha256):
            raise Unavailable(
                f"the store {self.name} returned other bytes than it was given: {stored_size} of {size:,} bytes, "
                f"SHA-256 {stored_hash[:12]}…, not {sha256[:12]}…",
                remedy="run the same command again, it goes on; if this happens again, the store is damaged",
            )

    # Records

    def record(self, kind: str, name: str, version: str) -> VersionRecord:
        """Return the record of a version; NotFound says what there is."""
        stored = self.read_record(_record_path(kind, name, version))
        if stored is None:
            versions = ", ".join(f"{name}@{existing}" for existing in self.versions(kind, name)) or "none of that name"
            raise NotFound(f"the store {self.name} has no {kind} {name}@{version}", remedy=f"there are: {versions}")
        return stored

    def read_record(self, path: str) -> VersionRecord | None:
        """Return the record in a file; None where there is none, Corrupt where it names another version."""
        try:
            raw = read_small(self.files, path, LARGEST_RECORD)
        except NotFound:
            return None
        where = Path(self.name) / path
        record = VersionRecord.read(raw, where)
        if not path.startswith((_record_path(record.kind, record.name, record.version), _claims_folder(record))):
            raise Corrupt(f"{where} is the record of {record.kind} {record.spec}", remedy="remove that file")
        return record

    def records(self) -> list[VersionRecord]:
        """Return all records; Corrupt names one that cannot be read."""
        records = [self.read_record(entry.path) for entry in self.files.list(_VERSIONS)]
        return sorted(
            (record for record in records if record is not None),
            key=lambda record: (record.kind, record.name, _version_name(record.version)),
        )

    def versions(self, kind: str, name: str) -> list[str]:
        """Return the versions of an artefact, oldest first."""
        entries = self.files.list(_versions_folder(kind, name))
        stems = [entry.path.rpartition("/")[2].removesuffix(".json") for entry in entries]
        return sorted((stem for stem in stems if VersionName.parse(stem) is not None), key=_version_name)

    def remove_record(self, record: VersionRecord) -> None:
        """Remove a version; its files stay until unused ones are collected."""
        self.files.delete(_record_path(record.kind, record.name, record.version))

    # Claims

    def clock(self) -> datetime:
        """Return the time by the store's clock, from a file written now."""
        path = f"{UPLOADS}/{_CLOCK}-{unique_suffix()}"
        self.files.write(path, [b"\n"])
        times = [entry.modified for entry in self.files.list(UPLOADS) if entry.path == path]
        self.files.delete(path)
        if not times:
            raise Unavailable(f"the store {self.name} does not list what was just written", remedy="try again")
        return times[0]

    def claims(self, folder: str = _CLAIMS) -> list[StoreEntry]:
        """Return the claims that have not ended."""
        entries = self.files.list(folder)
        if not entries:
            return []
        now = self.clock()
        return [entry for entry in entries if now - entry.modified < LEASE]

    @contextmanager
    def claiming(self, record: VersionRecord) -> Iterator[Claim]:
        """Claim a version until the block ends; Locked where another publisher or a collection is at work."""
        claim = Claim(self, record)
        claim.renew()
        try:
            claim.require_alone()
            self._require_no_collection()
            yield claim
        finally:
            claim.withdraw()

    def _require_no_collection(self, but: str = "") -> None:
        if any(entry.path != but for entry in self.claims(_COLLECTING)):
            raise Locked(
                f"unused files of the store {self.name} are being deleted",
                remedy="run the same command again when that has ended; a collection that was killed ends in an hour",
            )

    # Collections

    @contextmanager
    def collecting(self) -> Iterator[Marker]:
        """Keep publishers out until the block ends; Locked where another collection is at work."""
        marker = Marker(self, f"{_COLLECTING}/{unique_suffix()}.json", b"{}\n")
        marker.renew()
        try:
            self._require_no_collection(but=marker.path)
            yield marker
        finally:
            marker.withdraw()


class Marker:
    """A small file whose age says whether its writer is at work."""

    def __init__(self, store: Store, path: str, content: bytes) -> None:
        self._store, self.path, self._content = store, path, content
        self._renewed = 0.0

    def renew(self) -> None:
        """Write it again, which makes it new."""
        write_whole(self._store.files, self.path, self._content)
        self._renewed = time.monotonic()

    def renew_if_old(self) -> None:
        """Write it again after some minutes."""
        if time.monotonic() - self._renewed > _RENEW_AFTER_S:
            self.renew()

    @property
    def is_trusted(self) -> bool:
        """Whether it was renewed so recently that it cannot have ended, and nothing that it names was deleted."""
        return time.monotonic() - self._renewed < _TRUST_S

    def withdraw(self) -> None:
        """Remove it."""
        self._store.files.delete(self.path)


class Claim(Marker):
    """A publisher's right to write one record."""

    def __init__(self, store: Store, record: VersionRecord) -> None:
        self.record, self._raw = record, record.as_bytes()
        self._prefix = f"{_claims_folder(record)}{hashlib.sha256(self._raw).hexdigest()}-"
        super().__init__(store, f"{self._prefix}{unique_suffix()}.json", self._raw)

    def require_alone(self) -> None:
        """Raise Locked where another publisher claims this version with other content."""
        for entry in self._store.claims(_claims_folder(self.record).rstrip("/")):
            if not entry.path.startswith(self._prefix):
                raise Locked(
                    f"another publisher is pushing {self.record.kind} {self.record.spec} with other content to "
                    f"{self._store.name}",
                    remedy=f"wait for it to end; if it was killed, its claim ends at "
                    f"{(entry.modified + LEASE).isoformat(timespec='seconds')}",
                )

    def put_record(self) -> None:
        """Write the record, as the last step; Conflict where another one is there."""
        record, files = self.record, self._store.files
        if not self.is_trusted:
            raise Unavailable(f"pushing to {self._store.name} took too long", remedy="run it again, it goes on")
        self.require_alone()
        path = _record_path(record.kind, record.name, record.version)
        if not files.put_new(path, self._raw):
            stored = self._store.read_record(path)
            if stored != record:
                raise conflict_with(self._store, record)


def conflict_with(store: Store, record: VersionRecord) -> Conflict:
    """Return the error for a version that is in the store with other content."""
    return Conflict(
        f"{record.kind} {record.spec} is in the store {store.name} already, with other content",
        remedy="push another version: one that is made here next gets a name of its own",
    )


def _versions_folder(kind: str, name: str) -> str:
    """Return the folder of an artefact's records; only names reach a path."""
    return f"{_VERSIONS}/{require_name('kind', kind)}/{require_name(kind, name)}"


def _record_path(kind: str, name: str, version: str) -> str:
    folder = _versions_folder(kind, name)
    if VersionName.parse(version) is None:
        raise Usage(
            f"{version!r} is not a version",
            remedy="give one as 2026-11-20.1; refaug artefacts list --store LOCATION has them",
        )
    return f"{folder}/{version}.json"


def _claims_folder(record: VersionRecord) -> str:
    return f"{_CLAIMS}/{record.kind}/{record.name}/{record.version}/"


def _version_name(version: str) -> VersionName:
    name = VersionName.parse(version)
    assert name is not None, version
    return name


def _hash(pieces: Iterable[bytes]) -> str:
    digest = hashlib.sha256()
    for piece in pieces:
        digest.update(piece)
    return digest.hexdigest()
