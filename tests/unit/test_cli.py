"""The command's manners: exit codes, JSON on stdout, errors and progress on stderr, settings from the right place."""

from __future__ import annotations

import io
import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from refusals import refusing

from refaug.cli import main as cli
from refaug.cli.shared.output import format_value, parse_size
from refaug.cli.shared.progress import ProgressLines
from refaug.core import errors
from refaug.core.home import Settings

DIALOGUE = '{"id": "d1", "turns": ["Is the shop open today?", "Yes, until six.", "Good, I need bread."]}\n'


@pytest.fixture
def source(tmp_path: Path) -> Path:
    path = tmp_path / "dialogues.jsonl"
    path.write_text(DIALOGUE, "utf-8")
    return path


def run(tmp_path: Path, *arguments: str) -> int:
    return cli.main(["--home", str(tmp_path / "home"), *arguments])


def test_ingest_prints_its_report_as_one_json_document(
    tmp_path: Path, source: Path, capfdbinary: pytest.CaptureFixture[bytes]
) -> None:
    assert run(tmp_path, "log", "ingest", str(source), "--log", "shop", "--json") == 0
    report = json.loads(capfdbinary.readouterr().out)
    assert report["pairs_added"] == 2
    assert report["totals"] == {"pairs": 2, "dialogues": 1, "distinct_pairs": 2, "distinct_utterances": 2}
    assert report["counts"] == {"dialogues": 1, "rows": 1, "turns": 3}
    assert [source["counts"]["rows"] for source in report["sources"]] == [1]


