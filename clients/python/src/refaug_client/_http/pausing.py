"""Pauses that end early when the client is closed, in threads and in asyncio."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from refaug_client._core.errors import Usage

if TYPE_CHECKING:
    import threading


class Closeable(Protocol):
    """A connection for threads, as far as it is needed here."""

    @property
    def closing(self) -> threading.Event:
        """Set once the client is closed."""
        ...


class AsyncCloseable(Protocol):
    """A connection for asyncio, as far as it is needed here."""

    @property
    def closed(self) -> bool:
        """Whether the client is closed."""
        ...


def pause(connection: Closeable, seconds: float) -> None:
    """Wait; Usage where the client is closed meanwhile."""
    if connection.closing.wait(seconds):
        raise Usage("this client is closed", remedy="a new one")


async def async_pause(connection: AsyncCloseable, seconds: float) -> None:
    """Wait, in asyncio; Usage where the client is closed meanwhile."""
    import asyncio  # noqa: PLC0415  imported already where a loop runs

    if not connection.closed:
        await asyncio.sleep(seconds)
    if connection.closed:
        raise Usage("this client is closed", remedy="a new one")
