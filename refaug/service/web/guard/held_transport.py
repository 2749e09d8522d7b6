"""The transport that uvicorn's protocol gets: what it writes and closes goes through the guard."""

from __future__ import annotations

import asyncio
from typing import Any, Protocol


class TransportHolder(Protocol):
    """What the guard does with the calls of uvicorn's protocol."""

    @property
    def is_ending(self) -> bool:
        """Whether nothing more may be written."""

    def write(self, content: bytes) -> None:
        """Write a part of an answer."""

    def shut(self) -> None:
        """Close the connection."""

    def pause_reading(self) -> None:
        """Read no more for now."""

    def resume_reading(self) -> None:
        """Read on."""


class HeldTransport(asyncio.Transport):
    """A transport that asks the guard."""

    def __init__(self, transport: asyncio.Transport, guard: TransportHolder) -> None:
        super().__init__()
        self._transport, self._guard = transport, guard
        self.pause_reading = guard.pause_reading  # type: ignore[method-assign]
        self.resume_reading = guard.resume_reading  # type: ignore[method-assign]
        self.write = guard.write  # type: ignore[method-assign, assignment]
        self.close = guard.shut  # type: ignore[method-assign]

    def get_extra_info(self, name: str, default: Any = None) -> Any:
        """Return what the real transport says."""
        return self._transport.get_extra_info(name, default)

    def get_write_buffer_size(self) -> int:
        """Return how many bytes wait for the client."""
        return self._transport.get_write_buffer_size()

    def is_closing(self) -> bool:
        """Return whether nothing more may be written."""
        return self._guard.is_ending or self._transport.is_closing()

    def abort(self) -> None:
        """Close the connection at once."""
        self._transport.abort()