def test_progress_goes_to_stderr_and_results_to_stdout(
    tmp_path: Path, source: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    run(tmp_path, "log", "ingest", str(source), "--log", "shop")
    shown_out, shown_err = capfd.readouterr()
    assert "2 pairs added from 1 file\n" in shown_out
    assert "reading: done" in shown_err
    assert "reading" not in shown_out


def test_sample_shows_ids_and_texts_and_is_the_same_each_time(
    tmp_path: Path, source: Path, capfdbinary: pytest.CaptureFixture[bytes]
) -> None:
    run(tmp_path, "log", "ingest", str(source), "--log", "shop")
    capfdbinary.readouterr()
    run(tmp_path, "log", "sample", "shop", "--json")
    first = capfdbinary.readouterr().out
    run(tmp_path, "log", "sample", "shop", "--json")
    assert capfdbinary.readouterr().out == first
    pairs = sorted(json.loads(first)["pairs"], key=lambda pair: pair["position"])
    assert pairs == [
        {
            "id": "shop/d1#1",
            "dialogue": "d1",
            "position": "1",
            "utterance": "Is the shop open today?",
            "response": "Yes, until six.",
        },
        {
            "id": "shop/d1#2",
            "dialogue": "d1",
            "position": "2",
            "utterance": "Yes, until six.",
            "response": "Good, I need bread.",
        },
    ]


def test_stats_of_a_log_with_times_name_first_and_last(
    tmp_path: Path, capfdbinary: pytest.CaptureFixture[bytes]
) -> None:
    path = tmp_path / "timed.jsonl"
    turns = [{"text": f"turn number {n}", "time": f"2026-01-0{n}T10:00:00Z", "speaker": f"s{n % 2}"} for n in (1, 2, 3)]
    path.write_text(json.dumps({"id": "t", "turns": turns, "tags": ["a", "b"]}) + "\n", "utf-8")
    run(tmp_path, "log", "ingest", str(path), "--log", "timed")
    capfdbinary.readouterr()
    run(tmp_path, "log", "stats", "timed", "--json")
    figures = json.loads(capfdbinary.readouterr().out)
    assert (figures["first_time"], figures["last_time"]) == ("2026-01-02T10:00:00+00:00", "2026-01-03T10:00:00+00:00")
    assert (figures["pairs_with_time"], figures["pairs_with_speaker"], figures["tags"]) == (2, 2, {"a": 2, "b": 2})


@pytest.mark.parametrize(
    ("arguments", "code", "exit_code"),
    [
        (["nonsense"], "usage", 2),
        (["log", "ingest", "--log", "x"], "usage", 2),
        (["log", "ingest", "nowhere.jsonl", "--log", "x"], "no_source", 3),
        (["log", "ingest", "nowhere.jsonl", "--log", "No Name"], "usage", 2),
        (["log", "show", "absent"], "not_found", 3),
        (["log", "show", "../etc"], "usage", 2),
        (["log", "delete", "absent"], "usage", 2),
        (["log", "tokenize", "nonsense", "a"], "usage", 2),
        (["log", "demo", "--dialogues", "-1"], "usage", 2),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else str(value),
)
def test_errors_have_a_code_and_their_exit_code(
    tmp_path: Path, capfd: pytest.CaptureFixture[str], arguments: list[str], code: str, exit_code: int
) -> None:
    assert run(tmp_path, *arguments, "--json") == exit_code
    error = json.loads(capfd.readouterr().err.splitlines()[-1])["error"]
    assert (error["code"], error["exit_code"]) == (code, exit_code)


def test_an_error_for_people_is_a_line_and_a_remedy(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    run(tmp_path, "log", "show", "absent")
    assert capfd.readouterr().err.splitlines() == [
        f"error [not_found]: no log 'absent' in {tmp_path / 'home' / 'logs'}",
        "  there are: none yet",
    ]


def test_every_error_has_a_unique_code_and_a_documented_exit_code() -> None:
    kinds = [kind for kind in vars(errors).values() if isinstance(kind, type) and issubclass(kind, errors.RefaugError)]
    assert len({kind.code for kind in kinds}) == len(kinds)
    assert {kind.exit_code for kind in kinds} == {1, 2, 3, 4, 5, 6}
    assert all(400 <= kind.status < 600 for kind in kinds)
    assert errors.Locked().message == "Another process is working on the same thing."


def test_home_comes_from_the_flag_the_environment_or_the_default() -> None:
    assert Settings.from_env({}).home == Path("refaug-data")
    assert Settings.from_env({"REFAUG_HOME": ""}).home == Path("refaug-data")
    assert Settings.from_env({"REFAUG_HOME": "somewhere"}).logs == Path("somewhere/logs")


@pytest.mark.parametrize(
    ("text", "size"),
    [("512MiB", 512 << 20), ("2G", 2 << 30), ("1.5GB", 3 << 29), ("4096", 4096), ("1 kib", 1024), ("7b", 7)],
)
def test_sizes_are_read_in_powers_of_1024(text: str, size: int) -> None:
    assert parse_size(text) == size


@pytest.mark.parametrize("text", ["", "much", "-1G", "1e9", "GB"])
def test_what_is_no_size_is_refused(text: str) -> None:
    with refusing(errors.Usage):
        parse_size(text)


def test_values_are_shown_as_people_read_them() -> None:
    values = (None, True, 1234567, 0.5, 12.0, {"a": 1, "b": None}, [], ("x", 2), "text")
    assert [format_value(value) for value in values] == [
        "-",
        "yes",
        "1,234,567",
        "0.5",
        "12",
        "a 1, b -",
        "-",
        "x, 2",
        "text",
    ]


def test_plain_progress_says_when_stages_end_and_warns_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    written = io.StringIO()
    monkeypatch.setattr(sys, "stderr", written)
    with ProgressLines() as progress:
        progress.stage("reading", 100, "B")
        progress.advance(50)
        progress.warn("a bad row")
        progress.stage("publishing")
    lines = [line.split(" in ")[0] for line in written.getvalue().splitlines()]
    assert lines == ["reading: done", "warning: a bad row", "publishing: done"] or lines == [
        "warning: a bad row",
        "reading: done",
        "publishing: done",
    ]


def test_a_reader_that_goes_away_is_no_error(tmp_path: Path, source: Path) -> None:
    run(tmp_path, "log", "ingest", str(source), "--log", "shop")
    command = [sys.executable, "-m", "refaug", "--home", str(tmp_path / "home"), "log", "show", "shop"]
    read, write = os.pipe()
    os.close(read)
    done = subprocess.run(command, stdout=write, stderr=subprocess.PIPE, check=False)
    os.close(write)
    assert (done.returncode, done.stderr) == (0, b"")


def test_being_terminated_ends_with_the_code_for_interrupted(tmp_path: Path) -> None:
    """The signal comes while the sources are opened: a FIFO's place is taken by a child that stops itself."""
    program = (
        "import os, signal\n"
        "from refaug.cli import main as cli\n"
        "import refaug.cli.logs.log as command\n"
        "def stop(*_, **__): os.kill(os.getpid(), signal.SIGTERM)\n"
        "command.ingest = stop\n"
        "raise SystemExit(cli.main(['--home', 'home', 'log', 'ingest', 'x', '--log', 'l', '--json']))\n"
    )
    done = subprocess.run([sys.executable, "-c", program], cwd=tmp_path, capture_output=True, check=False)
    assert done.returncode == errors.Interrupted.exit_code
    assert json.loads(done.stderr.splitlines()[-1])["error"]["code"] == "interrupted"
    assert signal.SIGTERM not in (done.returncode, -done.returncode)


def test_the_version_is_printed() -> None:
    done = subprocess.run([sys.executable, "-m", "refaug", "--version"], capture_output=True, text=True, check=True)
    assert done.stdout == "refaug 0.1.0\n"


HEAVY = "{'torch', 'scipy.stats', 'scipy.optimize', 'scipy.special', 'pandas', 'sentencepiece', 'fugashi'}"
PAGES = "from refaug.service.web.app import create_app; create_app(Settings(home=Path('home')), ServeSettings())"


@pytest.mark.parametrize(
    "program",
    [
        "import refaug.cli.main",
        "from pathlib import Path; from refaug.core.home import Settings; "
        f"from refaug.service.server_settings import ServeSettings; {PAGES}",
    ],
    ids=["to show help", "to serve without an open model"],
)
def test_nothing_heavy_is_imported(program: str) -> None:
    program = f"import sys; {program}; print(sorted({HEAVY} & set(sys.modules)))"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"


def test_shared_prints_utterances_with_several_responses(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "pairs.tsv"
    path.write_text(
        "Where do you want to eat?\tAt home.\n"
        "where do you want to eat\tI know a place.\n"
        "One answer to this one.\tRight.\n",
        "utf-8",
    )
    run(tmp_path, "log", "ingest", str(path), "--log", "eat")
    capfd.readouterr()
    assert run(tmp_path, "log", "shared", "eat") == 0
    lines = [json.loads(line) for line in capfd.readouterr().out.splitlines()]
    assert [(line["utterance"].lower().rstrip("?"), sorted(line["responses"])) for line in lines] == [
        ("where do you want to eat", ["At home.", "I know a place."])
    ]


def test_delete_says_what_it_removed_and_the_whole_log_needs_a_yes(
    tmp_path: Path, source: Path, capfdbinary: pytest.CaptureFixture[bytes]
) -> None:
    run(tmp_path, "log", "ingest", str(source), "--log", "shop")
    capfdbinary.readouterr()
    assert run(tmp_path, "log", "delete", "shop", "--dialogue", "d1", "--dialogue", "d2", "--json") == 0
    removed = json.loads(capfdbinary.readouterr().out)
    assert removed == {"log": "shop", "pairs": 2, "dialogues": {"d1": 2, "d2": 0}, "speakers": {}, "pairs_left": 0}
    assert run(tmp_path, "log", "delete", "shop", "--whole") == 2
    assert run(tmp_path, "log", "delete", "shop", "--whole", "--yes") == 0
    assert run(tmp_path, "log", "show", "shop") == 3
