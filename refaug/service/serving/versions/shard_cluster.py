"""The cluster on which a web process has the shards of its indexes open, connected to when the first one is opened."""

from __future__ import annotations

import logging
import threading
from contextlib import ExitStack
from importlib.util import find_spec
from typing import TYPE_CHECKING

from refaug.core.artefacts.store.locations import StoreSettings
from refaug.core.cluster.connection import connect
from refaug.core.errors import MissingPart, Unavailable
from refaug.service import prometheus_figures
from refaug.service.server_settings import ServeSettings

if TYPE_CHECKING:
    from refaug.indexer.search.on_cluster.fleet import ShardHosts, ShardState

log = logging.getLogger(__name__)


def require_shards() -> StoreSettings | None:
    """Return the store of shards, if one is named; Usage where it is named wrongly, MissingPart without Ray."""
    store = StoreSettings.from_env_or_none()
    if find_spec("ray") is None:
        raise MissingPart("shards on a cluster need Ray", remedy="pip install 'refaug[cluster]' on every machine")
    return store


class ShardCluster:
    """The connection of this process to a cluster; thread-safe."""

    def __init__(self, serve: ServeSettings) -> None:
        self._serve = serve
        self._lock = threading.Lock()
        self._stack = ExitStack()
        self._hosts: ShardHosts | None = None
        self._is_closed = False

    def hosts(self) -> ShardHosts:
        """Return where shards are opened; connect to the cluster if this process is not connected yet."""
        from refaug.indexer.search.on_cluster.fleet import ShardHosts  # noqa: PLC0415  only for a cluster

        with self._lock:
            if self._is_closed:
                raise Unavailable("the service is stopping", remedy="try again in a moment")
            if self._hosts is None:
                store = require_shards()
                cluster = self._stack.enter_context(connect(self._serve.shards))
                self._hosts = ShardHosts(
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
