"""Candidates on sets whose rows were drawn anew, so that length and rating correlate as wanted.

Several sets are drawn, each by a seed, and every figure is the mean over them. The contexts that intervals draw are the
same in all: what is uncertain is which contexts were rated, not which rows a seed took.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final

import numpy as np

from core.errors import BadInput
from metrics.base import Indexes
from metrics.correlation import spearman
from service.pages import Table
from service.proof.candidates import Candidate, Trial
from service.proof.chain import Chain
from service.proof.figures import Line, Measured, measured
from service.proof.found import require_found
from service.proof.noninferiority import KINDS, Situation, Tried
from service.proof.references import ranks_together
from service.proof.report import short
from service.proof.sets import Mask, ProofSet
from service.proof.tilting import Tilt, draw_rows, of_rows, tilt

LENGTH: Final = "length of the reply"


def resampled(chain: Chain, tried: Tried, trial: Trial, target: float) -> Situation:
    """All candidates on sets in which the Spearman of length and rating is what is wanted."""
    settings = chain.settings
    name = f"length and rating at {_signed(target)}"
    about = (
        f"Rows drawn anew within each context, with replacement, so that the Spearman correlation of length and rating "
        f"is {_signed(target)}; the mean over {settings.seeds:,} such drawings."
    )
    wanted = tried.wanted(tried.candidates)
    try:
        for one in trial.sets:
            require_found(one, trial.pool(one))
        lines = {one.name: trial.line(one, tried.known) for one in _with_parts(wanted, tried.known)}
        ground = [_Ground.of(one, list(lines.values()), target) for one in trial.sets]
    except BadInput as error:
        return Situation(name=name, about=about, gap=chain.said_of(error))
    chain.progress.stage(f"drawing rows: {name}", settings.seeds, "sets")
    found, reached = list[Measured](), {one.set.name: list[float]() for one in ground}
    for seed in range(settings.seeds):
        rows = {one.set.name: one.draw([settings.seed, seed]) for one in ground}
        drawn = [of_rows(one.set, rows[one.set.name]) for one in ground]
        for one in drawn:
            reached[one.name].append(spearman(one.lengths, one.ratings).value or 0.0)
        length = Line(name=LENGTH, scores={one.name: one.lengths[None] for one in drawn})
        taken = [_line_on(one, rows, seed, lines, tried.known) for one in wanted]
        found.append(measured(drawn, [*taken, length], kinds=KINDS, draws=settings.draws, seed=settings.seed))
        chain.progress.advance(1)
    whole = replace(mean_of(found), left_out={one.set.name: one.left_out for one in ground})
    how = {one.set.name: one.as_json(float(np.mean(reached[one.set.name]))) for one in ground}
    return Situation(
        name=name,
        about=about,
        found=whole,
        lines=[lines[one.name] for one in wanted],
        verdicts=tried.verdicts(whole, tried.candidates),
        tables=[_how_drawn(how)],
        data={"target": target, "drawn": how},
    )


def _signed(target: float) -> str:
    return f"{target:+.2f}".replace("0.", ".", 1) if target else "0"


@dataclass(frozen=True, kw_only=True, eq=False)
class _Ground:
    """A set, its rows that are drawn from, and how."""

    set: ProofSet
    rows: Indexes
    tilt: Tilt

    @classmethod
    def of(cls, one: ProofSet, lines: Sequence[Line], target: float) -> _Ground:
        """The fair rows that every line has a score for, so that every drawing has all their contexts."""
        known: Mask = one.fair.copy()
        for line in lines:
            known &= np.isfinite(line.scores[one.name]).all(axis=0)
        rows = np.flatnonzero(known)
        found = tilt(one.lengths[rows], one.ratings[rows], one.item[rows], target)
        if isinstance(found, str):
            raise BadInput(f"{one.name}: {found}")
        return cls(set=one, rows=rows, tilt=found)

    @property
    def left_out(self) -> int:
        """The fair rows that are not drawn from."""
        return int(self.set.fair.sum()) - len(self.rows)

    def draw(self, seed: Sequence[int]) -> Indexes:
        """Rows of the set."""
        return self.rows[draw_rows(self.tilt.shares, self.set.item[self.rows], np.random.default_rng(list(seed)))]

    def as_json(self, reached: float) -> dict[str, float]:
        """How far rows had to be bent, and to what that has led on average."""
        was = spearman(self.set.lengths[self.rows], self.set.ratings[self.rows]).value
        return {
            "was": round(was or 0.0, 4),
            "expected": round(self.tilt.expected, 4),
            "reached": round(reached, 4),
            "strength": round(self.tilt.strength, 4),
            "rows": len(self.rows),
            "effective_rows": round(self.tilt.effective, 1),
        }


def _with_parts(candidates: Sequence[Candidate], known: Mapping[str, Candidate]) -> Iterator[Candidate]:
    """The candidates, and what sums are made of, to the last."""
    for one in candidates:
        yield from _with_parts([known[name] for name in one.sum_of], known)
        yield one


def _line_on(
    candidate: Candidate,
    rows: Mapping[str, Indexes],
    seed: int,
    lines: Mapping[str, Line],
    known: Mapping[str, Candidate],
) -> Line:
    """A candidate's scores of drawn rows: ranks are those among these, and of what is drawn by chance one is taken."""
    if candidate.sum_of:
        parts = [_line_on(known[name], rows, seed, lines, known) for name in candidate.sum_of]
        return ranks_together(parts, candidate.name)
    scores = lines[candidate.name].scores
    return Line(
        name=candidate.name,
        scores={where: scores[where][seed % len(scores[where])][at][None] for where, at in rows.items()},
    )


def mean_of(found: Sequence[Measured]) -> Measured:
    """The mean figures over several drawings, on all rows and draw by draw."""
    return replace(
        found[0],
        points={key: np.mean([one.points[key] for one in found], axis=0) for key in found[0].points},
        drawn={key: np.mean([one.drawn[key] for one in found], axis=0) for key in found[0].drawn},
    )


def _how_drawn(how: Mapping[str, Mapping[str, float]]) -> Table:
    return Table(
        title="How rows were drawn",
        columns=("", "length and rating were at", "are at, on average", "λ", "rows", "worth as many as"),
        rows=[
            [
                where,
                short(one["was"]),
                short(one["reached"]),
                f"{one['strength']:.2f}",
                f"{one['rows']:,}",
                f"{one['effective_rows']:,.0f}",
            ]
            for where, one in how.items()
        ],
        notes=("rows that are drawn more often than others tell less: together as much as so many that are not",),
    )
