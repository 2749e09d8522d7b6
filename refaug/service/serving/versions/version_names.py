"""Which version a request means by a name, by `name@version`, or by naming nothing."""

from __future__ import annotations

from collections.abc import Container, Mapping
from typing import Final

from refaug.core.artefacts.versions import Versions
from refaug.core.errors import Conflict, NotFound, RefaugError, Unavailable
from refaug.core.files import require_name
from refaug.service.serving.versions.leases import Kind, ServedVersions, VersionKey


class NoIndex(Conflict):
    """An index is needed, and none is published."""

    code = "no_index"


class NoRater(Conflict):
    """A rater is needed, and none is published."""

    code = "no_rater"


class NoDefaultIndex(Conflict):
    """No index was named, and there is none that every request means."""

    code = "no_default_index"


class NoDefaultRater(Conflict):
    """No rater was named, and there is none that every request means."""

    code = "no_default_rater"


_NONE_PUBLISHED: Final[Mapping[Kind, type[Conflict]]] = {"index": NoIndex, "rater": NoRater}
_NO_DEFAULT: Final[Mapping[Kind, type[Conflict]]] = {"index": NoDefaultIndex, "rater": NoDefaultRater}
_REMEDIES: Final[Mapping[Kind, str]] = {
    "index": "build one and publish it",
    "rater": 'train one, or give "settings" that need none: "preset": "refaug-1", or "weights": "one", "parrot": "off"',
}


class VersionNames:
    """Resolves the names of requests to versions."""

    def __init__(self, stored: Mapping[Kind, Versions], defaults: Mapping[Kind, str]) -> None:
        self._stored, self._defaults = stored, defaults

    def resolve(
        self, served_versions: ServedVersions, kind: Kind, spec: str | None, *, opened: Container[VersionKey]
    ) -> VersionKey:
        """Return the version that a request means; NotFound, Conflict or Unavailable where there is none."""
        if not spec:
            spec = self._default_name(served_versions, kind)
        served = served_versions.opened.get((kind, spec))
        if served is not None:
            return served.key
        if "@" in spec:
            return self._resolve_pinned(kind, spec, opened)
        require_name(kind, spec)
        if f"{kind} {spec}" in served_versions.troubles and spec in served_versions.published.get(kind, ()):
            why = served_versions.troubles[f"{kind} {spec}"]
            raise Unavailable(f"{kind} {spec} cannot be used now: {why}", remedy="name another one, or try again later")
        if not served_versions.is_loaded or self._is_published(kind, spec):
            raise Unavailable(f"{kind} {spec} is being opened", remedy="try again in a moment")
        raise self._not_published(served_versions, kind, spec)

    def _default_name(self, served: ServedVersions, kind: Kind) -> str:
        """Return the name that a request without a name means."""
        if self._defaults[kind]:
            return self._defaults[kind]
        if not served.is_loaded:
            raise Unavailable("indexes and raters are being opened", remedy="try again in a moment")
        names = served.published.get(kind, ())
        if not names:
            raise _NONE_PUBLISHED[kind](f"no {kind} is published", remedy=_REMEDIES[kind])
        if len(names) > 1:
            raise _NO_DEFAULT[kind](
                f"no {kind} was named, and several are published", remedy=f"name one of: {', '.join(names)}"
            )
        return names[0]

    def _resolve_pinned(self, kind: Kind, spec: str, opened: Container[VersionKey]) -> VersionKey:
        """Return the version with this `name@version`, which is open or lies on disk."""
        key = VersionKey.of(kind, spec)
        require_name(kind, key.name)
        if key in opened:
            return key
        versions = self._stored[kind].versions(key.name)
        if not versions:
            raise self._unknown(kind, key.name)
        if key.version not in versions:
            listed = ", ".join(f"{key.name}@{one}" for one in versions)
            raise NotFound(f"there is no {kind} {spec!r}", remedy=f"there are: {listed}")
        return key

    def _is_published(self, kind: Kind, name: str) -> bool:
        """Return whether the name was published after the last refresh."""
        try:
            return self._stored[kind].current(name) is not None
        except (RefaugError, OSError):
            return False

    def _not_published(self, served: ServedVersions, kind: Kind, name: str) -> RefaugError:
        """Return the error for a name that has no published version."""
        if versions := self._stored[kind].versions(name):
            listed = ", ".join(f"{name}@{one}" for one in versions)
            message = f"{kind} {name} has versions, but none of them is published"
            return Conflict(message, remedy=f"publish one, or name one: {listed}")
        if name == self._defaults[kind]:
            published = ", ".join(served.published.get(kind, ())) or "none"
            message = f"{kind} {name}, the default of this server, is not published"
            return _NO_DEFAULT[kind](message, remedy=f"publish it, or name another one; published are: {published}")
        if not served.published.get(kind):
            return _NONE_PUBLISHED[kind](f"no {kind} is published, and {name!r} is not there", remedy=_REMEDIES[kind])
        return self._unknown(kind, name)

    def _unknown(self, kind: Kind, name: str) -> NotFound:
        names = ", ".join(self._stored[kind].names()) or "none yet"
        return NotFound(f"there is no {kind} {name!r}", remedy=f"there are: {names}")
