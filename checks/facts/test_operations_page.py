"""The page for operators: figures are those of benchmarks, alerts exist, and each section has its tests."""

from __future__ import annotations

import json
import re
from pathlib import Path
from statistics import median
from typing import Any

import pytest

from refaug.core.home import Settings
from refaug.service.prometheus_figures import ServiceSnapshot, exposition

ROOT = Path(__file__).resolve().parents[2]
PAGE = (ROOT / "docs" / "operations.md").read_text("utf-8")
STORED_FILES = (ROOT / "docs" / "internals" / "stored-files.md").read_text("utf-8")
BENCHMARKS = (ROOT / "docs" / "internals" / "benchmarks.md").read_text("utf-8")

# Where each section is held to what happens.
TESTS = {
    "Starting it": (
        "integration/test_serve.py",
        "unit/service/figures/test_figure_memory.py",
        "../checks/facts/test_docs.py",
    ),
    "Jobs": ("unit/service/jobs/test_store.py", "integration/test_job_worker.py", "integration/test_jobs_command.py"),
    "The first index": (
        "acceptance/test_index_pages.py",
        "acceptance/test_pages.py",
        "acceptance/test_nightly.py",
    ),
    "Schedules": ("unit/service/jobs/test_schedules.py", "integration/test_schedules_command.py"),
    "Keys": ("unit/service/test_keys.py", "unit/service/test_wrong_keys.py", "integration/test_http_keys.py"),
    "Who did what": ("unit/service/test_audit.py", "integration/test_http_keys.py"),
    "Single sign-on": ("integration/test_http_keys.py", "integration/test_serve.py"),
    "Backup and restore": ("integration/test_backup.py", "integration/test_backup_kills.py"),
    "Uploads and evaluations": (
        "integration/test_http_evaluations.py",
        "integration/test_hostile_uploads.py",
        "integration/test_evaluation_ends.py",
        "integration/test_evaluation_backup.py",
    ),
    "Damaged files": (
        "integration/test_altered_files.py",
        "integration/test_cut_files.py",
        "unit/core/artefacts/test_mapped_files.py",
        "unit/core/test_kernel_cache.py",
    ),
    "Upgrades": ("unit/service/database/test_database.py", "integration/test_goldens.py"),
    "Sizes": ("unit/core/test_free_cores.py", "unit/service/jobs/kinds/test_job_context.py"),
    "A full disk": ("integration/test_full_disk.py",),
    "Security": ("integration/test_hostile_http.py", "unit/service/web/connection/test_allowed_hosts.py"),
}


def test_each_section_has_tests() -> None:
    prose = re.sub(r"```.*?```", "", PAGE, flags=re.DOTALL)
    assert re.findall(r"^##+ (.+)$", prose, re.MULTILINE) == list(TESTS)
    assert [file for files in TESTS.values() for file in files if not (ROOT / "tests" / file).is_file()] == []


def figures(name: str) -> Any:
    return json.loads((ROOT / "bench" / "results" / f"{name}.json").read_bytes())


def stated(pattern: str) -> list[float]:
    """The numbers in the one place of the pages that looks so."""
    [found] = re.findall(pattern, PAGE + STORED_FILES + BENCHMARKS)
    return [float(number.replace(",", "")) for number in ([found] if isinstance(found, str) else found)]


@pytest.mark.parametrize(
    ("pattern", "measured", "digits"),
    [
        (r"\| built in (\d+) s; [\d.]+ GB while", lambda: [median(figures("index_build")["seconds"])], 0),
        (
            r"; ([\d.]+) GB while it serves, of which ([\d.]+) GB are not files",
            lambda: [
                figures("index_search")["default"][name] / 1e3 for name in ("held_memory_mb", "held_anonymous_mb")
            ],
            (1, 2),
        ),
        (
            r"a search in ([\d.]+) ms, ([\d,]+) a second",
            lambda: [figures("index_search")["default"][name] for name in ("single_ms", "batch_a_second")],
            (1, 0),
        ),
        (
            r"(\d+) s with at most ([\d.]+) GB; ([\d.]+) GB while it serves, and as much on disk; a search in (\d+)",
            lambda: [figures("index_large")[name] for name in ("build_s", "build_peak_gb", "resident_gb", "single_ms")],
            (0, 1, 1, 0),
        ),
        (
            r"([\d.]+) s for the SHA-256 of its files by one thread \(([\d.]+) GB/s",
            lambda: [figures("open_files")["checks"]["sha256"][name] for name in ("seconds_for_6_gb", "gb_per_s")],
            (1, 2),
        ),
        (
            r"([\d.]+) s for the bounds and the order",
            lambda: [
                sum(
                    figures("open_files")["checks"][name]["seconds_for_6_gb"]
                    for name in ("bounds_int32", "rising_int64")
                )
            ],
            1,
        ),
        (
            r"other programs took ([\d.]+) of the two cores",
            lambda: [median(run["cores_of_other_processes"] for run in figures("service_nightly")["runs"])],
            1,
        ),
        (
            r"p99 of the requests ([\d.]+) times that without the job, the job ([\d.]+) times",
            lambda: [figures("service_nightly")[name] for name in ("p99_ratio", "job_ratio")],
            1,
        ),
    ],
)
def test_the_figures_are_those_that_were_measured(pattern: str, measured: Any, digits: int | tuple[int, ...]) -> None:
    numbers = measured()
    places = digits if isinstance(digits, tuple) else (digits,) * len(numbers)
    assert stated(pattern) == [round(number, place) for number, place in zip(numbers, places, strict=True)]


def test_the_job_beside_requests_meets_its_bar_and_every_request_was_answered() -> None:
    nightly = figures("service_nightly")
    assert nightly["p99_ratio"] <= 2
    assert nightly["job_ratio"] <= 2
    assert {status for run in nightly["runs"] for status in run["statuses_beside"]} == {"200"}


def test_the_command_of_the_open_files_names_the_size_that_was_measured() -> None:
    [mib] = stated(r"bench_open_files\.py --mib (\d+)")
    assert mib * (1 << 20) == figures("open_files")["bytes"]


def test_alerts_name_figures_that_there_are(tmp_path: Path) -> None:
    shown = exposition(
        ServiceSnapshot(
            home=Settings(home=tmp_path), versions={}, troubles={}, processes=1, jobs={}, schedules={"nightly": "late"}
        )
    ).decode()
    named = set(re.findall(r"`(refaug_[a-z_]+)", PAGE))
    assert {"refaug_schedule_failing", "refaug_web_processes", "refaug_requests_total"} <= named
    existing = set(re.findall(r"^# TYPE (refaug_\w+)", shown, re.MULTILINE))
    assert {name.removesuffix("_total") for name in named} <= {name.removesuffix("_total") for name in existing}
