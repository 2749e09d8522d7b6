"""What a report prints where votes chose the pairs: intervals of strengths once the order is decided, and no others.

After active routing intervals cover what they say over studies that stop by themselves (bench/vote_routing.py); those
of studies that went on to their target, and those of pairs, of other questions and of other fits, cover too little or
are not known to cover, so that none stands there.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

import numpy as np

from refaug.extras.studies.questions import AskedQuestion, choice_rows, main_tasks
from refaug.extras.studies.records import StudyTask
from refaug.extras.studies.routing import EXPLORED, FEWEST_VOTES, decides, routed_strengths, wins_of
from refaug.metrics.statistics.pairwise import PairVote
from refaug.metrics.statistics.resampling import FEWEST_UNITS

ROUTED: Final = "routed"  # why a figure has no interval
_BOUNDS: Final = frozenset({"low", "high", "rank_low", "rank_high"})
_DRAWS: Final = frozenset({"draws", "ridged_draws"})
_STOPPED: Final = (
    "it stopped by itself when each two neighbours of the order were decided. Only strengths have intervals: "
    "in simulations 95 to 97 % of them held, and 93 % where bots are so close that few studies stop."
)
_WENT_ON: Final = (
    "the order is not decided, and nothing has an interval or p: after active routing that did not stop, "
    "as few as 88 % of intervals held in simulations, not 95 %."
)


def routed_analyses(
    analyses: Mapping[str, Mapping[str, Any]],
    groups: Mapping[str, Sequence[StudyTask]],
    questions: Sequence[AskedQuestion],
    question: str,
    bots: Sequence[str],
    level: float,
) -> tuple[dict[str, object], dict[str, Any]]:
    """Return the facts of the routing, and the analyses without the intervals that cannot be printed."""
    votes = {name: _votes(group, questions, question) for name, group in groups.items()}
    has_stopped = {name: _is_decided(own, bots) for name, own in votes.items()}
    shown = {name: _without_intervals(analysis) for name, analysis in analyses.items()}
    for name, own in votes.items():
        if has_stopped[name]:
            fit = shown[name]["choices"][question]["bradley_terry"]["half"]
            fit["bots"] = _with_intervals(fit["bots"], own, level)
    counted = len(votes["kept"])
    how = f"Active routing by {question}: votes chose the pairs, but for one in {round(1 / EXPLORED)}"
    ending = _STOPPED if has_stopped["kept"] else _WENT_ON
    routing: dict[str, object] = {
        "question": question,
        "explored": EXPLORED,
        "fewest_votes": FEWEST_VOTES,
        "votes": counted,
        "stopped": has_stopped,
        "note": f"{how}; after {counted:,} votes {ending}",
    }
    return routing, shown


def _votes(group: Sequence[StudyTask], questions: Sequence[AskedQuestion], question: str) -> list[PairVote]:
    return [
        PairVote(first=row.left, second=row.right, outcome=row.outcome, participant=row.participant)
        for row in choice_rows(main_tasks(group), questions)
        if row.question == question
    ]


def _is_decided(votes: Sequence[PairVote], bots: Sequence[str]) -> bool:
    """Return whether the votes decide the order of all bots."""
    return {bot for vote in votes for bot in (vote.first, vote.second)} == set(bots) and decides(wins_of(votes))


def _without_intervals(part: Any) -> Any:
    """Return a part of an analysis with null for each bound and p; a figure that has a reason for that has it."""
    if isinstance(part, Mapping):
        shown = {name: None if _is_bound_or_p(name) else _without_intervals(inner) for name, inner in part.items()}
        shown |= dict.fromkeys(_DRAWS & shown.keys(), 0)
        return {**shown, "why": ROUTED} if "why" in shown else shown
    if isinstance(part, list | tuple):
        return [_without_intervals(inner) for inner in part]
    return part


def _is_bound_or_p(name: object) -> bool:
    return isinstance(name, str) and (name in _BOUNDS or name == "p" or name.startswith("p_") or name.endswith("_holm"))


def _with_intervals(bots: Sequence[Mapping[str, Any]], votes: Sequence[PairVote], level: float) -> list[dict[str, Any]]:
    fitted = routed_strengths(votes)
    judges = {bot: len({vote.participant for vote in votes if bot in (vote.first, vote.second)}) for bot in fitted.bots}
    shown = []
    for row in bots:
        place = fitted.bots.index(row["bot"])
        contrast = np.eye(len(fitted.bots))[place] - 1 / len(fitted.bots)
        interval = fitted.interval(contrast, level) if judges[row["bot"]] >= FEWEST_UNITS else None
        low, high = interval or (None, None)
        strength = float(fitted.strengths[place])
        shown.append({**row, "strength": strength, "low": low, "high": high, "why": None if interval else "few"})
    return shown
