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
    "in simulations 95 to 97 % of those of 95 % held, and 93 % where bots are so close that few studies stop."
)
_LEFT_OUT: Final = (
    "it stopped by itself, by votes that the rules exclude too: without them the order is not decided, and nothing "
    "has an interval or p."
)
_WENT_ON: Final = (
    "the order is not decided, and nothing has an interval or p: after active routing that did not stop, "
    "as few as 88 % of 95 % intervals held in simulations."
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
    votes = {name: _votes(group, questions, question, bots) for name, group in groups.items()}
    has_stopped = {name: _is_decided(own, bots) for name, own in votes.items()}
    shown = {name: _without_intervals(analysis) for name, analysis in analyses.items()}
    for name, own in votes.items():
        if has_stopped[name]:
            fit = shown[name]["choices"][question]["bradley_terry"]["half"]
            fit["bots"] = _with_intervals(fit["bots"], own, level)
    counted = len(votes["kept"])
    how = f"Active routing by {question}: votes chose the pairs, but for one in {round(1 / EXPLORED)}"
    asked = [task for task in groups["all"] if not task.excluded]  # the routing knows of no rule, but of these
    is_over = _is_decided(_votes(asked, questions, question, bots), bots)
    ending = _STOPPED if has_stopped["kept"] else _LEFT_OUT if is_over else _WENT_ON
    routing: dict[str, object] = {
        "question": question,
        "explored": EXPLORED,
        "fewest_votes": FEWEST_VOTES,
        "votes": counted,
        "stopped": has_stopped,
        "note": f"{how}; after {counted:,} votes {ending}",
    }
    return routing, shown


def _votes(
    group: Sequence[StudyTask], questions: Sequence[AskedQuestion], question: str, bots: Sequence[str]
) -> list[PairVote]:
    """Return the votes that the routing counts: none on a bot that an amendment has dropped."""
    return [
        PairVote(first=row.left, second=row.right, outcome=row.outcome, participant=row.participant)
        for row in choice_rows(main_tasks(group), questions)
        if row.question == question and row.left in bots and row.right in bots
    ]


def _is_decided(votes: Sequence[PairVote], bots: Sequence[str]) -> bool:
    """Return whether the votes decide the order of all bots."""
    return {bot for vote in votes for bot in (vote.first, vote.second)} == set(bots) and decides(wins_of(votes))


def _without_intervals(part: Any) -> Any:
    """Return a part of an analysis with null for each bound and p; a figure that has a reason for that has it."""
    if isinstance(part, Mapping):
        return {name: _without_interval(name, inner) for name, inner in part.items()}
    if isinstance(part, list | tuple):
        return [_without_intervals(inner) for inner in part]
    return part


def _without_interval(name: str, inner: Any) -> Any:
    if isinstance(inner, Mapping | list | tuple):  # of a question, label or bot, whatever its name
        return _without_intervals(inner)
    if name in _BOUNDS or name == "p" or name.startswith("p_") or name.endswith("_holm"):
        return None
    return 0 if name in _DRAWS else ROUTED if name == "why" else inner


def _with_intervals(bots: Sequence[Mapping[str, Any]], votes: Sequence[PairVote], level: float) -> list[dict[str, Any]]:
    """Return the bots that the routing orders, with intervals."""
    fitted = routed_strengths(votes)
    judges = {bot: len({vote.participant for vote in votes if bot in (vote.first, vote.second)}) for bot in fitted.bots}
    shown = []
    for row in bots:
        if row["bot"] not in fitted.bots:  # an amendment has dropped it
            continue
        place = fitted.bots.index(row["bot"])
        contrast = np.eye(len(fitted.bots))[place] - 1 / len(fitted.bots)
        interval = fitted.interval(contrast, level) if judges[row["bot"]] >= FEWEST_UNITS else None
        low, high = interval or (None, None)
        strength = float(fitted.strengths[place])
        of_bot = {"strength": strength, "low": low, "high": high, "why": None if interval else "few"}
        shown.append({**row, **of_bot, "rank": 1 + int((fitted.strengths > strength).sum())})
    return shown
