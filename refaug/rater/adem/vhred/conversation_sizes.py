"""Sizes of what a VHCR (Park et al. 2018) and heads of emotion and meaning add to a VHRED, and what goes with them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields
from typing import Any, Final, Literal, NamedTuple, get_args

from refaug.core.errors import Usage

Network = Literal["hred", "vhred", "vhcr"]
NETWORKS: Final[tuple[str, ...]] = get_args(Network)
CONVERSATION_SIZES: Final[Mapping[str, int]] = {"small": 16, "base": 32, "paper": 100}  # by preset
CONVERSATION_TURNS: Final = 9  # of a context of a VHCR: with the reply ten, as in the released code
LEAST_TURNS: Final = 3  # of a dialogue that says something of a conversation: one exchange does not
SENTENCE_DROP: Final = 0.25  # of a VHCR, by table A.5 of Ghandeharioun et al. (2019)


@dataclass(frozen=True, kw_only=True)
class ConversationSizes:
    """Sizes of a conversation's variable and of the heads; 0 is none."""

    conversation: int = 0  # size of each conversation's Gaussian, which makes a VHRED a VHCR
    emotion: int = 0  # classes that a head on the context predicts of the last turn
    emotion_hidden: int = 0  # units between
    is_emotion_positive: bool = True  # whether logits of emotion pass a ReLU, as in the released code
    meaning: int = 0  # numbers of the last turn's meaning that another head predicts
    meaning_hidden: int = 0
    are_heads_input: bool = False  # whether the context is told what heads predict from each turn's vector alone

    def __post_init__(self) -> None:
        for name in ("conversation", "emotion", "emotion_hidden", "meaning", "meaning_hidden"):
            size = getattr(self, name)
            if not isinstance(size, int) or not 0 <= size <= 1 << 14:
                raise Usage(f"a vhred's {name} is {size}", remedy=f"a whole number from 0 to {1 << 14:,}")
        for name in ("is_emotion_positive", "are_heads_input"):
            if not isinstance(getattr(self, name), bool):
                raise Usage(f"a vhred's {name} is {getattr(self, name)!r}", remedy="true or false")
        for head in ("emotion", "meaning"):
            if bool(getattr(self, head)) != bool(getattr(self, f"{head}_hidden")):
                raise Usage(f"a vhred's {head} head has one size", remedy=f"give {head} and {head}_hidden, or neither")

    @property
    def predicted(self) -> int:
        """The numbers that heads add to each turn's vector before the context hears it."""
        return (self.emotion + self.meaning) * self.are_heads_input

    @property
    def has_heads(self) -> bool:
        """Whether a head predicts something of the last turn."""
        return bool(self.emotion or self.meaning)


def stored_config(config: Any) -> dict[str, object]:
    """Return a network's sizes for its manifest; those of parts that it does not have are left out.

    So the id of a network does not depend on what others can have.
    """
    absent = {each.name for each in fields(ConversationSizes) if getattr(config, each.name) == each.default}
    return {name: size for name, size in asdict(config).items() if name not in absent}


class HeadDefaults(NamedTuple):
    """The weight of the meaning head in the loss, and the units between, by table A.5 (Cornell)."""

    meaning_weight: float
    meaning_hidden: int


EMOTION_WEIGHT: Final = 25.0  # of the mean cross-entropy, beside the sum of −log p of pieces
EMOTION_HIDDEN: Final = 128
HEAD_DEFAULTS: Final[Mapping[str, HeadDefaults]] = {
    "hred": HeadDefaults(100_000.0, 4_000),
    "vhred": HeadDefaults(30_000.0, 128),
    "vhcr": HeadDefaults(25_000.0, 4_000),
}
