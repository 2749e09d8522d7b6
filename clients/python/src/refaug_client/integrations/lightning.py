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

from refaug_client._core import errors
from refaug_client.integrations.distributed import ScoreMetric, ScoreOfAll


class ScoreReplies(Callback):  # type: ignore[misc,unused-ignore]  # its base is Any where it is not installed
    """Logs the score of all replies of a validation, or of a test.

        def validation_step(self, batch, number):
            …
            return {"loss": loss, "replies": texts, "item": batch["item"]}

        Trainer(callbacks=[ScoreReplies(scorer)])  # logs val_upsilon-bleu, and with trainer.test test_upsilon-bleu

    `replies`, `item` and `position` are the names under which texts, ids of the reference set's items and, if they are
    there, places in the data are looked up in the step's result, and then in the batch. Rows that a distributed sampler
    repeats count once, as in `ScoreMetric`; `repeated` says how where there are no positions. A missing score is logged
    as NaN: with `on_unavailable="skip"`, give EarlyStopping `check_finite=False`.
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
        """Forget the replies of the last time."""
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
        """Add this batch's replies."""
        self._update(outputs, batch, dataloader_idx)

    def on_validation_epoch_end(self, trainer: Trainer, pl_module: LightningModule) -> None:
        """Score all replies; those of the sanity check are not scored."""
        if not trainer.sanity_checking:
            self._log("val", trainer, pl_module, _count(trainer.val_dataloaders))

    # ── test ──────────────────────────────────────────────────────────────────────────────────────────────────────────

    on_test_epoch_start = on_validation_epoch_start
    on_test_batch_end = on_validation_batch_end

    def on_test_epoch_end(self, trainer: Trainer, pl_module: LightningModule) -> None:
        """Score all replies."""
        self._log("test", trainer, pl_module, _count(trainer.test_dataloaders))

    # ── both ──────────────────────────────────────────────────────────────────────────────────────────────────────────

    def _metric(self, loader: int) -> ScoreMetric:
        return self._metrics.setdefault(loader, ScoreMetric(self.scorer, repeated=self.repeated))

    def _update(self, outputs: Any, batch: Any, loader: int) -> None:
        replies, items, positions = (_field_of(name, outputs, batch) for name in self.names)
        if replies is None:  # one of several loaders may be there for its loss alone
            return
        if items is None:
            raise errors.Usage(
                f"replies without {self.names[1]!r}: which items are they to?",
                remedy="the items' ids in the batch, or in what the step returns",
            )
        self._metric(loader).update(replies, items, positions)

    def _log(self, stage: str, trainer: Trainer, pl_module: LightningModule, loaders: int) -> None:
        scores_of_loaders = [
            self._metric(loader).compute() for loader in range(loaders)
        ]  # the same loaders on every rank
        if not any(_has_replies(one) for one in scores_of_loaders):
            raise errors.Usage(
                f"no step returned {self.names[0]!r}", remedy=f"return {{{self.names[0]!r}: texts, …}} from the step"
            )
        for loader, score in enumerate(scores_of_loaders):
            if _has_replies(score):
                self.last = score
                end = f"/{loader}" if loaders > 1 else ""
                name = self.name or f"{stage}_{score.metric}"
                self._log_one(f"{name}{end}", score.corpus, trainer, pl_module)
                self._log_one(f"{name}_unscored{end}", float(score.unscored + score.unavailable), trainer, pl_module)

    def _log_one(self, name: str, number: Optional[float], trainer: Trainer, pl_module: LightningModule) -> None:
        # all ranks have the same number, and their maximum is that number, which their mean need not be
        pl_module.log(
            name,
            math.nan if number is None else number,
            on_step=False,
            on_epoch=True,
            reduce_fx="max",
            sync_dist=trainer.world_size > 1,
            batch_size=1,
            add_dataloader_idx=False,
        )


def _has_replies(score: ScoreOfAll) -> bool:
    return score.scored + score.unscored + score.unavailable > 0


def _field_of(name: str, outputs: Any, batch: Any) -> Any:
    for source in (outputs, batch):
        if isinstance(source, Mapping) and source.get(name) is not None:
            column = source[name]
            return column.tolist() if hasattr(column, "tolist") else column
    return None


def _count(loaders: Any) -> int:
    """Return how many loaders a stage has; Lightning has one, a list, or a mapping of them."""
    return len(loaders) if isinstance(loaders, (list, tuple, Mapping)) else 1
