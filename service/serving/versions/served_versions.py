"""The versions that serve now, and the refresh that decides which versions become the served ones."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from refaug.service.serving.versions.leases import KINDS, Kind, OpenVersion, VersionKey


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


class PublishedName(NamedTuple):
    """A published name with its version, or with the reason why the version is unknown."""

    name: str
    version: str | None
    why: str = ""


@dataclass(kw_only=True)
class VersionRefresh:
    """The versions and problems that a refresh has collected so far."""

    before: ServedVersions
    opened: dict[tuple[Kind, str], OpenVersion] = field(default_factory=dict)
    published: dict[Kind, tuple[str, ...]] = field(default_factory=dict)
    troubles: dict[str, str] = field(default_factory=dict)
    new: list[OpenVersion] = field(default_factory=list)  # released if the refresh fails

    def staying(self) -> dict[tuple[Kind, str], OpenVersion]:
        """Return the versions that go on serving under the same names."""
        return {at: one for at, one in self.before.opened.items() if self.opened.get(at) is one}

    def gone(self) -> list[VersionKey]:
        """Return the versions that would no longer serve under their names."""
        staying = self.staying()
        return [one.key for at, one in self.before.opened.items() if at not in staying and "@" not in at[1]]

    def has_changed(self) -> bool:
        """Return whether another version serves under any name."""
        return self.opened != self.before.opened

    def served(self) -> ServedVersions:
        """Return the versions that serve after this refresh."""
        return ServedVersions(
            generation=self.before.generation + self.has_changed(),
            opened=self.opened,
            published=self.published,
            troubles=self.troubles,
            is_loaded=True,
        )

    def replaced(self) -> list[OpenVersion]:
        """Return the versions that another one replaces, or none."""
        return [version for at, version in self.before.opened.items() if self.opened.get(at) is not version]
