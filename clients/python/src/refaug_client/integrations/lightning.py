"""A Lightning callback that scores what `validation_step` and `test_step` have generated.

On several ranks, rank 0 alone asks the server, and an error there is raised on all of them.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any, Optional

try:
    from lightning.pytorch import Callback, LightningModule, Trainer
except ImportError:
    from pytorch_lightning import Callback, LightningModule, Trainer

from refaug_client import _errors as errors
from refaug_client.integrations.distributed import ScoreMetric, ScoreOfAll


class ScoreReplies(Callback):  # type: ignore[misc,unused-ignore]  # its base is Any where it is not installed
    """Logs the score of all replies of a validation, or of a test.

        def validation_step(self, batch, number):
            …
            return {"loss": loss, "replies": texts, "item": batch["item"]}

        Trainer(callbacks=[ScoreReplies(scorer)])  # logs val_upsilon-bleu, and with trainer.test test_upsilon-bleu

    `replies`, `item` and `position` name what is looked for in the step's result, and then in the batch: texts, ids of
    the reference set's items, and, if they are there, the places in the data. Rows that a distributed sampler repeats
    count once, as in `ScoreMetric`; `repeated` says how where there are no positions. A score that is not there is
    logged as NaN: with `on_unavailable="skip"`, give EarlyStopping `check_finite=False`.
    """

    def __init__(
        self,
        scorer: Any,
        *,
        name: Optional[str] = None,
        replies: str = "replies",
        item: str = "item",
        position: str = "position",
        repeated: str = "same",
    ) -> None:
        self.scorer = scorer
        self.name = name
        self.names = (replies, item, position)
        self.repeated = repeated
        self.last: Optional[ScoreOfAll] = None  # what the last validation found, signature and all
        self._metrics: dict[int, ScoreMetric] = {}
        ScoreMetric(scorer, repeated=repeated)  # refuses what makes no sense now, not after an epoch

    # ── validation ────────────────────────────────────────────────────────────────────────────────────────────────────

    def on_validation_epoch_start(self, trainer: Trainer, pl_module: LightningModule) -> None:
        """Begin anew."""
        self._metrics = {}

    def on_validation_batch_end(
        self,
        trainer: Trainer,
        pl_module: LightningModule,
        outputs: Any,
        batch: Any,
        batch_idx: int,
        dataloader_idx: int = 0,
    ) -> None:
        """Keep this batch's replies."""
        self._update(outputs, batch, dataloader_idx)

    def on_validation_epoch_end(self, trainer: Trainer, pl_module: LightningModule) -> None:
        """Score all of them; what is generated to check that a step works is not scored."""
        if not trainer.sanity_checking:
            self._log("val", trainer, pl_module, _count(trainer.val_dataloaders))

    # ── test ──────────────────────────────────────────────────────────────────────────────────────────────────────────

    def on_test_epoch_start(self, trainer: Trainer, pl_module: LightningModule) -> None:
        """Begin anew."""
        self._metrics = {}

    def on_test_batch_end(
        self,
        trainer: Trainer,
        pl_module: LightningModule,
        outputs: Any,
        batch: Any,
        batch_idx: int,
        dataloader_idx: int = 0,
    ) -> None:
        """Keep this batch's replies."""
        self._update(outputs, batch, dataloader_idx)

    def on_test_epoch_end(self, trainer: Trainer, pl_module: LightningModule) -> None:
        """Score all of them."""
        self._log("test", trainer, pl_module, _count(trainer.test_dataloaders))

    # ── both ──────────────────────────────────────────────────────────────────────────────────────────────────────────

    def _metric(self, loader: int) -> ScoreMetric:
        return self._metrics.setdefault(loader, ScoreMetric(self.scorer, repeated=self.repeated))

    def _update(self, outputs: Any, batch: Any, loader: int) -> None:
        replies, items, positions = (_found(name, outputs, batch) for name in self.names)
        if replies is None:  # one of several loaders may be there for its loss alone
            return
        if items is None:
            raise errors.Usage(
                f"replies without {self.names[1]!r}: which items are they to?",
                remedy="the items' ids in the batch, or in what the step returns",
            )
        self._metric(loader).update(replies, items, positions)

    def _log(self, stage: str, trainer: Trainer, pl_module: LightningModule, loaders: int) -> None:
        found = [self._metric(loader).compute() for loader in range(loaders)]  # the same loaders on every rank
        if not any(_has_replies(one) for one in found):
            raise errors.Usage(
                f"no step returned {self.names[0]!r}", remedy=f"return {{{self.names[0]!r}: texts, …}} from the step"
            )
        for loader, one in enumerate(found):
            if _has_replies(one):
                self.last = one
                end = f"/{loader}" if loaders > 1 else ""
                name = self.name or f"{stage}_{one.metric}"
                self._log_one(f"{name}{end}", one.corpus, trainer, pl_module)
                self._log_one(f"{name}_unscored{end}", float(one.unscored + one.unavailable), trainer, pl_module)

    def _log_one(self, name: str, value: Optional[float], trainer: Trainer, pl_module: LightningModule) -> None:
        # all ranks have the same number, and the greatest of them is that very number, which their mean need not be
        pl_module.log(
            name,
            math.nan if value is None else value,
            on_step=False,
            on_epoch=True,
            reduce_fx="max",
            sync_dist=trainer.world_size > 1,
            batch_size=1,
            add_dataloader_idx=False,
        )


def _has_replies(found: ScoreOfAll) -> bool:
    return found.scored + found.unscored + found.unavailable > 0


def _found(name: str, outputs: Any, batch: Any) -> Any:
    for where in (outputs, batch):
        if isinstance(where, Mapping) and where.get(name) is not None:
            value = where[name]
            return value.tolist() if hasattr(value, "tolist") else value
    return None


def _count(loaders: Any) -> int:
    """How many loaders a stage has; Lightning keeps one, a list, or a mapping of them."""
    return len(loaders) if isinstance(loaders, (list, tuple, Mapping)) else 1
