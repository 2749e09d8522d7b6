"""The artefacts that signatures name, compared with those at hand: versions, word vectors, logs, frozen sets."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from enum import StrEnum
from functools import partial
from pathlib import Path
from typing import Any, Final, Self

from refaug.core.artefacts.kinds import artefact_stores
from refaug.core.artefacts.manifests import MANIFEST, require_files
from refaug.core.artefacts.removals import read_removal
from refaug.core.artefacts.verified_files import verified_files
from refaug.core.artefacts.versions import Versions
from refaug.core.errors import CheckFailed, Conflict, Corrupt, NotFound, RefaugError, Usage, Withdrawn
from refaug.core.files import NAME, read_json
from refaug.core.home import Settings
from refaug.core.progress import Progress, Silent
from refaug.metrics.signature import Signature
from refaug.rater.network_folder import TOKENIZER, WEIGHTS
from refaug.scoring.reference_sets.reference_set import ReferenceSet
from refaug.scoring.reference_sets.set_store import ReferenceSets

# ── The result of a verification: parts of a score file, each with what became of it ──────────────────────────────────


class PartState(StrEnum):
    """What became of one part; later states outweigh earlier ones in a verdict, but for `unchecked`."""

    HOLDS = "holds"
    UNCHECKED = "unchecked"  # nothing to compare it with, or nothing that scores depend on
    MISSING = "missing"  # it cannot be reproduced with what is at hand
    DIFFERS = "differs"


EXIT_CODES: Final[Mapping[PartState, int]] = {
    PartState.HOLDS: 0,
    PartState.MISSING: NotFound.exit_code,
    PartState.DIFFERS: CheckFailed.exit_code,
}


@dataclass(frozen=True, kw_only=True)
class VerifiedPart:
    """One part of a score file."""

    part: str  # file, software, index, rater, …, scores
    state: PartState
    message: str
    metric: str | None = None  # None: the part is the same for all metrics of the file

    @classmethod
    def holds(cls, part: str, message: str, metric: str | None = None) -> Self:
        """Return a part that is as it was."""
        return cls(part=part, state=PartState.HOLDS, message=message, metric=metric)

    @classmethod
    def differs(cls, part: str, message: str, metric: str | None = None) -> Self:
        """Return a part that is not as it was."""
        return cls(part=part, state=PartState.DIFFERS, message=message, metric=metric)

    @classmethod
    def missing(cls, part: str, message: str, metric: str | None = None) -> Self:
        """Return a part that is not at hand."""
        return cls(part=part, state=PartState.MISSING, message=message, metric=metric)

    @classmethod
    def unchecked(cls, part: str, message: str, metric: str | None = None) -> Self:
        """Return a part that nothing was compared with."""
        return cls(part=part, state=PartState.UNCHECKED, message=message, metric=metric)

    def as_json(self) -> dict[str, object]:
        """Return the fields that are set."""
        metric = {"metric": self.metric} if self.metric is not None else {}
        return {"part": self.part, **metric, "state": self.state.value, "message": self.message}


@dataclass(frozen=True, kw_only=True)
class Verification:
    """All parts of a score file."""

    parts: tuple[VerifiedPart, ...]

    @property
    def verdict(self) -> PartState:
        """The state of the whole: `differs` if any part differs, else `missing` if any is missing, else `holds`."""
        states = {part.state for part in self.parts}
        return next((state for state in (PartState.DIFFERS, PartState.MISSING) if state in states), PartState.HOLDS)

    @property
    def exit_code(self) -> int:
        """The exit code of the command: 0, 6 where something differs, 3 where something is missing."""
        return EXIT_CODES[self.verdict]

    def in_words(self) -> str:
        """Return the verdict as a sentence."""
        counts = {state: sum(part.state is state for part in self.parts) for state in PartState}
        unchecked = (
            f"; {counts[PartState.UNCHECKED]} without anything to compare" if counts[PartState.UNCHECKED] else ""
        )
        match self.verdict:
            case PartState.DIFFERS:
                return f"not reproduced: {_count(counts[PartState.DIFFERS])} differ{_s(counts[PartState.DIFFERS])}"
            case PartState.MISSING:
                return f"cannot be verified: {_count(counts[PartState.MISSING])} missing"
        return f"reproduced: {_count(counts[PartState.HOLDS])} hold{_s(counts[PartState.HOLDS])}{unchecked}"

    def as_json(self) -> dict[str, object]:
        """Return the verdict and the parts."""
        return {"verdict": self.verdict.value, "parts": [part.as_json() for part in self.parts]}

    def with_messages(self, change: Callable[[str], str]) -> Verification:
        """Return the verification with every message changed, such as to hide paths."""
        return Verification(parts=tuple(replace(part, message=change(part.message)) for part in self.parts))


def _count(parts: int) -> str:
    return "1 part" if parts == 1 else f"{parts:,} parts"


def _s(parts: int) -> str:
    return "s" if parts == 1 else ""


# ── The artefacts that signatures name, compared with those at hand: versions, word vectors, logs, frozen sets ────────

_DIGITS: Final = 12  # of content hashes in signatures
_NETWORKS: Final = ("rater", "ruber", "adem", "vhred")


def models_of(signature: Signature) -> list[tuple[str, str]]:
    """Return the versions that the metric of a signature needs, each with its kind; files and judges have none."""
    named = [(str(kind), spec) for kind, spec in signature.models if "@" in spec]
    vhred = signature.settings.get("vhred")  # which an adem stands on
    return named if vhred is None else [*named, ("vhred", vhred)]


def versions_of(signature: Signature) -> list[tuple[str, str]]:
    """Return the versions that a metric needs, and those that its references were found and weighed with."""
    of_references = [(kind, spec) for kind, spec in signature.settings.items() if kind in ("index", "rater")]
    return [*models_of(signature), *of_references]


def unread_bytes(home: Settings, kind: str, spec: str) -> int:
    """Return how many bytes `artefact_part` would read to compare hashes; 0 where the version is not at hand."""
    versions = artefact_stores(home)[kind]
    try:
        folder = versions.folder(*versions.resolve(spec.partition("#")[0]))
        return verified_files.unread_bytes(folder, read_json(folder / MANIFEST), _hashed_files(kind))
    except RefaugError:
        return 0


def is_at_hand(home: Settings, kind: str, spec: str) -> bool:
    """Return whether the version that `name@version#content` names is stored, with that content."""
    versions = artefact_stores(home)[kind]
    named, _, content = spec.partition("#")
    try:
        manifest = read_json(versions.folder(*versions.resolve(named)) / MANIFEST)
    except RefaugError:
        return False
    return not content or _content_of(kind, manifest) == content


def _content_of(kind: str, manifest: Mapping[str, Any]) -> str:
    return str(manifest.get("sha256" if kind == "vectors" else "id", ""))[:_DIGITS]


def artefact_part(
    home: Settings, kind: str, spec: str, *, is_needed: bool = True, progress: Progress | None = None
) -> VerifiedPart:
    """Compare the version that `name@version#content` names with the one at hand, and its files with their hashes.

    Without `is_needed`, scores can be reproduced without it: then it is no loss if it is gone.
    """
    versions = artefact_stores(home)[kind]
    named, _, content = spec.partition("#")
    try:
        name, version = versions.resolve(named)
        manifest = read_json(versions.folder(name, version) / MANIFEST)
        stored = _content_of(kind, manifest)
        if content and stored != content:
            return VerifiedPart.differs(kind, _of_other_content(versions, name, version, content, stored))
        _require_files(versions.folder(name, version), manifest, kind, progress or Silent())
    except (NotFound, Usage) as error:
        published = _published_words(versions, named)
        message = f"{_removal_words(versions, named, content) or error.message}; the signature names {spec}{published}"
        if is_needed:
            return VerifiedPart.missing(kind, message)
        return VerifiedPart.unchecked(kind, f"{message}; the references came with the items, and need it not")
    except Corrupt as error:
        return VerifiedPart.differs(kind, f"{named} is damaged: {error.message}")
    what = "the hashes of weights and tokenizer" if kind in _NETWORKS else "the hash of every file"
    return VerifiedPart.holds(kind, f"{spec}: the content and {what}{_published_words(versions, named)}")


def _published_words(versions: Versions, named: str) -> str:
    """Return which other version is published now; empty where it is this one, or none."""
    name, _, version = named.partition("@")
    try:
        published = versions.current(name) if NAME.fullmatch(name) else None
    except RefaugError:
        return ""
    return f"; published now is {name}@{published}" if published not in (None, version) else ""


def _require_files(folder: Path, manifest: Mapping[str, Any], kind: str, progress: Progress) -> None:
    """Require sizes and hashes."""
    require_files(folder, manifest)
    verified_files.require(folder, manifest, _hashed_files(kind), partial(progress.advance, 0))


def _hashed_files(kind: str) -> tuple[str, ...] | None:
    """Return the files that scores depend on, None for all: pictures of its training do not matter to a network."""
    if kind == "adem":
        from refaug.rater.adem.scorer.adem import SCORER_FILES  # noqa: PLC0415  torch

        return SCORER_FILES
    return (TOKENIZER, WEIGHTS) if kind in _NETWORKS else None


def _of_other_content(versions: Versions, name: str, version: str, content: str, stored: str) -> str:
    message = (
        f"{name}@{version} is another version of that name: its content is {stored or 'unknown'}, "
        f"the scores were made with {content}"
    )
    removal = _removal_words(versions, f"{name}@{version}", content)
    return f"{message}; {removal}" if removal else message


def _removal_words(versions: Versions, named: str, content: str) -> str:
    """Return when and why a version was removed, and whether it was the one of this content; empty if unknown."""
    name, _, version = named.partition("@")
    if NAME.fullmatch(name) is None or NAME.fullmatch(version) is None:
        return ""
    try:
        removal = read_removal(versions.root, name, version)
    except RefaugError:
        return ""
    if removal is None:
        return ""
    was = str(removal.manifest.get("id", ""))[:_DIGITS]
    which = "the one that made the scores" if content and was == content else f"its content was {was or 'unknown'}"
    return f"{versions.kind} {named} was removed at {removal.at} ({removal.purpose}): {which}"


def vectors_part(
    home: Settings, signature: Signature, *, is_needed: bool = True, progress: Progress | None = None
) -> VerifiedPart | None:
    """Compare the word vectors that a full signature names with those at hand, of that name or any other."""
    spec = signature.details.get("vectors")
    if spec is None:
        return None
    named, _, content = spec.partition("#")
    versions, unlike = artefact_stores(home)["vectors"], list[str]()
    for candidate in dict.fromkeys(
        [named, *(f"{name}@{version}" for name in versions.names() for version in versions.versions(name))]
    ):
        try:
            name, version = versions.resolve(candidate)
            manifest = read_json(versions.folder(name, version) / MANIFEST)
            if str(manifest.get("sha256", ""))[:_DIGITS] != content:
                unlike.append(candidate)
                continue
            require_files(versions.folder(name, version), manifest)
            check = partial((progress or Silent()).advance, 0)
            verified_files.require(versions.folder(name, version), manifest, check=check)
        except (NotFound, Usage):
            continue
        except Corrupt as error:
            return VerifiedPart.differs("vectors", f"{candidate} are damaged: {error.message}")
        return VerifiedPart.holds("vectors", f"{spec}: the content and the hash of every file")
    if named in unlike:
        return VerifiedPart.differs("vectors", f"{named} have another content than {content}")
    removal = _removal_words(versions, named, content)
    message = f"{removal or f'no vectors of the content {content} are here'}; the signature names {spec}"
    if is_needed:
        return VerifiedPart.missing("vectors", message)
    return VerifiedPart.unchecked("vectors", f"{message}; the references came with the items, and need them not")


def encoder_part(home: Settings, index: str, *, is_needed: bool = True) -> VerifiedPart | None:
    """Compare the encoder that an index was built with and the one that lies in its place; None where it has none."""
    from refaug.indexer.index_folders import hold_encoder  # noqa: PLC0415
    from refaug.indexer.manifest import IndexManifest  # noqa: PLC0415
    from refaug.scoring.home.indexes import places_of  # noqa: PLC0415  only where an index has one

    versions = artefact_stores(home)["index"]
    try:
        source = IndexManifest.read(versions.folder(*versions.resolve(index.partition("#")[0]))).vectors
    except RefaugError:
        return None
    if source.kind != "encoder":
        return None
    try:
        held, _ = hold_encoder(places_of(home), source, hashed=True)
    except Conflict as error:
        return VerifiedPart.differs("encoder", error.message)
    except RefaugError as error:
        state = PartState.MISSING if is_needed else PartState.UNCHECKED
        return VerifiedPart(part="encoder", state=state, message=f"{source.name} is needed: {error.message}")
    if held is not None:
        held.close()
    return VerifiedPart.holds("encoder", source.name)


def log_part(home: Settings, index: str) -> VerifiedPart | None:
    """Say whether the logs of an index are as they were; scores do not depend on them: the index holds its pairs."""
    versions = artefact_stores(home)["index"]
    try:
        name, version = versions.resolve(index.partition("#")[0])
        manifest: Mapping[str, Any] = read_json(versions.folder(name, version) / MANIFEST)
        states = {str(log["name"]): log["parts"] for log in manifest.get("logs", [])}
    except (RefaugError, KeyError, TypeError):
        return None
    notes = [note for log, parts in states.items() if (note := _log_note(home, log, parts))]
    if not notes:
        return VerifiedPart.holds("log", f"{', '.join(states)}: as when the index was built")
    return VerifiedPart.unchecked("log", f"{'; '.join(notes)}; the index holds its pairs, and the scores need no log")


def _log_note(home: Settings, name: str, parts: Mapping[str, str]) -> str:
    """Return what is otherwise with a log than when an index was built from it; empty if nothing is."""
    from refaug.logs.store import StoredLog  # noqa: PLC0415  pyarrow, which scores against a set do not need

    try:
        now = {part.sha256 for part in StoredLog.open_unchecked(home.logs, name).manifest.parts}
    except RefaugError as error:
        return f"the log {name} cannot be read: {error.message}"
    return "" if set(parts.values()) <= now else f"the log {name} has changed since"


def set_part(home: Settings, set_id: str, progress: Progress | None = None) -> tuple[VerifiedPart, ReferenceSet | None]:
    """Read all of a frozen set again; the set itself is returned if scores can be made with it."""
    sets = ReferenceSets(home.reference_sets)
    try:
        frozen = sets.open(set_id, even_withdrawn=True)
        frozen.verify(progress)
    except (NotFound, Usage) as error:
        return VerifiedPart.missing("frozen set", error.message), None
    except Corrupt as error:
        return VerifiedPart.differs("frozen set", f"{set_id} is not what was frozen: {error.message}"), None
    message = f"{frozen.id}: {frozen.manifest.items:,} items, {frozen.manifest.references:,} references, whole"
    try:
        sets.require_valid(frozen.id)
    except Withdrawn as error:
        return VerifiedPart(part="frozen set", state=PartState.HOLDS, message=f"{message}; {error.message}"), frozen
    return VerifiedPart.holds("frozen set", message), frozen
