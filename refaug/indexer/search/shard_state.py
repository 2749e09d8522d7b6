"""How a shard of an index is that processes elsewhere have open."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, kw_only=True)
class ShardState:
    """How a shard is: the number of its processes, of those that answer, and of the machines that have one of these."""

    index: str
    shard: str
    replicas: int
    alive: int
    machines: int
    silent: tuple[str, ...] = ()  # the machines on which the others were started
