"""Where the references that a metric looked at differ from those of a score file, item by item."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from refaug.core.records import Item
from refaug.evaluation.score_files.score_file import StoredScores
from refaug.evaluation.scoring.cases import evidence_of
from refaug.evaluation.verification.part_states import VerifiedPart

_PART: Final = "references"
_SHOWN: Final = 3


def references_part(
    stored: StoredScores,
    references: str,
    evidence: object,
    items: Sequence[Item],
    *,
    tolerance: float,
    scores_agree: bool,
    is_weighted: bool,
) -> VerifiedPart:
    """Compare the hash of all references and weights; where it differs, the evidence of each item.

    Ratings may differ in their last bits between batches and processors, and with them the hash: then the evidence of
    the file decides, and where it has none, whether the scores agree. The evidence belongs to metrics that look at
    weighted references (`is_weighted`): theirs has to agree even if the hash does.
    """
    before = stored.document.get("references")
    if before is None:
        return VerifiedPart.unchecked(_PART, "the file has no hash of them", stored.name)
    if before == references:
        listed = evidence if is_weighted and isinstance(evidence, Mapping) else {}
        if differences := list(_differences(listed, items, tolerance)):
            return VerifiedPart.differs(_PART, f"{_listed(differences)}, in the evidence of the file", stored.name)
        return VerifiedPart.holds(_PART, f"{references}: all texts and weights", stored.name)
    hashes = f"{before} in the file, {references} now"
    if not isinstance(evidence, Mapping) or not evidence:
        if scores_agree and tolerance > 1e-6:
            message = f"{hashes}, but the scores agree: ratings differ in their last bits between processors"
            return VerifiedPart.unchecked(_PART, message, stored.name)
        return VerifiedPart.differs(_PART, f"{hashes}: their texts or weights are not the same", stored.name)
    differences = list(_differences(evidence, items, tolerance))
    if differences:
        return VerifiedPart.differs(_PART, f"{hashes}; {_listed(differences)}", stored.name)
    if scores_agree and tolerance > 1e-6:
        message = f"equal within {tolerance:g} item by item ({hashes}: last bits of ratings)"
        return VerifiedPart.holds(_PART, message, stored.name)
    return VerifiedPart.differs(_PART, f"{hashes}: their texts are not the same, though their weights are", stored.name)


def _listed(differences: Sequence[str]) -> str:
    more = f", and {len(differences) - _SHOWN:,} more items" if len(differences) > _SHOWN else ""
    return f"{'; '.join(differences[:_SHOWN])}{more}"


def _differences(evidence: Mapping[str, Any], items: Sequence[Item], tolerance: float) -> Iterator[str]:
    """Yield what differs, one text an item."""
    by_id = {test_item.id: test_item for test_item in items}
    for name, before in evidence.items():
        if name not in by_id:
            yield f"item {name} is not among the items"
        elif isinstance(before, Mapping) and (words := _of_item(before, evidence_of(by_id[name]), tolerance)):
            yield f"item {name}: {words}"


def _of_item(before: Mapping[str, Any], now: Mapping[str, Any], tolerance: float) -> str:
    if before.get("references") != now["references"]:
        sources = f"{_sources(before)} in the file, {_sources(now)} now"
        return f"{before.get('references')} references in the file, {now['references']} now ({sources})"
    for field in ("weights", "similarities"):
        listed, again = before.get(field), now[field]
        if not isinstance(listed, list) or len(listed) != len(again):
            return f"its {field} are others"
        pairs = zip(listed, again, strict=True)
        distance = max((_distance(old, new) for old, new in pairs), default=0.0)
        if not distance <= tolerance:
            return f"its {field} differ by up to {distance:.3g}"
    return ""


def _sources(evidence: Mapping[str, Any]) -> str:
    sources = evidence.get("sources")
    return (
        ", ".join(f"{count} {name}" for name, count in sources.items()) if isinstance(sources, Mapping) else "unknown"
    )


def _distance(before: object, now: float | None) -> float:
    if before is None or now is None:
        return 0.0 if before is now else float("inf")
    return abs(before - now) if isinstance(before, int | float) else float("inf")
