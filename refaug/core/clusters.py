"""Clusters as the core sees them, without Ray: their addresses, processes lost on one, shards that are open there.

An address is `HOST:PORT`, `auto` for the cluster that this machine belongs to, or `local`.
"""

from __future__ import annotations

import re
import socket
from dataclasses import dataclass
from typing import Final, Protocol

from refaug.core.errors import Unavailable, Usage

AUTO: Final = "auto"
LOCAL: Final = "local"

_HOST_AND_PORT: Final = re.compile(
    r"(?P<host>[A-Za-z0-9][A-Za-z0-9.-]{0,252}|\[[0-9A-Fa-f:.]{2,45}\]):(?P<port>\d{1,5})"
)
NO_CLUSTER: Final = "use the address that ray start --head printed; if there is no head, start one with that command"
_TIMEOUT_S: Final = 5.0
_FOR_JOBS: Final = "a head takes jobs with the packages of ray[default], and from outside with --dashboard-host"


class ConnectedCluster(Protocol):
    """One that this process is connected to; what runs on it is known to the executors of the extra alone."""

    address: str


def require_address(address: str) -> str:
    """Return the address, or raise Usage that says which ones there are."""
    if address in {AUTO, LOCAL} or _port(address):
        return address
    if address.startswith("ray://"):
        remedy = (
            "that is Ray's Client protocol, which loses its work with the connection: run the command on a machine of "
            "the cluster with --on auto, or submit it to a head that takes jobs: "
            f"ray job submit --address http://HEAD:8265 -- refaug index build … --on auto; {_FOR_JOBS}"
        )
    elif address.startswith(("http://", "https://")):
        remedy = (
            f"submit the command as a job: ray job submit --address {address} -- refaug index build … --on auto; "
            f"{_FOR_JOBS}; or run it on a machine of the cluster with --on auto"
        )
    else:
        remedy = "HOST:PORT of the head, auto on a machine of the cluster, or local"
    raise Usage(f"{address!r} is not the address of a cluster", remedy=remedy)


def require_reachable(address: str) -> None:
    """Raise Unavailable where nothing listens: Ray itself tries for a minute and says less."""
    match = _HOST_AND_PORT.fullmatch(address)
    if match is None:
        return
    try:
        socket.create_connection((match["host"].strip("[]"), int(match["port"])), _TIMEOUT_S).close()
    except OSError as error:
        raise Unavailable(
            f"no cluster answers at {address}: {error.strerror or error}",
            remedy=NO_CLUSTER,
        ) from error


def _port(address: str) -> int:
    """Return the port of HOST:PORT, 0 where it is none."""
    match = _HOST_AND_PORT.fullmatch(address)
    port = int(match["port"]) if match is not None else 0
    return port if port < 2**16 else 0


class MemberLost(Unavailable):
    """A process of a group has died, with its machine or alone."""


@dataclass(frozen=True, kw_only=True)
class ShardState:
    """How a shard is: the number of its processes, of those that answer, and of the machines that have one of these."""

    index: str
    shard: str
    replicas: int
    alive: int
    machines: int
    silent: tuple[str, ...] = ()  # the machines on which the others were started
