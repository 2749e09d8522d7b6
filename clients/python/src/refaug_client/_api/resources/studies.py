"""Studies with people."""

from __future__ import annotations

import json
import os
from collections.abc import AsyncGenerator, Iterable, Mapping
from datetime import datetime
from pathlib import Path
from typing import Any, Literal, Optional, Union

from refaug_client._api.methods import K, Resource, flow, iteration, route
from refaug_client._api.models.base import Rows
from refaug_client._api.models.studies import (
    AddedItems,
    Adjudication,
    Disagreement,
    ListedStudy,
    NewStudyInvite,
    ParticipantExclusion,
    ParticipantTasks,
    QuestionAgreement,
    ResumeLink,
    Study,
    StudyInvite,
    StudyParticipant,
    StudyPower,
    StudyPreview,
    StudyProgress,
    StudyRecruit,
    StudyReport,
    StudyResponses,
)
from refaug_client._api.readers import read_bytes
from refaug_client._http.call import Call, path
from refaug_client._http.exchange import download

ExportFormat = Literal["jsonl", "csv", "items", "conversations", "acute", "dpo", "weights"]


class Studies(Resource[K]):
    """Studies in which people chat with bots, rate and compare; the key needs the scope `study`.

    Everywhere, `id` is the id or the name of a study.
    """

    @route("GET", "/v1/studies", key="studies")
    def list(self, *, after: Optional[str] = None, limit: Optional[int] = None) -> Rows[ListedStudy]:
        """Return studies, newest first."""

    @route("POST", "/v1/studies", repeatable=False)  # a second one finds the name taken
    def create(
        self, name: str, protocol: Mapping[str, Any], *, items: Optional[Iterable[Mapping[str, Any]]] = None
    ) -> Study:
        """Make a study as a draft; BadInput names every field of the protocol that is wrong.

            protocol = {"kind": "chat", "bots": ["old", "new"], "form": "chat-quality-5", "consent": "…"}
            study = client.studies.create("autumn", protocol)

        `items` are the dialogues, replies or references that are judged, where the kind wants them.
        """

    @route("GET", "/v1/studies/{id}")
    def get(self, id: str) -> Study:
        """Return a study with its protocol, amendments, counts and bots."""

    @route("PUT", "/v1/studies/{id}/protocol")
    def amend(self, id: str, protocol: Mapping[str, Any], *, reason: Optional[str] = None) -> Study:
        """Replace the protocol of a draft, or amend that of an open study, which needs a reason."""

    @route("POST", "/v1/studies/{id}/dialogues", repeatable=False)  # a second time, ids would be there twice
    def add_items(self, id: str, items: Iterable[Mapping[str, Any]]) -> AddedItems:
        """Add dialogues, replies or references to a draft."""

    @route("DELETE", "/v1/studies/{id}", key="id", repeatable=False)  # a second one finds nothing
    def delete(self, id: str) -> None:
        """Remove a draft, or a closed study with everything that was collected."""

    @route("POST", "/v1/studies/{id}/pilot", repeatable=False)
    def pilot(self, id: str) -> Study:
        """Let participants in, whose tasks count for the pilot alone."""

    @route("POST", "/v1/studies/{id}/open", repeatable=False)
    def open(self, id: str) -> Study:
        """Freeze the protocol and let participants in; a paused study goes on."""

    @route("POST", "/v1/studies/{id}/pause", repeatable=False)
    def pause(self, id: str) -> Study:
        """Give out no more tasks; those that have begun may be finished."""

    @route("POST", "/v1/studies/{id}/close", repeatable=False)
    def close(self, id: str) -> Study:
        """End a study for good."""

    @route("GET", "/v1/studies/{id}/preview")
    def preview(self, id: str, *, language: Optional[str] = None) -> StudyPreview:
        """Return what a participant would see: consent, guidelines, form, and an example of a sequence of tasks."""

    @route("POST", "/v1/studies/{id}/invites", key="invites", repeatable=False)  # tokens are in the first answer alone
    def invite(
        self,
        id: str,
        *,
        count: Optional[int] = None,
        label: Optional[str] = None,
        uses_max: Optional[int] = None,
        expires: Union[str, datetime, None] = None,
    ) -> Rows[NewStudyInvite]:
        """Make invitations and return them with their links, which no later answer has.

            (invite,) = client.studies.invite("autumn", uses_max=50)
            print(client.url + invite.link)

        An invitation with `uses_max=1` is personal: by it, its participant comes back on another device.
        """

    @route("GET", "/v1/studies/{id}/invites", key="invites")
    def invites(self, id: str, *, after: Optional[str] = None, limit: Optional[int] = None) -> Rows[StudyInvite]:
        """Return invitations, oldest first, with how often each was used."""

    @route("DELETE", "/v1/studies/{id}/invites/{invite}")
    def revoke(self, id: str, invite: str) -> StudyInvite:
        """Let an invitation open nothing any more; participants whom it has let in go on."""

    @route("GET", "/v1/studies/{id}/progress")
    def progress(self, id: str) -> StudyProgress:
        """Return how far a study is, and how its bots and the sides of its pairs are balanced."""

    @route("GET", "/v1/studies/{id}/participants", key="participants")
    def participants(
        self, id: str, *, active: Optional[bool] = None, after: Optional[str] = None, limit: Optional[int] = None
    ) -> Rows[StudyParticipant]:
        """Return participants by code, with what they did, the time that they spent, and what they are to be paid.

        With `active`, only who is not at an end, and was seen within five minutes.
        """

    @route("GET", "/v1/studies/{id}/participants/{code}")
    def participant(self, id: str, code: str) -> ParticipantTasks:
        """Return everything that one participant did."""

    @route("GET", "/v1/studies/{id}/responses")
    def responses(
        self,
        id: str,
        *,
        bot: Optional[str] = None,
        participant: Optional[str] = None,
        item: Optional[str] = None,
        flag: Optional[str] = None,
        question: Optional[str] = None,
        low: Optional[float] = None,
        high: Optional[float] = None,
        sort: Optional[Literal["ended", "score", "seconds"]] = None,
        order: Optional[Literal["ascending", "descending"]] = None,
        offset: int = 0,
        limit: int = 50,
    ) -> StudyResponses:
        """Return a page of responses, one a task, filtered and sorted by the server.

        hasty = client.studies.responses("autumn", flag="seconds_per_turn_below", sort="seconds", order="ascending")

        `low` and `high` are about the scores by `question`; `flag` is that of a response, or `any`, or `none`.
        """

    @route("POST", "/v1/studies/{id}/recruits", key="recruits")
    def recruits(self, id: str, ids: Iterable[str], *, parameter: Optional[str] = None) -> Rows[StudyRecruit]:
        """Return what became of people by their ids of a recruiting service, which are looked up and not kept.

        approved = [one.id for one in client.studies.recruits("autumn", ids) if one.decision == "approve"]
        """

    @route("PUT", "/v1/studies/{id}/participants/{code}/exclusion")  # null takes in again
    def exclude(self, id: str, code: str, *, reason: Optional[str]) -> ParticipantExclusion:
        """Leave a participant out of the report, with a reason; None takes them in again. The report shows both."""

    @route("POST", "/v1/studies/{id}/participants/{code}/resume-link")
    def resume_link(self, id: str, code: str) -> ResumeLink:
        """Make a new link by which a participant goes on; their former links and all their sessions end.

        Give it only to whom you know to be the participant: it opens what they wrote.
        """

    @route("DELETE", "/v1/studies/{id}/participants/{code}", key="code")
    def erase(self, id: str, code: str) -> None:
        """Erase all texts and answers of a participant; that there was one stays."""

    @route("GET", "/v1/studies/{id}/report", timed=True)
    def report(self, id: str, *, draws: Optional[int] = None, page: Optional[bool] = None) -> StudyReport:
        """Return every figure of the study so far, with and without exclusions; with `page`, also as an HTML page."""

    @route("GET", "/v1/studies/{id}/agreement", key="questions", timed=True)
    def agreement(self, id: str) -> Rows[QuestionAgreement]:
        """Return how far participants agree so far, by question."""

    @route("GET", "/v1/studies/{id}/disagreements", key="items")
    def disagreements(self, id: str, *, limit: Optional[int] = None) -> Rows[Disagreement]:
        """Return what participants disagree about most, with what was decided about it."""

    @route("PUT", "/v1/studies/{id}/adjudications")
    def adjudicate(
        self, id: str, item: str, question: str, value: Union[float, str], *, note: Optional[str] = None
    ) -> Adjudication:
        """Decide what counts for a question of an item; the answers of participants stay as they are."""

    @route("POST", "/v1/studies/power")
    def power(
        self,
        *,
        difference: Optional[float] = None,
        win_rate: Optional[float] = None,
        sd: Optional[float] = None,
        power: Optional[float] = None,
        alpha: Optional[float] = None,
        ratings_per_participant: Optional[int] = None,
        rho: Optional[float] = None,
    ) -> StudyPower:
        """Return how many ratings or votes show a difference of means or a win rate, and how many participants.

        needed = client.studies.power(difference=0.5, ratings_per_participant=4)
        """

    @flow
    async def export(
        self,
        id: str,
        *,
        to: Union[str, os.PathLike[str]],
        format: Optional[ExportFormat] = None,
        question: Optional[str] = None,
    ) -> Path:
        """Download the tasks that are over to a file, which is there whole or not at all, and return its path.

        `to` may be a folder. `jsonl`, or without a format: a task a line, as `refaug studies report` reads it; `csv`:
        exchanges; `items` for `refaug agreement`; `conversations` for `refaug agreement hybrid`; `acute` and `dpo`:
        pairs; `weights` of references. `question` is the one whose answers count, where the form has several.
        """
        call = _export(id, format=format, question=question)
        return await download(self._wire, call, to, f"{id}.{'csv' if format == 'csv' else 'jsonl'}")

    @iteration
    async def records(self, id: str) -> AsyncGenerator[dict[str, Any], None]:
        """Yield the tasks that are over one by one, with their texts and answers, as the export has them.

        for task in client.studies.records("autumn"):
            print(task["participant"], task["answers"])
        """
        begun = b""
        async with self._wire.stream(_export(id)) as response:
            async for piece in response.aiter_bytes():  # texts may hold whatever else ends lines in Unicode
                *lines, begun = (begun + piece).split(b"\n")
                for line in lines:
                    yield json.loads(line)


def _export(id: str, *, format: Optional[ExportFormat] = None, question: Optional[str] = None) -> Call[bytes]:
    """GET /v1/studies/{id}/export: to be streamed, since it may be large."""
    route, query = path("v1", "studies", id, "export"), {"format": format, "question": question}
    return Call("GET", route, read_bytes, query=query, headers={"Accept": "*/*"})
