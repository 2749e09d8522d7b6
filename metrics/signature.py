"""The one line beside a score that says how it was made, and reads back as the same settings.

    bleu|n:2|smooth:add-k[1]|bp:closest|eff:auto|case:lc|tok:word|full:5be01c77aa09|refaug:0.1.0

The short form ends in a hash of the full one, which also holds versions of libraries, tokenizers and models. What
retrieval and rating add comes in as an ordered mapping, which is not interpreted here.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property, lru_cache
from urllib.parse import unquote

from core.errors import BadInput
from core.version import VERSION
from metrics.base import Metric
from metrics.catalogue import METRICS
from metrics.specification import Specification

_KEY = re.compile(r"[a-z0-9+-]{1,40}")


@dataclass(frozen=True, kw_only=True)
class Signature:
    """What made a score: `settings` are in both forms, `details` in the full one only."""

    metric: str
    settings: Mapping[str, str]
    details: Mapping[str, str] = field(default_factory=dict)
    refaug: str = VERSION

    @classmethod
    def of(
        cls, metric: Metric, more: Mapping[str, str] | None = None, details: Mapping[str, str] | None = None
    ) -> Signature:
        """The signature of a metric; `more` and `details` are what retrieval and rating have to say."""
        return cls(
            metric=metric.name,
            settings={**metric.settings, **(more or {})},
            details={**metric.versions(), **(details or {})},
        )

    @cached_property
    def full(self) -> str:
        """Everything, in one line; it parses back."""
        pairs = [f"{key}:{_escaped(value)}" for key, value in self.settings.items()]
        pairs += [f"{key}.:{_escaped(value)}" for key, value in self.details.items()]
        return "|".join([_escaped(self.metric), *pairs, f"refaug:{_escaped(self.refaug)}"])

    @cached_property
    def short(self) -> str:
        """What is printed beside a score."""
        pairs = [f"{key}:{_escaped(value)}" for key, value in self.settings.items()]
        digest = hashlib.sha256(self.full.encode("ascii")).hexdigest()[:12]
        return "|".join([_escaped(self.metric), *pairs, f"full:{digest}", f"refaug:{_escaped(self.refaug)}"])

    @classmethod
    def parse(cls, text: str) -> Signature:
        """Read a signature back; of a short one, the details are not there."""
        name, *pairs = text.strip().split("|")
        settings, details = dict[str, str](), dict[str, str]()
        for pair in pairs:
            key, colon, value = pair.partition(":")
            kept, plain = (details, key.removesuffix(".")) if key.endswith(".") else (settings, key)
            if not colon or not _KEY.fullmatch(plain) or plain in kept:
                raise BadInput(f"{pair!r} is no part of a signature: {text!r}", remedy="copy the whole line")
            kept[plain] = unquote(value, errors="surrogatepass")
        if not settings or "refaug" not in settings:
            raise BadInput(f"{text!r} is not a signature", remedy="copy the whole line, from the metric to refaug:…")
        version = settings.pop("refaug")
        settings.pop("full", None)
        return cls(metric=unquote(name, errors="surrogatepass"), settings=settings, details=details, refaug=version)

    def specification(self) -> Specification:
        """The metric's own part of the settings, as one would ask for it."""
        info = METRICS.get(self.metric)
        own = {parameter.name for parameter in info.parameters} if info else set(self.settings)
        return Specification(
            self.metric, tuple((key, value) for key, value in self.settings.items() if key in own and value)
        )


@lru_cache(maxsize=4_096)  # the same words stand in signature after signature
def _escaped(value: str) -> str:
    """ASCII without the signs that part a signature; what must not stand as itself is written as %XX."""
    return "".join(
        one
        if one.isascii() and one.isprintable() and one not in "|%"
        else "".join(f"%{b:02X}" for b in one.encode("utf-8", "surrogatepass"))
        for one in value
    )
