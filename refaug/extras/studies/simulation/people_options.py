"""What the people of a rehearsal are like, with limits and texts."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

from refaug.core.options.declaring import Doc, Ge, Gt, Le
from refaug.core.options.decoding import Options


@dataclass(frozen=True, kw_only=True)
class PeopleOptions(Options):
    """How many people come, and how they rate; noise is in points of the scale."""

    participants: Annotated[int, Ge(2), Le(100_000), Doc("Participants of a study.")] = 60
    careless: Annotated[float, Ge(0), Le(1), Doc("Share of careless participants, of four kinds.")] = 0.2
    sd: Annotated[float, Gt(0), Doc("Standard deviation of a rating.")] = 1.3
    rho: Annotated[float, Ge(0), Le(1), Doc("Share of its variance that is the participant's level.")] = 0.3
