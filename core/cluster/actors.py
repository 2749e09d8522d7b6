"""Objects of refaug that live in processes of a cluster and answer calls, each perhaps in several replicas.

An actor whose process or machine dies is started again by Ray, on another machine if need be, and makes its object
anew. Until then calls go to its other replicas. A call that takes far longer than those before is sent to another
replica as well, and the first answer counts; so a call must be one that may run twice.
"""

from __future__ import annotations

import logging
import os
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from importlib import import_module
from typing import Any, Final

from refaug.core.cluster.calls import Failure, brought_home, name_of
from refaug.core.cluster.connection import Cluster, ClusterNode
from refaug.core.errors import RefaugError, Unavailable, Usage

_BYTES: Final = 1 << 20  # asked for, since an actor that asks for nothing is placed anywhere
_AT_ONCE: Final = 8  # calls that one actor works on
_PROBE_S: Final = 0.5  # between two questions whether an actor lives
_NEXT_PROBE_S: Final = 3.0  # without an answer
_LEAST_HEDGE_S: Final = 0.15
_HEDGE_FACTOR: Final = 4.0  # times what the call was expected to take
_MOST_HEDGE_S: Final = 0.5  # beyond what was expected
_SHARES: Final = (0.5, 0.05)  # of a quicker and a slower call in the moving average of times: the first ones are slow
_REOPEN_S: Final = 2.0  # before an object that could not be made is tried again
_LEASE_S: Final = 60.0  # without any call
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
        self._calls, self._heard_at = 0, time.monotonic()
        self._counter = threading.Lock()
        threading.Thread(target=self._end_when_forgotten, name="lease", daemon=True).start()

    def touch(self) -> None:
        """Say that the actor is still wanted, without opening its object."""
        with self._counter:
            self._heard_at = time.monotonic()

    def call(self, method: str, *arguments: Any) -> Any:
        """Call a method; an error of refaug's own, or of a file, is returned as a Failure."""
        with self._counter:
            self._calls += 1
        try:
            opened = self._opened()
            if isinstance(opened, Failure):
                return opened
            return brought_home(lambda: getattr(opened, method)(*arguments), method)
        finally:
            with self._counter:
                self._calls, self._heard_at = self._calls - 1, time.monotonic()

    def _end_when_forgotten(self) -> None:
        while True:
            time.sleep(_PROBE_S)
            with self._counter:
                if not self._calls and time.monotonic() - self._heard_at > _LEASE_S:
                    os._exit(0)

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


@dataclass(eq=False)
class Replica:
    """One actor, and whether it answers."""

    handle: Any
    node: ClusterNode
    is_alive: bool = True
    probe: Any = None  # a question that is not answered yet
    probed_at: float = 0.0
    late_at: float | None = None  # since when a call waits for it that was sent to another replica, too
    answered_at: float = field(default_factory=time.monotonic)

    def note(self, name: str, why: str = "") -> None:
        """Note that it answers, or why it does not; a change is logged."""
        if self.is_alive == (not why):
            return
        self.is_alive = not why
        if why:
            log.warning("does not answer", extra={"actor": name, "machine": self.node.address, "why": why})
        else:
            log.info("answers again", extra={"actor": name, "machine": self.node.address})


@dataclass(eq=False, kw_only=True)
class Replicas:
    """The actors that hold the same object; any of them answers."""

    name: str
    members: list[Replica]
    seconds: float = 0.0  # moving average of a unit of work
    next_place: int = field(default=0, repr=False)

    def choose(self, tried: Sequence[Replica]) -> Replica | None:
        """Return a replica that lives and was not tried, in turn; one that has let a call wait comes after the others.

        A search asks several times, and would otherwise wait anew with each question for a machine that is gone.
        """
        count = len(self.members)
        in_turn = [(self.next_place + step) % count for step in range(1, count + 1)]
        able = [at for at in in_turn if self.members[at].is_alive and self.members[at] not in tried]
        if not able:
            return None
        self.next_place = next((at for at in able if self.members[at].late_at is None), able[0])
        return self.members[self.next_place]

    @property
    def alive(self) -> int:
        """The number of replicas that answer."""
        return sum(member.is_alive for member in self.members)

    def hedge_s(self, work: int) -> float:
        """Return how long a call may take before another replica is asked, too."""
        expected = self.seconds * work
        return max(_LEAST_HEDGE_S, min(_HEDGE_FACTOR * expected, expected + _MOST_HEDGE_S))


