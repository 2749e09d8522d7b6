"""A process of a server that ends when the server itself is gone, however that ended."""

from __future__ import annotations

import os
import signal
import threading
import time
from typing import Final

LOOK_S: Final = 0.5  # between two looks; a port or a job that an orphan keeps for so long troubles nobody


def end_with_parent(parent: int, *, within_s: float) -> threading.Thread:
    """Watch from a thread whether this process still has that parent, and end it when not.

    First as a stop from outside does it (SIGTERM: what is under way may end); after `within_s` seconds at once, since
    nobody is left who would do that. `parent` is told by whoever starts the process: it may be gone before we ask.
    """
    watcher = threading.Thread(target=_watch, args=(parent, within_s), name="parent", daemon=True)
    watcher.start()
    return watcher


def _watch(parent: int, within_s: float) -> None:
    while os.getppid() == parent:
        time.sleep(LOOK_S)
    os.kill(os.getpid(), signal.SIGTERM)
    time.sleep(within_s)
    os._exit(1)  # the way to end without the main thread, which does not react
