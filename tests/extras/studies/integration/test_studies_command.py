"""`refaug studies …`: from a protocol's file to invitations, progress, tasks and an erasure."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from serving import client_of
from studying import FORM, Person
from typer.testing import CliRunner

from refaug.cli.main import app
from refaug.core.errors import RefaugError
from refaug.core.home import Settings
from refaug.service.process.server_address import published_address

RUNNER = CliRunner()


def run(home: Path, *arguments: str, code: int = 0) -> str:
    result = RUNNER.invoke(app, ["--home", str(home), *arguments])
    if isinstance(result.exception, RefaugError):
        assert result.exception.exit_code == code, result.exception
        return str(result.exception)
    assert result.exit_code == code == 0, result.output
    return result.output


def document(home: Path, *arguments: str) -> Any:
    return json.loads(run(home, *arguments, "--json"))


@pytest.fixture
def home(tmp_path: Path) -> Path:
    """A home with two bots."""
    for name in ("quokka", "wombat"):
        file = tmp_path / f"{name}.json"
        file.write_text(json.dumps({"kind": "replay", "replies": [f"It is {name[0]}."], "cycle": True}))
        run(tmp_path / "home", "bots", "add", name, str(file))
    return tmp_path / "home"


def test_links_lead_to_the_server_of_the_home(home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "p.json").write_text(json.dumps({"kind": "chat", "bots": ["quokka"], "consent": "Yes?"}))
    run(home, "studies", "new", "first", str(tmp_path / "p.json"))

    def address(*options: str) -> str:
        return run(home, "studies", "invite", "first", *options).strip().partition("#")[0]

    assert address() == "http://127.0.0.1:8000/take"  # where one would listen
    monkeypatch.setenv("REFAUG_PORT", "8100")
    assert address() == "http://127.0.0.1:8100/take"
    with published_address(Settings(home=home), "http://0.0.0.0:8123"):
        assert address() == "http://127.0.0.1:8123/take"
        assert address("--url", "https://study.example/") == "https://study.example/take"
    with published_address(Settings(home=home), "unix:/run/refaug"):
        assert "name the address" in run(home, "studies", "invite", "first", code=2)


@pytest.mark.slow
def test_a_study_goes_from_a_file_to_the_report_of_its_tasks(home: Path, tmp_path: Path) -> None:
    (tmp_path / "consent.md").write_text("We store what you write.\n")
    protocol = {
        "kind": "chat", "bots": ["quokka", "wombat"], "min_turns": 1, "form": FORM, "consent": "consent.md",
        "exclude": {"same_answer_everywhere": True},
    }  # fmt: skip
    (tmp_path / "p.json").write_text(json.dumps(protocol))
    assert "study first (chat): draft" in run(home, "studies", "new", "first", str(tmp_path / "p.json"))
    assert document(home, "studies", "show", "first")["protocol"]["consent"] == "We store what you write."
    opened = document(home, "studies", "open", "first")
    frozen = json.loads(run(home, "studies", "show", "first", "--protocol"))
    assert (opened["state"], set(frozen["bot_hashes"])) == ("open", {"quokka", "wombat"})
    link = run(home, "studies", "invite", "first", "--uses", "5", "--url", "https://study.example/").strip()
    assert link.startswith("https://study.example/take#")
    with client_of(Settings(home=home), ready=False) as client:
        person = Person(client)
        person.enter(link.partition("#")[2])
        person.agree()
        while person.state["step"] != "done":
            person.chat(1, quality=3)
    progress = document(home, "studies", "progress", "first")
    assert [(bot["bot"], bot["done"]) for bot in progress["bots"]] == [("quokka", 1), ("wombat", 1)]
    hold_both_forms_equal(home, tmp_path)
    tasks = [json.loads(line) for line in run(home, "studies", "tasks", "first").splitlines()]
    assert [task["answers"] for task in tasks] == [{"quality": 3}] * 2
    code = tasks[0]["participant"]
    assert f"participant {code} is erased" in run(home, "studies", "erase", "first", code)
    assert run(home, "studies", "tasks", "first") == ""
    assert "the study has no task" in run(home, "studies", "report", "first", code=3)
    for act, state in (("pause", "paused"), ("close", "closed")):
        assert document(home, "studies", act, "first")["state"] == state
    assert [study["state"] for study in document(home, "studies", "list")["studies"]] == ["closed"]


def hold_both_forms_equal(home: Path, folder: Path) -> None:
    """The study by its name, and by the files that `tasks` and `show` write: the same report and the same exports."""
    tasks, protocol = folder / "first.jsonl", folder / "first.json"
    tasks.write_text(run(home, "studies", "tasks", "first"))
    protocol.write_text(run(home, "studies", "show", "first", "--protocol"))
    by_name, by_file = folder / "by-name", folder / "by-file"
    of_files = (str(tasks), "--protocol", str(protocol))
    run(home, "studies", "report", "first", "--to", str(by_name))
    run(home, "studies", "report", *of_files, "--to", str(by_file))
    figures = json.loads((by_name / "report.json").read_bytes())
    assert figures["exclusions"]["rules"] == {"same_answer_everywhere": True}
    for name in ("report.html", "report.md", "report.json"):
        assert (by_name / name).read_bytes() == (by_file / name).read_bytes()
    for form in ("jsonl", "csv", "conversations"):
        options = ("--format", form, "--kept")
        exported = run(home, "studies", "export", "first", *options)
        assert exported == run(home, "studies", "export", *of_files, *options) != ""
    identity = document(home, "studies", "show", "first")["id"]
    assert run(home, "studies", "export", identity) == tasks.read_text()


def test_a_misspelt_file_is_no_study_and_makes_no_database(tmp_path: Path) -> None:
    refused = " ".join(run(tmp_path / "empty", "studies", "report", "frist", code=3).split())
    assert "frist: No such file, and the home has no study of this name" in refused
    assert not (tmp_path / "empty" / "refaug.db").exists()
    run(tmp_path / "home", "studies", "list")
    assert run(tmp_path / "home", "studies", "export", "frist", code=3).startswith("frist: No such file")


def test_errors_name_the_file_the_line_and_the_field(home: Path, tmp_path: Path) -> None:
    wrong = tmp_path / "wrong.json"
    wrong.write_text(json.dumps({"kind": "chat", "bots": ["quokka"], "consnt": "x"}))
    assert "did you mean 'consent'" in " ".join(run(home, "studies", "new", "w", str(wrong), code=3).split())
    wrong.write_text(json.dumps({"kind": "rate-reply", "items": "items.jsonl"}))
    (tmp_path / "items.jsonl").write_text('{"turns": ["a\u2028a"], "replies": {"a": "b"}}\n{"turns"\n')
    assert "line 2 is not JSON" in " ".join(run(home, "studies", "new", "w", str(wrong), code=3).split())
    wrong.write_text(json.dumps({"kind": "chat", "bots": ["quokka"], "consent": "nowhere.md"}))
    assert "No such file" in " ".join(run(home, "studies", "new", "w", str(wrong), code=3).split())
