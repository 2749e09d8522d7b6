"""What a panel is worth on labels by people: its members, how far they agree, and what it gains over the best one."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import isfinite
from typing import Any

import numpy as np

from refaug.agreement.records import RatedItems
from refaug.agreement.rows import RatedRows
from refaug.core.errors import BadInput
from refaug.core.progress import Progress
from refaug.core.records import json_form
from refaug.extras.judges.metrics.panels import JudgePanel, alpha_of
from refaug.extras.judges.passports.certify import context_numbers
from refaug.metrics.base import Floats, Level, References
from refaug.metrics.signature import Signature
from refaug.metrics.statistics.agreement import RatedSet, mean_over_sets
from refaug.metrics.statistics.resampling import Estimate, bootstrap
from refaug.scoring.cases import bind_metric, references_for, score_replies
from refaug.scoring.settings import MetaSettings


@dataclass(frozen=True, kw_only=True)
class PanelMember:
    """A member of a panel, and how far it agrees with people by itself."""

    name: str
    spearman: Estimate
    missing: int  # replies on which it has no verdict


@dataclass(frozen=True, kw_only=True, eq=False)
class PanelWorth:
    """A panel on labels by people."""

    signature: str
    labels: int
    contexts: int
    spearman: Estimate
    alpha: Estimate  # over the members
    members: tuple[PanelMember, ...]
    best: str
    gain: Estimate  # of the panel's Spearman over that of the best member, on the replies with both
    replies: tuple[Mapping[str, Any], ...]

    @property
    def is_gain_shown(self) -> bool:
        """Whether the interval of the gain lies above 0."""
        return self.gain.low is not None and self.gain.low > 0

    def as_json(self) -> dict[str, Any]:
        """Return the figures, and every reply with the verdict of each member."""
        return {
            "signature": self.signature,
            "labels": self.labels,
            "contexts": self.contexts,
            "spearman": json_form(self.spearman),
            "alpha": json_form(self.alpha),
            "members": [
                {"member": member.name, "spearman": json_form(member.spearman), "missing": member.missing}
                for member in self.members
            ],
            "best": self.best,
            "gain": {**json_form(self.gain), "shown": self.is_gain_shown},
            "replies": list(self.replies),
        }


def panel_worth(
    rated_items: RatedItems, panel: JudgePanel, progress: Progress, *, draws: int, seed: int, with_reasons: bool = False
) -> PanelWorth:
    """Measure a panel on labels by people.

    The best member is the one that agrees best on these very labels, which flatters it: a gain is claimed too seldom
    rather than too often. Members that are copies of each other gain nothing.
    """
    rows = RatedRows.of(rated_items, MetaSettings())
    references = [references_for(panel, row.references, rows.items[row.item].turns) for row in rows.rows]
    chosen = [references_for(panel, item.references, item.turns) for item in rows.items]
    replies = [row.reply for row in rows.rows]
    progress.stage(f"score {rows.name}, {panel.name}", len(replies), "replies")
    bound = bind_metric(panel, chosen, replies, references)
    assert isinstance(bound, JudgePanel)
    statistics, problems = score_replies(bound, replies, references, progress)
    statistics[list(problems)] = np.nan

    places = np.flatnonzero(rows.is_candidate)
    table, contexts = statistics[places], context_numbers(rows.items)[rows.contexts[places]]
    means = np.nanmean(rows.ratings[places], axis=1)
    scores = bound.values(table, Level.REPLY)
    if not np.isfinite(scores).any():
        why = next(iter(problems.values())).message
        raise BadInput(f"{rows.name}: no member has a verdict on any reply: {why}", remedy="other members or items")
    verdicts = bound.verdicts_of(table)
    labels = _Labels(means=means, contexts=contexts, draws=draws, seed=seed)
    members = tuple(
        PanelMember(name=name, spearman=labels.spearman(of_member), missing=int((~np.isfinite(of_member)).sum()))
        for name, of_member in zip(bound.member_names, verdicts.T, strict=True)
    )
    best = max(range(len(members)), key=lambda number: _or_least(members[number].spearman.value))
    alpha = bootstrap({"alpha": table}, alpha_of, draws=draws, seed=seed, clusters=contexts)["alpha"].score
    return PanelWorth(
        signature=Signature.of(bound).full,
        labels=int(np.isfinite(scores).sum()),
        contexts=len(np.unique(contexts[np.isfinite(scores)])),
        spearman=labels.spearman(scores),
        alpha=alpha,
        members=members,
        best=members[best].name,
        gain=labels.gain(scores, verdicts[:, best]),
        replies=tuple(
            {
                **_reply_json(bound, rows, place, score, of_members),
                **(_reasons(bound, replies[place], references[place]) if with_reasons else {}),
            }
            for place, score, of_members in zip(places.tolist(), scores.tolist(), verdicts.tolist(), strict=True)
        ),
    )


def _reply_json(
    panel: JudgePanel, rows: RatedRows, place: int, score: float, of_members: Sequence[float]
) -> dict[str, object]:
    row, named = rows.rows[place], zip(panel.member_names, of_members, strict=True)
    return {
        "id": rows.items[row.item].id,
        "system": row.system,
        "score": score if isfinite(score) else None,
        "verdicts": {name: verdict if isfinite(verdict) else None for name, verdict in named},
    }


def _reasons(panel: JudgePanel, reply: str, references: object) -> dict[str, object]:
    reasons = panel.reasons(reply, references) if isinstance(references, References) else None
    return {"reasons": reasons or []}


def _or_least(correlation: float | None) -> float:
    return -2.0 if correlation is None else correlation


@dataclass(frozen=True, kw_only=True, eq=False)
class _Labels:
    """Mean ratings by people, and how intervals over their contexts are drawn."""

    means: Floats
    contexts: np.ndarray[tuple[int], np.dtype[np.int64]]
    draws: int
    seed: int

    def spearman(self, scores: Floats) -> Estimate:
        """Return how far scores agree with people; without any, why not."""
        if not np.isfinite(scores).any():
            return Estimate(why="it has no verdict on any reply")
        rated = RatedSet(scores[None], self.means, self.contexts)
        return (
            mean_over_sets([rated], kinds=("spearman",), draws=self.draws, seed=self.seed)
            .by_kind["spearman"][0]
            .correlation
        )

    def gain(self, scores: Floats, other: Floats) -> Estimate:
        """Return how much further the first scores agree with people than the others."""
        rated = RatedSet(np.stack([other, scores]), self.means, self.contexts)
        compared = mean_over_sets([rated], kinds=("spearman",), draws=self.draws, seed=self.seed, baseline=0)
        return compared.by_kind["spearman"][1].difference or Estimate(why="the best member is not defined")
