"""Objects of refaug that live in processes of a cluster and answer calls, each perhaps in several replicas.

An actor whose process or machine dies is started again by Ray, on another machine if need be, and makes its object
anew. Until then calls go to its other replicas (`extras.cluster.replicas`). Where that leaves two replicas on one
machine, or one on a head without tasks, it is moved to a machine that has none of them.
"""

from __future__ import annotations

import logging
import os
import secrets
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from functools import cache
from importlib import import_module
from typing import Any, Final

from refaug.core.errors import RefaugError, Unavailable
from refaug.extras.cluster.calls import Failure, ProcessLost, answer_or_failure, brought_home, name_of, result_of
from refaug.extras.cluster.connection import Cluster, ClusterNode
from refaug.extras.cluster.replicas import ActorCall, NoReplica, Replica, Replicas, RunningCall, answer_of, reason_of

# ── How long a process of a cluster waits for calls before it ends ────────────────────────────────────────────────────


class CallLease:
    """Runs from the last call, or the last word that the process is still wanted; never out during a call."""

    def __init__(self, seconds: float, clock: Callable[[], float] = time.monotonic) -> None:
        self._seconds, self._clock = seconds, clock
        self._lock = threading.Lock()
        self._calls, self._heard_at = 0, clock()

    def renew(self) -> None:
        """Begin anew."""
        with self._lock:
            self._heard_at = self._clock()

    @contextmanager
    def during_call(self) -> Iterator[None]:
        """Hold the lease, and begin anew when the block ends."""
        with self._lock:
            self._calls += 1
        try:
            yield
        finally:
            with self._lock:
                self._calls, self._heard_at = self._calls - 1, self._clock()

    def end_if_over(self, end: Callable[[], None]) -> None:
        """Call `end` if the lease has run out; no call begins meanwhile."""
        with self._lock:
            if not self._calls and self._clock() - self._heard_at > self._seconds:
                end()


# ── Objects of refaug that live in processes of a cluster and answer calls, each perhaps in several replicas ──────────

_BYTES: Final = 1 << 20  # asked for, since an actor that asks for nothing is placed anywhere
_AT_ONCE: Final = 8  # calls that one actor works on
_PROBE_S: Final = 0.5  # between two questions whether an actor lives
_NEXT_PROBE_S: Final = 3.0  # without an answer
_REOPEN_S: Final = 2.0  # before an object that could not be made is tried again
_LEASE_S: Final = 60.0  # without any call
_SPREAD_S: Final = 2.0  # between two looks whether replicas share a machine
_SPREAD_AGAIN_S: Final = 30.0  # after one that could not be moved
_TOUCH_S: Final = 5.0  # between two calls that say that an actor is still wanted


log = logging.getLogger(__name__)


class ActorHost:
    """The process of an actor: it makes the object, and calls its methods.

    It ends a minute after the process that has started it is gone or wants it no more: Ray ends such actors, too, but
    not those that were there before the head was lost and came back, nor all of those that are just starting again.
    """

    def __init__(self, factory: str, arguments: Mapping[str, Any], shared: Any = None) -> None:
        self._factory, self._arguments, self._shared = factory, arguments, shared
        self._lock = threading.Lock()
        self._object: Any = None
        self._failure: Failure | None = None
        self._again_at = 0.0
        self._lease = CallLease(_LEASE_S)
        self._process = secrets.token_hex(8)
        threading.Thread(target=self._end_when_forgotten, name="lease", daemon=True).start()

    def touch(self) -> None:
        """Say that the actor is still wanted, without opening its object."""
        self._lease.renew()

    def look(self) -> tuple[str, str, Any]:
        """Return which process this is, the machine that it runs on, and what the method `probe` returns."""
        import ray  # noqa: PLC0415  a process of a cluster has it

        return self._process, ray.get_runtime_context().get_node_id(), self.call("probe")

    def call(self, method: str, *arguments: Any) -> Any:
        """Call a method; an error of refaug's own, or of a file, is returned as a Failure."""
        with self._lease.during_call():
            opened = self._opened()
            if isinstance(opened, Failure):
                return opened
            return brought_home(lambda: getattr(opened, method)(*arguments), method)

    def _end_when_forgotten(self) -> None:
        while True:
            time.sleep(_PROBE_S)
            self._lease.end_if_over(lambda: os._exit(0))

    def _opened(self) -> Any:
        """Return the object, or why it could not be made; that is tried again after a while."""
        with self._lock:
            if self._object is None:
                if self._failure is not None and time.monotonic() < self._again_at:
                    return self._failure
                module, _, name = self._factory.partition(":")
                further = {} if self._shared is None else {"shared": self._shared}
                opened = brought_home(lambda: getattr(import_module(module), name)(**self._arguments, **further), name)
                if isinstance(opened, Failure):
                    self._failure, self._again_at = opened, time.monotonic() + _REOPEN_S
                    return opened
                self._object = opened
            return self._object


