"""What does not work as it should while requests are answered, looked for by a thread: /readyz does not wait for it."""

from __future__ import annotations

import logging
import shutil
import threading
from collections.abc import Iterator
from typing import Final

from refaug.core.errors import RefaugError, StorageFull
from refaug.service.web.state import ServiceState

log = logging.getLogger(__name__)

_FIRST_S: Final = 1.0
_EVERY_S: Final = 10.0
_LEAST_FREE: Final = 0.05  # of the disk
_LEAST_BYTES: Final = 1 << 30
_KEPT: Final = 0.01  # of the disk, and at most as much as above: room for what the service itself writes


def require_room(state: ServiceState) -> None:
    """Refuse what may grow without end while only the room is free that jobs, keys and studies need."""
    disk = shutil.disk_usage(state.home.home)
    if disk.free < (kept := min(_LEAST_BYTES, _KEPT * disk.total)):
        raise StorageFull(
            f"the disk is nearly full: the last {kept / 1e6:,.0f} MB are kept for the service itself",
            remedy="send it again when there is room: the operator removes what is not needed",
        )


def find_degraded(state: ServiceState) -> Iterator[str]:
    """Yield a sentence for each part that lacks something."""
    try:
        disk = shutil.disk_usage(state.home.home)
        if disk.free < max(_LEAST_BYTES, _LEAST_FREE * disk.total):
            yield f"the disk is nearly full: {disk.free / 1e9:.1f} GB are free"
    except OSError as error:
        yield f"the home cannot be read: {error.strerror}"
    try:
        failing = state.schedules.failing()
        waiting, problem = state.notices.waiting()
    except RefaugError as error:
        yield f"{state.without_paths(error.message)}: no jobs, schedules and new keys until it does"
        return
    yield from (f"schedule {name} is failing" for name in sorted(failing))
    if state.serve.webhook and problem is not None:
        yield f"the webhook does not take its messages: {waiting:,} wait"


class DegradationWatch:
    """The thread that keeps `degraded` of a service up to date."""

    def __init__(self, state: ServiceState) -> None:
        self._state, self._over = state, threading.Event()
        self._thread = threading.Thread(target=self._run, name="degraded", daemon=True)

    def start(self) -> None:
        """Begin to look."""
        self._thread.start()

    def stop(self) -> None:
        """Look no more."""
        self._over.set()
        self._thread.join()

    def _run(self) -> None:
        pause_s = _FIRST_S
        while not self._over.wait(pause_s):
            pause_s = _EVERY_S
            try:
                self._state.degraded = list(find_degraded(self._state))
            except Exception:
                log.exception("what is degraded is not known")
