"""Scores of replies by a fitted judge, without the rows that it was fitted to."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from refaug.agreement.records import ComparedMetric
from refaug.agreement.row_scores import lengths_of_rows, values_of_rows
from refaug.agreement.rows import RatedRows, Row
from refaug.core.errors import BadInput
from refaug.core.progress import Progress
from refaug.core.records import Item
from refaug.extras.judges.combined import StoredJudge
from refaug.metrics.base import Floats
from refaug.scoring.cases import split, systems_of
from refaug.scoring.items import BadItem


@dataclass(frozen=True, kw_only=True, eq=False)
class JudgedRows:
    """The scores of replies, NaN where there is none, and how many rows the judge was fitted to."""

    judge: str
    rows: RatedRows
    scores: Floats
    trained_on: int

    @property
    def scored(self) -> int:
        """The number of replies with a score."""
        return int(np.isfinite(self.scores).sum())

    @property
    def unscored(self) -> int:
        """The number of replies for which a metric has no score."""
        return len(self.scores) - self.scored - self.trained_on

    def systems(self) -> list[tuple[str, float, int]]:
        """Return the mean score of each system, with the number of its replies that have one."""
        names = dict.fromkeys(row.system for row in self.rows.rows)
        scores = {
            name: np.array(
                [score for row, score in zip(self.rows.rows, self.scores, strict=True) if row.system == name]
            )
            for name in names
        }
        return [
            (name, float(np.nanmean(own)), int(np.isfinite(own).sum()))
            for name, own in scores.items()
            if np.isfinite(own).any()
        ]

    def as_json(self) -> dict[str, object]:
        """Return every score as JSON; null where there is none."""
        return {
            "judge": self.judge,
            "scored": self.scored,
            "trained_on": self.trained_on,
            "unscored": self.unscored,
            "systems": {name: {"mean": mean, "replies": count} for name, mean, count in self.systems()},
            "replies": [
                {
                    "id": self.rows.items[row.item].id,
                    "system": row.system,
                    "score": None if np.isnan(score) else float(score),
                }
                for row, score in zip(self.rows.rows, self.scores, strict=True)
            ],
        }


def unrated_rows(name: str, test_items: Sequence[Item | BadItem]) -> RatedRows:
    """Return all replies of items as rows, whether people rated them or not."""
    items, bad = split(test_items)
    systems_of(items)
    rows = [
        Row(
            item=number,
            system=system,
            reply=reply,
            ratings=(),
            references=item.references,
            is_gold=False,
            removed=0,
        )
        for number, item in enumerate(items)
        for system, reply in item.replies.items()
    ]
    return RatedRows(
        name=name,
        items=items,
        bad_items=bad,
        rows=rows,
        ratings=np.full((len(rows), 1), np.nan),
        is_candidate=np.ones(len(rows), np.bool_),
        kept=(0,),
        dropped=(),
        unrated={},
        lengths=(0, 0),
    )


def score_rows(
    stored: StoredJudge, rows: RatedRows, metrics: Sequence[ComparedMetric], progress: Progress
) -> JudgedRows:
    """Score all rows that the judge was not fitted to."""
    unseen = unseen_rows(stored, rows)
    values = np.stack([values_of_rows(rows, compared, progress) for compared in metrics], axis=1)
    scores = np.full(len(rows.rows), np.nan)
    lengths = lengths_of_rows(rows, stored.judge.length_tokenizer)  # as when it was fitted, whatever these rows are
    scores[unseen] = stored.judge.score(values[unseen], lengths[unseen])
    return JudgedRows(judge=stored.spec, rows=rows, scores=scores, trained_on=len(rows.rows) - len(unseen))


def unseen_rows(stored: StoredJudge, rated_rows: RatedRows) -> list[int]:
    """Return the rows whose texts the judge was not fitted to; raise BadInput where it has seen all of them."""
    unseen = [
        place
        for place, row in enumerate(rated_rows.rows)
        if not stored.seen.contains(
            rated_rows.items[row.item].turns,
            [reference.text for reference in rated_rows.items[row.item].references],
            row.reply,
        )
    ]
    if rated_rows.rows and not unseen:
        raise BadInput(
            f"{stored.name} was fitted to all {len(rated_rows.rows):,} replies of "
            f"{rated_rows.name}: its scores of them say nothing",
            remedy="score other items, or fit a judge to other ratings",
        )
    return unseen
