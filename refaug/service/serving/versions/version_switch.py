"""Where a published version becomes the served one: what a refresh opened replaces what served before."""

from __future__ import annotations

from dataclasses import dataclass, field

from refaug.service.serving.versions.leases import Kind, OpenVersion, ServedVersions, VersionKey


@dataclass(kw_only=True)
class VersionSwitch:
    """The versions and problems that a refresh has opened so far."""

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
