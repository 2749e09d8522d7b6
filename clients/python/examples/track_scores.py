"""Log scores in a tracker: numbers, the signature and the references as configuration, and a table of replies.

REFAUG_URL=http://127.0.0.1:8000 python track_scores.py tensorboard FOLDER
REFAUG_URL=http://127.0.0.1:8000 WANDB_MODE=offline python track_scores.py wandb FOLDER
REFAUG_URL=http://127.0.0.1:8000 python track_scores.py mlflow FOLDER

The first two steps score replies while a model trains, against a frozen set; the last one scores a test at its end.
"""

from __future__ import annotations

import sys
from typing import Any

from refaug_client import Client, Scorer

UTTERANCES = {"tea": "would you like some tea ?", "bus": "when does the bus leave ?"}
GOLDS = {"tea": "yes please , i like tea", "bus": "in ten minutes , i think"}
REPLIES = [["yes", "in"], ["yes please", "in ten minutes"]]  # what a model says after each step


def main(tracker: str, folder: str) -> None:
    items = [{"id": name, "utterance": UTTERANCES[name], "references": [GOLDS[name]]} for name in UTTERANCES]
    with Client() as refaug:
        validation = refaug.sets.freeze(items, purpose="validation", references="given")
        tests = [{**entry, "replies": {"model": GOLDS[entry["id"]]}} for entry in items]
        with refaug.scorer(reference_set=validation.id, metric="multi-bleu") as scorer:
            TRACKERS[tracker](folder, scorer, refaug.score(tests, metrics=["bleu", "chrf"]))
        print(scorer.signature)


def with_wandb(folder: str, scorer: Scorer, test_scores: Any) -> None:
    import wandb

    from refaug_client.integrations.wandb import log_scores

    with wandb.init(project="replies", dir=folder) as run:
        for step, replies in enumerate(REPLIES):
            log_scores(run, scorer, replies=replies, items=list(UTTERANCES), step=step)
        log_scores(run, test_scores, replies=list(GOLDS.values()), name="test")


def with_mlflow(folder: str, scorer: Scorer, test_scores: Any) -> None:
    import mlflow

    from refaug_client.integrations.mlflow import log_scores

    mlflow.set_tracking_uri(f"file:{folder}/mlruns")
    with mlflow.start_run():
        for step, replies in enumerate(REPLIES):
            log_scores(scorer, replies=replies, items=list(UTTERANCES), step=step)
        log_scores(test_scores, replies=list(GOLDS.values()), name="test")


def with_tensorboard(folder: str, scorer: Scorer, test_scores: Any) -> None:
    from torch.utils.tensorboard import SummaryWriter

    from refaug_client.integrations.tensorboard import log_scores

    with SummaryWriter(folder) as writer:
        for step, replies in enumerate(REPLIES):
            log_scores(writer, scorer, replies=replies, items=list(UTTERANCES), step=step)
        log_scores(writer, test_scores, replies=list(GOLDS.values()), name="test", step=len(REPLIES))


TRACKERS = {"wandb": with_wandb, "mlflow": with_mlflow, "tensorboard": with_tensorboard}

if __name__ == "__main__":
    main(*sys.argv[1:])
