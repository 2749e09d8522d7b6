"""A cluster of Ray: connecting to it, and running functions of refaug on its machines as tasks.

A task whose process or machine dies is done again elsewhere, so a task must be one that may run twice. Tasks run in
processes that Ray starts anew, never in forked ones. Ray's token authentication is on unless RAY_AUTH_MODE says
otherwise.
"""

from __future__ import annotations

import logging
import os
import secrets
import signal
import sys
import threading
import time
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import Any, Final

from refaug.core.clusters import AUTO, LOCAL, NO_CLUSTER, require_address, require_reachable
from refaug.core.errors import Conflict, NoKey, StorageFull, Unavailable, Usage
from refaug.core.installation import extras_named
from refaug.core.processes.free_cores import available_cores
from refaug.extras.cluster.calls import ProcessLost, call, name_of, result_of

# ── A cluster of Ray: connecting to it, and running functions of refaug on its machines as tasks ──────────────────────

NAMESPACE: Final = "refaug"
_RETRIES: Final = 5  # of a task whose process or machine has died
_WAIT_S: Final = 2.0
_PATIENCE_S: Final = 120.0  # for a cluster whose machines are all gone, since a new one may be on its way
_AT_ONCE: Final = 4  # tasks submitted for each core, so that a stop leaves few behind


@dataclass(frozen=True, kw_only=True)
class ClusterNode:
    """A machine of a cluster."""

    id: str
    address: str
    cores: int
    memory: int  # bytes that Ray gives to tasks

    def has(self, cores: int, memory: int) -> bool:
        """Whether one task of this size fits."""
        return self.cores >= cores and self.memory >= memory


@dataclass(frozen=True, kw_only=True)
class TaskCall:
    """A call of one of refaug's functions as a task, and what the task takes of a machine."""

    function: Callable[..., Any]
    arguments: Mapping[str, Any]
    threads: int = 1
    memory: int = 0
    shared: Any = None  # a reference to a value for many calls


@contextmanager
def connect(address: str) -> Iterator[Cluster]:
    """Connect this process to a cluster until the block ends; `local` starts one on this machine for so long."""
    require_address(address)
    require_reachable(address)
    _set_environment(address)
    with extras_named():
        import ray  # noqa: PLC0415  only where a cluster is asked for
    _require_token(ray, address)
    _start(ray, address)
    try:
        yield Cluster(ray, address)
    finally:
        ray.shutdown()


def joined_cluster() -> Cluster:
    """Return the cluster that a task of it runs on."""
    import ray  # noqa: PLC0415  a task of a cluster has it

    return Cluster(ray, AUTO)


def joined_address() -> str:
    """Return the address of the machine that a task of a cluster runs on, as others of the cluster reach it."""
    import ray  # noqa: PLC0415  a task of a cluster has it

    return str(ray.util.get_node_ip_address())


def _set_environment(address: str) -> None:
    """Set what Ray reads when it is imported; Usage where it was imported without."""
    if "RAY_AUTH_MODE" not in os.environ and sys.modules.get("ray") is not None:
        raise Usage(
            "ray was imported before refaug connects, so it does not use tokens",
            remedy="import ray later, or set RAY_AUTH_MODE to token, or to disabled, before Python starts",
        )
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
    os.environ.setdefault("RAY_AUTH_MODE", "token")
    if address == LOCAL and os.environ["RAY_AUTH_MODE"] == "token" and "RAY_AUTH_TOKEN_PATH" not in os.environ:
        os.environ.setdefault("RAY_AUTH_TOKEN", secrets.token_hex(32))


def _require_token(ray: Any, address: str) -> None:
    """Refuse a missing or other token at once: connecting would try it for twenty seconds and not name it."""
    if address in {AUTO, LOCAL}:
        return
    from ray._private.authentication import authentication_token_setup  # noqa: PLC0415  one version, and tests name it

    try:
        authentication_token_setup.ensure_token_if_auth_enabled(create_token_if_missing=False)
        ray._raylet.GcsClient(address=address)  # noqa: SLF001
    except ray.exceptions.AuthenticationError as error:
        raise _no_token(address) from error
    except ray.exceptions.RpcError:  # `ray.init` waits for a head that is starting
        return


def _start(ray: Any, address: str) -> None:
    settings: dict[str, object] = {"namespace": NAMESPACE, "log_to_driver": False, "logging_level": logging.ERROR}
    if address == LOCAL:
        settings |= {"address": "local", "num_cpus": available_cores(), "include_dashboard": False}
    else:
        settings |= {"address": address}
    on_terminate = signal.getsignal(signal.SIGTERM)
    try:
        with _ended_if_it_fails(ray):
            ray.init(**settings)
        if threading.current_thread() is threading.main_thread():
            signal.signal(signal.SIGTERM, on_terminate)  # Ray's own handler ends the process as if nothing was wrong
    except ray.exceptions.AuthenticationError as error:
        raise _no_token(address) from error
    except ConnectionError as error:
        if "InvalidAuthToken" in str(error.__cause__):
            raise _no_token(address) from error
        if "resolve node to connect to" in str(error.__cause__):
            raise Unavailable(
                f"this machine does not belong to the cluster at {address}",
                remedy=f"ray start --address {address} adds it; with --num-cpus 0 it takes no tasks",
            ) from error
        raise Unavailable(f"no cluster answers at {address}: {error}", remedy=NO_CLUSTER) from error
    except RuntimeError as error:
        if "ersion mismatch" in str(error):
            raise Conflict(
                f"the cluster at {address} has another Ray or Python: {_version_lines(str(error))}",
                remedy="install the versions of requirements.lock and the extra cluster on all machines",
            ) from error
        raise


