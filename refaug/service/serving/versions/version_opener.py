"""Opening a version: it is read, warmed up, and after a failure not tried again at once."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Final, Protocol

from refaug.core.artefacts.mapped_files import MappedFiles
from refaug.core.artefacts.store.locations import StoreSettings
from refaug.core.artefacts.versions import Versions
from refaug.core.backoff import Backoff
from refaug.core.clusters import ShardState
from refaug.core.errors import MissingPart, RefaugError, Unavailable
from refaug.core.home import Settings
from refaug.core.installation import EXECUTORS, find
from refaug.core.records import Reference
from refaug.core.text.messages import HiddenFolders, shorten_paths
from refaug.indexer.search.index import FleetOpener, ReferenceIndex
from refaug.indexer.search.search_settings import MODES, SearchSettings
from refaug.rater.rating import Rater, RatingRequest
from refaug.rater.rating_settings import RatingSettings
from refaug.scoring.home.indexes import open_index, places_of
from refaug.scoring.home.networks import open_rater
from refaug.service import prometheus_figures
from refaug.service.server_settings import ServeSettings
from refaug.service.serving.versions.leases import Kind, OpenVersion, VersionKey

# ── The cluster on which a web process has the shards of its indexes open, connected to when the first one is opened ──

log = logging.getLogger(__name__)


def require_shards() -> StoreSettings | None:
    """Return the store of shards, if one is named; Usage where it is named wrongly, MissingPart without Ray."""
    store = StoreSettings.from_env_or_none()
    if find_spec("ray") is None:
        raise MissingPart("shards on a cluster need Ray", remedy="pip install 'refaug[cluster]' on every machine")
    return store


class _Hosts(FleetOpener, Protocol):
    """Where shards are opened on a cluster."""

    def states(self) -> list[ShardState]:
        """Return how every shard is that is open now."""

    def close(self) -> None:
        """End all their processes."""


class ShardCluster:
    """The connection of this process to a cluster; thread-safe."""

    def __init__(self, serve: ServeSettings) -> None:
        self._serve = serve
        self._lock = threading.Lock()
        self._stack = ExitStack()
        self._hosts: _Hosts | None = None
        self._is_closed = False

    def hosts(self) -> _Hosts:
        """Return where shards are opened; connect to the cluster if this process is not connected yet."""
        with self._lock:
            if self._is_closed:
                raise Unavailable("the service is stopping", remedy="try again in a moment")
            if self._hosts is None:
                store = require_shards()
                cluster = self._stack.enter_context(find(EXECUTORS, "cluster")(self._serve.shards))
                self._hosts = find(EXECUTORS, "shards")(
                    cluster,
                    replicas=self._serve.replicas,
                    timeout_s=self._serve.shard_timeout_s,
                    store=store,
                    observe=prometheus_figures.shard,
                )
                log.info("connected to a cluster", extra={"address": self._serve.shards})
            return self._hosts

    def states(self) -> list[ShardState]:
        """Return how every shard is that is open now."""
        hosts = self._hosts
        return [] if hosts is None else hosts.states()

    def close(self) -> None:
        """End all processes of this one on the cluster, and leave it."""
        with self._lock:
            self._is_closed = True
            if self._hosts is not None:
                self._hosts.close()
                self._hosts = None
            self._stack.close()


# ── Opening a version: it is read, warmed up, and after a failure not tried again at once ─────────────────────────────

_FIRST_WAIT_S: Final = 1.0  # before a version that could not be opened is tried again; doubled each time
_LONGEST_WAIT_S: Final = 60.0


@dataclass(frozen=True, kw_only=True)
class _OpeningFailure:
    """Why a version could not be opened, and when it is tried again."""

    why: str
    again_at: float
    backoff: Backoff


class VersionOpener:
    """Opens versions for all threads; at most one thread opens the same version at a time."""

    def __init__(
        self,
        home: Settings,
        stored: Mapping[Kind, Versions],
        *,
        threads: int,
        clock: Callable[[], float],
        shards: ShardCluster | None = None,
    ) -> None:
        self._shards = shards
        self._home, self._stored, self._threads, self._clock = home, stored, threads, clock
        self._failures = dict[VersionKey, _OpeningFailure]()

    def open(self, key: VersionKey) -> OpenVersion:
        """Open a version; a failure is not retried at once, since reading a damaged version is as slow as any."""
        self.require_not_failed(key)
        before, begun = self._failures.get(key), time.perf_counter()
        try:
            opened = self._open_version(key)
        except Exception as error:
            why = explain_failure(error, self._home.home)
            backoff = Backoff(_FIRST_WAIT_S, _LONGEST_WAIT_S) if before is None else before.backoff
            wait_s = backoff.next_s()
            self._failures[key] = _OpeningFailure(why=why, again_at=self._clock() + wait_s, backoff=backoff)
            log.exception("not opened", extra={"artefact": str(key), "why": why})
            raise _unavailable(str(key), why, wait_s) from error
        self._failures.pop(key, None)
        log.info("opened", extra={"artefact": str(key), "seconds": round(time.perf_counter() - begun, 3)})
        return opened

    def require_not_failed(self, key: VersionKey) -> None:
        """Raise Unavailable while the waiting time after a failure lasts."""
        now, before = self._clock(), self._failures.get(key)
        if before is not None and now < before.again_at:
            raise _unavailable(str(key), before.why, before.again_at - now)

    def _open_version(self, key: VersionKey) -> OpenVersion:
        """Open a version and warm it up, so that the first request is as fast as the second."""
        if key.kind == "index":
            return self._open_index(key)
        with ExitStack() as failing:  # what is open by then is closed where a later step fails
            held = self._stored["rater"].open(key.spec)  # the files stay as long as the version serves
            failing.callback(held.close)
            rater = open_rater(self._home, key.spec, threads=self._threads, takes_kept=True)
            files = MappedFiles.of_folders([held.folder])
            failing.callback(files.close)
            _warm_rater(rater)
            failing.pop_all()
        return OpenVersion(key=key, tool=rater, held=held, files=files)

    def _open_index(self, key: VersionKey) -> OpenVersion:
        with ExitStack() as failing:
            if self._shards is None:
                index = open_index(self._home, key.spec, threads=self._threads, hashed=True)
            else:
                hosts = self._shards.hosts()
                index = ReferenceIndex.open_on(places_of(self._home), key.spec, hosts, threads=self._threads)
            failing.callback(index.close)
            files = MappedFiles.of_folders(
                [held.folder for held in (index.held, index.sources.held) if held], index.is_read_here
            )
            failing.callback(files.close)
            _warm_index(index)
            failing.pop_all()
        return OpenVersion(key=key, tool=index, files=files)


def explain_failure(error: Exception, home: Path) -> str:
    """Return why something failed, without paths."""
    if not isinstance(error, RefaugError):
        return f"something went wrong that was not foreseen ({type(error).__name__})"
    text = f"{error.message} ({error.remedy})" if error.remedy else error.message
    return shorten_paths(HiddenFolders.left_out(home).hide(text))


def _unavailable(what: str, why: str, retry_after_s: float = _FIRST_WAIT_S) -> Unavailable:
    message = f"{what} cannot be opened: {why}"
    return Unavailable(message, remedy="name another one, or try again later", retry_after_s=retry_after_s)


def _warm_index(index: ReferenceIndex) -> None:
    """Search for the index's own first texts in every mode, which reads mapped files and compiles kernels."""
    pair = index.first_pair()
    for settings in (SearchSettings(mode=mode) for mode in MODES):
        if _can_search(index, settings):
            index.search([pair], settings)


def _can_search(index: ReferenceIndex, settings: SearchSettings) -> bool:
    """Return whether the index has what the mode compares; an encoder has vectors of utterances only."""
    if settings.is_bm25 or settings.is_fused:
        return index.manifest.bm25 is not None
    has_encoder = index.sources.encoder is not None
    return has_encoder if settings.is_encoder else not (has_encoder and settings.is_dialog)


def _warm_rater(rater: Rater) -> None:
    request = RatingRequest(
        utterance="how are you", golds=("fine",), candidates=(Reference(text="so so", utterance="well"),)
    )
    rater.rate([request], RatingSettings(combine="mean"))
