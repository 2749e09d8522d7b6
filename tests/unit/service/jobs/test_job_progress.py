"""The progress of a job as the rows that are written of it."""

from __future__ import annotations

from typing import Any

from refaug.service.jobs.store import NewEvent
from refaug.service.jobs.worker import JobProgress


class WrittenProgress:
    """A store that remembers what is written, and nothing else."""

    def __init__(self) -> None:
        self.rows = list[tuple[dict[str, Any] | None, list[tuple[str, Any]]]]()

    def progress(self, job: str, worker: str, progress: dict[str, Any] | None, events: list[NewEvent]) -> None:
        assert (job, worker) == ("job-1", "worker-1")
        self.rows.append((progress, [(event.type, event.data) for event in events]))


def test_a_stage_begins_at_nothing_done_and_adds_up_what_is_done() -> None:
    written, clock = WrittenProgress(), iter([0.0, 1.0, 1.25, 2.0, 3.0])
    progress = JobProgress(
        written,  # type: ignore[arg-type]
        "job-1",
        "worker-1",
        clock=lambda: next(clock),
        now=lambda: "2026-11-20T02:30:00.000000Z",
    )
    progress.stage("reading", total=10, unit="pairs")
    progress.write()
    progress.advance(3)
    progress.write()
    progress.advance(4)
    progress.write()  # a quarter of a second after the last one: nothing is written
    progress.write()
    progress.write()  # nothing new
    reading = {"stage": "reading", "total": 10, "unit": "pairs"}
    at = [{**reading, "done": amount, "since": "2026-11-20T02:30:00.000000Z"} for amount in (0, 3, 7)]
    assert written.rows == [
        (at[0], [("stage", reading), ("progress", at[0])]),
        (at[1], [("progress", at[1])]),
        (at[2], [("progress", at[2])]),
    ]


def test_work_without_a_stage_is_counted_from_nothing() -> None:
    written = WrittenProgress()
    progress = JobProgress(written, "job-1", "worker-1")  # type: ignore[arg-type]
    progress.advance(5)
    progress.write(last=True)
    assert [row for row, _ in written.rows] == [{"stage": "", "total": None, "unit": "", "done": 5}]
