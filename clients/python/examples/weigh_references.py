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
    """The items of a file; each is kept until its references are there."""
    with Path(path).open(encoding="utf-8") as file:
        for line in file:
            waiting.append(json.loads(line))
            yield waiting[-1]


def main(path: str) -> None:
    with Client() as refaug:
        for found in refaug.references_iter(items_of(path), progress=True):  # in the order of the file
            item = waiting.popleft()
            item["references"] = [reference.to_dict() for reference in found.references]
            print(json.dumps(item, ensure_ascii=False))


if __name__ == "__main__":
    main(*sys.argv[1:])
