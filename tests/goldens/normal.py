"""What belongs to one run alone is taken out of answers: times, ids, versions and hashes that the golden home lacks."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import cached_property
from pathlib import Path
from typing import Any, Final

_TIME: Final = re.compile(r"\d{4}-\d\d-\d\d[T ]\d\d:\d\d(:\d\d(\.\d+)?)?(Z|[+-]\d\d:?\d\d)?")
_VERSION: Final = re.compile(r"\b(\d{4}-\d\d-\d\d)(\.\d+)\b")
_HASH: Final = re.compile(r"(?<![0-9a-zA-Z.])(?=[0-9]*[a-f])[0-9a-f]{12,64}(?![0-9a-zA-Z])")
_DIGITS: Final = re.compile(r"[0-9]{16}")  # of a hash, one in two thousand times: nothing else tells it from a number
_ROW_ID: Final = re.compile(r"\b[0-9a-hjkmnp-tv-z]{26}\b")
_SETTINGS: Final = ("rate_per_s", "timeout_s", "reservation_minutes")  # in seconds, and no measurement
_KEY_ID: Final = re.compile(r"[a-z2-7]{12}")
_TOKENS: Final = re.compile("|".join(pattern.pattern for pattern in (_TIME, _VERSION, _HASH, _ROW_ID)))
_SECONDS: Final = re.compile(r"seconds|(^|_)(s|ms|minutes|duration|elapsed)$")
EQUAL: Final = "HASH: all texts and weights"
_PLAIN: Final = (
    (re.compile(r"\|full:[0-9a-f]{12}"), "|full:HASH"),
    (re.compile(r"refaug[: ]\d+\.\d+\.\d+"), "refaug:VERSION"),
    (re.compile(r"127\.0\.0\.1:\d+"), "127.0.0.1:PORT"),
    (re.compile(r"\brefaug_[a-z2-7]{12}_[\w…-]+"), "TOKEN"),
    (re.compile(r"\b[0-9A-Z]{4}-[0-9A-Z]{4}\b"), "CODE"),
    (re.compile(r"(?<![.\w])\d{19}\b"), "ID"),
    (re.compile(r"\b[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}\b"), "UUID"),
    (re.compile(r"\bP-[0-9A-Z]{6}\b"), "P-CODE"),
    (re.compile(r"(/take#)[\w.-]+"), r"\1TOKEN"),
    # bits of ratings follow which requests a busy server rates together
    (re.compile(r"equal within \S+ item by item \(\S+ in the file, \S+ now: last bits of ratings\)"), EQUAL),
)


@dataclass(frozen=True)
class Normaliser:
    """Takes out of answers what no other run has."""

    folder: Path

    @cached_property
    def known(self) -> frozenset[str]:
        """The times, ids, versions and hashes of the golden home and of the files beside it."""
        return frozenset(self._tokens())

    def _tokens(self) -> Iterator[str]:
        for path in self.folder.rglob("*"):
            if path.suffix in (".json", ".jsonl", ".db", ".toml", ".csv") or path.name == "CURRENT":
                for token in _TOKENS.finditer(path.read_bytes().decode("latin-1")):
                    yield _comparable(token[0])
            yield from (path.name, path.name.partition(".")[0])

    def __call__(self, answer: Any, key: str = "") -> Any:
        """Return an answer without what belongs to its run."""
        if isinstance(answer, dict):
            timed = key if _SECONDS.search(key) else ""
            return {self.text(str(name)): self(inner, timed or str(name)) for name, inner in answer.items()}
        if isinstance(answer, list | tuple):
            return [self(inner, key) for inner in answer]
        if isinstance(answer, float) and _SECONDS.search(key) and key not in _SETTINGS:
            return "SECONDS"
        if key == "serving" and isinstance(answer, int):
            return "PID"
        if key == "token" and isinstance(answer, str):
            return "TOKEN"
        if key in ("request_id", "request") and isinstance(answer, str) and _DIGITS.fullmatch(answer):
            return "HASH"
        if key == "actor" and isinstance(answer, str) and answer.startswith("user "):
            return "user USER"
        if key == "id" and isinstance(answer, str) and _KEY_ID.fullmatch(answer) and answer not in self.known:
            return "ID"
        return self.text(answer) if isinstance(answer, str) else answer

    def text(self, text: str) -> str:
        """Return a text without what belongs to its run."""
        for folder in (str(self.folder.resolve()), str(self.folder)):
            text = text.replace(folder, "FOLDER")
        for pattern, name in _PLAIN:
            text = pattern.sub(name, text)
        text = _TIME.sub(self._unless_known("TIME"), text)
        text = _VERSION.sub(self._unless_known("VERSION", keep=2), text)
        text = _HASH.sub(self._unless_known("HASH"), text)
        return _ROW_ID.sub(self._unless_known("ID"), text)

    def _unless_known(self, name: str, keep: int = 0) -> Callable[[re.Match[str]], str]:
        def replaced(match: re.Match[str]) -> str:
            if self._is_known(match[0]):
                return match[0]
            return name + (match[keep] if keep else "")

        return replaced

    def _is_known(self, token: str) -> bool:
        is_hash = _HASH.fullmatch(token)
        return _comparable(token) in self.known or bool(is_hash and any(name.startswith(token) for name in self.known))


def _comparable(token: str) -> str:
    """Return a time in one spelling, to the second; other tokens as they are."""
    if not _TIME.fullmatch(token):
        return token
    try:
        moment = datetime.fromisoformat(token.replace("Z", "+00:00"))
    except ValueError:
        return token
    moment = moment if moment.tzinfo is None else moment.astimezone(UTC)
    return moment.strftime("%Y-%m-%dT%H:%M:%S")
