"""Score the systems of a test file, of any length, and say which differ from the first one by more than chance.

python score_file.py items.jsonl upsilon-bleu chrf
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from refaug_client import Client


def items_of(path: str) -> Iterator[dict[str, Any]]:
    """Yield the items of a file, one a line."""
    with Path(path).open(encoding="utf-8") as file:
        yield from (json.loads(line) for line in file if line.strip())


def main(path: str, *metrics: str) -> None:
    first, *_ = next(items_of(path))["replies"]
    with Client() as refaug:
        scores = refaug.score(items_of(path), metrics=metrics, draws=1000, baseline=first, progress=True)
    for scored in scores:
        print(scored.signature)
        for name, system in scored.systems.items():
            low, high = system.interval or (float("nan"), float("nan"))
            print(f"  {name:<12} {system.corpus:.4f} [{low:.4f}, {high:.4f}] {compared(scored, name)}")


def compared(scored: Any, name: str) -> str:
    """Return how far a system is from the baseline, and whether that may be chance."""
    comparison = (scored.comparisons or {}).get(name)
    if comparison is None or comparison.difference is None:
        return ""
    return f"{comparison.difference:+.4f}, p = {comparison.p_randomisation:.3f}"


if __name__ == "__main__":
    main(*sys.argv[1:])
