"""What routes share: one object an app, made when it starts, asked for by every request."""

from __future__ import annotations

import traceback
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from starlette.requests import HTTPConnection

from core.errors import Overloaded
from service.serve_settings import MIB, ServeSettings
from service.settings import Settings

if TYPE_CHECKING:
    from service.asked_metrics import Bases
    from service.batching import Batcher
    from service.database import Database
    from service.engine import Engines
    from service.idempotency import Idempotency
    from service.job_store import JobStore
    from service.keys import KeyRing, Rates
    from service.posted import Posted
    from service.presence import Presence
    from service.ruber_scores import HeldRubers
    from service.schedules import Schedules
    from service.set_scoring import HeldSets


@dataclass(kw_only=True)
class State:
    """The parts of a running service."""

    home: Settings
    serve: ServeSettings
    engines: Engines = field(init=False)
    batcher: Batcher = field(init=False)
    sets: HeldSets = field(init=False)
    database: Database = field(init=False)
    jobs: JobStore = field(init=False)
    schedules: Schedules = field(init=False)
    idempotency: Idempotency = field(init=False)
    keys: KeyRing = field(init=False)
    rates: Rates = field(init=False)
    presence: Presence = field(init=False)
    posted: Posted = field(init=False)
    bases: Bases = field(init=False)
    rubers: HeldRubers = field(init=False)
    threads: int = 1  # of a search or a rating
    warming: list[str] = field(default_factory=list)  # what is not ready yet
    body_bytes: int = 0

    def without_paths(self, text: str) -> str:
        """A message as others may see it: where our files lie is nobody's business; a name may be no UTF-8."""
        for folder in {str(self.home.home.resolve()), str(self.home.home)} - {".", ""}:
            text = text.replace(folder, "HOME")
        return text.replace(str(Path.home()) + "/", "~/").encode("utf-8", "backslashreplace").decode()

    def trace_of(self, error: BaseException) -> list[str]:
        """Where something went wrong: files of ours by their names, functions and lines, and no values."""
        frames = traceback.extract_tb(error.__traceback__)[-8:]
        return [f"{Path(frame.filename).name}:{frame.lineno} {frame.name}" for frame in frames]

    @asynccontextmanager
    async def room_for_bodies(self) -> AsyncIterator[Room]:
        """A share of the memory that all bodies being read may take at once."""
        room = Room(self)
        try:
            yield room
        finally:
            self.body_bytes -= room.taken


@dataclass
class Room:
    """What one body has taken of the memory for all."""

    state: State
    taken: int = 0

    def take(self, size: int) -> None:
        """So many bytes more; Overloaded where there is no room."""
        self.taken += size
        self.state.body_bytes += size
        if self.state.body_bytes > self.state.serve.bodies_mib * MIB:
            raise Overloaded("too much is being sent at once", remedy="send it again in a moment", retry_after_s=1)


def state_of(connection: HTTPConnection) -> State:
    """The state of the app that a request came to."""
    found: State = connection.app.state.refaug
    return found
