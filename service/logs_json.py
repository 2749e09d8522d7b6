"""Logs of the service: one JSON object a line on stderr, and in none of them a key, a password or where we live.

Set up once a process, at the door of the command and of each process that it starts. What a line is about stands in
`event`; what belongs to it comes through `extra` and keeps its name:

    log.info("request", extra={"request": "01ab…", "route": "/v1/scores", "status": 200})
"""

from __future__ import annotations

import logging
import re
import sys
import traceback
from datetime import UTC, datetime
from functools import lru_cache
from pathlib import Path
from typing import Any, Final, TextIO

import orjson

from core.errors import RefaugError

HIDDEN: Final = "…"
_TALKATIVE: Final = ("alembic", "faiss", "uvicorn")  # what they tell of themselves is told by us, once
_LONGEST: Final = 2_000  # characters of one value: a log is no place for whole requests
_FRAMES: Final = 8
_LARGEST: Final = 2**63 - 1  # of whole numbers in JSON as others read it
_STANDARD: Final = frozenset(logging.makeLogRecord({}).__dict__) | {"message", "asctime", "color_message"}
# What none of the patterns below can be found in, nor a folder: the numbers of requests, words, versions.
_HARMLESS: Final = re.compile(r"[A-Za-z0-9.-]{0,64}")
_SHORT: Final = 64  # characters; the same words and routes stand in line after line
_SECRETS: Final = (
    # our keys, as `refaug keys create` makes them, wherever they stand
    (re.compile(r"refaug_[A-Za-z0-9-]{2,}_[A-Za-z0-9_-]{4,}"), f"refaug_{HIDDEN}"),
    # headers that carry one, also as a pair of a list of headers, up to the end of what is quoted or of the line
    (
        re.compile(r"""(?i)\b(authorization|x-api-key|cookie)\b(['"]?\s*[:=,]\s*(?:b(?=['"]))?['"]?)[^'"\r\n]+"""),
        rf"\1\2{HIDDEN}",
    ),
    (re.compile(r"(?i)\b(bearer|basic)\s+[A-Za-z0-9._~+/=-]{4,}"), rf"\1 {HIDDEN}"),
    # the password of an address
    (re.compile(r"(\b[a-z][a-z0-9+.-]*://[^\s:/@]*):[^\s/@]+@"), rf"\1:{HIDDEN}@"),
)


def set_up(home: Path, *, level: int = logging.INFO, stream: TextIO | None = None) -> logging.Handler:
    """Send everything that is logged in this process to stderr, one JSON object a line; what was set up before goes."""
    handler = logging.StreamHandler(stream if stream is not None else sys.stderr)
    handler.setFormatter(JsonLines(home))
    root = logging.getLogger()
    for earlier in root.handlers[:]:
        root.removeHandler(earlier)
    root.addHandler(handler)
    root.setLevel(level)
    for library in _TALKATIVE:
        logging.getLogger(library).setLevel(max(level, logging.WARNING))
    logging.captureWarnings(capture=True)
    return handler


class JsonLines(logging.Formatter):
    """A record as one line of JSON."""

    def __init__(self, home: Path) -> None:
        super().__init__()
        self._places = _places(home)
        self._short = lru_cache(maxsize=1_024)(self._cleaned)

    def format(self, record: logging.LogRecord) -> str:
        """Time, level, event and what belongs to it; always one line, whatever is in it."""
        line: dict[str, Any] = {
            "time": datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds"),
            "level": record.levelname.lower(),
            "event": self._clean(record.getMessage()),
            "logger": record.name,
            "process": record.process,
        }
        more = {
            self._clean_text(name): self._clean(value)
            for name, value in record.__dict__.items()
            if name not in _STANDARD
        }
        line |= {name: value for name, value in more.items() if name not in line}
        if record.exc_info is not None and record.exc_info[1] is not None:
            line["error"] = self._error(record.exc_info[1])
        return orjson.dumps(line, default=str, option=orjson.OPT_NON_STR_KEYS).decode()

    def _error(self, error: BaseException) -> dict[str, object]:
        """What it was and where; the message only of errors of ours, since others quote what they were handed."""
        told: dict[str, object] = {"kind": type(error).__name__}
        if isinstance(error, RefaugError):
            told |= {"code": error.code, "message": self._clean(error.message)}
        frames = traceback.extract_tb(error.__traceback__)[-_FRAMES:]
        told["at"] = [f"{Path(frame.filename).name}:{frame.lineno} {frame.name}" for frame in frames]
        return told

    def _clean(self, value: object) -> object:
        """The same without secrets and places, at any depth."""
        if value is None or isinstance(value, bool | float) or (isinstance(value, int) and abs(value) <= _LARGEST):
            return value
        if isinstance(value, dict):
            return {self._clean_text(str(name)): self._clean(inner) for name, inner in value.items()}
        if isinstance(value, list | tuple | set | frozenset):
            return [self._clean(inner) for inner in value]
        return self._clean_text(str(value))

    def _clean_text(self, text: str) -> str:
        if _HARMLESS.fullmatch(text):
            return text
        return self._short(text) if len(text) <= _SHORT else self._cleaned(text)

    def _cleaned(self, text: str) -> str:
        text = without_secrets(text)
        for place, name in self._places:
            text = text.replace(place, name)
        text = text.encode(errors="replace").decode()  # lone surrogates are no JSON
        if len(text) <= _LONGEST:
            return text
        return f"{text[: _LONGEST // 2]}{HIDDEN}{text[-_LONGEST // 2 :]}"  # what went wrong is at a trace's end


def without_secrets(text: str) -> str:
    """The same without keys and passwords."""
    for pattern, instead in _SECRETS:
        text = pattern.sub(instead, text)
    return text


def _places(home: Path) -> list[tuple[str, str]]:
    """Folders and what is written in their stead, the longest first: one may lie in the other."""
    named = {str(home.resolve()): "HOME", str(home.absolute()): "HOME", str(Path.home()): "~"}
    return sorted(((place, name) for place, name in named.items() if place != "/"), key=lambda one: -len(one[0]))
