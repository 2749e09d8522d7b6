"""Whether a candidate is at least not inferior to its baseline, the same metric with the gold alone, by situation."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final

from refaug.core.errors import Usage
from refaug.evaluation.reports.html_page import Table
from refaug.evaluation.reproduction.figures.correlations import Correlations, IntervalEstimate, Line
from refaug.evaluation.reproduction.material import metric_candidates
from refaug.evaluation.reproduction.material.reference_kinds import GOLD, MATCHED, RATED
from refaug.metrics.statistics.correlation import PARTIAL

LEAST_POINT: Final = -0.02  # the least difference to the gold alone that is not inferior …
LEAST_LOW: Final = -0.06  # … and the bound that the lower end of its interval exceeds
KINDS: Final = ("spearman", PARTIAL)


@dataclass(frozen=True, kw_only=True)
class Verdict:
    """The difference of a candidate to its baseline in one situation, by kind of correlation, and whether it passes."""

    passes: bool | None  # None: it could not be judged
    differences: Mapping[str, IntervalEstimate]  # to the first baseline
    further: Mapping[str, Mapping[str, IntervalEstimate]] = field(default_factory=dict)  # to each other baseline

    @property
    def in_words(self) -> str:
        """Return the verdict in words, for a table."""
        return {True: "passes", False: "fails", None: "not judged"}[self.passes]

    @property
    def is_better(self) -> bool:
        """Say whether the candidate is surely above its baselines, by every kind of correlation."""
        return all(
            difference.low is not None and difference.low > 0
            for differences in (self.differences, *self.further.values())
            for difference in differences.values()
        )


def is_non_inferior(difference: IntervalEstimate) -> bool | None:
    """Say whether a difference is at most a little below 0, and surely not far; None where that is not known."""
    if difference.value is None or difference.low is None:
        return None
    return difference.value >= LEAST_POINT and difference.low > LEAST_LOW


def judge(
    differences: Mapping[str, IntervalEstimate], further: Mapping[str, Mapping[str, IntervalEstimate]] | None = None
) -> Verdict:
    """Judge by every kind of correlation and every baseline: a failure of one decides, even where another is not known.

    `further` has the differences to baselines other than the first, by their names.
    """
    further = further or {}
    outcomes = [
        is_non_inferior(difference) for of_one in (differences, *further.values()) for difference in of_one.values()
    ]
    passes = False if False in outcomes else None if None in outcomes else True
    return Verdict(passes=passes, differences=differences, further=further)


def baseline_of(
    candidate: metric_candidates.MetricCandidate, candidates: Mapping[str, metric_candidates.MetricCandidate]
) -> metric_candidates.MetricCandidate:
    """Return the baseline of a candidate: the same metric with nothing but the gold.

    The baseline of a sum is that of the last summand that matches words. The rater on the reply has no form without a
    rater; its baseline is soft matches with the gold, and so is that of a blend of both.
    """
    if candidate.sum_of:
        matching = [candidates[name] for name in candidate.sum_of if candidates[name].family != "rater"]
        return baseline_of(matching[-1], candidates) if matching else metric_candidates.GREEDY_GOLD
    if candidate.kind == GOLD and candidate.family == "other":
        return candidate
    if (
        candidate.family in ("rater", "greedy") or "greedy" in candidate.metric
    ):  # with one reference, all greedy metrics are the same
        return metric_candidates.GREEDY_GOLD
    return replace(candidate, name=f"{candidate.name}: gold alone", why="what it is held to", kind=GOLD, parrot=False)


def baselines_of(
    candidate: metric_candidates.MetricCandidate, candidates: Mapping[str, metric_candidates.MetricCandidate]
) -> tuple[metric_candidates.MetricCandidate, ...]:
    """Return all baselines of a candidate: one, except for a judge, which is held to each that it has a metric of.

    The rule for sums takes the last metric that matches words. Which one comes last in a judge means nothing, and which
    is the hardest to match differs between stresses.
    """
    if candidate.family != "judge":
        return (baseline_of(candidate, candidates),)
    matching = [candidates[name] for name in candidate.sum_of if candidates[name].family != "rater"]
    return tuple(dict.fromkeys(baseline_of(part, candidates) for part in matching)) or (metric_candidates.GREEDY_GOLD,)


def asks_rater(
    candidate: metric_candidates.MetricCandidate, candidates: Mapping[str, metric_candidates.MetricCandidate]
) -> bool:
    """Say whether another rater would give other scores."""
    if candidate.sum_of:
        return any(asks_rater(candidates[name], candidates) for name in candidate.sum_of)
    return (
        candidate.family == "rater"
        or candidate.kind in (RATED, metric_candidates.BEST)
        or "unreferenced=rater" in candidate.metric
    )


@dataclass(frozen=True, kw_only=True)
class CandidateList:
    """The candidates that are tried in every situation, with their baselines and controls."""

    candidates: tuple[metric_candidates.MetricCandidate, ...]
    by_name: Mapping[str, metric_candidates.MetricCandidate]

    @classmethod
    def of(cls, candidates: Sequence[metric_candidates.MetricCandidate]) -> CandidateList:
        """Collect the candidates and every name that a sum may refer to."""
        by_name = {
            candidate.name: candidate
            for candidate in (
                metric_candidates.GREEDY_GOLD,
                metric_candidates.CHRF_GOLD,
                metric_candidates.REPLY,
                *metric_candidates.all_candidates(),
                *candidates,
            )
        }
        for candidate in candidates:
            if lacking := next((name for name in candidate.sum_of if name not in by_name), None):
                raise Usage(f"{candidate.name} is a sum with {lacking!r}, and there is no such candidate")
        return cls(candidates=tuple(candidates), by_name=by_name)

    def with_controls(
        self, candidates: Sequence[metric_candidates.MetricCandidate]
    ) -> list[metric_candidates.MetricCandidate]:
        """Return the baselines first, then the candidates, then controls; each once."""
        golds = [gold for candidate in candidates for gold in baselines_of(candidate, self.by_name)]
        matched = dict[metric_candidates.MetricCandidate, metric_candidates.MetricCandidate]()
        for candidate in candidates:
            if not candidate.sum_of and candidate.kind != GOLD and candidate.family != "rater":
                control = replace(candidate, name="", why="", kind=MATCHED)
                matched.setdefault(
                    control,
                    replace(control, name=f"… {candidate.name}: drawn replies as long", why="control", family="other"),
                )
        return list({candidate.name: candidate for candidate in (*golds, *candidates, *matched.values())}.values())

    def verdicts(
        self, correlations: Correlations, candidates: Sequence[metric_candidates.MetricCandidate]
    ) -> dict[str, Verdict]:
        """Judge each candidate against its baselines, on the mean of the sets."""
        return {candidate.name: self._verdict(correlations, candidate) for candidate in candidates}

    def _verdict(self, correlations: Correlations, candidate: metric_candidates.MetricCandidate) -> Verdict:
        first, *further = (
            (
                baseline.name,
                {
                    kind: correlations.difference(candidate.name, baseline.name, kind, correlations.scopes[-1])
                    for kind in KINDS
                },
            )
            for baseline in baselines_of(candidate, self.by_name)
        )
        return judge(first[1], dict(further))


# ── situations ────────────────────────────────────────────────────────────────────────────────────────────────────────


@dataclass(frozen=True, kw_only=True)
class Situation:
    """Candidates tried under one stress; `gap` says why there is nothing to show."""

    name: str
    about: str
    correlations: Correlations | None = None
    lines: Sequence[Line] = ()
    verdicts: Mapping[str, Verdict] | None = None
    gap: str | None = None
    missing: Mapping[str, str] = field(default_factory=dict)  # candidates that are not available here, and why
    sets_left_out: tuple[str, ...] = ()  # each with the reason
    is_stress: bool = True
    tables: Sequence[Table] = ()
    data: Mapping[str, Any] | None = None

    def as_json(self) -> dict[str, object]:
        """Return all figures of the situation."""
        if self.correlations is None:
            return {"about": self.about, "gap": self.gap}
        return {
            "about": self.about,
            "is_stress": self.is_stress,
            **(self.data or {}),
            **self.correlations.as_json(KINDS),
            **({"missing": dict(self.missing)} if self.missing else {}),
            **({"sets_left_out": list(self.sets_left_out)} if self.sets_left_out else {}),
            "less_gold_alone": {
                name: {
                    "passes": verdict.passes,
                    **{kind: estimate.as_json() for kind, estimate in verdict.differences.items()},
                    **(
                        {
                            "further": {
                                baseline: {kind: estimate.as_json() for kind, estimate in differences.items()}
                                for baseline, differences in verdict.further.items()
                            }
                        }
                        if verdict.further
                        else {}
                    ),
                }
                for name, verdict in (self.verdicts or {}).items()
            },
        }
