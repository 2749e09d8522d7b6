"""Studies through both kinds of client, against a real server: from a draft to a report, with one participant."""

from __future__ import annotations

import asyncio
import csv
import json
from pathlib import Path
from typing import Any

import httpx2
import pytest
from refusals import refusing
from studying import Person, add_bots, chat_protocol

from refaug_client import AsyncClient, Client, Conflict, NotFound, RefaugError

SEPARATED = "one\N{PARAGRAPH SEPARATOR}two"  # a line of JSON goes on behind it


@pytest.fixture(scope="module")
def studied(url: str) -> str:
    """The name of an open study of two bots, in which one participant has done everything."""
    with httpx2.Client(base_url=url, timeout=60) as http, Client(url) as client:
        add_bots(http, "sdk-quokka", "sdk-wombat")
        draft = client.studies.create("sdk-study", chat_protocol("sdk-quokka", "sdk-wombat"))
        assert (draft.state, draft.kind, draft.protocol["min_turns"]) == ("draft", "chat", 3)
        assert client.studies.open(draft.id).state == "open"
        invites = client.studies.invite("sdk-study", count=2, label="two of them", uses_max=1)
        assert [(len(invite.token) > 20, invite.link) for invite in invites] == [
            (True, f"/take#{invite.token}") for invite in invites
        ]
        person = Person(http)
        person.enter(invites[0].token)
        person.agree()
        person.done("tasks/next")
        person.say(SEPARATED)
        person.chat(3, quality=6)
        person.chat(3, quality=2)
        assert person.state["step"] == "done"
    return "sdk-study"


def test_a_study_is_listed_and_shown_with_what_was_done(url: str, studied: str) -> None:
    with Client(url) as client:
        study = client.studies.get(studied)
        assert [row.name for row in client.studies.list() if row.id == study.id] == [studied]
        assert [(slot.bot, slot.done, slot.target) for slot in study.bots] == [
            ("sdk-quokka", 1, 50),
            ("sdk-wombat", 1, 50),
        ]
        assert [entry.sha256 for entry in study.amendments] == [study.protocol_sha256]
        progress = client.studies.progress(studied)
        assert (progress.state, progress.counts["finished"], progress.counts["tasks_done"]) == ("open", 1, 2)
        assert client.studies.preview(studied).form["questions"][0]["id"] == "quality"
        assert [(invite.label, invite.uses) for invite in client.studies.invites(studied)] == [
            ("two of them", 1),
            ("two of them", 0),
        ]


def test_records_and_exports_have_what_the_participant_did(url: str, studied: str, tmp_path: Path) -> None:
    with Client(url) as client:
        records = list(client.studies.records(studied))
        assert sorted(record["answers"]["quality"] for record in records) == [2, 6]
        (participant,) = client.studies.participants(studied)
        assert (participant.state, participant.done) == ("done", 2)
        assert client.studies.participant(studied, participant.code).tasks == records
        written = client.studies.export(studied, to=tmp_path)
        assert written == tmp_path / "sdk-study.jsonl"
        assert [json.loads(line) for line in written.read_text("utf-8").split("\n") if line] == records
        assert sum(SEPARATED in json.dumps(record, ensure_ascii=False) for record in records) == 1
        with client.studies.export(studied, to=tmp_path / "a.csv", format="csv").open(encoding="utf-8") as file:
            assert len(list(csv.DictReader(file))) >= 6
        assert client.studies.report(studied, draws=100).report["analyses"]
        assert [figure.question for figure in client.studies.agreement(studied)] == ["quality"]
        assert client.studies.disagreements(studied) == []


def test_the_client_of_asyncio_yields_the_same_records(url: str, studied: str) -> None:
    async def read() -> list[dict[str, Any]]:
        async with AsyncClient(url) as client:
            return [record async for record in client.studies.records(studied)]

    with Client(url) as client:
        assert asyncio.run(read()) == list(client.studies.records(studied))


def test_refusals_say_what_would_be_right(url: str, studied: str) -> None:
    with Client(url) as client:
        with refusing(Conflict, "sdk-study"):
            client.studies.create(studied, chat_protocol("sdk-quokka"))
        with pytest.raises(RefaugError) as wrong:
            client.studies.create("sdk-wrong", {"kind": "chat", "bots": ["sdk-quokka"], "minturns": 3})
        assert "minturns" in str(wrong.value)
        assert wrong.value.remedy
        with pytest.raises(NotFound):
            client.studies.get("sdk-nowhere")
        with pytest.raises(RefaugError) as reasonless:
            client.studies.amend(studied, chat_protocol("sdk-quokka", "sdk-wombat", min_turns=2))
        assert "reason" in str(reasonless.value)


def test_a_study_is_amended_paused_closed_and_deleted(url: str, studied: str) -> None:
    with Client(url) as client:
        protocol = chat_protocol("sdk-quokka")
        study = client.studies.create("sdk-short", protocol)
        assert client.studies.amend(study.id, {**protocol, "min_turns": 1}).protocol["min_turns"] == 1
        assert client.studies.pilot(study.id).state == "pilot"
        assert client.studies.open(study.id).state == "open"
        (invite,) = client.studies.invite(study.id)
        assert client.studies.revoke(study.id, invite.id).revoked is not None
        assert client.studies.pause(study.id).state == "paused"
        assert client.studies.close(study.id).state == "closed"
        client.studies.delete(study.id)
        assert [row.name for row in client.studies.list() if row.name == "sdk-short"] == []


def test_participants_are_excluded_taken_in_and_erased(url: str, studied: str) -> None:
    with Client(url) as client:
        study = client.studies.create("sdk-people", chat_protocol("sdk-quokka", min_turns=0))
        client.studies.open(study.id)
        (invite,) = client.studies.invite(study.id)
        with httpx2.Client(base_url=url, timeout=60) as http:
            person = Person(http)
            person.enter(invite.token)
            person.agree()
            person.chat(0, quality=3)
        (participant,) = client.studies.participants(study.id)
        assert client.studies.exclude(study.id, participant.code, reason="hasty").excluded == "hasty"
        assert client.studies.exclude(study.id, participant.code, reason=None).excluded is None
        link = client.studies.resume_link(study.id, participant.code)
        assert (link.code, link.link) == (participant.code, f"/take#{link.token}")
        client.studies.erase(study.id, participant.code)
        assert list(client.studies.records(study.id)) == []


def test_items_are_judged_and_decided_about(url: str) -> None:
    items = [{"id": f"d{number}", "turns": ["Hi"], "replies": {"a": f"Ho {number}"}} for number in range(3)]
    with Client(url) as client:
        study = client.studies.create("sdk-items", {"kind": "rate-reply", "consent": "Yes?"}, items=items[:1])
        assert client.studies.add_items(study.id, items[1:]).tasks == 2
        decided = client.studies.adjudicate(study.id, "d0/a", "overall", 4, note="read again")
        assert (decided.value, decided.note) == (4, "read again")
        assert client.studies.power(difference=0.5).n == 107
