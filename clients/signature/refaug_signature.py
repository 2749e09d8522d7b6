"""Read signatures of refaug, with nothing but Python: copy this file. docs/internals/signature.md has the grammar."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping
from dataclasses import dataclass, field

_KEY = re.compile(r"[a-z0-9+-]{1,40}")
_VALUE = re.compile(r"(?:[ -$&-{}~]|%[0-9A-Fa-f]{2})*")


@dataclass(frozen=True)
class Signature:
    """How a score was computed; `full_hash` is the hash in a short signature, which has no details."""

    metric: str
    settings: Mapping[str, str]
    details: Mapping[str, str] = field(default_factory=dict)
    refaug: str = ""
    full_hash: str | None = None


def parse(line: str) -> Signature:
    """Read a short or a full signature; ValueError says which part is wrong."""
    metric, *parts = line.strip().split("|")
    if not metric:
        raise ValueError(f"{line!r} has no metric")
    settings: dict[str, str] = {}
    details: dict[str, str] = {}
    for part in parts:
        key, colon, value = part.partition(":")
        fields, key = (details, key[:-1]) if key.endswith(".") else (settings, key)
        if not colon or not _KEY.fullmatch(key) or key in fields:
            raise ValueError(f"{part!r} is not part of a signature: {line!r}")
        fields[key] = _decode(value)
    version, full_hash = settings.pop("refaug", None), settings.pop("full", None)
    if version is None:
        raise ValueError(f"{line!r} does not end in refaug:VERSION")
    return Signature(_decode(metric), settings, details, version, full_hash)


def full(signature: Signature) -> str:
    """Write the full form."""
    parts = [f"{key}.:{_encode(value)}" for key, value in signature.details.items()]
    return "|".join([_beginning(signature), *parts, f"refaug:{_encode(signature.refaug)}"])


def short(signature: Signature) -> str:
    """Write the short form of a signature that was read from its full form."""
    digest = hashlib.sha256(full(signature).encode("ascii")).hexdigest()[:12]
    return "|".join([_beginning(signature), f"full:{digest}", f"refaug:{_encode(signature.refaug)}"])


def _beginning(signature: Signature) -> str:
    return "|".join(
        [_encode(signature.metric), *(f"{key}:{_encode(value)}" for key, value in signature.settings.items())]
    )


def _encode(value: str) -> str:
    return "".join(
        one if " " <= one <= "~" and one not in "|%" else "".join(f"%{byte:02X}" for byte in _bytes(one))
        for one in value
    )


def _bytes(character: str) -> bytes:
    return character.encode("utf-8", "surrogatepass")


def _decode(value: str) -> str:
    if not _VALUE.fullmatch(value):
        raise ValueError(f"{value!r} is not a value: other characters than printable ASCII are %XX")
    octets = re.sub(rb"%(..)", lambda found: bytes.fromhex(found[1].decode()), value.encode("ascii"))
    return octets.decode("utf-8", "surrogatepass")  # UnicodeDecodeError is a ValueError