@contextmanager
def _ended_if_it_fails(ray: Any) -> Iterator[None]:
    """End what Ray has begun where connecting fails, so that this process can connect again."""
    try:
        yield
    except Exception:
        ray.shutdown()
        raise


def _version_lines(message: str) -> str:
    """Return the versions that Ray's message names, in one line."""
    return ", ".join(line.strip() for line in message.splitlines() if "Ray:" in line or "Python:" in line) or message


def _no_token(address: str) -> NoKey:
    return NoKey(
        f"the cluster at {address} wants a token, and the one here is missing or another",
        remedy="set RAY_AUTH_TOKEN or RAY_AUTH_TOKEN_PATH to the token of the cluster; with RAY_AUTH_MODE=disabled a "
        "cluster without tokens is reached, too",
    )


class Cluster:
    """A cluster that this process is connected to."""

    def __init__(self, ray: Any, address: str) -> None:
        self.ray, self.address = ray, address
        self._remote_call = ray.remote(call)

    def nodes(self) -> list[ClusterNode]:
        """Return the machines that take tasks now, in the order of their addresses."""
        found = [
            ClusterNode(
                id=node["NodeID"],
                address=node["NodeManagerAddress"],
                cores=int(node["Resources"]["CPU"]),
                memory=int(node["Resources"].get("memory", 0)),
            )
            for node in self.ray.nodes()
            if node["Alive"] and node["Resources"].get("CPU", 0) >= 1
        ]
        return sorted(found, key=lambda node: (node.address, node.id))

    def require_room(self, threads: int, memory: int = 0) -> None:
        """Refuse a cluster without a machine that has so many cores, and so many bytes of memory, for one task."""
        nodes = self.nodes()
        most = max((node.cores for node in nodes), default=0)
        if most < threads:
            what = "no machine that takes tasks" if most == 0 else f"machines of {most} cores at most"
            raise Conflict(
                f"the cluster at {self.address} has {what}; a task wants {threads}",
                remedy="start further machines with ray start --address, or ask for fewer --threads",
            )
        if not any(node.has(threads, memory) for node in nodes):
            most_memory = max(node.memory for node in nodes if node.cores >= threads)
            raise Conflict(
                f"the cluster at {self.address} has machines with {most_memory / 2**30:,.1f} GiB for tasks at most; "
                f"a task of this build takes {memory / 2**30:,.1f} GiB",
                remedy="more --shards need less each, or a smaller --memory where tables are written; or start larger "
                "machines with ray start --address",
            )

    def share(self, value: Any) -> Any:
        """Put a value where all tasks can read it; give it to `run` among the arguments by the name `shared`."""
        try:
            return self.ray.put(value)
        except (self.ray.exceptions.ObjectStoreFullError, self.ray.exceptions.OutOfDiskError) as error:
            raise StorageFull(
                f"Ray's store of values on this machine is full: {type(error).__name__}",
                remedy="free room in Ray's folder (/tmp/ray, or --temp-dir of ray start), or give it a larger "
                "--object-store-memory; the same command goes on from finished stages",
            ) from error

    def on_every_node(
        self,
        function: Callable[..., Any],
        *,
        nodes: Sequence[ClusterNode] | None = None,
        look: Callable[[], None] = lambda: None,
        **arguments: Any,
    ) -> Generator[tuple[ClusterNode, Any]]:
        """Call a function once on every machine, or on these, however busy; yield machine and result as they come.

        A machine that goes meanwhile is left out. `look` is called every few seconds, and ends all of it by an error;
        so does silence of a machine. Calls that have begun end by themselves: Ray 2.60 may end this process where a
        call is cancelled at the moment in which it is answered.
        """
        machines = self.nodes() if nodes is None else nodes
        running = {self._submit(function, arguments, 0, node=node): node for node in machines}
        answered_at = time.monotonic()
        while running:
            done, _ = self.ray.wait(list(running), timeout=_WAIT_S)
            look()
            for reference in done:
                node, answered_at = running.pop(reference), time.monotonic()
                try:
                    answer = self._result(function, reference)
                except Unavailable:
                    if any(alive.id == node.id for alive in self.nodes()) and not self._is_gone(reference):
                        raise
                else:
                    yield node, answer
            if running and time.monotonic() - answered_at > _PATIENCE_S:
                silent = ", ".join(node.address for node in running.values())
                raise Unavailable(
                    f"no answer for {_PATIENCE_S:.0f} s from {silent} of the cluster at {self.address}",
                    remedy="see whether that machine starts processes and reads REFAUG_HOME, or stop Ray there",
                )

    def _is_gone(self, reference: Any) -> bool:
        """Whether a call had no result because its machine is gone, which the list of machines may say later."""
        try:
            self.ray.get(reference)
        except self.ray.exceptions.TaskUnschedulableError:
            return True
        except self.ray.exceptions.RayError:
            return False
        return False

    def run(
        self,
        function: Callable[..., Any],
        arguments: Iterable[Mapping[str, Any]],
        *,
        threads: int = 1,
        memory: int = 0,
        shared: Any = None,
        look: Callable[[], None] = lambda: None,
        at_once: int = _AT_ONCE,
    ) -> Generator[tuple[int, Any]]:
        """Call a function with each of these arguments on the cluster, as `run_calls` does."""
        calls = (
            TaskCall(function=function, arguments=of_task, threads=threads, memory=memory, shared=shared)
            for of_task in arguments
        )
        return self.run_calls(calls, look=look, at_once=at_once)

    def run_calls(
        self, calls: Iterable[TaskCall], *, look: Callable[[], None] = lambda: None, at_once: int = _AT_ONCE
    ) -> Generator[tuple[int, Any]]:
        """Call functions on the cluster; yield number and result as they come.

        A machine has as many calls at once as its cores and its memory allow, and the first calls begin first. The
        first error ends all of it: other tasks are stopped; so does one that `look` raises, which is called every few
        seconds. Calls are taken as tasks are submitted: `at_once` for each core.
        """
        waiting, running, sizes = iter(enumerate(calls)), dict[Any, tuple[int, TaskCall]](), set[tuple[int, int]]()
        most, alone_since = at_once * sum(node.cores for node in self.nodes()), time.monotonic()
        try:
            while True:
                # the first call is taken even where no machine is there now, so that what is missing is said
                while (len(running) < most or not sizes) and (following := next(waiting, None)) is not None:
                    number, task = following
                    if (size := (task.threads, task.memory)) not in sizes:
                        self.require_room(*size)
                        sizes.add(size)
                    reference = self._submit(
                        task.function, task.arguments, task.threads, memory=task.memory, shared=task.shared
                    )
                    running[reference] = number, task
                if not running:
                    return
                done, _ = self.ray.wait(list(running), timeout=_WAIT_S)
                if done or self._has_room(task for _, task in running.values()):
                    alone_since = time.monotonic()
                elif time.monotonic() - alone_since > _PATIENCE_S:
                    raise Unavailable(
                        f"the cluster at {self.address} has had no machine for a task for {_PATIENCE_S:.0f} s",
                        remedy="start one with ray start --address; the same command goes on from finished stages",
                    )
                look()
                for reference in done:
                    number, task = running.pop(reference)
                    yield number, self._result(task.function, reference)
        finally:
            self._cancel(list(running))

    def _cancel(self, references: list[Any]) -> None:
        """Stop calls, but those that are answered: Ray may end this process for cancelling one of them."""
        if references:
            _, references = self.ray.wait(references, num_returns=len(references), timeout=0)
        for reference in references:
            with suppress(self.ray.exceptions.RayError):
                self.ray.cancel(reference, force=True)

    def _has_room(self, calls: Iterable[TaskCall]) -> bool:
        """Whether there is a machine on which one of these calls fits."""
        sizes, nodes = {(task.threads, task.memory) for task in calls}, self.nodes()
        return any(node.has(*size) for node in nodes for size in sizes)

    def _submit(
        self,
        function: Callable[..., Any],
        arguments: Mapping[str, Any],
        threads: int,
        *,
        node: ClusterNode | None = None,
        memory: int = 0,
        shared: Any = None,
    ) -> Any:
        options: dict[str, object] = {"num_cpus": threads, "max_retries": _RETRIES, "name": function.__name__}
        if memory:
            options["memory"] = memory
        if node is not None:
            from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy  # noqa: PLC0415

            options["scheduling_strategy"] = NodeAffinitySchedulingStrategy(node.id, soft=False)
        remote = self._remote_call.options(**options)
        # only a reference among the arguments themselves is replaced by its value
        return (
            remote.remote(name_of(function), dict(arguments))
            if shared is None
            else remote.remote(name_of(function), dict(arguments), shared)
        )

    def _result(self, function: Callable[..., Any], reference: Any) -> Any:
        try:
            return result_of(self.ray, reference, f"the task {function.__name__}")
        except ProcessLost as lost:
            raise Unavailable(
                f"the task {function.__name__} died {_RETRIES + 1} times on the cluster: {lost}",
                remedy="its processes are killed, perhaps for want of memory: more --shards need less of it each; the "
                "same command goes on from finished stages",
            ) from lost
