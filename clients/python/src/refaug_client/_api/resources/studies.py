"""Studies with people."""

from __future__ import annotations

import json
import os
from collections.abc import AsyncGenerator, Iterable, Mapping
from datetime import datetime
from pathlib import Path
from typing import Any, Literal, Optional, Union

from refaug_client._api.bodies import request_body, to_list, to_moment
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
    StudyReport,
)
from refaug_client._api.readers import listing, read_bytes, read_model, read_nothing, read_page
from refaug_client._http.call import Call, path
from refaug_client._http.exchange import download

ExportFormat = Literal["jsonl", "csv", "items", "conversations", "acute", "dpo", "weights"]


class Studies(Resource[K]):
    """Studies in which people chat with bots, rate and compare; the key needs the scope `study`.

    Everywhere, `id` is the id or the name of a study.
    """

    @route
    def list(self, *, after: Optional[str] = None, limit: Optional[int] = None) -> Call[Rows[ListedStudy]]:
        """Return studies, newest first."""
        return listing("/v1/studies", ListedStudy, "studies", after=after, limit=limit)

    @route
    def create(
        self, name: str, protocol: Mapping[str, Any], *, items: Optional[Iterable[Mapping[str, Any]]] = None
    ) -> Call[Study]:
        """Make a study as a draft; BadInput names every field of the protocol that is wrong.

            protocol = {"kind": "chat", "bots": ["old", "new"], "form": "chat-quality-5", "consent": "…"}
            study = client.studies.create("autumn", protocol)

        `items` are the dialogues, replies or references that are judged, where the kind wants them.
        """
        document = request_body(name=name, protocol=dict(protocol), items=None if items is None else to_list(items))
        # a second one finds the name taken
        return Call("POST", "/v1/studies", read_model(Study), body=document, repeatable=False)

    @route
    def get(self, id: str) -> Call[Study]:
        """Return a study with its protocol, amendments, counts and bots."""
        return Call("GET", path("v1", "studies", id), read_model(Study))

    @route
    def amend(self, id: str, protocol: Mapping[str, Any], *, reason: Optional[str] = None) -> Call[Study]:
        """Replace the protocol of a draft, or amend that of an open study, which needs a reason."""
        document = request_body(protocol=dict(protocol), reason=reason)
        return Call("PUT", path("v1", "studies", id, "protocol"), read_model(Study), body=document)

    @route
    def add_items(self, id: str, items: Iterable[Mapping[str, Any]]) -> Call[AddedItems]:
        """Add dialogues, replies or references to a draft."""
        route = path("v1", "studies", id, "dialogues")
        # a second time, ids would be there twice
        return Call("POST", route, read_model(AddedItems), body={"items": to_list(items)}, repeatable=False)

    @route
    def delete(self, id: str) -> Call[None]:
        """Remove a draft, or a closed study with everything that was collected."""
        # a second one finds nothing
        return Call("DELETE", path("v1", "studies", id), read_nothing("id"), repeatable=False)

    @route
    def pilot(self, id: str) -> Call[Study]:
        """Let participants in, whose tasks count for the pilot alone."""
        return _state(id, "pilot")

    @route
    def open(self, id: str) -> Call[Study]:
        """Freeze the protocol and let participants in; a paused study goes on."""
        return _state(id, "open")

    @route
    def pause(self, id: str) -> Call[Study]:
        """Give out no more tasks; those that have begun may be finished."""
        return _state(id, "pause")

    @route
    def close(self, id: str) -> Call[Study]:
        """End a study for good."""
        return _state(id, "close")

    @route
    def preview(self, id: str, *, language: Optional[str] = None) -> Call[StudyPreview]:
        """Return what a participant would see: consent, guidelines, form, and an example of a sequence of tasks."""
        route = path("v1", "studies", id, "preview")
        return Call("GET", route, read_model(StudyPreview), query={"language": language})

    @route
    def invite(
        self,
        id: str,
        *,
        count: Optional[int] = None,
        label: Optional[str] = None,
        uses_max: Optional[int] = None,
        expires: Union[str, datetime, None] = None,
    ) -> Call[Rows[NewStudyInvite]]:
        """Make invitations and return them with their links, which no later answer has.

            (invite,) = client.studies.invite("autumn", uses_max=50)
            print(client.url + invite.link)

        An invitation with `uses_max=1` is personal: by it, its participant comes back on another device.
        """
        document = request_body(count=count, label=label, uses_max=uses_max, expires=to_moment(expires))
        reader = read_page(NewStudyInvite, "invites")
        # tokens are in the first answer alone
        return Call("POST", path("v1", "studies", id, "invites"), reader, body=document, repeatable=False)

    @route
    def invites(self, id: str, *, after: Optional[str] = None, limit: Optional[int] = None) -> Call[Rows[StudyInvite]]:
        """Return invitations, oldest first, with how often each was used."""
        return listing(path("v1", "studies", id, "invites"), StudyInvite, "invites", after=after, limit=limit)

    @route
    def revoke(self, id: str, invite: str) -> Call[StudyInvite]:
        """Let an invitation open nothing any more; participants whom it has let in go on."""
        return Call("DELETE", path("v1", "studies", id, "invites", invite), read_model(StudyInvite))

    @route
    def progress(self, id: str) -> Call[StudyProgress]:
        """Return how far a study is, and how its bots and the sides of its pairs are balanced."""
        return Call("GET", path("v1", "studies", id, "progress"), read_model(StudyProgress))

    @route
    def participants(
        self, id: str, *, after: Optional[str] = None, limit: Optional[int] = None
    ) -> Call[Rows[StudyParticipant]]:
        """Return participants by code, with what they did, the time that they spent, and what they are to be paid."""
        return listing(
            path("v1", "studies", id, "participants"), StudyParticipant, "participants", after=after, limit=limit
        )

    @route
    def participant(self, id: str, code: str) -> Call[ParticipantTasks]:
        """Return everything that one participant did."""
        return Call("GET", path("v1", "studies", id, "participants", code), read_model(ParticipantTasks))

    @route
    def exclude(self, id: str, code: str, *, reason: Optional[str]) -> Call[ParticipantExclusion]:
        """Leave a participant out of the report, with a reason; None takes them in again. The report shows both."""
        route = path("v1", "studies", id, "participants", code, "exclusion")
        return Call("PUT", route, read_model(ParticipantExclusion), body={"reason": reason})  # null takes in again

    @route
    def resume_link(self, id: str, code: str) -> Call[ResumeLink]:
        """Make a new link by which a participant goes on; their former links and all their sessions end.

        Give it only to whom you know to be the participant: it opens what they wrote.
        """
        route = path("v1", "studies", id, "participants", code, "resume-link")
        return Call("POST", route, read_model(ResumeLink))

    @route
    def erase(self, id: str, code: str) -> Call[None]:
        """Erase all texts and answers of a participant; that there was one stays."""
        return Call("DELETE", path("v1", "studies", id, "participants", code), read_nothing("code"))

    @route
    def report(self, id: str, *, draws: Optional[int] = None) -> Call[StudyReport]:
        """Return every figure of the study so far, with and without exclusions."""
        return Call("GET", path("v1", "studies", id, "report"), read_model(StudyReport), query={"draws": draws})

    @route
    def agreement(self, id: str) -> Call[Rows[QuestionAgreement]]:
        """Return how far participants agree so far, by question."""
        return Call("GET", path("v1", "studies", id, "agreement"), read_page(QuestionAgreement, "questions"))

    @route
    def disagreements(self, id: str, *, limit: Optional[int] = None) -> Call[Rows[Disagreement]]:
        """Return what participants disagree about most, with what was decided about it."""
        reader = read_page(Disagreement, "items")
        return Call("GET", path("v1", "studies", id, "disagreements"), reader, query={"limit": limit})

    @route
    def adjudicate(
        self, id: str, item: str, question: str, value: Union[float, str], *, note: Optional[str] = None
    ) -> Call[Adjudication]:
        """Decide what counts for a question of an item; the answers of participants stay as they are."""
        document = request_body(item=item, question=question, value=value, note=note)
        return Call("PUT", path("v1", "studies", id, "adjudications"), read_model(Adjudication), body=document)

    @route
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
    ) -> Call[StudyPower]:
        """Return how many ratings or votes show a difference of means or a win rate, and how many participants.

        needed = client.studies.power(difference=0.5, ratings_per_participant=4)
        """
        document = request_body(
            difference=difference,
            win_rate=win_rate,
            sd=sd,
            power=power,
            alpha=alpha,
            ratings_per_participant=ratings_per_participant,
            rho=rho,
        )
        return Call("POST", "/v1/studies/power", read_model(StudyPower), body=document)

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
        async with self._wire.stream(_export(id)) as response:
            async for line in response.aiter_lines():
                if line:
                    yield json.loads(line)


def _export(id: str, *, format: Optional[ExportFormat] = None, question: Optional[str] = None) -> Call[bytes]:
    """GET /v1/studies/{id}/export: to be streamed, since it may be large."""
    route, query = path("v1", "studies", id, "export"), {"format": format, "question": question}
    return Call("GET", route, read_bytes, query=query, headers={"Accept": "*/*"})


def _state(id: str, act: str) -> Call[Study]:
    return Call("POST", path("v1", "studies", id, act), read_model(Study), repeatable=False)
