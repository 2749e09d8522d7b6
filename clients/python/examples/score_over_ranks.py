"""One validation score of a model that runs on several ranks; the first of them alone asks the server.

REFAUG_URL=http://127.0.0.1:8000 torchrun --nproc-per-node 2 score_over_ranks.py

Without torchrun it is one rank, and the score is the same to the last bit: rows that the sampler repeats, so that every
rank has as many, count once.
"""

from __future__ import annotations

import os

import torch.distributed as dist
from torch.utils.data import DataLoader, DistributedSampler

from refaug_client import Client
from refaug_client.integrations.distributed import ScoreMetric, from_rank_zero, rank_and_ranks

SAID = {"tea": "would you like some tea ?", "bus": "when does the bus leave ?", "dog": "whose dog is that ?"}
REPLIED = {"tea": "yes please", "bus": "in ten minutes", "dog": "it is mine"}
ITEMS = [
    {
        "id": item_id,
        "utterance": SAID[item_id],
        "references": [REPLIED[item_id], {"text": "i do not know", "weight": -0.5}],
    }
    for item_id in SAID
]


def reply(utterance: str) -> str:
    """What the model says; yours generates it."""
    return "in ten minutes" if "bus" in utterance else "yes it is"


def main() -> None:
    if "RANK" in os.environ:  # set by torchrun
        dist.init_process_group("gloo")
    rank, ranks = rank_and_ranks()
    names = list(SAID)
    with Client() as refaug:
        frozen = from_rank_zero(lambda: refaug.sets.freeze(ITEMS, purpose="validation", references="given").id)
        with refaug.scorer(reference_set=frozen, metric="delta-bleu") as scorer:
            metric = ScoreMetric(scorer)
            sampler = DistributedSampler(names, num_replicas=ranks, rank=rank, shuffle=False)
            for places in DataLoader(range(len(names)), batch_size=2, sampler=sampler):
                some = [int(place) for place in places]
                replies = [reply(SAID[names[place]]) for place in some]
                metric.update(replies, items=[names[place] for place in some], positions=some)
            score = metric.compute()  # on every rank
    print(f"rank {rank} of {ranks}: {score.corpus!r}, {score.repeated} repeated\n{score.signature}")
    if dist.is_initialized():
        dist.destroy_process_group()


if __name__ == "__main__":
    main()
