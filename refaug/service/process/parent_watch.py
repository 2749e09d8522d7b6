"""Ending a child process of a server when its parent is gone."""

from __future__ import annotations

import os
import signal
import threading
import time
from typing import Final

POLL_S: Final = 0.5  # between two checks; an orphan may keep a port or a job for so long


def end_with_parent(parent: int, *, within_s: float) -> threading.Thread:
    """End this process when its parent is gone, watched by a thread.

    First with SIGTERM, which lets running work end; after `within_s` seconds at once, since no other process would do
    it. The caller passes `parent`, which may be gone before this process could ask for it.
    """
    watcher = threading.Thread(target=_watch, args=(parent, within_s), name="parent", daemon=True)
    watcher.start()
    return watcher


def _watch(parent: int, within_s: float) -> None:
    while os.getppid() == parent:
        time.sleep(POLL_S)
    os.kill(os.getpid(), signal.SIGTERM)
    time.sleep(within_s)
    os._exit(1)  # ends without the main thread, which may be blocked
