"""Uploaded files and evaluations."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Literal, Optional, Union

from refaug_client._api.methods import K, Resource, flow, request, route
from refaug_client._api.models.base import Rows
from refaug_client._api.models.evaluations import (
    Evaluation,
    EvaluationComparison,
    FilePreview,
    FullReply,
    ReplyNote,
    ScoredReplies,
    ScorePoints,
    Upload,
    UploadList,
)
from refaug_client._api.readers import read_model
from refaug_client._core.progress import Progress
from refaug_client._http.call import Call
from refaug_client._jobs.following import wait_for_job

DownloadFormat = Literal["json", "csv", "latex", "html"]
ReplyOrder = Literal["place", "score", "other", "disagreement", "length", "item"]


class Uploads(Resource[K]):
    """Files on the server, to be previewed and evaluated."""

    @request
    def send(
        self, content: Union[str, os.PathLike[str], bytes], *, name: Optional[str] = None, format: Optional[str] = None
    ) -> Call[Upload]:
        """Upload a file by its path, or bytes with a `name`, and return what the server keeps.

            table = client.uploads.send("ratings.csv")
            client.evaluations.start("score", items=table.source, metrics=["chrf"])

        `format` is jsonl, json, csv, tsv, lines, parquet or arrow; without it, the end of the name says so.
        """
        if not isinstance(content, bytes):
            name = name or Path(content).name
        return Call(
            "POST",
            "/v1/uploads",
            read_model(Upload),
            query={"name": name or "file", "format": format},
            body=content if isinstance(content, bytes) else Path(content).read_bytes(),
            headers={"Content-Type": "application/octet-stream"},
            repeatable=False,  # sent again it would be a second file
        )

    @route("GET", "/v1/uploads")
    def list(self) -> UploadList:
        """Return the uploaded files that the key sees, newest first."""

    @route("GET", "/v1/uploads/{id}")
    def get(self, id: str) -> Upload:
        """Return an uploaded file: name, size, hash and times."""

    @route("GET", "/v1/uploads/{id}/content")
    def download(self, id: str) -> bytes:
        """Return the bytes of an uploaded file, or of one that a job of kind `replies` has written.

        job = client.jobs.start("replies", items=table.source, bots={"mine": "bot:mine"})
        replied = client.jobs.wait(job.id).result["upload"]
        client.evaluations.start("score", items=replied, metrics=["chrf"])
        """

    @route("DELETE", "/v1/uploads/{id}")
    def remove(self, id: str) -> Upload:
        """Remove an uploaded file; evaluations of it stay."""

    @route("POST", "/v1/uploads/preview", timed=True)
    def preview(
        self,
        *,
        items: Optional[str] = None,
        replies: Optional[Mapping[str, str]] = None,
        references: Optional[Sequence[str]] = None,
        weights: Optional[Sequence[str]] = None,
        utterances: Optional[str] = None,
        map: Optional[Sequence[str]] = None,
        shape: Optional[Literal["item", "reply", "rating"]] = None,
        encoding: Optional[str] = None,
        allow_truncated: Optional[bool] = None,
        systems: Optional[Sequence[str]] = None,
    ) -> FilePreview:
        """Return files as a score would read them: the first items, the columns, and the bad rows.

        preview = client.uploads.preview(items=table.source, map=["utterance=prompt", "reply:new=answer"])
        """


class Evaluations(Resource[K]):
    """Scores of uploaded files, and agreement with ratings, made by jobs and kept by the server."""

    @route("POST", "/v1/evaluations", keyed=True)
    def start(self, /, kind: str, **order: Any) -> Evaluation:
        """Queue an evaluation of kind `score` or `meta`; its id is that of its job.

        done = client.evaluations.wait(client.evaluations.start("score", items=table.source).id)
        """

    @flow
    async def wait(self, id: str, *, progress: Progress = None, timeout_s: Optional[float] = None) -> Evaluation:
        """Return the evaluation when it is done; JobFailed or JobCancelled where it ends otherwise.

        The key needs the scope `read` to follow the job.
        """
        await wait_for_job(self._wire, id, progress=progress, timeout_s=timeout_s)
        return await self._wire.send(Evaluations.get.call(id))

    @route("GET", "/v1/evaluations", key="evaluations")
    def list(
        self, *, kind: Optional[str] = None, after: Optional[str] = None, limit: Optional[int] = None
    ) -> Rows[Evaluation]:
        """Return the evaluations that the key sees, newest first, without their summaries."""

    @route("GET", "/v1/evaluations/{id}")
    def get(self, id: str) -> Evaluation:
        """Return an evaluation with its summary, or its agreement."""

    @route(
        "DELETE", "/v1/evaluations/{id}", repeatable=False
    )  # a first one may have cancelled, and a second one removes
    def remove(self, id: str) -> Evaluation:
        """Cancel an evaluation that waits or runs, or remove it after its end."""

    @route("POST", "/v1/evaluations/{id}/cancel", repeatable=False)  # one that has ended is refused
    def cancel(self, id: str) -> Evaluation:
        """Cancel an evaluation that waits or runs; Conflict where it has ended, and then it stays."""

    @route("POST", "/v1/evaluations/{id}/retry", repeatable=False)  # a second one is refused
    def retry(self, id: str) -> Evaluation:
        """Queue an evaluation again that failed or was cancelled."""

    @route("GET", "/v1/evaluations/{id}/replies")
    def replies(
        self,
        id: str,
        *,
        metric: int = 0,
        other: Optional[int] = None,
        sort: Optional[ReplyOrder] = None,
        order: Optional[Literal["ascending", "descending"]] = None,
        system: Optional[str] = None,
        search: Optional[str] = None,
        low: Optional[float] = None,
        high: Optional[float] = None,
        has_note: Optional[bool] = None,
        offset: int = 0,
        limit: int = 50,
    ) -> ScoredReplies:
        """Return a page of replies, sorted, filtered and searched by the server; metrics go by their places.

        disagreed = client.evaluations.replies(id, sort="disagreement", other=1, order="descending")
        """

    @route("GET", "/v1/evaluations/{id}/replies/{place}")
    def reply(self, id: str, place: int) -> FullReply:
        """Return a reply in full: its turns, references with their credit, every score, and its note."""

    @route("GET", "/v1/evaluations/{id}/points")
    def points(
        self, id: str, *, x: int = 0, y: int = 1, system: Optional[str] = None, limit: Optional[int] = None
    ) -> ScorePoints:
        """Return the scores of replies by two metrics; above `limit` a sample of them."""

    @route("GET", "/v1/evaluations/{id}/download")
    def download(self, id: str, *, format: Optional[DownloadFormat] = None) -> bytes:
        """Return an evaluation as a file: the JSON of the command, CSV, LaTeX, or a page that needs no other file."""

    @route("GET", "/v1/evaluations/{id}/comparison", timed=True)
    def compare(
        self,
        id: str,
        with_: str,
        *,
        system: Optional[str] = None,
        first_system: Optional[str] = None,
        second_system: Optional[str] = None,
        search: Optional[str] = None,
        limit: Optional[int] = None,
        anyway: Optional[bool] = None,
    ) -> EvaluationComparison:
        """Return two evaluations side by side: paired tests, and the replies that changed most."""

    @route("GET", "/v1/evaluations/{id}/notes", key="notes")
    def notes(self, id: str) -> Rows[ReplyNote]:
        """Return the notes on the replies of an evaluation."""

    @route("PUT", "/v1/evaluations/{id}/notes/{place}")
    def put_note(self, id: str, place: int, text: str) -> ReplyNote:
        """Keep a note on a reply in place of the one before; an empty text removes it."""
