"""The versioned artefacts of a home by kind: listing, showing, publishing, rolling back, removing.

A kind has a subclass of StoredArtefacts with its facts and its rules, which `core.artefacts.kinds` names: an index with
pairs that were deleted since is not published; word vectors that an index needs are not removed, and neither is what a
fitted judge was fitted with. Commands, jobs and HTTP routes all come here.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, field, fields
from pathlib import Path
from typing import Annotated, Any, ClassVar, Final

from refaug.core.artefacts.kinds import ArtefactKind, artefact_stores, encodings_in, find_kind
from refaug.core.artefacts.manifests import MANIFEST, require_files
from refaug.core.artefacts.version_locks import HeldVersion
from refaug.core.artefacts.versions import Versions
from refaug.core.errors import Conflict, Corrupt, RefaugError
from refaug.core.files import read_json
from refaug.core.home import Settings
from refaug.core.installation import load
from refaug.core.options.declaring import Doc
from refaug.metrics.specification import Specification, named_models
from refaug.tables.reports.table import Description, FactList

# ── Which fitted judges and hybrids need which versions of other artefacts: those that they were fitted with ──────────
#
# They score with nothing else: without its rater, index, encoder or word vectors a judge cannot score again.

JUDGE_KIND: Final = "judge-fit"
HYBRID_KIND: Final = "hybrid"


def versions_for_judges(settings: Settings, kind: str, name: str) -> dict[str, list[str]]:
    """Return the versions of an artefact that fitted judges need, each with these judges as `name@version`."""

    def named(manifest: Mapping[str, Any]) -> Iterator[str]:
        return versions_named(manifest["metrics"], kind, name)

    return _versions_for(settings, JUDGE_KIND, named)


def _versions_for(
    settings: Settings, user_kind: str, named: Callable[[Mapping[str, Any]], Iterable[str]]
) -> dict[str, list[str]]:
    """Return the versions that manifests of a kind name, each with those that name it.

    Every version counts, published or not. Damaged ones need nothing; `refaug admin doctor` lists them.
    """
    users, needed = artefact_stores(settings)[user_kind], dict[str, list[str]]()
    for user in users.names():
        for user_version in users.versions(user):
            with suppress(RefaugError, OSError, AttributeError, KeyError, TypeError):
                manifest: Any = read_json(users.folder(user, user_version) / MANIFEST)
                for version in dict.fromkeys(named(manifest)):
                    needed.setdefault(version, []).append(f"{user}@{user_version}")
    return dict(sorted(needed.items()))


def versions_named(metrics: Iterable[str], kind: str, name: str) -> Iterator[str]:
    """Yield the versions of an artefact that specifications of metrics name."""
    for text in metrics:
        for of_kind, spec in named_models(Specification.parse(str(text))):
            artefact, _, version = spec.partition("#")[0].partition("@")
            if of_kind == kind and artefact == name and version:
                yield version


# ── Hybrids: the word vectors and the models of turns that they pin ───────────────────────────────────────────────────


def versions_for_hybrids(settings: Settings, kind: str, name: str) -> dict[str, list[str]]:
    """Return the versions of an artefact that hybrids need, each with these hybrids as `hybrid name@version`."""
    needed = _versions_for(settings, HYBRID_KIND, lambda manifest: _versions_in(manifest, kind, name))
    return {version: [f"{HYBRID_KIND} {hybrid}" for hybrid in hybrids] for version, hybrids in needed.items()}


def _versions_in(manifest: Mapping[str, Any], kind: str, name: str) -> Iterator[str]:
    """Yield the versions of this name that a manifest pins."""
    turns = manifest["turns"] or {"rater": None, "metrics": [], "index": None}
    pinned = {"vectors": manifest["encoders"]["vectors"], "rater": turns["rater"], "index": turns["index"]}
    artefact, _, version = str(pinned.get(kind) or "").partition("#")[0].partition("@")
    if artefact == name and version:
        yield version
    yield from versions_named(turns["metrics"], kind, name)


# ── The versioned artefacts of a home by kind: listing, showing, publishing, rolling back, removing ───────────────────

_DAMAGES = (AttributeError, IndexError, KeyError, TypeError, ValueError)  # what reading an altered manifest raises


@dataclass(frozen=True, kw_only=True)
class VersionFacts:
    """The facts of a version of any kind; a kind adds its own facts."""

    id: Annotated[str | None, Doc("what signatures call its content: the first 12 digits of a SHA-256")] = None
    logs: Annotated[list[str] | None, Doc("the logs that it was made of")] = None
    bytes: Annotated[int | None, Doc("the size of its files")] = None
    created: Annotated[str | None, Doc("when it was made")] = None


@dataclass(frozen=True, kw_only=True)
class ShownVersion:
    """A version in full: `document` is what --json prints, `sections` are for people."""

    document: Mapping[str, Any]
    sections: Callable[[], Sequence[Description]]
    warnings: Sequence[str] = ()


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
    """The artefacts of one kind in a home, with the rules that all kinds share."""

    columns: ClassVar[tuple[str, ...]] = ("id",)  # the facts that a list shows to people
    fact_type: ClassVar[type[VersionFacts]] = VersionFacts
    user: ClassVar[str] = ""  # what may need a version, beside judges and hybrids: "an index was built with"
    keeps_vectors: ClassVar[bool] = False  # of texts, as encodings_in has them

    settings: Settings
    versions: Versions

    # ── facts ─────────────────────────────────────────────────────────────────────────────────────────────────────

    def read_facts(self, folder: Path, manifest: Mapping[str, Any]) -> Mapping[str, Any]:  # noqa: ARG002
        """Return the facts of this kind that a version's folder tells."""
        return {}

    def report_facts(self, report: Mapping[str, Any]) -> Mapping[str, Any]:  # noqa: ARG002
        """Return the main facts of a report, as people read them after a training."""
        return {}

    def facts(self, folder: Path) -> VersionFacts:
        """Return the facts of the version in a folder; Corrupt where its files do not tell it."""
        manifest: dict[str, Any] = read_json(folder / MANIFEST)
        try:
            details = manifest.get("details", {})
            general = {
                "id": str(manifest["id"])[:12] if "id" in manifest else None,
                "logs": list(details["logs"]) if "logs" in details else None,
                "bytes": sum(facts["size"] for facts in manifest["files"].values()),
                "created": details.get("at"),
            }
            return self.fact_type(**{**general, **self.read_facts(folder, manifest)})
        except _DAMAGES as error:
            raise Corrupt(f"{folder / MANIFEST} lacks {error}", remedy="restore it from a backup") from error

    def row(self, name: str, version: str) -> dict[str, Any]:
        """Return a version for a list; a damaged one gets a row too, with its problem, and no facts."""
        facts, problem = {fact.name: None for fact in fields(self.fact_type)}, None
        try:
            facts = asdict(self.facts(self.versions.folder(name, version)))
        except RefaugError as error:
            problem = error.message
        except FileNotFoundError:  # removed after it was listed
            problem = "it was removed in this moment"
        return {
            "version": version,
            "published": version == self.versions.current(name),
            **self._publication(name, version),
            "problem": problem,
            **facts,
        }

    def _publication(self, name: str, version: str) -> dict[str, Any]:
        """Return whether a version was ever published, and why a check refused it."""
        try:
            publications = self.versions.publications(name)
        except Corrupt:  # publishing mends the record
            return {"was_published": None, "refused": None}
        return {"was_published": version in publications.published, "refused": publications.refused.get(version)}

    def show(self, spec: str) -> ShownVersion:
        """Return a version in full."""
        with self.versions.open(spec) as held:
            manifest: dict[str, Any] = read_json(held.folder / MANIFEST)
            require_files(held.folder, manifest)
            title = f"{self.versions.kind} {held.name}@{held.version}"
            return self.shown(held, manifest, title)

    def shown(self, held: HeldVersion, manifest: dict[str, Any], title: str) -> ShownVersion:
        """Return a version in full that is held; a kind adds to the manifest and to the facts."""
        facts = self.facts(held.folder)
        return self.described(held, manifest, {}, lambda: [FactList(title, asdict(facts))])

    def described(
        self,
        held: HeldVersion,
        manifest: Mapping[str, Any],
        more: Mapping[str, Any],
        sections: Callable[[], Sequence[Description]],
        warnings: Sequence[str] = (),
    ) -> ShownVersion:
        """Return a version in full, of its manifest, what is beside it, and what people see of both."""

        def sections_if_whole() -> Sequence[Description]:
            try:
                return sections()
            except _DAMAGES as error:
                raise Corrupt(
                    f"{self.versions.kind} {held.name}@{held.version} lacks what is to be shown: {error}",
                    remedy="restore it from a backup; --json shows what is there",
                ) from error

        document = {**manifest, "kind": self.versions.kind, "name": held.name, "version": held.version, **more}
        return ShownVersion(document=document, sections=sections_if_whole, warnings=warnings)

    # ── rules ─────────────────────────────────────────────────────────────────────────────────────────────────────

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
        pins, needed, user_needs = pins or {}, self._needed(name), self.user_needs()
        removed = self.versions.gc(
            name,
            keep,
            lambda of_name, version: version in needed or version in pins or user_needs(of_name, version),
        )
        stored = self.versions.versions(name)
        newest = {self.versions.current(name), *stored[max(0, len(stored) - keep) :]}
        is_old = {version for version in stored if version not in newest}
        return RemovedVersions(
            removed=removed,
            pinned={version: sets for version, sets in pins.items() if version in is_old},
            needed={version: judges for version, judges in needed.items() if version in is_old},
        )

    def user_needs(self) -> Callable[[str, str], bool]:
        """Return a function that says whether an artefact of another kind needs a version."""
        return lambda _name, _version: False

    def left_behind(self, name: str) -> str | None:
        """Return how many texts have vectors by this artefact alone, and the command that deletes them."""
        if not self.keeps_vectors:
            return None
        contents = {
            other: {str(read_json(self.versions.folder(other, version) / MANIFEST).get("id")) for version in versions}
            for other in self.versions.names()
            if (versions := self.versions.versions(other))
        }
        only_here = contents.pop(name, set()).difference(*contents.values())
        sizes = [size for size in encodings_in(self.settings.cache).sizes() if size.content in only_here]
        if not sizes:
            return None
        commands = [f"refaug index encoder forget {content}" for content in sorted({size.content for size in sizes})]
        texts = max(size.texts for size in sizes)
        return f"vectors by {self.versions.kind} {name} are kept, {texts:,} texts: {'; '.join(commands)}"

    def remove(self, name: str) -> list[str]:
        """Remove an artefact with all its versions, and return them; refused while one is held or needed."""
        user_needs = self.user_needs()
        for version in self.versions.versions(name):
            if user_needs(name, version):
                raise Conflict(
                    f"{self.user} {self.versions.kind} {name}@{version}",
                    remedy="remove that first, or make it again with another one",
                )
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
                    remedy=f"remove that hybrid first: refaug artefacts remove {judge.partition('@')[0]} --yes",
                )
            raise Conflict(
                f"judge-fit {judge} was fitted with {kind} {name}@{at_hand[0]}",
                remedy=f"remove that judge first: refaug artefacts remove judge-fit {judge.partition('@')[0]} --yes",
            )


def rules_of(kind: ArtefactKind) -> type[StoredArtefacts]:
    """Return the class with the facts and the rules of a kind."""
    rules: type[StoredArtefacts] = load(kind.value, kind.rules)
    return rules


def stored_artefacts(settings: Settings, kind: str) -> StoredArtefacts:
    """Return the artefacts of a kind, with its rules; Usage where there is no such kind."""
    found = find_kind(kind)
    return rules_of(found)(settings, artefact_stores(settings)[found])
