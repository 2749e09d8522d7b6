"""Which versions are published: what the file CURRENT of every artefact says."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

from refaug.core.artefacts.manifests import MANIFEST
from refaug.core.artefacts.versions import CURRENT, Versions
from refaug.core.errors import RefaugError
from refaug.core.files import NAME
from refaug.service.serving.versions.leases import Kind, VersionKey
from refaug.service.serving.versions.version_opener import explain_failure
from refaug.service.serving.versions.version_switch import VersionSwitch


class PublishedVersions:
    """Reads the published versions of all indexes and raters."""

    def __init__(self, stored: Mapping[Kind, Versions], defaults: Mapping[Kind, str], home: Path) -> None:
        self._stored, self._defaults, self._home = stored, defaults, home

    def read(self, switch: VersionSwitch, kind: Kind) -> dict[str, str | None]:
        """Return every name that is published now, with its version; None with a trouble in the switch."""
        artefacts = self._stored[kind]
        try:
            with os.scandir(artefacts.root) as entries:
                names = sorted(one.name for one in entries if NAME.fullmatch(one.name) and one.is_dir())
        except OSError as error:
            before = switch.before.published.get(kind, ())
            if isinstance(error, FileNotFoundError) and not before:
                return {}  # no artefact of this kind exists yet
            why = f"the folder of this kind cannot be read: {error.strerror}"
            switch.troubles |= {f"{kind} {name}": why for name in before} or {kind: why}
            return dict.fromkeys(before)
        published = dict[str, str | None]()
        for name in names:
            version, why = self._published_version(kind, name)
            if version is None and not why and name in switch.before.published.get(kind, ()):
                why = f"its file {CURRENT} is gone: publish one of its versions"  # no command leaves it so
            served = switch.before.opened.get((kind, name))
            is_served = version is not None and served is not None and served.key.version == version
            if is_served and not (artefacts.folder(name, version or "") / MANIFEST).exists():
                version, why = None, f"its published version {version} was deleted: publish another"
            if why:
                switch.troubles[f"{kind} {name}"] = why
            if version is not None or why:
                published[name] = version
        return published

    def read_default(self, switch: VersionSwitch, kind: Kind) -> dict[str, str | None]:
        """Return the default artefact of the settings if it is pinned, or if no version of it is published."""
        default = self._defaults[kind]
        if "@" in default:
            return {default: VersionKey.of(kind, default).version}
        if default and default not in switch.published[kind]:
            switch.troubles[f"{kind} {default}"] = "it is the default of this server, and it is not published"
            return {default: None}
        return {}

    def is_published_again(self, previous: VersionKey) -> bool:
        """Return whether a version that serves is published again."""
        return self._published_version(previous.kind, previous.name)[0] == previous.version

    def _published_version(self, kind: Kind, name: str) -> tuple[str | None, str]:
        """Return the version that is published under a name; None, perhaps with the reason why it cannot be read."""
        try:
            return self._stored[kind].current(name), ""
        except RefaugError as error:
            return None, explain_failure(error, self._home)
        except OSError as error:
            return None, f"what is published cannot be read: {error.strerror}"
