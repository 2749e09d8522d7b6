"""What the networks share: padding, reading a text to its last states, and checked sizes."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

import torch
from torch import Tensor, nn

from refaug.core.errors import Usage

PAD: Final = 0  # of the tokenizers trained here
_SIZES: Final = {  # a manifest's network is built before it is compared with the weights
    "vocabulary": (3, 1 << 20),
    "embedding": (1, 1 << 16),
    "hidden": (1, 1 << 16),
    "width": (1, 1 << 16),
    "layers": (1, 64),
    "heads": (1, 256),
    "max_tokens": (1, 1 << 20),
}


def require_sizes(kind: str, sizes: Mapping[str, object]) -> None:
    """Raise Usage for sizes that no network can have."""
    for name, (least, most) in _SIZES.items():
        size = sizes.get(name, least)  # a size that this kind of network does not have
        if not isinstance(size, int) or not least <= size <= most:
            raise Usage(f"a {kind}'s {name} is {size}", remedy=f"a whole number, at least {least}, at most {most:,}")


def last_states(reader: nn.GRU, embedded: Tensor, lengths: Tensor) -> Tensor:
    """Return the last state of both directions, (texts, 2 * hidden), of (texts, time, embedding), longest first."""
    packed = nn.utils.rnn.pack_padded_sequence(embedded, lengths, batch_first=True)
    _, last = reader(packed)  # (2, texts, hidden)
    return torch.cat([last[0], last[1]], dim=1)
