"""Where scores that were computed again differ from those of a file, in the words of its fields."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from refaug.metrics.signature import Signature
from refaug.scoring.metric_setup.signature_requests import SignatureDifference, signature_differences
from refaug.scoring.score_files.score_file import StoredScores
from refaug.scoring.verification.artefact_parts import VerifiedPart

EXACT: Final = 1e-9  # the last bits of sums differ between machines
RATED: Final = 1e-5  # what a network or a vector gives depends on batches and processors by less than that
_OF_P: Final = 0.01
_RELEASE: Final = "refaug"  # a part of its own
_OF_SAMPLE: Final = "sample-"  # begins what says how ranges were measured, which the signature has
_LEVELS: Final[Mapping[str, str]] = {  # field of a system → the part that it belongs to
    "interval": "intervals",
    "mean_interval": "intervals",
    "interval_note": "intervals",
    "replies": "reply scores",
}
_INTERVAL_OF: Final[Mapping[str, str]] = {"corpus": "interval", "mean": "mean_interval"}
_INTERVALS: Final = ("interval", "mean_interval")
_SCORED: Final = ("corpus", "mean", "replies")
_LEVEL_FIELDS: Final[Mapping[str | None, Sequence[str]]] = {  # of a file with one level
    None: _SCORED,
    "corpus": ("corpus",),
    "system": ("mean",),
    "reply": ("replies",),
}
_CORPUS: Final = "corpus scores"
_RETRIEVAL: Final = "retrieval and rating"
_SHOWN: Final = 3


@dataclass(frozen=True, kw_only=True)
class Tolerance:
    """How far numbers may differ: absolutely up to the scale of scores, relatively above, as for sums."""

    share: float
    scale: float = 1.0  # 100 for scores in per cent

    def allows(self, before: float, now: float) -> bool:
        """Whether two numbers count as equal."""
        return abs(before - now) <= self.share * max(self.scale, abs(before))

    def of_field(self, name: str) -> Tolerance:
        """Return the tolerance inside a field: p values count draws, some of which are close to a tie."""
        return Tolerance(share=_OF_P) if self.share >= RATED and name.startswith("p_") else self

    def __str__(self) -> str:
        return f"{self.share * self.scale:g}"


@dataclass(frozen=True, kw_only=True)
class FieldDifference:
    """A field with another value than in the file."""

    place: str
    before: object
    now: object

    def __str__(self) -> str:
        return f"{self.place}: {_shown(self.before)} in the file, {_shown(self.now)} now"


def _shown(field: object) -> str:
    text = f"{field:.9g}" if isinstance(field, float) else str(field)
    return text if len(text) <= 80 else f"{text[:77]}…"


def field_differences(before: object, now: object, tolerance: Tolerance, place: str = "") -> Iterator[FieldDifference]:
    """Yield where `now` differs from `before`; numbers by more than the tolerance, and only in fields of `before`."""
    if isinstance(before, Mapping) and isinstance(now, Mapping):
        for key, content in before.items():
            where = f"{place}.{key}" if place else str(key)
            if key not in now:
                yield FieldDifference(place=where, before=content, now=None)
            else:
                yield from field_differences(content, now[key], tolerance.of_field(str(key)), where)
    elif isinstance(before, list) and isinstance(now, list | tuple) and len(before) == len(now):
        for number, (old, new) in enumerate(zip(before, now, strict=True)):
            yield from field_differences(old, new, tolerance, f"{place}[{_name_of(old, number)}]")
    elif _is_number(before) and _is_number(now):
        if not tolerance.allows(before, now):  # type: ignore[arg-type]
            yield FieldDifference(place=place, before=before, now=now)
    elif before != now or isinstance(before, bool) is not isinstance(now, bool):
        yield FieldDifference(place=place, before=before, now=now)


def _is_number(field: object) -> bool:
    return isinstance(field, int | float) and not isinstance(field, bool)


def _name_of(entry: object, number: int) -> object:
    return entry.get("id", number) if isinstance(entry, Mapping) else number


def score_parts(
    stored: StoredScores,
    now: Mapping[str, Any],
    share: float,
    *,
    compares: bool = False,
    level: str | None = None,
) -> Iterator[VerifiedPart]:
    """Yield a part for each level: reply scores, corpus scores with means, intervals, comparisons.

    The scale is that of the scores `now`: a file cannot widen its own tolerance. `level` is the only one of the file;
    `compares` says that the file has comparisons with a baseline, unless they were removed.
    """
    tolerance, expected = Tolerance(share=share, scale=now["scale"]), _LEVEL_FIELDS.get(level, _SCORED)
    missing = list(_missing_fields(stored, now, expected))
    by_part: dict[str, list[FieldDifference]] = {name: [] for name in _parts_of(stored, expected, missing)}
    by_part[next(iter(by_part))] += _scope_differences(stored, now)
    for absent in missing:
        by_part[_LEVELS.get(absent.place.rpartition(".")[2], _CORPUS)].append(absent)
    for system, fields in stored.systems.items():
        again = now["systems"].get(system)
        if again is None:
            by_part[next(iter(by_part))].append(FieldDifference(place=system, before="scores", now="no replies"))
            continue
        for field, content in fields.items():
            part = _LEVELS.get(field, _CORPUS)
            if part in by_part:
                by_part[part] += field_differences(content, again.get(field), tolerance, f"{system}.{field}")
    comparisons, compared = stored.document.get("comparisons") or {}, now.get("comparisons", {})
    absent_comparisons = [name for name in compared if name not in comparisons] if compares else []
    if comparisons or absent_comparisons:
        by_part["comparisons"] = [
            *field_differences(comparisons, compared, tolerance, "comparisons"),
            *(FieldDifference(place=f"comparisons.{name}", before="nothing", now="one") for name in absent_comparisons),
        ]
    for part, differences in by_part.items():
        yield _as_part(part, differences, stored, tolerance)


def _scope_differences(stored: StoredScores, now: Mapping[str, Any]) -> Iterator[FieldDifference]:
    """Yield the scale, where the file has another, and the systems of the items that the file leaves out."""
    if stored.scale != now["scale"]:
        yield FieldDifference(place="scale", before=stored.scale, now=now["scale"])
    for system in now["systems"]:
        if system not in stored.systems:
            yield FieldDifference(place=system, before="no scores", now="replies")
        elif not any(field in stored.systems[system] for field in _SCORED):
            yield FieldDifference(place=system, before="no scores", now="scores")


def _missing_fields(stored: StoredScores, now: Mapping[str, Any], expected: Sequence[str]) -> Iterator[FieldDifference]:
    """Yield the levels that were removed from systems of the file, and the intervals of the levels that it has."""
    intervals = [_INTERVAL_OF[level] for level in expected if level in _INTERVAL_OF]
    for name, fields in stored.systems.items():
        again = now["systems"].get(name)
        if again is None or not any(level in fields for level in _SCORED):
            continue
        for field in (*expected, *intervals):
            if field not in fields and again.get(field) is not None:
                yield FieldDifference(place=f"{name}.{field}", before="nothing", now=again[field])


def _has_intervals(stored: StoredScores) -> bool:
    return any(system.get(field) is not None for system in stored.systems.values() for field in _INTERVALS)


def _parts_of(stored: StoredScores, expected: Sequence[str], missing: Sequence[FieldDifference]) -> Iterator[str]:
    fields = {*expected, *(field for system in stored.systems.values() for field in system)}
    if "replies" in fields:
        yield "reply scores"
    if "corpus" in fields or "mean" in fields:
        yield _CORPUS
    if _has_intervals(stored) or any("interval" in absent.place for absent in missing):
        yield "intervals"


def _as_part(
    part: str, differences: Sequence[FieldDifference], stored: StoredScores, tolerance: Tolerance
) -> VerifiedPart:
    if not differences:
        return VerifiedPart.holds(part, f"equal within {tolerance}", stored.name)
    more = f", and {len(differences) - _SHOWN:,} more" if len(differences) > _SHOWN else ""
    return VerifiedPart.differs(part, "; ".join(map(str, differences[:_SHOWN])) + more, stored.name)


# ── Signatures ────────────────────────────────────────────────────────────────────────────────────────────────────


def signature_parts(stored: StoredScores, now: Signature, libraries: Collection[str]) -> Iterator[VerifiedPart]:
    """Yield the parts of a signature: parameters of the metric, versions of libraries, retrieval and rating.

    `libraries` are the details of `now` that name versions of libraries, tokenizers and models.
    """
    own = {"metric", *(key for key, _ in stored.signature.specification().parameters)}
    grouped: dict[str, list[SignatureDifference]] = {"metric parameters": [], "libraries": [], _RETRIEVAL: []}
    for difference in signature_differences(stored.signature, now):
        if difference.key in own:
            grouped["metric parameters"].append(difference)
        elif difference.key in libraries:
            grouped["libraries"].append(difference)
        elif difference.key != _RELEASE and not difference.key.startswith(_OF_SAMPLE):
            grouped[_RETRIEVAL].append(difference)
    holding = {"metric parameters": str(now.specification())}
    if (differing_hash := _differing_hash(stored)) is not None:
        yield VerifiedPart.differs("signature", differing_hash, stored.name)
    if libraries:
        holding["libraries"] = ", ".join(now.details[key] for key in libraries if key in now.details)
    if "mode" in now.settings:
        holding[_RETRIEVAL] = "index, rater and every setting are those of the signature"
    for part, differences in grouped.items():
        if differences:
            yield VerifiedPart.differs(part, "; ".join(map(str, differences)), stored.name)
        elif part in holding:
            yield VerifiedPart.holds(part, holding[part], stored.name)


def _differing_hash(stored: StoredScores) -> str | None:
    """Return how the short signature of the file contradicts its full one."""
    line, derived = stored.short_signature, stored.signature.short
    if line is None or line.strip() == derived:
        return None
    return f"{line} in the file; its full signature is that of {derived}"


def software_part(stored: Sequence[StoredScores], version: str) -> VerifiedPart:
    """Compare the releases that the signatures name with this one."""
    releases = sorted({scores.signature.refaug for scores in stored} - {version})
    if not releases:
        return VerifiedPart.holds("software", f"refaug {version}")
    return VerifiedPart.differs("software", f"the scores were made by refaug {', '.join(releases)}; this is {version}")
