"""Uploaded files and evaluations."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Literal, Optional, Union

from refaug_client._api.bodies import format_times, request_body
from refaug_client._api.methods import K, Resource, flow, route
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
from refaug_client._api.readers import listing, read_bytes, read_model, read_page
from refaug_client._core.progress import Progress
from refaug_client._http.call import Call, path
from refaug_client._jobs.following import wait_for_job

DownloadFormat = Literal["json", "csv", "latex", "html"]
ReplyOrder = Literal["place", "score", "other", "disagreement", "length", "item"]


class Uploads(Resource[K]):
    """Files on the server, to be previewed and evaluated."""

    @route
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

    @route
    def list(self) -> Call[UploadList]:
        """Return the uploaded files that the key sees, newest first."""
        return Call("GET", "/v1/uploads", read_model(UploadList))

    @route
    def get(self, id: str) -> Call[Upload]:
        """Return an uploaded file: name, size, hash and times."""
        return Call("GET", path("v1", "uploads", id), read_model(Upload))

    @route
    def download(self, id: str) -> Call[bytes]:
        """Return the bytes of an uploaded file, or of one that a job of kind `replies` has written.

        job = client.jobs.start("replies", items=table.source, bots={"mine": "bot:mine"})
        replied = client.jobs.wait(job.id).result["upload"]
        client.evaluations.start("score", items=replied, metrics=["chrf"])
        """
        route = path("v1", "uploads", id, "content")
        return Call("GET", route, read_bytes, headers={"Accept": "*/*"})

    @route
    def remove(self, id: str) -> Call[Upload]:
        """Remove an uploaded file; evaluations of it stay."""
        return Call("DELETE", path("v1", "uploads", id), read_model(Upload))

    @route
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
    ) -> Call[FilePreview]:
        """Return files as a score would read them: the first items, the columns, and the bad rows.

        preview = client.uploads.preview(items=table.source, map=["utterance=prompt", "reply:new=answer"])
        """
        document = request_body(
            items=items,
            replies=replies,
            references=references,
            weights=weights,
            utterances=utterances,
            map=map,
            shape=shape,
            encoding=encoding,
            allow_truncated=allow_truncated,
            systems=systems,
        )
        return Call("POST", "/v1/uploads/preview", read_model(FilePreview), body=document, timed=True)


class Evaluations(Resource[K]):
    """Scores of uploaded files, and agreement with ratings, made by jobs and kept by the server."""

    @route
    def start(self, /, kind: str, **order: Any) -> Call[Evaluation]:
        """Queue an evaluation of kind `score` or `meta`; its id is that of its job.

        done = client.evaluations.wait(client.evaluations.start("score", items=table.source).id)
        """
        document = {"kind": kind, **(format_times(order) or {})}
        return Call("POST", "/v1/evaluations", read_model(Evaluation), body=document, keyed=True)

    @flow
    async def wait(self, id: str, *, progress: Progress = None, timeout_s: Optional[float] = None) -> Evaluation:
        """Return the evaluation when it is done; JobFailed or JobCancelled where it ends otherwise.

        The key needs the scope `read` to follow the job.
        """
        await wait_for_job(self._wire, id, progress=progress, timeout_s=timeout_s)
        return await self._wire.send(Evaluations.get.call(id))

    @route
    def list(
        self, *, kind: Optional[str] = None, after: Optional[str] = None, limit: Optional[int] = None
    ) -> Call[Rows[Evaluation]]:
        """Return the evaluations that the key sees, newest first, without their summaries."""
        return listing("/v1/evaluations", Evaluation, "evaluations", after=after, limit=limit, kind=kind)

    @route
    def get(self, id: str) -> Call[Evaluation]:
        """Return an evaluation with its summary, or its agreement."""
        return Call("GET", path("v1", "evaluations", id), read_model(Evaluation))

    @route
    def remove(self, id: str) -> Call[Evaluation]:
        """Cancel an evaluation that waits or runs, or remove it after its end."""
        # a first one may have cancelled, and a second one removes
        return Call("DELETE", path("v1", "evaluations", id), read_model(Evaluation), repeatable=False)

    @route
    def cancel(self, id: str) -> Call[Evaluation]:
        """Cancel an evaluation that waits or runs; Conflict where it has ended, and then it stays."""
        # one that has ended is refused
        route = path("v1", "evaluations", id, "cancel")
        return Call("POST", route, read_model(Evaluation), repeatable=False)

    @route
    def retry(self, id: str) -> Call[Evaluation]:
        """Queue an evaluation again that failed or was cancelled."""
        # a second one is refused
        route = path("v1", "evaluations", id, "retry")
        return Call("POST", route, read_model(Evaluation), repeatable=False)

    @route
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
    ) -> Call[ScoredReplies]:
        """Return a page of replies, sorted, filtered and searched by the server; metrics go by their places.

        disagreed = client.evaluations.replies(id, sort="disagreement", other=1, order="descending")
        """
        query = {
            "metric": metric,
            "other": other,
            "sort": sort,
            "order": order,
            "system": system,
            "search": search,
            "low": low,
            "high": high,
            "has_note": has_note,
            "offset": offset,
            "limit": limit,
        }
        return Call("GET", path("v1", "evaluations", id, "replies"), read_model(ScoredReplies), query=query)

    @route
    def reply(self, id: str, place: int) -> Call[FullReply]:
        """Return a reply in full: its turns, references with their credit, every score, and its note."""
        return Call("GET", path("v1", "evaluations", id, "replies", str(place)), read_model(FullReply))

    @route
    def points(
        self, id: str, *, x: int = 0, y: int = 1, system: Optional[str] = None, limit: Optional[int] = None
    ) -> Call[ScorePoints]:
        """Return the scores of replies by two metrics; above `limit` a sample of them."""
        query = {"x": x, "y": y, "system": system, "limit": limit}
        return Call("GET", path("v1", "evaluations", id, "points"), read_model(ScorePoints), query=query)

    @route
    def download(self, id: str, *, format: Optional[DownloadFormat] = None) -> Call[bytes]:
        """Return an evaluation as a file: the JSON of the command, CSV, LaTeX, or a page that needs no other file."""
        route = path("v1", "evaluations", id, "download")
        return Call("GET", route, read_bytes, query={"format": format}, headers={"Accept": "*/*"})

    @route
    def compare(
        self,
        id: str,
        second: str,
        *,
        system: Optional[str] = None,
        first_system: Optional[str] = None,
        second_system: Optional[str] = None,
        search: Optional[str] = None,
        limit: Optional[int] = None,
        anyway: Optional[bool] = None,
    ) -> Call[EvaluationComparison]:
        """Return two evaluations side by side: paired tests, and the replies that changed most."""
        query = {
            "with": second,
            "system": system,
            "first_system": first_system,
            "second_system": second_system,
            "search": search,
            "limit": limit,
            "anyway": anyway,
        }
        route = path("v1", "evaluations", id, "comparison")
        return Call("GET", route, read_model(EvaluationComparison), query=query)

    @route
    def notes(self, id: str) -> Call[Rows[ReplyNote]]:
        """Return the notes on the replies of an evaluation."""
        return Call("GET", path("v1", "evaluations", id, "notes"), read_page(ReplyNote, "notes"))

    @route
    def put_note(self, id: str, place: int, text: str) -> Call[ReplyNote]:
        """Keep a note on a reply in place of the one before; an empty text removes it."""
        route = path("v1", "evaluations", id, "notes", str(place))
        return Call("PUT", route, read_model(ReplyNote), body={"text": text})
