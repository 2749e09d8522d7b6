"""The first answers of actors that were just started: each opens what it holds, which takes long and can fail.

An object is there as soon as one of its replicas has answered. Others that fail are left out and named, and join as
soon as they answer.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final

from refaug.core.errors import RefaugError
from refaug.extras.cluster.calls import Failure, ProcessLost, answer_or_failure
from refaug.extras.cluster.connection import Cluster
from refaug.extras.cluster.replicas import NoReplica, Replica, Replicas

_PLACE_S: Final = 120.0  # until every process has begun somewhere, since a machine may be on its way
_OTHERS_S: Final = 60.0  # for further replicas, when each object has one that has answered
_LOOK_S: Final = 1.0


def first_answers(cluster: Cluster, started: Sequence[Replicas], method: str) -> list[Any]:
    """Call a method of every replica; return an answer of each object, and note why its other replicas have none.

    Raise the first error of an object none of whose replicas has answered.
    """
    return _FirstAnswers(cluster, started, method).wait()


@dataclass(eq=False)
class _Opening:
    """An object whose replicas are opening it."""

    replicas: Replicas
    waiting: dict[Any, Replica] = field(default_factory=dict)
    answers: list[Any] = field(default_factory=list)
    first_error: RefaugError | None = None

    def fail(self, reference: Any, error: RefaugError) -> None:
        """Leave a replica out; raise its error, or that of the first one, where it was the last."""
        self.waiting.pop(reference).note(self.replicas.name, error.message)
        self.first_error = self.first_error or error
        if not self.waiting and not self.answers:
            raise self.first_error


class _FirstAnswers:
    def __init__(self, cluster: Cluster, started: Sequence[Replicas], method: str) -> None:
        self._ray = cluster.ray
        self._openings = [_Opening(replicas) for replicas in started]
        self._unplaced = dict[Any, Replica]()  # by a question that is answered before anything is opened
        for opening in self._openings:
            for member in opening.replicas.members:
                member.is_placed = False
                self._unplaced[member.handle.touch.remote()] = member
                opening.waiting[member.handle.call.remote(method)] = member

    def wait(self) -> list[Any]:
        begun, open_since = time.monotonic(), None
        while any(opening.waiting for opening in self._openings):
            references = [reference for opening in self._openings for reference in opening.waiting]
            self._ray.wait([*references, *self._unplaced], timeout=_LOOK_S)
            self._take_placed()
            for opening in self._openings:
                self._take_answers(opening)
            now = time.monotonic()
            if now - begun > _PLACE_S:
                self._leave_unplaced()
            if open_since is None and all(opening.answers for opening in self._openings):
                open_since = now
            if open_since is not None and now - open_since > _OTHERS_S:
                self._leave_slow()
        return [opening.answers[0] for opening in self._openings]

    def _ready(self, references: Sequence[Any]) -> list[Any]:
        if not references:
            return []
        ready, _ = self._ray.wait(list(references), num_returns=len(references), timeout=0)
        return list(ready)

    def _take_placed(self) -> None:
        for reference in self._ready(list(self._unplaced)):
            self._unplaced.pop(reference).is_placed = True

    def _take_answers(self, opening: _Opening) -> None:
        name = opening.replicas.name
        for reference in self._ready(list(opening.waiting)):
            try:
                answer = answer_or_failure(self._ray, reference, name)
            except RefaugError as error:
                opening.fail(reference, error)
            except ProcessLost as lost:
                opening.fail(reference, _no_process(f"{name} has no process on the cluster: {lost}"))
            else:
                if isinstance(answer, Failure):
                    opening.fail(reference, replace(answer, message=f"{name}: {answer.message}").error())
                else:
                    opening.waiting.pop(reference)
                    opening.answers.append(answer)

    def _leave_unplaced(self) -> None:
        """Wait no longer for processes that no machine takes."""
        unplaced = list(self._unplaced.values())
        for opening in self._openings:
            for reference, member in tuple(opening.waiting.items()):
                if member in unplaced:
                    why = f"{opening.replicas.name} has had no process on the cluster for {_PLACE_S:g} s"
                    opening.fail(
                        reference, _no_process(f"{why}: the machine {member.node.address} has no room for one")
                    )
        self._unplaced.clear()

    def _leave_slow(self) -> None:
        """Go on without replicas that still open what they hold."""
        for opening in self._openings:
            for member in opening.waiting.values():
                member.note(opening.replicas.name, "it still opens what it holds")
            opening.waiting.clear()


def _no_process(message: str) -> NoReplica:
    return NoReplica(
        message,
        remedy="ray status on the head says which machines there are, and what is free; ray start --address adds one",
    )
