"""An open version of an index or rater, and the lease of a request, which keeps its versions open until it ends."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from types import TracebackType
from typing import Final, Literal, NamedTuple, Protocol, Self, get_args

from refaug.core.artefacts.mapped_files import MappedFiles
from refaug.core.artefacts.version_locks import HeldVersion
from refaug.core.errors import Conflict, Corrupt, Unavailable
from refaug.core.memory import BoundedCache
from refaug.indexer.search.index import ReferenceIndex
from refaug.rater.rating import Rater

log = logging.getLogger(__name__)

_CHANGED_FILE_S: Final = 60.0  # before a client asks again for what a person has to mend

Kind = Literal["index", "rater"]
KINDS: Final[tuple[Kind, ...]] = get_args(Kind)


class VersionKey(NamedTuple):
    """The name of one version of one artefact, unique over all kinds."""

    kind: Kind
    name: str
    version: str  # empty: of a plain name

    @classmethod
    def of(cls, kind: Kind, spec: str) -> Self:
        """Return the key of `name@version`."""
        name, _, version = spec.partition("@")
        return cls(kind, name, version)

    @property
    def spec(self) -> str:
        """The version as `name@version`."""
        return f"{self.name}@{self.version}"

    def __str__(self) -> str:
        return f"{self.kind} {self.spec}"


@dataclass(eq=False, kw_only=True)
class OpenVersion:
    """An open index or rater with the number of its holders; it is closed when that number reaches zero."""

    key: VersionKey
    tool: ReferenceIndex | Rater
    held: HeldVersion | None = None  # the lock on a rater's version; an index locks its own
    files: MappedFiles | None = None
    holder_count: int = 1  # changed only under the lock of OpenVersions

    @property
    def erasures(self) -> int:
        """The count of deletions that an index version is without."""
        return self.tool.manifest.erasures if isinstance(self.tool, ReferenceIndex) else 0

    def require_unchanged_files(self) -> None:
        """Raise Unavailable where a file of this version was cut or written to since it was opened."""
        try:
            if self.files is not None:
                self.files.require_unchanged()
        except Corrupt as error:
            message = f"{self.key} cannot be used: {error.message}"
            raise Unavailable(message, remedy=error.remedy, retry_after_s=_CHANGED_FILE_S) from error

    def has_replaced_files(self) -> bool:
        """Return whether files of this version were changed, and the right ones lie under their names again."""
        return self.files is not None and self.files.are_replaced()

    def close(self) -> None:
        """Close the version and release its lock, so that its files may be removed."""
        if self.files is not None:
            self.files.close()
        if isinstance(self.tool, ReferenceIndex):
            self.tool.close()
        if self.held is not None:
            self.held.close()


def close_versions(versions: Iterable[OpenVersion]) -> None:
    """Close versions that have no holders."""
    for version in versions:
        version.close()
        log.info("closed", extra={"artefact": str(version.key)})


class VersionHolders(Protocol):
    """Counts the holders of open versions, and closes those without holders."""

    def share(self, lease: Lease) -> Lease:
        """Return a second lease on the same versions, which has one more holder of each."""

    def release(self, lease: Lease) -> None:
        """Drop one holder of each version, the first time it is called."""


class Lease:
    """The indexes and the rater of a request; none is closed before the lease is released.

    `sample` is the index whose log is sampled, where a request names another. Without `holders`, the caller keeps the
    versions open.
    """

    def __init__(
        self,
        *,
        index: ReferenceIndex | None,
        rater: Rater | None,
        sample: ReferenceIndex | None = None,
        opened: Iterable[OpenVersion] = (),
        holders: VersionHolders | None = None,
    ) -> None:
        self.index, self.rater, self.sample = index, rater, sample
        self.opened, self.is_released = tuple(opened), False
        self._holders = holders

    def require_index(self) -> ReferenceIndex:
        """Return the index, which was asked for."""
        assert self.index is not None, "an index was asked for"
        return self.index

    def versions(self) -> dict[str, str]:
        """Return the `name@version#id` of what finds and rates references, by kind."""
        named = {"index": self.index, "rater": self.rater}
        return {kind: tool.spec for kind, tool in named.items() if tool is not None}

    def require_unchanged_files(self) -> None:
        """Raise Unavailable where a file of one of the versions was cut or written to since it was opened."""
        for version in self.opened:
            version.require_unchanged_files()

    def share(self) -> Lease:
        """Return a second lease on the same versions, for work that outlives the request."""
        return self if self._holders is None else self._holders.share(self)

    def release(self) -> None:
        """Release the versions; a second call does nothing."""
        if self._holders is not None:
            self._holders.release(self)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.release()


# ── The versions that serve now ───────────────────────────────────────────────────────────────────────────────────────


@dataclass(frozen=True, eq=False, kw_only=True)
class ServedVersions:
    """The versions that serve requests without a pin, and the problems of the others; never changed in place."""

    generation: int = 0
    # by kind and name; a default version of the settings is listed under name@version
    opened: Mapping[tuple[Kind, str], OpenVersion] = field(default_factory=dict)
    published: Mapping[Kind, tuple[str, ...]] = field(
        default_factory=dict
    )  # all published names, also those that cannot be opened
    troubles: Mapping[str, str] = field(default_factory=dict)
    is_loaded: bool = False

    def versions(self) -> Mapping[str, Mapping[str, str]]:
        """Return the version that serves under each published name, by kind."""
        return {
            kind: {
                name: version.key.version
                for (of, name), version in self.opened.items()
                if of == kind and "@" not in name
            }
            for kind in KINDS
        }

    def is_outdated(self, version: OpenVersion) -> bool:
        """Return whether a version holds what was deleted from the one that serves under its name."""
        serving = self.opened.get((version.key.kind, version.key.name))
        return serving is not None and version.erasures < serving.erasures

    def needs_no_pin(self, version: OpenVersion) -> bool:
        """Return whether a version stays open without a pin, since it serves, or must not stay open."""
        return version in self.opened.values() or self.is_outdated(version)

    def unpin(self, pinned: BoundedCache[VersionKey, OpenVersion]) -> list[OpenVersion]:
        """Remove from the pinned versions those that need no pin now, and return them."""
        needless = [version for _, version in pinned.items() if self.needs_no_pin(version)]
        for version in needless:
            pinned.pop(version.key)
        return needless

    def require_not_outdated(self, version: OpenVersion) -> None:
        """Refuse a version that holds what was deleted from the one that serves under its name."""
        if self.is_outdated(version):
            raise Conflict(
                f"{version.key} holds pairs that have been deleted since",
                remedy=f"name {version.key.name} alone, which is {version.key.kind} "
                f"{self.opened[version.key.kind, version.key.name].key.spec} now",
            )
