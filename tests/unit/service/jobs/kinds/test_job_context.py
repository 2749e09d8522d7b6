"""The threads of a job: those of its order, else of the settings, else as many as cores are free."""

from __future__ import annotations

from pathlib import Path

import pytest

from refaug.core.home import Settings
from refaug.core.processes.free_cores import available_cores
from refaug.core.progress import Silent
from refaug.service.jobs.kinds.ingesting import workers_of
from refaug.service.jobs.kinds.job_context import JobContext
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
    assert workers_of(ordered, context_of(tmp_path, job_threads=setting)) == expected
