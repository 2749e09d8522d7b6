"""Score the replies of many checkpoints at once, and name the best: asyncio, one request under way for each.

python best_checkpoint.py SET replies-1000.jsonl replies-2000.jsonl …

A file has a line {"id": ITEM, "reply": TEXT} for each item of the set.
"""

from __future__ import annotations

import asyncio
import json
import sys
from pathlib import Path

from refaug_client import AsyncClient, Scores


async def scored(refaug: AsyncClient, set_id: str, path: str) -> Scores:
    """Return the scores of one checkpoint's replies."""
    lines = [json.loads(line) for line in Path(path).read_text("utf-8").split("\n") if line]
    replies, items = [line["reply"] for line in lines], [line["id"] for line in lines]
    return await refaug.sets.score(set_id, replies, items=items, metric="delta-bleu", draws=1000)


async def main(set_id: str, *paths: str) -> None:
    async with AsyncClient() as refaug:
        scores_of_paths = await asyncio.gather(*(scored(refaug, set_id, path) for path in paths))
    for path, scores in zip(paths, scores_of_paths):
        print(f"{Path(path).stem:<16} {scores.corpus:.4f} {[round(end, 4) for end in scores.interval or ()]}")
    best = max(range(len(paths)), key=lambda place: scores_of_paths[place].corpus or 0.0)
    print(f"best: {Path(paths[best]).stem}")


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
