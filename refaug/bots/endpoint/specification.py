"""An endpoint as a file has it: address, model, limits, prices. The key is never in it, only the name of a variable.

url = "http://127.0.0.1:8000/v1"
model = "small-judge"
key_env = "JUDGE_KEY"
"""

from __future__ import annotations

import hashlib
import os
import re
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from math import isfinite
from pathlib import Path
from typing import Any, Final, Literal
from urllib.parse import parse_qsl, urlsplit

import orjson

from refaug.bots.endpoint.spending import Budget, Price
from refaug.core.errors import BadInput, NotFound

# ── Fields of a small table, such as a TOML file or a JSON object, read one by one; an error names the field ──────────

KEY_REMEDY: Final = 'take it out, and name the environment variable that holds it: key_env = "JUDGE_KEY"'


class FieldReader:
    """Reads fields of a table one by one, and names those that are wrong."""

    def __init__(self, table: Mapping[str, Any], where: str) -> None:
        self._table, self._where = table, where

    def bad(self, name: str, message: str, remedy: str) -> BadInput:
        """Return the error of a field."""
        return BadInput(f"{self._where}, {name}: {message}", remedy=remedy)

    def require_only(self, names: tuple[str, ...]) -> None:
        """Refuse unknown fields; one that looks like a key gets its own remedy."""
        for name in self._table:
            if name in names:
                continue
            if any(word in str(name).lower() for word in ("key", "token", "secret", "password", "authorization")):
                raise self.bad(str(name), "keys do not belong into this file", KEY_REMEDY)
            raise self.bad(str(name), "there is no such field", f"one of: {', '.join(names)}")

    def text(self, name: str, *, required: bool = False) -> str | None:
        """Return a text, or None."""
        text = self._table.get(name)
        if text is None and not required:
            return None
        if not isinstance(text, str) or not text.strip() or len(text) > 2_000:
            raise self.bad(name, "a text was expected", f'{name} = "…"')
        return text.strip()

    def choice(self, name: str, choices: tuple[str, ...]) -> str:
        """Return one of the choices, by default the first."""
        text = self.text(name) or choices[0]
        if text not in choices:
            raise self.bad(name, f"{text!r} is none of them", f"one of: {', '.join(choices)}")
        return text

    def words(self, name: str, choices: tuple[str, ...]) -> tuple[str, ...]:
        """Return a list of choices."""
        listed = self._table.get(name, [])
        if not isinstance(listed, list) or not all(word in choices for word in listed):
            raise self.bad(name, "a list was expected", f"some of: {', '.join(choices)}")
        return tuple(dict.fromkeys(listed))

    def number(self, name: str, default: float, least: float, most: float, *, whole: bool = False) -> float:
        """Return a number between two bounds."""
        number = self._table.get(name, default)
        is_number = isinstance(number, int | float) and not isinstance(number, bool) and isfinite(number)
        if not is_number or not least <= number <= most or (whole and number != int(number)):
            kind = "whole number" if whole else "number"
            raise self.bad(name, f"{number!r} is not possible", f"a {kind} from {least:g} to {most:g}")
        return float(number)

    def table(self, name: str) -> Mapping[str, Any]:
        """Return a table, empty where there is none."""
        table = self._table.get(name, {})
        if not isinstance(table, dict):
            raise self.bad(name, "a table was expected", f"[{name}] and its fields")
        return table


# ── The endpoint ──────────────────────────────────────────────────────────────────────────────────────────────────────

SUFFIXES: Final = (".toml", ".json")
_MOST_BYTES: Final = 100_000
_ALLOWED_QUERY: Final = frozenset({"api-version"})  # Azure's, which says nothing secret
_SECRET: Final = re.compile(r"(sk|pk|key|tok|token|ghp|hf|gsk|xai)[-_][A-Za-z0-9_-]{12,}|[A-Za-z0-9_-]{40,}")
_PREFIXED: Final = re.compile(r"(Bearer )?(sk|pk|ghp|hf|gsk|xai)[-_][A-Za-z0-9_-]{12,}")
_VARIABLE: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_HEADERS: Final = ("Authorization", "api-key", "x-api-key")
_KEY_FIELDS: Final = re.compile(
    r"(x-)?api-?key|key|(proxy-)?authorization|auth|bearer|secret|password|(access-?)?token"
)
_OWN_FIELDS: Final = frozenset({"model", "messages", "stream", "n", "logprobs", "top_logprobs", "temperature", "seed"})
ANSWER_LIMITS: Final = ("max_tokens", "max_completion_tokens")
_OMITTED: Final = ("temperature", "seed", "max_tokens")


