"""Score what a Lightning module says at every validation, and stop when it gets no better.

REFAUG_URL=http://127.0.0.1:8000 python score_in_lightning.py

The model of this example learns which of a few replies to give to which utterance; yours generates them in its
`validation_step`, and returns them in the same way.
"""

from __future__ import annotations

import tempfile
from typing import Any

import lightning.pytorch as lightning
import torch
from lightning.pytorch.callbacks import EarlyStopping
from torch.utils.data import DataLoader

from refaug_client import Client
from refaug_client.integrations.lightning import ScoreReplies

ITEMS: list[dict[str, Any]] = [
    {"id": "tea", "utterance": "would you like some tea ?", "references": ["yes please"]},
    {"id": "bus", "utterance": "when does the bus leave ?", "references": ["in ten minutes"]},
    {"id": "dog", "utterance": "whose dog is that ?", "references": ["it is mine"]},
]
REPLIES = ["yes please", "in ten minutes", "it is mine", "i do not know"]


class Chooser(lightning.LightningModule):
    """A table of utterances and replies."""

    def __init__(self) -> None:
        super().__init__()
        self.table = torch.nn.Parameter(torch.zeros(len(ITEMS), len(REPLIES)))

    def training_step(self, batch: dict[str, Any], number: int) -> torch.Tensor:
        return torch.nn.functional.cross_entropy(self.table[batch["row"]], batch["reply"])

    def validation_step(self, batch: dict[str, Any], number: int) -> dict[str, Any]:
        drawn = torch.multinomial(self.table[batch["row"]].softmax(-1), 1)
        return {"replies": [REPLIES[int(choice)] for choice in drawn], "item": batch["item"]}

    def configure_optimizers(self) -> torch.optim.Optimizer:
        return torch.optim.SGD(self.parameters(), lr=5.0)


def main(epochs: int = 8) -> None:
    lightning.seed_everything(1, verbose=False)
    weighed = [
        {**test_item, "references": [*test_item["references"], {"text": "i do not know", "weight": -0.5}]}
        for test_item in ITEMS
    ]
    rows: Any = [{"row": row, "reply": row, "item": item["id"]} for row, item in enumerate(ITEMS)]
    with Client() as refaug, tempfile.TemporaryDirectory() as folder:
        validation = refaug.sets.freeze(weighed, purpose="validation", references="given")
        with refaug.scorer(reference_set=validation.id, metric="delta-bleu") as scorer:
            score = ScoreReplies(scorer)
            stop = EarlyStopping("val_delta-bleu", mode="max", patience=3)
            trainer = lightning.Trainer(
                accelerator="cpu",
                max_epochs=epochs,
                callbacks=[score, stop],
                default_root_dir=folder,
                logger=False,
                enable_checkpointing=False,
                enable_progress_bar=False,
                enable_model_summary=False,
            )
            trainer.fit(Chooser(), DataLoader(rows, batch_size=3), DataLoader(rows, batch_size=2))
        print(f"{trainer.current_epoch} epochs, best {stop.best_score:.4f}, last {score.last.corpus:.4f}")
        print(score.last.signature)


if __name__ == "__main__":
    main()
