"""Keys of texts: logs store them beside utterances and responses."""

from __future__ import annotations

from xxhash import xxh3_64_intdigest


def text_key(normalised: str) -> int:
    """Return the key under which a log stores a normalised text."""
    return xxh3_64_intdigest(normalised.encode())
