"""The threads of a job: those of its order, else of the settings, else as many as cores are free."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

from refaug.core.home import Settings
from refaug.core.processes.free_cores import available_cores
from refaug.core.progress import Silent
from refaug.operations.logs import IngestLog, RunNight
from refaug.operations.training import TrainRater
from refaug.service.jobs.kinds import job_context
from refaug.service.jobs.kinds.ingesting import workers_of
from refaug.service.jobs.kinds.job_context import JobContext, jobs_folder, remove_old_jobs
from refaug.service.jobs.kinds.training import rater_order
from refaug.service.server_settings import ServeSettings


def context_of(folder: Path, **settings: int) -> JobContext:
    return JobContext.of(Settings(home=folder), ServeSettings(**settings), Silent(), "j1")


@pytest.mark.parametrize(("ordered", "setting", "expected"), [(3, 0, 3), (3, 5, 3), (None, 5, 5)])
def test_the_order_comes_before_the_setting(tmp_path: Path, ordered: int | None, setting: int, expected: int) -> None:
    assert context_of(tmp_path, job_threads=setting).threads(ordered) == expected


def test_without_either_the_free_cores_are_counted_once_and_logged(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    context = context_of(tmp_path)
    with caplog.at_level("INFO"):
        threads = context.threads(None)
        assert context.threads(None) == threads
    assert 1 <= threads <= available_cores()
    lines = [(record.getMessage(), getattr(record, "threads", None)) for record in caplog.records]
    assert lines == [("threads of a job", threads)]


@pytest.mark.parametrize(("ordered", "setting", "expected"), [(0, 3, 0), (12, 3, 12), (None, 3, 3), (None, 30, 8)])
def test_sources_are_read_by_as_many_processes_as_the_job_has_threads(
    tmp_path: Path, ordered: int | None, setting: int, expected: int
) -> None:
    order = IngestLog(log="chat", posted=True, workers=ordered)
    assert workers_of(order, context_of(tmp_path, job_threads=setting)) == expected


@pytest.mark.parametrize(
    ("named", "expected"),
    [({}, 3), ({"threads": 2}, 2), ({"threads": 30}, 8), ({"threads": 2, "workers": 1}, 1), ({"workers": 0}, 0)],
)
def test_a_nightly_job_reads_with_the_threads_of_its_order(
    tmp_path: Path, named: dict[str, int], expected: int
) -> None:
    order = RunNight(log="chat", index="chat", **named)
    assert workers_of(order, context_of(tmp_path, job_threads=3)) == expected


# ── a rater, whose bits depend on the number ──────────────────────────────────────────────────────────────────────────


def train_threads(context: JobContext, **named: int) -> int:
    return rater_order(TrainRater(logs=("chat",), **named), context).training.threads


def test_a_rater_is_trained_by_as_many_threads_however_busy_the_machine_is(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(job_context, "free_cores", lambda: available_cores() + 5)
    assert context_of(tmp_path).threads(None) == available_cores() + 5
    assert train_threads(context_of(tmp_path)) == available_cores()
    assert train_threads(context_of(tmp_path), threads=3) == 3


@pytest.mark.parametrize("network", ["nn", "cross"])
@pytest.mark.parametrize(
    ("named", "expected"),
    [
        ({}, (1, 1, available_cores())),
        ({"on": "local", "workers": 3}, (3, 3, 1)),
        ({"on": "local", "workers": 2, "accumulate": 4, "threads": 5}, (4, 2, 5)),
    ],
)
def test_workers_of_a_cluster_have_a_batch_and_a_thread_each(
    tmp_path: Path, network: str, named: dict[str, Any], expected: tuple[int, int, int]
) -> None:
    job = TrainRater(logs=("chat",), network=network, **named)
    training = rater_order(job, context_of(tmp_path)).training
    assert (training.accumulate, training.workers, training.threads) == expected


def test_a_resumed_training_has_the_threads_that_it_began_with(tmp_path: Path) -> None:
    assert train_threads(context_of(tmp_path, job_threads=5)) == 5
    assert train_threads(context_of(tmp_path, job_threads=2)) == 5
    assert train_threads(context_of(tmp_path, job_threads=2), threads=4) == 4


# ── old jobs ──────────────────────────────────────────────────────────────────────────────────────────────────────────


def test_old_jobs_are_removed_beside_one_that_another_worker_removes(tmp_path: Path) -> None:
    folder = jobs_folder(home := Settings(home=tmp_path))
    for name, age in (("old", 2), ("new", 0)):
        (folder / name).mkdir()
        at = (folder / name).stat().st_mtime - age * 86_400
        os.utime(folder / name, (at, at))
    (folder / "gone").symlink_to("nowhere")
    remove_old_jobs(home, days=1)
    assert sorted(os.listdir(folder)) == ["gone", "new"]  # noqa: PTH208
