"""Draws that depend on a seed and texts alone, so that neither batches nor the order of requests change them."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from math import exp


def draw_bits(*parts: object) -> int:
    """Return 64 bits from texts, numbers and lists of them."""
    return int.from_bytes(hashlib.sha256(json.dumps(parts).encode()).digest()[:8], "big")


def draw_place(count: int, *parts: object) -> int:
    """Return one of `count` places, each with the same probability."""
    return draw_bits(*parts) % count


def draw_share(*parts: object) -> float:
    """Return a number from 0 to below 1."""
    return (draw_bits(*parts) >> 11) / 2**53


def draw_by_similarity(similarities: Sequence[float], temperature: float, *parts: object) -> int:
    """Return a place, drawn with probabilities in proportion to exp(similarity / temperature)."""
    greatest = max(similarities)
    weights = [exp((similarity - greatest) / temperature) for similarity in similarities]
    point, total = draw_share(*parts) * sum(weights), 0.0
    for place, weight in enumerate(weights):
        total += weight
        if point < total:
            return place
    return len(weights) - 1  # the sum is rounded
