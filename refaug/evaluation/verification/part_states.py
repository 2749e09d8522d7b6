"""The result of a verification: parts of a score file, each with what became of it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Final, Self

from refaug.core.errors import CheckFailed, NotFound


class PartState(StrEnum):
    """What became of one part; later states outweigh earlier ones in a verdict, but for `unchecked`."""

    HOLDS = "holds"
    UNCHECKED = "unchecked"  # nothing to compare it with, or nothing that scores depend on
    MISSING = "missing"  # it cannot be reproduced with what is at hand
    DIFFERS = "differs"


EXIT_CODES: Final[Mapping[PartState, int]] = {
    PartState.HOLDS: 0,
    PartState.MISSING: NotFound.exit_code,
    PartState.DIFFERS: CheckFailed.exit_code,
}


@dataclass(frozen=True, kw_only=True)
class VerifiedPart:
    """One part of a score file."""

    part: str  # file, software, index, rater, …, scores
    state: PartState
    message: str
    metric: str | None = None  # None: the part is the same for all metrics of the file

    @classmethod
    def holds(cls, part: str, message: str, metric: str | None = None) -> Self:
        """Return a part that is as it was."""
        return cls(part=part, state=PartState.HOLDS, message=message, metric=metric)

    @classmethod
    def differs(cls, part: str, message: str, metric: str | None = None) -> Self:
        """Return a part that is not as it was."""
        return cls(part=part, state=PartState.DIFFERS, message=message, metric=metric)

    @classmethod
    def missing(cls, part: str, message: str, metric: str | None = None) -> Self:
        """Return a part that is not at hand."""
        return cls(part=part, state=PartState.MISSING, message=message, metric=metric)

    @classmethod
    def unchecked(cls, part: str, message: str, metric: str | None = None) -> Self:
        """Return a part that nothing was compared with."""
        return cls(part=part, state=PartState.UNCHECKED, message=message, metric=metric)

    def as_json(self) -> dict[str, object]:
        """Return the fields that are set."""
        metric = {"metric": self.metric} if self.metric is not None else {}
        return {"part": self.part, **metric, "state": self.state.value, "message": self.message}


@dataclass(frozen=True, kw_only=True)
class Verification:
    """All parts of a score file."""

    parts: tuple[VerifiedPart, ...]

    @property
    def verdict(self) -> PartState:
        """The state of the whole: `differs` if any part differs, else `missing` if any is missing, else `holds`."""
        states = {part.state for part in self.parts}
        return next((state for state in (PartState.DIFFERS, PartState.MISSING) if state in states), PartState.HOLDS)

    @property
    def exit_code(self) -> int:
        """The exit code of the command: 0, 6 where something differs, 3 where something is missing."""
        return EXIT_CODES[self.verdict]

    def in_words(self) -> str:
        """Return the verdict as a sentence."""
        counts = {state: sum(part.state is state for part in self.parts) for state in PartState}
        unchecked = (
            f"; {counts[PartState.UNCHECKED]} without anything to compare" if counts[PartState.UNCHECKED] else ""
        )
        match self.verdict:
            case PartState.DIFFERS:
                return f"not reproduced: {_count(counts[PartState.DIFFERS])} differ{_s(counts[PartState.DIFFERS])}"
            case PartState.MISSING:
                return f"cannot be verified: {_count(counts[PartState.MISSING])} missing"
        return f"reproduced: {_count(counts[PartState.HOLDS])} hold{_s(counts[PartState.HOLDS])}{unchecked}"

    def as_json(self) -> dict[str, object]:
        """Return the verdict and the parts."""
        return {"verdict": self.verdict.value, "parts": [part.as_json() for part in self.parts]}

    def with_messages(self, change: Callable[[str], str]) -> Verification:
        """Return the verification with every message changed, such as to hide paths."""
        return Verification(parts=tuple(replace(part, message=change(part.message)) for part in self.parts))


def _count(parts: int) -> str:
    return "1 part" if parts == 1 else f"{parts:,} parts"


def _s(parts: int) -> str:
    return "s" if parts == 1 else ""
