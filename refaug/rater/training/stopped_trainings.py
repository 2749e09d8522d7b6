"""Interrupted trainings: their remains in the cache, which hold texts of the logs they began with."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Final

from refaug.core.artefacts.build_stages import Stages
from refaug.core.artefacts.versions import Versions
from refaug.core.errors import Corrupt, Locked
from refaug.core.files import read_json

ORDER: Final = "order.json"


def remove_interrupted(networks: Versions, cache: Path, log: str) -> tuple[list[str], list[str]]:
    """Remove a kind's interrupted trainings that hold texts of a log; return their names, and those of running ones.

    After a deletion none of them could continue, and they hold what was deleted. A running training removes its
    texts itself when it finishes.
    """
    removed, running = list[str](), list[str]()
    for path in sorted(cache.glob(f"{networks.kind}-*/{ORDER}")):
        try:
            order: dict[str, Any] = read_json(path)
            name, logs = str(order["name"]), [*order["logs"], *order.get("more_texts", [])]
        except (Corrupt, KeyError, TypeError):
            continue
        if log not in logs:
            continue
        try:
            with networks.writing(name, f"removing what is left of a training of {networks.kind} {name}"):
                Stages(path.parent).drop()
            removed.append(name)
        except Locked:
            running.append(name)
    return removed, running
