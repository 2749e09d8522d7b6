"""Waiting for time to pass, in threads and in asyncio; a client that is closed meanwhile waits no longer."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ._errors import Usage

if TYPE_CHECKING:
    from ._connection import AsyncConnection, Connection


def paused(connection: Connection, seconds: float) -> None:
    """Wait so long; Usage where the client is closed before."""
    if connection.closing.wait(seconds):
        raise Usage("this client is closed", remedy="a new one")


async def async_paused(connection: AsyncConnection, seconds: float) -> None:
    """The same for a client of asyncio."""
    import asyncio  # noqa: PLC0415  whoever has a loop has it already

    if not connection.closed:
        await asyncio.sleep(seconds)
    if connection.closed:
        raise Usage("this client is closed", remedy="a new one")
