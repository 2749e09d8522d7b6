"""`refaug studies simulate --study`: simulated people in the pilot of a study, at a real server."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from statistics import fmean
from typing import Any

import pytest
from servers import Served, served
from studying import FORM, add_bots, chat_protocol, new_study
from typer.testing import CliRunner

from refaug.cli.main import app
from refaug.core.errors import RefaugError

CHOICE = {"id": "adult", "type": "choice", "text": "Are you 18?", "accept": ["yes"],
          "options": [{"value": "yes", "text": "Yes"}, {"value": "no", "text": "No"}]}  # fmt: skip
TRAINING = {"items": [{"id": "t1", "turns": ["Hi", "Hm."], "answers": {"quality": [1, 2]}}]}
PAIR = {"name": "pair", "questions": [{"id": "better", "text": "Which one?", "type": "pair"}]}
TURNS = {"name": "turns", "questions": [
    *FORM["questions"],
    {"id": "label", "text": "What?", "type": "choice", "scope": "turn",
     "options": [{"value": "odd", "text": "Odd"}, {"value": "good", "text": "Good"}]},
]}  # fmt: skip
REPLIES = [{"id": f"d{n}", "turns": [f"Hi {n}!"], "replies": {"omega": f"Fine {n}.", "zeta": "No."}} for n in range(4)]
DIALOGUES = [{"id": f"d{n}", "bot": "zeta", "turns": ["Hi!", "Hello.", f"Rain {n}?", "No."]} for n in range(4)]
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
        ("rate-dialogue", TURNS, DIALOGUES, 4),
        ("pair-reply", PAIR, REPLIES, 4),
        ("rate-reply", FORM, REPLIES, 4),
        ("rate-reference", "reply-appropriateness", REFERENCES, 4),
    ],
)
def test_people_do_the_tasks_of_every_kind(
    server: Served, kind: str, form: Any, items: list[Any] | None, per_person: int
) -> None:
    protocol = {"kind": kind, "form": form, "consent": "Yes?", "per_participant": per_person}
    protocol |= {"ratings_per_item": 4} if items else {"bots": ["quokka", "wombat"], "min_turns": 1}
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
    assert (labels > 0) == (kind == "rate-dialogue")
    if kind == "rate-reference":
        texts = {text for item in REFERENCES for text in item["references"]}
        assert {record["item"]["reference"] for record in done} == set(compared["means"]) <= texts
        assert len({row["truth"] for row in compared["means"].values()}) == len(compared["means"])
    if kind == "pair-reply":
        better = Counter(record["answers"]["better"] for record in done)
        assert sum(better.values()) == 12
        assert sum(row["all"] for row in compared["means"].values()) == pytest.approx(1)


@pytest.mark.slow
def test_simulated_people_never_come_to_real_ones(server: Served) -> None:
    new_study(server.client, "opened", chat_protocol("quokka"), act="open")
    error = simulate(server, "opened", "--participants", "2")
    assert (error.code, error.exit_code) == ("conflict", 4)
    assert "study opened is open: simulated people come to a pilot alone" in error.message
    assert server.client.get("/v1/studies/opened").json()["counts"]["participants"] == 0
    assert len(server.client.get("/v1/studies/opened/invites").json()["invites"]) == 1


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--study", "s", "--tasks", "3"], "--tasks has no effect with --study"),
        (["--pace", "3"], "--pace has no effect without --study"),
        (["--study", "s", "--server", "ftp://example.org"], "is no address of a server"),
        (["--study", "s", "--server", "http://user:secret@127.0.0.1"], "'127.0.0.1' is no address of a server"),
    ],
)
def test_options_without_sense_are_refused(tmp_path: Path, options: list[str], message: str) -> None:
    result = CliRunner().invoke(app, ["--home", str(tmp_path / "home"), "studies", "simulate", *options])
    assert isinstance(result.exception, RefaugError)
    assert (result.exception.code, message in result.exception.message) == ("usage", True), result.exception
