"""A stored bot: a name, and a specification that is checked and hashed."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final, Self

import orjson

from refaug.bots.endpoint.spending import Price
from refaug.bots.stored.specification_fields import check_fields
from refaug.core.errors import BadInput
from refaug.core.files import require_name

MOST_BYTES: Final = 2_000_000  # of a specification
_SHOWN_DIGITS: Final = 12
_SOURCES: Final = {"index": "index", "vhred": "vhred"}  # fields that name an artefact, and its kind


@dataclass(frozen=True, kw_only=True)
class StoredBot:
    """A bot with a name; two bots with equal specifications have one hash."""

    name: str
    fields: Mapping[str, Any]  # the specification, its kind included

    @classmethod
    def of(cls, name: str, fields: Mapping[str, Any]) -> Self:
        """Return the bot of a checked specification; BadInput names the field that is wrong."""
        require_name("bot", name)
        if not isinstance(fields, Mapping):
            raise BadInput(f"bot {name}: a specification is a JSON object", remedy='{"kind": "replay", …}')
        content = _canonical(name, fields)
        if len(content) > MOST_BYTES:
            raise BadInput(f"bot {name}: {len(content):,} bytes", remedy=f"at most {MOST_BYTES:,}")
        check_fields(fields, f"bot {name}")
        return cls(name=name, fields=orjson.loads(content))

    def as_json(self) -> dict[str, object]:
        """Return the bot as commands and the service show it."""
        return {"name": self.name, "kind": self.kind, "sha256": self.sha256, "specification": dict(self.fields)}

    @property
    def kind(self) -> str:
        """The kind, such as `openai`."""
        return str(self.fields["kind"])

    @property
    def content(self) -> bytes:
        """The specification as JSON with sorted keys, which is hashed."""
        return _canonical(self.name, self.fields)

    @property
    def sha256(self) -> str:
        """The hash of the specification; the name is not in it."""
        return hashlib.sha256(self.content).hexdigest()

    @property
    def spec(self) -> str:
        """The name and the beginning of the hash, as provenance has them."""
        return f"{self.name}#{self.sha256[:_SHOWN_DIGITS]}"

    @property
    def wrapped(self) -> StoredBot | None:
        """The bot whose replies are changed; None for all kinds that reply themselves."""
        inner = self.fields.get("bot")
        return StoredBot(name=str(inner.get("name", self.name)), fields=inner) if isinstance(inner, dict) else None

    @property
    def sources(self) -> tuple[tuple[str, str], ...]:
        """The artefacts that it replies from: kind and name, with or without a version."""
        own = tuple((artefact, str(self.fields[field])) for field, artefact in _SOURCES.items() if field in self.fields)
        return own + (self.wrapped.sources if self.wrapped is not None else ())

    @property
    def addresses(self) -> Iterator[str]:
        """The addresses that it sends requests to."""
        if self.kind in ("openai", "http"):
            yield str(self.fields.get("url") or self.fields.get("base_url"))
        if self.wrapped is not None:
            yield from self.wrapped.addresses

    @property
    def price(self) -> Price | None:
        """The prices of the tokens of its endpoint, if it has any."""
        if isinstance(table := self.fields.get("price"), Mapping):
            return Price(**table)
        return self.wrapped.price if self.wrapped is not None else None

    @property
    def key_variables(self) -> Iterator[str]:
        """The names of the environment variables that hold its keys."""
        if "key_env" in self.fields:
            yield str(self.fields["key_env"])
        if self.wrapped is not None:
            yield from self.wrapped.key_variables


def pinned(
    fields: Mapping[str, Any], resolve: Callable[[str, str], str], find_bot: Callable[[str], StoredBot]
) -> dict[str, object]:
    """Return a specification that stays as it is: artefacts with their versions, and wrapped bots written out.

    `resolve` returns name@version for a kind and a name. Then the hash changes whenever the replies may.
    """
    fixed = dict(fields)
    for field, artefact in _SOURCES.items():
        if isinstance(fixed.get(field), str):
            fixed[field] = resolve(artefact, fixed[field])
    if isinstance(fixed.get("bot"), str):
        wrapped = find_bot(fixed["bot"])
        fixed["bot"] = {**wrapped.fields, "name": wrapped.name}
    elif isinstance(fixed.get("bot"), dict):
        fixed["bot"] = pinned(fixed["bot"], resolve, find_bot)
    return fixed


def _canonical(name: str, fields: Mapping[str, Any]) -> bytes:
    try:
        return orjson.dumps(dict(fields), option=orjson.OPT_SORT_KEYS)
    except (orjson.JSONEncodeError, TypeError, RecursionError) as error:
        raise BadInput(f"bot {name}: not JSON: {error}", remedy="texts, numbers, lists, objects") from error
