"""Replicas of an object in processes of a cluster, and calls on their way to them: which one is asked, and when.

A call that takes far longer than those before is sent to another replica as well, and the first answer counts; so a
call must be one that may run twice. `extras.cluster.actors` submits calls to Ray and waits for them.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from refaug.core.errors import RefaugError, Unavailable, Usage
from refaug.extras.cluster.calls import Failure
from refaug.extras.cluster.connection import ClusterNode

_LEAST_HEDGE_S: Final = 0.15
_HEDGE_FACTOR: Final = 4.0  # times what the call was expected to take
_MOST_HEDGE_S: Final = 0.5  # beyond what was expected
_SHARES: Final = (0.5, 0.05)  # of a quicker and a slower call in the moving average of times: the first ones are slow


log = logging.getLogger(__name__)


@dataclass(eq=False)
class Replica:
    """One actor, and whether it answers."""

    handle: Any
    node: ClusterNode
    is_alive: bool = True
    is_placed: bool = True  # on some machine; questions to a process that has not begun are stored until it does
    process: str = ""  # which one it is, as it has said last
    node_id: str = ""  # of the machine that this process runs on
    practice: list[Any] = field(default_factory=list)  # calls that are to make it quick, and are not answered yet
    probe: Any = None  # a question that is not answered yet
    probed_at: float = 0.0
    late_at: float | None = None  # since when a call waits for it that was sent to another replica, too
    answered_at: float = field(default_factory=time.monotonic)

    @property
    def is_ready(self) -> bool:
        """Whether it answers, as quickly as those that have answered before."""
        return self.is_alive and not self.practice

    def note(self, name: str, why: str = "") -> None:
        """Note that it answers, or why it does not; a change is logged."""
        if self.is_alive == (not why):
            return
        self.is_alive = not why
        if why:
            extra = {"actor": name, "machine": self.node.address, "why": why}
            log.warning("%s does not answer on %s: %s", name, self.node.address, why, extra=extra)
        else:
            log.info("%s answers again", name, extra={"actor": name, "machine": self.node.address})


@dataclass(eq=False, kw_only=True)
class Replicas:
    """The actors that hold the same object; any of them answers."""

    name: str
    members: list[Replica]
    seconds: float = 0.0  # moving average of a unit of work
    next_place: int = field(default=0, repr=False)
    samples: dict[str, tuple[str, tuple[Any, ...]]] = field(default_factory=dict, repr=False)  # the last of each kind
    is_shared: bool = False  # with other processes, which hold its members
    settled: tuple[str, ...] = ()  # the processes that were found to be where they should
    start_on: Callable[[ClusterNode], Replica] | None = field(default=None, repr=False)  # for those of this process

    def choose(self, tried: Sequence[Replica]) -> Replica | None:
        """Return a replica that lives and was not tried, in turn; those that have let a call wait come last.

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
        """The number of replicas that answer, and have practised."""
        return sum(member.is_ready for member in self.members)

    @property
    def machines(self) -> set[str]:
        """The machines on which those run that answer, and have practised."""
        return {member.node_id for member in self.members if member.is_ready and member.node_id}

    def misplaced(self, nodes: Collection[str]) -> Replica | None:
        """Return a replica on a machine that is none of these, or that has another one of them."""
        machines = set[str]()
        for member in self.members:
            if member.node_id in machines or member.node_id not in nodes:
                return member
            machines.add(member.node_id)
        return None

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
        """Take replicas apart; from now on they stay where they are."""
        replicas.is_shared = True
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
    kind: str = ""  # of calls whose first one takes a new process long: it gets the last one of each kind beforehand


class NoReplica(Unavailable):
    """No replica of an object answers now."""


class RunningCall:
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
        """The references to the answers that it waits for."""
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
        if self.call.kind:
            self.call.replicas.samples[self.call.kind] = (self.call.method, self.call.arguments)

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


def answer_of(call: RunningCall) -> Any:
    """Return the answer of a call, or NoReplica; raise an error of refaug's own."""
    if isinstance(call.answer, Failure):
        call.answer.raise_again()
    if isinstance(call.answer, RefaugError) and not isinstance(call.answer, NoReplica):
        raise call.answer
    return call.answer


def reason_of(error: Exception) -> str:
    """Return the first line of an error, for the log and for messages."""
    return f"{type(error).__name__}: {str(error).splitlines()[0] if str(error) else ''}"


def _note_time(call: ActorCall, seconds: float) -> None:
    of_unit, replicas = seconds / max(1, call.work), call.replicas
    share = _SHARES[of_unit > replicas.seconds] if replicas.seconds else 1.0
    replicas.seconds += share * (of_unit - replicas.seconds)
