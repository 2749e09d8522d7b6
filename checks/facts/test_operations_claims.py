"""What the page for operators says in words and numbers: settings, limits, maps that are written, files that are read.

test_operations_page.py has the figures that were measured, and the tests of each section.
"""

from __future__ import annotations

import ast
import configparser
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from integration import test_altered_files

from refaug.core.artefacts.kinds import artefact_stores
from refaug.core.home import Settings
from refaug.service.backup import backing_up
from refaug.service.evaluations.uploads import MAX_UPLOADS
from refaug.service.history import figure_recorder, hourly_figures, notice_sender
from refaug.service.jobs import schedules, worker
from refaug.service.jobs.job_order import KINDS
from refaug.service.server_settings import ServeSettings

ROOT = Path(__file__).resolve().parents[2]
PAGE = (ROOT / "docs" / "operations.md").read_text("utf-8")
STORED_FILES = (ROOT / "docs" / "internals" / "stored-files.md").read_text("utf-8")
PACKAGE = ROOT / "refaug"
SETTINGS = ServeSettings()
LOADING = re.compile(r"mmap|memmap|fallocate|pickle|dill|joblib|marshal|shelve|(torch|np|numpy)\.load\b")


def section(heading: str) -> str:
    return re.split(r"\n#{2,3} ", PAGE.split(f"# {heading}\n", 1)[1], maxsplit=1)[0]


def stated(pattern: str) -> int:
    [number] = re.findall(pattern, PAGE)
    return int(number.replace(",", ""))


@pytest.mark.parametrize(
    ("pattern", "value"),
    [
        (r"\| one upload \| `--upload-mib`, ([\d,]+)", SETTINGS.upload_mib),
        (r"\| all uploads \| `--uploads-mib`, ([\d,]+);", SETTINGS.uploads_mib),
        (r"; ([\d,]+) files \| `--keep-uploads-days`", MAX_UPLOADS),
        (r"`--keep-uploads-days`, ([\d,]+)", SETTINGS.keep_uploads_days),
        (r"`--evaluation-replies`, ([\d,]+)", SETTINGS.evaluation_replies),
        (r"`--evaluations-mib`, ([\d,]+)", SETTINGS.evaluations_mib),
        (r"`--keep-evaluations-days`, ([\d,]+)", SETTINGS.keep_evaluations_days),
        (r"Ended jobs are kept for ([\d,]+) days", SETTINGS.keep_jobs_days),
        (r"ends with a conflict after ([\d,]+) attempts", backing_up.TRIES),
        (r"up to ([\d,]+) before it are noted as missed", schedules._MAX_MISSED),
    ],
)
def test_numbers_are_those_of_settings_and_limits(pattern: str, value: int) -> None:
    assert stated(pattern) == value


def test_numbers_in_words_are_those_of_settings_and_limits() -> None:
    assert "failed after three tries (`REFAUG_JOB_TRIES`)" in PAGE
    assert SETTINGS.job_tries == 3
    assert "ten minutes late" in PAGE
    assert schedules._LATE_AFTER.total_seconds() == 600
    assert "in each web process (128 by default)" in PAGE
    assert SETTINGS.key_requests == 128
    assert "writes at most twice a second" in PAGE
    assert worker.PROGRESS_INTERVAL_S == 0.5
    assert "a web process every 20 seconds" in PAGE
    assert figure_recorder.EVERY_S == 20
    assert "in order, for three days" in PAGE
    assert notice_sender.KEPT.days == 3
    assert "`/service` shows 90 days" in PAGE
    assert hourly_figures.HOURS_KEPT == 90 * 24


def test_every_kind_of_job_is_named() -> None:
    sentence = section("Jobs").split("is a job: ")[1].split(", which runs")[0]
    assert sorted(re.findall(r"`([a-z-]+)`", sentence)) == sorted(KINDS)


def test_every_kind_of_artefact_is_in_the_table_of_a_backup(tmp_path: Path) -> None:
    home = Settings(home=tmp_path)
    stores = [versions.root.name for versions in artefact_stores(home).values()]
    folders = [home.logs, home.reference_sets, home.judges]
    named = re.findall(r"`([a-z-]+)/`", "\n".join(re.findall(r"^\| `.*$", section("Backup and restore"), re.MULTILINE)))
    assert set(named) >= {*stores, *(folder.name for folder in folders), "inbox", "jobs", "evaluations", "uploads"}


