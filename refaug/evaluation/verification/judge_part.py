"""What can be said of the judge of a score file: whether its answers are stored, since it may answer otherwise now."""

from __future__ import annotations

from typing import Final

from refaug.evaluation.score_files.score_file import StoredScores
from refaug.evaluation.scoring.scores import MetricScores
from refaug.evaluation.verification.part_states import VerifiedPart

_NOT_STORED: Final = "judge_not_stored"


def judge_part(stored: StoredScores, now: MetricScores) -> VerifiedPart:
    """Say whether all answers are stored; `now` are the scores that the stored ones give."""
    name = stored.signature.settings["model"].partition("#")[0]
    lacking = sum(system.unscored.get(_NOT_STORED, 0) for system in now.systems.values())
    total = sum(len(system.replies) for system in now.systems.values())
    if lacking:
        message = (
            f"a judge's scores are not reproducible: it may answer otherwise now, and its answers to {lacking:,} of "
            f"{total:,} replies are not stored here, or never came"
        )
        return VerifiedPart.missing("judge", message, stored.name)
    message = f"{name}: all answers are stored, and the scores are computed from them; the judge itself was not asked"
    return VerifiedPart.holds("judge", message, stored.name)