@dataclass(frozen=True, kw_only=True)
class Endpoint:
    """An OpenAI-compatible endpoint and the model behind it, or an address that is sent turns."""

    url: str  # the base, to which /chat/completions is added
    model: str
    name: str = "endpoint"
    key_env: str | None = None
    key_header: str = "Authorization"
    concurrency: int = 16
    timeout_s: float = 60.0
    tries: int = 5
    patience_s: float = 600.0  # how long one request waits while the endpoint answers 429
    max_answer_bytes: int = 1_000_000
    max_tokens_field: str = "max_tokens"
    omit: tuple[str, ...] = ()  # fields of requests that the endpoint refuses
    parameters: Mapping[str, Any] = field(default_factory=dict)  # further fields of requests
    price: Price | None = None
    budget: Budget = field(default_factory=Budget)
    # turns: {"turns": […], "id": …, "seed": …} to {"reply": …}; echo: a text, to be given back with its probabilities
    dialect: Literal["chat", "turns", "echo"] = "chat"

    @property
    def completions_url(self) -> str:
        """The address that requests go to; a query stays at its end."""
        if self.dialect == "turns":
            return self.url
        parts, route = urlsplit(self.url), "completions" if self.dialect == "echo" else "chat/completions"
        return parts._replace(path=f"{parts.path.rstrip('/')}/{route}").geturl()

    @property
    def content_hash(self) -> str:
        """A hash of all that decides which answer a request gets."""
        parts = [self.url, self.model, self.max_tokens_field, sorted(self.omit), self.parameters]
        return hashlib.sha256(orjson.dumps(parts, option=orjson.OPT_SORT_KEYS)).hexdigest()[:12]

    @property
    def spec(self) -> str:
        """The name with the content, as signatures have it."""
        return f"{self.name}#{self.content_hash}"

    def secret(self, environment: Mapping[str, str] | None = None) -> str | None:
        """Return the key from the environment; BadInput where the variable is not set."""
        if self.key_env is None:
            return None
        secret = (os.environ if environment is None else environment).get(self.key_env, "").strip()
        if not secret:
            raise BadInput(
                f"{self.name}: the environment variable {self.key_env} is not set", remedy=f"export {self.key_env}=…"
            )
        if not (secret.isascii() and secret.isprintable()):
            raise BadInput(f"{self.name}: {self.key_env} holds characters that no key has", remedy="set it again")
        return secret


def read_endpoint(path: Path, *, name: str | None = None) -> Endpoint:
    """Read an endpoint from a TOML or JSON file."""
    return endpoint_of(read_table(path), where=str(path), name=name or path.stem)


