"""Score files: the JSON of `refaug score --json` and of POST /v1/scores, sealed when written and read back.

The seal is a SHA-256 of the content in a canonical form, so a file that a program has read and written again still
fits it, whatever the spacing and the order of fields; one in which a value was changed does not.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, Final, Self

import orjson

from refaug.core.errors import BadInput, NoSource
from refaug.evaluation.scoring.score_settings import MAX_DRAWS, ScoreSettings
from refaug.evaluation.verification import score_details
from refaug.evaluation.verification.score_details import ScoreDetails
from refaug.metrics.signature import Signature

FORMAT_VERSION: Final = 2  # the newest; 1: without details
_FORMAT: Final = "format_version"
_SEAL: Final = "checksum"
_HASHES: Final = ("utterances", "replies")  # fields that came with the seal
# A server adds the id of the request to the finished answer, and the files that were scored may move.
_NOT_SEALED: Final = frozenset({_SEAL, "request_id", "inputs"})
_OPTIONS: Final = orjson.OPT_SORT_KEYS | orjson.OPT_NON_STR_KEYS | orjson.OPT_SERIALIZE_NUMPY
_SCALES: Final = (1, 100)  # a score as it is, and in per cent
_AFTER_NUMBERS: Final = (b",", b"]", b"}")
_REMEDY: Final = "give the output of refaug score --json as it was written"
_OTHER_DOCUMENTS: Final[Mapping[str, str]] = {  # a field that tells them → what they are
    "stats": "sums for combining, not scores",
    "batches": "scores of several batches together, which have no signature of all their items",
    "sets": "the agreement of refaug meta: its metrics have the signatures of scores, but its correlations are not "
    "reproduced; run refaug meta again and compare data and signatures",
    "without_gold": "the scores of refaug meta probe, whose replies are made, not given",
}


def sealed(document: Mapping[str, Any]) -> dict[str, Any]:
    """Return scores as JSON with the version of the format, and the seal as last field.

    The version is the lowest that has these fields, so that earlier releases read what they can.
    """
    content = {**document, _FORMAT: FORMAT_VERSION if score_details.FIELD in document else 1}
    return {**content, _SEAL: _seal_of(content)}


def _seal_of(document: Mapping[str, Any]) -> str:
    content = orjson.dumps({name: part for name, part in document.items() if name not in _NOT_SEALED}, option=_OPTIONS)
    for end in _AFTER_NUMBERS:  # programs write 1.0 as 1, and the other way round
        content = content.replace(b".0" + end, end)
    return hashlib.sha256(content).hexdigest()


@dataclass(frozen=True, kw_only=True)
class StoredScores:
    """The scores of one metric in a file."""

    document: Mapping[str, Any]
    signature: Signature
    is_full: bool  # whether the signature has details

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
    shown_name: str = "the file"

    @classmethod
    def read(cls, path: Path, shown_name: str) -> Self:
        """Read a file; BadInput where it is cut off, of a newer format, or no score file."""
        try:
            content = path.read_bytes()
        except (FileNotFoundError, IsADirectoryError) as error:
            raise NoSource(f"{shown_name}: no such file", remedy=_REMEDY) from error
        if not content.strip():
            raise BadInput(f"{shown_name}: the file is empty", remedy=_REMEDY)
        try:
            document = orjson.loads(content)
        except orjson.JSONDecodeError as error:
            what = "it ends in the middle: it was cut off" if _is_cut(content, error) else "it is no JSON"
            where = f"line {error.lineno}, column {error.colno}"
            raise BadInput(f"{shown_name}: {what} ({where}: {error.msg})", remedy=_REMEDY) from error
        return cls.of(document, shown_name)

    @classmethod
    def of(cls, document: object, shown_name: str) -> Self:
        """Return a document as a score file; BadInput says what else it is, or which field is wrong."""
        if not isinstance(document, dict):
            raise BadInput(f"{shown_name}: a JSON object was expected, not a {type(document).__name__}", remedy=_REMEDY)
        newest = document.get(_FORMAT)
        if isinstance(newest, int) and newest > FORMAT_VERSION:
            raise BadInput(
                f"{shown_name}: its format is {newest}; this refaug reads up to {FORMAT_VERSION}",
                remedy="verify it with the refaug that wrote it, or upgrade",
            )
        if newest is not None and (type(newest) is not int or newest < 1):
            raise BadInput(f"{shown_name}: {_FORMAT} is {newest!r}, a whole number was expected", remedy=_REMEDY)
        for field, what in _OTHER_DOCUMENTS.items():
            if field in document:
                raise BadInput(f"{shown_name}: this is {what}", remedy=_REMEDY)
        listed = document.get("scores")
        if not isinstance(listed, list) or not listed:
            raise BadInput(f"{shown_name}: it has no scores", remedy=_REMEDY)
        scores = tuple(_stored_scores(entry, f"{shown_name}: scores[{place}]") for place, entry in enumerate(listed))
        return cls(document=document, scores=scores, shown_name=shown_name)

    @cached_property
    def is_sealed(self) -> bool | None:
        """Whether the content fits its seal; None where there is no seal, in files of earlier versions."""
        seal = self.document.get(_SEAL)
        return None if seal is None else seal == _seal_of(self.document)

    @property
    def lacks_seal(self) -> bool:
        """Whether the seal was removed: a file with a version of its format, or with hashes of its texts, had one."""
        return self.is_sealed is None and any(field in self.document for field in (_FORMAT, *_HASHES))

    @property
    def level(self) -> str | None:
        """The level that the file has scores of, where `--level` left the others out."""
        return self.text("level")

    @property
    def names_draws(self) -> bool:
        """Whether the file says how many draws its intervals are of."""
        resampling = self.document.get("resampling")
        return isinstance(resampling, dict) and "draws" in resampling

    @property
    def baseline(self) -> str | None:
        """The system that the others are compared with, where the file names it; files of earlier releases do not."""
        resampling = self.document.get("resampling")
        baseline = resampling.get("baseline") if isinstance(resampling, dict) else None
        return baseline if isinstance(baseline, str) else None

    @property
    def compares(self) -> bool:
        """Whether the file names a baseline, and its level is one that comparisons are written with."""
        return self.baseline is not None and self.level != "reply"

    @property
    def set_id(self) -> str | None:
        """The id of the frozen set that was scored against."""
        named = self.document.get("set")
        named = named.get("id") if isinstance(named, dict) else named
        return named if isinstance(named, str) else None

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
        resampling = self.document.get("resampling", {})
        if not isinstance(resampling, dict):
            raise BadInput("resampling: an object was expected", remedy=_REMEDY)
        comparisons = stored.document.get("comparisons") or {}
        draws, seed = resampling.get("draws", 0), resampling.get("seed", ScoreSettings.seed)
        confidence = resampling.get("confidence", ScoreSettings.confidence)
        if type(draws) is not int or type(seed) is not int or not isinstance(confidence, int | float):
            raise BadInput("resampling: draws, seed and confidence are not numbers", remedy=_REMEDY)
        if not 0 <= draws <= MAX_DRAWS or not 0 <= seed < 2**32:
            raise BadInput(f"resampling: {draws} draws with the seed {seed}", remedy=_REMEDY)
        baselines = [system for system in stored.systems if system not in comparisons] if comparisons else []
        if (baseline := self.baseline) is not None and baseline in stored.systems:
            baselines = [baseline]
        return ScoreSettings(
            draws=draws,
            confidence=confidence,
            seed=seed,
            baseline=baselines[0] if len(baselines) == 1 and draws else None,
            explain=any("without_reference" in reply for reply in _replies(stored)),
        )


def _replies(stored: StoredScores) -> list[Mapping[str, Any]]:
    return [reply for system in stored.systems.values() for reply in system.get("replies", [])]


def _is_cut(content: bytes, error: orjson.JSONDecodeError) -> bool:
    """Whether reading failed at the end of the content, not before."""
    return error.pos >= len(content.decode("utf-8", "replace").rstrip()) - 1


def _stored_scores(entry: object, where: str) -> StoredScores:
    """Check the fields that a verification reads; BadInput names the first that is wrong."""
    if not isinstance(entry, dict):
        raise BadInput(f"{where}: an object was expected", remedy=_REMEDY)
    line = entry.get("signature_full") or entry.get("signature")
    if not isinstance(line, str):
        raise BadInput(f"{where}: it has no signature", remedy=_REMEDY)
    systems = entry.get("systems")
    if not isinstance(systems, dict) or not systems:
        raise BadInput(f"{where}: it has no systems", remedy=_REMEDY)
    scale = entry.get("scale", 1.0)
    if isinstance(scale, bool) or scale not in _SCALES:
        raise BadInput(f"{where}.scale: {scale!r}; 1 was expected, or 100 for per cent", remedy=_REMEDY)
    if not isinstance(entry.get("comparisons") or {}, dict):
        raise BadInput(f"{where}.comparisons: an object was expected", remedy=_REMEDY)
    for name, system in systems.items():
        if not isinstance(system, dict):
            raise BadInput(f"{where}.systems.{name}: an object was expected", remedy=_REMEDY)
        if "values" in system:
            raise BadInput(
                f"{where}.systems.{name}: this is the short form of answers, values without ids",
                remedy='ask for it with "return": "scores"',
            )
        replies = system.get("replies", [])
        if not isinstance(replies, list) or not all(isinstance(reply, dict) for reply in replies):
            raise BadInput(f"{where}.systems.{name}.replies: a list of objects was expected", remedy=_REMEDY)
    return StoredScores(document=entry, signature=Signature.parse(line), is_full="signature_full" in entry)