@dataclass(frozen=True, kw_only=True)
class SharedReplicas:
    """Replicas of one process as others of the cluster get them; they end with that process."""

    name: str
    handles: tuple[Any, ...]
    nodes: tuple[ClusterNode, ...]

    @classmethod
    def of(cls, replicas: Replicas) -> SharedReplicas:
        """Take replicas apart."""
        members = replicas.members
        return cls(
            name=replicas.name,
            handles=tuple(member.handle for member in members),
            nodes=tuple(member.node for member in members),
        )

    def opened(self) -> Replicas:
        """Return them for calls of this process."""
        members = [Replica(handle, node) for handle, node in zip(self.handles, self.nodes, strict=True)]
        return Replicas(name=self.name, members=members)


@dataclass(frozen=True, kw_only=True)
class ActorCall:
    """A call of one of several objects: which, the method, and its arguments, values or references of Ray."""

    replicas: Replicas
    method: str
    arguments: tuple[Any, ...]
    work: int = 1  # how many units of work it is, by which its time is expected


class NoReplica(Unavailable):
    """No replica of an object answers now."""


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
        self._is_over = threading.Event()
        self._thread: threading.Thread | None = None
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

        members = []
        for node in nodes:
            host = self._host.options(
                num_cpus=0,
                memory=_BYTES,
                max_restarts=-1,
                max_task_retries=0,
                max_concurrency=_AT_ONCE,
                scheduling_strategy=NodeAffinitySchedulingStrategy(node.id, soft=True),
            )
            handle = host.remote(name_of(factory), dict(arguments), *(() if shared is None else (shared,)))
            members.append(Replica(handle, node))
        replicas = Replicas(name=name, members=members)
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
        if self._thread is None:
            self._thread = threading.Thread(target=self._probe_all, name="replicas", daemon=True)
            self._thread.start()

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
        if self._thread is not None:
            self._thread.join()

    # Calls

    def call_each(self, replicas: Replicas, method: str, *arguments: Any) -> list[Any]:
        """Call a method of every replica and wait, however long that takes; raise the first error."""
        references = [member.handle.call.remote(method, *arguments) for member in replicas.members]
        return [self._get(replicas, reference) for reference in references]

    def call(self, calls: Sequence[ActorCall]) -> list[Any]:
        """Return the answers of several objects, asked at once; NoReplica in the place of an object without a replica.

        Errors of refaug's own are raised.
        """
        begun = time.monotonic()
        running = [_RunningCall(call, self._submit) for call in calls]
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

    def _call_patiently(self, running: Sequence[_RunningCall], begun: float) -> list[Any]:
        """Wait for each call, and send those that fail or take long to further replicas."""
        while True:
            waiting = {reference: call for call in running if not call.is_over for reference in call.references}
            if not waiting:
                return [_answer_of(call) for call in running]
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

    def _take(self, call: _RunningCall, reference: Any, begun: float) -> None:
        if call.is_over:
            return
        try:
            answer = self._ray.get(reference)
        except self._ray.exceptions.RayTaskError as error:
            call.is_over = True
            call.answer = RefaugError(
                f"{call.call.replicas.name} failed on the cluster: {error.cause!r}",
                remedy="the logs of Ray on that machine have more; please report it",
            )
        except self._ray.exceptions.RayError as error:
            call.refuse(reference, f"its process has ended ({_why(error)})")
        else:
            call.accept(reference, answer, time.monotonic() - begun)

    def _get(self, replicas: Replicas, reference: Any) -> Any:
        try:
            answer = self._ray.get(reference)
        except self._ray.exceptions.RayTaskError as error:
            raise RefaugError(f"{replicas.name} failed on the cluster: {error.cause!r}") from error
        except self._ray.exceptions.RayError as error:
            raise NoReplica(
                f"{replicas.name} has no process on the cluster: {type(error).__name__}",
                remedy="ray status on the head says which machines there are; ray start --address adds one",
            ) from error
        if isinstance(answer, Failure):
            answer.raise_again()
        return answer

    # Watching

    def _probe_all(self) -> None:
        while not self._is_over.wait(_PROBE_S):
            self._touch_all()
            with self._lock:
                members = [(replicas.name, member) for replicas in self._watched for member in replicas.members]
            for name, member in members:
                try:
                    self._probe(name, member)
                except Exception as error:  # noqa: BLE001  also those of a cluster whose head is gone
                    if self._is_over.is_set():
                        return
                    member.probe = None
                    member.note(name, _why(error))

    def _touch_all(self) -> None:
        """Tell all actors that they are wanted, also those that still open what they hold."""
        if time.monotonic() - self._touched_at < _TOUCH_S:
            return
        self._touched_at = time.monotonic()
        with self._lock:
            members = [member for replicas in self._started for member in replicas.members]
        for member in members:
            try:
                member.handle.touch.remote()
            except Exception:  # noqa: BLE001  of a cluster whose head is gone: the probe says so
                return

    def _probe(self, name: str, member: Replica) -> None:
        """Take the answer to the last question, if there is one, and ask again."""
        if member.probe is not None:
            ready, _ = self._ray.wait([member.probe], timeout=0)
            if not ready:
                silent_s = time.monotonic() - member.answered_at
                if silent_s > self._timeout_s:
                    member.note(name, f"it has been silent for {self._timeout_s:g} s")
                if time.monotonic() - member.probed_at < _NEXT_PROBE_S:
                    return
                # a question that was on its way when a machine went may stay so for ever
            else:
                answer = self._ray.get(member.probe)
                member.answered_at = time.monotonic()
                if member.late_at is not None and member.probed_at > member.late_at:
                    member.late_at = None
                member.note(name, answer.message if isinstance(answer, Failure) else "")
        member.probe, member.probed_at = member.handle.call.remote("probe"), time.monotonic()


