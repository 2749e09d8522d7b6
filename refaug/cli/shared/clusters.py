"""Clusters that a command's work is done on."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from refaug.core.cluster.connection import Cluster


@contextmanager
def connected(address: str | None) -> Iterator[Cluster | None]:
    """Connect to a cluster until the block ends, if one is asked for."""
    if address is None:
        yield None
        return
    from refaug.core.cluster.connection import connect  # noqa: PLC0415  Ray

    with connect(address) as cluster:
        yield cluster
