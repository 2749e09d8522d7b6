"""A stand-in for a server with one frozen set, whose scores follow a rule that a test knows: for faults in between.

Its answers have the shape of the real ones; test_faults.py compares them.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from typing import Any, Optional

from scripted import Asked, Said, ok, problem

SET = "5e7000000001"
ITEMS = [f"d{number}" for number in range(50)]
SIGNATURE = f"upsilon-bleu|set:{SET}|refaug:0.1.0"


def score_of(item: str, reply: str) -> float:
    """The rule: another number for every item and reply, with all the digits that a float has."""
    digest = hashlib.sha256(f"{item}\0{reply}".encode()).digest()
    return int.from_bytes(digest[:7], "big") / 2**56


def scores_of(items: Sequence[str], replies: Sequence[Optional[str]]) -> list[Optional[float]]:
    """A score for every reply."""
    return [None if reply is None else score_of(item, reply) for item, reply in zip(items, replies)]


def answer(asked: Asked) -> Said:
    """What the server says."""
    if asked.path == "/healthz":
        return ok({"status": "ok", "version": "0.1.0"})
    if not asked.path.startswith("/v1/reference-sets/"):
        return problem(404)
    if asked.method == "GET":
        return ok({"id": SET, "purpose": "train", "items": len(ITEMS), "request_id": "r"})
    body = asked.json
    values = {name: scores_of(body["items"], replies) for name, replies in body["replies"].items()}
    return ok(
        {
            "scores": [
                {
                    "metric": "upsilon-bleu",
                    "signature": SIGNATURE,
                    "signature_full": SIGNATURE,
                    "references": "0",
                    "corpus_from": "sums",
                    "higher_is_better": True,
                    "scale": 1.0,
                    "systems": {name: _system(found) for name, found in values.items()},
                }
            ],
            "data": "0",
            "items": len(set(body["items"])),
            "resampling": {"method": "percentile bootstrap over items", "draws": 0, "confidence": 0.95, "seed": 1},
            "problems": [],
            "warnings": [],
            "set": {"id": SET, "purpose": "train", "items": len(ITEMS)},
            "request_id": "r",
        }
    )


def _system(values: list[Optional[float]]) -> dict[str, Any]:
    scored = [value for value in values if value is not None]
    mean = sum(scored) / len(scored) if scored else None
    return {
        "corpus": mean,
        "interval": None,
        "mean": mean,
        "mean_interval": None,
        "interval_note": "no interval was asked for",
        "scored": len(scored),
        "unscored": len(values) - len(scored),
        "unscored_by_reason": {},
        "parts": {},
        "values": values,
    }
