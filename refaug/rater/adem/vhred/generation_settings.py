"""How a VHRED writes replies: the settings, without the network."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, Literal, get_args

from refaug.core.errors import Usage

Method = Literal["greedy", "beam", "sample"]
Choice = Literal["best", "priority", "length"]
CHOICES: Final[tuple[str, ...]] = get_args(Choice)
METHODS: Final[tuple[str, ...]] = get_args(Method)
MOST_BEAMS: Final = 50
MOST_PIECES: Final = 200
MOST_CANDIDATES: Final = 1 << 16


@dataclass(frozen=True, kw_only=True)
class GenerationSettings:
    """The way in which the pieces of a reply are chosen."""

    method: Method = "greedy"
    beams: int = 5  # of beam search
    choice: Choice = "best"  # among the replies of beam search: the likeliest, or drawn by rank or by length
    temperature: float = 1.0  # of sampling
    top_k: int = 0  # the likeliest pieces that are sampled from; 0: all
    max_tokens: int = 40  # pieces of a reply

    @property
    def is_random(self) -> bool:
        """Whether a seed can change a reply."""
        return self.method == "sample" or (self.method == "beam" and self.choice != "best")

    def __post_init__(self) -> None:
        if self.method not in METHODS:
            raise Usage(f"method={self.method} is not known", remedy=f"one of: {', '.join(METHODS)}")
        if self.choice not in CHOICES:
            raise Usage(f"choice={self.choice} is not known", remedy=f"one of: {', '.join(CHOICES)}")
        limits = (("beams", 1, MOST_BEAMS), ("top_k", 0, MOST_CANDIDATES), ("max_tokens", 1, MOST_PIECES))
        for name, least, most in limits:
            if not least <= getattr(self, name) <= most:
                raise Usage(f"{name}={getattr(self, name)}", remedy=f"a whole number from {least} to {most:,}")
        if not 0 < self.temperature <= 10:
            raise Usage(f"temperature={self.temperature:g}", remedy="above 0, and at most 10")
