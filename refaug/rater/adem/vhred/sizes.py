"""Sizes of a VHRED: what its manifest holds, and the presets; and how it writes replies."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, Literal, get_args

from refaug.core.errors import Usage
from refaug.rater.adem.vhred.conversation_sizes import ConversationSizes

# gru: the same equations without layer normalisation; random: ln-gru with weights as they were drawn, never trained
Cell = Literal["ln-gru", "gru", "random"]
CELLS: Final[tuple[str, ...]] = get_args(Cell)
_LIMITS: Final = {
    "vocabulary": (4, 1 << 16),  # pieces are stored as 16-bit numbers
    "embedding": (1, 1 << 14),
    "utterance": (1, 1 << 14),
    "context": (1, 1 << 14),
    "latent": (0, 1 << 12),
    "decoder": (1, 1 << 14),
    "max_tokens": (1, 1 << 12),
    "turns": (1, 64),
}


@dataclass(frozen=True, kw_only=True)
class VhredConfig(ConversationSizes):
    """The sizes of the network; the defaults are those of the preset base."""

    vocabulary: int = 5_003  # pieces, pad and unk, and the end of a turn, which is the last
    embedding: int = 128  # of the encoder and of the decoder's inputs
    utterance: int = 128  # units that read the pieces, in each direction
    context: int = 256  # units that read the turns
    latent: int = 32  # size of each turn's Gaussian; 0: none, which makes it a HRED
    decoder: int = 256
    max_tokens: int = 64  # pieces of a turn; the rest of a longer turn is not read
    turns: int = 3  # the last turns of a context that are read
    cell: Cell = "ln-gru"

    def __post_init__(self) -> None:
        super().__post_init__()
        for name, (least, most) in _LIMITS.items():
            size = getattr(self, name)
            if not isinstance(size, int) or not least <= size <= most:
                raise Usage(f"a vhred's {name} is {size}", remedy=f"a whole number from {least} to {most:,}")
        if self.cell not in CELLS:
            raise Usage(f"a vhred's cell is {self.cell!r}", remedy=f"one of: {', '.join(CELLS)}")

    @property
    def end(self) -> int:
        """The number of the piece that ends a turn."""
        return self.vocabulary - 1

    @property
    def is_normalised(self) -> bool:
        """Whether the encoder normalises its layers."""
        return self.cell != "gru"

    @property
    def is_trained(self) -> bool:
        """Whether the weights are more than drawn numbers."""
        return self.cell != "random"

    @property
    def condition(self) -> int:
        """The size of what a turn is decoded from: the context, the last turn, and the latent variables."""
        return self.context + self.conversation + 2 * self.utterance + self.latent

    def state_size(self, state: State) -> int:
        """Return the size of a dialogue's vector."""
        return self.context if state == "context" else 2 * self.utterance


State = Literal["context", "utterance"]
STATES: Final[tuple[str, ...]] = get_args(State)


@dataclass(frozen=True, kw_only=True)
class VhredPreset:
    """Sizes and settings of training that go together."""

    embedding: int
    utterance: int
    context: int
    latent: int
    decoder: int
    pieces: int
    max_tokens: int = 64
    batch: int = 64  # dialogues
    learning_rate: float = 1e-3
    clip_norm: float = 1.0  # of the gradient
    steps: int = 20_000
    kl_steps: int = 8_000  # until the KL divergence counts in full
    weight_scale: float | None = None  # of the normal initial weights; None: one over the root of a matrix's inputs


PRESETS: Final[Mapping[str, VhredPreset]] = {
    "small": VhredPreset(embedding=64, utterance=64, context=128, latent=16, decoder=128, pieces=2_000, steps=10_000),
    "base": VhredPreset(embedding=128, utterance=128, context=256, latent=32, decoder=256, pieces=5_000),
    # the published sizes; batches, rate and clipping are those of the released code
    "paper": VhredPreset(
        embedding=400,
        utterance=1_000,
        context=1_000,
        latent=100,
        decoder=2_000,
        pieces=5_000,
        max_tokens=250,
        batch=80,
        learning_rate=2e-4,
        clip_norm=0.01,
        steps=400_000,
        kl_steps=60_000,
        weight_scale=0.01,
    ),
}


# ── How a VHRED writes replies: the settings, without the network ─────────────────────────────────────────────────────


Method = Literal["greedy", "beam", "sample"]
Choice = Literal["best", "priority", "length"]
CHOICES: Final[tuple[str, ...]] = get_args(Choice)
METHODS: Final[tuple[str, ...]] = get_args(Method)
Held = Literal["held", "each-reply"]
HELD: Final[tuple[str, ...]] = get_args(Held)
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
    conversation: Held = "held"  # the variable of a VHCR: for the conversation, or inferred for each reply

    @property
    def is_random(self) -> bool:
        """Whether a seed can change a reply."""
        return self.method == "sample" or (self.method == "beam" and self.choice != "best")

    def __post_init__(self) -> None:
        if self.method not in METHODS:
            raise Usage(f"method={self.method} is not known", remedy=f"one of: {', '.join(METHODS)}")
        for name, known in (("choice", CHOICES), ("conversation", HELD)):
            if getattr(self, name) not in known:
                raise Usage(f"{name}={getattr(self, name)} is not known", remedy=f"one of: {', '.join(known)}")
        limits = (("beams", 1, MOST_BEAMS), ("top_k", 0, MOST_CANDIDATES), ("max_tokens", 1, MOST_PIECES))
        for name, least, most in limits:
            if not least <= getattr(self, name) <= most:
                raise Usage(f"{name}={getattr(self, name)}", remedy=f"a whole number from {least} to {most:,}")
        if not 0 < self.temperature <= 10:
            raise Usage(f"temperature={self.temperature:g}", remedy="above 0, and at most 10")
