"""The manifest of a log: its parts, the ingests that added them, and what was deleted."""

from __future__ import annotations

import re
import sys
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path
from typing import Any, Final, Self

from refaug.core import files
from refaug.core.artefacts.manifests import require_format
from refaug.core.errors import Conflict, Corrupt
from refaug.core.version import VERSION

FORMAT_VERSION: Final = 1
MANIFEST: Final = "manifest.json"
PACKAGES: Final = ("pyarrow", "duckdb", "orjson", "xxhash", "regex")  # that can change a log's content
_PART: Final = re.compile(r"part-(\d{5,})(?:\.r(\d+))?\.parquet")


@dataclass(frozen=True, kw_only=True)
class LogPart:
    """One Parquet file of a log."""

    file: str
    size: int
    sha256: str
    pairs: int


@dataclass(frozen=True, kw_only=True)
class LogSource:
    """One ingested file, and the counts of its rows."""

    name: str
    size: int
    sha256: str
    format: str
    counts: Mapping[str, int]


@dataclass(frozen=True, kw_only=True)
class LogIngest:
    """One run of `refaug log ingest`."""

    key: str
    at: str
    settings: Mapping[str, Any]
    sources: tuple[LogSource, ...]
    counts: Mapping[str, int]

    @property
    def language(self) -> str:
        """The language named for cleaning; English if none was named."""
        cleaning = self.settings.get("cleaning")
        return str((cleaning.get("language") if isinstance(cleaning, Mapping) else None) or "en")


@dataclass(frozen=True, kw_only=True)
class Erasure:
    """Deleted speakers and dialogues that stay out, as keys from which names cannot be read."""

    speakers: tuple[str, ...] = ()
    dialogues: tuple[str, ...] = ()


@dataclass(frozen=True, kw_only=True)
class LogManifest:
    """The content of a log folder and its history; written last, so a folder without it is no log."""

    name: str
    created: str
    updated: str
    parts: tuple[LogPart, ...] = ()
    ingests: tuple[LogIngest, ...] = ()
    totals: Mapping[str, int] = field(default_factory=dict)
    erased: Erasure = Erasure()
    removed: Mapping[str, int] = field(default_factory=dict)
    software: Mapping[str, str] = field(default_factory=dict)
    next_part: int = 1  # numbers are never used again: a reader with an old manifest must not meet new pairs
    format_version: int = FORMAT_VERSION
    kind: str = "log"

    @classmethod
    def new(cls, name: str) -> Self:
        """Return the manifest of a log without parts."""
        return cls(name=name, created=now(), updated=now(), software=software())

    @classmethod
    def read(cls, folder: Path) -> Self:
        """Read and check a manifest; Corrupt names the file and the field."""
        path = folder / MANIFEST
        content = files.read_json(path)
        require_format(path, content, "log", FORMAT_VERSION)
        try:
            return cls(
                **{
                    **content,
                    **{name: _require_object(content, name) for name in ("totals", "removed", "software")},
                    "parts": tuple(LogPart(**part) for part in _require_list(content, "parts")),
                    "ingests": tuple(_read_ingest(ingest) for ingest in _require_list(content, "ingests")),
                    "erased": Erasure(**{key: tuple(ids) for key, ids in dict(content["erased"]).items()}),  # type: ignore[call-overload]
                }  # type: ignore[arg-type]
            )
        except (KeyError, TypeError, ValueError) as error:
            raise Corrupt(f"{path}: {error}") from error

    def write(self, folder: Path) -> None:
        """Publish: once this returns, the log is what this manifest says."""
        files.write_json(folder / MANIFEST, files.with_checksum(asdict(self)))

    def source_fingerprints(self) -> dict[tuple[str, ...], LogIngest]:
        """Return the SHA-256 of ingested files (of line-aligned files, both), with the run that added them."""
        fingerprints = dict[tuple[str, ...], LogIngest]()
        for ingest in self.ingests:
            hashes = [source.sha256 for source in ingest.sources]
            group_size = 2 if ingest.settings.get("format") == "aligned" else 1
            for first in range(0, len(hashes), group_size):
                fingerprints.setdefault(tuple(hashes[first : first + group_size]), ingest)
        return fingerprints

    def first_free_part(self) -> int:
        """Return the number for the next part."""
        numbers = (match[1] for part in self.parts if (match := _PART.fullmatch(part.file)))
        return max([self.next_part, *(int(number) + 1 for number in numbers)])


def _require_object(content: Mapping[str, object], name: str) -> Mapping[str, Any]:
    entries = content[name]
    if not isinstance(entries, dict):
        raise TypeError(f"{name} is not an object")
    return entries


def _require_list(content: Mapping[str, object], name: str) -> list[Mapping[str, Any]]:
    entries = content[name]
    if not isinstance(entries, list):
        raise TypeError(f"{name} is not a list")
    return entries


def _read_ingest(content: Mapping[str, Any]) -> LogIngest:
    return LogIngest(**{**content, "sources": tuple(LogSource(**source) for source in content["sources"])})


def now() -> str:
    """Return the current time in UTC, to the second."""
    return datetime.now(UTC).isoformat(timespec="seconds")


def software() -> dict[str, str]:
    """Return the versions of the software that can change a log's content."""
    return {
        "refaug": VERSION,
        "python": sys.version.split()[0],
        **{package: version(package) for package in PACKAGES},
    }


def part_name(number: int, revision: int = 0) -> str:
    """Return part-00003.parquet; after deletions part-00003.r1.parquet, part-00003.r2.parquet."""
    return f"part-{number:05}{f'.r{revision}' if revision else ''}.parquet"


def next_revision(file: str) -> str:
    """Return the name for the remainder of a part."""
    match = _PART.fullmatch(file)
    assert match is not None, file
    return part_name(int(match[1]), int(match[2] or 0) + 1)


def _differing_settings(new: Mapping[str, Any], old: Mapping[str, Any]) -> list[str]:
    """Return the names of the settings that differ, those inside others with a dot."""
    names = list[str]()
    for key, after in new.items():
        before = old.get(key)
        if isinstance(after, Mapping) and isinstance(before, Mapping):
            names += [f"{key}.{inner}" for inner in sorted({*after, *before}) if after.get(inner) != before.get(inner)]
        elif after != before:
            names.append(key)
    return names


_OF_THE_LOG: Final = ("cleaning", "blocked_speakers")


def require_same_settings(
    ingest: LogIngest, settings: Mapping[str, Any], default: Mapping[str, Any], source: str
) -> None:
    """Refuse to add the same file again if the order names another way of reading it.

    Settings at their default are not named, and cleaning belongs to the log, so that neither stops a later ingest.
    """
    named = {
        name: setting for name, setting in settings.items() if name not in _OF_THE_LOG and setting != default[name]
    }
    differing = _differing_settings(named, ingest.settings)
    if differing:
        raise Conflict(
            f"{source} is in the log already, ingested with another {', another '.join(differing)}",
            remedy="use another log name, or delete the log first",
        )
