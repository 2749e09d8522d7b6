"""The parts of the proof by name: what `refaug reproduce NAME` runs."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from importlib import import_module
from typing import TYPE_CHECKING, Final, NamedTuple

from core.errors import Usage

if TYPE_CHECKING:
    from service.proof.chain import Chain
    from service.proof.report import Report
    from service.proof.sets import ProofSet

    Run = Callable[[Chain, Sequence[ProofSet]], Report]

ALL: Final = "all"


class Part(NamedTuple):
    """Where a part's function is: its module is imported when it is run, for it needs torch, FAISS and matplotlib."""

    module: str
    function: str

    def load(self) -> Run:
        """The function."""
        run: Run = getattr(import_module(self.module), self.function)
        return run


PARTS: Final[Mapping[str, Part]] = {
    "metrics": Part("service.proof.agreement", "metrics"),
    "retrieval-modes": Part("service.proof.modes", "retrieval_modes"),
    "multi-reference": Part("service.proof.multi", "multi_reference"),
    "weights": Part("service.proof.weights", "weights"),
    "growth": Part("service.proof.growth", "growth"),
    "stress": Part("service.proof.stress", "stress"),
}


def named(name: str) -> tuple[str, ...]:
    """The parts that a name stands for."""
    if name == ALL:
        return tuple(PARTS)
    if name not in PARTS:
        raise Usage(f"there is no {name!r} to be reproduced", remedy=f"one of: {', '.join((*PARTS, ALL))}")
    return (name,)
