"""Every command, route, job, library function and client method answers what was recorded: tests/goldens/README.md."""

from __future__ import annotations

import inspect
from collections.abc import Iterator
from typing import Any

import pytest
from goldens import record, wrong
from goldens.commands import command_calls
from goldens.comparison import differences
from goldens.golden_home import command_paths, command_tree, unpacked, web_app
from goldens.tables import table, table_names
from refaug_client import Client

import refaug
from refaug.service.jobs.job_order import KINDS

pytestmark = pytest.mark.filterwarnings("ignore::ResourceWarning")

GROUPS = [
    pytest.param(group, marks=pytest.mark.slow) if group.endswith(record.SLOW) else group for group in record.groups()
]
UNCALLED_COMMANDS = {
    "index copies": "lists copies on the machines of a cluster: tests/extras/cluster/integration",
    "index encoder calibrate": "needs an index by an encoder: test_calibrated_encoder.py",
    "judge certify": "needs 50 labels by people: tests/extras/judges/integration/test_judge_certify.py",
    "start": "needs the packages of encoder and dialogues: test_everyday_home.py",
}
UNCALLED_METHODS = {
    "local": "starts a server in a process of its own: clients/python/tests/test_local.py",
    "close": "ends every client that goldens open",
}
RESULTS = "refaug.library.results"  # classes that calls return are part of their answers


@pytest.mark.parametrize("group", GROUPS)
def test_the_answers_are_those_that_were_recorded(group: str) -> None:
    assert record.compared(group, record.answered(group)) == []


# ── nothing is left out ───────────────────────────────────────────────────────────────────────────────────────────────


def test_every_command_is_called() -> None:
    commands = set(command_paths(command_tree()))
    called = set()
    for name in table_names("commands"):
        for call in command_calls(name):
            words = call.arguments
            called.add(max((path for path in commands if words[: len(path)] == path), key=len, default=()))
    called.add(("admin", "restore"))  # its call begins with the option --home
    assert {" ".join(path) for path in commands - called} == set(UNCALLED_COMMANDS)


def test_every_route_is_requested() -> None:
    with unpacked() as folder:
        document = web_app(folder / "home").openapi()
    operations = {
        operation["operationId"] for operations in document["paths"].values() for operation in operations.values()
    }
    assert operations - record.recorded("routes").keys() == set()
    assert record.recorded("routes").keys() - operations == set()


def test_every_kind_of_job_is_run() -> None:
    answers = [record.recorded(f"jobs-{name}") for name in table_names("jobs")]
    done = {answer.get("kind") for group in answers for answer in group.values() if answer.get("state") == "done"}
    assert set(KINDS) - done == {"index-encode"}, "which needs an encoder of the home: test_job_kinds.py"


OF_FROZEN_SETS = {"OpenSet", "open_set", "reward", "scorer"}  # tests/unit/library/test_frozen_sets.py calls them


def test_every_function_of_the_library_is_called() -> None:
    spellings = " ".join(spelling for name in table_names("library") for _, spelling in table("library", name))
    functions = {
        name
        for name in refaug.__all__
        if callable(getattr(refaug, name)) and not getattr(refaug, name).__module__.startswith((RESULTS, "refaug.core"))
    }
    assert functions == {"Metric", "Ratings", "meta", "rate", "references", "score", *OF_FROZEN_SETS}
    functions.remove("Ratings")  # what rate returns
    assert {name for name in functions if f"refaug.{name}(" not in spellings} == OF_FROZEN_SETS


def client_methods() -> Iterator[str]:
    """Yield the public methods of a client, those of its parts with the part's name."""
    with Client("http://127.0.0.1:1") as client:
        for name in dir(client):
            member = getattr(client, name)
            if name.startswith("_"):
                continue
            if inspect.ismethod(member):
                yield name
            elif type(member).__module__.startswith("refaug_client"):
                yield from (
                    f"{name}.{inner}" for inner, _ in inspect.getmembers(member, inspect.ismethod) if inner[0] != "_"
                )


def test_every_method_of_the_client_is_called() -> None:
    spellings = " ".join(spelling for name in table_names("client") for _, spelling in table("client", name))
    assert {name for name in client_methods() if f"client.{name}(" not in spellings} == set(UNCALLED_METHODS)


@pytest.mark.parametrize("group", record.groups())
def test_every_call_of_a_table_has_an_answer(group: str) -> None:
    if ids := record.ids_of(group):
        assert ids ^ record.recorded(group).keys() == set()


# ── what is wrong ─────────────────────────────────────────────────────────────────────────────────────────────────────


def test_unknown_options_wrong_types_and_broken_limits_are_usage_errors_of_every_command() -> None:
    answers = wrong.wrong_commands()
    assert len(answers) > 130
    usage = {"exit": 2, "code": "usage"}
    assert {
        name: outcomes for name, outcomes in answers.items() if set(map(str, outcomes.values())) != {str(usage)}
    } == {}
    assert {kind for outcomes in answers.values() for kind in outcomes} == {"unknown", "type", "limit"}


# Without the cookie of a participant nothing else is looked at.
FOR_PARTICIPANTS = {
    f"wrong {name}"
    for name in (
        *("get_state", "give_consent", "answer_training", "undo_action", "withdraw", "take_next_task", "send_message"),
        *("ask_again", "vote_on_reply", "store_answers", "finish_task", "skip_task"),
    )
}


UNNAMED = {  # an error before the fields are looked at: no kind of order, no token
    f"wrong {name}" for name in ("start_job", "start_evaluation", "open_session")
}


def test_unknown_fields_wrong_types_and_broken_limits_are_bad_input_of_every_route() -> None:
    for name, outcomes in wrong.wrong_requests().items():
        for kind, outcome in outcomes.items():
            if name not in FOR_PARTICIPANTS:
                assert (outcome["status"], outcome["code"]) == (422, "bad_input"), (name, kind)
                assert outcome["is_named"] or name in UNNAMED, (name, kind)
            else:
                assert (outcome["status"], outcome["code"]) == (401, "no_key"), (name, kind)


# ── the comparison ────────────────────────────────────────────────────────────────────────────────────────────────────


def test_the_comparison_sees_what_is_gone_or_new_or_another_number() -> None:
    before: dict[str, Any] = {"a": 0.5, "b": [1, "x 0.25"], "c": None}
    assert list(differences(before, {"a": 0.5 + 1e-9, "b": [1, "x 0.2500000001"], "c": None})) == []
    for other in (
        {"a": 0.5001, "b": [1, "x 0.25"], "c": None},
        {"a": 0.5, "b": [1, "y 0.25"], "c": None},
        {"a": 0.5, "b": [1], "c": None},
        {"a": 0.5, "b": [1, "x 0.25"]},
        {"b": [1, "x 0.25"], "a": 0.5, "c": None},
        {"a": 0.5, "b": [True, "x 0.25"], "c": None},
    ):
        assert len(list(differences(before, other))) == 1
