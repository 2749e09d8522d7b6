"""Signatures: one line beside a score that tells how it was computed, and reads back as the same settings.

    bleu|n:2|smooth:add-k[1]|bp:closest|eff:auto|case:lc|tok:word|full:5be01c77aa09|refaug:0.1.0

The short form ends in a hash of the full form, which also has versions of libraries, tokenizers and models. Retrieval
and rating add their settings as an ordered mapping, which is not interpreted here. docs/internals/signature.md has the
grammar, and clients/signature readers that need no refaug.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from urllib.parse import unquote

from refaug.core.errors import BadInput
from refaug.core.processes.kept import cached_property
from refaug.core.version import VERSION
from refaug.metrics.base import Metric
from refaug.metrics.catalogue import find_info
from refaug.metrics.models.model_kinds import ModelKind
from refaug.metrics.specification import Specification, named_models

_KEY = re.compile(r"[a-z0-9+-]{1,40}")
_VALUE = re.compile(r"(?:[ -$&-{}~]|%[0-9A-Fa-f]{2})*")


@dataclass(frozen=True, kw_only=True)
class Signature:
    """How a score was computed: `settings` are in both forms, `details` only in the full form."""

    metric: str
    settings: Mapping[str, str]
    details: Mapping[str, str] = field(default_factory=dict)
    refaug: str = VERSION

    @classmethod
    def of(
        cls, metric: Metric, more: Mapping[str, str] | None = None, details: Mapping[str, str] | None = None
    ) -> Signature:
        """Return the signature of a metric; `more` and `details` come from retrieval and rating."""
        settings, versions = {**metric.settings, **(more or {})}, {**metric.versions(), **(details or {})}
        return _signature_of(metric.info.name, tuple(settings.items()), tuple(versions.items()))

    @cached_property
    def full(self) -> str:
        """Everything, in one line, which parses back."""
        return "|".join([self._head, *write_fields({}, self.details), f"refaug:{_escape(self.refaug)}"])

    @cached_property
    def short(self) -> str:
        """The form that is printed beside a score."""
        digest = hashlib.sha256(self.full.encode("ascii")).hexdigest()[:12]
        return "|".join([self._head, f"full:{digest}", f"refaug:{_escape(self.refaug)}"])

    @property
    def _head(self) -> str:
        return "|".join([_escape(self.metric), *write_fields(self.settings, {})])

    @classmethod
    def parse(cls, text: str) -> Signature:
        """Read a signature back; a short form has no details."""
        name, *pairs = text.strip().split("|")
        settings, details = read_fields(pairs, text)
        metric = _unescape(name)
        if not metric or "refaug" not in settings:
            raise BadInput(f"{text!r} is not a signature", remedy="copy the whole line, from the metric to refaug:…")
        version = settings.pop("refaug")
        settings.pop("full", None)
        return cls(metric=metric, settings=settings, details=details, refaug=version)

    def specification(self) -> Specification:
        """Return the metric's part of the settings as a specification."""
        info = find_info(self.metric)
        own = {parameter.name for parameter in info.parameters} if info else set(self.settings)
        return Specification(
            self.metric, tuple((key, value) for key, value in self.settings.items() if key in own and value)
        )

    @property
    def models(self) -> list[tuple[ModelKind, str]]:
        """The models that the metric needs, its parts included, each with its kind."""
        return named_models(self.specification())


_Fields = tuple[tuple[str, str], ...]


@lru_cache(maxsize=512)  # requests repeat the same signatures
def _signature_of(metric: str, settings: _Fields, details: _Fields) -> Signature:
    return Signature(metric=metric, settings=dict(settings), details=dict(details))


def write_fields(settings: Mapping[str, str], details: Mapping[str, str]) -> list[str]:
    """Return the parts of a signature, as Signature.full has them between the metric and the version."""
    pairs = [f"{key}:{_escape(text)}" for key, text in settings.items()]
    return pairs + [f"{key}.:{_escape(text)}" for key, text in details.items()]


def read_fields(parts: Sequence[str], line: str) -> tuple[dict[str, str], dict[str, str]]:
    """Read parts back as settings and details; BadInput names the part of the line that is none."""
    settings, details = dict[str, str](), dict[str, str]()
    for part in parts:
        key, colon, content = part.partition(":")
        fields, plain = (details, key.removesuffix(".")) if key.endswith(".") else (settings, key)
        value = _unescape(content)
        if not colon or not _KEY.fullmatch(plain) or plain in fields or value is None:
            raise BadInput(f"{part!r} is not part of a signature: {line!r}", remedy="copy the whole line")
        fields[plain] = value
    return settings, details


def _unescape(written: str) -> str | None:
    """Return what `_escape` wrote; None for what it does not write."""
    if not _VALUE.fullmatch(written):
        return None
    try:
        return unquote(written, errors="surrogatepass")
    except UnicodeDecodeError:
        return None


@lru_cache(maxsize=4_096)  # signatures repeat the same words
def _escape(text: str) -> str:
    """Return ASCII without the characters that separate a signature; others are written as %XX."""
    return "".join(
        character
        if character.isascii() and character.isprintable() and character not in "|%"
        else "".join(f"%{byte:02X}" for byte in character.encode("utf-8", "surrogatepass"))
        for character in text
    )
