"""Both kinds of client behind one face, so that one test is a test of both."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import AsyncIterator, Iterator
from typing import Any

from refaug_client import AsyncClient, Client
from refaug_client._api.methods import Resource

KINDS = ("threads", "asyncio")


class Blocking:
    """An asyncio client, or a part of one, whose every await is waited for here."""

    def __init__(self, inner: Any, loop: asyncio.AbstractEventLoop) -> None:
        self._inner, self._loop = inner, loop

    def __getattr__(self, name: str) -> Any:
        found = getattr(self._inner, name)
        if isinstance(found, Resource):
            return Blocking(found, self._loop)
        return self._waited_for(found) if callable(found) else found

    def _waited_for(self, method: Any) -> Any:
        def call(*given: Any, **named: Any) -> Any:
            found = method(*given, **named)
            if inspect.isawaitable(found):
                return self._loop.run_until_complete(found)
            if isinstance(found, Resource):
                return Blocking(found, self._loop)
            return self._each(found) if isinstance(found, AsyncIterator) else found

        return call

    def _each(self, found: AsyncIterator[Any]) -> Iterator[Any]:
        while True:
            try:
                yield self._loop.run_until_complete(found.__anext__())
            except StopAsyncIteration:
                return


class Opened:
    """Clients of one kind, all closed at the end."""

    def __init__(self, kind: str) -> None:
        self.kind = kind
        self._loop = asyncio.new_event_loop() if kind == "asyncio" else None
        self._made: list[Any] = []

    def __call__(self, *given: Any, **named: Any) -> Any:
        """A client."""
        made = Client(*given, **named) if self._loop is None else Blocking(AsyncClient(*given, **named), self._loop)
        self._made.append(made)
        return made

    def close(self) -> None:
        for one in self._made:
            one.close()
        if self._loop is not None:
            self._loop.run_until_complete(self._loop.shutdown_asyncgens())
            self._loop.close()