Observer = Callable[[str, str, float], None]  # name of the object, outcome, seconds


def _ignore(_name: str, _outcome: str, _seconds: float) -> None:
    pass


class Actors:
    """The actors of one process on a cluster, which end with it."""

    def __init__(self, cluster: Cluster, *, timeout_s: float, observe: Observer = _ignore) -> None:
        self._observe = observe
        self._cluster, self._ray, self._timeout_s = cluster, cluster.ray, timeout_s
        self._host = cluster.ray.remote(ActorHost)
        self._started, self._watched = list[Replicas](), list[Replicas]()
        self._touched_at = 0.0
        self._moved = list[tuple[float, Replica]]()  # when, and the one that was left
        self._is_over = threading.Event()
        self._threads = list[threading.Thread]()
        self._lock = threading.Lock()

    def start(
        self,
        name: str,
        factory: Callable[..., Any],
        arguments: Mapping[str, Any],
        nodes: Sequence[ClusterNode],
        *,
        shared: Any = None,
    ) -> Replicas:
        """Start a replica on each of these machines; one that dies is started again there or elsewhere."""
        from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy  # noqa: PLC0415

        def start_on(node: ClusterNode) -> Replica:
            host = self._host.options(
                num_cpus=0,
                memory=_BYTES,
                max_restarts=-1,
                max_task_retries=0,
                max_concurrency=_AT_ONCE,
                enable_task_events=False,  # Ray's list of all calls would cost more than some of them
                scheduling_strategy=NodeAffinitySchedulingStrategy(node.id, soft=True),
            )
            further = () if shared is None else (shared,)
            return Replica(host.remote(name_of(factory), dict(arguments), *further), node)

        replicas = Replicas(name=name, members=[start_on(node) for node in nodes], start_on=start_on)
        with self._lock:
            self._started.append(replicas)
            self._start_watching()
        return replicas

    def watch(self, replicas: Sequence[Replicas]) -> None:
        """Ask these from now on whether they live."""
        with self._lock:
            self._watched += replicas
            self._start_watching()

    def _start_watching(self) -> None:
        if not self._threads:
            for name, target in (("replicas", self._probe_all), ("spread", self._spread_all)):
                self._threads.append(threading.Thread(target=target, name=name, daemon=True))
                self._threads[-1].start()

    def end(self, replicas: Sequence[Replicas]) -> None:
        """End the processes of these."""
        with self._lock:
            self._started = [started for started in self._started if started not in replicas]
            self._watched = [watched for watched in self._watched if watched not in replicas]
        for of_object in replicas:
            for member in of_object.members:
                with suppress(self._ray.exceptions.RayError, ValueError):
                    self._ray.kill(member.handle)

    def close(self) -> None:
        """Ask none any more."""
        self._is_over.set()
        for thread in self._threads:
            thread.join()
        self._end_moved(0.0)

    # Calls

    def call_each(self, replicas: Replicas, method: str, *arguments: Any) -> list[Any]:
        """Call a method of every replica that answers and wait, however long that takes; raise the first error."""
        references = [member.handle.call.remote(method, *arguments) for member in replicas.members if member.is_alive]
        return [self._get(replicas, reference) for reference in references]

    def call(self, calls: Sequence[ActorCall]) -> list[Any]:
        """Return the answers of several objects, asked at once; NoReplica in the place of an object without a replica.

        Errors of refaug's own are raised.
        """
        begun = time.monotonic()
        running = [RunningCall(call, self._submit) for call in calls]
        references = [call.references[0] for call in running if call.references]
        if len(references) == len(calls) and calls:
            patience = min(self._timeout_s, max(call.replicas.hedge_s(call.work) for call in calls))
            try:
                answers = self._ray.get(references, timeout=patience)
            except (self._ray.exceptions.RayError, TimeoutError):
                pass
            else:
                took = time.monotonic() - begun
                for call, answer in zip(running, answers, strict=True):
                    call.accept(call.references[0], answer, took)
        answers = self._call_patiently(running, begun)
        for call in running:
            self._observe(call.call.replicas.name, call.outcome, call.seconds)
        return answers

    def _submit(self, call: ActorCall, member: Replica) -> Any:
        return member.handle.call.remote(call.method, *call.arguments)

    def _call_patiently(self, running: Sequence[RunningCall], begun: float) -> list[Any]:
        """Wait for each call, and send those that fail or take long to further replicas."""
        while True:
            waiting = {reference: call for call in running if not call.is_over for reference in call.references}
            if not waiting:
                return [answer_of(call) for call in running]
            ready, _ = self._ray.wait(
                list(waiting), timeout=min(call.patience_s for call in running if not call.is_over)
            )
            for reference in ready:
                self._take(waiting[reference], reference, begun)
            now = time.monotonic()
            for call in running:
                if call.is_over:
                    continue
                if now - begun > self._timeout_s:
                    call.fail(f"{call.call.replicas.name} has not answered within {self._timeout_s:g} s")
                elif not call.references or not call.patience_s:
                    call.send()

    def _take(self, call: RunningCall, reference: Any, begun: float) -> None:
        if call.is_over:
            return
        try:
            answer = answer_or_failure(self._ray, reference, call.call.replicas.name)
        except RefaugError as error:
            call.is_over, call.answer = True, error
        except ProcessLost as lost:
            call.refuse(reference, f"its process has ended ({reason_of(lost.error)})")
        else:
            call.accept(reference, answer, time.monotonic() - begun)

    def _get(self, replicas: Replicas, reference: Any) -> Any:
        try:
            return result_of(self._ray, reference, replicas.name)
        except ProcessLost as lost:
            raise NoReplica(
                f"{replicas.name} has no process on the cluster: {lost}",
                remedy="ray status on the head says which machines there are; ray start --address adds one",
            ) from lost

    # Watching

    def _probe_all(self) -> None:
        while not self._is_over.wait(_PROBE_S):
            self._touch_all()
            with self._lock:
                members = [(replicas, member) for replicas in self._watched for member in replicas.members]
            for replicas, member in members:
                try:
                    self._probe(replicas.name, member, tuple(replicas.samples.values()))
                except Exception as error:  # noqa: BLE001  also those of a cluster whose head is gone
                    if self._is_over.is_set():
                        return
                    member.probe = None
                    member.note(replicas.name, reason_of(error))

    def _touch_all(self) -> None:
        """Tell all actors that they are wanted, also those that still open what they hold."""
        if time.monotonic() - self._touched_at < _TOUCH_S:
            return
        self._touched_at = time.monotonic()
        with self._lock:
            members = [member for replicas in self._started for member in replicas.members if member.is_placed]
            members += [member for _, member in self._moved]
        for member in members:
            try:
                member.handle.touch.remote()
            except Exception:  # noqa: BLE001  of a cluster whose head is gone: the probe says so
                return

    def _probe(self, name: str, member: Replica, samples: Iterable[tuple[str, tuple[Any, ...]]]) -> None:
        """Take the answer to the last question, if there is one, and ask again."""
        if member.probe is not None:
            ready, _ = self._ray.wait([member.probe], timeout=0)
            if not ready:
                silent_s = time.monotonic() - member.answered_at
                if silent_s > self._timeout_s:
                    member.note(name, f"it has been silent for {self._timeout_s:g} s")
                if not member.is_placed or time.monotonic() - member.probed_at < _NEXT_PROBE_S:
                    return
                # a question that was on its way when a machine went may stay so for ever
            else:
                process, member.node_id, answer = self._ray.get(member.probe)
                member.answered_at, member.is_placed = time.monotonic(), True
                if process != member.process:
                    self._practise(member, process, samples)
                if member.practice:
                    _, member.practice = self._ray.wait(member.practice, num_returns=len(member.practice), timeout=0)
                elif member.late_at is not None and member.probed_at > member.late_at:
                    member.late_at = None
                member.note(name, answer.message if isinstance(answer, Failure) else "")
        member.probe, member.probed_at = member.handle.look.remote(), time.monotonic()

    def _practise(self, member: Replica, process: str, samples: Iterable[tuple[str, tuple[Any, ...]]]) -> None:
        """Ask a new process what others were asked, whatever it answers; until then it is asked after the others."""
        member.process, member.late_at = process, time.monotonic()
        member.practice = [member.handle.call.remote(method, *arguments) for method, arguments in samples]

    # Spreading

    def _spread_all(self) -> None:
        again_at = 0.0
        while not self._is_over.wait(_SPREAD_S):
            self._end_moved(time.monotonic() - self._timeout_s)
            with self._lock:
                started = [replicas for replicas in self._started if replicas in self._watched]
            nodes = cache(self._cluster.nodes)
            for replicas in started if time.monotonic() >= again_at else ():
                try:
                    self._spread(replicas, started, nodes)
                except Exception:  # also those of a cluster whose head is gone
                    log.info("a replica is not moved", extra={"actor": replicas.name}, exc_info=True)
                    again_at = time.monotonic() + _SPREAD_AGAIN_S

    def _spread(
        self, replicas: Replicas, started: Sequence[Replicas], nodes_now: Callable[[], list[ClusterNode]]
    ) -> None:
        """Move a replica that shares its machine with another one, or that Ray has started on a head without tasks.

        The new process is there, and has practised, before calls go to it; raise where it cannot open its object.
        """
        processes = tuple(member.process for member in replicas.members if member.is_ready)
        if processes == replicas.settled or len(processes) < len(replicas.members) or not all(processes):
            return
        nodes = nodes_now()
        second = replicas.misplaced({node.id for node in nodes})
        if second is None or replicas.start_on is None or replicas.is_shared:
            replicas.settled = processes
            return
        free = [node for node in nodes if node.id not in replicas.machines]
        if not free:
            return
        count = Counter(member.node_id for of_shard in started for member in of_shard.members)
        moved, is_taken = replicas.start_on(min(free, key=lambda node: count[node.id])), False
        try:
            opening = moved.handle.look.remote()
            if not self._wait_for([opening]):
                return
            process, moved.node_id, answer = self._ray.get(opening)
            if isinstance(answer, Failure):
                answer.raise_again()
            self._practise(moved, process, tuple(replicas.samples.values()))
            if moved.node_id in replicas.machines:
                raise Unavailable(f"{moved.node.address} did not take it", remedy="ray status on the head says why")
            if not self._wait_for(moved.practice):
                return
            moved.practice, moved.late_at = [], None
            with self._lock:
                is_taken = replicas in self._started and second in replicas.members and not replicas.is_shared
                if is_taken:
                    replicas.members[replicas.members.index(second)] = moved
                    self._moved.append((time.monotonic(), second))
            log.info("moved", extra={"actor": replicas.name, "machine": moved.node.address})
        finally:
            if not is_taken:
                self._ray.kill(moved.handle)

    def _wait_for(self, references: list[Any]) -> bool:
        """Wait until all of these are answered; return False where these actors are to end before."""
        while references and not self._is_over.is_set():
            _, references = self._ray.wait(references, num_returns=len(references), timeout=_PROBE_S)
        return not references

    def _end_moved(self, before: float) -> None:
        """End the processes that were left before this time, when no call is on its way to them any more."""
        with self._lock:
            ended = [member for at, member in self._moved if at <= before or self._is_over.is_set()]
            self._moved = [(at, member) for at, member in self._moved if member not in ended]
        for member in ended:
            with suppress(self._ray.exceptions.RayError, ValueError):
                self._ray.kill(member.handle)
