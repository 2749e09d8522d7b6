"""Studies with people; `_sync/studies.py` is generated from it."""

from __future__ import annotations

import json
import os
from collections.abc import AsyncIterator, Iterable, Mapping
from datetime import datetime
from pathlib import Path
from typing import Any, Optional, Union

from refaug_client._api import calls, models
from refaug_client._api.calls.studies import ExportFormat

from .resource import AsyncResource


class AsyncStudies(AsyncResource):
    """Studies in which people chat with bots, rate and compare; the key needs the scope `study`.

    Everywhere, `id` is the id or the name of a study.
    """

    async def list(
        self, *, after: Optional[str] = None, limit: Optional[int] = None, timeout_s: Optional[float] = None
    ) -> models.Rows[models.ListedStudy]:
        """Return studies, newest first."""
        return await self._list_all(
            lambda after, size: calls.list_studies(after=after, limit=size), after, limit, timeout_s
        )

    async def create(
        self,
        name: str,
        protocol: Mapping[str, Any],
        *,
        items: Optional[Iterable[Mapping[str, Any]]] = None,
        timeout_s: Optional[float] = None,
    ) -> models.Study:
        """Make a study as a draft; BadInput names every field of the protocol that is wrong.

            protocol = {"kind": "chat", "bots": ["old", "new"], "form": "chat-quality-5", "consent": "…"}
            study = await client.studies.create("autumn", protocol)

        `items` are the dialogues, replies or references that are judged, where the kind wants them.
        """
        return await self._send(calls.create_study(name, protocol, items=items), timeout_s)

    async def get(self, id: str, *, timeout_s: Optional[float] = None) -> models.Study:  # noqa: A002
        """Return a study with its protocol, amendments, counts and bots."""
        return await self._send(calls.get_study(id), timeout_s)

    async def amend(
        self,
        id: str,  # noqa: A002
        protocol: Mapping[str, Any],
        *,
        reason: Optional[str] = None,
        timeout_s: Optional[float] = None,
    ) -> models.Study:
        """Replace the protocol of a draft, or amend that of an open study, which needs a reason."""
        return await self._send(calls.amend_study(id, protocol, reason=reason), timeout_s)

    async def add_items(
        self,
        id: str,  # noqa: A002
        items: Iterable[Mapping[str, Any]],
        *,
        timeout_s: Optional[float] = None,
    ) -> models.AddedItems:
        """Add dialogues, replies or references to a draft."""
        return await self._send(calls.add_study_items(id, items), timeout_s)

    async def delete(self, id: str, *, timeout_s: Optional[float] = None) -> None:  # noqa: A002
        """Remove a draft, or a closed study with everything that was collected."""
        await self._send(calls.delete_study(id), timeout_s)

    async def pilot(self, id: str, *, timeout_s: Optional[float] = None) -> models.Study:  # noqa: A002
        """Let participants in, whose tasks count for the pilot alone."""
        return await self._send(calls.pilot_study(id), timeout_s)

    async def open(self, id: str, *, timeout_s: Optional[float] = None) -> models.Study:  # noqa: A002
        """Freeze the protocol and let participants in; a paused study goes on."""
        return await self._send(calls.open_study(id), timeout_s)

    async def pause(self, id: str, *, timeout_s: Optional[float] = None) -> models.Study:  # noqa: A002
        """Give out no more tasks; those that have begun may be finished."""
        return await self._send(calls.pause_study(id), timeout_s)

    async def close(self, id: str, *, timeout_s: Optional[float] = None) -> models.Study:  # noqa: A002
        """End a study for good."""
        return await self._send(calls.close_study(id), timeout_s)

    async def preview(
        self,
        id: str,  # noqa: A002
        *,
        language: Optional[str] = None,
        timeout_s: Optional[float] = None,
    ) -> models.StudyPreview:
        """Return what a participant would see: consent, guidelines, form, and an example of a sequence of tasks."""
        return await self._send(calls.preview_study(id, language=language), timeout_s)

    async def invite(
        self,
        id: str,  # noqa: A002
        *,
        count: Optional[int] = None,
        label: Optional[str] = None,
        uses_max: Optional[int] = None,
        expires: Union[str, datetime, None] = None,
        timeout_s: Optional[float] = None,
    ) -> models.Rows[models.NewStudyInvite]:
        """Make invitations and return them with their links, which no later answer has.

            (invite,) = await client.studies.invite("autumn", uses_max=50)
            print(client.url + invite.link)

        An invitation with `uses_max=1` is personal: by it, its participant comes back on another device.
        """
        call = calls.create_invites(id, count=count, label=label, uses_max=uses_max, expires=expires)
        return await self._send(call, timeout_s)

    async def invites(
        self,
        id: str,  # noqa: A002
        *,
        after: Optional[str] = None,
        limit: Optional[int] = None,
        timeout_s: Optional[float] = None,
    ) -> models.Rows[models.StudyInvite]:
        """Return invitations, oldest first, with how often each was used."""
        return await self._list_all(
            lambda after, size: calls.list_invites(id, after=after, limit=size), after, limit, timeout_s
        )

    async def revoke(self, id: str, invite: str, *, timeout_s: Optional[float] = None) -> models.StudyInvite:  # noqa: A002
        """Let an invitation open nothing any more; participants whom it has let in go on."""
        return await self._send(calls.revoke_invite(id, invite), timeout_s)

    async def progress(self, id: str, *, timeout_s: Optional[float] = None) -> models.StudyProgress:  # noqa: A002
        """Return how far a study is, and how its bots and the sides of its pairs are balanced."""
        return await self._send(calls.get_study_progress(id), timeout_s)

    async def participants(
        self,
        id: str,  # noqa: A002
        *,
        after: Optional[str] = None,
        limit: Optional[int] = None,
        timeout_s: Optional[float] = None,
    ) -> models.Rows[models.StudyParticipant]:
        """Return participants by code, with what they did, the time that they spent, and what they are to be paid."""
        return await self._list_all(
            lambda after, size: calls.list_participants(id, after=after, limit=size), after, limit, timeout_s
        )

    async def participant(self, id: str, code: str, *, timeout_s: Optional[float] = None) -> models.ParticipantTasks:  # noqa: A002
        """Return everything that one participant did."""
        return await self._send(calls.get_participant(id, code), timeout_s)

    async def exclude(
        self,
        id: str,  # noqa: A002
        code: str,
        *,
        reason: Optional[str],
        timeout_s: Optional[float] = None,
    ) -> models.ParticipantExclusion:
        """Leave a participant out of the report, with a reason; None takes them in again. The report shows both."""
        return await self._send(calls.exclude_participant(id, code, reason=reason), timeout_s)

    async def resume_link(self, id: str, code: str, *, timeout_s: Optional[float] = None) -> models.ResumeLink:  # noqa: A002
        """Make a new link by which a participant goes on; their former links and all their sessions end.

        Give it only to whom you know to be the participant: it opens what they wrote.
        """
        return await self._send(calls.renew_resume_link(id, code), timeout_s)

    async def erase(self, id: str, code: str, *, timeout_s: Optional[float] = None) -> None:  # noqa: A002
        """Erase all texts and answers of a participant; that there was one stays."""
        await self._send(calls.erase_participant(id, code), timeout_s)

    async def report(
        self,
        id: str,  # noqa: A002
        *,
        draws: Optional[int] = None,
        timeout_s: Optional[float] = None,
    ) -> models.StudyReport:
        """Return every figure of the study so far, with and without exclusions."""
        return await self._send(calls.get_study_report(id, draws=draws), timeout_s)

    async def agreement(
        self,
        id: str,  # noqa: A002
        *,
        timeout_s: Optional[float] = None,
    ) -> models.Rows[models.QuestionAgreement]:
        """Return how far participants agree so far, by question."""
        return await self._send(calls.get_study_agreement(id), timeout_s)

    async def disagreements(
        self,
        id: str,  # noqa: A002
        *,
        limit: Optional[int] = None,
        timeout_s: Optional[float] = None,
    ) -> models.Rows[models.Disagreement]:
        """Return what participants disagree about most, with what was decided about it."""
        return await self._send(calls.list_disagreements(id, limit=limit), timeout_s)

    async def adjudicate(
        self,
        id: str,  # noqa: A002
        item: str,
        question: str,
        value: Union[float, str],
        *,
        note: Optional[str] = None,
        timeout_s: Optional[float] = None,
    ) -> models.Adjudication:
        """Decide what counts for a question of an item; the answers of participants stay as they are."""
        return await self._send(calls.adjudicate_item(id, item, question, value, note=note), timeout_s)

    async def power(
        self,
        *,
        difference: Optional[float] = None,
        win_rate: Optional[float] = None,
        sd: Optional[float] = None,
        power: Optional[float] = None,
        alpha: Optional[float] = None,
        ratings_per_participant: Optional[int] = None,
        rho: Optional[float] = None,
        timeout_s: Optional[float] = None,
    ) -> models.StudyPower:
        """Return how many ratings or votes show a difference of means or a win rate, and how many participants.

        needed = await client.studies.power(difference=0.5, ratings_per_participant=4)
        """
        call = calls.plan_study(
            difference=difference,
            win_rate=win_rate,
            sd=sd,
            power=power,
            alpha=alpha,
            ratings_per_participant=ratings_per_participant,
            rho=rho,
        )
        return await self._send(call, timeout_s)

    async def export(
        self,
        id: str,  # noqa: A002
        *,
        to: Union[str, os.PathLike[str]],
        format: Optional[ExportFormat] = None,  # noqa: A002
        question: Optional[str] = None,
        timeout_s: Optional[float] = None,
    ) -> Path:
        """Download the tasks that are over to a file, which is there whole or not at all, and return its path.

        `to` may be a folder. `jsonl`, or without a format: a task a line, as `refaug studies report` reads it; `csv`:
        exchanges; `items` for `refaug meta`; `conversations` for `refaug hybrid`; `acute` and `dpo`: pairs; `weights`
        of references. `question` is the one whose answers count, where the form has several.
        """
        call = calls.export_study(id, format=format, question=question)
        return await self._download(call, to, f"{id}.{'csv' if format == 'csv' else 'jsonl'}", timeout_s)

    async def records(self, id: str, *, timeout_s: Optional[float] = None) -> AsyncIterator[dict[str, Any]]:  # noqa: A002
        """Yield the tasks that are over one by one, with their texts and answers, as the export has them.

        async for task in client.studies.records("autumn"):
            print(task["participant"], task["answers"])
        """
        async with self._connection.stream(calls.export_study(id), timeout_s=timeout_s) as response:
            async for line in response.aiter_lines():
                if line:
                    yield json.loads(line)
