"""The signatures of a file of scores: what `refaug score --json` prints and the service answers."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from refaug.core.errors import BadInput
from refaug.evaluation.score_files import score_document


@dataclass(frozen=True, kw_only=True)
class CitedScores:
    """What a file says of its scores: each signature once, and the frozen set that they are against."""

    signatures: tuple[str, ...]  # full ones, where the file has them
    set_id: str | None
    note: str = ""  # what is wrong with the file, which its scores do not show


def signatures_in(path: Path, called: str) -> CitedScores:
    """Return the signatures of a file of scores or sums; BadInput where it has none, or is damaged.

    A file that was changed is cited, and a note says so.
    """
    document = score_document.ScoreDocument.read(path, called)
    lines = dict.fromkeys(entry.line for entry in document.entries(score_document.SCORES, score_document.STATS))
    if not lines:
        raise BadInput(f"{called}: it has no scores", remedy=score_document.REMEDY)
    note = f"{called} was changed after it was written: its seal does not fit" if _is_changed(document) else ""
    return CitedScores(signatures=tuple(lines), set_id=document.set_id, note=note)


def _is_changed(document: score_document.ScoreDocument) -> bool:
    """Whether the content is not what was written; answers with sums have no seal."""
    has_scores = score_document.SCORES in document.content
    return score_document.is_sealed(document.content) is False or (
        has_scores and score_document.lacks_seal(document.content)
    )
