"""The state that routes share, one object per application, filled when it starts; and what an extra adds to one."""

from __future__ import annotations

import traceback
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from fastapi import APIRouter
from starlette.requests import HTTPConnection

from refaug.core.errors import Overloaded
from refaug.core.home import Settings
from refaug.core.processes.kept import cached_property
from refaug.core.text.messages import HiddenFolders, escape_undecodable
from refaug.service.server_settings import MIB, ServeSettings

if TYPE_CHECKING:
    from refaug.scoring.held_sets.held_set import HeldSets
    from refaug.scoring.metric_setup.metric_requests import BaselineCache
    from refaug.scoring.metric_setup.model_registry import ModelRegistry
    from refaug.service.audit import AuditLog
    from refaug.service.bots.bot_store import BotStore
    from refaug.service.bots.bot_use import BotUseStore
    from refaug.service.database.database import Database
    from refaug.service.database.stored_answers import IdempotencyStore
    from refaug.service.evaluations.evaluation_store import EvaluationStore, HeldViews
    from refaug.service.evaluations.notes import NoteStore
    from refaug.service.evaluations.uploads import UploadStore
    from refaug.service.history.hourly_figures import HourlyFigures
    from refaug.service.history.notices import NoticeBox
    from refaug.service.jobs.inbox import Inbox
    from refaug.service.jobs.schedules import ScheduleStore
    from refaug.service.jobs.store import JobStore
    from refaug.service.keys import KeyPlaces, KeyRing, RateLimits, WrongKeys
    from refaug.service.process.live_processes import LiveProcesses
    from refaug.service.prometheus_figures import AddedFigure
    from refaug.service.serving.batches.batcher import Batcher
    from refaug.service.serving.versions.open_versions import OpenVersions
    from refaug.service.traces import Traces


@dataclass(kw_only=True)
class ServiceState:
    """The parts of a running service."""

    home: Settings
    serve: ServeSettings
    open_versions: OpenVersions = field(init=False)
    batcher: Batcher = field(init=False)
    sets: HeldSets = field(init=False)
    database: Database = field(init=False)
    jobs: JobStore = field(init=False)
    schedules: ScheduleStore = field(init=False)
    idempotency: IdempotencyStore = field(init=False)
    keys: KeyRing = field(init=False)
    rate_limits: RateLimits = field(init=False)
    wrong_keys: WrongKeys = field(init=False)
    key_places: KeyPlaces = field(init=False)
    audit: AuditLog = field(init=False)
    hourly_figures: HourlyFigures = field(init=False)
    notices: NoticeBox = field(init=False)
    degraded: list[str] = field(default_factory=list)  # what does not work as it should, while requests are answered
    processes: LiveProcesses = field(init=False)
    inbox: Inbox = field(init=False)
    bots: BotStore = field(init=False)
    bot_use: BotUseStore = field(init=False)
    uploads: UploadStore = field(init=False)
    evaluations: EvaluationStore = field(init=False)
    score_views: HeldViews = field(init=False)
    notes: NoteStore = field(init=False)
    bases: BaselineCache = field(init=False)
    models: ModelRegistry = field(init=False)
    traces: Traces | None = None
    parts: dict[str, object] = field(default_factory=dict)  # of extras, by their names
    threads: int = 1  # per search or rating
    warming: list[str] = field(default_factory=list)  # parts that are not ready yet
    body_bytes: int = 0

    @cached_property
    def _hidden_folders(self) -> HiddenFolders:
        return HiddenFolders.named(self.home.home)

    def without_paths(self, text: str) -> str:
        """Return a message without the paths of this machine; names that are not UTF-8 are escaped."""
        return escape_undecodable(self._hidden_folders.hide(text))

    def trace_of(self, error: BaseException) -> list[str]:
        """Return where an error was raised, as file names, functions and lines without values."""
        frames = traceback.extract_tb(error.__traceback__)[-8:]
        return [f"{Path(frame.filename).name}:{frame.lineno} {frame.name}" for frame in frames]

    @asynccontextmanager
    async def body_memory(self) -> AsyncIterator[Callable[[int], None]]:
        """Yield what takes memory for a body; Overloaded where all bodies that are read at once exceed the limit."""
        taken = 0

        def take(size: int) -> None:
            nonlocal taken
            taken += size
            self.body_bytes += size
            if self.body_bytes > self.serve.bodies_mib * MIB:
                raise Overloaded("too much is being sent at once", remedy="send it again in a moment", retry_after_s=1)

        try:
            yield take
        finally:
            self.body_bytes -= taken


def state_of(connection: HTTPConnection) -> ServiceState:
    """Return the state of a request's application."""
    state: ServiceState = connection.app.state.refaug
    return state


@dataclass(frozen=True, kw_only=True)
class AddedRoutes:
    """Routes, their tags, and what they need while the application runs."""

    routers: Sequence[APIRouter]
    tags: Sequence[Mapping[str, str]] = ()
    running: Callable[[ServiceState], AbstractAsyncContextManager[object]] | None = None  # what `parts` holds meanwhile
    figures: Callable[[ServiceState], Sequence[AddedFigure]] | None = None  # for Prometheus
