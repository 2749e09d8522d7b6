"""Fail (exit code 1) when a model's new replies are worse than its old ones by more than chance explains.

python fail_when_it_drops.py SET old.jsonl new.jsonl

A file has a line {"id": ITEM, "reply": TEXT} for each item of the set. Both are scored in one request, so that they are
compared by the same metric, and reply by reply.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

from refaug_client import Client


def replies_of(path: str) -> dict[str, str]:
    """Return replies by the id of their item."""
    lines = (json.loads(line) for line in Path(path).read_text("utf-8").split("\n") if line)
    return {line["id"]: line["reply"] for line in lines}


def main(set_id: str, old_path: str, new_path: str) -> int:
    old, new = replies_of(old_path), replies_of(new_path)
    replies = {"old": list(old.values()), "new": [new.get(item) for item in old]}
    with Client() as refaug:
        scores = refaug.sets.score(
            set_id, replies, items=list(old), metric="delta-bleu", draws=1000, baseline="old", seed=1
        )
    comparison = (scores.metric.comparisons or {})["new"]
    if comparison.difference is None or comparison.interval is None or comparison.left_out:
        print(f"not every item has two replies with a score: {comparison.note or f'{comparison.left_out} left out'}")
        return 1
    low, high = comparison.interval
    print(f"{comparison.difference:+.4f} [{low:+.4f}, {high:+.4f}] {scores.signature}")
    if high < 0:
        print("the new replies are worse")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
