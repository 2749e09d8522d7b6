"""The versioned artefacts of a home by kind: publishing, rolling back, removing, each with the rules of its kind.

An index with pairs that were deleted since is not published. Word vectors that an index needs are not removed, and
neither is what a fitted judge was fitted with.
Commands, jobs and HTTP routes all come here.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from refaug.core.artefacts.kinds import artefact_stores
from refaug.core.artefacts.manifests import MANIFEST
from refaug.core.artefacts.versions import Versions
from refaug.core.errors import Conflict, NotFound, RefaugError
from refaug.core.files import read_json
from refaug.core.home import Settings
from refaug.evaluation.home.judge_pins import versions_for_judges, versions_named

# ── which fitted hybrids need which versions of other artefacts: the word vectors and the models of turns they pin ────

HYBRID_KIND: Final = "hybrid"


def versions_for_hybrids(settings: Settings, kind: str, name: str) -> dict[str, list[str]]:
    """Return the versions of an artefact that hybrids need, each with these hybrids as `hybrid name@version`.

    Damaged hybrids need nothing; `refaug doctor` lists them.
    """
    hybrids = artefact_stores(settings)[HYBRID_KIND]
    needed = dict[str, list[str]]()
    for hybrid in hybrids.names():
        for hybrid_version in hybrids.versions(hybrid):
            with suppress(RefaugError, OSError, AttributeError, KeyError, TypeError):
                manifest: Any = read_json(hybrids.folder(hybrid, hybrid_version) / MANIFEST)
                for version in dict.fromkeys(_versions_in(manifest, kind, name)):
                    needed.setdefault(version, []).append(f"{HYBRID_KIND} {hybrid}@{hybrid_version}")
    return dict(sorted(needed.items()))


def _versions_in(manifest: Mapping[str, Any], kind: str, name: str) -> Iterator[str]:
    """Yield the versions of this name that a manifest pins."""
    turns = manifest["turns"] or {"rater": None, "metrics": [], "index": None}
    pinned = {"vectors": manifest["encoders"]["vectors"], "rater": turns["rater"], "index": turns["index"]}
    artefact, _, version = str(pinned.get(kind) or "").partition("#")[0].partition("@")
    if artefact == name and version:
        yield version
    yield from versions_named(turns["metrics"], kind, name)


# ── the versioned artefacts of a home by kind ─────────────────────────────────────────────────────────────────────────

# Modules that compile loops are imported in methods: listing raters needs none of them.


@dataclass(frozen=True, kw_only=True)
class RemovedVersions:
    """The removed versions, and old ones that stay: frozen sets name them, or fitted judges need them, each by name."""

    removed: list[str]
    pinned: Mapping[str, list[str]]
    needed: Mapping[str, list[str]] = field(default_factory=dict)

    def as_json(self) -> dict[str, object]:
        """Return all of them, as commands print them and jobs return them."""
        return {"removed": self.removed, "pinned": dict(self.pinned), "needed_by_judges": dict(self.needed)}


@dataclass(frozen=True)
class StoredArtefacts:
    """The artefacts of one kind in a home: a rater or a ruber depends on nothing, and a fitted judge may need it."""

    settings: Settings
    versions: Versions

    def require_publishable(self, name: str, version: str) -> None:
        """Raise an error if this version must not serve."""

    def require_sound(self, name: str, version: str, folder: Path) -> None:
        """Raise Corrupt if files that are to become this version do not fit together."""

    def publish(self, name: str, version: str, *, even_refused: bool = False) -> None:
        """Let a name stand for this version; for one that a check refused only with `even_refused`."""
        self.versions.publish(name, version, even_refused=even_refused)

    def rollback(self, name: str, to: str | None = None, *, even_refused: bool = False) -> str:
        """Let the name stand for `to`, or for the version published before, and return that version."""
        return self.versions.rollback(name, to, even_refused=even_refused)

    def gc(self, name: str, keep: int, pins: Mapping[str, list[str]] | None = None) -> RemovedVersions:
        """Remove old versions; those stay that are published, held or needed.

        So do those in `pins`: versions that frozen sets name, each with the ids of these sets.
        """
        pins, needed = pins or {}, self._needed(name)
        is_spared = self._spare(pins)
        removed = self.versions.gc(
            name, keep, lambda of_name, version: version in needed or is_spared(of_name, version)
        )
        stored = self.versions.versions(name)
        newest = {self.versions.current(name), *stored[max(0, len(stored) - keep) :]}
        is_old = {version for version in stored if version not in newest}
        return RemovedVersions(
            removed=removed,
            pinned={version: sets for version, sets in pins.items() if version in is_old},
            needed={version: judges for version, judges in needed.items() if version in is_old},
        )

    def _spare(self, pinned: Collection[str]) -> Callable[[str, str], bool]:
        """Return a function that says whether a version stays, although it is old."""
        return lambda _name, version: version in pinned

    def remove(self, name: str) -> list[str]:
        """Remove an artefact with all its versions, and return them; refused while one is held or needed."""
        self._require_no_judge(name)
        return self.versions.delete(name)

    def _needed(self, name: str) -> dict[str, list[str]]:
        """Return the versions of this name that fitted judges and hybrids need, each with these."""
        kind = self.versions.kind
        needed = versions_for_judges(self.settings, kind, name)
        for version, hybrids in versions_for_hybrids(self.settings, kind, name).items():
            needed[version] = [*needed.get(version, []), *hybrids]
        return needed

    def _require_no_judge(self, name: str) -> None:
        """Raise Conflict where a fitted judge or a hybrid needs a version of this name."""
        kind = self.versions.kind
        needed = self._needed(name)
        if at_hand := [version for version in self.versions.versions(name) if version in needed]:
            judge = needed[at_hand[0]][0]
            if judge.startswith(f"{HYBRID_KIND} "):
                raise Conflict(
                    f"{judge} was fitted with {kind} {name}@{at_hand[0]}",
                    remedy=f"remove that hybrid first: refaug {judge.partition('@')[0].replace(' ', ' remove ')} --yes",
                )
            raise Conflict(
                f"judge-fit {judge} was fitted with {kind} {name}@{at_hand[0]}",
                remedy=f"remove that judge first: refaug judge-fit remove {judge.partition('@')[0]} --yes",
            )


class StoredIndexes(StoredArtefacts):
    """Indexes: a version that holds what was deleted since cannot serve again."""

    def require_publishable(self, name: str, version: str) -> None:
        """Raise Conflict if this version holds pairs that were deleted since."""
        from refaug.evaluation.home.indexes import places_of  # noqa: PLC0415
        from refaug.indexer.building.update import require_nothing_erased  # noqa: PLC0415

        require_nothing_erased(places_of(self.settings), name, version)

    def require_sound(self, name: str, version: str, folder: Path) -> None:
        """Open the index in a folder; without its vectors this is checked when it is first opened with them."""
        from refaug.evaluation.home.indexes import places_of  # noqa: PLC0415
        from refaug.indexer.search.index import ReferenceIndex  # noqa: PLC0415

        with suppress(NotFound, Conflict):
            ReferenceIndex.of_folder(places_of(self.settings), folder, name, version).close()

    def publish(self, name: str, version: str, *, even_refused: bool = False) -> None:
        """Let a name stand for this version, unless it holds deleted pairs or a check refused it."""
        from refaug.evaluation.home.indexes import places_of  # noqa: PLC0415
        from refaug.indexer.building.update import publish_version  # noqa: PLC0415

        publish_version(places_of(self.settings), name, version, even_refused=even_refused)

    def rollback(self, name: str, to: str | None = None, *, even_refused: bool = False) -> str:
        """Let the name stand for `to`, or for the version published before, and return that version."""
        from refaug.evaluation.home.indexes import places_of  # noqa: PLC0415
        from refaug.indexer.building.update import rollback  # noqa: PLC0415

        return rollback(places_of(self.settings), name, to, even_refused=even_refused)


class StoredWordVectors(StoredArtefacts):
    """Word vectors: an index opens those that it was built with."""

    def remove(self, name: str) -> list[str]:
        """Remove word vectors with all their versions, and return these; refused where an index needs one."""
        is_needed = self._needed_by_indexes()
        for version in self.versions.versions(name):
            if is_needed(name, version):
                raise Conflict(
                    f"an index was built with vectors {name}@{version}",
                    remedy="remove that index first, or build it anew",
                )
        return super().remove(name)

    def _spare(self, pinned: Collection[str]) -> Callable[[str, str], bool]:  # noqa: ARG002  sets name no vectors
        return self._needed_by_indexes()

    def _needed_by_indexes(self) -> Callable[[str, str], bool]:
        """Return a function that says whether some index needs a version."""
        from refaug.evaluation.home.indexes import places_of, vectors_in_use  # noqa: PLC0415

        needed = vectors_in_use(places_of(self.settings))

        def is_needed(name: str, version: str) -> bool:
            manifest: Any = read_json(self.versions.folder(name, version) / MANIFEST)
            return manifest.get("sha256") in needed

        return is_needed


class StoredVhreds(StoredArtefacts):
    """Encoders of dialogues: an adem opens the one that it was fitted with."""

    def remove(self, name: str) -> list[str]:
        """Remove a vhred with all its versions, and return these; refused where an adem needs one."""
        is_needed = self._needed_by_adems()
        for version in self.versions.versions(name):
            if is_needed(name, version):
                raise Conflict(
                    f"an adem was fitted with vhred {name}@{version}", remedy="remove that adem first, or train it anew"
                )
        return super().remove(name)

    def _spare(self, pinned: Collection[str]) -> Callable[[str, str], bool]:
        is_needed = self._needed_by_adems()
        return lambda name, version: version in pinned or is_needed(name, version)

    def _needed_by_adems(self) -> Callable[[str, str], bool]:
        """Return a function that says whether some adem needs a version."""
        adems = artefact_stores(self.settings)["adem"]
        manifests: list[Any] = [
            read_json(adems.folder(name, version) / MANIFEST)
            for name in adems.names()
            for version in adems.versions(name)
        ]
        needed = {manifest.get("encoder", {}).get("id") for manifest in manifests}

        def is_needed(name: str, version: str) -> bool:
            manifest: Any = read_json(self.versions.folder(name, version) / MANIFEST)
            return manifest.get("id") in needed

        return is_needed


_RULES: Final = {"index": StoredIndexes, "vectors": StoredWordVectors, "vhred": StoredVhreds}


def stored_artefacts(settings: Settings, kind: str) -> StoredArtefacts:
    """Return the artefacts of a kind: index, rater, ruber, vectors, vhred, adem, judge-fit or self-play."""
    return _RULES.get(kind, StoredArtefacts)(settings, artefact_stores(settings)[kind])