def test_the_number_of_alterations_is_that_of_the_tests() -> None:
    many, few = re.findall(
        r"([\d,]+) seeded alterations .*?`make faults`, (\d+) of them of `make test-all`", STORED_FILES
    )[0]
    firsts = [
        first
        for test in (
            test_altered_files.test_2000_altered_files_crash_nothing_and_are_never_served,
            test_altered_files.test_400_altered_files_of_rarer_kinds_are_never_served,
        )
        for mark in test.pytestmark  # type: ignore[attr-defined]
        if mark.name == "parametrize"
        for first in mark.args[1]
    ]
    assert int(many.replace(",", "")) == 200 * len(set(firsts))
    sample = test_altered_files.test_a_sample_of_altered_files_crashes_nothing_and_is_never_served
    assert [mark.name for mark in sample.pytestmark] == ["slow"]  # type: ignore[attr-defined]
    assert f"problems(0, {few})" in Path(test_altered_files.__file__).read_text("utf-8")


def test_the_unit_starts_the_server_and_waits_longer_than_the_server_does() -> None:
    [text] = re.findall(r"```ini\n(.*?)```", PAGE, re.DOTALL)
    unit = configparser.ConfigParser(strict=False, interpolation=None)
    unit.optionxform = str  # type: ignore[assignment,method-assign]
    unit.read_string(text)
    service = unit["Service"]
    assert service["ExecStart"].endswith("/refaug serve")
    assert service["ExecStartPre"] == f"{service['ExecStart']} --check"
    assert service["Environment"] == f"REFAUG_HOME={service['ReadWritePaths']}"
    assert float(service["TimeoutStopSec"]) > SETTINGS.shutdown_s
    assert int(service["UMask"], 8) == 0o077


# ── what the source does ──────────────────────────────────────────────────────────────────────────────────────────


def calls() -> Iterator[tuple[str, str, ast.Call]]:
    """The calls of each file that may map or load something: the file, the name of what is called, and the call."""
    for path in PACKAGE.rglob("*.py"):
        text = path.read_text("utf-8")
        for node in ast.walk(ast.parse(text)) if LOADING.search(text) else ():
            if isinstance(node, ast.Call):
                yield str(path.relative_to(PACKAGE)), ast.unparse(node.func), node


def arguments(call: ast.Call) -> dict[str | int, Any]:
    named = {keyword.arg or "**": ast.unparse(keyword.value) for keyword in call.keywords}
    return {**dict(enumerate(map(ast.unparse, call.args))), **named}


def is_read_only(name: str, call: ast.Call) -> bool:
    values = arguments(call)
    if name.endswith("mmap.mmap"):
        return values.get("access") == "mmap.ACCESS_READ"
    mode = (
        values.get("mmap_mode") or values.get("mode") or next((v for v in values.values() if v in ("'r'", "'c'")), "")
    )
    return mode in ("'r'", "'c'")


def test_memory_maps_that_are_written_are_those_of_the_page() -> None:
    """Each such place of the source belongs to a row of the table, except for the database, which maps for itself."""
    written = {
        file
        for file, name, call in calls()
        if (name.endswith(("mmap.mmap", "np.memmap", "open_memmap")) or "mmap_mode" in arguments(call))
        and not is_read_only(name, call)
    }
    rows = {
        "service/figures.py": "figures of the web processes",
        "indexer/vectors/glove.py": "`pairs.npy`, `targets.npy` of a GloVe training",
        "indexer/bm25/index.py": "`indices.csc.index.npy`, `data.csc.index.npy` of an index build",
        "extras/conversations/selfplay/shared_windows.py": "classes of conversations of a check of a self-play",
    }
    assert written == set(rows)
    table = re.findall(r"^\| (.+?) \| .+ \|$", STORED_FILES, re.MULTILINE)[1:]
    assert table == [*rows.values(), "`refaug.db-shm` of SQLite"]


def test_what_is_mapped_to_be_written_has_its_room_before() -> None:
    allocating = {file for file, name, _ in calls() if name == "os.posix_fallocate"}
    assert {
        "indexer/vectors/glove.py",
        "indexer/bm25/index.py",
        "extras/conversations/selfplay/shared_windows.py",
    } <= allocating


def test_no_pickle_is_read() -> None:
    """Loading one runs what is in it; numba reads its own, from folders that are checked."""
    loading = [
        (file, name)
        for file, name, call in calls()
        if re.fullmatch(r"(pickle|cPickle|dill|joblib|marshal|shelve|torch|cloudpickle)\.(load|loads|open)", name)
        or (name in ("np.load", "numpy.load") and arguments(call).get("allow_pickle") != "False")
    ]
    assert loading == []
