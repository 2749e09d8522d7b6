"""The log of the service: one JSON object a line on stderr, without keys, passwords and paths.

It is set up once in each process, at its start. `event` says what a line is about; further fields come through `extra`
under their names:

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
from typing import Final, TextIO

import orjson

from refaug.core.errors import RefaugError
from refaug.core.text.messages import HIDDEN, HiddenFolders, without_secrets

# Libraries whose messages repeat ours, or name whole addresses, in which there may be secrets.
_QUIET_LIBRARIES: Final = ("faiss", "uvicorn", "httpx", "httpx2", "httpcore", "httpcore2")
_MAX_CHARS: Final = 2_000  # characters of one value, so that whole requests are not logged
_FRAMES: Final = 8
_MAX_INTEGER: Final = 2**63 - 1  # the largest integer that common JSON readers accept
_STANDARD: Final = frozenset(logging.makeLogRecord({}).__dict__) | {"message", "asctime", "color_message"}
# Texts that cannot contain a secret or a folder: request ids, words, versions.
_HARMLESS: Final = re.compile(r"[A-Za-z0-9.-]{0,64}")
_CACHED_CHARS: Final = 64  # characters; short texts such as routes come again in many lines


def configure_logging(home: Path, *, level: int = logging.INFO, stream: TextIO | None = None) -> logging.Handler:
    """Send all logging of this process to stderr, one JSON object a line; earlier handlers are removed."""
    handler = logging.StreamHandler(stream if stream is not None else sys.stderr)
    handler.setFormatter(JsonLines(home))
    root = logging.getLogger()
    for earlier in root.handlers[:]:
        root.removeHandler(earlier)
    root.addHandler(handler)
    root.setLevel(level)
    for library in _QUIET_LIBRARIES:
        logging.getLogger(library).setLevel(max(level, logging.WARNING))
    logging.captureWarnings(capture=True)
    return handler


class JsonLines(logging.Formatter):
    """A formatter that writes a record as one line of JSON."""

    def __init__(self, home: Path) -> None:
        super().__init__()
        self._hidden_folders = HiddenFolders.named(home)
        self._clean_cached = lru_cache(maxsize=1_024)(self._clean_uncached)

    def format(self, record: logging.LogRecord) -> str:
        """Return time, level, event and further fields as one line."""
        line: dict[str, object] = {
            "time": datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds"),
            "level": record.levelname.lower(),
            "event": self._clean(record.getMessage()),
            "logger": record.name,
            "process": record.process,
        }
        more = {
            self._clean_text(name): self._clean(content)
            for name, content in record.__dict__.items()
            if name not in _STANDARD
        }
        line |= {name: value for name, value in more.items() if name not in line}
        if record.exc_info is not None and record.exc_info[1] is not None:
            line["error"] = self._error(record.exc_info[1])
        return orjson.dumps(line, default=str, option=orjson.OPT_NON_STR_KEYS).decode()

    def _error(self, error: BaseException) -> dict[str, object]:
        """Return the kind and place of an error; the message only of our errors, since others may quote input."""
        description: dict[str, object] = {"kind": type(error).__name__}
        if isinstance(error, RefaugError):
            description |= {"code": error.code, "message": self._clean(error.message)}
        frames = traceback.extract_tb(error.__traceback__)[-_FRAMES:]
        description["at"] = [f"{Path(frame.filename).name}:{frame.lineno} {frame.name}" for frame in frames]
        return description

    def _clean(self, content: object) -> object:
        """Return the content without secrets and paths, at any depth."""
        if (
            content is None
            or isinstance(content, bool | float)
            or (isinstance(content, int) and abs(content) <= _MAX_INTEGER)
        ):
            return content
        if isinstance(content, dict):
            return {self._clean_text(str(name)): self._clean(inner) for name, inner in content.items()}
        if isinstance(content, list | tuple | set | frozenset):
            return [self._clean(inner) for inner in content]
        return self._clean_text(str(content))

    def _clean_text(self, text: str) -> str:
        if _HARMLESS.fullmatch(text):
            return text
        return self._clean_cached(text) if len(text) <= _CACHED_CHARS else self._clean_uncached(text)

    def _clean_uncached(self, text: str) -> str:
        text = self._hidden_folders.hide(without_secrets(text))
        text = text.encode(errors="replace").decode()  # JSON cannot hold lone surrogates
        if len(text) <= _MAX_CHARS:
            return text
        return f"{text[: _MAX_CHARS // 2]}{HIDDEN}{text[-_MAX_CHARS // 2 :]}"  # the end of a trace has the cause