def read_table(path: Path) -> dict[str, object]:
    """Read a small TOML or JSON file; BadInput where it is none."""
    try:
        content = path.read_bytes()
    except (FileNotFoundError, IsADirectoryError) as error:
        raise NotFound(f"there is no file {path}", remedy="name a .toml or .json file") from error
    if len(content) > _MOST_BYTES:
        raise BadInput(f"{path} has {len(content):,} bytes", remedy=f"at most {_MOST_BYTES:,}")
    try:
        table = orjson.loads(content) if path.suffix == ".json" else tomllib.loads(content.decode())
    except (orjson.JSONDecodeError, tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        kind = "JSON" if path.suffix == ".json" else "TOML"
        raise BadInput(f"{path} is not {kind}: {error}", remedy="docs/judge.md has examples") from error
    if not isinstance(table, dict):
        raise BadInput(f"{path} has no fields", remedy="docs/judge.md has examples")
    return table


def endpoint_of(table: Mapping[str, Any], *, where: str, name: str) -> Endpoint:
    """Check the fields of a file; BadInput names the field that is wrong."""
    reader = FieldReader(table, where)
    reader.require_only(_FIELDS)
    price = _price(reader.table("price"), where)
    budget = _budget(reader.table("budget"), where)
    if budget.money is not None and price is None:
        raise reader.bad("budget.money", "there are no prices", "[price] with input and output, per million tokens")
    omit, parameters = reader.words("omit", _OMITTED), _parameters(reader)
    if budget != Budget() and "max_tokens" in omit and not parameters.keys() & set(ANSWER_LIMITS):
        raise reader.bad("budget", "no answer has a greatest length", "max_completion_tokens in [parameters]")
    return Endpoint(
        url=_checked_url(reader),
        model=reader.text("model", required=True) or "",
        name=name,
        key_env=_key_variable(reader),
        key_header=reader.choice("key_header", _HEADERS),
        concurrency=int(reader.number("concurrency", Endpoint.concurrency, 1, 1_000, whole=True)),
        timeout_s=reader.number("timeout_s", Endpoint.timeout_s, 0.01, 3_600),
        tries=int(reader.number("tries", Endpoint.tries, 1, 20, whole=True)),
        patience_s=reader.number("patience_s", Endpoint.patience_s, 0, 86_400),
        max_answer_bytes=int(reader.number("max_answer_bytes", Endpoint.max_answer_bytes, 1_000, 10**8, whole=True)),
        max_tokens_field=reader.choice("max_tokens_field", ANSWER_LIMITS),
        omit=omit,
        parameters=parameters,
        price=price,
        budget=budget,
    )


def turns_endpoint_of(table: Mapping[str, Any], *, where: str, name: str) -> Endpoint:
    """Check the fields of an address that is sent turns, and knows no model."""
    FieldReader(table, where).require_only(_TURNS_FIELDS)
    return replace(endpoint_of({**table, "model": "turns"}, where=where, name=name), dialect="turns")


_TURNS_FIELDS: Final = (
    "url",
    "key_env",
    "key_header",
    "concurrency",
    "timeout_s",
    "tries",
    "patience_s",
    "max_answer_bytes",
)
_OF_CHATS: Final = ("max_tokens_field", "omit", "parameters", "price", "budget")
_FIELDS: Final = ("url", "model", *_TURNS_FIELDS[1:], *_OF_CHATS)


def _checked_url(reader: FieldReader) -> str:
    """Return the address; one with a key in it is refused, and not repeated in the message."""
    url = reader.text("url", required=True) or ""
    try:
        parts = urlsplit(url)
        port = parts.port
    except ValueError as error:
        raise reader.bad("url", "it is not an address", "http://127.0.0.1:8000/v1") from error
    query = parse_qsl(parts.query, keep_blank_values=True)
    has_secret = any(_SECRET.fullmatch(segment) for segment in parts.path.split("/"))
    if parts.username is not None or parts.password is not None or has_secret or parts.fragment:
        raise reader.bad("url", "there is a key in it", KEY_REMEDY)
    if unknown := [key for key, _ in query if key not in _ALLOWED_QUERY]:
        raise reader.bad("url", f"there may be a key in it, as {unknown[0][:20]!r}", KEY_REMEDY)
    if parts.scheme not in ("http", "https") or not parts.hostname or port == 0:
        raise reader.bad("url", "it is not an address of http or https", "http://127.0.0.1:8000/v1")
    if parts.path.rstrip("/").endswith("/chat/completions"):
        raise reader.bad("url", "the base is enough", "leave /chat/completions out: it is added")
    return url.rstrip("/")


def _key_variable(reader: FieldReader) -> str | None:
    name = reader.text("key_env")
    if name is not None and not _VARIABLE.fullmatch(name):
        raise reader.bad("key_env", "it is not a name of a variable", 'key_env = "JUDGE_KEY", and export JUDGE_KEY=…')
    return name


def _parameters(reader: FieldReader) -> Mapping[str, Any]:
    parameters = reader.table("parameters")
    if clash := sorted(_OWN_FIELDS & set(parameters)):
        raise reader.bad(f"parameters.{clash[0]}", "refaug sets it", "leave it out")
    try:
        orjson.dumps(parameters)
    except orjson.JSONEncodeError as error:
        raise reader.bad("parameters", f"it cannot be written as JSON: {error}", "texts, numbers, lists") from error
    if path := _key_path(parameters):
        raise reader.bad(f"parameters.{path}", "keys do not belong into this file", KEY_REMEDY)
    return parameters


def _key_path(content: Any) -> str:
    """Return where in parameters a key seems to be, by the name of its field or by its beginning; empty for nowhere."""
    if isinstance(content, str):
        return "…" if _PREFIXED.fullmatch(content.strip()) else ""
    fields = (
        content.items() if isinstance(content, Mapping) else enumerate(content) if isinstance(content, list) else ()
    )
    for name, inner in fields:
        if isinstance(inner, str) and _KEY_FIELDS.fullmatch(str(name).lower().replace("_", "-")):
            return str(name)[:80]
        if path := _key_path(inner):
            return str(name)[:80] if path == "…" else f"{str(name)[:80]}.{path}"[:200]
    return ""


def _price(table: Mapping[str, Any], where: str) -> Price | None:
    if not table:
        return None
    reader = FieldReader(table, f"{where}, price")
    reader.require_only(("input", "output", "currency"))
    return Price(
        input=reader.number("input", 0.0, 0, 1e6),
        output=reader.number("output", 0.0, 0, 1e6),
        currency=(reader.text("currency") or Price.currency)[:10],
    )


def _budget(table: Mapping[str, Any], where: str) -> Budget:
    reader = FieldReader(table, f"{where}, budget")
    reader.require_only(("tokens", "money"))
    return Budget(
        tokens=int(reader.number("tokens", 0, 1, 10**12, whole=True)) if "tokens" in table else None,
        money=reader.number("money", 0, 0, 1e9) if "money" in table else None,
    )
