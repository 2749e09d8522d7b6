"""The signatures of a file of scores: what `refaug score --json` prints and the service answers."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import orjson

from refaug.core.errors import BadInput, RefaugError
from refaug.logs.reading.sources import require_readable
from refaug.metrics.signature import Signature


@dataclass(frozen=True, kw_only=True)
class CitedScores:
    """What a file says of its scores: each signature once, and the frozen set that they are against."""

    signatures: tuple[str, ...]  # full ones, where the file has them
    set_id: str | None


def signatures_in(path: Path, called: str) -> CitedScores:
    """Return the signatures of a file; BadInput where it has no scores, or one without a signature."""
    require_readable(path)
    try:
        document = orjson.loads(path.read_bytes())
    except orjson.JSONDecodeError as error:
        raise BadInput(f"{called} is not JSON: {error}", remedy="give what refaug score --json has printed") from None
    lines = dict[str, None]()
    for at, line in _lines(document, called):
        try:
            Signature.parse(line)
        except RefaugError as error:
            raise BadInput(f"{called}: {at}: {error.message}", remedy=error.remedy) from None
        lines.setdefault(line)
    of_set = document.get("set")
    set_id = of_set.get("id") if isinstance(of_set, dict) else of_set
    return CitedScores(signatures=tuple(lines), set_id=set_id if isinstance(set_id, str) else None)


def _lines(document: object, called: str) -> Iterator[tuple[str, str]]:
    """Yield the full signature of each metric with its place."""
    listed = _scores_of(document)
    if not listed:
        raise BadInput(f"{called} has no scores", remedy="give what refaug score --json has printed")
    for field, number, metric_scores in listed:
        at = f"{field}[{number}]"
        line = metric_scores.get("signature_full") or metric_scores.get("signature")
        if not isinstance(line, str):
            raise BadInput(f"{called}: {at} has no signature", remedy="give the whole file that refaug has printed")
        yield at, line


def _scores_of(document: object) -> list[tuple[str, int, Mapping[str, Any]]]:
    if not isinstance(document, dict):
        return []
    listed = {field: document.get(field) for field in ("scores", "stats")}
    return [
        (field, number, metric_scores)
        for field, content in listed.items()
        for number, metric_scores in enumerate(content if isinstance(content, list) else [])
        if isinstance(metric_scores, dict)
    ]
