"""A group of processes on a cluster that work together on one thing, each on its part: all of them, or none.

A group in which a process or a machine dies is ended as a whole: the process that started it may start another one.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from typing import Any, Final, Self

from refaug.core.clusters import MemberLost
from refaug.core.errors import Conflict, RefaugError, Unavailable
from refaug.extras.cluster.actors import ActorHost
from refaug.extras.cluster.calls import ProcessLost, name_of, result_of
from refaug.extras.cluster.connection import Cluster

_PATIENCE_S: Final = 120.0  # for room for all processes: a new machine may be on its way
_POLL_S: Final = 1.0
_CALLS: Final = 2  # at a time: the work, and a question how far it is


class WorkerGroup:
    """Processes of one group, with an object in each; they end with the block."""

    def __init__(
        self,
        cluster: Cluster,
        factory: Callable[..., Any],
        arguments: Sequence[Mapping[str, Any]],
        *,
        threads: int = 1,
        gpus: int = 0,
    ) -> None:
        self._cluster, self._ray, self._size = cluster, cluster.ray, len(arguments)
        require_room_for(cluster, len(arguments), threads, gpus)
        host = cluster.ray.remote(ActorHost).options(
            num_cpus=threads, num_gpus=gpus, max_restarts=0, max_concurrency=_CALLS, scheduling_strategy="SPREAD"
        )
        self._members = [host.remote(name_of(factory), dict(of_member)) for of_member in arguments]

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        for member in self._members:
            with suppress(self._ray.exceptions.RayError, ValueError):
                self._ray.kill(member)

    def ready(self) -> None:
        """Wait until all processes run; Unavailable where the cluster has no room for them."""
        probes = [member.call.remote("ready") for member in self._members]
        there, _ = self._ray.wait(probes, num_returns=len(probes), timeout=_PATIENCE_S)
        if len(there) < len(probes):
            raise Unavailable(
                f"the cluster at {self._cluster.address} has had no room for {self._size} processes at once for "
                f"{_PATIENCE_S:.0f} s",
                remedy="start a machine with ray start --address, or ask for fewer --workers",
            )
        for probe in there:
            self._result(probe)

    def first(self, method: str, *arguments: Any) -> Any:
        """Return what a method of the first process returns."""
        return self._result(self._members[0].call.remote(method, *arguments))

    def all(self, method: str, *arguments: Any, look: Callable[[Any], None], status: str) -> list[Any]:
        """Call a method of all processes at once, and return all results.

        Meanwhile `look` gets what the method `status` of the first process returns, about once a second. The first
        process that dies or fails ends all of it: MemberLost, or its error.
        """
        running = {member.call.remote(method, *arguments): place for place, member in enumerate(self._members)}
        results: list[Any] = [None] * self._size
        asked = time.monotonic()
        while running:
            done, _ = self._ray.wait(list(running), timeout=_POLL_S)
            failed = list[RefaugError]()
            for reference in done:
                place = running.pop(reference)
                try:
                    results[place] = self._result(reference)
                except RefaugError as error:
                    failed.append(error)
            if failed:
                raise self._cause(failed, list(running))
            if time.monotonic() - asked >= _POLL_S and running:
                look(self.first(status))
                asked = time.monotonic()
        look(self.first(status))
        return results

    def _cause(self, failed: list[RefaugError], running: list[Any]) -> RefaugError:
        """Return the error that says most: where one process dies, the others fail because of it."""
        done, _ = self._ray.wait(running, num_returns=len(running), timeout=10.0) if running else ([], [])
        for reference in done:
            try:
                self._result(reference)
            except RefaugError as error:
                failed.append(error)
        return next((error for error in failed if isinstance(error, MemberLost)), failed[0])

    def _result(self, reference: Any) -> Any:
        try:
            return result_of(self._ray, reference, "a process of the group")
        except ProcessLost as lost:
            raise MemberLost(
                f"a process of the group has died on the cluster: {lost}",
                remedy="ray status on the head says which machines there are",
            ) from lost


def require_room_for(cluster: Cluster, size: int, threads: int, gpus: int) -> None:
    """Refuse a cluster whose machines do not have the cores, or the GPUs, of so many processes together."""
    nodes = cluster.nodes()
    room = sum(node.cores // threads for node in nodes)
    if room < size:
        raise Conflict(
            f"the cluster at {cluster.address} has {sum(node.cores for node in nodes)} cores on {len(nodes)} machines; "
            f"{size} workers of {threads} threads want {size * threads}",
            remedy="fewer --workers or --threads, or further machines with ray start --address",
        )
    if gpus and (there := int(cluster.ray.cluster_resources().get("GPU", 0))) < size * gpus:
        raise Conflict(
            f"the cluster at {cluster.address} has {there} GPUs; {size} workers want {size * gpus}",
            remedy="fewer --workers, --device cpu, or machines with GPUs",
        )
