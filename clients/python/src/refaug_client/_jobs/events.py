"""Events from a stream: bytes in, cut anywhere, events out. Nothing is read or sent here."""

from __future__ import annotations

import json
from codecs import getincrementaldecoder
from dataclasses import dataclass, field
from typing import Any, Optional

from refaug_client._core.errors import BadAnswer

_LONGEST = 16 * 1024 * 1024  # characters of an event that does not end: refaug's have some hundred


@dataclass(frozen=True)
class Event:
    """Something that happened to a job: a change of state, a stage, progress, a warning or a note.

    `data` holds the details, with the time at which it happened (`at`); ids rise.
    """

    id: int
    kind: str
    data: dict[str, Any] = field(default_factory=dict)

    @property
    def at(self) -> str:
        """When it happened, as ISO 8601."""
        return str(self.data.get("at", ""))

    @property
    def stage(self) -> Optional[str]:
        """The stage of the work that begins or goes on, where the event names one."""
        stage = self.data.get("stage")
        return stage if isinstance(stage, str) else None

    @property
    def share(self) -> Optional[float]:
        """How much of the stage is done, from 0 to 1, where that is known."""
        done, total = self.data.get("done"), self.data.get("total")
        if not isinstance(done, (int, float)) or not isinstance(total, (int, float)) or total <= 0:
            return None
        return min(1.0, done / total)

    @property
    def state(self) -> Optional[str]:
        """The state that the job is in from now on, where the event is a change of state."""
        state = self.data.get("state") if self.kind == "state" else None
        return state if isinstance(state, str) else None

    def to_dict(self) -> dict[str, Any]:
        """Return the event as a dict."""
        return {"id": self.id, "kind": self.kind, "data": dict(self.data)}


class Reader:
    """Puts events together from the pieces of a stream (the format of `text/event-stream`)."""

    def __init__(self) -> None:
        self._decoder = getincrementaldecoder("utf-8")("replace")
        self._rest = ""
        self._ends_with_cr = False
        self._is_first = True
        self._fields: dict[str, str] = {}

    def feed(self, piece: bytes) -> list[Event]:
        """Return the events that are complete with this piece; none for a keep-alive."""
        text = self._decoder.decode(piece)
        if not text:
            return []
        if self._is_first:
            self._is_first, text = False, text[1:] if text[0] == "\ufeff" else text
        if self._ends_with_cr and text.startswith("\n"):
            text = text[1:]  # the second half of a line's end
        self._ends_with_cr = text.endswith("\r") or (self._ends_with_cr and not text)
        lines = (self._rest + text.replace("\r\n", "\n").replace("\r", "\n")).split("\n")
        self._rest = lines.pop()
        if len(self._rest) + sum(map(len, self._fields.values())) > _LONGEST:
            raise BadAnswer("an event that does not end", excerpt=self._rest[:200], content_type="text/event-stream")
        events = (self._line(line) for line in lines)
        return [event for event in events if event is not None]

    def _line(self, line: str) -> Optional[Event]:
        if not line:
            fields, self._fields = self._fields, {}
            return _event(fields) if "data" in fields else None
        name, _, content = line.partition(":")
        content = content[1:] if content.startswith(" ") else content
        if name == "data" and "data" in self._fields:
            content = f"{self._fields['data']}\n{content}"
        if name:  # without one it is a comment
            self._fields[name] = content
        return None


def _event(fields: dict[str, str]) -> Event:
    try:
        return Event(int(fields["id"]), fields.get("event", "message"), _require_object(json.loads(fields["data"])))
    except (KeyError, ValueError, TypeError, RecursionError) as error:
        raise BadAnswer(
            f"an event that is not refaug's ({type(error).__name__}: {error})",
            excerpt=fields["data"][:200],
            content_type="text/event-stream",
        ) from error


def _require_object(event_data: Any) -> dict[str, Any]:
    if not isinstance(event_data, dict):
        raise TypeError(f"its data is a JSON {type(event_data).__name__}")
    return event_data
