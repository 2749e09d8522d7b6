"""Evaluations whose jobs did not end well, and the rows of such jobs: what is removed while no retry can begin."""

from __future__ import annotations

from typing import Final

from sqlalchemy import delete, select

from refaug.core.artefacts.build_stages import Stages
from refaug.core.home import Settings
from refaug.service.database.database import Database
from refaug.service.database.migrations.tables import JOBS
from refaug.service.evaluations.evaluation_store import EvaluationStore
from refaug.service.jobs.kinds.job_context import job_folder
from refaug.service.jobs.store import JobState
from refaug.service.server_settings import ServeSettings

_NOT_DONE: Final = (JobState.FAILED, JobState.CANCELLED)


class EndedJobs:
    """The jobs of evaluations that failed or were cancelled."""

    def __init__(self, database: Database, home: Settings, serve: ServeSettings) -> None:
        self._database, self._home = database, home
        self._evaluations = EvaluationStore(home, serve)

    def discard_all(self) -> int:
        """Remove the evaluations of all jobs that failed or were cancelled, and return how many there were."""
        return sum(self.discard(evaluation_id) for evaluation_id in self._evaluations.ids())

    def discard(self, evaluation_id: str) -> bool:
        """Remove what a job stored before it failed or was cancelled; return whether there was something.

        Such a job stored its evaluation, and was stopped before it could end. A retry waits meanwhile: it finds the
        evaluation with its mark, or neither.
        """
        if not self._evaluations.is_there(evaluation_id) or not self._did_not_end_well(evaluation_id):
            return False
        with self._database.writing() as connection:
            state = select(JOBS.c.state).where(JOBS.c.id == evaluation_id).with_for_update()
            if connection.execute(state).scalar() not in _NOT_DONE:
                return False
            Stages(job_folder(self._home, evaluation_id)).drop()
            self._evaluations.remove(evaluation_id)
        return True

    def _did_not_end_well(self, job: str) -> bool:
        """Whether a job failed or was cancelled, as far as can be seen without making writers wait."""
        with self._database.reading() as connection:
            return connection.execute(select(JOBS.c.state).where(JOBS.c.id == job)).scalar() in _NOT_DONE

    def remove(self, job: str) -> bool:
        """Remove the row of a job that failed or was cancelled, with its events; False where it is in another state."""
        self.discard(job)
        with self._database.writing() as connection:
            row = delete(JOBS).where(JOBS.c.id == job, JOBS.c.state.in_(_NOT_DONE))
            return connection.execute(row).rowcount > 0
