"""Find and weigh references for a test file larger than the memory: a generator in, a generator out.

python weigh_references.py items.jsonl > weighted.jsonl
"""

from __future__ import annotations

import json
import sys
from collections import deque
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from refaug_client import Client

waiting: deque[dict[str, Any]] = deque()  # read, and not yet answered: a few hundred at most


def items_of(path: str) -> Iterator[dict[str, Any]]:
    """Yield the items of a file; each waits here until its references have come."""
    with Path(path).open(encoding="utf-8") as file:
        for line in file:
            waiting.append(json.loads(line))
            yield waiting[-1]


def main(path: str) -> None:
    with Client() as refaug:
        for referenced in refaug.references_iter(items_of(path), progress=True):  # in the order of the file
            weighted_item = waiting.popleft()
            weighted_item["references"] = [reference.to_dict() for reference in referenced.references]
            print(json.dumps(weighted_item, ensure_ascii=False))


if __name__ == "__main__":
    main(*sys.argv[1:])
