"""`refaug studies simulate --study`: simulated people in the pilot of a study, at a real server."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from statistics import fmean
from typing import Any

import pytest
from servers import Served, deadline_s, served
from studying import add_bots, chat_protocol, new_study
from typer.testing import CliRunner

from refaug.cli.main import app
from refaug.core.errors import Interrupted, RefaugError

CHOICE = {"id": "adult", "type": "choice", "text": "Are you 18?", "accept": ["yes"],
          "options": [{"value": "yes", "text": "Yes"}, {"value": "no", "text": "No"}]}  # fmt: skip
TRAINING = {"items": [{"id": "t1", "turns": ["Hi", "Hm."], "answers": {"quality": [1, 2]}}]}
PAIR = {"name": "pair", "questions": [{"id": "better", "text": "Which one?", "type": "pair"}]}
LABELS = {"name": "labels", "questions": [
    {"id": "sense", "type": "choice", "text": "Does it make sense?", "scope": "turn", "required": True,
     "options": [{"value": "yes", "text": "Yes"}, {"value": "no", "text": "No"}]},
    {"id": "odd", "type": "spans", "text": "What is odd?", "scope": "turn",
     "options": [{"value": "wrong", "text": "Wrong"}]},
    {"id": "flags", "type": "labels", "text": "What else?", "scope": "turn",
     "options": [{"value": "late", "text": "Late"}, {"value": "rude", "text": "Rude"}]},
]}  # fmt: skip
DIALOGUES = [{"id": f"d{n}", "bot": "zeta", "turns": ["Hi!", "Hello.", f"Rain {n}?", "No."]} for n in range(4)]
COMPARED = [
    {
        "id": f"d{n}",
        "dialogues": [{"bot": "zeta", "turns": [f"Hi {n}!", "Hm."]}, {"bot": "omega", "turns": ["Hi!", "Yes?"]}],
    }
    for n in range(4)
]
REFERENCES = [{"id": f"d{n}", "turns": ["Tea?"], "references": [f"At {n}.", f"In {n}."]} for n in range(4)]


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    """A service in processes of its own, with two bots."""
    with served(tmp_path_factory.mktemp("rehearsal") / "home") as running:
        add_bots(running.client, "quokka", "wombat")
        yield running


def simulate(server: Served, study: str, *options: str) -> Any:
    address = str(server.client.base_url).rstrip("/")
    words = ["--home", str(server.home), "--quiet", "studies", "simulate", "--study", study, "--server", address]
    result = CliRunner().invoke(app, [*words, *options, "--json"])
    if isinstance(result.exception, RefaugError):
        return result.exception
    assert result.exit_code == 0, (result.output, result.exception)
    return json.loads(result.stdout)


def records(server: Served, study: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in server.client.get(f"/v1/studies/{study}/export").text.splitlines()]


@pytest.mark.slow
def test_people_chat_in_a_pilot_and_what_is_stored_is_as_planned(server: Served, tmp_path: Path) -> None:
    protocol = chat_protocol(
        "quokka", "wombat", min_turns=2, per_participant=4, screening=[CHOICE], training=TRAINING,
        checks={"attention": 1, "degraded": True},
        exclude={"same_answer_everywhere": True, "copied_messages": 0.4, "seconds_per_turn_below": 2},
    )  # fmt: skip
    new_study(server.client, "rehearsed", protocol, act="pilot")
    options = ["--participants", "8", "--careless", "0.5", "--qualities", "6,2", "--sd", "0.5", "--together", "4"]
    compared = simulate(server, "rehearsed", *options, "--output", str(tmp_path / "tasks.jsonl"))
    stored = records(server, "rehearsed")
    done = [record for record in stored if record["state"] == "done"]
    people = {record["participant"] for record in done}
    assert {record["pilot"] for record in stored} == {True}
    assert (compared["participants"], sum(compared["ends"].values()), compared["ends"]["done"]) == (8, 8, len(people))
    assert set(compared["ends"]) <= {"done", "screened_out: training"}
    assert len(people) >= 4 + 1  # who reads passes the training: the honest ones, and one who is blind to the bot
    figures = compared["stored"]
    assert figures == {
        "acknowledged": 5 * len(people), "stored": len(done), "lost": 0,
        "answers": sum(len(record["answers"]) for record in done), "answers_that_differ": 0,
        "messages": 2 * len(done), "messages_that_differ": 0,
    }  # fmt: skip
    main = [record for record in done if record["check"] is None]
    by_bot = Counter(record["bots"][0]["bot"] for record in main)
    assert compared["balance"]["stored"] == by_bot == dict.fromkeys(("quokka", "wombat"), 2 * len(people))
    assert compared["balance"]["planned"] == by_bot
    assert compared["rules_not_tried"] == ["seconds_per_turn_below"]
    copiers = {"participants": 1, "left_out": 1, "share": 1.0}  # who passes the training by chance
    assert (compared["by_rule"]["copied_messages"], compared["caught"]["copier"]) == (1, copiers)
    assert compared["caught"]["honest"] == {"participants": 4, "left_out": 0, "share": 0.0}
    for bot, truth in (("quokka", 6), ("wombat", 2)):
        ratings = [record["answers"]["quality"] for record in main if record["bots"][0]["bot"] == bot]
        expected = fmean((rating - 1) / 6 for rating in ratings)
        assert compared["means"][bot]["truth"] == truth
        assert compared["means"][bot]["all"] == pytest.approx(expected)
    assert compared["order"]["all"] == {"found": True, "spearman": pytest.approx(1)}
    assert [json.loads(line) for line in (tmp_path / "tasks.jsonl").read_text().splitlines()] == stored
    (_, invitation) = server.client.get("/v1/studies/rehearsed/invites").json()["invites"]
    assert invitation["label"] == "simulated people"
    assert (invitation["uses"], bool(invitation["revoked"])) == (8, True)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("kind", "form", "items", "per_person"),
    [
        ("chat-pair", PAIR, None, 1),
        ("chat", LABELS, None, 2),
        ("label-turns", LABELS, DIALOGUES, 4),
        ("pair-dialogue", PAIR, COMPARED, 4),
        ("rate-reference", "reply-appropriateness", REFERENCES, 4),
    ],
)
def test_people_do_the_tasks_of_several_kinds(
    server: Served, kind: str, form: Any, items: list[Any] | None, per_person: int
) -> None:
    protocol = {"kind": kind, "form": form, "consent": "Yes?", "per_participant": per_person}
    opening = {"opening": "fixed", "openings": ["Well?"]} if kind == "chat" else {}
    protocol |= {"ratings_per_item": 4} if items else {"bots": ["quokka", "wombat"], "min_turns": 1, **opening}
    new_study(server.client, kind, protocol, items, act="pilot")
    compared = simulate(server, kind, "--participants", "3", "--careless", "0")
    done = records(server, kind)
    assert {record["state"] for record in done} == {"done"}
    assert (compared["ends"], len(done)) == ({"done": 3}, 3 * per_person)
    figures = compared["stored"]
    assert [figures[name] for name in ("acknowledged", "lost", "answers_that_differ", "messages_that_differ")] == [
        3 * per_person, 0, 0, 0,
    ]  # fmt: skip
    labels = sum(len(turn.get("labels", {})) for record in done for side in record["sides"] for turn in side["turns"])
    assert figures["answers"] == sum(len(record["answers"]) for record in done) + labels
    assert (labels > 0) == (form is LABELS)
    if form is LABELS:
        hold_labels(done)
    if kind == "rate-reference":
        texts = {text for item in REFERENCES for text in item["references"]}
        assert {record["item"]["reference"] for record in done} == set(compared["means"]) <= texts
        assert len({row["truth"] for row in compared["means"].values()}) == len(compared["means"])
    if kind == "pair-dialogue":
        lefts = Counter(bot["bot"] for record in done for bot in record["bots"] if bot["side"] == "left")
        assert compared["balance"]["left"] == {bot: lefts[bot] for bot in ("omega", "zeta")}
        assert sum(lefts.values()) == 12
        better = Counter(record["answers"]["better"] for record in done)
        assert sum(better.values()) == 12
        assert sum(row["all"] for row in compared["means"].values()) == pytest.approx(1)


def hold_labels(done: list[dict[str, Any]]) -> None:
    """Every reply of the bot has its label and a span: of its first word."""
    for record in done:
        for turn in record["sides"][0]["turns"]:
            if turn["role"] == "bot" and turn["text"] != "Well?":
                end = len(turn["text"].split(" ")[0])
                assert turn["labels"]["odd"] == [{"start": 0, "end": end, "label": "wrong"}]
                assert turn["labels"]["sense"] in ("yes", "no")
                assert turn["labels"]["flags"] in ([], ["late"], ["rude"], ["late", "rude"])
            else:
                assert "labels" not in turn


@pytest.mark.slow
def test_people_who_take_their_time_are_judged_by_the_rules_about_seconds(server: Served) -> None:
    pace, rules = 0.1, {"seconds_per_turn_below": 600}
    new_study(server.client, "slowly", chat_protocol("quokka", "wombat", min_turns=2, exclude=rules), act="pilot")
    compared = simulate(server, "slowly", "--participants", "3", "--careless", "0", "--pace", str(pace))
    done = records(server, "slowly")
    assert (compared["ends"], len(done), compared["rules_not_tried"]) == ({"done": 3}, 6, [])
    assert compared["by_rule"]["seconds_per_turn_below"] == 3
    assert compared["caught"]["honest"] == {"participants": 3, "left_out": 3, "share": 1.0}
    # A pause is the pace times e to a normal draw of 0.3: of twelve, which follow from the seed, none is below a third.
    assert min(record["seconds"] for record in done) >= 2 * pace / 3


@pytest.mark.slow
def test_a_bot_that_has_nothing_to_say_is_counted_and_people_go_on_with_another(server: Served) -> None:
    body = {"specification": {"kind": "replay", "replies": ["This is all that I have to say."]}}
    assert server.client.put("/v1/bots/mute", json=body).status_code == 201
    protocol = chat_protocol("mute", "quokka", "wombat", min_turns=2, per_participant=2, skips=0)
    new_study(server.client, "mute", protocol, act="pilot")
    compared = simulate(server, "mute", "--participants", "4", "--careless", "0", "--together", "1")
    stored = records(server, "mute")
    failed = [record for record in stored if record.get("skip_reason") == "bot_failed"]
    assert {record["bots"][0]["bot"] for record in failed} == {"mute"}
    assert compared["bot_failures"] == len(failed) > 0
    assert compared["ends"] == {"done": 4}
    done = [record for record in stored if record["state"] == "done"]
    assert Counter(record["participant"] for record in done) == dict.fromkeys(
        {record["participant"] for record in stored}, 2
    )
    by_bot = Counter(record["bots"][0]["bot"] for record in done)
    assert compared["balance"]["stored"] == {"mute": 0, "quokka": by_bot["quokka"], "wombat": by_bot["wombat"]}
    assert (compared["stored"]["acknowledged"], compared["stored"]["lost"]) == (8, 0)


@pytest.mark.slow
def test_an_interrupted_rehearsal_says_what_it_has_done(server: Served, tmp_path: Path) -> None:
    new_study(server.client, "stopped", chat_protocol("quokka", "wombat", min_turns=1), act="pilot")
    address, tasks = str(server.client.base_url).rstrip("/"), tmp_path / "tasks.jsonl"
    options = ["--participants", "500", "--careless", "0", "--together", "2", "--output", str(tasks), "--json"]
    command = [sys.executable, "-m", "refaug", "--home", str(server.home), "--quiet", "studies", "simulate"]
    process = subprocess.Popen(
        [*command, "--study", "stopped", "--server", address, *options],
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
    )  # fmt: skip
    with process:
        server.until(lambda: process.poll() is not None or len(records(server, "stopped")) >= 3, "three tasks")
        process.send_signal(signal.SIGINT)
        said, complaint = process.communicate(timeout=deadline_s())
    assert process.returncode == Interrupted.exit_code, complaint
    compared = json.loads(said)
    came = sum(compared["ends"].values())
    assert f"interrupted: {came} of 500 people came" in complaint
    assert compared["interrupted"]
    assert 1 <= compared["stored"]["acknowledged"] <= 2 * came < 1_000
    figures = compared["stored"]
    assert (figures["lost"], figures["answers_that_differ"], figures["messages_that_differ"]) == (0, 0, 0)
    stored, written = records(server, "stopped"), [json.loads(line) for line in tasks.read_text().splitlines()]
    assert figures["acknowledged"] <= len(written) == figures["stored"]
    assert [record for record in stored if record in written] == written
    assert len(stored) - figures["acknowledged"] <= 2  # which the server was finishing for two people meanwhile
    (_, invitation) = server.client.get("/v1/studies/stopped/invites").json()["invites"]
    assert bool(invitation["revoked"])


@pytest.mark.slow
def test_simulated_people_never_come_to_real_ones(server: Served) -> None:
    new_study(server.client, "opened", chat_protocol("quokka"), act="open")
    error = simulate(server, "opened", "--participants", "2")
    assert (error.code, error.exit_code) == ("conflict", 4)
    assert server.client.get("/v1/studies/opened").json()["counts"]["participants"] == 0
    assert len(server.client.get("/v1/studies/opened/invites").json()["invites"]) == 1


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--study", "s", "--tasks", "3"], "--study"),
        (["--pace", "3"], "--study"),
        (["--study", "s", "--server", "ftp://example.org"], "is not an address of a server"),
        (["--study", "s", "--server", "http://user:secret@127.0.0.1"], "127.0.0.1"),
    ],
)
def test_options_without_sense_are_refused(tmp_path: Path, options: list[str], message: str) -> None:
    result = CliRunner().invoke(app, ["--home", str(tmp_path / "home"), "studies", "simulate", *options])
    assert isinstance(result.exception, RefaugError)
    assert (result.exception.code, message in result.exception.message) == ("usage", True), result.exception
