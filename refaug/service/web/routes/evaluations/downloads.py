"""Evaluations as files, and two of them compared."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from fastapi import Request
from starlette.responses import FileResponse, Response, StreamingResponse

from refaug.core.errors import Conflict, Usage
from refaug.evaluation.comparison.comparison import ComparisonRequest, compare
from refaug.evaluation.comparison.reply_changes import ChangeFilter
from refaug.evaluation.score_files.score_file import ScoreFile
from refaug.evaluation.score_report.csv_table import csv_pieces
from refaug.evaluation.score_report.page import page
from refaug.service.evaluations import evaluation_store
from refaug.service.web.state import state_of
from refaug.service.web.visibility import visible_result


class DownloadForm(StrEnum):
    """The form of a downloaded evaluation."""

    JSON = "json"
    CSV = "csv"
    LATEX = "latex"
    HTML = "html"


_MEDIA_TYPES: Final[Mapping[DownloadForm, str]] = {
    DownloadForm.JSON: "application/json",
    DownloadForm.CSV: "text/csv; charset=utf-8",
    DownloadForm.LATEX: "application/x-tex",
    DownloadForm.HTML: "text/html; charset=utf-8",
}
_ENDINGS: Final[Mapping[DownloadForm, str]] = {
    DownloadForm.JSON: "json",
    DownloadForm.CSV: "csv",
    DownloadForm.LATEX: "tex",
    DownloadForm.HTML: "html",
}
_FILES: Final[Mapping[str, Mapping[DownloadForm, str]]] = {
    "score": {DownloadForm.JSON: evaluation_store.SCORES, DownloadForm.LATEX: evaluation_store.SCORES_LATEX},
    "meta": {
        DownloadForm.JSON: evaluation_store.AGREEMENT,
        DownloadForm.CSV: evaluation_store.AGREEMENT_CSV,
        DownloadForm.LATEX: evaluation_store.AGREEMENT_LATEX,
        DownloadForm.HTML: evaluation_store.AGREEMENT_PAGE,
    },
}


@dataclass(frozen=True, kw_only=True)
class ComparedSystems:
    """The systems of two evaluations that are compared: one in both, or one of each; else all in both."""

    system: str | None = None
    first: str | None = None
    second: str | None = None

    @property
    def pair(self) -> tuple[str, str] | None:
        """One system of each evaluation; Usage where only one of them is named, or a third beside them."""
        if self.first is None and self.second is None:
            return None
        if self.first is None or self.second is None or self.system is not None:
            raise Usage(
                "first_system and second_system go together, without system", remedy="name both, or only system"
            )
        return self.first, self.second


def download(request: Request, evaluation_id: str, form: DownloadForm) -> Response:
    """Return an evaluation as a file; those of scores that are long to write are made from the document."""
    stored = visible_result(request, evaluation_id)
    # A page of a report is a document of its own: it opens from a disk, never inside this site.
    headers = {"Content-Disposition": f'attachment; filename="{stored.kind}-{stored.id}.{_ENDINGS[form]}"'}
    if (file := _FILES[stored.kind].get(form)) is not None:
        path = state_of(request).evaluations.path(stored.id, file)
        return FileResponse(path, media_type=_MEDIA_TYPES[form], headers=headers)
    scores = state_of(request).score_views.get(stored.id).file
    if form is DownloadForm.HTML:
        content = page(scores, scores.settings(scores.scores[0]))
        return Response(content.encode(), media_type=_MEDIA_TYPES[form], headers=headers)
    pieces = (piece.encode() for piece in csv_pieces(scores))
    return StreamingResponse(pieces, media_type=_MEDIA_TYPES[form], headers=headers)


def compare_evaluations(
    request: Request,
    first_id: str,
    second_id: str,
    systems: ComparedSystems,
    *,
    search: str | None,
    limit: int,
    is_forced: bool,
) -> dict[str, object]:
    """Return the comparison of two evaluations of scores as `refaug compare --json` prints it."""
    files = list[ScoreFile]()
    for evaluation_id in (first_id, second_id):
        stored = visible_result(request, evaluation_id)
        if stored.kind != "score":
            raise Conflict(
                f"evaluation {evaluation_id} is of kind {stored.kind}", remedy="compare two evaluations of kind score"
            )
        files.append(state_of(request).score_views.get(evaluation_id).file)
    settings = files[0].settings(files[0].scores[0])
    comparison = compare(
        files[0],
        files[1],
        ComparisonRequest(
            systems=systems.pair,
            system=systems.system,
            settings=type(settings)(
                draws=settings.draws or type(settings)().draws, confidence=settings.confidence, seed=settings.seed
            ),
            changes=ChangeFilter(grep=search, limit=limit, has_references=True),
            is_forced=is_forced,
        ),
    )
    return comparison.as_json()
