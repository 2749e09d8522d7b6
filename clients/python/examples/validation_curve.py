"""A curve of validation scores that never makes the training wait.

python validation_curve.py SET curve.csv

The model of this example only grows bolder. Yours takes its place in `Model`; whatever it is written in, it has no part
in the rest.
"""

from __future__ import annotations

import csv
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from refaug_client import Client, Pending


class Model:
    """Says more words of an utterance with every step."""

    def __init__(self) -> None:
        self.steps = 0

    def train(self) -> None:
        """Train one step."""
        self.steps += 1

    def reply(self, utterance: str) -> str:
        """Return the model's reply now."""
        return " ".join(utterance.split()[: self.steps]) or "yes"


STEPS, EVERY = 20, 5


def main(set_id: str, path: str) -> None:
    utterances = {"d0": "we like red boats", "d1": "how do apples fly", "d2": "the green boats are blue"}
    model = Model()
    with Path(path).open("w", newline="", encoding="utf-8") as file, Client() as refaug:
        rows = csv.writer(file)
        rows.writerow(["step", "mean", "scored"])
        with refaug.scorer(reference_set=set_id, metric="delta-bleu", on_unavailable="skip", max_wait_s=60) as scorer:
            for step in range(1, STEPS + 1):
                model.train()
                if step % EVERY == 0:
                    replies = [model.reply(text) for text in utterances.values()]
                    scorer.submit(replies, items=list(utterances), tag=step)  # returns at once
                write(rows, scorer.collect())  # what has come by now
            write(rows, scorer.drain(timeout_s=120))  # and the rest
            print(scorer.signature)
            print(scorer.report)


def write(rows: Any, finished: Iterable[Pending]) -> None:
    """Write a row for each validation whose scores are there, in the order of the steps."""
    for pending in finished:
        scores = [score for score in pending.result() if score is not None]  # a reply that was skipped has none
        rows.writerow([pending.tag, sum(scores) / len(scores) if scores else None, len(scores)])


if __name__ == "__main__":
    main(*sys.argv[1:])
