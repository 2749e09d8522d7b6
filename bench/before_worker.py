"""One tree of refaug at work, for bench_before.py: a part of the work a line of stdin, and its seconds back.

    TREE/.venv/bin/python before_worker.py TREE PART DATA HOME

A line is a number: the run, so that both trees meet the same texts. The modules of the tree are imported from TREE.
"""

from __future__ import annotations

import os

for _variable in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "NUMBA_NUM_THREADS"):
    os.environ.setdefault(_variable, "1")  # before anything is imported that reads them

import gzip
import importlib
import json
import random
import sys
import time
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path
from typing import Any

REPLIES, REFERENCES = 2_000, 17
PAIRS, SINGLE_PAIRS = 1_000, 200


def module(name: str) -> Any:
    """Return a module of the tree."""
    return importlib.import_module(f"refaug.{name}")


def pairs_of(data_folder: Path) -> list[tuple[str, str]]:
    """Return all pairs of turns of the log, in its order."""
    with gzip.open(data_folder / "logs" / "dailydialog_en.jsonl.gz", "rt", encoding="utf-8") as lines:
        return [pair for line in lines for pair in pairwise(json.loads(line)["turns"])]


def bleu(data_folder: Path, _: Path) -> Callable[[int], None]:
    """Return the work of `bench_metrics bleu`: BLEU-2 and ΔBLEU-2 of replies from their texts, 17 references each."""
    build, references_class = module("metrics.specification").build, module("metrics.base").References
    level = module("metrics.base").Level.REPLY
    texts = sorted({text for pair in pairs_of(data_folder) for text in pair})
    plain, weighted = build("multi-bleu:tok=13a,case=lc"), build("delta-bleu:tok=13a,case=lc")
    rows = importlib.import_module("numpy").arange(REPLIES)

    def work(run: int) -> None:
        rng = random.Random(run)
        replies = rng.sample(texts, REPLIES)
        references = [tuple(rng.sample(texts, REFERENCES)) for _ in replies]
        weights = [(1.0, *(rng.uniform(-1, 1) for _ in range(REFERENCES - 1))) for _ in replies]
        ones = [references_class.unweighted(list(texts)) for texts in references]
        rated = [references_class(*both) for both in zip(references, weights, strict=True)]
        began = time.perf_counter()
        for metric, prepared in ((plain, ones), (weighted, rated)):
            metric.values(metric.statistics(replies, metric.prepare(prepared), rows, rows), level)
        answer(time.perf_counter() - began)

    return work


def search(data_folder: Path, home: Path) -> Callable[[int], None]:
    """Return the work of `bench_index search`: a batch of a thousand test pairs, and single ones."""
    places, settings = (
        module("indexer.index_folders").Places.under(home),
        module("indexer.search.search_settings").SearchSettings(),
    )
    index = module("indexer.search.index").ReferenceIndex.open(places, "medium", threads=1).__enter__()
    records = module("core.records")
    test_pair, reference = getattr(records, "TestPair", records.Item), records.Reference  # a name of earlier trees
    pairs = pairs_of(data_folder)

    def work(run: int) -> None:
        sample = random.Random(run).sample(pairs, PAIRS + SINGLE_PAIRS)
        queries = [
            test_pair(id=str(row), turns=(utterance,), references=(reference(text=response),))
            for row, (utterance, response) in enumerate(sample)
        ]
        began = time.perf_counter()
        index.search(queries[:PAIRS], settings)
        for query in queries[PAIRS:]:
            index.search([query], settings)
        answer(time.perf_counter() - began)

    return work


def answer(seconds: float) -> None:
    """Tell the seconds of a run."""
    print(seconds, flush=True)


def main() -> int:
    """Work for each line."""
    tree, part, data_folder, home = sys.argv[1:]
    sys.path[0] = tree  # in place of this file's folder
    work = {"bleu": bleu, "search": search}[part](Path(data_folder), Path(home))
    for line in sys.stdin:
        work(int(line))
    return 0


if __name__ == "__main__":
    sys.exit(main())
