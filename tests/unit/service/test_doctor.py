"""The doctor finds what is wrong, and says what to do about it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from core.ingest import IngestOrder, ingest
from core.progress import Silent
from service.cli import main as cli
from service.doctor import Finding, State, examine
from service.settings import Settings


def found(findings: list[Finding], what: str) -> list[Finding]:
    return [finding for finding in findings if finding.what == what]


@pytest.fixture
def home(tmp_path: Path) -> Settings:
    source = tmp_path / "talk.jsonl"
    source.write_text('{"id": "a", "turns": ["How are you?", "Well, thanks."]}\n', "utf-8")
    settings = Settings(home=tmp_path / "home")
    ingest(IngestOrder(sources=(str(source),), log="talk"), settings.logs, Silent())
    return settings


def test_a_sound_installation_has_nothing_wrong(home: Settings) -> None:
    findings = examine(home, verify=True)
    assert [finding for finding in findings if finding.state is State.WRONG] == []
    assert [finding.found for finding in found(findings, "log talk")] == ["1 pair, every hash as the manifest says"]
    assert [finding.found for finding in found(findings, "package core")] == ["ours"]
    assert found(findings, "torch")[0].found.startswith("2.13.0")
    assert found(findings, "tokenizer mecab")[0].state is State.GOOD


def test_a_flipped_byte_is_found_only_when_it_is_looked_for(home: Settings) -> None:
    part = home.logs / "talk" / "part-00001.parquet"
    data = bytearray(part.read_bytes())
    data[len(data) // 2] ^= 1
    part.write_bytes(bytes(data))
    assert found(examine(home), "log talk")[0].state is State.GOOD
    wrong = found(examine(home, verify=True), "log talk")[0]
    assert (wrong.state, wrong.remedy) == (State.WRONG, "restore the file from a backup, or ingest the sources again")
    assert "part-00001.parquet has SHA-256" in wrong.found


def test_a_missing_part_makes_the_command_fail_with_its_name(home: Settings, capfd: pytest.CaptureFixture[str]) -> None:
    (home.logs / "talk" / "part-00001.parquet").unlink()
    assert cli.main(["--home", str(home.home), "doctor", "--json"]) == 3
    out, err = capfd.readouterr()
    troubles = [finding for finding in json.loads(out)["findings"] if finding["state"] == "wrong"]
    assert [trouble["what"] for trouble in troubles] == ["log talk"]
    assert "part-00001.parquet is missing" in troubles[0]["found"]
    assert json.loads(err.splitlines()[-1])["error"]["code"] == "corrupt"


def test_what_a_stopped_run_left_is_named_with_the_remedy(home: Settings) -> None:
    (home.logs / "talk" / ".staging-0123").mkdir()
    (home.cache / "engine-4194305").mkdir(parents=True)  # above the largest process number there can be
    findings = examine(home)
    assert [finding.found for finding in found(findings, "cache")] == [
        f"scratch of a process that is gone: {home.cache / 'engine-4194305'}"
    ]
    stopped = [finding for finding in found(findings, "log talk") if finding.state is State.NOTE]
    assert [finding.found for finding in stopped] == ["an ingest was stopped before its end"]


def test_more_threads_than_cores_are_noted(home: Settings, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OMP_NUM_THREADS", "4096")
    assert found(examine(home), "threads")[0].state is State.NOTE


def test_a_home_that_is_not_there_yet_is_no_trouble(tmp_path: Path) -> None:
    finding = found(examine(Settings(home=tmp_path / "later")), "REFAUG_HOME")[0]
    assert (finding.state, finding.remedy) == (State.NOTE, "")
    assert not (tmp_path / "later").exists()