class _RunningCall:
    """A call on its way, at one replica or several."""

    def __init__(self, call: ActorCall, submit: Callable[[ActorCall, Replica], Any]) -> None:
        self.call, self._submit = call, submit
        self.references_of = dict[Any, Replica]()
        self._waited_s = dict[Any, float]()  # before the call was sent to a replica
        self._tried, self._why = list[Replica](), ""
        self.is_over, self.begun = False, time.monotonic()
        self.sent_at = self.begun
        self.outcome, self.seconds = "failed", 0.0
        self.answer: Any = None
        self.send()

    @property
    def references(self) -> list[Any]:
        return list(self.references_of)

    @property
    def patience_s(self) -> float:
        """How long from now it may take before another replica is asked, too."""
        return max(0.0, self.sent_at + self.call.replicas.hedge_s(self.call.work) - time.monotonic())

    def send(self) -> None:
        """Send the call to a replica that was not tried; without any it fails, unless one still works on it."""
        self.sent_at = time.monotonic()
        member = self.call.replicas.choose(self._tried)
        if member is not None:
            for waiting in self.references_of.values():
                waiting.late_at = self.sent_at
            self._tried.append(member)
            reference = self._submit(self.call, member)
            self.references_of[reference], self._waited_s[reference] = member, self.sent_at - self.begun
        elif not self.references_of:
            self.fail(f"{self.call.replicas.name} has no process that answers")

    def accept(self, reference: Any, answer: Any, seconds: float) -> None:
        """Take an answer; a replica that cannot open what it holds is as good as none."""
        if isinstance(answer, Failure) and answer.kind != Usage.__name__:
            self.refuse(reference, answer.message)
            return
        self.references_of[reference].late_at = None
        self.is_over, self.answer, self.seconds = True, answer, seconds
        self.outcome = "answered" if len(self._tried) == 1 else "hedged"
        _note_time(self.call, max(0.0, seconds - self._waited_s[reference]))

    def refuse(self, reference: Any, why: str) -> None:
        """Leave a replica that did not answer out, and send the call to another one."""
        self.references_of.pop(reference).note(self.call.replicas.name, why)
        self._why = why
        if not self.references_of:
            self.send()

    def fail(self, why: str) -> None:
        """End the call without an answer."""
        why = f"{why}: {self._why}" if self._why else why
        self.is_over, self.answer = True, NoReplica(why, remedy="Ray starts it again: ask again in some seconds")


def _answer_of(call: _RunningCall) -> Any:
    if isinstance(call.answer, Failure):
        call.answer.raise_again()
    if isinstance(call.answer, RefaugError) and not isinstance(call.answer, NoReplica):
        raise call.answer
    return call.answer


def _why(error: Exception) -> str:
    return f"{type(error).__name__}: {str(error).splitlines()[0] if str(error) else ''}"


def _note_time(call: ActorCall, seconds: float) -> None:
    of_unit, replicas = seconds / max(1, call.work), call.replicas
    share = _SHARES[of_unit > replicas.seconds] if replicas.seconds else 1.0
    replicas.seconds += share * (of_unit - replicas.seconds)
