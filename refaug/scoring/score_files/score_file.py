"""Score files: the JSON of `refaug score --json` and of POST /v1/scores, sealed when written and read back."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final, Self

from refaug.core.errors import BadInput
from refaug.core.processes.kept import cached_property
from refaug.metrics.signature import Signature
from refaug.scoring.score_files import score_document
from refaug.scoring.score_files.score_document import (
    FORMAT,
    FORMAT_VERSION,
    REMEDY,
    SCORES,
    SEAL,
    STATS,
    ScoreDetails,
    ScoreDocument,
    SignedEntry,
    is_sealed,
    lacks_seal,
    seal_of,
)
from refaug.scoring.score_files.stored_lists import StoredList
from refaug.scoring.settings import MAX_DRAWS, ScoreSettings

_EXPLAINED: Final = "without_reference"
_SCALES: Final = (1, 100)  # a score as it is, and in per cent


def sealed(document: Mapping[str, Any]) -> dict[str, object]:
    """Return scores as JSON with the version of the format, and the seal as last field."""
    content = {**document, FORMAT: FORMAT_VERSION if score_document.FIELD in document else 1}
    return {**content, SEAL: seal_of(content)}


@dataclass(frozen=True, kw_only=True)
class StoredScores:
    """The scores of one metric in a file."""

    document: Mapping[str, Any]
    signature: Signature

    @property
    def name(self) -> str:
        """The metric, as in the signature."""
        return self.signature.metric

    @property
    def systems(self) -> Mapping[str, Mapping[str, Any]]:
        """What the file says of each system."""
        systems: Mapping[str, Mapping[str, Any]] = self.document["systems"]
        return systems

    @property
    def short_signature(self) -> str | None:
        """The signature in the form that ends in a hash of the full one; None where the file has none."""
        line = self.document.get("signature")
        return line if isinstance(line, str) else None

    @property
    def scale(self) -> float:
        """100 for scores in per cent, else 1."""
        return float(self.document.get("scale", 1.0))


@dataclass(frozen=True, kw_only=True)
class ScoreFile:
    """Scores that were written, checked as far as can be without items and versions."""

    document: Mapping[str, Any]
    scores: tuple[StoredScores, ...]
    set_id: str | None = None  # of the frozen set that was scored against
    shown_name: str = "the file"
    is_stored: bool = False  # whether this refaug stores it, with the hash of all of it

    @classmethod
    def read(cls, path: Path, shown_name: str) -> Self:
        """Read a file; BadInput where it is cut off, of a newer format, or no score file."""
        return cls._of(ScoreDocument.read(path, shown_name))

    @classmethod
    def of(cls, document: object, shown_name: str) -> Self:
        """Return a document as a score file; BadInput says what else it is, or which field is wrong."""
        return cls._of(ScoreDocument.of(document, shown_name))

    @classmethod
    def of_stored(cls, document: object, shown_name: str) -> Self:
        """Return a document that this refaug stores: its long lists may lie on the disk, and are not checked again."""
        return replace(cls.of(document, shown_name), is_stored=True)

    @classmethod
    def _of(cls, document: ScoreDocument) -> Self:
        shown_name = document.shown_name
        if STATS in document.content:
            raise BadInput(f"{shown_name}: this is sums for combining, not scores", remedy=REMEDY)
        scores = tuple(map(_stored_scores, document.entries(SCORES)))
        if not scores:
            raise BadInput(f"{shown_name}: it has no scores", remedy=REMEDY)
        return cls(document=document.content, scores=scores, set_id=document.set_id, shown_name=shown_name)

    @cached_property
    def is_sealed(self) -> bool | None:
        """Whether the content fits its seal; None where there is no seal, as in answers of scores against a set."""
        return True if self.is_stored else is_sealed(self.document)

    @property
    def lacks_seal(self) -> bool:
        """Whether the seal was removed, which every file of this form was written with."""
        return lacks_seal(self.document)

    @property
    def level(self) -> str | None:
        """The level that the file has scores of, where `--level` left the others out."""
        return self.text("level")

    @property
    def baseline(self) -> str | None:
        """The system that the others are compared with, None where there are no comparisons."""
        resampling = self.document.get("resampling")
        baseline = resampling.get("baseline") if isinstance(resampling, dict) else None
        return baseline if isinstance(baseline, str) else None

    @property
    def compares(self) -> bool:
        """Whether the file names a baseline, and its level is one that comparisons are written with."""
        return self.baseline is not None and self.level != "reply"

    @property
    def inputs(self) -> Mapping[str, Any]:
        """The files that the scores were made of, as they were named; empty where the file does not say."""
        named = self.document.get("inputs")
        return named if isinstance(named, dict) else {}

    @cached_property
    def details(self) -> ScoreDetails | None:
        """The items and sums that the file has beside scores; None without them."""
        return ScoreDetails.of(self.document, self.shown_name)

    def text(self, field: str) -> str | None:
        """Return a hash that the file has, or None."""
        text = self.document.get(field)
        return text if isinstance(text, str) else None

    def settings(self, stored: StoredScores) -> ScoreSettings:
        """Return how these scores were computed; BadInput where the file says nothing usable."""
        resampling = self.document.get("resampling")
        if not isinstance(resampling, dict):
            raise BadInput("resampling: an object was expected", remedy=REMEDY)
        draws, seed, confidence = (resampling.get(name) for name in ("draws", "seed", "confidence"))
        if type(draws) is not int or type(seed) is not int or not isinstance(confidence, int | float):
            raise BadInput("resampling: draws, seed and confidence are not numbers", remedy=REMEDY)
        if not 0 <= draws <= MAX_DRAWS or not 0 <= seed < 2**32:
            raise BadInput(f"resampling: {draws} draws with the seed {seed}", remedy=REMEDY)
        return ScoreSettings(
            draws=draws,
            confidence=confidence,
            seed=seed,
            baseline=self.baseline if draws and self.baseline in stored.systems else None,
            explain=any(_is_explained(system.get("replies", [])) for system in stored.systems.values()),
        )


def _is_explained(replies: Sequence[Mapping[str, Any]]) -> bool:
    """Whether the scores of some reply are explained."""
    if isinstance(replies, StoredList):
        return replies.has_field(_EXPLAINED)
    return any(_EXPLAINED in reply for reply in replies)


def _stored_scores(signed: SignedEntry) -> StoredScores:
    """Check the fields that a verification reads; BadInput names the first that is wrong."""
    entry, where = signed.content, signed.where
    systems = entry.get("systems")
    if not isinstance(systems, dict) or not systems:
        raise BadInput(f"{where}: it has no systems", remedy=REMEDY)
    scale = entry.get("scale", 1.0)
    if isinstance(scale, bool) or scale not in _SCALES:
        raise BadInput(f"{where}.scale: {scale!r}; 1 was expected, or 100 for per cent", remedy=REMEDY)
    if not isinstance(entry.get("comparisons") or {}, dict):
        raise BadInput(f"{where}.comparisons: an object was expected", remedy=REMEDY)
    for name, system in systems.items():
        if not isinstance(system, dict):
            raise BadInput(f"{where}.systems.{name}: an object was expected", remedy=REMEDY)
        if "values" in system:
            raise BadInput(
                f"{where}.systems.{name}: this is the short form of answers, values without ids",
                remedy='ask for it with "return": "scores"',
            )
        replies = system.get("replies", [])
        if isinstance(replies, StoredList):  # of a document that this refaug wrote and checked
            continue
        if not isinstance(replies, list) or not all(isinstance(reply, dict) for reply in replies):
            raise BadInput(f"{where}.systems.{name}.replies: a list of objects was expected", remedy=REMEDY)
    return StoredScores(document=entry, signature=signed.signature)
