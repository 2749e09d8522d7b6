"""The sizes of the NN-rater's network, and what it judges."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Final, Literal, get_args

from refaug.core.errors import Usage
from refaug.rater.text_encoding import require_sizes

NEGATIVE, POSITIVE = 0, 1
TEXTS: Final = 3  # in a triplet
PAIRS: Final = ((0, 1), (0, 2), (1, 2))  # of texts in a triplet
JUDGED_AT_ONCE: Final = 4_096  # triplets
Features = Literal["texts", "products"]


@dataclass(frozen=True, kw_only=True)
class RaterConfig:
    """The sizes of the network; the defaults are those of Tsuta et al. (2020)."""

    vocabulary: int = 16_002  # pieces, pad and unk
    embedding: int = 512
    hidden: int = 512  # in each direction
    width: int = 1024  # of the feed-forward layers
    layers: int = 5  # number of these, each with ReLU
    max_tokens: int = 128  # the rest of a longer text is not read
    features: Features = "texts"  # the inputs that are judged: the three vectors, or also their pairwise products

    def __post_init__(self) -> None:
        require_sizes("rater", asdict(self))
        if self.features not in get_args(Features):
            raise Usage(f"a rater's features are {self.features!r}", remedy=f"one of: {', '.join(get_args(Features))}")

    @property
    def judged_size(self) -> int:
        """The number of inputs of the first feed-forward layer."""
        return (TEXTS + (len(PAIRS) if self.features == "products" else 0)) * 2 * self.hidden
