"""The thread that takes up published versions, and reports which versions serve."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from typing import Final

from refaug.service.serving.versions.open_versions import OpenVersions
from refaug.service.serving.versions.served_versions import ServedVersions

log = logging.getLogger(__name__)

_STOP_S: Final = 5.0  # to wait for the thread, which may be opening a large index


def _ignore(_served: ServedVersions) -> None:
    pass


class VersionWatcher:
    """A thread that refreshes the served versions at intervals and reports them to a callback."""

    def __init__(
        self, open_versions: OpenVersions, *, every_s: float, report: Callable[[ServedVersions], None] = _ignore
    ) -> None:
        self._open_versions, self._every_s, self._report = open_versions, every_s, report
        self._is_over = threading.Event()
        self._thread = threading.Thread(target=self._watch, name="watcher", daemon=True)

    def start(self) -> None:
        """Report the served versions, so that publishers wait for this process, and start the thread."""
        self._send_report(self._open_versions.served)
        self._thread.start()

    def stop(self) -> None:
        """Stop refreshing; a version that is being opened is not waited for."""
        self._is_over.set()
        if self._thread.is_alive():
            self._thread.join(_STOP_S)

    def _watch(self) -> None:
        while not self._is_over.is_set():
            self._attempt(
                "looking at what is published", lambda: self._open_versions.refresh(before_removal=self._send_report)
            )
            self._attempt("looking at files that are served", self._open_versions.check_files)
            self._send_report(self._open_versions.served)
            self._is_over.wait(self._every_s)

    def _send_report(self, served: ServedVersions) -> None:
        self._attempt("reporting what is served", lambda: self._report(served))

    def _attempt(self, what: str, do: Callable[[], object]) -> None:
        """Run a function; its failure is noted as a problem until it succeeds."""
        try:
            do()
        except Exception as error:
            if what not in self._open_versions.problems():
                log.exception("watching failed", extra={"what": what})
            self._open_versions.note(what, self._open_versions.explain(error))
        else:
            self._open_versions.note(what, "")
