"""Trainings that were stopped: what lies in the cache of them, which holds texts of the logs they began with."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Final

from core.errors import Corrupt, Locked
from core.files import read_json
from core.stages import Stages
from core.versions import Versions

ORDER: Final = "order.json"


def forget_stopped(networks: Versions, cache: Path, log: str) -> tuple[list[str], list[str]]:
    """Remove the stopped trainings of a kind that have texts of a log; their names, and those of trainings that run.

    After a deletion none of them could go on, and they hold what was deleted. A training that runs removes its texts
    itself when it is finished.
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
