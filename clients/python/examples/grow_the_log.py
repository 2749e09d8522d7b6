"""Dialogues of today into the log, and into the index that references come from: two jobs, with their progress.

python grow_the_log.py chat dialogues.jsonl

The server goes on answering while the jobs run, with the versions that were published before.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

from refaug_client import Client, JobFailed


def main(log: str, path: str) -> int:
    dialogues = [json.loads(line) for line in Path(path).read_text("utf-8").split("\n") if line]
    with Client() as refaug:
        posted = refaug.logs.post(log, dialogues)
        print(f"{posted.accepted} dialogues are kept for {posted.log}")
        try:
            ingest = refaug.jobs.start("ingest", log=log, posted=True)
            refaug.jobs.wait(ingest.id, progress=True)
            update = refaug.jobs.start("index-update", index=log)
            refaug.jobs.wait(update.id, progress=True)
        except JobFailed as error:
            print(error, file=sys.stderr)
            return 1
        print(f"{refaug.logs.get(log).pairs} pairs; published: {refaug.artefacts.get('index', log).current}")
    return 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
