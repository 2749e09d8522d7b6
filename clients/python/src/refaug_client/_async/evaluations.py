"""Uploaded files and evaluations; `_sync/evaluations.py` is generated from it."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Literal, Optional, Union

from refaug_client._api import calls, models
from refaug_client._api.calls.evaluations import DownloadFormat, ReplyOrder
from refaug_client._core.progress import Progress

from .jobs import async_wait
from .resource import AsyncResource


class AsyncUploads(AsyncResource):
    """Files on the server, to be previewed and evaluated."""

    async def send(
        self,
        content: Union[str, os.PathLike[str], bytes],
        *,
        name: Optional[str] = None,
        format: Optional[str] = None,  # noqa: A002
        timeout_s: Optional[float] = None,
    ) -> models.Upload:
        """Upload a file by its path, or bytes with a `name`, and return what the server keeps.

            table = await client.uploads.send("ratings.csv")
            await client.evaluations.start("score", items=table.source, metrics=["chrf"])

        `format` is jsonl, json, csv, tsv, lines, parquet or arrow; without it, the end of the name says so.
        """
        if isinstance(content, bytes):
            raw, file_name = content, "file"
        else:
            raw, file_name = Path(content).read_bytes(), Path(content).name
        return await self._send(calls.upload_file(raw, name=name or file_name, format=format), timeout_s)

    async def list(self, *, timeout_s: Optional[float] = None) -> models.UploadList:
        """Return the uploaded files that the key sees, newest first."""
        return await self._send(calls.list_uploads(), timeout_s)

    async def get(self, id: str, *, timeout_s: Optional[float] = None) -> models.Upload:  # noqa: A002
        """Return an uploaded file: name, size, hash and times."""
        return await self._send(calls.get_upload(id), timeout_s)

    async def download(self, id: str, *, timeout_s: Optional[float] = None) -> bytes:  # noqa: A002
        """Return the bytes of an uploaded file, or of one that a job of kind `replies` has written.

        job = await client.jobs.start("replies", items=table.source, bots={"mine": "bot:mine"})
        replied = (await client.jobs.wait(job.id)).result["upload"]
        await client.evaluations.start("score", items=replied, metrics=["chrf"])
        """
        return await self._send(calls.download_upload(id), timeout_s)

    async def remove(self, id: str, *, timeout_s: Optional[float] = None) -> models.Upload:  # noqa: A002
        """Remove an uploaded file; evaluations of it stay."""
        return await self._send(calls.remove_upload(id), timeout_s)

    async def preview(
        self,
        *,
        items: Optional[str] = None,
        replies: Optional[Mapping[str, str]] = None,
        references: Optional[Sequence[str]] = None,
        weights: Optional[Sequence[str]] = None,
        utterances: Optional[str] = None,
        map: Optional[Sequence[str]] = None,  # noqa: A002
        shape: Optional[Literal["item", "reply", "rating"]] = None,
        encoding: Optional[str] = None,
        allow_truncated: Optional[bool] = None,
        timeout_s: Optional[float] = None,
    ) -> models.FilePreview:
        """Return files as a score would read them: the first items, the columns, and the bad rows.

        preview = await client.uploads.preview(items=table.source, map=["utterance=prompt", "reply:new=answer"])
        """
        call = calls.preview_files(
            items=items,
            replies=replies,
            references=references,
            weights=weights,
            utterances=utterances,
            map=map,
            shape=shape,
            encoding=encoding,
            allow_truncated=allow_truncated,
        )
        return await self._send(call, timeout_s)


class AsyncEvaluations(AsyncResource):
    """Scores of uploaded files, and agreement with ratings, made by jobs and kept by the server."""

    async def start(self, kind: str, *, timeout_s: Optional[float] = None, **order: Any) -> models.Evaluation:
        """Queue an evaluation of kind `score` or `meta`; its id is that of its job.

        done = await client.evaluations.wait((await client.evaluations.start("score", items=table.source)).id)
        """
        return await self._send(calls.start_evaluation(kind, **order), timeout_s)

    async def wait(
        self,
        id: str,  # noqa: A002
        *,
        progress: Progress = None,
        timeout_s: Optional[float] = None,
    ) -> models.Evaluation:
        """Return the evaluation when it is done; JobFailed or JobCancelled where it ends otherwise.

        The key needs the scope `read` to follow the job.
        """
        await async_wait(self._connection, id, progress=progress, timeout_s=timeout_s)
        return await self._send(calls.get_evaluation(id), None)

    async def list(
        self,
        *,
        kind: Optional[str] = None,
        after: Optional[str] = None,
        limit: Optional[int] = None,
        timeout_s: Optional[float] = None,
    ) -> models.Rows[models.Evaluation]:
        """Return the evaluations that the key sees, newest first, without their summaries."""
        return await self._list_all(
            lambda after, size: calls.list_evaluations(kind=kind, after=after, limit=size), after, limit, timeout_s
        )

    async def get(self, id: str, *, timeout_s: Optional[float] = None) -> models.Evaluation:  # noqa: A002
        """Return an evaluation with its summary, or its agreement."""
        return await self._send(calls.get_evaluation(id), timeout_s)

    async def remove(self, id: str, *, timeout_s: Optional[float] = None) -> models.Evaluation:  # noqa: A002
        """Cancel an evaluation that waits or runs, or remove it after its end."""
        return await self._send(calls.remove_evaluation(id), timeout_s)

    async def cancel(self, id: str, *, timeout_s: Optional[float] = None) -> models.Evaluation:  # noqa: A002
        """Cancel an evaluation that waits or runs; Conflict where it has ended, and then it stays."""
        return await self._send(calls.cancel_evaluation(id), timeout_s)

    async def retry(self, id: str, *, timeout_s: Optional[float] = None) -> models.Evaluation:  # noqa: A002
        """Queue an evaluation again that failed or was cancelled."""
        return await self._send(calls.retry_evaluation(id), timeout_s)

    async def replies(
        self,
        id: str,  # noqa: A002
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
        timeout_s: Optional[float] = None,
    ) -> models.ScoredReplies:
        """Return a page of replies, sorted, filtered and searched by the server; metrics go by their places.

        disagreed = await client.evaluations.replies(id, sort="disagreement", other=1, order="descending")
        """
        call = calls.list_scored_replies(
            id,
            metric=metric,
            other=other,
            sort=sort,
            order=order,
            system=system,
            search=search,
            low=low,
            high=high,
            has_note=has_note,
            offset=offset,
            limit=limit,
        )
        return await self._send(call, timeout_s)

    async def reply(self, id: str, place: int, *, timeout_s: Optional[float] = None) -> models.FullReply:  # noqa: A002
        """Return a reply in full: its turns, references with their credit, every score, and its note."""
        return await self._send(calls.get_scored_reply(id, place), timeout_s)

    async def points(
        self,
        id: str,  # noqa: A002
        *,
        x: int = 0,
        y: int = 1,
        system: Optional[str] = None,
        limit: Optional[int] = None,
        timeout_s: Optional[float] = None,
    ) -> models.ScorePoints:
        """Return the scores of replies by two metrics; above `limit` a sample of them."""
        return await self._send(calls.get_points(id, x=x, y=y, system=system, limit=limit), timeout_s)

    async def download(
        self,
        id: str,  # noqa: A002
        *,
        format: Optional[DownloadFormat] = None,  # noqa: A002
        timeout_s: Optional[float] = None,
    ) -> bytes:
        """Return an evaluation as a file: the JSON of the command, CSV, LaTeX, or a page that needs no other file."""
        return await self._send(calls.download_evaluation(id, format=format), timeout_s)

    async def compare(
        self,
        id: str,  # noqa: A002
        second: str,
        *,
        system: Optional[str] = None,
        first_system: Optional[str] = None,
        second_system: Optional[str] = None,
        search: Optional[str] = None,
        limit: Optional[int] = None,
        anyway: Optional[bool] = None,
        timeout_s: Optional[float] = None,
    ) -> models.EvaluationComparison:
        """Return two evaluations side by side: paired tests, and the replies that changed most."""
        call = calls.compare_evaluations(
            id,
            second,
            system=system,
            first_system=first_system,
            second_system=second_system,
            search=search,
            limit=limit,
            anyway=anyway,
        )
        return await self._send(call, timeout_s)

    async def notes(self, id: str, *, timeout_s: Optional[float] = None) -> models.Rows[models.ReplyNote]:  # noqa: A002
        """Return the notes on the replies of an evaluation."""
        return await self._send(calls.list_notes(id), timeout_s)

    async def put_note(
        self,
        id: str,  # noqa: A002
        place: int,
        text: str,
        *,
        timeout_s: Optional[float] = None,
    ) -> models.ReplyNote:
        """Keep a note on a reply in place of the one before; an empty text removes it."""
        return await self._send(calls.put_note(id, place, text), timeout_s)
