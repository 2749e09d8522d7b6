"""Which versions are published: what the file CURRENT of every artefact says."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path

from refaug.core.artefacts.manifests import MANIFEST
from refaug.core.artefacts.versions import CURRENT, Versions
from refaug.core.errors import RefaugError
from refaug.core.files import NAME
from refaug.service.serving.versions.leases import Kind, VersionKey
from refaug.service.serving.versions.version_opener import explain_failure
from refaug.service.serving.versions.version_switch import PublishedName, VersionSwitch


class PublishedVersions:
    """Reads the published versions of all indexes and raters."""

    def __init__(self, stored: Mapping[Kind, Versions], defaults: Mapping[Kind, str], home: Path) -> None:
        self._stored, self._defaults, self._home = stored, defaults, home

    def read(self, switch: VersionSwitch, kind: Kind) -> list[PublishedName]:
        """Return every name that is published now."""
        artefacts = self._stored[kind]
        try:
            with os.scandir(artefacts.root) as entries:
                names = sorted(one.name for one in entries if NAME.fullmatch(one.name) and one.is_dir())
        except OSError as error:
            before = switch.before.published.get(kind, ())
            if isinstance(error, FileNotFoundError) and not before:
                return []  # no artefact of this kind exists yet
            why = f"the folder of this kind cannot be read: {error.strerror}"
            if not before:
                switch.troubles[kind] = why
            return [PublishedName(name, None, why) for name in before]
        return [one for name in names if (one := self._name_with_problem(switch, kind, name)) is not None]

    def _name_with_problem(self, switch: VersionSwitch, kind: Kind, name: str) -> PublishedName | None:
        """Return a name with its published version, or with what has happened to the version that serves."""
        published = self._published_version(self._stored[kind], name)
        if published is None:
            return self._lost_name(switch, kind, name)
        served = switch.before.opened.get((kind, name))
        is_served = served is not None and published.version == served.key.version
        if is_served and not (self._stored[kind].folder(name, published.version or "") / MANIFEST).exists():
            return PublishedName(name, None, f"its published version {published.version} was deleted: publish another")
        return published

    @staticmethod
    def _lost_name(switch: VersionSwitch, kind: Kind, name: str) -> PublishedName | None:
        """Return a name that was published before and has no CURRENT now: no command leaves it so."""
        if name not in switch.before.published.get(kind, ()):
            return None
        return PublishedName(name, None, f"its file {CURRENT} is gone: publish one of its versions")

    def read_default(self, kind: Kind, published: Sequence[str]) -> list[PublishedName]:
        """Return the default artefact of the settings if it is pinned, or if no version of it is published."""
        default = self._defaults[kind]
        if "@" in default:
            return [PublishedName(default, VersionKey.of(kind, default).version)]
        if default and default not in published:
            return [PublishedName(default, None, "it is the default of this server, and it is not published")]
        return []

    def is_published_again(self, previous: VersionKey) -> bool:
        """Return whether a version that serves is published again."""
        published = self._published_version(self._stored[previous.kind], previous.name)
        return published is not None and published.version == previous.version

    def _published_version(self, artefacts: Versions, name: str) -> PublishedName | None:
        """Return a name with its published version; None where it has none."""
        try:
            version = artefacts.current(name)
        except RefaugError as error:
            return PublishedName(name, None, explain_failure(error, self._home))
        except OSError as error:
            return PublishedName(name, None, f"what is published cannot be read: {error.strerror}")
        return None if version is None else PublishedName(name, version)
