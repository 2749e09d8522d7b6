"""Whether a candidate is at least not inferior to the same metric with the gold alone, situation by situation."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final

from core.errors import Usage
from metrics.correlation import PARTIAL
from service.pages import Table
from service.proof.candidates import BEST, GREEDY_GOLD, REPLY, Candidate, listed
from service.proof.figures import Figure, Line, Measured
from service.proof.references import GOLD, MATCHED, RATED

LEAST_POINT: Final = -0.02  # a difference to the gold alone that still is not inferior …
LEAST_LOW: Final = -0.06  # … and what the lower end of its interval is above
KINDS: Final = ("spearman", PARTIAL)


@dataclass(frozen=True, kw_only=True)
class Verdict:
    """A candidate's difference to the gold alone in one situation, by kind of correlation, and whether it will do."""

    passes: bool | None  # None: it could not be judged
    differences: Mapping[str, Figure]

    @property
    def in_words(self) -> str:
        """For a table."""
        return {True: "passes", False: "fails", None: "not judged"}[self.passes]

    @property
    def is_better(self) -> bool:
        """Whether it is surely above the gold alone, by every kind of correlation."""
        return all(one.low is not None and one.low > 0 for one in self.differences.values())


def non_inferior(difference: Figure) -> bool | None:
    """Whether the difference is at most a little below 0, and surely not far; None where that is not known."""
    if difference.value is None or difference.low is None:
        return None
    return difference.value >= LEAST_POINT and difference.low > LEAST_LOW


def judged(differences: Mapping[str, Figure]) -> Verdict:
    """By every kind of correlation: one that fails decides, whatever is not known of the others."""
    found = [non_inferior(one) for one in differences.values()]
    passes = False if False in found else None if None in found else True
    return Verdict(passes=passes, differences=differences)


def gold_alone(candidate: Candidate, known: Mapping[str, Candidate]) -> Candidate:
    """What a candidate is held to: the same metric with nothing but the gold.

    A sum is held to what it matches with. The rater on the reply has no form of its own without a rater; it is held to
    soft matches with the gold, and so is a blend of both.
    """
    if candidate.sum_of:
        matching = [known[name] for name in candidate.sum_of if known[name].family != "rater"]
        return gold_alone(matching[-1], known) if matching else GREEDY_GOLD
    if candidate.family in ("rater", "greedy") or "greedy" in candidate.metric:  # of one reference, all are the same
        return GREEDY_GOLD
    return replace(candidate, name=f"{candidate.name}: gold alone", why="what it is held to", kind=GOLD, parrot=False)


def asks_rater(candidate: Candidate, known: Mapping[str, Candidate]) -> bool:
    """Whether another rater would give other scores."""
    if candidate.sum_of:
        return any(asks_rater(known[name], known) for name in candidate.sum_of)
    return candidate.family == "rater" or candidate.kind in (RATED, BEST) or "unreferenced=rater" in candidate.metric


@dataclass(frozen=True, kw_only=True)
class Tried:
    """What is tried in every situation: candidates, what each is held to, and controls."""

    candidates: tuple[Candidate, ...]
    known: Mapping[str, Candidate]

    @classmethod
    def of(cls, candidates: Sequence[Candidate]) -> Tried:
        """With all names that a sum may refer to."""
        known = {one.name: one for one in (GREEDY_GOLD, REPLY, *listed(), *candidates)}
        for one in candidates:
            if lacking := next((name for name in one.sum_of if name not in known), None):
                raise Usage(f"{one.name} is a sum with {lacking!r}, and there is no such candidate")
        return cls(candidates=tuple(candidates), known=known)

    def wanted(self, candidates: Sequence[Candidate]) -> list[Candidate]:
        """The gold alone first, then the candidates, then controls; each once."""
        golds = [gold_alone(one, self.known) for one in candidates]
        matched = dict[Candidate, Candidate]()
        for one in candidates:
            if not one.sum_of and one.kind != GOLD and one.family != "rater":
                control = replace(one, name="", why="", kind=MATCHED)
                matched.setdefault(
                    control,
                    replace(control, name=f"… {one.name}: drawn replies as long", why="control", family="other"),
                )
        return list({one.name: one for one in (*golds, *candidates, *matched.values())}.values())

    def verdicts(self, found: Measured, candidates: Sequence[Candidate]) -> dict[str, Verdict]:
        """Each candidate against what it is held to, on the mean of the sets."""
        return {
            one.name: judged(
                {
                    kind: found.difference(one.name, gold_alone(one, self.known).name, kind, found.wheres[-1])
                    for kind in KINDS
                }
            )
            for one in candidates
        }


# ── situations ────────────────────────────────────────────────────────────────────────────────────────────────────────


@dataclass(frozen=True, kw_only=True)
class Situation:
    """Candidates tried under one stress; `gap` says why there is nothing to show."""

    name: str
    about: str
    found: Measured | None = None
    lines: Sequence[Line] = ()
    verdicts: Mapping[str, Verdict] | None = None
    gap: str | None = None
    missing: Mapping[str, str] = field(default_factory=dict)  # candidates that cannot be had here, and why
    is_stress: bool = True
    tables: Sequence[Table] = ()
    data: Mapping[str, Any] | None = None

    def as_json(self) -> dict[str, Any]:
        """All its figures."""
        if self.found is None:
            return {"about": self.about, "gap": self.gap}
        return {
            "about": self.about,
            "is_stress": self.is_stress,
            **(self.data or {}),
            **self.found.as_json(KINDS),
            **({"missing": dict(self.missing)} if self.missing else {}),
            "less_gold_alone": {
                name: {
                    "passes": one.passes,
                    **{kind: figure.as_json() for kind, figure in one.differences.items()},
                }
                for name, one in (self.verdicts or {}).items()
            },
        }
