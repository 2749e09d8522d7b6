"""Each process of a pool has a separate client: the client is pickled like any other value.

python worker_processes.py SET
"""

from __future__ import annotations

import multiprocessing
import sys
from functools import partial

from refaug_client import Client


def score_of(refaug: Client, set_id: str, reply: str) -> float:
    """Return one reply's score; a worker makes its connections with its first request."""
    return refaug.sets.score(set_id, [reply], items=["d0"], metric="delta-bleu").floats(missing=0.0)[0]


def main(set_id: str) -> None:
    replies = ["we like red boats", "apples are blue", "we like green apples", "no"]
    with Client() as refaug, multiprocessing.get_context("spawn").Pool(2) as pool:
        for reply, score in zip(replies, pool.map(partial(score_of, refaug, set_id), replies)):
            print(f"{score:.4f} {reply}")


if __name__ == "__main__":
    main(*sys.argv[1:])
