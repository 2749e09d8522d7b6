"""The versions that serve now."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from refaug.service.serving.versions.leases import KINDS, Kind, OpenVersion


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
