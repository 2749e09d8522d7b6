"""What a job has done that belongs into the audit log: versions that it published or removed, and what it erased."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

_KINDS: Final = ("index", "rater", "vectors")  # the field of a result that names the artefact


@dataclass(frozen=True, kw_only=True)
class AuditedAct:
    """One act of a job."""

    action: str
    subject: str
    details: Mapping[str, Any] = field(default_factory=dict)


def acts_of(kind: str, order: Mapping[str, Any], outcome: Mapping[str, Any] | None) -> Iterator[AuditedAct]:
    """Yield what a job that has ended did; one that did not pass its checks may have removed versions all the same."""
    facts = outcome or {}
    if kind == "erase":
        yield from _erased(order, facts)
        return
    artefact = str(facts.get("artefact") or next((name for name in _KINDS if name in facts), ""))
    name = facts.get("name") or facts.get(artefact)
    if facts.get("published") and facts.get("version"):
        yield AuditedAct(action="publish", subject=f"{artefact} {name}@{facts['version']}")
    if facts.get("removed"):
        yield AuditedAct(action="remove", subject=f"{artefact} {name}", details={"versions": list(facts["removed"])})


def _erased(order: Mapping[str, Any], facts: Mapping[str, Any]) -> Iterator[AuditedAct]:
    """Yield an erasure, whose names of speakers stay in the order alone, and what was done to indexes and sets."""
    counts = {"dialogues": len(order.get("dialogues") or ()), "speakers": len(order.get("speakers") or ())}
    yield AuditedAct(action="erase", subject=f"log {order.get('log')}", details=counts)
    for index in facts.get("indexes", ()):
        if index.get("published") and "changed" in index:
            yield AuditedAct(action="publish", subject=f"index {index['index']}@{index['version']}")
        if index.get("removed"):
            removed = {"versions": list(index["removed"])}
            yield AuditedAct(action="remove", subject=f"index {index['index']}", details=removed)
    for withdrawn in facts.get("sets", ()):
        yield AuditedAct(action="withdraw", subject=f"set {withdrawn['set']}")
