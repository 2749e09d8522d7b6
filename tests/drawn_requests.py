"""Requests drawn from a seed: documented ones, with some of their parts replaced by hostile values."""

from __future__ import annotations

import copy
import gzip
import json
import random
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Final
from urllib.parse import quote, urlencode

HOSTILE: Final[tuple[Any, ...]] = (
    None, True, False, 0, -1, 1, 2**31, 2**63, -(2**70), 1e308, 0.1, float("nan"), float("-inf"), "", " ", "a", "0",
    "\x00", "\ud800", "\u202e", "👩‍👩‍👧", "../../etc/passwd", "%2e%2e%2f", "';--", "<script>", "=1+1",
    "x" * 300, "x" * 20_000, "demo@", "bleu:n=" + "9" * 40,
    "http://127.0.0.1:1/", "2026-02-30", "a\r\nb: c", [], {}, [[]], {"": {}}, [None] * 50,
)  # fmt: skip
NAMES: Final = ("chat", "tiny", "quokka", "wombat", "fuzzed", "bleu", "upsilon-bleu", "en", "index", "rater")
HEADERS: Final = (
    "Accept", "Accept-Encoding", "Content-Encoding", "Content-Type", "Cookie", "Authorization", "Idempotency-Key",
    "If-None-Match", "Last-Event-ID", "Origin", "Range", "X-Action", "X-Forwarded-For", "X-Timeout-S", "traceparent",
)  # fmt: skip
METHODS: Final = ("GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS")


@dataclass(frozen=True)
class Drawn:
    """A request."""

    method: str
    path: str
    headers: Mapping[str, str] = field(default_factory=dict)
    body: bytes | None = None


def requests_of(document: Mapping[str, Any], seed: int, count: int) -> Iterator[Drawn]:
    """Yield the requests of a seed to the operations of an OpenAPI document."""
    chance = random.Random(seed)
    operations = [
        (method.upper(), path, operation)
        for path, methods in sorted(document["paths"].items())
        for method, operation in sorted(methods.items())
    ]
    for _ in range(count):
        yield _drawn(chance, *chance.choice(operations))


def _drawn(chance: random.Random, method: str, path: str, operation: Mapping[str, Any]) -> Drawn:
    given = [part for part in operation.get("parameters", ()) if chance.random() < 0.6 or part.get("required")]
    for part in operation.get("parameters", ()):
        if part["in"] == "path":  # what is deleted is hardly ever there, so that there is something to ask for
            names = NAMES if method != "DELETE" else ("gone",)
            text = chance.choice(names) if chance.random() < 0.7 else _text(chance)
            path = path.replace(f"{{{part['name']}}}", quote(text.encode(), safe=chance.choice(("", "/"))))
    query = [(part["name"], _parameter(chance, part)) for part in given if part["in"] == "query"]
    if chance.random() < 0.1:
        query += [(_text(chance), _text(chance)), *query]
    if query:
        path += "?" + urlencode(query)
    headers = {part["name"]: _parameter(chance, part) for part in given if part["in"] == "header"}
    body = _body(chance, operation, headers)
    if chance.random() < 0.15:
        headers[chance.choice(HEADERS)] = _text(chance)
    if chance.random() < 0.05:
        method = chance.choice(METHODS)
    clean = {name: text.encode("ascii", "ignore").decode()[:8_000] for name, text in headers.items()}
    return Drawn(method, path, {name: "".join(filter(str.isprintable, text)) for name, text in clean.items()}, body)


def _hostile(chance: random.Random) -> Any:
    return copy.deepcopy(chance.choice(HOSTILE))


def _text(chance: random.Random) -> str:
    drawn = chance.choice(HOSTILE)
    text = drawn if isinstance(drawn, str) else json.dumps(drawn)
    return text[:3_000].encode("utf-8", "replace").decode()  # half of a surrogate pair is in no address


def _parameter(chance: random.Random, part: Mapping[str, Any]) -> str:
    """Return a value as documented, or any."""
    schema = part.get("schema", {})
    usual = [schema.get("default"), *schema.get("enum", ()), *(part.get("example"),), schema.get("minimum"), 3, "chat"]
    known = [value for value in usual if value is not None]
    return str(chance.choice(known)) if chance.random() < 0.5 else _text(chance)


def _body(chance: random.Random, operation: Mapping[str, Any], headers: dict[str, str]) -> bytes | None:
    content = operation.get("requestBody", {}).get("content", {})
    if not content:
        return b"{}" if chance.random() < 0.05 else None
    (kind, described), *_ = content.items()
    headers["Content-Type"] = kind
    examples = [copy.deepcopy(example["value"]) for example in described.get("examples", {}).values()] or [[{"a": 1}]]
    document = chance.choice(examples)
    for _ in range(chance.choice((0, 1, 1, 1, 2, 3))):
        document = _changed(chance, document)
    sent = json.dumps(document, ensure_ascii=chance.random() < 0.5).encode("utf-8", "surrogatepass")
    return _spoilt(chance, sent, headers) if chance.random() < 0.15 else sent


def _changed(chance: random.Random, document: Any) -> Any:
    """Return a document with one of its parts replaced, left out, renamed, repeated or added."""
    places = list(_places(document))
    if not places or chance.random() < 0.03:
        return _hostile(chance)
    holder, key = chance.choice(places)
    way = chance.choice(("replace", "replace", "replace", "drop", "repeat", "add", "swap"))
    if way == "drop":
        del holder[key]
    elif way == "repeat" and isinstance(holder, list):
        holder.extend(copy.deepcopy(holder[key]) for _ in range(chance.choice((1, 3, 40))))
    elif way == "add" and isinstance(holder, dict):
        holder[_text(chance)] = _hostile(chance)
    elif way == "swap":
        other, name = chance.choice(places)
        holder[key] = copy.deepcopy(other[name])
    else:
        holder[key] = _hostile(chance)
    return document


def _places(document: Any) -> Iterator[tuple[Any, Any]]:
    if isinstance(document, dict | list):
        for key in document if isinstance(document, dict) else range(len(document)):
            yield document, key
            yield from _places(document[key])


def _spoilt(chance: random.Random, sent: bytes, headers: dict[str, str]) -> bytes:
    """Return the bytes with one thing wrong about them."""
    way = chance.choice(("cut", "flip", "mark", "wide", "deep", "twice", "zip", "not zipped", "kind", "noise"))
    if way == "zip":
        headers["Content-Encoding"] = "gzip"
        return gzip.compress(sent * chance.choice((1, 1, 50)), mtime=0)
    if way == "not zipped":
        headers["Content-Encoding"] = chance.choice(("gzip", "br", "zstd", "deflate", "identity"))
    if way == "kind":
        headers["Content-Type"] = chance.choice(
            ("text/plain", "application/xml", "multipart/form-data", "", "application/json;")
        )
    at = chance.randrange(len(sent) + 1)
    changed = {
        "cut": sent[:at],
        "flip": sent[:at] + chance.randbytes(1) + sent[at + 1 :],
        "mark": b"\xef\xbb\xbf" + sent,
        "wide": sent.decode("utf-8", "replace").encode("utf-16"),
        "deep": b'{"items":' + b"[" * 3_000,
        "twice": sent + sent,
        "noise": chance.randbytes(200),
    }
    return changed.get(way, sent)
