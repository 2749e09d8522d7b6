"""The clusters that jobs work on: those that the operator named, since an address of an order leads anywhere."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from refaug.core.clusters import ConnectedCluster
from refaug.core.errors import NotAllowed
from refaug.core.installation import EXECUTORS, find
from refaug.service.server_settings import ServeSettings


def require_cluster(address: str, serve: ServeSettings) -> None:
    """Raise NotAllowed for an address that the server's settings do not name."""
    if address not in serve.cluster_addresses:
        named = ", ".join(serve.cluster_addresses) or "none"
        raise NotAllowed(
            f"{address[:80]!r} is not a cluster that jobs may work on",
            remedy=f"REFAUG_CLUSTERS of the server names these: {named}",
        )


def allowed_cluster(address: str | None, serve: ServeSettings) -> str | None:
    """Return the address of a cluster that the settings name, or None where none is asked for."""
    if address is not None:
        require_cluster(address, serve)
    return address


@contextmanager
def connected(address: str | None, serve: ServeSettings) -> Iterator[ConnectedCluster | None]:
    """Connect to a cluster that the settings name until the block ends, if one is asked for."""
    if (allowed := allowed_cluster(address, serve)) is None:
        yield None
        return
    with find(EXECUTORS, "cluster")(allowed) as cluster:
        yield cluster
