"""The service in process: an app over a small home, with a client that waits until it is ready."""

from __future__ import annotations

import asyncio
import random
import threading
import time
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import uvicorn
from engines import TEXTS, home_with_versions
from fastapi import FastAPI, Request
from new_tables import add_tables
from starlette.testclient import TestClient
from starlette.types import ASGIApp, Message, Receive

from refaug.core.home import Settings
from refaug.service.database.database import Database
from refaug.service.server_settings import ServeSettings
from refaug.service.serving.batches.batcher import Batcher
from refaug.service.web import problems
from refaug.service.web.app import create_app
from refaug.service.web.connection.admission import Gate
from refaug.service.web.dependencies import while_connected
from refaug.service.web.state import ServiceState

READY_WITHIN_S = 120.0  # a machine that compiles with all its cores taken


def small_home(folder: Path, *, indexes: int = 1, raters: int = 1) -> Settings:
    """A home with an index `chat`, a rater `base` and an empty database, in a folder of the given one."""
    home = home_with_versions(folder, indexes=indexes, raters=raters)
    migrated(home)
    return home


def migrated(home: Settings) -> Settings:
    """The same home with the tables of its database."""
    database = Database.open(home)
    add_tables(database)
    database.close()
    return home


def small_items(count: int = 6, *, systems: tuple[str, ...] = ("a", "b"), seed: int = 1) -> list[dict[str, Any]]:
    """Items that the small home's index has something for, each with a gold and replies that differ."""
    drawn = random.Random(seed)
    return [
        {
            "id": f"d{number}",
            "utterance": drawn.choice(TEXTS),
            "references": [drawn.choice(TEXTS)],
            "replies": {system: drawn.choice(TEXTS) for system in systems},
        }
        for number in range(count)
    ]


@contextmanager
def client_of(
    home: Settings, *, root_path: str = "", ready: bool = True, headers: dict[str, str] | None = None, **settings: Any
) -> Iterator[TestClient]:
    """A client of an app over this home; the settings are those of `ServeSettings`."""
    app = create_app(home, ServeSettings(**{"allowed_hosts": "testserver", **settings}))
    with TestClient(app, root_path=root_path, headers=headers or {}) as client:
        if ready:
            wait_until_ready(client)
        yield client


def wait_until_ready(client: TestClient) -> None:
    """Ask until the service says so; what it lacks is in the failure."""
    wait_until(lambda: client.get("/readyz").status_code == 200, lambda: client.get("/readyz").text)


def wait_until(true: Callable[[], bool], said: Callable[[], str] = lambda: "it never came") -> None:
    """Look again and again; a failure where it is still not so after a long while."""
    until = time.monotonic() + READY_WITHIN_S
    while not true():
        assert time.monotonic() < until, said()
        time.sleep(0.01)


@contextmanager
def listening(server: uvicorn.Server) -> Iterator[int]:
    """The port of a real server in a thread of this process."""
    thread = threading.Thread(target=server.run)
    thread.start()
    try:
        wait_until(lambda: server.started or not thread.is_alive())
        yield server.servers[0].sockets[0].getsockname()[1]
    finally:
        server.should_exit = True
        thread.join()


def bare_app(home: Settings, **settings: Any) -> FastAPI:
    """The gate and the errors around routes that a test adds, with none of the parts of a service."""
    app = FastAPI()
    app.state.refaug = ServiceState(home=home, serve=ServeSettings(**{"allowed_hosts": "testserver", **settings}))
    problems.install(app)
    app.add_middleware(Gate, state=app.state.refaug)
    return app


@dataclass
class Answered:
    """What an app has sent for a request that was played to it by hand."""

    status: int = 0
    headers: dict[str, str] = field(default_factory=dict)
    body: bytes = b""


def request_of(hung_up: asyncio.Event) -> Request:
    """A request whose body has been read; its client hangs up at the event."""

    async def receive() -> dict[str, Any]:
        await hung_up.wait()
        return {"type": "http.disconnect"}

    return Request({"type": "http", "headers": []}, receive)


@dataclass(frozen=True)
class LeftInLine:
    """What became of a request whose client left while it waited behind long work."""

    places: int  # of the queue, that it took
    short: str  # what a short request got meanwhile
    error: type[BaseException]
    waiting: int  # places that are still taken


async def left_in_line(batcher: Batcher, answer: Callable[[Request], Awaitable[object]]) -> LeftInLine:
    """A request behind long work that goes on until its client has left."""
    begun, go_on, hung_up, far = threading.Event(), threading.Event(), asyncio.Event(), time.monotonic() + 600

    def long_work() -> bool:
        begun.set()
        return go_on.wait(READY_WITHIN_S)

    running = asyncio.create_task(batcher.run(long_work, items=1, deadline=far, is_long=True))
    await asyncio.to_thread(begun.wait, READY_WITHIN_S)
    request = request_of(hung_up)
    asked = asyncio.create_task(while_connected(request, answer(request)))
    while not (batcher.waiting() or asked.done()):
        await asyncio.sleep(0)
    places, short = batcher.waiting(), await batcher.run(lambda: "short", items=1, deadline=far)
    hung_up.set()
    [error] = await asyncio.gather(asked, return_exceptions=True)
    waiting = batcher.waiting()
    go_on.set()
    assert await running
    return LeftInLine(places, short, type(error), waiting)


async def played(
    app: ASGIApp,
    path: str,
    receive: Receive,
    *,
    method: str = "POST",
    headers: tuple[tuple[bytes, bytes], ...] = ((b"content-type", b"application/json"),),
) -> Answered:
    """A request whose body comes, or does not come, as `receive` has it."""
    answered = Answered()

    async def send(message: Message) -> None:
        if message["type"] == "http.response.start":
            answered.status = message["status"]
            answered.headers = {name.decode().lower(): value.decode() for name, value in message["headers"]}
        else:
            answered.body += message.get("body", b"")

    scope = {
        "type": "http",
        "asgi": {"version": "3.0"},
        "http_version": "1.1",
        "method": method,
        "scheme": "http",
        "path": path,
        "raw_path": path.encode(),
        "query_string": b"",
        "root_path": "",
        "headers": list(headers),
        "client": ("127.0.0.1", 1),
        "server": ("127.0.0.1", 80),
        "app": app,
    }
    await app(scope, receive, send)
    return answered
